"""`ClumpedTopicModel` learns the same from any form of documents, on any engine, in any calls."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone

from support.clumped_data import (
    FAMILIES,
    assert_same,
    content,
    documents,
    model_of,
)

every = pytest.mark.parametrize("family", FAMILIES)


LABELS = {
    "numbers": lambda d: d,
    "backwards": lambda d: 100 - d,
    "floats": lambda d: d + 0.5,
    "strings": lambda d: np.array([f"document {i}" for i in d]),
    "a list of strings": lambda d: [f"{i}" for i in d],
    "objects": lambda d: np.array([f"{i}" for i in d], object),
    "a series": lambda d: pd.Series(d, index=d + 7),
    "categories": lambda d: pd.Series([f"{i}" for i in d], dtype="category"),
    "dates": lambda d: np.datetime64("2020-01-01") + d,
    "small integers": lambda d: d.astype(np.uint8),
    "truth values": lambda d: d,
}


@pytest.mark.parametrize("kind", LABELS)
def test_groups_give_the_same_model_as_a_list(kind: str) -> None:
    parts = documents("full", 2 if kind == "truth values" else 4, points=12)[0]
    document = np.repeat(np.arange(len(parts)), 12)
    groups = document.astype(bool) if kind == "truth values" else LABELS[kind](document)
    X = np.concatenate(parts)
    listed = model_of().partial_fit(parts)
    assert_same(content(model_of().partial_fit(X, groups=groups)), content(listed))
    assert_array_equal(listed.transform(X, groups=groups), listed.transform(parts))
    assert listed.score(X, groups=groups) == listed.score(parts)
    assert_array_equal(listed.assign(X, groups=groups), np.concatenate(listed.assign(parts)))


@every
def test_groups_need_not_be_sorted(family: str) -> None:
    """Documents are in the order of their first points; points keep their order within one."""
    parts = documents(family, 6)[0]
    rng = np.random.default_rng(0)
    order = rng.permutation(np.repeat(np.arange(6), 40))
    first = list(dict.fromkeys(order.tolist()))
    X = np.empty((240, 3))
    for j in range(6):
        X[order == j] = parts[j]
    listed = model_of(family).partial_fit([parts[j] for j in first])
    mixed = model_of(family).partial_fit(X, groups=order)
    assert_same(content(mixed), content(listed))
    labels = mixed.assign(X, groups=order)
    for j in range(6):
        assert_array_equal(labels[order == j], mixed.assign([parts[j]])[0])
    assert_array_equal(mixed.transform(X, groups=order), mixed.transform([parts[j] for j in first]))


def test_one_table_is_one_document() -> None:
    X = documents("full", 1)[0][0]
    model = model_of().partial_fit(X)
    assert model.n_samples_seen_ == 1
    assert_same(content(model_of().partial_fit([X])), content(model))
    assert model.transform(X).shape == (1, model.n_components_)
    assert model.assign(X).shape == (40,)


@pytest.mark.parametrize("form", [lambda x: x.tolist(), np.asfortranarray, pd.DataFrame,
                                  lambda x: x[::-1][::-1], lambda x: np.ma.array(x)])  # fmt: skip
def test_documents_of_any_form(form: Any) -> None:
    parts = documents("full", 4, points=12)[0]
    want = content(model_of().partial_fit(parts))[1]
    for listed in ([form(part) for part in parts], tuple(form(part) for part in parts)):
        assert_same((0, content(model_of().partial_fit(listed))[1]), (0, want))


def test_every_call_brings_new_documents() -> None:
    X = documents("full", 1)[0][0]
    model = model_of().partial_fit(X, groups=np.zeros(40)).partial_fit(X, groups=np.zeros(40))
    assert model.n_samples_seen_ == 2
    assert_array_equal(model.group_ids_, [0, 1])


@every
def test_threads_change_nothing(family: str) -> None:
    parts = documents(family, 12, points=150)[0]
    models = [model_of(family, max_clumps=60, engine=e).partial_fit(parts)
              for e in ("serial", "threads")]  # fmt: skip
    serial, threads = (content(model) for model in models)
    assert_same((0, serial[1]), (0, threads[1]))
    assert serial[0]["learned"] == threads[0]["learned"]
    new = documents(family, 5, seed=4)[0]
    assert_array_equal(models[0].transform(new), models[1].transform(new))


@every
def test_the_seed_and_the_number_of_calls_change_nothing(family: str) -> None:
    parts = documents(family, 8)[0]
    one = model_of(family, random_state=0).partial_fit(parts)
    two = model_of(family, random_state=1).partial_fit(parts[:4]).partial_fit(parts[4:])
    assert_same((0, content(one)[1]), (0, content(two)[1]))
    again = clone(one).fit(parts)
    for model in (one, again):
        largest = np.argsort(-model.weights_, kind="stable")
        assert_array_equal(model.weights_[largest], again.weights_)
        assert_array_equal(model.means_[largest], again.means_)
    assert_same(content(one.fit(parts)), content(again))  # fit begins anew
