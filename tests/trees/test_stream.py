"""Learning from a stream: no document is lost, whether it can still move or not."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.engine.opening import open_engine
from everlearn.testing.data import planted_tree
from everlearn.trees.model import TreeRules, TreeTopics
from everlearn.trees.stream import LEVELS_FROM, Reservoir, TreeState, learn_batch, stream_word_prior
from trees.small_trees import ALPHA, settings_of

COUNTS = planted_tree(2, n_documents=240, n_tokens=30).counts


@pytest.mark.parametrize("size", [0, 25, 1000])
def test_counts_hold_all_documents(size: int) -> None:
    settings = settings_of(
        TreeRules(3, NestedPrior(1.0), 0.5, 100), reservoir=size, stream_sweeps=2
    )
    topics = TreeTopics.empty(COUNTS.shape[1], ALPHA)
    state = TreeState(topics, 0.1, Reservoir.empty(), np.empty((0, 3)), 7)
    with open_engine("serial") as engine:
        for done in range(40, 241, 40):
            batch = Documents.from_dense(COUNTS[done - 40 : done])
            state = learn_batch(state, batch, settings, engine)
            assert state.n_documents == done
            assert state.n_tokens == COUNTS[:done].sum()
            assert len(state.reservoir.documents) == min(size, done)
            assert len(state.past) == done - len(state.reservoir.documents)
            assert_allclose(state.topics.slots.sum(), done)
            # A document outside the reservoir may expect some tokens on levels that its path
            # has left the tree on.
            assert_allclose(state.topics.counts.sum(), state.n_tokens, rtol=0.02)
            assert (state.topics.alpha == ALPHA).all() == (done < LEVELS_FROM)


def test_the_reservoir_is_a_sample_of_all_documents() -> None:
    """Those with the largest random numbers stay, so each document is as likely as any other."""
    settings = settings_of(reservoir=60, stream_sweeps=1, merge=False)
    topics = TreeTopics.empty(COUNTS.shape[1], ALPHA)
    state = TreeState(topics, 0.1, Reservoir.empty(), np.empty((0, 3)), 7)
    ranks = []
    with open_engine("serial") as engine:
        for start in range(0, 240, 60):
            batch = Documents.from_dense(COUNTS[start : start + 60])
            state = learn_batch(state, batch, settings, engine)
            ranks.append(state.reservoir.ranks)
    assert [r.min() for r in ranks] == sorted(r.min() for r in ranks)
    assert ranks[-1].min() > 0.6  # three quarters of the uniform numbers are below
    old = np.isin(ranks[-1], ranks[0]).sum()
    assert 5 <= old <= 25  # 15 of the first 60 are expected


def test_the_word_prior_grows_with_tokens() -> None:
    assert stream_word_prior(0.5, 0, 100) == 0.1
    assert stream_word_prior(0.5, 2000, 100) == 0.25
    assert stream_word_prior(0.5, 10**6, 100) == 0.5
    assert stream_word_prior(0.02, 0, 100) == 0.02
