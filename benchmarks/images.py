"""The images of the reproductions, decoded one at a time, with their labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import overload

import numpy as np

from benchmarks.corpora import DATA
from everlearn.features.images import Pixels, read_image

HOME = DATA / "caltech101"


class Photographs(Sequence[Pixels]):
    """Images kept as the bytes of their files; `photographs[i]` decodes one, a slice none."""

    def __init__(self, files: Sequence[bytes]) -> None:
        self._files = files

    def __len__(self) -> int:
        return len(self._files)

    @overload
    def __getitem__(self, i: int) -> Pixels: ...
    @overload
    def __getitem__(self, i: slice) -> "Photographs": ...
    def __getitem__(self, i):
        if isinstance(i, slice):
            return Photographs(self._files[i])
        return read_image(self._files[i])

    def chosen(self, positions: Sequence[int] | np.ndarray) -> "Photographs":
        """Those at the positions given, in their order."""
        return Photographs([self._files[i] for i in positions])


@dataclass(frozen=True)
class Images:
    """Images with the position of each one's label in `labels`, and the names of their files."""

    photographs: Photographs
    y: np.ndarray
    labels: list[str]
    names: list[str]

    def __len__(self) -> int:
        return len(self.photographs)

    def chosen(self, positions: Sequence[int] | np.ndarray) -> "Images":
        """Those at the positions given, in their order."""
        return Images(
            self.photographs.chosen(positions),
            self.y[positions],
            self.labels,
            [self.names[i] for i in positions],
        )


@cache
def _columns(file: str, *names: str) -> list[list]:
    from pyarrow import parquet

    table = parquet.read_table(HOME / file, columns=list(names))
    return [table.column(name).to_pylist() for name in names]


def faces(n: int | None = None) -> Images:
    """The first n, or all 435, centred faces of Caltech-101, 160 wide and 200 high."""
    names, files = _columns("faces_easy.parquet", "file", "jpeg")
    files = files[:n]
    return Images(Photographs(files), np.zeros(len(files), np.int64), ["Faces_easy"], names[:n])


def caltech() -> Images:
    """30 images of each of the 102 folders of Caltech-101, short side 128 pixels."""
    categories, names, files = _columns("caltech101_sample.parquet", "category", "file", "jpeg")
    labels, y = np.unique(categories, return_inverse=True)
    full_names = [f"{c}/{name}" for c, name in zip(categories, names, strict=True)]
    return Images(Photographs(files), y, labels.tolist(), full_names)
