"""Single fits of the BayesPA experiments: accuracy, CPU seconds and topics, cached on disk."""

import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
from sklearn.svm import LinearSVC

from benchmarks.corpora import Corpus, newsgroups
from benchmarks.remember import remembered
from everlearn import SamplerOptions, TopicModel

SEEDS = 5
PLAIN = {"anchors": False, "C": 16e3, "variance": 1e-3 / 16**2}
"""The constants of the paper for the averaging loss, without anchors."""
PLAIN_GIBBS = {"loss": "gibbs", "anchors": False, "C": 328.0, "variance": 1.0 / 164**2}
"""The constants of the paper for the Gibbs loss, without anchors."""
THEIR_TOPICS = 40
"""Topics in most experiments of the paper, for 20 classes."""


def model_of(kind: Callable[..., Any], **params: Any) -> Any:
    """An estimator. Fields of its `SamplerOptions` are given by plain names."""
    names = {field.name for field in fields(SamplerOptions)} & set(params)
    options = SamplerOptions(**{name: params.pop(name) for name in names})
    return kind(**params, options=options)


def run(name: str, make: Callable[[], Any], seed: int, data: Corpus | None = None) -> dict:
    """Accuracy, CPU seconds, topics and rounds of one fit, from the cache if it is there."""

    def measure() -> dict[str, Any]:
        corpus = newsgroups() if data is None else data
        model = make().set_params(random_state=seed, engine="serial")
        # A small fit compiles what is not compiled yet.
        few = np.arange(0, corpus.X.shape[0], corpus.X.shape[0] // 100)
        make().set_params(engine="serial", n_passes=1).fit(corpus.X[few], corpus.y[few])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            options = getattr(model, "options", None)
            if options is not None and options.tol is not None:  # time it without the check
                rounds = model.fit(corpus.X, corpus.y).n_rounds_
                model.set_params(options=replace(options, tol=None, n_rounds=rounds))
            start = time.process_time()
            model.fit(corpus.X, corpus.y)
            cpu = time.process_time() - start
        return {
            "accuracy": float(model.score(corpus.X_test, corpus.y_test)),
            "cpu": cpu,
            "topics": model.n_topics_,
            "rounds": model.n_rounds_,
        }

    key = "".join(c if c.isalnum() else "-" for c in f"{name}-{seed}")
    return remembered("bayespa", key, measure)


def summary(
    name: str, make: Callable[[], Any], measured: list[str], seeds: int = SEEDS,
    data: Corpus | None = None,
) -> tuple[list[float], float, list[int]]:  # fmt: skip
    """Accuracies, median CPU seconds and numbers of topics over seeds."""
    runs = [run(name, make, seed, data) for seed in range(seeds)]
    measured += [r["measured"] for r in runs]
    return (
        [r["accuracy"] for r in runs],
        statistics.median(r["cpu"] for r in runs),
        [r["topics"] for r in runs],
    )


def span(values: list[int]) -> str:
    """One number, or the least and the largest."""
    return f"{min(values)}" if min(values) == max(values) else f"{min(values)}..{max(values)}"


def lda_and_svm(n_topics: int) -> dict[str, Any]:
    """A linear SVM on the proportions of LDA topics, which are learned without labels."""

    def measure() -> dict[str, Any]:
        data = newsgroups()
        start = time.process_time()
        topics = TopicModel(n_topics=n_topics, n_passes=3, random_state=0, engine="serial")
        model = LinearSVC(random_state=0, C=10.0).fit(topics.fit_transform(data.X), data.y)
        cpu = time.process_time() - start
        accuracy = model.score(topics.transform(data.X_test), data.y_test)
        return {"accuracy": float(accuracy), "cpu": cpu}

    return remembered("bayespa", f"lda-svm-{n_topics}", measure)
