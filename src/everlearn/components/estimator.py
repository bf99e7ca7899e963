"""What a learned tree of components shows, and what it says about rows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from everlearn.components.checkpoint import STATE_KEYS, pack_state, unpack_state
from everlearn.components.fit import (
    Learned,
    check_same_model,
    checked_chunk,
    checked_rows,
    learn,
    learn_elsewhere,
    learn_more,
)
from everlearn.components.local import Slots, prepare, scored
from everlearn.components.state import TreeState
from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.math import LOG_2PI
from everlearn.core.moves import TREE_MOVES
from everlearn.engine.opening import is_collection
from everlearn.errors import CheckpointError, NotConvergedWarning
from everlearn.estimator.base import COMMON_CONSTRAINTS, LearnerMixin, named_errors
from everlearn.estimator.collections import brought_here, open_rows
from everlearn.estimator.history import History
from everlearn.estimator.params import Constraint, Interval, Options, Subset
from everlearn.estimator.saving import SaveMixin, checked_names, feature_names, plain_params
from everlearn.estimator.tables import check_size, plain_numbers
from everlearn.estimator.tree_view import FittedTree, TreeNode, check_room_for_a_path
from everlearn.store.schema import Arrays, entry, section

_PREDICT_ROWS = 4096


class ComponentTreeAttributes:
    """Fitted attributes, computed from the beliefs when asked for."""

    _learned: Learned

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_learned")

    def _fitted(self) -> TreeState:
        check_is_fitted(self)
        return self._learned.state

    @property
    def n_components_(self) -> int:
        """Nodes of the tree."""
        return len(self._fitted().tree)

    @property
    def component_ids_(self) -> IntVec:
        """Permanent ids of the nodes, parents before their children."""
        return self._fitted().tree.ids.copy()

    @property
    def components_(self) -> Mat:
        """Expected loading of each node, (n_components, n_features)."""
        return self._fitted().q.mean.copy()

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
        """Expected share of rows in each slot; they sum to 1, (n_components,)."""
        state = self._fitted()
        return state.model.paths.mean_slot_weights(state.tree, state.q.sticks)

    @property
    def prior_scale_(self) -> float:
        """Prior variance of a loading in each feature."""
        return self._fitted().model.scale

    @property
    def tree_(self) -> FittedTree:
        """The nodes, with parents and masses; it can be printed and walked."""
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
        """Whether the last `fit` settled before `max_sweeps`; False without a `fit`."""
        self._fitted()
        return self._learned.settled


class ComponentTreePredictions(ComponentTreeAttributes, LearnerMixin, TransformerMixin):
    """Predictions; none of them changes the model."""

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
        parts = [scored(slots, rows).scores.argmax(axis=1) for slots, rows in self._blocks(X)]
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
        return self._coded(X)

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
        tree = self._fitted().tree
        paths = [f"path{i}" for i in tree.ids]
        return np.array([*paths, *(f"level{i}" for i in range(tree.depth))], dtype=object)

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
        slots = prepare(state.model, state.q)
        best = codes[:, :k].argmax(axis=1)
        rows = np.tile(self.mean_, (len(codes), 1))
        for slot in np.unique(best):
            rows[best == slot] += codes[best == slot, k:] @ _projector(slots, int(slot))
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
        return self.inverse_transform(self._coded(X))

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
            log_weights = np.log(self.weights_)
        loadings, noise = state.model.path_covariances(state.q)
        parts = [
            logsumexp(log_weights + _densities(rows - state.q.centre, loadings, noise), axis=1)
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

    def _coded(self, X: Any) -> Mat:
        return np.concatenate([_codes(slots, rows) for slots, rows in self._blocks(X)])

    def _blocks(self, X: Any) -> Iterator[tuple[Slots, Mat]]:
        """The slots, with rows seen from the origin."""
        state = self._fitted()
        check_same_model(self, self._learned)
        rows = checked_rows(self, X, reset=False)
        slots = prepare(state.model, state.q)
        for start in range(0, len(rows), _PREDICT_ROWS):
            yield slots, rows[start : start + _PREDICT_ROWS] - self._learned.origin


def _codes(slots: Slots, rows: Mat) -> Mat:
    """Probabilities of slots, and coordinates on the best path."""
    q = slots.q
    scores = scored(slots, rows).scores
    best = scores.argmax(axis=1)
    paths = q.tree.paths[best]
    pulls = q.precision * ((rows - q.centre) @ q.mean.T)
    pull = np.where(paths >= 0, np.take_along_axis(pulls, np.maximum(paths, 0), axis=1), 0.0)
    x = np.einsum("nij,nj->ni", slots.covariances[best], pull)
    r = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.hstack([r, x])


def _projector(slots: Slots, slot: int) -> Mat:
    """From expected coordinates on a path to the projection on its loadings, (depth, D)."""
    q = slots.q
    path = q.tree.paths[slot]
    own = q.mean[path[path >= 0]]
    seen = len(own)
    shrunk = np.eye(seen) / q.precision + slots.products[slot][:seen, :seen]
    out = np.zeros((len(path), own.shape[1]))
    out[:seen] = shrunk @ np.linalg.pinv(own @ own.T, hermitian=True) @ own
    return out


def _densities(centred: Mat, loadings: NDArray[np.float64], noise: Vec) -> Mat:
    """Log-density of rows around the centre on each slot's path, (n, K)."""
    k, depth, d = loadings.shape
    inner = np.eye(depth) + np.einsum("kid,kjd->kij", loadings, loadings) / noise[:, None, None]
    lower = np.linalg.cholesky(inner)
    solve = np.linalg.inv(lower) / noise[:, None, None]
    seen = (centred @ (solve @ loadings).reshape(-1, d).T).reshape(len(centred), k, depth)
    squares = np.einsum("nd,nd->n", centred, centred)[:, None] / noise
    volumes = 2.0 * np.log(np.diagonal(lower, axis1=1, axis2=2)).sum(axis=1)
    volumes += d * (np.log(noise) + LOG_2PI)
    return np.asarray(-0.5 * (squares - np.einsum("nkj,nkj->nk", seen, seen) + volumes))


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
    n_samples_seen_ : int
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
            "n_rows": self.n_samples_seen_,
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
