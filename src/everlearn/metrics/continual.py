"""How much a model learns and forgets that learns one task after the other.

All measures come from one table: R[i, j] is the score of task j after the model has learned task
i. Tasks are in the order of learning. Higher scores are better, for example the mean
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
    """A model with a score."""

    def score(self, X: Any) -> float:
        """Higher is better."""


@dataclass(frozen=True, slots=True)
class ContinualSummary:
    """Measures of learning and forgetting, in units of the score.

    Attributes
    ----------
    final : mean score of all tasks at the end
    worst : score of the worst task at the end
    current : mean score of each task right after it was learned (plasticity)
    consolidation : mean score of the tasks learned so far, averaged over the stream
    forgetting : mean loss of each task but the last, from its best score to the end; 0 or more
    interference : mean gain of each task but the last from the tasks after it, negative if they
        harm it (backward transfer)
    forward : mean gain of each task but the first from the tasks before it (forward transfer);
        None without scores from before learning
    regret : how far the scores of tasks learned so far are below the oracle's, averaged over the
        stream; None without an oracle
    interference_beyond_oracle : interference minus that of the oracle; None without an oracle. A
        model of fixed size must give up detail of a task when others come, so even the oracle's
        interference is negative
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
    """Mean score of the tasks learned so far, after each task, (n_tasks,)."""
    table = _table("scores", scores)
    return np.array([table[i, : i + 1].mean() for i in range(len(table))])


def lost_since_best(scores: ArrayLike) -> Vec:
    """Loss of each task from its best score since it was learned to the end, (n_tasks,)."""
    table = _table("scores", scores)
    return np.array([table[j:, j].max() - table[-1, j] for j in range(len(table))])


def continual_summary(
    scores: ArrayLike, *, initial: ArrayLike | None = None, oracle: ArrayLike | None = None
) -> ContinualSummary:
    """Measures of learning and forgetting from a table of scores.

    Parameters
    ----------
    scores : array-like of shape (n_tasks, n_tasks)
        R[i, j], the score of task j after task i.
    initial : array-like of shape (n_tasks,), default=None
        Scores before the first task.
    oracle : array-like of shape (n_tasks, n_tasks), default=None
        Scores of a model fitted to all rows of tasks 0, ..., i at once.

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
    """Score a model on every task each time that it has learned one.

    Parameters
    ----------
    tasks : mapping from names to held-out rows
        The rows that each task is scored on.

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

    Scores from before learning give forward transfer:

    >>> model.at = 10.0
    >>> learning.begin(model)
    >>> learning.summary().forward
    61.75
    """

    def __init__(self, tasks: Mapping[Hashable, Any]) -> None:
        if not tasks:
            raise ValueError("'tasks' must hold rows of one or more tasks. Got none.")
        self._tasks = dict(tasks)
        self._order: list[Hashable] = []
        self._rows: list[dict[Hashable, float]] = []
        self._initial: dict[Hashable, float] | None = None

    def begin(self, model: Scorer | None = None) -> None:
        """Score a model before its first task, which `forward` needs.

        Parameters
        ----------
        model : model with `score`, or None, default=None
            None scores a Gaussian with one mean and one variance for all numbers of all held-out
            rows. Use it for models whose score is a mean log-likelihood: most of them have no
            score before their first rows.
        """
        try:
            self._initial = self._scored(_Units(self._tasks) if model is None else model)
        except NotFittedError as error:
            raise NotFittedError(
                f"'model' must have a score before it has learned, which {type(model).__name__} "
                "has not. Call begin() without a model: it scores a Gaussian instead."
            ) from error

    def update(self, model: Scorer, task: Hashable) -> None:
        """Score the model, which has just learned this task."""
        if task not in self._tasks or task in self._order:
            left = [name for name in self._tasks if name not in self._order]
            raise ValueError(f"'task' must be one that was not learned yet, {left}. Got {task!r}.")
        row = self._scored(model)
        self._order.append(task)
        self._rows.append(row)

    @property
    def order(self) -> list[Hashable]:
        """Tasks learned so far, in order."""
        return list(self._order)

    @property
    def scores(self) -> Mat:
        """R[i, j], the score of the j-th task after the i-th, of tasks learned so far."""
        return np.array([[row[task] for task in self._order] for row in self._rows])

    @property
    def initial(self) -> Vec | None:
        """Scores before the first task; None if `begin` was not called."""
        if self._initial is None:
            return None
        return np.array([self._initial[task] for task in self._order])

    def summary(self, oracle: ArrayLike | None = None) -> ContinualSummary:
        """Measures for the tasks learned so far, see `continual_summary`."""
        return continual_summary(self.scores, initial=self.initial, oracle=oracle)

    def _scored(self, model: Scorer) -> dict[Hashable, float]:
        return {task: float(model.score(rows)) for task, rows in self._tasks.items()}


class _Units:
    """Independent Gaussians with the mean and variance of all numbers in the rows of all tasks."""

    def __init__(self, tasks: Mapping[Hashable, Any]) -> None:
        numbers = np.concatenate([np.asarray(rows, np.float64).ravel() for rows in tasks.values()])
        self.mean, self.variance = float(np.nanmean(numbers)), float(np.nanvar(numbers))
        if not self.variance > 0.0:
            raise ValueError("'tasks' must have numbers that differ for begin() without a model")

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
            f"'{name}' must be finite numbers of shape ({size}, {size}), one row after each task. "
            f"Got shape {table.shape}."
        )
    return table


def _interference(table: Mat) -> float:
    return float(np.mean([table[-1, j] - table[j, j] for j in range(len(table) - 1)] or [0.0]))
