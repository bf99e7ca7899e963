"""The ending of a name says what a file holds."""

import pytest

from everlearn.io.formats import ARRAYS, DATA, IMAGES, LINES, PARQUET, TEXTS, ending_of, is_packed


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("a.csv", ".csv"),
        ("A.JSONL", ".jsonl"),
        ("a.b.tsv", ".tsv"),
        ("a.csv.gz", ".csv"),
        ("a.TXT.GZ", ".txt"),
        ("a.md.gz", ".md"),
        ("a.npy.gz", ".npy.gz"),
        ("a.png.gz", ".png.gz"),
        ("a.gz", ".gz"),
        ("a.csv.zip", ".zip"),
        ("csv", ""),
        (".csv", ""),
        ("folder.csv/a", ""),
        ("", ""),
    ],
)
def test_endings(name, ending):
    assert ending_of(name) == ending


def test_a_packed_file_is_so_by_its_name_alone():
    assert is_packed("a.csv.GZ")
    assert not is_packed("gz")


def test_an_ending_means_one_thing():
    """Only a text may be lines by itself, and one text in a folder."""
    groups = [set(LINES) - TEXTS, set(TEXTS), set(ARRAYS), set(PARQUET), set(IMAGES)]
    assert sum(map(len, groups)) == len(set().union(*groups))
    assert groups[0] | groups[2] | groups[3] == DATA
    assert {ending.lower() for group in groups for ending in group} == set().union(*groups)
