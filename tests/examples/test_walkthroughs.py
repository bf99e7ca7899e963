"""Every walk through the command line runs from top to bottom; the scripts check what they see."""

import os
import shutil
import subprocess
import sys

import pytest

from conftest import REPOSITORY

WALKS = sorted((REPOSITORY / "examples" / "walkthroughs").glob("*.sh"))
COMMAND = (
    f"#!/bin/sh\nPYTHONPATH={REPOSITORY / 'src'} exec {sys.executable} -c "
    '\'from everlearn.cli.main import app; app(prog_name="everlearn")\' "$@"\n'
)


@pytest.mark.skipif(shutil.which("sh") is None, reason="needs a POSIX shell")
@pytest.mark.parametrize("script", WALKS, ids=lambda script: script.stem)
def test_a_walk_runs_to_its_end(script, tmp_path):
    programs, folder = tmp_path / "programs", tmp_path / "data"
    programs.mkdir()
    folder.mkdir()
    (programs / "everlearn").write_text(COMMAND)
    (programs / "everlearn").chmod(0o755)
    done = subprocess.run(
        ["sh", str(script)],
        cwd=folder,
        env={**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "COLUMNS": "100"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_there_is_a_walk_for_each_user():
    assert [walk.stem for walk in WALKS] == ["log_analyst", "nightly_cron", "support_team"]
