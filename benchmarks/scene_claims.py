"""The claims of the Par-InGMM paper, and ours, checked on the runs of the scene experiment."""

import math
import statistics
from typing import Any

from benchmarks.scene_runs import FEATURES, MODELS, OURS
from benchmarks.table import Table

SIZES = (10, 102)
"""Numbers of categories in a scene."""
PAPERS_OWN = OURS[:4]
DIAGONAL = ("diagonal, Wishart", "Par-InGMM")
PEERS = ("KMeans, true K", "BayesianGaussianMixture, 2 K")
SCORES = {
    "purity": "purity",
    "completeness": "COM",
    "nmi": "NMI",
    "v_measure": "V",
    "ami": "AMI",
}
"""Names of our metrics, with their columns in the paper."""
FEWEST = 5
"""Fewest resamples for a statement about which of two models is better or varies less."""

Runs = dict[tuple[str, int, str], list[dict[str, Any]]]
"""Runs of all resamples in order, by features, number of categories and model."""

WHY = """\
Most claims about the order of models do not hold here. The paper has 5,000 images of a
category, and we have 30. The Wishart prior weighs as much as 102 rows of unit variance in each
component, so it hardly splits categories of 30. The Par-InGMM prior weighs as much as 1.8 rows:
it finds tight components, each of one category or a part of it, and leaves the rest of all
categories in one wide component. A shared spread allows neither. HOG and LBP features say little
about these categories, so the diagonal models keep a few components where a resample has 300
images.
"""


def claims(runs: Runs) -> list[Table | str]:
    """A section with a table for each claim, for 10 and for 102 categories."""
    content: list[Table | str] = [f"## Which claims hold\n\n{WHY}"]
    for size in SIZES:
        content.append(f"### {size} categories\n")
        tables = [claim(runs, size) for claim in (order, fewest, costs, steadiness, against_peers)]
        content += [table for table in tables if table.rows]
    return content


def mean(known: list[dict[str, Any]], key: str) -> float:
    """Mean of an entry of the runs."""
    return statistics.fmean(run[key] for run in known)


def cpu_a_lap(known: list[dict[str, Any]]) -> float | None:
    """CPU seconds divided by laps; None for models without laps."""
    laps = sum(len(run["trace"]) for run in known)
    return sum(run["cpu"] for run in known) / laps if laps else None


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"


def _claim(title: str, columns: list[str], note: str) -> Table:
    return Table(title, columns, note, shown=False, level=4)


def _same_resamples(
    runs: Runs, features: str, size: int, names: tuple[str, ...]
) -> list[list[dict[str, Any]]]:
    """The runs of each model on the resamples that all the models have."""
    known = [runs[features, size, name] for name in names]
    n = min(len(found) for found in known)
    return [found[:n] for found in known]


def order(runs: Runs, size: int) -> Table:
    """Par-InGMM above the Wishart prior above full, by purity, NMI and AMI."""
    table = _claim(
        "Par-InGMM scores above diagonal Wishart, and that above full",
        ["features", "K", "purity", "holds", "NMI", "holds", "AMI", "holds", "resamples"],
        "Means over resamples of Par-InGMM, diagonal Wishart and full, in this order.",
    )
    names = ("Par-InGMM", "diagonal, Wishart", "full")
    for features in FEATURES:
        known = _same_resamples(runs, features, size, names)
        if not known[0]:
            continue
        cells = [", ".join(f"{mean(found, 'n_clusters'):.1f}" for found in known)]
        for key in ("purity", "nmi", "ami"):
            a, b, c = (mean(found, key) for found in known)
            cells += [f"{a:.3f}, {b:.3f}, {c:.3f}", _yes(a > b > c)]
        table.add(features, *cells, len(known[0]))
    return table


def fewest(runs: Runs, size: int) -> Table:
    """The full family finds the fewest clusters of the paper's four."""
    table = _claim(
        "Full covariance finds the fewest clusters",
        ["features", *(f"K, {name}" for name in PAPERS_OWN), "holds"],
        "Mean number of clusters over resamples.",
    )
    for features in FEATURES:
        known = _same_resamples(runs, features, size, PAPERS_OWN)
        if known[0]:
            counts = [mean(found, "n_clusters") for found in known]
            holds = _yes(counts[0] < min(counts[1:]))
            table.add(features, *(f"{count:.1f}" for count in counts), holds)
    return table


def costs(runs: Runs, size: int) -> Table:
    """A lap of the diagonal models is cheaper, and so is a lap divided by its components."""

    def a_component(known: list[dict[str, Any]]) -> float:
        """CPU seconds divided by the components of all laps, because K changes from lap to lap."""
        laps = sum(k for run in known for _, k in run["trace"])
        return sum(run["cpu"] for run in known) / laps

    table = _claim(
        "The diagonal models are cheaper than full covariance",
        ["features", "model", "CPU ms a lap", "full, CPU ms a lap",
         "CPU ms a lap and component", "full, CPU ms a lap and component", "holds"],
        "CPU milliseconds, also divided by the components of each lap.",
    )  # fmt: skip
    for features in FEATURES:
        for name in DIAGONAL:
            full, diagonal = _same_resamples(runs, features, size, ("full", name))
            a, b = cpu_a_lap(full), cpu_a_lap(diagonal)
            if a is None or b is None:
                continue
            c, d = a_component(full), a_component(diagonal)
            laps = (f"{1e3 * b:.1f}", f"{1e3 * a:.1f}", f"{1e3 * d:.2f}", f"{1e3 * c:.2f}")
            table.add(features, name, *laps, _yes(b < a and d < c))
    return table


def steadiness(runs: Runs, size: int) -> Table:
    """The scores of the diagonal models vary less over the same resamples."""
    table = _claim(
        "The diagonal models vary less than full covariance",
        ["features", "model", "K", "K, full", *SCORES.values(), "resamples"],
        "Variances over resamples: that of the model, that of full, and whether the first is "
        'smaller. "-": the model finds one cluster in each resample, so nothing varies.',
    )
    for features in FEATURES:
        for name in DIAGONAL:
            full, diagonal = _same_resamples(runs, features, size, ("full", name))
            if len(full) < FEWEST:
                continue
            counts = [f"{mean(found, 'n_clusters'):.1f}" for found in (diagonal, full)]
            cells = ["-"] * len(SCORES)
            if any(run["n_clusters"] != 1 for run in diagonal):
                cells = []
                for key in SCORES:
                    a, b = (statistics.variance(run[key] for run in f) for f in (diagonal, full))
                    cells.append(f"{a:.2g}, {b:.2g}: {_yes(a < b)}")
            table.add(features, name, *counts, *cells, len(full))
    return table


def against_peers(runs: Runs, size: int) -> Table:
    """Our best mixture against KMeans and BayesianGaussianMixture, on CNN features."""
    table = _claim(
        "Our best mixture is as good as peers that are given K",
        ["model", "AMI", "K", "peer", "AMI, peer", "K, peer", "difference in AMI", "holds",
         "resamples"],
        "CNN features. Means over resamples, each with a seed of its own; the difference is paired "
        "and has its standard error.",
    )  # fmt: skip
    known = {name: runs["CNN", size, name] for name in MODELS}
    n = min(len(known[name]) for name in (*PEERS, "diagonal, shared"))
    if n < FEWEST:
        return table

    def cells(name: str) -> tuple[str, str, str]:
        return name, f"{ami(name):.3f}", f"{mean(known[name][:n], 'n_clusters'):.1f}"

    def ami(name: str) -> float:
        return mean(known[name][:n], "ami")

    best = max((name for name in OURS if len(known[name]) >= n), key=ami)
    for peer in PEERS:
        difference = _difference(known[best][:n], known[peer][:n])
        table.add(*cells(best), *cells(peer), difference, _yes(ami(best) >= ami(peer)), n)
    return table


def _difference(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> str:
    """Mean difference in AMI on the same resamples, with its standard error."""
    pairs = [a["ami"] - b["ami"] for a, b in zip(ours, others, strict=True)]
    error = statistics.stdev(pairs) / math.sqrt(len(pairs))
    return f"{statistics.fmean(pairs):+.4f} ± {error:.4f}"
