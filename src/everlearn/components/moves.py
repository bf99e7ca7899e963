"""Candidate changes of a tree of components: new branches, splits, removals and merges.

A branch is a chain of new nodes below a node of the tree. Candidates are fitted to rows that the
tree explains badly, with everything else fixed, and ranked by how much they would raise the bound.
`search.py` then tries the best in full and judges it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from scipy.special import expit, logsumexp

from everlearn.components.local import Slots, fetch_rows, prepare_slots, score_slots
from everlearn.components.model import ComponentModel, NodePosterior
from everlearn.components.state import ComponentTreeState
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.priors.nested import TreeSticks
from everlearn.engine.protocol import Engine

MAX_SURVEY_ROWS = 4096
"""Rows that candidates are fitted to, at most."""
_FIT_ROUNDS: Final = 3
_FINALISTS: Final = 3
"""After one round of fitting, the best candidates are fitted further: one in `_FINALISTS`."""
_GUESS_ROWS: Final = (15, 200)
"""The first guess of a branch is made from a random number of rows in this range."""
_MIN_MASS: Final = 2.0
"""A new node must have at least this many rows."""
_SPLIT_ROUNDS: Final = 5
_MAX_OVERLAP: Final = 0.2
"""Branches born together share at most this part of their rows."""


@dataclass(frozen=True, slots=True)
class Survey:
    """How the tree explains its open rows, or a sample of them.

    Attributes
    ----------
    model, q, slots : of the state
    centred : (n, D) rows minus the centre
    scores : (n, K) scores of the slots
    base : (n,) part of the log-likelihood that is the same in all slots
    evidence : (n,) log-sum of the scores
    best : (n,) likeliest slot
    factor : number of open rows divided by that of surveyed rows
    """

    model: ComponentModel
    q: NodePosterior
    slots: Slots
    centred: Mat
    scores: Mat
    base: Vec
    evidence: Vec
    best: IntVec
    factor: float

    def unexplained(self) -> Vec:
        """Squared distance of each row from its reconstruction on the best path, (n,)."""
        gained = self.scores[np.arange(len(self.best)), self.best] - self.slots.bias[self.best]
        distance = np.einsum("nd,nd->n", self.centred, self.centred)
        return np.asarray(np.maximum(distance - 2.0 * gained / self.q.precision, 0.0))

    def residuals(self, position: int) -> Mat:
        """Rows without their projection on the loadings from the root to a node, (n, D)."""
        tree = self.q.tree
        above = tree.paths[position][: tree.levels[position] + 1]
        basis = np.linalg.qr(self.q.mean[above].T)[0]
        return np.asarray(self.centred - (self.centred @ basis) @ basis.T)


def survey_rows(state: ComponentTreeState, rng: np.random.Generator, engine: Engine) -> Survey:
    """Score the open rows, or a random sample if there are many."""
    n, sample = state.n_open, None
    if n > MAX_SURVEY_ROWS:
        sample = np.sort(rng.choice(n, MAX_SURVEY_ROWS, replace=False))
    X = fetch_rows([batch.X for batch in state.batches], sample, engine)
    slots = prepare_slots(state.model, state.q)
    found = score_slots(slots, X)
    return Survey(
        state.model, state.q, slots, X - state.q.centre, found.scores, found.base,
        np.asarray(logsumexp(found.scores, axis=1)), found.scores.argmax(axis=1), n / len(X),
    )  # fmt: skip


# ---------------------------------------------------------------------- births


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of new nodes.

    Attributes
    ----------
    below : position of the node that it hangs below
    mean : (length, D) expected loadings
    covariance : (length, length) their covariance
    shares : (n,) probability that each surveyed row would take it
    mass : expected number of open rows that would take it
    gain : estimated increase of the bound
    """

    below: int
    mean: Mat
    covariance: Mat
    shares: Vec
    mass: float
    gain: float


def best_branches(
    survey: Survey, rng: np.random.Generator, n_candidates: int, room: int, n_most: int
) -> list[Branch]:
    """The best candidates by gain, `n_most` at most and with `room` nodes in all.

    The best one is returned in any case. The others must have a positive gain and rows of their
    own.
    """
    found = sorted(_candidates(survey, rng, n_candidates, room), key=lambda branch: -branch.gain)
    chosen, shared = found[:1], sum((b.shares for b in found[:1]), np.zeros(len(survey.best)))
    for branch in found[1:]:
        n_nodes = sum(len(b.mean) for b in chosen) + len(branch.mean)
        apart = branch.shares @ np.minimum(shared, 1.0) < _MAX_OVERLAP * branch.shares.sum()
        if len(chosen) < n_most and n_nodes <= room and branch.gain > 0 and apart:
            chosen.append(branch)
            shared = shared + branch.shares
    return chosen


def _candidates(survey: Survey, rng: np.random.Generator, n: int, room: int) -> list[Branch]:
    """Branches for rows drawn in proportion to what the tree leaves unexplained of them."""
    tree = survey.q.tree
    chance = survey.unexplained()
    if not chance.any():
        return []
    found = []
    for row in rng.choice(len(chance), n, p=chance / chance.sum()):
        path = tree.paths[survey.best[row]]
        inner = path[path >= 0]
        inner = inner[(tree.n_unseen[inner] > 0) & (tree.n_unseen[inner] <= room)]
        if len(inner):
            below = int(rng.choice(inner))
            guess = _guess_loadings(survey, below, int(row), rng)
            found.append(_fit_branch(survey, below, guess, 1))
    found = sorted(found, key=lambda branch: -branch.gain)[: -(-n // _FINALISTS)]
    found = [_fit_branch(survey, branch.below, branch.mean, _FIT_ROUNDS) for branch in found]
    return [branch for branch in found if branch.mass >= _MIN_MASS]


def _guess_loadings(survey: Survey, below: int, row: int, rng: np.random.Generator) -> Mat:
    """Principal directions of the rows whose residuals are most parallel to that of this row."""
    rest = survey.residuals(below)
    norms = np.sqrt(np.einsum("nd,nd->n", rest, rest))
    likeness = np.abs(rest @ rest[row]) / np.maximum(norms, 1e-300)
    size = min(int(rng.integers(*_GUESS_ROWS)), len(rest))
    chosen = rest[np.argpartition(-likeness, size - 1)[:size]]
    return principal_loadings(chosen, int(survey.q.tree.n_unseen[below]))


def principal_loadings(rows: Mat, n_loadings: int) -> Mat:
    """Principal directions, each as long as the standard deviation along it. Zeros if too few."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    n_known = min(n_loadings, len(sizes))
    loadings = np.zeros((n_loadings, rows.shape[1]))
    loadings[:n_known] = directions[:n_known] * (sizes[:n_known] / np.sqrt(len(rows)))[:, None]
    return loadings


def _fit_branch(survey: Survey, below: int, mean: Mat, n_rounds: int) -> Branch:
    """Fit a branch for a few rounds with all other nodes fixed."""
    model, q, tree = survey.model, survey.q, survey.q.tree
    above = tree.paths[below][: tree.levels[below] + 1]
    tau, length, upper = q.precision, len(mean), len(above)
    products = np.zeros((upper + length, upper + length))
    products[:upper, :upper] = survey.slots.products[below][:upper, :upper]
    covariance = np.eye(length) * min(model.scale, 1.0 / (tau * _GUESS_ROWS[0]))
    pull = tau * np.hstack([survey.centred @ q.mean[above].T, survey.centred @ mean.T])
    mass = float(_GUESS_ROWS[0])
    for number in range(n_rounds + 1):
        # Local step: coordinates on the extended path, and how likely each row takes it.
        products[upper:, :upper] = mean @ q.mean[above].T
        products[:upper, upper:] = products[upper:, :upper].T
        products[upper:, upper:] = mean @ mean.T + model.n_features * covariance
        spread = np.linalg.inv(np.eye(upper + length) + tau * products)
        x = pull @ spread
        scores = 0.5 * (np.einsum("nj,nj->n", x, pull) + np.linalg.slogdet(spread)[1])
        scores += np.log(mass / (survey.factor * len(x))) - survey.evidence
        r = survey.factor * expit(scores)
        mass = float(r.sum())
        if number == n_rounds or mass < _MIN_MASS:
            break
        # Global step: the new loadings.
        second = (x * r[:, None]).T @ x + mass * spread
        cross = (x[:, upper:] * r[:, None]).T @ survey.centred
        cross -= second[upper:, :upper] @ q.mean[above]
        covariance = np.linalg.inv(np.eye(length) / model.scale + tau * second[upper:, upper:])
        mean = covariance @ (tau * cross)
        pull[:, upper:] = tau * (survey.centred @ mean.T)
    gain = survey.factor * np.logaddexp(0.0, scores).sum()
    gain -= model.loading_divergence(mean, covariance)
    return Branch(below, mean, covariance, r / survey.factor, mass, float(gain))


def add_branch(state: ComponentTreeState, branch: Branch) -> ComponentTreeState:
    """Add the branch to the tree. Rows have not visited it yet."""
    ids = range(state.next_id, state.next_id + len(branch.mean))
    tree = state.tree.grown(branch.below, list(ids))
    won = np.full(len(branch.mean), 1.0 + branch.mass)
    lost = np.full(len(branch.mean), state.model.paths.gamma)
    lost[0] += state.total.slots[branch.below]
    q = state.q.append(tree, branch.mean, branch.covariance, TreeSticks(won, lost))
    return replace(state.with_posterior(q), next_id=state.next_id + len(branch.mean))


# ---------------------------------------------------------------------- splits


def split_candidates(survey: Survey) -> IntVec:
    """Last nodes, those that fit their rows worst first.

    The criterion of split-and-merge EM: sum_n f_n (log f_n - log p(t_n | slot)), where f is the
    slot's probability for each row, normalised.
    """
    tree = survey.q.tree
    leaves = np.flatnonzero((tree.n_children == 0) & (tree.levels > 0))
    r = np.exp(survey.scores[:, leaves] - survey.evidence[:, None])
    mass = r.sum(axis=0)
    f = r / np.maximum(mass, 1e-300)
    expected = survey.scores[:, leaves] - survey.slots.weights[leaves] + survey.base[:, None]
    log_f = np.where(f > 0.0, np.log(np.maximum(f, 1e-300)), 0.0)
    divergence = np.sum(f * (log_f - expected), axis=0)
    enough = mass * survey.factor >= 2.0 * _MIN_MASS
    return np.asarray(leaves[enough][np.argsort(-divergence[enough], kind="stable")])


def split_leaf(
    state: ComponentTreeState, survey: Survey, position: int
) -> ComponentTreeState | None:
    """Give a last node a sibling, each with the loading of one half of its rows.

    The halves are those of two lines through the centre, found in a few rounds from directions
    on both sides of the old loading. None if the node has too few rows.
    """
    q, tree = state.q, state.tree
    parent = int(tree.parents[position])
    rows = survey.residuals(parent)[survey.best == position]
    if len(rows) < 2 * _MIN_MASS:
        return None
    old = q.mean[position]
    along = rows @ old / max(float(old @ old), 1e-300)
    aside = _main_direction(rows - np.outer(along, old))
    lines = np.stack([old + aside, old - aside])
    for _ in range(_SPLIT_ROUNDS):
        lengths = np.maximum(np.linalg.norm(lines, axis=1), 1e-300)
        nearer = np.argmax(np.abs(rows @ lines.T) / lengths, axis=1)
        for side in (0, 1):
            half = rows[nearer == side]
            if len(half):
                lines[side] = _main_direction(half)
    mass = survey.factor * float(np.sum(nearer == 1))
    mean = q.mean.copy()
    mean[position] = lines[0]
    state = replace(state, q=replace(q, mean=mean))
    own = np.array([[q.covariance[position, position]]])
    return add_branch(state, Branch(parent, lines[1:], own, nearer == 1, mass, 0.0))


def _main_direction(rows: Mat) -> Vec:
    """The first principal direction, as long as the standard deviation along it."""
    _, sizes, directions = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(directions[0] * sizes[0] / np.sqrt(len(rows)))


# -------------------------------------------------------------------- removals


@dataclass(frozen=True, slots=True)
class Removal:
    """A node to remove with all nodes below it, and the estimated loss of the bound."""

    position: int
    loss: float


def removal_candidates(state: ComponentTreeState, survey: Survey) -> list[Removal]:
    """Chains that end in a last node, the smallest loss first.

    The estimate moves rows to the next best slots, keeps everything else, and saves the
    divergence of the removed loadings. Nodes with rows that are gone cannot be removed.
    """
    tree = state.tree
    sealed = tree.through(state.sealed.slots)
    found = []
    for position in _chain_tops(tree.parents, tree.n_children):
        if sealed[position] > 0.0:
            continue
        below = tree.descends(position)
        rest = logsumexp(survey.scores[:, ~below], axis=1)
        lost = survey.factor * float(np.sum(survey.evidence - rest))
        nodes = np.flatnonzero(below)
        own = state.q.covariance[np.ix_(nodes, nodes)]
        saved = state.model.loading_divergence(state.q.mean[nodes], own)
        found.append(Removal(position, lost - saved))
    return sorted(found, key=lambda removal: removal.loss)


def _chain_tops(parents: IntVec, n_children: IntVec) -> list[int]:
    """Nodes without a branching below them, except the root."""
    tops = []
    for leaf in np.flatnonzero(n_children == 0):
        top = int(leaf)
        while top > 0:
            tops.append(top)
            top = int(parents[top])
            if n_children[top] > 1:
                break
    return tops


def remove_branch(state: ComponentTreeState, position: int) -> ComponentTreeState:
    """Remove a node and all nodes below it. Their rows have not been visited again yet."""
    return state.with_posterior(state.q.select(state.tree.without([position])))


# ---------------------------------------------------------------------- merges


def merge_candidates(state: ComponentTreeState, n: int) -> list[tuple[int, int]]:
    """The n pairs of siblings with the most parallel loadings, in each the larger node first."""
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


def merge_siblings(state: ComponentTreeState, one: int, two: int) -> ComponentTreeState:
    """Replace two siblings by one node with the children of both and a loading for all rows."""
    mean, mass = state.q.mean.copy(), state.tree.through(state.total.slots)
    sides = np.sqrt(mass[[one, two]])[:, None] * mean[[one, two]]
    _, sizes, directions = np.linalg.svd(sides, full_matrices=False)
    mean[one] = directions[0] * sizes[0] / np.sqrt(max(float(mass[[one, two]].sum()), 1e-300))
    ids, tree = state.tree.ids, state.tree
    for child in ids[state.tree.children(two)]:
        tree = tree.rehung(int(tree.at(child)), int(tree.at(ids[one])))
    state = state.with_posterior(replace(state.q, mean=mean).select(tree))
    return remove_branch(state, int(tree.at(ids[two])))
