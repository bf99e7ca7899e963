"""Topics offered empty, and dropped if they are left empty."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from everlearn.core.documents import Documents
from everlearn.topics.batches import as_bags
from everlearn.topics.births import add_spare_topics, drop_empty_topics, select_topics
from everlearn.topics.priors import FixedTopics, SharedSticks
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import first_state
from everlearn.topics.steps import Draws

AVERAGING = Loss("averaging", 16.0, 50.0, 4e-4)
GIBBS = Loss("gibbs", 164.0, 1.0, 10.0)
BORN = TopicSettings(SharedSticks(5.0, 1.0), 0.1, AVERAGING)


def signs_of(n_tasks, classes, n_documents=64):
    """Labels of documents that belong to these classes in turn; a single task has yes and no."""
    own = np.resize(classes, n_documents)
    if n_tasks == 1:
        return np.where(own == 0, 1, -1).astype(np.int8)[:, None]
    return np.where(own[:, None] == np.arange(n_tasks), 1, -1).astype(np.int8)


ALL = signs_of(3, [0, 1, 2])


def state_of(learner, n_tasks=3, n_topics=3, clock=1):
    state = first_state(learner, 6, n_topics, np.arange(n_tasks), seed=0)
    return replace(state, clock=clock, tables=np.arange(1.0, n_topics + 1), next_id=10)


class TestWithSpares:
    @pytest.mark.parametrize(("n_tasks", "codes"), [(1, [0, 1]), (3, [0, 1, 2])])
    @pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
    def test_one_for_each_of_few_classes(self, loss, n_tasks, codes):
        learner = replace(BORN, loss=loss)
        state = state_of(learner, n_tasks)
        more = add_spare_topics(learner, state, signs_of(n_tasks, codes))
        assert more.codes[3:].tolist() == codes
        assert more.ids.tolist() == [0, 1, 2, *range(10, 10 + len(codes))]
        assert more.tables.tolist() == [1, 2, 3, *[0] * len(codes)]
        assert more.counts.shape[1] >= more.n_topics
        assert not more.counts[:, 3:].any()
        expected = np.full((n_tasks, len(codes)), -loss.margin)
        for column, code in enumerate(codes):
            if code < n_tasks:
                expected[code, column] = loss.margin
        np.testing.assert_allclose(more.weights.mean[:, 3:], expected)
        np.testing.assert_allclose(more.weights.mean[:, :3], state.weights.mean)
        if loss is GIBBS:
            variances = np.diagonal(more.weights.moments()[1], axis1=1, axis2=2)
            np.testing.assert_allclose(variances[:, 3:], loss.variance)

    def test_without_anchors(self):
        for loss in (None, replace(AVERAGING, anchored=False)):
            learner = replace(BORN, loss=loss)
            more = add_spare_topics(learner, state_of(learner), ALL)
            assert more.codes[3:].tolist() == [-1, -1, -1]
            assert more.weights is None or not more.weights.mean[:, 3:].any()

    @pytest.mark.parametrize(("limit", "n"), [(3, 3), (4, 4), (5, 5), (100, 6), (2, 3)])
    def test_no_more_than_allowed(self, limit, n):
        learner = replace(BORN, max_topics=limit)
        assert add_spare_topics(learner, state_of(learner), ALL).n_topics == n

    def offered(self, clocks, classes, codes=None, n_tasks=8):
        """Classes that are offered a topic at batches of these classes."""
        state = state_of(BORN, n_tasks, n_tasks)
        state = state if codes is None else replace(state, codes=np.array(codes))
        signs = signs_of(n_tasks, classes)
        return [
            add_spare_topics(BORN, replace(state, clock=t), signs).codes[n_tasks:].tolist()
            for t in clocks
        ]

    def test_many_classes_have_their_turns(self):
        """Whatever the batch is made of, as draws from the prior of a new topic would be."""
        for classes in (range(8), [2]):
            assert self.offered(range(1, 4), classes) == [[3, 4, 5], [0, 6, 7], [1, 2, 3]]

    @pytest.mark.parametrize("n_tasks", [4, 6, 9, 20])
    @pytest.mark.parametrize("n_wanting", [0, 1, 3])
    def test_no_class_is_left_out_for_ever(self, n_tasks, n_wanting):
        """Even if some classes have documents in every batch, and never a topic."""
        codes = np.resize(np.arange(n_tasks - n_wanting), n_tasks)
        turns = self.offered(range(1, n_tasks + 1), range(n_tasks), codes, n_tasks)
        assert {code for turn in turns for code in turn} == set(range(n_tasks))
        assert {len(turn) for turn in turns} == {min(n_wanting + 3, n_tasks)}

    def test_classes_without_a_topic_come_first_if_they_have_documents(self):
        codes = [0, 0, 0, 0, 4, 4, 6, 6]
        assert self.offered([1], [0, 1, 2, 4, 6], codes) == [[1, 2, 3, 4, 5]]
        assert self.offered([2], [0, 1, 4, 6], codes) == [[0, 1, 6, 7]]
        one = replace(state_of(BORN, n_tasks=1), codes=np.zeros(3, int))
        narrow = replace(BORN, max_topics=4)
        assert add_spare_topics(narrow, one, signs_of(1, [1])).codes[3:].tolist() == [1]

    def test_all_have_their_turns_if_no_label_is_known(self):
        state = state_of(BORN)
        nothing = np.zeros((64, 3), np.int8)
        assert add_spare_topics(BORN, state, nothing).codes[3:].tolist() == [0, 1, 2]

    def test_where_room_is_short_every_class_has_its_turn(self):
        """A class without a topic first, and none is left out for ever."""
        learner = replace(BORN, max_topics=4)
        state = replace(state_of(learner), codes=np.array([0, 2, 2]))
        assert add_spare_topics(learner, state, ALL).codes[3:].tolist() == [1]
        even = state_of(learner)
        offered = [
            add_spare_topics(learner, replace(even, clock=t), ALL).codes[3] for t in range(1, 7)
        ]
        assert offered == [1, 2, 0, 1, 2, 0]

    def test_nothing_for_a_fixed_number(self):
        fixed = replace(BORN, prior=FixedTopics(0.1))
        state = state_of(fixed)
        assert add_spare_topics(fixed, state, ALL) is state

    def test_at_the_start_only_for_classes_without_a_topic(self):
        first = add_spare_topics(BORN, state_of(BORN, clock=0), ALL)
        assert first.codes.tolist() == [0, 1, 2]
        few = add_spare_topics(BORN, state_of(BORN, n_tasks=5, clock=0), signs_of(5, [0]))
        assert few.codes.tolist() == [0, 1, 2, 3, 4]

    @pytest.mark.parametrize(
        ("n_documents", "n"), [(10, 3), (11, 3), (12, 4), (299, 99), (9000, 100)]
    )
    def test_without_anchors_the_first_documents_are_offered_many(self, n_documents, n):
        plain = replace(BORN, loss=None)
        signs = np.zeros((n_documents, 0), np.int8)
        first = add_spare_topics(plain, state_of(plain, n_tasks=0, clock=0), signs)
        assert first.n_topics == n
        few = replace(plain, max_topics=50)
        assert add_spare_topics(few, state_of(few, n_tasks=0, clock=0), signs).n_topics == min(
            n, 50
        )

    def test_the_state_before_stays(self):
        state = state_of(BORN)
        add_spare_topics(BORN, state, ALL)
        assert state.n_topics == 3
        assert state.counts.shape == (6, 3)
        assert state.next_id == 10


def draws_of(kept, n_topics, tokens):
    kept = np.array(kept, np.uint16)
    n_documents = len(tokens)
    tallies = np.zeros((len(kept), n_documents, n_topics))
    edges = np.cumsum([0, *map(len, tokens)])
    for j, row in enumerate(kept):
        for d in range(n_documents):
            for k in row[edges[d] : edges[d + 1]]:
                tallies[j, d, k] += 1
    return Draws(
        kept[-1].copy(),
        kept,
        tallies.sum(0),
        tallies,
        np.ones((len(kept), n_documents, 1)),
        np.arange(10.0, 10.0 + n_documents * n_topics).reshape(n_documents, n_topics),
    )


class TestSettled:
    tokens = ([0, 1], [2, 2, 3])

    def settle(self, kept, n_old, n_topics=5):
        bags = as_bags(Documents.from_tokens(self.tokens))
        return drop_empty_topics(draws_of(kept, n_topics, self.tokens), bags, n_old, n_topics)

    def test_topics_that_are_empty_in_the_end_go(self):
        """Topic 1 is old and stays, 3 is left empty; its token counts where it is in the end."""
        draws, left = self.settle([[0, 3, 4, 4, 0], [0, 2, 4, 4, 4]], n_old=2)
        assert left.tolist() == [0, 1, 2, 4]
        assert draws.kept.tolist() == [[0, 2, 3, 3, 0], [0, 2, 3, 3, 3]]
        assert draws.topics.tolist() == [0, 2, 3, 3, 3]
        assert draws.tables.tolist() == [[10, 11, 12, 14], [15, 16, 17, 19]]
        assert draws.tallies.tolist() == [
            [[1, 0, 1, 0], [1, 0, 0, 2]],
            [[1, 0, 1, 0], [0, 0, 0, 3]],
        ]
        assert_array_equal(draws.totals, draws.tallies.sum(axis=0))
        assert draws.kept.dtype == draws.topics.dtype == np.uint16

    def test_no_token_is_lost(self):
        rng = np.random.default_rng(0)
        for _ in range(50):
            kept = rng.integers(0, 5, (3, 5))
            draws, left = self.settle(kept, n_old=int(rng.integers(0, 4)))
            assert draws.totals.sum() == 15
            assert draws.totals.shape == (2, len(left))
            assert set(np.unique(kept[-1])) <= set(left.tolist())
            assert_array_equal(left[draws.topics], kept[-1])

    def test_topics_that_nothing_was_drawn_from_go(self):
        draws, left = self.settle([[0, 1, 0, 1, 0], [1, 1, 0, 1, 0]], n_old=2)
        assert left.tolist() == [0, 1]
        assert draws.kept.tolist() == [[0, 1, 0, 1, 0], [1, 1, 0, 1, 0]]
        assert draws.totals.tolist() == [[1, 3], [4, 2]]
        assert draws.tables.tolist() == [[10, 11], [15, 16]]
        assert_array_equal(draws.totals, draws.tallies.sum(axis=0))

    def test_nothing_to_drop(self):
        draws, left = self.settle([[0, 1, 2, 3, 4]], n_old=0)
        assert left.tolist() == [0, 1, 2, 3, 4]
        assert draws.kept.tolist() == [[0, 1, 2, 3, 4]]
        draws, left = self.settle([[0, 0, 0, 0, 0]], n_old=5)
        assert left.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("loss", [AVERAGING, GIBBS])
def test_what_is_left_keeps_its_ids_and_none_is_given_twice(loss):
    learner = replace(BORN, loss=loss)
    offered = add_spare_topics(learner, state_of(learner), ALL)
    left = select_topics(offered, np.array([0, 1, 2, 4]))
    assert left.ids.tolist() == [0, 1, 2, 11]
    assert left.codes.tolist() == [0, 1, 2, 1]
    assert left.tables.tolist() == [1, 2, 3, 0]
    assert left.next_id == 12
    np.testing.assert_allclose(left.weights.mean, offered.weights.mean[:, [0, 1, 2, 4]])
    assert select_topics(offered, np.arange(3)).next_id == 10
