"""Variational passes: the bound never falls, engines agree, pruning loses no document."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.engine.opening import open_engine
from everlearn.trees.local import PathStep
from everlearn.trees.model import TreeRules
from everlearn.trees.variational import begin, pruned, refine, visit
from trees.small_trees import ALL_SLOTS, planted, quiet, random_topics, settings_of


@pytest.mark.parametrize("learn_levels", [True, False])
@pytest.mark.parametrize("n_batches", [1, 4])
def test_bound_never_falls(learn_levels: bool, n_batches: int) -> None:
    documents, topics, rules = planted()
    rules = TreeRules(3, rules.paths, rules.word_prior, 100, learn_levels)
    size = -(-len(documents) // n_batches)
    batches = [documents[i : i + size] for i in range(0, len(documents), size)]
    state, bounds = begin(topics, batches, ALL_SLOTS), []
    with open_engine("serial") as engine:
        for lap in range(12):
            for which in range(n_batches):
                state = visit(state, which, rules, ALL_SLOTS, engine, choose=lap == 0)
                bounds.append(state.bound(rules))
    bounds = np.array(bounds)[np.isfinite(bounds)]
    assert len(bounds) == 12 * n_batches - n_batches + 1
    assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
    assert bounds[-1] > bounds[0] + 1.0


def test_engines_agree_to_the_bit() -> None:
    documents, topics, rules = planted(n=150)
    results = []
    for name in ("serial", "threads"):
        with open_engine(name) as engine:
            settings = settings_of(rules, n_passes=5)
            results.append(refine(topics, documents, settings, engine, quiet))
    assert results[0][1] == results[1][1]
    assert_array_equal(results[0][0].topics.counts, results[1][0].topics.counts)


def test_few_candidates_lose_little() -> None:
    documents, topics, rules = planted(n=200)
    bounds = []
    for most in (3, 99):
        with open_engine("serial") as engine:
            settings = settings_of(rules, step=PathStep(most), min_mass=0.0)
            bounds.append(refine(topics, documents, settings, engine, quiet)[1][-1])
    assert bounds[1] == pytest.approx(bounds[0], abs=0.1 * len(documents))


def test_pruned_branches_leave_their_documents_to_their_parents() -> None:
    topics = random_topics(2)
    small = pruned(topics, float(np.median(topics.mass)))
    assert 0 < len(small.tree) < len(topics.tree)
    assert_allclose(small.slots.sum(), topics.slots.sum())
    assert pruned(topics, 0.0) is topics


def test_last_nodes_without_words_leave_their_documents_to_their_parents() -> None:
    topics = random_topics(2)
    last = np.flatnonzero(topics.tree.levels == 2)
    topics.counts[:, last[0]] = 0.01
    small = pruned(replace(topics, slots=topics.slots + 1.0), 0.5)
    assert_array_equal(
        np.setdiff1d(topics.tree.ids, small.tree.ids), topics.tree.ids[last[:1]]
    )  # fmt: skip
    parent = topics.tree.parents[last[0]]
    at = small.tree.at([topics.tree.ids[parent]])[0]
    assert_allclose(small.slots[at], topics.slots[[parent, last[0]]].sum() + 2.0)
