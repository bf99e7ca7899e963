"""Small saved models of every estimator, which later versions must load and go on with.

`tests/test_golden.py` loads each file of `models/`, compares it with what it was to the bit, learns
one more batch, and compares the answers with `answers.json`. After a change of a file's content,
write the files anew from the top of the repository, all of them or those of some estimators:

    PYTHONPATH=src:tests python tests/golden/make_files.py [DPMixture ...]

Files of released versions are never replaced.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import everlearn
from everlearn.images import ScaledPCA, image_pipeline
from everlearn.testing.checks import Case
from everlearn.testing.data import planted_mixture, planted_topics, planted_tree

MODELS = Path(__file__).with_name("models")
ANSWERS = Path(__file__).with_name("answers.json")
TOPICS = planted_topics(72, 3, 30, 20, overlap=0.2, random_state=0)
NAMES = np.array(["ash", "elm", "fir"])
LABELS = NAMES[TOPICS.labels]
NUMBERS = 10.0 * TOPICS.theta[:, 0] + 7.0
TREE = planted_tree(0, branching=2, n_documents=60, n_tokens=20, words_per_node=4).counts
ROWS = planted_mixture(132, 3, 3, random_state=1).X
CENTRED = ROWS - ROWS.mean(axis=0)
SYMBOLS = np.random.default_rng(2).poisson(
    9.0 * np.eye(3)[np.random.default_rng(3).integers(3, size=132)] + 0.5
)
TEXTS = ["the cat and the dog", "a stock and a bond", "cello and violin", "tea and pie"]
PLANES = np.random.default_rng(6).normal(size=(120, 2)) @ np.random.default_rng(7).normal(
    size=(2, 5)
) + 0.3 * np.random.default_rng(8).normal(size=(120, 5))
CASES: dict[str, Case] = {}


def add(
    name: str,
    make: Any,
    columns: tuple[Any, ...],
    size: int,
    methods: tuple[str, ...],
    **first: Any,
) -> None:
    """A case that learns batches of `size` records; the last batch is for today's code."""
    n = len(columns[0]) if isinstance(columns[0], list) else columns[0].shape[0]
    parts = [slice(start, start + size) for start in range(0, n, size)]
    batches = [tuple(c if c is None else c[part] for c in columns) for part in parts]
    CASES[name] = Case(name, make, batches, columns[0][:4], methods, first)


def table_of(rows: NDArray[np.float64]) -> NDArray[np.object_]:
    """Numbers, categories with gaps, and counts. A value of a category comes late."""
    table = rows.astype(object)
    table[:, 1] = np.where(rows[:, 1] > 0, "high", "low")
    table[100:, 1] = "late"
    table[::5, 1] = None
    table[:, 2] = np.rint(np.abs(rows[:, 2]))
    return table


def add_mixtures() -> None:
    """With sealed and open rows, weights, missing values and sparse counts."""
    gaps = ROWS.copy()
    gaps[::7, 0] = np.nan
    weights = 1.0 + np.arange(len(ROWS)) % 3
    tables = {
        "diagonal": gaps,
        "full": ROWS,
        "zero-mean": CENTRED,
        "multinomial": sparse.csr_array(SYMBOLS.astype(float)),
        "table": table_of(gaps),
    }
    make = partial(everlearn.DPMixture, birth_window=40, batch_size=20, random_state=7)
    methods = ("predict", "predict_proba", "score_samples")
    for family, X in tables.items():
        make_family = partial(make, family=family, engine="serial")
        add(f"DPMixture-{family}", make_family, (X, None, weights), 44, methods)


def add_topics() -> None:
    """Counts and texts, given and inferred numbers of topics, classes and numbers."""
    shared = {"random_state": 3, "engine": "serial", "batch_size": 12}
    plain, counts = ("transform", "score_samples"), (TOPICS.X, None)
    topics = partial(everlearn.TopicModel, **shared)
    add("TopicModel-given", partial(topics, n_topics=3), counts, 18, plain)
    add("TopicModel-inferred", partial(topics, n_topics="infer"), counts, 18, plain)
    add("TopicModel-texts", partial(topics, n_topics=3), (TEXTS * 9,), 9, ("transform",))
    named = ("predict", "decision_function")
    for kind, loss in (
        (everlearn.MedLDAClassifier, "averaging"),
        (everlearn.MedLDAClassifier, "gibbs"),
        (everlearn.MedHDPClassifier, "averaging"),
    ):
        make = partial(kind, loss=loss, **shared)
        add(f"{kind.__name__}-{loss}", make, (TOPICS.X, LABELS), 18, named, classes=NAMES)
    regressor = partial(everlearn.MedLDARegressor, n_topics=4, **shared)
    methods = ("predict", "transform")
    add("MedLDARegressor-averaging", regressor, (TOPICS.X, NUMBERS), 18, methods)


def add_rows() -> None:
    """Models of dense rows, and of groups of them."""
    theta, shared = np.ascontiguousarray(TOPICS.theta), {"random_state": 3}
    for loss in ("averaging", "gibbs"):
        classifier = partial(everlearn.BayesianPassiveAggressiveClassifier, loss=loss, **shared)
        regressor = partial(everlearn.BayesianPassiveAggressiveRegressor, loss=loss, **shared)
        name, both = f"BayesianPassiveAggressiveClassifier-{loss}", (theta, LABELS)
        add(name, classifier, both, 18, ("predict",), classes=NAMES)
        name, both = f"BayesianPassiveAggressiveRegressor-{loss}", (theta, NUMBERS)
        add(name, regressor, both, 18, ("predict",))
    serial, scores = {**shared, "engine": "serial"}, ("transform", "score_samples")
    ppca = partial(everlearn.OnlinePPCA, n_components=2, **serial)
    add("OnlinePPCA-step", ppca, (PLANES,), 30, scores)
    add("OnlinePPCA-mixture", partial(ppca, n_mixtures=2), (PLANES,), 30, scores)
    clusters = partial(everlearn.Clusters, random_state=3)
    add("Clusters-found", clusters, (ROWS[:66],), 22, ("predict", "score_samples"))
    tree = partial(everlearn.ComponentTree, max_nodes=6, birth_window=30, **serial)
    add("ComponentTree-path", tree, (PLANES,), 30, ("predict", *scores))
    add("ScaledPCA-rows", partial(ScaledPCA, n_components=3), (PLANES,), 30, ("transform",))
    groups = [ROWS[i : i + 11] for i in range(0, 132, 11)]
    clumps = partial(everlearn.ClumpedTopicModel, engine="serial", batch_size=2, max_clumps=20)
    add("ClumpedTopicModel-full", clumps, (groups,), 4, ("transform", "score"))


def add_trees() -> None:
    """A tree of counts."""
    small = {"reservoir": 12, "n_sweeps": 4, "random_state": 0, "engine": "serial"}
    methods = ("predict", "transform", "score_samples")
    add("TopicTree-counts", partial(everlearn.TopicTree, **small), (TREE,), 15, methods)


def add_images() -> None:
    """A pipeline of gradients of small pictures."""
    rng = np.random.default_rng(0)
    stripes = np.tile(np.repeat([0, 1], 4), 4)[:, None] * np.ones(32)
    kinds = (stripes * 200, 255 - stripes.T * 60)
    noise = rng.integers(0, 20, size=(36, 32, 32))
    images = [np.clip(kinds[i % 2] + noise[i], 0, 255).astype(np.uint8) for i in range(36)]

    def make() -> Any:
        mixture = everlearn.DPMixture(random_state=0, engine="serial")
        return image_pipeline("hog", 3, mixture=mixture, size=32)

    add("ImagePipeline-hog", make, (images,), 12, ("predict", "predict_proba"))


add_mixtures()
add_topics()
add_rows()
add_trees()
add_images()


def begun(name: str) -> Any:
    """The model of a case after all batches but the last."""
    return CASES[name].learned(len(CASES[name].batches) - 1)


def answers(name: str, model: Any) -> dict[str, Any]:
    """What the model says about the probe once it has learned the last batch."""
    case = CASES[name]
    case.learn(model, case.batches[-1])
    found = {method: getattr(model, method)(case.probe) for method in case.methods}
    return {
        method: (value.toarray() if sparse.issparse(value) else np.asarray(value)).tolist()
        for method, value in found.items()
    }


def main(estimators: list[str]) -> None:
    """Write the files and the answers of these estimators, or of all."""
    known = json.loads(ANSWERS.read_text("utf-8")) if estimators else {}
    MODELS.mkdir(exist_ok=True)
    for name in CASES:
        if not estimators or name.partition("-")[0] in estimators:
            model = begun(name)
            model.save(MODELS / f"{name}.evl")
            known[name] = answers(name, model)
    lines = [f" {json.dumps(name)}: {json.dumps(known[name])}" for name in CASES]
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
