"""Import the public names of a package when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(
    package: str, module_of: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """`__getattr__` and `__dir__` of a package, given the module that defines each public name."""
    namespace = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        namespace[name] = getattr(importlib.import_module(module_of[name]), name)
        return namespace[name]

    return load, lambda: sorted({*namespace, *module_of})
