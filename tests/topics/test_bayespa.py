"""Online max-margin topic models: what a batch must do to the state, and what it must not."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from everlearn.core.documents import Documents
from everlearn.engine.local import ThreadEngine
from everlearn.testing.data import planted_topics
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.bayespa import learn_batch
from everlearn.topics.predict import infer_expected
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, Gaussians, word_factors
from oracles import bayespa as oracle
from oracles.passive_aggressive import gibbs_batch
from support.topic_learners import (
    AVERAGING,
    FIXED,
    GIBBS,
    LEARNERS,
    PLANTED,
    SERIAL,
    STICKS,
    arrays_of,
    assert_same,
    begin,
    every_learner,
    learn,
    learned,
    losses,
    sharp_state,
    targets_of,
)


class TestCounts:
    @every_learner
    @pytest.mark.parametrize("ghosts", [1, 4])
    def test_every_token_counts_once_for_each_ghost(self, learner, ghosts):
        """Property 9, exactly: sweeps kept are powers of two."""
        learner = replace(learner, ghosts=ghosts, n_sweeps=4, burn_in=2)
        state = learned(learner)
        each = ghosts * PLANTED.X.toarray().sum(axis=0)
        assert_array_equal(state.counts.sum(axis=1), each)
        assert_array_equal(state.totals, state.counts.sum(axis=0))
        assert not state.counts[:, state.n_topics :].any()
        assert state.clock == 3

    @every_learner
    def test_one_topic_takes_all(self, learner):
        """Property 10: chunks of any size give the same counts."""
        learner = replace(learner, max_topics=1)
        for size in (7, 90):
            targets = targets_of(PLANTED.labels, 4, learner.loss)
            state = learn(learner, begin(learner, n_topics=1), PLANTED.documents, targets, size)
            expected = PLANTED.X.toarray().sum(axis=0)
            assert_allclose(state.counts[:, 0], expected, rtol=1e-12)

    @pytest.mark.parametrize("name", ["plain", "averaging", "gibbs, two rounds", "averaging, born"])
    def test_forced_topics_do_not_depend_on_batches(self, name):
        learner = replace(LEARNERS[name], smoothing=1e-12, max_topics=3)
        table = PLANTED.X.toarray().sum(axis=0)
        own = np.arange(60) % 3 == np.arange(3)[:, None]
        for size in (11, 90):
            state = replace(sharp_state(learner, 3, n_tasks=4, mass=1e6), clock=1)
            state = replace(state, tables=np.full(3, 10.0))
            loss = None if learner.loss is None else replace(learner.loss, c=1e-3)
            learner = replace(learner, loss=loss)
            targets = targets_of(PLANTED.labels, 4, loss)
            state = learn(learner, state, PLANTED.documents, targets, size)
            assert_allclose(state.counts[:, :3] - 1e6 * own.T, (table * own).T, atol=1e-6)

    def test_info(self):
        learner = LEARNERS["averaging"]
        targets = targets_of(PLANTED.labels, 4, AVERAGING)
        _, info = learn_batch(learner, begin(learner), Batch.of(PLANTED.documents, targets), SERIAL)
        assert info.clock == 1
        assert info.n_documents == 90
        assert info.n_tokens == PLANTED.documents.n_tokens
        assert info.n_topics == 6
        one = begin(learner, n_topics=1)
        _, info = learn_batch(learner, one, Batch.of(PLANTED.documents, targets), SERIAL)
        assert info.shares.max() == pytest.approx(1.0)


class TestPassive:
    @pytest.mark.parametrize(
        "name",
        ["averaging", "averaging, two rounds", "averaging, born", "averaging, born, collapsed"],
    )
    def test_met_margins_change_no_weight(self, name):
        """Property 2: counts grow, weights stay to the bit."""
        learner = LEARNERS[name]
        state = replace(begin(learner, n_tasks=1), clock=1)
        mean = 16.0 + np.arange(1.0, 7.0)[None] / 3
        state = replace(state, weights=FixedSpread(mean.copy()), tables=np.full(6, 5.0))
        learner = replace(learner, max_topics=6)
        batch = Batch.of(PLANTED.documents, targets_of(np.zeros(90), 1, AVERAGING))
        after, _ = learn_batch(learner, state, batch, SERIAL, n_known=10**6)  # no merge is due
        assert_array_equal(after.weights.mean, mean)
        assert after.totals.sum() == pytest.approx(PLANTED.documents.n_tokens)

    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    @pytest.mark.parametrize("n_rounds", [1, 2, 3])
    @pytest.mark.parametrize("ghosts", [1, 3])
    def test_aggressive_closed_form(self, word_factor, n_rounds, ghosts):
        """A batch of one document moves weights from where they were, by its one multiplier."""
        for c in (0.5, 500.0):
            loss = replace(AVERAGING, c=c)
            learner = TopicSettings(FIXED, 0.1, loss, word_factor, n_rounds=n_rounds, ghosts=ghosts)
            state = learned(learner)
            before, totals = state.weights.mean.copy(), state.totals.copy()
            signs = np.array([[1, -1, 0, -1]], np.int8)
            document = PLANTED.documents[5:6]
            batch = Batch.of(document, Targets(signs, np.full((1, 4), 16.0)))
            state, _ = learn_batch(learner, state, batch, SERIAL)
            z = (state.totals - totals) / (ghosts * document.n_tokens)
            for q in range(4):
                tau = oracle.multiplier_alone(
                    16.0, signs[0, q], before[q], z, loss.variance, 2 * c * ghosts
                )
                expected = before[q] + loss.variance * tau * signs[0, q] * z
                assert_allclose(state.weights.mean[q], expected, rtol=1e-9, atol=1e-9)


class TestGibbsRounds:
    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    @pytest.mark.parametrize("n_rounds", [1, 2, 4])
    def test_each_round_starts_from_the_state_before_the_batch(self, word_factor, n_rounds):
        """With forced topics and no draws of lambda, rounds are the linear model's iteration."""
        loss = Loss("gibbs", 2.0, 0.7, 1.5, mean_only=True)
        learner = TopicSettings(FIXED, 1e-12, loss, word_factor, n_rounds=n_rounds, n_sweeps=2)
        state = sharp_state(learner, 3)
        table = PLANTED.X.toarray()[:20]
        X = np.stack([table[:, k::3].sum(axis=1) for k in range(3)], axis=1)
        X = X / X.sum(axis=1, keepdims=True)
        y = np.where(PLANTED.labels[:20] < 2, 1, -1)
        targets = Targets(y[:, None].astype(np.int8), np.full((20, 1), 2.0))
        precision, shift = state.weights.precision[0], state.weights.shift[0]
        after, _ = learn_batch(learner, state, Batch.of(PLANTED.documents[:20], targets), SERIAL)
        expected = gibbs_batch(X, y, precision, shift, 2.0, 0.7, n_rounds)
        assert_allclose(after.weights.precision[0], expected[0], rtol=1e-9)
        assert_allclose(after.weights.shift[0], expected[1], rtol=1e-9)

    @pytest.mark.parametrize("name", ["gibbs", "gibbs, two rounds", "gibbs, born"])
    def test_spread_never_grows(self, name):
        """Property 15."""
        learner = LEARNERS[name]
        state = begin(learner)
        targets = targets_of(PLANTED.labels, 4, GIBBS)
        for i in range(0, 90, 30):
            before = {n: k for k, n in enumerate(state.ids.tolist())}
            old = state.weights.precision.copy()
            where = slice(i, i + 30)
            state, _ = learn_batch(
                learner, state, Batch.of(PLANTED.documents[where], targets[where]), SERIAL
            )
            kept = [k for k, n in enumerate(state.ids.tolist()) if n in before]
            places = [before[n] for n in state.ids[kept].tolist()]
            gained = state.weights.precision[:, kept][:, :, kept] - old[:, places][:, :, places]
            assert np.linalg.eigvalsh(gained).min() > -1e-9
            assert np.abs(gained).max() > 0


class TestEquivalentCalls:
    @every_learner
    def test_threads_change_no_bit(self, learner):
        """Property 11: 90 documents of 60 tokens are enough for several blocks."""
        targets = targets_of(PLANTED.labels, 4, learner.loss)
        alone = learn(learner, begin(learner), PLANTED.documents, targets, 45)
        for workers in (2, 3):
            with ThreadEngine(workers) as engine:
                many = learn(learner, begin(learner), PLANTED.documents, targets, 45, engine)
            assert_same(alone, many)

    @every_learner
    def test_stopping_in_the_middle_changes_nothing(self, learner):
        targets = targets_of(PLANTED.labels, 4, learner.loss)
        whole = learn(learner, begin(learner), PLANTED.documents, targets, 15)
        state = learn(learner, begin(learner), PLANTED.documents[:45], targets[:45], 15)
        state = replace(state, counts=state.counts.copy(), totals=state.totals.copy())
        rest = learn(learner, state, PLANTED.documents[45:], targets[45:], 15)
        assert_same(whole, rest)

    @every_learner
    def test_seeds(self, learner):
        """Property 12."""
        assert_same(learned(learner), learned(learner))
        other = learned(learner, seed=1)
        first = learned(learner)
        assert (other.counts.shape != first.counts.shape) or (other.counts != first.counts).any()

    @every_learner
    def test_every_batch_has_its_own_draws(self, learner):
        """The same documents, learned from the same state at another time."""
        targets = targets_of(PLANTED.labels, 4, learner.loss)
        counts = []
        for clock in (1, 2):
            state = replace(learned(learner), clock=clock)
            state, _ = learn_batch(learner, state, Batch.of(PLANTED.documents, targets), SERIAL)
            counts.append(state.counts)
        assert counts[0].shape != counts[1].shape or (counts[0] != counts[1]).any()

    @pytest.mark.parametrize("name", ["averaging", "gibbs", "born"])
    def test_only_counts_and_totals_of_the_old_state_change(self, name):
        learner = LEARNERS[name]
        state = learned(learner)
        before = [array.copy() for array in arrays_of(state)[2:]]
        targets = targets_of(PLANTED.labels, 4, learner.loss)
        learn_batch(learner, state, Batch.of(PLANTED.documents[:20], targets[:20]), SERIAL)
        for x, y in zip(before, arrays_of(state)[2:], strict=True):
            assert_array_equal(x, y)


class TestScale:
    """Property 13: margin a, weight 1/a, variance a^2 is the same model with weights times a."""

    @losses
    @pytest.mark.parametrize("prior", [FIXED, STICKS], ids=["fixed", "born"])
    @pytest.mark.parametrize("n_rounds", [1, 2])
    @pytest.mark.parametrize("a", [0.25, 3.7])
    def test_same_topics(self, loss, prior, n_rounds, a):
        learner = TopicSettings(prior, 0.1, loss, n_rounds=n_rounds)
        scaled = replace(loss, margin=a * loss.margin, c=loss.c / a, variance=a * a * loss.variance)
        one, two = learned(learner), learned(replace(learner, loss=scaled))
        assert_array_equal(one.counts, two.counts)
        assert_array_equal(one.tables, two.tables)
        assert_allclose(two.weights.mean, a * one.weights.mean, rtol=1e-7, atol=1e-9)
        assert np.abs(one.weights.mean - begin(learner).weights.mean[:, :1]).max() > 1e-3


class TestLimits:
    """Property 14."""

    @pytest.mark.parametrize("word_factor", ["ratio", "digamma", "collapsed"])
    @pytest.mark.parametrize("anchored", [False, True])
    def test_without_pull_topics_are_those_without_labels(self, word_factor, anchored):
        loss = replace(AVERAGING, c=1e-12, anchored=anchored)
        plain = learned(TopicSettings(FIXED, 0.1, None, word_factor))
        weak = learned(TopicSettings(FIXED, 0.1, loss, word_factor))
        assert_array_equal(weak.counts, plain.counts)
        start = begin(TopicSettings(FIXED, 0.1, loss))
        assert_allclose(weak.weights.mean, start.weights.mean, atol=1e-12)

    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    def test_without_pull_under_the_gibbs_loss(self, word_factor):
        """Documents without any label are the reference: they draw no lambda either."""
        loss = replace(GIBBS, c=1e-12, mean_only=True)
        learner = TopicSettings(FIXED, 0.1, loss, word_factor)
        targets = targets_of(PLANTED.labels, 4, loss)
        silent = Targets(np.zeros_like(targets.signs), targets.values)
        weak = learn(learner, begin(learner), PLANTED.documents, targets)
        none = learn(learner, begin(learner), PLANTED.documents, silent)
        assert_array_equal(weak.counts, none.counts)
        assert_array_equal(none.weights.precision, begin(learner).weights.precision)
        if word_factor == "collapsed":
            plain = learned(TopicSettings(FIXED, 0.1, None, word_factor))
            assert_array_equal(none.counts, plain.counts)

    @pytest.mark.parametrize("pull", [0, 1])
    def test_without_pull_the_gibbs_loss_has_the_law_of_none(self, pull):
        """Tokens of many copies of a document in each topic; its sampler has other draws."""
        known, n = learned(TopicSettings(FIXED, 0.1)), 4000
        copies = PLANTED.documents.take(np.zeros(n, int))

        def mean_tokens(loss, signs):
            learner = TopicSettings(FIXED, 0.1, loss, n_sweeps=6, burn_in=5)
            counts, totals = known.counts.copy(), known.totals.copy()
            state = replace(begin(learner), counts=counts, totals=totals, clock=1)
            targets = Targets(signs, np.full(signs.shape, 16.0))
            state, _ = learn_batch(learner, state, Batch.of(copies, targets), SERIAL)
            return (state.totals - known.totals) / n

        signs = np.full((n, 4), pull, np.int8)
        apart = mean_tokens(GIBBS, signs) - mean_tokens(None, signs[:, :0])
        assert (np.abs(apart).max() > 3.0) if pull else (np.abs(apart).max() < 0.5)

    @losses
    def test_a_task_without_labels_is_not_there(self, loss):
        """One task alone, and the same task beside one that nobody has labelled."""
        loss = replace(loss, anchored=False, c=loss.c / 10)
        learner = TopicSettings(FIXED, 0.1, loss, n_rounds=2)
        both = targets_of(PLANTED.labels, 2, loss)
        both.signs[:, 1] = 0
        one = Targets(np.ascontiguousarray(both.signs[:, :1]), both.values[:, :1].copy())
        first = learn(learner, begin(learner, n_tasks=1), PLANTED.documents, one)
        second = learn(learner, begin(learner, n_tasks=2), PLANTED.documents, both)
        assert_array_equal(first.counts, second.counts)
        assert_allclose(second.weights.mean[0], first.weights.mean[0], rtol=1e-10)
        assert not second.weights.mean[1].any()

    @losses
    def test_mirrored_labels_mirror_the_weights(self, loss):
        loss = replace(loss, anchored=False)
        learner = TopicSettings(FIXED, 0.1, loss, n_rounds=2)
        targets = targets_of(PLANTED.labels, 1, loss)
        mirror = Targets(-targets.signs, targets.values)
        one = learn(learner, begin(learner, n_tasks=1), PLANTED.documents, targets)
        two = learn(learner, begin(learner, n_tasks=1), PLANTED.documents, mirror)
        assert_array_equal(one.counts, two.counts)
        assert_allclose(one.weights.mean, -two.weights.mean, rtol=1e-10)

    def test_without_anchors_the_first_round_is_blind(self):
        loss = replace(AVERAGING, anchored=False)
        plain = learned(TopicSettings(FIXED, 0.1))
        assert_array_equal(learned(TopicSettings(FIXED, 0.1, loss)).counts, plain.counts)
        seeing = learned(TopicSettings(FIXED, 0.1, loss, n_rounds=2))
        assert (seeing.counts != plain.counts).any()
        anchored = learned(TopicSettings(FIXED, 0.1, AVERAGING))
        assert (anchored.counts != plain.counts).any()


class TestGhosts:
    """Property 16: with the same topics, statistics are multiplied exactly."""

    @pytest.mark.parametrize("word_factor", ["ratio", "collapsed"])
    @pytest.mark.parametrize("prior", [FIXED, STICKS], ids=["fixed", "born"])
    def test_gibbs(self, word_factor, prior):
        learner = TopicSettings(prior, 0.1, GIBBS, word_factor)
        targets = targets_of(PLANTED.labels, 4, GIBBS)
        start = begin(learner)
        one, _ = learn_batch(learner, begin(learner), Batch.of(PLANTED.documents, targets), SERIAL)
        many = replace(learner, ghosts=8)
        two, _ = learn_batch(many, begin(learner), Batch.of(PLANTED.documents, targets), SERIAL)
        assert_allclose(two.counts, 8 * one.counts, rtol=1e-12)
        assert_array_equal(two.tables, 8 * one.tables)
        k = [start.ids.tolist().index(n) for n in one.ids.tolist()]
        before = start.weights.select(np.array(k))
        for name in ("precision", "shift"):
            old = getattr(before, name)
            gained, more = (getattr(s.weights, name) - old for s in (one, two))
            assert_allclose(more, 8 * gained, rtol=1e-9, atol=1e-9)

    def test_averaging(self):
        """Without anchors labels do not reach the first round: the same topics; a larger box."""
        loss = replace(AVERAGING, anchored=False, c=1e-3)
        learner = TopicSettings(FIXED, 0.1, loss)
        targets = targets_of(PLANTED.labels, 4, loss)
        one, _ = learn_batch(learner, begin(learner), Batch.of(PLANTED.documents, targets), SERIAL)
        many = replace(learner, ghosts=8)
        two, _ = learn_batch(many, begin(learner), Batch.of(PLANTED.documents, targets), SERIAL)
        assert_allclose(two.counts, 8 * one.counts, rtol=1e-12)
        assert_allclose(two.weights.mean, 8 * one.weights.mean, rtol=1e-9)  # all at the box


class TestBurnIn:
    @pytest.mark.parametrize(
        "name", ["plain", "averaging", "gibbs", "gibbs, collapsed", "averaging, collapsed"]
    )
    def test_dropped_sweeps_are_the_first(self, name):
        """All three sweeps weigh as the first, the second and the third do alone."""
        learner = LEARNERS[name]
        targets = targets_of(PLANTED.labels, 4, learner.loss)

        def run(n_sweeps, burn_in):
            each = replace(learner, n_sweeps=n_sweeps, burn_in=burn_in)
            state, _ = learn_batch(each, begin(each), Batch.of(PLANTED.documents, targets), SERIAL)
            return state

        whole = run(3, 0)
        parts = [run(1, 0), run(2, 1), run(3, 2)]
        assert_allclose(3 * whole.counts, sum(part.counts for part in parts), atol=1e-9)
        assert (parts[0].counts != parts[2].counts).any()
        if isinstance(whole.weights, Gaussians):
            start = begin(learner).weights
            for field in ("precision", "shift"):
                total = getattr(whole.weights, field) - getattr(start, field)
                sums = sum(getattr(p.weights, field) - getattr(start, field) for p in parts)
                assert_allclose(3 * total, sums, rtol=1e-8, atol=1e-8)


class TestLearning:
    @pytest.mark.parametrize(
        "name", ["averaging", "averaging, two rounds", "gibbs", "averaging, born", "gibbs, born"]
    )
    def test_labels_are_learned(self, name):
        """New documents of the planted topics: nine tenths are right for four of five seeds."""
        learner = LEARNERS[name]
        good = 0
        for seed in range(5):
            planted = planted_topics(500, 4, 80, 40, overlap=0.2, random_state=seed)
            targets = targets_of(planted.labels, 4, learner.loss)
            state = begin(learner, n_topics=8, seed=seed, n_words=80)
            state = learn(learner, state, planted.documents[:400], targets[:400], 40)
            alpha = learner.prior.document_prior(state.tables)
            z = infer_expected(
                planted.documents[400:], word_factors(learner, state), alpha, 2, SERIAL
            )
            guess = (z @ state.weights.mean.T).argmax(axis=1)
            good += np.mean(guess == planted.labels[400:]) > 0.9
        assert good >= 4


WILD = {
    "empty ones among others": [[], [0, 1], [], [5] * 30, []],
    "one token each": [[0], [3], [3]],
    "one long word": [[7] * 5000],
    "all words": [list(range(60))] * 3,
}


class TestWildInput:
    @every_learner
    @pytest.mark.parametrize("tokens", WILD.values(), ids=WILD)
    @pytest.mark.parametrize("strength", [1.0, 1e4])
    def test_nothing_breaks(self, learner, tokens, strength):
        if learner.loss is not None:
            learner = replace(learner, loss=replace(learner.loss, c=strength * learner.loss.c))
        documents = Documents.from_tokens(tokens)
        labels = np.arange(len(documents)) % 4
        targets = targets_of(labels, 4, learner.loss)
        targets.signs[:, 1:2] = 0
        state = begin(learner)
        for _ in range(3):
            state, info = learn_batch(learner, state, Batch.of(documents, targets), SERIAL)
        assert all(np.isfinite(array).all() for array in arrays_of(state))
        assert (state.counts >= 0).all()
        assert state.counts.sum() == pytest.approx(3 * documents.n_tokens)
        assert (info.shares >= 0).all()
        assert 0 < info.shares.sum() <= 1 + 1e-12
        assert len(info.shares) == info.n_topics
        if state.weights is not None:
            assert np.isfinite(state.weights.mean).all()

    @every_learner
    def test_documents_without_tokens_change_nothing(self, learner):
        state = learned(learner)
        before = [array.copy() for array in arrays_of(state)]
        targets = targets_of(np.zeros(2), 4, learner.loss)
        after, info = learn_batch(
            learner, state, Batch.of(Documents.from_tokens([[], []]), targets), SERIAL
        )
        assert info.n_tokens == 0
        assert after.clock == state.clock + 1
        for x, y in zip(before, arrays_of(after), strict=True):
            assert_array_equal(x, y)

    @every_learner
    def test_missing_labels(self, learner):
        """A document without labels is learned from, and weights stay as they were."""
        state = learned(learner)
        mean = None if state.weights is None else state.weights.mean.copy()
        targets = targets_of(PLANTED.labels, 4, learner.loss)
        targets.signs[:] = 0
        learner = replace(learner, max_topics=state.n_topics)
        after = learn(learner, state, PLANTED.documents, targets)
        assert after.totals.sum() == pytest.approx(2 * PLANTED.documents.n_tokens)
        if mean is not None:
            assert_allclose(after.weights.mean, mean, rtol=1e-12)
