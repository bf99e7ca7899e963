"""Local steps that draw the topics of documents, under the averaging or the Gibbs loss.

Word counts stand still meanwhile, so documents are independent, and each worker gets a run of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.engine.protocol import Engine
from everlearn.kernels.draws import Words
from everlearn.topics.kernels.gibbs import sample_augmented
from everlearn.topics.kernels.hinges import Hinges
from everlearn.topics.kernels.sampler import (
    CONTINUE,
    Bags,
    Margins,
    Samples,
    Topics,
    WordFactors,
    sample_documents,
)
from everlearn.topics.weights import tilts

_FEWEST_TOKENS = 1000
"""Tokens of a run of documents; fewer are not worth sending to another thread."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What the sweeps of a round have drawn.

    topics : (n_tokens,), after the last sweep
    kept : (n_kept, n_tokens), after each sweep that is kept, that is, not dropped by `burn_in`
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

    @classmethod
    def concatenate(cls, parts: Sequence[Draws]) -> Draws:
        """The draws of consecutive runs of documents, as one."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([p.topics for p in parts]),
            np.concatenate([p.kept for p in parts], axis=1),
            np.concatenate([p.totals for p in parts]),
            np.concatenate([p.tallies for p in parts], axis=1),
            np.concatenate([p.inverses for p in parts], axis=1),
            np.concatenate([p.tables for p in parts]),
        )


def even_runs(bags: Bags, n_parts: int) -> list[slice]:
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
    """Documents for a local step, with the draws and multipliers that it starts from.

    keys : (B,), random streams of the documents
    topics : (n_tokens,), before the step
    signs, offsets : (B, hinges), as in `Hinges`
    multipliers : (B, Q), of the averaging loss
    inverses : (n_kept, B, hinges), of the last round under the Gibbs loss
    """

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

    closed_form : margin, variance and largest multiplier, for multipliers of its own; a largest
        multiplier of 0 uses those of the block
    schedule : number of sweeps, how many of them are dropped, and how topics start
    seats : whether to draw tables, too
    """

    factors: WordFactors
    alpha: Vec
    weights: Mat
    closed_form: tuple[float, float, float]
    schedule: tuple[int, int, int]
    seats: bool = False

    def draw(self, block: Block) -> Draws:
        """Draw the topics of a block."""
        out = _empty_draws(block, self.schedule, len(self.alpha), self.seats)
        own = self.closed_form[2] > 0.0
        multipliers = np.empty_like(block.multipliers) if own else block.multipliers
        sample_documents(
            block.bags,
            self.factors,
            self.alpha,
            Margins(self.weights, block.signs, multipliers),
            self.closed_form,
            block.keys,
            self.schedule,
            Samples(out.topics, out.kept, out.totals, out.tables),
        )
        return out


@dataclass(frozen=True, slots=True)
class GibbsStep:
    """Sweeps under the Gibbs loss.

    hinges : of all documents; signs and offsets come with the block
    pull : multiplier of every label while tokens get their first topics
    schedule, seats : as in `AveragingStep`
    """

    factors: WordFactors
    alpha: Vec
    hinges: Hinges
    pull: float
    schedule: tuple[int, int, int]
    seats: bool = False

    def draw(self, block: Block) -> Draws:
        """Draw the topics of a block."""
        empty = _empty_draws(block, self.schedule, len(self.alpha), self.seats)
        tallies = np.zeros((len(empty.kept), *empty.totals.shape))
        out = replace(empty, tallies=tallies, inverses=block.inverses.copy())
        lengths = np.maximum(np.diff(block.bags.starts), 1)
        sample_augmented(
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
        )
        return out


Step: TypeAlias = AveragingStep | GibbsStep


def _empty_draws(block: Block, schedule: tuple[int, int, int], n_topics: int, seats: bool) -> Draws:
    """Arrays for the draws of a block; the Gibbs loss needs tallies, too."""
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


def draw_block(step: Step, block: Block) -> Draws:
    """Draw the topics of a block: a task for an engine."""
    return step.draw(block)


def draw_topics(step: Step, block: Block, engine: Engine) -> Draws:
    """Draw the topics of a block, a run of documents on each worker."""
    parts = [block.cut(where) for where in even_runs(block.bags, engine.n_workers)]
    return Draws.concatenate(engine.map(draw_block, parts, step))
