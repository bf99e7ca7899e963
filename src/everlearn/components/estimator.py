"""`ComponentTree`: hierarchical component analysis of rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from everlearn.components.checkpoint import COMPONENT_TREE_FIT
from everlearn.components.fit import ComponentTreeFit, fit_chunks, fit_rows, learn_rows
from everlearn.components.inputs import checked_chunk, checked_rows
from everlearn.components.local import Slots, prepare_slots, score_slots
from everlearn.components.predict import encode, path_densities, projector
from everlearn.components.settings import BATCH_ROWS, ComponentTreeOptions, ComponentTreeSettings
from everlearn.components.state import ComponentTreeState
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.moves import TREE_MOVES
from everlearn.engine.opening import EngineChoice, is_collection, open_engine
from everlearn.errors import NotConvergedWarning
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.collections import open_rows
from everlearn.estimator.history import History
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Interval, Options, Subset, check_unchanged
from everlearn.estimator.saving import SaveMixin
from everlearn.estimator.tables import check_size, plain_numbers
from everlearn.estimator.tree_view import FittedTree, TreeNode, check_room_for_a_path
from everlearn.store.schema import Schema

_PREDICT_ROWS = 4096


class ComponentTree(SaveMixin, LearnerMixin, TransformerMixin, DensityMixin, BaseEstimator):
    """Hierarchical component analysis: a mixture of PCAs whose components form a tree.

    Each row takes a path from the root to the last level, and is explained by the components of
    the nodes on it: the root's is shared by all rows, a last node's belongs to the rows of one
    path. The model adds, splits, merges and removes branches whenever that raises its evidence
    lower bound. `fit` learns from a data set, `partial_fit` from a stream; each can follow the
    other.

    Parameters
    ----------
    depth : int, default=3
        Levels of the tree, including the root: the number of components that explain a row.
    max_nodes : int, default=100
        Most nodes that the tree may have, at least `depth`. A full tree can still swap a branch
        for a better one.
    concentration : float, default=1.0
        Concentration of the prior of the paths. Larger values expect more branches.
    prior_scale : float or "auto", default="auto"
        Prior variance of a loading in each feature. "auto" is the mean variance of the features
        in the first rows.
    moves : sequence of {"birth", "split", "merge", "delete"}, default=all
        Changes of the tree to try.
    n_init : int, default=1
        Number of trees that `fit` grows. It keeps the one with the highest bound.
    batch_size : int or None, default=None
        Rows between two updates of the posterior in `fit`. None means 8192.
    max_iter : int, default=100
        Most visits of all rows in `fit` after the tree has stopped growing.
    tol : float, default=1e-5
        `fit` stops when a visit of all rows raises the bound by less than this part of it.
    birth_window : int, default=1000
        Rows of a stream to keep in memory. New branches can form from these rows only.
    engine : {None, "serial", "threads", "dask"}, Client or address, default=None
        Where to compute. None uses all cores of this machine; "dask", a `distributed.Client` or
        an address ("tcp://...") a cluster. All engines give the same bits.
    options : ComponentTreeOptions, dict or None, default=None
        Rarely used parameters, see `ComponentTreeOptions`.
    random_state : int, RandomState instance or None, default=None
        Seed of the draws that decide which branches are tried.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    tree_ : FittedTree
        Nodes with permanent ids, parents and masses. Print it to see the tree.
    n_components_ : int
        Number of nodes.
    component_ids_ : ndarray of shape (n_components,)
        Permanent ids of the nodes, ascending: the order of all that has an entry for each node.
        `fit` numbers them from 0, the largest first. No id is ever used twice.
    components_ : ndarray of shape (n_components, n_features)
        Expected loadings of the nodes. Signs are arbitrary. If all rows of a node go on to the
        same child, so is the basis of the two loadings.
    mean_ : ndarray of shape (n_features,)
        Expected centre, which all paths share.
    noise_variance_ : float
        Variance of the noise in each feature.
    weights_ : ndarray of shape (n_components,)
        Expected share of rows in the slot of each node, see `transform`. They sum to 1.
    prior_scale_ : float
        Prior variance of a loading that is in use.
    bound_ : float
        Lower bound of the log evidence of all rows seen.
    bound_history_ : ndarray
        The bound after each round.
    history_ : History
        Rows seen, bound and nodes after each round, accepted moves, and counts of moves judged.
    n_samples_seen_ : int
        Rows learned from.
    converged_ : bool
        Whether the last `fit` converged within `max_iter`. False without a `fit`.
    n_iter_ : int
        Rounds of learning so far. A round of `fit` visits all rows.
    n_features_in_ : int
        Columns of a row.

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
    _schema: ClassVar[Schema] = COMPONENT_TREE_FIT
    _options: ClassVar[Mapping[str, type[ExpertOptions]]] = {"options": ComponentTreeOptions}
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "depth": (Interval(1, 100, integer=True),),
        "max_nodes": (Interval(1, integer=True),),
        "concentration": (Interval(1e-3, 1e6),),
        "prior_scale": (Options(("auto",)), Interval(0, low_open=True)),
        "moves": (Subset(TREE_MOVES),),
        "n_init": (Interval(1, 10_000, integer=True),),
        "batch_size": (Options((None,)), Interval(1, integer=True)),
        "max_iter": (Interval(1, 100_000, integer=True),),
        "tol": (Interval(0),),
        "birth_window": (Interval(1, integer=True),),
        **COMMON_CONSTRAINTS,
    }
    _learned: ComponentTreeFit

    def __init__(
        self,
        *,
        depth: int = 3,
        max_nodes: int = 100,
        concentration: float = 1.0,
        prior_scale: float | str = "auto",
        moves: tuple[str, ...] = TREE_MOVES,
        n_init: int = 1,
        batch_size: int | None = None,
        max_iter: int = 100,
        tol: float = 1e-5,
        birth_window: int = 1000,
        engine: EngineChoice = None,
        options: ComponentTreeOptions | Mapping[str, Any] | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.depth = depth
        self.max_nodes = max_nodes
        self.concentration = concentration
        self.prior_scale = prior_scale
        self.moves = moves
        self.n_init = n_init
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.birth_window = birth_window
        self.engine = engine
        self.options = options
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from a data set, and forget anything learned before.

        Parameters
        ----------
        X : array-like, data frame or Dask collection of shape (n_rows, n_features)
            The rows. Chunks of a Dask collection stay on their workers.
        y : None
            Ignored.

        Returns
        -------
        self
            The fitted estimator.
        """
        with self._unchanged_on_error():
            self._check_params()
            settings, seed = self._settings(), self._new_seed()
            if is_collection(X):
                with open_rows(self, X, None, checked_chunk) as given:
                    self._learned = fit_chunks(settings, given.rows, seed, given.engine)
            else:
                rows = checked_rows(self, X, reset=True)
                with open_engine(self.engine) as engine:
                    self._learned = fit_rows(settings, rows, seed, engine)
            self._check_finite()
            if not self.converged_:  # inside the block, because a warning may be an error
                warnings.warn(
                    f"ComponentTree did not converge in max_iter={self.max_iter} visits of all "
                    "rows. Increase max_iter or tol.",
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
            known: ComponentTreeFit | None = getattr(self, "_learned", None)
            if known is not None:
                self._check_learned(known)
            rows = checked_rows(self, X, reset=known is None)
            seed = self._new_seed() if known is None else known.seed
            with open_engine(self.engine) as engine:
                self._learned = learn_rows(self._settings(), known, rows, seed, engine)
            self._check_finite()
        return self

    # --------------------------------------------------------------- predictions

    def predict(self, X: Any) -> IntVec:
        """Permanent id of the node at which each row's likeliest path ends.

        If that node is above the last level, the path goes on through nodes that the tree does
        not hold.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        ids : ndarray of shape (n_rows,)
            Entries of `component_ids_`.
        """
        ids = self._fitted().tree.ids
        parts = [score_slots(slots, rows).scores.argmax(axis=1) for slots, rows in self._blocks(X)]
        return np.asarray(ids[np.concatenate(parts)])

    def transform(self, X: Any) -> Mat:
        """Paths and coordinates of rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        Z : ndarray of shape (n_rows, n_components + depth)
            First, for each node in the order of `component_ids_`, the probability of its slot:
            of the path that ends there, or, above the last level, of all the paths that leave
            the tree there; these columns sum to 1. Then, for each level from the root on, the
            expected coordinate of the row on its likeliest path, 0 on levels that the tree does
            not hold.
        """
        return self._encoded(X)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Names of the columns of `transform`: "path" and an id, then "level" and a number.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            One for each column.
        """
        paths = [f"path{i}" for i in self.component_ids_]
        levels = [f"level{i}" for i in range(self._fitted().tree.depth)]
        return np.array([*paths, *levels], dtype=object)

    def inverse_transform(self, Z: Any) -> Mat:
        """Rows from paths and coordinates.

        Expected coordinates are drawn towards 0 by their prior; that is undone first. So what
        comes back of a row is its projection on the loadings of its likeliest path.

        Parameters
        ----------
        Z : array-like of shape (n_rows, n_components + depth)
            What `transform` gives; the path is that of the largest probability.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            The rows.
        """
        state = self._fitted()
        k, width = len(state.tree), len(state.tree) + state.tree.depth
        with named_errors(self, "Z"):
            codes: Mat = check_array(plain_numbers(Z), dtype=np.float64)
            if codes.shape[1] != width:
                raise ValueError(
                    f"expected {width} columns, {k} for paths and {state.tree.depth} for levels, "
                    f"got {codes.shape[1]}"
                )
            check_size(codes)
        slots = prepare_slots(state.model, state.q)
        best = self._order[codes[:, :k].argmax(axis=1)]
        rows = np.tile(self.mean_, (len(codes), 1))
        for slot in np.unique(best):
            rows[best == slot] += codes[best == slot, k:] @ projector(slots, int(slot))
        return rows

    def reconstruct(self, X: Any) -> Mat:
        """Rows projected on the loadings of their likeliest paths.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        X : ndarray of shape (n_rows, n_features)
            What `inverse_transform` makes of what `transform` gives.
        """
        return self.inverse_transform(self._encoded(X))

    def score_samples(self, X: Any) -> Vec:
        """Log-density of each row, all paths summed.

        The density of a path is the Gaussian with the mean and covariance that rows have there
        under the posterior; levels that the tree does not hold have the loadings that the prior
        expects, so that rows unlike all others are still given a chance. Paths have their
        expected weights. The density integrates to one.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.

        Returns
        -------
        log_density : ndarray of shape (n_rows,)
            Natural logarithms.
        """
        state = self._fitted()
        with np.errstate(divide="ignore"):  # a concentration near zero leaves nothing unseen
            log_weights = np.log(self._slot_weights())
        loadings, noise = state.model.path_covariances(state.q)
        parts = [
            logsumexp(log_weights + path_densities(rows - state.q.centre, loadings, noise), axis=1)
            for _, rows in self._blocks(X)
        ]
        return np.concatenate(parts)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log-density of the rows.

        Parameters
        ----------
        X : array-like or data frame of shape (n_rows, n_features)
            The rows.
        y : None
            Ignored.

        Returns
        -------
        score : float
            Nats per row; larger is better.
        """
        return float(np.mean(self.score_samples(X)))

    # ---------------------------------------------------------------- attributes

    @property
    def n_components_(self) -> int:
        """Nodes of the tree."""
        return len(self._fitted().tree)

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the nodes, ascending."""
        return self._fitted().tree.ids[self._order]

    @property
    def components_(self) -> Mat:
        """Expected loading of each node, (n_components, n_features)."""
        return self._fitted().q.mean[self._order]

    @property
    def mean_(self) -> Vec:
        """Expected centre, which all paths share, (n_features,)."""
        return np.asarray(self._fitted().q.centre + self._learned.origin)

    @property
    def noise_variance_(self) -> float:
        """Inverse of the expected precision of the noise."""
        return 1.0 / self._fitted().q.precision

    @property
    def weights_(self) -> Vec:
        """Expected share of rows in each slot. They sum to 1, (n_components,)."""
        return self._slot_weights()[self._order]

    @property
    def prior_scale_(self) -> float:
        """Prior variance of a loading in each feature."""
        return self._fitted().model.scale

    @property
    def tree_(self) -> FittedTree:
        """The nodes, with parents and masses. It can be printed and walked."""
        state = self._fitted()
        mass = state.tree.through(state.total.slots)
        tree = state.tree.sorted_by(mass)
        shown = mass[state.tree.at(tree.ids)]
        return FittedTree(
            tuple(
                TreeNode(int(i), None if p < 0 else int(tree.ids[p]), int(level), float(m))
                for i, p, level, m in zip(tree.ids, tree.parents, tree.levels, shown, strict=True)
            )
        )

    def to_networkx(self) -> Any:
        """The tree as a `networkx.DiGraph`, see `FittedTree.to_networkx`."""
        return self.tree_.to_networkx()

    @property
    def bound_(self) -> float:
        """Lower bound of the log evidence of every row seen."""
        return self._fitted().bound()

    @property
    def bound_history_(self) -> Vec:
        """The bound after each round."""
        return self.history_.curve[:, 2].copy()

    @property
    def history_(self) -> History:
        """What learning did: rows seen, bound and nodes along the way, and moves."""
        self._fitted()
        return self._learned.history

    @property
    def n_samples_seen_(self) -> int:
        """Rows learned from."""
        self._fitted()
        return self._learned.n_rows

    @property
    def converged_(self) -> bool:
        """Whether the last `fit` converged within `max_iter`. False without a `fit`."""
        self._fitted()
        return self._learned.converged

    @property
    def n_iter_(self) -> int:
        """Rounds of learning so far. A round of `fit` visits all rows."""
        return self._fitted().clock

    # ---------------------------------------------------------------------- inner

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> ComponentTreeState:
        check_is_fitted(self)
        return self._learned.state

    @property
    def _order(self) -> IntVec:
        """Positions of the nodes in the tree, whose siblings are sorted, by ascending id."""
        return np.argsort(self._fitted().tree.ids)

    def _slot_weights(self) -> Vec:
        """Expected share of rows in each slot, in the order of the tree."""
        state = self._fitted()
        return state.model.paths.mean_slot_weights(state.tree, state.q.sticks)

    def _settings(self) -> ComponentTreeSettings:
        """All parameters, for the time of one call."""
        options = ComponentTreeOptions.of(self.options, type(self).__name__)
        return ComponentTreeSettings(
            depth=self.depth,
            max_nodes=self.max_nodes,
            concentration=float(self.concentration),
            prior_scale=None if self.prior_scale == "auto" else float(self.prior_scale),
            moves=frozenset(self.moves),
            min_gain=options.min_gain,
            patience=options.patience,
            n_init=self.n_init,
            batch_size=BATCH_ROWS if self.batch_size is None else self.batch_size,
            max_iter=self.max_iter,
            tol=self.tol,
            birth_window=self.birth_window,
            verbose=self.verbose,
        )

    def _check_params(self) -> None:
        super()._check_params()
        check_room_for_a_path(self)

    def _check_learned(self, learned: ComponentTreeFit) -> None:
        """Refuse to continue with a parameter that must stay what it was at the beginning."""
        model = learned.state.model
        fixed: list[tuple[str, Any, Any]] = [
            ("depth", self.depth, learned.state.tree.depth),
            ("concentration", self.concentration, model.paths.gamma),
        ]
        if self.prior_scale != "auto":
            fixed.append(("prior_scale", self.prior_scale, model.scale))
        for name, now, began in fixed:
            check_unchanged(type(self).__name__, name, now, began)

    def _check_finite(self) -> None:
        """Refuse what was learned if numbers grew out of range."""
        bound = self._learned.state.bound()
        if not np.isfinite(bound):
            raise ValueError(
                f"{type(self).__name__} cannot learn from X: with this prior the bound is {bound}. "
                "Scale X or the prior."
            )

    def _encoded(self, X: Any) -> Mat:
        codes = np.concatenate([encode(slots, rows) for slots, rows in self._blocks(X)])
        order = self._order
        codes[:, : len(order)] = codes[:, order]
        return codes

    def _blocks(self, X: Any) -> Iterator[tuple[Slots, Mat]]:
        """The slots, with blocks of checked rows minus the origin."""
        state = self._fitted()
        self._check_learned(self._learned)
        rows = checked_rows(self, X, reset=False)
        slots = prepare_slots(state.model, state.q)
        for start in range(0, len(rows), _PREDICT_ROWS):
            yield slots, rows[start : start + _PREDICT_ROWS] - self._learned.origin
