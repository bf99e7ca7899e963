"""The command line: what it prints, and how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

import everlearn
from everlearn.attic import app_streaming as streaming
from everlearn.cli import demo as demo_module
from everlearn.cli import options
from everlearn.io import lines
from everlearn.report import mixture as report
from everlearn.stream.kinds import KINDS

SRC = Path(__file__).resolve().parents[2] / "src"


def plain(text):
    """One line, without boxes: messages may be wrapped anywhere."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_version(invoke):
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"everlearn {everlearn.__version__}\n"


def test_options_and_their_meaning_agree():
    """Options are spelt out once more, so that help needs no heavy import."""
    assert get_args(options.KindName) == tuple(KINDS)
    assert options.LineFormat == lines.LineFormat


COMMANDS = ("learn", "show", "predict", "report", "log", "diff", "audit", "demo")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_has_an_example_and_the_exit_codes(invoke, command, flag):
    result = invoke(*filter(None, [command, flag]))
    assert result.exit_code == 0
    text = plain(result.stdout)
    assert re.search(f"Examples?: everlearn {command or 'learn'}", text)
    assert "everlearn demo" in text or command not in (None, "demo")
    assert "Exit codes: 0 done; 1 failed while running" in text
    assert "143 interrupted" in text


def test_help_of_the_demo_names_options_and_defaults(invoke):
    text = plain(invoke("demo", "--help").stdout)
    for words in ("--output", "everlearn-report.html", "--seed", "--batch", "--quiet"):
        assert words in text


def test_help_is_quick_to_load():
    """Nothing numerical is imported before a command runs."""
    code = "import everlearn.cli.main, json, sys; print(json.dumps(sorted(sys.modules)))"
    path = os.pathsep.join(filter(None, [str(SRC), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & {"numba", "numpy", "plotly", "scipy", "sklearn"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--batch", "0"), "'--batch'"),
        (("demo", "--batch", "1001"), "'--batch'"),
        (("demo", "--batch", "some"), "'--batch'"),
        (("demo", "--seed", "-1"), "'--seed'"),
        (("demo", "--colour"), "--colour"),
        (("dance",), "dance"),
    ],
)
def test_wrong_usage(invoke, arguments, words):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in plain(result.stderr)
    assert result.stdout == ""


def test_output_in_a_missing_folder(invoke, tmp_path):
    result = invoke("demo", "--output", tmp_path / "missing" / "report.html")
    assert result.exit_code == 2
    assert "'--output'" in plain(result.stderr)
    assert "there is no folder" in plain(result.stderr)
    assert not (tmp_path / "missing").exists()


def test_output_that_is_a_folder(invoke, tmp_path):
    result = invoke("demo", "--output", tmp_path)
    assert result.exit_code == 2
    assert "is a folder; name a file in it" in plain(result.stderr)


def test_output_that_may_not_be_written(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    result = invoke("demo", "--output", tmp_path / "report.html")
    assert result.exit_code == 2
    assert "cannot be written to" in plain(result.stderr)


def test_without_plotly_the_way_out_is_named(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr(demo_module, "find_spec", lambda name: None)
    result = invoke("demo", "--output", tmp_path / "report.html")
    assert result.exit_code == 1
    assert "pip install 'everlearn[report]'" in result.stderr
    assert "Traceback" not in result.output


def test_failure_while_writing(invoke, tmp_path, monkeypatch):
    def full(study, path, more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "write_report", full)
    result = invoke("demo", "--quiet", "--output", tmp_path / "report.html")
    assert result.exit_code == 1
    assert "could not be written" in result.stderr
    assert "No space left on device" in result.stderr
    assert result.stdout == ""


def test_a_resumed_model_that_differs_is_a_failure(invoke, tmp_path, monkeypatch):
    monkeypatch.setattr(streaming, "identical", lambda one, other: False)
    output = tmp_path / "report.html"
    result = invoke("demo", "--output", output)
    assert result.exit_code == 1
    assert "different" in result.stdout
    assert "differs from one never stopped" in result.stderr
    assert not output.exists()


def test_interrupted(invoke, tmp_path, monkeypatch):
    def interrupt(*arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(streaming, "learn_stream", interrupt)
    result = invoke("demo", "--output", tmp_path / "report.html")
    assert result.exit_code == 130


def without_times(path):
    page = path.read_text("utf-8")
    return re.sub(r"<dt>learning time</dt><dd>[^<]*</dd>", "", page)


def test_quiet_prints_the_path_only_and_the_seed_decides(invoke, tmp_path, demo_report):
    output = tmp_path / "report.html"
    result = invoke("demo", "--quiet", "--output", output)
    assert result.exit_code == 0
    assert result.stdout == f"{output}\n"
    assert result.stderr == ""
    assert without_times(output) == without_times(demo_report)


def test_demo_says_what_it_found(invoke, tmp_path):
    output = tmp_path / "report.html"
    result = invoke("demo", "--seed", 0, "--output", output)
    assert result.exit_code == 0
    assert result.stdout.splitlines()[-1] == str(output)
    text = plain(result.stdout)
    for words in ("mostly digit", "components (K)", "bound", "memory held", "time", "NMI, AMI"):
        assert words in text
    assert re.search(r"births \d+ \d+ [\d,.]+ merges .* deletes", text)
    assert re.search(r"Stopped and resumed at 900 rows \(checkpoint of .*\): identical\.", text)
    (nmi,) = re.findall(r"NMI, AMI (0\.\d+)", text)
    (k,) = re.findall(r"components \(K\) (\d+)", text)
    assert float(nmi) > 0.7
    assert 8 <= int(k) <= 30
    assert "1,797 of 1,797 rows" in plain(result.stderr)
