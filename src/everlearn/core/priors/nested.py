"""The nested Chinese restaurant process by stick breaking at every node of a tree.

Every node but the root has a stick v ~ Beta(1, gamma): the share that it takes of what its elder
siblings left of their parent's mass. Nodes that the tree does not hold keep their prior, so a new
last child at its prior changes no bound. Derivations: docs/math/nested_crp.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln, psi

from everlearn.core.arrays import Vec
from everlearn.core.math import log_beta_normalizer
from everlearn.core.tree import Tree


@dataclass(frozen=True, slots=True)
class TreeSticks:
    """q(v) = Beta(won, lost) of each node, in the order of the tree. Ignore those of the root."""

    won: Vec
    lost: Vec

    def expected_log(self) -> tuple[Vec, Vec]:
        """E[log v] and E[log (1 - v)] of each node; both 0 for the root, whose v is 1."""
        both = psi(self.won + self.lost)
        log_v, log_rest = psi(self.won) - both, psi(self.lost) - both
        log_v[0] = log_rest[0] = 0.0
        return log_v, log_rest


@dataclass(frozen=True, slots=True)
class NestedPrior:
    """Nested Chinese restaurant process with concentration `gamma`.

    `collapsed` keeps sticks and children of unseen nodes as dependent as under the prior, which is
    tighter; else they are independent, and the bound of a tree never exceeds that of a larger one.
    """

    gamma: float
    collapsed: bool = False

    @property
    def log_unseen(self) -> float:
        """Log-weight of each unseen level: E log v + the log of the sum over unseen siblings."""
        if self.collapsed:
            return 0.0
        share = -np.expm1(-1.0 / self.gamma)
        return float(psi(1.0) - psi(1.0 + self.gamma) - np.log(share))

    def posterior(self, tree: Tree, slots: Vec) -> TreeSticks:
        """Sticks given the mass in each slot, (n_nodes,)."""
        mass = tree.through(slots)
        behind = slots.copy()  # what is left of each parent's mass for younger children
        lost = np.zeros(len(tree))
        for i in range(len(tree) - 1, 0, -1):
            lost[i] = behind[tree.parents[i]]
            behind[tree.parents[i]] += mass[i]
        return TreeSticks(1.0 + mass, self.gamma + np.maximum(lost, 0.0))

    def slot_log_weights(self, tree: Tree, sticks: TreeSticks) -> Vec:
        """E[log weight] of each slot, summed over all the paths in it, (n_nodes,)."""
        log_v, log_rest = sticks.expected_log()
        reached = np.zeros(len(tree))
        left = np.zeros(len(tree))  # log of what a node's children so far have left
        for i in range(1, len(tree)):
            parent = tree.parents[i]
            reached[i] = reached[parent] + log_v[i] + left[parent]
            left[parent] += log_rest[i]
        return np.asarray(reached + left + tree.n_unseen * self.log_unseen)

    def mean_slot_weights(self, tree: Tree, sticks: TreeSticks) -> Vec:
        """E[weight] of each slot; they sum to 1, (n_nodes,)."""
        share = sticks.won / (sticks.won + sticks.lost)
        reached = np.ones(len(tree))
        left = np.ones(len(tree))
        for i in range(1, len(tree)):
            parent = tree.parents[i]
            reached[i] = reached[parent] * share[i] * left[parent]
            left[parent] *= 1.0 - share[i]
        return np.asarray(reached * left)

    def divergence(self, sticks: TreeSticks) -> float:
        """KL of the sticks from their prior, summed over nodes."""
        won, lost = sticks.won[1:], sticks.lost[1:]
        log_v, log_rest = sticks.expected_log()
        return float(
            np.sum(
                log_beta_normalizer(won, lost)
                - log_beta_normalizer(np.ones_like(won), np.full_like(lost, self.gamma))
                + (won - 1.0) * log_v[1:]
                + (lost - self.gamma) * log_rest[1:]
            )
        )

    def bound_at(self, tree: Tree, slots: Vec, sticks: TreeSticks) -> float:
        """Allocation part of the bound for masses in slots under any sticks, optimal or not."""
        weights = self.slot_log_weights(tree, sticks)
        return float(slots @ weights) - self.divergence(sticks)

    def bound(self, tree: Tree, slots: Vec) -> float:
        """Allocation part of the bound at the optimal sticks for masses in slots."""
        return self.bound_at(tree, slots, self.posterior(tree, slots))

    def log_seating(self, tree: Tree, slots: Vec) -> float:
        """Log-probability of the paths with sticks integrated out, from documents per slot.

        A Chinese restaurant at each node; documents in the slot of an inner node are not seated.
        """
        mass = tree.through(slots)
        guests = mass - slots
        inner = guests > 0
        tables = np.log(self.gamma) + gammaln(mass[1:][mass[1:] > 0])
        rooms = gammaln(self.gamma) - gammaln(guests[inner] + self.gamma)
        return float(tables.sum() + rooms.sum())

    def ordered(self, tree: Tree, slots: Vec) -> Tree:
        """The tree with siblings by decreasing mass, if that does not lower the bound."""
        new = tree.sorted_by(tree.through(slots))
        moved = slots[tree.at(new.ids)]
        return new if self.bound(new, moved) >= self.bound(tree, slots) else tree
