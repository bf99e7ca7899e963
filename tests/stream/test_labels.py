"""Labels: matrices, missing ones, and the search for all classes."""

import json
import os
import signal

import numpy as np

from everlearn.cli.learn import learn_in_terminal
from everlearn.io.log import read_log
from everlearn.stream import labels
from everlearn.stream.learn import LearnRequest, Schedule
from everlearn.stream.session import Session

TABLE = "a,b,label\n" + "".join(f"{i % 7},{i % 5},g{i % 2}\n" for i in range(40))


class TestLabels:
    def test_a_label_that_is_no_number_is_none(self, tmp_path, invoke):
        rng = np.random.default_rng(0)
        y = np.array([0.0, 1.0] * 10 + [np.nan])
        np.savez(tmp_path / "a.npz", X=rng.normal(size=(21, 2)), y=y)
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.npz", "--kind", "classifier")
        assert result.exit_code == 0, result.stderr
        assert Session.load(tmp_path / "m.evl").layout.classes == ("0.0", "1.0")
        (line,) = read_log(tmp_path / "m.evl.quarantine.jsonl")
        assert line["reason"] == "no label in the field 'label'"

    def test_a_matrix_of_labels_is_learned_and_predicted_as_lists(self, tmp_path, invoke):
        X = np.random.default_rng(0).normal(size=(400, 3))
        np.savez(tmp_path / "a.npz", X=X, y=(X > 0).astype(int))
        model = tmp_path / "m.evl"
        result = invoke("learn", model, tmp_path / "a.npz", "--kind", "classifier", "-q")
        assert result.exit_code == 0, result.stderr
        assert Session.load(model).layout.classes == ("0", "1", "2")
        answers = invoke("predict", model, tmp_path / "a.npz").stdout.splitlines()
        told = [json.loads(answer)["label"] for answer in answers]
        right = [[str(j) for j in np.flatnonzero(row > 0)] for row in X]
        assert np.mean([a == b for a, b in zip(told, right, strict=True)]) > 0.9


class TestSearch:
    def test_a_stop_during_the_search_leaves_no_model(self, tmp_path, monkeypatch, capsys):
        path = tmp_path / "rows.csv"
        path.write_text(TABLE)
        request = LearnRequest(
            tmp_path / "m.evl", (str(path),), {"kind": "classifier", "batch": 8}, {}, Schedule()
        )
        with_form = labels.with_form

        def interrupted(chunk, layout):
            signal.raise_signal(signal.SIGTERM)
            return with_form(chunk, layout)

        monkeypatch.setattr(labels, "with_form", interrupted)
        assert learn_in_terminal(request) == 128 + signal.SIGTERM
        assert not request.model.exists()
        assert "Stopped before the first batch, so" in " ".join(capsys.readouterr().err.split())
        assert os.listdir(tmp_path) == ["rows.csv"]
