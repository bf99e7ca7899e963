"""Topic trees as published: a looser bound that never falls."""

import numpy as np
from benchmarks.reference.published_tree import MeanFieldStep, published_tree
from numpy.testing import assert_allclose

from everlearn.engine.opening import open_engine
from everlearn.trees.local import expected_table
from everlearn.trees.model import TreeRules, TreeTopics
from everlearn.trees.variational import begin, visit
from trees.small_trees import ALL_SLOTS, ALPHA, planted, settings_of


def test_its_bound_is_looser_than_with_a_posterior_for_each_path() -> None:
    documents, topics, rules = planted()
    bounds = []
    for step in (ALL_SLOTS, MeanFieldStep(99, 8)):
        with open_engine("serial") as engine:
            paths, q = expected_table(topics, rules), step.start(documents, topics.tree)
            step.run(documents, paths, q, engine, choose=True)
        bounds.append(q.bounds)
    assert (bounds[0] >= bounds[1] - 1e-6).all()
    assert bounds[0].sum() > bounds[1].sum()


def test_statistics_are_those_of_all_documents() -> None:
    documents, topics, rules = planted()
    paths, step = expected_table(topics, rules), MeanFieldStep(99, 8)
    q = step.start(documents, topics.tree)
    with open_engine("serial") as engine:
        step.run(documents, paths, q, engine, choose=True)
    stats = step.gathered(documents, paths, q)
    assert_allclose(stats.slots.sum(), len(documents), rtol=1e-9)
    assert 0.9 * documents.n_tokens < stats.counts.sum() <= documents.n_tokens * (1 + 1e-9)


def test_the_bound_never_falls() -> None:
    documents, topics, rules = planted()
    for learn_levels in (True, False):
        rules = TreeRules(3, rules.paths, rules.word_prior, 100, learn_levels)
        size = -(-len(documents) // 4)
        batches = [documents[i : i + size] for i in range(0, len(documents), size)]
        step, bounds = MeanFieldStep(99, 8), []
        state = begin(topics, batches, step)
        with open_engine("serial") as engine:
            for lap in range(12):
                for which in range(len(batches)):
                    state = visit(state, which, rules, step, engine, choose=lap == 0)
                    bounds.append(state.bound(rules))
        bounds = np.array(bounds)[np.isfinite(bounds)]
        assert len(bounds) == 45
        assert (np.diff(bounds) >= -1e-9 * np.abs(bounds[1:])).all()
        assert bounds[-1] > bounds[0] + 1.0


def test_a_tree_holds_all_documents() -> None:
    documents, _, rules = planted()
    settings = settings_of(
        rules, step=MeanFieldStep(), n_sweeps=0, n_passes=8, merge=False, min_mass=0.5
    )
    start = TreeTopics.empty(int(documents.words.max()) + 1, ALPHA)
    with open_engine("serial") as engine:
        tree = published_tree(start, documents, settings, engine, 0)
    assert len(tree.tree) > 1
    assert_allclose(tree.mass[0], len(documents), rtol=1e-9)
    assert (tree.mass > 0.0).all()
