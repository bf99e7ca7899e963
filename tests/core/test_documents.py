"""Documents agree with the plain table of counts they stand for, and alias nothing."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse

from everlearn.core.documents import LARGEST, Documents

N_WORDS = 7
tables = st.tuples(st.integers(0, 6), st.just(N_WORDS)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 3))
)


def assert_holds(documents, table):
    """The documents are canonical and say what the dense table says."""
    starts, words = documents.indptr, documents.words
    assert (starts.dtype, words.dtype, documents.counts.dtype) == (np.int64, np.int32, np.int32)
    assert all(array.flags.c_contiguous for array in (starts, words, documents.counts))
    assert starts[0] == 0
    assert starts[-1] == words.size == documents.counts.size
    for low, high in itertools.pairwise(starts):
        assert (np.diff(words[low:high]) > 0).all()
    assert (documents.counts >= 1).all()
    assert len(documents) == len(table)
    np.testing.assert_array_equal(documents.to_csr(N_WORDS).toarray(), table)


def tokens_of(table):
    return [np.repeat(np.arange(N_WORDS), row)[::-1] for row in table]


@given(tables)
def test_every_way_in_gives_the_same_documents(table):
    assert_holds(Documents.from_csr(sparse.csr_array(table)), table)
    assert_holds(Documents.from_csr(sparse.csc_matrix(table.astype(float))), table)
    assert_holds(Documents.from_dense(table.astype(np.float16)), table)
    assert_holds(Documents.from_tokens(tokens_of(table)), table)


@given(tables, st.data())
def test_entries_may_come_in_any_order_with_zeros_and_room_behind_them(table, data):
    orders = [data.draw(st.permutations(range(N_WORDS))) for _ in table]
    words = np.array([*itertools.chain(*orders), 3, 3], np.int32)
    counts = np.array([*itertools.chain(*map(np.take, table, orders)), 5, 5])
    given_table = sparse.csr_array((len(table), N_WORDS), dtype=np.int64)
    given_table.indptr = N_WORDS * np.arange(len(table) + 1)
    given_table.indices, given_table.data = words, counts
    assert_holds(Documents.from_csr(given_table), table)


@given(tables, st.slices(6))
def test_a_slice_is_the_documents_of_the_sliced_table(table, where):
    assert_holds(Documents.from_dense(table)[where], table[where])


@given(tables, st.data())
def test_taking_picks_rows_in_the_order_given(table, data):
    places = st.integers(0, max(0, len(table) - 1))
    rows = data.draw(st.lists(places, max_size=9 if len(table) else 0))
    mask = data.draw(arrays(bool, len(table)))
    documents = Documents.from_dense(table)
    assert_holds(documents.take(rows), table[np.array(rows, dtype=int)])
    assert_holds(documents.take(mask), table[mask])


@given(tables, st.integers(0, N_WORDS))
def test_below_empties_the_columns_from_there_on(table, n_words):
    kept = np.where(np.arange(N_WORDS) < n_words, table, 0)
    assert_holds(Documents.from_dense(table).below(n_words), kept)


@given(tables)
def test_lengths_are_row_sums(table):
    documents = Documents.from_dense(table)
    np.testing.assert_array_equal(documents.lengths, table.sum(axis=1))
    assert documents.n_tokens == table.sum()


def test_lengths_do_not_overflow():
    documents = Documents.from_dense([[LARGEST, LARGEST, LARGEST]])
    assert documents.lengths.tolist() == [3 * LARGEST]
    assert documents.n_tokens == 3 * LARGEST


def test_a_slice_shares_memory_and_copies_no_entry():
    documents = Documents.from_dense(np.ones((5, N_WORDS)))
    part = documents[1:4]
    assert np.shares_memory(part.words, documents.words)
    assert np.shares_memory(part.counts, documents.counts)


def test_unsorted_duplicate_and_zero_entries_leave_the_callers_table_alone():
    table = sparse.csr_array(
        (np.array([1, 2, 0, 100, 100], np.int8), np.array([3, 0, 1, 3, 3]), np.array([0, 3, 5])),
        shape=(2, N_WORDS),
    )
    before = [a.copy() for a in (table.data, table.indices, table.indptr)]
    documents = Documents.from_csr(table)
    assert documents.words.tolist() == [0, 3, 3]
    assert documents.counts.tolist() == [2, 1, 200]
    for array, copy in zip((table.data, table.indices, table.indptr), before, strict=True):
        np.testing.assert_array_equal(array, copy)
    for ours in (documents.indptr, documents.words, documents.counts):
        assert not any(np.shares_memory(ours, a) for a in (table.data, table.indices, table.indptr))


def test_documents_of_a_canonical_table_do_not_alias_it():
    table = sparse.csr_array(np.eye(3, N_WORDS, dtype=np.int32))
    table.indptr = table.indptr.astype(np.int64)
    documents = Documents.from_csr(table)
    back = documents.to_csr(N_WORDS)
    table.data[:] = table.indices[:] = 5
    back.data[:] = back.indices[:] = 6
    assert_holds(documents, np.eye(3, N_WORDS, dtype=int))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (-1, "from 0 to 2\\*\\*31 - 1, got -1"),
        (LARGEST + 1, "from 0 to 2\\*\\*31 - 1, got 2.14748e\\+09"),
        (1.5, "whole numbers, got 1.5"),
        (np.nan, "whole numbers, got nan"),
        (np.inf, "whole numbers, got inf"),
        (1e300, "from 0 to"),
        (np.float32(2**31), "from 0 to"),
        (1j, "whole numbers, got the dtype complex128"),
    ],
)
def test_what_is_not_a_count_is_refused(value, message):
    for read in (Documents.from_dense, lambda table: Documents.from_csr(sparse.csr_array(table))):
        with pytest.raises(ValueError, match=f"counts must be {message}"):
            read(np.array([[2, value]], dtype=np.result_type(value)))


@pytest.mark.parametrize(
    ("indptr", "words"), [([0, 2, 1, 3], [0, 1, 2]), ([0, 1, 2, 3], [0, N_WORDS, 2])]
)
def test_a_broken_table_is_refused(indptr, words):
    table = sparse.csr_array((3, N_WORDS), dtype=np.int64)
    table.indptr, table.indices = np.array(indptr, np.int32), np.array(words, np.int32)
    table.data = np.ones(3, np.int64)
    with pytest.raises(ValueError, match="ind"):
        Documents.from_csr(table)


def test_a_sum_of_duplicates_that_is_too_large_is_refused():
    table = sparse.csr_array(([LARGEST, 1], [0, 0], [0, 2]), shape=(1, 1))
    with pytest.raises(ValueError, match="counts must be from 0 to"):
        Documents.from_csr(table)


@pytest.mark.parametrize(
    "row", [[-1], [LARGEST + 1], np.array([2**63], np.uint64), [0.0], ["a"], [[1]], 3, [True]]
)
def test_what_is_not_a_word_number_is_refused(row):
    with pytest.raises(ValueError, match=r"numbers of words must be from 0|document 1 has"):
        Documents.from_tokens([[1, 2], row])


def test_a_table_that_is_too_narrow_is_refused():
    with pytest.raises(ValueError, match="table of 4 words cannot hold word number 4"):
        Documents.from_tokens([[4]]).to_csr(4)
