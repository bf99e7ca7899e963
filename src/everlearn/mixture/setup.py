"""Prepare a call of `DPMixture`: limits of memory, the local step, moves and schedule."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

import numpy as np

from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.product import Product
from everlearn.core.moves import LapInfo
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.progress import LapProgress
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.errors import MemoryBudgetError
from everlearn.mixture.births import MAX_TARGET_ROWS, BirthSettings
from everlearn.mixture.budget import OPEN_BATCHES, MemoryLimits, least_budget, limits_within
from everlearn.mixture.learner import SAMPLE_ROWS, LearningTools, Schedule, Window
from everlearn.mixture.local import LocalRunner, MixtureStep
from everlearn.mixture.memoized import MoveSettings
from everlearn.mixture.model import Mixture
from everlearn.mixture.settings import MixtureSettings
from everlearn.mixture.state import State
from everlearn.mixture.table_family import most_stats

_BATCH_ROWS: Final = 1000
_MAX_BATCHES: Final = 10
_MAX_BUDGET_BATCHES: Final = 4
_BLOCK_BYTES: Final = 2_000_000
_STREAM_LAPS: Final = 10
"""Most passes over the first rows of a stream."""
_DELETES: Final = 2
_BIRTH_TARGETS, _BUDGET_BIRTH_TARGETS = 25, 5
_MARGINS: Final = {"float64": 1e-9, "float32": 1e-6}


@contextmanager
def open_tools(
    settings: MixtureSettings,
    model: Mixture,
    rows: Rows | ChunkedRows,
    engine: Engine,
    *,
    on_lap: Callable[[LapInfo], None] = lambda info: None,
    stream: bool = False,
) -> Iterator[LearningTools]:
    """Tools for one call, which learns these rows. They show each lap and pass it to `on_lap`."""
    row_bytes = mean_row_bytes(rows)
    window_rows = settings.birth_window if stream else MAX_TARGET_ROWS
    limits = memory_limits(settings, model, row_bytes, window_rows)
    max_laps = None if stream else settings.max_laps
    with LapProgress(settings.verbose, max_laps) as progress:

        def show_lap(info: LapInfo) -> None:
            progress.show(info.bound, info.n_components)
            on_lap(info)

        yield LearningTools(
            LocalRunner(mixture_step(settings, model), engine, limits.block_bytes),
            _moves(settings, model, limits, stream=stream),
            _schedule(settings, len(rows), limits, stream=stream),
            Window(limits.window_rows, limits.batch_rows),
            show_lap,
        )


def mixture_step(settings: MixtureSettings, model: Mixture) -> MixtureStep:
    """The local step in the precision of the settings."""
    return MixtureStep(model.family, np.float32 if settings.dtype == "float32" else np.float64)


def _moves(
    settings: MixtureSettings, model: Mixture, limits: MemoryLimits, *, stream: bool
) -> MoveSettings:
    has_budget = settings.memory_budget is not None
    births = BirthSettings(
        n_targets=_BUDGET_BIRTH_TARGETS if has_budget else _BIRTH_TARGETS,
        n_rows=limits.window_rows,
        # The first rows of a stream are few. Components with many statistics would be born too
        # early from them, and stay.
        min_rows=math.sqrt(model.family.n_stats) if stream else 1.0,
        max_components=limits.max_components,
    )
    return MoveSettings(
        kinds=settings.moves,
        births=births,
        max_deletes=limits.max_deletes,
        margin=_MARGINS[settings.dtype],
    )


def _schedule(
    settings: MixtureSettings, n_rows: int, limits: MemoryLimits, *, stream: bool
) -> Schedule:
    batch_rows = settings.batch_size or max(limits.batch_rows, -(-n_rows // _MAX_BATCHES))
    sample_rows = SAMPLE_ROWS
    if settings.memory_budget is not None:
        # Each batch has statistics of its own.
        batch_rows = max(batch_rows, -(-n_rows // _MAX_BUDGET_BATCHES))
        sample_rows = min(sample_rows, limits.window_rows)
    max_laps = min(settings.max_laps, _STREAM_LAPS) if stream else settings.max_laps
    return Schedule(batch_rows, max_laps, settings.tol, sample_rows)


def memory_limits(
    settings: MixtureSettings, model: Mixture, row_bytes: int, window_rows: int
) -> MemoryLimits:
    """Limits that the parameters set and, if there is one, the memory budget."""
    if settings.memory_budget is None:
        return MemoryLimits(
            max_components=settings.max_components,
            window_rows=window_rows,
            batch_rows=min(settings.batch_size or _BATCH_ROWS, max(1, window_rows // OPEN_BATCHES)),
            block_bytes=_BLOCK_BYTES,
            max_deletes=_DELETES,
        )
    limits = limits_within(
        settings.memory_budget, _most_stats(model), row_bytes, window_rows, settings.max_components
    )
    return replace(limits, block_bytes=min(limits.block_bytes, _BLOCK_BYTES))


def held_bytes(state: State) -> tuple[int, int, int]:
    """Bytes of the statistics, of the losses of pairs, and of the open rows with their labels."""
    statistics = state.total.nbytes + state.sealed.stats.nbytes
    statistics += sum(b.stats.nbytes for b in state.batches)
    statistics += 0 if state.reference is None else state.reference.nbytes
    statistics += sum(
        p.sealed.stats.nbytes + p.sealed.pair_loss.nbytes for p in state.named_parts.values()
    )
    open_rows = sum(part.nbytes for b in state.batches for part in b.in_process())
    return statistics, state.sealed.pair_loss.nbytes, open_rows


def check_budget(settings: MixtureSettings, state: State) -> None:
    """Refuse a budget that was lowered below what the model needs already."""
    budget, k = settings.memory_budget, len(state.total)
    if budget is None:
        return
    need = max(least_budget(_most_stats(state.model), 0, 0, k), sum(held_bytes(state)))
    if budget < need:
        raise MemoryBudgetError(
            f"the 'memory_budget' of {settings.owner} must be at least {need:,} bytes, got "
            f"{budget:,}: the model has {k} components and {state.n_open:,} open rows already. "
            "Increase it, or call fit."
        )


def _most_stats(model: Mixture) -> int:
    """Statistics of a component, with those that missing or new values would add."""
    family = model.family
    if isinstance(family, Product):
        return most_stats(family)
    return 3 * family.n_features if isinstance(family, DiagGaussian) else family.n_stats


def mean_row_bytes(rows: Rows | ChunkedRows) -> int:
    """Mean size of a row."""
    return max(1, rows.nbytes // len(rows))
