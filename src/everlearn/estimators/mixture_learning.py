"""How `DPMixture` puts the parts together: parameters and rows in, a learned state out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from everlearn.core.params import parse_bytes
from everlearn.estimators.collections import OpenRows
from everlearn.estimators.history import History
from everlearn.estimators.mixture_model import model_of
from everlearn.estimators.mixture_workshop import (
    most_workers,
    schedule_of,
    workshop,
)
from everlearn.estimators.pooling import MAX_POOLED_ROWS, pooled
from everlearn.inference.chunks import ChunkedRows
from everlearn.inference.engine import Engine
from everlearn.inference.learners import asynchronous, fitting, stochastic, streaming
from everlearn.inference.rows import Rows
from everlearn.inference.state import State
from everlearn.runtime.engine import open_engine

_POOLED_BYTES = 8_000_000
LEARNERS = {"memoized": fitting, "stochastic": stochastic, "asynchronous": asynchronous}


@dataclass(frozen=True, slots=True)
class Learned:
    """What a mixture knows.

    Attributes
    ----------
    state : the learner's state
    history : how it got there
    n_rows : rows seen
    prior_rows : rows that prior and origin were chosen from
    settled : whether `fit` stopped by itself
    learner : what it was learned by
    """

    state: State
    history: History
    n_rows: int
    prior_rows: int
    settled: bool
    learner: str


def learn(params: Any, rows: Rows, seed: int) -> Learned:
    """Learn from rows that can be visited again, and let go of them at the end."""
    n_rows = len(rows)
    if n_rows <= MAX_POOLED_ROWS and rows.nbytes <= _pooled_bytes(params):
        rows = pooled(rows)
    with open_engine(params.engine, most_workers(params)) as engine:
        return _fitted(params, rows, seed, engine, n_rows)


def learn_elsewhere(params: Any, given: OpenRows, seed: int) -> Learned:
    """Learn from rows that an engine holds."""
    return _fitted(params, given.rows, seed, given.engine, len(given.rows))


def _fitted(
    params: Any, rows: Rows | ChunkedRows, seed: int, engine: Engine, n_rows: int
) -> Learned:
    learner: Any = LEARNERS[params.learner]
    model = model_of(params, rows, seed, engine)
    with workshop(params, model, rows, params.max_laps, engine) as tools:
        schedule = schedule_of(params, rows, tools.limits)
        result = learner.fit(model, rows, seed, tools.runner, tools.moves, schedule, tools.on_lap)
        state = streaming.seal_all(result.state, tools.runner)
    history = History()
    for info in result.laps:
        history = history.after(info)
    return checked(params, Learned(state, history, n_rows, n_rows, result.settled, params.learner))


def _pooled_bytes(params: Any) -> int:
    """Bytes of rows that may be copied and put in order."""
    if params.memory_budget is None:
        return _POOLED_BYTES
    return min(_POOLED_BYTES, parse_bytes(params.memory_budget) // 24)


def checked(params: Any, learned: Learned) -> Learned:
    """What was learned, unless numbers grew out of range on the way."""
    bound = learned.state.bound()
    if not np.isfinite(bound):
        raise ValueError(
            f"DPMixture cannot learn from X: with this prior the bound is {bound}, "
            f"out of the range of dtype={params.dtype!r}. Scale X or the prior."
        )
    return learned
