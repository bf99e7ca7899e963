"""Two states of one model: what was born, what is gone, what changed."""

from typing import Any

import numpy as np
import pytest

from everlearn import BayesianPassiveAggressiveClassifier, DPMixture, OnlinePPCA
from everlearn.errors import UsageError
from everlearn.io.ledger import Ledger
from everlearn.stream import diff
from everlearn.stream.diff import Change, differences
from everlearn.stream.layout import Layout
from everlearn.stream.session import Session
from everlearn.stream.summary import Part

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 2))
Y = np.where(X[:, 0] > 0, "p", "q")


def session(model: Any, kind: str = "mixture") -> Session:
    return Session(model, Layout(kind, columns=("a", "b")), Ledger())


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sessions of two mixtures that are said to have these parts."""

    def of(old: list[Part], new: list[Part]) -> Any:
        sessions = [session(DPMixture()) for _ in range(2)]
        parts = dict(zip(map(id, (s.model for s in sessions)), (old, new), strict=True))
        monkeypatch.setattr(diff, "parts_of", lambda model, columns: parts[id(model)])
        return differences(*sessions)

    return of


def test_ids_say_what_was_born_and_what_is_gone(states: Any) -> None:
    found = states([Part(1, 0.5), Part(2, 0.5)], [Part(2, 0.3), Part(5, 0.6), Part(4, 0.1)])
    assert [part.id for part in found.born] == [5, 4]
    assert [part.id for part in found.gone] == [1]
    assert [change.new.id for change in found.stayed] == [2]
    assert found.mark == "#"


def test_the_largest_change_comes_first_and_equal_ones_by_id(states: Any) -> None:
    old = [Part(i, 0.25) for i in (3, 1, 2, 0)]
    new = [Part(0, 0.25), Part(1, 0.35), Part(2, 0.05), Part(3, 0.25)]
    assert [change.new.id for change in states(old, new).stayed] == [2, 1, 0, 3]


def test_growth_and_new_words() -> None:
    change = Change(Part(1, 0.5, ("sea", "ship")), Part(1, 0.25, ("ship", "star")))
    assert change.growth == -0.25
    assert change.arrived == ("star",)
    assert Change(Part(1, None), Part(1, None)).growth == 0.0


def test_json_has_weights_only_where_there_are_some(states: Any) -> None:
    found = states([Part(1, 0.5, ("a",))], [Part(1, 0.75, ("b",)), Part(2, 0.25)]).to_json()
    assert found["stayed"] == [{"id": 1, "old_share": 0.5, "share": 0.75, "arrived": ["b"]}]
    assert found["born"] == [
        {"id": 2, "share": 0.25, "about": (), "parent": None, "speaks_for": None}
    ]
    assert found["gone"] == []


def test_a_state_is_like_itself() -> None:
    for model in (
        DPMixture(random_state=0).fit(X),
        BayesianPassiveAggressiveClassifier(random_state=0).fit(X, Y),
    ):
        found = differences(session(model), session(model))
        assert found.born == found.gone == ()
        assert found.stayed
        assert all(change.growth == 0.0 and not change.moved for change in found.stayed)


def test_weights_move_by_their_distance_relative_to_the_old_ones() -> None:
    old, new = (
        BayesianPassiveAggressiveClassifier(random_state=0).fit(X, labels)
        for labels in (Y, np.where(X[:, 1] > 0, "p", "q"))
    )
    expected = np.linalg.norm(new.coef_ - old.coef_) / np.linalg.norm(old.coef_)
    found = differences(session(old, "classifier"), session(new, "classifier"))
    assert [change.moved for change in found.stayed] == pytest.approx([expected] * 2)
    assert found.mark == ""
    assert {one["moved"] for one in found.to_json()["stayed"]} == {
        change.moved for change in found.stayed
    }


def test_other_models_and_other_columns_are_refused() -> None:
    one = BayesianPassiveAggressiveClassifier(random_state=0).fit(X, Y)
    with pytest.raises(UsageError, match="got a BayesianPassiveAggressiveClassifier and a OnlineP"):
        differences(session(one), session(OnlinePPCA(1).fit(X)))
    wide = BayesianPassiveAggressiveClassifier(random_state=0).fit(np.hstack([X, X]), Y)
    with pytest.raises(UsageError, match=r"different columns for '[pq]'"):
        differences(session(one), session(wide))
