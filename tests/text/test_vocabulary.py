"""A vocabulary grows in the order of the stream, keeps to its limit, and reads what it wrote."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from everlearn.errors import CheckpointError
from everlearn.text.vocabulary import LONGEST_WORD, Vocabulary

any_words = st.text(max_size=4)
corpora = st.lists(st.lists(st.sampled_from("abcdefgh"), max_size=6), max_size=6)


def plain_encode(corpus, max_features):
    """Words in order of appearance up to the limit, and the count of each in each document."""
    words = list(dict.fromkeys(token for document in corpus for token in document))[:max_features]
    return words, [[document.count(word) for word in words] for document in corpus]


@given(corpora, st.integers(1, 9))
def test_encoding_counts_the_first_words_seen(corpus, max_features):
    words, counts = plain_encode(corpus, max_features)
    grown, documents = Vocabulary(max_features=max_features).encode(corpus)
    assert grown.words == words
    assert documents.to_csr(len(words)).toarray().tolist() == counts


@given(corpora, st.integers(1, 9), st.integers(0, 6))
def test_batches_do_not_matter(corpus, max_features, cut):
    whole, documents = Vocabulary(max_features=max_features).encode(corpus)
    first, head = Vocabulary(max_features=max_features).encode(corpus[:cut])
    second, tail = first.encode(corpus[cut:])
    assert second.words == whole.words
    for part, whole_part in ((head, documents[:cut]), (tail, documents[cut:])):
        for name in ("indptr", "words", "counts"):
            np.testing.assert_array_equal(getattr(part, name), getattr(whole_part, name))


def test_growing_leaves_the_old_vocabulary_as_it_was():
    old = Vocabulary.fixed(["a", "b"])
    old = Vocabulary(old.columns, max_features=9)
    new, _ = old.encode([["c", "a"]])
    assert (old.words, new.words) == (["a", "b"], ["a", "b", "c"])


def test_a_failing_call_changes_nothing():
    old, _ = Vocabulary().encode([["a"]])
    with pytest.raises(ValueError, match="a token of document 1 must be a string, got 3"):
        old.encode([["b"], ["c", 3]])
    assert old.words == ["a"]


@pytest.mark.parametrize("grow", [True, False])
def test_without_new_words_the_vocabulary_is_the_same_object(grow):
    full = Vocabulary.fixed(["a", "b"])
    grown, documents = full.encode([["b", "z", "b"], ["z"]], grow=grow)
    assert grown is full
    assert documents.to_csr(2).toarray().tolist() == [[0, 2], [0, 0]]


def test_not_growing_leaves_new_words_out_though_there_is_room():
    known, _ = Vocabulary().encode([["a"]])
    same, documents = known.encode([["b", "a"]], grow=False)
    assert same is known
    assert documents.n_tokens == 1


def test_an_endless_token_does_not_become_a_word():
    longest, longer = "x" * LONGEST_WORD, "y" * (LONGEST_WORD + 1)
    grown, documents = Vocabulary().encode([[longest, longer, "z"]])
    assert grown.words == [longest, "z"]
    assert documents.n_tokens == 2


def test_words_of_numpy_are_kept_as_plain_strings():
    grown, _ = Vocabulary().encode([np.array(["a", "b"])])
    assert [type(word) for word in grown.words] == [str, str]


@pytest.mark.parametrize("tokens", ["ab", b"ab", {"a": 2}, {"a"}, 3, None])
def test_a_document_that_is_no_sequence_is_refused(tokens):
    with pytest.raises(ValueError, match="document 0 must be a sequence of tokens, got"):
        Vocabulary().encode([tokens])


def test_a_mapping_gives_the_columns():
    assert Vocabulary.fixed({"c": 2, "a": 0, "b": 1}).words == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("word", "sequence of words, got 'word'"),
        (["a", "b", "a"], "repeat a word, got 'a'"),
        (["a", 1], "must be a string, got 1"),
        ({"a": 0, "b": 2}, "number its 2 words from 0 to 1"),
        ({"a": 0, "b": 0}, "number its 2 words from 0 to 1"),
    ],
)
def test_what_is_no_list_of_words_is_refused(words, message):
    with pytest.raises(ValueError, match=message):
        Vocabulary.fixed(words)


@given(st.lists(any_words, unique=True, max_size=6))
@example(["", "\ud800", "\0", "\0\0"])
def test_what_is_written_is_read_again(words):
    text, ends = Vocabulary.fixed(words).to_utf8()
    assert (text.dtype, ends.dtype) == (np.uint8, np.int64)
    again = Vocabulary.from_utf8(text, ends, 77)
    assert (again.words, again.max_features) == (words, 77)


@pytest.mark.parametrize(
    ("text", "ends", "message"),
    [
        (b"abc", [1, 2], "rise from 0 to 3"),
        (b"abc", [2, 1, 3], "rise from 0 to 3"),
        (b"abc", [-1, 3], "rise from 0 to 3"),
        (b"abc", [1, 9], "rise from 0 to 3"),
        (b"abc", [], "rise from 0 to 3"),
        (b"aa", [1, 2], "must not repeat a word, got 'a'"),
        (b"\xff", [1], "utf-8"),
        ("ä".encode(), [1, 2], "utf-8"),
    ],
)
def test_corrupt_content_is_refused_by_name(text, ends, message):
    with pytest.raises(CheckpointError, match=message):
        Vocabulary.from_utf8(
            np.frombuffer(text, np.uint8), np.array(ends, np.int64), max_features=10
        )
