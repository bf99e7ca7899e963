"""Protocols of the models that learn streams, and checks of which traits a model has.

Every estimator of `everlearn learn` is a `StreamModel`. An ability that only some have is a trait,
listed in the registry. The functions below check for traits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, TypeGuard, cast

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.estimator.history import History
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.saving import Storable
from everlearn.estimator.tree_view import FittedTree
from everlearn.registry import BY_KEY, Trait


class StreamModel(Storable, Protocol):
    """An estimator of any kind."""

    _options: ClassVar[Mapping[str, type[ExpertOptions]]]
    random_state: Any

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn one batch."""

    def score(self, X: Any, y: Any = None) -> float:
        """How well the model explains the records."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters of the constructor."""

    def set_params(self, **params: Any) -> Self:
        """Change parameters of the constructor."""

    @property
    def n_samples_seen_(self) -> int:
        """Records learned from."""

    def _check_params(self) -> None: ...

    def __sklearn_tags__(self) -> Any: ...


class ComponentModel(StreamModel, Protocol):
    """Trait "components": topics, clusters or nodes that come and go, with permanent ids."""

    @property
    def n_components_(self) -> int: ...

    @property
    def component_ids_(self) -> IntVec: ...


class BoundModel(ComponentModel, Protocol):
    """Trait "bound": a lower bound of the evidence, and the moves that raised it."""

    @property
    def bound_(self) -> float: ...

    @property
    def history_(self) -> History: ...


class TreeModel(ComponentModel, Protocol):
    """Trait "tree"."""

    @property
    def tree_(self) -> FittedTree: ...

    def predict(self, X: Any) -> IntVec: ...


class LoadingsTreeModel(TreeModel, Protocol):
    """A tree of rows, whose nodes have loadings."""

    @property
    def components_(self) -> Mat: ...


class GaussianModel(ComponentModel, Protocol):
    """Components with means: a mixture, or topics of points."""

    @property
    def means_(self) -> Mat: ...

    @property
    def weights_(self) -> Vec: ...


class ClustersModel(GaussianModel, Protocol):
    """Clusters of rows."""

    def predict(self, X: Any) -> IntVec: ...


class Level(Protocol):
    """One level of a ladder of clusters."""

    @property
    def n_clusters(self) -> int: ...

    @property
    def effective(self) -> float: ...

    @property
    def cut(self) -> float: ...

    @property
    def gap(self) -> float: ...

    @property
    def is_default(self) -> bool: ...


class Levels(Protocol):
    """A ladder of clusters, and why one of its levels is the default. `str` is a table."""

    @property
    def joins(self) -> Sequence[Any]: ...

    @property
    def units(self) -> str: ...

    @property
    def why(self) -> str: ...

    def __iter__(self) -> Iterator[Level]: ...


class LevelsModel(ClustersModel, Protocol):
    """Trait "levels": coarser and finer clusters."""

    @property
    def levels_(self) -> Levels: ...


class MixtureModel(GaussianModel, Protocol):
    """A mixture: each row belongs to one component."""

    def predict_proba(self, X: Any) -> Mat: ...

    def score_samples(self, X: Any) -> Vec: ...


class Profile(Protocol):
    """How a column of a table looks in one component. `str` describes it."""

    @property
    def component(self) -> int: ...


class TableModel(MixtureModel, Protocol):
    """Components of rows, which may be those of a table with columns of several kinds."""

    @property
    def columns_(self) -> Sequence[Any]: ...

    def profiles(self) -> Sequence[Profile]: ...


class TopicsModel(ComponentModel, Protocol):
    """Topics of documents."""

    @property
    def topic_shares_(self) -> Vec: ...

    def top_words(self, n_words: int) -> Sequence[Sequence[str]]: ...

    def transform(self, X: Any) -> Mat: ...


class LinearModel(StreamModel, Protocol):
    """Trait "scores": weights of the columns of rows."""

    @property
    def coef_(self) -> Mat: ...


class ClassTopicsModel(TopicsModel, LinearModel, Protocol):
    """Trait "class_topics": topics that explain classes."""

    @property
    def classes_(self) -> NDArray[Any]: ...

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]: ...


class LabelModel(StreamModel, Protocol):
    """A classifier."""

    @property
    def classes_(self) -> NDArray[Any]: ...

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self: ...

    def predict(self, X: Any) -> NDArray[Any]: ...

    def decision_function(self, X: Any) -> NDArray[np.float64]: ...


class ValueModel(StreamModel, Protocol):
    """A regressor."""

    def predict(self, X: Any) -> NDArray[np.float64]: ...


class AxesModel(StreamModel, Protocol):
    """Principal axes, or a mixture of such models."""

    @property
    def n_mixtures_(self) -> int: ...

    @property
    def weights_(self) -> Vec: ...

    @property
    def components_(self) -> Mat: ...

    @property
    def explained_variance_ratio_(self) -> Vec: ...

    def transform(self, X: Any) -> Mat: ...

    def score_samples(self, X: Any) -> Vec: ...


class TokensModel(StreamModel, Protocol):
    """Trait "tokens": documents made of words."""

    @property
    def n_tokens_seen_(self) -> int: ...


class PointsModel(ComponentModel, Protocol):
    """Trait "points": documents made of points, each of which has a topic."""

    @property
    def n_points_seen_(self) -> int: ...

    def assign(self, X: Any) -> IntVec: ...


class MemoryModel(StreamModel, Protocol):
    """Trait "memory": an account of the bytes it holds."""

    def memory_report(self) -> dict[str, int | None]: ...


class RowByRowModel(StreamModel, Protocol):
    """Trait "row_by_row": with some parameters, joining batches does not change the result."""

    @property
    def learns_row_by_row(self) -> bool: ...


class BatchByBatchModel(StreamModel, Protocol):
    """Trait "batch_by_batch": one call learns several batches, like one call for each."""

    def partial_fit_each(self, batches: Sequence[Any]) -> Self: ...


def has_trait(model: StreamModel, trait: Trait) -> bool:
    """Whether the estimator has the trait in the registry."""
    return trait in BY_KEY[model.checkpoint_key].traits


def has_components(model: StreamModel) -> TypeGuard[ComponentModel]:
    """Whether the model has components with permanent ids."""
    return has_trait(model, "components")


def has_bound(model: StreamModel) -> TypeGuard[BoundModel]:
    """Whether the model has a bound and a history of moves."""
    return has_trait(model, "bound")


def has_tree(model: StreamModel) -> TypeGuard[TreeModel]:
    """Whether the model is a tree."""
    return has_trait(model, "tree")


def has_component_loadings(model: TreeModel) -> TypeGuard[LoadingsTreeModel]:
    """Whether the tree is one of rows."""
    return BY_KEY[model.checkpoint_key].form == "rows"


def has_classes(model: StreamModel) -> TypeGuard[LabelModel]:
    """Whether the model is a classifier."""
    return BY_KEY[model.checkpoint_key].target == "class"


def has_tokens(model: StreamModel) -> TypeGuard[TokensModel]:
    """Whether the model learns from words."""
    return has_trait(model, "tokens")


def has_points(model: StreamModel) -> TypeGuard[PointsModel]:
    """Whether the model learns from points."""
    return has_trait(model, "points")


def has_levels(model: StreamModel) -> TypeGuard[LevelsModel]:
    """Whether the model has coarser and finer levels of clusters."""
    return has_trait(model, "levels")


def has_scores(model: StreamModel) -> TypeGuard[LinearModel]:
    """Whether the model has linear scores of the columns."""
    return has_trait(model, "scores")


def has_class_topics(model: StreamModel) -> TypeGuard[ClassTopicsModel]:
    """Whether the model has both classes and topics."""
    return has_trait(model, "class_topics")


def has_memory_report(model: StreamModel) -> TypeGuard[MemoryModel]:
    """Whether the model gives an account of its memory."""
    return has_trait(model, "memory")


def learns_row_by_row(model: StreamModel) -> bool:
    """Whether batches may be joined into one without changing the result."""
    if not has_trait(model, "row_by_row"):
        return False
    return cast(RowByRowModel, model).learns_row_by_row


def learns_batch_by_batch(model: StreamModel) -> TypeGuard[BatchByBatchModel]:
    """Whether one call can learn several batches with the same result as one call for each."""
    return has_trait(model, "batch_by_batch")


def allows_texts(model: StreamModel) -> bool:
    """Whether the model takes rows in which some columns hold text."""
    return bool(model.__sklearn_tags__().input_tags.categorical)


def allows_missing(model: StreamModel) -> bool:
    """Whether the model takes rows with missing numbers."""
    return bool(model.__sklearn_tags__().input_tags.allow_nan)
