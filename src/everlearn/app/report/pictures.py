"""Small pictures as PNG files inside the page, written with the standard library alone."""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode

import numpy as np

from everlearn.app.report.html import escape
from everlearn.core.arrays import Mat

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_GREY_WITH_ALPHA = 4


def png(ink: Mat) -> bytes:
    """A PNG of black ink whose opacity is given from 0 to 1, so that paper shows through."""
    opacity = np.rint(255 * np.clip(ink, 0.0, 1.0)).astype(np.uint8)
    height, width = opacity.shape
    pixels = np.stack([np.zeros_like(opacity), opacity], axis=2).reshape(height, 2 * width)
    lines = np.hstack([np.zeros((height, 1), np.uint8), pixels])  # each line: no filter
    header = struct.pack(">IIBBBBB", width, height, 8, _GREY_WITH_ALPHA, 0, 0, 0)
    return (
        _SIGNATURE
        + _chunk(b"IHDR", header)
        + _chunk(b"IDAT", zlib.compress(lines.tobytes(), 9))
        + _chunk(b"IEND", b"")
    )


def image(ink: Mat, alt: str, kind: str, title: str = "") -> str:
    """An `img` element that carries its own picture, drawn in ink."""
    return embedded(png(ink), "image/png", ink.shape, alt, f"ink {kind}", title)


def embedded(
    data: bytes, form: str, shape: tuple[int, ...], alt: str, kind: str, title: str = ""
) -> str:
    """An `img` element that carries the bytes of a file; `shape` begins with height and width."""
    uri = f"data:{form};base64,{b64encode(data).decode('ascii')}"
    hint = f' title="{escape(title)}"' if title else ""
    return (
        f'<img class="{escape(kind)}" width="{shape[1]}" height="{shape[0]}" '
        f'alt="{escape(alt)}"{hint} src="{uri}">'
    )


def _chunk(kind: bytes, data: bytes) -> bytes:
    checksum = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", checksum)
