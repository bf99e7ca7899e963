"""The demo's texts: a tree of topics and a classifier, learned from docstrings as a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.app_docstrings import Corpus
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.trees.estimator import TopicTree

BATCH: Final = 100
_TRAINING: Final = 0.75


@dataclass(frozen=True, slots=True)
class PackageStudy:
    """What was learned from docstrings.

    Attributes
    ----------
    tree : topics of the docstrings, without labels
    classes : the packages
    table : (n_classes, n_classes) held-out docstrings by true package and by the one predicted
    curve : (documents learned, accuracy on held-out ones) after each batch
    seconds : time spent learning
    """

    tree: TopicTree
    classes: tuple[str, ...]
    table: NDArray[np.int64]
    curve: tuple[tuple[int, float], ...]
    seconds: float

    @property
    def accuracy(self) -> float:
        """Share of the held-out docstrings whose package was told."""
        return float(np.trace(self.table) / max(1, self.table.sum()))


def learn(corpus: Corpus, seed: int, on_batch: Callable[[int, int], None]) -> PackageStudy:
    """Learn three quarters of the docstrings in one pass, a batch at a time."""
    n = int(_TRAINING * len(corpus))
    texts, labels = list(corpus.texts), list(corpus.labels)
    classes = sorted(set(labels))
    tree = TopicTree(stop_words="english", random_state=seed)
    classifier = MedLDAClassifier(stop_words="english", random_state=seed)
    curve = []
    start = perf_counter()
    for first in range(0, n, BATCH):
        last = min(n, first + BATCH)
        tree.partial_fit(texts[first:last])
        classifier.partial_fit(texts[first:last], labels[first:last], classes=classes)
        curve.append((last, float(classifier.score(texts[n:], labels[n:]))))
        on_batch(last, tree.n_components_)
    seconds = perf_counter() - start
    table = _confusion(labels[n:], classifier.predict(texts[n:]), classes)
    return PackageStudy(tree, tuple(classes), table, tuple(curve), seconds)


def _confusion(truth: list[str], told: Any, classes: list[str]) -> NDArray[np.int64]:
    place = {name: i for i, name in enumerate(classes)}
    table = np.zeros((len(classes), len(classes)), np.int64)
    for true, said in zip(truth, told, strict=True):
        table[place[true], place[str(said)]] += 1
    return table
