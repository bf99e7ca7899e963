"""`HOG`, histograms of gradients, and `LBP`, histograms of local binary patterns.

scikit-image computes gradients and patterns: ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from everlearn.estimator.params import Constraint, Instance, Interval
from everlearn.images.base import COMMON_CONSTRAINTS, FeatureFunction, Features, ImageFeatures
from everlearn.images.files import HOW_TO_INSTALL, Pixels

try:
    from skimage.feature import hog, local_binary_pattern
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


_NEIGHBOURS: Final = 8
_N_PATTERNS: Final = {
    "nri_uniform": _NEIGHBOURS * (_NEIGHBOURS - 1) + 3,
    "uniform": _NEIGHBOURS + 2,
}
"""Patterns of 8 neighbours by the names of scikit-image: 59, or 10 if they may be turned."""


class HOG(ImageFeatures):
    """Histograms of oriented gradients of the square in the middle of an image.

    The defaults give 8,100 features: 9 directions in 16 x 16 cells of 16 pixels, normalised in
    overlapping blocks of 2 x 2 cells (L2-Hys).

    Parameters
    ----------
    size : int, default=256
        Side to which the square is resized, in pixels.
    orientations : int, default=9
        Number of directions.
    cell : int, default=16
        Side of a cell, in pixels.
    block : int, default=2
        Side of a block, in cells.
    n_jobs : int or None, default=None
        Threads; None means one for each core. Rows do not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Examples
    --------
    >>> from everlearn.images import HOG
    >>> HOG().transform([np.zeros((100, 150), np.uint8)]).shape
    (1, 8100)
    """

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "orientations": (Interval(1, 360, integer=True),),
        "cell": (Interval(2, integer=True),),
        "block": (Interval(1, integer=True),),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        size: int = 256,
        orientations: int = 9,
        cell: int = 16,
        block: int = 2,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.orientations = orientations
        self.cell = cell
        self.block = block
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _feature_function(self) -> FeatureFunction:
        if self.size < self.cell * self.block:
            raise ValueError(
                f"the 'size' parameter of HOG must hold a block of {self.block} x {self.block} "
                f"cells of {self.cell} pixels. Got {self.size} instead."
            )
        return lambda images: np.stack([self._gradients(image) for image in images])

    def _gradients(self, image: Pixels) -> Features:
        found: NDArray[np.float64] = hog(
            _grey(image),
            orientations=self.orientations,
            pixels_per_cell=(self.cell, self.cell),
            cells_per_block=(self.block, self.block),
            block_norm="L2-Hys",
        )
        return found.astype(np.float32)


class LBP(ImageFeatures):
    """Histograms of local binary patterns of the square in the middle of an image.

    A pattern says which of 8 neighbours of a pixel are at least as bright as the pixel. The
    defaults give 3,776 features: the shares of 59 patterns in each of 8 x 8 parts of the square.

    Parameters
    ----------
    size : int, default=256
        Side to which the square is resized, in pixels.
    grid : int, default=8
        Parts along a side of the square.
    radius : float, default=1.0
        Distance of the neighbours, in pixels.
    rotation_invariant : bool, default=False
        True counts patterns that differ by a rotation as one: 10 patterns, 640 features.
    n_jobs : int or None, default=None
        Threads; None means one for each core. Rows do not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Examples
    --------
    >>> from everlearn.images import LBP
    >>> LBP().transform([np.zeros((100, 150), np.uint8)]).shape
    (1, 3776)
    """

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "grid": (Interval(1, integer=True),),
        "radius": (Interval(0, low_open=True),),
        "rotation_invariant": (Instance((bool, np.bool_), "a truth value"),),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        *,
        size: int = 256,
        grid: int = 8,
        radius: float = 1.0,
        rotation_invariant: bool = False,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.size = size
        self.grid = grid
        self.radius = radius
        self.rotation_invariant = rotation_invariant
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _feature_function(self) -> FeatureFunction:
        if self.size < self.grid:
            raise ValueError(
                f"the 'size' parameter of LBP must be a pixel or more for each of {self.grid} "
                f"parts. Got {self.size} instead."
            )
        return lambda images: np.stack([self._histograms(image) for image in images])

    def _histograms(self, image: Pixels) -> Features:
        method = "uniform" if self.rotation_invariant else "nri_uniform"
        patterns = local_binary_pattern(_grey(image), _NEIGHBOURS, self.radius, method)
        # One histogram for all parts: pattern p in part k is counted in bin k * n_patterns + p.
        n_parts, n_patterns = self.grid**2, _N_PATTERNS[method]
        along_side = np.arange(self.size) * self.grid // self.size
        parts = along_side[:, np.newaxis] * self.grid + along_side
        bins = parts * n_patterns + patterns.astype(np.int64)
        counts = np.bincount(bins.ravel(), minlength=n_parts * n_patterns)
        table = counts.reshape(n_parts, n_patterns)
        shares: Features = (table / table.sum(axis=1, keepdims=True)).astype(np.float32).ravel()
        return shares


def _grey(image: Pixels) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(image).convert("L"))
