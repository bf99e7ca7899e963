"""Trained networks from files, as functions from images to numbers.

Neither onnxruntime nor torch is needed before a file of theirs is opened.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Images: TypeAlias = NDArray[np.float32]
"""Images as networks want them, (n, 3, height, width)."""
Network: TypeAlias = Callable[[Images], NDArray[Any]]
"""What a network makes of images, the first axis theirs."""

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

    def run(images: Images) -> NDArray[Any]:
        return np.asarray(session.run([chosen], {given: images})[0])

    return run


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
