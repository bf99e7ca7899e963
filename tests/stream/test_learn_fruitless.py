"""A run says what was new, and that a source without one good record is an error."""

import os

import pytest

from everlearn.cli.exits import USAGE
from everlearn.errors import SourceError
from everlearn.io.log import read_log
from everlearn.stream.learn import LearnRequest, learn_stream
from everlearn.stream.session import Session

GOOD = "a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(40))
BAD = "a,b\n" + "x,y\n" * 300
SENTENCES = "a,b\n" + "".join(f"see note {i},it was {i}\n" for i in range(300))


@pytest.fixture
def begun(tmp_path, invoke):
    """A model that has learned a file of good records."""
    (tmp_path / "good.csv").write_text(GOOD)
    model = tmp_path / "m.evl"
    assert invoke("learn", model, tmp_path / "good.csv", "--kind", "mixture", "-q").exit_code == 0
    return model


class TestFirstRuns:
    @pytest.mark.parametrize(
        ("text", "options", "words"),
        [
            (SENTENCES, (), "there is no column of numbers"),
            (SENTENCES, ("--columns", "a,b"), "column 'a' has 256 different values"),
            (BAD, ("--set", "family=diagonal"), "there is no column of numbers"),
            (BAD, ("--set", "family=diagonal", "--columns", "a,b"), "none of 300 new records of "),
            ("", (), "holds no records"),
            ("a,b\n", (), "holds no records"),
            (GOOD, ("--columns", "q"), "['q'] of the model are missing"),
        ],
    )
    def test_one_that_learns_nothing_fails_and_leaves_nothing(
        self, tmp_path, invoke, text, options, words
    ):
        (tmp_path / "a.csv").write_text(text)
        model = tmp_path / "m.evl"
        result = invoke("learn", model, tmp_path / "a.csv", "--kind", "mixture", *options)
        assert result.exit_code == USAGE
        assert words in result.stderr
        assert os.listdir(tmp_path) == ["a.csv"]

    def test_what_other_sources_gave_is_kept(self, tmp_path, invoke):
        (tmp_path / "good.csv").write_text(GOOD)
        (tmp_path / "bad.csv").write_text(BAD)
        sources = [tmp_path / "good.csv", tmp_path / "bad.csv"]
        result = invoke("learn", tmp_path / "m.evl", *sources, "--kind", "mixture")
        assert result.exit_code == USAGE
        assert "bad.csv' could be learned, mostly because: 'a' is not a num" in result.stderr
        assert "; learned 40 new records of other sources" in result.stderr
        assert Session.load(tmp_path / "m.evl").ledger.records == 40


class TestLaterRuns:
    def test_bad_sources_and_empty_ones_fail_each_time(self, tmp_path, invoke, begun):
        (tmp_path / "bad.csv").write_text(BAD)
        (tmp_path / "empty.csv").write_text("")
        for _ in range(2):
            result = invoke("learn", begun, tmp_path / "bad.csv")
            assert result.exit_code == USAGE
            assert "none of 300 new records of " in result.stderr
            assert "bad records are in " in result.stderr
            result = invoke("learn", begun, tmp_path / "empty.csv")
            assert result.exit_code == USAGE
            assert "empty.csv' holds no records" in result.stderr
        assert Session.load(begun).ledger.records == 40

    def test_a_source_can_be_learned_once_the_option_is_right(self, tmp_path, invoke, begun):
        path = tmp_path / "comma.tsv"
        path.write_text("a\tb\n" + "1,234\t2\n" * 5 + "x\t1,5\n")
        assert invoke("learn", begun, path, "-q").exit_code == 0
        path = tmp_path / "half.csv"
        path.write_text("a;b\n" + "1;2\n" * 0 + "1,5;x\n" * 20)
        assert invoke("learn", begun, path).exit_code == USAGE
        path.write_text("a;b\n1,5;2\n")
        assert "1 new record (46 in all)" in invoke("learn", begun, path).stderr

    def test_a_source_that_was_good_may_have_a_few_bad_records(self, tmp_path, invoke, begun):
        with open(tmp_path / "good.csv", "a") as file:
            file.write("x,1\n" * 9)
        result = invoke("learn", begun, tmp_path / "good.csv")
        assert result.exit_code == 0
        assert "0 new records (40 in all), 9 bad ones set aside in " in result.stderr
        with open(tmp_path / "good.csv", "a") as file:
            file.write("x,1\n" * 10)
        result = invoke("learn", begun, tmp_path / "good.csv")
        assert result.exit_code == USAGE
        assert "none of 10 new records of " in result.stderr

    def test_a_rotated_log_may_be_empty(self, tmp_path, invoke, begun):
        (tmp_path / "good.csv").write_text("")
        result = invoke("learn", begun, tmp_path / "good.csv")
        assert result.exit_code == 0
        assert "m.evl: 0 new records (40 in all)." in result.stderr

    def test_an_empty_file_in_a_folder_is_no_fault(self, tmp_path, invoke):
        folder = tmp_path / "parts"
        folder.mkdir()
        (folder / "a.csv").write_text(GOOD)
        (folder / "b.csv").write_text("")
        result = invoke("learn", tmp_path / "m.evl", folder, "--kind", "mixture")
        assert result.exit_code == 0, result.stderr

    def test_services_get_an_error_too(self, tmp_path, begun):
        (tmp_path / "bad.csv").write_text(BAD)
        with pytest.raises(SourceError, match="none of 300 new records"):
            learn_stream(LearnRequest(begun, [str(tmp_path / "bad.csv")], {}))


class TestLog:
    def test_each_batch_is_scored_before_it_is_learned(self, tmp_path, invoke):
        (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(400)))
        learn = ["learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "mixture", "-q"]
        assert invoke(*learn, "--batch", 16).exit_code == 0
        lines = list(read_log(tmp_path / "m.evl.log.jsonl"))
        assert ["score_before" in line for line in lines] == [False] + [True] * 24
        assert [line["batch"] for line in lines if "score_after" in line] == [1, 21]
        assert [line["new"] for line in lines] == [16] * 25
        key = str(tmp_path / "a.csv")
        assert [line["places"] for line in lines if "places" in line] == [
            {key: [8, 68]}, {key: [1288, 1348]}
        ]  # fmt: skip
        log = (tmp_path / "m.evl.log.jsonl").read_text()
        assert max(map(len, log.splitlines())) < 600

    def test_scores_may_be_left_out(self, tmp_path, invoke):
        (tmp_path / "a.csv").write_text(GOOD)
        learn = ["learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "mixture", "-q"]
        assert invoke(*learn, "--batch", 8, "--score-every", 0).exit_code == 0
        lines = list(read_log(tmp_path / "m.evl.log.jsonl"))
        assert not any("score_before" in line or "places" in line for line in lines)
