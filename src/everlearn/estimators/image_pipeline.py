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
    check_settings,
    lesson_params,
    pack_steps,
    settings_of,
    steps_of,
    told_of_images,
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

    Attributes
    ----------
    settings_ : dict
        What describes and reduces images, as it was in learning; it must stay so.
    weights_digest_ : str or None
        What tells the network's weights from others.
    """

    checkpoint_key: ClassVar[str] = "image-pipeline"
    steps: list[tuple[str, Any]]
    settings_: dict[str, Any]
    weights_digest_: str | None

    def partial_fit(self, X: Iterable[Any], y: Any = None, **params: Any) -> Self:
        """Learn from images that need not come again.

        The first ones settle the principal components, which stay: give a few hundred at least.
        Of fewer images than `n_components` there are fewer components, which a warning tells.

        Parameters
        ----------
        X : iterable of images
            Paths, bytes of files or arrays.
        y : None
            Ignored.
        **params : dict
            `mixture__sample_weight`, how often each image counts, and `mixture__batch_id`, a name
            under which the mixture can forget them; see `DPMixture.partial_fit`.

        Returns
        -------
        self
            The pipeline, which has learned the images.
        """
        features, reduce, mixture = steps_of(self)
        lesson = lesson_params(params)
        begins = not reduce.__sklearn_is_fitted__()
        if not begins:
            self.check_settings()
        if hasattr(mixture, "_learned"):
            check_same_model(mixture, mixture._learned)
        with self._learning():
            rows = features.transform(X)
            if begins:
                reduce.fit(rows)
            mixture.partial_fit(reduce.transform(rows), **lesson)
            if begins and steps_of(self).few_images:
                warnings.warn(
                    f"the first {len(rows)} images settle {reduce.n_components_} principal "
                    f"components for good, where n_components={reduce.n_components} was asked "
                    "for: begin anew with a few hundred images in the first call of partial_fit, "
                    "or with `fit`.",
                    stacklevel=2,
                )
        return self

    def fit(self, X: Iterable[Any], y: Any = None, **params: Any) -> Self:
        """Learn from all images at once, forgetting anything learned before.

        Of fewer images than `n_components` there are fewer components, which a warning tells.

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
            self._tell_of_few_images()
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
            self._tell_of_few_images()
        return labels

    def fit_transform(self, X: Iterable[Any], y: Any = None, **params: Any) -> Mat:
        """Learn from all images at once, and tell how likely each belongs to each component."""
        with self._learning():
            probabilities: Mat = super().fit_transform(X, y, **params)
            self._tell_of_few_images()
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
        self.check_settings()
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
        self.check_settings()
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
        self.check_settings()
        probabilities: Mat = super().transform(X, **params)
        return probabilities

    def score_samples(self, X: Iterable[Any]) -> Vec:
        """Log-likelihood of the reduced features of each image, (n_images,)."""
        self.check_settings()
        scores: Vec = super().score_samples(X)
        return scores

    def score(
        self, X: Iterable[Any], y: Any = None, sample_weight: Any = None, **params: Any
    ) -> float:
        """Mean log-likelihood of the reduced features of an image."""
        self.check_settings()
        return float(super().score(X, y, sample_weight, **params))

    def check_settings(self) -> None:
        """Raise a ValueError if images would not be described as they were in learning."""
        if not hasattr(self, "settings_"):
            return
        check_settings(self.settings_, self.steps)
        features = self.steps[0][1]  # the only step, perhaps, of a slice of a pipeline
        if isinstance(features, CNNFeatures) and self.weights_digest_ != weights_digest(
            features.weights
        ):
            raise ValueError(
                f"the 'weights' of the pipeline's CNNFeatures, {os.fspath(features.weights)!r}, "
                "are not those that it learned with"
            )

    @contextmanager
    def _learning(self) -> Iterator[None]:
        """All steps as they were if one refuses; else the settings that they learned with.

        No image is read before the parameters of all steps have been looked at.
        """
        steps_of(self).check_params()
        before = list(self.steps)
        try:
            with steps_of(self).unchanged_on_error(), told_of_images(self):
                yield
                features = steps_of(self).features
                network = isinstance(features, CNNFeatures)
                digest = weights_digest(features.weights) if network else None
        except BaseException:
            self.steps = before
            raise
        self.settings_, self.weights_digest_ = settings_of(self.steps), digest

    def _tell_of_few_images(self) -> None:
        reduce = steps_of(self).reduce
        if steps_of(self).few_images:
            warnings.warn(
                f"{reduce.n_rows_seen_} images have {reduce.n_components_} principal components, "
                f"where n_components={reduce.n_components} was asked for: give more images, or "
                "ask for fewer components.",
                stacklevel=3,
            )

    def __getitem__(self, which: Any) -> Any:
        part = super().__getitem__(which)
        if isinstance(part, ImagePipeline) and hasattr(self, "settings_"):
            part.settings_, part.weights_digest_ = self.settings_, self.weights_digest_
        return part

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted pipeline as JSON and arrays; `save` writes them.

        Its settings must be those it learned with, so that a file holds no others.
        """
        header, arrays = pack_steps(steps_of(self))
        check_settings(getattr(self, "settings_", settings_of(self.steps)), self.steps)
        digest = getattr(self, "weights_digest_", None)
        return {**header, "weights": digest, "verbose": bool(self.verbose)}, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`; `everlearn.load` reads the file."""
        steps = unpack_steps(header, arrays)
        shown = "verbose" in header and entry(header, "verbose", bool)
        pipeline = cls(list(steps._asdict().items()), verbose=shown)
        network = isinstance(steps.features, CNNFeatures)
        pipeline.weights_digest_ = entry(header, "weights", str) if network else None
        pipeline.settings_ = settings_of(pipeline.steps)
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
        What clusters them; None means
        `DPMixture(prior="shared", init_components="many", n_init=5)`, the best of five starts.
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
        last = DPMixture(prior="shared", init_components="many", n_init=5)
    steps = Steps(kind(**settings), ScaledPCA(n_components), last)
    return ImagePipeline(list(steps._asdict().items()))
