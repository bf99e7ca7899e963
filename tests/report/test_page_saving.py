"""A report replaces the one before in one step."""

import errno
import os

import pytest

from everlearn.report.page import save_page


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
