"""Planted topics are found again, on nine seeds of ten, from all points or a bounded stream."""

from typing import Any

import numpy as np
import pytest

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.errors import ForcedJoinWarning

SEEDS = range(10)
N_TOPICS = 6


def planted(family: str, seed: int, count: int, points: int) -> tuple[list[Any], list[Any]]:
    """Documents of two or three of six topics, eight standard deviations apart and more."""
    rng = np.random.default_rng([seed, 17])
    if family == "multinomial":
        centres = 0.97 * np.eye(N_TOPICS) + 0.03 / N_TOPICS
    else:
        centres = np.empty((0, 3))
        while len(centres) < N_TOPICS:
            new = rng.uniform(-15.0, 15.0, (1, 3))
            if len(centres) == 0 or np.linalg.norm(centres - new, axis=1).min() > 8.0:
                centres = np.concatenate([centres, new])
    parts, labels = [], []
    for j in range(count):
        used = [(j + i) % N_TOPICS for i in range(2)] if j < N_TOPICS else rng.choice(
            N_TOPICS, rng.integers(2, 4), replace=False)  # fmt: skip
        z = rng.choice(used, points)
        if family == "multinomial":
            parts.append(np.array([rng.multinomial(12, centres[k]) for k in z], float))
        else:
            parts.append(rng.normal(centres[z], 1.0))
        labels.append(z)
    return parts, labels


def found(model: ClumpedTopicModel, parts: list[Any], labels: list[Any]) -> bool:
    """Whether topics and planted topics are the same partition of all points."""
    own, z = np.concatenate(model.assign(parts)), np.concatenate(labels)
    pairs = set(zip(own.tolist(), z.tolist(), strict=True))
    return model.n_components_ == len(set(z.tolist())) == len(pairs)


def successes(family: str, *, stream: bool, **params: Any) -> int:
    right = 0
    for seed in SEEDS:
        parts, labels = planted(family, seed, 30, 40)
        model = ClumpedTopicModel(family=family, engine="serial", batch_size=5, **params)
        if stream:
            for start in range(0, 30, 5):
                model.partial_fit(parts[start : start + 5])
        else:
            model.set_params(batch_size=None).fit(parts)
        right += found(model, parts, labels)
    return right


@pytest.mark.parametrize("family", ["full", "diagonal", "multinomial"])
def test_planted_topics_are_found_from_all_points(family: str) -> None:
    assert successes(family, stream=False, memory_budget=None, max_clumps=None) >= 9


@pytest.mark.parametrize("family", ["full", "diagonal", "multinomial"])
def test_planted_topics_are_found_in_a_stream_under_a_small_budget(family: str) -> None:
    """8 kB for 1,200 points, which take 28.8 kB or twice as much."""
    assert successes(family, stream=True, memory_budget="8kB", max_groups=10) >= 9


@pytest.mark.slow
@pytest.mark.parametrize("params", [{"max_clumps": 24}, {"options": {"group_merge": "free-energy"}},
                                    {"expected_points": 1e6}])  # fmt: skip
def test_planted_topics_are_found_whatever_the_limits(params: dict[str, Any]) -> None:
    limits = {"memory_budget": "8kB", "max_groups": 6} | params
    assert successes("full", stream=True, **limits) >= 9


def test_documents_are_merged_by_their_topics() -> None:
    """Documents of two kinds that share nothing end in groups of one kind each."""
    rng = np.random.default_rng(0)
    kinds = rng.integers(2, size=24)
    parts = [rng.normal([20.0 * kind, 6.0 * rng.integers(2)], 1.0, (30, 2)) for kind in kinds]
    for criterion in ("cosine", "free-energy"):
        model = ClumpedTopicModel(engine="serial", max_groups=8, options={"group_merge": criterion})
        model.partial_fit(parts)
        counts = model._learned.state.topics.counts
        far = model.means_[:, 0] > 10.0
        shares = counts[:, far].sum(axis=1) / counts.sum(axis=1)
        assert (np.minimum(shares, 1.0 - shares) < 0.01).all()


def test_a_budget_that_is_far_too_small_still_gives_the_coarse_picture() -> None:
    parts, _ = planted("full", 0, 20, 40)
    model = ClumpedTopicModel(engine="serial", batch_size=5, max_clumps=3)
    with pytest.warns(ForcedJoinWarning):
        model.partial_fit(parts)
    assert 1 < model.n_components_ <= 3
    one = ClumpedTopicModel(engine="serial", options={"max_topics": 1}).fit(parts)
    assert model.bound_ > one.bound_
