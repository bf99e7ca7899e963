"""Cutting a tree of components back: branches that are missed little, siblings that are alike."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import logsumexp

from everlearn.core.arrays import IntVec
from everlearn.inference.component_state import TreeState
from everlearn.inference.moves.branches import Survey


@dataclass(frozen=True, slots=True)
class Cut:
    """A node to be removed with all below it, and what the bound is estimated to lose."""

    position: int
    loss: float


def cuts(state: TreeState, survey: Survey) -> list[Cut]:
    """Chains at the end of which there is a last node, by what they would lose, least first.

    Rows go to the slots that are next best, and everything else stays as it is; the divergence of
    the loadings is saved. Nodes that hold mass of rows that are gone cannot be removed.
    """
    tree = state.tree
    sealed = tree.through(state.sealed.slots)
    found = []
    for position in _chains(tree.parents, tree.n_children):
        if sealed[position] > 0.0:
            continue
        below = tree.descends(position)
        rest = logsumexp(survey.scores[:, ~below], axis=1)
        lost = survey.factor * float(np.sum(survey.evidence - rest))
        nodes = np.flatnonzero(below)
        own = state.q.covariance[np.ix_(nodes, nodes)]
        saved = state.model.loading_divergence(state.q.mean[nodes], own)
        found.append(Cut(position, lost - saved))
    return sorted(found, key=lambda cut: cut.loss)


def _chains(parents: IntVec, n_children: IntVec) -> list[int]:
    """Nodes below which there is one chain at most, without the root."""
    tops = []
    for leaf in np.flatnonzero(n_children == 0):
        top = int(leaf)
        while top > 0:
            tops.append(top)
            top = int(parents[top])
            if n_children[top] > 1:
                break
    return tops


def without(state: TreeState, position: int) -> TreeState:
    """The state without a node and all below it; rows have not visited it yet."""
    return state.on(state.q.taken(state.tree.without([position])))


def alike(state: TreeState, n: int) -> list[tuple[int, int]]:
    """Pairs of siblings whose loadings are most alike, the larger node first."""
    tree = state.tree
    sealed, mass = tree.through(state.sealed.slots), tree.through(state.total.slots)
    lengths = np.linalg.norm(state.q.mean, axis=1, keepdims=True)
    units = state.q.mean / np.where(lengths > 0.0, lengths, 1.0)
    cosines = np.abs(units @ units.T)
    pairs = []
    for parent in np.flatnonzero(tree.n_children > 1):
        children = tree.children(int(parent))
        children = children[np.argsort(-mass[children], kind="stable")]
        for a, one in enumerate(children):
            pairs += [(int(one), int(two)) for two in children[a + 1 :] if sealed[two] == 0.0]
    return sorted(pairs, key=lambda pair: -cosines[pair])[:n]


def merged(state: TreeState, one: int, two: int) -> TreeState:
    """The state with one node for two siblings: the children of both, the loading of all rows."""
    mean, mass = state.q.mean.copy(), state.tree.through(state.total.slots)
    sides = np.sqrt(mass[[one, two]])[:, None] * mean[[one, two]]
    _, sizes, directions = np.linalg.svd(sides, full_matrices=False)
    mean[one] = directions[0] * sizes[0] / np.sqrt(max(float(mass[[one, two]].sum()), 1e-300))
    ids, tree = state.tree.ids, state.tree
    for child in ids[state.tree.children(two)]:
        tree = tree.rehung(int(tree.at(child)), int(tree.at(ids[one])))
    state = state.on(replace(state.q, mean=mean).taken(tree))
    return without(state, int(tree.at(ids[two])))
