"""Slow, plain ways to say what a tree of components believes of a row."""

import itertools

import numpy as np


def expected_log_likelihood(model, q, slot, t, x):
    """E log p(t | path of the slot, coordinates x) + log p(x), term by term."""
    path = q.tree.paths[slot]
    d = model.n_features
    error = d * q.centre_variance
    rest = t - q.centre
    for level, node in enumerate(path):
        if node >= 0:
            rest = rest - q.mean[node] * x[level]
    error += rest @ rest
    for a, b in itertools.product(range(len(path)), repeat=2):
        if path[a] >= 0 and path[b] >= 0:
            error += d * q.covariance[path[a], path[b]] * x[a] * x[b]
        elif a == b:
            error += d * model.scale * x[a] ** 2
    likelihood = 0.5 * d * (q.log_precision - np.log(2 * np.pi)) - 0.5 * q.precision * error
    return likelihood - 0.5 * x @ x - 0.5 * len(x) * np.log(2 * np.pi)


def slot_evidence(model, q, slot, t, points=60):
    """Log of the integral of exp(E log p(t, x | slot)) over x, by sums over a grid.

    Under mean field in the loadings this is the best that any q(x) can do.
    """
    depth = q.tree.depth
    precision = np.eye(depth)
    pull = np.zeros(depth)
    for a in range(depth):
        for b in range(depth):
            i, j = q.tree.paths[slot, a], q.tree.paths[slot, b]
            if i >= 0 and j >= 0:
                product = q.mean[i] @ q.mean[j] + model.n_features * q.covariance[i, j]
                precision[a, b] += q.precision * product
            elif a == b:
                precision[a, b] += q.precision * model.n_features * model.scale
        if q.tree.paths[slot, a] >= 0:
            pull[a] = q.precision * q.mean[q.tree.paths[slot, a]] @ (t - q.centre)
    middle = np.linalg.solve(precision, pull)
    wide = 8.0 * np.sqrt(np.diagonal(np.linalg.inv(precision)))
    axes = [np.linspace(m - w, m + w, points) for m, w in zip(middle, wide, strict=True)]
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    values = [
        expected_log_likelihood(model, q, slot, t, np.array(x)) for x in itertools.product(*axes)
    ]
    top = max(values)
    return top + np.log(np.sum(np.exp(np.array(values) - top)) * cell), middle


def plain_sums(model, q, slots, X):
    """Statistics of rows by loops over rows, slots and levels: masses, codes, second, cross."""
    k = len(q.tree)
    mass, codes = np.zeros(k), np.zeros(k)
    second, cross = np.zeros((k, k)), np.zeros((k, X.shape[1]))
    for t in X:
        scores = np.empty(k)
        means, covariances = [], []
        for s in range(k):
            path = q.tree.paths[s][q.tree.paths[s] >= 0]
            own = q.mean[path]
            a = own @ own.T + model.n_features * q.covariance[np.ix_(path, path)]
            covariance = np.linalg.inv(np.eye(len(path)) + q.precision * a)
            mean = covariance @ (q.precision * own @ (t - q.centre))
            n_unseen = q.tree.depth - len(path)
            charge = n_unseen * np.log(1 + q.precision * model.n_features * model.scale)
            scores[s] = slots.weights[s] + 0.5 * np.linalg.slogdet(covariance)[1]
            scores[s] += 0.5 * mean @ np.linalg.solve(covariance, mean) - 0.5 * charge
            means.append(mean)
            covariances.append(covariance)
        r = np.exp(scores - scores.max())
        r /= r.sum()
        mass += r
        for s in range(k):
            path = q.tree.paths[s][q.tree.paths[s] >= 0]
            codes[path] += r[s] * means[s]
            cross[path] += r[s] * np.outer(means[s], t)
            second[np.ix_(path, path)] += r[s] * (covariances[s] + np.outer(means[s], means[s]))
    return mass, codes, second, cross
