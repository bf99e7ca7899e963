"""From raw things to what models count: words of a growing vocabulary, points and rows of images.

Names are loaded when they are first used: those of images need ``pip install 'everlearn[images]'``.
"""

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from everlearn.estimators.image_pipeline import ImagePipeline, image_pipeline
    from everlearn.estimators.scaled_pca import ScaledPCA
    from everlearn.features.networks import CNNFeatures
    from everlearn.features.textures import HOG, LBP

__all__ = ["HOG", "LBP", "CNNFeatures", "ImagePipeline", "ScaledPCA", "image_pipeline"]

_HOMES = {
    "CNNFeatures": "everlearn.features.networks",
    "HOG": "everlearn.features.textures",
    "ImagePipeline": "everlearn.estimators.image_pipeline",
    "LBP": "everlearn.features.textures",
    "ScaledPCA": "everlearn.estimators.scaled_pca",
    "image_pipeline": "everlearn.estimators.image_pipeline",
}

# Hidden from type checkers, which would otherwise accept every misspelt name.
if not TYPE_CHECKING:

    def __getattr__(name):
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # the next access does not come here
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
