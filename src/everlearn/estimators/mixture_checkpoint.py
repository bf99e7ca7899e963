"""A learned mixture as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Table
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
from everlearn.core.mixture import Mixture
from everlearn.core.priors import DPPrior
from everlearn.core.stats import Stats
from everlearn.estimators.persistence import Arrays, member
from everlearn.inference.rows import Rows
from everlearn.inference.state import OpenBatch, Sealed, State, Trial

Members = dict[str, NDArray[Any]]


def pack_state(state: State) -> tuple[dict[str, Any], Members]:
    """The state as a header and arrays."""
    family, arrays = _pack_family(state.model.family)
    arrays["sealed/pair_loss"] = state.sealed.pair_loss
    arrays["ids"] = state.total.ids
    _pack_stats(arrays, "sealed", state.sealed.stats)
    for index, batch in enumerate(state.batches):
        _pack_batch(arrays, f"batch{index}", batch)
    header = {
        "family": family,
        "concentration": state.model.prior.alpha,
        "n_batches": len(state.batches),
        "next_id": state.next_id,
        "seed": state.seed,
        "clock": state.clock,
        "fresh": state.fresh,
        "base": [state.sealed.stats.base, *(b.stats.base for b in state.batches)],
        "birth_trials": _pack_trials(state.birth_trials),
        "delete_trials": _pack_trials(state.delete_trials),
    }
    return header, arrays


def unpack_state(header: Mapping[str, Any], arrays: Arrays) -> State:
    """Inverse of `pack_state`; every array is checked against the shape the model gives it."""
    family = _unpack_family(header["family"], arrays)
    model = Mixture(family, DPPrior(_positive(header["concentration"], "concentration")))
    ids = member(arrays, "ids", (None,), "i").astype(np.int64)
    k = len(ids)
    if k == 0 or len(np.unique(ids)) != k or ids.min() < 0 or ids.max() >= header["next_id"]:
        raise CheckpointError("member 'ids' must hold distinct ids below the next one")
    bases = header["base"]
    if len(bases) != header["n_batches"] + 1:
        raise CheckpointError("the header must give one base measure for each set of statistics")
    sealed = Sealed(
        _unpack_stats(arrays, "sealed", ids, family.n_stats, bases[0]),
        member(arrays, "sealed/pair_loss", (k, k), "f"),
    )
    batches = tuple(
        _unpack_batch(arrays, f"batch{i}", ids, family, bases[i + 1])
        for i in range(header["n_batches"])
    )
    return State(
        model=model,
        sealed=sealed,
        batches=batches,
        total=sealed.stats,
        next_id=int(header["next_id"]),
        seed=int(header["seed"]),
        clock=int(header["clock"]),
        fresh=int(header["fresh"]),
        birth_trials=_unpack_trials(header["birth_trials"]),
        delete_trials=_unpack_trials(header["delete_trials"]),
    ).resummed()


def _pack_family(family: Family[Any]) -> tuple[dict[str, Any], Members]:
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


def _unpack_family(header: Mapping[str, Any], arrays: Arrays) -> Family[Any]:
    kind = header["kind"]
    if kind == "multinomial":
        counts = member(arrays, "prior/counts", (None,), "f")
        _require((counts > 0).all(), "prior/counts")
        return Multinomial(DirichletPrior(counts), int(header["trials"]))
    if kind == "diagonal":
        origin = member(arrays, "origin", (None,), "f")
        mean = member(arrays, "prior/mean", origin.shape, "f")
        rate = member(arrays, "prior/rate", origin.shape, "f")
        _require((rate > 0).all(), "prior/rate")
        precision = _positive(header["mean_precision"], "mean_precision")
        prior = NormalGammaPrior(mean, precision, _positive(header["shape"], "shape"), rate)
        return DiagGaussian(prior, origin, bool(header["missing"]))
    scale = member(arrays, "prior/scale", (None, None), "f")
    d = len(scale)
    dof = _positive(header["degrees_of_freedom"], "degrees_of_freedom")
    _require(scale.shape == (d, d) and dof > d - 1, "prior/scale")
    _require(np.linalg.eigvalsh(scale)[0] > 0, "prior/scale")
    if kind == "zero-mean":
        return ZeroMeanGaussian(WishartPrior(dof, scale))
    if kind != "full":
        raise CheckpointError(f"no family is called {kind!r}")
    mean = member(arrays, "prior/mean", (d,), "f")
    precision = _positive(header["mean_precision"], "mean_precision")
    origin = member(arrays, "origin", (d,), "f")
    return FullGaussian(NormalWishartPrior(mean, precision, dof, scale), origin)


def _pack_stats(arrays: Members, name: str, stats: Stats) -> None:
    arrays |= {f"{name}/n": stats.n, f"{name}/t": stats.t, f"{name}/h": stats.h}


def _unpack_stats(arrays: Arrays, name: str, ids: IntVec, n_stats: int, base: float) -> Stats:
    k = len(ids)
    n = member(arrays, f"{name}/n", (k,), "f")
    _require((n >= 0).all(), f"{name}/n")
    t = member(arrays, f"{name}/t", (k, n_stats), "f")
    return Stats(ids, n, t, member(arrays, f"{name}/h", (k,), "f"), float(base))


def _pack_batch(arrays: Members, name: str, batch: OpenBatch) -> None:
    _pack_stats(arrays, name, batch.stats)
    arrays[f"{name}/labels"] = batch.labels
    x = batch.rows.X
    if sparse.issparse(x):
        arrays |= {f"{name}/data": x.data, f"{name}/indices": x.indices, f"{name}/indptr": x.indptr}
    else:
        arrays[f"{name}/X"] = x
    if batch.rows.weights is not None:
        arrays[f"{name}/weights"] = batch.rows.weights


def _unpack_batch(
    arrays: Arrays, name: str, ids: IntVec, family: Family[Any], base: float
) -> OpenBatch:
    labels = member(arrays, f"{name}/labels", (None,), "i").astype(np.int32)
    rows = Rows(_unpack_table(arrays, name, len(labels), family))
    if f"{name}/weights" in arrays:
        weights = member(arrays, f"{name}/weights", (len(labels),), "f")
        _require((weights >= 0).all(), f"{name}/weights")
        rows = Rows(rows.X, weights)
    return OpenBatch(rows, _unpack_stats(arrays, name, ids, family.n_stats, base), labels)


def _unpack_table(arrays: Arrays, name: str, n_rows: int, family: Family[Any]) -> Table:
    d = family.n_features
    if f"{name}/indptr" in arrays:
        data = member(arrays, f"{name}/data", (None,), "f")
        indices = member(arrays, f"{name}/indices", data.shape, "i")
        indptr = member(arrays, f"{name}/indptr", (n_rows + 1,), "i")
        table = sparse.csr_array((data, indices, indptr), shape=(n_rows, d))
        table.check_format(full_check=True)
        return table
    x = arrays.get(f"{name}/X")
    if x is None or x.shape != (n_rows, d) or x.dtype.kind != "f" or np.isinf(x).any():
        raise CheckpointError(f"member '{name}/X' must be finite rows of shape {(n_rows, d)}")
    if np.isnan(x).any() and not (isinstance(family, DiagGaussian) and family.missing):
        raise CheckpointError(f"member '{name}/X' must not have missing values")
    return x


def _pack_trials(trials: Mapping[int, Trial]) -> list[list[float]]:
    return [[i, trial.failures, trial.mass] for i, trial in sorted(trials.items())]


def _unpack_trials(entries: list[list[float]]) -> dict[int, Trial]:
    return {int(i): Trial(int(failures), float(mass)) for i, failures, mass in entries}


def _positive(value: Any, name: str) -> float:
    number = float(value)
    if not (np.isfinite(number) and number > 0):
        raise CheckpointError(f"the header's {name!r} must be a positive number, got {value!r}")
    return number


def _require(condition: Any, name: str) -> None:
    if not condition:
        raise CheckpointError(f"member {name!r} has values that no model has")
