"""Evidence of earlier batches decays, and nothing else does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from everlearn import MedLDAClassifier, TopicModel, load
from everlearn.testing.data import planted_topics
from everlearn.topics import fit as topic_fit
from everlearn.topics.kernels.words import decay_counts
from everlearn.topics.state import Gaussians
from support.corpora import made

PLANTED = planted_topics(300, 4, 60, 30, random_state=0)


def classifier(**params: Any) -> MedLDAClassifier:
    settings = {"n_topics": 4, "random_state": 0, "batch_size": 50, "engine": "serial", **params}
    return made(MedLDAClassifier, **settings)


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
