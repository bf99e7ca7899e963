"""Fitted attributes of models whose components have a conjugate family."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.families.base import Family
from everlearn.estimator.history import History


class Components(Protocol):
    """Permanent ids, masses and feature sums of components."""

    @property
    def ids(self) -> IntVec:
        """Permanent ids."""

    @property
    def n(self) -> Vec:
        """Masses."""

    @property
    def t(self) -> Mat:
        """Sums of the family's features."""


class ComponentAttributes:
    """Fitted attributes that are computed from the statistics on access."""

    _learned: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _components(self) -> tuple[Family[Any], Components]:
        """The family and the statistics of all components."""
        raise NotImplementedError

    @property
    def n_components_(self) -> int:
        """Components in use."""
        return len(self._components()[1].ids)

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the components."""
        return self._components()[1].ids.copy()

    @property
    def means_(self) -> Mat:
        """Expected mean of each component; for counts, the probability of each symbol."""
        family, found = self._components()
        return family.means(family.posterior(found.n, found.t))

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Inverse expected precision: (K, D) if diagonal, (K, D, D) if full."""
        family, found = self._components()
        return family.covariances(family.posterior(found.n, found.t))

    @property
    def bound_history_(self) -> Vec:
        """The bound after each lap or epoch."""
        return self.history_.curve[:, 2].copy()

    @property
    def history_(self) -> History:
        """What learning did: rows or points seen, bound and components along the way, and moves."""
        self._components()
        history: History = self._learned.history
        return history
