"""Rounds of the sampler of independent documents."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.documents import Documents
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.kernels.draws import stream_keys
from everlearn.topics import steps as local
from everlearn.topics.batches import Batch, Targets
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    PREDICTIVE,
    Margins,
    Samples,
    WordFactors,
    sample_documents,
)
from everlearn.topics.priors import FixedTopics
from everlearn.topics.sampling import IndependentSampler
from everlearn.topics.settings import Loss, TopicSettings
from everlearn.topics.state import FixedSpread, first_state, word_factors
from everlearn.topics.steps import Block, Draws, GibbsStep, draw_topics
from everlearn.topics.weights import make_hinges, tilts
from oracles import bayespa as oracle


class TestRounds:
    """What the second round of a batch is given, seen by calling its kernel directly."""

    n_words = 12

    def case(self, kind):
        rng = np.random.default_rng(1)
        loss = Loss(kind, 2.0, 0.5, 1.0)
        learner = TopicSettings(FixedTopics(0.3), 0.2, loss, n_rounds=2, ghosts=3, burn_in=1)
        state = first_state(learner, self.n_words, 4, np.arange(2), seed=5)
        state.counts[:] = rng.gamma(0.5, 3.0, (self.n_words, 4))
        state.totals[:] = state.counts.sum(axis=0)
        tokens = [rng.integers(0, self.n_words, n).tolist() for n in rng.integers(0, 12, 200)]
        tokens = [sorted(words) for words in tokens]
        signs = rng.choice([-1, 0, 1], (200, 2)).astype(np.int8)
        batch = Batch.of(Documents.from_tokens(tokens), Targets(signs, np.full((200, 2), 2.0)))
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
        sample_documents(*given)
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
        hinges = make_hinges(learner.loss, weights, batch.targets)
        alpha = np.full(4, 0.3)
        flat = np.ones((200, 4))
        given = (batch.bags, factors, alpha, hinges, flat, keys, schedule, out, tallies, inverses)
        sample_augmented(*given)
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
            make_hinges(learner.loss, state.weights, batch.targets),
            pull,
            (learner.n_sweeps, learner.burn_in, PREDICTIVE),
        )
        topics = np.zeros(batch.n_tokens, np.uint16)
        inverses = np.zeros((learner.n_kept, 200, 2))
        signs, offsets, keys = step.hinges.signs, step.hinges.offsets, stream_keys(5, 7, 0, 200)
        block = Block(batch.bags, keys, topics, signs, offsets, np.zeros((200, 2)), inverses)
        found = tilts(step.hinges.weights, signs, pull, lengths)
        expected = np.exp(exponents - exponents.max(axis=1, keepdims=True))
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        np.testing.assert_array_equal(draws.kept, step.draw(block).kept)


class TestDrawTopics:
    """Draws are the same on any number of threads."""

    @pytest.mark.parametrize("kind", ["averaging", "gibbs"])
    @pytest.mark.parametrize("n_threads", [1, 2, 5])
    def test_threads_draw_what_one_draws(self, kind, n_threads, monkeypatch):
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        learner, state, batch, _ = TestRounds().case(kind)
        sampler = IndependentSampler(learner, state, batch, SerialEngine())
        step, block = sampler._prepared(0, state.weights, np.zeros((200, 2)))
        expected = step.draw(block)
        with ThreadEngine(n_threads) as engine:
            found = draw_topics(step, block, engine)
        for name in Draws.__slots__:
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))

    def test_errors_reach_the_caller(self, monkeypatch):
        monkeypatch.setattr(local, "_FEWEST_TOKENS", 1)
        learner, state, batch, _ = TestRounds().case("averaging")
        sampler = IndependentSampler(learner, state, batch, SerialEngine())
        step, block = sampler._prepared(0, state.weights, np.zeros((200, 2)))

        class Broken(type(step)):
            __slots__ = ()

            def draw(self, block):
                raise MemoryError("no room")

        broken = Broken(*(getattr(step, name) for name in step.__slots__))
        with ThreadEngine(2) as engine, pytest.raises(MemoryError, match="no room"):
            draw_topics(broken, block, engine)
