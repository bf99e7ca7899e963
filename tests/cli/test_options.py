"""Options of the commands: what their help says, and output files that are refused."""

import os

import pytest
import typer

from everlearn.cli import options
from everlearn.io import lines
from everlearn.stream.kinds import KINDS


def test_options_and_their_meaning_agree():
    """Options are spelt out once more, so that help needs no heavy import."""
    assert options.LineFormat == lines.LineFormat


def test_help_names_every_kind_of_model(invoke):
    shown = " ".join(invoke("learn", "--help").stdout.replace("│", " ").split())
    assert f"Begin a model: {', '.join(KINDS)}." in shown


class TestOutput:
    @pytest.mark.parametrize("name", ["new.html", "old.html"])
    def test_a_new_file_or_one_that_can_be_replaced(self, tmp_path, name):
        (tmp_path / "old.html").write_text("x")
        options.check_output(tmp_path / name)
        assert (tmp_path / "old.html").read_text() == "x"
        assert not (tmp_path / "new.html").exists()

    def test_a_folder(self, tmp_path):
        with pytest.raises(typer.BadParameter, match=r"is a folder\. Name a file in it, such as"):
            options.check_output(tmp_path)

    def test_a_place_in_no_folder(self, tmp_path):
        with pytest.raises(typer.BadParameter, match=r"there is no folder '.*none'"):
            options.check_output(tmp_path / "none" / "report.html")

    @pytest.mark.parametrize("exists", [False, True])
    def test_a_place_without_permission(self, tmp_path, monkeypatch, exists):
        output = tmp_path / "report.html"
        if exists:
            output.touch()
        asked = []
        monkeypatch.setattr(os, "access", lambda path, mode: asked.append((path, mode)))
        with pytest.raises(typer.BadParameter, match="cannot be written"):
            options.check_output(output)
        assert asked == [(output if exists else tmp_path, os.W_OK)]
