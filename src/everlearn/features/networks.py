"""Images by what a trained network makes of them: `CNNFeatures`.

ONNX files run in onnxruntime, ``pip install 'everlearn[cnn]'``; state dictionaries of torchvision's
networks run in torch, where that is installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.core.params import Constraint, Instance, Interval, Options
from everlearn.features.images import Pixels
from everlearn.features.network_files import Stamp, digest, onnx_network, torch_network
from everlearn.features.transformers import (
    COMMON_CONSTRAINTS,
    Describe,
    Features,
    ImageFeatures,
)


class CNNFeatures(ImageFeatures):
    """What a trained network makes of the square in the middle of an image.

    Parameters
    ----------
    weights : str or path
        An ONNX file; or, with `network`, a file of a state dictionary as torch writes it.
    network : str or None, default=None
        Name of one of torchvision's networks, such as "vgg19", whose last linear layer is left
        out (or, if it has none, its classifier, before which maps are averaged); None for an ONNX
        file.
    output : str or None, default=None
        Name of the output of the ONNX graph to take; None takes the first. Outputs with more than
        two axes are averaged over all but the first two.
    size : int, default=224
        Side to which the square is resized, in pixels.
    mean, std : float or three of them, default=0.0 and 1.0
        The network is given (pixel - mean) / std with pixels from 0 to 255. Networks of torchvision
        want (123.675, 116.28, 103.53) and (58.395, 57.12, 57.375).
    batch_size : int, default=16
        Images that a thread gives the network at a time.
    n_jobs : int or None, default=None
        Threads; None means one for each core. Rows do not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Examples
    --------
    >>> from everlearn.features import CNNFeatures
    >>> features = CNNFeatures("efficientnet.onnx", output="features")
    >>> rows = features.transform(["one.jpg", "two.jpg"])  # doctest: +SKIP
    """

    _constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "weights": (Instance((str, os.PathLike), "the path of a file"),),
        "network": (Options((None,)), Instance((str,), "the name of one of torchvision's")),
        "output": (Options((None,)), Instance((str,), "the name of an output")),
        "batch_size": (Interval(1, integer=True),),
        **COMMON_CONSTRAINTS,
    }

    def __init__(
        self,
        weights: str | os.PathLike[str],
        *,
        network: str | None = None,
        output: str | None = None,
        size: int = 224,
        mean: ArrayLike = 0.0,
        std: ArrayLike = 1.0,
        batch_size: int = 16,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.weights = weights
        self.network = network
        self.output = output
        self.size = size
        self.mean = mean
        self.std = std
        self.batch_size = batch_size
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _describer(self) -> Describe:
        mean, std = self._channels("mean"), self._channels("std")
        if (std <= 0).any():
            raise ValueError(
                f"the 'std' parameter of CNNFeatures must be positive. Got {self.std!r} instead."
            )
        path = _existing(self.weights)
        if self.network is None:
            run = onnx_network(path, self.output)
        elif self.output is None:
            run = torch_network(path, self.network)
        else:
            raise ValueError(
                "the 'output' parameter of CNNFeatures names an output of an ONNX graph and must "
                f"be None with 'network'. Got {self.output!r} instead."
            )

        def describe(images: list[Pixels]) -> Features:
            pixels = (np.stack(images).astype(np.float32) - mean) / std
            return _rows(run(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2))))

        return describe

    def _channels(self, name: str) -> NDArray[np.float32]:
        value = getattr(self, name)
        try:
            array = np.broadcast_to(np.asarray(value, np.float32), (3,))
        except (TypeError, ValueError):
            array = np.array([np.nan])
        if not np.isfinite(array).all():
            raise ValueError(
                f"the {name!r} parameter of CNNFeatures must be a finite number, or three of "
                f"them. Got {value!r} instead."
            )
        return array


def weights_digest(path: str | os.PathLike[str]) -> str:
    """What tells the weights of one file from those of another; read again if it has changed."""
    return digest(Stamp.of(_existing(path)))


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"the 'weights' parameter of CNNFeatures must be a file, got {os.fspath(path)!r}"
        )
    return Path(path)


def _rows(output: NDArray[Any]) -> Features:
    """One row for each image."""
    if output.ndim < 2:
        raise ValueError(
            "the network of CNNFeatures must give numbers for each image, got an output of shape "
            f"{output.shape}"
        )
    if output.ndim > 2:
        output = output.mean(axis=tuple(range(2, output.ndim)))
    return output.astype(np.float32)
