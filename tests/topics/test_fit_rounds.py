"""Rounds within a batch, as users set them and read how many there were."""

from pathlib import Path

import numpy as np
import pytest

import everlearn
from everlearn.errors import NotConvergedWarning
from support.corpora import (
    NAMES,
    X,
    assert_same,
    change,
    content,
    fitted,
    model_of,
    targets_of,
    teach,
)

KINDS = ["averaging", "gibbs, ovr", "born", "born, gibbs", "number", "number, gibbs"]
every_kind = pytest.mark.parametrize("name", KINDS)


@pytest.mark.parametrize(
    ("name", "given", "rounds"),
    [
        ("averaging", {}, 1),
        ("averaging, no anchors", {}, 3),
        ("averaging", {"n_rounds": 4}, 4),
        ("number", {}, 2),
        ("lda", {}, 1),
    ],
)
def test_how_many_there_were(name: str, given: dict, rounds: int) -> None:
    assert fitted(name, **given).n_rounds_ == rounds


@every_kind
def test_a_batch_ends_when_its_objective_does(name: str) -> None:
    model = fitted(name, batch_size="all", tol=1e-3)
    assert 20 <= model.n_rounds_ < 500
    if "ovr" not in name:  # there each class has its own number
        same = fitted(name, batch_size="all", n_rounds=model.n_rounds_)
        np.testing.assert_array_equal(model.components_, same.components_)


@every_kind
def test_too_few_rounds_are_told_and_learned(name: str) -> None:
    model = model_of(name, batch_size="all", tol=1e-6, n_rounds=19)
    with pytest.warns(NotConvergedWarning, match="19 rounds of a batch.*n_rounds.*tol") as told:
        model.fit(X, targets_of(name))
    assert {Path(w.filename) for w in told} == {Path(__file__)}
    with pytest.warns(NotConvergedWarning) as told:
        teach(model_of(name, tol=1e-6, n_rounds=3), name)
    assert {Path(w.filename).name for w in told} <= {"corpora.py"}  # who called partial_fit
    assert model.n_rounds_ == 19
    before = content(model)
    for learn in (model.fit, model.partial_fit):
        with pytest.raises(NotConvergedWarning):  # in tests every warning is an error
            learn(X[::-1], targets_of(name)[::-1])
        assert_same(content(model), before)


def test_a_file_knows_how_many(tmp_path: Path) -> None:
    model = fitted("averaging", n_rounds=3)
    model.save(tmp_path / "model.evl")
    assert everlearn.load(tmp_path / "model.evl").n_rounds_ == 3


def test_a_stream_tells_those_of_the_last_batch() -> None:
    model = model_of("averaging", n_rounds=2)
    model.partial_fit(X[:40], targets_of("averaging")[:40], classes=NAMES)
    assert model.n_rounds_ == 2
    change(model, n_rounds=5).partial_fit(X[40:80], targets_of("averaging")[40:80])
    assert model.n_rounds_ == 5
