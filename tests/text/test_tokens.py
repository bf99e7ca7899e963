"""Texts are cut as scikit-learn cuts them, and the form of documents is recognised."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import CountVectorizer

from everlearn.text.inputs import TOKEN_PATTERN
from everlearn.text.tokens import document_form, tokenize
from everlearn.text.vocabulary import Vocabulary

TEXTS = ["The cat sat on the mat.", "", "Été: a CAT, a cat!", "x y z"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"token_pattern": r"\S+"},
        {"stop_words": "english"},
        {"stop_words": ["cat", "the"]},
    ],
)
def test_counts_are_those_of_count_vectorizer(options):
    vectorizer = CountVectorizer(**options)
    expected = vectorizer.fit_transform(TEXTS).toarray()
    vocabulary = Vocabulary.fixed(vectorizer.vocabulary_)
    _, documents = vocabulary.encode(tokenize(TEXTS, **{"token_pattern": TOKEN_PATTERN, **options}))
    np.testing.assert_array_equal(documents.to_csr(len(vocabulary)).toarray(), expected)


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
