"""Find strangers: rows that a new component would explain better than any existing one.

A few of them are outliers. Many of them are a new kind of rows, so the search for components is
renewed at once. Without that a new kind would wait until half of the window is new.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import Table, Vec
from everlearn.core.families.base import Family
from everlearn.core.stats import Stats
from everlearn.engine.rows import Rows
from everlearn.mixture.model import Mixture, MixturePosterior

_LEAST: Final = 20.0
"""Weight of strangers that starts a search, at least."""
_PER_ROOT: Final = 4.0
"""The same per square root of the statistics of a component: large components need more rows."""


@dataclass(frozen=True, slots=True)
class StrangerDetector:
    """Finds the strangers among rows, by predictive densities under a mixture.

    Attributes
    ----------
    scores : posterior of the mixture. Its scores are lower bounds of the densities, and quick
    known, unseen : parameters of the components, and of a new one: the prior
    log_weights : log of the expected weights of the components
    log_unseen : log of the expected weight of all components that have no rows yet
    """

    scores: MixturePosterior
    known: Any
    unseen: Any
    log_weights: Vec
    log_unseen: float

    @classmethod
    def of(cls, model: Mixture, stats: Stats) -> StrangerDetector:
        """The detector for the mixture with these statistics."""
        weights, unseen = model.sticks(stats).mean_weights()
        nothing = np.zeros(1), np.zeros((1, model.family.n_stats))
        with np.errstate(divide="ignore"):  # a concentration near zero leaves nothing unseen
            return cls(
                model.posterior(stats),
                model.family.posterior(stats.n, stats.t),
                model.family.posterior(*nothing),
                np.log(weights),
                float(np.log(unseen)),
            )

    def strangers(
        self, family: Family[Any], rows: Rows, features: Table, log_base: Vec
    ) -> NDArray[np.intp]:
        """Positions of the strangers. The quick scores already rule out most rows."""
        new = self.log_unseen + family.log_predictive(rows.X, self.unseen)[:, 0]
        scores = features @ self.scores.eta.astype(features.dtype, copy=False).T
        scores += self.scores.bias.astype(features.dtype, copy=False)
        maybe = np.flatnonzero(new > scores.max(axis=1) + log_base)
        if len(maybe) == 0:
            return maybe
        known = self.log_weights + family.log_predictive(rows.X[maybe], self.known)
        return np.asarray(maybe[new[maybe] > known.max(axis=1)], np.intp)


@dataclass(frozen=True, slots=True)
class Strangers:
    """Strangers that came since the last search.

    Attributes
    ----------
    mass : their weight, by the id of the component that took them
    n_futile : how often the limit was doubled, because a search for them was in vain
    """

    mass: Mapping[int, float]
    n_futile: int = 0

    def with_more(self, stats: Stats, mass: Vec) -> Strangers:
        """After more strangers: `mass` is their weight at each component of `stats`."""
        more = dict(self.mass)
        for component, own in zip(stats.ids.tolist(), mass.tolist(), strict=True):
            if own > 0.0:
                more[component] = more.get(component, 0.0) + own
        return Strangers(more, self.n_futile)

    def are_many(self, n_stats: int) -> bool:
        """Whether they are enough to search for components. `n_stats` is that of a component."""
        return sum(self.mass.values()) > self._limit(n_stats)

    def after_search(self, n_stats: int, *, born: bool) -> Strangers:
        """Start counting again, after a search that has or has not found a component.

        Each search in vain doubles the limit, and few strangers halve it again. So the limit
        adapts to data with many outliers.
        """
        n = self.n_futile
        if born:
            n = 0
        elif self.are_many(n_stats):
            n += 1
        elif n > 0 and 4.0 * sum(self.mass.values()) <= self._limit(n_stats):
            n -= 1
        return Strangers({}, n)

    def _limit(self, n_stats: int) -> float:
        return float(max(_LEAST, _PER_ROOT * np.sqrt(n_stats)) * 2.0**self.n_futile)


NO_STRANGERS: Final = Strangers({})
