"""Build the component family and its prior from the parameters and the first rows.

Named priors, by family:

- ``"auto"`` (all): begins as "data"; the spread of Gaussians is then learned, see
  `mixture/priors.py`;
- ``"data"`` (all): scaled to the rows, so that units do not matter; for tables see
  `mixture/table_family.py`;
- ``"par-ingmm"`` (diagonal): the Par-InGMM paper's, for features of unit scale;
- ``"wishart"`` (diagonal, full, zero-mean): D + 2 pseudo-observations of unit variance;
- ``"shared"`` (diagonal): nearly the same spread for all components, see `mixture/priors.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import Mat, Table, Vec
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.multinomial import DirichletPrior, Multinomial
from everlearn.core.stats import total
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows

FAMILIES = ("diagonal", "full", "zero-mean", "multinomial", "table")
PRIOR_NAMES = {
    "diagonal": ("auto", "data", "par-ingmm", "shared", "wishart"),
    "full": ("auto", "data", "wishart"),
    "zero-mean": ("auto", "data", "wishart"),
    "multinomial": ("auto", "data"),
    "table": ("auto", "data"),
}
PRIOR_CHOICES = ("learned", "shared", "data", "wishart", "par-ingmm", "given")
"""What may have been used: "auto" is "learned" or "shared", a mapping is "given"."""
PRIOR_KEYS = {
    "diagonal": ("mean", "mean_precision", "shape", "rate"),
    "full": ("mean", "mean_precision", "degrees_of_freedom", "scale"),
    "zero-mean": ("degrees_of_freedom", "scale"),
    "multinomial": ("counts",),
    "table": (),
}
EXPECTED_COMPONENTS = 50.0  # the default prior assumes that about this many tile the data
_DIAGONAL_ROWS = 100.0  # rows that the prior of spreads counts for, over all features
_WISHART_ROWS = 80.0
_MEAN_PRECISION = 0.1  # rows that the prior of means counts for
_MOMENT_ENTRIES = 8192  # numbers in the work space of one pass
_FLAT_SPACINGS = 4.0  # a spread below this many steps between neighbouring floats is rounding


def within_share(n_features: int) -> float:
    """Share of each feature's variance that the "data" prior expects within a component.

    It is what is left when some 50 components tile the spread of the data: little in two
    dimensions, nearly all of it in fifty.
    """
    return float(EXPECTED_COMPONENTS ** (-2.0 / n_features))


@dataclass(frozen=True, slots=True)
class Moments:
    """Weighted mean and variance of each feature, NaNs left out."""

    mean: Vec
    variance: Vec

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        """Moments of the rows; a feature without spread gets the variance 1.

        The mean is summed twice, the second time about the first: far from zero the sum alone
        is off by many times the spacing of numbers there, and equal values would seem to differ.
        """
        size = max(1, _MOMENT_ENTRIES // rows.X.shape[1])
        mean = np.zeros(rows.X.shape[1])
        for _ in range(2):
            mass, sums = _column_sums(rows, size, mean, 1)
            safe = np.maximum(mass, 1e-300)
            mean = mean + sums / safe
        variance = _column_sums(rows, size, mean, 2)[1] / safe
        return cls._plausible(mean, variance, float(np.finfo(rows.X.dtype).eps))

    @classmethod
    def of_chunks(cls, rows: ChunkedRows, engine: Engine) -> Moments:
        """The moments of rows in chunks, from sums over the chunks."""
        mean = np.zeros(rows.width)
        for _ in range(2):
            mass, sums, eps = _chunk_sums(rows, mean, 1, engine)
            safe = np.maximum(mass, 1e-300)
            mean = mean + sums / safe
        variance = _chunk_sums(rows, mean, 2, engine)[1] / safe
        return cls._plausible(mean, variance, eps)

    @classmethod
    def _plausible(cls, mean: Vec, variance: Vec, eps: float) -> Moments:
        """Moments in which what is no more than rounding is no spread."""
        spacing = eps * np.abs(mean)
        flat = variance <= (_FLAT_SPACINGS * spacing) ** 2 + 1e-300
        return cls(mean, np.where(flat, 1.0, variance))

    @property
    def origin(self) -> Vec:
        """The mean, or a point that single precision has exactly, if one is near it."""
        near = np.clip(self.mean, -1e30, 1e30).astype(np.float32).astype(np.float64)
        return np.where((near - self.mean) ** 2 <= self.variance, near, self.mean)


def _column_sums(rows: Rows, size: int, centre: Vec, power: int) -> tuple[Vec, Vec]:
    """Weight observed in each column, and weighted sum of a power of x - centre.

    In pieces of `size` rows, so that a large batch needs no large work space.
    """
    mass, sums = np.zeros_like(centre), np.zeros_like(centre)
    for start in range(0, len(rows), size):
        piece = rows[start : start + size]
        x = np.asarray(piece.X, np.float64) - centre
        seen = ~np.isnan(x)
        weights = np.ones(len(piece)) if piece.weights is None else piece.weights
        mass += weights @ seen
        sums += weights @ np.where(seen, x, 0.0) ** power
    return mass, sums


def _chunk_sums(
    rows: ChunkedRows, centre: Vec, power: int, engine: Engine
) -> tuple[Vec, Vec, float]:
    """`_column_sums` over all chunks, and the spacing of their numbers at 1."""
    found = engine.map(_sums_of, [chunk.handle for chunk in rows.chunks], (centre, power))
    mass, sums = total([part[0] for part in found]), total([part[1] for part in found])
    return mass, sums, max(part[2] for part in found)


def _sums_of(shared: tuple[Vec, int], rows: Rows) -> tuple[Vec, Vec, float]:
    centre, power = shared
    size = max(1, _MOMENT_ENTRIES // rows.width)
    return *_column_sums(rows, size, centre, power), float(np.finfo(rows.X.dtype).eps)


def _totals_of(_: None, rows: Rows) -> float:
    return _mean_sum(rows) * rows.mass


@dataclass(frozen=True, slots=True)
class DataSummary:
    """What a prior depends on.

    Attributes
    ----------
    width : number of features
    missing : whether values are missing
    moments : means and variances of the features, computed when asked for
    mean_sum : mean of the sums of the rows, computed when asked for
    """

    width: int
    missing: bool
    moments: Callable[[], Moments]
    mean_sum: Callable[[], float]

    @classmethod
    def of(cls, rows: Rows | ChunkedRows, engine: Engine) -> DataSummary:
        """The summary of rows in this process or in chunks on workers."""
        return cls.from_rows(rows) if isinstance(rows, Rows) else cls.from_chunks(rows, engine)

    @classmethod
    def from_rows(cls, rows: Rows) -> DataSummary:
        """The summary of rows in this process."""
        missing = has_missing(rows.X)
        return cls(rows.width, missing, lambda: Moments.of(rows), lambda: _mean_sum(rows))

    @classmethod
    def from_chunks(cls, rows: ChunkedRows, engine: Engine) -> DataSummary:
        """The summary of rows in chunks on workers."""

        def mean_sum() -> float:
            found = engine.map(_totals_of, [chunk.handle for chunk in rows.chunks], None)
            return total(found) / rows.mass

        return cls(rows.width, rows.missing, lambda: Moments.of_chunks(rows, engine), mean_sum)


def resolve_family(family: str, prior: str | Mapping[str, Any], rows: DataSummary) -> Family[Any]:
    """The family with its prior."""
    d = rows.width
    check_prior(family, prior)
    given = prior if isinstance(prior, Mapping) else {}
    name = prior if isinstance(prior, str) else "data"
    if family == "multinomial":
        counts = _vector(given.get("counts", 0.1), d, "counts", positive=True)
        return Multinomial(DirichletPrior(counts), max(1, round(rows.mean_sum())))
    moments = rows.moments()
    if family == "diagonal":
        return _diagonal(name, given, moments, rows.missing)
    dof, scale = _wishart(family, name, given, moments)
    if family == "zero-mean":
        return ZeroMeanGaussian(WishartPrior(dof, scale))
    mean, precision = _mean_prior(name, given, moments)
    return FullGaussian(NormalWishartPrior(mean, precision, dof, scale), moments.origin)


def _mean_sum(rows: Rows) -> float:
    """Weighted mean of the sums of the rows."""
    if rows.weights is None:
        return float(rows.X.sum()) / len(rows)
    return float(rows.weights @ np.asarray(rows.X.sum(axis=1)).ravel()) / rows.mass


def check_prior(family: str, prior: str | Mapping[str, Any]) -> None:
    """Refuse names and keys that the family does not know."""
    if isinstance(prior, str):
        if prior not in PRIOR_NAMES[family]:
            names = ", ".join(repr(n) for n in PRIOR_NAMES[family])
            raise ValueError(
                f"expected one of {names} for family={family!r}, or a mapping, got {prior!r}"
            )
        return
    unknown = sorted(set(prior) - set(PRIOR_KEYS[family]))
    if unknown:
        raise ValueError(
            f"unknown entries {unknown} for family={family!r}; "
            f"allowed: {', '.join(PRIOR_KEYS[family]) or 'none'}"
        )


def _diagonal(name: str, given: Mapping[str, Any], moments: Moments, missing: bool) -> DiagGaussian:
    d = len(moments.mean)
    mean, precision = _mean_prior(name, given, moments)
    if name == "par-ingmm":
        shape, rate = 0.91, np.full(d, 0.28)
    elif name == "wishart":
        return DiagGaussian(
            NormalGammaPrior.wishart(mean, precision, d + 2, np.full(d, float(d))),
            moments.origin,
            missing,
        )
    else:
        shape = _diagonal_shape(d)
        rate = shape * within_share(d) * moments.variance
    shape = _number(given.get("shape", shape), "shape")
    rate = _vector(given.get("rate", rate), d, "rate", positive=True)
    return DiagGaussian(NormalGammaPrior(mean, precision, shape, rate), moments.origin, missing)


def diagonal_family(moments: Moments, n_columns: int) -> DiagGaussian:
    """Gaussian columns of a table that has `n_columns` in all, with missing values."""
    shape = _diagonal_shape(n_columns)
    rate = shape * within_share(n_columns) * moments.variance
    prior = NormalGammaPrior(moments.mean, _MEAN_PRECISION, shape, rate)
    return DiagGaussian(prior, moments.origin, missing=True)


def diagonal_of(family: FullGaussian) -> DiagGaussian:
    """Diagonal Gaussians whose prior expects the same means and variances."""
    prior = family.prior
    own_rows = max(prior.degrees_of_freedom - family.n_features - 1.0, 1.0)
    shape = _diagonal_shape(family.n_features)
    rate = shape * np.diagonal(prior.scale) / own_rows
    own = NormalGammaPrior(prior.mean, prior.mean_precision, shape, rate)
    return DiagGaussian(own, family.origin)


def _diagonal_shape(n_columns: int) -> float:
    return 0.5 * max(10.0, _DIAGONAL_ROWS / n_columns)


def _mean_prior(name: str, given: Mapping[str, Any], moments: Moments) -> tuple[Vec, float]:
    d = len(moments.mean)
    named = {"par-ingmm": (0.0, 0.22), "wishart": (0.0, 1e-4)}
    mean, precision = named.get(name, (moments.mean, _MEAN_PRECISION))
    return (
        _vector(given.get("mean", mean), d, "mean"),
        _number(given.get("mean_precision", precision), "mean_precision"),
    )


def _wishart(
    family: str, name: str, given: Mapping[str, Any], moments: Moments
) -> tuple[float, Mat]:
    d = len(moments.mean)
    rows = 1.0 if name == "wishart" else max(2.0, _WISHART_ROWS / d)
    spread = moments.variance + (moments.mean**2 if family == "zero-mean" else 0.0)
    expected = np.ones(d) if name == "wishart" else within_share(d) * spread
    dof = _number(given.get("degrees_of_freedom", d + 1 + rows), "degrees_of_freedom", above=d - 1)
    return dof, _matrix(given.get("scale", np.diag(rows * expected)), d, "scale")


def _number(value: Any, name: str, above: float = 0.0) -> float:
    number = np.asarray(value, np.float64)
    if number.ndim or not np.isfinite(number) or number <= above:
        raise ValueError(
            f"the entry {name!r} must be a finite number above {above:g}. Got {value!r} instead."
        )
    return float(number)


def _vector(value: Any, d: int, name: str, positive: bool = False) -> Vec:
    array = np.asarray(value, np.float64)
    right = array.ndim == 0 or array.shape == (d,)
    if not right or not np.isfinite(array).all() or (positive and (array <= 0).any()):
        kind = "positive" if positive else "finite"
        raise ValueError(
            f"the entry {name!r} must be a {kind} number or {d} of "
            f"them. Got {short_repr(value, array)} instead."
        )
    return np.broadcast_to(array, (d,)).copy()


def short_repr(value: Any, array: NDArray[np.float64]) -> str:
    """What an error message shows of a value: all of it, or the shape of a long array."""
    return repr(value) if array.size <= 4 else f"an array of shape {array.shape}"


def _matrix(value: Any, d: int, name: str) -> Mat:
    array = np.asarray(value, np.float64)
    if array.ndim == 0:
        array = array * np.eye(d)
    good = array.shape == (d, d) and np.isfinite(array).all() and np.allclose(array, array.T)
    if not good or np.linalg.eigvalsh(array)[0] <= 0:
        raise ValueError(
            f"the entry {name!r} must be a positive number or a "
            f"positive-definite ({d}, {d}) matrix. Got {short_repr(value, array)} instead."
        )
    return array.copy()


def has_missing(X: Table) -> bool:
    """Whether a dense table without infinities has NaNs."""
    return not sparse.issparse(X) and bool(np.isnan(X.sum(dtype=np.float64)))
