"""What a file holds of a `DPMixture`, and the estimator that a file makes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from numpy.typing import NDArray

from everlearn.core.errors import CheckpointError
from everlearn.estimators.history import History
from everlearn.estimators.mixture_checkpoint import pack_state, state_section, unpack_state
from everlearn.estimators.mixture_input import check_same_model
from everlearn.estimators.mixture_learning import Learned
from everlearn.estimators.mixture_model import check_entries
from everlearn.estimators.persistence import (
    Arrays,
    SaveMixin,
    checked_names,
    entry,
    feature_names,
    plain_params,
    section,
)


class MixtureStorage(SaveMixin):
    """Saving and loading of a mixture."""

    checkpoint_key: ClassVar[str] = "dp-mixture"
    _learned: Learned

    def to_checkpoint(self: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        state = self._fitted()
        self._check_params()
        check_same_model(self, self._learned)
        check_entries(self.family, self.prior, state.model.family.n_features)
        header, arrays = pack_state(state)
        return {
            "params": plain_params(self.get_params(deep=False), state.seed),
            "state": header,
            "history": self.history_.to_json(),
            "n_rows": self.n_rows_seen_,
            "prior_rows": self._learned.prior_rows,
            "settled": self.converged_,
            "feature_names": feature_names(self),
        }, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        params = section(header, "params", inspect.signature(cls).parameters)
        estimator: Any = cls(**(params | {"moves": tuple(entry(params, "moves", list))}))
        state = unpack_state(state_section(header), arrays)
        n_rows = entry(header, "n_rows", int, max(1, state.n_open), 2**63)
        estimator._learned = Learned(
            state,
            History.from_json(section(header, "history", ("points", "moves", "counts"))),
            n_rows,
            entry(header, "prior_rows", int, 1, n_rows),
            entry(header, "settled", bool),
            estimator.learner,
        )
        try:
            estimator._check_params()
            check_same_model(estimator, estimator._learned)
            check_entries(estimator.family, estimator.prior, state.model.family.n_features)
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        if state.batches and estimator.learner != "memoized":
            raise CheckpointError(
                f"the header's 'learner' is {estimator.learner!r}, but rows are open"
            )
        estimator.n_features_in_ = state.model.family.n_features
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, estimator.n_features_in_)
        mixture: Self = estimator
        return mixture
