"""The local step of topic models: draw the topics of a batch, under the averaging or Gibbs loss.

Word counts are fixed during a step. So documents are independent, and workers draw runs of them.
Shapes: B documents, K topics, Q tasks, and `n_kept` sweeps that are kept after the burn-in.
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
"""Fewest tokens of a run of documents: smaller runs are not worth a thread."""


@dataclass(frozen=True, slots=True)
class Draws:
    """What the sweeps of a round have drawn.

    topics : (n_tokens,) topic of each token after the last sweep
    kept : (n_kept, n_tokens) topic of each token after each kept sweep
    totals : (B, K) tokens of each topic in a document, summed over kept sweeps
    tallies : (n_kept, B, K) the same for each kept sweep, which the Gibbs loss needs
    inverses : (n_kept, B, hinges) inverse augmentation variables of the Gibbs loss
    tables : (B, K) tables of the HDP, summed over kept sweeps; no rows for a fixed number of topics
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
    """Cut documents into runs with about as many tokens each."""
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

    keys : (B,) random streams of the documents
    topics : (n_tokens,) topic of each token before the step
    signs, offsets : (B, hinges) targets, as in `Hinges`
    multipliers : (B, Q) dual multipliers of the averaging loss
    inverses : (n_kept, B, hinges) as in `Draws`, of the last round
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

    factors, alpha : expected words of topics, and prior of topics in a document
    weights : (Q, K) mean weights of the tasks
    closed_form : margin, variance and largest multiplier, from which the step computes the
        multipliers; if the largest is 0, it uses those of the block
    schedule : number of sweeps, of these the burn-in, and how tokens get their first topics
    draws_tables : whether to draw tables of the HDP
    """

    factors: WordFactors
    alpha: Vec
    weights: Mat
    closed_form: tuple[float, float, float]
    schedule: tuple[int, int, int]
    draws_tables: bool = False

    def draw(self, block: Block) -> Draws:
        """Draw the topics of a block."""
        out = _empty_draws(block, self.schedule, len(self.alpha), self.draws_tables)
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

    factors, alpha : as in `AveragingStep`
    hinges : weights of the hinges; their signs and offsets come with the block
    pull : dual multiplier of each label while tokens get their first topics
    schedule, draws_tables : as in `AveragingStep`
    """

    factors: WordFactors
    alpha: Vec
    hinges: Hinges
    pull: float
    schedule: tuple[int, int, int]
    draws_tables: bool = False

    def draw(self, block: Block) -> Draws:
        """Draw the topics of a block."""
        empty = _empty_draws(block, self.schedule, len(self.alpha), self.draws_tables)
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


def _empty_draws(
    block: Block, schedule: tuple[int, int, int], n_topics: int, draws_tables: bool
) -> Draws:
    """Arrays for the draws of a block, without the tallies of the Gibbs loss."""
    n_sweeps, burn_in, start = schedule
    n = len(block.keys)
    return Draws(
        block.topics.copy() if start == CONTINUE else np.empty_like(block.topics),
        np.empty((n_sweeps - burn_in, len(block.topics)), np.uint16),
        np.zeros((n, n_topics)),
        block.inverses,
        block.inverses,
        np.zeros((n if draws_tables else 0, n_topics)),
    )


def draw_block(step: Step, block: Block) -> Draws:
    """Draw the topics of a block. A function, so that an engine can send it."""
    return step.draw(block)


def draw_topics(step: Step, block: Block, engine: Engine) -> Draws:
    """Draw the topics of a batch on all workers of the engine."""
    parts = [block.cut(where) for where in even_runs(block.bags, engine.n_workers)]
    return Draws.concatenate(engine.map(draw_block, parts, step))
