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
from everlearn.estimator.params import Constraint, Instance, Interval, Options, check_params
from everlearn.images.files import HOW_TO_INSTALL, ImageFolder, Pixels, pixels_of

try:
    from PIL import Image
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


Features: TypeAlias = NDArray[np.float32]
"""A row of numbers for each image."""
Describe: TypeAlias = Callable[[list[Pixels]], Features]
"""From square images of one size to their rows."""
Read: TypeAlias = Callable[[int, Any], Pixels | None]
"""From the position of an image and what it was given as to its pixels; None leaves it out."""
T = TypeVar("T")
R = TypeVar("R")
COMMON_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "size": (Interval(16, 4096, integer=True),),
    "n_jobs": (Options((None,)), Interval(1, integer=True)),
    "verbose": (Interval(0, integer=True), Instance((bool,), "a truth value")),
}


class ImageFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
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
            4) as in `everlearn.images.images.as_rgb`, images of Pillow's in any mode, an
            `ImageFolder`, or what one yields. A generator is read as the work goes on, and files
            are decoded by all threads. `ImageFolder.kept` tells the files that rows are of, if
            some were left out.

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
        describe = self._describe()
        images, read = _reader(X, type(self).__name__)

        def rows(batch: tuple[tuple[int, Any], ...]) -> tuple[int, Features | None]:
            """How many were looked at, and the rows of those that were not left out."""
            found = [pixels for i, image in batch if (pixels := read(i, image)) is not None]
            squares = [square(pixels, self.size) for pixels in found]
            return len(batch), describe(squares) if squares else None

        total = len(X) if self.verbose and isinstance(X, Sized) else None
        batches = _batches(enumerate(images), self.batch_size)
        with ImageProgress(self.verbose, total) as progress:
            for count, found in in_order(rows, batches, self.n_jobs or usable_cores()):
                progress.show(count)
                if found is not None:
                    yield found

    def _describe(self) -> Describe:
        """The function that does the work, after a look at the parameters."""
        check_params(type(self).__name__, self.get_params(deep=False), self._constraints)
        return self._describer()

    @abstractmethod
    def _describer(self) -> Describe:
        """The function that does the work, with the parameters as they are."""

    @property
    def _n_features_out(self) -> int:
        """The width of a row: that of a black image, since parameters and files decide on it."""
        black = np.zeros((self.size, self.size, 3), np.uint8)
        return int(self._describe()([black]).shape[1])

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
            "for a single image give a list that holds it, for a folder an ImageFolder"
        )
    if hasattr(X, "columns"):  # going through a data frame gives the names of its columns
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
            "one image in colour; give a list that holds it"
        )
    return X


def _reader(X: Any, owner: str) -> tuple[Iterable[Any], Read]:
    """What to go through, and how a thread reads an item: of a folder, the paths of its files."""
    if isinstance(X, ImageFolder):
        return X.files(), lambda _, path: None if (one := X.read(path)) is None else one.pixels
    return _checked_images(X, owner), partial(_pixels, owner=owner)


def _pixels(position: int, image: Any, owner: str) -> Pixels:
    """The pixels of an image, or an error that tells its position."""
    try:
        return pixels_of(image, owner)
    except ImageDecodeError as error:
        raise ImageDecodeError(f"image {position} of {owner}: {error}") from error
    except OSError as error:
        raise type(error)(f"image {position} of {owner} cannot be read: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"image {position} of {owner}: {error}") from error
