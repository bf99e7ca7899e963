"""The first good record shows whether records are rows, documents or points."""

import numpy as np
import pytest

from everlearn.cli.exits import USAGE
from everlearn.io.log import read_log
from everlearn.stream.session import Session
from support.stream_cases import image_folder


class TestForms:
    def test_images_are_no_texts(self, tmp_path, invoke):
        folder = image_folder(tmp_path)
        result = invoke("learn", tmp_path / "m.evl", folder, "--kind", "topics")
        assert result.exit_code == USAGE
        assert "learns from texts, but the records are images" in result.stderr

    def test_texts_are_no_images(self, tmp_path, invoke):
        (tmp_path / "lines.txt").write_text("images/01.png\n" * 5)
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "lines.txt", "--kind", "clumped")
        assert result.exit_code == USAGE
        assert "no image and no list of points" in result.stderr

    def test_texts_are_no_columns(self, tmp_path, invoke):
        path = tmp_path / "rows.jsonl"
        path.write_text('{"text": "a b", "tokens": ["a"], "x": 1, "y": 2}\n' * 20)
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "mixture", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").layout.columns == ("x", "y")

    @pytest.mark.parametrize("name", ["a.csv", "a.npy", "a.jsonl"])
    def test_rows_are_no_images(self, tmp_path, invoke, name):
        path = tmp_path / name
        if name == "a.npy":
            np.save(path, np.eye(5))
        else:
            path.write_text("1,2,p\n3,4,q\n" if name == "a.csv" else "[1, 2]\n[3, 4]\n")
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "clumped")
        assert result.exit_code == USAGE
        assert "'points'" in result.stderr or '"points"' in result.stderr
        assert not (tmp_path / "m.evl").exists()

    def test_a_bare_number_is_bad_and_does_not_decide_the_form(self, tmp_path, invoke):
        path = tmp_path / "rows.jsonl"
        path.write_text('5\nnull\n"text"\n' + "[1, 2]\n[2, 4]\n" * 20)
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "mixture", "-q")
        assert result.exit_code == 0, result.output
        assert Session.load(tmp_path / "m.evl").ledger.records == 40
        reasons = [line["reason"] for line in read_log(tmp_path / "m.evl.quarantine.jsonl")]
        expected = "expected a list of numbers or an object of fields, got "
        assert reasons == [expected + what for what in ("5", "None", "'text'")]

    @pytest.mark.parametrize("first", ["{}", "[]", '{"label": "p"}'])
    @pytest.mark.parametrize("kind", ["mixture", "classifier"])
    def test_a_first_record_with_nothing_in_it_is_set_aside(self, tmp_path, invoke, first, kind):
        rows = '{"a": 1, "b": 2, "label": "p"}\n{"a": 3, "b": 4, "label": "q"}\n' * 10
        (tmp_path / "a.jsonl").write_text(f"{first}\n{rows}")
        model = tmp_path / "m.evl"
        result = invoke("learn", model, tmp_path / "a.jsonl", "--kind", kind, "-q")
        assert result.exit_code == 0, result.stderr
        assert Session.load(model).layout.columns == ("a", "b")
        assert Session.load(model).ledger.records == 20
        (line,) = read_log(tmp_path / "m.evl.quarantine.jsonl")
        assert line["record"] == first

    def test_empty_records_are_named_as_the_reason(self, tmp_path, invoke):
        (tmp_path / "a.jsonl").write_text("{}\n" * 5)
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.jsonl", "--kind", "mixture")
        assert result.exit_code == USAGE
        assert "none of 5 new records of" in result.stderr
        assert "the record is empty" in result.stderr
