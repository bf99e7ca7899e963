"""Data for the demo: scikit-learn's digits, and docstrings of installed packages."""

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
from sklearn import datasets
from sklearn.decomposition import PCA

from everlearn.core.arrays import IntVec, Mat
from everlearn.core.random import stream
from everlearn.mixture.estimator import DPMixture
from everlearn.report.study import Gallery, Study, Truth

_DIMENSIONS: Final = 30
_SIDE: Final = 8
_MAX_PIXEL: Final = 16.0


@dataclass(frozen=True, slots=True)
class Digits:
    """1,797 images of handwritten digits, in random order.

    Attributes
    ----------
    rows : principal components, divided by `scale` so that their mean variance is 1
    images : pixels from 0 to 1
    labels : the digits that the images show
    pca : the projection from pixels to components
    scale : the divisor of the components
    """

    rows: Mat
    images: Mat
    labels: IntVec
    pca: PCA
    scale: float

    def study(self, model: DPMixture) -> Study:
        """A report on a mixture that has learned the rows, with the true digits.

        It has pictures if Pillow is installed.
        """
        return Study(
            model=model,
            rows=self.rows,
            title="Handwritten digits, learned as a stream",
            lead=f"{len(self.rows):,} images, each learned once and without its label.",
            noun="image",
            truth=Truth("digit", self.labels, tuple("0123456789")),
            gallery=self._gallery(model) if find_spec("PIL") else None,
            notes=(
                f"The rows are {_DIMENSIONS} principal components with a mean variance of 1.",
                "The true digits were only used for the comparison, after learning.",
            ),
        )

    def _gallery(self, model: DPMixture) -> Gallery:
        means = self.pca.inverse_transform(model.means_ * self.scale) / _MAX_PIXEL
        return Gallery(np.clip(means, 0.0, 1.0).reshape(-1, _SIDE, _SIDE), self.images)


def load_digits(seed: int) -> Digits:
    """scikit-learn's digits in random order, as images and as principal components."""
    pixels, labels = datasets.load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(pixels))
    pixels, labels = pixels[order], labels[order].astype(np.int64)
    pca = PCA(_DIMENSIONS, svd_solver="full").fit(pixels)
    rows = pca.transform(pixels)
    scale = float(np.sqrt(rows.var(axis=0).mean()))
    return Digits(rows / scale, (pixels / _MAX_PIXEL).reshape(-1, _SIDE, _SIDE), labels, pca, scale)


def write_rows(rows: Mat, path: Path) -> Path:
    """Write rows to a CSV file."""
    header = ",".join(f"pc{k + 1}" for k in range(rows.shape[1]))
    np.savetxt(path, rows, fmt="%.6g", delimiter=",", header=header, comments="")
    return path


PACKAGES: Final = ("numpy", "scipy", "sklearn", "numba", "pandas", "skimage", "networkx")
"""Packages whose docstrings are used, if they are installed. The first four always are."""
_MIN_WORDS: Final = 40
PER_PACKAGE: Final = 100
_MAX_FILE_BYTES: Final = 400_000
_PACKAGE_NAMES: Final = re.compile(
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


def load_docstrings(seed: int, max_each: int, packages: tuple[str, ...] = PACKAGES) -> Corpus:
    """Up to `max_each` docstrings of each package, with the package as the label.

    Source files are parsed, not imported. A document is the docstring of a public function or
    class. Names of packages are removed from the text, because they would give the label away.
    """
    found = []
    for number, package in enumerate(packages):
        documents = islice(_documents(package, stream(seed, "subsample", number)), max_each)
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
        if hidden or "tests" in inside.parts or path.stat().st_size > _MAX_FILE_BYTES:
            continue
        module = ".".join((package, *inside.with_suffix("").parts)).removesuffix(".__init__")
        yield from _docstrings_of(path, module)


def _docstrings_of(path: Path, module: str) -> Iterator[tuple[str, str]]:
    try:
        tree = ast.parse(path.read_text("utf-8"))
    except (OSError, SyntaxError, UnicodeDecodeError, ValueError):
        return
    for node in tree.body:
        if not isinstance(node, (ast.FunctionDef, ast.ClassDef)) or node.name.startswith("_"):
            continue
        text = ast.get_docstring(node)
        if text is not None and len(text.split()) >= _MIN_WORDS:
            yield f"{module}.{node.name}", _PACKAGE_NAMES.sub(" ", text)
