"""What a lifelong topic model shows: topics, documents, bounds, and the memory it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import IntVec, Labels, Vec
from everlearn.core.families import Family
from everlearn.estimators.clumped_beginning import RELATIVE_PRICE
from everlearn.estimators.clumped_learning import Learned, limits_of
from everlearn.estimators.component_attributes import ComponentAttributes, Components
from everlearn.inference.clumped_state import ClumpedState
from everlearn.runtime.engine import open_engine


class ClumpedAttributes(ComponentAttributes):
    """Fitted attributes, computed from the state when asked for."""

    _learned: Learned
    topic_price: float | str

    def _fitted(self) -> ClumpedState:
        check_is_fitted(self)
        return self._learned.state

    def _components(self) -> tuple[Family[Any], Components]:
        state = self._fitted()
        return state.model.family, state.topics

    @property
    def weights_(self) -> Vec:
        """Share of each topic in all points seen."""
        return self._fitted().topics.shares

    @property
    def alpha_(self) -> Vec:
        """Learned parameters of the Dirichlet over the topics of a document."""
        return self._fitted().topics.alpha.copy()

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of all points seen, as they are kept."""
        with open_engine("serial"):  # the same sum however many threads linear algebra has
            return self._fitted().bound

    @property
    def topic_price_(self) -> float:
        """Nats of bound that a topic must earn."""
        price = self._fitted().price
        return RELATIVE_PRICE * abs(self.bound_) if self.topic_price == "relative" else price

    @property
    def compression_loss_(self) -> float:
        """Nats of bound that compression has cost so far."""
        return self._fitted().compression_loss

    @property
    def group_ids_(self) -> IntVec:
        """Number, in the order of arrival, of the first document of each group."""
        return self._fitted().group_ids.copy()

    @property
    def group_sizes_(self) -> IntVec:
        """Documents in each group."""
        return self._fitted().sizes.astype(np.int64)

    @property
    def document_groups_(self) -> Labels:
        """Position of the group that each document is in, in the order of arrival."""
        groups = self._fitted().document_groups
        if groups is None:
            raise AttributeError(
                f"{type(self).__name__} knows the group of each document only with "
                "track_documents=True, from the first document on"
            )
        return groups.copy()

    @property
    def n_points_seen_(self) -> int:
        """Points learned from."""
        return self._fitted().n_points

    @property
    def n_documents_seen_(self) -> int:
        """Documents learned from."""
        return self._fitted().n_documents

    def memory_report(self: Any) -> dict[str, int | None]:
        """Bytes that are kept between calls, by what they are for, and what they are kept of.

        Returns
        -------
        report : dict
            "clumps", "single points", "topics", "groups", "documents" (which group each is in, if
            tracked), "prior", "total" and "budget" in bytes; "n_clumps", "n_single_points" and
            "n_groups"; "n_groups_of_clumps", the groups that clumps have points in, summed over
            clumps.
        """
        state: ClumpedState = self._fitted()
        budget = limits_of(self).max_bytes
        return {
            **state.memory(),
            "budget": None if np.isinf(budget) else int(budget),
            "n_clumps": len(state.past.clumps),
            "n_single_points": len(state.past.singles),
            "n_groups": len(state.sizes),
            "n_groups_of_clumps": len(state.past.clumps.groups),
        }
