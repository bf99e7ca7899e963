"""Strangers: who counts as one, when they renew the search, and how soon a new kind is found."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from everlearn import load
from everlearn.cli.demo_data import load_digits
from everlearn.core.moves import LapInfo
from everlearn.core.stats import Delete, Stats
from everlearn.mixture import streaming
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.local import Plan
from everlearn.mixture.strangers import NO_STRANGERS, StrangerDetector, Strangers
from oracles.runs import (
    PLAIN,
    STILL,
    WINDOW,
    model_of,
    rows_of,
    runner_of,
    started,
    statistics,
    tools_of,
)
from support.streams import file_of

RNG = np.random.default_rng
CENTRES = 12.0 * RNG(9).normal(size=(5, 4))
NEW = CENTRES[0] + np.array([20.0, 0, 0, 0])


def quiet(n: int, seed: int) -> np.ndarray:
    rng = RNG(seed)
    return CENTRES[rng.integers(5, size=n)] + rng.normal(size=(n, 4))


def with_news(n: int, share: float, seed: int) -> np.ndarray:
    """Rows of which this share is of a new kind, 20 standard deviations from the nearest."""
    rng, X = RNG(seed), quiet(n, seed)
    new = rng.permutation(n) < share * n
    X[new] = NEW + rng.normal(size=(int(new.sum()), 4))
    return X


def learned(**params: Any) -> DPMixture:
    """After a long quiet stream."""
    model = DPMixture(**{"random_state": 0, "engine": "serial"} | params)
    for seed in range(40):
        model.partial_fit(quiet(250, seed))
    return model


def rows_until_birth(model: DPMixture, share: float) -> int:
    for number in range(60):
        model.partial_fit(with_news(100, share, 100 + number))
        if (np.linalg.norm(model.means_ - NEW, axis=1) < 3).any():
            return 100 * (number + 1)
    return 10**6


class TestStrangerDetector:
    def test_strangers_are_those_that_an_empty_component_explains_better(self, case, weighted):
        model, rows = model_of(case), rows_of(case, weighted)
        few = statistics(model.family, rows[10:13], np.eye(3), [4, 7, 2]) * 500.0  # narrow ones
        family = model.family
        known, unseen = model.sticks(few).mean_weights()
        q = family.posterior(few.n, few.t)
        empty = family.posterior(np.zeros(1), np.zeros((1, family.n_stats)))
        scores = np.log(known) + family.log_predictive(rows.X, q)
        new = np.log(unseen) + family.log_predictive(rows.X, empty)[:, 0]
        wanted = np.flatnonzero(new > scores.max(axis=1))
        detector = StrangerDetector.of(model, few)
        found = detector.strangers(family, rows, family.features(rows.X), family.log_base(rows.X))
        np.testing.assert_array_equal(found, wanted)
        assert 0 < len(wanted) < len(rows)
        summary, labels = runner_of(case).run(model.posterior(few), Plan(detector=detector), rows)
        mass = np.ones(len(rows)) if rows.weights is None else rows.weights
        for place, component in enumerate(few.ids):
            own = wanted[labels[wanted] == component]
            np.testing.assert_allclose(summary.strangers[place], mass[own].sum())


class TestLimit:
    def test_it_is_20_rows_or_4_roots_of_the_statistics(self):
        assert not Strangers({1: 12.0, 2: 8.0}).are_many(25)
        assert Strangers({1: 12.0, 2: 8.5}).are_many(25)
        assert not Strangers({1: 40.0}).are_many(100)
        assert Strangers({1: 40.5}).are_many(100)

    def test_they_are_counted_by_component(self):
        stats = Stats.zeros(np.array([5, 3, 8]), 1)
        some = NO_STRANGERS.with_more(stats, np.array([2.0, 0.0, 1.0]))
        some = some.with_more(stats, np.array([1.0, 0.5, 0.0]))
        assert some.mass == {5: 3.0, 8: 1.0, 3: 0.5}

    def test_a_search_in_vain_doubles_it_and_a_birth_restores_it(self):
        many = Strangers({0: 50.0})
        twice = many.after_search(4, born=False)
        assert twice == Strangers({}, 1)
        assert not Strangers({0: 39.0}, 1).are_many(4)
        assert Strangers({0: 41.0}, 1).after_search(4, born=False).n_futile == 2
        assert Strangers({0: 41.0}, 2).after_search(4, born=True).n_futile == 0

    def test_it_falls_when_strangers_are_few(self):
        assert Strangers({0: 21.0}, 2).after_search(4, born=False).n_futile == 2
        assert Strangers({0: 20.0}, 2).after_search(4, born=False).n_futile == 1
        assert Strangers({}, 0).after_search(4, born=False).n_futile == 0


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize(("share", "most"), [(1.0, 250), (0.05, 500)])
def test_a_new_kind_is_found_soon_after_a_quiet_stream(family, share, most):
    model = learned(family=family)
    assert model.n_components_ == 5
    assert rows_until_birth(model, share) <= most


@pytest.mark.parametrize("window", [100, 1000])
def test_a_short_window_does_not_end_births(window):
    model = learned(birth_window=window)
    assert model.n_components_ == 5
    assert rows_until_birth(model, 1.0) <= 250


@pytest.mark.parametrize("share", [1.0, 0.05])
def test_a_new_kind_is_found_soon_after_fit(share):
    """No open row is of an old kind, so there is nothing to split."""
    model = DPMixture(random_state=0).fit(quiet(5000, 0))
    before = model.predict(quiet(500, 1))
    assert rows_until_birth(model, share) <= 500
    np.testing.assert_array_equal(model.predict(quiet(500, 1)), before)


def test_counts_of_words_have_strangers_too():
    rng = RNG(0)
    topics = rng.dirichlet(np.full(30, 0.1), 4)
    draw = [lambda n, p=p: rng.multinomial(40, p, n).astype(float) for p in topics]
    model = DPMixture(family="multinomial", random_state=0)
    for _ in range(20):
        model.partial_fit(np.concatenate([draw[k](80) for k in range(3)]))
    assert model.n_components_ == 3
    model.partial_fit(draw[3](100)).partial_fit(draw[3](100))
    assert model.n_components_ == 4


def test_heavy_tails_do_not_make_the_search_run_all_the_time():
    rng, model = RNG(0), DPMixture(random_state=0)
    laps = []
    for _ in range(100):
        X = CENTRES[rng.integers(5, size=250)] + rng.standard_t(2, size=(250, 4))
        laps.append(len(model.partial_fit(X).history_.curve))
    assert laps[-1] - laps[39] < 20


def test_a_few_outliers_do_not_keep_components_from_being_split():
    """Digits have some in each batch, but far fewer than a search for strangers is worth."""
    rows, model = load_digits(0).rows[:800], DPMixture(family="full", random_state=0)
    for start in range(0, 800, 100):
        model.partial_fit(rows[start : start + 100])
    assert model.n_components_ >= 8


def test_the_count_is_saved(tmp_path):
    model = learned()
    for number in range(2):
        model.partial_fit(with_news(50, 0.1, 100 + number))
    held = model._learned.state
    assert 0 < sum(held.strangers.mass.values()) <= 20
    assert held.reference is not None
    model.save(tmp_path / "model.evl")
    again = load(tmp_path / "model.evl")
    for number in range(6):
        for each in (model, again):
            each.partial_fit(with_news(50, 0.1, 200 + number))
    assert model.n_components_ == 6
    assert file_of(again) == file_of(model)


@pytest.mark.parametrize("gone", [False, True])
def test_the_reference_stays_after_a_search_in_vain_unless_a_component_went(gone, monkeypatch):
    def lap(state, runner, moves):
        """Without a move, but it lets go of a component that became empty."""
        info = LapInfo(1, 0.0, 3, 1.0, (), settled=True)
        return (state.edited(Delete(2)) if gone else state.reordered()), info

    runner = runner_of(PLAIN)
    state = started(PLAIN, 2, 3, runner=runner)
    state = replace(state, reference=state.total)
    monkeypatch.setattr(streaming, "lap", lap)
    after = streaming._run_window_laps(state, tools_of(runner, STILL, WINDOW))
    assert after.reference is (None if gone else state.reference)


def test_without_births_nobody_is_counted():
    model = learned(moves=("merge", "delete"))
    model.partial_fit(with_news(500, 1.0, 0))
    assert model._learned.state.strangers == NO_STRANGERS
