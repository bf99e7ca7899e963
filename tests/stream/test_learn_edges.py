"""Streams at their edges: names, folders, stops, pages and memory."""

import errno
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from everlearn.cli.exits import USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.io.log import read_log
from everlearn.report.page import save_page
from everlearn.stream import labels
from everlearn.stream.learn import LearnRequest, Schedule
from everlearn.stream.session import Session
from support.stream_cases import environment, image_folder, json_rows, json_texts, learned

TABLE = "a,b,label\n" + "".join(f"{i % 7},{i % 5},g{i % 2}\n" for i in range(40))
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


class TestSeeds:
    def test_the_same_command_goes_on(self, tmp_path, invoke):
        path = tmp_path / "rows.csv"
        path.write_text(TABLE)
        command = ["learn", tmp_path / "m.evl", path, "--kind", "ppca", "--columns", "a,b", "-q"]
        assert invoke(*command, "--seed", "3").exit_code == 0
        before = (tmp_path / "m.evl").read_bytes()
        assert invoke(*command, "--seed", "3").exit_code == 0
        assert (tmp_path / "m.evl").read_bytes() == before
        result = invoke(*command, "--seed", "4")
        assert result.exit_code == USAGE
        assert "(random_state) was 3" in result.stderr


class TestNames:
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

    def test_what_no_record_fits_is_told(self, tmp_path, invoke):
        result = invoke("learn", tmp_path / "m.evl", json_texts(tmp_path), "-q",
                        "--kind", "topics", "--text", "body")  # fmt: skip
        assert result.exit_code == USAGE
        assert "mostly because: no text in the field 'body'" in result.stderr


class TestFolders:
    def test_images_are_no_texts(self, tmp_path, invoke):
        folder = image_folder(tmp_path)
        result = invoke("learn", tmp_path / "m.evl", folder, "--kind", "topics")
        assert result.exit_code == USAGE
        assert "learns from texts, but the records are images" in result.stderr

    def test_texts_are_no_images(self, tmp_path, invoke):
        (tmp_path / "lines.txt").write_text("images/01.png\n" * 5)
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "lines.txt", "--kind", "clumped")
        assert result.exit_code == USAGE
        assert "no image and no list of points" in result.stderr

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

    def test_parts_of_a_path_are_columns(self, tmp_path, invoke):
        arrow, parquet = (pytest.importorskip(f"pyarrow{m}") for m in ("", ".parquet"))
        rng = np.random.default_rng(0)
        for year, kind in ((2025, "a"), (2026, "b%20c")):
            folder = tmp_path / "data" / f"year={year}" / f"label={kind}"
            folder.mkdir(parents=True)
            parquet.write_table(arrow.table({"x": rng.normal(size=30)}), folder / "part.parquet")
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "data", "--kind", "classifier")
        assert result.exit_code == 0, result.stderr
        layout = Session.load(tmp_path / "m.evl").layout
        assert layout.columns == ("x", "year")
        assert layout.classes == ("a", "b c")


class TestMessages:
    @pytest.mark.parametrize("kind", ["mixture", "classifier"])
    @pytest.mark.parametrize(
        ("content", "words"),
        [
            (b"a,a,label\n1,2,p\n", "'a' twice"),
            (b"\xff,\xfe\n1,2\n", "must name its columns"),
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

    @pytest.mark.parametrize("first", ["{}", "[]", '{"label": "p"}'])
    @pytest.mark.parametrize("kind", ["mixture", "classifier"])
    def test_a_first_record_with_nothing_in_it_is_set_aside(self, tmp_path, invoke, first, kind):
        rows = '{"a": 1, "b": 2, "label": "p"}\n{"a": 3, "b": 4, "label": "q"}\n' * 10
        (tmp_path / "a.jsonl").write_text(f"{first}\n{rows}")
        model = tmp_path / "m.evl"
        result = invoke("learn", model, tmp_path / "a.jsonl", "--kind", kind, "-q")
        assert result.exit_code == 0, result.stderr
        assert Session.load(model).layout.columns == ("a", "b")
        assert Session.load(model).ledger.records == 20
        (line,) = read_log(tmp_path / "m.evl.quarantine.jsonl")
        assert line["record"] == first

    def test_records_with_nothing_in_them_are_told_as_such(self, tmp_path, invoke):
        (tmp_path / "a.jsonl").write_text("{}\n" * 5)
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.jsonl", "--kind", "mixture")
        assert result.exit_code == USAGE
        assert "none of 5 records could be learned" in result.stderr
        assert "the record is empty" in result.stderr


class TestStops:
    def test_whoever_stops_listening_loses_no_line_of_the_log(self, tmp_path):
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

    def test_a_stop_while_labels_are_looked_for_ends_as_a_stop(self, tmp_path, monkeypatch, capsys):
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


class TestAudit:
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


class TestPages:
    def test_a_page_that_cannot_be_written_leaves_the_one_before(self, tmp_path, monkeypatch):
        path = tmp_path / "r.html"
        save_page("<p>before</p>", path)

        def full(descriptor):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            save_page("<p>after</p>", path)
        assert path.read_text() == "<p>before</p>"
        assert os.listdir(tmp_path) == ["r.html"]


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
