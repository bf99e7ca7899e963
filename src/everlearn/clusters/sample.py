"""`Sample`: a uniform sample of all rows so far, in bounded memory.

Each row has a key that depends on the seed and on its number only, and the rows with the smallest
keys stay. So the sample is the same however the stream is cut into batches, and every part of a
sorted stream keeps its share.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from everlearn.core.arrays import IntVec, Mat

MOST_ROWS: Final = 5000
_WEYL, _MIX1, _MIX2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Rows of the sample in the order in which they came, and their numbers.

    Attributes
    ----------
    rows : (n, D)
    numbers : (n,) ascending
    """

    rows: Mat
    numbers: IntVec

    @classmethod
    def empty(cls, n_columns: int) -> Sample:
        """A sample of no rows."""
        return cls(np.empty((0, n_columns)), np.empty(0, np.int64))

    def __len__(self) -> int:
        return len(self.rows)

    def after(self, rows: Mat, first: int, seed: int, most: int) -> Sample:
        """The sample of at most `most` rows after new rows, numbered from `first` on."""
        numbers = np.concatenate([self.numbers, first + np.arange(len(rows), dtype=np.int64)])
        if len(numbers) <= most:
            return Sample(np.concatenate([self.rows, rows]), numbers)
        kept = np.sort(np.argpartition(_keys(numbers, seed), most - 1)[:most])
        old, new = kept[kept < len(self)], kept[kept >= len(self)] - len(self)
        return Sample(np.concatenate([self.rows[old], rows[new]]), numbers[kept])


def _keys(numbers: IntVec, seed: int) -> NDArray[np.uint64]:
    """A scrambled word for each row; no two rows have the same."""
    start = _scrambled(np.array([seed], np.uint64))  # so that the words of two seeds are far apart
    return _scrambled(start + numbers.astype(np.uint64))


def _scrambled(word: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The word with its bits mixed, as SplitMix64 does."""
    word = (word + np.uint64(1)) * np.uint64(_WEYL)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(_MIX1)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(_MIX2)
    return word ^ (word >> np.uint64(31))
