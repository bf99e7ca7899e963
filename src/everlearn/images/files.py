"""Images from files, one at a time, and the forms in which pixels come.

Images are decoded by Pillow, which comes with ``pip install 'everlearn[images]'``.
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
"""The names of files that are taken for images end in one of these, in capitals or not."""
_GREY, _RGB, _RGBA = 1, 3, 4
_SIXTEEN_BITS: Final = frozenset(("PNG", "PPM"))
"""Formats whose whole numbers of 32 bits are numbers of 16, as Pillow has decoded them."""


class _UnclearError(ValueError):
    """Numbers of which nobody has said how bright they are."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledImage:
    """An image of a folder: its file, the name of its sub-folder, and its pixels."""

    path: Path
    label: str
    pixels: Pixels


AnyArray: TypeAlias = ArrayLike | Image.Image
"""Pixels, or an image of Pillow's in any of its modes."""
AnyImage: TypeAlias = AnyArray | os.PathLike[str] | LabelledImage
"""A path, the bytes of a file, pixels, an image of Pillow's, or what an `ImageFolder` yields."""


@dataclass(frozen=True, slots=True)
class ImageFolder:
    """The images below a folder, read one at a time and as often as wanted.

    They come in the order of their paths, folder by folder. The label of an image is the name of
    the sub-folder it is in, at whatever depth, and empty if it is in none. Hidden files, links to
    folders, and files whose names do not end as those of images do are passed over.

    Attributes
    ----------
    path : str or path, the folder
    on_error : {"raise", "skip"}, what to do with an image that cannot be decoded: raise an
        ImageDecodeError that names it, or leave it out with an ImageSkippedWarning
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
        """Files that are taken for images, those among them that cannot be decoded."""
        return sum(1 for _ in self.files())

    def read(self, path: Path) -> LabelledImage | None:
        """The image in one of the files; None if it is left out, which is warned of."""
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
        """The paths of the images, in order; nothing is decoded."""
        return _image_files(Path(self.path))

    def kept(self) -> list[Path]:
        """The files without those that were left out: after a pass, one for each row of it."""
        return [path for path in self.files() if path not in self.left_out]

    def label(self, path: Path) -> str:
        """The first folder on the way from this folder to the file; empty, if there is none."""
        folders = path.relative_to(self.path).parts[:-1]
        return folders[0] if folders else ""


def read_image(source: str | os.PathLike[str] | bytes) -> Pixels:
    """The image in a file, or in the bytes of one, as RGB and the right way up.

    Grey images get three equal channels, transparent ones a white ground, 16 bits become 8, and of
    several frames the first is read. A photograph is turned as its camera noted. Floats must be
    from 0 to 1; whole numbers of 32 bits are refused, since nothing says which of them is white.

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
        _decoding(f"{name} must hold an image", empty=not data),
        Image.open(BytesIO(data)) as image,
    ):
        return _rgb(image)


def as_array(image: AnyArray) -> NDArray[Any]:
    """The array that an image is; of an image of Pillow's, its RGB, the right way up."""
    if not isinstance(image, Image.Image):
        return np.asarray(image)
    with _decoding("an image of Pillow's must be one"):
        return _rgb(image)


def as_rgb(image: AnyArray, owner: str) -> Cube:
    """An image in any usual form as RGB from 0 to 1, (height, width, 3).

    Parameters
    ----------
    image : array-like, shape (height, width) or (height, width, 1, 3 or 4)
        Grey, RGB or RGBA; whole numbers of 8 or 16 bits, truth values, or floats from 0 to 1. What
        is transparent gets a white ground. An image of Pillow's is taken as if read from a file.
    owner : str
        Who asks, for messages.

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
    unit = _unit(pixels, owner)
    if unit.shape[2] == _RGBA:
        alpha = unit[:, :, 3:]
        unit = alpha * unit[:, :, :3] + (1.0 - alpha)
    return np.repeat(unit, 3, axis=2) if unit.shape[2] == _GREY else unit


def as_pixels(image: AnyArray, owner: str) -> Pixels:
    """An image in any form that `as_rgb` takes as RGB of 8 bits."""
    array = as_array(image)
    if array.dtype == np.uint8 and array.ndim == 3 and array.shape[2] == _RGB and array.size:
        return array
    return np.rint(255.0 * as_rgb(array, owner)).astype(np.uint8)


def pixels_of(image: AnyImage, owner: str) -> Pixels:
    """The pixels of an image in any form: see `AnyImage`."""
    if isinstance(image, LabelledImage):
        return image.pixels
    if isinstance(image, (str, bytes, os.PathLike)):
        return read_image(image)
    array = as_array(image)
    if array.dtype.kind not in "buif":
        raise ValueError(
            f"expected a path, bytes, pixels or an image of Pillow's, got {type(image).__name__}"
        )
    return as_pixels(array, owner)


@contextmanager
def _decoding(what: str, empty: bool = False) -> Iterator[None]:
    """Whatever a decoder raises is an ImageDecodeError, which begins as given."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # decoders raise nearly every kind of it on damaged files
        raise ImageDecodeError(f"{what} that can be decoded ({_reason(error, empty)})") from error


def _reason(error: Exception, empty: bool) -> str:
    if empty:
        return "it is empty"
    if isinstance(error, _UnclearError):
        return str(error)
    if isinstance(error, UnidentifiedImageError):  # whose text is the address of the bytes
        return "its format is none of those known"
    return f"{type(error).__name__}: {error}"


def _unit(pixels: NDArray[Any], owner: str) -> Cube:
    """Values from 0 to 1."""
    if pixels.dtype.kind == "u" and pixels.dtype.itemsize <= 2:  # in either order of bytes
        return pixels / float(np.iinfo(pixels.dtype).max)
    if pixels.dtype == np.bool_ or pixels.dtype.kind == "f":
        unit = pixels.astype(np.float64)
        low, high = unit.min(), unit.max()
        if low >= 0.0 and high <= 1.0:  # false for NaN
            return unit
        raise ValueError(
            f"'image' of {owner} must hold numbers from 0 to 1 if it holds floats, "
            f"got numbers from {low:g} to {high:g}; divide them, or use np.uint8"
        )
    raise ValueError(
        f"'image' of {owner} must be of the type uint8, uint16, bool or float, got {pixels.dtype}"
    )


def _rgb(image: Image.Image) -> Pixels:
    """An image in any mode as RGB of 8 bits, turned as its camera noted."""
    form, image = image.format, ImageOps.exif_transpose(image)
    if image.mode == "F" or image.mode.startswith("I"):
        return as_pixels(_numbers(image, form), "read_image")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        ground = Image.new("RGBA", layer.size, "white")
        image = Image.alpha_composite(ground, layer)
    return np.array(image.convert("RGB"))


def _numbers(image: Image.Image, form: str | None) -> NDArray[Any]:
    """Grey in floats or 16 bits; refused, if its numbers do not say how bright they are."""
    grey = np.asarray(image)
    low, high = (grey.min(), grey.max()) if grey.size else (0, 0)
    if image.mode == "F":
        if low >= 0.0 and high <= 1.0:  # false for NaN
            return grey
        raise _UnclearError(f"its floats must be from 0 to 1, got numbers from {low:g} to {high:g}")
    if image.mode == "I" and (form not in _SIXTEEN_BITS or low < 0 or high > 65535):
        raise _UnclearError(
            "its whole numbers have 32 bits, and nothing says which of them is white: save it "
            f"with 8 or 16 bits, or as floats from 0 to 1; got numbers from {low} to {high}"
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
