"""Where the natural constraint earns its keep: drift, weights, returns, gaps, mixtures, units."""

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.natural_gaps import at_first, at_random
from benchmarks.natural_runs import (
    EM_TASK,
    WAYS,
    drifting,
    mixtures,
    one_after_the_other,
    returning,
    unequal,
    units,
)
from benchmarks.reference.printed_ppca import PrintedStep
from benchmarks.remember import remembered
from benchmarks.table import Table
from everlearn.metrics.continual import continual_summary

PAPER = "natural_online_em"
SEEDS = range(5)
TITLES = {"optdigits": "optdigits", "mnist": "MNIST"}
Measured = set[str]


def kept(measured: Measured, key: str, run: Callable[..., Any], *arguments: Any) -> Any:
    plain = "".join(c if c.isalnum() or c in ".-" else "_" for c in key)
    result = remembered(PAPER, plain, lambda: run(*arguments))
    measured.add(result["measured"])
    return result


def mean(values: list[float], digits: int = 1) -> str:
    """Mean and standard deviation over the seeds."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def narrowest_last(measured: Measured) -> Table:
    """Orders that end with the class that is most unlike the others."""
    table = Table(
        "MNIST, one class after the other, ones last",
        ["method", "final", "worst class"],
        "The same orders, with the ones moved to the end: nats per row, mean over classes after "
        "the last one, and the class that is worst then. Ones are the narrowest class, so that a "
        "model that knows nothing else is most wrong about the others.",
    )
    for way in ("oEM, 0.02", "oEM, k^-0.6", "Nat-oEM step", "Nat-oEM task"):
        ends = [
            kept(measured, f"mnist-last-{way}-{s}", one_after_the_other, "mnist", WAYS[way], s, 1)[
                "scores"
            ][-1]
            for s in SEEDS
        ]
        table.add(way, mean([float(np.mean(end)) for end in ends]), mean([min(e) for e in ends]))
    return table


def drift(measured: Measured) -> Table:
    """Stability against plasticity."""
    table = Table(
        "A stream that drifts",
        ["method", "rows before they are learned", "end of the drift", "all classes, one by one"],
        "optdigits whose contrast falls to a quarter along the stream. Nats per row: of each batch "
        "just before it is learned, in the second half; of test rows as they are at the end; and, "
        "for the same settings, the mean over classes after a stream of one class after the other "
        "(oracle 16.1). `max_reference_rows` is the trade between the last two.",
    )
    ways = {"oEM, 0.02": WAYS["oEM, 0.02"], "oEM, k^-0.6": WAYS["oEM, k^-0.6"]}
    for n in (500, 2000):
        ways[f"Nat-oEM step, at most {n:,} rows"] = {
            "constraint": "step", "max_reference_rows": n
        }  # fmt: skip
    ways["Nat-oEM step"] = WAYS["Nat-oEM step"]
    ways["IncrementalPCA, rank 2q"] = WAYS["IncrementalPCA, rank 2q"]
    for way, how in ways.items():
        runs = [kept(measured, f"drift-{way}-{s}", drifting, how, s) for s in SEEDS]
        table.add(way, *(mean([r[k] for r in runs]) for k in ("prequential", "end", "classes")))
    return table


def weights(measured: Measured) -> Table:
    """Classes of unequal size that are to count alike."""
    table = Table(
        "Classes of unequal size that are to count alike",
        ["method", "mean over classes", "worst class"],
        "optdigits, one class after the other, of 380, 190, 95, 47, 23 and then 12 rows. Rows "
        "weigh as much as makes their class count for 380; IncrementalPCA takes no weights.",
    )
    ways = {
        "batch, weighted (oracle)": "oracle",
        "Nat-oEM step, weighted": "weighted",
        "Nat-oEM step, all rows alike": "plain",
        "IncrementalPCA, rank 2q": "peer",
    }
    for way, how in ways.items():
        runs = [kept(measured, f"weights-{how}-{s}", unequal, how, s) for s in SEEDS]
        table.add(way, *(mean([r[k] for r in runs]) for k in ("mean", "worst")))
    return table


def returns(measured: Measured) -> Table:
    """Tasks that come back."""
    table = Table(
        "Tasks that return",
        ["method", "a class when it returns", "all classes at the end"],
        "optdigits, every class in three visits, in a new order each round. Nats per row of a "
        "class just before it comes again, and mean over classes at the end.",
    )
    for way in (
        "oEM, 0.02", "oEM, k^-0.6", "gain, task", "printed, task", "Nat-oEM task, EM",
        "Nat-oEM task", "Nat-oEM step", "IncrementalPCA, rank 2q",
    ):  # fmt: skip
        runs = [kept(measured, f"returns-{way}-{s}", returning, WAYS[way], s) for s in SEEDS]
        table.add(way, *(mean([r[k] for r in runs]) for k in ("return", "final")))
    return table


def gaps(measured: Measured) -> Table:
    """Rows with missing pixels."""
    table = Table(
        "Missing pixels",
        ["method", "missing", "complete test rows, nats", "error of imputed pixels"],
        "optdigits. At random: one class after the other, pixels missing at random while learning. "
        "At first: all classes mixed, and the last two lines of the image missing in the first "
        "half of the stream. Error: root mean square of 30 % of the test pixels, given the others. "
        "IncrementalPCA takes no gaps; they are filled with the mean of the pixel so far.",
    )
    ways = {
        "batch EM, all rows at once": {"at_once": True},
        "Nat-oEM step": {"constraint": "step"},
        "Nat-oEM task, EM": EM_TASK,
        "IncrementalPCA, rank 2q, filled": {"peer": 2, "fill": True},
    }
    for share in (0.1, 0.3, 0.5, None):
        for way, how in ways.items():
            key = f"gaps-{way}-{share or 'first'}"
            runs = [
                kept(measured, f"{key}-{s}", at_first, how, s)
                if share is None
                else kept(measured, f"{key}-{s}", at_random, how, s, share)
                for s in SEEDS
            ]
            table.add(
                way,
                "two lines at first" if share is None else f"{share:.0%} at random",
                mean([r["final"] for r in runs]),
                mean([r["imputation"] for r in runs], 3),
            )
    return table


def mixture_table(measured: Measured, name: str) -> Table:
    """Mixtures of PPCA, class after class."""
    table = Table(
        f"{TITLES[name]}: mixtures of PPCA, one class after the other",
        ["method", "final", "consolidation", "forgetting", "PPCAs", "NMI", "CPU s"],
        "Up to ten PPCAs; a new one is made when enough rows have come that none explains. A PPCA "
        "with a tiny share is not seeded anew: it may be of a rare class, and would be forgotten; "
        "it keeps its parameters until rows of its own return. NMI of the likeliest PPCA of a "
        "test row with its class.",
    )
    ways: dict[str, dict[str, Any]] = {
        "batch EM, 10 PPCAs": {"at_once": True},
        "mixture, Nat-oEM step": {"constraint": "step"},
        "mixture, Nat-oEM task, EM": EM_TASK,
        "mixture, oEM, 0.02": WAYS["oEM, 0.02"],
        "one PPCA, Nat-oEM step": {"constraint": "step", "n_mixtures": 1},
    }
    for way, how in ways.items():
        runs = [kept(measured, f"{name}-mixture-{way}-{s}", mixtures, name, how, s) for s in SEEDS]
        found = [continual_summary(r["scores"]) for r in runs if r["scores"]]
        table.add(
            way,
            mean([r["final"] for r in runs]),
            mean([s.consolidation for s in found]) if found else "",
            mean([s.forgetting for s in found]) if found else "",
            mean([r["used"] for r in runs]),
            mean([r["nmi"] for r in runs], 2) if how.get("n_mixtures") != 1 else "",
            f"{statistics.mean(r['cpu'] for r in runs):.1f}",
        )
    return table


def other_units(measured: Measured) -> Table:
    """The same stream with pixels from 0 to 1 and from 0 to 16."""
    table = Table(
        "Units",
        ["method", "pixels / 16", "pixels"],
        "optdigits, one class after the other: mean score at the end, less the logarithm of the "
        "units, so that both columns should be equal. 'fails': parameters were not finite any "
        "more in at least one of the seeds.",
    )
    ways = {
        "Nat-oEM step": WAYS["Nat-oEM step"],
        "Nat-oEM task, EM": EM_TASK,
        "gain, task": WAYS["gain, task"],
        "printed, task, complete, weight 20, clipped": WAYS["printed, task"],
        "printed, task, marginal, weight 0.5, not clipped": _loose(0.5),
        "printed, task, marginal, weight 5, not clipped": _loose(5.0),
    }
    for way, how in ways.items():
        cells = []
        for scale in (1.0, 16.0):
            runs = [
                kept(measured, f"units-{way}-{scale}-{s}", units, how, scale, s)["final"]
                for s in SEEDS
            ]
            cells.append("fails" if None in runs else mean(runs, 2))
        table.add(way, *cells)
    return table


def _loose(weight: float) -> dict[str, Any]:
    return {"printed": {"step": PrintedStep(weight, complete=False, clip=False)}}
