"""Answers of a model: one for each record, in the order of the sources."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from everlearn.estimator.tree_view import FittedTree, TreeNode
from everlearn.io.opening import open_sources
from everlearn.stream.predict import (
    batches_of,
    component_answers,
    coordinate_answers,
    label_answers,
    path_answers,
    predictions,
    topic_answers,
    value_answers,
)
from everlearn.stream.session import Session
from support.stream_cases import learned


def model_of(**attributes: Any) -> Any:
    return SimpleNamespace(**attributes)


class TestAnswers:
    def test_the_likeliest_component_by_its_permanent_id(self) -> None:
        model = model_of(
            component_ids_=np.array([7, 3]),
            predict_proba=lambda X: np.array([[0.25, 0.75], [1.0, 0.0]]),
            score_samples=lambda X: np.array([-2.0, -3.5]),
        )
        assert component_answers(model, None) == [
            {"component": 3, "probability": 0.75, "log_likelihood": -2.0},
            {"component": 7, "probability": 1.0, "log_likelihood": -3.5},
        ]

    def test_the_three_largest_topics(self) -> None:
        model = model_of(
            component_ids_=np.array([9, 8, 7, 6]),
            transform=lambda X: np.array([[0.1, 0.2, 0.1, 0.6], [1 / 3, 1 / 3, 1 / 3, 0.0]]),
        )
        first, second = topic_answers(model, None)
        assert [topic["id"] for topic in first["topics"]] == [6, 8, 9]
        assert [topic["share"] for topic in first["topics"]] == [0.6, 0.2, 0.1]
        assert [topic["id"] for topic in second["topics"]] == [9, 8, 7]

    @pytest.mark.parametrize(
        ("scores", "expected"),
        [([-1.5, 0.5], [1.5, 0.5]), ([[-1.0, 2.0, 0.0], [3.0, 1.0, 2.0]], [2.0, 3.0])],
        ids=["two classes", "more"],
    )
    def test_a_label_and_the_score_that_chose_it(self, scores: Any, expected: Any) -> None:
        model = model_of(
            predict=lambda X: np.array(["p", "q"]), decision_function=lambda X: np.array(scores)
        )
        assert label_answers(model, None) == [
            {"label": label, "score": score}
            for label, score in zip(("p", "q"), expected, strict=True)
        ]

    def test_several_labels(self) -> None:
        model = model_of(
            classes_=("a", "b", "c"), predict=lambda X: np.array([[1, 0, 1], [0, 0, 0]])
        )
        assert label_answers(model, None) == [{"label": ["a", "c"]}, {"label": []}]

    def test_values_paths_and_coordinates(self) -> None:
        assert value_answers(model_of(predict=lambda X: np.array([0.5])), None) == [{"value": 0.5}]
        nodes = (TreeNode(0, None, 0, 2.0), TreeNode(5, 0, 1, 2.0), TreeNode(2, 5, 2, 1.0))
        tree = model_of(tree_=FittedTree(nodes), predict=lambda X: np.array([2, 0]))
        assert path_answers(tree, None) == [{"path": [0, 5, 2]}, {"path": [0]}]
        axes = model_of(
            transform=lambda X: np.array([[0.1234567, -2.0]]), score_samples=lambda X: [-1.5]
        )
        assert coordinate_answers(axes, None) == [
            {"coordinates": [0.123457, -2.0], "log_likelihood": -1.5}
        ]


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A mixture of 240 lines, of which three are bad, and their file."""
    folder = tmp_path_factory.mktemp("mixture")
    request = learned(folder, "mixture from JSON lines")
    return Session.load(request.model), folder / "rows.jsonl"


class TestStream:
    def test_they_are_those_of_the_model_on_the_same_rows(self, mixture: Any) -> None:
        session, path = mixture
        rows = [
            [row[name] for name in "abcd"]
            for i, row in enumerate(map(json.loads, path.read_text().splitlines()[8:30]))
        ]
        expected = component_answers(session.model, np.array(rows))
        found = list(predictions(session, open_sources([str(path)])))[8:30]
        assert [answer["component"] for answer in found] == [a["component"] for a in expected]
        np.testing.assert_allclose(
            [answer["log_likelihood"] for answer in found],
            [a["log_likelihood"] for a in expected],
            rtol=1e-9,
        )

    def test_bad_records_have_their_error_in_their_place(self, mixture: Any) -> None:
        session, path = mixture
        found = list(predictions(session, open_sources([str(path)])))
        assert len(found) == 240
        assert [i for i, answer in enumerate(found) if "error" in answer] == [7, 30, 31]
        assert all("component" not in found[i] for i in (7, 30, 31))
        assert {answer["source"] for answer in found} == {str(path)}
        assert len({answer["place"] for answer in found}) == 240

    def test_sources_follow_each_other(self, mixture: Any, tmp_path: Any) -> None:
        session, path = mixture
        lines = path.read_text().splitlines(keepends=True)
        names = []
        for name, part in (("b", lines[40:70]), ("a", lines[:7])):
            (tmp_path / f"{name}.jsonl").write_text("".join(part))
            names.append(str(tmp_path / f"{name}.jsonl"))
        found = list(predictions(session, open_sources(names)))
        assert [answer["source"] for answer in found] == [names[0]] * 30 + [names[1]] * 7

    def test_nothing_is_learned(self, mixture: Any) -> None:
        session, path = mixture
        before = session.model.to_checkpoint()
        list(predictions(session, open_sources([str(path)])))
        after = session.model.to_checkpoint()
        assert before[0] == after[0]
        assert all((after[1][name] == array).all() for name, array in before[1].items())

    def test_batches_are_those_of_learning(self, mixture: Any) -> None:
        session, path = mixture
        sizes = [len(batch.order) for batch in batches_of(session, open_sources([str(path)]))]
        assert sizes == [20] * 12
