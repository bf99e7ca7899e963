"""Cluster images: `ImagePipeline`, and `image_pipeline`, which makes one."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.errors import CheckpointError
from everlearn.estimator.params import RATE_CONSTRAINTS, Options, check_params
from everlearn.estimator.saving import SaveMixin
from everlearn.images.base import ImageFeatures
from everlearn.images.checkpoint import FEATURES, PIPELINE, SavedPipeline
from everlearn.images.files import AnyImage
from everlearn.images.networks import CNNFeatures, weights_digest
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.scaled import ScaledPCA
from everlearn.store.schema import Arrays, Reading, check_keys

_NOT_IN_ROWS: Final = frozenset(("batch_size", "n_jobs", "verbose", "weights"))
"""Parameters of features that do not change a row; weights are compared by content, not by path."""


class Steps(NamedTuple):
    """The three steps, under their names in the pipeline."""

    features: ImageFeatures
    reduce: ScaledPCA
    mixture: DPMixture


class ImagePipeline(SaveMixin, Pipeline):
    """Clusters of images: features, their principal components, and a mixture of those.

    A scikit-learn `Pipeline` with the steps "features" (`HOG`, `LBP` or `CNNFeatures`), "reduce"
    (`ScaledPCA`) and "mixture" (`DPMixture`) that can also learn from a stream and be saved to one
    file. `image_pipeline` makes one.

    Everywhere, X is an iterable of images: paths, bytes of files, arrays or an `ImageFolder`, as in
    `HOG.transform`. The settings that decide on the features must stay the same until the next
    `fit`. An error while learning leaves the pipeline unchanged.

    Attributes
    ----------
    settings_ : dict
        The settings in learning that decide on the reduced features of an image.
    weights_digest_ : str or None
        A digest of the network's weights.
    """

    checkpoint_key: ClassVar[str] = "image-pipeline"
    _schema = PIPELINE
    steps: list[tuple[str, Any]]
    settings_: dict[str, Any]
    weights_digest_: str | None

    def fit(self, X: Iterable[AnyImage], y: Any = None, **params: Any) -> Self:
        """Learn from all images at once, forgetting anything learned before.

        Parameters
        ----------
        X : iterable of images
            A few hundred or more. Fewer than `n_components` give fewer components, and a warning.
        y : None
            Ignored.
        **params : dict
            Passed to the steps, as in every scikit-learn pipeline.

        Returns
        -------
        self
            The fitted pipeline.
        """
        with self._learning():
            super().fit(X, y, **params)
        return self

    def fit_predict(self, X: Iterable[AnyImage], y: Any = None, **params: Any) -> Labels:
        """`fit`, and the id of the component of each image, (n_images,)."""
        with self._learning():
            labels: Labels = super().fit_predict(X, y, **params)
        return labels

    def fit_transform(self, X: Iterable[AnyImage], y: Any = None, **params: Any) -> Mat:
        """`fit`, and the probability of each component for each image."""
        with self._learning():
            probabilities: Mat = super().fit_transform(X, y, **params)
        return probabilities

    def partial_fit(
        self,
        X: Iterable[AnyImage],
        y: Any = None,
        *,
        mixture__sample_weight: ArrayLike | None = None,
        mixture__batch_id: int | str | None = None,
    ) -> Self:
        """Learn from further images, which need not come again.

        Parameters
        ----------
        X : iterable of images
            The first call decides on the principal components for good: give a few hundred images.
        y : None
            Ignored.
        mixture__sample_weight, mixture__batch_id
            How often each image counts, and a name under which the mixture can forget the images;
            see `DPMixture.partial_fit`.

        Returns
        -------
        self
            The pipeline, which has learned the images.
        """
        features, reduce, mixture = _steps_of(self)
        begins = not reduce.__sklearn_is_fitted__()
        if not begins:
            self.check_settings()
        if hasattr(mixture, "_learned"):  # the mixture would refuse too, but after images are read
            mixture._check_same_model(mixture._learned)
        with self._learning(new_components=begins):
            rows = features.transform(X)
            if begins:
                reduce.fit(rows)
            mixture.partial_fit(
                reduce.transform(rows),
                sample_weight=mixture__sample_weight,
                batch_id=mixture__batch_id,
            )
        return self

    def predict(self, X: Iterable[AnyImage], **params: Any) -> Labels:
        """The id of the most likely component of each image, (n_images,)."""
        self.check_settings()
        labels: Labels = super().predict(X, **params)
        return labels

    def predict_proba(self, X: Iterable[AnyImage], **params: Any) -> Mat:
        """The probability of each component for each image, (n_images, n_components)."""
        self.check_settings()
        probabilities: Mat = super().predict_proba(X, **params)
        return probabilities

    def transform(self, X: Iterable[AnyImage], **params: Any) -> Mat:
        """The rows of the last step: probabilities, or reduced features of ``pipeline[:-1]``."""
        self.check_settings()
        rows: Mat = super().transform(X, **params)
        return rows

    def score_samples(self, X: Iterable[AnyImage]) -> Vec:
        """The log-likelihood of the reduced features of each image, (n_images,)."""
        self.check_settings()
        scores: Vec = super().score_samples(X)
        return scores

    def score(
        self, X: Iterable[AnyImage], y: Any = None, sample_weight: Any = None, **params: Any
    ) -> float:
        """The mean log-likelihood of the reduced features of an image."""
        self.check_settings()
        return float(super().score(X, y, sample_weight, **params))

    def outlier_score(self, X: Iterable[AnyImage]) -> Vec:
        """How odd each image is, (n_images,); larger is odder. Needs `reduce__residual=True`."""
        return self._mixture_with_residual("outlier_score").outlier_score(self[:-1].transform(X))

    def is_outlier(self, X: Iterable[AnyImage], rate: float = 0.01) -> NDArray[np.bool_]:
        """Whether each image is odder than nearly all images seen, (n_images,).

        Needs `reduce__residual=True`.

        Parameters
        ----------
        X : iterable of images
            The images.
        rate : float, default=0.01
            Share of images to flag, if they are like the images seen.

        Returns
        -------
        is_outlier : ndarray of bool of shape (n_images,)
            True for images that are odd.
        """
        mixture = self._mixture_with_residual("is_outlier")
        check_params("DPMixture.is_outlier", {"rate": rate}, RATE_CONSTRAINTS)
        return mixture.is_outlier(self[:-1].transform(X), rate=rate)

    def _mixture_with_residual(self, method: str) -> DPMixture:
        """The mixture, if its rows say how much of an image the components leave out."""
        _, reduce, mixture = _steps_of(self)
        check_is_fitted(mixture)
        self.check_settings()
        if not reduce.residual:
            raise ValueError(
                f"ImagePipeline.{method} needs reduce__residual=True, because what makes an image "
                "odd is often what the principal components leave out. Call "
                "set_params(reduce__residual=True), then fit."
            )
        return mixture

    def check_settings(self) -> None:
        """Raise a ValueError if settings or weights are not those of learning."""
        if not hasattr(self, "settings_"):
            return
        self._check_row_settings()
        features = self.steps[0][1]
        if isinstance(features, CNNFeatures) and self.weights_digest_ != weights_digest(
            features.weights
        ):
            raise ValueError(
                f"the 'weights' of the pipeline's CNNFeatures, {os.fspath(features.weights)!r}, "
                "are not those that it learned with"
            )

    def _check_row_settings(self) -> None:
        for name, value in _row_settings(self.steps).items():
            if self.settings_.get(name) != value:
                raise ValueError(
                    f"{name!r} of ImagePipeline must stay what it was in learning. It was "
                    f"{self.settings_.get(name)!r} and is {value!r}: set it back, or begin anew "
                    "with `fit`."
                )

    @contextmanager
    def _learning(self, new_components: bool = True) -> Iterator[None]:
        """Check the parameters before an image is read, and restore all steps after an error."""
        features, reduce, mixture = _steps_of(self)
        features.fit()
        reduce._check_params()
        mixture._check_params()
        before = list(self.steps)  # a pipeline with `memory` replaces its steps
        try:
            with reduce._unchanged_on_error(), mixture._unchanged_on_error():
                try:
                    yield
                except ValueError as error:
                    _raise_plainer_error(error, _steps_of(self).reduce)
                    raise
                features, reduce, _ = _steps_of(self)
                n_images, n_wanted = reduce.n_samples_seen_, reduce.n_components
                if new_components and n_images <= min(n_wanted, reduce.n_features_in_):
                    warnings.warn(
                        f"{n_images} images have only {reduce.n_components_} principal components "
                        f"(n_components={n_wanted}), and later images add none: begin anew with a "
                        "few hundred images, or ask for fewer components.",
                        stacklevel=4,  # the caller of `fit`, beyond the context manager
                    )
                network = isinstance(features, CNNFeatures)
                digest = weights_digest(features.weights) if network else None
        except BaseException:
            self.steps = before
            raise
        self.settings_, self.weights_digest_ = _row_settings(self.steps), digest

    def __getitem__(self, which: int | str | slice) -> Any:
        part = super().__getitem__(which)
        if isinstance(part, ImagePipeline) and hasattr(self, "settings_"):
            part.settings_, part.weights_digest_ = self.settings_, self.weights_digest_
        return part

    def to_checkpoint(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The fitted pipeline as JSON and arrays. Its settings must be those of learning."""
        steps = _steps_of(self)
        if hasattr(self, "settings_"):
            self._check_row_settings()
        saved = SavedPipeline(
            *steps,
            weights=getattr(self, "weights_digest_", None),
            # The next step knows its columns by the names in such frames.
            output=getattr(steps.features, "_sklearn_output_config", {}).get("transform"),
            verbose=self.verbose,
        )
        arrays: dict[str, NDArray[Any]] = {}
        return {"learned": PIPELINE.pack(saved, "learned", arrays)}, arrays

    @classmethod
    def from_checkpoint(cls, header: Mapping[str, Any], arrays: Arrays) -> Self:
        """Inverse of `to_checkpoint`. `everlearn.load` reads the file."""
        own = {key: value for key, value in header.items() if key != "estimator"}
        check_keys(own, "header", ["learned"])
        file = Reading(arrays)
        saved: SavedPipeline = PIPELINE.unpack(own["learned"], "learned", file)
        if unknown := sorted(set(arrays) - file.used):
            raise CheckpointError(f"{unknown[0]!r} belongs to nothing in the header")
        steps = Steps(saved.features, saved.reduce, saved.mixture)
        if saved.output is not None:
            for step in steps:
                step.set_output(transform=saved.output)
        pipeline = cls(list(steps._asdict().items()), verbose=saved.verbose)
        pipeline.settings_, pipeline.weights_digest_ = _row_settings(pipeline.steps), saved.weights
        return pipeline


def image_pipeline(
    features: str,
    n_components: int = 100,
    *,
    mixture: DPMixture | None = None,
    **settings: Any,
) -> ImagePipeline:
    """An `ImagePipeline` with these features.

    Parameters
    ----------
    features : {"hog", "lbp", "cnn"}
        Gradients, textures, or the output of a network; "cnn" needs `weights`, its file.
    n_components : int, default=100
        Principal components of the features to keep.
    mixture : DPMixture or None, default=None
        The model of clusters. None means `DPMixture(prior="shared")`.
    **settings : dict
        Parameters of `HOG`, `LBP` or `CNNFeatures`.

    Returns
    -------
    pipeline : ImagePipeline
        Not fitted yet.

    Examples
    --------
    >>> from everlearn.images import image_pipeline
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
    if mixture is None:
        mixture = DPMixture(prior="shared")
    steps = Steps(kind(**settings), ScaledPCA(n_components), mixture)
    return ImagePipeline(list(steps._asdict().items()))


def _steps_of(pipeline: Pipeline) -> Steps:
    """The three steps, or an error if they are not those of an ImagePipeline."""
    classes = (tuple(FEATURES.values()), (ScaledPCA,), (DPMixture,))
    names = tuple(name for name, _ in pipeline.steps)
    parts = [part for _, part in pipeline.steps]
    if names != Steps._fields or any(type(p) not in c for p, c in zip(parts, classes, strict=True)):
        raise ValueError(
            "the 'steps' of ImagePipeline must be 'features' (HOG, LBP or CNNFeatures), 'reduce' "
            f"(ScaledPCA) and 'mixture' (DPMixture), got {pipeline.steps!r:.200}"
        )
    return Steps(*parts)


def _row_settings(steps: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The settings that decide on the reduced features, by the names of `set_params`."""
    found: dict[str, Any] = {}
    for name, part in steps:
        if isinstance(part, ImageFeatures):
            found[name] = type(part).__name__
            for key, value in part.get_params(deep=False).items():
                if key not in _NOT_IN_ROWS:
                    found[f"{name}__{key}"] = _channels(value) if key in ("mean", "std") else value
        elif isinstance(part, ScaledPCA):
            found[f"{name}__n_components"] = part.n_components
            found[f"{name}__residual"] = part.residual
    return found


def _channels(value: ArrayLike) -> list[float] | str:
    """A number for each of three channels, so that 0 equals (0, 0, 0). Invalid values as text."""
    try:
        numbers: list[float] = np.broadcast_to(np.asarray(value, np.float64), 3).tolist()
    except (TypeError, ValueError):
        return repr(value)
    return numbers


def _raise_plainer_error(error: ValueError, reduce: ScaledPCA) -> None:
    """Raise a plainer error if the steps failed because images are too few or all alike."""
    if "a minimum of 2 is required by ScaledPCA" in str(error):
        raise ValueError(
            "X of ImagePipeline must hold at least two images to begin with, got one"
        ) from error
    if reduce.__sklearn_is_fitted__() and not reduce.n_components_:
        raise ValueError(
            "X of ImagePipeline must hold images that differ, got images with equal features"
        ) from error
