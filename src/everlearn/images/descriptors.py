"""SIFT-like descriptors at places and scales of one's own choice.

A descriptor tells which way brightness rises around a place: in each of 4 x 4 cells, how strongly
it rises in each of 8 directions (Lowe 2004, section 6). scikit-image computes them at the keypoints
it detects itself and nowhere else, so they are computed here. As in dense SIFT, the patch stays
upright.
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
"""Numbers in a descriptor: 4 lines of 4 cells, each with 8 directions."""
PATCH: Final = 16
"""Side of the square that a descriptor of scale 1 describes, in pixels."""
SCALES: Final = (1.0, 2.0**0.5, 2.0, 2.0**1.5)
"""Scales among which `random_places` chooses: patches of 16, 22.6, 32 and 45.3 pixels."""
_CELLS, _DIRECTIONS = 4, 8
_BLUR = 2.0 / 3.0  # per scale: a sixth of a cell, as usual for dense descriptors
_CLIP = 0.2  # Lowe's: strong edges must not drown the rest
_FLAT = 1e-9  # mean gradients of less than this, in parts of the full range, are rounding errors


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Where to describe an image: columns `x`, lines `y`, and scales, each of shape (n,)."""

    x: Vec
    y: Vec
    scale: Vec


def dense_descriptors(
    image: ArrayLike, n: int = 500, *, seed: int = 0, scales: Sequence[float] = SCALES
) -> Mat:
    """Descriptors of an image at random places and scales.

    The draws depend on the seed and on the image, and on nothing else: an image has the same
    descriptors whenever it is seen, and images of one size do not share their places.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA, of 8 or 16 bits, or floats from 0 to 1.
    n : int, default=500
        Number of descriptors.
    seed : int, default=0
        Another seed chooses other places.
    scales : sequence of float, default=SCALES
        Sides of patches in units of 16 pixels; each is as likely as the others.

    Returns
    -------
    descriptors : ndarray of float64, shape (n, 128)
        Of length 1, and not negative; see `descriptors_at`.

    Examples
    --------
    >>> image = np.random.default_rng(0).random((60, 80))
    >>> found = dense_descriptors(image, n=50)
    >>> found.shape, bool((found == dense_descriptors(image, n=50)).all())
    ((50, 128), True)
    """
    grey = _grey(image, "dense_descriptors")
    return _described(grey, _drawn_places("dense_descriptors", image, n, seed, scales))


def random_places(
    image: ArrayLike, n: int = 500, *, seed: int = 0, scales: Sequence[float] = SCALES
) -> Places:
    """The places and scales at which `dense_descriptors` describes an image.

    A scale whose patch does not fit into the image is left out, unless it is the smallest. Within
    the room that a patch has, all corners between pixels are equally likely; a patch that has no
    room is put into the middle.

    Examples
    --------
    >>> places = random_places(np.zeros((40, 300)), n=100)
    >>> bool(places.y.min() >= 7.5), bool(places.scale.max() <= 2.0)
    (True, True)
    """
    return _drawn_places("random_places", image, n, seed, scales)


def _drawn_places(
    owner: str, image: ArrayLike, n: int, seed: int, scales: Sequence[float]
) -> Places:
    """`random_places`; messages name the owner, which is what the user has called."""
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
    """Corners between pixels at least a margin away from both ends, if there are any."""
    first = np.minimum(margin, side // 2)
    chosen: Vec = first + np.floor(u * (side - 2 * first + 1)) - 0.5
    return chosen


def descriptors_at(image: ArrayLike, places: Places) -> Mat:
    """Descriptors of an image at the places given.

    The image is smoothed as the scale demands. Of its gradients, 16 x 16 samples are taken around
    the place, one about every `scale` pixels. They count with their magnitude, weighted by a
    Gaussian whose standard deviation is half the patch, and are shared between the two nearest
    directions and the four nearest cells. The sums are scaled to length 1, cut at 0.2, and scaled
    again. Brightness and contrast therefore do not matter. What lies outside the image does not
    count, and a patch without any gradient is described by zeros.

    Parameters
    ----------
    image : array-like
        As in `dense_descriptors`; colours do not count.
    places : Places
        Whole numbers are the centres of pixels. A place is taken for the corner between pixels that
        is nearest: the one at 7.5, if it is 7 or 7.9. The fewer different scales, the faster.

    Returns
    -------
    descriptors : ndarray of float64, shape (n, 128)
        Cells from the upper left, line by line; in each, directions from the right and clockwise
        (as the lines of an image count downwards), 45 degrees apart.

    Examples
    --------
    >>> brighter_to_the_right = np.tile(np.linspace(0, 1, 32), (32, 1))
    >>> one = descriptors_at(brighter_to_the_right, Places(*np.array([[15.5], [15.5], [1.0]])))
    >>> one.reshape(4, 4, 8).sum(axis=(0, 1)).round(2) + 0.0
    array([3.99, 0.  , 0.  , 0.  , 0.  , 0.  , 0.  , 0.  ])
    """
    numbers = Places(*(np.asarray(a, dtype=np.float64) for a in (places.x, places.y, places.scale)))
    shapes = {numbers.x.shape, numbers.y.shape, numbers.scale.shape}
    if len(shapes) != 1 or numbers.x.ndim != 1:
        raise ValueError(
            "'places' of descriptors_at must have three arrays of one length, got the shapes "
            f"{numbers.x.shape}, {numbers.y.shape} and {numbers.scale.shape}"
        )
    if not (np.isfinite(numbers.x).all() and np.isfinite(numbers.y).all()):
        raise ValueError("'places' of descriptors_at must be finite, got NaN or infinity")
    if numbers.scale.size:
        _check_scales(numbers.scale, places.scale, "descriptors_at")
    return _described(_grey(image, "descriptors_at"), numbers)


def _described(grey: Mat, places: Places) -> Mat:
    out = np.empty((len(places.x), N_NUMBERS))
    for scale in np.unique(places.scale):
        chosen = np.flatnonzero(places.scale == scale)
        offsets = _offsets(scale)
        maps = _direction_maps(gaussian_filter(grey, _BLUR * scale, mode="nearest"))
        samples = _sampled(maps, places.x[chosen], places.y[chosen], offsets)
        weights = _cell_weights(offsets, scale).T
        lines = np.matmul(weights, samples.reshape(-1, PATCH, PATCH * _DIRECTIONS))
        cells = np.matmul(weights, lines.reshape(-1, PATCH, _DIRECTIONS))
        out[chosen] = cells.reshape(-1, N_NUMBERS)
    return _normalised(out)


def _grey(image: ArrayLike, owner: str) -> Mat:
    grey: Mat = rgb2gray(as_rgb(image, owner))
    return grey


def _offsets(scale: float) -> Vec:
    """Where samples lie from a corner between pixels: at centres of pixels, about `scale` apart."""
    half = np.floor((np.arange(PATCH // 2) + 0.5) * scale) + 0.5
    return np.concatenate([-half[::-1], half])


def _direction_maps(grey: Mat) -> Cube:
    """How strongly each pixel rises in each direction, (h + 2, w + 2, 8) with a border of zeros."""
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
    """The maps at 16 x 16 pixels around each place, (n, 256, 8); zeros outside the image."""
    height, width = maps.shape[:2]
    rows, columns = (
        np.clip(np.floor(at)[:, np.newaxis] + (1.5 + offsets), 0, side - 1).astype(np.int64)
        for at, side in ((y, height), (x, width))
    )
    index = rows[:, :, np.newaxis] * width + columns[:, np.newaxis]
    found: Cube = maps.reshape(-1, _DIRECTIONS).take(index.reshape(len(x), PATCH * PATCH), axis=0)
    return found


def _cell_weights(offsets: Vec, scale: float) -> Mat:
    """How much each of 16 samples of a line counts in each of 4 cells, (16, 4)."""
    from_middle = offsets / (scale * PATCH / _CELLS)  # in cells
    centres = np.arange(_CELLS) - (_CELLS - 1) / 2
    near = np.maximum(1.0 - np.abs(from_middle[:, np.newaxis] - centres), 0.0)
    bell = np.exp(-0.5 * (from_middle / (_CELLS / 2)) ** 2)
    return near * bell[:, np.newaxis]


def _normalised(sums: Mat) -> Mat:
    """Each row of length 1, with no number above 0.2 before the last scaling."""
    length = np.linalg.norm(sums, axis=1, keepdims=True)
    flat = length <= _FLAT * PATCH**2
    unit = np.minimum(sums / np.where(flat, np.inf, length), _CLIP)
    length = np.linalg.norm(unit, axis=1, keepdims=True)
    out: Mat = unit / np.where(flat, np.inf, length)
    return out


def _check_scales(sizes: Vec, given: object, owner: str) -> None:
    if sizes.ndim != 1 or not sizes.size or not (np.isfinite(sizes) & (sizes > 0)).all():
        raise ValueError(f"the scales given to {owner} must be positive numbers, got {given!r}")
