"""The pages that answer questions run from top to bottom, as a reader would run them."""

import os
import re
import subprocess
import sys

import pytest

from conftest import REPOSITORY

PAGES = sorted([*(REPOSITORY / "docs" / "ask").glob("*.md"), REPOSITORY / "README.md"])
SOURCES = str(REPOSITORY / "src")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\n\Z")
"""A block is left out if the line before it says why; no page needs that today."""


def script_of(text):
    """The blocks of a page as one script, in which each line has the number it has on the page."""
    code, end = "", 0
    for block in BLOCK.finditer(text):
        if NOT_RUN.search(text[: block.start()]):
            continue
        code += "\n" * text.count("\n", end, block.start(1)) + block.group(1)
        end = block.end(1)
    return code


def test_lines_are_numbered_as_on_the_page():
    skipped = "<!-- not run: slow -->\n```python\ny\n```\n"
    text = f"a\n```python\nx = 1\n```\nb\n{skipped}```python\nx += 1\n```\n"
    lines = script_of(text).split("\n")
    assert [(i, line) for i, line in enumerate(lines, 1) if line] == [(3, "x = 1"), (11, "x += 1")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page, tmp_path):
    code = script_of(page.read_text("utf-8"))
    if not code:
        pytest.skip("a page without Python")
    script = tmp_path / f"{page.stem}_page.py"
    script.write_text(code, "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error:::__main__", str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        check=False,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_the_readme_prints_what_it_says(tmp_path):
    """A block of text after a block of code is what the code prints."""
    pairs = re.findall(
        r"^```python\n(.*?)^```\n\n```text\n(.*?)^```$",
        (REPOSITORY / "README.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    assert len(pairs) >= 2
    for code, wanted in pairs:
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": SOURCES},
            capture_output=True,
            check=True,
            text=True,
            timeout=240,
        )
        assert done.stdout == wanted
