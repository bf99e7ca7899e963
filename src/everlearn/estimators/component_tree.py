"""`ComponentTree`: principal components shared along the paths of a tree that grows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.base import BaseEstimator, DensityMixin

from everlearn.core.errors import CheckpointError, NotConvergedWarning
from everlearn.core.params import Constraint, Interval, Options, Subset
from everlearn.estimators.base import COMMON_CONSTRAINTS
from everlearn.estimators.collections import brought_here, open_rows
from everlearn.estimators.component_tree_checkpoint import STATE_KEYS, pack_state, unpack_state
from everlearn.estimators.component_tree_learning import (
    Learned,
    check_same_model,
    checked_chunk,
    checked_rows,
    learn,
    learn_elsewhere,
    learn_more,
)
from everlearn.estimators.component_tree_predictions import ComponentTreePredictions
from everlearn.estimators.history import History
from everlearn.estimators.persistence import (
    Arrays,
    SaveMixin,
    checked_names,
    entry,
    feature_names,
    plain_params,
    section,
)
from everlearn.estimators.tree_view import check_room_for_a_path
from everlearn.inference.learners.component_tree import TREE_MOVES
from everlearn.runtime.engine import is_collection


class ComponentTree(ComponentTreePredictions, SaveMixin, DensityMixin, BaseEstimator):
    """Hierarchical component analysis: a mixture of PCAs whose components are nodes of a tree.

    Each row takes a path from the root to the last level and is explained by the loadings of the
    nodes on it, one for each level: the root's by all rows, a last node's by the rows of one path.
    The tree has a nested Chinese restaurant process for its prior; branches grow, split, merge
    and are removed when that raises the evidence lower bound. `fit` learns from a data set,
    `partial_fit` from a stream; each can follow the other.

    Parameters
    ----------
    depth : int, default=3
        Levels of the tree, the root's included: how many components explain a row.
    max_nodes : int, default=100
        No branch grows beyond this many nodes, at least `depth`. A tree that has so many
        exchanges branches.
    concentration : float, default=1.0
        Of the prior of the paths: larger values expect more branches.
    prior_scale : float or "auto", default="auto"
        Prior variance of a loading in each feature. "auto" is the mean variance of the features
        of the first rows: a loading is expected to explain no more than there is.
    loadings : {"joint", "factorised"}, default="joint"
        Whether loadings of all nodes are believed jointly, which is tighter, or node by node.
    local : {"path", "meanfield"}, default="path"
        While learning, a row has a posterior of coordinates for each path, which is exact, or one
        for all of them. Predictions are by path always.
    moves : sequence of {"birth", "split", "merge", "delete"}, default=all
        Changes of the tree that are allowed.
    min_gain : float, default=0.25
        Nats, for each feature, that a new node must bring.
    patience : int, default=8
        Rounds of moves without success after which `fit` stops growing.
    n_init : int, default=1
        Trees to grow in `fit`, of which the one with the largest bound is kept.
    batch_size : int or None, default=None
        Rows visited between two updates in `fit`; None means all, at most 8192.
    max_sweeps : int, default=100
        Visits to all rows in `fit` after the tree has stopped growing.
    tol : float, default=1e-5
        `fit` ends when a visit to all rows raises the bound by less than this share of it.
    birth_window : int, default=1000
        Rows of a stream that stay open, on which births are tested.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where rows are worked on; all engines give the same bits. None uses all cores;
        "dask", a `distributed.Client` or an address ("tcp://...") a cluster.
    random_state : int, RandomState instance or None, default=None
        Determines which branches are tried.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    tree_ : FittedTree
        Nodes with permanent ids, parents and masses; print it to see it.
    n_components_ : int
        Nodes.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids of the nodes; never used twice in the life of a model.
    components_ : ndarray of shape (n_components, n_features)
        Their expected loadings. Signs are arbitrary, and so is the basis of nodes that all rows
        pass one after the other.
    mean_, noise_variance_ : ndarray of shape (n_features,), float
        The centre, and the variance of the noise in each feature.
    weights_ : ndarray of shape (n_components,)
        Expected shares of the slots, see `transform`; they sum to 1.
    prior_scale_ : float
        The prior variance that was used.
    bound_ : float
        Lower bound of the log evidence of every row seen, constants included.
    bound_history_ : ndarray
        The bound after each round.
    history_ : History
        Rounds, accepted moves, and counts of moves judged.
    n_rows_seen_ : int
        Rows learned from.
    converged_ : bool
        Whether the last `fit` settled before `max_sweeps`; False without a `fit`.
    n_features_in_ : int
        Width of a row.

    Examples
    --------
    >>> import numpy as np
    >>> from everlearn import ComponentTree
    >>> rng = np.random.default_rng(0)
    >>> shared, own = np.eye(8)[0] * 6, np.eye(8)[[2, 4, 6]] * 4
    >>> x, path = rng.normal(size=(600, 2)), rng.integers(3, size=600)
    >>> X = x[:, :1] * shared + x[:, 1:] * own[path] + rng.normal(size=(600, 8)) * 0.3
    >>> model = ComponentTree(depth=2, random_state=0).fit(X)
    >>> print(len(model.tree_), len(model.tree_.children(model.tree_.root.id)))
    4 3
    """

    checkpoint_key: ClassVar[str] = "component-tree"

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "depth": (Interval(1, 100, integer=True),),
        "max_nodes": (Interval(1, integer=True),),
        "concentration": (Interval(1e-3, 1e6),),
        "prior_scale": (Options(("auto",)), Interval(0, low_open=True)),
        "loadings": (Options(("joint", "factorised")),),
        "local": (Options(("path", "meanfield")),),
        "moves": (Subset(TREE_MOVES),),
        "min_gain": (Interval(0),),
        "patience": (Interval(1, integer=True),),
        "n_init": (Interval(1, integer=True),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        "max_sweeps": (Interval(1, integer=True),),
        "tol": (Interval(0),),
        "birth_window": (Interval(1, integer=True),),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        depth: int = 3,
        max_nodes: int = 100,
        concentration: float = 1.0,
        prior_scale: float | str = "auto",
        loadings: str = "joint",
        local: str = "path",
        moves: tuple[str, ...] = TREE_MOVES,
        min_gain: float = 0.25,
        patience: int = 8,
        n_init: int = 1,
        batch_size: int | None = None,
        max_sweeps: int = 100,
        tol: float = 1e-5,
        birth_window: int = 1000,
        engine: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.max_nodes = max_nodes
        self.concentration = concentration
        self.prior_scale = prior_scale
        self.loadings = loadings
        self.local = local
        self.moves = moves
        self.min_gain = min_gain
        self.patience = patience
        self.n_init = n_init
        self.batch_size = batch_size
        self.max_sweeps = max_sweeps
        self.tol = tol
        self.birth_window = birth_window
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a data set, forgetting anything learned before.

        Parameters
        ----------
        X : array-like, data frame or Dask collection of shape (n_rows, n_features)
            The rows. Chunks of a Dask collection stay on their workers, unless `local` is
            "meanfield", for which they are brought here.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            if is_collection(X) and self.local == "path":
                with open_rows(self, X, None, checked_chunk) as given:
                    self._learned = learn_elsewhere(self, given, self._new_seed())
            else:
                (X,) = brought_here(self, X=X)
                rows = checked_rows(self, X, reset=True)
                self._learned = learn(self, rows, self._new_seed())
            if not self.converged_:  # within, as a warning may be an error
                warnings.warn(
                    f"ComponentTree was still changing after max_sweeps={self.max_sweeps}: allow "
                    "more sweeps, or a larger tol.",
                    NotConvergedWarning,
                    stacklevel=2,
                )
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows that need not come again.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        self
            The estimator, which has learned the rows.
        """
        with self._unchanged_on_error():
            self._check_params()
            learned = getattr(self, "_learned", None)
            if learned is not None:
                check_same_model(self, learned)
            rows = checked_rows(self, X, reset=learned is None)
            seed = self._new_seed() if learned is None else 0
            self._learned = learn_more(self, learned, rows, seed)
        return self

    # ---------------------------------------------------------------------- inner

    def _check_params(self) -> None:
        super()._check_params()
        check_room_for_a_path(self)

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted estimator as JSON and arrays; `save` writes them."""
        state = self._fitted()
        self._check_params()
        check_same_model(self, self._learned)
        header, arrays = pack_state(state)
        return {
            "params": plain_params(self.get_params(deep=False), state.seed),
            "state": header,
            "history": self.history_.to_json(),
            "n_rows": self.n_rows_seen_,
            "prior_rows": self._learned.prior_rows,
            "settled": self.converged_,
            "feature_names": feature_names(self),
        }, {**arrays, "origin": self._learned.origin}

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        params = section(header, "params", inspect.signature(cls).parameters)
        estimator = cls(**(params | {"moves": tuple(entry(params, "moves", list))}))
        state, origin = unpack_state(section(header, "state", STATE_KEYS), arrays)
        n_rows = entry(header, "n_rows", int, 1, 2**53)
        if abs(n_rows - state.total.n) > 0.5:
            raise CheckpointError(
                f"the header's 'n_rows' must be those of the statistics, got {n_rows}"
            )
        estimator._learned = Learned(
            state,
            origin,
            History.from_json(section(header, "history", ("points", "moves", "counts"))),
            n_rows,
            entry(header, "prior_rows", int, 1, n_rows),
            entry(header, "settled", bool),
        )
        try:
            estimator._check_params()
            check_same_model(estimator, estimator._learned)
        except (OverflowError, TypeError, ValueError) as error:
            raise CheckpointError(f"the header's 'params': {error}") from error
        estimator.n_features_in_ = state.model.n_features
        names = header.get("feature_names")
        if names is not None:
            estimator.feature_names_in_ = checked_names(names, estimator.n_features_in_)
        return estimator
