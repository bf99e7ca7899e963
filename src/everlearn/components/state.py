"""What a tree of components remembers between steps."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from everlearn.components.local import PathRunner
from everlearn.components.model import ComponentModel, PathPosterior, PathStats
from everlearn.core.arrays import Mat
from everlearn.core.stats import total
from everlearn.core.tree import Tree


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows that can be visited again.

    Attributes
    ----------
    X : (n, D) the rows, seen from the origin; `FarRows` during a fit of rows that are elsewhere
    stats : what they said at their last visit
    slots : (n, K) probabilities of their slots, under mean field; else None
    """

    X: Any
    stats: PathStats
    slots: Mat | None = None


@dataclass(frozen=True, slots=True)
class TreeState:
    """Beliefs, and the statistics that they rest on.

    Attributes
    ----------
    model : priors and updates
    q : beliefs about the nodes, the centre and the noise
    sealed : statistics of rows that are gone
    batches : rows that are still open
    total : sum of all statistics
    next_id : id of the next node
    seed : of all draws
    clock : rounds of moves so far, which name the draws
    fresh : open rows that came since the last round
    """

    model: ComponentModel
    q: PathPosterior
    sealed: PathStats
    batches: tuple[OpenRows, ...]
    total: PathStats
    next_id: int
    seed: int
    clock: int = 0
    fresh: int = 0

    @property
    def tree(self) -> Tree:
        """The nodes."""
        return self.q.tree

    @property
    def n_open(self) -> int:
        """Rows that can be visited again."""
        return sum(len(batch.X) for batch in self.batches)

    def bound(self) -> float:
        """Lower bound of the log evidence of all rows seen."""
        return self.model.bound(self.total, self.q)

    def resummed(self) -> TreeState:
        """With a total added up anew, free of what rounding has left in it."""
        return replace(self, total=total([self.sealed, *(b.stats for b in self.batches)]))

    def on(self, q: PathPosterior) -> TreeState:
        """With other beliefs, and all statistics brought to their tree.

        What rows have on nodes that are gone is forgotten until the next visit; under mean field
        they start that visit from the slots of the nearest ancestors.
        """
        batches = tuple(
            OpenRows(b.X, b.stats.on(q.tree), _moved(b.slots, self.tree, q.tree))
            for b in self.batches
        )
        sealed = self.sealed.on(q.tree)
        return replace(self, q=q, sealed=sealed, batches=batches, total=self.total.on(q.tree))


def _moved(slots: Mat | None, old: Tree, new: Tree) -> Mat | None:
    """Probabilities of slots for another tree; those of nodes that are gone go to ancestors."""
    if slots is None:
        return None
    moved = np.zeros((len(slots), len(new)))
    for i, path in enumerate(old.paths):
        kept = new.at(old.ids[path[path >= 0]])
        moved[:, kept[kept >= 0][-1]] += slots[:, i]
    return moved


def swept(
    state: TreeState, runner: PathRunner, sweeps: int = 1, together: bool = True
) -> TreeState:
    """Visit all open rows some times, and bring the beliefs up to date after each batch.

    With `together`, the first time they are brought up to date after all batches: then new nodes
    are not fitted to the rows of the first batch alone.
    """
    for sweep in range(sweeps):
        if together and sweep == 0:
            state = _all_visited(state, runner)
        else:
            for position in range(len(state.batches)):
                state = _visited(state, position, runner)
        state = _ordered(state.resummed())
    return state


def _all_visited(state: TreeState, runner: PathRunner) -> TreeState:
    found = [runner.run(state.q, batch.X, batch.slots) for batch in state.batches]
    batches = tuple(
        OpenRows(batch.X, *new) for batch, new in zip(state.batches, found, strict=True)
    )
    state = replace(state, batches=batches).resummed()
    return replace(state, q=state.model.updated(state.total, state.q))


def rescaled(state: TreeState) -> TreeState:
    """With coordinates and loadings at the scale that the bound likes best.

    That is for trees that have stopped growing: while they grow, nodes that are first at their
    scale leave less to others, and trees end lower. Not for mean field, under which nodes of one
    level share their coordinates.
    """
    factors = state.model.best_factors(state.total, state.q)
    return replace(
        state,
        q=state.model.rescaled(state.q, factors),
        sealed=state.sealed.rescaled(state.tree, factors),
        batches=tuple(
            OpenRows(b.X, b.stats.rescaled(state.tree, factors), b.slots) for b in state.batches
        ),
        total=state.total.rescaled(state.tree, factors),
    )


def _visited(state: TreeState, position: int, runner: PathRunner) -> TreeState:
    batch = state.batches[position]
    stats, slots = runner.run(state.q, batch.X, batch.slots)
    batches = list(state.batches)
    batches[position] = OpenRows(batch.X, stats, slots)
    changed = state.total - batch.stats + stats
    q = state.model.updated(changed, state.q)
    return replace(state, batches=tuple(batches), total=changed, q=q)


def _ordered(state: TreeState) -> TreeState:
    """With siblings in the better order, and beliefs that belong to it."""
    prior = state.model.paths
    tree = prior.ordered(state.tree, state.total.slots)
    if np.array_equal(tree.ids, state.tree.ids):
        return state
    state = state.on(state.q.taken(tree))
    sticks = prior.posterior(tree, state.total.slots)
    return replace(state, q=replace(state.q, sticks=sticks))
