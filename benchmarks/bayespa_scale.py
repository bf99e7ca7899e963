"""200,000 abstracts in one pass against a linear SVM: F1, tokens a second, memory.

Each model runs in its own process, so that memory compares.
`python -m benchmarks.bayespa_scale stream '{"name": ...}'` makes one run and prints its result.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier

from benchmarks.corpora import Stream, arxiv
from benchmarks.own_process import answer, in_own_process, memory_mb
from benchmarks.remember import remembered
from benchmarks.table import Table
from everlearn import MedLDAClassifier

CHUNK = 10_000
TEST = 2 * CHUNK
PASSES = 3
SVM = "linear SVM, sublinear tf-idf, 3 passes of SGD over the first nine tenths"
MODELS: dict[str, Callable[[], Any]] = {
    "MedLDA averaging": MedLDAClassifier,
    "MedLDA averaging with word weights": lambda: MedLDAClassifier(word_weights=True),
}


def scale(measured: list[str]) -> Table:
    """F1, rate and memory of every model."""
    table = Table(
        "200,000 arXiv abstracts in one pass",
        [
            "model", "micro-F1, last tenth", "tokens a second", "resident MB after a tenth",
            "resident MB at the end", "highest resident MB",
        ],
        "163 labels, 12,000 words, 14.2 million tokens, sorted by date, in calls of 10,000 "
        "documents. The model predicts each of the last two calls before it learns it; F1 is that "
        "of these predictions. The rate is that of learning alone, on all cores. Resident memory "
        "is that of the whole process after each call, and includes all documents. The SVM learns "
        "the same documents before the last tenth, in three passes.",
    )  # fmt: skip
    for name in [*MODELS, SVM]:
        key = "arxiv-own-" + "".join(c if c.isalnum() else "-" for c in name)
        how = "svm" if name == SVM else "stream"
        arguments = {} if name == SVM else {"name": name}
        found = remembered(
            "bayespa",
            key,
            lambda how=how, arguments=arguments: in_own_process(
                "benchmarks.bayespa_scale", how, **arguments
            ),
        )
        measured.append(found["measured"])
        table.add(name, *scale_cells(found))
    return table


def scale_cells(found: dict[str, Any]) -> list[str]:
    """The cells of a run in the table."""
    sizes = found.get("resident", [])
    shown = [sizes[len(sizes) // 10 - 1], sizes[-1], max(sizes)] if sizes else []
    memory = [f"{size:.0f}" for size in shown] or [""] * 3
    return [f"{found['micro']:.4f}", f"{found['rate']:,.0f}", *memory]


def stream(name: str, data: Stream | None = None) -> dict[str, Any]:
    """Learn the documents in calls; predict each of the last two before it is learned."""
    model = MODELS[name]().set_params(random_state=0)
    data = arxiv() if data is None else data
    n, seconds = data.X.shape[0], 0.0
    truth, found, resident = [], [], []
    for begin in range(0, n, CHUNK):
        X, Y = data.X[begin : begin + CHUNK], data.Y[begin : begin + CHUNK]
        if begin >= n - TEST:
            truth.append(Y)  # sparse, so that what is kept here does not count as the model's
            found.append(sparse.csr_matrix(model.predict(X)))
        start = time.perf_counter()
        model.partial_fit(X, Y)
        seconds += time.perf_counter() - start
        resident.append(memory_mb()[0])
    micro = float(f1_score(sparse.vstack(truth), sparse.vstack(found), average="micro"))
    return {"micro": micro, "rate": float(data.X.sum() / seconds), "resident": resident}


def svm(data: Stream | None = None) -> dict[str, Any]:
    """One linear SVM for each label, by stochastic gradients, regularised as with C = 1."""
    data = arxiv() if data is None else data
    n = data.X.shape[0] - TEST
    start = time.perf_counter()
    words = TfidfTransformer(sublinear_tf=True)
    X = words.fit_transform(data.X[:n])
    one = SGDClassifier(alpha=1.0 / n, max_iter=PASSES, tol=None, random_state=0)
    # Columns are numbered in the type of Y, of which int8 has too few numbers.
    Y = data.Y.astype(np.int64)
    model = OneVsRestClassifier(one, n_jobs=-1).fit(X, Y[:n])
    seconds = time.perf_counter() - start
    found = model.predict(words.transform(data.X[n:]))
    micro = float(f1_score(Y[n:], found, average="micro"))
    return {"micro": micro, "rate": float(data.X[:n].sum() / seconds)}


if __name__ == "__main__":
    answer({"stream": stream, "svm": svm})
