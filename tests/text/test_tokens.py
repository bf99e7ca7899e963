"""Texts are cut as scikit-learn cuts them, and the form of documents is recognised."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from everlearn.text.inputs import TOKEN_PATTERN
from everlearn.text.tokens import are_not_split, document_form, runs_of_words, tokenize
from everlearn.text.vocabulary import Vocabulary

TEXTS = ["The cat sat on the mat.", "", "Été: a CAT, a cat!", "x y z"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"token_pattern": r"\S+"},
        {"stop_words": sorted(ENGLISH_STOP_WORDS)},
        {"stop_words": ["cat", "the"]},
    ],
)
def test_counts_are_those_of_count_vectorizer(options):
    vectorizer = CountVectorizer(**options)
    expected = vectorizer.fit_transform(TEXTS).toarray()
    vocabulary = Vocabulary.fixed(vectorizer.vocabulary_)
    _, documents = vocabulary.encode(tokenize(TEXTS, **{"token_pattern": TOKEN_PATTERN, **options}))
    np.testing.assert_array_equal(documents.to_csr(len(vocabulary)).toarray(), expected)


@pytest.mark.parametrize("lengths", [(1, 1), (1, 2), (2, 2), (2, 3), (1, 9)])
def test_runs_of_words_are_those_of_count_vectorizer(lengths):
    texts = [*TEXTS, "new york city is not york new york"]
    vectorizer = CountVectorizer(ngram_range=lengths, stop_words=["is", "the"])
    expected = vectorizer.fit_transform(texts).toarray()
    tokens = runs_of_words(tokenize(texts, TOKEN_PATTERN, ["is", "the"]), *lengths)
    assert {word for words in tokens for word in words} == set(vectorizer.vocabulary_)
    vocabulary = Vocabulary.fixed(vectorizer.vocabulary_)
    _, documents = vocabulary.encode(tokens)
    np.testing.assert_array_equal(documents.to_csr(len(vocabulary)).toarray(), expected)


CHINESE = ["我喜欢猫，猫也喜欢我和我的狗。", "股票今天上涨了很多，债券下跌。", "狗和猫都在睡觉"] * 5


@pytest.mark.parametrize(
    ("texts", "is_whole"),
    [
        (CHINESE, True),
        ([" ".join(text) for text in CHINESE], False),
        (["我 喜欢 猫 猫 也 喜欢 我", "股票 今天 上涨 了 很 多"], False),
        (["แมวและสุนัขนอนหลับอยู่บนโซฟา"] * 3, True),
        (["file_name_without_spaces_001", "file_name_without_spaces_002"], True),
        (["the cat sleeps", "rain"], False),
        (["cat", "dog", "bond"], False),
        (["Donaudampfschifffahrtsgesellschaft fährt heute", "Ja"], False),
        ([*CHINESE[:3], *["the dog and the cat sleep"] * 4], False),
        (["", " "], False),
        ([], False),
    ],
)
def test_texts_that_stay_whole_are_noticed(texts, is_whole):
    assert are_not_split(texts, tokenize(texts, TOKEN_PATTERN)) == is_whole


@pytest.mark.parametrize("documents", [[b"a text"], [np.bytes_(b"x")]])
def test_bytes_are_refused_with_a_hint(documents):
    with pytest.raises(ValueError, match="documents are bytes; decode them first"):
        document_form(documents)
    with pytest.raises(ValueError, match="words are bytes; decode them first"):
        document_form([documents])


@pytest.mark.parametrize(
    ("X", "hint"),
    [
        ({"a": "a text"}, r"got a mapping; pass list\(X\.values\(\)\)"),
        ((text for text in ["a text"]), r"got an iterator; pass list\(X\)"),
        ([{"n": 1, "body": "a text"}], r"pass their texts: \[d\['body'\] for d in documents\]"),
    ],
)
def test_other_containers_are_refused_with_a_hint(X, hint):
    with pytest.raises(ValueError, match=hint):
        document_form(X)


def test_tables_of_texts_are_refused_with_a_hint():
    texts = ["cats purr", "dogs bark"]
    frame = pd.DataFrame({"n": [1, 2], "text": texts})
    for table in (frame, pl.from_pandas(frame)):
        with pytest.raises(ValueError, match=r"X is a data frame; pass one column: df\['text'\]"):
            document_form(table)
    for table in (np.array([texts]).T, np.array([texts], dtype=object).T):
        with pytest.raises(ValueError, match=r"table of strings; pass one column: X\[:, 0\]"):
            document_form(table)
    assert document_form(frame["text"]) == "texts"
    assert document_form(pd.DataFrame({"n": ["1", "2"]}, dtype=object)) == "counts"
    assert document_form(frame[["n"]]) == "counts"


def test_own_stop_words_are_left_out():
    for stop_words in (("cat", "the"), {"cat", "the"}):
        assert tokenize(TEXTS[:1], TOKEN_PATTERN, stop_words) == [["sat", "on", "mat"]]


@pytest.mark.parametrize("missing", [None, np.nan, b"bytes", ["tokens"]])
def test_a_text_that_is_missing_is_refused_by_its_place(missing):
    with pytest.raises(ValueError, match="document 1 must be a string"):
        tokenize(["a", missing], TOKEN_PATTERN)


@pytest.mark.parametrize("X", ["one text", b"bytes", ""])
def test_one_string_is_refused_with_a_hint(X):
    with pytest.raises(ValueError, match=r"list of documents.*put a single document into a list"):
        document_form(X)


def ragged_array():
    out = np.empty(2, dtype=object)
    out[:] = [np.array([1, 2]), np.array([3])]
    return out


@pytest.mark.parametrize(
    ("X", "form"),
    [
        (np.ones((2, 3)), "counts"),
        (np.ones(3), "counts"),
        (sparse.csr_array(np.eye(2)), "counts"),
        (pd.DataFrame({"a": [1]}), "counts"),
        (pl.DataFrame({"a": [1]}), "counts"),
        ([[1, 2], [3, 4]], "counts"),
        ([[1.0, 2.0], [3.0]], "counts"),
        ([np.array([1.0, 2.0])], "counts"),
        ([], "counts"),
        ([[], []], "counts"),
        ([1, 2], "counts"),
        (3, "counts"),
        ([[1, 2], [3]], "ids"),
        ([[], [3]], "ids"),
        ([np.array([1, 2]), np.array([3, 4])], "ids"),
        (ragged_array(), "ids"),
        ([["a"], ["b", "c"]], "tokens"),
        ([[], ("a", "b")], "tokens"),
        (pd.Series([["a"], []]), "tokens"),
        (TEXTS, "texts"),
        (["", ""], "texts"),
        ([None, "a"], "texts"),
        (np.array(TEXTS), "texts"),
        (pd.Series(TEXTS), "texts"),
        (pl.Series(TEXTS), "texts"),
    ],
)
def test_forms_are_recognised(X, form):
    assert document_form(X) == form


@pytest.mark.parametrize("rows", [[[1, 2], [3, 4]], [np.array([1, 2])], [[1, 2], [3]]])
@pytest.mark.parametrize("known", ["counts", "ids"])
def test_rows_of_numbers_have_the_form_that_is_known(rows, known):
    assert document_form(rows, known) == known


@pytest.mark.parametrize("known", ["counts", "ids", "tokens"])
def test_empty_documents_have_the_form_that_is_known(known):
    assert document_form([[], []], known) == known


@pytest.mark.parametrize("known", ["counts", "ids"])
def test_a_known_form_does_not_change_strings(known):
    assert document_form([["a"]], known) == "tokens"
    assert document_form(["a"], known) == "texts"


@pytest.mark.parametrize("collection", [list, tuple, set, frozenset])
def test_stop_words_may_be_in_any_case(collection):
    found = tokenize(["The cat and THE hat"], TOKEN_PATTERN, collection(["The", "AND"]))
    assert found == [["cat", "hat"]]
