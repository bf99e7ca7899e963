"""Stand-ins for torch and torchvision, as much of them as networks by name need.

What is called a state dictionary is a JSON file: the size of images that a network takes, and the
weights of its last layer.
"""

import json
import threading
import types
from contextlib import nullcontext

import numpy as np


class Tensor:
    def __init__(self, array):
        self.array = array

    def numpy(self):
        return self.array


class Module:
    def named_modules(self):
        yield "", self
        for name, part in vars(self).items():
            if isinstance(part, Module):
                yield from ((f"{name}.{at}".rstrip("."), one) for at, one in part.named_modules())

    def get_submodule(self, at):
        part = self
        for name in filter(None, at.split(".")):
            part = getattr(part, name)
        return part

    def eval(self):
        return self


class Identity(Module):
    def __call__(self, x):
        return x


class Linear(Module):
    def __call__(self, x):
        return x @ np.asarray(self.weights)


class AdaptiveAvgPool2d(Module):
    def __init__(self, size):
        assert size == 1

    def __call__(self, x):
        return x.mean(axis=(2, 3), keepdims=True)


class Conv(Module):
    def __call__(self, x):
        return 2 * x


class Head(Module):
    """A part that holds the layer, so that its name has a dot in it."""

    def __init__(self, last):
        self.last = last

    def __call__(self, x):
        return self.last(x)


class Network(Module):
    """Maps are the images; a linear network averages them before its head."""

    def load_state_dict(self, state):
        self.size = state["size"]
        last = self.get_submodule("head.last") if hasattr(self, "head") else None
        if isinstance(last, Linear):
            last.weights = state["weights"]

    def __call__(self, images):
        x = images.array
        assert x.shape[2] == self.size, f"Wrong image height! Expected {self.size}"
        return Tensor(self.forward(x).reshape(len(x), -1))


class Plain(Network):
    def __init__(self):
        self.head = Head(Linear())

    def forward(self, x):
        return self.head(x.mean(axis=(2, 3)))


class Squeezed(Network):
    def __init__(self):
        self.classifier = Conv()

    def forward(self, x):
        return self.classifier(x)


class Bare(Network):
    def forward(self, x):
        return x


class Detector(Plain):
    def __call__(self, images):
        return [super().__call__(images)]


NETWORKS = {"plain": Plain, "squeezed": Squeezed, "bare": Bare, "detector": Detector}


def stand_ins(log):
    """Both modules; threads that torch is allowed are noted in `log`, in the order of calls."""
    torch = types.ModuleType("torch")
    allowed = threading.local()
    torch.nn = types.SimpleNamespace(
        Linear=Linear, Identity=Identity, AdaptiveAvgPool2d=AdaptiveAvgPool2d
    )
    torch.Tensor = Tensor
    torch.inference_mode = nullcontext
    torch.get_num_threads = lambda: getattr(allowed, "n", 7)

    def set_num_threads(n):
        allowed.n = n
        log.append(("allowed", n))

    def from_numpy(array):
        log.append(("run with", torch.get_num_threads()))
        return Tensor(array)

    def load(path, map_location, weights_only):
        assert (map_location, weights_only) == ("cpu", True)
        log.append(("loaded", path.name))
        return json.loads(path.read_text())

    torch.set_num_threads, torch.from_numpy, torch.load = set_num_threads, from_numpy, load

    def get_model(name, weights):
        if name not in NETWORKS:
            raise ValueError(f"Unknown model {name}")
        return NETWORKS[name]()

    torchvision = types.ModuleType("torchvision")
    torchvision.models = types.SimpleNamespace(get_model=get_model)
    return {"torch": torch, "torchvision": torchvision}
