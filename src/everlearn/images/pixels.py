"""Pixels as points of place and colour, and labels of points as images.

scikit-image computes the colours, CIE L*a*b* (D65): ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.core.arrays import Mat, Vec
from everlearn.estimator.params import Instance, Interval, check_params
from everlearn.images.files import HOW_TO_INSTALL, as_array, as_rgb

try:
    from skimage.color import rgb2lab
    from skimage.transform import resize_local_mean
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


LAB_UNIT = 100.0
"""L* runs from 0 to 100; a* and b* of colours on a screen from about -110 to 100."""


def pixel_points(image: ArrayLike, max_side: int | None = None) -> Mat:
    """A point (X, Y, L*, a*, b*) for each pixel, row by row.

    X and Y run from -0.5 to 0.5 between opposite edges, to the right and downwards. L*, a* and b*
    are divided by 100. Place and colour then weigh about the same, whatever the size of the image.
    Likelihoods of points depend on these units.

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA, of 8 or 16 bits, or floats from 0 to 1.
    max_side : int or None, default=None
        Shrink the image so that its longer side has at most this many pixels. A pixel of the
        smaller image has the mean colour of the pixels it covers. None keeps the size.

    Returns
    -------
    points : ndarray of float64, shape (n, 5)
        `labels_as_image` turns one label for each point into an image again.

    Examples
    --------
    >>> points = pixel_points(np.array([[0, 255]], np.uint8))
    >>> points.round(2) + 0.0
    array([[-0.25,  0.  ,  0.  ,  0.  ,  0.  ],
           [ 0.25,  0.  ,  1.  ,  0.  ,  0.  ]])
    """
    rgb = as_rgb(image, "pixel_points")
    full = _shape(rgb, "pixel_points")
    height, width = _shrunken_shape(full, max_side, "pixel_points")
    if (height, width) != full:
        rgb = resize_local_mean(rgb, (height, width), channel_axis=2)
    points = np.empty((height, width, 5))
    points[:, :, 0] = _centres(width)
    points[:, :, 1] = _centres(height)[:, np.newaxis]
    points[:, :, 2:] = rgb2lab(rgb) / LAB_UNIT
    return points.reshape(-1, 5)


def labels_as_image(
    labels: ArrayLike, image: ArrayLike, max_side: int | None = None
) -> NDArray[Any]:
    """An image of labels from one label for each point of an image.

    Parameters
    ----------
    labels : array-like, shape (n,)
        One for each point of `pixel_points(image, max_side)`.
    image, max_side
        As in `pixel_points`. If the image was shrunk, a pixel gets the label of the point that
        covers its centre.

    Returns
    -------
    labels : ndarray, shape (height, width)
        Of the size of the image before it was shrunk.

    Examples
    --------
    >>> image = np.zeros((2, 4), np.uint8)
    >>> labels_as_image([7, 8], image, max_side=2)
    array([[7, 7, 8, 8],
           [7, 7, 8, 8]])
    """
    flat, full = np.asarray(labels), _shape(image, "labels_as_image")
    height, width = _shrunken_shape(full, max_side, "labels_as_image")
    if flat.shape != (height * width,):
        raise ValueError(
            f"'labels' of labels_as_image must be {height * width:,} labels, one for each of "
            f"{height} x {width} points, got the shape {flat.shape}; "
            "give the 'max_side' the points were made with"
        )
    return enlarged(flat.reshape(height, width), full)


def enlarged(labels: NDArray[Any], shape: tuple[int, ...]) -> NDArray[Any]:
    """An image of labels enlarged to a shape: a pixel gets the label that covers its centre."""
    rows, columns = (
        ((2 * np.arange(large) + 1) * small) // (2 * large)
        for large, small in zip(shape, labels.shape, strict=True)
    )
    return labels[np.ix_(rows, columns)]


def shrunken_shape(image: ArrayLike, max_side: int | None) -> tuple[int, int]:
    """Height and width of the image after `pixel_points` has shrunk it.

    Examples
    --------
    >>> shrunken_shape(np.zeros((200, 160)), 50)
    (50, 40)
    """
    return _shrunken_shape(_shape(image, "shrunken_shape"), max_side, "shrunken_shape")


def _shape(image: ArrayLike, owner: str) -> tuple[int, int]:
    """Height and width."""
    shape = as_array(image).shape
    if len(shape) not in (2, 3):
        raise ValueError(
            f"'image' of {owner} must have the shape (height, width), or (height, width, "
            f"channels), got the shape {shape}"
        )
    return shape[0], shape[1]


def _shrunken_shape(shape: tuple[int, int], max_side: int | None, owner: str) -> tuple[int, int]:
    """Height and width in the same proportion, the longer of them at most `max_side`."""
    allowed = (Interval(1, integer=True), Instance((type(None),), "None"))
    check_params(owner, {"max_side": max_side}, {"max_side": allowed})
    height, width = shape
    if max_side is None or max_side >= max(height, width):
        return height, width
    factor = max_side / max(height, width)
    return max(1, round(factor * height)), max(1, round(factor * width))


def _centres(n: int) -> Vec:
    """The centres of n equal parts of the interval from -0.5 to 0.5."""
    return (np.arange(n) + 0.5) / n - 0.5
