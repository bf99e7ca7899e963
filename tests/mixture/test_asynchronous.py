"""Asynchronous learning: the prior plus the sum of what arrived, whoever was faster."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import everlearn
from everlearn.attic.inference_learners_asynchronous import absorb, fit
from everlearn.core.random import stream
from everlearn.core.stats import total
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.local import Plan
from everlearn.mixture.memoized import MoveSettings, Schedule, learn_sample
from oracles.runs import RUNS, model_of, rows_of, runner_of

RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(c, 1.0, (200, 2)) for c in (-9, 0, 9)])
RNG.shuffle(POINTS)


SCHEDULE = Schedule(batch_rows=40, max_laps=1, tol=0.0)


def asynchronous(**params):
    return DPMixture(learner="asynchronous", random_state=0, batch_size=100, max_laps=4, **params)


@pytest.fixture
def case():
    return RUNS[0]


def test_each_chunk_sees_the_prior_and_all_that_came_before(case):
    """Against the same written out, one chunk after the other."""
    model, rows, runner = model_of(case), rows_of(case), runner_of(case)
    schedule = Schedule(batch_rows=len(rows) // 3 + 1, max_laps=2, tol=0.0)
    found = fit(model, rows, 0, runner, MoveSettings(), schedule, lambda _: None)
    start = learn_sample(model, rows, 0, runner, MoveSettings(), schedule)
    parts = rows.blocks(schedule.batch_rows)
    said: dict[int, object] = {}
    for lap in range(2):
        for place in stream(0, "order", lap).permutation(len(parts)).tolist():
            away = sum(p.mass for i, p in enumerate(parts) if i not in said)
            known = start.total * (away / start.total.n.sum())
            for stats in said.values():
                known = known + stats
            said[place] = runner.run(model.posterior(known), Plan(), parts[place])[0].stats
    expected = total([said[i] for i in range(len(parts))])
    order = np.argsort(-expected.n)
    assert_allclose(found.state.total.n, expected.n[order][: len(found.state.total)], rtol=1e-9)
    assert_allclose(found.state.total.n.sum(), rows.mass, rtol=1e-12)


def test_a_stream_adds_up(case):
    runner, rows = runner_of(case), rows_of(case)
    start = fit(model_of(case), rows, 0, runner, MoveSettings(), SCHEDULE, lambda _: None)
    state = start.state
    after = absorb(state, rows, 7, runner, lambda _: None)
    assert_allclose(after.total.n.sum(), state.total.n.sum() + rows.mass, rtol=1e-12)


@pytest.mark.parametrize("engine", ["serial", "threads"])
def test_components_are_found(engine):
    model = asynchronous(engine=engine).fit(POINTS)
    assert model.n_components_ == 3
    assert_allclose(np.sort(model.means_[:, 0]), [-9, 0, 9], atol=0.3)
    assert len(model.bound_history_) == 4
    seen = model.n_samples_seen_
    model.partial_fit(POINTS)
    assert model.n_samples_seen_ == 2 * seen
    assert_allclose(model._learned.state.total.n.sum(), 1200, rtol=1e-9)


def test_a_stream_may_begin_so(tmp_path):
    model = asynchronous(engine="serial").partial_fit(POINTS[:300]).partial_fit(POINTS[300:])
    model.save(tmp_path / "m.evl")
    again = everlearn.load(tmp_path / "m.evl")
    assert again.partial_fit(POINTS).bound_ == model.partial_fit(POINTS).bound_


def test_it_cannot_change_on_the_way():
    model = asynchronous().fit(POINTS)
    with pytest.raises(ValueError, match=r"'learner'.*was 'asynchronous'"):
        model.set_params(learner="memoized").partial_fit(POINTS)
