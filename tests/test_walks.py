"""The walks of `docs/architecture.md` are those that the code takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from conftest import REPOSITORY
from everlearn import DPMixture, MedLDAClassifier, TopicTree, load
from everlearn.cli.main import app
from support.walks import Calls, Step, faults_of, walk_of, walks_in

HIDDEN = 2
"""Most calls between two steps of a walk that the page does not list."""
PAGE = (REPOSITORY / "docs" / "architecture.md").read_text("utf-8")
WALKS = dict(walks_in(PAGE))
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(300, 3))
DOCUMENTS = [RNG.integers(0, 40, 20) for _ in range(90)]
LABELS = RNG.integers(0, 3, 90)


def mixture(folder: Path) -> Callable[[], Any]:
    model = DPMixture(engine="serial", random_state=0).fit(ROWS)
    return lambda: model.partial_fit(ROWS[:50])


def classifier(folder: Path) -> Callable[[], Any]:
    model = MedLDAClassifier(engine="serial", random_state=0)
    model.partial_fit(DOCUMENTS[:60], LABELS[:60], classes=[0, 1, 2])
    return lambda: model.partial_fit(DOCUMENTS[60:], LABELS[60:])


def tree(folder: Path) -> Callable[[], Any]:
    model = TopicTree(engine="serial", random_state=0, reservoir=20)
    model.partial_fit(DOCUMENTS[:60])
    return lambda: model.partial_fit(DOCUMENTS[60:])


def command(folder: Path) -> Callable[[], Any]:
    data, model = folder / "rows.csv", folder / "model.evl"
    np.savetxt(data, ROWS, delimiter=",", header="a,b,c", comments="")
    arguments = ["learn", str(model), str(data), "--kind", "mixture", "--engine", "serial"]
    return lambda: CliRunner().invoke(app, arguments)


def loading(folder: Path) -> Callable[[], Any]:
    DPMixture(engine="serial", random_state=0).fit(ROWS).save(folder / "model.evl")
    return lambda: load(folder / "model.evl")


WAYS = {
    "DPMixture.partial_fit": mixture,
    "MedLDAClassifier.partial_fit": classifier,
    "TopicTree.partial_fit": tree,
    "everlearn learn": command,
    "load": loading,
}


def test_the_page_has_all_walks() -> None:
    assert WALKS.keys() == WAYS.keys()


@pytest.mark.parametrize("title", WAYS)
def test_the_code_goes_as_the_page_says(title: str, tmp_path: Path) -> None:
    call = WAYS[title](tmp_path)
    assert list(faults_of(WALKS[title], Calls.of(call), HIDDEN)) == []


def steps_of(walk: Step) -> list[Step]:
    return [walk, *(step for below in walk.steps for step in steps_of(below))]


def test_walks_are_short() -> None:
    for title, walk in WALKS.items():
        assert len(steps_of(walk)) <= 15, title


@pytest.mark.parametrize(
    ("below", "fault"),
    [
        ("mixture/inputs.py check_forgettable", "is not called from"),
        ("mixture/local.py TrackedStep.__call__", "6 calls lie between"),
        ("mixture/kernels.py add_products", "does not use"),
    ],
)
def test_a_wrong_walk_is_noticed(below: str, fault: str, tmp_path: Path) -> None:
    walk = walk_of(f"mixture/estimator.py DPMixture.partial_fit\n  {below}")
    (message,) = faults_of(walk, Calls.of(mixture(tmp_path)), HIDDEN)
    assert fault in message


def test_steps_in_another_order_are_noticed(tmp_path: Path) -> None:
    walk = WALKS["DPMixture.partial_fit"]
    turned = Step(walk.key, [walk.steps[1], walk.steps[0]])
    (fault,) = faults_of(turned, Calls.of(mixture(tmp_path)), HIDDEN)
    assert "before the step above it" in fault
