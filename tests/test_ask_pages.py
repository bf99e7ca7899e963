"""The pages that answer questions run from top to bottom, as a reader would run them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from sklearn.base import BaseEstimator

import everlearn
import everlearn.images
from conftest import REPOSITORY

PAGES = sorted([*(REPOSITORY / "docs" / "ask").glob("*.md"), REPOSITORY / "README.md"])
SOURCES = str(REPOSITORY / "src")
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\n\Z")
"""A block is left out if the line before it says why; no page needs that today."""
PRINTED = re.compile(r"```\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
"""What a block prints stands below it."""
MARK = "end of the block of line"


def script_of(text):
    """The blocks of a page as one script, in which each line has the number it has on the page.

    The line of a closing fence prints a mark, so that it is known what each block printed.
    """
    code, end = "", 0
    for block in BLOCK.finditer(text):
        if NOT_RUN.search(text[: block.start()]):
            continue
        line = text.count("\n", 0, block.end(1)) + 1
        code += "\n" * text.count("\n", end, block.start(1)) + block.group(1)
        code += f"print('{MARK}', {line})"
        end = block.end(1)
    return code


def outputs_on(text):
    """What the page says that a block prints, by the line of the block's closing fence."""
    found = {}
    for block in BLOCK.finditer(text):
        if printed := PRINTED.match(text, block.end(1)):
            found[text.count("\n", 0, block.end(1)) + 1] = printed.group(1)
    return found


def outputs_of(stdout):
    """What each block printed, by the line of its closing fence."""
    parts = re.split(rf"^{MARK} (\d+)\n", stdout, flags=re.MULTILINE)
    return {int(line): printed for printed, line in zip(parts[::2], parts[1::2], strict=False)}


def test_lines_are_numbered_as_on_the_page():
    skipped = "<!-- not run: slow -->\n```python\ny\n```\n"
    text = f"a\n```python\nx = 1\n```\nb\n{skipped}```python\nx += 1\n```\n"
    lines = script_of(text).split("\n")
    code = [(i, line) for i, line in enumerate(lines, 1) if line and MARK not in line]
    assert code == [(3, "x = 1"), (11, "x += 1")]


def test_outputs_are_compared_block_by_block():
    text = "```python\nprint(1)\n```\n\n```text\n1\n```\n\n```python\nprint(2)\n```\n"
    assert outputs_on(text) == {3: "1\n"}
    assert outputs_of(f"1\n{MARK} 3\n2\n{MARK} 11\n") == {3: "1\n", 11: "2\n"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_runs_from_top_to_bottom(page, tmp_path):
    """It also prints what it says; the blocks of the README are compared one by one below."""
    text = page.read_text("utf-8")
    code = script_of(text)
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
    wanted, printed = outputs_on(text), outputs_of(done.stdout)
    assert {line: printed[line] for line in wanted} == wanted


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


ASK = REPOSITORY / "docs" / "ask"
CALL = re.compile(r"`((?:[A-Z]\w+|image_pipeline)\(.*?\))`")
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")


def anchors_of(page: Path) -> set[str]:
    """Anchors of the headings of a page, as GitHub makes them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_calls_of_the_page_on_models_can_be_made():
    calls = CALL.findall((ASK / "which_model.md").read_text("utf-8").split("## When is another")[0])
    names = {name: getattr(everlearn, name) for name in everlearn.__all__}
    names |= {name: getattr(everlearn.images, name) for name in ("ScaledPCA", "image_pipeline")}
    assert len(calls) >= 15
    for call in calls:
        model = eval(call, names)  # text of this repository
        assert isinstance(model, BaseEstimator), call


def test_the_index_links_every_page():
    linked = {name for name, _ in LINK.findall((ASK / "README.md").read_text("utf-8"))}
    assert {page.name for page in ASK.glob("*.md")} - {"README.md"} <= linked


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    for name, anchor in LINK.findall(page.read_text("utf-8")):
        if name.startswith("http"):
            continue
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), name
        if anchor:
            assert anchor in anchors_of(target), f"{name}#{anchor}"
