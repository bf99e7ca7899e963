"""Plain twins of the kernels of `mixture/kernels.py`, in float64."""

import numpy as np


def softmax_entropy(scores, bias, weights):
    """(responsibilities, log_norm, labels, entropy), from the sums as their dtype rounds them."""
    biased = (scores + bias).astype(np.float64)
    peaks = biased.max(axis=1, keepdims=True)
    depths = biased - peaks
    log_totals = np.log(np.exp(depths).sum(axis=1, keepdims=True))
    r = np.exp(depths - log_totals)
    r[r < 1e-30] = 0.0
    surprise = np.where(r > 0.0, log_totals - depths, 0.0)
    entropy = row_weights(weights, len(r)) @ (r * surprise)
    return r, (peaks + log_totals)[:, 0], biased.argmax(axis=1), entropy


def pair_entropy_loss(responsibilities, weights, pairs):
    """sum_n w_n ((a+b) log(a+b) - a log a - b log b) for each pair (j, k)."""
    w = row_weights(weights, len(responsibilities))
    loss = np.zeros(len(pairs))
    for p, (j, k) in enumerate(pairs):
        a, b = responsibilities[:, [j, k]].T.astype(np.float64)
        seen = (a >= 1e-14) & (b >= 1e-14)
        loss[p] = w[seen] @ (negentropy(a + b) - negentropy(a) - negentropy(b))[seen]
    return loss


def negentropy(x):
    """x log x, zero at zero."""
    return x * np.log(np.where(x > 0.0, x, 1.0))


def row_weights(weights, n_items):
    """Ones where there are no weights."""
    return weights if len(weights) else np.ones(n_items)
