"""How a tree of a corpus is sampled."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.core.documents import Documents
from everlearn.testing.data import planted_tree
from everlearn.trees.fit import sample_tree
from everlearn.trees.model import TreeTopics
from everlearn.trees.sampler import TreeSampler
from trees.small_trees import ALPHA, RULES, quiet, settings_of


@pytest.mark.parametrize(("word_prior", "first"), [(0.5, 0.1), (0.05, 0.05)])
def test_the_prior_of_words_grows_before_levels_are_learned(
    word_prior: float, first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[float, bool]] = []
    plain = TreeSampler.sweep

    def spy(self: TreeSampler, seed: int, clock: int) -> None:
        seen.append((self.word_prior, np.array_equal(self.alpha, ALPHA)))
        plain(self, seed, clock)

    monkeypatch.setattr(TreeSampler, "sweep", spy)
    documents = Documents.from_dense(planted_tree(0, n_documents=60).counts)
    rules = replace(RULES, word_prior=word_prior)
    start = TreeTopics.empty(documents.words.max() + 1, ALPHA)
    sample_tree(start, documents, settings_of(rules, n_sweeps=20), 0, quiet)
    priors = [prior for prior, _ in seen]
    assert priors[0] == first
    assert priors == sorted(priors)
    assert_allclose(priors[9:], word_prior)
    assert_allclose(priors[4], max(word_prior / 2, first))
    assert [same for _, same in seen] == [True] * 10 + [False] * 10
