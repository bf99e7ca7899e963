"""`ClumpedTopicModel` on ten million points of documents: time, memory and ARI along the stream.

Two clusterers that know no documents learn a sample of the same points, for comparison.
"""

import time

import numpy as np
from sklearn.cluster import MiniBatchKMeans
from sklearn.metrics import adjusted_rand_score

from benchmarks.stream import resident_mb
from benchmarks.table import Table
from everlearn import ClumpedTopicModel, DPMixture

N_FEATURES, N_TOPICS, LENGTH, EPOCH = 5, 30, 1000, 20
MARKS = (100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
BUDGET = "1MB"


class Documents:
    """An endless source of documents with three planted topics each."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self.means = self._rng.normal(0, 6, (N_TOPICS, N_FEATURES))

    def draw(self) -> tuple[np.ndarray, np.ndarray]:
        """Points of one document, and their topics."""
        own = self._rng.choice(N_TOPICS, 3, replace=False)
        topics = own[self._rng.choice(3, LENGTH, p=self._rng.dirichlet(np.ones(3)))]
        return self.means[topics] + self._rng.normal(size=(LENGTH, N_FEATURES)), topics


def run() -> Table:
    """One row for each mark along the stream, then the scores of the peers."""
    table = Table(
        "An endless stream of documents",
        [
            "model", "points", "CPU ms an epoch", "resident MB of the process",
            "size of the model, kB", "topics", "ARI",
        ],
        "Time an epoch and memory level off. "
        f"{N_TOPICS} planted topics, three in a document of {LENGTH:,} points in {N_FEATURES} "
        f"dimensions, epochs of {EPOCH} documents, `memory_budget={BUDGET!r}`, `max_groups=50`. "
        "CPU time is that since the line above. ARI compares topics with the planted ones on 50 "
        "new documents; 1 is perfect. The peers know no documents and learn a tenth of the first "
        "million points.",
    )  # fmt: skip
    stream, fresh = Documents(0), Documents(0)
    fresh._rng = np.random.default_rng(1)
    test = [fresh.draw() for _ in range(50)]
    truth = np.concatenate([topics for _, topics in test])
    model = ClumpedTopicModel(
        memory_budget=BUDGET, max_groups=50, batch_size=EPOCH, engine="serial"
    )
    seen, marked, learning, sample = 0, 0, 0.0, []
    for mark in MARKS:
        while seen < mark:
            documents = [stream.draw()[0] for _ in range(EPOCH)]
            start = time.process_time()
            model.partial_fit(documents)
            learning += time.process_time() - start
            seen += EPOCH * LENGTH
            if seen <= 1_000_000:
                sample += [document[::10] for document in documents]
        found = np.concatenate(model.assign([X for X, _ in test]))
        per_epoch = 1000 * learning * EPOCH * LENGTH / (seen - marked)
        table.add(
            "ClumpedTopicModel", f"{seen:,}", f"{per_epoch:.0f}", f"{resident_mb():.0f}",
            f"{model.memory_report()['total'] / 1000:.0f}", model.n_components_,
            f"{adjusted_rand_score(truth, found):.3f}",
        )  # fmt: skip
        marked, learning = seen, 0.0
    _add_peers(table, np.concatenate(sample), np.concatenate([X for X, _ in test]), truth)
    return table


def _add_peers(table: Table, X: np.ndarray, test: np.ndarray, truth: np.ndarray) -> None:
    """Add the scores of clusterers that know no documents."""
    for peer in (MiniBatchKMeans(N_TOPICS, random_state=0, n_init=3), DPMixture(random_state=0)):
        found = peer.fit(X).predict(test)
        score = adjusted_rand_score(truth, found)
        n = len(np.unique(found))
        given = f", given {N_TOPICS}" if isinstance(peer, MiniBatchKMeans) else ""
        name = type(peer).__name__ + given
        table.add(name, f"{len(X):,}", "", "", "", n, f"{score:.3f}")
