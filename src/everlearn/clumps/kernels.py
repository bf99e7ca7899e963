"""Compiled loops over items: assignments, sums, divisions of sets, entropies.

Items sorted by set are given as `starts` and `members`: set l has the items
`members[starts[l] : starts[l + 1]]`. All arrays are C-contiguous.
"""

import math

import numpy as np

from everlearn.core.arrays import Cube, IntVec, Labels, Mat, Vec
from everlearn.kernels.jit import FUSED, SUMMED, kernel
from everlearn.kernels.scalars import from_rank, to_rank


@kernel(SUMMED)
def scatter_times(
    starts: IntVec,
    members: Labels,
    shares: Vec,
    features: Mat,
    first: int,
    mass: Vec,
    centres: Mat,
    vectors: Cube,
    out: Cube,
) -> None:
    """Add the scatter matrix of each set times `vectors` (n_sets, count, d) to `out`.

    Coordinates are the d features from `first` on.
    """
    count, d = vectors.shape[1:]
    away = np.empty(d)
    for k in range(starts.size - 1):
        for j in range(starts[k], starts[k + 1]):
            c = members[j]
            for i in range(d):
                away[i] = features[c, first + i] - centres[k, i]
            weight = mass[c] * shares[j]
            for m in range(count):
                along = 0.0
                for i in range(d):
                    along += away[i] * vectors[k, m, i]
                along *= weight
                for i in range(d):
                    out[k, m, i] += along * away[i]


@kernel(FUSED)
def set_sums(sets: Labels, features: Mat, mass: Vec, n: Vec, t: Mat) -> None:
    """Add points and feature sums of each set to `n` and `t`. The set -1 is left out."""
    for c in range(sets.size):
        s = sets[c]
        if s < 0:
            continue
        n[s] += mass[c]
        for p in range(features.shape[1]):
            t[s, p] += mass[c] * features[c, p]


@kernel(SUMMED)
def divide_sets(
    starts: IntVec,
    members: Labels,
    features: Mat,
    mass: Vec,
    slope: Mat,
    offset: Vec,
    side: Labels,
    n: Vec,
    t: Mat,
) -> None:
    """Divide each set by the sign of slope . feature + offset.

    side : (n_items,) out: 1 on the positive side, 0 on the other, of items that are in a set;
    n, t : (n_sets,), (n_sets, n_stats) out: points and feature sums of the positive sides
    """
    n_stats = features.shape[1]
    for i in range(n.size):
        n[i] = 0.0
        t[i] = 0.0
        for j in range(starts[i], starts[i + 1]):
            c = members[j]
            score = offset[i]
            for p in range(n_stats):
                score += slope[i, p] * features[c, p]
            side[c] = 1 if score > 0.0 else 0
            if score > 0.0:
                n[i] += mass[c]
                for p in range(n_stats):
                    t[i, p] += mass[c] * features[c, p]


@kernel()
def median_sides(
    chosen: IntVec,
    starts: IntVec,
    members: Labels,
    features: Mat,
    mass: Vec,
    slope: Mat,
    side: Labels,
    n: Vec,
    t: Mat,
) -> None:
    """Divide the chosen sets as `divide_sets` does, at the weighted median along the slope.

    Sets must have two items. Then no side is empty: equal items are divided by their order.
    """
    for i in chosen:
        start, end = starts[i], starts[i + 1]
        size = end - start
        along = np.empty(size)
        total = 0.0
        for j in range(size):
            c = members[start + j]
            value = 0.0
            for p in range(features.shape[1]):
                value += slope[i, p] * features[c, p]
            along[j] = value
            total += mass[c]
        n[i] = 0.0
        t[i] = 0.0
        order = np.argsort(along, kind="mergesort")
        below = 0.0
        for j in range(size):
            c = members[start + order[j]]
            upper = j == size - 1 or (j > 0 and below + mass[c] > 0.5 * total)
            below += mass[c]
            side[c] = 1 if upper else 0
            if upper:
                n[i] += mass[c]
                for p in range(features.shape[1]):
                    t[i, p] += mass[c] * features[c, p]


@kernel()
def _rising(a: float, n: float) -> float:
    """Log of the rising factorial Gamma(a + n) / Gamma(a)."""
    return math.lgamma(a + n) - math.lgamma(a)


@kernel()
def document_terms(
    starts: IntVec,
    members: Labels,
    side: Labels,
    item_starts: IntVec,
    groups: Labels,
    counts: Vec,
    sizes: Vec,
    alpha: Mat,
    spans: Mat,
    terms: Mat,
) -> None:
    """Number of groups on both sides of each set, and what documents add to the bound.

    Parameters
    ----------
    starts, members, side
        The sets, and how they are divided.
    item_starts, groups, counts
        Points of each item in groups.
    sizes : (n_groups,)
        Documents in each group.
    alpha : (n_sets, 2)
        Dirichlet parameters of sides 0 and 1, as if each were a topic.
    spans : (n_sets, 2)
        Out: number of groups on each side.
    terms : (n_sets, 2)
        Out: sum over groups of D log Gamma(alpha + N / D) / Gamma(alpha), for each side.
    """
    held = np.zeros((2, sizes.size))
    seen = np.empty(sizes.size, np.int64)
    for i in range(alpha.shape[0]):
        size = 0
        for j in range(starts[i], starts[i + 1]):
            c = members[j]
            for e in range(item_starts[c], item_starts[c + 1]):
                g = groups[e]
                if held[0, g] == 0.0 and held[1, g] == 0.0:
                    seen[size] = g
                    size += 1
                held[side[c], g] += counts[e]
        for s in range(2):
            spans[i, s] = 0.0
            terms[i, s] = 0.0
            for m in range(size):
                g = seen[m]
                if held[s, g] > 0.0:
                    spans[i, s] += 1.0
                    terms[i, s] += sizes[g] * _rising(alpha[i, s], held[s, g] / sizes[g])
        for m in range(size):
            held[0, seen[m]] = 0.0
            held[1, seen[m]] = 0.0


WINDOW = 24.0
"""A topic this many nats below the best one is left out. Its share would be below 4e-11."""


@kernel(FUSED)
def _peak(
    scores: Vec, bias: Mat, groups: Labels, counts: Vec, start: int, end: int, row: Vec
) -> np.float64:
    """Write the scores of an item, with bias, to `row`. Return the largest."""
    if end == start + 1:
        add = bias[groups[start]]
        for k in range(row.size):
            row[k] = scores[k] + add[k]
    else:
        mass = 0.0
        for e in range(start, end):
            mass += counts[e]
        row[:] = scores
        for e in range(start, end):
            share = counts[e] / mass
            add = bias[groups[e]]
            for k in range(row.size):
                row[k] += share * add[k]
    best = to_rank(row[0])
    for k in range(row.size):
        rank = to_rank(row[k])
        best = rank if rank > best else best
    largest: np.float64 = from_rank(best)
    return largest


@kernel()
def _keep(row: Vec, least: np.float64, found: IntVec, topics: Labels, shares: Vec) -> int:
    """Write the largest scores that are at least `least`, in falling order. Return how many."""
    size = 0
    for k in range(row.size):
        found[size] = k
        size += 1 if row[k] >= least else 0
    kept = 0
    for i in range(size):
        score = row[found[i]]
        if kept == topics.size and not score > shares[kept - 1]:
            continue
        place = kept if kept < topics.size else kept - 1
        while place > 0 and shares[place - 1] < score:
            shares[place] = shares[place - 1]
            topics[place] = topics[place - 1]
            place -= 1
        shares[place] = score
        topics[place] = found[i]
        kept = min(kept + 1, topics.size)
    return kept


@kernel()
def best_topics(
    scores: Mat,
    bias: Mat,
    starts: IntVec,
    groups: Labels,
    counts: Vec,
    topics: Labels,
    shares: Mat,
    log_norm: Vec,
) -> None:
    """The best few topics of each item, with shares that are optimal among these few.

    Parameters
    ----------
    scores : (n_items, n_topics)
        Mean feature of the item times natural parameters.
    bias : (n_groups, n_topics)
        Constants of the topics, and expected log weights in each group.
    starts, groups, counts
        Points of each item by group; `starts` need not begin at 0.
    topics, shares : (n_items, width)
        Out.
    log_norm : (n_items,)
        Out: log sum of exponentials of the kept scores, per point of the item.
    """
    n_items, n_topics = scores.shape
    row = np.empty(n_topics)
    found = np.empty(n_topics + 1, np.int64)
    for c in range(n_items):
        peak = _peak(scores[c], bias, groups, counts, starts[c], starts[c + 1], row)
        kept = _keep(row, peak - WINDOW, found, topics[c], shares[c])
        total = 0.0
        for i in range(kept):
            shares[c, i] = math.exp(shares[c, i] - peak)
            total += shares[c, i]
        for i in range(kept):
            shares[c, i] /= total
        shares[c, kept:] = 0.0
        topics[c, kept:] = 0
        log_norm[c] = peak + math.log(total)


@kernel(FUSED)
def summarize(
    topics: Labels,
    shares: Mat,
    features: Mat,
    mass: Vec,
    starts: IntVec,
    groups: Labels,
    counts: Vec,
    n: Vec,
    t: Mat,
    group_counts: Mat,
) -> float:
    """Add the statistics of all items to `n`, `t` and `group_counts`. Return the entropy.

    n : (n_topics,), t : (n_topics, n_stats), group_counts : (n_groups, n_topics)
    """
    entropy = 0.0
    for c in range(mass.size):
        for i in range(shares.shape[1]):
            q = shares[c, i]
            if q == 0.0:
                break
            k = topics[c, i]
            weight = q * mass[c]
            n[k] += weight
            entropy -= weight * math.log(q)
            for p in range(features.shape[1]):
                t[k, p] += weight * features[c, p]
            for e in range(starts[c], starts[c + 1]):
                group_counts[groups[e], k] += q * counts[e]
    return entropy


@kernel()
def by_topic(
    topics: Labels, shares: Mat, places: Labels, n_places: int
) -> tuple[IntVec, Labels, Vec]:
    """Items and shares sorted by the place of their topic. Topics at place -1 are left out.

    Returns starts (n_places + 1,), items and shares; those of place k are at
    starts[k] : starts[k + 1].
    """
    starts = np.zeros(n_places + 1, np.int64)
    for c in range(topics.shape[0]):
        for i in range(topics.shape[1]):
            if shares[c, i] == 0.0:
                break
            k = places[topics[c, i]]
            if k >= 0:
                starts[k + 1] += 1
    for k in range(starts.size - 1):
        starts[k + 1] += starts[k]
    cursor = starts[:-1].copy()
    items, each = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for c in range(topics.shape[0]):
        for i in range(topics.shape[1]):
            if shares[c, i] == 0.0:
                break
            k = places[topics[c, i]]
            if k >= 0:
                items[cursor[k]] = c
                each[cursor[k]] = shares[c, i]
                cursor[k] += 1
    return starts, items, each


@kernel(SUMMED)
def split_shares(
    first: int,
    last: int,
    hard: bool,
    topic_starts: IntVec,
    members: Labels,
    each: Vec,
    features: Mat,
    mass: Vec,
    starts: IntVec,
    groups: Labels,
    counts: Vec,
    slope: Mat,
    offset: Vec,
    tilt: Mat,
    n: Vec,
    t: Mat,
    group_counts: Mat,
    entropy: Vec,
) -> None:
    """Divide topics `first` to `last - 1` in two, and sum up the first halves.

    The first half of topic k gets the share g = sigmoid(slope_k . feature + offset_k + tilt_k .
    groups) of the item's share in topic k. With `hard`, it gets all or nothing, by the sign.

    Parameters
    ----------
    topic_starts, members, each
        Assignments sorted by topic.
    slope, offset : (n_topics, n_stats), (n_topics,)
    tilt : (n_topics, n_groups)
    n, t, group_counts
        Out: statistics of the first half of each topic, the latter (n_topics, n_groups).
    entropy : (n_topics,)
        Out: entropy of the division.
    """
    n_stats = features.shape[1]
    for k in range(first, last):
        n[k] = 0.0
        entropy[k] = 0.0
        t[k] = 0.0
        group_counts[k] = 0.0
        for j in range(topic_starts[k], topic_starts[k + 1]):
            c = members[j]
            score = offset[k]
            for p in range(n_stats):
                score += slope[k, p] * features[c, p]
            if starts[c + 1] == starts[c] + 1:
                score += tilt[k, groups[starts[c]]]
            else:
                lean = 0.0
                for e in range(starts[c], starts[c + 1]):
                    lean += counts[e] * tilt[k, groups[e]]
                score += lean / mass[c]
            g = (1.0 if score > 0.0 else 0.0) if hard else 1.0 / (1.0 + math.exp(-score))
            if g == 0.0:
                continue
            if g < 1.0:
                h = -g * math.log(g) - (1.0 - g) * math.log1p(-g)
                entropy[k] += mass[c] * each[j] * h
            weight = mass[c] * each[j] * g
            n[k] += weight
            for p in range(n_stats):
                t[k, p] += weight * features[c, p]
            for e in range(starts[c], starts[c + 1]):
                group_counts[k, groups[e]] += each[j] * g * counts[e]


@kernel()
def joint_entropy(
    topics: Labels,
    shares: Mat,
    mass: Vec,
    partner_starts: IntVec,
    partners: Labels,
    loss: Vec,
) -> None:
    """Add to `loss` the entropy lost by joining each pair of topics j < k.

    The partners k of topic j are partners[partner_starts[j] : partner_starts[j + 1]], ascending.
    `loss` has an entry for each partner.
    """
    for c in range(mass.size):
        for i in range(shares.shape[1]):
            a = shares[c, i]
            if a == 0.0:
                break
            for j in range(i + 1, shares.shape[1]):
                b = shares[c, j]
                if b == 0.0:
                    break
                low = min(topics[c, i], topics[c, j])
                high = max(topics[c, i], topics[c, j])
                for e in range(partner_starts[low], partner_starts[low + 1]):
                    if partners[e] == high:
                        both = (a + b) * math.log1p(b / a) + b * (math.log(a) - math.log(b))
                        loss[e] += mass[c] * both
                        break


@kernel()
def best_path_scores(scores: Mat, log_weights: Mat, out: Vec) -> None:
    """out[j] = sum over points i of max over topics k of scores[i, k] + log_weights[j, k].

    scores : (n_points, n_topics); log_weights : (n_mixtures, n_topics); out : (n_mixtures,)
    """
    for j in range(out.size):
        total = 0.0
        for i in range(scores.shape[0]):
            best = to_rank(np.float64(-np.inf))
            for k in range(scores.shape[1]):
                rank = to_rank(scores[i, k] + log_weights[j, k])
                best = rank if rank > best else best
            total += from_rank(best)
        out[j] = total
