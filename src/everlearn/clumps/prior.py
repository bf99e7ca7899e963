"""The state before the first epoch: the family with its prior, and the price of a topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import numpy as np

from everlearn.clumps.model import GroupedModel
from everlearn.clumps.settings import ClumpSettings
from everlearn.clumps.state import ClumpedState, Epoch
from everlearn.core.arrays import Mat
from everlearn.core.families.base import Family
from everlearn.core.priors.learned_dirichlet import LearnedDirichlet
from everlearn.engine.rows import Rows
from everlearn.estimator.base import named_errors
from everlearn.estimator.families import DataSummary, Moments, resolve_family

PRICE_PER_NUMBER: Final = 0.015
"""`topic_price="auto"`: nats per number in an average document, see docs/ask/clumps.md."""
_WITHIN_SHARE: Final = 0.1
"""The default prior expects a topic to have this share of the variance of all points."""
_MEAN_PRECISION: Final = 0.1


def fresh_state(settings: ClumpSettings, epoch: Epoch) -> ClumpedState:
    """The state before the first epoch, with a prior and a price that suit it."""
    with named_errors(settings.owner, "prior"):
        family = family_for(settings.family, settings.prior, np.concatenate(epoch.parts))
    price = _price(settings, epoch)
    state = ClumpedState.fresh(GroupedModel(family, LearnedDirichlet()), price)
    tracked = np.empty(0, np.int32) if settings.track_documents else None
    return replace(state, document_groups=tracked)


def _price(settings: ClumpSettings, epoch: Epoch) -> float:
    """Nats by which a topic must raise the bound."""
    if settings.topic_price == "auto":
        # A row of counts is one number: its entries are shares of one total.
        width = 1 if settings.family == "multinomial" else epoch.parts[0].shape[1]
        return float(PRICE_PER_NUMBER * (epoch.n_points * width) / epoch.n_documents)
    return float(settings.topic_price)


def family_for(family: str, prior: str | Mapping[str, Any], X: Mat) -> Family[Any]:
    """The family of topics. Entries missing in `prior` follow from the points X."""
    rows = Rows(X)
    given = {} if isinstance(prior, str) else dict(prior)
    d = X.shape[1]
    if family == "multinomial":
        return resolve_family(family, given, DataSummary.from_rows(rows))
    moments = Moments.of(rows)
    within = _WITHIN_SHARE * moments.variance
    defaults = {"mean": moments.mean, "mean_precision": _MEAN_PRECISION}
    if family == "full":
        defaults |= {"degrees_of_freedom": d + 2.0, "scale": np.diag(within)}
    else:
        defaults |= {"shape": 1.5, "rate": 0.5 * within}
    return resolve_family(family, defaults | given, DataSummary.from_rows(rows))
