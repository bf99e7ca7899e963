"""What a `ClumpedTopicModel` refuses: the error says what is wrong, the model stays as it was."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from everlearn.clumps.settings import ClumpOptions
from support.clumped_data import FAMILIES, WIDTH, assert_same, content, documents, model_of

every = pytest.mark.parametrize("family", FAMILIES)
NAME = "ClumpedTopicModel"


def with_entry(value: Any) -> Callable[[list[Any]], list[Any]]:
    def spoil(parts: list[Any]) -> list[Any]:
        spoilt = [part.copy() for part in parts]
        spoilt[2][-1, -1] = value
        return spoilt

    return spoil


WRONG_DOCUMENTS: dict[str, tuple[Callable[[list[Any]], Any], tuple[str, ...]]] = {
    "nan": (with_entry(np.nan), ("X[2]", "NaN")),
    "huge": (with_entry(1e300), ("X[2]", "1e+300")),
    "too wide": (lambda parts: [np.hstack([x, x]) for x in parts], (f"{2 * WIDTH} features",)),
    "an empty document": (lambda parts: [*parts[:3], parts[3][:0]], ("X[3]", "0 sample(s)")),
    "no documents": (lambda parts: [], ("'X'", "a list of documents with at least one")),
    "a generator": (iter, ("'X'", "a list of documents", "a list_iterator; make it a list")),
    "nothing": (lambda parts: None, ("X",)),
}


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {f: model_of(f, max_clumps=40).partial_fit(documents(f, 8)[0]) for f in FAMILIES}


def assert_refused(model: Any, call: Callable[[], Any], words: tuple[str, ...]) -> None:
    before, attributes = content(model), dict(model.__dict__)
    with pytest.raises((ValueError, TypeError)) as caught:
        call()
    message = str(caught.value)
    assert NAME in message, message
    for word in words:
        assert word in message, message
    assert_same(content(model), before)
    assert model.__dict__ == attributes


@every
@pytest.mark.parametrize("kind", WRONG_DOCUMENTS)
def test_every_method_refuses_wrong_documents(models: Any, family: str, kind: str) -> None:
    """`test_conformance.py` has many more for `partial_fit`."""
    model, (spoil, words) = models[family], WRONG_DOCUMENTS[kind]
    bad = spoil(documents(family, 4, seed=1)[0])
    for method in (model.partial_fit, model.transform, model.assign, model.score):
        assert_refused(model, lambda method=method: method(bad), words)
    assert_refused(model, lambda: model.document_index(bad), words)
    if kind != "too wide":
        assert_refused(model, lambda: model.fit(bad), ())


def test_negative_counts_are_refused(models: Any) -> None:
    model = models["multinomial"]
    bad = with_entry(-1.0)(documents("multinomial", 4)[0])
    for method in (model.partial_fit, model.fit, model.transform):
        assert_refused(model, lambda method=method: method(bad), ("X[2]", "Negative"))


GROUPS = {
    "too few": (lambda n: np.zeros(n - 1), (f"{4 * 40} points", "(159,)")),
    "too many": (lambda n: np.zeros(n + 1), ("(161,)",)),
    "two columns": (lambda n: np.zeros((n, 2)), ("(160, 2)",)),
    "nan": (lambda n: np.full(n, np.nan), ("NaN",)),
    "nothing": (lambda n: np.full(n, None), ("the document of each point, got None",)),
    "text and numbers": (lambda n: np.array(["a", 1] * (n // 2), object), ("of one kind",)),
    "objects": (lambda n: [object() for _ in range(n)], ()),
    "a number": (lambda n: 3, ()),
    "empty": (lambda n: [], ()),
    "ragged": (lambda n: [[1], [1, 2]], ()),
}


@pytest.mark.parametrize("kind", GROUPS)
def test_bad_groups_are_refused(models: Any, kind: str) -> None:
    model, X = models["full"], np.concatenate(documents("full", 4, seed=1)[0])
    spoil, words = GROUPS[kind]
    for method in (model.partial_fit, model.fit, model.transform, model.assign, model.score):
        refused = ("groups", *words)
        assert_refused(model, lambda method=method: method(X, groups=spoil(len(X))), refused)


def test_groups_beside_a_list_are_refused(models: Any) -> None:
    model, parts = models["full"], documents("full", 4)[0]
    for method in (model.partial_fit, model.transform):
        assert_refused(
            model, lambda method=method: method(parts, groups=[0, 1, 2, 3]), ("'groups'", "None")
        )


PARAMETERS = {
    "family": ["spherical", None, 3],
    "prior": ["wishart", {"scale": -1.0}, {"colour": 1}, None],
    "topic_price": [-1.0, np.nan, "cheap", np.inf],
    "memory_budget": [-1, "much", "64", 1.5j],
    "epoch_budget": [-1, "much", 1.5j],
    "max_clumps": [1, 0, 2.5, "many"],
    "max_groups": [0, -3, 1.5],
    "track_documents": [1, "yes", None],
    "expected_points": [0, -1.0, np.nan, "all"],
    "on_budget": ["ignore"],
    "batch_size": [0, -1, 1.5],
    "options": [3, {"colour": 1}, "fast"],
    "engine": ["gpu", 2],
    "verbose": [-1, "yes"],
    "random_state": [-1, "x"],
}


OPTIONS = {
    "first_clumps": [-1, 0.5, None],
    "raw_iterations": [0, None],
    "group_merge": ["euclid", None],
    "max_topics": [0, None],
}


@pytest.mark.parametrize("name", OPTIONS)
def test_bad_options_are_refused(models: Any, name: str) -> None:
    parts, model = documents("full", 4)[0], models["full"]
    for value in OPTIONS[name]:
        for options in ({name: value}, ClumpOptions(**{name: value})):
            model.__dict__["options"] = options
            with pytest.raises((ValueError, TypeError), match=f"'{name}' .*{NAME}"):
                model.partial_fit(parts)
            model.__dict__["options"] = None


@pytest.mark.parametrize("name", PARAMETERS)
def test_bad_parameters_are_refused(name: str) -> None:
    parts = documents("full", 4)[0]
    model = model_of(max_clumps=40).partial_fit(parts)
    good = model.get_params()[name]
    before = content(model)
    for value in PARAMETERS[name]:
        for method in (model.partial_fit, model.fit):
            model.__dict__[name] = value
            with pytest.raises((ValueError, TypeError), match=NAME) as caught:
                method(parts)
            assert name in str(caught.value)
            model.__dict__[name] = good
            assert_same(content(model), before)


@pytest.mark.parametrize(
    ("began", "params"),
    [
        ({}, {"family": "diagonal"}),
        ({}, {"topic_price": 77.0}),
        ({"topic_price": 77.0}, {"topic_price": "auto"}),
        ({"topic_price": 77.0}, {"topic_price": 7.0}),
        ({}, {"prior": {"mean_precision": 0.7}}),
        ({"prior": {"mean_precision": 0.7}}, {"prior": "data"}),
        ({"prior": {"mean_precision": 0.7}}, {"prior": {"mean_precision": 0.6}}),
        ({"prior": {"mean_precision": 0.7, "mean": 1.0}}, {"prior": {"mean_precision": 0.7}}),
    ],
)
@pytest.mark.parametrize("stored", [False, True])
def test_what_learning_began_with_cannot_change(
    began: dict[str, Any], params: dict[str, Any], stored: bool
) -> None:
    parts = documents("full", 4)[0]
    model = model_of(**began).partial_fit(parts)
    if stored:
        model = type(model).from_checkpoint(*content(model))
    before, old = content(model), {name: model.get_params()[name] for name in params}
    model.set_params(**params)
    with pytest.raises(ValueError, match="cannot change without a new fit"):
        model.partial_fit(parts)
    assert_same(content(model.set_params(**old)), before)
    model.set_params(**params)
    with pytest.raises(ValueError, match="cannot change without a new fit"):
        model.to_checkpoint()
    model.fit(parts)


def test_what_was_found_may_be_given_in_numbers() -> None:
    parts = documents("full", 4)[0]
    model, silent = (model_of().partial_fit(parts) for _ in range(2))
    precision = model._learned.state.model.family.prior.mean_precision
    model.set_params(topic_price=model.topic_price_, prior={"mean_precision": precision})
    model.partial_fit(parts)
    model.set_params(topic_price="auto", prior="data").partial_fit(parts)
    assert_same(content(model), content(silent.partial_fit(parts).partial_fit(parts)))


@pytest.mark.parametrize("first", [[], None, "a", 3.0, [1.0, 2.0, 3.0], np.zeros(3)])
def test_a_bad_first_document_is_named(models: Any, first: Any) -> None:
    model, parts = models["full"], documents("full", 2)[0]
    for method in (model.partial_fit, model.fit, model.transform):
        assert_refused(model, lambda method=method: method([first, *parts]), ("X[0]",))


def test_bad_requests_for_neighbours_are_refused(models: Any) -> None:
    model, parts = models["full"], documents("full", 4)[0]
    k = model.n_components_
    for X in (parts, parts[0][:0], parts[0][:, :2], with_entry(np.nan)(parts)[2], None):
        assert_refused(model, lambda X=X: model.retrieve(X), ())
    for index in (np.ones((2, k + 1)), np.zeros((2, k)), -np.ones((1, k)), np.ones(k), "all",
                  np.full((1, k), np.nan), [[1, 2], [3]]):  # fmt: skip
        assert_refused(model, lambda index=index: model.retrieve(parts[0], index=index), ("index",))
    for n in (0, -1, 2.5, "all", None):
        assert_refused(model, lambda n=n: model.retrieve(parts[0], n), ("'n'",))
    for more in (-0.1, np.nan, np.inf, "some", None, True):
        assert_refused(
            model, lambda more=more: model.retrieve(parts[0], smoothing=more), ("'smoothing'",)
        )


def test_arrays_of_attributes_are_copies() -> None:
    model = model_of(memory_budget=None, max_clumps=None).partial_fit(documents("full", 4)[0])
    before = content(model)
    model.weights_[:] = model.alpha_[:] = model.group_ids_[:] = model.component_ids_[:] = 9
    assert_same(content(model), before)
