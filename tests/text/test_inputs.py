"""Documents in every form reach a model as the same counts, or are refused by name."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.feature_extraction.text import TfidfVectorizer

from everlearn.estimator.params import check_params
from everlearn.text.inputs import (
    DOCUMENT_CONSTRAINTS,
    TextOptions,
    documents_of,
)
from support.readers import Reader

TABLE = np.array([[2, 1, 0], [0, 0, 0], [0, 1, 3]])
TEXTS = ["ann bob ann", "", "bob cid cid cid"]
TOKENS = [text.split() for text in TEXTS]
IDS = [np.repeat(np.arange(3), row) for row in TABLE]


FORMS = {
    "dense": TABLE,
    "float": TABLE.astype(np.float32),
    "lists": TABLE.tolist(),
    "csr": sparse.csr_array(TABLE),
    "csc matrix": sparse.csc_matrix(TABLE.astype(float)),
    "frame": pd.DataFrame(TABLE, columns=list("abc")),
    "ids": IDS,
    "id lists": [row.tolist() for row in IDS],
    "tokens": TOKENS,
    "texts": TEXTS,
    "series": pd.Series(TEXTS),
}
KIND = {"ids": "ids", "id lists": "ids", "tokens": "words", "texts": "words", "series": "words"}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("vocabulary", [None, ["ann", "bob", "cid"]])
def test_every_form_gives_the_same_counts(form, vocabulary):
    documents, space = documents_of(Reader(vocabulary), FORMS[form])
    assert (space.kind, space.n_words) == (KIND.get(form, "counts"), 3)
    np.testing.assert_array_equal(documents.to_csr(3).toarray(), TABLE)
    named = vocabulary is not None or space.kind == "words"
    assert (space.vocabulary is not None) == named
    if named:
        assert space.vocabulary.words == ["ann", "bob", "cid"]


def test_a_vocabulary_sets_the_order_and_the_words():
    documents, space = documents_of(Reader({"cid": 0, "ann": 1}), TOKENS)
    assert space.n_words == 2
    assert documents.to_csr(2).toarray().tolist() == [[0, 2], [0, 0], [3, 0]]


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"stop_words": {"Bob"}}, ["ann", "cid"]),
        ({"stop_words": "english"}, ["ann", "bob", "cid"]),
        ({"text": TextOptions(token_pattern=r"\b(\w)")}, ["a", "b", "c"]),
    ],
)
def test_texts_are_split_as_the_parameters_say(params, words):
    _, space = documents_of(Reader(**params), TEXTS)
    assert space.vocabulary.words == words


class TestGrowing:
    def test_words_are_added_behind_those_known(self):
        reader = Reader()
        _, first = documents_of(reader, TOKENS)
        documents, second = documents_of(reader, [["eve", "ann"], []], first)
        assert second.vocabulary.words == ["ann", "bob", "cid", "eve"]
        assert documents.to_csr(4).toarray().tolist() == [[1, 0, 0, 1], [0, 0, 0, 0]]
        assert first.n_words == 3

    def test_word_numbers_widen_the_space(self):
        reader = Reader()
        _, first = documents_of(reader, IDS)
        _, second = documents_of(reader, [[7], [1, 1]], first)
        assert (first.n_words, second.n_words) == (3, 8)

    def test_prediction_leaves_unknown_words_out(self):
        for X, unknown in ((TOKENS, [["eve"], ["ann", "eve"]]), (IDS, [[9], [0, 9]])):
            reader = Reader()
            _, space = documents_of(reader, X)
            documents, same = documents_of(reader, unknown, space, grow=False)
            assert same is space
            assert documents.to_csr(3).toarray().tolist() == [[0, 0, 0], [1, 0, 0]]

    def test_max_features_holds_and_may_be_raised(self):
        reader = Reader(text={"max_features": 2})
        _, space = documents_of(reader, TOKENS)
        assert space.vocabulary.words == ["ann", "bob"]
        _, same = documents_of(reader, TOKENS, space)
        assert same is space
        reader.text = TextOptions(max_features=3)
        _, wider = documents_of(reader, TOKENS, space)
        assert wider.vocabulary.words == ["ann", "bob", "cid"]

    def test_a_word_number_beyond_max_features_is_refused(self):
        with pytest.raises(ValueError, match=r"below 2, .* 'max_features' parameter, got 2"):
            documents_of(Reader(text={"max_features": 2}), IDS)
        with pytest.raises(ValueError, match=r"below 2, .* 'vocabulary' parameter, got 2"):
            documents_of(Reader(["a", "b"]), IDS)

    def test_nothing_new_is_the_same_space(self):
        for X in (TOKENS, IDS, TABLE):
            reader = Reader()
            _, space = documents_of(reader, X)
            assert documents_of(reader, X, space)[1] is space

    def test_rows_of_one_length_are_word_numbers_where_these_are_known(self):
        reader = Reader()
        _, space = documents_of(reader, IDS)
        documents, _ = documents_of(reader, [[2, 2, 0]], space)
        assert documents.to_csr(3).toarray().tolist() == [[1, 0, 2]]


class TestAttributes:
    def test_tables_set_the_width_and_the_names(self):
        reader = Reader()
        documents_of(reader, FORMS["frame"])
        assert reader.n_features_in_ == 3
        assert reader.feature_names_in_.tolist() == ["a", "b", "c"]

    def test_other_forms_forget_them(self):
        reader = Reader()
        documents_of(reader, FORMS["frame"])
        documents_of(reader, TOKENS)
        assert not hasattr(reader, "n_features_in_")
        assert not hasattr(reader, "feature_names_in_")

    def test_the_callers_arrays_stay_as_they_are(self):
        table = sparse.csr_array(
            (np.array([1.0, 0.0, 2.0]), np.array([2, 1, 2]), np.array([0, 3])), shape=(1, 3)
        )
        documents, _ = documents_of(Reader(), table)
        assert table.data.tolist() == [1, 0, 2]
        assert (documents.words.tolist(), documents.counts.tolist()) == ([2], [3])


class TestRefusals:
    @pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array, np.ndarray.tolist])
    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (-1, "Negative values in data passed to Reader"),
            (0.5, "'X' of Reader cannot be used: counts must be whole numbers, got 0.5"),
            (np.nan, r"contains NaN \(a missing value\)"),
            (np.inf, "'X' of Reader cannot be used: Input X contains infinity"),
            (2**31, r"'X' of Reader cannot be used: counts must be from 0 to 2\*\*31 - 1"),
        ],
    )
    def test_impossible_counts(self, layout, value, message):
        table = np.array([[1.0, value], [0.0, 2.0]])
        with pytest.raises(ValueError, match=message):
            documents_of(Reader(), layout(table))

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ("one text", "'X' of Reader cannot be used: expected a list of documents, got one str"),
            ([], "Found array with 0 feature|Expected 2D array"),
            ([["a"], "b"], "document 1 must be a sequence of tokens, got str"),
            ([["a"], [1]], "a token of document 1 must be a string, got 1"),
            (["a", None], "document 1 must be a string like the others, got None"),
            ([[1, 2], [-3]], r"numbers of words must be from 0 to 2\*\*31 - 1, got -3"),
            ([[1, 2], [3.5]], "'X' of Reader"),
            ([["a"], {"b": 2}], "document 1 must be a sequence of tokens, got dict"),
            (["a", "b"], "expected a word in at least one of the first documents, got none"),
            (np.array([["a", "b"]]), "'X' of Reader cannot be used: X is a table of strings"),
            (np.array([["2020-01-01"]], "M8[D]"), "'X' of Reader"),
        ],
    )
    def test_what_is_no_list_of_documents(self, X, message):
        with pytest.raises((TypeError, ValueError), match=message):
            documents_of(Reader(), X)

    def test_words_that_are_all_left_out(self):
        """The error names the settings that leave them out; blank texts have no words to leave."""
        hint = "'stop_words', and the 'token_pattern' of 'text', leave out all words .* 'a b'"
        with pytest.raises(ValueError, match=hint):
            documents_of(Reader(), ["", "a b"])
        with pytest.raises(ValueError, match=r"got none$"):
            documents_of(Reader(), ["", " "])

    @pytest.mark.parametrize("X", [TABLE, IDS, TOKENS])
    def test_another_kind_than_learning_began_with(self, X):
        reader = Reader()
        _, space = documents_of(reader, X)
        others = [TABLE, sparse.csr_array(TABLE), TOKENS, TEXTS]
        others = [Y for Y in others if documents_of(Reader(), Y)[1].kind != space.kind]
        for Y in others:
            with pytest.raises(ValueError, match=r"X of Reader was .* in learning and is now"):
                documents_of(reader, Y, space, grow=False)

    def test_no_document(self):
        reader = Reader()
        for X in (IDS, TOKENS):
            _, space = documents_of(reader, X)
            with pytest.raises(ValueError, match="expected at least one document, got none"):
                documents_of(reader, [], space)

    def test_another_width_than_learning_began_with(self):
        reader = Reader()
        _, space = documents_of(reader, TABLE)
        with pytest.raises(ValueError, match="X has 2 features, but Reader is expecting 3"):
            documents_of(reader, TABLE[:, :2], space)

    def test_a_vocabulary_of_another_width(self):
        with pytest.raises(ValueError, match=r"each of the 2 words of the 'vocabulary'.*3 columns"):
            documents_of(Reader(["a", "b"]), TABLE)

    def test_a_vocabulary_that_changes(self):
        for X in (TABLE, IDS, TOKENS):
            reader = Reader(["ann", "bob", "cid"])
            _, space = documents_of(reader, X)
            reader.vocabulary = ["bob", "ann", "cid"]
            with pytest.raises(ValueError, match=r"'vocabulary' of Reader .* differs"):
                documents_of(reader, X, space)


IMPOSSIBLE = ["word", ["a", "a"], [], 0, -1, 2.5, {"a": 1}, True]


@pytest.mark.parametrize("value", IMPOSSIBLE)
def test_impossible_vocabularies_are_refused(value):
    with pytest.raises(ValueError, match="the 'vocabulary' parameter of Reader must be"):
        check_params("Reader", Reader(value).get_params(), DOCUMENT_CONSTRAINTS)


@pytest.mark.parametrize("value", [*IMPOSSIBLE, 2**31])
def test_impossible_sizes_of_a_vocabulary_are_refused(value):
    with pytest.raises(ValueError, match="the 'max_features' parameter of TextOptions of Reader"):
        documents_of(Reader(text=TextOptions(max_features=value)), TEXTS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("stop_words", "klingon"),
        ("stop_words", ["a", 1]),
        ("stop_words", 7),
    ],
)
def test_impossible_stop_words_are_refused(name, value):
    with pytest.raises(ValueError, match=f"the '{name}' parameter of Reader must be"):
        check_params("Reader", Reader(**{name: value}).get_params(), DOCUMENT_CONSTRAINTS)


def test_neighbouring_words_are_words_too():
    reader = Reader(text={"ngram_range": [1, 2]}, stop_words=["the"])
    documents, space = documents_of(reader, ["the dog barks", "dog barks"])
    assert space.vocabulary.words == ["dog", "barks", "dog barks"]
    np.testing.assert_array_equal(documents.to_csr(3).toarray(), np.ones((2, 3)))
    assert documents_of(reader, [["dog", "barks"]])[1].n_words == 2  # not split, so not joined


@pytest.mark.parametrize("value", [None, 2, (1,), (0, 1), (2, 1), (1, 2.0), (1, 10), (True, 2)])
def test_impossible_lengths_of_runs_are_refused(value):
    with pytest.raises(ValueError, match="the 'ngram_range' parameter of TextOptions of Reader"):
        documents_of(Reader(text={"ngram_range": value}), TEXTS)


def test_texts_that_are_not_split_raise_a_warning_at_first():
    texts = ["我喜欢猫猫也喜欢我和我的狗"] * 3
    with pytest.warns(UserWarning, match="Reader are not split into words.*lists of words"):
        _, space = documents_of(Reader(), texts)
    documents_of(Reader(), texts, space)
    documents_of(Reader(text={"token_pattern": r"(?u)\w"}), texts)


def test_weights_of_tf_idf_are_refused_by_name():
    X = TfidfVectorizer().fit_transform(["the cat", "the dog barks"])
    for table in (X, X.toarray()):
        with pytest.raises(ValueError, match="give counts or the texts, not TF-IDF weights"):
            documents_of(Reader(), table)


@pytest.mark.parametrize("value", ["(", "(a)(b)", None, 3])
def test_impossible_ways_to_split_texts_are_refused(value):
    with pytest.raises(ValueError, match="the 'token_pattern' parameter of TextOptions of Reader"):
        documents_of(Reader(text={"token_pattern": value}), TEXTS)


@pytest.mark.parametrize("vocabulary", [None, ["a"], ("a", "b"), np.array(["a"]), {"a": 0}])
def test_possible_parameters_are_accepted(vocabulary):
    check_params("Reader", Reader(vocabulary).get_params(), DOCUMENT_CONSTRAINTS)
