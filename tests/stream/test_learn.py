"""Learning from a stream: what is learned, what is set aside, and runs that are killed."""

import ast
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import everlearn
from everlearn.cli.exits import USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.cli.main import app
from everlearn.errors import UsageError
from everlearn.estimator.saving import load
from everlearn.io.log import read_log
from everlearn.mixture.estimator import DPMixture
from everlearn.stream.learn import LearnRequest, Schedule, learn_stream
from everlearn.stream.session import Session
from support.stream_cases import CASES, FILES, csv_rows, environment, json_rows, json_texts, learned
from support.stream_rows import picky

HERE = Path(__file__).parents[1] / "support"

KILLS = 200


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


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

    def test_lines_appended_to_a_file_are_learned(self, tmp_path):
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


class TestBadRecords:
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

    def test_points_that_are_none_are_set_aside(self, tmp_path, invoke):
        path = tmp_path / "points.jsonl"
        documents = [[[float(i + j), float(j)] for j in range(6)] for i in range(5)]
        lines = [json.dumps({"points": points}) for points in documents] + ['{"points": {"x": 1}}']
        path.write_text("\n".join(lines) + "\n")
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "clumped", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").ledger.bad == 1

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

    def test_a_field_that_no_record_has_is_named_as_the_reason(self, tmp_path, invoke):
        result = invoke("learn", tmp_path / "m.evl", json_texts(tmp_path), "-q",
                        "--kind", "topics", "--text", "body")  # fmt: skip
        assert result.exit_code == USAGE
        assert "no text in the field 'body': add --text text. Their fields are" in result.stderr


class TestSources:
    @pytest.mark.parametrize("form", ["csv", "parquet"])
    def test_columns_of_one_name_are_refused(self, tmp_path, invoke, form):
        path = tmp_path / f"rows.{form}"
        if form == "csv":
            path.write_text("a,a,b\n1,2,3\n4,5,6\n")
        else:
            arrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
            columns = [arrow.array([1.0, 2.0])] * 3
            parquet.write_table(arrow.Table.from_arrays(columns, names=["a", "a", "b"]), path)
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "mixture")
        assert result.exit_code == USAGE
        assert "different names, got 'a' twice" in result.stderr
        assert not (tmp_path / "m.evl").exists()

    @pytest.mark.parametrize("kind", ["mixture", "classifier"])
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"a,a,label\n1,2,p\n", "'a' twice"),
            (b"\xff,\xfe\n1,2\n", "not UTF-8: add --encoding latin-1"),
            (b"a,c,label\n1,2,p\n", "columns ['b'] of the model are missing"),
        ],
    )
    def test_a_file_of_a_folder_that_cannot_be_read_is_named(
        self, tmp_path, invoke, content, words, kind
    ):
        folder = tmp_path / "tables"
        folder.mkdir()
        (folder / "1.csv").write_text("a,b,label\n" + "1,2,p\n3,4,q\n" * 10)
        (folder / "2.csv").write_bytes(content)
        result = invoke("learn", tmp_path / "m.evl", folder, "--kind", kind)
        assert result.exit_code == USAGE
        assert words in result.stderr
        assert f"(in {str(folder / '2.csv')!r})" in result.stderr


class TestKilled:
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

    def test_a_model_killed_before_its_first_checkpoint_in_its_own_folder(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        shutil.copy(json_rows(tmp_path), folder / "rows.jsonl")
        layout = {"kind": "mixture", "batch": 20, "columns": tuple("abcd")}
        model = folder / "m.evl"
        request = LearnRequest(model, (str(folder),), layout, {"random_state": 3}, Schedule())
        assert learn_in_terminal(request, quiet=True) == 0
        whole, log = model.read_bytes(), Path(f"{model}.log.jsonl").read_bytes()
        model.unlink()  # the log and the lock are what a killed run leaves
        assert log
        assert Path(f"{model}.lock").exists()
        assert learn_in_terminal(request, quiet=True) == 0
        assert model.read_bytes() == whole


def test_leftovers_of_killed_writers_are_removed_at_the_next_start(tmp_path, monkeypatch):
    request = learned(tmp_path, "mixture from an array")
    with monkeypatch.context() as patch:
        patch.setattr(os, "unlink", lambda path: None)
        patch.setattr(os, "replace", lambda *paths: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            Session.load(request.model).save(request.model)
    assert len(list(tmp_path.glob(".*.evl.tmp"))) == 1
    assert learn_in_terminal(request, quiet=True) == 0
    assert not list(tmp_path.glob(".*.evl.tmp"))


@linux_only
def test_memory_is_flat_while_a_pipe_goes_on(tmp_path):
    """What ten gigabytes do in `make bench ARGS=pipe`, with some thirty megabytes."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 5, (8, 20))[rng.integers(8, size=5000)] + rng.normal(size=(5000, 20))
    block = "".join(f"{json.dumps(row)}\n" for row in rows.tolist()).encode()
    command = "from everlearn.cli.main import app; app()"
    with subprocess.Popen(
        [sys.executable, "-c", command, "learn", str(tmp_path / "m.evl"), "-", "--kind", "ppca",
         "--score-every", "0", "--json"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(),
    ) as process:  # fmt: skip
        learned_records = [0]

        def listen():
            for line in process.stdout:
                learned_records[0] = json.loads(line)["records"]

        listener = threading.Thread(target=listen)
        listener.start()
        resident = []
        for n_blocks in (4, 16):
            for _ in range(n_blocks - len(resident) * 4):
                process.stdin.write(block)
            process.stdin.flush()
            while learned_records[0] < (n_blocks - 1) * 5000:
                assert process.poll() is None
                time.sleep(0.01)
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
            resident.append(pages * os.sysconf("SC_PAGE_SIZE") / 1e6)
        process.stdin.close()
        listener.join()
    assert process.returncode == 0
    assert resident[1] - resident[0] < 12.0


class TestWithoutATerminal:
    """A service runs the same loop, in any thread, and gets lines and exceptions."""

    def test_a_thread_learns_stops_and_goes_on(self, tmp_path, capsys):
        path = csv_rows(tmp_path)
        options = {"kind": "mixture", "batch": 20, "columns": tuple("abcd")}
        request = LearnRequest(tmp_path / "m.evl", (str(path),), options)
        stop, lines = threading.Event(), []

        def stop_after_two(line):
            lines.append(line)
            if len(lines) == 2:
                stop.set()

        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(learn_stream, request, stop=stop, on_batch=stop_after_two).result()
            assert {number: signal.getsignal(number) for number in handlers} == handlers
            whole = pool.submit(learn_stream, request, on_batch=lines.append).result()
        assert first.ledger.batches == 2
        assert whole.ledger.records == 240
        assert [line["batch"] for line in lines] == list(range(1, 13))
        captured = capsys.readouterr()
        assert (captured.out, captured.err) == ("", "")

    def test_errors_are_exceptions(self, tmp_path):
        request = LearnRequest(tmp_path / "m.evl", (str(json_rows(tmp_path)),), {"kind": "cluster"})
        with pytest.raises(UsageError, match=r"unknown kind 'cluster'; did you mean clusters\?"):
            learn_stream(request)
        with pytest.raises(UsageError, match="no folder"):
            learn_stream(replace(request, model=tmp_path / "none" / "m.evl"))

    def test_a_path_may_be_text_and_one_source_may_not(self, tmp_path):
        path = str(csv_rows(tmp_path))
        request = LearnRequest(str(tmp_path / "m.evl"), [path], {"kind": "mixture"})
        assert learn_stream(request).ledger.records == 240
        with pytest.raises(UsageError, match="must be a list of files or folders, got the text"):
            learn_stream(replace(request, sources=path))

    @pytest.mark.parametrize("package", ["stream", "io"])
    def test_nothing_prints_exits_or_handles_signals(self, package):
        for path in (Path(everlearn.__file__).parent / package).glob("*.py"):
            tree = ast.parse(path.read_text())
            names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
            names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
            imports = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
            imports |= {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
            roots = {name.partition(".")[0] for name in imports}
            assert not names & {"print", "exit", "_exit", "argv", "stdout", "stderr"}, path
            assert not roots & {"rich", "typer", "click", "signal", "argparse"}, path


def test_an_error_between_model_and_ledger_is_not_saved(tmp_path, monkeypatch):
    """The file of the next run is that of a run without the error."""
    options = {"kind": "mixture", "batch": 20, "columns": tuple("abcd")}
    request = LearnRequest(
        tmp_path / "m.evl", (str(json_rows(tmp_path)),), options, {"engine": "serial"},
        Schedule(every_batches=100, score_every=2),
    )  # fmt: skip
    n_calls, score = [0], DPMixture.score

    def failing(self, X):
        n_calls[0] += 1
        if n_calls[0] == 4:  # after the third batch is learned; two calls came before learning
            raise RuntimeError("broken")
        return score(self, X)

    with monkeypatch.context() as patch:
        patch.setattr(DPMixture, "score", failing)
        with pytest.raises(RuntimeError, match="broken"):
            learn_stream(request)
    assert not request.model.exists()
    again = learn_stream(request)
    assert again.ledger.records == again.model.n_samples_seen_ == 237
    whole = learn_stream(replace(request, model=tmp_path / "whole.evl"))
    assert whole.ledger.records == 237
    assert (tmp_path / "whole.evl").read_bytes() == request.model.read_bytes()


def test_a_first_good_batch_that_the_model_refuses_ends_with_the_reason(tmp_path, monkeypatch):
    """Also after a batch of bad records, when there is no model yet that could be saved."""
    monkeypatch.setattr(DPMixture, "partial_fit", picky(DPMixture.partial_fit, lambda X: True, 0))
    path = tmp_path / "rows.jsonl"
    path.write_text("oops\n" * 5 + "[1, 2]\n" * 5)
    request = LearnRequest(tmp_path / "m.evl", (str(path),), {"kind": "mixture", "batch": 5})
    with pytest.raises(UsageError, match="the model refuses all records: not these"):
        learn_stream(request)
    assert not request.model.exists()
