"""What the first lines of a file show."""

import pytest

from everlearn.errors import CheckpointError, SourceError, UsageError
from everlearn.io.dialects import AS_SHOWN, Dialect, Writing, checked_decimal, dialect_of
from everlearn.io.encodings import checked_encoding


def shown(text, form="csv", writing=AS_SHOWN, encoding="utf-8"):
    return dialect_of(text.encode(encoding), form, writing, "a.csv")


class TestDelimiters:
    @pytest.mark.parametrize(
        ("text", "delimiter"),
        [
            ("a,b\n1,2\n", ","),
            ("a;b\n1;2\n", ";"),
            ("a\tb\n1\t2\n", "\t"),
            ("a|b\n1|2\n", "|"),
            ("a;b\n1,5;2,5\n3,5;4,5\n", ";"),
            ("1,5;2,5\n3,5;4,5\n", ";"),
            ('a,b\n"x;y",2\n"u;v",3\n', ","),
            ("a,b\nx;y,2\n", ","),
            ("a;b\n1;2\n3\n", ";"),
            ("a\n1\n2\n", ","),
            ("", ","),
            ("sep=;\na;b\n1;2\n", ";"),
            ('a;"b\nc"\n1;2\n', ";"),
            ('a,b\n"open,1\n2,3\n', ","),
        ],
    )
    def test_what_separates_the_fields_is_seen(self, text, delimiter):
        assert shown(text).delimiter == delimiter

    def test_tab_separated_files_and_lines_are_what_they_are_called(self):
        assert shown("a;b\n1;2\n", "tsv").delimiter == "\t"
        assert shown("a;b\n1;2\n", "jsonl") == Dialect()
        assert shown("a;b\n1;2\n", "text") == Dialect()

    def test_the_line_for_excel_is_skipped(self):
        assert shown("sep=;\r\na;b\r\n1;2\r\n").skipped == 7

    def test_one_column_may_have_decimal_commas(self):
        assert shown("x\n" + "1,5\n2,5\n" * 20) == Dialect("utf-8", ";", ",")
        assert shown("x\n" + "hello, you\nno comma\n" * 20).delimiter == ";"

    @pytest.mark.parametrize("mark", [";", "\t", ","])
    def test_titles_above_the_names_are_named(self, mark):
        text = "Report of today\n\n" + f"a{mark}b\n" + f"1.5{mark}x\n" * 20
        with pytest.raises(SourceError, match=r"the first line must name .* 'Report of today'"):
            shown(text)


class TestNames:
    @pytest.mark.parametrize(
        ("text", "has_names"),
        [
            ("a,b\n1,2\n", True),
            ("1,2\n3,4\n", False),
            ("1,5;2,5\n3,5;4\n", False),
            ("1,,3\n3,4,5\n", False),
            ("5.1,3.5,setosa\n4.9,3.0,setosa\n", False),
            ("5.1,3.5,setosa\n4.9,3.0,virginica\n", True),  # nothing shows that it is a row
            ("country,2019,2020\nchile,1,2\n", True),
            ("", True),
            (",\n1,2\n", True),
        ],
    )
    def test_a_first_line_like_those_below_is_a_row(self, text, has_names):
        assert shown(text).has_names is has_names


class TestDecimals:
    def test_the_mark_is_one_for_the_file(self):
        assert shown("n;x\n1;1,5\n").decimal == ","
        assert shown("n;x\n1;1.5\n").decimal == "."
        assert shown('n,x\n1,"1,5"\n').decimal == ","

    def test_only_the_first_hundred_records_count(self):
        text = "n;x\n" + "1;2\n" * 100
        assert shown(text + "1;2,5\n").decimal == "."
        assert shown("n;x\n" + "1;2\n" * 99 + "1;2,5\n").decimal == ","

    def test_users_may_say_what_no_record_shows(self):
        assert shown("n;x\n1;2\n", writing=Writing(decimal=",")).decimal == ","
        with pytest.raises(UsageError, match="'decimal' must be"):
            checked_decimal(";")


class TestEncodings:
    def test_latin_1_is_named(self):
        with pytest.raises(SourceError, match="not UTF-8: add option 'encoding' latin-1"):
            shown("straße,b\n1,2\n", encoding="latin-1")
        with pytest.raises(SourceError, match="add option 'encoding' cp1252"):
            shown("price €,b\n1,2\n", encoding="cp1252")
        with pytest.raises(SourceError, match="option 'encoding' latin-1"):
            shown("a,b\nKöln,2\nx,3\nZürich,4\n", encoding="latin-1")
        with pytest.raises(SourceError, match="option 'encoding' latin-1"):
            shown('"Köln"\n"Zürich"\n', "jsonl", encoding="latin-1")

    def test_a_broken_line_among_others_is_a_bad_record(self):
        head = b"a,b\nK\xf6ln,2\n" + "Zürich,3\n".encode()
        assert dialect_of(head, "csv", AS_SHOWN, "a.csv").delimiter == ","
        assert dialect_of(b"a,b\nx,1\nK\xf6ln,2\ny,3\n", "csv", AS_SHOWN, "a").delimiter == ","

    def test_two_bytes_a_letter_are_named(self):
        for form in ("csv", "jsonl", "text"):
            with pytest.raises(SourceError, match=r"not UTF-8 but UTF-16.*iconv -f utf-16"):
                shown("a,b\n1,2\n", form, encoding="utf-16")

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-7", "cp037", "iso2022_jp"])
    def test_encodings_whose_lines_cannot_be_found_are_refused(self, encoding):
        with pytest.raises(SourceError, match=r"cannot be read line by line.*iconv -f"):
            shown("a,b\n1,2\n", writing=Writing(checked_encoding(encoding)))


class TestFiles:
    def test_it_says_what_is_not_as_usual(self):
        assert str(Dialect("cp1252", ";", ",")) == "cp1252, semicolons, decimal commas"
        assert str(Dialect("utf-8", ",")) == ""

    def test_it_is_saved_and_read_again(self):
        dialect = Dialect("cp1252", ";", ",", 6, False)
        assert Dialect.from_json(dialect.to_json()) == dialect

    @pytest.mark.parametrize(
        "damaged",
        [
            None,
            [],
            ["utf-8", ",", "."],
            ["utf-8", ",", ".", 0],
            ["utf-9", ",", ".", 0, True],
            [5, ",", ".", 0, True],
            ["utf-8", "x", ".", 0, True],
            ["utf-8", ",", ";", 0, True],
            ["utf-8", ",", ".", -1, True],
            ["utf-8", ",", ".", True, True],
            ["utf-8", ",", ".", 0, 1],
            ["utf-8", [","], ".", 0, True],
        ],
    )
    def test_damaged_ones_are_refused(self, damaged):
        with pytest.raises(CheckpointError, match="how a file is written"):
            Dialect.from_json(damaged)
