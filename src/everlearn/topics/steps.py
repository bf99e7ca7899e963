"""Steps that draw the topics of documents, under the averaging loss or that of Gibbs classifiers.

Word counts stand still meanwhile, so documents are independent: threads take turns at them, and
other workers are sent some.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.attic.inference_kernels_turns import all_ended
from everlearn.attic.inference_shifts import have_ended, new_turns
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.engine.protocol import Engine, wait_until
from everlearn.kernels.draws import Words
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.kernels.layout import (
    Layout,
    Rest,
    sample_augmented_and_count,
    sample_documents_and_count,
)
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    Bags,
    Margins,
    Samples,
    Topics,
    WordFactors,
    sample_documents,
)
from everlearn.topics.kernels.words import Counting, add_words
from everlearn.topics.weights import tilts

Given: TypeAlias = tuple[Any, ...]
"""The arguments of a kernel that draws."""
_FEWEST_TOKENS = 1000
"""A block with fewer is not worth sending to another thread."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What the sweeps of a round leave behind.

    topics : (n_tokens,), after the last sweep
    kept : (n_kept, n_tokens), after each sweep that counts
    totals : (B, K), tokens in topics, summed over kept sweeps
    tallies, inverses : (n_kept, B, K) and (n_kept, B, hinges), under the Gibbs loss
    tables : (B, K), summed over kept sweeps; no rows unless topics are born
    """

    topics: Topics
    kept: Topics
    totals: Mat
    tallies: NDArray[np.float64]
    inverses: NDArray[np.float64]
    tables: Mat

    @property
    def n_tables(self) -> Vec:
        """Tables of each topic, mean over kept sweeps."""
        return np.asarray(self.tables.sum(axis=0) / len(self.kept))


def even_cuts(bags: Bags, n_parts: int) -> list[slice]:
    """Runs of documents with about as many tokens each."""
    n_tokens = int(bags.starts[-1])
    n_parts = max(1, min(n_parts, n_tokens // _FEWEST_TOKENS))
    if n_parts == 1 and len(bags.indptr) > 1:
        return [slice(0, len(bags.indptr) - 1)]
    inner = np.searchsorted(bags.starts, n_tokens * np.arange(1, n_parts) / n_parts)
    edges = [0, *inner.tolist(), len(bags.indptr) - 1]
    return [slice(a, b) for a, b in pairwise(edges) if b > a]


def cut(bags: Bags, where: slice) -> Bags:
    """A run of documents."""
    indptr = bags.indptr[where.start : where.stop + 1]
    starts = bags.starts[where.start : where.stop + 1]
    inside = slice(int(indptr[0]), int(indptr[-1]))
    return Bags(indptr - indptr[0], bags.words[inside], bags.counts[inside], starts - starts[0])


@dataclass(frozen=True, slots=True)
class Block:
    """Documents on their way through a local step, with what belongs to them."""

    bags: Bags
    keys: Words
    topics: Topics
    signs: NDArray[np.int8]
    offsets: Mat
    multipliers: Mat
    inverses: NDArray[np.float64]

    def cut(self, where: slice) -> Block:
        """A run of its documents."""
        if where == slice(0, len(self.keys)):
            return self
        tokens = slice(int(self.bags.starts[where.start]), int(self.bags.starts[where.stop]))
        return Block(
            cut(self.bags, where),
            self.keys[where],
            self.topics[tokens],
            self.signs[where],
            self.offsets[where],
            self.multipliers[where],
            self.inverses[:, where],
        )


@dataclass(frozen=True, slots=True)
class AveragingStep:
    """Sweeps under the averaging loss, or without labels (no tasks).

    `closed_form` is margin, variance and box of the first multipliers, which replace those of
    the block; a box of 0 keeps them. With `seats` tables are drawn, too.
    """

    factors: WordFactors
    alpha: Vec
    weights: Mat
    closed_form: tuple[float, float, float]
    schedule: tuple[int, int, int]
    seats: bool = False

    def room(self, block: Block) -> Draws:
        """Room for the draws of a block."""
        return _room(block, self.schedule, len(self.alpha), self.seats)

    def draw(self, given: Given) -> None:
        """Draw the topics of those documents that nobody has taken."""
        sample_documents(*given)

    def draw_and_count(self, given: Given, counting: Counting, rest: Rest) -> bool:
        """The same, then count the words that nobody has taken, and stand by; `stand_by`'s word."""
        return sample_documents_and_count(given, counting, rest)

    def given(self, block: Block, out: Draws, turns: IntVec) -> Given:
        """What all who draw from a block are given."""
        own = self.closed_form[2] > 0.0
        multipliers = np.empty_like(block.multipliers) if own else block.multipliers
        return (
            block.bags,
            self.factors,
            self.alpha,
            Margins(self.weights, block.signs, multipliers),
            self.closed_form,
            block.keys,
            self.schedule,
            Samples(out.topics, out.kept, out.totals, out.tables),
            turns,
        )


@dataclass(frozen=True, slots=True)
class GibbsStep:
    """Sweeps under the Gibbs loss; signs and offsets of `hinges` come with the block.

    `pull` is the multiplier of every label while tokens are placed at first.
    """

    factors: WordFactors
    alpha: Vec
    hinges: Hinges
    pull: float
    schedule: tuple[int, int, int]
    seats: bool = False

    def room(self, block: Block) -> Draws:
        """Room for the draws of a block."""
        room = _room(block, self.schedule, len(self.alpha), self.seats)
        tallies = np.zeros((len(room.kept), *room.totals.shape))
        return replace(room, tallies=tallies, inverses=block.inverses.copy())

    def draw(self, given: Given) -> None:
        """Draw the topics of those documents that nobody has taken."""
        sample_augmented(*given)

    def draw_and_count(self, given: Given, counting: Counting, rest: Rest) -> bool:
        """The same, then count the words that nobody has taken, and stand by; `stand_by`'s word."""
        return sample_augmented_and_count(given, counting, rest)

    def given(self, block: Block, out: Draws, turns: IntVec) -> Given:
        """What all who draw from a block are given."""
        lengths = np.maximum(np.diff(block.bags.starts), 1)
        return (
            block.bags,
            self.factors,
            self.alpha,
            self.hinges._replace(signs=block.signs, offsets=block.offsets),
            tilts(self.hinges.weights, block.signs, self.pull, lengths),
            block.keys,
            self.schedule,
            Samples(out.topics, out.kept, out.totals, out.tables),
            out.tallies,
            out.inverses,
            turns,
        )


Step = AveragingStep | GibbsStep


def _room(block: Block, schedule: tuple[int, int, int], n_topics: int, seats: bool) -> Draws:
    """Room for draws without the Gibbs loss."""
    n_sweeps, burn_in, start = schedule
    n = len(block.keys)
    return Draws(
        block.topics.copy() if start == CONTINUE else np.empty_like(block.topics),
        np.empty((n_sweeps - burn_in, len(block.topics)), np.uint16),
        np.zeros((n, n_topics)),
        block.inverses,
        block.inverses,
        np.zeros((n if seats else 0, n_topics)),
    )


def drawn(step: Step, block: Block) -> Draws:
    """The topics of a block."""
    out = step.room(block)
    step.draw(step.given(block, out, new_turns()))
    return out


def drawn_by(engine: Engine, step: Step, block: Block) -> Draws:
    """The same: threads write to the same room, other workers to their own."""
    if engine.here is not engine:
        cuts = even_cuts(block.bags, engine.n_workers)
        return _joined(engine.map(drawn, [block.cut(where) for where in cuts], step))
    out = step.room(block)
    engine.here.join(step.draw, step.given(block, out, new_turns()), _most_calls(block))
    return out


@contextmanager
def drawn_and_counted(
    step: Step,
    block: Block,
    engine: Engine,
    counting: Callable[[Topics], Counting],
    ahead: Layout,
) -> Iterator[Draws]:
    """As `drawn_by`; words are counted while the draws are looked at, and after that.

    `counting` says how from the draws that are kept. The caller finds the weights, say, and then
    takes part; the draws must not be changed. Threads that have taken part from the beginning lay
    out one of the batches `ahead` each, and then linger for the next piece of work.
    """
    if engine.here is not engine:
        with counted(drawn_by(engine, step, block), engine, counting) as draws:
            yield draws
        return
    out, shift = step.room(block), engine.here.shift()
    words = counting(out.kept)
    given, rest = step.given(block, out, shift.turns), Rest(ahead, shift.coming)
    work = _Work(step, given, words, rest, shift.turns, len(block.keys))
    with engine.here.joined(_count_too, work, _most_calls(block), words.is_done) as check:
        step.draw(given)
        wait_until(partial(all_ended, shift.turns, len(block.keys)), check)
        yield out


@contextmanager
def counted(
    draws: Draws, engine: Engine, counting: Callable[[Topics], Counting]
) -> Iterator[Draws]:
    """Draws whose words are counted while these are looked at, and after that."""
    here, words = engine.here, counting(draws.kept)
    with here.joined(add_words, words, here.n_workers, words.is_done):
        yield draws


def _most_calls(block: Block) -> int:
    return len(block.topics) // _FEWEST_TOKENS


class _Work(NamedTuple):
    """All that others need to draw, to count and to be of use until they are needed again."""

    step: Step
    given: Given
    counting: Counting
    rest: Rest
    turns: IntVec
    n_documents: int


def _count_too(work: _Work) -> None:
    if have_ended(work.turns, work.n_documents):
        add_words(work.counting)
    else:
        work.step.draw_and_count(work.given, work.counting, work.rest)


def _joined(parts: Sequence[Draws]) -> Draws:
    if len(parts) == 1:
        return parts[0]
    return Draws(
        np.concatenate([p.topics for p in parts]),
        np.concatenate([p.kept for p in parts], axis=1),
        np.concatenate([p.totals for p in parts]),
        np.concatenate([p.tallies for p in parts], axis=1),
        np.concatenate([p.inverses for p in parts], axis=1),
        np.concatenate([p.tables for p in parts]),
    )
