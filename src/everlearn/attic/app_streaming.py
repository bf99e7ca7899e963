"""A stream that is learned once, stopped half way, and resumed from a file."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.estimator.history import Point
from everlearn.estimator.saving import load
from everlearn.mixture.estimator import DPMixture

OnBatch = Callable[[Point], None]


@dataclass(frozen=True, slots=True)
class StreamRun:
    """A finished stream.

    Attributes
    ----------
    model : the mixture that was stopped, loaded and continued
    trace : rows, components and bound after each batch
    stopped_at : rows seen when it was saved
    checkpoint_bytes : size of the file
    identical : whether it equals, bit for bit, a mixture that was never stopped
    seconds : time spent learning
    """

    model: DPMixture
    trace: tuple[Point, ...]
    stopped_at: int
    checkpoint_bytes: int
    identical: bool
    seconds: float


def learn_stream(model: DPMixture, rows: Mat, batch: int, on_batch: OnBatch) -> StreamRun:
    """Learn the rows in one pass, through a checkpoint half way."""
    batches = [rows[i : i + batch] for i in range(0, len(rows), batch)]
    half = (len(batches) + 1) // 2
    trace: list[Point] = []

    start = perf_counter()
    _feed(model, batches[:half], trace, on_batch)
    stopped_at = model.n_samples_seen_
    resumed, checkpoint_bytes = _saved_and_loaded(model)
    _feed(resumed, batches[half:], trace, on_batch)
    seconds = perf_counter() - start

    for piece in batches[half:]:
        model.partial_fit(piece)
    same = identical(model, resumed)
    return StreamRun(resumed, tuple(trace), stopped_at, checkpoint_bytes, same, seconds)


def identical(one: DPMixture, other: DPMixture) -> bool:
    """Whether two mixtures would write the same checkpoint: state, history and parameters."""
    (header, arrays), (other_header, other_arrays) = one.to_checkpoint(), other.to_checkpoint()
    return (
        header == other_header
        and arrays.keys() == other_arrays.keys()
        and all(_same_bits(arrays[name], other_arrays[name]) for name in arrays)
    )


def _feed(model: DPMixture, batches: list[Mat], trace: list[Point], on_batch: OnBatch) -> None:
    for piece in batches:
        model.partial_fit(piece)
        lap = model.history_.points[-1].lap if model.history_.points else 0
        point = Point(lap, model.n_samples_seen_, model.bound_, model.n_components_)
        trace.append(point)
        on_batch(point)


def _saved_and_loaded(model: DPMixture) -> tuple[DPMixture, int]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "half-way.evl"
        model.save(path)
        loaded: DPMixture = load(path)
        return loaded, path.stat().st_size


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
