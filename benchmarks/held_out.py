"""`TopicModel` against scikit-learn's and tomotopy's topic models: perplexity of held-out words."""

import importlib.util
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.decomposition import LatentDirichletAllocation

from benchmarks.corpora import DATA, Corpus, newsgroups
from benchmarks.sampler import tomotopy_model
from benchmarks.table import Table
from everlearn import TopicModel
from everlearn.core.documents import Documents, split_documents
from everlearn.engine.opening import open_engine
from everlearn.metrics.topics import completion_log_likelihood, perplexity
from everlearn.topics.kernels.sampler import WordFactors
from everlearn.topics.predict import infer_expected

TOPICS, SWEEPS, BATCH = 50, 100, 256
PASSES = 5
"""Passes over a document to infer its topics, as in `TopicModel`."""


def run() -> Table | None:
    """Perplexities under one evaluator; None without the shared data."""
    if not DATA.exists():
        print("skipped held-out words: no folder of shared data beside the repository")
        return None
    table = Table(
        "Held-out words of 20 Newsgroups",
        ["model", "topics", "topics above 0.2 % of the tokens", "perplexity", "CPU s"],
        "Perplexity of held-out words of the test documents; lower is better. One evaluator scores "
        "all models: it takes their topics and their prior, infers the proportions of a document "
        f"from half of its words and scores the other half. One thread; {TOPICS} topics unless the "
        "model finds their number. The first three rows see every document once; tomotopy sweeps "
        f"{SWEEPS} times over all. The smoothing of topics is each library's default.",
    )
    data = newsgroups()
    order = np.random.default_rng(0).permutation(data.X.shape[0])
    data = replace(data, X=data.X[order], y=data.y[order])
    for name, learn in _models().items():
        start = time.process_time()
        phi, alpha, shares = learn(data)
        spent = time.process_time() - start
        found = _perplexity(phi, alpha, data)
        table.add(name, len(phi), int((shares > 0.002).sum()), f"{found:,.0f}", f"{spent:.1f}")
    return table


def _models() -> dict[str, Callable[[Corpus], tuple[np.ndarray, np.ndarray, np.ndarray]]]:
    """Functions that learn a model and return its topics, its prior and the shares of topics."""
    settings = {"random_state": 0, "engine": "serial"}
    models: dict[str, Callable[[Corpus], Any]] = {
        "TopicModel": lambda data: _ours(TopicModel(**settings).fit(data.X)),
        f"TopicModel.partial_fit, batches of {BATCH}": lambda data: _ours(
            TopicModel(**settings).partial_fit(data.X)
        ),
        'TopicModel(n_topics="infer")': lambda data: _ours(
            TopicModel(n_topics="infer", **settings).fit(data.X)
        ),
        "TopicModel, five passes": lambda data: _ours(
            TopicModel(n_passes=5, **settings).fit(data.X)
        ),
        "TopicModel(warmup_documents=0)": lambda data: _ours(
            TopicModel(warmup_documents=0, **settings).fit(data.X)
        ),
        "LatentDirichletAllocation, online": _sklearn,
    }
    if importlib.util.find_spec("tomotopy") is not None:
        models |= {
            "tomotopy LDA": lambda data: _tomotopy("LDAModel", data, k=TOPICS),
            "tomotopy HDP": lambda data: _tomotopy("HDPModel", data, initial_k=TOPICS),
        }
    return models


def _ours(model: TopicModel) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    state = model._learned.states[0]
    alpha = model._current(model._learned).prior.document_prior(state.tables)
    return _shares(model.components_), alpha, model.topic_shares_


def _sklearn(data: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    model = LatentDirichletAllocation(
        TOPICS, learning_method="online", max_iter=1, batch_size=BATCH, random_state=0,
        total_samples=data.X.shape[0],
    ).fit(data.X)  # fmt: skip
    return (
        _shares(model.components_),
        np.full(TOPICS, model.doc_topic_prior_),
        _shares(model.components_.sum(axis=1)),
    )


def _tomotopy(kind: str, data: Corpus, **settings: int) -> tuple[np.ndarray, ...]:
    model = tomotopy_model(kind, data.X, **settings)
    model.train(SWEEPS, workers=1)
    live = [k for k in range(model.k) if kind == "LDAModel" or model.is_live_topic(k)]
    columns = np.array([int(word) for word in model.used_vocabs])
    phi = np.zeros((len(live), data.X.shape[1]))
    phi[:, columns] = [model.get_topic_word_dist(k) for k in live]
    counts = np.array(model.get_count_by_topics(), float)[live]
    # An HDP shares its concentration out in proportion to what topics have.
    alpha = np.array(model.alpha) if kind == "LDAModel" else model.alpha * _shares(counts)
    return _shares(phi + 1e-12), alpha, _shares(counts)


def _shares(values: np.ndarray) -> np.ndarray:
    return np.asarray(values / values.sum(axis=-1, keepdims=True))


def _perplexity(phi: np.ndarray, alpha: np.ndarray, data: Corpus) -> float:
    seen, held_out = split_documents(Documents.from_csr(data.X_test), 0)
    factors = WordFactors(np.ascontiguousarray(phi.T), 0.0, np.ones(len(phi)))
    with open_engine("serial") as engine:
        theta = infer_expected(seen, factors, np.asarray(alpha, float), PASSES, engine)
    found = completion_log_likelihood(theta, phi, held_out)
    return perplexity(float(found.sum()), int(held_out.lengths.sum()))
