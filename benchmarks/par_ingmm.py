"""Scenes into clusters: the experiment of the Par-InGMM paper on Caltech-101."""

import statistics
from itertools import product
from typing import Any

from benchmarks.corpora import DATA
from benchmarks.figures import staircases
from benchmarks.scene_pages import sheets_page, write_sheets
from benchmarks.scene_runs import (
    FEATURES,
    MANY,
    MODELS,
    OURS,
    PER_CATEGORY,
    ROWS_PER_START,
    Scene,
    clustered,
    described,
    is_described,
    is_done,
)
from benchmarks.table import Table, write_page

SIZES = (10, 102)
RESAMPLES = 10
SLOW = ("full", "zero-mean")
SCORES = ("purity", "completeness", "nmi", "v_measure", "ami")
PAPERS_OWN = OURS[:4]
TABLE_1 = {
    "HOG": (
        ".226/.303/.209/.195/.144",
        ".252/.283/.214/.206/.161",
        ".265/.220/.182/.179/.151",
        ".356/.221/.231/.231/.220",
    ),
    "LBP": (
        ".200/.116/.089/.086/.069",
        ".201/.117/.090/.087/.069",
        ".222/.140/.120/.119/.104",
        ".316/.164/.181/.180/.163",
    ),
    "CNN": (
        ".420/.643/.524/.513/.427",
        ".376/.616/.472/.456/.362",
        ".476/.515/.480/.479/.448",
        ".746/.511/.592/.585/.510",
    ),
}
"""Means of the paper, on ten scene categories of Places365 with VGG19."""
TABLE_2 = (
    ".0042/.0007/.0014/.0020/.0031",
    ".0033/.0003/.0012/.0015/.0025",
    ".0034/.00007/.0008/.0007/.0008",
    ".0011/.0002/.0003/.0003/.0002",
)
"""Variances of the paper over ten samples, VGG19."""
HEAD = f"""# Scenes into clusters: the Par-InGMM experiment

Written by `make reproduce PAPER=par_ingmm`. The paper clusters ten categories of Places365, 5,000
images each, by HOG, LBP and VGG19 features reduced to 100 dimensions. Here the images are 30 of
each of the 102 folders of Caltech-101, and the network is EfficientNet-Lite0; so numbers beside
the paper's compare in their order, not in their size. HOG: 9 directions, 16 x 16 cells. LBP: 59
uniform patterns on an 8 x 8 grid. All are reduced by `ScaledPCA`: not whitened, mean variance 1.

A resample of "10" is ten folders with all their 300 images, other folders each time; one of "102"
is {PER_CATEGORY} of the 30 images of every folder. The paper's four models start with one
component and learn for 50 laps at most, as in the paper, but from batches of 1,000 rows instead of
15 batches. "diagonal, shared" is `DPMixture(prior="shared")`, which starts with a component for
every {ROWS_PER_START} rows and merges: nothing tells it the number of classes. KMeans is told, and
is the best of ten starts. BayesianGaussianMixture is given twice the true number, and its own
defaults but for the covariances where "diagonal" is said. HDBSCAN has `min_cluster_size=5`; what it
calls noise is one cluster more.

NMI divides by the geometric mean of the entropies, AMI by the larger one, as the paper's numbers
do (`everlearn.metrics.clustering`). **Read every score beside K**: purity rises with K by itself,
completeness falls. CPU seconds are those of the process on one thread, on a busy machine.
"""

WHY = """\
The paper has 5,000 images of a category, and 30 are here. Its Wishart prior is worth 102 rows
of unit variance in each component, so it hardly cuts at all where a category has 30. Par-InGMM's
is worth 1.8: it finds tight components, each of one category or of a part of it, and leaves the
rest of all categories in one wide component, 108 of the 300 images of the first resample of CNN
features. A shared spread allows neither. Gradients and textures say little about these categories,
and the diagonal models then stay with a few components where a resample has 300 images.
"""


def reproduce() -> None:
    """Run what has not been run yet, the quick models first; the page is written as it grows."""
    if not DATA.exists():
        print("skipped par_ingmm: no folder of shared data beside the repository")
        return
    quick = [model for model in MODELS if model not in SLOW]
    for models in (quick, SLOW):
        for features, resample in product(("CNN", "HOG", "LBP"), range(RESAMPLES)):
            for size, model in product(SIZES, models):
                clustered(Scene(features, size, resample), model)
            _write(complete=False)
    _write(complete=True)


def _write(complete: bool) -> None:
    runs = {
        (features, size, model): _known(features, size, model)
        for size in SIZES
        for features in FEATURES
        for model in MODELS
    }
    measured = [run["measured"] for known in runs.values() for run in known]
    content: list[Table | str] = [_claims(runs)]
    for size in SIZES:
        content += [_means(runs, size), _variances(runs, size)]
    content += [_curves(runs), _papers_tables()]
    names = [name for name in FEATURES if complete or is_described(name)]
    if names:
        ends = {name: described(name) for name in names}
        content.append(_end_to_end(ends))
        measured += [run["measured"] for run in ends.values()]
    content.append(_clusters(runs))
    print("written to", write_page("papers/par_ingmm.md", HEAD, content, measured))


def _known(features: str, size: int, model: str) -> list[dict[str, Any]]:
    scenes = (Scene(features, size, r) for r in range(RESAMPLES))
    return [clustered(scene, model) for scene in scenes if is_done(scene, model)]


Runs = dict[tuple[str, int, str], list[dict[str, Any]]]


def _mean(known: list[dict[str, Any]], key: str) -> float:
    return statistics.fmean(run[key] for run in known)


def _means(runs: Runs, size: int) -> Table:
    table = Table(
        f"{size} categories: means over resamples",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI", "AMI, arithmetic", "ARI",
         "CPU s", "CPU s a lap", "resamples"],
    )  # fmt: skip
    for features in FEATURES:
        for model in MODELS:
            known = runs[features, size, model]
            if not known:
                continue
            laps = sum(run["laps"] or 0 for run in known)
            table.add(
                features,
                model,
                f"{_mean(known, 'n_clusters'):.1f}",
                *(f"{_mean(known, key):.3f}" for key in (*SCORES, "ami_arithmetic", "ari")),
                f"{_mean(known, 'cpu'):.2f}",
                f"{sum(run['cpu'] for run in known) / laps:.3f}" if laps else "",
                len(known),
            )
    return table


def _variances(runs: Runs, size: int) -> Table:
    table = Table(
        f"{size} categories: variances over resamples",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI"],
    )
    for features in FEATURES:
        for model in OURS:
            known = runs[features, size, model]
            if len(known) < 3:
                continue
            spread = [statistics.variance(run[key] for run in known) for key in SCORES]
            k = statistics.variance(run["n_clusters"] for run in known)
            table.add(features, model, f"{k:.1f}", *(f"{value:.4f}" for value in spread))
    return table


def _papers_tables() -> str:
    lines = ["| features | " + " | ".join(PAPERS_OWN) + " |", "|" + " --- |" * 5]
    lines += [f"| {name} | " + " | ".join(row) + " |" for name, row in TABLE_1.items()]
    lines.append("| CNN, variance | " + " | ".join(TABLE_2) + " |")
    return (
        "## The paper's Tables 1 and 2\n\npurity / COM / NMI / V / AMI, ten categories of "
        "Places365, VGG19 for CNN. It does not tell K; its entropies say 4.6, 3.9, 7.4 and 21.8 "
        "effective clusters for VGG19.\n\n" + "\n".join(lines) + "\n"
    )


# ------------------------------------------------------------------------- claims


def _claims(runs: Runs) -> str:
    lines = ["## Which claims hold\n", WHY]
    for size in SIZES:
        lines += [f"### {size} categories\n", *_order(runs, size), *_costs(runs, size)]
        lines += [*_steadiness(runs, size), *_against_peers(runs, size), ""]
    return "\n".join(lines)


def _verdict(holds: bool) -> str:
    return "holds" if holds else "does not hold"


def _order(runs: Runs, size: int) -> list[str]:
    """Par-InGMM above the Wishart prior above full, by purity, NMI and AMI."""
    lines = []
    for features in FEATURES:
        names = ("Par-InGMM", "diagonal, Wishart", "full")
        known = [runs[features, size, name] for name in names]
        n = min(len(k) for k in known)
        if not n:
            continue
        said = []
        for key, title in (("purity", "purity"), ("nmi", "NMI"), ("ami", "AMI")):
            a, b, c = (_mean(k[:n], key) for k in known)
            said.append(f"{title} {a:.3f}, {b:.3f}, {c:.3f}: {_verdict(a > b > c)}")
        lines.append(
            f"- {features}, Par-InGMM > diagonal Wishart > full, means over {n} resamples. "
            f"{'; '.join(said)}."
        )
    return lines


def _costs(runs: Runs, size: int) -> list[str]:
    """A lap of the diagonal models is cheaper, component by component."""

    def cost(known: list[dict[str, Any]]) -> float:
        return statistics.fmean(r["cpu"] / (r["laps"] * r["n_clusters"]) for r in known)

    lines = []
    for features in FEATURES:
        full, diagonal = runs[features, size, "full"], runs[features, size, "Par-InGMM"]
        if full and diagonal:
            a, b = cost(full), cost(diagonal)
            lines.append(
                f"- {features}, diagonal is cheaper: {1e3 * b:.2f} ms of CPU a lap and component "
                f"against {1e3 * a:.2f} of the full family: {_verdict(b < a)}."
            )
    return lines


def _steadiness(runs: Runs, size: int) -> list[str]:
    """Variance of AMI over the same resamples."""
    lines = []
    for features in FEATURES:
        full, diagonal = runs[features, size, "full"], runs[features, size, "Par-InGMM"]
        n = min(len(full), len(diagonal))
        if n < 3:
            continue
        a, b = (statistics.variance(run["ami"] for run in known[:n]) for known in (full, diagonal))
        lines.append(
            f"- {features}, Par-InGMM varies less than full over {n} resamples: variance of AMI "
            f"{b:.2g} against {a:.2g}: {_verdict(b < a)}."
        )
    return lines


def _against_peers(runs: Runs, size: int) -> list[str]:
    """Our best mixture against KMeans and BayesianGaussianMixture, on CNN features."""
    peers = ("KMeans, true K", "BayesianGaussianMixture, 2 K")
    known = {name: runs["CNN", size, name] for name in MODELS}
    n = min(len(known[name]) for name in (*peers, "diagonal, shared"))
    if not n:
        return []

    def ami(name: str) -> float:
        return _mean(known[name][:n], "ami")

    best = max((name for name in OURS if len(known[name]) >= n), key=ami)
    said = ", ".join(f"{name} {ami(name):.3f}" for name in peers)
    holds = all(ami(best) >= ami(name) for name in peers)
    k = _mean(known[best][:n], "n_clusters")
    line = (
        f"- CNN, our best mixture ({best}) is at least as good by AMI as KMeans given the true K "
        f"and BayesianGaussianMixture given twice that, means over {n} resamples and seeds: "
        f"{ami(best):.3f} with K = {k:.1f} against {said}: {_verdict(holds)}."
    )
    return [line]


# ------------------------------------------------------------------------ figures


def _curves(runs: Runs) -> str:
    """K over CPU seconds, first resample of the CNN features of 10 and of 102 categories."""
    panels = {f"{size} categories": _traces(runs, size) for size in SIZES}
    staircases("par_ingmm_growth", panels, "CPU seconds", "components")
    return (
        "## K against time\n\nCNN features, first resample.\n\n"
        "![Components over CPU seconds](../images/par_ingmm_growth.png)\n"
    )


def _traces(runs: Runs, size: int) -> dict[str, list[tuple[float, int]]]:
    known = {name: runs["CNN", size, name] for name in OURS}
    return {name: found[0]["trace"] for name, found in known.items() if found}


def _clusters(runs: Runs) -> str:
    """Contact sheets of the first resample, which are made if they are not there."""
    scene = Scene("CNN", SIZES[0], 0)
    page = sheets_page(scene)
    if not page.exists():
        write_sheets(scene, "diagonal, shared", _traces(runs, scene.size), "par_ingmm_clusters")
    return (
        "## What clusters look like\n\nThe six largest of the first resample of ten categories, "
        'CNN features, prior "shared": the eight images nearest each mean. Categories in red '
        f"differ from that of the first. A page with all of them is written to {page.name} in "
        "out/reproduce/par_ingmm.\n\n![Images of clusters](../images/par_ingmm_clusters.png)\n"
    )


def _end_to_end(ends: dict[str, dict[str, Any]]) -> Table:
    table = Table(
        f"End to end: {MANY:,} images",
        ["features", "numbers", "images/s", "images/s and core", "features, CPU s",
         "reduction, CPU s", "clustering, CPU s", "clustering's share", "K"],
        f"The 3,060 images, repeated to {MANY:,}, decoded from JPEG, described by as many threads "
        "as there are cores, reduced by `ScaledPCA` and clustered by `DPMixture(prior=\"shared\")` "
        "from one component. Images a second are by the clock, beside other programs; images a "
        "second and core are by CPU time. Every image comes about three times, and copies are the "
        "tightest of clusters: K says nothing here.",
    )  # fmt: skip
    for name, run in ends.items():
        cpu = {part: run[part]["cpu"] for part in ("features", "reduction", "clustering")}
        table.add(
            name,
            run["width"],
            f"{MANY / run['features']['wall']:.0f}",
            f"{MANY / cpu['features']:.0f}",
            f"{cpu['features']:.0f}",
            f"{cpu['reduction']:.0f}",
            f"{cpu['clustering']:.1f}",
            f"{cpu['clustering'] / sum(cpu.values()):.1%}",
            run["K"],
        )
    return table
