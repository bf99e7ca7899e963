"""Topics and scores of new documents: expected ones, and drawn ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from everlearn import MedHDPClassifier, MedLDAClassifier, MedLDARegressor, TopicModel
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.engine.opening import open_engine
from everlearn.kernels.draws import content_keys
from everlearn.testing.data import planted_topics
from everlearn.topics.kernels.sampler import WordFactors
from everlearn.topics.predict import infer_expected, infer_sampled
from everlearn.topics.state import Gaussians
from oracles.documents import expected_proportions
from support.corpora import change, made

PLANTED = planted_topics(300, 4, 60, 30, random_state=0)


def classifier(**params: Any) -> MedLDAClassifier:
    settings = {"n_topics": 4, "random_state": 0, "batch_size": 50, "engine": "serial", **params}
    return made(MedLDAClassifier, **settings)


class TestSampledTopics:
    def test_their_mean_is_that_of_all_assignments(self):
        rng = np.random.default_rng(0)
        phi, alpha = rng.dirichlet(np.ones(5), 3), np.array([0.3, 0.5, 0.2])
        factors = WordFactors(np.ascontiguousarray(phi.T), 0.0, np.ones(3))
        tokens, n = [0, 1, 1, 4], 40_000
        with open_engine("serial") as engine:
            found = infer_sampled(Documents.from_tokens([tokens]), factors, alpha, n, 0, engine)
        expected = expected_proportions(tokens, phi, alpha)
        # Sweeps of a short document forget each other within about 10 of them.
        np.testing.assert_allclose(found[0], expected, atol=4 * 0.5 * np.sqrt(10 / n))

    def test_a_document_of_no_words_has_the_prior(self):
        factors = WordFactors(np.ones((2, 2)), 0.1, np.ones(2))
        with open_engine("serial") as engine:
            documents = Documents.from_tokens([[], [1]])
            found = infer_sampled(documents, factors, np.array([1.0, 3.0]), 2, 0, engine)
        assert found[0].tolist() == [0.25, 0.75]
        assert found.sum(axis=1).tolist() == [1.0, 1.0]

    @pytest.mark.parametrize("kind", [TopicModel, MedLDAClassifier, MedLDARegressor])
    def test_a_document_gets_what_it_gets_alone_on_any_engine(self, kind):
        model = made(kind, n_topics=4, random_state=0, inference="sampled", inference_passes=5)
        model.fit(PLANTED.X, PLANTED.labels)
        whole = model.transform(PLANTED.X)
        np.testing.assert_array_equal(model.transform(PLANTED.X[7:9]), whole[7:9])
        for engine in ("serial", "threads"):
            np.testing.assert_array_equal(
                model.set_params(engine=engine).transform(PLANTED.X), whole
            )
        expected = change(model, inference="expected").transform(PLANTED.X)
        assert 0.0 < np.abs(expected - whole).mean() < 0.2

    def test_labels_are_predicted_as_well(self):
        model = classifier(inference="sampled").fit(PLANTED.X[:200], PLANTED.labels[:200])
        assert model.score(PLANTED.X[200:], PLANTED.labels[200:]) > 0.9

    def test_keys_depend_on_words_their_numbers_and_the_seed(self):
        tokens = [[0, 1], [1, 0], [0, 0, 1], [0], [1], [0, 2], []]
        documents = Documents.from_tokens(tokens)
        arrays = (documents.indptr, documents.words, documents.counts)
        keys = content_keys(3, *arrays)
        assert keys[0] == keys[1]
        assert len(set(keys.tolist())) == len(tokens) - 1
        assert not set(keys.tolist()) & set(content_keys(4, *arrays).tolist())


class TestDrawnWeights:
    def test_their_moments_are_those_of_the_gaussians(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(2, 3, 5))
        gaussians = Gaussians(x @ x.transpose(0, 2, 1) + np.eye(3), rng.normal(size=(2, 3)))
        draws = np.array([gaussians.draw(rng) for _ in range(4000)])
        mean, covariance = gaussians.moments()
        spread = np.sqrt(np.einsum("qkk->qk", covariance) / 4000)
        assert (np.abs(draws.mean(axis=0) - mean) < 4 * spread).all()
        for q in range(2):
            np.testing.assert_allclose(np.cov(draws[:, q].T), covariance[q], atol=0.05)

    @pytest.mark.parametrize("kind", [MedLDAClassifier, MedHDPClassifier])
    def test_a_draw_lasts_until_the_model_learns_again(self, kind):
        model = made(kind, loss="gibbs", decision="drawn", random_state=0, engine="serial")
        model.fit(PLANTED.X, PLANTED.labels)
        first = model.decision_function(PLANTED.X)
        np.testing.assert_array_equal(model.decision_function(PLANTED.X[3:5]), first[3:5])
        assert model.score(PLANTED.X, PLANTED.labels) > 0.9
        state = model._learned.states[0]
        drawn = state.weights.draw(stream(state.seed, "sample", state.clock))
        np.testing.assert_allclose(model.transform(PLANTED.X) @ drawn.T, first)
        means = change(model, decision="mean").decision_function(PLANTED.X)
        assert (means != first).any()
        change(model, decision="drawn").partial_fit(PLANTED.X[:60], PLANTED.labels[:60])
        assert (model.decision_function(PLANTED.X) != first).all()

    def test_an_explanation_is_of_the_drawn_weights(self):
        model = classifier(loss="gibbs", decision="drawn").fit(PLANTED.X, PLANTED.labels)
        told = model.explain(PLANTED.X[0], n=4)
        assert sum(part.margin for part in told.topics) == pytest.approx(told.score)

    def test_an_explanation_is_of_the_drawn_topics(self):
        model = classifier(inference="sampled", inference_passes=3)
        model.fit(PLANTED.X, PLANTED.labels)
        shares = model.transform(PLANTED.X)
        ids = model.component_ids_.tolist()
        for i in range(5):
            told = model.explain(PLANTED.X[i], n=1000)
            assert sum(part.margin for part in told.topics) == pytest.approx(told.score)
            for part in told.topics:
                assert part.share == pytest.approx(shares[i, ids.index(part.topic)])
                counts = [count for _, count in part.words]
                assert sum(counts) == pytest.approx(part.share * PLANTED.X[[i]].sum())
                assert all(count > 0 for count in counts)

    def test_it_needs_a_posterior(self):
        message = (
            "'decision' parameter of SamplerOptions of MedLDAClassifier .* Got loss='averaging'"
        )
        with pytest.raises(ValueError, match=message):
            classifier(decision="drawn").fit(PLANTED.X, PLANTED.labels)


def test_inference_does_not_depend_on_the_engine():
    rng = np.random.default_rng(0)
    documents = Documents.from_dense(rng.poisson(3.0, (50, 40)))
    counts = rng.gamma(0.3, 10.0, (40, 32))
    factors = WordFactors(counts, 0.1, 1.0 / counts.sum(axis=0))
    alpha = np.full(32, 0.2)
    alone = infer_expected(documents, factors, alpha, 3, SerialEngine())
    with ThreadEngine(3) as engine:
        threads = infer_expected(documents, factors, alpha, 3, engine)
    np.testing.assert_array_equal(alone, threads)
    np.testing.assert_array_equal(
        infer_expected(documents[7:9], factors, alpha, 3, SerialEngine()), alone[7:9]
    )
    assert infer_expected(documents[:0], factors, alpha, 3, SerialEngine()).shape == (0, 32)
