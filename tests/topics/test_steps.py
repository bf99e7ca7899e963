"""Documents cut into runs: nothing is lost, and nothing depends on where the cuts are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.core.documents import Documents
from everlearn.topics import steps as local
from everlearn.topics.batches import as_bags
from everlearn.topics.steps import Block, cut, even_runs

token_lists = st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=12)


def test_bags_say_where_tokens_begin():
    bags = as_bags(Documents.from_tokens([[4, 1, 4], [], [0]]))
    assert bags.indptr.tolist() == [0, 2, 2, 3]
    assert bags.words.tolist() == [1, 4, 0]
    assert bags.counts.tolist() == [1, 2, 1]
    assert bags.starts.tolist() == [0, 3, 3, 4]


@given(token_lists, st.integers(1, 5))
def test_cuts_cover_all_documents_in_order(tokens, n_parts):
    bags = as_bags(Documents.from_tokens(tokens))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(local, "_FEWEST_TOKENS", 1)
        cuts = even_runs(bags, n_parts)
    assert [d for where in cuts for d in range(where.start, where.stop)] == list(range(len(tokens)))
    assert len(cuts) <= n_parts
    assert all(where.stop > where.start for where in cuts)


def test_cuts_are_even_and_small_batches_stay_whole():
    bags = as_bags(Documents.from_tokens([[0] * 100] * 60))
    sizes = [where.stop - where.start for where in even_runs(bags, 4)]
    assert sizes == [15, 15, 15, 15]
    assert len(even_runs(bags, 100)) == 6
    assert len(even_runs(as_bags(Documents.from_tokens([[0] * 900] * 2)), 4)) == 1


@given(token_lists.filter(len), st.data())
def test_a_run_is_the_documents_alone(tokens, data):
    start = data.draw(st.integers(0, len(tokens) - 1))
    stop = data.draw(st.integers(start + 1, len(tokens)))
    whole = as_bags(Documents.from_tokens(tokens))
    for found, expected in zip(
        cut(whole, slice(start, stop)),
        as_bags(Documents.from_tokens(tokens[start:stop])),
        strict=True,
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_block_takes_along_what_belongs_to_its_documents():
    bags = as_bags(Documents.from_tokens([[0, 0], [], [1, 2, 3], [4]]))
    number = np.arange(4)
    block = Block(
        bags,
        keys=number.astype(np.uint64),
        topics=np.arange(6).astype(np.uint16),
        signs=np.repeat(number[:, None], 2, axis=1).astype(np.int8),
        offsets=np.repeat(number[:, None], 2, axis=1).astype(float),
        multipliers=np.repeat(number[:, None], 2, axis=1).astype(float),
        inverses=np.tile(number[None, :, None], (3, 1, 2)).astype(float),
    ).cut(slice(1, 3))
    assert block.keys.tolist() == [1, 2]
    assert block.topics.tolist() == [2, 3, 4]
    for part in (block.signs, block.offsets, block.multipliers):
        assert part.tolist() == [[1, 1], [2, 2]]
    assert block.inverses[2].tolist() == [[1, 1], [2, 2]]
    assert block.bags.starts.tolist() == [0, 0, 3]
