"""From raw things to what models count: words of a growing vocabulary, points and rows of images.

Names are loaded when they are first used: those of images need ``pip install 'everlearn[images]'``.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

__all__ = [
    "HOG",
    "LBP",
    "CNNFeatures",
    "ImageFolder",
    "ImagePipeline",
    "ScaledPCA",
    "dense_descriptors",
    "image_pipeline",
    "labels_as_image",
    "pixel_points",
    "read_image",
]
_HOMES = {
    "CNNFeatures": "everlearn.images.networks",
    "HOG": "everlearn.images.textures",
    "ImageFolder": "everlearn.images.files",
    "ImagePipeline": "everlearn.images.pipeline",
    "LBP": "everlearn.images.textures",
    "ScaledPCA": "everlearn.ppca.scaled",
    "dense_descriptors": "everlearn.images.descriptors",
    "image_pipeline": "everlearn.images.pipeline",
    "labels_as_image": "everlearn.images.pixels",
    "pixel_points": "everlearn.images.pixels",
    "read_image": "everlearn.images.files",
}


# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
