"""Measures of forgetting against what one computes by hand."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.exceptions import NotFittedError

from everlearn import OnlinePPCA
from everlearn.metrics.continual import ContinualEvaluator, continual_summary

TABLE = [[9.0, 1.0, 0.0], [10.0, 8.0, 2.0], [4.0, 6.0, 7.0]]
ORACLE = [[9.0, 0.0, 0.0], [8.0, 9.0, 0.0], [7.0, 8.0, 8.0]]


def test_every_measure_is_what_its_definition_gives():
    found = continual_summary(TABLE, initial=[-1.0, -1.0, -2.0], oracle=ORACLE)
    assert found.final == pytest.approx((4 + 6 + 7) / 3)
    assert found.worst == 4
    assert found.current == pytest.approx((9 + 8 + 7) / 3)
    assert found.consolidation == pytest.approx((9 + 9 + 17 / 3) / 3)
    assert found.forgetting == pytest.approx(((10 - 4) + (8 - 6)) / 2)
    assert found.interference == pytest.approx(((4 - 9) + (6 - 8)) / 2)
    assert found.forward == pytest.approx(((1 + 1) + (2 + 2)) / 2)
    assert found.regret == pytest.approx((0 - 0.5 + (23 - 17) / 3) / 3)
    assert found.interference_beyond_oracle == pytest.approx(-3.5 - (-2 - 1) / 2)


def test_forgetting_is_never_negative_and_one_task_forgets_nothing():
    rng = np.random.default_rng(0)
    for n in range(1, 6):
        assert continual_summary(rng.normal(size=(n, n))).forgetting >= 0
    assert continual_summary([[3.0]]).interference == 0


def test_what_was_not_given_is_not_made_up():
    found = continual_summary(TABLE)
    assert found.forward is None
    assert found.regret is None
    assert found.interference_beyond_oracle is None


@pytest.mark.parametrize(
    ("scores", "more"),
    [
        ([[1.0, 2.0]], {}),
        ([], {}),
        ([[np.nan]], {}),
        ([[1.0]], {"oracle": TABLE}),
        ([[1.0]], {"initial": [1.0, 2.0]}),
        ([[1.0]], {"initial": [np.inf]}),
    ],
)
def test_other_tables_are_refused_by_name(scores, more):
    with pytest.raises(ValueError, match=f"'{next(iter(more), 'scores')}' must be"):
        continual_summary(scores, **more)


class Level:
    def score(self, X):
        return 0.0


class Place:
    def __init__(self, at):
        self.at = at

    def score(self, X):
        return -abs(self.at - X)


def test_the_evaluator_orders_tasks_as_they_were_learned():
    learning = ContinualEvaluator({"a": 1.0, "b": 2.0, "c": 5.0})
    learning.begin(Place(0.0))
    for at, task in ((5.0, "c"), (1.0, "a")):
        learning.update(Place(at), task)
    assert learning.order == ["c", "a"]
    assert learning.scores.tolist() == [[0.0, -4.0], [-4.0, 0.0]]
    assert learning.initial.tolist() == [-5.0, -1.0]
    assert learning.summary().forward == -4.0 + 1.0


def test_a_gaussian_that_knows_units_alone_is_what_models_begin_with():
    rng = np.random.default_rng(0)
    tasks = {"a": rng.normal(3.0, 2.0, (40, 3)), "b": rng.normal(-1.0, 0.5, (60, 3))}
    tasks["b"][::7, 1] = np.nan
    every = np.concatenate([rows.ravel() for rows in tasks.values()])
    every = every[~np.isnan(every)]
    density = norm(every.mean(), every.std())
    for scale in (1.0, 16.0):
        learning = ContinualEvaluator({name: scale * rows for name, rows in tasks.items()})
        learning.begin()
        for name in tasks:
            learning.update(Level(), name)
        present = {name: ~np.isnan(rows) for name, rows in tasks.items()}
        expected = [
            np.sum(density.logpdf(rows[present[name]]) - np.log(scale)) / len(rows)
            for name, rows in tasks.items()
        ]
        assert learning.initial == pytest.approx(expected)
        assert learning.summary().forward == pytest.approx(-expected[1])


def test_models_without_a_score_get_an_error_with_advice():
    learning = ContinualEvaluator({"a": np.ones((3, 4))})
    with pytest.raises(NotFittedError, match=r"OnlinePPCA.*without a model"):
        learning.begin(OnlinePPCA())
    with pytest.raises(ValueError, match="'tasks' must have numbers that differ"):
        learning.begin()
    assert learning.initial is None


@pytest.mark.parametrize("task", ["a", "z"])
def test_tasks_learned_twice_or_unknown_are_refused(task):
    learning = ContinualEvaluator({"a": 1.0, "b": 2.0})
    learning.update(Place(1.0), "a")
    with pytest.raises(ValueError, match="'task' must be one"):
        learning.update(Place(1.0), task)
    assert learning.scores.shape == (1, 1)
    with pytest.raises(ValueError, match="'tasks'"):
        ContinualEvaluator({})
