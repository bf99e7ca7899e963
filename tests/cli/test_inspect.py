"""Commands that look at a model: show, predict, audit, log and diff."""

import json
import subprocess
import sys

import numpy as np
import pytest

from everlearn.cli.exits import BROKEN_PIPE, USAGE
from everlearn.stream.session import Session
from support.stream_cases import FILES, WORDS, environment, learned


class TestInspect:
    @pytest.mark.parametrize("name", FILES)
    def test_every_kind_can_be_shown_and_predicts(self, invoke, tmp_path, name):
        request = learned(tmp_path, name)
        shown = invoke("show", request.model)
        assert shown.exit_code == 0, shown.output
        assert "records learned" in shown.stdout
        as_json = json.loads(invoke("show", request.model, "--json").stdout)
        assert as_json["parts"]
        counted = [key for key in as_json if "seen" in key or key in ("components", "bound, nats")]
        assert all(isinstance(as_json[key], (int, float)) for key in counted)
        assert counted or "classifier" in name or "regressor" in name
        assert as_json["history"]["last"] >= as_json["history"]["first"]
        answers = invoke("predict", request.model, *request.sources)
        assert answers.exit_code == 0, answers.output
        lines = [json.loads(line) for line in answers.stdout.splitlines()]
        ledger = Session.load(request.model).ledger
        assert len(lines) == ledger.records + ledger.bad
        assert sum("error" in line for line in lines) == ledger.bad

    @pytest.mark.parametrize("name", FILES)
    def test_every_kind_can_be_audited(self, invoke, tmp_path, name):
        request = learned(tmp_path, name)
        result = invoke("audit", request.model, *request.sources, "--json")
        assert result.exit_code == 0, result.output
        card = json.loads(result.stdout)
        batches = Session.load(request.model).ledger.batches
        assert card["batches"] == -(-batches // 3)
        assert "worst change" in invoke("audit", request.model, *request.sources).stdout

    def test_forgetting_is_found(self, invoke, tmp_path):
        """A classifier that is taught the opposite forgets what it knew."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(200, 3))
        names = np.where(X[:, 0] > 0, "p", "q")
        for name, labels in (("a", names), ("b", np.where(names == "p", "q", "p"))):
            rows = [
                {"x": x.tolist()[0], "z": x[1], "label": k} for x, k in zip(X, labels, strict=True)
            ]
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        model = tmp_path / "m.evl"
        options = ["--kind", "classifier", "--batch", 50, "--score-every", 1, "-q"]
        assert invoke("learn", model, tmp_path / "a.jsonl", *options).exit_code == 0
        before = json.loads(invoke("audit", model, tmp_path / "a.jsonl", "--json").stdout)
        for _ in range(2):
            (tmp_path / "b.jsonl").write_text((tmp_path / "b.jsonl").read_text() * 2)
        assert invoke("learn", model, tmp_path / "b.jsonl", "-q").exit_code == 0
        after = json.loads(invoke("audit", model, tmp_path / "a.jsonl", "--json").stdout)
        assert before["forgotten on average"] < 0.1
        assert after["forgotten on average"] > 0.5

    def test_the_log_tells_births_and_the_difference_tells_shares(self, invoke, tmp_path):
        request = learned(tmp_path, "mixture from an array")
        assert "born: #0" in invoke("log", request.model).stdout
        assert "born: #0" in invoke("show", request.model).stdout
        old = tmp_path / "old.evl"
        old.write_bytes(request.model.read_bytes())
        far = np.random.default_rng(1).normal(200, 1, (300, 4))
        np.save(tmp_path / "far.npy", far)
        assert invoke("learn", request.model, tmp_path / "far.npy", "-q").exit_code == 0
        found = json.loads(invoke("diff", old, request.model, "--json").stdout)
        assert found["born"]
        assert invoke("diff", old, request.model).exit_code == 0

    @pytest.mark.parametrize("kind", ["classifier", "regressor"])
    def test_linear_scores_are_described_by_columns_and_compared(self, invoke, tmp_path, kind):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(600, 3))
        for name, column in (("a", 0), ("b", 1)):
            y = X[:, column] if kind == "regressor" else np.where(X[:, column] > 0, "p", "q")
            rows = (",".join(map(str, (*x, label))) for x, label in zip(X, y, strict=True))
            (tmp_path / f"{name}.csv").write_text(
                "\n".join(["left,right,none,label", *rows]) + "\n"
            )
        old, new = tmp_path / "old.evl", tmp_path / "new.evl"
        assert invoke("learn", new, tmp_path / "a.csv", "--kind", kind, "-q").exit_code == 0
        old.write_bytes(new.read_bytes())
        first = json.loads(invoke("show", old, "--json").stdout)["parts"][0]
        assert first["about"][0].startswith("left+" if kind == "regressor" else "left")
        assert first["speaks_for"] == ("value" if kind == "regressor" else "p")
        shown = invoke("show", old).stdout
        assert "share" not in shown
        assert "#0" not in shown
        same = json.loads(invoke("diff", old, old, "--json").stdout)["stayed"]
        assert all(change["moved"] == 0 for change in same)
        assert invoke("learn", new, tmp_path / "b.csv", "-q").exit_code == 0
        found = json.loads(invoke("diff", old, new, "--json").stdout)["stayed"]
        assert all(change["moved"] > 0.3 for change in found)
        assert "Weights that moved" in invoke("diff", old, new).stdout

    def test_nodes_of_a_component_tree_are_described_by_columns(self, invoke, tmp_path):
        X = np.random.default_rng(0).normal(size=(300, 3)) * [9.0, 1.0, 0.1]
        np.save(tmp_path / "a.npy", X)
        model = tmp_path / "m.evl"
        options = ["--kind", "components", "--set", "depth=2", "-q"]
        assert invoke("learn", model, tmp_path / "a.npy", *options).exit_code == 0
        parts = json.loads(invoke("show", model, "--json").stdout)["parts"]
        assert any(part["about"] and part["about"][0].startswith("x0") for part in parts)
        shown = invoke("show", model).stdout
        assert " ".join(parts[0]["about"]) in shown
        assert "300 rows" in shown  # how far the source is learned

    def test_nodes_of_a_topic_tree_are_described_by_words(self, invoke, tmp_path):
        model = learned(tmp_path, "tree from texts").model
        parts = json.loads(invoke("show", model, "--json").stdout)["parts"]
        told = [word for part in parts for word in part["about"]]
        assert told
        assert set(told) <= set(WORDS)
        assert " ".join(parts[-1]["about"]) in invoke("show", model).stdout

    def test_models_of_two_kinds_do_not_compare(self, invoke, tmp_path):
        one = learned(tmp_path, "mixture from an array", "a.evl").model
        other = learned(tmp_path, "topics from counts", "b.evl").model
        assert invoke("diff", one, other).exit_code == USAGE

    @pytest.mark.parametrize("command", ["show", "log", "predict", "audit"])
    def test_a_model_that_is_not_there_is_named(self, invoke, tmp_path, command):
        (tmp_path / "a.csv").write_text("1,2\n")
        sources = [tmp_path / "a.csv"] if command in ("predict", "audit") else []
        result = invoke(command, tmp_path / "none.evl", *sources)
        assert result.exit_code == USAGE
        assert "there is no model" in result.stderr

    def test_axes_of_ppca_are_described_by_columns_and_variances(self, invoke, tmp_path):
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(200, 3)) * [10.0, 2.0, 0.1]
        (tmp_path / "a.csv").write_text(
            "long,short,flat\n" + "".join(",".join(map(str, row)) + "\n" for row in rows)
        )
        model = tmp_path / "m.evl"
        options = ["--kind", "ppca", "--set", "n_components=2", "-q"]
        assert invoke("learn", model, tmp_path / "a.csv", *options).exit_code == 0
        first, second = json.loads(invoke("show", model, "--json").stdout)["parts"]
        assert first["share"] > 0.9 > 0.1 > second["share"] > 0.01
        assert first["about"][0] in ("long+1.00", "long-1.00")
        assert second["about"][0] in ("short+1.00", "short-1.00")

    @pytest.mark.parametrize("what", ["predict", "show", "log", "audit"])
    def test_a_closed_pipe_ends_quietly(self, tmp_path, what):
        request = learned(tmp_path, "mixture from an array")
        command = "from everlearn.cli.main import app; app()"
        sources = request.sources if what in ("predict", "audit") else ()
        with subprocess.Popen(
            [sys.executable, "-c", command, what, request.model, *sources],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
        ) as process:
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == BROKEN_PIPE
