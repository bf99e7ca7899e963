"""`ClumpedTopicModel` in bounded memory against batch learning and visual words, on Caltech-101.

Writes docs/papers/memory_bounded.md. E1: segmentation of 30 faces, against batch learning: bound,
time and memory. E2: all 435 faces in rounds of ten: time and memory along the stream. E3: retrieval
of images by their topics, against visual words: accuracy of the nearest neighbour.
"""

import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks import figures
from benchmarks.images import caltech, faces
from benchmarks.own_process import in_own_process
from benchmarks.remember import remembered_in
from benchmarks.table import ROOT, Table, write_page
from everlearn import load
from everlearn.images.pixels import labels_as_image, pixel_points
from everlearn.report.images import segmentation_picture

SUBSETS = 5
IMAGES = 30
EPOCH = 5
CLUMPS = (125, 250, 500, 1000, 2000, 4000)
GROUPS = (5, 10, 20, 30)
POINTS = (1000, 3000, 10_000, 30_000)
GROUPS_OF_IMAGES = (100, 300, 1000)
POINTS_WITH_GROUPS = 10_000
MEASURE = 2
"""Version of what runs measure; a new one makes the cached runs invalid. Version 2 counts memory
from the first call of a kernel and updates visual words by at most 4,096 rows at a time."""
MODEL_FILE = "out/reproduce/memory_bounded/faces.evl"
HEAD = """# Topic models in bounded memory

`make reproduce PAPER=memory_bounded` writes this page: three experiments with `ClumpedTopicModel`
on images of Caltech-101.

**Measured:** bound, time and memory of learning with a limit on memory, beside batch learning (E1)
and along a stream of faces (E2); retrieval of images, beside visual words (E3).

**Result:** With at most 4,000 clumps and first clumps, learning takes a seventh of the time of
batch learning and a fifth of its memory, and gains 98 % of what batch learning adds to the bound
(E1). All 435 faces, 13.9 million pixels, take at most 208 MB (E2). Retrieval is as good as with
visual words: 1-NN accuracy 0.261 beside 0.241 with a budget of 10,000 descriptors, within the
error (E3).

What makes E1 fast is first clumping, not the limit: batch learning with first clumps is as fast.
The limit saves memory. Without first clumps, bounded learning takes about half the time of batch
learning, because each search sees a sixth of the images and the clumps of the others. The paper
reports 3.09 h for batch learning and 0.68 h for bounded learning in E1, and 15 h, 85 topics and
257 MB in E2.

Every run has its own process, E1 on one thread, E2 and E3 on two. Other programs ran at the same
time. Settings are the library's defaults unless a table says otherwise. A pixel is the point (X,
Y, L\\*, a\\*, b\\*): X and Y are divided by the sides of the image, colours by 100. Bounds depend
on this scale.
"""
APPENDIX = """## Appendix: how we chose the settings

**Price of a topic.** The default is 0.075 nats a pixel. It was chosen on faces of the same set.

**Smoothing of retrieval.** `retrieve` adds half an average document to each document, because the
paper's score rules out a document for each topic that it has no point of. We chose the half by
finding training images of the same category for 1,200 training images. With a budget of 10,000,
1-NN accuracy was 0.222 without smoothing, and 0.271, 0.278, 0.261 and 0.230 with 0.2, 0.5, 1 and
2 documents.

**Memory.** At the first call of any kernel numba imports its compiler, which takes 43 MB in all
runs. Peak memory does not count it.
"""


def reproduce() -> None:
    """Run what has not been run yet, then write the page."""
    measured: set[str] = set()
    tables = [
        *_segmentation(measured), _limits(measured), _stream(measured), *_retrieval(measured)
    ]  # fmt: skip
    write_page("papers/memory_bounded.md", HEAD, [*tables, APPENDIX], measured)


def _run(measured: set[str], name: str, key: str, **arguments: Any) -> dict[str, Any]:
    def made() -> dict[str, Any]:
        return in_own_process("benchmarks.clumped_runs", name, **arguments)

    given = {**arguments, "run": name, "measure": MEASURE}
    return remembered_in(measured, "memory_bounded", key, made, given)


# ------------------------------------------------------------------------------- E1

METHODS: dict[str, dict[str, Any]] = {
    "batch": {"batch_size": None, "max_clumps": None, "first_clumps": 0},
    "batch, first clumps": {"batch_size": None, "max_clumps": None, "first_clumps": 500},
    "4000 clumps": {"batch_size": EPOCH, "max_clumps": 4000, "first_clumps": 0},
    "4000 clumps, first clumps": {"batch_size": EPOCH, "max_clumps": 4000, "first_clumps": 500},
}


def _faces(measured: set[str], key: str, seed: int, **settings: Any) -> dict[str, Any]:
    return _run(measured, "segmentation", f"{key}-{seed}", seed=seed, n=IMAGES, **settings)


def _one_topic(measured: set[str], seed: int) -> float:
    settings = METHODS["4000 clumps, first clumps"]
    return _faces(measured, "one", seed, **settings, max_topics=1)["bound"]


def _segmentation(measured: set[str]) -> Iterator[Table]:
    """Batch against bounded runs, the mean of all subsets and each by itself."""
    columns = [
        "run", "K", "K / batch", "share, tied", "share, raw", "held-out", "CPU s", "batch / CPU",
        "peak MB", "peak / batch", "learning MB", "learning / batch", "kept kB",
        "compression cost, nats",
    ]  # fmt: skip
    each = Table(f"E1: each subset of {IMAGES} faces", ["subset", *columns])
    mean = Table(
        f"E1: {IMAGES} faces in epochs of {EPOCH}, mean of {SUBSETS} subsets",
        columns,
        "Batch learning has all faces at once and no limits. The other runs keep at most 4,000 "
        'clumps. Rows with "first clumps" search on 500 clumps for each image, not on all pixels.\n'
        "\n"
        "| column | meaning |\n"
        "| --- | --- |\n"
        "| K | topics found |\n"
        "| share, tied | (L - L1) / (L of batch - L1): L is the bound of the run, with all its "
        "pixels in clumps, L1 the bound of one topic; 1 is as good as batch |\n"
        "| share, raw | the same with the bound of the run's topics on all pixels, after three "
        "iterations |\n"
        "| held-out | lower bound of the log-likelihood of a pixel of five other faces; higher is "
        "better |\n"
        "| batch / CPU | CPU seconds of batch learning divided by those of the run |\n"
        "| peak MB | highest resident memory above a process that has imported the library and "
        "called one kernel |\n"
        "| learning MB | the same above a process that has loaded all kernels and learned a few "
        "points |\n"
        "| kept kB | size of the model between epochs |\n"
        "| compression cost | what the bound lost when pixels became clumps |",
    )
    rows: dict[str, list[list[float]]] = {method: [] for method in METHODS}
    for seed in range(SUBSETS):
        base = _one_topic(measured, seed)
        batch = _faces(measured, "batch", seed, **METHODS["batch"])
        for method, settings in METHODS.items():
            run = _faces(measured, method.replace(" ", "_").replace(",", ""), seed, **settings)
            gained = batch["bound"] - base
            rows[method].append(
                [
                    run["K"],
                    run["K"] / batch["K"],
                    (run["bound"] - base) / gained,
                    (run["raw_bound"] - base) / gained,
                    run["held_out"],
                    run["cpu"],
                    batch["cpu"] / run["cpu"],
                    run["peak_mb"],
                    run["peak_mb"] / batch["peak_mb"],
                    run["learning_mb"],
                    run["learning_mb"] / batch["learning_mb"],
                    run["kept_bytes"] / 1000,
                    run["compression_loss"],
                ]
            )
            each.add(seed, method, *_shown(rows[method][-1]))
    for method, found in rows.items():
        means = [statistics.mean(column) for column in zip(*found, strict=True)]
        mean.add(method, *_shown(means))
    yield mean
    yield each


def _shown(row: list[float]) -> list[str]:
    digits = (0, 2, 3, 3, 3, 1, 1, 0, 2, 0, 2, 0, 0)
    return [f"{value:.{n}f}" for value, n in zip(row, digits, strict=True)]


def _limits(measured: set[str]) -> Table:
    """Bound, time and memory of the first subset by limits of clumps and of groups."""
    base = _one_topic(measured, 0)
    gained = _faces(measured, "batch", 0, **METHODS["batch"])["bound"] - base
    table = Table(
        "E1: limits of clumps and groups, subset 0",
        [
            "clumps",
            "groups",
            "K",
            "bound / batch",
            "share, tied",
            "held-out",
            "CPU s",
            "peak MB",
            "kept kB",
        ],
        "How far the limits can go. All rows have first clumps. Bound / batch is 1 - (L of batch - "
        "L) / |L of batch|.\n\n"
        "![Share of the gain of batch learning by clumps kept](../images/clumped_limits.png)",
    )
    shares: list[float] = []
    for clumps, groups in [*((c, None) for c in CLUMPS), *((4000, g) for g in GROUPS)]:
        run = _faces(
            measured, f"limits-{clumps}-{groups}", 0, batch_size=EPOCH, max_clumps=clumps,
            first_clumps=500, max_groups=groups,
        )  # fmt: skip
        share = (run["bound"] - base) / gained
        shares += [share] if groups is None else []
        ratio = 1 - (gained + base - run["bound"]) / abs(gained + base)
        table.add(
            clumps, groups or "-", run["K"], f"{ratio:.3f}", f"{share:.3f}",
            f"{run['held_out']:.3f}", f"{run['cpu']:.1f}", f"{run['peak_mb']:.0f}",
            f"{run['kept_bytes'] / 1000:.0f}",
        )  # fmt: skip
    figures.curves(
        "clumped_limits", list(CLUMPS), {"limit of clumps": shares}, "clumps kept",
        "share of batch's gain",
    )  # fmt: skip
    return table


# ------------------------------------------------------------------------------- E2


def _stream(measured: set[str]) -> Table:
    """Topics, time and memory along the stream of all faces, for two prices of a topic."""
    table = Table(
        "E2: all 435 faces (13.9 million pixels) in 44 rounds of ten, two threads",
        [
            "nats a topic",
            "images",
            "K",
            "wall s",
            "CPU s",
            "peak MB",
            "kept kB",
            "kept kB by formula",
        ],
        "The first column is the price of a topic (`topic_price`): 2,400 nats is the default for "
        "these images, 14,000 finds fewer topics. Seconds add up from the first image. The formula "
        "counts the bytes of moments, clumps, single points and groups. The first picture shows "
        "some of the faces, coloured by the topics of the second run.\n\n"
        "![Faces, and their topics](../images/clumped_faces.png)\n\n"
        "![Topics along the stream](../images/clumped_faces_topics.png)\n\n"
        "![Seconds of each round](../images/clumped_faces_seconds.png)\n\n"
        "![Peak memory so far](../images/clumped_faces_memory.png)",
    )
    counts: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    peaks: dict[str, list[float]] = {}
    for price in ("auto", 14_000.0):
        keep = MODEL_FILE if price != "auto" else None
        run = _run(
            measured, "stream_of_faces", f"stream-{price}", price=price, max_clumps="auto",
            pictures=keep,
        )  # fmt: skip
        rounds = run["rounds"]
        label = f"{run['price']:,.0f} nats a topic"
        counts[label] = [r["K"] for r in rounds]
        seconds[label] = np.diff([0.0, *(r["wall"] for r in rounds)]).tolist()
        peaks[label] = [r["peak_mb"] for r in rounds]
        for r in [*rounds[:1], *rounds[5::10], rounds[-1]]:
            table.add(
                f"{run['price']:,.0f}", r["images"], r["K"], f"{r['wall']:.0f}", f"{r['cpu']:.0f}",
                f"{r['peak_mb']:.0f}", f"{r['ledger']['total'] / 1000:.0f}",
                f"{_ledger(r) / 1000:.0f}",
            )  # fmt: skip
    across = [r["images"] for r in rounds]
    figures.curves("clumped_faces_topics", across, counts, "images seen", "topics")
    figures.curves("clumped_faces_seconds", across, seconds, "images seen", "seconds a round")
    figures.curves("clumped_faces_memory", across, peaks, "images seen", "peak memory, MB")
    _pictures()
    return table


def _ledger(r: dict[str, Any]) -> float:
    """Bytes that should be kept, by formula: 5 features, full covariance."""
    d, k = 5, r["K"]
    moments = (d * d + 3 * d) // 2
    report = r["ledger"]
    clumps = report["n_clumps"] * 8 * (moments + 1) + 12 * report["n_groups_of_clumps"]
    singles = report["n_single_points"] * (8 * d + 4)
    groups = 8 * report["n_groups"] * (k + 1) + 8 * report["n_groups"]
    return clumps + singles + 8 * k * (moments + d + 3) + groups


def _pictures() -> None:
    """Draw some faces, coloured by the topics of the run with fewer topics."""
    model = load(ROOT / MODEL_FILE)
    images = faces().photographs[::55]
    rows = []
    for image in images:
        labels = model.component_ids_[model.assign(pixel_points(image))]
        rows.append((image, segmentation_picture(image, labels_as_image(labels, image))))
    figures.pairs("clumped_faces", rows)


# ------------------------------------------------------------------------------- E3


def _retrieval(measured: set[str]) -> Iterator[Table]:
    """Accuracy against memory, and against groups."""
    n_images = len(caltech())
    columns = [
        "budget, descriptors", "groups", "K", "clumps", "single points", "kept MB",
        "bound per point", "1-NN accuracy", "1-NN accuracy, visual words", "difference",
        "1-NN accuracy, paper's score", "training / test images", "CPU s",
    ]  # fmt: skip
    table = Table(
        f"E3: retrieval among {n_images:,} images of 102 categories",
        columns,
        "How often the most similar training image has the category of a test image. Every image "
        "is 500 descriptors of 128 numbers; an epoch is 60 images. The budget covers everything "
        "that is kept, in units of a descriptor. A topic costs 20,000 nats; the default would be "
        "960, but fewer topics take less time.\n\n"
        "Visual words are clusters of MiniBatchKMeans, as many as there are topics, updated by at "
        "most 4,096 descriptors at a time; images compare by the cosine of their histograms. The "
        "paper's score is `retrieve(..., smoothing=0)`. Intervals are 95 %, over test images; "
        "those of the difference are paired.\n\n"
        "The picture shows queries on the left and what the model with a budget of 10,000 found "
        "for them; other categories are in red.\n\n"
        "![Images found](../images/clumped_retrieval.png)",
    )
    for points, groups in [
        *((m, None) for m in POINTS),
        *((POINTS_WITH_GROUPS, g) for g in GROUPS_OF_IMAGES),
    ]:
        run = _run(
            measured, "retrieval", f"retrieval-{points}-{groups}", points=points, max_groups=groups
        )
        report = run["report"]
        table.add(
            f"{points:,}", report["n_groups"], run["K"], report["n_clumps"],
            report["n_single_points"], f"{report['total'] / 1e6:.1f}",
            f"{run['bound_per_point']:.2f}", _interval(np.array(run["right"])),
            _interval(np.array(run["words_right"])),
            _interval(np.array(run["right"]) - np.array(run["words_right"])),
            _interval(np.array(run["plain_right"])),
            f"{n_images - len(run['right']):,} / {len(run['right'])}", f"{run['cpu']:.0f}",
        )  # fmt: skip
        if points == POINTS_WITH_GROUPS and groups is None and "queries" in run:
            _neighbours(run["queries"], run["neighbours"])
    yield table


def _neighbours(queries: list[int], found: list[list[int]]) -> None:
    """Draw some test images beside the training images found for them."""
    images = caltech()
    rows = [
        [(images.photographs[i], images.labels[images.y[i]]) for i in [query, *others]]
        for query, others in zip(queries, found, strict=True)
    ]
    figures.rows_of_images("clumped_retrieval", rows)


def _interval(values: np.ndarray) -> str:
    half = 1.96 * values.std(ddof=1) / np.sqrt(len(values))
    return f"{values.mean():.3f} ± {half:.3f}"
