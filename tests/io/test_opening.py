"""Names become sources, or are refused."""

import pytest

from everlearn.errors import SourceError
from everlearn.io.lines import LineSource
from everlearn.io.opening import open_sources
from support.sources import opened, rows


def test_line_sources_know_their_format(tmp_path):
    (tmp_path / "a.txt").write_text("one two\nthree\n")
    source = opened(tmp_path / "a.txt")
    assert isinstance(source, LineSource)
    assert rows(source) == ["one two", "three"]


class TestRefused:
    @pytest.mark.parametrize(
        ("name", "content", "words"),
        [
            ("a.npy", b"nonsense", "no table of rows"),
            ("a.parquet", b"nonsense", "not a Parquet file"),
            ("a.log", b"", "unknown ending.* --format FORMAT < FILE"),
            ("a.xls", b"", "save it as CSV"),
            ("a.csv.zip", b"", "unpack it first"),
            ("a.npy.gz", b"", "unpack it first"),
            ("a.md", b"", "Give the folder"),
            ("a.PNG", b"", "Give the folder"),
        ],
    )
    def test_unreadable_files_are_refused_by_name(self, tmp_path, name, content, words):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(SourceError, match=words):
            rows(opened(tmp_path / name))

    def test_missing_and_doubled_sources(self, tmp_path, monkeypatch):
        with pytest.raises(SourceError, match="no file or folder"):
            opened(tmp_path / "nothing.csv")
        (tmp_path / "a.csv").write_text("1\n")
        (tmp_path / "link.csv").symlink_to(tmp_path / "a.csv")
        monkeypatch.chdir(tmp_path)
        for other in ("a.csv", "./a.csv", str(tmp_path / "a.csv"), "link.csv"):
            with pytest.raises(SourceError, match="got the same one twice"):
                open_sources(["a.csv", other])
        assert opened("./a.csv").name == "a.csv"


class TestAddresses:
    @pytest.mark.parametrize(
        ("address", "words"),
        [
            ("https://a.org/x.csv?v=1", "curl -fsSL 'https://a.org/x.csv?v=1' | everlearn learn"),
            ("s3://b/x.jsonl.gz", "aws s3 cp 's3://b/x.jsonl.gz' - | gunzip | everlearn learn"),
            ("s3://b/x.csv", "MODEL - --format csv"),
            ("gs://b/x.parquet", "files and pipes. Download it first"),
            ("ftp://b/x.csv", "files and pipes. Download it first"),
            ("file:///a/x.csv", "give the path '/a/x.csv'"),
        ],
    )
    def test_they_are_no_sources_and_say_what_to_do(self, address, words):
        with pytest.raises(SourceError) as caught:
            open_sources([address])
        assert words in str(caught.value)


class TestFolders:
    def test_a_folder_of_data_files_is_all_of_them(self, tmp_path):
        (tmp_path / "b.jsonl").write_text("1\n")
        (tmp_path / "a.jsonl").write_text("2\n")
        names = [source.name for source in open_sources([str(tmp_path)])]
        assert names == [str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")]

    def test_a_folder_of_many_things_is_refused(self, tmp_path):
        (tmp_path / "a.txt").write_text("x")
        (tmp_path / "b.jsonl").write_text("1\n")
        with pytest.raises(SourceError, match=r"holds data files \(\.jsonl\) and texts \(\.txt\)"):
            opened(tmp_path)

    def test_an_empty_folder_is_no_source(self, tmp_path):
        with pytest.raises(SourceError, match="holds no texts"):
            opened(tmp_path)

    def test_compressed_arrays_and_images_are_no_source(self, tmp_path):
        (tmp_path / "a.npy.gz").write_bytes(b"")
        (tmp_path / "a.png.gz").write_bytes(b"")
        with pytest.raises(SourceError, match="holds no texts"):
            opened(tmp_path)
