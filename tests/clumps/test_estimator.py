"""`ClumpedTopicModel` at its edges: odd data, prices, priors, and large documents."""

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import NotFittedError

from everlearn.clumps import epochs as learner
from everlearn.clumps.estimator import ClumpedTopicModel
from support.clumped_data import (
    FAMILIES,
    assert_same,
    content,
    documents,
    model_of,
    taught,
)

every = pytest.mark.parametrize("family", FAMILIES)


@every
@pytest.mark.parametrize("limits", [{}, {"max_clumps": None}, {"max_clumps": 2}])
def test_one_point(family: str, limits: dict[str, Any]) -> None:
    x = np.array([[1.0, 2.0, 0.0]])
    model = model_of(family, **limits).partial_fit(x)
    assert model.n_components_ == model.n_points_seen_ == model.n_samples_seen_ == 1
    assert np.isfinite(model.bound_)
    assert_array_equal(model.transform(x), [[1.0]])
    assert_array_equal(model.assign(x), [0])
    model.partial_fit([x, x + 1.0, x])
    assert model.n_samples_seen_ == 4
    assert np.isfinite(model.score(x))


@every
def test_one_feature(family: str) -> None:
    rng = np.random.default_rng(0)
    parts = [np.abs(np.round(rng.normal(10 * rng.integers(3), 1, (30, 1)))) for _ in range(8)]
    model = model_of(family, max_clumps=20).partial_fit(parts)
    assert model.n_features_in_ == 1
    assert np.isfinite(model.bound_)
    assert_allclose(model.transform(parts).sum(axis=1), 1.0)
    if family != "multinomial":
        assert model.n_components_ == 3


@every
@pytest.mark.parametrize("offset", [0.0, 7.0])
def test_a_constant_column(family: str, offset: float) -> None:
    parts = documents(family, 8)[0]
    for part in parts:
        part[:, 1] = offset
    model = model_of(family, max_clumps=20).partial_fit(parts)
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.score(parts))


@every
@pytest.mark.parametrize("limits", [{"max_clumps": 10}, {"max_clumps": None}])
def test_duplicates(family: str, limits: dict[str, Any]) -> None:
    rows = documents(family, 1)[0][0][:3]
    parts = [np.tile(rows, (15, 1)) for _ in range(6)]
    model = model_of(family, memory_budget="8kB", **limits).partial_fit(parts)
    assert model.n_points_seen_ == 6 * 45
    assert np.isfinite(model.bound_)
    assert len(np.unique(model.assign(parts[0]))) <= 3
    same = model_of(family, **limits).partial_fit([np.tile(rows[:1], (50, 1))] * 4)
    assert same.n_components_ == 1


@every
def test_documents_one_at_a_time(family: str) -> None:
    parts = documents(family, 10)[0]
    model = model_of(family, batch_size=1, max_clumps=40).partial_fit(parts)
    assert len(model.bound_history_) == 10
    whole = model_of(family, batch_size=None, max_clumps=40).partial_fit(parts)
    assert len(whole.bound_history_) == 1
    assert_array_equal(model.group_ids_, whole.group_ids_)


@pytest.mark.parametrize("family", ["full", "diagonal"])
def test_far_from_zero_is_as_good_as_near(family: str) -> None:
    parts = documents(family, 12)[0]
    near = model_of(family, max_clumps=40).partial_fit(parts)
    far = model_of(family, max_clumps=40).partial_fit([part + 1e6 for part in parts])
    assert far.n_components_ == near.n_components_
    assert_allclose(far.bound_, near.bound_, rtol=1e-6)
    assert_allclose(far.means_ - 1e6, near.means_, atol=1e-4)


@pytest.mark.parametrize("family", ["full", "diagonal"])
@pytest.mark.filterwarnings("ignore::everlearn.errors.ForcedJoinWarning")
def test_data_that_move_far_away_later_do_no_harm(family: str) -> None:
    """The origin of the moments is that of the first epoch: digits are lost, soundness is not."""
    parts = documents(family, 12)[0]
    model = model_of(family, max_clumps=40).partial_fit(parts[:4])
    for step in (1e3, 1e5, 1e6):
        model.partial_fit([part + step for part in parts[4:8]])
        assert np.isfinite(model.bound_)
        assert np.isfinite(model.score([parts[8] + step]))
    assert model.n_components_ > 6


def test_units_do_not_matter() -> None:
    parts = documents("full", 8)[0]
    one = model_of().partial_fit(parts)
    for scale in (1e-6, 1e6):
        other = model_of().partial_fit([scale * part for part in parts])
        assert other.n_components_ == one.n_components_
        assert_allclose(other.means_ / scale, one.means_, rtol=1e-3, atol=1e-3)


def test_wide_diagonal_points() -> None:
    rng = np.random.default_rng(0)
    centres = 5.0 * rng.normal(size=(4, 128))
    parts = [rng.normal(centres[rng.integers(4, size=30)], 1.0) for _ in range(8)]
    model = model_of("diagonal", max_clumps=30).partial_fit(parts)
    assert model.n_components_ == 4
    assert np.isfinite(model.bound_)


def test_one_topic_at_most() -> None:
    model = taught(options={"max_topics": 1})
    assert model.n_components_ == 1
    assert_array_equal(model.transform(documents("full", 2)[0]), [[1.0], [1.0]])
    assert np.isfinite(model.score(documents("full", 2)[0]))


@every
def test_free_topics_do_no_harm(family: str) -> None:
    """A price of nothing: all that the bound gains is taken."""
    model = taught(family, topic_price=0.0, max_clumps=200)
    assert np.isfinite(model.bound_)
    assert (model.alpha_ > 0).all()
    assert np.isfinite(model.transform(documents(family, 3, seed=2)[0])).all()


def test_the_price_decides_on_topics() -> None:
    counts = [taught(topic_price=price).n_components_ for price in (1.0, 30.0, 1e5)]
    assert counts[0] >= counts[1] > counts[2] == 1


def test_ids_are_never_used_twice() -> None:
    model, seen, old = model_of(max_clumps=40, topic_price=5.0), set(), set()
    for seed in range(5):
        model.partial_fit(documents("full", 4, seed=seed)[0])
        now = set(model.component_ids_.tolist())
        assert not now & (seen - old)  # what has gone does not come back
        seen |= now
        old = now
        assert max(seen) < model._learned.state.next_id


# First clumps


def large(count: int, points: int, seed: int = 0) -> list[np.ndarray]:
    return documents("full", count, seed, points=points)[0]


def test_large_documents_are_searched_on_first_clumps(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    real = learner.first_clumps

    def spy(model: Any, points: Any, of: Any, most: int) -> Any:
        clumps = real(model, points, of, most)
        used.append((len(points), len(clumps)))
        assert clumps.mass.sum() == len(points)
        gap = clumps.mass @ clumps.features - points.features.sum(axis=0)
        assert (np.abs(gap) <= 1e-12 * np.abs(points.features).sum(axis=0)).all()
        per_document = np.bincount(clumps.groups, clumps.counts)
        assert_array_equal(per_document[-len(np.bincount(of)) :], np.bincount(of))
        return clumps

    monkeypatch.setattr(learner, "first_clumps", spy)
    parts = large(3, 5001)
    model = model_of(options={"first_clumps": 50}, max_clumps=100).partial_fit(parts)
    assert used == [(15_003, 150)]
    assert model.n_components_ == len(set(np.concatenate(documents("full", 3, 0, 5001)[1])))
    assert model.n_points_seen_ == 15_003
    model.partial_fit(large(3, 5000))  # not above 5,000
    assert len(used) == 1
    raw = model_of(options={"first_clumps": 0}, max_clumps=100).partial_fit(parts)
    assert len(used) == 1
    assert raw.n_components_ == model.n_components_
    assert_allclose(
        model_of(options={"first_clumps": 50}, max_clumps=100).fit(parts).bound_,
        raw.bound_,
        rtol=1e-3,
    )


def test_fewer_points_than_first_clumps() -> None:
    parts = [*large(1, 12_000), *large(1, 7, seed=1)]
    model = model_of(options={"first_clumps": 20}).partial_fit(parts)
    assert model.n_points_seen_ == 12_007
    assert model.n_samples_seen_ == 2


# Others


def test_nothing_works_before_a_fit() -> None:
    model, X = ClumpedTopicModel(), np.ones((3, 2))
    for call in (model.transform, model.assign, model.score, model.retrieve, model.document_index):
        with pytest.raises(NotFittedError):
            call(X)
    with pytest.raises(NotFittedError):
        model.memory_report()
    with pytest.raises(NotFittedError):
        model.bound_  # noqa: B018
    model.set_params(max_clumps=5, memory_budget="1kB")


def test_a_prior_by_hand() -> None:
    parts = documents("full", 6)[0]
    prior = {"mean": 0.0, "mean_precision": 0.5, "degrees_of_freedom": 6.0, "scale": np.eye(3)}
    model = model_of(prior=prior).partial_fit(parts)
    own = model._learned.state.model.family.prior
    assert own.degrees_of_freedom == 6.0
    assert_array_equal(own.scale, np.eye(3))
    model.partial_fit(parts)
    model.set_params(prior=prior | {"mean_precision": 0.1})
    with pytest.raises(ValueError, match=r"'prior'.*cannot change"):
        model.partial_fit(parts)


@every
def test_expecting_more_points_keeps_within_limits_and_counts(family: str) -> None:
    model = taught(family, expected_points=1e7, max_clumps=20)
    assert model.memory_report()["n_clumps"] + model.memory_report()["n_single_points"] == 20
    assert model.n_points_seen_ == 320
    few = taught(family, expected_points=1.0, max_clumps=20)  # less than was seen: as if not given
    assert_same((0, content(few)[1]), (0, content(taught(family, max_clumps=20))[1]))


def test_a_topic_that_was_rare_is_recognised_in_a_document_full_of_it() -> None:
    """Its alpha is so small that a document must not be read from alpha alone."""
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [40.0, 0.0], [4.0, 4.0]])

    def document(shares: list[float]) -> Any:
        return rng.normal(centres[rng.choice(3, 200, p=shares)], 1.0)

    parts = [document([0.5, 0.5, 0.0]) for _ in range(40)] + [document([0.0, 0.0, 1.0])]
    model = ClumpedTopicModel(max_clumps=60, engine="serial").fit(parts)
    assert model.n_components_ == 3
    rare = int(np.argmin(np.abs(model.means_ - centres[2]).sum(axis=1)))
    mixture = model.transform(document([0.0, 0.0, 1.0]))[0]
    assert mixture[rare] > 0.9
    both = model.transform(document([0.5, 0.0, 0.5]))[0]
    assert 0.3 < both[rare] < 0.7
