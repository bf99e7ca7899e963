"""`DPMixture` against KMeans, BayesianGaussianMixture and HDBSCAN on image features of Caltech-101.

Writes docs/papers/par_ingmm.md, the experiment of the Par-InGMM paper: agreement of clusters with
categories, numbers of clusters and CPU time.
"""

import statistics
from itertools import product
from typing import Any

from benchmarks.corpora import DATA
from benchmarks.figures import staircases
from benchmarks.scene_claims import PAPERS_OWN, SCORES, SIZES, Runs, claims, cpu_a_lap, mean
from benchmarks.scene_pages import sheets_page, write_sheets
from benchmarks.scene_runs import (
    AT_TRUE_K,
    FEATURES,
    MANY,
    MODELS,
    N_COMPONENTS,
    OURS,
    PER_CATEGORY,
    Scene,
    clustered,
    described,
    is_described,
    is_done,
)
from benchmarks.table import Table, write_page

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

`make reproduce PAPER=par_ingmm` writes this page. It repeats the experiment of the Par-InGMM
paper on other images.

**Measured:** how well clusters of images agree with their categories, for five families of
`DPMixture` beside KMeans, BayesianGaussianMixture and HDBSCAN; CPU time of a lap and of the whole
way from JPEG.

**Result:** With the prior "shared" and CNN features, `DPMixture` agrees with the categories as
well as KMeans that is given the true number: AMI 0.938 beside 0.932 for 10 categories, 0.822
beside 0.797 for 102. It finds 11.2 and 117.8 clusters by itself. Of the paper's claims, "the
diagonal models are cheaper than full covariance" holds everywhere here; "Par-InGMM scores above
the Wishart prior, and that above full covariance" and "full covariance finds the fewest clusters"
hold only for HOG features of 102 categories; "the diagonal models vary less" holds for some
scores.

**Read every score beside K, the number of clusters**: purity rises with K, completeness falls.

| name | meaning |
| --- | --- |
| 10, 102 | categories in a resample: ten folders with all their 300 images, other folders each time; or {PER_CATEGORY} of the 30 images of each of the 102 folders |
| HOG, LBP, CNN | features: 9 directions in 16 x 16 cells; 59 uniform patterns on an 8 x 8 grid; EfficientNet-Lite0. `ScaledPCA` reduces all to {N_COMPONENTS} dimensions: not whitened, mean variance 1 |
| full, zero-mean, diagonal Wishart, Par-InGMM | the paper's four models, measured with an earlier search: they started with one component and learned for at most 50 laps |
| diagonal, shared | the mixture of `image_pipeline`, measured with an earlier search: the best of five starts with a component for every 10 rows |
| KMeans, true K | given the true number of categories; best of ten starts |
| BayesianGaussianMixture, 2 K | given twice the true number; defaults, except 200 iterations where "diagonal" is said |
| HDBSCAN | `min_cluster_size=5`; noise counts as one more cluster |
| COM, V | completeness, V-measure |
| NMI, AMI | divided by the geometric mean and by the larger of the entropies, as in the paper (`everlearn.metrics.clustering`) |

The paper clusters ten categories of Places365, 5,000 images each, by HOG, LBP and VGG19 features.
We have 30 images of each of the 102 folders of Caltech-101. So compare the order of scores with
the paper's, not their size. CPU seconds are those of all threads on a busy machine: the mixtures
visit rows on one thread, but linear algebra and scikit-learn use all.
"""  # noqa: E501
APPENDIX = """## Appendix: how we chose the settings

- The five starts of "diagonal, shared" were chosen on these resamples of ten categories. The best
  start is the one with the highest bound.
- The mixtures learn from batches of up to 1,000 rows: one batch for 10 categories, three for 102.
  The paper has 15 batches.
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
        for model in AT_TRUE_K:
            clustered(Scene(features, SIZES[0], resample), model, true_k=True)
    _write(complete=True)


def _write(complete: bool) -> None:
    """Write the page of the runs so far; print rows and draw clusters only if it is complete."""
    runs = {
        (features, size, model): _known(features, size, model)
        for size in SIZES
        for features in FEATURES
        for model in MODELS
    }
    measured = [run["measured"] for known in runs.values() for run in known]
    content: list[Table | str] = [*claims(runs), _beside_the_paper(runs, complete)]
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
    page = write_page("papers/par_ingmm.md", HEAD, [*content, APPENDIX], measured)
    if complete:
        print("written to", page)


def _known(features: str, size: int, model: str, true_k: bool = False) -> list[dict[str, Any]]:
    scenes = (Scene(features, size, r) for r in range(RESAMPLES))
    return [clustered(scene, model, true_k) for scene in scenes if is_done(scene, model, true_k)]


def _means(runs: Runs, size: int, shown: bool) -> Table:
    table = Table(
        f"{size} categories: means over resamples",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI", "AMI, arithmetic", "ARI",
         "CPU s", "CPU s a lap", "resamples"],
        "Higher scores are better; compare them at similar K. CPU seconds a lap are those of the "
        'whole fit divided by its laps. For "diagonal, shared" they include five starts and the '
        "search for the shared spread.",
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
    """The families, each with the true number of components."""
    size = SIZES[0]
    table = Table(
        f"{size} categories: families at equal K",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI", "resamples"],
        f"Scores of the families with the same number of components. Each starts with {size}, the "
        "true number, with the same seeding, and without births and merges. K counts the "
        "components that are the most probable of some row.",
        shown=shown,
    )
    for features in FEATURES:
        for model in AT_TRUE_K:
            if known := _known(features, size, model, true_k=True):
                k = f"{mean(known, 'n_clusters'):.1f}"
                table.add(
                    features, model, k, *(f"{mean(known, key):.3f}" for key in SCORES), len(known)
                )
    return table


def _beside_the_paper(runs: Runs, shown: bool) -> Table:
    """Our scores with those of the paper's Tables 1 and 2 in brackets."""
    size = SIZES[0]
    table = Table(
        f"{size} categories, beside the paper's Tables 1 and 2",
        ["features", "model", "K", "purity", "COM", "NMI", "V", "AMI"],
        "Means over resamples, and variances for CNN; the paper's figures are in brackets (ten "
        "categories of Places365, VGG19 for CNN). The paper does not report K. Its entropies mean "
        "4.6, 3.9, 7.4 and 21.8 effective clusters for VGG19.",
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
        '"diagonal, shared" finds the spread before its first lap. Its five starts are drawn one '
        "after the other; the best is not always the last.\n\n"
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
        "## What clusters look like\n\nThe six largest clusters of the first resample of ten "
        'categories, with CNN features and the prior "shared". A row shows the eight images '
        "nearest the mean of a cluster; categories in red differ from the first. `make reproduce` "
        f"writes all clusters to {sheets_page(scene).name} in out/reproduce/par_ingmm.\n\n"
        "![Images of clusters](../images/par_ingmm_clusters.png)\n"
    )


def _end_to_end(ends: dict[str, dict[str, Any]], shown: bool) -> Table:
    table = Table(
        f"End to end: {MANY:,} images",
        ["features", "numbers an image", "images/s, wall time", "images/s and core, CPU time",
         "features, CPU s", "reduction, CPU s", "clustering, CPU s",
         "clustering's share of CPU time", "clustering's share of wall time", "K"],
        f"The 3,060 images, repeated to {MANY:,}, go from JPEG to clusters: one thread a core "
        "decodes and describes them, `ScaledPCA` reduces them, and the mixture of `image_pipeline` "
        "clusters them. Other programs ran at the same time. The clustering's share of wall time "
        "is larger, because threads share the images but not the clustering. Every image comes "
        "about three times, and copies form tight clusters, so ignore K.",
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
