"""From raw things to what models count: words of a growing vocabulary, points and rows of images.

Names are loaded when they are first used: those of images need ``pip install 'everlearn[images]'``.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

if TYPE_CHECKING:
    from everlearn.estimators.image_pipeline import ImagePipeline, image_pipeline
    from everlearn.estimators.scaled_pca import ScaledPCA
    from everlearn.features.descriptors import dense_descriptors
    from everlearn.features.images import ImageFolder, read_image
    from everlearn.features.networks import CNNFeatures
    from everlearn.features.pixels import labels_as_image, pixel_points
    from everlearn.features.textures import HOG, LBP

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
    "CNNFeatures": "everlearn.features.networks",
    "HOG": "everlearn.features.textures",
    "ImageFolder": "everlearn.features.images",
    "ImagePipeline": "everlearn.estimators.image_pipeline",
    "LBP": "everlearn.features.textures",
    "ScaledPCA": "everlearn.estimators.scaled_pca",
    "dense_descriptors": "everlearn.features.descriptors",
    "image_pipeline": "everlearn.estimators.image_pipeline",
    "labels_as_image": "everlearn.features.pixels",
    "pixel_points": "everlearn.features.pixels",
    "read_image": "everlearn.features.images",
}

# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__, _HOMES)
