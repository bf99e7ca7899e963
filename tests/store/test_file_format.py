"""The page on the file format is what the schemas say."""

import sys

from conftest import REPOSITORY


def test_the_page_is_current(monkeypatch):
    monkeypatch.syspath_prepend(str(REPOSITORY / "tools"))
    import file_format

    assert file_format.PAGE.read_text("utf-8") == file_format.page(), (
        f"write it anew: {sys.executable} tools/file_format.py"
    )
