"""`everlearn learn`: how it stops, what it refuses, and what it prints."""

import errno
import logging
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock

from everlearn.cli.exits import BAD_MODEL, BAD_RECORD, FAILED, LOCKED, USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.errors import CheckpointError
from everlearn.io.lock import only_writer
from everlearn.io.log import read_log
from everlearn.stream.learn import LearnRequest, Schedule
from everlearn.stream.session import Session
from support.stream_cases import (
    environment,
    json_rows,
    learned,
)

TABLE = "a,b,label\n" + "".join(f"{i % 7},{i % 5},g{i % 2}\n" for i in range(40))


class TestStopping:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
    def test_a_signal_ends_it_with_everything_written(self, tmp_path, number, code):
        path = json_rows(tmp_path)
        model = tmp_path / "m.evl"
        command = "from everlearn.cli.main import app; app()"
        arguments = ["learn", model, "-", "--kind", "mixture", "--columns", "a,b,c,d", "-q"]
        process = subprocess.Popen(
            [sys.executable, "-c", command, *map(str, arguments), "--batch", "50", "--every", "1"],
            stdin=subprocess.PIPE,
            env=environment(),
        )
        process.stdin.write(path.read_bytes())
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not model.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(60) == code
        process.stdin.close()
        ledger = Session.load(model).ledger
        assert ledger.records + ledger.bad == 240

    def test_a_silent_pipe_is_written_in_time(self, tmp_path):
        model = tmp_path / "m.evl"
        command = "from everlearn.cli.main import app; app()"
        arguments = ["learn", model, "-", "--kind", "mixture", "-q", "--every", "1s", "--idle", "1"]
        process = subprocess.Popen(
            [sys.executable, "-c", command, *map(str, arguments)],
            stdin=subprocess.PIPE,
            env=environment(),
        )
        process.stdin.write(b'{"x": 1.5}\n{"x": 2.5}\n')
        process.stdin.flush()
        deadline = time.monotonic() + 120
        while not model.exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        process.kill()
        process.wait()
        process.stdin.close()
        assert Session.load(model).ledger.records == 2

    def test_a_closed_pipe_loses_no_line_of_the_log(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text(TABLE * 1 + TABLE.split("\n", 1)[1] * 9)
        process = subprocess.Popen(
            [sys.executable, "-c", "from everlearn.cli.main import app; app()",
             "learn", str(tmp_path / "m.evl"), str(path), "--kind", "classifier",
             "--batch", "10", "--json"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(),
        )  # fmt: skip
        process.stdout.readline()
        process.stdout.close()
        process.wait(60)
        batches = Session.load(tmp_path / "m.evl").ledger.batches
        lines = list(read_log(tmp_path / "m.evl.log.jsonl"))
        assert [line["batch"] for line in lines] == list(range(1, batches + 1))


class TestFiles:
    def test_a_second_writer_is_refused(self, invoke, tmp_path):
        with only_writer(tmp_path / "m.evl"):
            result = invoke("learn", tmp_path / "m.evl", json_rows(tmp_path), "--kind", "mixture")
        assert result.exit_code == LOCKED
        assert "another process is learning" in result.stderr
        assert os.listdir(tmp_path) == ["rows.jsonl"]  # and no lock where nothing was begun

    def test_a_folder_that_cannot_be_written_to(self, invoke, tmp_path, monkeypatch):
        request = learned(tmp_path, "mixture from JSON lines")

        def denied(self, **options):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self.lock_file)

        monkeypatch.setattr(FileLock, "acquire", denied)
        result = invoke("learn", request.model, request.sources[0])
        assert result.exit_code == FAILED
        assert "Permission denied; the model is unchanged" in result.stderr
        assert repr(str(request.model)) in result.stderr

    def test_a_link_to_a_model_is_the_model(self, invoke, tmp_path):
        request = learned(tmp_path, "mixture from JSON lines")
        (tmp_path / "links").mkdir()
        link = tmp_path / "links" / "l.evl"
        link.symlink_to(request.model)
        with open(request.sources[0], "a") as file:
            file.write('not JSON\n{"a": 1, "b": 2, "c": 3, "d": 4}\n')
        assert invoke("learn", link, request.sources[0], "-q").exit_code == 0
        assert os.listdir(tmp_path / "links") == ["l.evl"]
        assert link.is_symlink()
        assert Session.load(request.model).ledger.bad == 4
        log = list(read_log(Path(f"{request.model}.log.jsonl")))
        assert [line["batch"] for line in log] == list(range(1, len(log) + 1))
        assert len(list(read_log(Path(f"{request.model}.quarantine.jsonl")))) == 4
        assert invoke("log", link).stdout == invoke("log", request.model).stdout

    def test_a_full_disk_leaves_the_last_checkpoint(self, tmp_path):
        """The limit on the size of files is what a full disk is to a writer."""
        request = learned(tmp_path, "mixture from JSON lines")
        before = request.model.read_bytes()
        with open(tmp_path / "rows.jsonl", "a") as file:
            file.write('{"a": 1, "b": 2, "c": 3, "d": 4}\n' * 5)
        code = (
            "import resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN); "
            f"resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) // 2},) * 2); "
            "from everlearn.cli.main import app; app()"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "learn", request.model, tmp_path / "rows.jsonl"],
            env=environment(),  # kernels are in the cache now, which the limit would hit as well
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == FAILED, done.stderr
        assert "File too large; the last checkpoint is intact" in done.stderr
        assert request.model.read_bytes() == before


class TestSummary:
    def test_it_says_what_was_learned_and_whether_anything_was_new(self, tmp_path, invoke):
        command = ["learn", tmp_path / "m.evl", json_rows(tmp_path)]
        first = invoke(*command, "--kind", "mixture", "--columns", "a,b").stderr
        assert "m.evl: 238 new records (238 in all), 2 bad ones set aside in" in first
        assert "m.evl.quarantine.jsonl" in first
        again = invoke(*command).stderr
        assert "m.evl: 0 new records (238 in all)." in again
        with open(tmp_path / "rows.jsonl", "a") as file:
            file.write('{"a": 1, "b": 2}\n')
        assert "m.evl: 1 new record (239 in all)." in invoke(*command).stderr

    def test_errors_name_options_as_they_are_typed(self, tmp_path, invoke):
        (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "classifier")
        assert result.exit_code == USAGE
        assert "found none. Choose the field with --label" in result.stderr


class TestQuiet:
    @pytest.mark.parametrize("quiet", [False, True])
    def test_quiet_silences_warnings(self, tmp_path, quiet, capsys):
        path = tmp_path / "rows.jsonl"
        path.write_text("[1, 2]\n" * 20 + "[1, ")
        request = LearnRequest(
            tmp_path / "m.evl", (str(path),), {"kind": "mixture"}, {}, Schedule()
        )
        handler = logging.StreamHandler()
        logging.getLogger("everlearn").addHandler(handler)
        try:
            assert learn_in_terminal(request, quiet=quiet) == 0
        finally:
            logging.getLogger("everlearn").removeHandler(handler)
        assert ("is not finished" in capsys.readouterr().err) != quiet


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["rows.jsonl"], USAGE, "add --kind mixture, clusters, topics"),
            (["none.csv", "--kind", "mixture"], USAGE, "there is no file or folder"),
            (["rows.jsonl", "--kind", "mixture", "--set", "foo=1"], USAGE, "no parameter 'foo'"),
            (["rows.jsonl", "--kind", "mixture", "--set", "family=round"], USAGE, "one of"),
            (["rows.jsonl", "--kind", "mixture", "--set", "family"], USAGE, "NAME=VALUE"),
            (["rows.jsonl", "--kind", "mixture", "--every", "soon"], USAGE, "--every must be"),
            (["rows.jsonl", "--kind", "mixture", "--every", "0.5"], USAGE, "whole number"),
            (["rows.jsonl", "--kind", "classifier", "-s", "n_topics=4"], USAGE, "no parameter"),
            (
                ["rows.jsonl", "--kind", "mixture", "--columns", "a,q"],
                USAGE,
                "none of 240 new records",
            ),
            (["rows.jsonl", "--kind", "mixture", "--strict"], BAD_RECORD, "rows.jsonl', place"),
            (["rows.jsonl", "--kind", "topics"], USAGE, "no text in the field 'text'"),
            (["rows.jsonl", "--kind", "mixture", "--memory", "a lot"], USAGE, "memory_budget"),
            (["-", "--kind", "classifier"], USAGE, "--classes"),
            (
                ["rows.jsonl", "--kind", "mixture", "--seed", "1", "-s", "random_state=2"],
                USAGE,
                "--seed and --set random_state are the same",
            ),
            (
                ["rows.jsonl", "--kind", "mixture", "--memory", "1GB", "-s", "memory_budget=1GB"],
                USAGE,
                "--memory and --set memory_budget",
            ),
            (
                ["rows.jsonl", "--kind", "mixture", "--engine", "serial", "-s", "engine=threads"],
                USAGE,
                "--engine and --set engine",
            ),
            (
                ["rows.jsonl", "--kind", "mixture", "--classes", "a,b"],
                USAGE,
                "--classes does not apply to kind 'mixture'",
            ),
            (["rows.jsonl", "--kind", "mixture", "--text", "a"], USAGE, "not learn from texts"),
            (
                ["rows.jsonl", "--kind", "topics", "--columns", "a"],
                USAGE,
                "--columns does not apply",
            ),
            (
                ["rows.jsonl", "--kind", "topics", "--decimal", ","],
                USAGE,
                "--decimal does not apply",
            ),
            (["rows.jsonl", "--kind", "topics", "--label", "a"], USAGE, "--label does not apply"),
            (
                ["rows.jsonl", "--kind", "topics", "--image-side", "9"],
                USAGE,
                "--image-side does not",
            ),
            (
                ["rows.jsonl", "--kind", "topics", "--memory", "1GB"],
                USAGE,
                "no parameter 'memory_budget', which is for the kinds mixture, clusters, clumped",
            ),
        ],
    )
    def test_wrong_usage_is_an_error_and_leaves_no_model(
        self, invoke, tmp_path, monkeypatch, arguments, code, words
    ):
        monkeypatch.chdir(tmp_path)
        json_rows(tmp_path)
        result = invoke("learn", "m.evl", *arguments)
        assert result.exit_code == code, result.output
        assert words in result.stderr
        assert not (tmp_path / "m.evl").exists()
        assert os.listdir(tmp_path) == ["rows.jsonl"]

    def test_a_damaged_model_is_named(self, invoke, tmp_path):
        (tmp_path / "m.evl").write_bytes(b"nonsense")
        for command in ("show", "log", "predict", "learn"):
            sources = [] if command in ("show", "log") else [json_rows(tmp_path)]
            result = invoke(command, tmp_path / "m.evl", *sources)
            assert result.exit_code == BAD_MODEL
            assert "m.evl' is not an everlearn model" in result.stderr

    def test_a_model_that_no_stream_made_cannot_go_on(self, tmp_path):
        from everlearn.mixture.estimator import DPMixture

        DPMixture().fit(np.eye(4)).save(tmp_path / "m.evl")
        with pytest.raises(CheckpointError, match="everlearn learn"):
            Session.load(tmp_path / "m.evl")

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (["--kind", "topics"], "--kind was 'mixture'"),
            (["--kind", "mixture", "--batch", "7"], "--batch was 20"),
            (["--columns", "a,b"], "--columns was"),
            (["--seed", "4"], "the seed (random_state) was 3"),
        ],
    )
    def test_a_model_is_read_as_it_was_begun(self, invoke, tmp_path, change, words):
        request = learned(tmp_path, "mixture from JSON lines")
        result = invoke("learn", request.model, tmp_path / "rows.jsonl", *change)
        assert result.exit_code == USAGE
        assert words in result.stderr
