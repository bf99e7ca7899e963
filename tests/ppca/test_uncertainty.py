"""Intervals of the noise of a PPCA, by their coverage and against the number of rows."""

import numpy as np
import pytest

from everlearn import OnlinePPCA, load

D, Q, NOISE = 8, 2, 0.7


def rows(n: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    loadings = 3.0 * np.random.default_rng(0).normal(size=(Q, D))
    return rng.normal(size=(n, Q)) @ loadings + np.sqrt(NOISE) * rng.normal(size=(n, D))


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_they_hold_the_truth_as_often_as_they_say(method: str) -> None:
    held = []
    for seed in range(300):
        model = getattr(OnlinePPCA(n_components=Q), method)(rows(40, seed))
        low, high = model.credible_intervals(rate=0.8)
        held.append(low < NOISE < high)
    assert abs(np.mean(held) - 0.8) < 4 * np.sqrt(0.8 * 0.2 / len(held))


def test_they_narrow_with_the_rows_that_count(tmp_path) -> None:
    def width(model: OnlinePPCA) -> float:
        low, high = model.credible_intervals()
        assert low < model.noise_variance_ < high
        return float(high - low)

    few, many = (OnlinePPCA(n_components=Q).fit(rows(n, 1)) for n in (100, 10_000))
    assert 8 < width(few) / width(many) < 13
    faded = OnlinePPCA(n_components=Q, max_reference_rows=100)
    for seed in range(20):
        faded.partial_fit(rows(100, seed))
    assert width(faded) > 0.6 * width(few)
    few.save(tmp_path / "few.evl")
    np.testing.assert_array_equal(
        load(tmp_path / "few.evl").credible_intervals(), few.credible_intervals()
    )


def test_missing_entries_widen_them() -> None:
    X = rows(400, 2)
    whole = OnlinePPCA(n_components=Q).fit(X).credible_intervals()
    X[np.random.default_rng(0).random(X.shape) < 0.5] = np.nan
    gaps = OnlinePPCA(n_components=Q).fit(X).credible_intervals()
    assert np.diff(gaps) > 1.2 * np.diff(whole)


def test_mixtures_have_one_each() -> None:
    X = np.concatenate([rows(100, 3), 50.0 + rows(300, 4)])
    model = OnlinePPCA(n_components=Q, n_mixtures=2, random_state=0).fit(X)
    found = model.credible_intervals()
    assert found.shape == (2, 2)
    assert (found[:, 0] < model.noise_variance_).all()
    assert (model.noise_variance_ < found[:, 1]).all()


def test_it_is_refused_where_the_number_of_rows_is_not_known() -> None:
    with pytest.raises(ValueError, match="need a constraint"):
        OnlinePPCA(n_components=Q, constraint=None).fit(rows(50, 0)).credible_intervals()
    with pytest.raises(ValueError, match="more features than n_components=8"):
        OnlinePPCA(n_components=D).fit(rows(50, 0)).credible_intervals()
    with pytest.raises(ValueError, match="rate"):
        OnlinePPCA(n_components=Q).fit(rows(50, 0)).credible_intervals(rate=1.5)
