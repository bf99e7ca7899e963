"""`OnlinePPCA` against its competitors under drift, weights, returning tasks, gaps and mixtures."""

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.natural_gaps import at_first, at_random
from benchmarks.natural_runs import (
    EM_TASK,
    METHODS,
    drifting,
    mixtures,
    one_after_the_other,
    returning,
    unequal,
    units,
)
from benchmarks.reference.printed_ppca import PrintedStep
from benchmarks.remember import remembered_in
from benchmarks.table import Table
from everlearn.metrics.continual import continual_summary

PAPER = "natural_online_em"
SEEDS = range(5)
TITLES = {"optdigits": "optdigits", "mnist": "MNIST"}
Measured = set[str]


def over_seeds(measured: Measured, key: str, run: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Results of a run for every seed, which is its last argument; cached on disk."""
    results = []
    for seed in SEEDS:
        plain = "".join(c if c.isalnum() or c in ".-" else "_" for c in f"{key}-{seed}")
        results.append(remembered_in(measured, PAPER, plain, partial(run, *arguments, seed)))
    return results


def mean(values: list[float], digits: int = 1) -> str:
    """Mean and standard deviation over the seeds."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def _add_means(table: Table, method: str, runs: list[Any], *keys: str) -> None:
    """A row of the table: means and standard deviations of some results of the runs."""
    table.add(method, *(mean([run[key] for run in runs]) for key in keys))


def narrowest_last(measured: Measured) -> Table:
    """Final scores where the class that is most unlike the others comes last."""
    table = Table(
        "MNIST, one class after the other, ones last",
        ["method", "final", "worst class"],
        "Nats per row after the last class, with the ones moved to the end of the same orders. "
        "Ones are the narrowest class: a model that knows nothing else is most wrong about the "
        "others.",
    )
    run = partial(one_after_the_other, last=1)
    for method in ("oEM, 0.02", "oEM, k^-0.6", "Nat-oEM step", "Nat-oEM task"):
        runs = over_seeds(measured, f"mnist-last-{method}", run, "mnist", METHODS[method])
        ends = [found["scores"][-1] for found in runs]
        table.add(method, mean([float(np.mean(end)) for end in ends]), mean([min(e) for e in ends]))
    return table


def drift(measured: Measured) -> Table:
    """Scores on a drifting stream, and on classes one after the other with the same settings."""
    table = Table(
        "A stream that drifts",
        ["method", "next batch, while drifting", "end of the drift", "all classes, one by one"],
        "`max_reference_rows` trades following the drift for keeping the classes. The contrast of "
        "optdigits falls to a quarter along the stream. Nats per row: of each batch just before it "
        "is learned, in the second half; of test rows with the contrast of the end; and, with the "
        "same settings, the mean over classes after a stream of one class after the other (oracle "
        "16.1).",
    )
    methods = {"oEM, 0.02": METHODS["oEM, 0.02"], "oEM, k^-0.6": METHODS["oEM, k^-0.6"]}
    for n in (500, 2000):
        methods[f"Nat-oEM step, at most {n:,} rows"] = {
            "constraint": "step", "max_reference_rows": n
        }  # fmt: skip
    methods["Nat-oEM step"] = METHODS["Nat-oEM step"]
    methods["IncrementalPCA, rank 2q"] = METHODS["IncrementalPCA, rank 2q"]
    for method, settings in methods.items():
        runs = over_seeds(measured, f"drift-{method}", drifting, settings)
        _add_means(table, method, runs, "prequential", "end", "classes")
    return table


def weights(measured: Measured) -> Table:
    """Scores where weights make classes of unequal size count alike."""
    table = Table(
        "Classes of unequal size that should count alike",
        ["method", "mean over classes", "worst class"],
        "Nats per row. optdigits, one class after the other, of 380, 190, 95, 47, 23 and then 12 "
        "rows. Weights make every class count as 380 rows. IncrementalPCA takes no weights.",
    )
    methods = {
        "batch, weighted (oracle)": "oracle",
        "Nat-oEM step, weighted": "weighted",
        "Nat-oEM step, all rows alike": "plain",
        "IncrementalPCA, rank 2q": "peer",
    }
    for method, settings in methods.items():
        _add_means(
            table,
            method,
            over_seeds(measured, f"weights-{settings}", unequal, settings),
            "mean",
            "worst",
        )
    return table


def returns(measured: Measured) -> Table:
    """Scores of classes that come in three visits."""
    table = Table(
        "Tasks that return",
        ["method", "a class before it returns", "all classes at the end"],
        "Nats per row. Every class of optdigits comes in three visits, in a new order each round.",
    )
    for method in (
        "oEM, 0.02", "oEM, k^-0.6", "gain, task", "printed, task", "Nat-oEM task, EM",
        "Nat-oEM task", "Nat-oEM step", "IncrementalPCA, rank 2q",
    ):  # fmt: skip
        runs = over_seeds(measured, f"returns-{method}", returning, METHODS[method])
        _add_means(table, method, runs, "return", "final")
    return table


def gaps(measured: Measured) -> Table:
    """Scores and errors of imputation where pixels are missing while learning."""
    table = Table(
        "Missing pixels",
        ["method", "missing", "complete test rows, nats per row", "error of imputed pixels"],
        "At random: classes of optdigits come one after the other, with pixels missing at random. "
        "At first: classes are mixed, and the last two lines of the image are missing in the first "
        "half of the stream. Error: root mean square over 30 % of the test pixels, given the "
        "others; lower is better. IncrementalPCA takes no gaps, so we fill them with the mean of "
        "the pixel so far.",
    )
    methods = {
        "batch EM, all rows at once": {"at_once": True},
        "Nat-oEM step": {"constraint": "step"},
        "Nat-oEM task, EM": EM_TASK,
        "IncrementalPCA, rank 2q, filled": {"peer": 2, "fill": True},
    }
    for share in (0.1, 0.3, 0.5, None):
        for method, settings in methods.items():
            run = at_first if share is None else partial(at_random, share=share)
            runs = over_seeds(measured, f"gaps-{method}-{share or 'first'}", run, settings)
            table.add(
                method,
                "two lines at first" if share is None else f"{share:.0%} at random",
                mean([r["final"] for r in runs]),
                mean([r["imputation"] for r in runs], 3),
            )
    return table


def mixture_table(measured: Measured, name: str) -> Table:
    """Scores of mixtures of PPCA on one class after the other."""
    table = Table(
        f"{TITLES[name]}: mixtures of PPCA, one class after the other",
        ["method", "final", "consolidation", "forgetting", "PPCAs", "NMI", "CPU s"],
        "Scores in nats per row; columns as above. A mixture has up to ten PPCAs. It adds one when "
        "enough rows have come that none explains. A PPCA with a tiny share keeps its parameters: "
        "it may be that of a rare class. NMI compares the likeliest PPCA of a test row with its "
        "class; 1 is perfect agreement.",
    )
    methods: dict[str, dict[str, Any]] = {
        "batch EM, 10 PPCAs": {"at_once": True},
        "mixture, Nat-oEM step": {"constraint": "step"},
        "mixture, Nat-oEM task, EM": EM_TASK,
        "mixture, oEM, 0.02": METHODS["oEM, 0.02"],
        "one PPCA, Nat-oEM step": {"constraint": "step", "n_mixtures": 1},
    }
    for method, settings in methods.items():
        runs = over_seeds(measured, f"{name}-mixture-{method}", mixtures, name, settings)
        found = [continual_summary(r["scores"]) for r in runs if r["scores"]]
        table.add(
            method,
            mean([r["final"] for r in runs]),
            mean([s.consolidation for s in found]) if found else "",
            mean([s.forgetting for s in found]) if found else "",
            mean([r["used"] for r in runs]),
            mean([r["nmi"] for r in runs], 2) if settings.get("n_mixtures") != 1 else "",
            f"{statistics.mean(r['cpu'] for r in runs):.1f}",
        )
    return table


def other_units(measured: Measured) -> Table:
    """Scores of the same stream with pixels from 0 to 1 and from 0 to 16."""
    table = Table(
        "Units of the rows",
        ["method", "pixels / 16", "pixels"],
        "Mean score over classes of optdigits, one after the other, less the logarithm of the "
        'units: nats per row. Both columns should be equal. "fails": parameters were not finite '
        "any more for at least one seed.",
    )
    methods = {
        "Nat-oEM step": METHODS["Nat-oEM step"],
        "Nat-oEM task, EM": EM_TASK,
        "gain, task": METHODS["gain, task"],
        "printed, task, complete, weight 20, clipped": METHODS["printed, task"],
        "printed, task, marginal, weight 0.5, not clipped": _loose(0.5),
        "printed, task, marginal, weight 5, not clipped": _loose(5.0),
    }
    for method, settings in methods.items():
        cells = []
        for scale in (1.0, 16.0):
            runs = over_seeds(measured, f"units-{method}-{scale}", units, settings, scale)
            scores = [run["final"] for run in runs]
            cells.append("fails" if None in scores else mean(scores, 2))
        table.add(method, *cells)
    return table


def _loose(weight: float) -> dict[str, Any]:
    return {"printed": {"step": PrintedStep(weight, complete=False, clip=False)}}
