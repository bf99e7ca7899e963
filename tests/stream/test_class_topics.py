"""The topics of each class, in the run log and among the parts of a model."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from everlearn.cli.main import app
from everlearn.stream.class_topics import class_topics, stages
from everlearn.stream.learn import log_path
from everlearn.stream.summary import parts_of
from support.class_texts import TEXTS, Y, classifier
from support.stream_cases import learned


class TestWhatTheLogKeeps:
    @pytest.mark.parametrize("params", [{"n_topics": 6}, {"n_topics": 4, "strategy": "ovr"}])
    def test_averages_of_each_class(self, params):
        model = classifier(**params)
        told = class_topics(model, TEXTS, Y, 90)["class_topics"]
        assert told["records"] == 90
        assert list(told["classes"]) == model.classes_.tolist()
        z, ids = model.transform(TEXTS), model.component_ids_
        for q, (name, one) in enumerate(told["classes"].items()):
            own = np.arange(4 * q, 4 * q + 4) if "strategy" in params else np.arange(6)
            mean = z[name == Y][:, own].mean(axis=0)
            assert one["n"] == 30
            expected = {str(ids[own[k]]): mean[k] for k in range(len(own)) if mean[k] >= 0.02}
            assert one["topics"] == pytest.approx(expected, abs=6e-4)
            assert one["words"] == model.top_words(5)[own[mean.argmax()]]

    def test_a_document_may_have_several_labels(self):
        y = np.column_stack([Y != "dog", Y == "cat", np.zeros(90)])
        model = classifier(y)
        told = class_topics(model, TEXTS, y, 1)["class_topics"]["classes"]
        assert {name: one["n"] for name, one in told.items()} == {"a<b": 60, "cat": 30}

    def test_nothing_if_there_is_nothing_to_tell(self):
        assert class_topics(classifier(), TEXTS, Y, 0) == {}
        assert class_topics(classifier(), [1, 2], Y[:2], 9) == {}

    def test_early_batches_and_those_that_are_scored(self, tmp_path):
        request = learned(tmp_path, "classifier from texts")  # 8 batches of 20, scored by threes
        lines = [json.loads(line) for line in log_path(request.model).read_text().splitlines()]
        known = [line["class_topics"]["records"] for line in lines if "class_topics" in line]
        assert known == [20, 40, 60, 80, 120]
        assert sum("score_after" in line for line in lines) == 3

    def test_other_models_keep_nothing(self, tmp_path):
        request = learned(tmp_path, "topics from a folder")
        assert "class_topics" not in log_path(request.model).read_text()


def line(records, **classes):
    told = {
        name: {"n": n, "topics": topics, "words": ["x"]} for name, (n, topics) in classes.items()
    }
    return {"records": records + 10, "class_topics": {"records": records, "classes": told}}


class TestStages:
    def test_beginning_middle_and_end(self):
        log = [line(n, a=(1, {"0": 0.5})) for n in (10, 20, 40, 80, 160, 320, 500, 640, 1000)]
        assert [(s.first, s.last) for s in stages(log)] == [(10, 10), (80, 80), (640, 1000)]
        assert [(s.first, s.last) for s in stages(log[:2])] == [(10, 10), (20, 20)]
        assert [(s.first, s.last) for s in stages(log[:1])] == [(10, 10)]

    def test_documents_weigh_alike(self):
        log = [
            {"records": 5},
            line(10, a=(1, {"0": 1.0})),
            line(30, a=(1, {"0": 1.0})),
            line(100, a=(1, {"0": 0.9, "3": 0.1})),
            line(110, a=(3, {"3": 0.5}), b=(2, {"7": 0.4})),
        ]
        last = stages(log)[-1]
        assert last.classes["a"].n_documents == 4
        assert last.classes["a"].shares == pytest.approx({0: 0.225, 3: 0.4})
        assert last.classes["b"].shares == pytest.approx({7: 0.4})

    def test_logs_of_older_versions(self):
        assert stages([{"records": 5, "score_after": 0.5}]) == []


class TestPortrait:
    def test_topics_speak_for_classes(self, tmp_path):
        model = classifier(n_topics=6)
        weights = dict(zip(model.component_ids_.tolist(), model.coef_.T, strict=True))
        for part in parts_of(model):
            assert part.speaks_for == model.classes_[weights[part.id].argmax()]
        request = learned(tmp_path, "classifier from texts")
        shown = CliRunner().invoke(app, ["show", str(request.model)]).stdout
        assert "speaks for" in shown
        assert all(name in shown for name in ("t0", "t1", "t2", "t3"))

    def test_two_classes(self):
        model = classifier(np.where(Y == "dog", "cat", Y), n_topics=4)
        weights = dict(zip(model.component_ids_.tolist(), model.coef_[0], strict=True))
        for part in parts_of(model):
            assert part.speaks_for == model.classes_[int(weights[part.id] > 0)]

    def test_other_models_speak_for_nobody(self, tmp_path):
        request = learned(tmp_path, "topics from a folder")
        assert "speaks for" not in CliRunner().invoke(app, ["show", str(request.model)]).stdout
