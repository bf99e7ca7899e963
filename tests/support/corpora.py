"""Documents with planted topics and every kind of topic estimator, for their tests."""

from dataclasses import fields, replace
from typing import Any, NamedTuple

import numpy as np

from everlearn.core.documents import Documents
from everlearn.engine.protocol import LocalHandle
from everlearn.testing.data import planted_topics
from everlearn.topics.corpus import ChunkedDocuments, DocumentChunk
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel

N_WORDS = 60
BATCH = 32
PLANTED = planted_topics(256, 4, N_WORDS, 30, overlap=0.2, random_state=0)
X = PLANTED.X
NAMES = np.array(["ash", "elm", "fir", "oak"])
LABELS = NAMES[PLANTED.labels]
BINARY = np.where(np.isin(LABELS, ["ash", "elm"]), "yes", "no")
NUMBERS = 10.0 * PLANTED.theta[:, 0] - 4.0 * PLANTED.theta[:, 1] + 7.0
INDICATORS = (PLANTED.theta > 0.2).astype(float)
VOCABULARY = np.array([f"word{i:02d}" for i in range(N_WORDS)], dtype=object)
TOKENS = [VOCABULARY[np.repeat(np.arange(N_WORDS), row)].tolist() for row in X.toarray()]
TEXTS = [" ".join(tokens) for tokens in TOKENS]

GROWN = {"warmup_documents": 0}
FITTED: dict[str, tuple[type, dict[str, Any]]] = {
    "lda": (TopicModel, {"n_topics": 5, **GROWN}),
    "lda digamma": (TopicModel, {"n_topics": 5, "word_factor": "digamma", "n_rounds": 2, **GROWN}),
    "lda collapsed": (
        TopicModel,
        {"n_topics": 5, "word_factor": "collapsed", "burn_in": 1, **GROWN},
    ),
    "lda, young": (TopicModel, {"n_topics": 5, "warmup_documents": BATCH, "warmup_sweeps": 7}),
    "hdp": (TopicModel, {"n_topics": "infer", "start_topics": 3, **GROWN}),
    "hdp, young": (TopicModel, {"n_topics": "infer", "warmup_documents": BATCH}),
    "averaging": (MedLDAClassifier, {"n_topics": 8}),
    "averaging, no anchors": (MedLDAClassifier, {"n_topics": 3, "anchors": False, "C": 16e3}),
    "averaging, words": (MedLDAClassifier, {"n_topics": 20, "word_weights": True}),
    "averaging, ovr": (MedLDAClassifier, {"n_topics": 4, "strategy": "ovr"}),
    "gibbs": (MedLDAClassifier, {"n_topics": 8, "loss": "gibbs"}),
    "gibbs, all drawn": (
        MedLDAClassifier,
        {"n_topics": 8, "loss": "gibbs", "augmentation": "all", "n_rounds": 2},
    ),
    "gibbs, words": (MedLDAClassifier, {"n_topics": 20, "loss": "gibbs", "word_weights": True}),
    "gibbs, ovr": (MedLDAClassifier, {"n_topics": 4, "loss": "gibbs", "strategy": "ovr"}),
    "ovr, words": (MedLDAClassifier, {"n_topics": 20, "strategy": "ovr", "word_weights": True}),
    "born": (MedHDPClassifier, {}),
    "born, collapsed": (MedHDPClassifier, {"word_factor": "collapsed"}),
    "born, words": (MedHDPClassifier, {"start_topics": 20, "word_weights": True}),
    "born, gibbs": (MedHDPClassifier, {"loss": "gibbs", "start_topics": 9}),
    "number": (MedLDARegressor, {"n_topics": 6}),
    "number, gibbs": (MedLDARegressor, {"n_topics": 6, "loss": "gibbs"}),
}
"""Every kind of estimator, by a name."""
CLASSIFIERS = [name for name, (kind, _) in FITTED.items() if hasattr(kind, "decision_function")]


def made(kind: Any, **params: Any) -> Any:
    """An estimator; fields of its options are given by plain names."""
    return change(kind(), **params)


def change(model: Any, **params: Any) -> Any:
    """The estimator with other parameters, as `made` takes them."""
    for home, options in model._options.items():
        names = {field.name for field in fields(options)} & set(params)
        own = {name: params.pop(name) for name in names}
        if own:
            params[home] = replace(options.of(getattr(model, home), type(model).__name__), **own)
    return model.set_params(**params)


def model_of(name: str, **params: Any) -> Any:
    """An estimator that has learned nothing yet."""
    kind, own = FITTED[name]
    common = {"batch_size": BATCH, "random_state": 3, "engine": "serial", "shuffle": False}
    return made(kind, **{**common, **own, **params})


def targets_of(name: str) -> Any:
    """What goes with the documents: None, labels or numbers."""
    kind = FITTED[name][0]
    if kind is TopicModel:
        return None
    return NUMBERS if kind is MedLDARegressor else LABELS


def teach(model: Any, name: str, where: slice = slice(None), documents: Any = X) -> Any:
    """The model after `partial_fit` of some of the documents."""
    y = targets_of(name)
    first = {"classes": NAMES} if name in CLASSIFIERS else {}
    return model.partial_fit(documents[where], None if y is None else y[where], **first)


def fitted(name: str, **params: Any) -> Any:
    """The model after `fit` of all documents."""
    return model_of(name, **params).fit(X, targets_of(name))


class Content(NamedTuple):
    """What a model knows, as a copy."""

    header: dict[str, Any]
    arrays: dict[str, np.ndarray]


def content(model: Any) -> Content:
    """All that a file of the model would hold, but for the parameters."""
    header, arrays = model.to_checkpoint()
    header = {key: value for key, value in header.items() if key != "params"}
    return Content(header, {name: array.copy() for name, array in arrays.items()})


def assert_same(a: Content, b: Content) -> None:
    """Equal to the last bit."""
    assert a.header == b.header
    assert a.arrays.keys() == b.arrays.keys()
    for name, array in a.arrays.items():
        assert array.dtype == b.arrays[name].dtype
        np.testing.assert_array_equal(array, b.arrays[name], err_msg=name)


def assert_close(a: np.ndarray, b: np.ndarray) -> None:
    """Equal but for the last bits, in which sums over a few topics may differ from run to run."""
    assert a.dtype == b.dtype
    if a.dtype.kind == "f":
        np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-13)
    else:
        np.testing.assert_array_equal(a, b)


def chunks_here(documents: Documents, size: int) -> ChunkedDocuments:
    """Documents in chunks of this size, held in this process."""
    starts = range(0, len(documents), size)
    parts = [documents[start : start + size] for start in starts]
    return ChunkedDocuments(
        tuple(
            DocumentChunk(LocalHandle([part]), start, len(part), part.n_tokens)
            for start, part in zip(starts, parts, strict=True)
        )
    )
