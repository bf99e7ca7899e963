"""The state of a tree of components between steps, and `sweep`, which visits its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.components.local import PathRunner, RemoteRows
from everlearn.components.model import ComponentModel, NodePosterior, NodeStats
from everlearn.core.arrays import Mat
from everlearn.core.stats import total
from everlearn.core.tree import Tree


@dataclass(frozen=True, slots=True)
class OpenRows:
    """A batch of rows that can be visited again.

    Attributes
    ----------
    X : (n, D) the rows, minus the origin; during `fit` they may be on workers
    stats : statistics of the rows at their last visit
    """

    X: Mat | RemoteRows
    stats: NodeStats


@dataclass(frozen=True, slots=True)
class ComponentTreeState:
    """The posterior, and the statistics that it is computed from.

    Attributes
    ----------
    model : priors and updates
    q : posterior of the nodes, the centre and the noise
    sealed : statistics of rows that are gone
    batches : open rows, which can be visited again
    total : sum of all statistics
    next_id : id of the next node
    seed : seed of all draws
    clock : rounds of moves so far; each round draws from a random stream of its own
    n_new : open rows that came after the last round of moves
    """

    model: ComponentModel
    q: NodePosterior
    sealed: NodeStats
    batches: tuple[OpenRows, ...]
    total: NodeStats
    next_id: int
    seed: int
    clock: int = 0
    n_new: int = 0

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

    def with_total(self) -> ComponentTreeState:
        """The state with `total` recomputed, which removes rounding errors of earlier updates."""
        return replace(self, total=total([self.sealed, *(b.stats for b in self.batches)]))

    def with_posterior(self, q: NodePosterior) -> ComponentTreeState:
        """Replace the posterior and re-index the statistics to its tree.

        Statistics of nodes that are gone are dropped until the next visit.
        """
        batches = tuple(OpenRows(b.X, b.stats.for_tree(q.tree)) for b in self.batches)
        return replace(
            self,
            q=q,
            sealed=self.sealed.for_tree(q.tree),
            batches=batches,
            total=self.total.for_tree(q.tree),
        )


def sweep(
    state: ComponentTreeState, runner: PathRunner, n_sweeps: int = 1, *, together: bool = True
) -> ComponentTreeState:
    """Visit all open rows `n_sweeps` times, and update the posterior after each batch.

    With `together`, the first sweep updates the posterior once, after all batches. New nodes need
    that: else they would be fitted to the rows of the first batch alone.
    """
    for number in range(n_sweeps):
        if together and number == 0:
            state = _visit_all(state, runner)
        else:
            for position in range(len(state.batches)):
                state = visit_batch(state, position, runner)
        state = _order_siblings(state.with_total())
    return state


def _visit_all(state: ComponentTreeState, runner: PathRunner) -> ComponentTreeState:
    batches = tuple(OpenRows(b.X, runner.run(state.q, b.X)) for b in state.batches)
    state = replace(state, batches=batches).with_total()
    return replace(state, q=state.model.update(state.total, state.q))


def visit_batch(state: ComponentTreeState, position: int, runner: PathRunner) -> ComponentTreeState:
    """Visit one batch of open rows and update the posterior."""
    batch = state.batches[position]
    stats = runner.run(state.q, batch.X)
    batches = list(state.batches)
    batches[position] = OpenRows(batch.X, stats)
    changed = state.total - batch.stats + stats
    q = state.model.update(changed, state.q)
    return replace(state, batches=tuple(batches), total=changed, q=q)


def _order_siblings(state: ComponentTreeState) -> ComponentTreeState:
    """Reorder siblings by mass if that raises the bound, and update their sticks."""
    prior = state.model.paths
    tree = prior.ordered(state.tree, state.total.slots)
    if np.array_equal(tree.ids, state.tree.ids):
        return state
    state = state.with_posterior(state.q.select(tree))
    sticks = prior.posterior(tree, state.total.slots)
    return replace(state, q=replace(state.q, sticks=sticks))


def rescale(state: ComponentTreeState) -> ComponentTreeState:
    """Give coordinates and loadings of each node the scale with the highest bound.

    Only for trees that have stopped growing: while a tree grows, rescaled nodes leave less to
    the others, and the final bound is lower.
    """
    factors = state.model.best_factors(state.total, state.q)
    return replace(
        state,
        q=state.q.rescale(factors),
        sealed=state.sealed.rescale(state.tree, factors),
        batches=tuple(OpenRows(b.X, b.stats.rescale(state.tree, factors)) for b in state.batches),
        total=state.total.rescale(state.tree, factors),
    )
