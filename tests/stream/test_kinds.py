"""Settings of a command line become parameters of an estimator, or are refused."""

from typing import Any

import pytest

from everlearn.errors import UsageError
from everlearn.stream import kinds
from everlearn.stream.kinds import constructor_params
from everlearn.stream.layout import checked_options
from everlearn.text.inputs import TextOptions
from everlearn.topics.topic_model import TopicModel


def test_fields_of_options_have_plain_names() -> None:
    settings = {"n_topics": 3, "max_features": 5000}
    params = constructor_params(TopicModel, settings)
    assert params == {"n_topics": 3, "text": TextOptions(max_features=5000)}
    assert constructor_params(TopicModel, {"n_topics": 3}) == {"n_topics": 3}


def test_a_field_and_a_mapping_of_others_are_joined() -> None:
    params = constructor_params(TopicModel, {"text": {"token_pattern": "x"}, "max_features": 7})
    assert params == {"text": TextOptions(token_pattern="x", max_features=7)}


def test_fields_that_are_not_named_stay_as_they_are_in_a_model() -> None:
    model = TopicModel(text=TextOptions(token_pattern="x"))
    params = constructor_params(TopicModel, {"max_features": 7}, model)
    assert params == {"text": TextOptions(token_pattern="x", max_features=7)}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cluster", "unknown kind 'cluster'; did you mean clusters?"),
        ("gmm", "did you mean mixture?"),
        ("LDA", "unknown kind 'LDA'; did you mean topics?"),
        ("clasifier", "did you mean classifier?"),
        ("pca", "did you mean ppca?"),
        ("foo", "unknown kind 'foo'; choose from mixture, clusters, topics"),
    ],
)
def test_an_unknown_kind_is_answered_by_the_one_that_was_meant(name: str, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        checked_options({"kind": name})
    assert words in str(caught.value)


def test_other_names_lead_to_kinds_and_are_none_themselves() -> None:
    assert set(kinds._OTHER_NAMES) <= set(kinds.KINDS)
    assert not {word for words in kinds._OTHER_NAMES.values() for word in words} & set(kinds.KINDS)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"max_features": 0}, "'max_features' parameter of TextOptions of TopicModel must be"),
        (
            {"text": {"max_words": 5}},
            "no entry 'max_words'; it has token_pattern, ngram_range, min_df, max_features",
        ),
        ({"text": 5}, "the 'text' parameter of TopicModel must be TextOptions"),
        ({"max_words": 5}, "TopicModel has no parameter 'max_words'; choose from .* max_features,"),
        ({"n_topics": 0}, "the 'n_topics' parameter of TopicModel must be"),
        (
            {"memory_budget": 1},
            "TopicModel has no parameter 'memory_budget', which is for the kinds",
        ),
    ],
)
def test_impossible_settings_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        constructor_params(TopicModel, settings)
