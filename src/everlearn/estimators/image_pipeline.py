"""`image_pipeline`: from images to clusters, in one scikit-learn pipeline and one file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, Self

from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.core.errors import CheckpointError
from everlearn.core.params import Options, check_params
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.persistence import (
    Arrays,
    SaveMixin,
    entry,
    plain_params,
    section,
)
from everlearn.estimators.scaled_pca import ScaledPCA
from everlearn.features.networks import CNNFeatures, weights_digest
from everlearn.features.textures import HOG, LBP
from everlearn.features.transformers import ImageFeatures

FEATURES: Final[Mapping[str, type[ImageFeatures]]] = {"hog": HOG, "lbp": LBP, "cnn": CNNFeatures}
"""Ways to describe an image, by name."""
_STEPS: Final = ("features", "reduce", "mixture")


class ImagePipeline(SaveMixin, Pipeline):
    """Images into clusters: features, their principal components, and a mixture of those.

    It is a scikit-learn `Pipeline` with the steps "features" (`HOG`, `LBP` or `CNNFeatures`),
    "reduce" (`ScaledPCA`) and "mixture" (`DPMixture`) that can learn from a stream and be saved
    to one file. `image_pipeline` makes one.
    """

    checkpoint_key: ClassVar[str] = "image-pipeline"
    steps: list[tuple[str, Any]]

    def partial_fit(self, X: Iterable[Any], y: Any = None) -> Self:
        """Learn from images that need not come again.

        The first ones settle the principal components, which stay: give a few hundred at least.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        y : None
            Ignored.

        Returns
        -------
        self
            The pipeline, which has learned the images.
        """
        features, reduce, mixture = _parts(self)
        if reduce.__sklearn_is_fitted__():
            self.check_weights()
        rows = features.fit().transform(X)
        with reduce._unchanged_on_error():  # a mixture that refuses its first rows settles nothing
            if not reduce.__sklearn_is_fitted__():
                reduce.fit(rows)
            mixture.partial_fit(reduce.transform(rows))
        self._note_weights()
        return self

    def fit(self, X: Iterable[Any], y: Any = None, **params: Any) -> Self:
        """Learn from all images at once, forgetting anything learned before.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        y : None
            Ignored.
        **params : dict
            Handed to the steps, as scikit-learn's pipelines do.

        Returns
        -------
        self
            The fitted pipeline.
        """
        with self._learning():
            super().fit(X, y, **params)
        return self

    def fit_predict(self, X: Iterable[Any], y: Any = None, **params: Any) -> Labels:
        """Learn from all images at once, and tell the component of each.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        y : None
            Ignored.
        **params : dict
            Handed to the steps, as scikit-learn's pipelines do.

        Returns
        -------
        labels : ndarray of shape (n_images,)
        """
        with self._learning():
            labels: Labels = super().fit_predict(X, y, **params)
        return labels

    def fit_transform(self, X: Iterable[Any], y: Any = None, **params: Any) -> Mat:
        """Learn from all images at once, and tell how likely each belongs to each component."""
        with self._learning():
            probabilities: Mat = super().fit_transform(X, y, **params)
        return probabilities

    def predict(self, X: Iterable[Any], **params: Any) -> Labels:
        """The component that each image most likely belongs to.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        **params : dict
            Handed to the mixture, as scikit-learn's pipelines do.

        Returns
        -------
        labels : ndarray of shape (n_images,)
        """
        self.check_weights()
        labels: Labels = super().predict(X, **params)
        return labels

    def predict_proba(self, X: Iterable[Any], **params: Any) -> Mat:
        """How likely each image belongs to each component.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        **params : dict
            Handed to the mixture, as scikit-learn's pipelines do.

        Returns
        -------
        probabilities : ndarray of shape (n_images, n_components)
        """
        self.check_weights()
        probabilities: Mat = super().predict_proba(X, **params)
        return probabilities

    def transform(self, X: Iterable[Any], **params: Any) -> Mat:
        """How likely each image belongs to each component; of a slice, the rows of its last step.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        **params : dict
            Handed to the steps, as scikit-learn's pipelines do.

        Returns
        -------
        probabilities : ndarray of shape (n_images, n_components)
        """
        self.check_weights()
        probabilities: Mat = super().transform(X, **params)
        return probabilities

    def score_samples(self, X: Iterable[Any]) -> Vec:
        """Log-likelihood of the reduced features of each image, (n_images,)."""
        self.check_weights()
        scores: Vec = super().score_samples(X)
        return scores

    def score(
        self, X: Iterable[Any], y: Any = None, sample_weight: Any = None, **params: Any
    ) -> float:
        """Mean log-likelihood of the reduced features of an image."""
        self.check_weights()
        return float(super().score(X, y, sample_weight, **params))

    def check_weights(self) -> None:
        """Raise a ValueError if the weights of the network are not those it learned with."""
        features = self.steps[0][1]  # the only step, perhaps, of a slice of a pipeline
        known = getattr(self, "weights_digest_", None)
        network = isinstance(features, CNNFeatures) and known is not None
        if network and known != weights_digest(features.weights):
            raise ValueError(
                f"the 'weights' of the pipeline's CNNFeatures, {os.fspath(features.weights)!r}, "
                "are not those that it learned with"
            )

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """All steps as they were if one refuses; else the weights that they learned with."""
        steps = list(self.steps)
        try:
            with _parts(self)[1]._unchanged_on_error():
                yield
        except BaseException:
            self.steps = steps
            raise
        self._note_weights()

    def __getitem__(self, which: Any) -> Any:
        part = super().__getitem__(which)
        if isinstance(part, ImagePipeline) and hasattr(self, "weights_digest_"):
            part.weights_digest_ = self.weights_digest_
        return part

    def _note_weights(self) -> None:
        features = _parts(self)[0]
        if isinstance(features, CNNFeatures):
            self.weights_digest_ = weights_digest(features.weights)

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted pipeline as JSON and arrays; `save` writes them."""
        features, reduce, mixture = _parts(self)
        name = next(name for name, kind in FEATURES.items() if type(features) is kind)
        header: dict[str, Any] = {
            "features": {"kind": name, **_feature_params(features)},
            "weights": getattr(self, "weights_digest_", None),
        }
        arrays: dict[str, NDArray[Any]] = {}
        for step, part in (("reduce", reduce), ("mixture", mixture)):
            header[step], members = part.to_checkpoint()
            arrays |= {f"{step}/{key}": array for key, array in members.items()}
        return header, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        steps: list[tuple[str, Any]] = [("features", _features(header))]
        for step, kind in (("reduce", ScaledPCA), ("mixture", DPMixture)):
            own = {
                key.removeprefix(f"{step}/"): array
                for key, array in arrays.items()
                if key.startswith(f"{step}/")
            }
            steps.append((step, kind.from_checkpoint(entry(header, step, dict), own)))
        if strays := sorted(k for k in arrays if not k.startswith(("reduce/", "mixture/"))):
            raise CheckpointError(f"member {strays[0]!r} belongs to nothing in the header")
        width, wanted = steps[1][1].n_components_, steps[2][1].n_features_in_
        if width != wanted:
            raise CheckpointError(
                f"the 'mixture' must be of {width} components of 'reduce', got {wanted}"
            )
        pipeline = cls(steps)
        if isinstance(steps[0][1], CNNFeatures):
            pipeline.weights_digest_ = entry(header, "weights", str)
        return pipeline


def image_pipeline(
    features: str,
    n_components: int = 100,
    *,
    mixture: DPMixture | None = None,
    **settings: Any,
) -> ImagePipeline:
    """A pipeline from images to clusters.

    Parameters
    ----------
    features : {"hog", "lbp", "cnn"}
        How an image is described; "cnn" needs `weights`, the path of a network.
    n_components : int, default=100
        Principal components of the features to keep.
    mixture : DPMixture or None, default=None
        What clusters them; None means a diagonal mixture whose prior is "shared".
    **settings : dict
        For `HOG`, `LBP` or `CNNFeatures`.

    Returns
    -------
    pipeline : ImagePipeline
        With `fit`, `partial_fit`, `predict`, `predict_proba` and `save`.

    Examples
    --------
    >>> from everlearn.features import image_pipeline
    >>> image_pipeline("hog", n_components=50).named_steps["reduce"]
    ScaledPCA(n_components=50)
    """
    check_params(
        "image_pipeline", {"features": features}, {"features": (Options(tuple(FEATURES)),)}
    )
    kind = FEATURES[features]
    known = inspect.signature(kind).parameters
    if unknown := sorted(set(settings) - set(known)):
        raise ValueError(
            f"image_pipeline({features!r}) takes the settings {', '.join(known)}, got "
            f"{', '.join(unknown)}"
        )
    if kind is CNNFeatures and "weights" not in settings:
        raise ValueError("image_pipeline('cnn') needs 'weights', the path of an ONNX file")
    last = DPMixture(prior="shared") if mixture is None else mixture
    steps = (kind(**settings), ScaledPCA(n_components), last)
    return ImagePipeline(list(zip(_STEPS, steps, strict=True)))


def _parts(pipeline: Pipeline) -> tuple[ImageFeatures, ScaledPCA, DPMixture]:
    """The three steps, if they are of the kinds that an ImagePipeline has."""
    kinds = (tuple(FEATURES.values()), (ScaledPCA,), (DPMixture,))
    steps = [part for _, part in pipeline.steps]
    names = tuple(name for name, _ in pipeline.steps)
    if names != _STEPS or not all(type(s) in k for s, k in zip(steps, kinds, strict=True)):
        raise ValueError(
            "the 'steps' of ImagePipeline must be 'features' (HOG, LBP or CNNFeatures), 'reduce' "
            f"(ScaledPCA) and 'mixture' (DPMixture), got {pipeline.steps!r:.200}"
        )
    return steps[0], steps[1], steps[2]


def _feature_params(features: ImageFeatures) -> dict[str, Any]:
    """Parameters as JSON; paths are text."""
    params = features.get_params(deep=False)
    if "weights" in params:
        params["weights"] = os.fspath(params["weights"])
        params |= {name: _numbers(params[name]) for name in ("mean", "std")}
    return plain_params(params, 0)


def _numbers(value: Any) -> Any:
    return list(value) if hasattr(value, "__len__") else value


def _features(header: Mapping[str, Any]) -> ImageFeatures:
    found = dict(entry(header, "features", dict))
    name = found.pop("kind", None)
    if not isinstance(name, str) or name not in FEATURES:
        raise CheckpointError(
            f"the header's 'features' must be one of {', '.join(FEATURES)}, got {name!r:.80}"
        )
    kind = FEATURES[name]
    params = section({"features": found}, "features", inspect.signature(kind).parameters)
    features = kind(**params)
    try:
        check_params(kind.__name__, params, kind._constraints)
    except (TypeError, ValueError) as error:
        raise CheckpointError(f"the header's 'features': {error}") from error
    return features
