"""Checkpoint schema of a `ClumpedTopicModel`: what a file must contain."""

from __future__ import annotations

from typing import Final

import numpy as np

from everlearn.clumps.budget import KeepLimits
from everlearn.clumps.fit import ClumpedFit
from everlearn.clumps.items import Items
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.clumps.state import ClumpedState, Past
from everlearn.core.families.gaussian_diag import DiagGaussian
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.learned_dirichlet import LearnedDirichlet
from everlearn.core.stats import Stats
from everlearn.estimator.families import PRIOR_KEYS
from everlearn.estimator.schemas import FAMILY, HISTORY, LARGEST_ENTRY, check_stats
from everlearn.store.schema import (
    Array,
    Converted,
    Many,
    OneOf,
    Optional,
    Record,
    Scalar,
    expect,
)

_FAMILIES: Final = ("full", "diagonal", "multinomial")
_TOLERANCE: Final = 1e-6
"""Relative tolerance between sums over clumps, topics and groups."""
_MAX_COUNT: Final = 2**53


def _check_items(items: Items, place: str) -> None:
    starts, mass = items.starts, items.mass
    ordered = starts[0] == 0 and (np.diff(starts) > 0).all() and starts[-1] == len(items.groups)
    ordered = ordered and len(starts) == len(mass) + 1
    expect(ordered, f"{place}/starts", "where the groups of each clump begin, and their end")
    if len(mass):
        near = np.abs(np.add.reduceat(items.counts, starts[:-1]) - mass) <= _TOLERANCE * mass
        expect(near.all(), f"{place}/mass", "the sum of the clump's 'counts'")


def _check_topics(topics: Topics, place: str) -> None:
    ascending = len(topics) > 0 and (np.diff(topics.ids) > 0).all()
    expect(ascending, f"{place}/ids", "ascending, and at least one")
    near = np.abs(topics.counts.sum(axis=0) - topics.n) <= _TOLERANCE * (1.0 + topics.n)
    expect(near.all(), f"{place}/counts", "the points of each topic, by group")


def _check_state(state: ClumpedState, place: str) -> None:
    family = state.model.family
    missing = isinstance(family, DiagGaussian) and family.missing
    expect(not missing, f"{place}/model/family/missing", "false")
    below = (state.topics.ids < state.next_id).all()
    expect(below, f"{place}/topics/ids", f"below 'next_id', {state.next_id}")
    if isinstance(family, Multinomial):
        expect((state.past.singles >= 0).all(), f"{place}/past/singles", "counts")
    _check_groups(state, place)
    _check_sums(state, place)
    topics = state.topics
    stats = Stats(topics.ids, topics.n, topics.t, np.zeros(len(topics)), state.base)
    check_stats(family, stats, f"{place}/topics")


def _check_groups(state: ClumpedState, place: str) -> None:
    sizes, ids, n_groups = state.sizes, state.group_ids, len(state.sizes)
    whole = n_groups > 0 and (sizes == np.floor(sizes)).all()
    sound = whole and sizes.sum() == state.n_documents
    expect(sound, f"{place}/sizes", f"whole numbers with the sum {state.n_documents}")
    sound = (np.diff(ids) > 0).all() and ids[-1] < state.n_documents
    expect(sound, f"{place}/group_ids", "ascending numbers of documents")
    for name, positions in (
        ("clumps/groups", state.past.clumps.groups),
        ("single_groups", state.past.single_groups),
    ):
        expect((positions < n_groups).all(), f"{place}/past/{name}", f"below {n_groups}")
    documents = state.document_groups
    if documents is not None:
        right = len(documents) == state.n_documents and documents.max() < n_groups
        right = right and (np.bincount(documents, minlength=n_groups) == sizes).all()
        right = right and (np.unique(documents, return_index=True)[1] == ids).all()
        expect(right, f"{place}/document_groups", "in agreement with 'sizes' and 'group_ids'")


def _check_sums(state: ClumpedState, place: str) -> None:
    """Refuse clumps, topics and groups whose sums over points differ."""
    past, topics, n_groups = state.past, state.topics, len(state.sizes)
    n_points = float(past.clumps.mass.sum()) + len(past.singles)
    near = abs(n_points - state.n_points) <= _TOLERANCE * n_points
    expect(near, f"{place}/past/clumps/mass", f"{state.n_points} in sum, with the single points")
    near = abs(topics.n.sum() - n_points) <= _TOLERANCE * n_points
    expect(near, f"{place}/topics/n", f"{n_points:g} in sum")
    per_group = np.bincount(past.single_groups, minlength=n_groups).astype(np.float64)
    per_group += np.bincount(past.clumps.groups, past.clumps.counts, n_groups)
    gaps = np.abs(topics.counts.sum(axis=1) - per_group)
    near = (gaps <= _TOLERANCE * (1.0 + per_group)).all()
    expect(near, f"{place}/topics/counts", "the points of each group, by topic")
    most = state.n_points * np.log(max(len(topics), 2)) * (1 + _TOLERANCE)
    expect(topics.entropy <= most, f"{place}/topics/entropy", f"at most {most:g}")
    # No update of alpha exceeds this sum, and joining topics does not change it.
    most = max(1.0, n_points / state.model.dirichlet.rate) * (1 + _TOLERANCE)
    expect(topics.alpha.sum() <= most, f"{place}/topics/alpha", f"at most {most:g} in sum")
    items = past.items(state.model)
    sums, size = items.mass @ items.features, items.mass @ np.abs(items.features)
    near = (np.abs(topics.t.sum(axis=0) - sums) <= _TOLERANCE * size + 1e-300).all()
    agree = "equal, with the single points, to 'topics/t' in sum"
    expect(near, f"{place}/past/clumps/features", agree)


_MODEL: Final = Record(
    GroupedModel,
    {
        "family": OneOf({name: FAMILY.kinds[name] for name in _FAMILIES}),
        "dirichlet": Record(LearnedDirichlet, {"rate": Scalar(float, 1e-300)}),
    },
)
_TOPICS: Final = Record(
    Topics,
    {
        "ids": Array("K", dtypes=("int64",), low=0, high=2**62),
        "n": Array("K", low=0),
        "t": Array("K", "S"),
        "counts": Array("groups", "K", low=0),
        "alpha": Array("K", low=1e-300),
        "entropy": Scalar(float, -_TOLERANCE),
    },
    _check_topics,
)
_CLUMPS: Final = Record(
    Items,
    {
        "features": Array("clumps", "S"),
        "mass": Array("clumps", low=1),
        "starts": Array("starts", dtypes=("int64",), low=0, high=_MAX_COUNT),
        "groups": Array("entries", dtypes=("int32",), low=0, high=2**31),
        "counts": Array("entries", low=1e-300),
    },
    _check_items,
)
_PAST: Final = Record(
    Past,
    {
        "clumps": _CLUMPS,
        "singles": Array("singles", "D", low=-LARGEST_ENTRY, high=LARGEST_ENTRY),
        "single_groups": Array("singles", dtypes=("int32",), low=0, high=2**31),
    },
)
_COUNT: Final = Scalar(int, 1, _MAX_COUNT)
_STATE: Final = Record(
    ClumpedState,
    {
        "model": _MODEL,
        "price": Scalar(float, 0),
        "topics": _TOPICS,
        "past": _PAST,
        "sizes": Array("groups", low=1, high=_MAX_COUNT),
        "group_ids": Array("groups", dtypes=("int64",), low=0, high=_MAX_COUNT),
        "document_groups": Optional(Array("documents", dtypes=("int32",), low=0, high=2**31)),
        "base": Scalar(float),
        "n_points": _COUNT,
        "n_documents": _COUNT,
        "n_epochs": _COUNT,
        "next_id": Scalar(int, 1, 2**62),
        "compression_loss": Scalar(float),
    },
    _check_state,
)


def _limit(least: float) -> Converted:
    """A limit that may be infinite, which is null in the file."""
    return Converted(
        Optional(Scalar(float, least)),
        save=lambda limit: None if np.isinf(limit) else limit,
        restore=lambda saved: np.inf if saved is None else saved,
    )


_LIMITS: Final = Record(
    KeepLimits,
    {
        "max_bytes": _limit(1),
        "max_items": _limit(2),
        "max_groups": _limit(1),
        "auto_items": Scalar(bool),
    },
)
_PRIOR_ENTRIES: Final = tuple(sorted({key for name in _FAMILIES for key in PRIOR_KEYS[name]}))
CLUMPED_FIT: Final = Record(
    ClumpedFit,
    {
        "state": _STATE,
        "history": HISTORY,
        "price_rule": Scalar(str, choices=("auto", "number")),
        "given_prior": Many(Scalar(str, choices=_PRIOR_ENTRIES), most=len(_PRIOR_ENTRIES)),
        "limits": _LIMITS,
    },
)
