"""A lifelong topic model as JSON and arrays, and back again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from everlearn.clumps.items import Items
from everlearn.clumps.model import GroupedModel, Topics
from everlearn.clumps.state import ClumpedState, Past
from everlearn.core.families.base import Family
from everlearn.core.families.multinomial import Multinomial
from everlearn.core.priors.learned_dirichlet import LearnedDirichlet
from everlearn.core.stats import Stats
from everlearn.errors import CheckpointError
from everlearn.estimator.schemas import FARTHEST, check_stats, pack_family, unpack_family
from everlearn.store.schema import Arrays, entry, member, require

STATE_KEYS = (
    "family",
    "alpha_rate",
    "price",
    "entropy",
    "base",
    "n_points",
    "n_documents",
    "n_epochs",
    "next_id",
    "compression_loss",
)
_CLOSE = 1e-6
_MOST = 2**53


def pack_state(state: ClumpedState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The state as a header and arrays."""
    family, arrays = pack_family(state.model.family)
    topics, clumps = state.topics, state.past.clumps
    arrays |= {
        "topics/ids": topics.ids,
        "topics/n": topics.n,
        "topics/t": topics.t,
        "topics/counts": topics.counts,
        "topics/alpha": topics.alpha,
        "groups/sizes": state.sizes,
        "groups/ids": state.group_ids,
        "clumps/features": clumps.features,
        "clumps/mass": clumps.mass,
        "clumps/starts": clumps.starts,
        "clumps/groups": clumps.groups,
        "clumps/counts": clumps.counts,
        "singles/X": state.past.singles,
        "singles/groups": state.past.single_groups,
    }
    if state.document_groups is not None:
        arrays["groups/documents"] = state.document_groups
    header = {
        "family": family,
        "alpha_rate": state.model.dirichlet.rate,
        "price": state.price,
        "entropy": topics.entropy,
        "base": state.base,
        "n_points": state.n_points,
        "n_documents": state.n_documents,
        "n_epochs": state.n_epochs,
        "next_id": state.next_id,
        "compression_loss": state.compression_loss,
    }
    return header, arrays


def unpack_state(header: Mapping[str, Any], arrays: Arrays) -> ClumpedState:
    """Inverse of `pack_state`; whatever could not have been packed is refused."""
    family = unpack_family(header, arrays)
    rate = entry(header, "alpha_rate", float, 1e-300)
    n_documents = entry(header, "n_documents", int, 1, _MOST)
    next_id = entry(header, "next_id", int, 1, 2**62)
    sizes, group_ids = _groups(arrays, n_documents)
    topics = _topics(header, arrays, family, len(sizes), next_id)
    past = _past(arrays, family, len(sizes))
    state = ClumpedState(
        GroupedModel(family, LearnedDirichlet(rate)),
        entry(header, "price", float, 0.0),
        topics,
        past,
        sizes,
        group_ids,
        _document_groups(arrays, sizes, group_ids),
        entry(header, "base", float),
        entry(header, "n_points", int, 1, _MOST),
        n_documents,
        entry(header, "n_epochs", int, 1, _MOST),
        next_id,
        entry(header, "compression_loss", float),
    )
    if unknown := sorted(set(arrays) - set(pack_state(state)[1])):
        raise CheckpointError(f"member {unknown[0]!r} belongs to nothing in the header")
    _check_sums(state)
    return state


def _groups(arrays: Arrays, n_documents: int) -> tuple[NDArray[Any], NDArray[Any]]:
    sizes = member(arrays, "groups/sizes", (None,), "float64")
    whole = len(sizes) > 0 and (sizes >= 1).all() and (sizes == np.floor(sizes)).all()
    require(whole and sizes.sum() == n_documents, "groups/sizes", "documents in each group")
    ids = member(arrays, "groups/ids", sizes.shape, "int64")
    sound = (np.diff(ids) > 0).all() and ids[0] >= 0 and ids[-1] < n_documents
    require(sound, "groups/ids", "ascending numbers of documents")
    return sizes, ids


def _document_groups(arrays: Arrays, sizes: NDArray[Any], ids: NDArray[Any]) -> NDArray[Any] | None:
    """The group of each document, which files have if that was wanted."""
    if "groups/documents" not in arrays:
        return None
    groups = member(arrays, "groups/documents", (int(sizes.sum()),), "int32")
    inside = groups.min() >= 0 and groups.max() < len(sizes)
    require(inside, "groups/documents", f"positions of {len(sizes)} groups")
    sound = (np.bincount(groups, minlength=len(sizes)) == sizes).all()
    sound = sound and (np.unique(groups, return_index=True)[1] == ids).all()
    require(sound, "groups/documents", "the group of each document, as 'groups/ids' has them")
    return groups


def _topics(
    header: Mapping[str, Any], arrays: Arrays, family: Family[Any], n_groups: int, next_id: int
) -> Topics:
    ids = member(arrays, "topics/ids", (None,), "int64")
    k = len(ids)
    distinct = k > 0 and len(np.unique(ids)) == k and ids.min() >= 0 and ids.max() < next_id
    require(distinct, "topics/ids", f"distinct ids below {next_id}")
    n = member(arrays, "topics/n", (k,), "float64")
    t = member(arrays, "topics/t", (k, family.n_stats), "float64")
    counts = member(arrays, "topics/counts", (n_groups, k), "float64")
    alpha = member(arrays, "topics/alpha", (k,), "float64")
    require((alpha > 0).all(), "topics/alpha", "positive")
    require((n >= 0).all() and (counts >= 0).all(), "topics/counts", "not negative")
    near = np.abs(counts.sum(axis=0) - n) <= _CLOSE * (1.0 + n)
    require(near.all(), "topics/counts", "the points of each topic, by group")
    entropy = entry(header, "entropy", float, -_CLOSE, 1e300)
    return Topics(ids, n, t, counts, alpha, entropy)


def _past(arrays: Arrays, family: Family[Any], n_groups: int) -> Past:
    features = member(arrays, "clumps/features", (None, family.n_stats), "float64")
    mass = member(arrays, "clumps/mass", (len(features),), "float64")
    starts = member(arrays, "clumps/starts", (len(features) + 1,), "int64")
    groups = member(arrays, "clumps/groups", (None,), "int32")
    counts = member(arrays, "clumps/counts", groups.shape, "float64")
    ordered = starts[0] == 0 and (np.diff(starts) > 0).all() and starts[-1] == len(groups)
    require(ordered, "clumps/starts", "where the groups of each clump begin")
    require((counts > 0).all(), "clumps/counts", "positive")
    if len(mass):
        near = np.abs(np.add.reduceat(counts, starts[:-1]) - mass) <= _CLOSE * mass
        require(near.all(), "clumps/mass", "the points of each clump")
    singles = member(arrays, "singles/X", (None, family.n_features), "float64")
    own = member(arrays, "singles/groups", (len(singles),), "int32")
    for name, positions in (("clumps/groups", groups), ("singles/groups", own)):
        inside = not len(positions) or (positions.min() >= 0 and positions.max() < n_groups)
        require(inside, name, f"positions of {n_groups} groups")
    least = 0.0 if isinstance(family, Multinomial) else -FARTHEST
    near_zero = ((singles >= least) & (singles <= FARTHEST)).all()
    require(near_zero, "singles/X", f"within {least:g} and {FARTHEST:g}")
    return Past(Items(features, mass, starts, groups, counts), singles, own)


def _check_sums(state: ClumpedState) -> None:
    """Refuse parts that do not belong together: all tell of the same points."""
    past, topics = state.past, state.topics
    seen = float(past.clumps.mass.sum()) + len(past.singles)
    require(abs(seen - state.n_points) <= _CLOSE * seen, "clumps/mass", "all points seen")
    require(abs(topics.n.sum() - seen) <= _CLOSE * seen, "topics/n", "the points kept")
    per_group = np.bincount(past.single_groups, minlength=len(state.sizes)).astype(np.float64)
    per_group += np.bincount(past.clumps.groups, past.clumps.counts, len(state.sizes))
    near = np.abs(topics.counts.sum(axis=1) - per_group) <= _CLOSE * (1.0 + per_group)
    require(near.all(), "topics/counts", "the points of each group")
    most = state.n_points * np.log(max(len(topics), 2)) * (1 + _CLOSE)
    if topics.entropy > most:
        raise CheckpointError(f"the header's 'entropy' must be at most {most:g}")
    # No step of alpha gives more, and joins leave the sum as it is.
    most = max(1.0, seen / state.model.dirichlet.rate) * (1 + _CLOSE)
    require(topics.alpha.sum() <= most, "topics/alpha", f"at most {most:g} in sum")
    _check_features(state)
    stats = Stats(topics.ids, topics.n, topics.t, np.full(len(topics), 0.0), state.base)
    check_stats(state.model.family, stats, "topics")


def _check_features(state: ClumpedState) -> None:
    """Refuse clumps and points whose features are not those that the topics have in sum."""
    items = state.past.items(state.model)
    kept, size = items.mass @ items.features, items.mass @ np.abs(items.features)
    near = np.abs(state.topics.t.sum(axis=0) - kept) <= _CLOSE * size + 1e-300
    require(near.all(), "clumps/features", "with the single points, what 'topics/t' has in sum")
