"""Options of topic models: topics that are drawn, evidence that fades, weights that are drawn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from everlearn import MedHDPClassifier, MedLDAClassifier, MedLDARegressor, TopicModel, load
from everlearn.core.documents import Documents
from everlearn.core.random import stream
from everlearn.engine.opening import open_engine
from everlearn.kernels.draws import content_keys
from everlearn.testing.data import planted_topics
from everlearn.topics import fit as topic_fit
from everlearn.topics.kernels.sampler import WordFactors
from everlearn.topics.kernels.words import decay_counts
from everlearn.topics.predict import infer_sampled
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


class TestRetention:
    def test_counts_fade_and_end_as_nothing(self):
        counts = np.array([[4.0, 0.0], [1.0, 1e-9]])
        totals = counts.sum(axis=0)
        decay_counts(0.5, counts, totals)
        assert counts.tolist() == [[2.0, 0.0], [0.5, 0.0]]
        assert totals.tolist() == [2.5, 0.0]

    @pytest.mark.parametrize("params", [{}, {"n_topics": "infer"}])
    def test_tokens_of_old_batches_count_a_power_of_it(self, params):
        settings = {"n_topics": 4, "batch_size": 100, "engine": "serial", **params}
        model = TopicModel(retention=0.5, random_state=0, **settings)
        tokens = []
        for rows in (slice(0, 100), slice(100, 200), slice(200, 300)):
            model.partial_fit(PLANTED.X[rows])
            tokens.append(PLANTED.X[rows].sum())
        left = (model.components_ - model._current_settings().smoothing).sum()
        assert left == pytest.approx(tokens[0] / 4 + tokens[1] / 2 + tokens[2])

    def test_all_of_it_is_the_model_without(self):
        whole = classifier(loss="gibbs", retention=1.0).fit(PLANTED.X, PLANTED.labels)
        plain = classifier(loss="gibbs").fit(PLANTED.X, PLANTED.labels)
        np.testing.assert_array_equal(whole.components_, plain.components_)
        np.testing.assert_array_equal(whole.coef_, plain.coef_)

    def test_weights_fall_back_to_the_prior(self):
        rng = np.random.default_rng(0)
        x, means = rng.normal(size=(2, 3, 3)), rng.normal(size=(2, 3))
        prior = Gaussians(np.broadcast_to(np.eye(3) / 4.0, (2, 3, 3)), means / 4.0)
        learned = Gaussians(prior.precision + x @ x.transpose(0, 2, 1), prior.shift + x[:, 0])
        half = learned.decay(0.5, means, 4.0)
        np.testing.assert_allclose(half.precision, (prior.precision + learned.precision) / 2)
        np.testing.assert_allclose(half.shift, (prior.shift + learned.shift) / 2)
        np.testing.assert_allclose(learned.decay(0.0, means, 4.0).mean, means)

    @pytest.mark.parametrize("loss", ["averaging", "gibbs"])
    def test_words_that_change_sides_are_followed(self, loss):
        late = PLANTED.X[:, ::-1].tocsr()  # the words of each topic become those of another
        scores = {}
        for retention in (1.0, 0.7):
            model = classifier(loss=loss, retention=retention)
            for X in (*[PLANTED.X] * 5, late):
                model.partial_fit(X, PLANTED.labels, classes=np.arange(4))
            scores[retention] = model.score(late, PLANTED.labels)
        assert scores[0.7] > 0.9
        assert scores[0.7] > scores[1.0] + 0.05

    @pytest.mark.parametrize("loss", ["averaging", "gibbs"])
    def test_saved_and_loaded_goes_on_as_if_never_stopped(self, loss, tmp_path):
        model = classifier(loss=loss, retention=0.8).fit(PLANTED.X, PLANTED.labels)
        model.save(tmp_path / "model.evl")
        again = load(tmp_path / "model.evl")
        for one in (model, again):
            one.partial_fit(PLANTED.X[:120], PLANTED.labels[:120])
        np.testing.assert_array_equal(model.components_, again.components_)
        np.testing.assert_array_equal(model.coef_, again.coef_)

    def test_a_failure_in_the_middle_is_undone(self, monkeypatch):
        model = classifier(retention=0.5).fit(PLANTED.X, PLANTED.labels)
        before, learn = model.components_.copy(), topic_fit.learn_batch

        def fail(learner: Any, state: Any, *rest: Any, **known: int) -> Any:
            if state.clock > 6:
                raise RuntimeError("stop")
            return learn(learner, state, *rest, **known)

        monkeypatch.setattr(topic_fit, "learn_batch", fail)
        with pytest.raises(RuntimeError, match="stop"):
            model.partial_fit(PLANTED.X[:100], PLANTED.labels[:100])
        np.testing.assert_array_equal(model.components_, before)


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
