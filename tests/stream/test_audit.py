"""An audit finds the records that were scored, and scores them again."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from everlearn.cli.exits import USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.io.log import read_log
from everlearn.mixture.estimator import DPMixture
from everlearn.stream.learn import Schedule
from support.stream_cases import environment, json_rows, learned
from support.stream_rows import is_good, picky, rows_request

TABLE = "a,b,label\n" + "".join(f"{i % 7},{i % 5},g{i % 2}\n" for i in range(40))


class TestSources:
    def test_a_source_may_be_spelled_otherwise(self, tmp_path, invoke, monkeypatch):
        path = tmp_path / "rows.csv"
        path.write_text(TABLE)
        monkeypatch.chdir(tmp_path)
        learn = ["learn", "m.evl", "rows.csv", "--kind", "ppca", "--columns", "a,b", "-q"]
        assert invoke(*learn).exit_code == 0
        (tmp_path / "below").mkdir()
        monkeypatch.chdir(tmp_path / "below")
        for name in (path, "../rows.csv"):
            result = invoke("audit", tmp_path / "m.evl", name)
            assert result.exit_code == 0, result.stderr

    def test_logs_with_sources_as_they_were_called_are_understood(
        self, tmp_path, invoke, monkeypatch
    ):
        request = learned(tmp_path, "mixture from JSON lines")
        monkeypatch.chdir(tmp_path)
        log = Path(f"{request.model}.log.jsonl")
        key = json.dumps(os.path.realpath(request.sources[0]))
        text = log.read_text()
        assert key in text
        log.write_text(text.replace(key, '"rows.jsonl"'))
        assert invoke("audit", request.model, "rows.jsonl").exit_code == 0

    @pytest.mark.parametrize(
        "name", ["topics from a folder", "ppca from a table", "mixture from Excel"]
    )
    def test_all_scored_batches_are_found_again(self, tmp_path, invoke, name):
        request = learned(tmp_path, name)
        log = list(read_log(Path(f"{request.model}.log.jsonl")))
        scored = {line["batch"]: line["new"] for line in log if "score_after" in line}
        audited = json.loads(invoke("audit", request.model, *request.sources, "--json").stdout)
        assert {mark["batch"]: mark["records"] for mark in audited["marks"]} == scored
        assert len(scored) > 2

    def test_what_came_through_a_pipe_may_be_in_a_file(self, tmp_path, invoke):
        path, model = json_rows(tmp_path), tmp_path / "m.evl"
        learn = [
            sys.executable,
            "-c",
            "from everlearn.cli.main import app; app()",
            "learn",
            model,
            "-",
        ]
        options = [
            "--kind",
            "ppca",
            "--columns",
            "a,b",
            "--batch",
            "50",
            "--score-every",
            "2",
            "-q",
        ]
        subprocess.run([*learn, *options], input=path.read_bytes(), env=environment(), check=True)
        audited = json.loads(invoke("audit", model, path, "--json").stdout)
        assert [mark["batch"] for mark in audited["marks"]] == [1, 3, 5]


class TestScores:
    def test_good_records_of_a_batch_are_scored_and_audited(self, tmp_path, invoke, monkeypatch):
        for name in ("partial_fit", "score"):
            method = picky(getattr(DPMixture, name), lambda X: (X > 1e9).any(), most=0)
            monkeypatch.setattr(DPMixture, name, method)
        request = rows_request(tmp_path, schedule=Schedule(score_every=1), kind="mixture")
        lines = Path(request.sources[0]).read_text().splitlines()
        far = '{"a": 1e10, "b": 0, "c": 0, "d": 0, "label": "g0"}'
        kept = [line for line in lines if is_good(line)]
        Path(request.sources[0]).write_text("\n".join([*kept[:3], far, *kept[3:12], far]) + "\n")
        assert learn_in_terminal(request, quiet=True) == 0
        log = list(read_log(Path(f"{request.model}.log.jsonl")))
        assert [line["new"] for line in log] == [7, 5]
        assert all(isinstance(line["score_after"], float) for line in log)
        card = json.loads(invoke("audit", request.model, *request.sources, "--json").stdout)
        assert [mark["records"] for mark in card["marks"]] == [7, 5]

    def test_batches_without_scores_are_an_error_of_audit(self, tmp_path, invoke, monkeypatch):
        monkeypatch.setattr(DPMixture, "score", picky(DPMixture.score, lambda X: True, most=0))
        request = rows_request(tmp_path, schedule=Schedule(score_every=1), kind="mixture")
        assert learn_in_terminal(request, quiet=True) == 0
        result = invoke("audit", request.model, *request.sources)
        assert result.exit_code == USAGE
        assert "could not score any batch" in result.stderr
        assert "--score-every" not in result.stderr
