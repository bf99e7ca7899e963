"""Trained networks from files, as functions from images to numbers.

Neither onnxruntime nor torch is needed before a file of theirs is opened.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

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


def onnx_network(path: Path, output: str | None) -> Network:
    """The graph in an ONNX file, run on one thread for each call, up to the output named."""
    runtime = _package("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1  # our threads share batches
    options.log_severity_level = 3
    try:
        session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # of many kinds, all of them onnxruntime's own
        raise ValueError(
            f"the 'weights' parameter of CNNFeatures must be an ONNX file, got {str(path)!r} "
            f"({error})"
        ) from error
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


def torch_network(path: Path, name: str) -> Network:
    """One of torchvision's networks, up to what its last linear layer would be given."""
    torch, models = _package("torch"), _package("torchvision").models
    try:
        model = models.get_model(name, weights=None)
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:  # of many kinds: no such network, no such file, other layers
        raise ValueError(
            f"the 'weights' parameter of CNNFeatures must be a state dictionary of {name!r}, got "
            f"{str(path)!r} ({error})"
        ) from error
    linear = [at for at, part in model.named_modules() if isinstance(part, torch.nn.Linear)]
    parent, _, last = linear[-1].rpartition(".")
    setattr(model.get_submodule(parent), last, torch.nn.Identity())
    model.eval()

    def run(images: Images) -> NDArray[Any]:
        with torch.inference_mode():
            return np.asarray(model(torch.from_numpy(images)).numpy())

    return run


def _package(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(_HOW_TO_INSTALL[name]) from error
