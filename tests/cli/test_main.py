"""The command line: what it prints, and how it ends."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import everlearn

SRC = Path(__file__).resolve().parents[2] / "src"


def plain(text):
    """One line, without boxes: messages may be wrapped anywhere."""
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", text).split())


def test_version(invoke):
    result = invoke("--version")
    assert result.exit_code == 0
    assert result.stdout == f"everlearn {everlearn.__version__}\n"


COMMANDS = ("learn", "show", "predict", "report", "log", "diff", "audit", "demo", "warmup")


@pytest.mark.parametrize("flag", ["--help", "-h"])
@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_help_has_an_example_and_the_exit_codes(invoke, command, flag):
    result = invoke(*filter(None, [command, flag]))
    assert result.exit_code == 0
    text = plain(result.stdout)
    assert re.search(f"Examples?: everlearn {command or 'learn'}", text)
    assert "everlearn demo" in text or command not in (None, "demo")
    assert "Exit codes: 0 done; 1 failed, such as" in text
    assert "143 stopped by Ctrl-C" in text


def test_help_of_the_demo_names_options_and_defaults(invoke):
    text = plain(invoke("demo", "--help").stdout)
    for words in ("--output", "everlearn-demo", "--seed", "--quiet"):
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
    assert not loaded & {"numba", "numpy", "scipy", "sklearn"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--seed", "some"), "'--seed'"),
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
