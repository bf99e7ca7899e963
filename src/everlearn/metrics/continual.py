"""How much a model learns, and how much it forgets, when tasks come one after the other.

All measures come from one table: R[i, j] is the score of task j after the model has learned task
i. Tasks are in the order of learning. Scores are such that higher is better, for example the mean
log-likelihood of held-out rows. Measures have the unit of the score.
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
        """The score of rows. Higher is better."""


@dataclass(frozen=True, slots=True)
class ContinualSummary:
    """Measures of learning and forgetting, in the unit of the score. N is the number of tasks.

    Higher is better, except for `forgetting` and `regret`.

    Attributes
    ----------
    final : mean score of all tasks at the end: mean of R[N-1, j] over all j
    worst : lowest score of a task at the end
    current : mean score of a task right after it was learned, R[j, j] (plasticity)
    consolidation : mean of `seen_so_far`: score of the tasks learned so far, over the stream
    forgetting : mean loss of the tasks but the last, from the best score since a task was learned
        to its score at the end; 0 or more, lower is better
    interference : mean gain R[N-1, j] - R[j, j] of the tasks but the last through the tasks after
        them (backward transfer); negative if these do harm
    forward : mean gain R[j-1, j] - initial[j] of the tasks but the first through the tasks before
        them (forward transfer); None without scores from before learning
    regret : mean of how far `seen_so_far` is below the oracle's; lower is better, and negative if
        the oracle is beaten; None without an oracle
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
    """Mean score of the tasks learned so far, after each task, (n_tasks,). Higher is better.

    Entry i is the mean of R[i, 0], ..., R[i, i].

    Examples
    --------
    >>> seen_so_far([[5.0, 1.0], [3.0, 6.0]])
    array([5. , 4.5])
    """
    table = _table("scores", scores)
    return np.array([table[i, : i + 1].mean() for i in range(len(table))])


def lost_since_best(scores: ArrayLike) -> Vec:
    """How much each task has lost at the end, (n_tasks,). Lower is better, and 0 is no loss.

    Entry j is the largest of R[j, j], ..., R[N-1, j], minus R[N-1, j].

    Examples
    --------
    >>> lost_since_best([[5.0, 1.0], [3.0, 6.0]])
    array([2., 0.])
    """
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
        See there for each measure and which values are better.

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
    """Scores of a model on every task, each time that it has learned one.

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
        """Score a model before its first task. The measure `forward` needs this.

        Parameters
        ----------
        model : model with `score`, or None, default=None
            None scores a Gaussian with one mean and one variance for all numbers of all held-out
            rows. Use it for models whose score is a mean log-likelihood: most of them have no
            score before their first rows.
        """
        try:
            self._initial = self._scored(_GaussianBaseline(self._tasks) if model is None else model)
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
        """Scores before the first task. None if `begin` was not called."""
        if self._initial is None:
            return None
        return np.array([self._initial[task] for task in self._order])

    def summary(self, oracle: ArrayLike | None = None) -> ContinualSummary:
        """Measures for the tasks learned so far, see `continual_summary`."""
        return continual_summary(self.scores, initial=self.initial, oracle=oracle)

    def _scored(self, model: Scorer) -> dict[Hashable, float]:
        return {task: float(model.score(rows)) for task, rows in self._tasks.items()}


class _GaussianBaseline:
    """A Gaussian for each column, with the mean and variance of all numbers of all tasks."""

    def __init__(self, tasks: Mapping[Hashable, Any]) -> None:
        numbers = np.concatenate([np.asarray(rows, np.float64).ravel() for rows in tasks.values()])
        self.mean, self.variance = float(np.nanmean(numbers)), float(np.nanvar(numbers))
        if not self.variance > 0.0:
            raise ValueError("'tasks' must have numbers that differ for begin() without a model")

    def score(self, X: Any) -> float:
        """Mean log density of rows. NaN is missing."""
        away = (np.asarray(X, np.float64) - self.mean) ** 2 / self.variance
        logs = -0.5 * (LOG_2PI + np.log(self.variance) + away)
        return float(np.nansum(logs, axis=-1).mean())


def _table(name: str, scores: ArrayLike, n: int | None = None) -> Mat:
    """The scores as finite numbers of shape (n, n). A ValueError if they are something else."""
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
