"""Items (points or clumps) and their few likely topics: scores in, sparse assignments out.

An item keeps at most `width` topics, those within `WINDOW` nats of its best, largest first, and
zeros behind them. Its points lie in one or more groups of documents: entries
`starts[c] : starts[c + 1]` of `groups` and `counts`. All arrays are C-contiguous.
"""

import math

import numpy as np

from everlearn.core.arrays import IntVec, Labels, Mat, Vec
from everlearn.inference.kernels._jit import FUSED, SUMMED, kernel
from everlearn.inference.kernels.scalars import from_rank, to_rank

WINDOW = 24.0
"""Nats below the best topic at which a topic is left out: too little for the bound to notice."""


@kernel(FUSED)
def _peak(
    scores: Vec, bias: Mat, groups: Labels, counts: Vec, start: int, end: int, row: Vec
) -> np.float64:
    """Biased scores of one item into `row`, and the largest of them."""
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
    """The largest scores of at least `least`, largest first, and how many they are."""
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
        The points of each item in groups; starts may begin anywhere, since items may be a part
        of all.
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
    """Add the statistics of all items to `n`, `t` and `group_counts`; the entropy is returned.

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
    """Assignments sorted by the place of their topic; those of topics at -1 are left out.

    Returns starts (n_places + 1,), and the item and the share of each entry: those of place k are
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
    """Divide topics `first` to `last` in two, and sum what the first half gets.

    An item of topic k gives the share g = sigmoid(slope_k . feature + offset_k + tilt_k . groups)
    of what it gives to the topic to the first half; with `hard` all of it or nothing, by sign.

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
    """Entropy lost if two topics were one, for pairs j < k: k among the partners of j.

    partner_starts, partners : entries partner_starts[j] : partner_starts[j + 1] are j's partners,
    ascending; loss : (n_pairs,) added to, aligned with `partners`.
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
