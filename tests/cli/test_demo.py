"""The demo: which commands it runs, what it leaves behind, and how it fails."""

import re

import pytest

from everlearn.cli import demo_data, learn
from everlearn.io.log import read_log
from everlearn.stream.session import Session

MODELS = {"digits": "DPMixture", "packages": "MedLDAClassifier", "tree": "TopicTree"}


@pytest.fixture
def few(monkeypatch):
    """As many docstrings as the page of the fixture `demo_report` is made from."""
    monkeypatch.setattr(demo_data, "PER_PACKAGE", 15)


class TestDemo:
    def test_it_leaves_models_that_go_on_and_a_page_about_each(self, demo_report):
        for name, estimator in MODELS.items():
            session = Session.load(demo_report.parent / f"{name}.evl")
            assert type(session.model).__name__ == estimator
            assert (demo_report.parent / f"{name}.html").read_text("utf-8").startswith("<!DOCTYPE")
        digits = Session.load(demo_report.parent / "digits.evl")
        assert digits.ledger.records == digits.model.n_samples_seen_ == 1797
        assert 8 <= digits.model.n_components_ <= 30
        scores = [
            line.get("score_before")
            for line in read_log(demo_report.parent / "packages.evl.log.jsonl")
        ]
        assert scores[-1] > 0.2  # seven packages, after 100 docstrings

    def test_the_page_about_digits_compares_with_the_truth(self, demo_report):
        page = re.sub(r"<[^>]*>", " ", demo_report.read_text("utf-8"))
        (nmi,) = re.findall(r"NMI\s+(0\.\d+)", page)
        assert float(nmi) > 0.7

    def test_it_says_which_commands_it_runs_and_begins_anew(
        self, invoke, tmp_path, few, demo_report
    ):
        for n in range(2):
            result = invoke("demo", "--output", tmp_path)
            assert result.exit_code == 0
            pages = [str(tmp_path / f"{name}.html") for name in ("tree", "packages", "digits")]
            assert result.stdout.splitlines() == pages
            commands = re.findall(r"^\$ everlearn (\w+ \S+)", result.stderr, re.MULTILINE)
            learned = ["digits", "digits", "tree", "packages"]
            assert commands == [
                *(f"learn {tmp_path / name}.evl" for name in learned),
                *(f"report {tmp_path / name}.evl" for name in ("tree", "packages")),
            ], n
        assert (tmp_path / "digits.html").read_bytes() == demo_report.read_bytes()

    def test_a_place_that_cannot_be_written_to(self, invoke, tmp_path):
        (tmp_path / "file").write_text("x")
        result = invoke("demo", "--output", tmp_path / "file")
        assert result.exit_code == 1
        assert "File exists" in result.stderr
        assert result.stdout == ""

    def test_it_ends_when_a_command_is_interrupted(self, invoke, tmp_path, monkeypatch):
        monkeypatch.setattr(learn, "learn_in_terminal", lambda *args, **kwargs: 130)
        result = invoke("demo", "--output", tmp_path)
        assert result.exit_code == 130
        assert result.stdout == ""
