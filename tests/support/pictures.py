"""Images made for tests."""

from io import BytesIO

import numpy as np
from PIL import Image
from scipy.ndimage import gaussian_filter


def texture(height, width, seed=0):
    """A grey image from 0.1 to 0.9 with structure at several scales."""
    noise = np.random.default_rng(seed).standard_normal((height, width))
    smooth = sum(s * gaussian_filter(noise, s) for s in (1, 2, 4))
    return 0.1 + 0.8 * (smooth - smooth.min()) / np.ptp(smooth)


def colours(height, width, seed=0):
    """An RGB image of 8 bits."""
    channels = [texture(height, width, 3 * seed + c) for c in range(3)]
    return np.rint(255 * np.stack(channels, axis=2)).astype(np.uint8)


def encoded(image, kind="PNG", **options):
    """The bytes of a file that holds a Pillow image or an array."""
    file = BytesIO()
    picture = image if isinstance(image, Image.Image) else Image.fromarray(image)
    picture.save(file, kind, **options)
    return file.getvalue()
