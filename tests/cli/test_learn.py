"""Learning from a stream: what is learned, what is set aside, how it ends."""

import errno
import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from typer.testing import CliRunner

from everlearn.cli.exits import BAD_MODEL, BAD_RECORD, FAILED, LOCKED, USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.cli.main import app
from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.io.lock import only_writer
from everlearn.io.log import read_log
from everlearn.stream.session import Session
from support.stream_cases import CASES, FILES, environment, json_rows, json_texts, learned

HERE = Path(__file__).parents[1] / "support"
KILLS = 200


class TestLearning:
    @pytest.mark.parametrize("name", FILES)
    def test_running_again_learns_nothing_twice(self, tmp_path, name):
        request = learned(tmp_path, name)
        once = request.model.read_bytes()
        assert learn_in_terminal(request, quiet=True) == 0
        assert request.model.read_bytes() == once

    @pytest.mark.parametrize("name", FILES)
    def test_the_log_has_a_line_for_each_batch(self, tmp_path, name):
        request = learned(tmp_path, name)
        session = Session.load(request.model)
        log = list(read_log(Path(f"{request.model}.log.jsonl")))
        assert session.ledger.batches == len(log) == log[-1]["batch"]
        assert session.ledger.records == log[-1]["records"]

    def test_a_mixture_equals_one_learned_by_hand(self, tmp_path):
        from everlearn.mixture.estimator import DPMixture

        request = learned(tmp_path, "mixture from an array")
        X = np.load(tmp_path / "rows.npy")
        model = DPMixture(engine="serial", random_state=3)
        for i in range(0, len(X), 20):
            model.partial_fit(X[i : i + 20])
        by_hand, by_tool = model.to_checkpoint(), load(request.model).to_checkpoint()
        assert by_hand[0] == by_tool[0]
        for name, array in by_hand[1].items():
            assert array.tobytes() == by_tool[1][name].tobytes()

    def test_what_is_added_to_a_file_is_learned(self, tmp_path):
        request = learned(tmp_path, "mixture from JSON lines")
        path = tmp_path / "rows.jsonl"
        with open(path, "a") as file:
            file.write('{"a": 1, "b": 2, "c": 3, "d": 4}\n' * 5)
        learn_in_terminal(request, quiet=True)
        assert Session.load(request.model).ledger.records == 240 - 3 + 5

    def test_a_file_is_learned_once_however_it_is_called(self, tmp_path, invoke, monkeypatch):
        path = json_rows(tmp_path)
        (tmp_path / "link.jsonl").symlink_to(path)
        model = tmp_path / "m.evl"
        options = ["--columns", "a,b,c,d", "-q"]
        monkeypatch.chdir(tmp_path)
        assert invoke("learn", model, path.name, "--kind", "mixture", *options).exit_code == 0
        records = Session.load(model).ledger.records
        assert records > 0
        (tmp_path / "below").mkdir()
        monkeypatch.chdir(tmp_path / "below")
        for name in (path, f"../{path.name}", "../link.jsonl"):
            assert invoke("learn", model, name, "-q").exit_code == 0
        assert Session.load(model).ledger.records == records

    def test_bad_records_are_set_aside_with_the_reason(self, tmp_path):
        request = learned(tmp_path, "mixture from JSON lines")
        lines = list(read_log(Path(f"{request.model}.quarantine.jsonl")))
        reasons = [line["reason"] for line in lines]
        assert reasons[0].startswith("not JSON")
        assert reasons[1] == "the field 'c' is missing"
        assert "infinity" in reasons[2]
        assert lines[0]["record"] == "not JSON"
        assert lines[0]["batch"] == 1

    def test_lines_that_are_set_aside_are_kept_as_they_were(self, tmp_path):
        request = learned(tmp_path, "mixture from JSON lines")
        data = Path(request.sources[0]).read_bytes()
        for line in read_log(Path(f"{request.model}.quarantine.jsonl")):
            assert data[line["start"] : line["place"]].decode() == line["record"] + "\n"
            assert "cut" not in line
        with open(request.sources[0], "a") as file:
            file.write('{"a": ' + "x" * 100_000 + "}\n")
        assert learn_in_terminal(request, quiet=True) == 0
        *_, last = read_log(Path(f"{request.model}.quarantine.jsonl"))
        assert len(last["record"]) == 65_536
        assert last["cut"]

    def test_numbers_that_are_none_are_set_aside(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("a,b\n" + "1,2\n3,1\n" * 10 + "inf,1\nfour,1\n,1\n")
        model = tmp_path / "m.evl"
        arguments = ["learn", model, path, "--kind", "mixture", "--set", "family=full", "-q"]
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        reasons = [line["reason"] for line in read_log(Path(f"{model}.quarantine.jsonl"))]
        assert reasons == ["'a' is infinite", "'a' is not a number: 'four'", "'a' is missing"]

    def test_unknown_labels_and_images_that_do_not_decode(self, tmp_path):
        request = learned(tmp_path, "clumped from images")
        (line,) = read_log(Path(f"{request.model}.quarantine.jsonl"))
        assert "image cannot be read" in line["reason"]
        path = json_texts(tmp_path)
        with open(path, "a") as file:
            file.write('{"text": "sea", "label": "new"}\n{"text": "sea"}\n')
        model = tmp_path / "c.evl"
        arguments = ["learn", model, path, "--kind", "classifier", "--classes", "t0,t1,t2,t3", "-q"]
        result = CliRunner().invoke(app, [str(a) for a in arguments])
        assert result.exit_code == 0, result.output
        reasons = [line["reason"] for line in read_log(Path(f"{model}.quarantine.jsonl"))]
        assert reasons == ["unknown label 'new'", "no label in the field 'label'"]

    def test_a_record_that_only_the_model_refuses_is_found(self, tmp_path):
        path = tmp_path / "rows.jsonl"
        rows = [{"x": float(i % 7), "y": float(i % 5)} for i in range(40)]
        rows[17]["x"] = 1e300
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = CliRunner().invoke(
            app, ["learn", str(tmp_path / "m.evl"), str(path), "--kind", "mixture", "-q"]
        )
        assert result.exit_code == 0, result.output
        (line,) = read_log(tmp_path / "m.evl.quarantine.jsonl")
        assert "1e+300" in line["record"]
        assert load(tmp_path / "m.evl").n_samples_seen_ == 39

    def test_a_late_record_that_the_model_refuses_does_not_end_it(self, tmp_path, invoke):
        path = tmp_path / "rows.jsonl"
        rows = [{"x": float(i % 7), "y": float(i % 5)} for i in range(20)] + [{"x": 1e300, "y": 0}]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        model = tmp_path / "m.evl"
        result = invoke("learn", model, path, "--kind", "mixture", "--batch", 20, "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(model).ledger.bad == 1
        answers = invoke("predict", model, path).stdout.splitlines()
        assert "error" in json.loads(answers[-1])
        assert len(answers) == 21

    def test_an_error_late_in_the_stream_keeps_what_was_learned(self, tmp_path, invoke):
        good = json_rows(tmp_path)
        broken = tmp_path / "z.jsonl.gz"
        broken.write_bytes(gzip.compress(good.read_bytes() * 50)[:-100])
        model = tmp_path / "m.evl"
        options = ["--kind", "mixture", "--columns", "a,b,c,d", "-q"]
        result = invoke("learn", model, good, broken, *options)
        assert result.exit_code == USAGE
        assert "cannot be unpacked" in result.stderr
        assert Session.load(model).ledger.records > 200

    def test_what_is_no_record_is_told_and_does_not_say_what_records_are(self, tmp_path, invoke):
        path = tmp_path / "rows.jsonl"
        path.write_text('5\nnull\n"text"\n' + "[1, 2]\n[2, 4]\n" * 20)
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "mixture", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").ledger.records == 40
        reasons = [line["reason"] for line in read_log(tmp_path / "m.evl.quarantine.jsonl")]
        expected = "expected a list of numbers or an object of fields, got "
        assert reasons == [expected + what for what in ("5", "None", "'text'")]

    def test_texts_are_no_columns(self, tmp_path, invoke):
        path = tmp_path / "rows.jsonl"
        path.write_text('{"text": "a b", "tokens": ["a"], "x": 1, "y": 2}\n' * 20)
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "mixture", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").layout.columns == ("x", "y")

    @pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.jsonl"])
    def test_rows_are_no_images(self, tmp_path, invoke, name):
        path = tmp_path / name
        if name == "a.npy":
            np.save(path, np.eye(5))
        else:
            path.write_text("1,2,p\n3,4,q\n" if name == "a.csv" else "[1, 2]\n[3, 4]\n")
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "clumped")
        assert result.exit_code == USAGE
        assert "'points'" in result.stderr or '"points"' in result.stderr
        assert not (tmp_path / "m.evl").exists()

    def test_points_that_are_none_are_set_aside(self, tmp_path, invoke):
        path = tmp_path / "points.jsonl"
        documents = [[[float(i + j), float(j)] for j in range(6)] for i in range(5)]
        lines = [json.dumps({"points": points}) for points in documents] + ['{"points": {"x": 1}}']
        path.write_text("\n".join(lines) + "\n")
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "clumped", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").ledger.bad == 1


class TestStopping:
    @pytest.mark.parametrize("part", range(2))
    def test_killed_at_any_moment_the_bytes_are_the_same(self, tmp_path, part):
        names = list(CASES)[part::2]
        kills = -(-KILLS // len(CASES))
        done = subprocess.run(
            [sys.executable, HERE / "killing.py", tmp_path / "k", str(kills), str(part), *names],
            env=environment(),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        results = json.loads(done.stdout)
        assert list(results) == names
        assert all(same for _, same in results.values()), results
        assert sum(hits for hits, _ in results.values()) >= kills * len(names)

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


def test_what_killed_writers_left_is_removed_at_the_next_start(tmp_path, monkeypatch):
    request = learned(tmp_path, "mixture from an array")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path: None)
        patch.setattr(os, "replace", lambda *paths: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Session.load(request.model).save(request.model)
    assert len(list(tmp_path.glob(".*.evl.tmp"))) == 1
    assert learn_in_terminal(request, quiet=True) == 0
    assert not list(tmp_path.glob(".*.evl.tmp"))


class TestErrors:
    @pytest.mark.parametrize(
        ("arguments", "code", "words"),
        [
            (["rows.jsonl"], USAGE, "Begin one with --kind"),
            (["none.csv", "--kind", "mixture"], USAGE, "there is no file or folder"),
            (["rows.jsonl", "--kind", "mixture", "--set", "foo=1"], USAGE, "no parameter 'foo'"),
            (["rows.jsonl", "--kind", "mixture", "--set", "family=round"], USAGE, "one of"),
            (["rows.jsonl", "--kind", "mixture", "--set", "family"], USAGE, "NAME=VALUE"),
            (["rows.jsonl", "--kind", "mixture", "--every", "soon"], USAGE, "--every must be"),
            (["rows.jsonl", "--kind", "mixture", "--every", "0.5"], USAGE, "whole number"),
            (["rows.jsonl", "--kind", "classifier", "-s", "n_topics=4"], USAGE, "no parameter"),
            (["rows.jsonl", "--kind", "mixture", "--columns", "a,q"], USAGE, "none of 240 records"),
            (["rows.jsonl", "--kind", "mixture", "--strict"], BAD_RECORD, "rows.jsonl', place"),
            (["rows.jsonl", "--kind", "topics"], USAGE, "none of 240 records"),
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
            (["rows.jsonl", "--kind", "topics", "--label", "a"], USAGE, "--label does not apply"),
            (
                ["rows.jsonl", "--kind", "topics", "--image-side", "9"],
                USAGE,
                "--image-side does not",
            ),
            (
                ["rows.jsonl", "--kind", "topics", "--memory", "1GB"],
                USAGE,
                "TopicModel has no parameter 'memory_budget', which is for the kinds mixture, clumped",
            ),
        ],
    )
    def test_wrong_use_is_told_and_leaves_no_model(
        self, invoke, tmp_path, monkeypatch, arguments, code, words
    ):
        monkeypatch.chdir(tmp_path)
        json_rows(tmp_path)
        result = invoke("learn", "m.evl", *arguments)
        assert result.exit_code == code, result.output
        assert words in result.stderr
        assert not (tmp_path / "m.evl").exists()
        if not (tmp_path / "m.evl.log.jsonl").exists():
            assert os.listdir(tmp_path) == ["rows.jsonl"]

    def test_a_damaged_model_is_named(self, invoke, tmp_path):
        (tmp_path / "m.evl").write_bytes(b"nonsense")
        for command in ("show", "log", "predict", "learn"):
            sources = [] if command in ("show", "log") else [json_rows(tmp_path)]
            result = invoke(command, tmp_path / "m.evl", *sources)
            assert result.exit_code == BAD_MODEL
            assert "cannot read checkpoint" in result.stderr

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
