"""Photographs and drawings in colour, in files and inside pages; encoded by Pillow."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from everlearn.app.report.pictures import embedded
from everlearn.features.images import AnyImage, Pixels, pixels_of

LONGEST_SIDE = 256
"""Pixels to which a page shrinks larger images."""
_JPEG_QUALITY = 85


def photograph(
    image: AnyImage, alt: str, kind: str = "photo", title: str = "", longest: int = LONGEST_SIDE
) -> str:
    """An `img` element with a photograph, shrunk to the size of a page if it is larger.

    It may be an array, the path of a file, or the bytes of one.
    """
    picture = Image.fromarray(pixels_of(image, "photograph"))
    picture.thumbnail((longest, longest))
    shape = (picture.height, picture.width)
    return embedded(_jpeg(picture), "image/jpeg", shape, alt, kind, title)


def drawing(pixels: Pixels, alt: str, kind: str = "photo", title: str = "") -> str:
    """An `img` element with a picture of few colours, kept exactly.

    A larger one is shrunk to the size of a page by leaving pixels out, so no colour is added.
    """
    picture = Image.fromarray(pixels)
    factor = LONGEST_SIDE / max(picture.size)
    if factor < 1:
        width, height = (max(1, round(factor * side)) for side in picture.size)
        picture = picture.resize((width, height), Image.Resampling.NEAREST)
    kept = np.asarray(picture)
    return embedded(png_file(kept), "image/png", kept.shape, alt, kind, title)


def png_file(pixels: Pixels) -> bytes:
    """The bytes of a PNG file; with at most 256 colours, it has a palette and is small."""
    picture = Image.fromarray(pixels)
    if picture.getcolors() is not None:  # None: more than 256
        picture = picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
        if not np.array_equal(np.asarray(picture.convert("RGB")), pixels):
            picture = Image.fromarray(pixels)
    file = BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


def write_png(pixels: Pixels, path: Path) -> None:
    """Write a picture to a PNG file."""
    path.write_bytes(png_file(pixels))


def _jpeg(picture: Image.Image) -> bytes:
    file = BytesIO()
    picture.save(file, "JPEG", quality=_JPEG_QUALITY, optimize=True)
    return file.getvalue()
