"""Turn images into rows of features, points or descriptors, and cluster them.

A name is loaded when it is first used. What it needs comes with
``pip install 'everlearn[images]'``, and with ``'everlearn[cnn]'`` for networks in ONNX files.
"""

from typing import TYPE_CHECKING

from everlearn._lazy import lazy

_MODULE_OF = {
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
__all__ = list(_MODULE_OF)

if TYPE_CHECKING:  # type checkers and editors read the names here
    from everlearn.images.descriptors import dense_descriptors as dense_descriptors
    from everlearn.images.files import ImageFolder as ImageFolder
    from everlearn.images.files import read_image as read_image
    from everlearn.images.networks import CNNFeatures as CNNFeatures
    from everlearn.images.pipeline import ImagePipeline as ImagePipeline
    from everlearn.images.pipeline import image_pipeline as image_pipeline
    from everlearn.images.pixels import labels_as_image as labels_as_image
    from everlearn.images.pixels import pixel_points as pixel_points
    from everlearn.images.textures import HOG as HOG
    from everlearn.images.textures import LBP as LBP
    from everlearn.ppca.scaled import ScaledPCA as ScaledPCA
else:
    __getattr__, __dir__ = lazy(__name__, _MODULE_OF)
