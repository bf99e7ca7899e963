"""The files to copy keep what they promise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

from everlearn import registry
from everlearn.core.priors.dp import DPPrior
from everlearn.core.stats import Stats
from everlearn.mixture.model import Mixture
from everlearn.testing.checks import Case, Check, Spoilt, checks_of, scikit_learn_checks
from support.skeletons import skeleton

ESTIMATOR, FAMILY = skeleton("estimator"), skeleton("family")
X = np.random.default_rng(0).normal(size=(90, 3))
CASE = Case(
    "streaming mean",
    lambda **params: ESTIMATOR.StreamingMean(**{"retention": 0.9, "random_state": 0} | params),
    [(X[:30],), (X[30:60],), (X[60:],)],
    X[:5],
    ("score_samples",),
    spoilt={
        "nan": Spoilt((np.full((4, 3), np.nan),), "NaN"),
        "wide": Spoilt((np.zeros((4, 5)),), "5 features"),
        "flat": Spoilt((np.zeros(3),), "reshape(-1, 1)"),
    },
)


@pytest.mark.parametrize(("case", "check"), checks_of([CASE]))
def test_the_estimator_passes_the_conformance_suite(
    case: Case, check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = registry.Entry("StreamingMean", ESTIMATOR.__name__, "streaming-mean")
    monkeypatch.setitem(registry.BY_KEY, entry.key, entry)
    check(case, tmp_path)


@pytest.mark.parametrize(("estimator", "check"), scikit_learn_checks([ESTIMATOR.StreamingMean()]))
def test_the_estimator_passes_the_checks_of_scikit_learn(
    estimator: Any, check: Callable[[Any], None]
) -> None:
    check(estimator)


def test_the_family_scores_as_the_average_over_its_posterior() -> None:
    family = FAMILY.GammaPoisson(2, 1.5, 0.5)
    rng = np.random.default_rng(1)
    rows = rng.poisson([3.0, 0.5], (40, 2)).astype(float)
    q = family.posterior(np.array([40.0]), rows.sum(axis=0)[None])
    eta, constant = family.natural(q)
    found = rows @ eta[0] + constant[0] + family.log_base(rows)
    rates = rng.gamma(q.a[0], 1 / q.b[0], (20_000, 2))
    drawn = stats.poisson.logpmf(rows[:, None, :], rates).sum(axis=2)
    np.testing.assert_allclose(found, drawn.mean(axis=1), atol=6 * drawn.std() / 20_000**0.5)


def test_the_bound_of_one_component_is_the_evidence() -> None:
    family = FAMILY.GammaPoisson(1, 1.5, 0.5)
    rows = np.array([[0.0], [2.0], [5.0]])

    def density(rate: float) -> float:
        return float(
            stats.poisson.pmf(rows[:, 0], rate).prod() * stats.gamma.pdf(rate, 1.5, scale=2.0)
        )

    evidence = np.log(integrate.quad(density, 0, 60)[0])
    totals = Stats(
        np.zeros(1, np.int64),
        np.array([3.0]),
        rows.sum(axis=0)[None],
        np.zeros(1),
        float(family.log_base(rows).sum()),
    )
    prior = family.posterior(np.zeros(1), np.zeros((1, 1)))
    q = family.posterior(totals.n, totals.t)
    gained = family.cumulant(prior)[0] - family.cumulant(q)[0] + totals.base
    np.testing.assert_allclose(gained, evidence, rtol=1e-9)
    assert np.isfinite(Mixture(family, DPPrior(1.0)).bound(totals))


def test_the_predictive_distribution_sums_to_one() -> None:
    family = FAMILY.GammaPoisson(1, 1.5, 0.5)
    q = family.posterior(np.array([4.0]), np.array([[9.0]]))
    counts = np.arange(200.0)[:, None]
    np.testing.assert_allclose(np.exp(family.log_predictive(counts, q)).sum(), 1.0, rtol=1e-9)
    drawn = family.draw(q, 0, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.mean(), family.means(q)[0, 0], rtol=0.05)
