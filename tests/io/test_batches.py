"""Chunks are cut into batches, and bad records stay with their rows."""

from hypothesis import given
from hypothesis import strategies as st

from everlearn.io.batches import BadRecord, Batcher, Chunk, batch_size


class TestBatches:
    @given(st.lists(st.integers(0, 30), max_size=10), st.integers(1, 12))
    def test_every_record_is_in_one_batch_in_order(self, sizes, size):
        batcher = Batcher(size)
        batches, n = [], 0
        for source, length in enumerate(sizes):
            chunk = Chunk(source, list(range(n, n + length)), range(n, n + length))
            batches += batcher.add(chunk)
            n += length
        rest = batcher.flush()
        assert all(batch_size(batch) == size for batch in batches)
        assert batch_size(rest) < size
        everything = [row for batch in [*batches, rest] for chunk in batch for row in chunk.rows]
        assert everything == list(range(n))


def test_bad_records_stay_with_their_rows():
    chunk = Chunk(0, list("abcd"), [1, 2, 3, 4], None, {1: BadRecord("why"), 3: BadRecord("so")})
    assert set(chunk.part(1, 3).bad) == {0}
    assert chunk.part(3, 4).bad[0].reason == "so"
