"""Moves of topic trees: gains as judged are differences of joints, nothing is lost."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.documents import Documents
from everlearn.core.priors.nested import NestedPrior
from everlearn.testing.data import planted_tree
from everlearn.trees.model import TreeRules, TreeTopics, log_joint
from everlearn.trees.moves import (
    gaining_mergers,
    join_siblings,
    likely_pairs,
    merge_all,
    merged,
)
from everlearn.trees.sampler import TreeSampler

RULES = TreeRules(3, NestedPrior(1.0), 0.5, 200, learn_levels=False)


def sampled(seed: int, sweeps: int = 3, n: int = 80) -> TreeSampler:
    truth = planted_tree(seed, n_documents=n, n_tokens=30)
    start = TreeTopics.empty(truth.counts.shape[1], np.array([10.0, 5.0, 5.0]))
    sampler = TreeSampler(start, RULES)
    sampler.add(Documents.from_dense(truth.counts), seed, 0)
    for i in range(sweeps):
        sampler.sweep(seed, i + 1)
    return sampler


@pytest.mark.parametrize("seed", range(3))
def test_gain_of_a_merger_is_the_difference_of_joints(seed: int) -> None:
    sampler = sampled(seed, sweeps=1)
    found, levels = sampler.topics(), sampler.level_counts
    before, judged = log_joint(found, levels, RULES), 0
    for level in (1, 2):
        for merger in gaining_mergers(found, RULES, level):
            after = merged(found, [merger])
            assert_allclose(log_joint(after, levels, RULES) - before, merger.gain, atol=1e-7)
            judged += 1
    assert judged > 0


def test_mergers_together_gain_what_they_say() -> None:
    sampler = sampled(1)
    found, levels = sampler.topics(), sampler.level_counts
    after, done = merge_all(found, RULES)
    gain = log_joint(after, levels, RULES) - log_joint(found, levels, RULES)
    assert_allclose(gain, sum(m.gain for m in done), atol=1e-6)
    assert_allclose(after.counts.sum(axis=1), found.counts.sum(axis=1))
    assert after.slots.sum() == found.slots.sum()
    assert {m.gone for m in done}.isdisjoint(after.tree.ids.tolist())
    assert not [m for level in (1, 2) for m in gaining_mergers(after, RULES, level)]


def test_documents_follow_a_merger() -> None:
    sampler = sampled(2)
    found, done = merge_all(sampler.topics(), RULES)
    sampler.replace_tree(found, {m.gone: m.kept for m in done})
    assert_array_equal(sampler.topics().counts, found.counts)
    slots = np.bincount(found.tree.at(sampler.leaves), minlength=len(found.tree))
    assert_array_equal(slots, found.slots)
    sampler.sweep(0, 99)
    assert sampler.topics().counts.sum() == found.counts.sum()


def test_gain_of_joins_is_the_difference_of_joints() -> None:
    sampler = sampled(0, sweeps=8, n=150)
    before = log_joint(sampler.topics(), sampler.level_counts, RULES)
    joined, done = join_siblings(sampler, RULES, 0, 0)
    assert done
    after = log_joint(joined.topics(), joined.level_counts, RULES)
    assert_allclose(after - before, sum(m.gain for m in done), atol=1e-6)
    assert log_joint(sampler.topics(), sampler.level_counts, RULES) == before  # a copy was tried


def test_pairs_are_siblings() -> None:
    found = sampled(0).topics()
    pairs = likely_pairs(found, 2)
    parents = found.tree.parents[found.tree.at(np.array(pairs).ravel())].reshape(-1, 2)
    assert_array_equal(parents[:, 0], parents[:, 1])
