"""What a learned mixture shows: components, bounds, history and the memory it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Vec
from everlearn.core.families import Family
from everlearn.core.params import parse_bytes
from everlearn.estimators.component_attributes import ComponentAttributes, Components
from everlearn.estimators.mixture_learning import Learned
from everlearn.estimators.mixture_workshop import held_bytes, memory_limits
from everlearn.inference.memory import stats_bytes
from everlearn.inference.state import State


class MixtureAttributes(ComponentAttributes):
    """Fitted attributes, computed from the statistics when asked for."""

    _learned: Learned
    n_features_in_: int
    birth_window: int
    memory_budget: Any

    def _fitted(self) -> State:
        check_is_fitted(self)
        return self._learned.state

    def _components(self) -> tuple[Family[Any], Components]:
        state = self._fitted()
        return state.model.family, state.total

    @property
    def weights_(self) -> Vec:
        """Expected share of each component among those seen."""
        state = self._fitted()
        known, _ = state.model.sticks(state.total).mean_weights()
        return np.asarray(known / known.sum())

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of every row seen."""
        return self._fitted().bound()

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
