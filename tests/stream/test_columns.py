"""Which columns a model learns from, by its first records."""

import json
from datetime import datetime

import pytest

from everlearn.cli.exits import USAGE
from everlearn.io.log import read_log
from everlearn.stream.columns import choose_columns, content_of
from everlearn.stream.session import Session


@pytest.mark.parametrize(
    ("name", "values", "content"),
    [
        ("x", ["1", "2.5", "", "NA", "3"], "numbers"),
        ("x", ["1", "oops", "3"], "numbers"),  # a bad value does not cost the column
        ("x", ["TRUE", "false"], "numbers"),
        ("x", [1, 2.5, None], "numbers"),
        ("x", [str(i % 3) for i in range(30)], "numbers"),
        ("x", ["web", "db", "5"], "categories"),
        ("x", ["web", "db"] * 10, "categories"),
        ("x", [f"order {i} is late" for i in range(20)], "texts"),
        ("x", ["2024-05-01", "2024-05-02T10:00:00Z"], "dates"),
        ("x", ["1.5.2024", "12.05.24 10:15"], "dates"),
        ("x", ["05/13/2024", "1/2/24, 3:15 PM"], "dates"),
        ("x", ["[10/Oct/2000:13:55:36", "1 May 2024"], "dates"),
        ("x", ["10:15", "11:20:30,5"], "dates"),
        ("x", [datetime(2024, 5, 1)], "dates"),
        ("x", [[1, 2], {"a": 1}], "lists"),
        ("x", [str(i) for i in range(7, 30)], "ids"),
        ("user_id", ["4711", "17", "42"], "ids"),
        ("userId", ["4711", "17", "42"], "ids"),
        ("paid", ["4711", "17", "42"], "numbers"),
        ("x", [""] * 20, "nothing"),
        ("x", [None], "numbers"),  # one record says little
    ],
)
def test_what_a_column_holds(name, values, content):
    assert content_of(name, values, ".") == content


def test_decimal_commas_are_numbers_where_they_are_usual():
    assert content_of("x", ["1,5", "2,5"], ",") == "numbers"
    assert content_of("x", ["1,5", "2,5"], ".") == "categories"


def test_the_choice_names_the_option_ready_to_type():
    choice = choose_columns({"a b": ["1"], "c,d": ["2"], "host": ["web"]}, ".", 1)
    assert choice.columns == ("a b", "c,d")
    assert choice.command == "option 'columns' 'a b,\"c,d\"'"
    assert choice.describe_left_out() == "host (texts)"


def test_models_may_learn_more_than_numbers():
    columns = {"x": ["1"] * 20, "host": ["web", "db"] * 10, "note": [f"a{i}" for i in range(20)]}
    choice = choose_columns(columns, ".", 20, {"numbers", "categories"})
    assert choice.columns == ("x", "host")
    assert choice.left_out == {"note": "texts"}


class TestLearning:
    def test_text_date_and_id_columns_do_not_spoil_the_numbers(self, tmp_path, invoke):
        rows = [f"{i},2024-05-01,web{i % 3},{i % 7}.5,{i * 37 % 11}\n" for i in range(100)]
        (tmp_path / "a.csv").write_text("nr,when,host,latency_ms,bytes\n" + "".join(rows))
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "ppca")
        assert result.exit_code == 0, result.stderr
        note = "everlearn: learning from --columns latency_ms,bytes; left out: nr (ids or row "
        assert note in result.stderr
        assert "when (dates; add columns of numbers" in result.stderr
        assert "host (texts)" in result.stderr
        ledger = Session.load(tmp_path / "m.evl").ledger
        assert (ledger.records, ledger.bad) == (100, 0)
        again = invoke("learn", tmp_path / "m.evl", tmp_path / "a.csv")
        assert "left out" not in again.stderr

    def test_the_printed_command_makes_the_same_choice(self, tmp_path, invoke):
        rows = [f"web{i % 3},{i % 7}.5,{i * 37 % 11}\n" for i in range(100)]
        (tmp_path / "a.csv").write_text('host,"size, MB",b\n' + "".join(rows))
        learn = ["learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "ppca"]
        assert """--columns '"size, MB",b';""" in invoke(*learn).stderr
        learn[1] = tmp_path / "n.evl"
        result = invoke(*learn, "--columns", '"size, MB",b')
        assert result.exit_code == 0
        assert "left out" not in result.stderr
        assert (tmp_path / "m.evl").read_bytes() == (tmp_path / "n.evl").read_bytes()

    def test_objects_may_have_fields_that_others_have_not(self, tmp_path, invoke):
        rows = [{"x": i % 7, "y": i % 5, "host": "web"} for i in range(40)]
        rows[0]["debug"] = 1
        path = tmp_path / "a.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        result = invoke("learn", tmp_path / "m.evl", path, "--kind", "ppca")
        assert result.exit_code == 0, result.stderr
        assert "--columns x,y; left out: host (texts), debug (only some records have it)" in (
            result.stderr
        )
        assert Session.load(tmp_path / "m.evl").ledger.bad == 0

    def test_a_bad_value_is_a_bad_record(self, tmp_path, invoke):
        (tmp_path / "a.csv").write_text("a,b\n" + "1,2\nx,3\n3,5\n" * 10)
        assert invoke("learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind", "ppca", "-q")
        assert Session.load(tmp_path / "m.evl").layout.columns == ("a", "b")
        reasons = {line["reason"] for line in read_log(tmp_path / "m.evl.quarantine.jsonl")}
        assert reasons == {"'a' is not a number: 'x'"}

    def test_a_table_without_numbers_is_refused(self, tmp_path, invoke):
        (tmp_path / "a.csv").write_text("host,subject\n" + "web,mail me now\n" * 20)
        learn = ["learn", tmp_path / "m.evl", tmp_path / "a.csv", "--kind"]
        result = invoke(*learn, "ppca")
        assert result.exit_code == USAGE
        assert "there is no column of numbers to learn from" in result.stderr
        assert "The columns are host (texts such as 'web'), subject (texts" in result.stderr
        result = invoke(*learn, "topics")
        assert result.exit_code == USAGE
        assert "no text in the field 'text': add --text subject" in result.stderr
        result = invoke(*learn, "classifier", "--label", "host", "--classes", "web,db")
        assert "To learn from texts, add --text subject" in result.stderr

    def test_a_first_bad_record_of_a_pipe_is_only_bad(self, tmp_path, invoke):
        (tmp_path / "a.jsonl").write_text('{"a": "x", "b": "y"}\n')
        result = invoke("learn", tmp_path / "m.evl", tmp_path / "a.jsonl", "--kind", "ppca")
        assert "'a' is not a number: 'x'" in result.stderr
