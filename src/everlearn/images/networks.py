"""Trained networks from files, as functions from images to numbers.

Neither onnxruntime nor torch is needed before a file of theirs is opened.
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
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from everlearn.estimator.params import Constraint, Instance, Interval, Options
from everlearn.images.base import COMMON_CONSTRAINTS, Describe, Features, ImageFeatures
from everlearn.images.files import Pixels

Images: TypeAlias = NDArray[np.float32]
"""Images as networks want them, (n, 3, height, width)."""
Network: TypeAlias = Callable[[Images], NDArray[Any]]
"""What a network makes of images, the first axis theirs."""
_KINDS: Final = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
_HOW_TO_INSTALL: Final = {
    "onnxruntime": "networks in ONNX files need onnxruntime; install it with: "
    "pip install 'everlearn[cnn]'",
    "torch": "networks by name need torch and torchvision; see pytorch.org for how to install "
    "them, or give an ONNX file",
}
_HOW_TO_INSTALL["torchvision"] = _HOW_TO_INSTALL["torch"]


class Stamp(NamedTuple):
    """A file as it is now: another stamp, another content."""

    path: Path
    changed: int
    size: int
    inode: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """That of a file which is there."""
        found = path.stat()
        return cls(path.absolute(), found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=32)
def digest(file: Stamp) -> str:
    """What tells the content of one file from that of another."""
    with file.path.open("rb") as content:
        return file_digest(content, lambda: blake2b(digest_size=16)).hexdigest()


def onnx_network(path: Path, output: str | None) -> Network:
    """The graph in an ONNX file, run on one thread for each call, up to the output named."""
    session = _onnx_session(Stamp.of(path), _package("onnxruntime"))
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
    chosen, given = output or names[0], inputs[0].name
    wanted, kind = inputs[0].shape, _KINDS.get(inputs[0].type)
    if kind is None:
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
        fixed = wanted and isinstance(wanted[0], int) and wanted[0] > 0
        at_once = wanted[0] if fixed else len(images)
        parts = [
            session.run([chosen], {given: _filled(images[i : i + at_once], at_once).astype(kind)})
            for i in range(0, len(images), at_once)
        ]
        return np.concatenate([np.asarray(part[0]) for part in parts])[: len(images)]

    return run


def _fits(shape: Sequence[int], wanted: Sequence[Any]) -> bool:
    """Whether images are of the shape that a graph wants; names in it stand for any number."""
    pairs = zip(shape, wanted, strict=False)
    return len(shape) == len(wanted) and all(
        have == want for have, want in pairs if isinstance(want, int)
    )


def _filled(images: Images, count: int) -> Images:
    """So many images, the last ones black if there are fewer."""
    missing = count - len(images)
    return np.pad(images, ((0, missing), (0, 0), (0, 0), (0, 0))) if missing else images


@lru_cache(maxsize=2)
def _onnx_session(file: Stamp, runtime: Any) -> Any:
    """A session, which is kept: opening it takes longer than describing a few images."""
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # our threads share batches
    options.log_severity_level = 3
    name = str(file.path)
    try:
        return runtime.InferenceSession(name, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds, all of them onnxruntime's own
        raise ValueError(
            f"the 'weights' parameter of CNNFeatures must be an ONNX file, got {name!r} ({error})"
        ) from error


def torch_network(path: Path, name: str) -> Network:
    """One of torchvision's networks, up to what its last linear layer would be given.

    Of a network without linear layers that is the mean of the maps before its classifier.
    """
    torch = _package("torch")
    model = _torch_model(Stamp.of(path), name, torch, _package("torchvision"))
    usual = torch.get_num_threads()  # which every thread says for itself: ask that of the caller

    def run(images: Images) -> NDArray[Any]:
        try:
            with torch.inference_mode(), _ONE_THREAD.of(torch, usual):
                found = model(torch.from_numpy(images))
        except Exception as error:  # of many kinds: each network says in its own way what it wants
            raise ValueError(
                f"the network {name!r} of CNNFeatures cannot use images of shape "
                f"{images.shape[1:]}, channels first ({error}): does the 'size' suit it?"
            ) from error
        if not isinstance(found, torch.Tensor):
            raise ValueError(
                "the 'network' parameter of CNNFeatures must be one that tells classes of images. "
                f"Got {name!r} instead, which gives a {type(found).__name__}."
            )
        return np.asarray(found.numpy())

    return run


@lru_cache(maxsize=2)
def _torch_model(file: Stamp, name: str, torch: Any, torchvision: Any) -> Any:
    """The network without its last layer, which is kept, as sessions are."""
    try:
        model = torchvision.models.get_model(name, weights=None)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            "the 'network' parameter of CNNFeatures must be the name of one of torchvision's, such "
            f"as 'vgg19'. Got {name!r} instead ({error})."
        ) from error
    try:
        model.load_state_dict(torch.load(file.path, map_location="cpu", weights_only=True))
    except Exception as error:  # of many kinds: no such file, other layers
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
    """One thread for each call of torch while anybody needs that, since ours share batches.

    The setting is that of the whole process, and the usual one again when the last one leaves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0

    @contextmanager
    def of(self, torch: Any, usual: int) -> Iterator[None]:
        """Within the block, torch does not add threads to those that there are."""
        with self._lock:
            self._users += 1
            torch.set_num_threads(1)  # torch wants to be told in every thread
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                if self._users == 0:
                    torch.set_num_threads(usual)


_ONE_THREAD: Final = _OneThread()


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HOW_TO_INSTALL[name]) from error


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
