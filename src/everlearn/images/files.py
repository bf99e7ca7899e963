"""Read images from files and folders, and bring pixels of any form to RGB.

Pillow decodes the files: ``pip install 'everlearn[images]'``.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.core.arrays import Cube
from everlearn.errors import ImageDecodeError, ImageSkippedWarning

HOW_TO_INSTALL: Final = (
    "images need Pillow and scikit-image; install them with: pip install 'everlearn[images]'"
)


try:
    from PIL import Image, ImageOps, UnidentifiedImageError
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(HOW_TO_INSTALL) from error


Pixels: TypeAlias = NDArray[np.uint8]
"""An RGB image, (height, width, 3)."""
SUFFIXES: Final = frozenset(
    (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".pnm", ".ppm", ".tif", ".tiff", ".webp")
)
"""Endings of the names of image files, in lower case."""
_GREY, _RGB, _RGBA = 1, 3, 4
_SIXTEEN_BIT_FORMATS: Final = frozenset(("PNG", "PPM"))
"""Formats whose grey levels of 16 bits Pillow decodes to integers of 32 bits."""


class _UnknownRangeError(ValueError):
    """Nothing says which grey level is white."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImage:
    """An image in an `ImageFolder`: its file, the name of its sub-folder, and its pixels."""

    path: Path
    label: str
    pixels: Pixels


AnyArray: TypeAlias = ArrayLike | Image.Image
"""Pixels, or a Pillow image in any mode."""
AnyImage: TypeAlias = AnyArray | os.PathLike[str] | LabelledImage
"""A path, the bytes of a file, pixels, a Pillow image, or an item of an `ImageFolder`."""


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """The images below a folder, read one at a time in the order of their paths.

    The label of an image is the name of the sub-folder that holds it at any depth, or "" if it lies
    in the folder itself. Hidden files, links to folders and files without the ending of an image
    format are ignored. The folder can be read any number of times.

    Attributes
    ----------
    path : str or path, the folder
    on_error : {"raise", "skip"}, what to do with an image that cannot be decoded: raise an
        ImageDecodeError, or leave it out with an ImageSkippedWarning; both name the file
    left_out : set of paths, the files that could not be decoded when they were last read

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     (Path(folder) / "cats").mkdir()
    ...     Image.new("L", (4, 3)).save(Path(folder) / "cats" / "tom.png")
    ...     [(one.path.name, one.label, one.pixels.shape) for one in ImageFolder(folder)]
    [('tom.png', 'cats', (3, 4, 3))]
    """

    path: str | os.PathLike[str]
    on_error: Literal["raise", "skip"] = "raise"
    left_out: set[Path] = field(default_factory=set, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not Path(self.path).is_dir():
            raise ValueError(f"'path' of ImageFolder must be a folder, got {str(self.path)!r}")
        if self.on_error not in ("raise", "skip"):
            raise ValueError(
                f"'on_error' of ImageFolder must be 'raise' or 'skip', got {self.on_error!r}"
            )

    def __iter__(self) -> Iterator[LabelledImage]:
        return (found for path in self.files() if (found := self.read(path)) is not None)

    def __len__(self) -> int:
        """Number of image files, including those that cannot be decoded."""
        return sum(1 for _ in self.files())

    def read(self, path: Path) -> LabelledImage | None:
        """The image in one of the files, or None with a warning if it is left out."""
        try:
            pixels = read_image(path)
        except ImageDecodeError as error:
            if self.on_error == "raise":
                raise
            self.left_out.add(path)
            warnings.warn(f"left out: {error}", ImageSkippedWarning, stacklevel=3)
            return None
        self.left_out.discard(path)
        return LabelledImage(path, self.label(path), pixels)

    def files(self) -> Iterator[Path]:
        """The paths of the image files, in order. Nothing is decoded."""
        return _image_files(Path(self.path))

    def kept(self) -> list[Path]:
        """The files that were not left out: after a pass, one for each row of features."""
        return [path for path in self.files() if path not in self.left_out]

    def label(self, path: Path) -> str:
        """The sub-folder that holds the file at any depth. "" if there is none."""
        folders = path.relative_to(self.path).parts[:-1]
        return folders[0] if folders else ""


def read_image(source: str | os.PathLike[str] | bytes) -> Pixels:
    """The image in a file, or in the bytes of one, as RGB of 8 bits and the right way up.

    Grey images get three equal channels, transparent images a white background. Of several frames
    the first is read. A photograph is turned as its EXIF data say. Floats must be from 0 to 1.
    Integers of 32 bits are refused, because nothing says which of them is white.

    Parameters
    ----------
    source : path or bytes
        Any format that Pillow decodes.

    Returns
    -------
    pixels : ndarray of uint8, shape (height, width, 3)

    Examples
    --------
    >>> file = BytesIO()
    >>> Image.new("RGB", (3, 2), (255, 0, 0)).save(file, "PNG")
    >>> read_image(file.getvalue())[0, 0]
    array([255,   0,   0], dtype=uint8)
    """
    if isinstance(source, bytes):
        name, data = f"{len(source):,} bytes", source
    else:
        name, data = f"the file {os.fspath(source)!r}", Path(source).read_bytes()
    with (
        _decode_errors(name, empty=not data),
        Image.open(BytesIO(data)) as image,
    ):
        return _rgb(image)


def as_array(image: AnyArray) -> NDArray[Any]:
    """The array of an image. A Pillow image becomes RGB, the right way up."""
    if not isinstance(image, Image.Image):
        return np.asarray(image)
    with _decode_errors("the Pillow image"):
        return _rgb(image)


def as_rgb(image: AnyArray, owner: str) -> Cube:
    """An image as RGB from 0 to 1, (height, width, 3).

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA; integers of 8 or 16 bits, booleans, or floats from 0 to 1. Transparent
        pixels get a white background. A Pillow image is treated like one from a file.
    owner : str
        The function or class that messages name.

    Examples
    --------
    >>> as_rgb(np.array([[0, 51]], np.uint8), "example")[0]
    array([[0. , 0. , 0. ],
           [0.2, 0.2, 0.2]])
    """
    pixels = as_array(image)
    given = pixels.shape
    if pixels.ndim == 2:
        pixels = pixels[:, :, np.newaxis]
    if pixels.ndim != 3 or pixels.shape[2] not in (_GREY, _RGB, _RGBA) or not pixels.size:
        raise ValueError(
            f"'image' of {owner} must have the shape (height, width), or (height, width, channels) "
            f"with 1, 3 or 4 channels, and at least one pixel, got the shape {given}"
        )
    unit = _scaled_to_1(pixels, owner)
    if unit.shape[2] == _RGBA:
        alpha = unit[:, :, 3:]
        unit = alpha * unit[:, :, :3] + (1.0 - alpha)
    return np.repeat(unit, 3, axis=2) if unit.shape[2] == _GREY else unit


def as_pixels(image: AnyArray, owner: str) -> Pixels:
    """An image in any form that `as_rgb` accepts, as RGB of 8 bits."""
    array = as_array(image)
    if array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == _RGB and array.size:
        return array
    return np.rint(255.0 * as_rgb(array, owner)).astype(np.uint8)


def pixels_of(image: AnyImage, owner: str) -> Pixels:
    """The pixels of an image in any form of `AnyImage`."""
    if isinstance(image, LabelledImage):
        return image.pixels
    if isinstance(image, (str, bytes, os.PathLike)):
        return read_image(image)
    array = as_array(image)
    if array.dtype.kind not in "buif":
        raise ValueError(
            f"expected a path, bytes, pixels or a Pillow image, got {type(image).__name__}"
        )
    return as_pixels(array, owner)


@contextmanager
def _decode_errors(what: str, empty: bool = False) -> Iterator[None]:
    """Turn any error of a decoder into an `ImageDecodeError` that names the image."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # on damaged files, decoders raise almost any kind of error
        if empty:
            reason = "it is empty"
        elif isinstance(error, _UnknownRangeError):
            reason = str(error)
        elif isinstance(error, UnidentifiedImageError):  # its text is only a memory address
            reason = "unknown image format"
        else:
            reason = f"{type(error).__name__}: {error}"
        raise ImageDecodeError(f"cannot decode {what}: {reason}") from error


def _scaled_to_1(pixels: NDArray[Any], owner: str) -> Cube:
    """Values from 0 to 1, by the type of the numbers."""
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2:  # in either order of bytes
        return pixels / float(np.iinfo(pixels.dtype).max)
    if pixels.dtype == np.bool_ or pixels.dtype.kind == "f":
        unit = pixels.astype(np.float64)
        low, high = unit.min(), unit.max()
        if low >= 0.0 and high <= 1.0:  # false for NaN
            return unit
        raise ValueError(
            f"'image' of {owner} must have floats from 0 to 1, got {low:g} to {high:g}; divide "
            "them, or use np.uint8"
        )
    raise ValueError(
        f"'image' of {owner} must have the dtype uint8, uint16, bool or float, got {pixels.dtype}"
    )


def _rgb(image: Image.Image) -> Pixels:
    """A Pillow image in any mode as RGB of 8 bits, turned as its EXIF data say."""
    file_format, image = image.format, ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):
        return as_pixels(_grey_levels(image, file_format), "read_image")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        background = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(background, layer)
    return np.array(image.convert("RGB"))


def _grey_levels(image: Image.Image, file_format: str | None) -> NDArray[Any]:
    """Grey levels as floats from 0 to 1 or as integers of 16 bits. Refused if neither is sure."""
    grey = np.asarray(image)
    low, high = (grey.min(), grey.max()) if grey.size else (0, 0)
    if image.mode == "F":
        if low >= 0.0 and high <= 1.0:  # false for NaN
            return grey
        raise _UnknownRangeError(f"its floats must be from 0 to 1, got {low:g} to {high:g}")
    sixteen_bits = image.mode != "I" or file_format in _SIXTEEN_BIT_FORMATS
    if not sixteen_bits or low < 0 or high > 65535:
        raise _UnknownRangeError(
            f"its integers of 32 bits, from {low} to {high}, do not say which of them is white; "
            "save it with 8 or 16 bits, or as floats from 0 to 1"
        )
    return grey.astype(np.uint16)


def _image_files(folder: Path) -> Iterator[Path]:
    """The images of a folder and of those below, sorted by the parts of their paths."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.name.startswith("."):
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _image_files(Path(entry.path))
        elif entry.is_file() and Path(entry.name).suffix.lower() in SUFFIXES:
            yield Path(entry.path)
