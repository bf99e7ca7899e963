"""The three steps of an image pipeline: of which kinds they are, and what a file holds of them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from everlearn.core.errors import CheckpointError
from everlearn.core.params import check_params
from everlearn.estimators.mixture import DPMixture
from everlearn.estimators.persistence import Arrays, entry, plain_params, section
from everlearn.estimators.scaled_pca import ScaledPCA
from everlearn.features.networks import CNNFeatures
from everlearn.features.textures import HOG, LBP
from everlearn.features.transformers import ImageFeatures

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
        return bool(reduce.n_rows_seen_ <= min(reduce.n_components, reduce.n_features_in_))

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
