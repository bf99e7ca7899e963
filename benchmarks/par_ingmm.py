"""Scenes into clusters: the experiment of the Par-InGMM paper on Caltech-101."""

import statistics
from itertools import product
from typing import Any

from benchmarks.corpora import DATA
from benchmarks.figures import staircases
from benchmarks.scene_claims import PAPERS_OWN, SCORES, SIZES, Runs, claims, cpu_a_lap, mean
from benchmarks.scene_pages import sheets_page, write_sheets
from benchmarks.scene_runs import (
    FEATURES,
    MANY,
    MODELS,
    OURS,
    PER_CATEGORY,
    TOLD,
    Scene,
    clustered,
    described,
    is_described,
    is_done,
)
from benchmarks.table import Table, write_page
from everlearn.mixture.setup import ROWS_PER_START

RESAMPLES = 10
SLOW = ("full", "zero-mean")
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
component and learn for 50 laps at most, as in the paper, but from batches of up to 1,000 rows (one
of "10", three of "102") instead of 15 batches. "diagonal, shared" is what `image_pipeline` ends in,
`DPMixture(prior="shared", init_components="many", n_init=5)`: the best of five starts by the bound,
a number that was chosen on these resamples of ten categories. Each starts with a component for
every {ROWS_PER_START} rows and merges: nothing tells it the number of classes. KMeans is told, and
is the best of ten starts. BayesianGaussianMixture is given twice the true number, and its own
defaults but for covariances and 200 iterations where "diagonal" is said. HDBSCAN has
`min_cluster_size=5`; what it calls noise is one cluster more.

NMI divides by the geometric mean of the entropies, AMI by the larger one, as the paper's numbers
do (`everlearn.metrics.clustering`). **Read every score beside K**: purity rises with K by itself,
completeness falls. CPU seconds are those of all threads of the process, on a busy machine: the
mixtures visit rows on one thread, but linear algebra and scikit-learn take as many as they like.
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
    for features, resample in product(FEATURES, range(RESAMPLES)):
        for model in TOLD:
            clustered(Scene(features, SIZES[0], resample), model, told=True)
    _write(complete=True)


def _write(complete: bool) -> None:
    """The page of what there is; rows are printed, and clusters drawn, when nothing is missing."""
    runs = {
        (features, size, model): _known(features, size, model)
        for size in SIZES
        for features in FEATURES
        for model in MODELS
    }
    measured = [run["measured"] for known in runs.values() for run in known]
    content: list[Table | str] = [claims(runs), _beside_the_paper(runs, complete)]
    for size in SIZES:
        content += [_means(runs, size, complete), _variances(runs, size, complete)]
    content += [_at_equal_k(complete), _curves(runs)]
    names = [name for name in FEATURES if complete or is_described(name)]
    if names:
        ends = {name: described(name) for name in names}
        content.append(_end_to_end(ends, complete))
        measured += [run["measured"] for run in ends.values()]
    if complete:
        content.append(_clusters(runs))
    page = write_page("papers/par_ingmm.md", HEAD, content, measured)
    if complete:
        print("written to", page)


def _known(features: str, size: int, model: str, told: bool = False) -> list[dict[str, Any]]:
    scenes = (Scene(features, size, r) for r in range(RESAMPLES))
    return [clustered(scene, model, told) for scene in scenes if is_done(scene, model, told)]


def _means(runs: Runs, size: int, shown: bool) -> Table:
    table = Table(
        f"{size} categories: means over resamples",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI", "AMI, arithmetic", "ARI",
         "CPU s", "CPU s a lap", "resamples"],
        "CPU seconds a lap are all those of a fit over all its laps: of \"diagonal, shared\" over "
        "those of its five starts, with the seconds in which it finds the spread.",
        shown=shown,
    )  # fmt: skip
    for features in FEATURES:
        for model in MODELS:
            known = runs[features, size, model]
            if not known:
                continue
            a_lap = cpu_a_lap(known)
            table.add(
                features,
                model,
                f"{mean(known, 'n_clusters'):.1f}",
                *(f"{mean(known, key):.3f}" for key in (*SCORES, "ami_arithmetic", "ari")),
                f"{mean(known, 'cpu'):.2f}",
                "" if a_lap is None else f"{a_lap:.3f}",
                len(known),
            )
    return table


def _variances(runs: Runs, size: int, shown: bool) -> Table:
    table = Table(
        f"{size} categories: variances over resamples",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI"],
        shown=shown,
    )
    for features in FEATURES:
        for model in OURS:
            known = runs[features, size, model]
            if len(known) < 3:
                continue
            spread = [statistics.variance(run[key] for run in known) for key in SCORES]
            k = statistics.variance(run["n_clusters"] for run in known)
            table.add(features, model, f"{k:.1f}", *(f"{value:.2g}" for value in spread))
    return table


def _at_equal_k(shown: bool) -> Table:
    """The families, each told the true number of categories."""
    size = SIZES[0]
    table = Table(
        f"{size} categories: families at equal K",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI", "resamples"],
        f"Each family starts with {size} components, the true number, by the seeding that all "
        "starts have, and neither births nor merges happen, so that scores compare what the "
        "families make of the same number. K counts those that are some row's most probable.",
        shown=shown,
    )
    for features in FEATURES:
        for model in TOLD:
            if known := _known(features, size, model, told=True):
                k = f"{mean(known, 'n_clusters'):.1f}"
                table.add(
                    features, model, k, *(f"{mean(known, key):.3f}" for key in SCORES), len(known)
                )
    return table


def _beside_the_paper(runs: Runs, shown: bool) -> Table:
    """Tables 1 and 2 of the paper, with what was found here before each of its numbers."""
    size = SIZES[0]
    table = Table(
        f"{size} categories, beside the paper's Tables 1 and 2",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI"],
        "Means, and for CNN variances over resamples, with the paper's in brackets: ten categories "
        "of Places365, VGG19 for CNN. It does not tell K; its entropies say 4.6, 3.9, 7.4 and 21.8 "
        "effective clusters for VGG19.",
        shown=shown,
    )
    for features, rows in TABLE_1.items():
        for model, row in zip(PAPERS_OWN, rows, strict=True):
            if known := runs[features, size, model]:
                ours = [f"{mean(known, key):.3f}" for key in SCORES]
                k = f"{mean(known, 'n_clusters'):.1f}"
                table.add(features, model, k, *_with_the_papers(ours, row))
    for model, row in zip(PAPERS_OWN, TABLE_2, strict=True):
        if len(known := runs["CNN", size, model]) >= 3:
            ours = [f"{statistics.variance(run[key] for run in known):.2g}" for key in SCORES]
            k = f"{statistics.variance(run['n_clusters'] for run in known):.1f}"
            table.add("CNN, variance", model, k, *_with_the_papers(ours, row))
    return table


def _with_the_papers(ours: list[str], papers: str) -> list[str]:
    return [f"{own} ({other})" for own, other in zip(ours, papers.split("/"), strict=True)]


# ------------------------------------------------------------------------ figures


def _curves(runs: Runs) -> str:
    """K over CPU seconds, first resample of the CNN features of 10 and of 102 categories."""
    panels = {f"{size} categories": _traces(runs, size) for size in SIZES}
    staircases("par_ingmm_growth", panels, "CPU seconds", "components")
    return (
        "## K against time\n\nCNN features, first resample: K after each lap. "
        '"diagonal, shared" finds the spread before its first lap; its five starts are drawn one '
        "after the other, and the best is not always the last.\n\n"
        "![Components over CPU seconds](../images/par_ingmm_growth.png)\n"
    )


def _traces(runs: Runs, size: int) -> dict[str, list[tuple[float, int]]]:
    known = {name: runs["CNN", size, name] for name in OURS}
    return {name: found[0]["trace"] for name, found in known.items() if found}


def _clusters(runs: Runs) -> str:
    """Contact sheets of the first resample, with the curves of all models."""
    scene = Scene("CNN", SIZES[0], 0)
    write_sheets(scene, "diagonal, shared", _traces(runs, scene.size), "par_ingmm_clusters")
    return (
        "## What clusters look like\n\nThe six largest of the first resample of ten categories, "
        'CNN features, prior "shared": the eight images nearest each mean. Categories in red '
        f"differ from that of the first. A page with all of them is written to "
        f"{sheets_page(scene).name} in out/reproduce/par_ingmm.\n\n"
        "![Images of clusters](../images/par_ingmm_clusters.png)\n"
    )


def _end_to_end(ends: dict[str, dict[str, Any]], shown: bool) -> Table:
    table = Table(
        f"End to end: {MANY:,} images",
        ["features", "numbers", "images/s", "images/s and core", "features, CPU s",
         "reduction, CPU s", "clustering, CPU s", "clustering's share", "by the clock", "K"],
        f"The 3,060 images, repeated to {MANY:,}, decoded from JPEG, described by as many threads "
        "as there are cores, reduced by `ScaledPCA` and clustered by the mixture of "
        "`image_pipeline`. Images a second are by the clock, beside other programs; images a "
        "second and core, and the clustering's share, are by CPU time; by the clock its share is "
        "larger where threads share out the images but not the clustering. Every image comes about "
        "three times, and copies are the tightest of clusters: K says nothing here.",
        shown=shown,
    )  # fmt: skip
    for name, run in ends.items():
        parts = ("features", "reduction", "clustering")
        cpu, wall = ({part: run[part][clock] for part in parts} for clock in ("cpu", "wall"))
        table.add(
            name,
            run["width"],
            f"{MANY / wall['features']:.0f}",
            f"{MANY / cpu['features']:.0f}",
            f"{cpu['features']:.0f}",
            f"{cpu['reduction']:.0f}",
            f"{cpu['clustering']:.1f}",
            *(f"{spent['clustering'] / sum(spent.values()):.1%}" for spent in (cpu, wall)),
            run["K"],
        )
    return table
