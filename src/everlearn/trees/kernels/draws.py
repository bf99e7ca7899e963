"""Collapsed Gibbs draws of the paths and levels of documents in a tree of topics.

A document has a path of nodes from the root to the last level, and each of its tokens a level of
that path. Both are drawn under the counts of all other documents. Each draw changes the counts, so
documents are visited one after the other.

A path is drawn by its slot. There is one slot per node: the slot of a node on the last level is the
path that ends there; the slot of any other node is a new path that leaves the tree at this node.
Equations: docs/math/topic_tree.md.
"""

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.kernels.arrays import copy_to, longest_run, sum_of
from everlearn.kernels.draws import Word, Words, uniform, xorshift64
from everlearn.kernels.jit import FUSED, kernel
from everlearn.kernels.scalars import exp, log
from everlearn.trees.kernels.scores import (
    Nodes,
    Priors,
    Scratch,
    Tokens,
    score_level,
    score_slots,
    scratch,
)

_DEEPEST = -700.0
"""exp of anything lower is 0."""
_IMPOSSIBLE = -1e300
"""Log-weight of a slot that cannot be drawn."""
_FIRST_SWEEPS = 3
"""Draws of the levels of a new document."""


@kernel(FUSED)
def _log_each(x: Vec, out: Vec) -> None:
    """Logarithms. `_IMPOSSIBLE` for 0."""
    for j in range(out.size):
        value = log(x[j] if x[j] > 0.0 else 1.0)
        out[j] = value if x[j] > 0.0 else _IMPOSSIBLE


@kernel()
def _new_nodes_weight(gamma: float, has_room: bool, level: int, s: Scratch) -> float:
    """Log-weight that the new nodes of a path add if it leaves the tree at this level."""
    return np.log(gamma) + sum_of(s.fresh[level + 1 :]) if has_room else _IMPOSSIBLE


@kernel()
def _weigh_slots(nodes: Nodes, gamma: float, has_room: bool, s: Scratch) -> float:
    """Write the log-weight of each slot to `s.weights`, and return the largest."""
    depth, parents = nodes.firsts.size - 1, nodes.parents
    below, reach, weights = s.below, s.reach, s.weights
    below[:] = gamma
    for j in range(1, nodes.ids.size):
        below[parents[j]] += nodes.mass[j]  # places without a node have no mass
    inner = nodes.firsts[depth - 1]
    _log_each(below[:inner], below[:inner])
    _log_each(nodes.mass, reach)
    reach[0] = -below[0]
    weights[0] = reach[0] + _new_nodes_weight(gamma, has_room, 0, s)
    for level in range(1, depth):
        fresh = _new_nodes_weight(gamma, has_room, level, s)
        for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
            reach[j] += reach[parents[j]] + s.scores[j]
            weights[j] = reach[j]
        if level < depth - 1:
            for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
                reach[j] -= below[j]  # children start from here
                weights[j] = reach[j] + fresh
    peak = _IMPOSSIBLE
    for j in range(weights.size):
        if weights[j] > peak:
            peak = weights[j]
    return peak


@kernel(FUSED)
def _exponentials(weights: Vec, peak: float) -> None:
    """Turn log-weights into weights, the largest being 1."""
    for j in range(weights.size):
        x = weights[j] - peak
        weights[j] = exp(max(x, _DEEPEST)) if x > _DEEPEST else 0.0


@kernel()
def _pick(weights: Vec, peak: float, u: float) -> int:
    """Draw a slot by its log-weight, with `u` uniform in [0, 1)."""
    _exponentials(weights, peak)
    total = 0.0
    for j in range(weights.size):
        total += weights[j]
    target = u * total
    best = 0
    for j in range(weights.size):
        if weights[j] > 0.0:
            best = j
            target -= weights[j]
            if target < 0.0:
                break
    return best


@kernel()
def _add_node(nodes: Nodes, level: int, parent: int) -> int:
    """Add a node on a level and return its place."""
    for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
        if nodes.ids[j] < 0:
            nodes.ids[j] = nodes.next_id[0]
            nodes.next_id[0] += 1
            nodes.parents[j] = parent
            return j
    return -1


@kernel()
def _path_to(nodes: Nodes, slot: int, path: IntVec) -> None:
    """Write the path of a slot. -1 where it has left the tree."""
    level = 0
    while nodes.firsts[level + 1] <= slot:
        level += 1
    path[:] = -1
    for up in range(level, -1, -1):
        path[up] = slot
        slot = nodes.parents[slot]


@kernel()
def _set_path(nodes: Nodes, slot: int, path: IntVec) -> None:
    """Write the path of a slot, and add nodes where it leaves the tree."""
    _path_to(nodes, slot, path)
    for level in range(1, path.size):
        if path[level] < 0:
            path[level] = _add_node(nodes, level, path[level - 1])


@kernel()
def _recount(tokens: Tokens, d: int, nodes: Nodes, by: float) -> None:
    """Add a document to the counts (`by=1`) or remove it (-1). Nodes without documents end."""
    path = tokens.paths[d]
    for i in range(tokens.starts[d], tokens.starts[d + 1]):
        node = path[tokens.levels[i]]
        nodes.counts[tokens.words[i], node] += by
        nodes.totals[node] += by
    for level in range(path.size):
        node = path[level]
        nodes.mass[node] += by
        if nodes.mass[node] <= 0.0 and level:
            nodes.ids[node] = -1


@kernel()
def _draw_slot(nodes: Nodes, gamma: float, most: int, u: float, s: Scratch) -> int:
    """Draw a slot. No new path if the tree would have more than `most` nodes."""
    used = 0
    for j in range(nodes.ids.size):
        used += nodes.ids[j] >= 0
    peak = _weigh_slots(nodes, gamma, used + nodes.firsts.size - 2 <= most, s)
    return _pick(s.weights, peak, u)


@kernel()
def _draw_path(
    tokens: Tokens, d: int, nodes: Nodes, priors: Priors, most: int, u: float, s: Scratch
) -> None:
    """Draw the path of a document that is in no counts."""
    first, last = tokens.starts[d], tokens.starts[d + 1]
    for level in range(1, priors.alpha.size):
        score_level(tokens, first, last, level, nodes, priors, s)
    _set_path(nodes, _draw_slot(nodes, priors.gamma, most, u, s), tokens.paths[d])


@kernel()
def _draw_levels(
    tokens: Tokens, d: int, nodes: Nodes, priors: Priors, word: Word, work: Mat
) -> Word:
    """Draw the level of each token of a document that is in the counts.

    Counts without the token itself are computed on the way, and are written only if it moves:
    most tokens stay where they are.
    """
    path, depth = tokens.paths[d], priors.alpha.size
    counts, totals, levels = nodes.counts, nodes.totals, tokens.levels
    held, scale, less, sums = work[0], work[1], work[2], work[3]
    copy_to(held, priors.alpha)
    for i in range(tokens.starts[d], tokens.starts[d + 1]):
        held[levels[i]] += 1.0
    for level in range(depth):
        scale[level] = 1.0 / (totals[path[level]] + priors.all_words)
        less[level] = 1.0 / (totals[path[level]] + priors.all_words - 1.0)
    for i in range(tokens.starts[d], tokens.starts[d + 1]):
        row, old = counts[tokens.words[i]], np.int64(levels[i])
        total = 0.0
        for level in range(depth):
            fits = row[path[level]] + priors.word
            if level == old:
                total += (held[level] - 1.0) * (fits - 1.0) * less[level]
            else:
                total += held[level] * fits * scale[level]
            sums[level] = total
        word = xorshift64(word)
        target = uniform(word) * total
        new = 0
        for level in range(depth - 1):
            new += sums[level] <= target
        if new != old:
            levels[i] = new
            for to, by in ((old, -1.0), (new, 1.0)):
                row[path[to]] += by
                totals[path[to]] += by
                held[to] += by
                scale[to] = 1.0 / (totals[path[to]] + priors.all_words)
                less[to] = 1.0 / (totals[path[to]] + priors.all_words - 1.0)
    return word


@kernel()
def _first_levels(
    tokens: Tokens, d: int, nodes: Nodes, priors: Priors, word: Word, values: Vec
) -> Word:
    """Draw first levels of a new document's tokens, independently, given its path.

    On levels where the path has left the tree, all words are equally likely.
    """
    path = tokens.paths[d]
    for i in range(tokens.starts[d], tokens.starts[d + 1]):
        row = nodes.counts[tokens.words[i]]
        total = 0.0
        for level in range(path.size):
            values[level] = priors.alpha[level] * priors.word / priors.all_words
            node = path[level]
            if node >= 0:
                share = (row[node] + priors.word) / (nodes.totals[node] + priors.all_words)
                values[level] = priors.alpha[level] * share
            total += values[level]
        word = xorshift64(word)
        target = uniform(word) * total - values[0]
        level = 0
        while target >= 0.0 and level < path.size - 1:
            level += 1
            target -= values[level]
        tokens.levels[i] = level
    return word


@kernel()
def _has_room(nodes: Nodes) -> bool:
    """Whether each level below the root has a free place for a new node."""
    for level in range(1, nodes.firsts.size - 1):
        free = False
        for j in range(nodes.firsts[level], nodes.firsts[level + 1]):
            free = free or nodes.ids[j] < 0
        if not free:
            return False
    return True


@kernel()
def _redraw(
    tokens: Tokens,
    d: int,
    nodes: Nodes,
    priors: Priors,
    most: int,
    word: Word,
    n_draws: int,
    work: Mat,
    s: Scratch,
) -> None:
    """Draw path and then levels of a document that is in no counts, and add it to these."""
    word = xorshift64(word)
    _draw_path(tokens, d, nodes, priors, most, uniform(word), s)
    _recount(tokens, d, nodes, 1.0)
    for _ in range(n_draws):
        word = _draw_levels(tokens, d, nodes, priors, word, work)


@kernel()
def sweep(
    tokens: Tokens,
    nodes: Nodes,
    priors: Priors,
    streams: Words,
    begin: int,
    end: int,
    new: bool,
    most: int,
) -> int:
    """Draw path and levels of documents `begin` to `end`. Return the first that was not drawn.

    `new` documents are in no counts yet and have no path. Their levels are drawn first, from the
    prior. The sweep stops early when a level has no free place for a new node. The tree has at most
    `most` nodes.
    """
    depth = priors.alpha.size
    s = scratch(nodes.totals.size, depth, longest_run(tokens.starts))
    work = np.empty((4, depth))
    for d in range(begin, end):
        if not _has_room(nodes):
            return d
        word = streams[d]
        if new:
            word = _first_levels(tokens, d, nodes, priors, word, work[0])
        else:
            _recount(tokens, d, nodes, -1.0)
        _redraw(tokens, d, nodes, priors, most, word, _FIRST_SWEEPS if new else 1, work, s)
    return end


@kernel()
def add_informed(
    tokens: Tokens, nodes: Nodes, priors: Priors, streams: Words, begin: int, end: int, most: int
) -> int:
    """As `sweep` of new documents, but draw the path first, for any levels, then the levels."""
    depth = priors.alpha.size
    s = scratch(nodes.totals.size, depth, longest_run(tokens.starts))
    work = np.empty((4, depth))
    for d in range(begin, end):
        if not _has_room(nodes):
            return d
        word = xorshift64(streams[d])
        score_slots(tokens, tokens.starts[d], tokens.starts[d + 1], nodes, priors, s)
        slot = _draw_slot(nodes, priors.gamma, most, uniform(word), s)
        _path_to(nodes, slot, tokens.paths[d])
        word = _first_levels(tokens, d, nodes, priors, word, work[0])
        _redraw(tokens, d, nodes, priors, most, word, _FIRST_SWEEPS, work, s)
    return end


@kernel()
def sweep_levels(
    tokens: Tokens, nodes: Nodes, priors: Priors, streams: Words, rows: IntVec
) -> None:
    """Draw the levels of the documents in `rows`. Their paths stay."""
    work = np.empty((4, priors.alpha.size))
    for d in rows:
        _draw_levels(tokens, d, nodes, priors, streams[d], work)


@kernel()
def move_down(
    tokens: Tokens, nodes: Nodes, rows: IntVec, level: int, common: NDArray[np.bool_]
) -> None:
    """Put tokens that are on this level or the next on this one if common, else on the next."""
    for d in rows:
        path = tokens.paths[d]
        for i in range(tokens.starts[d], tokens.starts[d + 1]):
            old, w = np.int64(tokens.levels[i]), tokens.words[i]
            if old != level and old != level + 1:
                continue
            new = level if common[w] else level + 1
            for at, by in ((path[old], -1.0), (path[new], 1.0)):
                nodes.counts[w, at] += by
                nodes.totals[at] += by
            tokens.levels[i] = new
