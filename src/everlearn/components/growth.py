"""Growing a tree of components: where rows are explained badly, and what would explain them.

A branch is a chain of new nodes below a node of the tree. Candidates are fitted to rows that are
poorly explained, while everything else stays as it is, and ranked by what they would add to the
bound. Only the best is then tried in full. A split makes two nodes of a last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logsumexp

from everlearn.components.local import PathRunner, Slots, prepare, scored
from everlearn.components.model import ComponentModel, PathPosterior
from everlearn.components.state import TreeState
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.priors.nested import TreeSticks

MOST_ROWS = 4096
"""Rows that candidates are fitted to."""
_ROUNDS = 3
_IN_THE_LEAD = 3
_FEW, _MANY = 15, 200
"""Rows that the first guess of a branch is made from."""
_LEAST_MASS = 2.0
_SPLIT_ROUNDS = 5
_OVERLAP = 0.2


@dataclass(frozen=True, slots=True)
class Survey:
    """Rows as the tree explains them.

    Attributes
    ----------
    model, q, slots : the beliefs
    centred : (n, D) rows around the centre
    scores : (n, K) of the slots
    base : (n,) what log-likelihoods have besides
    evidence : (n,) log-sum of the scores
    best : (n,) the likeliest slot
    factor : rows that each of these stands for
    """

    model: ComponentModel
    q: PathPosterior
    slots: Slots
    centred: Mat
    scores: Mat
    base: Vec
    evidence: Vec
    best: IntVec
    factor: float

    def unexplained(self) -> Vec:
        """Squared distance of each row from what its best path makes of it, (n,)."""
        gained = self.scores[np.arange(len(self.best)), self.best] - self.slots.bias[self.best]
        distance = np.einsum("nd,nd->n", self.centred, self.centred)
        return np.asarray(np.maximum(distance - 2.0 * gained / self.q.precision, 0.0))

    def rest(self, position: int) -> Mat:
        """Rows without their parts along the loadings from the root to a node, (n, D)."""
        tree = self.q.tree
        above = tree.paths[position][: tree.levels[position] + 1]
        basis = np.linalg.qr(self.q.mean[above].T)[0]
        return np.asarray(self.centred - (self.centred @ basis) @ basis.T)


def surveyed(state: TreeState, rng: np.random.Generator, runner: PathRunner) -> Survey:
    """The open rows, or some of them if they are many."""
    n, some = state.n_open, None
    if n > MOST_ROWS:
        some = np.sort(rng.choice(n, MOST_ROWS, replace=False))
    X = runner.some([batch.X for batch in state.batches], some)
    slots = prepare(state.model, state.q)
    found = scored(slots, X)
    return Survey(
        state.model, state.q, slots, X - state.q.centre, found.scores, found.base,
        np.asarray(logsumexp(found.scores, axis=1)), found.scores.argmax(axis=1), n / len(X),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of new nodes below the node at `below`.

    `shares` are the parts of the surveyed rows that it would take, `mass` is their sum over all
    rows, and `gain` is what the bound is estimated to gain.
    """

    below: int
    mean: Mat
    covariance: Mat
    shares: Vec
    mass: float
    gain: float


def best_branches(
    survey: Survey, rng: np.random.Generator, n: int, room: int, most: int
) -> list[Branch]:
    """The best of n candidates by gain: at least one if there is any, and at most `most`.

    Together they have no more than `room` nodes. All but the first promise a gain of their own,
    from rows that those before leave to them.
    """
    found = sorted(_candidates(survey, rng, n, room), key=lambda branch: -branch.gain)
    chosen, taken = found[:1], sum((b.shares for b in found[:1]), np.zeros(len(survey.best)))
    for branch in found[1:]:
        used = sum(len(b.mean) for b in chosen)
        apart = branch.shares @ np.minimum(taken, 1.0) < _OVERLAP * branch.shares.sum()
        if len(chosen) < most and used + len(branch.mean) <= room and branch.gain > 0 and apart:
            chosen.append(branch)
            taken = taken + branch.shares
    return chosen


def _candidates(survey: Survey, rng: np.random.Generator, n: int, room: int) -> list[Branch]:
    """Branches for rows drawn by what is left of them; only those in the lead are fitted well."""
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
            guess = _first_guess(survey, below, int(row), rng)
            found.append(_fitted(survey, below, guess, 1))
    found = sorted(found, key=lambda branch: -branch.gain)[: -(-n // _IN_THE_LEAD)]
    found = [_fitted(survey, branch.below, branch.mean, _ROUNDS) for branch in found]
    return [branch for branch in found if branch.mass >= _LEAST_MASS]


def _first_guess(survey: Survey, below: int, row: int, rng: np.random.Generator) -> Mat:
    """Principal directions of the rows most like this one, once the path above is taken away."""
    rest = survey.rest(below)
    norms = np.sqrt(np.einsum("nd,nd->n", rest, rest))
    likeness = np.abs(rest @ rest[row]) / np.maximum(norms, 1e-300)
    size = min(int(rng.integers(_FEW, _MANY)), len(rest))
    chosen = rest[np.argpartition(-likeness, size - 1)[:size]]
    length = int(survey.q.tree.n_unseen[below])
    _, sizes, directions = np.linalg.svd(chosen, full_matrices=False)
    guess = np.zeros((length, rest.shape[1]))
    most = min(length, len(sizes))
    guess[:most] = directions[:most] * (sizes[:most] / np.sqrt(size))[:, None]
    return guess


def _fitted(survey: Survey, below: int, mean: Mat, rounds: int) -> Branch:
    """The branch after a few rounds in which all else stays as it is."""
    model, q, tree = survey.model, survey.q, survey.q.tree
    above = tree.paths[below][: tree.levels[below] + 1]
    tau, length, upper = q.precision, len(mean), len(above)
    products = np.zeros((upper + length, upper + length))
    products[:upper, :upper] = survey.slots.products[below][:upper, :upper]
    covariance = np.eye(length) * min(model.scale, 1.0 / (tau * _FEW))
    pull = tau * np.hstack([survey.centred @ q.mean[above].T, survey.centred @ mean.T])
    mass = float(_FEW)
    for step in range(rounds + 1):
        products[upper:, :upper] = mean @ q.mean[above].T
        products[:upper, upper:] = products[upper:, :upper].T
        products[upper:, upper:] = mean @ mean.T + model.n_features * covariance
        spread = np.linalg.inv(np.eye(upper + length) + tau * products)
        x = pull @ spread
        scores = 0.5 * (np.einsum("nj,nj->n", x, pull) + np.linalg.slogdet(spread)[1])
        scores += np.log(mass / (survey.factor * len(x))) - survey.evidence
        r = survey.factor * expit(scores)
        mass = float(r.sum())
        if step == rounds or mass < _LEAST_MASS:
            break
        second = (x * r[:, None]).T @ x + mass * spread
        cross = (x[:, upper:] * r[:, None]).T @ survey.centred
        cross -= second[upper:, :upper] @ q.mean[above]
        covariance = np.linalg.inv(np.eye(length) / model.scale + tau * second[upper:, upper:])
        mean = covariance @ (tau * cross)
        pull[:, upper:] = tau * (survey.centred @ mean.T)
    gain = survey.factor * np.logaddexp(0.0, scores).sum()
    gain -= model.loading_divergence(mean, covariance)
    return Branch(below, mean, covariance, r / survey.factor, mass, float(gain))


def with_branch(state: TreeState, branch: Branch) -> TreeState:
    """The state with the branch in it; rows have not visited it yet."""
    ids = range(state.next_id, state.next_id + len(branch.mean))
    tree = state.tree.grown(branch.below, list(ids))
    won = np.full(len(branch.mean), 1.0 + branch.mass)
    lost = np.full(len(branch.mean), state.model.paths.gamma)
    lost[0] += state.total.slots[branch.below]
    q = state.q.extended(tree, branch.mean, branch.covariance, TreeSticks(won, lost))
    return replace(state.on(q), next_id=state.next_id + len(branch.mean))


def split_order(survey: Survey) -> IntVec:
    """Last nodes by decreasing divergence of their rows from what the model expects of them.

    The criterion of split-and-merge EM: sum_n f_n (log f_n - log p(t_n | slot)), where f is the
    slot's share in each row, normalised.
    """
    tree = survey.q.tree
    leaves = np.flatnonzero((tree.n_children == 0) & (tree.levels > 0))
    r = np.exp(survey.scores[:, leaves] - survey.evidence[:, None])
    mass = r.sum(axis=0)
    f = r / np.maximum(mass, 1e-300)
    expected = survey.scores[:, leaves] - survey.slots.weights[leaves] + survey.base[:, None]
    log_f = np.where(f > 0.0, np.log(np.maximum(f, 1e-300)), 0.0)
    divergence = np.sum(f * (log_f - expected), axis=0)
    enough = mass * survey.factor >= 2.0 * _LEAST_MASS
    return np.asarray(leaves[enough][np.argsort(-divergence[enough], kind="stable")])


def with_split(state: TreeState, survey: Survey, position: int) -> TreeState | None:
    """The state with a sibling of a last node, each with the loading of one half of its rows.

    The halves are those of two lines through the centre, found in a few rounds from directions
    on both sides of the old loading.
    """
    q, tree = state.q, state.tree
    parent = int(tree.parents[position])
    rows = survey.rest(parent)[survey.best == position]
    if len(rows) < 2 * _LEAST_MASS:
        return None
    old = q.mean[position]
    along = rows @ old / max(float(old @ old), 1e-300)
    _, sizes, directions = np.linalg.svd(rows - np.outer(along, old), full_matrices=False)
    aside = directions[0] * sizes[0] / np.sqrt(len(rows))
    lines = np.stack([old + aside, old - aside])
    for _ in range(_SPLIT_ROUNDS):
        lengths = np.maximum(np.linalg.norm(lines, axis=1), 1e-300)
        nearer = np.argmax(np.abs(rows @ lines.T) / lengths, axis=1)
        for side in (0, 1):
            half = rows[nearer == side]
            if len(half):
                _, sizes, directions = np.linalg.svd(half, full_matrices=False)
                lines[side] = directions[0] * sizes[0] / np.sqrt(len(half))
    mass = survey.factor * float(np.sum(nearer == 1))
    mean = q.mean.copy()
    mean[position] = lines[0]
    state = replace(state, q=replace(q, mean=mean))
    own = np.array([[q.covariance[position, position]]])
    return with_branch(state, Branch(parent, lines[1:], own, nearer == 1, mass, 0.0))


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
