"""What a learned mixture shows: components, bounds, history and the memory it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.params import parse_bytes
from everlearn.estimators.history import History
from everlearn.estimators.mixture_learning import Learned, held_bytes, memory_limits
from everlearn.inference.memory import stats_bytes
from everlearn.inference.state import State


class MixtureAttributes:
    """Fitted attributes, computed from the statistics when asked for."""

    _learned: Learned
    n_features_in_: int
    birth_window: int
    memory_budget: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> State:
        check_is_fitted(self)
        return self._learned.state

    @property
    def n_components_(self) -> int:
        """Components in use."""
        return len(self._fitted().total)

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the components."""
        return self._fitted().total.ids.copy()

    @property
    def weights_(self) -> Vec:
        """Expected share of each component among those seen."""
        state = self._fitted()
        known, _ = state.model.sticks(state.total).mean_weights()
        return np.asarray(known / known.sum())

    @property
    def means_(self) -> Mat:
        """Expected mean of each component; for counts, the probability of each symbol."""
        state = self._fitted()
        family = state.model.family
        return family.means(family.posterior(state.total.n, state.total.t))

    @property
    def covariances_(self) -> NDArray[np.float64]:
        """Inverse expected precision: (K, D) if diagonal, (K, D, D) if full."""
        state = self._fitted()
        family = state.model.family
        return family.covariances(family.posterior(state.total.n, state.total.t))

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of every row seen."""
        return self._fitted().bound()

    @property
    def bound_history_(self) -> Vec:
        """The bound after each lap."""
        return self.history_.curve[:, 2].copy()

    @property
    def history_(self) -> History:
        """Laps, accepted moves, and counts of moves judged."""
        self._fitted()
        return self._learned.history

    @property
    def n_rows_seen_(self) -> int:
        """Rows learned from."""
        self._fitted()
        return self._learned.n_rows

    @property
    def converged_(self) -> bool:
        """Whether the last `fit` settled before `max_laps`; False without a `fit`."""
        self._fitted()
        return self._learned.settled

    def memory_report(self) -> dict[str, int | None]:
        """Bytes the model holds, by what they are for, and the limits set by the budget.

        Returns
        -------
        report : dict
            "statistics", "pair_entropies", "open_rows", "total" and "budget" in bytes;
            "bytes_per_component", "max_components" and "window_rows".
        """
        state = self._fitted()
        statistics, pairs, open_rows = held_bytes(state)
        row_bytes = open_rows // state.n_open if state.n_open else 8 * self.n_features_in_
        limits = memory_limits(self, state.model, row_bytes, self.birth_window)
        return {
            "statistics": statistics,
            "pair_entropies": pairs,
            "open_rows": open_rows,
            "total": statistics + pairs + open_rows,
            "budget": None if self.memory_budget is None else parse_bytes(self.memory_budget),
            "bytes_per_component": stats_bytes(state.model.family.n_stats),
            "max_components": limits.max_components,
            "window_rows": limits.window_rows,
        }
