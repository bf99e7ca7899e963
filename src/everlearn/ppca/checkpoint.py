"""A learned `OnlinePPCA` as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.errors import CheckpointError
from everlearn.estimator.schemas import FARTHEST, Members
from everlearn.ppca.fit import Learned, form_of, is_mixture
from everlearn.ppca.inputs import checked_task
from everlearn.ppca.model import PPCA, SMALLEST_NOISE
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import PPCAState, Typical
from everlearn.ppca.stats import LatentStats, m_step
from everlearn.store.schema import Arrays, entry, member, require, section

STATE_KEYS = (
    "n_reference",
    "n_window",
    "has_stats",
    "has_odd",
    "typical",
    "clock",
    "n_rows",
    "mass",
    "since",
    "task",
    "seed",
)
_STATS = ("n", "yy", "yz", "zz", "x", "z")
_CLOSE = 1e-6
_MOST_ROWS = 2**53
_LARGEST_MASS = 1e250
_LARGEST_SQUARE = 1e210


def pack_learned(learned: Learned) -> tuple[dict[str, Any], Members]:
    """What is known as a header and arrays."""
    state = learned.state
    arrays: Members = {
        "origin": state.origin,
        "weights": state.weights,
        "models/mean": np.stack([model.mean for model in state.models]),
        "models/loadings": np.stack([model.loadings for model in state.models]),
        "models/noise": np.array([model.noise for model in state.models]),
    }
    if learned.likelihoods:
        arrays["likelihoods"] = np.array(learned.likelihoods, np.float64)
    _pack_moments(arrays, "reference", state.reference)
    _pack_moments(arrays, "window", state.window)
    if state.stats is not None:
        arrays |= {
            f"stats/{name}": part for name, part in zip(_STATS, state.stats.parts, strict=True)
        }
    if state.odd is not None:
        _pack_moments(arrays, "odd", (state.odd,))
    usual = state.typical
    header = {
        "n_reference": len(state.reference),
        "n_window": len(state.window),
        "has_stats": state.stats is not None,
        "has_odd": state.odd is not None,
        "typical": {"mass": usual.mass, "mean": usual.mean, "variance": usual.variance},
        "clock": state.clock,
        "n_rows": state.count,
        "mass": state.n_rows,
        "since": state.since,
        "task": state.task,
        "seed": state.seed,
    }
    return header, arrays


def _pack_moments(arrays: Members, name: str, parts: tuple[Moments, ...]) -> None:
    for k, part in enumerate(parts):
        numbers = np.array([part.mass, part.noise, part.present is not None])
        arrays |= {
            f"{name}{k}/numbers": numbers,
            f"{name}{k}/mean": part.mean,
            f"{name}{k}/factor": part.factor,
        }
        if part.present is not None:
            arrays[f"{name}{k}/present"] = part.present


def unpack_learned(estimator: Any, header: Mapping[str, Any], arrays: Arrays) -> Learned:
    """Inverse of `pack_learned`; whatever could not have been packed is refused."""
    origin = _near(member(arrays, "origin", (None,), "float64"), "origin")
    require(origin.size, "origin", "an entry for each feature")
    d, q = len(origin), int(estimator.n_components)
    models = _unpack_models(arrays, d, q)
    k = len(models)
    if k > estimator.n_mixtures:
        raise CheckpointError(f"member 'models/mean' must have at most n_mixtures rows, got {k}")
    weights = member(arrays, "weights", (k,), "float64")
    simplex = (weights >= 0.0).all() and abs(weights.sum() - 1.0) <= _CLOSE
    require(simplex, "weights", "shares that sum to 1")
    form = form_of(estimator)
    reference = _unpack_list(header, arrays, "reference", (0, k), d)
    stats = _unpack_stats(header, arrays, k, origin, q)
    window = _unpack_list(header, arrays, "window", (0, k) if form[2] == "moment" else (0, 1), d)
    odd = _moments(arrays, "odd0", d) if entry(header, "has_odd", bool) else None
    mass = entry(header, "mass", float, 1e-300, _LARGEST_MASS)
    state = PPCAState(
        models,
        weights,
        origin,
        reference,
        window,
        stats,
        odd,
        _unpack_typical(header),
        entry(header, "clock", int, 1, _MOST_ROWS),
        mass,
        entry(header, "since", float, 0.0, mass * (1.0 + _CLOSE)),
        _unpack_task(estimator, header),
        entry(header, "seed", int, 0, 2**64),
        entry(header, "n_rows", int, 1, _MOST_ROWS),
    )
    likelihoods: tuple[float, ...] = ()
    if "likelihoods" in arrays:
        found = member(arrays, "likelihoods", (None,), "float64")
        require(found.size, "likelihoods", "one for each iteration")
        likelihoods = tuple(found.tolist())
    learned = Learned(state, form, is_mixture(estimator), likelihoods)
    _check_parts(learned, arrays)
    return learned


def _near(array: NDArray[Any], name: str) -> NDArray[Any]:
    """Entries of a size that rows can have."""
    require((np.abs(array) <= FARTHEST).all(), name, f"at most {FARTHEST:g} in size")
    return array


def _unpack_models(arrays: Arrays, d: int, q: int) -> tuple[PPCA, ...]:
    means = _near(member(arrays, "models/mean", (None, d), "float64"), "models/mean")
    k = len(means)
    require(k, "models/mean", "a row for each component")
    name = "models/loadings"
    loadings = _near(member(arrays, name, (k, d, q), "float64"), name)
    noise = member(arrays, "models/noise", (k,), "float64")
    right = ((noise >= SMALLEST_NOISE) & (noise <= _LARGEST_SQUARE)).all()
    require(right, "models/noise", f"from {SMALLEST_NOISE:g} to {_LARGEST_SQUARE:g}")
    return tuple(PPCA(*parts) for parts in zip(means, loadings, noise.tolist(), strict=True))


def _unpack_list(
    header: Mapping[str, Any], arrays: Arrays, name: str, lengths: tuple[int, int], d: int
) -> tuple[Moments, ...]:
    n = entry(header, f"n_{name}", int, 0, _MOST_ROWS)
    if n not in lengths:
        raise CheckpointError(
            f"the header's 'n_{name}' must be {lengths[0]} or {lengths[1]}, got {n}"
        )
    return tuple(_moments(arrays, f"{name}{k}", d) for k in range(n))


def _moments(arrays: Arrays, name: str, d: int) -> Moments:
    numbers = member(arrays, f"{name}/numbers", (3,), "float64")
    right = (numbers >= 0.0).all() and numbers[0] <= _LARGEST_MASS and numbers[2] in (0.0, 1.0)
    known = "a mass, a variance, and 1 if entries were missing or 0"
    require(right and numbers[1] <= _LARGEST_SQUARE, f"{name}/numbers", known)
    mean = _near(member(arrays, f"{name}/mean", (d,), "float64"), f"{name}/mean")
    factor = _near(member(arrays, f"{name}/factor", (d, None), "float64"), f"{name}/factor")
    present = None
    if numbers[2]:
        present = member(arrays, f"{name}/present", (d,), "float64")
        right = ((present >= 0.0) & (present <= 1.0)).all()
        require(right, f"{name}/present", "shares of rows, from 0 to 1")
    return Moments(float(numbers[0]), mean, factor, float(numbers[1]), present)


def _unpack_stats(
    header: Mapping[str, Any], arrays: Arrays, k: int, origin: NDArray[Any], q: int
) -> LatentStats | None:
    if not entry(header, "has_stats", bool):
        return None
    d = len(origin)
    shapes = {"n": (k,), "yy": (k,), "yz": (k, d, q), "zz": (k, q, q), "x": (k, d), "z": (k, q)}
    found = {}
    for name, shape in shapes.items():
        array = member(arrays, f"stats/{name}", shape, "float64")
        most = _LARGEST_SQUARE
        require((np.abs(array) <= most).all(), f"stats/{name}", f"at most {most:g} in size")
        found[name] = array
    n, zz = found["n"], found["zz"]
    require((n >= 0.0).all() and abs(n.sum() - 1.0) <= _CLOSE, "stats/n", "shares that sum to 1")
    size = _CLOSE * np.abs(zz).max(axis=(1, 2))
    symmetric = (np.abs(zz - zz.transpose(0, 2, 1)) <= size[:, None, None]).all()
    definite = symmetric and (np.linalg.eigvalsh(zz)[:, 0] >= -size).all()
    require(definite, "stats/zz", "second moments")
    require((found["yy"] >= 0.0).all(), "stats/yy", "sums of squares")
    stats = LatentStats(**found)
    for i in np.flatnonzero(n > _CLOSE):
        try:
            model = m_step(stats, int(i), origin)
        except np.linalg.LinAlgError as error:
            raise CheckpointError("member 'stats/zz' must be second moments") from error
        sound = np.isfinite(model.noise) and (np.abs(model.loadings) <= FARTHEST).all()
        require(sound, "stats/yz", "what an M-step can be made from")
    return stats


def _unpack_typical(header: Mapping[str, Any]) -> Typical:
    found = section(header, "typical", ("mass", "mean", "variance"))
    return Typical(
        entry(found, "mass", float, 0.0, _LARGEST_MASS),
        entry(found, "mean", float),
        entry(found, "variance", float, 0.0),
    )


def _unpack_task(estimator: Any, header: Mapping[str, Any]) -> int | str | None:
    try:
        return checked_task(estimator, header["task"])
    except ValueError as error:
        raise CheckpointError(f"the header's 'task': {error}") from error


def _check_parts(learned: Learned, arrays: Arrays) -> None:
    """Refuse parts that no state of this form has, and members that belong to nothing."""
    state, (_, constraint, solver, _) = learned.state, learned.form
    if (state.stats is not None) == (solver == "moment" or bool(state.window)):
        raise CheckpointError(
            "the header's 'has_stats' and 'n_window' do not belong together for "
            f"solver={solver!r}, got {state.stats is not None} and {len(state.window)}"
        )
    if constraint is None and state.reference:
        raise CheckpointError("the header's 'n_reference' must be 0 without a constraint")
    if constraint == "step" and not state.reference:
        raise CheckpointError("the header's 'n_reference' must not be 0 if constraint='step'")
    both = (*state.reference, *state.window)
    if solver == "moment" and not any(part.mass > 0.0 for part in both):
        raise CheckpointError("member 'reference0/numbers' or 'window0/numbers' must have a mass")
    if unknown := sorted(set(arrays) - set(pack_learned(learned)[1])):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
