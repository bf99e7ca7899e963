"""Mixtures that were learned apart become one: statistics add, components are matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.families import DiagGaussian, FullGaussian
from everlearn.core.families.recentred import recentred
from everlearn.core.mixture import Mixture
from everlearn.core.stats import Merge, Stats
from everlearn.estimators.mixture_families import allow_missing
from everlearn.estimators.mixture_learning import Learned
from everlearn.estimators.mixture_workshop import mixture_step
from everlearn.inference.learners.memoized import LapInfo, MoveRecord
from everlearn.inference.learners.streaming import seal_all
from everlearn.inference.local.runner import LocalRunner
from everlearn.inference.moves.merge import judge_pairs, promising_pairs
from everlearn.inference.state import Sealed, State
from everlearn.runtime.engine import open_engine

_MARGIN = 1e-9
_PAIRS = 10_000


def merged_mixtures(models: Sequence[Any], base: Any) -> Learned:
    """What is known from the rows of all models, those of the base counted once."""
    first = models[0]
    if first.learner != "memoized":
        raise ValueError(
            "merge can join DPMixture only with learner='memoized': what others keep is no sum "
            f"over rows. Got {first.learner!r}."
        )
    if base is not None and base._learned.state.batches:
        raise ValueError(
            "merge needs a base without open rows, such as one that was learned with fit: open "
            f"rows may be assigned anew. Got {base._learned.state.n_open:,} of them."
        )
    if base is not None:
        for position, model in enumerate(models):
            _check_descent(position, model._learned.state, base._learned.state)
    every = [*models, *([] if base is None else [base])]
    states = _alike([_sealed(model) for model in every])
    ancestor = None if base is None else states.pop()
    state = _summed(states, ancestor)
    state, records = _matched(state)
    learned: list[Learned] = [model._learned for model in models]
    again = 0 if base is None else (len(models) - 1) * base._learned.n_rows
    info = LapInfo(
        state.clock, state.bound(), len(state.total), float(state.total.n.sum()), records, False
    )
    return replace(
        learned[0],
        state=state,
        history=learned[0].history.after(info),
        n_rows=sum(x.n_rows for x in learned) - again,
        settled=False,
    )


def _check_descent(position: int, state: State, base: State) -> None:
    """Refuse a base that a model cannot have begun as: a copy keeps seed, prior and origin."""
    own: Any = state.model.family
    first: Any = base.model.family
    alike = type(own) is type(first) and state.seed == base.seed and state.next_id >= base.next_id
    names = [f.name for f in fields(first.prior)] if alike else []
    pairs = [(getattr(own.prior, name), getattr(first.prior, name)) for name in names]
    pairs.append((getattr(own, "origin", None), getattr(first, "origin", None)))
    if not alike or not all(np.array_equal(one, other) for one, other in pairs):
        raise ValueError(
            f"merge needs a 'base' that all models began as copies of. Model {position} did not: "
            "its family, prior, origin or seed are others. Merge without a base."
        )


def _sealed(model: Any) -> State:
    """The state of a model after its open rows have been visited a last time."""
    state = model._learned.state
    with open_engine("serial") as engine:
        sealed = seal_all(state, LocalRunner(mixture_step(model, state.model), engine))
    return replace(sealed, memos={}, birth_trials={}, delete_trials={})


def _alike(states: list[State]) -> list[State]:
    """States whose statistics are about the origin of the first, of the same features."""
    family: Any = states[0].model.family
    for state in states[1:]:
        if state.model.family.n_features != family.n_features:
            raise ValueError(
                f"merge needs models of rows of the same width. Got {family.n_features} and "
                f"{state.model.family.n_features} features."
            )
    if any(getattr(state.model.family, "missing", False) for state in states):
        states = [allow_missing(state) for state in states]
    model = states[0].model
    return [_moved(state, model) for state in states]


def _moved(state: State, model: Mixture) -> State:
    family: Any = state.model.family
    stats = state.sealed.stats
    if isinstance(family, (DiagGaussian, FullGaussian)):
        target: Any = model.family
        stats = recentred(family, stats, target.origin)
    return replace(state, model=model, sealed=replace(state.sealed, stats=stats)).resummed()


def _summed(states: list[State], base: State | None) -> State:
    """All components side by side; those that the base has are one in all models."""
    shared = 0 if base is None else base.next_id
    next_id = max(shared, states[0].next_id)
    named = []
    for number, state in enumerate(states):
        ids = state.total.ids
        new = ids >= shared
        if number > 0:
            ids = np.where(new, next_id + np.cumsum(new) - 1, ids)
            next_id += int(new.sum())
        named.append((ids, state.sealed))
    if base is not None:
        _check_kept(base.total.ids, [ids for ids, _ in named])
        named += [(base.total.ids, base.sealed)] * (len(states) - 1)
    signs = [1.0] * len(states) + [-1.0] * (len(named) - len(states))
    every = np.unique(np.concatenate([ids for ids, _ in named]))
    sealed = _placed(every, named, signs)
    first = states[0]
    clock = max(state.clock for state in states)
    empty = State.empty(first.model, first.seed)
    whole = replace(empty, sealed=sealed, total=sealed.stats, next_id=next_id, clock=clock)
    return whole.pruned().reordered()


def _check_kept(ids: IntVec, models: list[IntVec]) -> None:
    """Refuse if two models have lost the same component of the base: where it went is not known."""
    missing = np.sum([~np.isin(ids, own) for own in models], axis=0)
    if (missing > 1).any():
        raise ValueError(
            f"merge cannot count the base once: component {ids[missing > 1][0]} was merged or "
            "deleted in more than one of the models. Merge without a base, or learn the shards "
            "with moves=('birth',)."
        )


def _placed(every: IntVec, named: list[tuple[IntVec, Sealed]], signs: list[float]) -> Sealed:
    """The sum of statistics and losses, each at the places of its ids; rounding aside positive."""
    width = named[0][1].stats.t.shape[1]
    whole, loss = Stats.zeros(every, width), np.zeros((len(every), len(every)))
    for (ids, part), sign in zip(named, signs, strict=True):
        at = np.searchsorted(every, ids)
        own = part.stats
        n, t, h = whole.n.copy(), whole.t.copy(), whole.h.copy()
        n[at] += sign * own.n
        t[at] += sign * own.t
        h[at] += sign * own.h
        whole = Stats(every, n, t, h, whole.base + sign * own.base)
        loss[np.ix_(at, at)] += sign * part.pair_loss
    clean: Mat = np.maximum(loss, 0.0)
    return Sealed(replace(whole, n=np.maximum(whole.n, 0.0)), clean)


def _matched(state: State) -> tuple[State, tuple[MoveRecord, ...]]:
    """Components that explain their rows better as one are made one, best first.

    Rows of different models are different rows, so that no entropy is lost between them.
    """
    records: list[MoveRecord] = []
    while True:
        pairs = promising_pairs(state.model, state.total, _PAIRS)
        losses = state.sealed.losses(pairs)
        margin = _MARGIN * abs(state.bound())
        accepted = [
            pair
            for pair in judge_pairs(state.model, state.total, pairs, losses, margin)
            if pair.accepted
        ]
        for pair in accepted:
            state = state.edited(Merge(pair.keep, pair.drop, 0.0))
            records.append(MoveRecord("merge", (pair.drop,), (pair.keep,), pair.gain, True))
        if not accepted:
            return state.reordered(), tuple(records)
