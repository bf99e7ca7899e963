"""Checkpoint schema of an `OnlinePPCA`: what a file must contain."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from everlearn.errors import CheckpointError
from everlearn.estimator.schemas import LARGEST_ENTRY
from everlearn.ppca.fit import PPCAFit
from everlearn.ppca.inputs import LARGEST_TASK
from everlearn.ppca.model import PPCA, SMALLEST_NOISE
from everlearn.ppca.moments import Moments
from everlearn.ppca.settings import PPCAForm
from everlearn.ppca.state import PPCAState, Typical
from everlearn.ppca.stats import LatentStats, m_step
from everlearn.store.schema import Array, Converted, Many, Optional, Record, Scalar, expect

_CLOSE: Final = 1e-6
"""Relative error by which saved sums may differ from what they must be."""
_MOST_ROWS: Final = 2**53
_LARGEST_MASS: Final = 1e250
_LARGEST_SQUARE: Final = 1e210


def _near(*shape: str) -> Array:
    """Entries of a size that rows can have."""
    return Array(*shape, low=-LARGEST_ENTRY, high=LARGEST_ENTRY)


def _moments(columns: str) -> Record:
    """Schema of `Moments` whose factor has `columns` columns."""
    return Record(
        Moments,
        {
            "mass": Scalar(float, 0.0, _LARGEST_MASS),
            "mean": _near("features"),
            "factor": _near("features", columns),
            "noise": Scalar(float, 0.0, _LARGEST_SQUARE),
            "present": Optional(Array("features", low=0.0, high=1.0)),
        },
    )


def _check_stats(stats: LatentStats, place: str) -> None:
    n, zz = stats.n, stats.zz
    expect(abs(n.sum() - 1.0) <= _CLOSE, f"{place}/n", "shares that sum to 1")
    size = _CLOSE * np.abs(zz).max(axis=(1, 2))
    symmetric = (np.abs(zz - zz.transpose(0, 2, 1)) <= size[:, None, None]).all()
    definite = symmetric and (np.linalg.eigvalsh(zz)[:, 0] >= -size).all()
    expect(definite, f"{place}/zz", "second moments")
    for k in np.flatnonzero(n > _CLOSE).tolist():
        try:
            model = m_step(stats, k, np.zeros(stats.x.shape[1]))
        except np.linalg.LinAlgError as error:
            raise CheckpointError(f"{f'{place}/zz'!r} must be second moments") from error
        sound = np.isfinite(model.noise) and (np.abs(model.loadings) <= LARGEST_ENTRY).all()
        expect(sound, f"{place}/yz", "what an M-step can be made from")


def _of_squares(*shape: str, low: float = -_LARGEST_SQUARE) -> Array:
    return Array(*shape, low=low, high=_LARGEST_SQUARE)


_STATS = Record(
    LatentStats,
    {
        "n": Array("models", low=0.0, high=2.0),
        "yy": _of_squares("models", low=0.0),
        "yz": _of_squares("models", "features", "components"),
        "zz": _of_squares("models", "components", "components"),
        "x": _of_squares("models", "features"),
        "z": _of_squares("models", "components"),
    },
    check=_check_stats,
)


class _SavedTask(NamedTuple):
    """The name of a task as a file can hold it: a text or a number, or neither."""

    text: str | None
    number: int | None

    @classmethod
    def of(cls, task: int | str | None) -> _SavedTask:
        return cls(task, None) if isinstance(task, str) else cls(None, task)

    def task(self) -> int | str | None:
        return self.number if self.text is None else self.text


def _check_task(task: _SavedTask, place: str) -> None:
    expect(None in task, f"{place}/number", "null beside a text")


_TASK = Converted(
    Record(
        _SavedTask,
        {
            "text": Optional(Scalar(str)),
            "number": Optional(Scalar(int, -LARGEST_TASK, LARGEST_TASK)),
        },
        check=_check_task,
    ),
    save=_SavedTask.of,
    restore=_SavedTask.task,
)


def _check_state(state: PPCAState, place: str) -> None:
    k, shares = len(state.models), state.weights
    expect(len(state.origin), f"{place}/origin", "an entry for each feature")
    expect(len(shares) == k > 0, f"{place}/models", "one or more, with a weight each")
    expect(abs(shares.sum() - 1.0) <= _CLOSE, f"{place}/weights", "shares that sum to 1")
    most = state.mass * (1.0 + _CLOSE)
    expect(state.new_mass <= most, f"{place}/new_mass", "at most 'mass'")
    expect(len(state.reference) in (0, k), f"{place}/reference", f"of {k} components, or empty")
    expect(len(state.window) in (0, 1, k), f"{place}/window", f"of {k} components, or empty")


_MODEL = Record(
    PPCA,
    {
        "mean": _near("features"),
        "loadings": _near("features", "components"),
        "noise": Scalar(float, SMALLEST_NOISE, _LARGEST_SQUARE),
    },
)
_STATE = Record(
    PPCAState,
    {
        "models": Many(_MODEL),
        "weights": Array("models", low=0.0, high=2.0),
        "origin": _near("features"),
        "reference": Many(_moments("reference columns"), own_sizes=["reference columns"]),
        "window": Many(_moments("window columns"), own_sizes=["window columns"]),
        "stats": Optional(_STATS),
        "odd": Optional(_moments("odd columns")),
        "typical": Record(
            Typical,
            {
                "mass": Scalar(float, 0.0, _LARGEST_MASS),
                "mean": Scalar(float),
                "variance": Scalar(float, 0.0),
            },
        ),
        "clock": Scalar(int, 1, _MOST_ROWS),
        "n_rows": Scalar(int, 1, _MOST_ROWS),
        "mass": Scalar(float, 1e-300, _LARGEST_MASS),
        "new_mass": Scalar(float, 0.0, 2.0 * _LARGEST_MASS),
        "task": _TASK,
        "seed": Scalar(int, 0, 2**64),
    },
    check=_check_state,
)
_FORM = Record(
    PPCAForm,
    {
        "n_components": Scalar(int, 1, 2**31),
        "constraint": Optional(Scalar(str, choices=("step", "task", "previous"))),
        "is_mixture": Scalar(bool),
    },
)


def _check_fit(fit: PPCAFit, place: str) -> None:
    """Refuse parts that no state of this form has."""
    state, form, place = fit.state, fit.form, f"{place}/state"
    q = state.models[0].rank
    expect(form.n_components == q, f"{place}/models", f"of {form.n_components} components each")
    expect(form.is_mixture or len(state.models) == 1, f"{place}/models", "a single one")
    reference, constraint = f"{place}/reference", form.constraint
    expect(constraint or not state.reference, reference, "empty without a constraint")
    expect(constraint != "step" or state.reference, reference, "not empty if constraint='step'")
    moment = constraint is not None
    other = "empty with 'stats', which take its place"
    expect(moment or bool(state.window) != (state.stats is not None), f"{place}/window", other)
    expect(not (moment and state.stats), f"{place}/stats", "null with a constraint")
    if moment:
        whole = len(state.window) in (0, len(state.models))
        expect(whole, f"{place}/window", "of all components, or empty")
        parts = (*state.reference, *state.window)
        expect(any(part.mass > 0.0 for part in parts), f"{place}/reference/0/mass", "positive")


PPCA_FIT: Final = Record(
    PPCAFit,
    {
        "state": _STATE,
        "form": _FORM,
        "likelihoods": Converted(
            Array("iterations"), save=np.array, restore=lambda a: tuple(a.tolist())
        ),
    },
    check=_check_fit,
)
"""Of a `PPCAFit`."""
