"""Merge mixtures that learned different rows: add statistics, match components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.families.categories import Categories
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.gaussian_full import FullGaussian
from everlearn.core.families.product import Product
from everlearn.core.families.recentred import recentred
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.core.stats import Merge, Stats
from everlearn.engine.opening import open_engine
from everlearn.estimator.merge_checks import check_grown, not_descended, refused
from everlearn.mixture.columns import Columns, merged_columns
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.fit import MixtureFit
from everlearn.mixture.local import LocalRunner
from everlearn.mixture.merges import judge_pairs, promising_pairs
from everlearn.mixture.model import Mixture
from everlearn.mixture.outliers import SeenScores
from everlearn.mixture.setup import mixture_step
from everlearn.mixture.state import NamedPart, Sealed, State, allow_missing
from everlearn.mixture.streaming import seal_all
from everlearn.mixture.table_family import grown, with_columns

_MARGIN: Final = 1e-9
_PAIRS: Final = 10_000
_ROUNDING: Final = 1e-9
Signed: TypeAlias = tuple[IntVec, State, int]
"""Ids of the components in the merged model, the state, and a sign: 1, or -1 for the base."""


def merge_mixtures(models: Sequence[DPMixture], base: DPMixture | None) -> MixtureFit:
    """The fit of the merged model. Rows of the base count once."""
    first = models[0]
    if first.learner == "stochastic":
        raise refused(first, "learner", "'memoized'")
    if base is not None and base._learned.state.batches:
        raise ValueError(
            "merge needs a base without open rows, such as a model after fit, because open rows "
            f"may be assigned anew. Got {base._learned.state.n_open:,} of them."
        )
    if base is not None:
        for position, model in enumerate(models):
            _check_descent(position, model._learned.state, base._learned.state)
    every = [*models, *([] if base is None else [base])]
    states = _with_common_origin([sealed_state(model) for model in every])
    columns = None
    if len({model._learned.columns is None for model in every}) > 1:
        raise ValueError(
            "merge needs models of the same family. Got models of tables and of rows of numbers."
        )
    if first._learned.columns is not None:
        tables = [model._learned.columns or () for model in every]
        columns = merged_columns(tables)
        states = _with_common_columns(states, tables, columns)
    ancestor = None if base is None else states.pop()
    state, records = _match_components(_summed(states, ancestor), int(first.max_components))
    learned = [model._learned for model in models]
    again = 0 if base is None else (len(models) - 1) * base._learned.n_rows
    info = LapInfo(
        state.clock, state.bound(), len(state.total), float(state.total.n.sum()), records, False
    )
    n_rows = sum(x.n_rows for x in learned) - again
    return replace(
        learned[0],
        state=state,
        columns=columns,
        history=learned[0].history.after(info),
        n_rows=n_rows,
        converged=False,
        labels=None,
        scores=SeenScores.pooled([x.scores for x in learned], n_rows),
    )


def _check_descent(position: int, state: State, base: State) -> None:
    """Refuse a base that the model did not start from: a copy keeps seed, prior and origin."""
    own: Any = state.model.family
    first: Any = base.model.family
    seen = ({"seed": s.seed, "components born": s.next_id} for s in (state, base))
    check_grown(position, *seen)
    if not _began_alike(own, first):
        raise not_descended(position, "its family, prior or origin are others")


def _began_alike(own: Any, first: Any) -> bool:
    """Whether the families share prior and origin. `own` may have more codes of categories."""
    if type(own) is not type(first):
        return False
    if isinstance(own, Product):
        return len(own.blocks) == len(first.blocks) and all(
            np.array_equal(one.columns, other.columns) and _began_alike(one.family, other.family)
            for one, other in zip(own.blocks, first.blocks, strict=True)
        )
    if isinstance(own, Categories):
        least = (own.sizes >= first.sizes).all()
        return bool(least) and np.array_equal(first.grown(own.sizes).counts, own.counts)
    names = [f.name for f in fields(first.prior)]
    pairs = [(getattr(own.prior, name), getattr(first.prior, name)) for name in names]
    pairs.append((getattr(own, "origin", None), getattr(first, "origin", None)))
    return all(np.array_equal(one, other) for one, other in pairs)


def sealed_state(model: DPMixture) -> State:
    """The state of a model without open rows."""
    state = model._learned.state
    with open_engine("serial") as engine:
        step = mixture_step(model._settings(), state.model)
        sealed = seal_all(state, LocalRunner(step, engine))
    return replace(sealed, birth_trials={}, delete_trials={})


def _with_common_columns(
    states: list[State], tables: list[Columns], columns: Columns
) -> list[State]:
    """States of tables with the family of the first, which gets codes for all values."""
    first = states[0].model.family
    assert isinstance(first, Product)
    family = grown(first, columns)
    return [
        with_columns(state, own, columns, family).resummed()
        for state, own in zip(states, tables, strict=True)
    ]


def _with_common_origin(states: list[State]) -> list[State]:
    """States whose statistics are about the origin of the first."""
    families = [state.model.family for state in states]
    if any(isinstance(family, DiagGaussian) and family.missing for family in families):
        states = [allow_missing(state) for state in states]
    model = states[0].model
    return [_recentred(state, model) for state in states]


def _recentred(state: State, model: Mixture) -> State:
    """The state with the family and the origin of another model."""
    family: Any = state.model.family
    target: Any = model.family
    if isinstance(family, Product):  # see `_with_common_columns`
        return state
    if not isinstance(family, (DiagGaussian, FullGaussian)):
        return replace(state, model=model).resummed()

    def moved(part: Sealed) -> Sealed:
        return replace(part, stats=recentred(family, part.stats, target.origin))

    named = {n: replace(p, sealed=moved(p.sealed)) for n, p in state.named_parts.items()}
    return replace(state, model=model, sealed=moved(state.sealed), named_parts=named).resummed()


def _summed(states: list[State], base: State | None) -> State:
    """The sum of all models. They share components of the base, all others stay separate."""
    shared = 0 if base is None else base.next_id
    next_id = max(shared, states[0].next_id)
    named: list[Signed] = []
    for number, state in enumerate(states):
        ids = state.total.ids
        new = ids >= shared
        if number > 0:
            ids = np.where(new, next_id + np.cumsum(new) - 1, ids)
            next_id += int(new.sum())
        named.append((ids, state, 1))
    if base is not None:
        _check_kept(base.total.ids, [ids for ids, _, _ in named])
        named += [(base.total.ids, base, -1)] * (len(states) - 1)
    every = np.unique(np.concatenate([ids for ids, _, _ in named]))
    sealed = _placed(every, [(ids, state.sealed, sign) for ids, state, sign in named])
    first = states[0]
    clock = max(state.clock for state in states)
    empty = State.empty(first.model, first.seed)
    whole = replace(empty, sealed=sealed, total=sealed.stats, next_id=next_id, clock=clock)
    return replace(whole, named_parts=_named_parts(every, named)).pruned().reordered()


def _named_parts(every: IntVec, named: list[Signed]) -> dict[int | str, NamedPart]:
    """Parts by name. Those of the same name become one, as in `partial_fit`."""
    found: dict[int | str, NamedPart] = {}
    for name in dict.fromkeys(name for _, state, _ in named for name in state.named_parts):
        holders = [
            (ids, state.named_parts[name], sign)
            for ids, state, sign in named
            if name in state.named_parts
        ]
        n_rows = sum(sign * part.n_rows for _, part, sign in holders)
        if n_rows < 0:
            raise ValueError(
                f"merge cannot count the base once: batch {name!r} was forgotten in more than one "
                "of the models. Merge without a base."
            )
        if n_rows:
            whole = _placed(every, [(ids, part.sealed, sign) for ids, part, sign in holders])
            found[name] = NamedPart(whole, n_rows)
    return found


def _check_kept(ids: IntVec, models: list[IntVec]) -> None:
    """Refuse a base of which two models have lost the same component."""
    missing = np.sum([~np.isin(ids, own) for own in models], axis=0)
    if (missing > 1).any():
        raise ValueError(
            f"merge cannot count the base once: component {ids[missing > 1][0]} was merged or "
            "deleted in more than one of the models. Merge without a base, or learn the shards "
            "with moves=('birth',)."
        )


def _placed(every: IntVec, named: list[tuple[IntVec, Sealed, int]]) -> Sealed:
    """The signed sum of statistics and losses, each at the places of its ids."""
    width = named[0][1].stats.t.shape[1]
    whole, loss = Stats.zeros(every, width), np.zeros((len(every), len(every)))
    for ids, part, sign in named:
        at = np.searchsorted(every, ids)
        own = part.stats
        n, t, h = whole.n.copy(), whole.t.copy(), whole.h.copy()
        n[at] += sign * own.n
        t[at] += sign * own.t
        h[at] += sign * own.h
        whole = Stats(every, n, t, h, whole.base + sign * own.base)
        loss[np.ix_(at, at)] += sign * part.pair_loss
    if (whole.n < -_ROUNDING * max(1.0, float(whole.n.sum()))).any():
        raise ValueError(
            "merge needs a 'base' that all models began as copies of. These have fewer rows in "
            f"component {every[np.argmin(whole.n)]} than the base has. Merge without a base."
        )
    clean: Mat = np.maximum(loss, 0.0)
    return Sealed(replace(whole, n=np.maximum(whole.n, 0.0)), clean)


def _match_components(state: State, most: int) -> tuple[State, tuple[MoveRecord, ...]]:
    """Merge components while that raises the bound, best first.

    Models learned different rows, so merging their components loses no entropy. If more than `most`
    components are left, those whose merge costs least are merged too.
    """
    records: list[MoveRecord] = []
    while True:
        pairs, room = promising_pairs(state.model, state.total, _PAIRS), len(state.total)
        margin = _MARGIN * abs(state.bound())
        state, joined = _merge_pairs(state, pairs, margin, room)
        if not joined and len(state.total) > most:
            ids = state.total.ids
            every = np.stack([ids[side] for side in np.triu_indices(len(ids), 1)], axis=1)
            state, joined = _merge_pairs(state, every, -np.inf, len(ids) - most)
        records += joined
        if not joined:
            return state.reordered(), tuple(records)


def _merge_pairs(
    state: State, pairs: NDArray[np.int64], margin: float, room: int
) -> tuple[State, list[MoveRecord]]:
    """The state after the best merges of these pairs, at most `room`, and their records."""
    losses = state.sealed.losses(pairs)
    judged = judge_pairs(state.model, state.total, pairs, losses, margin)
    records = []
    for pair in [pair for pair in judged if pair.accepted][:room]:
        state = state.edited(Merge(pair.keep, pair.drop, 0.0))
        records.append(MoveRecord("merge", (pair.drop,), (pair.keep,), pair.gain, True))
    return state, records
