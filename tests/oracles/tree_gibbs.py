"""Slow, plain forms of what a tree of topics computes."""

import itertools

import numpy as np
from scipy.special import gammaln, psi


def dirichlet_multinomial(counts, prior):
    """Log-probability of tokens in a given order from one Dirichlet."""
    counts, prior = np.asarray(counts, float), np.asarray(prior, float)
    found = gammaln(prior.sum()) - gammaln(prior.sum() + counts.sum())
    return found + (gammaln(prior + counts) - gammaln(prior)).sum()


def seating(paths, gamma):
    """Log-probability of paths, customer after customer, each path a tuple of labels."""
    found = 0.0
    seen = {}
    for path in paths:
        for level in range(1, len(path)):
            room = path[:level]
            tables = seen.setdefault(room, {})
            total = sum(tables.values())
            at = tables.get(path[level], 0)
            found += np.log((at if at else gamma) / (total + gamma))
            tables[path[level]] = at + 1
    return found


def log_joint(documents, levels, paths, alpha, word_prior, gamma, n_words):
    """Log-probability of words, levels and paths from first principles."""
    nodes = {}
    found = seating(paths, gamma)
    for words, own, path in zip(documents, levels, paths, strict=True):
        tally = np.zeros(len(alpha))
        for word, level in zip(words, own, strict=True):
            tally[level] += 1
            node = path[: level + 1]
            nodes.setdefault(node, np.zeros(n_words))[word] += 1
        found += dirichlet_multinomial(tally, alpha)
    return found + sum(
        dirichlet_multinomial(c, np.full(n_words, word_prior)) for c in nodes.values()
    )


def slot_scores(counts, paths, log_topics, unseen, alpha, steps):
    """Score of each slot for one document by plain iteration; (scores, levels)."""
    scores, all_g = [], []
    n = counts.sum()
    for path in paths:
        logs = np.stack(
            [log_topics[node] if node >= 0 else np.full(len(counts), unseen) for node in path]
        )
        g = alpha * (1.0 + n / alpha.sum())
        for _ in range(steps):
            expected = psi(g) - psi(g.sum())
            weights = np.exp(expected[:, None] + logs)
            g = alpha + (counts * weights / weights.sum(axis=0)).sum(axis=1)
        expected = psi(g) - psi(g.sum())
        mixed = np.log(np.exp(expected[:, None] + logs).sum(axis=0))
        scores.append(counts @ mixed - divergence(g, alpha))
        all_g.append(g)
    return np.array(scores), np.array(all_g)


def divergence(g, alpha):
    """KL(Dir(g) || Dir(alpha))."""
    found = gammaln(g.sum()) - gammaln(g).sum() - gammaln(alpha.sum()) + gammaln(alpha).sum()
    return found + ((g - alpha) * (psi(g) - psi(g.sum()))).sum()


def compositions(n, k):
    """All ways to share n tokens among k levels."""
    return [c for c in itertools.product(range(n + 1), repeat=k) if sum(c) == n]
