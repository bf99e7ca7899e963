"""Options and parameters: impossible ones, and those that a model cannot change any more."""

from pathlib import Path

import pytest

from everlearn.cli.exits import USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.errors import UsageError
from everlearn.stream.session import open_session
from support.stream_cases import CASES, learned

TABLE = "a,b,label\n" + "".join(f"{i % 7},{i % 5},g{i % 2}\n" for i in range(40))


class TestOptions:
    def test_impossible_ones_are_refused_by_name(self, tmp_path):
        with pytest.raises(UsageError, match="'batch' must be an integer of at least 1, got 0"):
            open_session(tmp_path / "m.evl", {"kind": "mixture", "batch": 0}, {})
        assert not (tmp_path / "m.evl").exists()

    def test_lists_and_tuples_are_the_same(self, tmp_path):
        request = learned(tmp_path, "mixture from JSON lines")
        session = open_session(request.model, {"columns": list("abcd")}, {})
        assert session.layout.columns == tuple("abcd")


class TestSeeds:
    def test_the_same_command_goes_on(self, tmp_path, invoke):
        path = tmp_path / "rows.csv"
        path.write_text(TABLE)
        command = ["learn", tmp_path / "m.evl", path, "--kind", "ppca", "--columns", "a,b", "-q"]
        assert invoke(*command, "--seed", "3").exit_code == 0
        before = (tmp_path / "m.evl").read_bytes()
        assert invoke(*command, "--seed", "3").exit_code == 0
        assert (tmp_path / "m.evl").read_bytes() == before
        result = invoke(*command, "--seed", "4")
        assert result.exit_code == USAGE
        assert "(random_state) was 3" in result.stderr


class TestSettings:
    """Settings that a model cannot go on with end the command, and no record is set aside."""

    @pytest.mark.parametrize(
        ("name", "option", "words"),
        [
            ("mixture from JSON lines", ["--memory", "1kB"], "memory_budget"),
            ("clumped from images", ["--memory", "10"], "memory_budget"),
            ("clumped from images", ["--set", "family=diagonal"], "'family'"),
            ("clumped from images", ["--set", "topic_price=3"], "'topic_price'"),
            ("classifier from rows", ["--set", "loss=averaging"], "loss='gibbs'"),
            ("mixture from JSON lines", ["--set", "random_state=4"], "(random_state) was 3"),
            ("mixture from JSON lines", ["--classes", "a,b"], "does not learn from classes"),
            ("classifier from rows", ["--memory", "1MB"], "for the kinds mixture, clusters,"),
        ],
    )
    def test_they_are_refused_by_name(self, tmp_path, invoke, name, option, words):
        request, _ = CASES[name].request(tmp_path, tmp_path / "m.evl")
        assert learn_in_terminal(request, quiet=True) == 0
        before, set_aside = request.model.read_bytes(), Path(f"{request.model}.quarantine.jsonl")
        known = set_aside.read_bytes() if set_aside.exists() else b""
        if Path(request.sources[0]).is_file():  # more to learn
            with open(request.sources[0], "a") as file:
                file.write('{"a": 1, "b": 2, "c": 3, "d": 4, "label": "g1"}\n' * 40)
        result = invoke("learn", request.model, request.sources[0], *option)
        assert result.exit_code == USAGE, result.output
        assert words in result.stderr
        assert request.model.read_bytes() == before
        assert (set_aside.read_bytes() if set_aside.exists() else b"") == known
