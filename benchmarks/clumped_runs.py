"""Single runs of `ClumpedTopicModel` and of visual words: bounds, accuracies, time and memory.

Each runs in its own process, so that memory compares.
`python -m benchmarks.clumped_runs NAME JSON` makes one run and prints its result as JSON.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.preprocessing import normalize

from benchmarks.images import Images, caltech, faces
from benchmarks.own_process import answer, memory_mb
from benchmarks.table import ROOT
from everlearn import ClumpedTopicModel, ClumpOptions
from everlearn.clumps.kernels import set_sums
from everlearn.clumps.local import ClumpStep
from everlearn.clumps.state import ClumpedState, Epoch, Past, Seen
from everlearn.engine.opening import open_engine
from everlearn.images.descriptors import dense_descriptors
from everlearn.images.pixels import pixel_points

HELD_OUT = 5
RAW_ITERATIONS = 3
DESCRIPTORS = 500
SHOWN, EXAMPLES = 5, 120
"""Neighbours of a query, and the step between the queries that are kept for pictures."""
WORD_ROWS = 4096
"""Descriptors in one update of the visual words."""
DESCRIPTOR_PRICE = 20_000.0
"""Above the default of 960 to save time: fewer topics, and as many visual words."""


def import_baseline() -> float:
    """Resident memory of a process that has imported all it needs, in MB.

    At the first call of any kernel numba imports its compiler, so this calls one.
    """
    set_sums(np.zeros(1, np.int32), np.ones((1, 1)), np.ones(1), np.zeros(1), np.zeros((1, 1)))
    return memory_mb()[0]


def warm_up() -> None:
    """Compile what a run needs, so that its time is that of learning."""
    X = np.random.default_rng(0).normal(size=(6000, 5))
    for first in (0, 20):
        model = ClumpedTopicModel(topic_price=5.0, max_clumps=50, options={"first_clumps": first})
        model.partial_fit([X[:3000], X[3000:]] if first == 0 else [X, X]).score(X[:50])


# ------------------------------------------------------- joint segmentation (E1 and E2)


def subset(seed: int, n: int) -> tuple[Images, Images]:
    """Faces to learn from, and other faces to test on."""
    every = faces()
    order = np.random.default_rng(seed).permutation(len(every))
    return every.chosen(order[:n]), every.chosen(order[n : n + HELD_OUT])


def segmentation(
    *,
    seed: int,
    n: int,
    batch_size: int | None,
    max_clumps: int | None,
    first_clumps: int,
    max_groups: int | None = None,
    max_topics: int = 10_000,
    threads: bool = False,
) -> dict[str, Any]:
    """Learn topics of the pixels of n faces: topics, bounds, time and memory."""
    baseline = import_baseline()
    warm_up()
    ready = memory_mb()[0]
    images, others = subset(seed, n)
    model = ClumpedTopicModel(
        batch_size=batch_size,
        max_clumps=max_clumps,
        memory_budget=None if max_clumps is None else "64MB",
        max_groups=max_groups,
        options=ClumpOptions(first_clumps=first_clumps, max_topics=max_topics),
        engine="threads" if threads else "serial",
    )
    cpu = wall = 0.0
    step = batch_size or n
    for start in range(0, n, step):
        documents = [pixel_points(image) for image in images.photographs[start : start + step]]
        began = time.process_time(), time.perf_counter()
        model.partial_fit(documents)
        cpu += time.process_time() - began[0]
        wall += time.perf_counter() - began[1]
    peak = memory_mb()[1]
    return {
        "K": model.n_components_,
        "bound": model.bound_,
        "price": model.topic_price_,
        "raw_bound": raw_bound(model, images) if max_groups is None else None,
        "held_out": model.score([pixel_points(image) for image in others.photographs]),
        "compression_loss": model.compression_loss_,
        "cpu": cpu,
        "wall": wall,
        "peak_mb": peak - baseline,
        "learning_mb": peak - ready,
        "kept_bytes": model.memory_report()["total"],
    }


def raw_bound(model: ClumpedTopicModel, images: Images) -> float:
    """The bound of the model on all points themselves, after a few iterations at its topics."""
    state: ClumpedState = model._learned.state
    epoch = Epoch([pixel_points(image) for image in images.photographs])
    past = Past.empty(state.model.family.n_stats, state.model.family.n_features)
    items = Seen(past, epoch, epoch.documents).items(state.model)
    topics = state.topics
    with open_engine("serial") as engine:
        step = ClumpStep(state.model, engine)
        for _ in range(RAW_ITERATIONS):
            topics, _ = step.iterate(topics, state.sizes, items)
    return topics.bound(state.model, state.sizes, state.base)


def stream_of_faces(
    *, price: float | str, max_clumps: int | str, pictures: str | None = None
) -> dict[str, Any]:
    """All faces in rounds of ten: topics, time and memory after each."""
    baseline = import_baseline()
    warm_up()
    images = faces()
    model = ClumpedTopicModel(topic_price=price, max_clumps=max_clumps)
    rounds = []
    cpu = wall = 0.0
    for start in range(0, len(images), 10):
        documents = [pixel_points(image) for image in images.photographs[start : start + 10]]
        began = time.process_time(), time.perf_counter()
        model.partial_fit(documents)
        cpu += time.process_time() - began[0]
        wall += time.perf_counter() - began[1]
        report = model.memory_report()
        rounds.append(
            {
                "images": start + len(documents),
                "K": model.n_components_,
                "cpu": cpu,
                "wall": wall,
                "peak_mb": memory_mb()[1] - baseline,
                "ledger": report,
                "bound": model.bound_,
                "compression_loss": model.compression_loss_,
            }
        )
    if pictures:
        model.save(ROOT / pictures)
    return {"rounds": rounds, "price": model.topic_price_}


# ------------------------------------------------------------------- retrieval (E3)


def descriptors() -> np.ndarray:
    """Descriptors of all Caltech-101 images, kept on disk: (n_images, 500, 128)."""
    path = ROOT / "out" / "reproduce" / "memory_bounded" / "descriptors.npy"
    images = caltech()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        shape = (len(images), DESCRIPTORS, 128)
        found = np.lib.format.open_memmap(partial, "w+", np.float32, shape)
        for i, image in enumerate(images.photographs):
            found[i] = dense_descriptors(image, DESCRIPTORS)
        found.flush()
        partial.rename(path)
    return np.load(path, mmap_mode="r")


def split_images(y: np.ndarray, test_share: float = 0.25) -> tuple[np.ndarray, np.ndarray]:
    """Training and test images: of every category the same share but for one image."""
    rng = np.random.default_rng(0)
    train: list[int] = []
    test: list[int] = []
    for category in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == category))
        n_test = round(test_share * (len(train) + len(test) + len(members))) - len(test)
        test += members[:n_test].tolist()
        train += members[n_test:].tolist()
    return rng.permutation(train), np.array(test)


def retrieval(*, points: int, max_groups: int | None = None) -> dict[str, Any]:
    """1-NN accuracy with topics learned in the bytes of `points` descriptors, and visual words."""
    X, y = descriptors(), caltech().y
    train, test = split_images(y)

    def documents(which: np.ndarray) -> list[np.ndarray]:
        return [X[i].astype(np.float64) for i in which]

    model = ClumpedTopicModel(
        family="diagonal",
        topic_price=DESCRIPTOR_PRICE,
        memory_budget=points * X.shape[2] * 8,
        max_clumps=None,
        max_groups=max_groups or len(train),
        batch_size=60,
    )
    began = time.process_time()
    for start in range(0, len(train), 60):
        model.partial_fit(documents(train[start : start + 60]))
    cpu = time.process_time() - began
    index = model.document_index(documents(train))
    queries = documents(test)
    found = np.array([model.retrieve(d, SHOWN, index).positions for d in queries])
    plain = np.array([model.retrieve(d, 1, index, smoothing=0.0).positions for d in queries])
    right, plain_right = (
        (y[train[ids[:, 0]]] == y[test]).astype(int).tolist() for ids in (found, plain)
    )
    return {
        "K": model.n_components_,
        "bound_per_point": model.bound_ / model.n_points_seen_,
        "report": model.memory_report(),
        "right": right,
        "plain_right": plain_right,
        "queries": test[::EXAMPLES].tolist(),
        "neighbours": train[found[::EXAMPLES]].tolist(),
        "words_right": visual_words(documents, train, test, y, model.n_components_),
        "cpu": cpu,
    }


def visual_words(
    documents: Callable[[np.ndarray], list[np.ndarray]],
    train: np.ndarray,
    test: np.ndarray,
    y: np.ndarray,
    n_words: int,
) -> list[int]:
    """Which test images 1-NN gets right by the cosine of their histograms of visual words."""
    words = MiniBatchKMeans(n_words, random_state=0, n_init=3)
    for start in range(0, len(train), 60):
        rows = np.concatenate(documents(train[start : start + 60]))
        for part in np.array_split(rows, -(-len(rows) // WORD_ROWS)):  # each call is one update
            words.partial_fit(part)

    def histograms(which: np.ndarray) -> np.ndarray:
        counts = [np.bincount(words.predict(d), minlength=n_words) for d in documents(which)]
        return normalize(np.array(counts, float))

    nearest = (histograms(test) @ histograms(train).T).argmax(axis=1)
    return (y[train[nearest]] == y[test]).astype(int).tolist()


RUNS = {
    "segmentation": segmentation,
    "stream_of_faces": stream_of_faces,
    "retrieval": retrieval,
}

if __name__ == "__main__":
    answer(RUNS)
