"""Trained networks from files, as functions from images to numbers.

Neither onnxruntime nor torch is needed before a file of theirs is opened.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from hashlib import blake2b, file_digest
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
