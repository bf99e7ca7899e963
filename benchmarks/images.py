"""Load the images of the reproductions, decoded one at a time, with their labels.

The images come in parquet files. Reading these takes more memory than learning from the images, so
a separate process unpacks each file once, into an archive that is read image by image.
"""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import overload
from zipfile import ZipFile

import numpy as np

from benchmarks.corpora import DATA
from benchmarks.table import ROOT
from everlearn.images.files import Pixels, read_image

HOME = DATA / "caltech101"
UNPACKED = ROOT / "out" / "images"


class Photographs(Sequence[Pixels]):
    """Images in an archive; `photographs[i]` reads and decodes one, a slice none."""

    def __init__(self, archive: Path, names: Sequence[str]) -> None:
        self._archive = archive
        self._names = names

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, i: int) -> Pixels: ...
    @overload
    def __getitem__(self, i: slice) -> "Photographs": ...
    def __getitem__(self, i):
        if isinstance(i, slice):
            return Photographs(self._archive, self._names[i])
        with ZipFile(self._archive) as archive:
            return read_image(archive.read(self._names[i]))

    def files(self) -> list[bytes]:
        """The encoded bytes of all images."""
        with ZipFile(self._archive) as archive:
            return [archive.read(name) for name in self._names]

    def chosen(self, positions: Sequence[int] | np.ndarray) -> "Photographs":
        """Those at the positions given, in their order."""
        return Photographs(self._archive, [self._names[i] for i in positions])


@dataclass(frozen=True)
class Images:
    """Images with the position of each label in `labels`, and the names of their files."""

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


def unpack(source: Path, target: Path) -> None:
    """Write the images of a parquet file into an archive, in folders by category if there are any.

    The archive gets its name when it is complete.
    """
    from pyarrow import parquet

    columns = parquet.read_table(source).to_pydict()
    folders = [f"{category}/" for category in columns.get("category", ())]
    partial = target.with_suffix(".part")
    partial.parent.mkdir(parents=True, exist_ok=True)
    with ZipFile(partial, "w") as archive:
        for i, image in enumerate(columns["jpeg"]):
            archive.writestr((folders[i] if folders else "") + columns["file"][i], image)
    partial.rename(target)


def _unpacked(name: str) -> tuple[Path, list[str]]:
    """The archive of a parquet file, made if it is missing, and the names in it."""
    source, target = HOME / f"{name}.parquet", UNPACKED / f"{name}.zip"
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        command = [sys.executable, "-m", "benchmarks.images", str(source), str(target)]
        subprocess.run(command, cwd=ROOT, check=True)
    with ZipFile(target) as archive:
        return target, archive.namelist()


def faces(n: int | None = None) -> Images:
    """The first n, or all 435, centred faces of Caltech-101, 160 wide and 200 high."""
    archive, names = _unpacked("faces_easy")
    names = names[:n]
    y = np.zeros(len(names), np.int64)
    return Images(Photographs(archive, names), y, ["Faces_easy"], names)


def caltech() -> Images:
    """30 images of each of the 102 folders of Caltech-101, short side 128 pixels."""
    archive, names = _unpacked("caltech101_sample")
    labels, y = np.unique([name.partition("/")[0] for name in names], return_inverse=True)
    return Images(Photographs(archive, names), y, labels.tolist(), names)


if __name__ == "__main__":
    unpack(Path(sys.argv[1]), Path(sys.argv[2]))
