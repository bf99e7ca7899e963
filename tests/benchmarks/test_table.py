"""Pages that measurements are written to."""

import pytest
from benchmarks.table import Table, replace_section

from benchmarks import table


@pytest.fixture
def docs(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "ROOT", tmp_path)
    (tmp_path / "docs").mkdir()
    return tmp_path / "docs"


def measured(title, value):
    found = Table(title, ["what", "figure"])
    found.add("speed", value)
    return found


def test_a_section_is_replaced_and_the_others_stay(docs):
    for title, value in (("First", 1), ("Second", 2), ("First", 3)):
        replace_section("page.md", "# Page\n", measured(title, value))
    text = (docs / "page.md").read_text()
    assert text.startswith("# Page\n\n## First\n")
    assert text.index("| speed | 3 |") < text.index("## Second") < text.index("| speed | 2 |")
    assert "| speed | 1 |" not in text
    assert text.count("Measured on ") == 2


def test_writing_the_same_again_changes_nothing(docs):
    replace_section("page.md", "# Page\n", measured("First", 1))
    before = (docs / "page.md").read_bytes()
    replace_section("page.md", "# Page\n", measured("First", 1))
    assert (docs / "page.md").read_bytes() == before
