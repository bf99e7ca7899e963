"""The formulas of the slides: as printed, in their units, and not stable unless clipped."""

import numpy as np
import pytest
from benchmarks.reference.constraint import aligned
from benchmarks.reference.fisher import Fisher
from benchmarks.reference.printed_ppca import PrintedPPCA, PrintedStep, printed_m_step
from numpy.testing import assert_allclose

from everlearn import OnlinePPCA
from everlearn.engine.opening import open_engine
from everlearn.ppca.stats import LatentStats
from oracles import ppca as oracle
from support.ppca_streams import D, Q, batches_of


def pair():
    return oracle.random_model(D, Q, 1), oracle.random_model(D, Q, 2, noise=0.4)


def test_a_step_is_as_printed():
    fresh, other = pair()
    reference = aligned(other, fresh)
    fisher = Fisher.of(reference)
    found = PrintedStep(1e-3, complete=False)(fresh, other)
    away = fresh.loadings - reference.loadings
    assert_allclose(found.loadings, fresh.loadings - 1e-3 * fisher.loadings_pinv(away))
    step = 1e-3 * oracle.covariance(reference) @ (fresh.mean - reference.mean)
    assert_allclose(found.mean, fresh.mean - step)
    noise = fresh.noise - 1e-3 / fisher.noise * (fresh.noise - reference.noise)
    assert found.noise == pytest.approx(noise)
    all_the_way = PrintedStep(1e9)(fresh, reference)
    assert_allclose(oracle.flat(all_the_way), oracle.flat(reference), atol=1e-12)


def test_the_rotation_of_the_reference_does_not_matter():
    fresh, reference = pair()
    R = np.linalg.qr(np.random.default_rng(0).normal(size=(Q, Q)))[0]
    turned = type(reference)(reference.mean, reference.loadings @ R, reference.noise)
    found = [PrintedStep(0.1, complete=False)(fresh, one) for one in (reference, turned)]
    assert_allclose(oracle.flat(found[0]), oracle.flat(found[1]), atol=1e-12)


def learned(batches, step_size=0.05, **params):
    model = PrintedPPCA(Q, len(batches[0]), step_size, **params)
    for X in batches:
        model.partial_fit(X)
    return model


def largest_loading(*, clip, steps):
    """Where it ends after so many steps of two rows; infinite if it fails."""
    X = oracle.random_model(D, Q).draw(2 * steps, np.random.default_rng(0))
    step = PrintedStep(30.0, complete=False, clip=clip)
    with np.errstate(all="ignore"):
        try:
            model = learned(np.split(X, steps), step=step, constraint="previous").model
            return float(np.abs(model.loadings).max())
        except (ValueError, np.linalg.LinAlgError):
            return np.inf


def test_clipped_it_stays_bounded_and_unclipped_it_diverges():
    assert largest_loading(clip=True, steps=1000) < 20
    assert not largest_loading(clip=False, steps=1000) < 1e3


@pytest.mark.slow
def test_clipped_it_stays_bounded_for_long():
    assert largest_loading(clip=True, steps=10_000) < 20


@pytest.mark.parametrize("weight", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("constraint", ["task", "previous"])
def test_every_weight_is_stable(weight, constraint):
    model = PrintedPPCA(Q, 30, 0.3, step=PrintedStep(weight), constraint=constraint)
    for X in batches_of(4, 30) + batches_of(4, 30, seed=1):
        model.partial_fit(X).consolidate()
    assert np.isfinite(model.score(X))
    assert model.model.noise > 0


def test_it_knows_units():
    found = []
    for scale in (1.0, 16.0):
        batches = [X for s in range(3) for X in batches_of(3, 30, s, scale=scale)]
        model = PrintedPPCA(Q, 30, 0.1, step=PrintedStep(0.1))
        for X in batches:
            model.partial_fit(X).consolidate()
        found.append(model.score(batches[0]) + D * np.log(scale))
    assert abs(found[0] - found[1]) > 0.1


def test_without_anything_printed_it_is_online_em():
    batches = batches_of(12)
    model = learned(batches)
    peer = OnlinePPCA(Q, constraint=None, options={"step_size": 0.05}, engine="serial")
    with open_engine("serial"):
        for X in batches:
            peer.partial_fit(X)
    assert_allclose(model.model.loadings, peer.loadings_, rtol=1e-12)
    assert_allclose(model.model.mean, peer.mean_, rtol=1e-12)


def test_printed_statistics_are_centred_with_the_mean_of_the_moment():
    """Against sums over rows, for a step that takes the newest batch alone."""
    first, second = batches_of(2)
    model = learned([first], 1.0, moving_centre=True)
    before = model.model
    model.partial_fit(second)
    y, z = second - before.mean, before.posterior(second).z
    n = len(second)
    spread = before.posterior(second).common_spread()
    sums = (np.vdot(y, y), y.T @ z, z.T @ z + n * spread, (second - first.mean(axis=0)).sum(axis=0))
    yy, yz, zz, x = (np.asarray(part)[None] / n for part in sums)
    stats = LatentStats(np.ones(1), yy, yz, zz, x, z.mean(axis=0)[None])
    expected = printed_m_step(stats, first.mean(axis=0))
    assert_allclose(oracle.flat(model.model), oracle.flat(expected), atol=1e-10)
    loadings = np.linalg.solve(zz[0], yz[0].T).T
    assert_allclose(expected.loadings, loadings, atol=1e-6)
