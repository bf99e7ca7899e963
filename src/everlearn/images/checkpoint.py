"""Checkpoint schema of an `ImagePipeline`: what a file must contain."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.errors import CheckpointError
from everlearn.estimator.params import check_params
from everlearn.images.base import ImageFeatures
from everlearn.images.networks import CNNFeatures
from everlearn.images.textures import HOG, LBP
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.scaled import ScaledPCA
from everlearn.store.schema import (
    Array,
    Converted,
    OneOf,
    Optional,
    Reading,
    Record,
    Scalar,
    Schema,
    expect,
    inside,
)

FEATURES: Final[Mapping[str, type[ImageFeatures]]] = {"hog": HOG, "lbp": LBP, "cnn": CNNFeatures}
"""The classes of features, by name."""


class SavedPipeline(NamedTuple):
    """The contents of a file: three fitted steps, and three settings of the pipeline.

    Attributes
    ----------
    features, reduce, mixture : the steps
    weights : digest of the network's weights, or None without a network
    output : the form of tables between steps, as in `set_output`, or None
    verbose : whether the pipeline reports its steps
    """

    features: ImageFeatures
    reduce: ScaledPCA
    mixture: DPMixture
    weights: str | None
    output: str | None
    verbose: bool


class _Fitted:
    """The schema of a fitted estimator: the entries that a file of its own would have."""

    in_header: ClassVar[bool] = True

    def __init__(self, kind: type[ScaledPCA] | type[DPMixture]) -> None:
        self.kind = kind

    def pack(
        self, value: ScaledPCA | DPMixture, place: str, arrays: dict[str, NDArray[Any]]
    ) -> dict[str, Any]:
        header, members = value.to_checkpoint()
        arrays.update({inside(place, name): array for name, array in members.items()})
        return header

    def unpack(self, found: Any, place: str, file: Reading) -> Any:
        expect(isinstance(found, dict), place, "an object")
        own = {name: array for name, array in file.arrays.items() if name.startswith(f"{place}/")}
        file.used.update(own)
        members = {name.removeprefix(f"{place}/"): array for name, array in own.items()}
        try:
            return self.kind.from_checkpoint(found, members)
        except CheckpointError as error:
            raise CheckpointError(f"in {place!r}: {error}") from error

    def leaves(self, found: Any, place: str) -> Iterator[tuple[Schema, str]]:
        schema: Schema | None = getattr(self.kind, "_schema", None)
        if schema is not None:
            yield from schema.leaves(found["learned"], inside(place, "learned"))


def _of_features(kind: type[ImageFeatures], **fields: Schema) -> tuple[type, Record]:
    """The class and the schema of features, which have parameters only."""

    def check(features: ImageFeatures, place: str) -> None:
        try:
            check_params(kind.__name__, features.get_params(deep=False), kind._constraints)
        except (TypeError, ValueError) as error:
            raise CheckpointError(f"{place!r} cannot be: {error}") from error

    common: dict[str, Schema] = {
        "size": Scalar(int, 16, 4096),
        "n_jobs": Optional(Scalar(int, 1, 2**31)),
        "verbose": Scalar(int, 0, 2**31),
    }
    return kind, Record(kind, {**fields, **common}, check)


def _three(value: ArrayLike) -> NDArray[np.float64]:
    """A number for each colour channel. One number stands for all."""
    return np.array(np.broadcast_to(np.asarray(value, np.float64), (3,)))


def _check_pipeline(pipeline: SavedPipeline, place: str) -> None:
    width, wanted = pipeline.reduce._n_features_out, pipeline.mixture.n_features_in_
    expect(width == wanted, f"{place}/mixture", f"of {width} columns of 'reduce', not {wanted}")
    network = isinstance(pipeline.features, CNNFeatures)
    expect(network == (pipeline.weights is not None), f"{place}/weights", "there with a network")


_CHANNELS: Final = Converted(Array(3), save=_three, restore=np.ndarray.tolist)
PIPELINE: Final = Record(
    SavedPipeline,
    {
        "features": OneOf(
            {
                "hog": _of_features(
                    HOG,
                    orientations=Scalar(int, 1, 360),
                    cell=Scalar(int, 2, 4096),
                    block=Scalar(int, 1, 4096),
                ),
                "lbp": _of_features(
                    LBP,
                    grid=Scalar(int, 1, 4096),
                    radius=Scalar(float, 1e-300),
                    rotation_invariant=Scalar(bool),
                ),
                "cnn": _of_features(
                    CNNFeatures,
                    weights=Converted(Scalar(str), save=os.fspath, restore=str),
                    network=Optional(Scalar(str)),
                    output=Optional(Scalar(str)),
                    mean=_CHANNELS,
                    std=_CHANNELS,
                    batch_size=Scalar(int, 1, 2**31),
                ),
            }
        ),
        "reduce": _Fitted(ScaledPCA),
        "mixture": _Fitted(DPMixture),
        "weights": Optional(Scalar(str)),
        "output": Optional(Scalar(str, choices=("default", "pandas", "polars"))),
        "verbose": Scalar(bool),
    },
    _check_pipeline,
)
"""The schema of a `SavedPipeline`."""
