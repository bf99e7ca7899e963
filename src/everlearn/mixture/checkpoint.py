"""What holds for the statistics of every mixture, whatever it has learned.

A checkpoint that was written by this library passes. One that was put together in another way,
and says something no rows could say, does not: better no model than a wrong one. Tolerances are
wide enough for float32 and for rounding that many moves have left behind.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Table
from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.engine.rows import Rows
from everlearn.errors import CheckpointError
from everlearn.estimator.history import History
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.estimator.schemas import (
    CLOSE,
    FARTHEST,
    Members,
    check_stats,
    pack_family,
    unpack_family,
)
from everlearn.mixture.fit import Learned
from everlearn.mixture.inputs import check_same_model, is_name
from everlearn.mixture.model import Mixture
from everlearn.mixture.priors import check_entries
from everlearn.mixture.state import Memo, OpenBatch, Sealed, State, Trial
from everlearn.store.schema import Arrays, entry, member, require, section, shown


def check_batch(family: Family[Any], batch: OpenBatch, name: str) -> None:
    """Refuse statistics that are not those of the rows they come with."""
    mass = batch.rows.mass
    same = abs(batch.stats.n.sum() - mass) <= CLOSE * mass
    require(same, f"{name}/n", f"the masses of rows that weigh {mass:g} together")
    each = family.log_base(batch.rows.X)
    base = float(each.sum() if batch.rows.weights is None else each @ batch.rows.weights)
    near = abs(batch.stats.base - base) <= CLOSE * (abs(base) + 1)
    if not near:
        raise CheckpointError(f"the header's 'base' of {name!r} is not that of any rows")


def check_state(state: State) -> None:
    """Refuse losses of pairs that cannot be, and numbers too large to go on with."""
    loss, mass = state.sealed.pair_loss, state.sealed.stats.n.sum()
    sound = (loss == loss.T).all() and not np.diagonal(loss).any()
    sound = sound and loss.min() >= -CLOSE and loss.max() <= (mass + 1) * (state.next_id + 1)
    require(sound, "sealed/pair_loss", "a symmetric matrix of entropies")
    for index, memo in enumerate(state.memos.values()):
        part = memo.part.stats.n <= state.sealed.stats.n * (1 + CLOSE) + CLOSE
        require(part.all(), f"memo{index}/n", "a part of the masses that are sealed")
        own = memo.part.pair_loss
        sound = (own == own.T).all() and (own <= loss * (1 + CLOSE) + CLOSE).all()
        require(sound, f"memo{index}/pair_loss", "a part of the entropies that are sealed")
    if not _finite(state):
        raise CheckpointError("members 'sealed/t' and 'prior' give a model that is not finite")


def _finite(state: State) -> bool:
    """Whether bound and scores of the components, and of one without rows, are numbers."""
    empty = Stats.zeros(np.zeros(1, np.int64), state.model.family.n_stats)
    try:
        numbers = [np.array(state.bound())]
        for stats in (state.total, empty):
            posterior = state.model.posterior(stats)
            numbers += [posterior.eta, posterior.bias]
    except np.linalg.LinAlgError:
        return False
    return all(np.isfinite(x).all() for x in numbers)


STATE_KEYS = (
    "family",
    "concentration",
    "n_batches",
    "next_id",
    "seed",
    "clock",
    "fresh",
    "base",
    "birth_trials",
    "delete_trials",
    "names",
    "memos",
)
_SINCE_NAMES: Final[Mapping[str, Any]] = {"names": [], "memos": []}
"""What files have that were written before batches had names."""
_FLOATS = ("float32", "float64")
_TINY = 1e-300


def pack_state(state: State) -> tuple[dict[str, Any], Members]:
    """The state as a header and arrays."""
    family, arrays = pack_family(state.model.family)
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
        "names": [[i, b.name] for i, b in enumerate(state.batches) if b.name is not None],
        "memos": [[k, m.n_rows, m.part.stats.base] for k, m in state.memos.items()],
    }
    for index, memo in enumerate(state.memos.values()):
        _pack_stats(arrays, f"memo{index}", memo.part.stats)
        arrays[f"memo{index}/pair_loss"] = memo.part.pair_loss
    return header, arrays


def state_section(header: Mapping[str, Any]) -> dict[str, Any]:
    """The header's object about the state."""
    value = header.get("state")
    if isinstance(value, dict):
        header = {**header, "state": {**_SINCE_NAMES, **value}}
    return section(header, "state", STATE_KEYS)


def unpack_state(header: Mapping[str, Any], arrays: Arrays) -> State:
    """Inverse of `pack_state`; whatever could not have been packed is refused."""
    family = unpack_family(header, arrays)
    alpha = entry(header, "concentration", float, _TINY)
    try:
        model = Mixture(family, DPPrior(alpha))
    except np.linalg.LinAlgError as error:
        raise CheckpointError(f"members 'prior' do not make a prior: {error}") from error
    next_id = entry(header, "next_id", int, 1, 2**31 - 1)
    ids = member(arrays, "ids", (None,), "int64")
    sound = len(ids) > 0 and len(np.unique(ids)) == len(ids) and ids.min() >= 0
    require(sound and ids.max() < next_id, "ids", f"distinct ids below {next_id}")
    n_batches = entry(header, "n_batches", int, 0, len(arrays))
    bases = entry(header, "base", list)
    if len(bases) != n_batches + 1 or not all(isinstance(base, float) for base in bases):
        raise CheckpointError(f"the header's 'base' must be {n_batches + 1} numbers")
    sealed = Sealed(
        _unpack_stats(arrays, "sealed", ids, family, bases[0]),
        member(arrays, "sealed/pair_loss", (len(ids), len(ids)), "float64"),
    )
    names = _unpack_names(header, n_batches)
    batches = tuple(
        replace(_unpack_batch(arrays, f"batch{i}", ids, next_id, family, base), name=names.get(i))
        for i, base in enumerate(bases[1:])
    )
    state = State(
        model=model,
        sealed=sealed,
        batches=batches,
        total=sealed.stats,
        next_id=next_id,
        seed=entry(header, "seed", int, 0, 2**64),
        clock=entry(header, "clock", int, 0, 2**63),
        fresh=entry(header, "fresh", int, 0, sum(len(b.rows) for b in batches)),
        birth_trials=_unpack_trials(header, "birth_trials", next_id),
        delete_trials=_unpack_trials(header, "delete_trials", next_id),
        memos=_unpack_memos(header, arrays, ids, family),
    ).resummed()
    if unknown := sorted(set(arrays) - set(pack_state(state)[1])):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
    check_state(state)
    return state


def _pack_stats(arrays: Members, name: str, stats: Stats) -> None:
    arrays |= {f"{name}/n": stats.n, f"{name}/t": stats.t, f"{name}/h": stats.h}


def _unpack_stats(
    arrays: Arrays, name: str, ids: IntVec, family: Family[Any], base: float
) -> Stats:
    k = len(ids)
    n = member(arrays, f"{name}/n", (k,), "float64")
    t = member(arrays, f"{name}/t", (k, family.n_stats), "float64")
    stats = Stats(ids, n, t, member(arrays, f"{name}/h", (k,), "float64"), base)
    check_stats(family, stats, name)
    return stats


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
    arrays: Arrays, name: str, ids: IntVec, next_id: int, family: Family[Any], base: float
) -> OpenBatch:
    labels = member(arrays, f"{name}/labels", (None,), "int32")
    known = labels.size and labels.min() >= 0 and labels.max() < next_id
    require(known, f"{name}/labels", f"ids below {next_id}")
    rows = Rows(_unpack_table(arrays, name, len(labels), family))
    if f"{name}/weights" in arrays:
        weights = member(arrays, f"{name}/weights", (len(labels),), "float64")
        require((weights >= 0).all() and weights.any(), f"{name}/weights", "weights of rows")
        rows = Rows(rows.X, weights)
    batch = OpenBatch(rows, _unpack_stats(arrays, name, ids, family, base), labels)
    check_batch(family, batch, name)
    return batch


def _unpack_table(arrays: Arrays, name: str, n_rows: int, family: Family[Any]) -> Table:
    d = family.n_features
    counts = isinstance(family, Multinomial)
    if counts and f"{name}/indptr" in arrays:
        data = member(arrays, f"{name}/data", (None,), *_FLOATS)
        indices = member(arrays, f"{name}/indices", data.shape, "int32", "int64")
        indptr = member(arrays, f"{name}/indptr", (n_rows + 1,), indices.dtype.name)
        require((data >= 0).all(), f"{name}/data", "counts")
        try:
            table = sparse.csr_array((data, indices, indptr), shape=(n_rows, d))
            table.check_format(full_check=True)
        except ValueError as error:
            raise CheckpointError(f"member '{name}/indptr' does not fit: {error}") from error
        require(table.has_canonical_format, f"{name}/indices", "sorted and distinct in each row")
        return table
    x = arrays.get(f"{name}/X")
    fits = x is not None and x.shape == (n_rows, d) and x.dtype.name in _FLOATS
    if x is None or not fits or np.isinf(x).any():
        raise CheckpointError(f"member '{name}/X' must be finite rows of shape {(n_rows, d)}")
    missing = isinstance(family, DiagGaussian) and family.missing
    require(missing or not np.isnan(x).any(), f"{name}/X", "without missing values")
    smallest = 0.0 if counts else -FARTHEST
    inside = np.isnan(x) | ((x >= smallest) & (x <= FARTHEST))
    require(inside.all(), f"{name}/X", f"within {smallest:g} and {FARTHEST:g}")
    return x


def _unpack_names(header: Mapping[str, Any], n_batches: int) -> dict[int, int | str]:
    names = {}
    for row in entry(header, "names", list):
        fits = isinstance(row, list) and len(row) == 2 and type(row[0]) is int
        if not fits or not 0 <= row[0] < n_batches or not is_name(row[1]):
            raise CheckpointError(f"the header's 'names' must be of batches, got {shown(row)}")
        names[row[0]] = row[1]
    return names


def _unpack_memos(
    header: Mapping[str, Any], arrays: Arrays, ids: IntVec, family: Family[Any]
) -> dict[int | str, Memo]:
    memos: dict[int | str, Memo] = {}
    k = len(ids)
    for index, row in enumerate(entry(header, "memos", list)):
        fits = isinstance(row, list) and [type(v) for v in row[1:]] == [int, float]
        if not fits or not is_name(row[0]) or row[0] in memos or not 0 < row[1] < 2**63:
            raise CheckpointError(f"the header's 'memos' must be of batches, got {shown(row)}")
        name, n_rows, base = row
        stats = _unpack_stats(arrays, f"memo{index}", ids, family, base)
        loss = member(arrays, f"memo{index}/pair_loss", (k, k), "float64")
        memos[name] = Memo(Sealed(stats, loss), n_rows)
    return memos


def _pack_trials(trials: Mapping[int, Trial]) -> list[list[float]]:
    return [[i, trial.failures, trial.mass] for i, trial in sorted(trials.items())]


def _unpack_trials(header: Mapping[str, Any], key: str, next_id: int) -> dict[int, Trial]:
    trials = {}
    for row in entry(header, key, list):
        if not isinstance(row, list) or [type(v) for v in row] != [int, int, float]:
            raise CheckpointError(f"the header's {key!r} must be trials, got {shown(row)}")
        component, failures, mass = row
        if not (0 <= component < next_id and 0 <= failures < 2**31 and mass >= 0):
            raise CheckpointError(f"the header's {key!r} must be trials, got {shown(row)}")
        trials[component] = Trial(failures, mass)
    return trials


class MixtureStorage(SaveMixin):
    """Saving and loading of a mixture."""

    checkpoint_key: ClassVar[str] = "dp-mixture"
    _learned: Learned

    def to_checkpoint(self: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        state = self._fitted()
        self._check_params()
        check_same_model(self, self._learned)
        check_entries(self.family, self.prior, state.model.family.n_features)
        header, arrays = pack_state(state)
        return {
            "params": plain_params(self.get_params(deep=False), state.seed),
            "state": header,
            "history": self.history_.to_json(),
            "n_rows": self.n_samples_seen_,
            "prior_rows": self._learned.prior_rows,
            "settled": self.converged_,
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        params = section(header, "params", inspect.signature(cls).parameters)
        estimator: Any = cls(**(params | {"moves": tuple(entry(params, "moves", list))}))
        state = unpack_state(state_section(header), arrays)
        n_rows = entry(header, "n_rows", int, max(1, state.n_open), 2**63)
        estimator._learned = Learned(
            state,
            History.from_json(section(header, "history", ("points", "moves", "counts"))),
            n_rows,
            entry(header, "prior_rows", int, 1, n_rows),
            entry(header, "settled", bool),
            estimator.learner,
        )
        try:
            estimator._check_params()
            check_same_model(estimator, estimator._learned)
            check_entries(estimator.family, estimator.prior, state.model.family.n_features)
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        if state.batches and estimator.learner != "memoized":
            raise CheckpointError(
                f"the header's 'learner' is {estimator.learner!r}, but rows are open"
            )
        estimator.n_features_in_ = state.model.family.n_features
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, estimator.n_features_in_)
        mixture: Self = estimator
        return mixture
