"""Every example runs from top to bottom and writes its page."""

import os
import subprocess
import sys

import pytest

from conftest import REPOSITORY

EXAMPLES = sorted((REPOSITORY / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_and_writes_a_page(script, tmp_path):
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    page = tmp_path / done.stdout.splitlines()[-1]
    assert page.read_text("utf-8").startswith("<!DOCTYPE html>")
