"""The files to copy of `docs/skeletons/`, loaded as modules of everlearn."""

import importlib.machinery
import sys
from types import ModuleType

from conftest import REPOSITORY


def skeleton(name: str) -> ModuleType:
    """The module, loaded once, so that its classes can be pickled."""
    path = REPOSITORY / "docs" / "skeletons" / f"{name}.py"
    loader = importlib.machinery.SourceFileLoader(f"everlearn.skeleton_{name}", str(path))
    if loader.name not in sys.modules:
        module = ModuleType(loader.name)
        sys.modules[loader.name] = module
        loader.exec_module(module)
    return sys.modules[loader.name]
