"""Pages of measurements have the words that the next run writes; numbers stay those measured."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted((ROOT / "benchmarks").glob("*.py"))
PAGES = [*(ROOT / "docs" / "papers").glob("*.md"), *(ROOT / "docs").glob("*.md")]
PROSE = ("HEAD", "TEXTS", "CLAIMS", "WHY", "APPENDIX")


def pieces(node):
    """The constant texts of an expression, without what is computed between them."""
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    if isinstance(node, ast.JoinedStr | ast.List):
        return [text for part in [*node.__dict__.get("values", []), *node.__dict__.get("elts", [])]
                for text in pieces(part)]  # fmt: skip
    return []


def tables(tree):
    """Titles and columns of the tables that a module makes."""
    for call in ast.walk(tree):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Table":
            yield from ((call.args[0], "title"), (call.args[1], "columns"))


def on_one_line(text):
    return re.sub(r"\s+", " ", text)


@pytest.fixture(scope="module")
def written():
    return on_one_line("\n".join(page.read_text(encoding="utf-8") for page in PAGES))


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_titles_and_columns_are_those_of_the_page(path, written):
    for node, what in tables(ast.parse(path.read_text(encoding="utf-8"))):
        for text in pieces(node):
            assert on_one_line(text).strip() in written, f"{what} {text!r} is on no page"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_texts_are_those_of_the_page(path, written):
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        names = [target.id for target in getattr(node, "targets", ()) if hasattr(target, "id")]
        if set(names) & set(PROSE):
            for text in pieces(node.value):
                assert on_one_line(text).strip() in written, f"{names[0]} is on no page"


def test_a_text_that_is_on_no_page_is_found(written):
    tree = ast.parse("Table(f'{n} rows nobody measured', ['CPU weeks'])")
    found = [text for node, _ in tables(tree) for text in pieces(node)]
    assert found == [" rows nobody measured", "CPU weeks"]
    assert not any(text.strip() in written for text in found)
