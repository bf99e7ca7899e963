"""A family with its prior as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Vec
from everlearn.core.errors import CheckpointError
from everlearn.core.families import (
    DiagGaussian,
    DirichletPrior,
    Family,
    FullGaussian,
    Multinomial,
    NormalGammaPrior,
    NormalWishartPrior,
    WishartPrior,
    ZeroMeanGaussian,
)
from everlearn.estimators.persistence import Arrays, entry, member, require, section, shown

Members = dict[str, NDArray[Any]]

_FAMILY_KEYS = {
    "diagonal": ("kind", "mean_precision", "shape", "missing"),
    "full": ("kind", "mean_precision", "degrees_of_freedom"),
    "zero-mean": ("kind", "degrees_of_freedom"),
    "multinomial": ("kind", "trials"),
}
_TINY = 1e-300
FARTHEST = 1e100
"""No row is farther from zero than this."""


def pack_family(family: Family[Any]) -> tuple[dict[str, Any], Members]:
    """A family and its prior as a header and arrays."""
    if isinstance(family, DiagGaussian):
        p = family.prior
        header = {
            "kind": "diagonal",
            "mean_precision": p.mean_precision,
            "shape": p.shape,
            "missing": family.missing,
        }
        return header, {"prior/mean": p.mean, "prior/rate": p.rate, "origin": family.origin}
    if isinstance(family, FullGaussian):
        w = family.prior
        header = {
            "kind": "full",
            "mean_precision": w.mean_precision,
            "degrees_of_freedom": w.degrees_of_freedom,
        }
        return header, {"prior/mean": w.mean, "prior/scale": w.scale, "origin": family.origin}
    if isinstance(family, ZeroMeanGaussian):
        z = family.prior
        header = {"kind": "zero-mean", "degrees_of_freedom": z.degrees_of_freedom}
        return header, {"prior/scale": z.scale}
    if isinstance(family, Multinomial):
        header = {"kind": "multinomial", "trials": family.trials}
        return header, {"prior/counts": family.prior.counts}
    raise TypeError(f"no checkpoint form for {type(family).__name__}")


def _kind(header: Mapping[str, Any]) -> str:
    """Name of the family, if there is such a family."""
    family = entry(header, "family", dict)
    kind = entry(family, "kind", str)
    if kind not in _FAMILY_KEYS:
        raise CheckpointError(f"the header's 'kind' must be a family, got {shown(kind)}")
    return kind


def unpack_family(header: Mapping[str, Any], arrays: Arrays) -> Family[Any]:
    """Inverse of `pack_family`, from the 'family' of a header; what no family has is refused."""
    kind = _kind(header)
    header = section(header, "family", _FAMILY_KEYS[kind])
    if kind == "multinomial":
        counts = member(arrays, "prior/counts", (None,), "float64")
        require(counts.size and (counts > 0).all(), "prior/counts", "positive")
        return Multinomial(DirichletPrior(counts), entry(header, "trials", int, 1, 2**53))
    if kind == "diagonal":
        mean = _located(arrays, "prior/mean", None)
        rate = member(arrays, "prior/rate", mean.shape, "float64")
        require((rate > 0).all(), "prior/rate", "positive")
        precision = entry(header, "mean_precision", float, _TINY)
        prior = NormalGammaPrior(mean, precision, entry(header, "shape", float, _TINY), rate)
        origin = _located(arrays, "origin", len(mean))
        return DiagGaussian(prior, origin, entry(header, "missing", bool))
    scale = member(arrays, "prior/scale", (None, None), "float64")
    d = len(scale)
    definite = scale.shape == (d, d) and d > 0 and np.allclose(scale, scale.T)
    definite = definite and np.linalg.eigvalsh(scale)[0] > 0
    require(definite, "prior/scale", "a positive-definite matrix")
    dof = entry(header, "degrees_of_freedom", float, (d - 1) * (1 + 1e-15) + _TINY)
    if kind == "zero-mean":
        return ZeroMeanGaussian(WishartPrior(dof, scale))
    mean = _located(arrays, "prior/mean", d)
    precision = entry(header, "mean_precision", float, _TINY)
    origin = _located(arrays, "origin", d)
    return FullGaussian(NormalWishartPrior(mean, precision, dof, scale), origin)


def _located(arrays: Arrays, name: str, d: int | None) -> Vec:
    """A point that rows can be near to."""
    point = member(arrays, name, (d,), "float64")
    require(point.size and np.abs(point).max() <= FARTHEST, name, f"at most {FARTHEST:g} in size")
    return point
