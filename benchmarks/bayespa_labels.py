"""Max-margin topic models against a linear SVM on documents with several labels: F1 and time."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from benchmarks.bayespa_runs import span
from benchmarks.corpora import Corpus, bibtex, reuters
from benchmarks.remember import remembered
from benchmarks.table import Table
from everlearn import MedHDPClassifier, MedLDAClassifier, SamplerOptions

SEEDS = 3
MODELS: dict[str, Callable[[], Any]] = {
    "MedLDA averaging": MedLDAClassifier,
    "MedLDA Gibbs": lambda: MedLDAClassifier(loss="gibbs", n_topics=60),
    "MedHDP averaging": MedHDPClassifier,
    "MedLDA averaging with word weights": lambda: MedLDAClassifier(word_weights=True),
    "MedLDA Gibbs with word weights": lambda: MedLDAClassifier(
        loss="gibbs", n_topics=60, word_weights=True
    ),
    "linear SVM, sublinear tf-idf": lambda: make_pipeline(
        TfidfTransformer(sublinear_tf=True), OneVsRestClassifier(LinearSVC(random_state=0))
    ),
}


def multilabel(measured: list[str]) -> Table:
    """F1 and CPU time of every model on Reuters and BibTeX."""
    table = Table(
        "Several labels a document",
        ["data", "model", "micro-F1", "macro-F1", "topics", "CPU s"],
        "F1 on test documents after one pass, beside a linear SVM. Means of 3 seeds (Gibbs and "
        "SVM: one). Reuters-21578 has 90 labels, BibTeX 159. Gibbs has 60 topics, averaging the "
        "default.",
    )
    for data, load in (("Reuters", reuters), ("BibTeX", bibtex)):
        for name, make in MODELS.items():
            seeds = 1 if "SVM" in name or "Gibbs" in name else SEEDS
            runs = [
                remembered(
                    "bayespa",
                    f"labels-{data}-{name}-{seed}".replace(" ", "-").replace(",", ""),
                    lambda make=make, seed=seed, load=load: _measure(make, seed, load()),
                )
                for seed in range(seeds)
            ]
            measured += [r["measured"] for r in runs]
            table.add(
                data,
                name,
                f"{np.mean([r['micro'] for r in runs]):.4f}",
                f"{np.mean([r['macro'] for r in runs]):.4f}",
                runs[0]["topics"] or "",
                f"{np.median([r['cpu'] for r in runs]):.1f}",
            )
    return table


def _measure(make: Callable[[], Any], seed: int, data: Corpus) -> dict[str, Any]:
    model = make()
    ours = hasattr(model, "random_state")
    if ours:
        model.set_params(random_state=seed, engine="serial")
        make().set_params(engine="serial").fit(data.X[:100], data.y[:100])
    start = time.process_time()
    model.fit(data.X, data.y)
    cpu = time.process_time() - start
    found = model.predict(data.X_test)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # labels that are never predicted
        micro, macro = (float(f1_score(data.y_test, found, average=a)) for a in ("micro", "macro"))
    return {"micro": micro, "macro": macro, "cpu": cpu, "topics": model.n_topics_ if ours else 0}


def starting_topics(measured: list[str]) -> Table:
    """MedHDP on Reuters by the number of topics it starts with."""
    table = Table(
        "MedHDP from different starts, several labels a document",
        ["data", "start topics", "topics found", "micro-F1, mean of 3 seeds"],
        "Averaging loss. The start hardly changes the number of topics found.",
    )
    for start in (5, 20, 60):
        runs = [
            remembered(
                "bayespa",
                f"labels-start-{start}-{seed}",
                lambda start=start, seed=seed: _measure(
                    lambda: MedHDPClassifier(options=SamplerOptions(start_topics=start)),
                    seed,
                    reuters(),
                ),
            )
            for seed in range(SEEDS)
        ]
        measured += [r["measured"] for r in runs]
        found = span([r["topics"] for r in runs])
        table.add("Reuters", start, found, f"{np.mean([r['micro'] for r in runs]):.4f}")
    return table
