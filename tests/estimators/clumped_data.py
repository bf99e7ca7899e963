"""Documents made of points for the tests of `ClumpedTopicModel`, and what a model is made of."""

from typing import Any

import numpy as np
from numpy.testing import assert_array_equal
from numpy.typing import NDArray

from everlearn.estimators.clumped import ClumpedTopicModel

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
