"""Read the documents that an estimator gets as X: counts, word numbers, tokens or texts.

`documents_of` does it. The constraints and options of the parameters that it reads come first.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Final, Literal, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import Tags
from sklearn.utils.validation import check_non_negative, validate_data

from everlearn.core.documents import LARGEST, Documents
from everlearn.estimator.base import named_errors
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Constraint, Interval, Options
from everlearn.estimator.tables import refuse_collection
from everlearn.text.languages import Language, stop_words_of
from everlearn.text.stop_words import StopWords
from everlearn.text.tokens import (
    Form,
    are_not_split,
    document_form,
    listed,
    runs_of_words,
    tokenize,
)
from everlearn.text.vocabulary import Vocabulary, checked_tokens
from everlearn.text.waiting import WaitingWords

Kind: TypeAlias = Literal["counts", "ids", "words"]
KINDS: Final[dict[Kind, str]] = {
    "counts": "a table of counts",
    "ids": "arrays of word numbers",
    "words": "strings or lists of strings",
}
"""What documents are made of. To a model, texts and lists of strings are the same."""
_FORMS: Final[dict[Kind, Form]] = {"counts": "counts", "ids": "ids", "words": "tokens"}
TOKEN_PATTERN: Final = r"(?u)\b\w\w+\b"
"""Words of two letters or more, as in scikit-learn."""
_LONGEST_RUN: Final = 9


@dataclass(frozen=True, slots=True)
class VocabularyWords:
    """A constraint: words that `Vocabulary.fixed` accepts."""

    def allows(self, value: Any) -> bool:
        """Whether the value makes a vocabulary with at least one word."""
        try:
            return len(Vocabulary.fixed(value)) > 0
        except (TypeError, ValueError):
            return False

    def __str__(self) -> str:
        return "a sequence of distinct words, or a mapping of words to 0, 1, 2 and so on"


@dataclass(frozen=True, slots=True)
class WordCollection:
    """A constraint: a list, tuple or set of words."""

    def allows(self, value: object) -> bool:
        """Whether the value is a list, tuple or set of strings."""
        if not isinstance(value, (list, tuple, set, frozenset)):
            return False
        return all(isinstance(word, str) for word in value)

    def __str__(self) -> str:
        return "a collection of words"


@dataclass(frozen=True, slots=True)
class TokenPattern:
    """A constraint: a regular expression of a token."""

    def allows(self, value: object) -> bool:
        """Whether the value is a regular expression with one group at most."""
        try:
            return isinstance(value, str) and re.compile(value).groups <= 1
        except re.error:
            return False

    def __str__(self) -> str:
        return "a regular expression with one group at most"


@dataclass(frozen=True, slots=True)
class NgramRange:
    """A constraint: two lengths, the first at most the second."""

    def allows(self, value: object) -> bool:
        """Whether the value is a pair of whole numbers that rise, from 1 to 9."""
        if not isinstance(value, (list, tuple)) or len(value) != 2:
            return False
        whole = all(isinstance(n, Integral) and not isinstance(n, bool) for n in value)
        return whole and 1 <= value[0] <= value[1] <= _LONGEST_RUN

    def __str__(self) -> str:
        return f"two whole numbers from 1 to {_LONGEST_RUN}, such as (1, 2)"


DOCUMENT_CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "vocabulary": (Options((None,)), VocabularyWords()),
    "stop_words": (Options((None, "auto")), Language(), WordCollection()),
}
"""Constraints of the parameters of `DocumentParams`, besides `text`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextOptions(ExpertOptions):
    r"""How texts become words: the `text` parameter of estimators of documents.

    Parameters
    ----------
    token_pattern : str, default=r"(?u)\b\w\w+\b"
        Regular expression of a word, with one group at most. Change it to keep words of one letter,
        or to leave out numbers. Documents that are lists of words are not split.
    ngram_range : (int, int), default=(1, 1)
        Fewest and most neighbouring words of a text that count as one word. (1, 2) adds pairs such
        as "new york". Pairs need a larger `max_features`.
    min_df : int, default=1
        A word joins the vocabulary once this many texts or lists of words have it. Its tokens in
        earlier calls are lost. At most `max_features` words wait.
    max_features : int, default=100000
        Size at which the vocabulary is full; words that come later are ignored.

    Examples
    --------
    >>> from everlearn import TextOptions, TopicModel
    >>> model = TopicModel(n_topics=2, text=TextOptions(token_pattern=r"[a-z]+", max_features=4))
    >>> model.fit(["a cat or a dog", "a bond or a stock"]).vocabulary_.tolist()
    ['a', 'cat', 'or', 'dog']
    """

    token_pattern: str = TOKEN_PATTERN
    ngram_range: Sequence[int] = (1, 1)
    min_df: int = 1
    max_features: int = 100_000
    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {
        "token_pattern": (TokenPattern(),),
        "ngram_range": (NgramRange(),),
        "min_df": (Interval(1, LARGEST, integer=True),),
        "max_features": (Interval(1, LARGEST, integer=True),),
    }


_NOT_SPLIT: Final = (
    "most texts for {} are not split into words, perhaps because their language has no spaces: "
    "give lists of words, or text={{'token_pattern': r'(?u)\\w'}} for one word a letter"
)


class DocumentParams(Protocol):
    """The parameters of an estimator that say how its documents are read."""

    @property
    def vocabulary(self) -> Sequence[str] | Mapping[str, int] | None:
        """The words and their order; None takes them from the documents."""

    @property
    def stop_words(self) -> str | Collection[str] | None:
        """Words to leave out of texts."""

    @property
    def text(self) -> TextOptions | Mapping[str, Any] | None:
        """How texts become words."""


def text_options(estimator: DocumentParams) -> TextOptions:
    """The `text` parameter of an estimator, checked and with its defaults."""
    return TextOptions.of(estimator.text, type(estimator).__name__, "text")


def depends_on_earlier(estimator: DocumentParams) -> bool:
    """Whether the words of a text depend on the texts before it."""
    return finds_stop_words(estimator) or text_options(estimator).min_df > 1


def finds_stop_words(estimator: DocumentParams) -> bool:
    """Whether the estimator finds the stop words in its texts."""
    given = estimator.stop_words
    return isinstance(given, str) and given == "auto"


@dataclass(frozen=True, slots=True)
class WordSpace:
    """The words that the columns of a model stand for.

    Attributes
    ----------
    kind : {"counts", "ids", "words"}, what documents are made of
    n_words : int, number of columns
    vocabulary : Vocabulary or None, the words; None if they have numbers only
    stop_words : StopWords or None, words of texts to leave out; None unless they are found here
    waiting : WaitingWords or None, rare words; None unless they wait
    """

    kind: Kind
    n_words: int
    vocabulary: Vocabulary | None = None
    stop_words: StopWords | None = None
    waiting: WaitingWords | None = None


def documents_of(
    estimator: DocumentParams,
    X: Any,
    space: WordSpace | None = None,
    *,
    grow: bool = True,
    allow_empty: bool = False,
) -> tuple[Documents, WordSpace]:
    """The documents in X and the words of their columns, or an error that names X.

    Tables of counts follow scikit-learn: they have a fixed width, and set `n_features_in_` and
    `feature_names_in_`. Other documents may bring new words, and set neither.

    Parameters
    ----------
    estimator : estimator
        `vocabulary` fixes the words and their order, or is None. `stop_words` are left out of
        texts. `text` says how these are split, and how many words documents may bring.
    X : table, or sequence of integer arrays, lists of str or str
        Counts of shape (n_documents, n_words), dense or sparse; word numbers; tokens; texts.
    space : WordSpace or None, default=None
        The words so far; None before the first documents.
    grow : bool, default=True
        True adds new words, for learning. False leaves them out, for prediction.
    allow_empty : bool, default=False
        Whether the first documents may have no word at all. Those of one chunk may.

    Returns
    -------
    documents : Documents
        With word numbers below ``space.n_words``.
    space : WordSpace
        The words now; the given object if nothing about them is new.
    """
    with named_errors(estimator, "X"):
        refuse_collection(X)
        form = document_form(X, None if space is None else _FORMS[space.kind])
    kind: Kind = form if form in ("counts", "ids") else "words"
    if space is not None and kind != space.kind:
        raise ValueError(
            f"X of {type(estimator).__name__} was {KINDS[space.kind]} in learning and is now "
            f"{KINDS[kind]}: give the same kind, or call fit to begin anew."
        )
    given = _given_vocabulary(estimator, space) if grow else None
    with named_errors(estimator, "X"):
        if kind == "counts":
            return _read_counts(estimator, X, space, given)
        if space is None:
            # A model that had learned from a table before `fit` forgets the columns of that table.
            for stale in ("n_features_in_", "feature_names_in_"):
                estimator.__dict__.pop(stale, None)
        documents = listed(X)
        if not documents:
            raise ValueError("expected at least one document, got none")
        if kind == "ids":
            return _read_ids(estimator, Documents.from_tokens(documents), space, given, grow)
        stop_words = None if space is None else space.stop_words
        if form == "texts":
            texts = documents
            documents, stop_words = _split_texts(estimator, texts, stop_words, grow)
            if space is None and are_not_split(texts, documents):
                warnings.warn(_NOT_SPLIT.format(type(estimator).__name__), stacklevel=3)
            documents = runs_of_words(documents, *text_options(estimator).ngram_range)
        encoded, words = _read_tokens(estimator, documents, space, given, grow)
        if words.stop_words is not stop_words:
            words = replace(words, stop_words=stop_words)
        if not words.n_words and not allow_empty:
            needed = "at least one" if words.waiting is None else "'min_df'"
            hint = ""
            if form == "texts" and (text := next((t for t in texts if t.strip()), "")):
                hint = (
                    f": the 'stop_words', and the 'token_pattern' of 'text', leave out all words "
                    f"of texts such as {text!r:.60}"
                )
            raise ValueError(f"expected a word in {needed} of the first documents, got none{hint}")
        return encoded, words


def is_list_of_one(x: object, space: WordSpace) -> bool:
    """Whether x is a list that holds one document, rather than a document of one known word."""
    if not isinstance(x, (list, tuple)) or len(x) != 1 or isinstance(x[0], Integral):
        return False
    known = {} if space.vocabulary is None else space.vocabulary.columns
    return not (isinstance(x[0], str) and x[0] in known)


def word_names(estimator: object, space: WordSpace) -> NDArray[Any]:
    """The word of each column, or its number if words have no names."""
    if space.vocabulary is not None:
        return np.array(space.vocabulary.words, dtype=object)
    names = getattr(estimator, "feature_names_in_", None)
    return np.arange(space.n_words) if names is None else np.array(names, dtype=object)


def document_tags(tags: Tags) -> Tags:
    """Tags of an estimator of documents."""
    tags.input_tags.sparse = True
    tags.input_tags.positive_only = True
    tags.input_tags.categorical = True
    tags.input_tags.string = True
    return tags


def _given_vocabulary(estimator: DocumentParams, space: WordSpace | None) -> Vocabulary | None:
    """The vocabulary of the estimator's parameter; a ValueError if it changed during learning."""
    if estimator.vocabulary is None:
        return None
    with named_errors(estimator, "vocabulary"):
        given = Vocabulary.fixed(estimator.vocabulary)
        known = None if space is None else space.vocabulary
        if space is not None and (known is None or known.columns != given.columns):
            raise ValueError(
                "it differs from the one that learning began with: set it back, or call fit to "
                "begin anew"
            )
    return given


def _read_counts(
    estimator: DocumentParams, X: Any, space: WordSpace | None, given: Vocabulary | None
) -> tuple[Documents, WordSpace]:
    table = validate_data(estimator, X, reset=space is None, accept_sparse="csr", dtype="numeric")
    check_non_negative(table, type(estimator).__name__)
    is_sparse = sparse.issparse(table)
    _refuse_weights(table.data if is_sparse else table)
    documents = Documents.from_csr(table) if is_sparse else Documents.from_dense(table)
    if space is not None:
        return documents, space
    n_words = int(table.shape[1])
    if given is not None and len(given) != n_words:
        raise ValueError(
            f"expected a column for each of the {len(given)} words of the 'vocabulary' "
            f"parameter, got {n_words} columns"
        )
    return documents, WordSpace("counts", n_words, given)


def _refuse_weights(values: NDArray[Any]) -> None:
    """Raise a ValueError if entries are fractions, as those of TF-IDF are."""
    if values.dtype.kind == "f":
        wrong = values != np.floor(values)
        if wrong.any():
            raise ValueError(
                f"counts must be whole numbers, got {values[wrong][0]:g}; give counts or the "
                "texts, not TF-IDF weights or shares"
            )


def _read_ids(
    estimator: DocumentParams,
    documents: Documents,
    space: WordSpace | None,
    given: Vocabulary | None,
    grow: bool,
) -> tuple[Documents, WordSpace]:
    if space is not None and not grow:
        return documents.below(space.n_words), space
    needed = int(documents.words.max(initial=-1)) + 1
    parameter, limit = "max_features", text_options(estimator).max_features
    if given is not None:
        parameter, limit = "vocabulary", len(given)
    if needed > limit:
        raise ValueError(
            f"word numbers must be below {limit}, which is the limit of the {parameter!r} "
            f"parameter, got {needed - 1}"
        )
    n_words = max(needed, 0 if space is None else space.n_words)
    if given is not None:
        n_words = len(given)
    if space is not None and n_words == space.n_words:
        return documents, space
    return documents, WordSpace("ids", n_words, given)


def _split_texts(
    estimator: DocumentParams, texts: list[Any], stop_words: StopWords | None, grow: bool
) -> tuple[list[list[str]], StopWords | None]:
    """The tokens of texts without stop words, and what is known of these now."""
    pattern, given = text_options(estimator).token_pattern, estimator.stop_words
    if not finds_stop_words(estimator):
        listed = stop_words_of(given) if isinstance(given, str) else given
        return tokenize(texts, pattern, listed), stop_words
    tokens, known = tokenize(texts, pattern), stop_words or StopWords()
    if grow:
        known = known.learn(tokens)
    return known.leave_out(tokens), known


def _read_tokens(
    estimator: DocumentParams,
    tokens: list[Any],
    space: WordSpace | None,
    given: Vocabulary | None,
    grow: bool,
) -> tuple[Documents, WordSpace]:
    known = Vocabulary() if space is None else cast(Vocabulary, space.vocabulary)
    waiting = None if space is None else space.waiting
    if given is not None:
        known = given
    else:
        options = text_options(estimator)
        known = replace(known, max_features=options.max_features)
        if grow and options.min_df > 1:
            tokens, waiting = _without_rare(tokens, known, waiting or WaitingWords(), options)
    vocabulary, documents = known.encode(tokens, grow=grow)
    if space is not None and len(vocabulary) == space.n_words:
        return documents, space if waiting is space.waiting else replace(space, waiting=waiting)
    stop_words = None if space is None else space.stop_words
    return documents, WordSpace("words", len(vocabulary), vocabulary, stop_words, waiting)


def _without_rare(
    tokens: list[Any], known: Vocabulary, waiting: WaitingWords, options: TextOptions
) -> tuple[list[list[str]], WaitingWords]:
    """Documents without words that wait, and these."""
    documents = [list(checked_tokens(words, i)) for i, words in enumerate(tokens)]
    columns = known.columns
    if len(columns) >= known.max_features:
        return documents, WaitingWords()
    most = known.max_features
    ripe, waiting = waiting.learn(documents, columns, options.min_df, most)
    return [[w for w in words if w in columns or w in ripe] for words in documents], waiting
