"""Encodings: which are known, which lines can be found in, and which may fit odd bytes."""

import codecs

import pytest

from everlearn.errors import SourceError, UsageError
from everlearn.io.encodings import check_lines, checked_encoding, decoded, why_undecodable


class TestNames:
    @pytest.mark.parametrize("name", ["UTF8", "utf-8-sig", "ascii", "US-ASCII", "u8"])
    def test_all_that_is_utf8_has_one_name(self, name):
        assert checked_encoding(name) == "utf-8"

    @pytest.mark.parametrize("name", ["latin-1", "CP1252", "UTF-16", "Shift_JIS"])
    def test_others_stay_in_lower_case(self, name):
        assert checked_encoding(name) == name.lower()

    @pytest.mark.parametrize("name", ["latin-x", "rot13", "base64", "", "a\0b"])
    def test_unknown_ones_and_those_that_are_not_of_texts_are_refused(self, name):
        with pytest.raises(UsageError, match=r"'encoding' must be an encoding of texts.*got"):
            checked_encoding(name)


class TestLines:
    @pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "cp1252", "koi8-r", "euc_jp"])
    def test_a_line_end_is_one_byte(self, encoding):
        check_lines(encoding, "a.csv")
        line = "a,ü\nb".encode(encoding, "replace")
        assert line.split(b"\n")[1] == b"b"

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32-le", "utf-7", "cp037", "iso2022_jp"])
    def test_or_else_the_file_is_to_be_converted(self, encoding):
        with pytest.raises(SourceError, match=rf"'a.csv' .* as {encoding}\. .*iconv -f {encoding}"):
            check_lines(encoding, "a.csv")


class TestBytes:
    @pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
    def test_texts_come_back(self, encoding):
        assert decoded("Größe\n".encode(encoding), encoding) == "Größe\n"

    def test_the_mark_at_the_beginning_is_dropped_once(self):
        assert decoded(codecs.BOM_UTF8 + "a\ufeff".encode(), "utf-8") == "a\ufeff"

    @pytest.mark.parametrize(
        ("text", "written", "read", "words"),
        [
            ("Köln", "latin-1", "utf-8", "not UTF-8: add option 'encoding' latin-1"),
            ("5 €", "cp1252", "utf-8", "not UTF-8: add option 'encoding' cp1252"),
            ("Köln", "latin-1", "ascii", "not ascii; give another option 'encoding'"),
            ("ab", "utf-16", "utf-8", "not UTF-8 but UTF-16"),
        ],
    )
    def test_others_say_what_may_fit(self, text, written, read, words):
        with pytest.raises(ValueError, match=words):
            decoded(text.encode(written), read)

    def test_bytes_that_windows_has_not_either(self):
        assert why_undecodable(b"\xe4\x81", "utf-8").endswith("latin-1")  # 0x81 is in no cp1252
