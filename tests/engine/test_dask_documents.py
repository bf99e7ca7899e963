"""Dask bags and tables of documents: read, numbered and drawn where they are."""

import dask.array as da
import dask.bag as db
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.engine.local import SerialEngine
from everlearn.text.inputs import documents_of
from everlearn.topics.batches import Targets
from everlearn.topics.corpus import Corpus
from everlearn.topics.fit import fit_corpus
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel
from support.bits import assert_same_model
from support.corpora import LABELS, NUMBERS, TEXTS, TOKENS, chunks_here
from support.corpora import X as COUNTS

N, PARTS = 96, 4
COMMON = {"batch_size": 48, "random_state": 1, "n_topics": 4}


def bag(documents, client):
    return client.persist(db.from_sequence(documents[:N], npartitions=PARTS))


def table():
    return da.from_array(COUNTS[:N].toarray(), chunks=(N // PARTS, -1))


def fitted_here(model, X):
    documents, words = documents_of(model, X, None, grow=True)
    corpus = Corpus(chunks_here(documents, N // PARTS), words, SerialEngine())
    settings = model._settings(None)
    start = model._begin(settings, words)
    model._learned = fit_corpus(settings, start, corpus, Targets.none(N))
    return model


class TestTopicModel:
    @pytest.mark.parametrize("documents", [TEXTS, TOKENS], ids=["texts", "tokens"])
    def test_words_and_draws_are_those_of_one_process(self, documents, client):
        far = TopicModel(engine=client, **COMMON).fit(bag(documents, client))
        assert_same_model(far, fitted_here(TopicModel(**COMMON), documents[:N]))

    @pytest.mark.parametrize("params", [{}, {"options": {"word_factor": "digamma", "n_rounds": 2}}])
    def test_tables_of_counts(self, params, client, lonely_client):
        far = TopicModel(engine=client, **COMMON, **params).fit(table())
        assert far.n_features_in_ == COUNTS.shape[1]
        assert_same_model(far, TopicModel(engine=lonely_client, **COMMON, **params).fit(table()))
        assert_same_model(far, fitted_here(TopicModel(**COMMON, **params), COUNTS[:N]))

    def test_what_is_counted_is_what_is_there(self, client):
        far = TopicModel(engine=client, n_passes=2, **COMMON).fit(table())
        expected = 2 * np.asarray(COUNTS[:N].sum(axis=0)).ravel()
        counted = (far.components_ - far._current_settings().smoothing).sum(axis=0)
        assert_allclose(counted, expected, rtol=1e-9, atol=1e-9)


class TestSupervised:
    @pytest.mark.parametrize("loss", ["averaging", "gibbs"])
    def test_labels_may_be_here_or_there(self, loss, client, lonely_client):
        params = {**COMMON, "n_topics": 6, "loss": loss}
        far = MedLDAClassifier(engine=client, **params).fit(bag(TOKENS, client), LABELS[:N])
        labels = da.from_array(LABELS[:N].astype("U3"), chunks=24)
        two = MedLDAClassifier(engine=lonely_client, **params)
        assert_same_model(far, two.fit(bag(TOKENS, lonely_client), labels))
        assert far.score(TOKENS[:N], LABELS[:N]) > 0.8

    def test_numbers(self, client, lonely_client):
        one = MedLDARegressor(engine=client, **COMMON).fit(table(), NUMBERS[:N])
        two = MedLDARegressor(engine=lonely_client, **COMMON).fit(table(), NUMBERS[:N])
        assert_same_model(one, two)


class TestRefusals:
    def test_bad_counts_are_found_where_they_are(self, client):
        bad = COUNTS[:N].toarray()
        bad[70, 3] = -1
        model = TopicModel(engine=client, **COMMON)
        with pytest.raises(ValueError, match=r"Negative values.*TopicModel"):
            model.fit(da.from_array(bad, chunks=(24, -1)))
        assert not hasattr(model, "_learned")

    def test_documents_of_two_kinds(self, client):
        kinds = (TOKENS[:4], [[1, 2], [3]])
        mixed = db.concat([db.from_sequence(kind, npartitions=1) for kind in kinds])
        with pytest.raises(ValueError, match="X of TopicModel must have documents of one kind"):
            TopicModel(engine=client, **COMMON).fit(mixed)

    def test_no_words_at_all(self, client):
        nothing = db.from_sequence(["", " "], npartitions=2)
        with pytest.raises(ValueError, match=r"'X' of TopicModel.*a word in at least one"):
            TopicModel(engine=client, **COMMON).fit(nothing)

    def test_labels_that_do_not_fit(self, client):
        with pytest.raises(ValueError, match="MedLDAClassifier"):
            MedLDAClassifier(engine=client, n_topics=4).fit(table(), LABELS[:5])


@pytest.mark.parametrize(
    "documents",
    [
        ["cats purr", "dogs bark"] * 5 + ["", ""],
        [["cats", "purr"], ["dogs", "bark"]] * 5 + [[], []],
        [[0, 1], [2, 1]] * 5 + [[], []],
        [[0, 1], [2, 1], [3, 3, 3], [1, 2, 3]],
    ],
    ids=["texts", "tokens", "numbers", "numbers in even chunks"],
)
def test_a_chunk_without_words_and_one_that_looks_like_counts(documents, client):
    far = TopicModel(engine=client, n_topics=2, random_state=0)
    far.fit(db.from_sequence(documents, partition_size=2))
    here = TopicModel(n_topics=2, random_state=0).fit(documents)
    assert far.vocabulary_.tolist() == here.vocabulary_.tolist()
    assert far.n_samples_seen_ == len(documents)
    assert_allclose(far.components_.sum(axis=0), here.components_.sum(axis=0))


def test_numbers_of_words(client):
    ids = [np.repeat(np.arange(COUNTS.shape[1]), row) for row in COUNTS[:N].toarray()]
    far = TopicModel(engine=client, **COMMON).fit(bag(ids, client))
    counts = TopicModel(engine=client, **COMMON).fit(table())
    n = far.components_.shape[1]
    assert_array_equal(far.components_, counts.components_[:, :n])
