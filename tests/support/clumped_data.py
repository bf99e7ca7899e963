"""Documents made of points for the tests of `ClumpedTopicModel`, and what a model is made of."""

import warnings
from typing import Any

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from numpy.typing import NDArray

from everlearn.clumps import budget
from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.clumps.settings import ClumpSettings
from everlearn.errors import ForcedJoinWarning

FAMILIES = ("full", "diagonal", "multinomial")
WIDTH = 3
N_TOPICS = 6
BYTES = frozenset({"clumps", "single points", "topics", "groups", "documents", "prior"})
"""What `memory_report` adds up."""


def centres_of(family: str, seed: int = 0, width: int = WIDTH) -> NDArray[np.float64]:
    """Topics far apart: places, or shares of symbols."""
    rng = np.random.default_rng([seed, 1])
    if family == "multinomial":
        return 0.02 / width + 0.98 * np.eye(width)[np.arange(N_TOPICS) % width]
    corners = rng.permutation(2**width)[:N_TOPICS]
    return 20.0 * ((corners[:, None] >> np.arange(width)) & 1) + rng.normal(size=(N_TOPICS, width))


def documents(
    family: str, count: int, seed: int = 0, points: int = 40, width: int = WIDTH, topics: int = 3
) -> tuple[list[NDArray[np.float64]], list[NDArray[np.int64]]]:
    """Documents of two or three topics each, and the topic of each point."""
    rng = np.random.default_rng([seed, 2])
    centres = centres_of(family, 0, width)
    parts, labels = [], []
    for _ in range(count):
        used = rng.choice(N_TOPICS, rng.integers(2, topics + 1), replace=False)
        z = rng.choice(used, points)
        if family == "multinomial":
            parts.append(np.array([rng.multinomial(20, centres[k]) for k in z], float))
        else:
            parts.append(rng.normal(centres[z], 1.0))
        labels.append(z)
    return parts, labels


def model_of(family: str = "full", **params: Any) -> ClumpedTopicModel:
    return ClumpedTopicModel(**{"family": family, "engine": "serial", "batch_size": 4} | params)


def taught(family: str = "full", count: int = 8, seed: int = 0, **params: Any) -> ClumpedTopicModel:
    return model_of(family, **params).partial_fit(documents(family, count, seed)[0])


def content(model: ClumpedTopicModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    header, arrays = model.to_checkpoint()
    return header, {name: a.copy() for name, a in arrays.items()}


def bytes_in_file(model: Any) -> int:
    """Bytes of all arrays in a file but those of the history."""
    arrays = model.to_checkpoint()[1]
    return sum(a.nbytes for name, a in arrays.items() if name.startswith("learned/state/"))


def settings_of(**params: Any) -> ClumpSettings:
    """The settings of a model without limits, unless parameters say so."""
    free: dict[str, Any] = {"memory_budget": None, "max_clumps": None}
    return ClumpedTopicModel(**{**free, **params})._settings()


def assert_same(one: Any, two: Any) -> None:
    """The same models, to the bit."""
    assert one[0] == two[0]
    assert one[1].keys() == two[1].keys()
    for name, array in one[1].items():
        assert array.dtype == two[1][name].dtype, name
        assert_array_equal(array, two[1][name], err_msg=name)


def sums_of(model: ClumpedTopicModel) -> tuple[NDArray[Any], NDArray[Any], int]:
    """Feature sums of everything kept, points of each group, and documents."""
    state = model._learned.state
    items = state.past.items(state.model)
    per_group = np.bincount(items.groups, items.counts, len(state.sizes))
    return items.mass @ items.features, per_group, int(state.sizes.sum())


def learn(model: Any, parts: Any) -> Any:
    """Learn, whether topics have to be joined or not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForcedJoinWarning)
        return model.partial_fit(parts)


def limit(model: Any, **params: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ForcedJoinWarning)
        return model.set_params(**params)


def assert_within_limits(model: Any) -> None:
    """Bytes as reported, as added up, and as they are in a file; items and groups."""
    report = model.memory_report()
    assert report["total"] == sum(report[name] for name in BYTES)
    assert report["total"] == bytes_in_file(model)
    if report["budget"] is not None:
        assert report["total"] <= report["budget"]
    n_items = report["n_clumps"] + report["n_single_points"]
    if isinstance(model.max_clumps, int):
        assert n_items <= model.max_clumps
    elif model.max_clumps == "auto":
        assert n_items <= max(budget.AUTO_ITEMS, 2 * model.n_components_)
    if model.max_groups is not None:
        assert report["n_groups"] <= model.max_groups


def assert_conserved(model: Any, parts: list[Any]) -> None:
    """Counts exactly, moments to 1e-12: whatever was seen is still there."""
    features = model._learned.state.model.family.features(np.concatenate(parts))
    t, per_group, n_documents = sums_of(model)
    scale = np.abs(features).sum(axis=0)
    assert (np.abs(t - features.sum(axis=0)) <= 1e-12 * scale).all()
    assert n_documents == len(parts) == model.n_samples_seen_
    assert per_group.sum() == sum(map(len, parts)) == model.n_points_seen_
    assert_array_equal(per_group, len(parts[0]) * model.group_sizes_)  # documents of one size
    state = model._learned.state
    assert_allclose(state.topics.counts.sum(axis=1), per_group, rtol=1e-12)
    assert_allclose(state.topics.t.sum(axis=0), t, rtol=1e-9, atol=1e-9 * scale.max())
    starts = state.past.clumps.starts
    if len(starts) > 1:
        entries = np.add.reduceat(state.past.clumps.counts, starts[:-1])
        assert_array_equal(entries, state.past.clumps.mass)
