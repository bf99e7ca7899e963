"""What every estimator predicts after a short fixed course.

`tests/test_golden.py` compares today's predictions with `predictions.json`. After a change that is
meant to alter results, write them anew with
``PYTHONPATH=src:tests python tests/golden/predictions.py`` and say in the commit what changed, and
how quality and pace compare. Saved files are made by `make_files.py`.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import everlearn
from everlearn.testing.data import planted_mixture, planted_topics, planted_tree

FILE = Path(__file__).with_suffix(".json")
PROBE = 8
"""Rows or documents that each model predicts."""


@dataclass(frozen=True)
class Course:
    """How a model learns, and what it is asked then."""

    learn: Callable[[], Any]
    ask: Callable[[Any], dict[str, Any]]


COURSES: dict[str, Course] = {}

ROWS = planted_mixture(420, 3, 4, random_state=1).X
COUNTS = np.random.default_rng(2).poisson(
    12.0 * np.eye(3)[np.random.default_rng(3).integers(3, size=420)] + 0.5
)
TOPICS = planted_topics(288, 4, 60, 30, overlap=0.2, random_state=0)
NAMES = np.array(["ash", "elm", "fir", "oak"])
LABELS = NAMES[TOPICS.labels]
NUMBERS = 10.0 * TOPICS.theta[:, 0] - 4.0 * TOPICS.theta[:, 1] + 7.0
INDICATORS = (TOPICS.theta > 0.2).astype(float)
TREE = planted_tree(0, n_documents=160, n_tokens=40)


def batches(n: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, n, size))


def answers(model: Any, X: Any, *methods: str) -> dict[str, Any]:
    return {method: getattr(model, method)(X) for method in methods}


def of_mixture(family: str, X: Any, *, fit: bool = False, **params: Any) -> None:
    form = "CSR " if sparse.issparse(X) else ""
    way = "fit" if fit else "stream"

    def learn() -> Any:
        model = everlearn.DPMixture(
            family=family, random_state=7, engine="serial", batch_size=60, **params
        )
        if fit:
            model.fit(X[PROBE:])
        else:
            for part in batches(X.shape[0] - PROBE, 60):
                model.partial_fit(X[PROBE:][part])
        return model

    def ask(model: Any) -> dict[str, Any]:
        found = answers(model, X[:PROBE], "predict", "predict_proba", "score_samples")
        return found | {"weights": model.weights_, "bound": model.bound_history_[-1]}

    COURSES[f"DPMixture {family} {form}{way} {' '.join(params.values())}"] = Course(learn, ask)


for _family in ("diagonal", "full", "zero-mean"):
    of_mixture(_family, ROWS - ROWS.mean(axis=0))
    of_mixture(_family, ROWS - ROWS.mean(axis=0), fit=True)
of_mixture("multinomial", COUNTS.astype(float))
of_mixture("multinomial", sparse.csr_array(COUNTS.astype(float)))
of_mixture("diagonal", ROWS, learner="stochastic")
of_mixture("diagonal", ROWS, dtype="float32")


def of_topics(name: str, y: Any = None, *, fit: bool = False, **params: Any) -> None:
    def learn() -> Any:
        known = {"random_state": 3, "engine": "serial", "batch_size": 40} | params
        model = getattr(everlearn, name)(**known)
        X = TOPICS.X[PROBE:]
        classifies = hasattr(model, "decision_function")
        if fit:
            model.fit(X, None if y is None else y[PROBE:])
        else:
            for i, part in enumerate(batches(X.shape[0], 70)):
                first = {"classes": NAMES} if classifies and i == 0 else {}
                model.partial_fit(X[part], None if y is None else y[PROBE:][part], **first)
        return model

    def ask(model: Any) -> dict[str, Any]:
        methods = ["transform"]
        if y is None:
            methods += ["score_samples"]
        else:
            methods += ["predict"] + ["decision_function"] * hasattr(model, "decision_function")
        found = answers(model, TOPICS.X[:PROBE], *methods)
        return found | {"prevalence": np.sort(model.components_.sum(axis=1))}

    way = "fit" if fit else "stream"
    COURSES[f"{name} {way} {' '.join(map(str, params.values()))}"] = Course(learn, ask)


of_topics("TopicModel", n_topics=5)
of_topics("TopicModel", n_topics="infer")
of_topics("TopicModel", n_topics=5, fit=True)
of_topics("MedLDAClassifier", LABELS)
of_topics("MedLDAClassifier", LABELS, fit=True)
of_topics("MedLDAClassifier", LABELS, loss="gibbs")
of_topics("MedLDAClassifier", LABELS, word_weights=True)
of_topics("MedLDAClassifier", LABELS, anchors=False, n_topics=4)
of_topics("MedLDAClassifier", LABELS, anchors=False, n_topics=4, loss="gibbs")
of_topics("MedHDPClassifier", LABELS)
of_topics("MedHDPClassifier", LABELS, loss="gibbs")
of_topics("MedLDARegressor", NUMBERS, n_topics=6)
of_topics("MedLDARegressor", NUMBERS, n_topics=6, loss="gibbs", fit=True)


def _indicators() -> Any:
    model = everlearn.MedLDAClassifier(random_state=3, engine="serial")
    return model.fit(TOPICS.X[PROBE:], INDICATORS[PROBE:])


COURSES["MedLDAClassifier indicator matrix"] = Course(
    _indicators, lambda model: answers(model, TOPICS.X[:PROBE], "decision_function", "predict")
)


def of_linear(name: str, y: Any, *, fit: bool = False, **params: Any) -> None:
    X = np.ascontiguousarray(TOPICS.theta)

    def learn() -> Any:
        model = getattr(everlearn, name)(random_state=3, **params)
        if fit:
            model.fit(X[PROBE:], y[PROBE:])
        else:
            for i, part in enumerate(batches(len(X) - PROBE, 70)):
                first = {"classes": NAMES} if hasattr(model, "decision_function") and i == 0 else {}
                model.partial_fit(X[PROBE:][part], y[PROBE:][part], **first)
        return model

    def ask(model: Any) -> dict[str, Any]:
        methods = ["predict"] + ["decision_function"] * hasattr(model, "decision_function")
        return answers(model, X[:PROBE], *methods) | {"coef": model.coef_}

    way = "fit" if fit else "stream"
    COURSES[f"{name} {way} {' '.join(map(str, params.values()))}"] = Course(learn, ask)


for _loss in ("averaging", "gibbs"):
    for _fit in (False, True):
        of_linear("BayesianPassiveAggressiveClassifier", LABELS, loss=_loss, fit=_fit)
        of_linear("BayesianPassiveAggressiveRegressor", NUMBERS, loss=_loss, fit=_fit)


def of_clumps(family: str, **params: Any) -> None:
    X = np.asarray(COUNTS, float) if family == "multinomial" else ROWS
    documents = [X[part] for part in batches(len(X), 20)]

    def learn() -> Any:
        model = everlearn.ClumpedTopicModel(family=family, engine="serial", batch_size=4, **params)
        for part in batches(len(documents), 7):
            model.partial_fit(documents[part])
        return model

    def ask(model: Any) -> dict[str, Any]:
        report = model.memory_report()
        return {
            "transform": model.transform(documents[:2]),
            "assign": np.concatenate(model.assign(documents[:2])),
            "score": model.score(documents[:2]),
            "memory": [report["total"], report["n_clumps"], report["n_groups"]],
        }

    COURSES[f"ClumpedTopicModel {family} {' '.join(map(str, params.values()))}"] = Course(
        learn, ask
    )


for _family in ("full", "diagonal", "multinomial"):
    of_clumps(_family)
of_clumps("full", memory_budget="12kB")


def of_tree(*, fit: bool = False, **params: Any) -> None:
    X = TREE.counts

    def learn() -> Any:
        model = everlearn.TopicTree(random_state=0, engine="serial", **params)
        if fit:
            model.fit(X[PROBE:])
        else:
            for part in batches(X.shape[0] - PROBE, 40):
                model.partial_fit(X[PROBE:][part])
        return model

    def ask(model: Any) -> dict[str, Any]:
        found = answers(model, X[:PROBE], "predict", "transform", "score_samples")
        return found | {"nodes": [(node.id, node.parent) for node in model.tree_.nodes[1:]]}

    way = "fit" if fit else "stream"
    COURSES[f"TopicTree {way} {' '.join(map(str, params.values()))}"] = Course(learn, ask)


of_tree()
of_tree(fit=True)
of_tree(fit=True, learning="stream")


def of_components(way: str, size: int | None) -> None:
    rng = np.random.default_rng(5)
    loadings = rng.normal(size=(4, 8)) * 2.0
    which = rng.integers(4, size=408)
    X = rng.normal(size=(408, 1)) * loadings[which] + 0.2 * rng.normal(size=(408, 8))

    def learn() -> Any:
        model = everlearn.ComponentTree(
            engine="serial", random_state=3, max_nodes=10, birth_window=150
        )
        if size is None:
            return model.fit(X[PROBE:])
        for part in batches(len(X) - PROBE, size):
            model.partial_fit(X[PROBE:][part])
        return model

    def ask(model: Any) -> dict[str, Any]:
        found = answers(model, X[:PROBE], "predict", "transform", "score_samples", "reconstruct")
        return found | {"bound": model.bound_}

    COURSES[f"ComponentTree {way}"] = Course(learn, ask)


of_components("fit", None)
of_components("stream", 100)


def of_clusters(*, fit: bool) -> None:
    def learn() -> Any:
        model = everlearn.Clusters(random_state=4)
        if fit:
            return model.fit(ROWS)
        for part in batches(len(ROWS), 140):
            model.partial_fit(ROWS[part])
        return model

    def ask(model: Any) -> dict[str, Any]:
        found = answers(model, ROWS[:PROBE], "predict", "score_samples")
        return found | {"means": model.means_, "cut": model.cut(2).predict(ROWS[:PROBE])}

    COURSES[f"Clusters {'fit' if fit else 'stream'}"] = Course(learn, ask)


of_clusters(fit=True)
of_clusters(fit=False)


def of_ppca(name: str, **params: Any) -> None:
    rng = np.random.default_rng(6)
    parts = []
    for _ in range(3):
        W, mean = rng.normal(size=(5, 2)) * 2, rng.normal(size=5) * 6
        noise = 0.3 * rng.normal(size=(80, 5))
        parts.append(mean + rng.normal(size=(80, 2)) @ W.T + noise)

    def learn() -> Any:
        model = everlearn.OnlinePPCA(n_components=2, random_state=4, engine="serial", **params)
        for part in parts:
            model.partial_fit(part)
            if model.constraint == "task":
                model.consolidate()
        return model

    def ask(model: Any) -> dict[str, Any]:
        probe = np.concatenate([part[:3] for part in parts])
        found = answers(model, probe, "transform", "score_samples")
        return found | {"covariance": model.get_covariance()}

    COURSES[f"OnlinePPCA {name}"] = Course(learn, ask)


for _constraint in (None, "step", "task"):
    of_ppca(f"{_constraint}", constraint=_constraint)
of_ppca("previous", constraint="previous", constraint_weight=1.5)
of_ppca("mixture", n_mixtures=3)


def predictions(name: str) -> dict[str, Any]:
    """What the model of a course answers, as JSON would hold it."""
    course = COURSES[name]
    found = course.ask(course.learn())
    return {key: listed(value) for key, value in found.items()}


def listed(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [listed(item) for item in value]
    array = value.toarray() if sparse.issparse(value) else np.asarray(value)
    return array.tolist()


def main() -> None:
    lines = [f" {json.dumps(name)}: {json.dumps(predictions(name))}" for name in COURSES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
