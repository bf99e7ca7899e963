"""Rows in chunks: the same rows, batches and labels as in memory."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from everlearn.engine.chunks import (
    BlockLabels,
    Chunk,
    ChunkedRows,
    KeptLabels,
    LabelledChunks,
    split_chunks,
)
from everlearn.engine.local import SerialEngine
from everlearn.engine.protocol import LocalHandle
from everlearn.engine.rows import Rows

SIZES = (4, 1, 7, 3, 5)
X = np.arange(40.0).reshape(20, 2)
WEIGHTS = np.linspace(0.5, 2.0, 20)
ENGINE = SerialEngine()


def parts(whole):
    ends = np.cumsum(SIZES)
    return [whole[end - n : end] for n, end in zip(SIZES, ends, strict=True)]


def chunked(rows):
    chunks = [Chunk(LocalHandle(p), len(p), p.mass, p.nbytes) for p in parts(rows)]
    return ChunkedRows(tuple(chunks), rows.width, rows.missing)


@pytest.fixture(params=["dense", "csr"])
def rows(request):
    return Rows(X if request.param == "dense" else sparse.csr_array(X), WEIGHTS)


def test_length_weight_and_bytes_are_those_of_the_rows(rows):
    found = chunked(rows)
    assert len(found) == 20
    assert found.mass == pytest.approx(rows.mass, rel=1e-15)
    assert found.nbytes == sum(part.nbytes for part in parts(rows))


@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_pieces_are_all_rows_in_order_and_cross_no_chunk(rows, size):
    pieces = chunked(rows).pieces(size)
    loaded = [piece.load() for piece in pieces]
    assert_array_equal(np.concatenate([part.weights for part in loaded]), WEIGHTS)
    assert [len(part) for part in loaded] == [
        min(size, n - start) for n in SIZES for start in range(0, n, size)
    ]


@pytest.mark.parametrize("positions", [[0], [3, 4, 5], [0, 4, 11, 12, 19], list(range(20))])
def test_rows_are_taken_from_whichever_chunk_has_them(rows, positions):
    positions = np.array(positions)
    found, expected = chunked(rows).take(positions, ENGINE), rows[positions]
    assert_array_equal(found.weights, expected.weights)
    assert (found.X != expected.X).sum() == 0


def test_what_was_taken_shares_no_memory_with_the_chunk():
    rows = Rows(X.copy(), WEIGHTS.copy())
    found = chunked(rows).take(np.array([0, 1]), ENGINE)
    found.X[:] = -1.0
    assert_array_equal(rows.X, X)


@pytest.mark.parametrize(("size", "n"), [(1, 5), (7, 3), (10, 2), (20, 1), (1000, 1)])
def test_batches_hold_each_chunk_once_and_neighbours_apart(rows, size, n):
    whole = chunked(rows)
    batches = whole.blocks(size)
    assert len(batches) == n
    dealt = [chunk for batch in batches for chunk in batch.chunks]
    assert {id(c.handle) for c in dealt} == {id(c.handle) for c in whole.chunks}
    assert len(dealt) == len(whole.chunks)
    assert all(batch.chunks == whole.chunks[i::n] for i, batch in enumerate(batches))
    assert all(len(batch) for batch in batches)


def test_no_chunks_are_one_empty_batch():
    (batch,) = split_chunks(ChunkedRows((), 2), 10)
    assert len(batch) == 0


LABELS = np.random.default_rng(0).integers(0, 4, 20).astype(np.int32)
BORN = np.where(np.arange(20) % 2, LABELS, LABELS + 10).astype(np.int32)


def kept():
    """The labels of each chunk, in blocks of two rows."""
    handles = []
    for labels, born in zip(parts(LABELS), parts(BORN), strict=True):
        blocks = [BlockLabels(labels[i : i + 2], born[i : i + 2]) for i in range(0, len(labels), 2)]
        handles.append(LocalHandle(blocks))
    return KeptLabels(tuple(handles))


CHANGES = {
    "none": (lambda found: found, LABELS),
    "merge": (lambda found: found.merged(keep=1, drop=3), np.where(LABELS == 3, 1, LABELS)),
    "birth": (lambda found: found.split(2), np.where(LABELS == 2, BORN, LABELS)),
    "merge, then birth": (
        lambda found: found.merged(keep=2, drop=0).split(2),
        np.where(np.isin(LABELS, (0, 2)), BORN, LABELS),
    ),
    "birth, then merge": (
        lambda found: found.split(2).merged(keep=1, drop=12),
        np.where((LABELS == 2) & (BORN == 12), 1, np.where(LABELS == 2, BORN, LABELS)),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_labels_follow_merges_and_births_in_order(change):
    changed, expected = CHANGES[change]
    labels = changed(kept())
    chunks = chunked(Rows(X, WEIGHTS)).chunks
    found = LabelledChunks(chunks, labels.handles, (labels.changes,) * len(chunks))
    ids = np.unique(expected)
    counts = found.counts(ids, ENGINE)
    assert_array_equal(counts, [[(own == k).sum() for k in ids] for own in parts(expected)])
    # the last row of each label in each chunk that has it
    wanted = [
        [(int(k), np.array([n - 1] if n else [], np.int64)) for k, n in zip(ids, row, strict=True)]
        for row in counts
    ]
    for k, own in zip(ids, found.rows(wanted, ENGINE), strict=True):
        last = [x[own == k][-1:] for x, own in zip(parts(X), parts(expected), strict=True)]
        assert_array_equal(own.X, np.concatenate(last))


def test_merges_and_births_leave_earlier_labels_as_they_were():
    labels = kept()
    labels.merged(keep=1, drop=3).split(2)
    assert labels.changes == ()
