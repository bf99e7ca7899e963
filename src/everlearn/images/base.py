"""The base class of `HOG`, `LBP` and `CNNFeatures`: one row of features for each image.

Threads decode images, cut out the middle square and compute the features, one batch at a time. The
batches do not depend on the number of threads, so neither do the rows.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any, ClassVar, Final, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags

from everlearn.engine.local import usable_cores
from everlearn.engine.progress import ImageProgress
from everlearn.errors import ImageDecodeError
from everlearn.estimator.other_names import NameAdvice
from everlearn.estimator.params import Constraint, Instance, Interval, Options, check_params
from everlearn.images.files import HOW_TO_INSTALL, AnyImage, ImageFolder, Pixels, pixels_of

try:
    from PIL import Image
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


Features: TypeAlias = NDArray[np.float32]
"""One row for each image."""
FeatureFunction: TypeAlias = Callable[[list[Pixels]], Features]
"""Computes the rows of square images of one size."""
Reader: TypeAlias = Callable[[int, Any], Pixels | None]
"""Reads an image, given its position and the image; None leaves it out."""
T = TypeVar("T")
R = TypeVar("R")
COMMON_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "size": (Interval(16, 4096, integer=True),),
    "n_jobs": (Options((None,)), Interval(1, integer=True)),
    "verbose": (Interval(0, integer=True), Instance((bool,), "a truth value")),
}


class ImageFeatures(
    NameAdvice, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC
):
    """A transformer from images to rows, which learns nothing.

    A subclass gives `_constraints` and `_feature_function`.
    """

    batch_size: int = 16
    size: int
    n_jobs: int | None
    verbose: int
    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]]

    def fit(self, X: Any = None, y: Any = None) -> Self:
        """Check the parameters. There is nothing to learn, and no image is read.

        Parameters
        ----------
        X, y : any
            Ignored.

        Returns
        -------
        self
            The same transformer.
        """
        self._checked_function()
        return self

    def transform(self, X: Iterable[AnyImage]) -> Features:
        """One row of features for each image.

        Parameters
        ----------
        X : iterable of images
            Paths, the bytes of files, arrays of shape (height, width) or (height, width, 1, 3 or
            4), Pillow images in any mode, an `ImageFolder`, or items of one. Floats must be from 0
            to 1. A generator is read step by step. If an `ImageFolder` left out damaged
            files, its `kept()` lists those that have a row.

        Returns
        -------
        rows : ndarray of float32, shape (n_images, n_features)

        Raises
        ------
        ImageDecodeError, ValueError
            If an image cannot be read. The message names its file or its position in X.
        """
        found = list(self.stream(X))
        if not found:
            raise ValueError(f"X of {type(self).__name__} must hold at least one image, got none")
        return np.concatenate(found)

    def stream(self, X: Iterable[AnyImage]) -> Iterator[Features]:
        """The rows of `transform`, one batch at a time, for images that do not fit into memory."""
        features_of = self._checked_function()
        images, read = _with_reader(X, type(self).__name__)

        def rows(batch: tuple[tuple[int, Any], ...]) -> tuple[int, Features | None]:
            """The number of images in the batch, and the rows of those that were not left out."""
            found = [pixels for i, image in batch if (pixels := read(i, image)) is not None]
            squares = [square(pixels, self.size) for pixels in found]
            return len(batch), features_of(squares) if squares else None

        total = len(X) if self.verbose and isinstance(X, Sized) else None
        batches = _batches(enumerate(images), self.batch_size)
        with ImageProgress(self.verbose, total) as progress:
            for count, found in in_order(rows, batches, self.n_jobs or usable_cores()):
                progress.show(count)
                if found is not None:
                    yield found

    def _checked_function(self) -> FeatureFunction:
        """The feature function, after a check of the parameters."""
        check_params(type(self).__name__, self.get_params(deep=False), self._constraints)
        return self._feature_function()

    @abstractmethod
    def _feature_function(self) -> FeatureFunction:
        """The function that computes the rows. Refuses parameters that do not go together."""

    @property
    def _n_features_out(self) -> int:
        """The width of a row, measured on a black image: it depends on the parameters only."""
        black = np.zeros((self.size, self.size, 3), np.uint8)
        return int(self._checked_function()([black]).shape[1])

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.no_validation = True  # images are not a table of numbers
        tags.requires_fit = False
        tags.input_tags.two_d_array = False
        tags.input_tags.string = True
        return tags


def in_order(task: Callable[[T], R], items: Iterable[T], n_threads: int) -> Iterator[R]:
    """Results in the order of the items, with at most `2 * n_threads` of them waiting.

    `ThreadPoolExecutor.map` would take all items at once, and so all images of a generator.
    """
    under_way: deque[Future[R]] = deque()
    with ThreadPoolExecutor(n_threads) as pool:
        try:
            for item in items:
                under_way.append(pool.submit(task, item))
                if len(under_way) > 2 * n_threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:  # after an error, do not compute the rest
            for future in under_way:
                future.cancel()


def _batches(items: Iterable[T], size: int) -> Iterator[tuple[T, ...]]:
    rest = iter(items)
    while batch := tuple(islice(rest, size)):
        yield batch


def square(pixels: Pixels, size: int) -> Pixels:
    """The square in the middle of an image, resized to `size` pixels.

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


def _with_reader(X: object, owner: str) -> tuple[Iterable[Any], Reader]:
    """The images of X, and the function with which a thread reads one of them."""
    if isinstance(X, ImageFolder):
        # Paths, not decoded images, so that the threads decode.
        return X.files(), lambda _, path: None if (one := X.read(path)) is None else one.pixels
    return _checked_images(X, owner), partial(_pixels, owner=owner)


def _checked_images(X: object, owner: str) -> Iterable[Any]:
    """X, if it is a collection of images. Otherwise an error that says what to give instead."""
    if isinstance(X, (str, bytes, os.PathLike)) or not isinstance(X, Iterable):
        raise ValueError(
            f"X of {owner} must be a list of images or of paths, got {type(X).__name__}; "
            "put a single image into a list, and give a folder as ImageFolder(path)"
        )
    if hasattr(X, "columns"):  # iterating over a data frame gives the names of its columns
        raise ValueError(
            f"X of {owner} must be a list of images or of paths, got a data frame; give the column "
            "that holds them"
        )
    if isinstance(X, np.ndarray) and X.ndim not in (1, 3, 4):
        raise ValueError(
            f"X of {owner} must be a list of images or of paths, or an array of images with 3 or "
            f"4 axes, got an array of shape {X.shape}"
        )
    if isinstance(X, np.ndarray) and X.ndim == 3 and X.shape[2] in (3, 4):
        raise ValueError(
            f"X of {owner} must be a list of images, got an array of shape {X.shape}, which is "
            "one colour image; put it into a list"
        )
    return X


def _pixels(position: int, image: AnyImage, owner: str) -> Pixels:
    """The pixels of an image, or an error that names its position."""
    try:
        return pixels_of(image, owner)
    except ImageDecodeError as error:
        raise ImageDecodeError(f"image {position} of {owner}: {error}") from error
    except OSError as error:
        raise type(error)(f"image {position} of {owner} cannot be read: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"image {position} of {owner}: {error}") from error
