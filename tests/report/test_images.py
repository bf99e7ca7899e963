"""Pictures are PNG files that decode to what was put in."""

import struct
import zlib
from base64 import b64decode

import numpy as np

from everlearn.report.images import image, png


def chunks(data):
    """Kind and content of each chunk, checksums verified."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    position, found = 8, []
    while position < len(data):
        (length,) = struct.unpack_from(">I", data, position)
        kind, content = data[position + 4 : position + 8], data[position + 8 :][:length]
        (checksum,) = struct.unpack_from(">I", data, position + 8 + length)
        assert checksum == zlib.crc32(kind + content)
        found.append((kind, content))
        position += 12 + length
    return found


def test_png_holds_the_ink():
    ink = np.array([[0.0, 0.5, 1.0], [2.0, -1.0, 0.25]])
    (head, header), (body, packed), (tail, end) = chunks(png(ink))
    assert (head, body, tail, end) == (b"IHDR", b"IDAT", b"IEND", b"")
    assert struct.unpack(">IIBBBBB", header) == (3, 2, 8, 4, 0, 0, 0)
    lines = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(2, 1 + 2 * 3)
    assert (lines[:, 0] == 0).all()
    assert (lines[:, 1::2] == 0).all()
    assert lines[:, 2::2].tolist() == [[0, 128, 255], [255, 0, 64]]


def test_image_carries_its_picture_and_escapes_its_text():
    element = image(np.ones((2, 2)), 'a "b" <c>', "mean", "d & e")
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in element
    assert 'title="d &amp; e"' in element
    data = element.partition("base64,")[2].partition('"')[0]
    assert b64decode(data) == png(np.ones((2, 2)))
