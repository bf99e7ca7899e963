"""Collections for models that learn in one process: the bits of the same records in memory."""

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from everlearn.clumps.estimator import ClumpedTopicModel
from everlearn.components.estimator import ComponentTree
from everlearn.errors import NotConvergedWarning
from everlearn.estimator import collections
from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.linear.regressor import (
    BayesianPassiveAggressiveRegressor,
)
from everlearn.topics.medlda import MedHDPClassifier, MedLDAClassifier
from everlearn.topics.medlda_regressor import MedLDARegressor
from everlearn.topics.topic_model import TopicModel
from everlearn.trees.estimator import TopicTree
from support.bits import assert_same_model
from support.corpora import LABELS, NUMBERS, TEXTS, TOKENS
from support.corpora import X as COUNTS

pytestmark = pytest.mark.filterwarnings(
    f"ignore::{NotConvergedWarning.__module__}.NotConvergedWarning"
)
N = 64
COLLAPSED = {"word_factor": "collapsed"}
RNG = np.random.default_rng(3)
POINTS = np.concatenate([RNG.normal(c, 1.0, (N // 2, 4)) for c in (-4, 4)])
RNG.shuffle(POINTS)
SIDES = np.where(POINTS[:, 0] > 0, "right", "left")
GROUPS = [POINTS[i : i + 8] for i in range(0, N, 8)]


def array(X):
    return da.from_array(X, chunks=(24, *[-1] * (X.ndim - 1)))


def counts():
    return COUNTS[:N].toarray()


CASES = {
    "linear classifier": (BayesianPassiveAggressiveClassifier, {}, (POINTS, SIDES)),
    "in order": (
        BayesianPassiveAggressiveClassifier,
        {"batch_size": 5, "shuffle": False},
        (POINTS, SIDES),
    ),
    "linear regressor": (BayesianPassiveAggressiveRegressor, {}, (POINTS, POINTS[:, 1])),
    "one document": (ClumpedTopicModel, {}, (POINTS,)),
    "topic tree": (TopicTree, {"max_nodes": 5, "n_sweeps": 5}, (counts(),)),
    "stream of a tree": (TopicTree, {"max_nodes": 5, "learning": "stream"}, (counts(),)),
    "HDP": (TopicModel, {"n_topics": "infer"}, (counts(),)),
    "collapsed": (TopicModel, {"n_topics": 3, "options": COLLAPSED}, (counts(),)),
    "word weights": (MedLDAClassifier, {"word_weights": True}, (counts(), LABELS[:N].astype("U9"))),
    "collapsed numbers": (
        MedLDARegressor, {"n_topics": 4, "options": COLLAPSED}, (counts(), NUMBERS[:N])
    ),
    "growing": (MedHDPClassifier, {}, (counts(), LABELS[:N].astype("U9"))),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_arrays_teach_what_they_teach_in_memory(case, client):
    kind, params, given = CASES[case]
    here = kind(random_state=0, **params).fit(*given)
    far = kind(random_state=0, engine=client, **params).fit(*map(array, given))
    assert_same_model(here, far)


class TestLinearInOrder:
    """Rows that are visited once and in order come chunk by chunk."""

    MISSING = np.where(np.arange(N)[:, None] % 5 == 0, np.nan, (POINTS[:, :2] > 0).astype(float))

    @pytest.mark.parametrize("params", [
        {}, {"batch_size": 7}, {"loss": "averaging", "batch_size": 7},
        {"loss": "averaging", "batch_size": 1},
    ], ids=str)  # fmt: skip
    @pytest.mark.parametrize("thin", [False, True])
    def test_the_bits_of_all_rows_together(self, params, thin, client, monkeypatch):
        params = {"shuffle": False, "max_iter": 1, "random_state": 0, **params}
        X = np.where(POINTS > 0, POINTS, 0.0)
        here = BayesianPassiveAggressiveClassifier(**params)
        here.fit(sparse.csr_array(X) if thin else X, self.MISSING)
        monkeypatch.setattr(collections, "joined", only_y)
        far = BayesianPassiveAggressiveClassifier(engine=client, **params)
        rows = array(X).map_blocks(sparse.csr_matrix) if thin else array(X)
        assert_same_model(here, far.fit(rows, array(self.MISSING)))

    def test_numbers(self, client):
        params = {"shuffle": False, "max_iter": 1, "random_state": 0}
        here = BayesianPassiveAggressiveRegressor(**params).fit(POINTS, POINTS[:, 1])
        far = BayesianPassiveAggressiveRegressor(engine=client, **params)
        assert_same_model(here, far.fit(array(POINTS), POINTS[:, 1]))

    @pytest.mark.parametrize("n", [N - 3, N + 3])
    def test_targets_that_are_not_as_many(self, n, client):
        model = BayesianPassiveAggressiveRegressor(shuffle=False, max_iter=1, engine=client)
        with pytest.raises(ValueError, match="'y' of BayesianPassiveAggressiveRegressor must have"):
            model.fit(array(POINTS), np.ones(n))
        assert not hasattr(model, "_learned")


def only_y(collection, chunks, real=collections.joined):
    assert collection.shape == TestLinearInOrder.MISSING.shape
    return real(collection, chunks)


@pytest.mark.parametrize("documents", [TEXTS, TOKENS], ids=["texts", "tokens"])
@pytest.mark.parametrize("kind", [TopicModel, TopicTree])
def test_bags_of_documents(documents, kind, client):
    params = {"n_topics": "infer"} if kind is TopicModel else {"max_nodes": 5, "n_sweeps": 5}
    bag = db.from_sequence(documents[:N], npartitions=3)
    here = kind(random_state=0, **params).fit(documents[:N])
    assert_same_model(here, kind(random_state=0, engine=client, **params).fit(bag))


def test_frames_bring_their_names_and_sparse_chunks_stay_sparse(client):
    frame = pd.DataFrame(POINTS, columns=list("abcd"))
    y = pd.Series((SIDES == "left").astype(int))
    here = BayesianPassiveAggressiveClassifier(random_state=0).fit(frame, y)
    far = BayesianPassiveAggressiveClassifier(random_state=0, engine=client)
    far.fit(dd.from_pandas(frame, npartitions=3), dd.from_pandas(y, npartitions=2))
    assert far.feature_names_in_.tolist() == list("abcd")
    assert_same_model(here, far)
    rows = array(counts()).map_blocks(sparse.csr_matrix)
    thin = BayesianPassiveAggressiveClassifier(random_state=0, engine=client).fit(rows, SIDES)
    here = BayesianPassiveAggressiveClassifier(random_state=0).fit(COUNTS[:N], SIDES)
    assert_same_model(here, thin)


def test_labels_alone_may_be_a_collection(client):
    labels = LABELS[:N].astype("U9")
    here = MedLDAClassifier(random_state=0).fit(counts(), labels)
    assert_same_model(
        here, MedLDAClassifier(random_state=0, engine=client).fit(counts(), array(labels))
    )


class TestClumps:
    @pytest.mark.parametrize("batch_size", [3, None])
    def test_bags_come_part_by_part(self, batch_size, client, monkeypatch):
        """Of documents, only those of one part and of one epoch are here."""
        here = ClumpedTopicModel(batch_size=batch_size).fit(GROUPS)
        far = ClumpedTopicModel(batch_size=batch_size, engine=client)
        most = []
        real = collections.as_rows
        monkeypatch.setattr(collections, "as_rows", lambda part: most.append(1) or real(part))
        far.fit(db.from_sequence(GROUPS, npartitions=4))
        assert len(most) == 4
        assert_same_model(here, far)

    def test_groups_of_points(self, client):
        groups = np.repeat(np.arange(8), 8)
        here = ClumpedTopicModel().fit(POINTS, groups=groups)
        far = ClumpedTopicModel(engine=client).fit(array(POINTS), groups=array(groups))
        assert_same_model(here, far)

    def test_what_is_wrong_is_said_and_changes_nothing(self, client):
        model = ClumpedTopicModel(engine=client).fit(GROUPS)
        before = model.n_samples_seen_
        bad = db.from_sequence([*GROUPS, GROUPS[0][:, :2]], npartitions=2)
        with pytest.raises(ValueError, match=r"X\[8\].*2 features"):
            model.fit(bad)
        with pytest.raises(ValueError, match="'groups' of ClumpedTopicModel must be None"):
            model.fit(db.from_sequence(GROUPS), groups=[1])
        with pytest.raises(ValueError, match="X of ClumpedTopicModel must have a document"):
            model.fit(db.from_sequence(GROUPS).filter(is_large))
        assert model.n_samples_seen_ == before


def is_large(document):
    return len(document) > 100


def test_no_worker_holds_all_of_what_is_brought(client):
    """Chunks are put together here, and not in a task."""
    far = BayesianPassiveAggressiveClassifier(random_state=0, engine=client)
    sizes = da.ones((N, 4), chunks=(8, 4)).map_blocks(alone, dtype=float)
    far.fit(sizes, SIDES)
    assert far.n_samples_seen_ == N


def alone(block):
    assert len(block) <= 8
    return block


def test_what_is_delayed_is_one_chunk(client):
    params = {"max_nodes": 5, "n_sweeps": 5, "random_state": 0}
    far = TopicTree(engine=client, **params).fit(dask.delayed(counts()))
    assert_same_model(TopicTree(**params).fit(counts()), far)


def test_engines_of_this_process_do_not_fetch():
    with pytest.raises(ValueError, match=r"'engine' parameter of TopicTree.*'serial'"):
        TopicTree(engine="serial").fit(array(counts()))


def test_streams_are_given_chunk_by_chunk(client):
    for kind in (BayesianPassiveAggressiveClassifier, TopicTree, ComponentTree, ClumpedTopicModel):
        given = {"classes": ["left", "right"]} if "Passive" in kind.__name__ else {}
        with pytest.raises(TypeError, match=f"'X' of {kind.__name__}.*Dask collection"):
            kind(engine=client).partial_fit(array(POINTS), SIDES, **given)
