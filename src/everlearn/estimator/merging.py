"""`merge`: one model from several that were learned apart, from different data.

A model can be merged if what it keeps is a sum over its data. The sum of two models is then what
one model would keep of both sets of data. Components are matched by their permanent ids if the
models have a common base, and otherwise by the bound or the evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from sklearn.base import BaseEstimator, clone

from everlearn.estimator.merge_checks import check_alike, listed
from everlearn.registry import BY_KEY, imported

Model = TypeVar("Model", bound=BaseEstimator)
"""The class of the models, which is that of the result."""


def merge(models: Sequence[Model], base: Model | None = None) -> Model:
    """One model of all the data that several models were learned from.

    Works where what a model keeps is a sum over its data: `DPMixture` unless it is stochastic,
    `TopicModel` and MedLDA models with a given number of topics, the latter with ``loss="gibbs"``,
    `OnlinePPCA` with a constraint on moments, and the linear passive-aggressive models with
    ``loss="gibbs"`` and full covariances. Others are refused.

    Parameters
    ----------
    models : sequence of estimators
        At least two, fitted, of the same class and with the same parameters, features and
        classes.
    base : estimator or None, default=None
        The model that all of them began from, as it was then, if they did: its data count once,
        and components are matched by their permanent ids. Without it they are matched by what
        the bound, or the evidence of the words, gains.

    Returns
    -------
    estimator
        A new one; the models stay as they are. Prior, seed and names are those of the first.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import DPMixture, merge
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(c, 1, (200, 2)) for c in (-9, 0, 9)])
    >>> rng.shuffle(X)
    >>> shards = [DPMixture(random_state=0).fit(part) for part in (X[:300], X[300:])]
    >>> both = merge(shards)
    >>> both.n_components_, both.n_samples_seen_
    (3, 600)
    """
    models = listed(models)
    check_alike(models, base)
    merge_function = imported(BY_KEY[models[0].checkpoint_key].merge or "")
    new: Model = clone(models[0])
    new.__dict__.update(models[0].__dict__)
    new._learned = merge_function(models, base)
    return new
