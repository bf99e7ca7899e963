"""What a learned tree of components shows, and what it says about rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from everlearn.core.arrays import IntVec, Mat, Vec
from everlearn.core.math import LOG_2PI
from everlearn.estimators.base import LearnerMixin, named_errors
from everlearn.estimators.component_tree_learning import Learned, check_same_model, checked_rows
from everlearn.estimators.history import History
from everlearn.estimators.tables import check_size, plain_numbers
from everlearn.estimators.tree_view import FittedTree, TreeNode
from everlearn.inference.component_state import TreeState
from everlearn.inference.local.components import Slots, prepare, scored

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
    def n_rows_seen_(self) -> int:
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
