"""Documents cut into runs: nothing is lost, and nothing depends on where the cuts are."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.attic.inference_kernels_turns import ended, run_of, taken
from everlearn.attic.inference_shifts import TAKEN, have_ended, new_turns
from everlearn.core.documents import Documents
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.kernels.draws import stream_keys
from everlearn.kernels.jit import kernel
from everlearn.topics import steps as local
from everlearn.topics.batches import as_bags, laid_out, layout_of, renumbered
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.layout import Rest
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    PREDICTIVE,
    Margins,
    Samples,
    WordFactors,
    sample_documents,
)
from everlearn.topics.kernels.words import Counting, add_topics
from everlearn.topics.sampling import IndependentSampler, infer
from everlearn.topics.settings import (
    FixedTopics,
    Loss,
    Targets,
    TopicLearner,
    first_state,
    word_factors,
)
from everlearn.topics.state import FixedSpread
from everlearn.topics.steps import Block, GibbsStep, cut, drawn, drawn_and_counted, even_cuts
from everlearn.topics.weights import hinges_of
from oracles import bayespa as oracle
from oracles.batches import batch_of

token_lists = st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=12)


def test_bags_say_where_tokens_begin():
    bags = as_bags(Documents.from_tokens([[4, 1, 4], [], [0]]))
    assert bags.indptr.tolist() == [0, 2, 2, 3]
    assert bags.words.tolist() == [1, 4, 0]
    assert bags.counts.tolist() == [1, 2, 1]
    assert bags.starts.tolist() == [0, 3, 3, 4]


@given(token_lists, st.integers(1, 5))
def test_cuts_cover_all_documents_in_order(tokens, n_parts):
    bags = as_bags(Documents.from_tokens(tokens))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_FEWEST_TOKENS", 1)
        cuts = even_cuts(bags, n_parts)
    assert [d for where in cuts for d in range(where.start, where.stop)] == list(range(len(tokens)))
    assert len(cuts) <= n_parts
    assert all(where.stop > where.start for where in cuts)


def test_cuts_are_even_and_small_batches_stay_whole():
    bags = as_bags(Documents.from_tokens([[0] * 100] * 60))
    sizes = [where.stop - where.start for where in even_cuts(bags, 4)]
    assert sizes == [15, 15, 15, 15]
    assert len(even_cuts(bags, 100)) == 6
    assert len(even_cuts(as_bags(Documents.from_tokens([[0] * 900] * 2)), 4)) == 1


@given(token_lists.filter(len), st.data())
def test_a_run_is_the_documents_alone(tokens, data):
    start = data.draw(st.integers(0, len(tokens) - 1))
    stop = data.draw(st.integers(start + 1, len(tokens)))
    whole = as_bags(Documents.from_tokens(tokens))
    for found, expected in zip(
        cut(whole, slice(start, stop)),
        as_bags(Documents.from_tokens(tokens[start:stop])),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


@given(token_lists)
def test_words_are_numbered_by_those_that_documents_have(tokens):
    bags = as_bags(Documents.from_tokens(tokens))
    distinct, own = renumbered(bags)
    assert distinct.tolist() == sorted({word for words in tokens for word in words})
    np.testing.assert_array_equal(distinct[own.words], bags.words)
    assert own.words.dtype == np.int32


def test_a_block_takes_along_what_belongs_to_its_documents():
    bags = as_bags(Documents.from_tokens([[0, 0], [], [1, 2, 3], [4]]))
    number = np.arange(4)
    block = Block(
        bags,
        keys=number.astype(np.uint64),
        topics=np.arange(6).astype(np.uint16),
        signs=np.repeat(number[:, None], 2, axis=1).astype(np.int8),
        offsets=np.repeat(number[:, None], 2, axis=1).astype(float),
        multipliers=np.repeat(number[:, None], 2, axis=1).astype(float),
        inverses=np.tile(number[None, :, None], (3, 1, 2)).astype(float),
    ).cut(slice(1, 3))
    assert block.keys.tolist() == [1, 2]
    assert block.topics.tolist() == [2, 3, 4]
    for part in (block.signs, block.offsets, block.multipliers):
        assert part.tolist() == [[1, 1], [2, 2]]
    assert block.inverses[2].tolist() == [[1, 1], [2, 2]]
    assert block.bags.starts.tolist() == [0, 0, 3]


def test_inference_does_not_depend_on_the_engine():
    rng = np.random.default_rng(0)
    documents = Documents.from_dense(rng.poisson(3.0, (50, 40)))
    counts = rng.gamma(0.3, 10.0, (40, 32))
    factors = WordFactors(counts, 0.1, 1.0 / counts.sum(axis=0))
    alpha = np.full(32, 0.2)
    alone = infer(documents, factors, alpha, 3, SerialEngine())
    with ThreadEngine(3) as engine:
        threads = infer(documents, factors, alpha, 3, engine)
    np.testing.assert_array_equal(alone, threads)
    np.testing.assert_array_equal(
        infer(documents[7:9], factors, alpha, 3, SerialEngine()), alone[7:9]
    )
    assert infer(documents[:0], factors, alpha, 3, SerialEngine()).shape == (0, 32)


class TestRounds:
    """What the second round of a batch is given, seen by calling its kernel directly."""

    n_words = 12

    def case(self, kind):
        rng = np.random.default_rng(1)
        loss = Loss(kind, 2.0, 0.5, 1.0)
        learner = TopicLearner(FixedTopics(0.3), 0.2, loss, n_rounds=2, ghosts=3, burn_in=1)
        state = first_state(learner, self.n_words, 4, np.arange(2), seed=5)
        state.counts[:] = rng.gamma(0.5, 3.0, (self.n_words, 4))
        state.totals[:] = state.counts.sum(axis=0)
        tokens = [rng.integers(0, self.n_words, n).tolist() for n in rng.integers(0, 12, 200)]
        tokens = [sorted(words) for words in tokens]
        signs = rng.choice([-1, 0, 1], (200, 2)).astype(np.int8)
        batch = batch_of(Documents.from_tokens(tokens), Targets(signs, np.full((200, 2), 2.0)))
        return learner, replace(state, clock=7), batch, tokens

    def second(self, learner, state, batch, tokens, first):
        """Word factors with what the first round has drawn, and room for the results."""
        drawn = oracle.word_counts(tokens, first.kept, self.n_words, 4)
        counts = state.counts + learner.ghosts / learner.n_kept * drawn
        total = counts.sum(axis=0) + learner.smoothing * self.n_words
        n_tokens = len(first.topics)
        out = Samples(
            first.topics.copy(),
            np.zeros((learner.n_kept, n_tokens), np.uint16),
            np.zeros((len(batch), 4)),
            np.zeros((0, 4)),
        )
        schedule = (learner.n_sweeps, learner.burn_in, CONTINUE)
        keys = stream_keys(5, 7, 1, len(batch))
        return WordFactors(counts, learner.smoothing, 1.0 / total), keys, schedule, out

    def test_averaging(self):
        learner, state, batch, tokens = self.case("averaging")
        rng = np.random.default_rng(2)
        weights, multipliers = FixedSpread(rng.normal(size=(2, 4))), rng.random((200, 2))
        sampler = IndependentSampler(learner, state, batch, SerialEngine())
        first = sampler.draw(0, state.weights, np.zeros((200, 2)))
        found = sampler.draw(1, weights, multipliers)
        factors, keys, schedule, out = self.second(learner, state, batch, tokens, first)
        margins = Margins(weights.mean, batch.targets.signs, multipliers.copy())
        alpha = np.full(4, 0.3)
        given = (batch.bags, factors, alpha, margins, (0.0, 1.0, 0.0), keys, schedule, out)
        sample_documents(*given, new_turns())
        np.testing.assert_array_equal(found.kept, out.kept)
        np.testing.assert_array_equal(found.totals, out.totals)

    def test_gibbs(self):
        learner, state, batch, tokens = self.case("gibbs")
        weights = state.weights.extended(np.empty((2, 0)), 1.0)
        weights = replace(weights, shift=weights.shift + 1.0)
        sampler = IndependentSampler(learner, state, batch, SerialEngine())
        first = sampler.draw(0, state.weights, np.zeros((200, 2)))
        inverses = first.inverses.copy()
        found = sampler.draw(1, weights, np.zeros((200, 2)))
        factors, keys, schedule, out = self.second(learner, state, batch, tokens, first)
        tallies = np.zeros((learner.n_kept, 200, 4))
        hinges = hinges_of(learner.loss, weights, batch.targets)
        alpha = np.full(4, 0.3)
        flat = np.ones((200, 4))
        given = (batch.bags, factors, alpha, hinges, flat, keys, schedule, out, tallies, inverses)
        sample_augmented(*given, new_turns())
        np.testing.assert_array_equal(found.kept, out.kept)
        np.testing.assert_array_equal(found.tallies, tallies)
        np.testing.assert_allclose(found.inverses, inverses, rtol=1e-9)


class TestStart:
    """Tokens are placed with what labels ask for, if topics are anchored."""

    @pytest.mark.parametrize("anchored", [True, False])
    def test_gibbs(self, anchored):
        learner, state, batch, _ = TestRounds().case("gibbs")
        learner = replace(learner, loss=replace(learner.loss, anchored=anchored))
        draws = IndependentSampler(learner, state, batch, SerialEngine()).draw(
            0, state.weights, np.zeros((200, 2))
        )
        pull = 2 * learner.loss.c if anchored else 0.0
        lengths = np.maximum(np.diff(batch.bags.starts), 1)
        exponents = pull * batch.targets.signs @ state.weights.mean / lengths[:, None]
        step = GibbsStep(
            word_factors(learner, state),
            np.full(4, 0.3),
            hinges_of(learner.loss, state.weights, batch.targets),
            pull,
            (learner.n_sweeps, learner.burn_in, PREDICTIVE),
        )
        topics = np.zeros(batch.n_tokens, np.uint16)
        inverses = np.zeros((learner.n_kept, 200, 2))
        signs, offsets, keys = step.hinges.signs, step.hinges.offsets, stream_keys(5, 7, 0, 200)
        block = Block(batch.bags, keys, topics, signs, offsets, np.zeros((200, 2)), inverses)
        out = step.room(block)
        given = list(step.given(block, out, new_turns()))
        found = given[4] / given[4].max(axis=1, keepdims=True)
        expected = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        sample_augmented(*given)
        np.testing.assert_array_equal(draws.kept, out.kept)


class TestCountedWhileLookedAt:
    """Draws and word counts are those of one thread, whoever draws, counts, sleeps or fails."""

    def case(self, kind="averaging"):
        learner, state, batch, _ = TestRounds().case(kind)
        sampler = IndependentSampler(learner, state, batch, SerialEngine())
        return sampler._prepared(0, state.weights, np.zeros((200, 2)))

    def counting(self, block, counts):
        runs = batch_of(Documents(*block.bags[:3]), Targets.none(200), n_workers=2).runs
        return lambda kept: Counting(block.bags, kept, 0.5, runs, counts, new_turns())

    def expected(self, step, block):
        alone = drawn(step, block)
        counts = np.zeros((TestRounds.n_words, 4))
        add_topics(block.bags, alone.kept, 0.5, counts)
        return alone, counts

    @pytest.mark.parametrize("kind", ["averaging", "gibbs"])
    @pytest.mark.parametrize("n_threads", [1, 2, 5])
    def test_whoever_draws_and_counts(self, kind, n_threads, monkeypatch):
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        step, block = self.case(kind)
        alone, words = self.expected(step, block)
        for _ in range(20):
            counts = np.zeros_like(words)
            with ThreadEngine(n_threads) as engine:
                how, ahead = self.counting(block, counts), nothing_ahead()
                with drawn_and_counted(step, block, engine, how, ahead) as draws:
                    np.testing.assert_array_equal(draws.kept, alone.kept)
                    np.testing.assert_array_equal(draws.totals, alone.totals)
                    np.testing.assert_array_equal(draws.inverses, alone.inverses)
            np.testing.assert_array_equal(counts, words)

    def test_who_sleeps_is_waited_for(self, monkeypatch):
        """Longer than anybody looks at a counter without a pause."""
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        step, block = self.case()
        alone, words = self.expected(step, block)
        begun = threading.Event()

        class Sleepy(type(step)):
            __slots__ = ()

            def draw(self, *given):
                assert begun.wait(30)
                super().draw(*given)

            def draw_and_count(self, given, counting, rest):
                if threading.current_thread() is not threading.main_thread():
                    out, turns = given[-2:]
                    first = taken_here(turns)
                    begun.set()
                    time.sleep(0.2)
                    some = block.cut(slice(first, first + 4))
                    super().draw(self.given(some, room_of(out, block, first), new_turns()))
                    end_here(turns, 4)
                super().draw_and_count(given, counting, rest)

        counts = np.zeros_like(words)
        sleepy = Sleepy(*(getattr(step, name) for name in step.__slots__))
        with ThreadEngine(2) as engine:
            how = self.counting(block, counts)
            with drawn_and_counted(sleepy, block, engine, how, nothing_ahead()) as draws:
                np.testing.assert_array_equal(draws.kept, alone.kept)
        np.testing.assert_array_equal(counts, words)

    @pytest.mark.parametrize("kind", ["averaging", "gibbs"])
    def test_whoever_is_done_lays_out_a_batch(self, kind, monkeypatch):
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        step, block = self.case(kind)
        documents, targets = Documents(*block.bags[:3]), Targets.none(200)
        parts = [np.arange(0, 200, 3), np.arange(50)]
        ahead, counts = layout_of(documents, parts, 2), np.zeros((TestRounds.n_words, 4))
        begun = threading.Semaphore(0)

        class Watched(type(step)):
            __slots__ = ()

            def draw(self, given):
                assert begun.acquire(timeout=30)
                super().draw(given)

            def draw_and_count(self, given, counting, rest):
                begun.release()
                super().draw_and_count(given, counting, rest)

        watched = Watched(*(getattr(step, name) for name in step.__slots__))
        for n_laid_out in (1, 2):
            with ThreadEngine(2) as engine:
                how = self.counting(block, counts)
                with drawn_and_counted(watched, block, engine, how, ahead):
                    pass
            assert have_ended(ahead.turns, n_laid_out)
            assert not have_ended(ahead.turns, n_laid_out + 1)
        for found, rows in zip(laid_out(ahead, targets, ahead), parts, strict=True):
            expected = documents.take(rows)
            np.testing.assert_array_equal(found.bags.words, expected.words)
            np.testing.assert_array_equal(found.bags.counts, expected.counts)

    @pytest.mark.parametrize("kind", ["averaging", "gibbs"])
    @pytest.mark.parametrize("begins", [True, False])
    def test_whoever_is_done_lingers_for_what_comes_next(self, kind, begins):
        step, block = self.case(kind)
        coming, out, counts = new_turns(), step.room(block), np.zeros((TestRounds.n_words, 4))
        coming[TAKEN] = begins
        given, rest = step.given(block, out, new_turns()), Rest(nothing_ahead(), coming)
        assert step.draw_and_count(given, self.counting(block, counts)(out.kept), rest) == begins
        alone, words = self.expected(step, block)
        np.testing.assert_array_equal(out.kept, alone.kept)
        np.testing.assert_array_equal(counts, words)

    def test_who_fails_is_not_waited_for(self, monkeypatch):
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        step, block = self.case()
        begun = threading.Event()

        class Broken(type(step)):
            __slots__ = ()

            def draw(self, *given):
                assert begun.wait(30)
                super().draw(*given)

            def draw_and_count(self, given, counting, rest):
                taken_here(given[-1])
                begun.set()
                raise MemoryError("no room")

        counts = np.zeros((TestRounds.n_words, 4))
        broken = Broken(*(getattr(step, name) for name in step.__slots__))

        def look(engine):
            how = self.counting(block, counts)
            with drawn_and_counted(broken, block, engine, how, nothing_ahead()):
                raise AssertionError("documents are missing")

        with ThreadEngine(2) as engine, pytest.raises(MemoryError, match="no room"):
            look(engine)
        assert not counts.any()


def nothing_ahead():
    """A layout without batches."""
    return layout_of(Documents.from_tokens([]), [], 2)


@kernel()
def taken_here(turns):
    """The first document of a run that is taken now."""
    return run_of(taken(turns, 1), 200)[0]


@kernel()
def end_here(turns, n):
    return ended(turns, n)


def room_of(out, block, first):
    """The room of four documents."""
    tokens = slice(int(block.bags.starts[first]), int(block.bags.starts[first + 4]))
    documents = slice(first, first + 4)
    return Samples(out.topics[tokens], out.kept[:, tokens], out.totals[documents], out.tables)
