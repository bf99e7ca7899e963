"""Documents as bags of words: for each, its distinct words and how often they occur."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from everlearn.core.arrays import IntVec, Table
from everlearn.core.random import stream

LARGEST: Final = int(np.iinfo(np.int32).max)
"""Neither the number of a word nor its count in a document is larger."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Documents:
    """Word counts of documents, in rows of different lengths.

    The words of document i are ``words[indptr[i] : indptr[i + 1]]``, ascending and distinct, and
    ``counts`` says at the same places how often each occurs. A document may be empty. The arrays
    are contiguous and ``indptr`` begins with 0, also those of a slice of documents, which shares
    ``words`` and ``counts`` with the whole.

    Attributes
    ----------
    indptr : (n_documents + 1,) int64, where each document begins, and where the last one ends
    words : (n_entries,) int32, numbers of words
    counts : (n_entries,) int32, at least 1

    Examples
    --------
    >>> documents = Documents.from_tokens([[4, 1, 4], [], [0]])
    >>> len(documents), documents.n_tokens, documents.lengths.tolist()
    (3, 4, [3, 0, 1])
    >>> documents.words.tolist(), documents.counts.tolist()
    ([1, 4, 0], [1, 2, 1])
    """

    indptr: IntVec
    words: NDArray[np.int32]
    counts: NDArray[np.int32]

    @classmethod
    def from_csr(cls, table: Table) -> Documents:
        """Documents from the rows of a sparse table of counts, whose arrays stay as they are.

        Zeros are left out, and entries that share a row and a column are added up. Anything but
        whole numbers from 0 to 2**31 - 1 is an error.
        """
        table = sparse.csr_array(table)
        table.check_format()
        return cls._from_rows(table.indptr, table.indices, table.data)

    @classmethod
    def from_dense(cls, table: ArrayLike) -> Documents:
        """Documents from the rows of a dense table of counts, by the rules of `from_csr`."""
        table = np.asarray(table)
        rows, words = np.nonzero(table)
        indptr = np.searchsorted(rows, np.arange(len(table) + 1))
        return cls._from_rows(indptr, words, table[rows, words])

    @classmethod
    def from_tokens(cls, tokens: Iterable[ArrayLike]) -> Documents:
        """Documents from one flat sequence of word numbers each, in any order."""
        rows = [np.asarray(row) for row in tokens]
        for i, row in enumerate(rows):
            if row.ndim != 1 or (row.size and row.dtype.kind not in "iu"):
                raise ValueError(
                    "a document must be a flat sequence of whole numbers; document "
                    f"{i} has {row.ndim} axes and the dtype {row.dtype}"
                )
        indptr = np.concatenate([[0], np.cumsum([row.size for row in rows], dtype=np.int64)])
        words = np.concatenate([np.empty(0, np.int64), *(row for row in rows if row.size)])
        return cls._from_rows(indptr, words, np.ones(words.size, np.int64))

    @classmethod
    def _from_rows(cls, indptr: Any, words: Any, counts: Any) -> Documents:
        """Documents from arrays as those of a CSR table, with words in any order and repeated."""
        words = _whole_numbers(words, "numbers of words")
        counts = _whole_numbers(counts, "counts")
        if not _in_form(indptr, words, counts):
            shape = (len(indptr) - 1, int(words.max()) + 1)
            table = sparse.csr_array((counts.astype(np.int64), words, indptr), shape, copy=True)
            table.sum_duplicates()
            table.eliminate_zeros()
            indptr, words = table.indptr, table.indices
            counts = _whole_numbers(table.data, "counts")
        return cls(indptr.astype(np.int64), words.astype(np.int32), counts.astype(np.int32))

    def __len__(self) -> int:
        return self.indptr.size - 1

    def __getitem__(self, where: slice) -> Documents:
        start, stop, step = where.indices(len(self))
        if step != 1:
            return self.take(np.arange(start, stop, step))
        indptr = self.indptr[start : max(start, stop) + 1]
        inside = slice(int(indptr[0]), int(indptr[-1]))
        return Documents(indptr - indptr[0], self.words[inside], self.counts[inside])

    def take(self, rows: ArrayLike) -> Documents:
        """The documents at these positions, or where this mask is true, in that order."""
        rows = np.asarray(rows)
        picked = np.arange(len(self))[rows if rows.size else []]
        sizes = np.diff(self.indptr)[picked]
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        places = np.arange(indptr[-1]) + np.repeat(self.indptr[picked] - indptr[:-1], sizes)
        return Documents(indptr, self.words[places], self.counts[places])

    def below(self, n_words: int) -> Documents:
        """The same documents without the words numbered `n_words` or higher."""
        kept = self.words < n_words
        if kept.all():
            return self
        places = np.concatenate([[0], np.cumsum(kept)])
        return Documents(places[self.indptr], self.words[kept], self.counts[kept])

    @property
    def lengths(self) -> IntVec:
        """Number of tokens of each document, (n_documents,)."""
        sums = np.concatenate([[0], np.cumsum(self.counts, dtype=np.int64)])
        return np.diff(sums[self.indptr])

    @property
    def n_tokens(self) -> int:
        """Number of tokens of all documents."""
        return int(self.counts.sum(dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays held."""
        return self.indptr.nbytes + self.words.nbytes + self.counts.nbytes

    def to_csr(self, n_words: int) -> Table:
        """A CSR table of shape (n_documents, n_words) with a copy of the counts.

        Words numbered `n_words` or higher are an error.
        """
        if self.words.max(initial=-1) >= n_words:
            raise ValueError(
                f"a table of {n_words} words cannot hold word number {self.words.max()}"
            )
        shape = (len(self), n_words)
        return sparse.csr_array((self.counts, self.words, self.indptr), shape=shape, copy=True)


def _in_form(indptr: IntVec, words: IntVec, counts: IntVec) -> bool:
    """Whether the words of each row ascend and are distinct, and no count is zero.

    SciPy's own check takes four times as long, which is felt beside a pass of a fast model.
    """
    ascends = words[1:] > words[:-1]
    ascends[indptr[(indptr > 0) & (indptr < len(words))] - 1] = True  # the next row begins anew
    return bool(ascends.all()) and bool(counts.all())


def _whole_numbers(values: Any, what: str) -> NDArray[np.integer[Any]]:
    """The values as integers, if they are whole and from 0 to `LARGEST`."""
    values = np.asarray(values)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"{what} must be whole numbers, got the dtype {values.dtype}")
    if values.dtype.kind == "f":
        with np.errstate(invalid="ignore"):  # NaN and what is too large become other numbers
            whole = values.astype(np.int64)
        wrong = whole != values
        if wrong.any():
            wrong &= ~(np.isfinite(values) & (values == np.floor(values)))
            if wrong.any():
                raise ValueError(f"{what} must be whole numbers, got {values[wrong][0]:g}")
        else:
            values = whole
    if values.size and not (values.min() >= 0 and values.max() <= LARGEST):
        outside = values[(values < 0) | (values > LARGEST)]
        raise ValueError(f"{what} must be from 0 to 2**31 - 1, got {outside[0]:g}")
    return np.asarray(values, dtype=values.dtype if values.dtype.kind in "iu" else np.int64)


_LONGEST: Final = 10**9
"""NumPy draws without replacement from fewer tokens than this."""


def split_documents(documents: Documents, seed: int) -> tuple[Documents, Documents]:
    """Two halves of the tokens of each document, drawn at random without replacement.

    The draw depends on the seed and on what is in the document, so that a document is split in the
    same way whatever comes with it. If the number of tokens is odd, the first half has one more.

    Returns
    -------
    observed, held_out : Documents
        Each with as many documents as there were; their counts add up to the counts given.
    """
    if documents.lengths.max(initial=0) >= _LONGEST:
        raise ValueError(
            f"a document to split must have fewer than {_LONGEST} tokens, "
            f"got {documents.lengths.max()}"
        )
    observed = np.zeros_like(documents.counts)
    for start, stop in zip(documents.indptr[:-1], documents.indptr[1:], strict=True):
        counts = documents.counts[start:stop].astype(np.int64)
        content = documents.words[start:stop].tobytes() + documents.counts[start:stop].tobytes()
        key = int.from_bytes(blake2b(content, digest_size=16).digest(), "little")
        draw = stream(seed, "subsample", key).multivariate_hypergeometric
        observed[start:stop] = draw(counts, (counts.sum() + 1) // 2)
    return _with_counts(documents, observed), _with_counts(documents, documents.counts - observed)


def _with_counts(documents: Documents, counts: NDArray[np.int32]) -> Documents:
    """The documents with other counts, of which zeros are left out."""
    kept = np.flatnonzero(counts)
    return Documents(np.searchsorted(kept, documents.indptr), documents.words[kept], counts[kept])
