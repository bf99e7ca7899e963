"""`image_pipeline`: from images to clusters, in one scikit-learn pipeline and one file."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.core.params import Options, check_params
from everlearn.estimators.image_steps import (
    FEATURES,
    Steps,
    pack_steps,
    steps_of,
    unpack_steps,
)
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.mixture_input import check_same_model
from everlearn.estimators.persistence import Arrays, SaveMixin, entry
from everlearn.estimators.scaled_pca import ScaledPCA
from everlearn.features.networks import CNNFeatures, weights_digest


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
        Of fewer images than `n_components` there are fewer components, which a warning tells.

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
        features, reduce, mixture = steps_of(self)
        begins = not reduce.__sklearn_is_fitted__()
        if not begins:
            self.check_weights()
        if hasattr(mixture, "_learned"):
            check_same_model(mixture, mixture._learned)
        with self._learning():
            rows = features.transform(X)
            if begins:
                reduce.fit(rows)
            mixture.partial_fit(reduce.transform(rows))
        if begins and len(rows) <= min(reduce.n_components, rows.shape[1]):
            warnings.warn(
                f"the first {len(rows)} images settle {reduce.n_components_} principal components "
                f"for good, where n_components={reduce.n_components} was asked for: begin anew "
                "with a few hundred images in the first call of partial_fit, or with `fit`.",
                stacklevel=2,
            )
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
        """All steps as they were if one refuses; else the weights that they learned with.

        No image is read before the parameters of all steps have been looked at.
        """
        steps_of(self).check_params()
        steps = list(self.steps)
        try:
            with steps_of(self).reduce._unchanged_on_error(), _images_that_differ(self):
                yield
        except BaseException:
            self.steps = steps
            raise
        features = steps_of(self).features
        if isinstance(features, CNNFeatures):
            self.weights_digest_ = weights_digest(features.weights)

    def __getitem__(self, which: Any) -> Any:
        part = super().__getitem__(which)
        if isinstance(part, ImagePipeline) and hasattr(self, "weights_digest_"):
            part.weights_digest_ = self.weights_digest_
        return part

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted pipeline as JSON and arrays; `save` writes them."""
        header, arrays = pack_steps(steps_of(self))
        return {**header, "weights": getattr(self, "weights_digest_", None)}, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        steps = unpack_steps(header, arrays)
        pipeline = cls(list(steps._asdict().items()))
        if isinstance(steps.features, CNNFeatures):
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
        What clusters them; None means `DPMixture(prior="shared", init_components="many")`.
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
    last = mixture
    if last is None:
        last = DPMixture(prior="shared", init_components="many")
    steps = Steps(kind(**settings), ScaledPCA(n_components), last)
    return ImagePipeline(list(steps._asdict().items()))


@contextmanager
def _images_that_differ(pipeline: ImagePipeline) -> Iterator[None]:
    """Whatever a mixture says of rows without columns, it is the images that are alike."""
    try:
        yield
    except ValueError as error:
        reduce = steps_of(pipeline).reduce
        if reduce.__sklearn_is_fitted__() and not reduce.n_components_:
            raise ValueError(
                "X of ImagePipeline must hold images that differ, got images of which all have "
                "the same features"
            ) from error
        raise
