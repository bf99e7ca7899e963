"""Max-margin topic models by their definitions: sums over all topics of all tokens, and loops.

Equation numbers are those of Shi and Zhu, Online Bayesian Passive-Aggressive Learning. A document
is a list of words, its topics a list of the same length; None is a token without a topic yet.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import gammaln

MASK = (1 << 64) - 1


# Joint densities, up to a constant ---------------------------------------------------------------


def tally(z: Sequence[int | None], n_topics: int) -> np.ndarray:
    return np.array([sum(k == topic for k in z) for topic in range(n_topics)], float)


def log_allocation(z, alpha) -> float:
    """log p(z) with the topic proportions integrated out."""
    counts = tally(z, len(alpha))
    total = gammaln(np.sum(alpha)) - gammaln(np.sum(alpha) + counts.sum())
    return float(total + np.sum(gammaln(alpha + counts) - gammaln(alpha)))


def log_words(words, z, factors) -> float:
    """Sum of the logarithms of the word factors (n_words, n_topics)."""
    return sum(math.log(factors[w][k]) for w, k in zip(words, z, strict=True) if k is not None)


def log_words_collapsed(documents, topics, delta) -> float:
    """log p(all words | all topics) with Dirichlet topics delta (n_words, n_topics) integrated."""
    after = np.array(delta, float)
    for words, z in zip(documents, topics, strict=True):
        for w, k in zip(words, z, strict=True):
            if k is not None:
                after[w, k] += 1.0
    before = np.asarray(delta)
    gained = gammaln(after).sum() - gammaln(before).sum()
    return float(gained - (gammaln(after.sum(0)) - gammaln(before.sum(0))).sum())


def log_averaging(z, signs, multipliers, mean) -> float:
    """The label term of (25), whole document: sum_q y_q tau_q mu_q . z."""
    frequencies = tally(z, mean.shape[1]) / len(z)
    tasks = zip(signs, multipliers, mean, strict=True)
    return float(sum(y * t * (m @ frequencies) for y, t, m in tasks))


@dataclass(frozen=True)
class GibbsLabels:
    """Hinges (offset - sign w . z)_+ of one document, w ~ N(mean, covariance), of weight 2c."""

    signs: np.ndarray
    offsets: np.ndarray
    mean: np.ndarray
    covariance: np.ndarray
    c: float

    def slacks(self, z):
        """Mean and variance of offset - sign w . z for each task with a label, and its number."""
        frequencies = tally(z, self.mean.shape[1]) / len(z)
        for q, sign in enumerate(self.signs):
            if sign != 0:
                slack = self.offsets[q] - sign * (self.mean[q] @ frequencies)
                yield q, slack, frequencies @ self.covariance[q] @ frequencies

    def log_given(self, z, inverses) -> float:
        """The label term of (29), whole document: -E_w[(lambda + c zeta)^2] / (2 lambda)."""
        total = 0.0
        for q, slack, variance in self.slacks(z):
            lam = 1.0 / inverses[q]
            total -= ((lam + self.c * slack) ** 2 + self.c**2 * variance) / (2.0 * lam)
        return total

    def log_marginal(self, z) -> float:
        """The same with the augmentation variables integrated out."""
        return sum(-self.c * (s + math.sqrt(s * s + v)) for _, s, v in self.slacks(z))

    def inverse_means(self, z) -> np.ndarray:
        """Means of 1 / lambda (30); 0 without a label."""
        means = np.zeros(len(self.signs))
        for q, slack, variance in self.slacks(z):
            means[q] = 1.0 / (self.c * math.sqrt(slack * slack + variance))
        return means


def conditional(log_joint: Callable[[list], float], z, i: int, n_topics: int) -> np.ndarray:
    """p(z_i | the others) from the joint density."""
    logs = np.array([log_joint([*z[:i], k, *z[i + 1 :]]) for k in range(n_topics)])
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def distribution(log_joint: Callable[[tuple], float], n: int, n_topics: int) -> np.ndarray:
    """Probabilities of all topics of n tokens, with one axis for each token."""
    logs = np.array([log_joint(z) for z in product(range(n_topics), repeat=n)])
    weights = np.exp(logs - logs.max())
    return (weights / weights.sum()).reshape((n_topics,) * n)


# Random streams and the samplers, token by token -------------------------------------------------


class Stream:
    """The random numbers that kernels draw, with Python's integers."""

    def __init__(self, word) -> None:
        self.word = int(word)

    def uniform(self) -> float:
        self.word ^= (self.word << 13) & MASK
        self.word ^= self.word >> 7
        self.word ^= (self.word << 17) & MASK
        return ((self.word * 0x2545F4914F6CDD1D) & MASK) / 2.0**64

    def inverse_gaussian(self, mean: float) -> float:
        """Michael, Schucany and Haas (1976) as printed, shape 1."""
        first, second, third = self.uniform(), self.uniform(), self.uniform()
        normal = math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second)
        y = mean * normal**2
        x = mean + 0.5 * mean * (y - math.sqrt(4.0 * y + y * y))
        return x if third <= mean / (mean + x) else mean**2 / x


def picked(probabilities: np.ndarray, u: float, likely: int) -> int:
    """The topic at u, with the likely one in front of all others."""
    order = [likely, *(k for k in range(len(probabilities)) if k != likely)]
    return order[min(int(np.sum(np.cumsum(probabilities[order]) <= u)), len(order) - 1)]


def started(before, factors, alpha, u: float) -> int:
    """The topic at u of a word with these factors, after tokens whose topics are `before`.

    Topics that the document has come first, in the order in which they came, by their tokens;
    then all topics by the prior.
    """
    order = list(dict.fromkeys(before))
    counts = tally(before, len(alpha))
    weights = np.concatenate([counts[order] * factors[order], alpha * factors])
    place = min(int(np.sum(np.cumsum(weights) / weights.sum() <= u)), len(weights) - 1)
    return [*order, *range(len(alpha))][place]


def gibbs_path(words, factors, alpha, labels, key, n_sweeps, start, tilt=1.0, mean_only=False):
    """Topics and 1 / lambda of one document after each sweep under the Gibbs loss.

    A predictive start has a tilt (K,).
    """
    stream, n_topics = Stream(key), len(alpha)
    if not words:
        return []

    def draw_inverses(z):
        means = labels.inverse_means(z)
        if mean_only:
            return means
        return np.array([stream.inverse_gaussian(m) if m > 0 else 0.0 for m in means])

    def without_labels(z):
        return log_allocation(z, alpha) + log_words(words, z, factors)

    z = [None] * len(words)
    for i in range(len(words)):
        u = stream.uniform()
        uniform = int(u * n_topics)
        z[i] = uniform if start == "uniform" else started(z[:i], tilt * factors[words[i]], alpha, u)
    inverses, path = draw_inverses(z), []
    for _ in range(n_sweeps):
        for i in range(len(words)):
            p = conditional(
                lambda z, given=inverses: without_labels(z) + labels.log_given(z, given),
                z,
                i,
                n_topics,
            )
            z[i] = picked(p, stream.uniform(), z[i])
        inverses = draw_inverses(z)
        path.append((list(z), inverses))
    return path


def collapsed_path(
    documents, delta, alpha, log_labels, after, streams, n_sweeps, start, after_sweep=None
):
    """Topics of all documents after each sweep (the start is the first), words collapsed.

    `log_labels(d, z)` is the label term of document d; `after(d, z)` is called when it is done,
    `after_sweep(topics)`, which may change `alpha`, when all are.
    """
    n_topics = len(alpha)
    topics = [[None] * len(words) for words in documents]

    def log_joint(d, z, supervised):
        others = [z if e == d else topics[e] for e in range(len(documents))]
        label = log_labels(d, z) if supervised else 0.0
        return log_allocation(z, alpha) + log_words_collapsed(documents, others, delta) + label

    path = []
    for sweep in range(n_sweeps + 1):
        for d, words in enumerate(documents):
            for i in range(len(words)):
                u = streams[d].uniform()
                p = conditional(
                    lambda z, d=d, late=sweep > 0: log_joint(d, z, late), topics[d], i, n_topics
                )
                old = 0 if sweep == 0 else topics[d][i]
                uniform = sweep == 0 and start == "uniform"
                topics[d][i] = int(u * n_topics) if uniform else picked(p, u, old)
            if words:
                after(d, topics[d])
        path.append([list(z) for z in topics])
        if after_sweep is not None:
            after_sweep(topics)
    return path


# Closed forms and statistics ---------------------------------------------------------------------


def multiplier_alone(margin, sign, mu, z, variance, box) -> float:
    """The multiplier of a document that comes alone (spec 4.2 d)."""
    if sign == 0:
        return 0.0
    return min(box, max(0.0, margin - sign * float(mu @ z)) / (variance * float(z @ z)))


def gibbs_statistics(z, inverses, signs, offsets, c, ghosts):
    """What (28) adds to precision and shift of each task, by loops over kept sweeps.

    z (kept, B, K), inverses (kept, B, Q), signs and offsets (B, Q).
    """
    n_kept, n, k = z.shape
    n_tasks = signs.shape[1]
    precision, shift = np.zeros((n_tasks, k, k)), np.zeros((n_tasks, k))
    for q in range(n_tasks):
        for j in range(n_kept):
            for d in range(n):
                y, x, inverse = signs[d, q], z[j, d], inverses[j, d, q]
                if y != 0:
                    precision[q] += c**2 * inverse * np.outer(x, x)
                    shift[q] += c * y * (1.0 + c * offsets[d, q] * inverse) * x
    return ghosts / n_kept * precision, ghosts / n_kept * shift


def word_counts(documents, kept, n_words, n_topics) -> np.ndarray:
    """Tokens of each word in each topic, added up over kept sweeps (19)."""
    counts = np.zeros((n_words, n_topics))
    for topics in kept:
        tokens = [w for words in documents for w in words]
        for w, k in zip(tokens, topics, strict=True):
            counts[w, k] += 1.0
    return counts


def stick_weights(tables, eta):
    """Means of sticks Beta(u_k, v_k) of (35), largest topics first; what is left."""
    order = sorted((k for k in range(len(tables)) if tables[k] > 0), key=lambda k: -tables[k])
    weights, left = np.zeros(len(tables)), 1.0
    for place, k in enumerate(order):
        u, v = 1.0 + tables[k], eta + sum(tables[j] for j in order[place + 1 :])
        weights[k] = left * u / (u + v)
        left *= v / (u + v)
    return weights, left


def stirling(n: int) -> list[int]:
    """Unsigned Stirling numbers of the first kind S(n, 0), ..., S(n, n)."""
    row = [1]
    for m in range(n):
        row = [m * b + a for a, b in zip([0, *row], [*row, 0], strict=True)]
    return row


def table_law(n: int, alpha: float) -> np.ndarray:
    """Probabilities of 0, ..., n tables (41)."""
    rising = math.prod(alpha + m for m in range(n))
    return np.array([s * alpha**tables / rising for tables, s in enumerate(stirling(n))])


def drawn_tables(z, alpha, stream) -> np.ndarray:
    """Tables of a document: each token of a topic opens one, or sits down at one."""
    tables = np.zeros(len(alpha))
    for k, customers in enumerate(tally(z, len(alpha)).astype(int)):
        for m in range(customers):
            tables[k] += stream.uniform() < alpha[k] / (alpha[k] + m)
    return tables


def cvb0(counts: dict[int, int], factors, alpha, n_passes: int) -> np.ndarray:
    """Topic proportions of a document given as {word: count} (spec 9)."""
    if not counts:
        return np.asarray(alpha) / np.sum(alpha)
    shares = {}
    for w in counts:
        start = np.asarray(alpha) * factors[w]
        shares[w] = start / start.sum()
    for _ in range(n_passes):
        for w in counts:
            rest = np.asarray(alpha) - shares[w] + sum(counts[v] * shares[v] for v in counts)
            fresh = rest * factors[w]
            shares[w] = fresh / fresh.sum()
    expected = sum(counts[w] * shares[w] for w in counts)
    return expected / sum(counts.values())


def deviations(observed: np.ndarray, probabilities: np.ndarray) -> float:
    """How many standard deviations a chi-square lies above its mean."""
    expected = observed.sum() * probabilities.ravel()
    possible = expected > 0
    assert not observed.ravel()[~possible].any()
    cells = int(possible.sum()) - 1
    gaps = (observed.ravel() - expected)[possible] ** 2 / expected[possible]
    return float((gaps.sum() - cells) / math.sqrt(2.0 * cells))
