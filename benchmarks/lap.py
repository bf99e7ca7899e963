"""CPU time of a lap of `DPMixture` against the two matrix products that it needs, in one run."""

import numpy as np

from benchmarks.clock import cpu_seconds
from benchmarks.table import Table
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.priors.dp import DPPrior
from everlearn.engine.opening import open_engine
from everlearn.engine.rows import Rows
from everlearn.mixture.local import LocalRunner, MixtureStep, Plan
from everlearn.mixture.memoized import open_batches, visit
from everlearn.mixture.model import Mixture
from everlearn.mixture.state import State

N_ROWS, N_FEATURES, REPEATS = 40_960, 100, 7


def run() -> Table:
    """Speed of a lap as a share of the speed of its matrix products, for both precisions."""
    table = Table(
        "A lap against `np.dot` of the same shapes",
        ["components", "dtype", "lap, CPU s", "two products, CPU s", "products / lap"],
        "How close a lap comes to the two matrix products that it needs; 100 % is the limit. "
        f"Diagonal family, {N_ROWS:,} rows, {N_FEATURES} features, one thread; a lap is "
        "assignment, statistics and global step. Goal: 60 % at 32 to 200 components.",
    )
    for n_components in (32, 50, 100, 200):
        for dtype in (np.float64, np.float32):
            lap, products = _measure(n_components, dtype)
            table.add(
                n_components,
                np.dtype(dtype).name,
                f"{lap:.3f}",
                f"{products:.3f}",
                f"{products / lap:.0%}",
            )
    return table


def _measure(n_components: int, dtype: type[np.floating]) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(dtype)
    zero = np.zeros(N_FEATURES)
    family = DiagGaussian(NormalGammaPrior(zero, 0.22, 0.91, zero + 0.28), zero)
    model = Mixture(family, DPPrior(1.0))
    ids = np.arange(n_components)
    with open_engine("serial") as engine:
        runner = LocalRunner(MixtureStep(family, dtype), engine)
        start = runner.hard_stats(Rows(X), rng.integers(n_components, size=N_ROWS), ids)
        empty = State.empty(model, 0, n_components)
        state = open_batches(empty, model.posterior(start), [Rows(X)], runner)
        features = np.empty((4096, 2 * N_FEATURES), dtype)
        features[:] = rng.normal(size=features.shape)
        eta = rng.normal(size=(n_components, 2 * N_FEATURES)).astype(dtype)
        shares = rng.random((4096, n_components)).astype(dtype)

        def products() -> None:
            for _ in range(N_ROWS // 4096):
                np.dot(features, eta.T)
                np.dot(shares.T, features)

        pairs = [
            (cpu_seconds(lambda: visit(state, 0, Plan(), runner)), cpu_seconds(products))
            for _ in range(REPEATS)
        ]
    laps, dots = zip(*pairs, strict=True)
    return min(laps), min(dots)
