"""Pictures inside a page, as `img` elements that carry their file."""

from __future__ import annotations

from base64 import b64encode
from html import escape
from io import BytesIO

import numpy as np

from everlearn.core.arrays import Mat


def embedded(
    data: bytes, form: str, shape: tuple[int, ...], alt: str, kind: str, title: str = ""
) -> str:
    """An `img` element with the bytes of an image file. `shape` begins with height and width."""
    uri = f"data:{form};base64,{b64encode(data).decode('ascii')}"
    hint = f' title="{escape(title)}"' if title else ""
    return (
        f'<img class="{escape(kind)}" width="{shape[1]}" height="{shape[0]}" '
        f'alt="{escape(alt)}"{hint} src="{uri}">'
    )


def ink_image(ink: Mat, alt: str, kind: str, title: str = "") -> str:
    """An `img` element in black, with an opacity from 0 to 1 for each pixel."""
    return embedded(ink_png(ink), "image/png", ink.shape, alt, f"ink {kind}", title)


def ink_png(ink: Mat) -> bytes:
    """The bytes of a PNG file in black, with an opacity from 0 to 1 for each pixel."""
    from PIL import Image  # only reports with pictures need Pillow

    opacity = np.rint(255 * np.clip(ink, 0.0, 1.0)).astype(np.uint8)
    file = BytesIO()
    grey_with_alpha = np.stack([np.zeros_like(opacity), opacity], axis=2)
    Image.fromarray(grey_with_alpha).save(file, "PNG", optimize=True)
    return file.getvalue()
