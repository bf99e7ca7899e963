"""Docstrings of the installed scientific packages: a labelled corpus that every machine has.

Source files are parsed, not imported. A document is the docstring of a public function or class,
its label the package. Names of packages are left out of the text: they would give it away.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Final

import numpy as np

from everlearn.core.random import stream

PACKAGES: Final = ("numpy", "scipy", "sklearn", "numba", "pandas", "skimage", "networkx")
"""Those that are installed are used; the first four always are."""
_FEWEST_WORDS: Final = 40
_MOST: Final = 150
_BYTES: Final = 400_000
_GIVEAWAY: Final = re.compile(
    rf"{'|'.join(PACKAGES)}|scikit-(?:learn|image)|\b(?:np|pd|nx)\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Documents in random order, with names and labels."""

    texts: tuple[str, ...]
    labels: tuple[str, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.texts)


def load(seed: int, most: int = _MOST, packages: tuple[str, ...] = PACKAGES) -> Corpus:
    """At most so many docstrings of each package."""
    found = []
    for number, package in enumerate(packages):
        documents = islice(_documents(package, stream(seed, "subsample", number)), most)
        found += [(text, package, name) for name, text in documents]
    order = stream(seed, "order").permutation(len(found))
    texts, labels, names = zip(*(found[i] for i in order), strict=True)
    return Corpus(texts, labels, names)


def _documents(package: str, rng: np.random.Generator) -> Iterator[tuple[str, str]]:
    """(name, docstring) of the public functions and classes of a package, file by file."""
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        return
    home = Path(spec.origin).parent
    files = sorted(home.rglob("*.py"))
    for i in rng.permutation(len(files)):
        path = files[i]
        inside = path.relative_to(home)
        hidden = any(part.startswith("_") and part != "__init__.py" for part in inside.parts[:-1])
        if hidden or "tests" in inside.parts or path.stat().st_size > _BYTES:
            continue
        module = ".".join((package, *inside.with_suffix("").parts)).removesuffix(".__init__")
        yield from _of_file(path, module)


def _of_file(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        if text is not None and len(text.split()) >= _FEWEST_WORDS:
            yield f"{module}.{node.name}", _GIVEAWAY.sub(" ", text)
