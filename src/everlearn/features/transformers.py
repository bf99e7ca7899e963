"""From images to rows of numbers: what `HOG`, `LBP` and `CNNFeatures` share.

Images are decoded, cut square and described by several threads. What a thread is given does not
depend on how many there are, so neither do the rows.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags

from everlearn.core.errors import ImageDecodeError
from everlearn.core.params import Constraint, Instance, Interval, Options, check_params
from everlearn.features.images import (
    HOW_TO_INSTALL,
    LabelledImage,
    Pixels,
    as_pixels,
    read_image,
)
from everlearn.runtime.progress import ImageProgress

try:
    from PIL import Image
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error

Features: TypeAlias = NDArray[np.float32]
"""A row of numbers for each image."""
Describe: TypeAlias = Callable[[list[Pixels]], Features]
"""From square images of one size to their rows."""
T = TypeVar("T")
R = TypeVar("R")

COMMON_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "size": (Interval(16, 4096, integer=True),),
    "n_jobs": (Options((None,)), Interval(1, integer=True)),
    "verbose": (Interval(0, integer=True), Instance((bool,), "a truth value")),
}


class ImageFeatures(TransformerMixin, BaseEstimator, ABC):
    """A transformer from images to rows, which learns nothing."""

    batch_size: int = 16
    size: int
    n_jobs: int | None
    verbose: int
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]]

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters; there is nothing to learn, and no image is looked at.

        Parameters
        ----------
        X, y : any
            Ignored.

        Returns
        -------
        self
            The same transformer.
        """
        self._describe()
        return self

    def transform(self, X: Iterable[Any]) -> Features:
        """A row of numbers for each image.

        Parameters
        ----------
        X : iterable of images
            Paths, the bytes of files, arrays of shape (height, width) or (height, width, 1, 3 or
            4) as in `everlearn.features.images.as_rgb`, or what an `ImageFolder` yields. A
            generator is read as the work goes on.

        Returns
        -------
        rows : ndarray of float32, shape (n_images, n_features)

        Raises
        ------
        ImageDecodeError, ValueError
            If an image is none; the message names the file, or the position of the array.
        """
        found = list(self.stream(X))
        if not found:
            raise ValueError(f"X of {type(self).__name__} must hold at least one image, got none")
        return np.concatenate(found)

    def stream(self, X: Iterable[Any]) -> Iterator[Features]:
        """The same rows, a few at a time, so that they need not be in memory together."""
        describe, owner = self._describe(), type(self).__name__
        images = _checked_images(X, owner)

        def rows(batch: tuple[tuple[int, Any], ...]) -> Features:
            return describe([square(_pixels(i, image, owner), self.size) for i, image in batch])

        total = len(X) if isinstance(X, Sized) else None
        batches = _batches(enumerate(images), self.batch_size)
        with ImageProgress(self.verbose, total) as progress:
            for found in in_order(rows, batches, self.n_jobs or os.cpu_count() or 1):
                progress.show(len(found))
                yield found

    def _describe(self) -> Describe:
        """The function that does the work, after a look at the parameters."""
        check_params(type(self).__name__, self.get_params(deep=False), self._constraints)
        return self._describer()

    @abstractmethod
    def _describer(self) -> Describe:
        """The function that does the work, with the parameters as they are."""

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.no_validation = True  # images are no table of numbers
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def in_order(task: Callable[[T], R], items: Iterable[T], n_threads: int) -> Iterator[R]:
    """Results in the order of the items, of which no more than a few are under way at a time."""
    under_way: deque[Future[R]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                under_way.append(pool.submit(task, item))
                if len(under_way) > 2 * n_threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:  # after an error nobody waits for the others
            for future in under_way:
                future.cancel()


def _batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def square(pixels: Pixels, size: int) -> Pixels:
    """The square in the middle of an image, resized.

    Examples
    --------
    >>> image = np.zeros((20, 60, 3), np.uint8)
    >>> image[:, 20:40] = 255
    >>> square(image, 16).min(), square(image, 16).shape
    (np.uint8(255), (16, 16, 3))
    """
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    middle = Image.fromarray(np.ascontiguousarray(pixels[top : top + side, left : left + side]))
    if side == size:
        return np.asarray(middle)
    return np.asarray(middle.resize((size, size), Image.Resampling.BILINEAR))


def _checked_images(X: Any, owner: str) -> Iterable[Any]:
    """X, unless it is a single image, a single path or nothing one could go through."""
    if isinstance(X, (str, bytes, os.PathLike)) or not isinstance(X, Iterable):
        raise ValueError(
            f"X of {owner} must be a list of images or of paths, got {type(X).__name__}; "
            "for a single image give a list that holds it"
        )
    if isinstance(X, np.ndarray) and X.ndim not in (1, 3, 4):
        raise ValueError(
            f"X of {owner} must be a list of images or of paths, or an array of images with 3 or "
            f"4 axes, got an array of shape {X.shape}"
        )
    if isinstance(X, np.ndarray) and X.ndim == 3 and X.shape[2] in (3, 4):
        raise ValueError(
            f"X of {owner} must be a list of images, got an array of shape {X.shape}, which is "
            "one image in colour; give a list that holds it"
        )
    return X


def _pixels(position: int, image: Any, owner: str) -> Pixels:
    """The pixels of an image, whatever form it comes in."""
    if isinstance(image, LabelledImage):
        return image.pixels
    try:
        if isinstance(image, (str, bytes, os.PathLike)):
            return read_image(image)
        return as_pixels(_array(image), owner)
    except ImageDecodeError as error:
        raise ImageDecodeError(f"image {position} of {owner}: {error}") from error
    except OSError as error:
        raise type(error)(f"image {position} of {owner} cannot be read: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"image {position} of {owner}: {error}") from error


def _array(image: ArrayLike) -> NDArray[Any]:
    array = np.asarray(image)
    if array.dtype.kind not in "buif":
        raise ValueError(f"expected a path, bytes or pixels, got {type(image).__name__}")
    return array
