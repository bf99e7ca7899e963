"""The tools of a call of `DPMixture`: limits of memory, the local step, moves and progress."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.moves import LapInfo
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.progress import LapProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.errors import MemoryBudgetError
from everlearn.estimator.params import parse_bytes
from everlearn.mixture import memoized as fitting
from everlearn.mixture.births import MOST_ROWS, BirthSettings
from everlearn.mixture.budget import MOST_WORKERS, MemoryLimits, least_budget, limits_within
from everlearn.mixture.local import LocalRunner, MixtureStep
from everlearn.mixture.memoized import MoveSettings
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State

ROWS_PER_START = 10
"""With `init_components="many"`, there is a component for so many rows at the start."""
_BATCH_ROWS = 1000
_MOST_BATCHES = 10
_BLOCK_BYTES = 2_000_000
_DELETES = 5
_TARGETS, _FEW_TARGETS = 25, 5
_MARGIN = {"float64": 1e-9, "float32": 1e-6}


@dataclass(frozen=True, slots=True)
class Workshop:
    """The tools of one call."""

    runner: LocalRunner
    moves: MoveSettings
    limits: MemoryLimits
    on_lap: Callable[[LapInfo], None]


@contextmanager
def workshop(
    params: Any,
    model: Mixture,
    rows: Rows | ChunkedRows,
    max_laps: int | None,
    engine: Engine,
    record: Callable[[LapInfo], None] | None = None,
) -> Iterator[Workshop]:
    """Runner and moves for the time of one call; laps are shown and recorded.

    A stream (no `max_laps`) has few rows at first, of which components that need many
    statistics would be told too early, and linger: there, parts must have more rows.
    """
    window_rows = params.birth_window if max_laps is None else MOST_ROWS
    limits = memory_limits(params, model, row_bytes(rows), window_rows)
    births = BirthSettings(
        n_targets=_TARGETS if params.memory_budget is None else _FEW_TARGETS,
        n_rows=limits.window_rows,
        min_rows=1.0 if max_laps is not None else math.sqrt(model.family.n_stats),
        max_components=limits.max_components,
    )
    moves = MoveSettings(
        kinds=frozenset(params.moves),
        births=births,
        max_deletes=limits.max_deletes,
        margin=_MARGIN[params.dtype],
    )
    with LapProgress(params.verbose, max_laps) as progress:

        def on_lap(info: LapInfo) -> None:
            progress.show(info.bound, info.n_components)
            if record is not None:
                record(info)

        runner = LocalRunner(mixture_step(params, model), engine, limits.block_bytes)
        yield Workshop(runner, moves, limits, on_lap)


def mixture_step(params: Any, model: Mixture) -> MixtureStep:
    """The local step in the precision asked for."""
    dtype = np.float32 if params.dtype == "float32" else np.float64
    return MixtureStep(model.family, dtype)


def schedule_of(params: Any, rows: Rows | ChunkedRows, limits: MemoryLimits) -> fitting.Schedule:
    """How laps over these rows go."""
    tenth = -(-len(rows) // _MOST_BATCHES)
    batch_rows = params.batch_size or max(limits.batch_rows, tenth)
    if params.memory_budget is not None:
        batch_rows = max(batch_rows, -(-len(rows) // 4))
    many = max(1, len(rows) // ROWS_PER_START)
    wanted = many if params.init_components == "many" else params.init_components
    start = min(wanted, limits.max_components, len(rows))
    schedule = fitting.Schedule(batch_rows, params.max_laps, params.tol, start, params.n_init)
    if params.memory_budget is None:
        return schedule
    return replace(schedule, sample_rows=min(schedule.sample_rows, limits.window_rows))


def memory_limits(params: Any, model: Mixture, row_bytes: int, window_rows: int) -> MemoryLimits:
    """Limits set by the parameters and, if there is one, by the memory budget."""
    if params.memory_budget is None:
        return MemoryLimits(
            max_components=params.max_components,
            window_rows=window_rows,
            batch_rows=min(params.batch_size or _BATCH_ROWS, window_rows),
            block_bytes=_BLOCK_BYTES,
            max_deletes=_DELETES,
        )
    budget = parse_bytes(params.memory_budget)
    wanted = window_rows, params.max_components
    limits = limits_within(budget, _most_stats(model), row_bytes, *wanted)
    batch_rows = min(params.batch_size or limits.batch_rows, limits.window_rows)
    return replace(
        limits,
        batch_rows=max(batch_rows, limits.batch_rows),
        block_bytes=min(limits.block_bytes, _BLOCK_BYTES),
    )


def held_bytes(state: State) -> tuple[int, int, int]:
    """Bytes of the statistics, of the losses of pairs, and of the open rows with their labels."""
    statistics = state.total.nbytes + state.sealed.stats.nbytes
    statistics += sum(b.stats.nbytes for b in state.batches)
    statistics += sum(m.part.stats.nbytes + m.part.pair_loss.nbytes for m in state.memos.values())
    open_rows = sum(b.rows.nbytes + b.labels.nbytes for b in state.batches)
    return statistics, state.sealed.pair_loss.nbytes, open_rows


def check_budget(params: Any, state: State) -> None:
    """Refuse a budget, lowered after learning began, that what is there would not fit into."""
    if params.memory_budget is None:
        return
    budget, k = parse_bytes(params.memory_budget), len(state.total)
    need = max(least_budget(_most_stats(state.model), 0, 0, k), sum(held_bytes(state)))
    if budget < need:
        raise MemoryBudgetError(
            f"the 'memory_budget' of DPMixture must hold the {k} components and "
            f"{state.n_open:,} open rows that are there: that takes {need:,} bytes, "
            f"got {budget:,}. Give more, or fit anew."
        )


def _most_stats(model: Mixture) -> int:
    """Statistics of a component, counting those that the first missing value would add."""
    family = model.family
    return 3 * family.n_features if isinstance(family, DiagGaussian) else family.n_stats


def most_workers(params: Any) -> int | None:
    """Blocks that may be at work at a time, in this process."""
    return None if params.memory_budget is None else MOST_WORKERS


def row_bytes(rows: Rows | ChunkedRows) -> int:
    """Mean size of a row."""
    return max(1, rows.nbytes // len(rows))
