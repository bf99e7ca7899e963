"""Images by their gradients (`HOG`) and by their local binary patterns (`LBP`).

scikit-image computes both: ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import ClassVar, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from everlearn.estimator.params import Constraint, Instance, Interval
from everlearn.images.base import COMMON_CONSTRAINTS, Describe, Features, ImageFeatures
from everlearn.images.files import HOW_TO_INSTALL, Pixels

try:
    from skimage.feature import hog, local_binary_pattern
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


_POINTS: Final = 8
_CODES: Final = {False: _POINTS * (_POINTS - 1) + 3, True: _POINTS + 2}
"""Uniform patterns of 8 neighbours and one for all others: 59, or 10 whichever way they turn."""


class _Textures(ImageFeatures):
    """Histograms of images, one image after the other."""

    def _describer(self) -> Describe:
        self._check_size()
        return lambda images: np.stack([self._histograms(image) for image in images])

    @abstractmethod
    def _check_size(self) -> None:
        """Refuse a size that the other parameters do not allow."""

    @abstractmethod
    def _histograms(self, image: Pixels) -> Features:
        """The row of one image."""


class HOG(_Textures):
    """Histograms of oriented gradients of the square in the middle of an image.

    The defaults make 8,100 numbers: 9 directions in 16 x 16 cells of 16 pixels, normalised in
    blocks of 2 x 2 cells (L2-Hys).

    Parameters
    ----------
    size : int, default=256
        Side to which the square is resized, in pixels.
    orientations : int, default=9
        Directions that are told apart.
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

    def _check_size(self) -> None:
        if self.size < self.cell * self.block:
            raise ValueError(
                f"the 'size' parameter of HOG must hold a block of {self.block} x {self.block} "
                f"cells of {self.cell} pixels. Got {self.size} instead."
            )

    def _histograms(self, image: Pixels) -> Features:
        found: NDArray[np.float64] = hog(
            _grey(image),
            orientations=self.orientations,
            pixels_per_cell=(self.cell, self.cell),
            cells_per_block=(self.block, self.block),
            block_norm="L2-Hys",
        )
        return found.astype(np.float32)


class LBP(_Textures):
    """Histograms of local binary patterns on a grid of the square in the middle of an image.

    A pattern says which of 8 neighbours of a pixel are at least as bright as it. The defaults make
    3,776 numbers: the shares of 59 patterns in each of 8 x 8 parts.

    Parameters
    ----------
    size : int, default=256
        Side to which the square is resized, in pixels.
    grid : int, default=8
        Parts along a side.
    radius : float, default=1.0
        Distance of the neighbours, in pixels.
    rotation_invariant : bool, default=False
        Whether patterns that differ by a turn are one: 10 patterns then, 640 numbers.
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

    def _check_size(self) -> None:
        if self.size < self.grid:
            raise ValueError(
                f"the 'size' parameter of LBP must be a pixel or more for each of {self.grid} "
                f"parts. Got {self.size} instead."
            )

    def _histograms(self, image: Pixels) -> Features:
        method = "uniform" if self.rotation_invariant else "nri_uniform"
        codes = local_binary_pattern(_grey(image), _POINTS, self.radius, method).astype(np.int64)
        n_codes = _CODES[bool(self.rotation_invariant)]
        part = np.arange(self.size) * self.grid // self.size
        cells = part[:, np.newaxis] * self.grid + part
        n_cells = self.grid**2
        counts = np.bincount((cells * n_codes + codes).ravel(), minlength=n_cells * n_codes)
        table = counts.reshape(n_cells, n_codes)
        shares: Features = (table / table.sum(axis=1, keepdims=True)).astype(np.float32).ravel()
        return shares


def _grey(image: Pixels) -> NDArray[np.uint8]:
    return np.asarray(Image.fromarray(image).convert("L"))
