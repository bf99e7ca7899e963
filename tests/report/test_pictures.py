"""Pictures are PNG files that decode to what was put in."""

from base64 import b64decode
from io import BytesIO

import numpy as np
from PIL import Image

from everlearn.report.pictures import ink_image, ink_png


def test_png_holds_the_ink():
    ink = np.array([[0.0, 0.5, 1.0], [2.0, -1.0, 0.25]])
    with Image.open(BytesIO(ink_png(ink))) as picture:
        assert (picture.format, picture.mode) == ("PNG", "LA")
        grey, opacity = np.moveaxis(np.asarray(picture), 2, 0)
    assert (grey == 0).all()
    assert opacity.tolist() == [[0, 128, 255], [255, 0, 64]]


def test_image_carries_its_picture_and_escapes_its_text():
    element = ink_image(np.ones((2, 2)), 'a "b" <c>', "mean", "d & e")
    assert 'alt="a &quot;b&quot; &lt;c&gt;"' in element
    assert 'title="d &amp; e"' in element
    data = element.partition("base64,")[2].partition('"')[0]
    assert b64decode(data) == ink_png(np.ones((2, 2)))
