"""Pixels as points: where a pixel is and what colour it has.

The colours are CIE L*a*b* (D65) and come from scikit-image: ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.core.arrays import Cube, Mat
from everlearn.estimator.params import Instance, Interval, check_params
from everlearn.images.files import HOW_TO_INSTALL, as_array, as_rgb

try:
    from skimage.color import rgb2lab
    from skimage.transform import resize_local_mean
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


LAB_UNIT = 100.0
"""L* runs from 0 to 100; a* and b* of colours that a screen can show from about -110 to 100."""


def pixel_points(image: ArrayLike, max_side: int | None = None) -> Mat:
    """A point (X, Y, L*, a*, b*) for each pixel, line by line.

    X and Y are measured from the centre of the image, to the right and downwards, in parts of its
    width and height, so that they lie between -0.5 and 0.5; L*, a* and b* are divided by 100. Place
    and colour then weigh about the same, whatever the size of the image. A likelihood of such
    points depends on these units.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA, of 8 or 16 bits, or floats from 0 to 1.
    max_side : int or None, default=None
        Number of pixels to which the longer side is shrunk, if it is longer. A pixel of the smaller
        image has the mean colour of those it covers.

    Returns
    -------
    points : ndarray of float64, shape (n, 5)
        `labels_as_image` turns one label per point into an image again.

    Examples
    --------
    >>> points = pixel_points(np.array([[0, 255]], np.uint8))
    >>> points.round(2) + 0.0
    array([[-0.25,  0.  ,  0.  ,  0.  ,  0.  ],
           [ 0.25,  0.  ,  1.  ,  0.  ,  0.  ]])
    """
    rgb = _shrunk(as_rgb(image, "pixel_points"), max_side, "pixel_points")
    height, width = rgb.shape[:2]
    points = np.empty((height, width, 5))
    points[:, :, 0] = _positions(width)
    points[:, :, 1] = _positions(height)[:, np.newaxis]
    points[:, :, 2:] = rgb2lab(rgb) / LAB_UNIT
    return points.reshape(-1, 5)


def labels_as_image(
    labels: ArrayLike, image: ArrayLike, max_side: int | None = None
) -> NDArray[Any]:
    """The labels of an image's points as an image of labels, of the size of the first.

    Parameters
    ----------
    labels : array-like, shape (n,)
        One for each of the points that `pixel_points(image, max_side)` has.
    image, max_side
        The same as there. If the image was shrunk, its pixels get the label of the point that
        covers their centre.

    Returns
    -------
    labels : ndarray, shape (height, width)

    Examples
    --------
    >>> image = np.zeros((2, 4), np.uint8)
    >>> labels_as_image([7, 8], image, max_side=2)
    array([[7, 7, 8, 8],
           [7, 7, 8, 8]])
    """
    flat, full = np.asarray(labels), _sides(image, "labels_as_image")
    small = _shrunken(full, max_side, "labels_as_image")
    if flat.shape != (small[0] * small[1],):
        raise ValueError(
            f"'labels' of labels_as_image must be {small[0] * small[1]:,} labels, one for each of "
            f"{small[0]} x {small[1]} points, got the shape {flat.shape}; "
            "give the 'max_side' the points were made with"
        )
    return enlarged(flat.reshape(small), full)


def enlarged(labels: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """Labels of a smaller image for one of the shape given, by the nearest."""
    rows, columns = (
        ((2 * np.arange(large) + 1) * small) // (2 * large)
        for large, small in zip(shape, labels.shape, strict=True)
    )
    return labels[np.ix_(rows, columns)]


def shrunken_shape(image: ArrayLike, max_side: int | None) -> tuple[int, int]:
    """Height and width of the image of which `pixel_points` makes points.

    Examples
    --------
    >>> shrunken_shape(np.zeros((200, 160)), 50)
    (50, 40)
    """
    return _shrunken(_sides(image, "shrunken_shape"), max_side, "shrunken_shape")


def _sides(image: ArrayLike, owner: str) -> tuple[int, int]:
    """Height and width."""
    shape = as_array(image).shape
    if len(shape) not in (2, 3):
        raise ValueError(
            f"'image' of {owner} must have the shape (height, width), or (height, width, "
            f"channels), got the shape {shape}"
        )
    return shape[0], shape[1]


def _shrunken(shape: tuple[int, int], max_side: int | None, owner: str) -> tuple[int, int]:
    """Height and width, the longer of them at most `max_side`."""
    allowed = (Interval(1, integer=True), Instance((type(None),), "None"))
    check_params(owner, {"max_side": max_side}, {"max_side": allowed})
    height, width = shape
    if max_side is None or max_side >= max(height, width):
        return height, width
    factor = max_side / max(height, width)
    return max(1, round(factor * height)), max(1, round(factor * width))


def _shrunk(rgb: Cube, max_side: int | None, owner: str) -> Cube:
    full = _sides(rgb, owner)
    shape = _shrunken(full, max_side, owner)
    if shape == full:
        return rgb
    small: Cube = resize_local_mean(rgb, shape, channel_axis=2)
    return small


def _positions(n: int) -> Mat:
    """The centres of n equal parts of the interval from -0.5 to 0.5."""
    return (np.arange(n) + 0.5) / n - 0.5
