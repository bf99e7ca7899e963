"""How a model fares that learns one task after the other: what it keeps, gains and forgets.

All measures come from one table: R[i, j] is the score of task j after task i has been learned, with
tasks in the order in which they were learned. A score is better if it is higher, such as a mean
log-likelihood of held-out rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import NotFittedError

from everlearn.core.arrays import Mat, Vec
from everlearn.core.math import LOG_2PI


class Scorer(Protocol):
    """A model that can be asked how good it is."""

    def score(self, X: Any) -> float:
        """Higher is better."""


@dataclass(frozen=True, slots=True)
class ContinualSummary:
    """What a table of scores says, in units of the score.

    Attributes
    ----------
    final : mean over tasks at the end
    worst : of the worst task at the end
    current : mean over tasks of the score when each had just been learned (plasticity)
    consolidation : mean over the stream of the mean over tasks learned until then
    forgetting : how much lower than at its best each task but the last ends, on average; not
        negative
    interference : how much each task but the last gained by what came after it, on average (also
        called backward transfer)
    forward : how much each task but the first had gained before it was learned, on average (also
        called forward transfer); None without scores from before learning
    regret : how much lower than the oracle's the scores of tasks learned until then are, on average
        over the stream; None without an oracle
    interference_beyond_oracle : interference less that of the oracle. A model of fixed size must
        give up what is special to a task as others come, so even the oracle's is negative, and a
        positive one alone says only that tasks were not learned when they could be; None without an
        oracle
    """

    final: float
    worst: float
    current: float
    consolidation: float
    forgetting: float
    interference: float
    forward: float | None = None
    regret: float | None = None
    interference_beyond_oracle: float | None = None


def seen_so_far(scores: ArrayLike) -> Vec:
    """After each task, the mean score of the tasks learned until then, from R[i, j]."""
    table = _table("scores", scores)
    return np.array([table[i, : i + 1].mean() for i in range(len(table))])


def lost_since_best(scores: ArrayLike) -> Vec:
    """How much lower than at its best, once it was learned, each task ends, from R[i, j]."""
    table = _table("scores", scores)
    return np.array([table[j:, j].max() - table[-1, j] for j in range(len(table))])


def continual_summary(
    scores: ArrayLike, *, initial: ArrayLike | None = None, oracle: ArrayLike | None = None
) -> ContinualSummary:
    """Measures of learning and forgetting.

    Parameters
    ----------
    scores : array-like of shape (n_tasks, n_tasks)
        R[i, j], the score of task j after task i.
    initial : array-like of shape (n_tasks,), default=None
        Scores before anything was learned.
    oracle : array-like of shape (n_tasks, n_tasks), default=None
        Scores of a model that was fitted to all rows of tasks 0, ..., i at once.

    Returns
    -------
    ContinualSummary

    Examples
    --------
    >>> summary = continual_summary([[5.0, 1.0], [3.0, 6.0]], initial=[0.0, 0.0])
    >>> summary.final, summary.forgetting, summary.interference, summary.forward
    (4.5, 2.0, -2.0, 1.0)
    """
    table = _table("scores", scores)
    n = len(table)
    forward = regret = beyond = None
    if initial is not None:
        before = np.asarray(initial, np.float64)
        if before.shape != (n,) or not np.isfinite(before).all():
            raise ValueError(f"'initial' must be {n} finite numbers, got {initial!r:.80}")
        forward = float(np.mean([table[j - 1, j] - before[j] for j in range(1, n)] or [0.0]))
    if oracle is not None:
        best = _table("oracle", oracle, n)
        regret = float(np.mean(seen_so_far(best) - seen_so_far(table)))
        beyond = _interference(table) - _interference(best)
    return ContinualSummary(
        final=float(table[-1].mean()),
        worst=float(table[-1].min()),
        current=float(np.diagonal(table).mean()),
        consolidation=float(seen_so_far(table).mean()),
        forgetting=float(lost_since_best(table)[:-1].mean()) if n > 1 else 0.0,
        interference=_interference(table),
        forward=forward,
        regret=regret,
        interference_beyond_oracle=beyond,
    )


class ContinualEvaluator:
    """Scores a model on every task whenever it has learned one.

    Parameters
    ----------
    tasks : mapping from names to held-out rows
        What each task is judged by.

    Examples
    --------
    >>> class Mean:
    ...     def score(self, X):
    ...         return -float(np.square(np.array(X) - self.at).mean())
    >>> model, learning = Mean(), ContinualEvaluator({"low": [0.0], "high": [2.0]})
    >>> for model.at, task in ((0.5, "low"), (1.5, "high")):
    ...     learning.update(model, task)
    >>> learning.scores
    array([[-0.25, -2.25],
           [-2.25, -0.25]])

    Scores from before learning, of any model that has them, tell forward transfer:

    >>> model.at = 10.0
    >>> learning.begin(model)
    >>> learning.summary().forward
    61.75
    """

    def __init__(self, tasks: Mapping[Hashable, Any]) -> None:
        if not tasks:
            raise ValueError("'tasks' must hold rows of at least one task, got none")
        self._tasks = dict(tasks)
        self._order: list[Hashable] = []
        self._rows: list[dict[Hashable, float]] = []
        self._initial: dict[Hashable, float] | None = None

    def begin(self, model: Scorer | None = None) -> None:
        """Score a model that has learned no task yet, for `forward`.

        Parameters
        ----------
        model : Scorer or None, default=None
            None scores by a Gaussian that knows the units of the rows alone: one mean and one
            variance for all numbers of all held-out rows. It is there for models with a mean
            log-likelihood for a score, most of which have none before their first rows.
        """
        try:
            self._initial = self._scored(_Units(self._tasks) if model is None else model)
        except NotFittedError as error:
            raise NotFittedError(
                f"'model' must have a score before it has learned, got {type(model).__name__}, "
                "which has none; begin() without a model compares with one that knows the units of "
                "the rows alone"
            ) from error

    def update(self, model: Scorer, task: Hashable) -> None:
        """Score a model that has just learned this task."""
        if task not in self._tasks or task in self._order:
            left = [name for name in self._tasks if name not in self._order]
            raise ValueError(f"'task' must be one that was not learned yet, {left}, got {task!r}")
        row = self._scored(model)
        self._order.append(task)
        self._rows.append(row)

    @property
    def order(self) -> list[Hashable]:
        """Tasks learned so far, in their order."""
        return list(self._order)

    @property
    def scores(self) -> Mat:
        """R[i, j], the score of the j-th task after the i-th, of tasks learned so far."""
        return np.array([[row[task] for task in self._order] for row in self._rows])

    @property
    def initial(self) -> Vec | None:
        """Scores before anything was learned, if they were taken."""
        if self._initial is None:
            return None
        return np.array([self._initial[task] for task in self._order])

    def summary(self, oracle: ArrayLike | None = None) -> ContinualSummary:
        """Measures of the tasks learned so far; see `continual_summary`."""
        return continual_summary(self.scores, initial=self.initial, oracle=oracle)

    def _scored(self, model: Scorer) -> dict[Hashable, float]:
        return {task: float(model.score(rows)) for task, rows in self._tasks.items()}


class _Units:
    """Independent Gaussians with the mean and variance of all numbers in the rows of all tasks."""

    def __init__(self, tasks: Mapping[Hashable, Any]) -> None:
        numbers = np.concatenate([np.asarray(rows, np.float64).ravel() for rows in tasks.values()])
        self.mean, self.variance = float(np.nanmean(numbers)), float(np.nanvar(numbers))
        if not self.variance > 0.0:
            raise ValueError("'tasks' must have rows that vary to begin without a model")

    def score(self, X: Any) -> float:
        """Mean log density of rows; NaN is missing."""
        away = (np.asarray(X, np.float64) - self.mean) ** 2 / self.variance
        logs = -0.5 * (LOG_2PI + np.log(self.variance) + away)
        return float(np.nansum(logs, axis=-1).mean())


def _table(name: str, scores: ArrayLike, n: int | None = None) -> Mat:
    """Finite numbers of shape (n, n)."""
    table = np.asarray(scores, np.float64)
    square = table.ndim == 2 and table.shape[0] == table.shape[1] > 0
    if not square or n not in (None, len(table)) or not np.isfinite(table).all():
        size = "n_tasks" if n is None else n
        raise ValueError(
            f"'{name}' must be finite numbers of shape ({size}, {size}), a row after each task, "
            f"got the shape {table.shape}"
        )
    return table


def _interference(table: Mat) -> float:
    return float(np.mean([table[-1, j] - table[j, j] for j in range(len(table) - 1)] or [0.0]))
