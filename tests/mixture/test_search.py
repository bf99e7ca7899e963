"""The search for components: on a sample first, then on all rows."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import adjusted_rand_score

from everlearn import DPMixture
from everlearn.engine.rows import Rows
from everlearn.mixture import search
from everlearn.mixture.births import ATTEMPTS
from everlearn.mixture.learner import PriorCandidate, Schedule
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State
from everlearn.testing.data import planted_mixture
from oracles.cases import named
from oracles.runs import (
    PLAIN,
    SOME,
    STILL,
    assert_stats,
    candidates_of,
    diagonal_scaled,
    groups,
    ignore,
    lively,
    model_of,
    never_falls,
    rows_of,
    runner_of,
    started,
    tools_of,
)
from support.streams import FAMILIES
from support.streams import rows_of as family_rows

RNG = np.random.default_rng


def tools_for(case, moves=None, on_lap=ignore, **schedule):
    plan = Schedule(
        **{"batch_rows": 100, "max_laps": 60, "tol": 1e-6, "sample_rows": 120} | schedule
    )
    return tools_of(runner_of(case), moves or lively(), schedule=plan, on_lap=on_lap)


def fit(case, seed=0, weighted=False, learns=False, **options):
    rows = rows_of(case, weighted)
    return search.fit_all(candidates_of(case, learns), rows, seed, tools_for(case, **options))


def find(case, seed=0, rows=None, learns=False, **options):
    rows = rows_of(case) if rows is None else rows
    tools = tools_for(case, **options)
    return search.find_components(candidates_of(case, learns), rows, seed, tools)


class TestFit:
    @pytest.mark.parametrize("learns", [False, True], ids=["given", "learned"])
    def test_it_settles_and_never_falls(self, case, learns):
        told = []
        result = fit(case, weighted=True, learns=learns, on_lap=told.append)
        assert result.converged
        assert tuple(told) == result.laps
        assert never_falls([info.bound for info in told])
        assert result.state.bound() == told[-1].bound
        assert_allclose(result.state.total.n.sum(), rows_of(case, weighted=True).mass, rtol=1e-8)
        assert result.state.n_open == len(case)

    def test_it_stops_when_laps_run_out(self):
        result = fit(PLAIN, max_laps=1)
        assert len(result.laps) == 1
        assert not result.converged

    def test_batches_are_as_large_as_asked(self):
        sizes = [len(b.rows) for b in fit(PLAIN, batch_rows=100, max_laps=1).state.batches]
        assert sizes == [100, 100, 40]

    def test_a_wide_tolerance_stops_early(self):
        overlapping = diagonal_scaled("overlapping", groups(600, k=6, apart=1.0, seed=9))
        strict, loose = (
            fit(overlapping, moves=STILL, tol=tol, sample_rows=60, max_laps=500)
            for tol in (1e-12, 1e-2)
        )
        assert len(loose.laps) < len(strict.laps)
        gap = abs(loose.laps[-1].bound - loose.laps[-2].bound)
        assert gap <= 1e-2 * abs(loose.laps[-1].bound)

    @named(SOME)
    def test_continuing_is_the_same_as_not_stopping(self, case):
        runner, moves = runner_of(case), lively()
        state = started(case, 2, 1, runner=runner)
        choice = fit(case, max_laps=1).choice
        long, short = (
            tools_of(runner, moves, schedule=Schedule(100, laps, -1.0)) for laps in (6, 3)
        )
        whole = search.run_laps(state, long, choice).state
        half = search.run_laps(state, short, choice).state
        rest = search.run_laps(half, short, choice).state
        assert_stats(rest.total, whole.total, rtol=0, atol=0)
        assert rest.next_id == whole.next_id
        assert rest.birth_trials == whole.birth_trials

    @named(SOME)
    def test_same_seed_same_trace(self, case):
        traces = [[info.bound for info in fit(case, seed=seed, max_laps=6).laps] for seed in (1, 1)]
        assert traces[0] == traces[1]

    def test_each_component_is_split_once(self, monkeypatch):
        """It began with many, so other ways of splitting would only take time."""
        settings = []

        def watched(state, runner, moves, real=search.lap):
            settings.append(moves.births)
            return real(state, runner, moves)

        monkeypatch.setattr(search, "lap", watched)
        fit(PLAIN)
        assert {births.attempts for births in settings} == {ATTEMPTS[:1]}
        assert {births.retry_after for births in settings} == {np.inf}


class TestSample:
    def test_its_statistics_are_scaled_to_all_rows(self, case, weighted):
        rows = rows_of(case, weighted)
        found = find(case, rows=rows)
        assert_allclose(found.stats.n.sum(), rows.mass, rtol=1e-9)
        assert found.choice.name == "given"

    @named(SOME)
    def test_a_sample_decides_on_the_structure(self, case):
        told = []
        fit(case, on_lap=told.append)
        assert told[0].n_components > 1

    def test_it_is_not_counted_twice(self):
        result = fit(PLAIN, moves=STILL, max_laps=1)
        assert result.state.sealed.stats.n.sum() == 0.0
        assert_allclose(result.state.total.n.sum(), len(PLAIN), rtol=1e-12)

    def test_a_part_finds_what_all_rows_find(self):
        part, whole = fit(PLAIN).state, fit(PLAIN, sample_rows=10_000).state
        assert_allclose(part.bound(), whole.bound(), rtol=0.01)

    def test_it_has_the_rows_of_its_seed(self):
        one, same, other = (find(PLAIN, seed) for seed in (1, 1, 2))
        assert_array_equal(one.stats.n, same.stats.n)
        assert len(one.stats) != len(other.stats) or not np.array_equal(one.stats.n, other.stats.n)

    def test_a_state_keeps_seed_clock_and_next_id(self):
        empty = replace(State.empty(model_of(PLAIN), 8, next_id=40), clock=6)
        rows, runner = rows_of(PLAIN), runner_of(PLAIN)
        state = search.open_at(empty, find(PLAIN), rows.blocks(100), runner)
        assert (state.seed, state.clock) == (8, 6)
        assert state.total.ids.min() >= 40
        assert state.next_id > state.total.ids.max()
        assert_allclose(state.total.n.sum(), len(PLAIN), rtol=1e-10)


class TestLearnedPrior:
    CASE = diagonal_scaled("far", groups(400, dim=3, k=4, apart=8.0, seed=2))

    def spread(self, model):
        return model.family.prior.rate / model.family.prior.shape

    def test_it_is_that_within_components(self):
        found = find(self.CASE, learns=True, sample_rows=1000)
        assert_allclose(self.spread(found.model), 0.36, rtol=0.25)
        assert found.model.family.prior.shape == self.CASE.family.prior.shape
        assert found.model.prior == model_of(self.CASE).prior

    def test_it_is_left_alone_if_it_is_given(self):
        assert find(self.CASE).model.family == self.CASE.family

    def test_it_is_fixed_before_all_rows_are_visited(self):
        models = []
        tools = tools_for(self.CASE)
        found = search.find_components(candidates_of(self.CASE, True), rows_of(self.CASE), 0, tools)
        result = search.fit_all(candidates_of(self.CASE, True), rows_of(self.CASE), 0, tools)
        models.append(result.state.model)
        assert_array_equal(self.spread(found.model), self.spread(result.state.model))


class TestManyFeatures:
    def test_full_gaussians_begin_with_diagonal_ones(self, monkeypatch):
        tried = []

        def watched(self, candidate, family, real=search._SampleSearch._run_diagonal):
            tried.append(family.n_features)
            return real(self, candidate, family)

        monkeypatch.setattr(search._SampleSearch, "_run_diagonal", watched)
        for width in (40, 41):
            truth = planted_mixture(1500, width, 3, shape="oblique", random_state=0)
            model = DPMixture(family="full", random_state=0).fit(truth.X)
            assert model.n_components_ == 3
            assert adjusted_rand_score(truth.labels, model.labels_) > 0.99
            assert model.covariances_.shape == (3, width, width)
        assert set(tried) == {41}

    @pytest.mark.parametrize("seed", range(2))
    def test_many_parameters_do_not_swallow_clusters(self, seed):
        truth = planted_mixture(5000, 50, 8, shape="oblique", random_state=seed)
        model = DPMixture(family="full", random_state=seed).fit(truth.X)
        assert model.n_components_ == 8


# By the estimator


@pytest.fixture(scope="module")
def planted():
    return planted_mixture(3000, 4, 20, random_state=5)


@pytest.mark.parametrize("family", ["diagonal", "full"])
def test_the_number_depends_neither_on_the_seed_nor_on_the_order(planted, family):
    numbers = []
    for seed in range(5):
        model = DPMixture(family=family, random_state=seed).fit(planted.X)
        numbers.append(model.n_components_)
        assert adjusted_rand_score(planted.labels, model.labels_) > 0.98
        assert model.converged_
        order = RNG(seed).permutation(len(planted.X))
        stream = DPMixture(family=family, random_state=0)
        for start in range(0, len(order), 500):
            stream.partial_fit(planted.X[order[start : start + 500]])
        numbers.append(stream.n_components_)
    assert max(abs(number - 20) for number in numbers) <= 2


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_the_bound_rises_until_it_has_converged(family, dtype):
    model = DPMixture(family=family, dtype=dtype, random_state=0)
    model.fit(family_rows(family, 7000, RNG(3)))  # more than the sample
    assert model.converged_
    slack = {"float64": 1e-9, "float32": 1e-6}[dtype]
    assert never_falls([*model.bound_history_, model.bound_], slack)


def test_weights_decide_on_the_components():
    """A group without weight is not there, one of great weight is."""
    X = np.concatenate([RNG(i).normal(12.0 * i, 1.0, (80, 2)) for i in range(3)])
    weights = np.repeat([1.0, 0.0, 4.0], 80)
    model = DPMixture(random_state=0).fit(X, sample_weight=weights)
    assert model.n_components_ == 2
    assert_allclose(np.sort(model.means_[:, 0]), [0.0, 24.0], atol=0.5)
    assert_allclose(np.sort(model.weights_), [0.2, 0.8], atol=0.01)


def test_sparse_counts_are_like_dense_ones():
    """Few words a row of many words."""
    rng = RNG(0)
    topics = rng.dirichlet(np.full(400, 0.02), 6)
    labels = rng.integers(6, size=900)
    X = np.stack([rng.multinomial(30, topics[z]) for z in labels]).astype(float)
    thin, dense = (
        DPMixture(family="multinomial", random_state=0).fit(container(X))
        for container in (sparse.csr_array, np.asarray)
    )
    assert thin.n_components_ == dense.n_components_ == 6
    assert adjusted_rand_score(labels, thin.labels_) > 0.99
    assert_allclose(thin.bound_, dense.bound_, rtol=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("family", FAMILIES)
def test_few_rows(family, n):
    model = DPMixture(family=family, random_state=0).fit(family_rows(family, n, RNG(0)))
    assert 1 <= model.n_components_ <= n
    assert np.isfinite(model.bound_)
    assert model.converged_


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [2, 100, 7000])
def test_equal_rows_are_one_component(family, n):
    model = DPMixture(family=family, random_state=0).fit(np.full((n, 3), 4.0))
    assert model.n_components_ == 1


@pytest.mark.parametrize("family", ["diagonal", "full"])
@pytest.mark.parametrize("n", [100, 300, 1000])
def test_noise_is_one_component(family, n):
    for seed in range(4):
        X = RNG(seed).normal(size=(n, 3))
        assert DPMixture(family=family, random_state=seed).fit(X).n_components_ == 1


def test_the_candidate_with_the_higher_bound_is_used():
    case = TestLearnedPrior.CASE
    good = model_of(case)
    prior = replace(case.family.prior, rate=1e3 * case.family.prior.rate)
    bad = Mixture(replace(case.family, prior=prior), good.prior)
    both = [PriorCandidate("data", bad), PriorCandidate("given", good)]
    for candidates in (both, both[::-1]):
        found = search.find_components(candidates, Rows(case.X), 0, tools_for(case))
        assert found.choice.name == "given"
        assert found.model.family == case.family
