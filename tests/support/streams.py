"""Small streams for the tests of estimators, and the files that models make."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import sparse

FAMILIES = ("diagonal", "full", "zero-mean", "multinomial")
WIDTH = 3


def rows_of(
    family: str, n: int, rng: np.random.Generator, width: int = WIDTH
) -> NDArray[np.float64]:
    """Rows that suit a family and fall into a few clusters."""
    which = rng.integers(3, size=n)
    if family == "multinomial":
        shares = np.full((3, width), 0.1)
        shares[np.arange(3), np.arange(3) % width] = 1.0
        rates = shares[which] / shares[which].sum(axis=1, keepdims=True)
        return rng.poisson(12.0 * rates).astype(float)
    noise = rng.normal(size=(n, width))
    if family == "zero-mean":
        return noise * np.array([0.1, 1.0, 20.0])[which, None]
    return noise + np.array([-9.0, 0.0, 9.0])[which, None]


def batches_of(
    family: str, sizes: list[int], seed: int = 0, width: int = WIDTH
) -> list[NDArray[np.float64]]:
    """A stream of batches."""
    rng = np.random.default_rng(seed)
    return [rows_of(family, n, rng, width) for n in sizes]


def file_of(model: Any) -> bytes:
    """The bytes that `save` writes, without waiting for the disk."""
    with TemporaryDirectory() as folder, mock.patch("os.fsync"):
        path = Path(folder, "model.evl")
        model.save(path)
        return path.read_bytes()


class Lesson(NamedTuple):
    """One call of a learning method."""

    method: str
    X: Any
    sample_weight: Any = None

    def give(self, model: Any) -> None:
        getattr(model, self.method)(self.X, sample_weight=self.sample_weight)


def lessons_of(name: str) -> tuple[dict[str, Any], list[Lesson]]:
    """Parameters and lessons of a named course, which is "family/variant"."""
    family, variant = name.split("/")
    params: dict[str, Any] = {"family": family, "random_state": 5, "engine": "serial"}
    params |= {"birth_window": 120, "batch_size": 30}
    # The first ones are still settling, the window fills up, and then rows are sealed.
    rows = batches_of(family, [3, 20, 60, 45, 1, 80, 50], seed=3)
    weights = [np.random.default_rng(i).uniform(0, 3, len(x)) for i, x in enumerate(rows)]
    lessons = [Lesson("partial_fit", x) for x in rows]
    if variant == "weights":
        lessons = [
            Lesson("partial_fit", x, w if i % 3 else None)
            for i, (x, w) in enumerate(zip(rows, weights, strict=True))
        ]
    elif variant == "fit":
        lessons[2] = Lesson("fit", np.concatenate(rows[:3]), np.concatenate(weights[:3]))
    elif variant == "csr":
        lessons = [Lesson("partial_fit", sparse.csr_array(x)) for x in rows]
    elif variant == "missing":
        for x in rows[3:]:  # the first NaN comes late
            x[::4, 1] = np.nan
    elif variant == "frame":
        names = ["width", "height", "größe"]
        lessons = [Lesson("partial_fit", pd.DataFrame(x, columns=names)) for x in rows]
    elif variant == "prior":
        params["prior"] = PRIORS[family]
    elif variant == "generator":
        params["random_state"] = np.random.RandomState(8)
    else:
        params |= VARIANTS[variant]
    return params, lessons


PRIORS: dict[str, dict[str, Any]] = {
    "diagonal": {"mean": 1, "rate": np.array([0.5, 1.0, 2.0]), "shape": np.float32(2.5)},
    "full": {"scale": np.diag([1.0, 2.0, 3.0]), "mean_precision": 0.1},
    "zero-mean": {"degrees_of_freedom": 7, "scale": 2.0},
    "multinomial": {"counts": [0.5, 0.25, 0.125]},
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "unseeded": {"random_state": None},
    "stochastic": {"learner": "stochastic"},
    "float32": {"dtype": "float32"},
    "few": {"max_components": 2, "moves": {"birth", "merge"}},
    "budget": {"memory_budget": "1MB", "verbose": False},
}
_EVERY = ("plain", "weights", "fit", "prior", "generator", "unseeded", "stochastic", "float32")
COURSES = {family: [f"{family}/{v}" for v in (*_EVERY, "few", "budget")] for family in FAMILIES}
COURSES["diagonal"] += ["diagonal/missing", "diagonal/frame"]
COURSES["multinomial"] += ["multinomial/csr"]
