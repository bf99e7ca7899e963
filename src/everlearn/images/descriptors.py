"""SIFT-like descriptors at any place and scale.

A descriptor has 4 x 4 cells around its place, and in each cell the strength of the gradients in 8
directions (Lowe 2004, section 6). As in dense SIFT, the patch stays upright. scikit-image computes
descriptors only at keypoints that it detects itself, so they are computed here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.ndimage import gaussian_filter

from everlearn.core.arrays import Cube, Mat, Vec
from everlearn.core.random import stream
from everlearn.estimator.params import Interval, check_params
from everlearn.images.files import HOW_TO_INSTALL, as_array, as_rgb

try:
    from skimage.color import rgb2gray
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


N_NUMBERS: Final = 128
"""Length of a descriptor: 4 x 4 cells, each with 8 directions."""
PATCH: Final = 16
"""Side of the patch of a descriptor of scale 1, in pixels."""
SCALES: Final = (1.0, 2.0**0.5, 2.0, 2.0**1.5)
"""Scales of `random_places`: patches of 16, 22.6, 32 and 45.3 pixels."""
_CELLS, _DIRECTIONS = 4, 8
_BLUR = 2.0 / 3.0  # standard deviation for scale 1: a sixth of a cell, usual for dense SIFT
_CLIP = 0.2  # Lowe's limit: strong edges must not drown the rest
_FLAT = 1e-9  # smaller mean gradients, relative to the full range, are rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Places of descriptors: columns `x`, rows `y` and scales, each of shape (n,)."""

    x: Vec
    y: Vec
    scale: Vec


def dense_descriptors(
    image: ArrayLike, n: int = 500, *, seed: int = 0, scales: Sequence[float] = SCALES
) -> Mat:
    """Descriptors of an image at random places and scales.

    The places depend on the seed and the image only: an image always gets the same descriptors,
    and two images of one size get different places.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA, of 8 or 16 bits, or floats from 0 to 1.
    n : int, default=500
        Number of descriptors.
    seed : int, default=0
        Another seed gives other places.
    scales : sequence of float, default=SCALES
        Sides of patches in units of 16 pixels, all equally likely.

    Returns
    -------
    descriptors : ndarray of float64, shape (n, 128)
        Vectors of length 1 without negative entries; see `descriptors_at`.

    Examples
    --------
    >>> image = np.random.default_rng(0).random((60, 80))
    >>> found = dense_descriptors(image, n=50)
    >>> found.shape, bool((found == dense_descriptors(image, n=50)).all())
    ((50, 128), True)
    """
    grey = _grey(image, "dense_descriptors")
    return _descriptors(grey, _draw_places("dense_descriptors", image, n, seed, scales))


def random_places(
    image: ArrayLike, n: int = 500, *, seed: int = 0, scales: Sequence[float] = SCALES
) -> Places:
    """The random places and scales of `dense_descriptors`.

    Scales whose patch does not fit into the image are left out, except the smallest. All corners
    between pixels at which a patch fits are equally likely. A patch that fits nowhere is put into
    the middle.

    Examples
    --------
    >>> places = random_places(np.zeros((40, 300)), n=100)
    >>> bool(places.y.min() >= 7.5), bool(places.scale.max() <= 2.0)
    (True, True)
    """
    return _draw_places("random_places", image, n, seed, scales)


def _draw_places(
    owner: str, image: ArrayLike, n: int, seed: int, scales: Sequence[float]
) -> Places:
    """`random_places`, with messages that name the function which the user called."""
    table = {
        "n": (Interval(1, integer=True),),
        "seed": (Interval(0, integer=True),),
    }
    check_params(owner, {"n": n, "seed": seed}, table)
    sizes = np.unique(np.asarray(scales, dtype=np.float64))
    _check_scales(sizes, scales, owner)
    pixels = np.ascontiguousarray(as_array(image))
    if pixels.ndim not in (2, 3) or not pixels.size:
        raise ValueError(
            f"'image' of {owner} must have the shape (height, width) or (height, width, "
            f"channels) and at least one pixel, got the shape {pixels.shape}"
        )
    height, width = pixels.shape[:2]
    margins = np.ceil(sizes * PATCH / 2)
    n_fitting = max(1, int(np.sum(2 * margins <= min(height, width))))
    content = repr((pixels.shape, pixels.dtype.str)).encode() + pixels.tobytes()
    key = int.from_bytes(blake2b(content, digest_size=16).digest(), "little")
    draws = stream(seed, "sample", key).random((3, n))
    which = (draws[0] * n_fitting).astype(np.int64)
    x, y = (
        _corners(side, margins[which], u)
        for side, u in zip((width, height), draws[1:], strict=True)
    )
    return Places(x, y, sizes[which])


def _corners(side: int, margin: Vec, u: Vec) -> Vec:
    """Corners between pixels at least a margin away from both ends, else in the middle."""
    first = np.minimum(margin, side // 2)
    chosen: Vec = first + np.floor(u * (side - 2 * first + 1)) - 0.5
    return chosen


def descriptors_at(image: ArrayLike, places: Places) -> Mat:
    """Descriptors of an image at the given places.

    The image is smoothed in proportion to the scale. Around the place, 16 x 16 gradients are
    sampled, one about every `scale` pixels. Each counts with its magnitude, weighted by a Gaussian
    whose standard deviation is half the patch, and is shared between the two nearest directions and
    the four nearest cells. The sums are scaled to length 1, clipped at 0.2, and scaled again, so
    brightness and contrast do not matter. Samples outside the image do not count. A patch without
    gradients gets zeros.

    Parameters
    ----------
    image : array-like
        As in `dense_descriptors`. Colours are turned into grey.
    places : Places
        Integers are the centres of pixels. Places are rounded to the nearest corner between pixels:
        7 and 7.9 become 7.5. Fewer different scales are faster.

    Returns
    -------
    descriptors : ndarray of float64, shape (n, 128)
        Cells row by row from the upper left. In each cell, directions every 45 degrees, from the
        right and clockwise.

    Examples
    --------
    >>> brighter_to_the_right = np.tile(np.linspace(0, 1, 32), (32, 1))
    >>> one = descriptors_at(brighter_to_the_right, Places(*np.array([[15.5], [15.5], [1.0]])))
    >>> one.reshape(4, 4, 8).sum(axis=(0, 1)).round(2) + 0.0
    array([3.99, 0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.  ])
    """
    x, y, scale = (np.asarray(a, dtype=np.float64) for a in (places.x, places.y, places.scale))
    if not (x.shape == y.shape == scale.shape and x.ndim == 1):
        raise ValueError(
            "'places' of descriptors_at must have three arrays of one length, got the shapes "
            f"{x.shape}, {y.shape} and {scale.shape}"
        )
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("'places' of descriptors_at must be finite, got NaN or infinity")
    if scale.size:
        _check_scales(scale, places.scale, "descriptors_at")
    return _descriptors(_grey(image, "descriptors_at"), Places(x, y, scale))


def _descriptors(grey: Mat, places: Places) -> Mat:
    """The descriptors of a grey image, one scale after the other."""
    out = np.empty((len(places.x), N_NUMBERS))
    for scale in np.unique(places.scale):
        chosen = np.flatnonzero(places.scale == scale)
        offsets = _sample_offsets(scale)
        maps = _direction_maps(gaussian_filter(grey, _BLUR * scale, mode="nearest"))
        samples = _sampled(maps, places.x[chosen], places.y[chosen], offsets)
        weights = _cell_weights(offsets, scale).T
        # Sum the samples of a patch into cells, first along y, then along x.
        rows = np.matmul(weights, samples.reshape(-1, PATCH, PATCH * _DIRECTIONS))
        cells = np.matmul(weights, rows.reshape(-1, PATCH, _DIRECTIONS))
        out[chosen] = cells.reshape(-1, N_NUMBERS)
    return _normalised(out)


def _grey(image: ArrayLike, owner: str) -> Mat:
    grey: Mat = rgb2gray(as_rgb(image, owner))
    return grey


def _sample_offsets(scale: float) -> Vec:
    """Offsets from a corner between pixels to 16 centres of pixels, about `scale` apart."""
    half = np.floor((np.arange(PATCH // 2) + 0.5) * scale) + 0.5
    return np.concatenate([-half[::-1], half])


def _direction_maps(grey: Mat) -> Cube:
    """Gradients by direction, (h + 2, w + 2, 8) with a border of zeros.

    The magnitude of a gradient is shared between the two nearest directions.
    """
    height, width = grey.shape
    padded = np.pad(grey, 1, mode="edge")
    right = padded[1:-1, 2:] - padded[1:-1, :-2]
    down = padded[2:, 1:-1] - padded[:-2, 1:-1]
    magnitude = 0.5 * np.sqrt(right**2 + down**2)
    turn = np.arctan2(down, right) * (_DIRECTIONS / (2 * np.pi)) + _DIRECTIONS  # at least 4
    lower = turn.astype(np.int64)
    upper_part = magnitude * (turn - lower)
    maps = np.zeros((height + 2, width + 2, _DIRECTIONS))
    pixel = (np.arange(height) + 1)[:, np.newaxis] * (width + 2) + np.arange(width) + 1
    flat = maps.reshape(-1)
    flat[_DIRECTIONS * pixel + lower % _DIRECTIONS] = magnitude - upper_part
    flat[_DIRECTIONS * pixel + (lower + 1) % _DIRECTIONS] = upper_part
    return maps


def _sampled(maps: Cube, x: Vec, y: Vec, offsets: Vec) -> Cube:
    """The maps at 16 x 16 pixels around each place, (n, 256, 8). Outside the image: zeros."""
    height, width = maps.shape[:2]
    rows, columns = (
        np.clip(np.floor(at)[:, np.newaxis] + (1.5 + offsets), 0, side - 1).astype(np.int64)
        for at, side in ((y, height), (x, width))
    )
    index = rows[:, :, np.newaxis] * width + columns[:, np.newaxis]
    found: Cube = maps.reshape(-1, _DIRECTIONS).take(index.reshape(len(x), PATCH * PATCH), axis=0)
    return found


def _cell_weights(offsets: Vec, scale: float) -> Mat:
    """Weights of the 16 samples along one axis in the 4 cells along it, (16, 4)."""
    from_middle = offsets / (scale * PATCH / _CELLS)  # in cells
    centres = np.arange(_CELLS) - (_CELLS - 1) / 2
    nearness = np.maximum(1.0 - np.abs(from_middle[:, np.newaxis] - centres), 0.0)
    gaussian = np.exp(-0.5 * (from_middle / (_CELLS / 2)) ** 2)
    return nearness * gaussian[:, np.newaxis]


def _normalised(sums: Mat) -> Mat:
    """Rows of length 1, clipped at 0.2 before the last scaling. Flat patches stay zero."""
    length = np.linalg.norm(sums, axis=1, keepdims=True)
    flat = length <= _FLAT * PATCH**2
    unit = np.minimum(sums / np.where(flat, np.inf, length), _CLIP)
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    out: Mat = unit / np.where(flat, np.inf, length)
    return out


def _check_scales(sizes: Vec, given: object, owner: str) -> None:
    if sizes.ndim != 1 or not sizes.size or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(f"the scales given to {owner} must be positive numbers, got {given!r}")
