"""Stop words of languages, from scikit-learn or from a package that may not be installed."""

import sys
from types import SimpleNamespace

import pytest

from everlearn.estimator.params import check_params
from everlearn.text import languages
from everlearn.text.inputs import DOCUMENT_CONSTRAINTS, documents_of
from everlearn.text.languages import Language, stop_words_of
from support.readers import Reader


def test_a_language_whose_list_is_missing_names_the_extra(monkeypatch):
    monkeypatch.setattr(languages, "find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"stop_words.*pip install 'everlearn\[languages\]'"):
        check_params("Reader", Reader(stop_words="german").get_params(), DOCUMENT_CONSTRAINTS)


def test_a_language_has_the_list_of_the_package(monkeypatch):
    """With a stand-in for the package, which may not be installed."""
    package = SimpleNamespace(
        AVAILABLE_LANGUAGES=["german"],
        get_stop_words=lambda language: {"german": ["und", "der"]}[language],
    )
    monkeypatch.setitem(sys.modules, "stop_words", package)
    monkeypatch.setattr(languages, "find_spec", lambda name: name == "stop_words")
    check_params("Reader", Reader(stop_words="german").get_params(), DOCUMENT_CONSTRAINTS)
    _, space = documents_of(Reader(stop_words="german"), ["Der Hund und die Katze"])
    assert space.vocabulary.words == ["hund", "die", "katze"]
    with pytest.raises(ValueError, match=r"another language \(german\)"):
        check_params("Reader", Reader(stop_words="klingon").get_params(), DOCUMENT_CONSTRAINTS)


def test_the_package_has_german():
    pytest.importorskip("stop_words")
    _, space = documents_of(Reader(stop_words="german"), ["Der Hund und die Katze"])
    assert space.vocabulary.words == ["hund", "katze"]


@pytest.mark.parametrize("installed", [False, True])
def test_english_needs_no_package(monkeypatch, installed):
    if not installed:
        monkeypatch.setattr(languages, "find_spec", lambda _: None)
    assert Language().allows("english")
    assert {"the", "and", "of"} <= set(stop_words_of("english"))


@pytest.mark.parametrize("value", ["English", "klingon", "", None, 3, ["english"]])
def test_what_is_no_language(value):
    assert not Language().allows(value)


def test_every_language_that_is_allowed_has_a_list():
    known = pytest.importorskip("stop_words").AVAILABLE_LANGUAGES
    assert len(known) > 20
    for language in known:
        assert Language().allows(language)
        assert len(stop_words_of(language)) > 0
        assert language in str(Language())
