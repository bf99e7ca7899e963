"""The three steps of an image pipeline: of which kinds they are, and what a file holds of them."""

from __future__ import annotations

import inspect
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from everlearn.core.arrays import Labels, Mat, Vec
from everlearn.errors import CheckpointError
from everlearn.estimator.params import Options, check_params
from everlearn.estimator.saving import SaveMixin, plain_params
from everlearn.images.base import ImageFeatures
from everlearn.images.networks import CNNFeatures, weights_digest
from everlearn.images.textures import HOG, LBP
from everlearn.mixture.estimator import DPMixture
from everlearn.mixture.inputs import check_same_model
from everlearn.ppca.scaled import ScaledPCA
from everlearn.store.schema import Arrays, entry, section

FEATURES: Final[Mapping[str, type[ImageFeatures]]] = {"hog": HOG, "lbp": LBP, "cnn": CNNFeatures}
"""Ways to describe an image, by name."""
_FREE: Final = frozenset(("batch_size", "n_jobs", "verbose", "weights"))
"""Parameters of features on which rows do not depend; weights are known by what is in the file."""
_FORMS: Final = ("default", "pandas", "polars")
"""What `set_output` may ask for."""
_LESSON: Final = {"mixture__sample_weight": "sample_weight", "mixture__batch_id": "batch_id"}


class Steps(NamedTuple):
    """What describes images, what reduces that, and what clusters it."""

    features: ImageFeatures
    reduce: ScaledPCA
    mixture: DPMixture

    def check_params(self) -> None:
        """Refuse a parameter of any step, before an image is read."""
        self.features.fit()
        self.reduce._check_params()
        self.mixture._check_params()

    @property
    def few_images(self) -> bool:
        """Whether what was learned first were too few images for as many components as wanted."""
        reduce = self.reduce
        return bool(reduce.n_samples_seen_ <= min(reduce.n_components, reduce.n_features_in_))

    @contextmanager
    def unchanged_on_error(self) -> Iterator[None]:
        """Whatever goes wrong, what the steps have learned is what it was."""
        with self.reduce._unchanged_on_error(), self.mixture._unchanged_on_error():
            yield


def steps_of(pipeline: Pipeline) -> Steps:
    """The three steps, if they are of the kinds that an ImagePipeline has."""
    kinds = (tuple(FEATURES.values()), (ScaledPCA,), (DPMixture,))
    steps = [part for _, part in pipeline.steps]
    names = tuple(name for name, _ in pipeline.steps)
    if names != Steps._fields or not all(type(s) in k for s, k in zip(steps, kinds, strict=True)):
        raise ValueError(
            "the 'steps' of ImagePipeline must be 'features' (HOG, LBP or CNNFeatures), 'reduce' "
            f"(ScaledPCA) and 'mixture' (DPMixture), got {pipeline.steps!r:.200}"
        )
    return Steps(*steps)


def settings_of(steps: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """What decides on the rows of an image, by the names that `set_params` takes."""
    found: dict[str, Any] = {}
    for name, part in steps:
        if isinstance(part, ImageFeatures):
            own = {k: v for k, v in part.get_params(deep=False).items() if k not in _FREE}
            own |= {k: _channels(own[k]) for k in ("mean", "std") if k in own}
            found |= {name: type(part).__name__, **{f"{name}__{k}": v for k, v in own.items()}}
        elif isinstance(part, ScaledPCA):
            found[f"{name}__n_components"] = part.n_components
    return found


def _channels(value: Any) -> Any:
    """A number for each channel, however many were given; text, if these are none."""
    try:
        return np.broadcast_to(np.asarray(value, np.float64), 3).tolist()
    except (TypeError, ValueError):
        return repr(value)


def check_settings(known: Mapping[str, Any], steps: Sequence[tuple[str, Any]]) -> None:
    """Refuse settings with which rows would not be what they were in learning."""
    for name, value in settings_of(steps).items():
        was = known.get(name)
        if was != value:
            raise ValueError(
                f"{name!r} of ImagePipeline must stay what it was in learning. It was {was!r} and "
                f"is {value!r}: set it back, or begin anew with `fit`."
            )


def lesson_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """What `DPMixture.partial_fit` is given, from names as those of a pipeline's `fit`."""
    if unknown := sorted(set(params) - set(_LESSON)):
        raise TypeError(
            f"ImagePipeline.partial_fit takes the parameters {' and '.join(_LESSON)}, got "
            f"{', '.join(unknown)}"
        )
    return {_LESSON[name]: value for name, value in params.items()}


@contextmanager
def told_of_images(pipeline: Pipeline) -> Iterator[None]:
    """Whatever the steps say of too few rows, or of rows without columns, is said of the images."""
    try:
        yield
    except ValueError as error:
        reduce = steps_of(pipeline).reduce
        if "a minimum of 2 is required by ScaledPCA" in str(error):
            raise ValueError(
                "X of ImagePipeline must hold at least two images to begin with, got one"
            ) from error
        if reduce.__sklearn_is_fitted__() and not reduce.n_components_:
            raise ValueError(
                "X of ImagePipeline must hold images that differ, got images of which all have "
                "the same features"
            ) from error
        raise


def pack_steps(steps: Steps) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Fitted steps as JSON and arrays."""
    name = next(name for name, kind in FEATURES.items() if type(steps.features) is kind)
    header: dict[str, Any] = {"features": {"kind": name, **_feature_params(steps.features)}}
    if (form := getattr(steps.features, "_sklearn_output_config", {}).get("transform")) is not None:
        header["output"] = form  # the next step knows its columns by the names in such frames
    arrays: dict[str, NDArray[Any]] = {}
    for step, part in (("reduce", steps.reduce), ("mixture", steps.mixture)):
        header[step], members = part.to_checkpoint()
        arrays |= {f"{step}/{key}": array for key, array in members.items()}
    return header, arrays


def unpack_steps(header: Mapping[str, Any], arrays: Arrays) -> Steps:
    """Inverse of `pack_steps`."""
    if strays := sorted(k for k in arrays if not k.startswith(("reduce/", "mixture/"))):
        raise CheckpointError(f"member {strays[0]!r} belongs to nothing in the header")

    def own(step: str) -> tuple[dict[str, Any], Arrays]:
        members = {
            key.removeprefix(f"{step}/"): array
            for key, array in arrays.items()
            if key.startswith(f"{step}/")
        }
        return entry(header, step, dict), members

    steps = Steps(
        _features(header),
        ScaledPCA.from_checkpoint(*own("reduce")),
        DPMixture.from_checkpoint(*own("mixture")),
    )
    width, wanted = steps.reduce.n_components_, steps.mixture.n_features_in_
    if width != wanted:
        raise CheckpointError(
            f"the 'mixture' must be of {width} components of 'reduce', got {wanted}"
        )
    if (form := header.get("output")) is not None:
        if form not in _FORMS:
            raise CheckpointError(
                f"the header's 'output' must be one of {', '.join(_FORMS)}, got {form!r:.80}"
            )
        for step in steps:
            step.set_output(transform=form)
    return steps


def _feature_params(features: ImageFeatures) -> dict[str, Any]:
    """Parameters as JSON; paths are text, and arrays of numbers are lists."""
    params = features.get_params(deep=False)
    if "weights" in params:
        params["weights"] = os.fspath(params["weights"])
        params |= {name: np.asarray(params[name]).tolist() for name in ("mean", "std")}
    return plain_params(params, 0)


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
                f"{reduce.n_samples_seen_} images have {reduce.n_components_} principal "
                f"components, where n_components={reduce.n_components} was asked for: give more "
                "images, or ask for fewer components.",
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
    last = mixture
    if last is None:
        last = DPMixture(prior="shared", init_components="many", n_init=5)
    steps = Steps(kind(**settings), ScaledPCA(n_components), last)
    return ImagePipeline(list(steps._asdict().items()))
