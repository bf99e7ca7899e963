"""A statistician tries everlearn: held-out scores, intervals, odd rows, and repeatable results.

python examples/walkthroughs/statistician.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import cross_val_score, train_test_split

from everlearn import BayesianPassiveAggressiveRegressor, DPMixture
from everlearn.metrics import compare

CENTRES = np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])
SHARES = [0.5, 0.3, 0.2]


def planted(n: int, seed: int) -> Any:
    """Rows of three Gaussian clusters whose parameters are known."""
    rng = np.random.default_rng(seed)
    return CENTRES[rng.choice(3, n, p=SHARES)] + rng.normal(size=(n, 2))


def said(call: Callable[[], Any]) -> str:
    """The message of the error that a wrong call raises."""
    try:
        call()
    except (AttributeError, TypeError, ValueError) as error:
        return str(error).splitlines()[0]
    raise AssertionError("a wrong call was accepted")


def score_on_new_rows() -> None:
    """Models are compared by the density of rows that they have not seen."""
    X = load_breast_cancer().data[:, :10]
    train, test = train_test_split(X, random_state=0)
    ours = DPMixture(family="full", random_state=0).fit(train)
    print(f"full: {ours.n_components_} clusters, {ours.score(test):.2f} nats a row")
    plain = DPMixture(max_laps=200, random_state=0).fit(train)
    print("full or diagonal:", compare(ours, plain, test))
    theirs = GaussianMixture(2, random_state=0).fit(train)
    print("full or GaussianMixture(2):", compare(ours, theirs, test))
    assert compare(ours, plain, test).difference > 0
    scores = cross_val_score(DPMixture(family="full", random_state=0), X, cv=3)
    print(f"cross-validation: {scores.mean():.2f} nats a row")


def check_the_density() -> None:
    """The predictive density integrates to one, and the bound prefers the planted clusters."""
    X = planted(2000, 0)
    model = DPMixture(random_state=0).fit(X)
    axis = np.linspace(-25.0, 30.0, 551)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    mass = np.exp(model.score_samples(grid)).sum() * (axis[1] - axis[0]) ** 2
    print(f"the density integrates to {mass:.4f}")
    assert abs(mass - 1.0) < 1e-3
    assert np.isclose(model.score(grid), model.score_samples(grid).mean())
    bounds = [DPMixture(max_components=k, random_state=0).fit(X).bound_ for k in (1, 2, 3)]
    print("bound with 1, 2 and 3 clusters:", ", ".join(f"{bound:,.0f}" for bound in bounds))
    assert bounds == sorted(bounds)
    assert model.n_components_ == 3


def check_intervals() -> None:
    """Intervals of 90 % hold the truth about nine times in ten, with the number of clusters known.

    They take the clusters as given. A few hundred rows sometimes get a small cluster too many.
    """
    hits = []
    for seed in range(20):
        model = DPMixture(max_components=3, random_state=seed).fit(planted(600, seed))
        found = model.credible_intervals(rate=0.9)
        centres = model.means_
        for centre, share in zip(CENTRES, SHARES, strict=True):
            k = int(np.linalg.norm(centres - centre, axis=1).argmin())
            low, high = found.means[k, :, 0], found.means[k, :, 1]
            hits += ((low <= centre) & (centre <= high)).tolist()
            hits.append(bool(found.weights[k, 0] <= share <= found.weights[k, 1]))
    print(f"{np.mean(hits):.0%} of {len(hits)} intervals hold the truth")
    assert 0.8 < np.mean(hits) < 0.97
    draws = model.sample_posterior(500)
    assert draws.means.shape == (500, model.n_components_, 2)


def flag_odd_rows() -> None:
    """`rate` is the share of ordinary rows to flag."""
    model = DPMixture(random_state=0).fit(planted(3000, 1))
    new, odd = planted(20_000, 2), np.random.default_rng(3).uniform(15, 30, (50, 2))
    shares = [model.is_outlier(new, rate=rate).mean() for rate in (0.01, 0.05)]
    print(f"flagged at 1 % and 5 %: {shares[0]:.1%} and {shares[1]:.1%} of ordinary rows")
    assert model.is_outlier(odd).all()
    assert 0.002 < shares[0] < 0.03
    assert 0.02 < shares[1] < 0.1


def predict_with_errors() -> None:
    """A regressor says how sure it is of each prediction."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 3))
    y = X @ [1.0, 2.0, 0.0] + rng.normal(size=500)
    model = BayesianPassiveAggressiveRegressor().fit(X, y)
    spread = np.sqrt(model.coef_variance_)
    told = [f"{w:.2f} ± {s:.2f}" for w, s in zip(model.coef_, spread, strict=True)]
    print("weights:", ", ".join(told))
    _, near = model.predict(np.zeros((1, 3)), return_std=True)
    _, far = model.predict(np.full((1, 3), 50.0), return_std=True)
    assert far[0] > near[0]


def repeat() -> None:
    """One seed gives one result, on any engine and in any process; other seeds agree here."""
    X = planted(1500, 4)
    one, two = (DPMixture(random_state=0, engine=e).fit(X) for e in ("serial", "threads"))
    assert np.array_equal(one.means_, two.means_)
    assert np.array_equal(one.labels_, two.labels_)
    found = [DPMixture(random_state=seed).fit(X).n_components_ for seed in range(5)]
    print("clusters by seed:", *found)


def make_mistakes() -> None:
    """Rates in percent, models that have no density, and scores of other libraries."""
    X = planted(300, 5)
    model = DPMixture(random_state=0).fit(X)
    wrong: list[Callable[[], Any]] = [
        lambda: model.credible_intervals(rate=95),
        lambda: model.is_outlier(X, rate="1%"),  # type: ignore[arg-type]
        lambda: compare(X, model, model),
        lambda: compare(model, BayesianPassiveAggressiveRegressor(), X),
        lambda: compare(model, model, X[:1]),
        lambda: model.bic(X),
        lambda: DPMixture(prior="normal").fit(X),
        lambda: DPMixture(random_state=np.random.default_rng(0)).fit(X),  # type: ignore[arg-type]
        lambda: DPMixture().fit((X, X[:, 0])),
    ]
    for call in wrong:
        print("  error:", said(call))
    assert model.n_samples_seen_ == len(X)  # nothing changed


if __name__ == "__main__":
    score_on_new_rows()
    check_the_density()
    check_intervals()
    flag_odd_rows()
    predict_with_errors()
    repeat()
    make_mistakes()
    print("done")
