"""Import the names of a package only when they are first used."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], Any]]:
    """`__getattr__` and `__dir__` of a package whose names live in these modules."""
    own = vars(sys.modules[package])

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        own[name] = getattr(importlib.import_module(homes[name]), name)  # for the next access
        return own[name]

    return load, lambda: sorted({*own, *homes})
