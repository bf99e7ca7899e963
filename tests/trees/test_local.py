"""Statistics of documents under a tree, and the tables that they are compared with."""

import numpy as np
from numpy.testing import assert_allclose

from everlearn.engine.opening import open_engine
from everlearn.trees.local import expected_table, mean_table
from trees.small_trees import ALL_SLOTS, RULES, planted, random_topics


def test_statistics_are_those_of_all_documents() -> None:
    documents, topics, rules = planted()
    paths = expected_table(topics, rules)
    q = ALL_SLOTS.start(documents, topics.tree)
    with open_engine("serial") as engine:
        ALL_SLOTS.run(documents, paths, q, engine, choose=True)
    stats = ALL_SLOTS.gathered(documents, paths, q)
    assert_allclose(stats.slots.sum(), len(documents), rtol=1e-9)
    assert stats.counts.sum() <= documents.n_tokens * (1 + 1e-9)
    assert stats.counts.sum() > 0.9 * documents.n_tokens


def test_predictions_use_probabilities() -> None:
    topics = random_topics(3)
    paths = mean_table(topics, 0.5, RULES.paths)
    assert_allclose(paths.table.sum(axis=0), 1.0)
    assert_allclose(np.exp(paths.log_weights).sum(), 1.0)
    assert paths.unseen == 1 / 7
