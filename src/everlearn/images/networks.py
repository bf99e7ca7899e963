"""`CNNFeatures`: the output of a trained network, from an ONNX file or from torchvision.

onnxruntime and torch are imported when a file of theirs is opened, not before.
"""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b, file_digest
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.images.base import COMMON_CONSTRAINTS, FeatureFunction, Features, ImageFeatures
from everlearn.images.files import Pixels

Images: TypeAlias = NDArray[np.float32]
"""Images as networks take them, (n, 3, height, width)."""
Network: TypeAlias = Callable[[Images], NDArray[Any]]
"""Computes an output whose first axis is the images."""
_INPUT_TYPES: Final = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_HOW_TO_INSTALL: Final = {
    "onnxruntime": "networks in ONNX files need onnxruntime; install it with: "
    "pip install 'everlearn[cnn]'",
    "torch": "networks by name need torch and torchvision; see pytorch.org for how to install "
    "them, or give an ONNX file",
}
_HOW_TO_INSTALL["torchvision"] = _HOW_TO_INSTALL["torch"]


class FileVersion(NamedTuple):
    """A key for caches: a file, and what changes when the file changes."""

    path: Path
    mtime_ns: int
    size: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> FileVersion:
        """The present version of a file that exists."""
        found = path.stat()
        return cls(path.absolute(), found.st_mtime_ns, found.st_size, found.st_ino)


def onnx_network(path: Path, output: str | None) -> Network:
    """The network in an ONNX file up to the named output. None means its first output."""
    session = _onnx_session(FileVersion.of(path))
    inputs, names = session.get_inputs(), [one.name for one in session.get_outputs()]
    if output is not None and output not in names:
        raise ValueError(
            f"the 'output' parameter of CNNFeatures must be one of {names}. Got {output!r} instead."
        )
    if len(inputs) != 1:
        raise ValueError(
            "the network of CNNFeatures must have one input, got "
            f"{[one.name for one in inputs]} in {str(path)!r}"
        )
    output_name, input_name = output or names[0], inputs[0].name
    wanted, dtype = inputs[0].shape, _INPUT_TYPES.get(inputs[0].type)
    if dtype is None:
        raise ValueError(
            "the network of CNNFeatures must take images of single or half precision, got "
            f"{inputs[0].type} in {str(path)!r}"
        )

    def run(images: Images) -> NDArray[Any]:
        if wanted and not _fits(images.shape[1:], wanted[1:]):
            raise ValueError(
                "the 'size' parameter of CNNFeatures must suit the network, which takes images of "
                f"shape {tuple(wanted[1:])}. Got images of shape {images.shape[1:]}, channels "
                "first."
            )
        # Some graphs take batches of one size only: the last one is filled up with black images.
        fixed = wanted and isinstance(wanted[0], int) and wanted[0] > 0
        size = wanted[0] if fixed else len(images)
        outputs = []
        for start in range(0, len(images), size):
            batch = images[start : start + size].astype(dtype)
            if missing := size - len(batch):
                batch = np.pad(batch, ((0, missing), (0, 0), (0, 0), (0, 0)))
            outputs.append(np.asarray(session.run([output_name], {input_name: batch})[0]))
        return np.concatenate(outputs)[: len(images)]

    return run


def _fits(shape: Sequence[int], wanted: Sequence[Any]) -> bool:
    """Whether images have the shape that a graph takes. A name in it stands for any number."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(
        have == want for have, want in pairs if isinstance(want, int)
    )


@lru_cache(maxsize=2)
def _onnx_session(file: FileVersion) -> Any:
    """The session of an ONNX file, cached because opening takes longer than a few images."""
    runtime = _import("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # ours work in parallel
    options.log_severity_level = 3
    name = str(file.path)
    try:
        return runtime.InferenceSession(name, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has many classes of its own
        raise ValueError(
            f"the 'weights' parameter of CNNFeatures must be an ONNX file, got {name!r} ({error})"
        ) from error


def torch_network(path: Path, name: str) -> Network:
    """One of torchvision's networks, up to the input of its last linear layer.

    Of a network without linear layers, the mean of the maps before its classifier.
    """
    torch = _import("torch")
    model = _torch_model(FileVersion.of(path), name)
    # The number is one of each thread: ask here, in the caller's thread, not in `run`.
    n_threads = torch.get_num_threads()

    def run(images: Images) -> NDArray[Any]:
        try:
            with torch.inference_mode(), _ONE_THREAD.of(torch, n_threads):
                found = model(torch.from_numpy(images))
        except Exception as error:  # each network has errors of its own
            raise ValueError(
                f"the network {name!r} of CNNFeatures cannot use images of shape "
                f"{images.shape[1:]}, channels first ({error}): check the 'size' parameter"
            ) from error
        if not isinstance(found, torch.Tensor):
            raise ValueError(
                "the 'network' parameter of CNNFeatures must be the name of a classifier of "
                f"images. Got {name!r} instead, which returns a {type(found).__name__}."
            )
        return np.asarray(found.numpy())

    return run


@lru_cache(maxsize=2)
def _torch_model(file: FileVersion, name: str) -> Any:
    """The network without its last layer, cached like the sessions."""
    torch, torchvision = _import("torch"), _import("torchvision")
    try:
        model = torchvision.models.get_model(name, weights=None)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "the 'network' parameter of CNNFeatures must be the name of one of torchvision's, such "
            f"as 'vgg19'. Got {name!r} instead ({error})."
        ) from error
    try:
        model.load_state_dict(torch.load(file.path, map_location="cpu", weights_only=True))
    except Exception as error:  # not a state dictionary, or one of other layers
        raise ValueError(
            f"the 'weights' parameter of CNNFeatures must be a state dictionary of {name!r}, got "
            f"{str(file.path)!r} ({error})"
        ) from error
    linear = [at for at, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    if linear:
        parent, _, last = linear[-1].rpartition(".")
        setattr(model.get_submodule(parent), last, torch.nn.Identity())
    elif hasattr(model, "classifier"):
        model.classifier = torch.nn.AdaptiveAvgPool2d(1)
    else:
        raise ValueError(
            "the 'network' parameter of CNNFeatures must be a network with a linear layer or a "
            f"classifier. Got {name!r} instead."
        )
    return model.eval()


class _OneThread:
    """Keeps torch on one thread while any of our threads, which work in parallel, uses it.

    The setting belongs to the whole process, so the last user sets it back.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def of(self, torch: ModuleType, n_threads: int) -> Iterator[None]:
        """Limit torch to one thread within the block, and to `n_threads` after the last block."""
        with self._lock:
            self._users += 1
            torch.set_num_threads(1)  # must be set in every thread
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    torch.set_num_threads(n_threads)


_ONE_THREAD: Final = _OneThread()


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HOW_TO_INSTALL[name]) from error


class CNNFeatures(ImageFeatures):
    """The output of a trained network for the square in the middle of an image.

    Parameters
    ----------
    weights : str or path
        An ONNX file. With `network`, a state dictionary saved by torch.
    network : str or None, default=None
        Name of one of torchvision's networks, such as "vgg19"; None for an ONNX file. Its last
        linear layer is left out. If it has none, the maps before its classifier are averaged.
    output : str or None, default=None
        Name of the output of the ONNX graph; None takes the first. Outputs with more than two axes
        are averaged over all but the first two.
    size : int, default=224
        Side to which the square is resized, in pixels.
    mean, std : float or three floats, default=0.0 and 1.0
        The network gets (pixel - mean) / std, with pixels from 0 to 255. Networks of torchvision
        need (123.675, 116.28, 103.53) and (58.395, 57.12, 57.375).
    batch_size : int, default=16
        Images for one call of the network.
    n_jobs : int or None, default=None
        Threads; None means one for each core. Rows do not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Examples
    --------
    >>> from everlearn.images import CNNFeatures
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

    def _feature_function(self) -> FeatureFunction:
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
    """A digest of the content of a file of weights, cached until the file changes."""
    return _digest(FileVersion.of(_existing(path)))


@lru_cache(maxsize=32)
def _digest(file: FileVersion) -> str:
    with file.path.open("rb") as content:
        return file_digest(content, lambda: blake2b(digest_size=16)).hexdigest()


def _existing(path: str | os.PathLike[str]) -> Path:
    if not Path(path).is_file():
        raise FileNotFoundError(
            f"the 'weights' parameter of CNNFeatures must be a file, got {os.fspath(path)!r}"
        )
    return Path(path)


def _rows(output: NDArray[Any]) -> Features:
    """One row for each image: further axes are averaged."""
    if output.ndim < 2:
        raise ValueError(
            "the output of the network of CNNFeatures must have an axis for images and one for "
            f"features, got the shape {output.shape}"
        )
    if output.ndim > 2:
        output = output.mean(axis=tuple(range(2, output.ndim)))
    return output.astype(np.float32)
