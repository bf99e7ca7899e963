"""Every estimator learns the same bits in this process and on worker processes."""

import time

import numpy as np
import pytest
from scipy import sparse

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.components.estimator import ComponentTree
from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.linear.regressor import (
    BayesianPassiveAggressiveRegressor,
)
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.trees.estimator import TopicTree
from support.bits import assert_same_model
from support.corpora import FITTED, model_of, targets_of
from support.corpora import X as COUNTS

pytestmark = [
    pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning"),
    pytest.mark.usefixtures("small_chunks"),
]
RNG = np.random.default_rng(0)
POINTS = np.concatenate([RNG.normal(c, 1.0, (200, 4)) for c in (-6, 0, 6)])
RNG.shuffle(POINTS)
GAPS = np.where(RNG.random(POINTS.shape) < 0.05, np.nan, POINTS)
LABELS = (POINTS[:, 0] > 0).astype(int)
GROUPS = [POINTS[i : i + 60] for i in range(0, 600, 60)]

ROWS = {
    "diagonal": (DPMixture, {"max_laps": 4, "batch_size": 200}, (POINTS,)),
    "gaps": (DPMixture, {"max_laps": 3, "batch_size": 300}, (GAPS,)),
    "full": (DPMixture, {"family": "full", "max_laps": 3, "batch_size": 200}, (POINTS,)),
    "zero-mean": (DPMixture, {"family": "zero-mean", "max_laps": 3}, (POINTS,)),
    "float32": (DPMixture, {"dtype": "float32", "max_laps": 3}, (POINTS,)),
    "stochastic": (DPMixture, {"learner": "stochastic", "batch_size": 200}, (POINTS,)),
    "multinomial": (DPMixture, {"family": "multinomial", "max_laps": 3}, (COUNTS,)),
    "ppca": (OnlinePPCA, {"n_components": 2}, (np.tile(POINTS, (4, 1)),)),
    "ppca with gaps": (OnlinePPCA, {"n_components": 2, "max_iter": 3}, (np.tile(GAPS, (4, 1)),)),
    "ppca mixture": (OnlinePPCA, {"n_mixtures": 2, "max_iter": 3}, (np.tile(POINTS, (4, 1)),)),
    "tree of components": (ComponentTree, {"max_nodes": 5, "max_iter": 3}, (POINTS,)),
    "tree of topics": (TopicTree, {"max_nodes": 6}, (COUNTS,)),
    "clumps": (ClumpedTopicModel, {}, (GROUPS,)),
    "linear classifier": (BayesianPassiveAggressiveClassifier, {}, (POINTS, LABELS)),
    "linear regressor": (BayesianPassiveAggressiveRegressor, {}, (POINTS, POINTS[:, 1])),
}  # fmt: skip


IN_ONE_PROCESS = {
    "linear classifier", "linear regressor",
    "lda collapsed", "hdp", "hdp, young", "born, collapsed",
}  # fmt: skip
"""Each record depends on the one before: nothing is sent, so that no cluster can change it."""


def assert_nothing_left(client, before):
    """What was sent is let go of; the client's own thread does it."""
    end = time.monotonic() + 20
    while (left := client.futures.keys() - before) and time.monotonic() < end:
        time.sleep(0.05)
    assert not left


def learned(case, method, engine):
    kind, params, data = ROWS[case]
    return getattr(kind(engine=engine, random_state=0, **params), method)(*data)


@pytest.mark.parametrize("case", ROWS)
def test_a_fit_gives_the_same_bits_everywhere(case, client, sent):
    serial, before = learned(case, "fit", "serial"), set(client.futures)
    assert_same_model(serial, learned(case, "fit", "threads"))
    assert not sent
    assert_same_model(serial, learned(case, "fit", client))
    assert bool(sent) == (case not in IN_ONE_PROCESS)
    assert_nothing_left(client, before)


@pytest.mark.parametrize("case", ["diagonal", "multinomial", "ppca", "tree of topics", "clumps"])
def test_a_stream_gives_the_same_bits_everywhere(case, client, sent):
    assert_same_model(learned(case, "partial_fit", "serial"), learned(case, "partial_fit", client))
    assert bool(sent) == (case != "tree of topics")


@pytest.mark.parametrize("case", FITTED)
def test_topic_models_learn_the_same_bits_everywhere(case, client, sent, monkeypatch):
    monkeypatch.setattr("everlearn.topics.steps._FEWEST_TOKENS", 100)
    asked = [] if targets_of(case) is None else [targets_of(case)]
    serial = model_of(case).fit(COUNTS[:64], *[y[:64] for y in asked])
    far = model_of(case, engine=client).fit(COUNTS[:64], *[y[:64] for y in asked])
    assert_same_model(serial, far)
    assert bool(sent) == (case not in IN_ONE_PROCESS)


@pytest.mark.parametrize("case", ["diagonal", "ppca with gaps"])
def test_the_number_of_workers_does_not_matter(case, client, lonely_client):
    assert_same_model(learned(case, "fit", client), learned(case, "fit", lonely_client))


def test_sparse_rows_too(client):
    counts = sparse.csr_array(COUNTS)
    params = {"family": "multinomial", "max_laps": 3, "random_state": 0}
    serial = DPMixture(engine="serial", **params).fit(counts)
    assert_same_model(serial, DPMixture(engine=client, **params).fit(counts))
