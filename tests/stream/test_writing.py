"""Files in other encodings, with other separators and decimal marks, are read alike in all runs."""

import gzip
import io
import json

import numpy as np
import pytest

from everlearn.io.dialects import Writing
from everlearn.io.ledger import Ledger, Progress
from everlearn.io.lines import LineSource, PipeSource
from everlearn.io.log import read_log
from everlearn.stream.session import Session
from support.sources import opened, records

WORDS = ["Köln", "größer", "Zürich", "naïve", "plain"]
TABLE = "Größe;x\r\n" + "".join(
    f'"{w};\r\n{w}";{i},5\r\n{w};1.234,{i}\r\n' for i, w in enumerate(WORDS)
)
JSON = "".join(json.dumps({"t": w, "i": i}, ensure_ascii=False) + "\n" for i, w in enumerate(WORDS))
JAPANESE = "名前;x\n" + "".join(f"表示ソ能{i};{i},5\n" for i in range(8))
FORMS = [
    ("a.csv", TABLE, "latin-1"),
    ("a.csv", TABLE, "cp1252"),
    ("a.csv", TABLE, "utf-8"),
    ("a.csv", TABLE, "utf-8-sig"),
    ("a.csv", "sep=;\r\n" + TABLE, "latin-1"),
    ("a.csv", JAPANESE, "shift_jis"),
    ("a.csv", JAPANESE, "gb18030"),
    ("a.tsv", TABLE.replace(";", "\t"), "latin-1"),
    ("a.jsonl", JSON, "latin-1"),
    ("a.jsonl", JSON, "utf-8-sig"),
    ("a.txt", "\n".join(WORDS), "latin-1"),
    ("a.csv.gz", TABLE, "latin-1"),
]


@pytest.mark.parametrize(("name", "text", "encoding"), FORMS)
def test_reading_goes_on_after_any_record_in_any_encoding(tmp_path, name, text, encoding):
    data = text.encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    plain = tmp_path / f"plain{name}"
    plain.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    encoding = "utf-8" if encoding == "utf-8-sig" else encoding
    source = opened(tmp_path / name, writing=Writing(encoding))
    everything = records(source)
    assert [row for row, _, _ in everything] == [row for row, _, _ in records(opened(plain))]
    assert everything[-1][1] == len(data)
    for i, (_, place, _) in enumerate(everything):
        progress = source.advanced(Progress(source.key), [place])
        header, _ = Ledger({source.key: progress}).to_checkpoint()
        saved = Ledger.from_checkpoint(header, {}).of(source.key)
        later = opened(tmp_path / name)  # what was shown is saved: it need not be said again
        assert records(later, later.resume(saved)) == everything[i + 1 :]


@pytest.mark.parametrize(
    ("name", "text", "encoding"), [form for form in FORMS if "gz" not in form[0]]
)
def test_pipes_too(name, text, encoding):
    form = {"csv": "csv", "tsv": "tsv", "jsonl": "jsonl", "txt": "text"}[name.partition(".")[2]]
    data = text.encode(encoding)
    writing = Writing("utf-8" if encoding == "utf-8-sig" else encoding)
    source = PipeSource(io.BytesIO(data), form, writing)
    everything = records(source)
    assert everything[-1][1] == len(data)
    assert all(reason is None for _, _, reason in everything)
    for i, (_, place, _) in enumerate(everything):
        progress = source.advanced(Progress("-"), [place])
        again = PipeSource(io.BytesIO(data), form)
        assert records(again, again.resume(progress)) == everything[i + 1 :]


def test_a_pipe_that_comes_in_pieces_is_read_alike():
    class Slow(io.RawIOBase):
        def __init__(self, data):
            self.data = data

        def read(self, n_bytes=-1, /):
            piece, self.data = self.data[:3], self.data[3:]
            return piece

    data = TABLE.encode("latin-1")
    whole = PipeSource(io.BytesIO(data), "csv", Writing("latin-1"))
    pieces = PipeSource(Slow(data), "csv", Writing("latin-1"))
    assert records(pieces) == records(whole)


def test_a_later_run_reads_the_same_file_as_the_first(tmp_path, invoke):
    path, model = tmp_path / "a.csv", tmp_path / "m.evl"
    path.write_text("host;x;y\n" + "".join(f"web;{i},25;{i % 7}\n" for i in range(50)))
    assert invoke("learn", model, path, "--kind", "mixture", "-q").exit_code == 0
    (progress,) = Session.load(model).ledger.sources.values()
    assert progress.dialect.decimal == ","
    with open(path, "a") as file:
        file.write("web;1.234;5\nweb;1.5;5\n")
    assert invoke("learn", model, path, "-q").exit_code == 0
    assert Session.load(model).ledger.records == 51  # 1234, and 1.5 is no number here
    (line,) = read_log(tmp_path / "m.evl.quarantine.jsonl")
    advice = "For decimal points, add option 'decimal' ."
    assert line["reason"] == f"'x' is not a number: '1.5'. {advice}"
    assert line["record"] == "web;1.5;5"
    # Another file is read as its own records show.
    (tmp_path / "b.csv").write_text("x,y,host\n" + "1.5,2,web\n2.5,3,db\n" * 10)
    assert invoke("learn", model, tmp_path / "b.csv", "-q").exit_code == 0
    assert Session.load(model).ledger.records == 71
    answers = invoke("predict", model, path).stdout.splitlines()
    assert sum("error" in answer for answer in map(json.loads, answers)) == 1
    audited = json.loads(invoke("audit", model, path, "--json").stdout)
    assert audited["marks"][0]["records"] == 50


def test_encodings_and_decimal_marks_are_said_once_and_may_change(tmp_path, invoke):
    model = tmp_path / "m.evl"
    latin, utf = tmp_path / "latin.csv", tmp_path / "utf.csv"
    text = "Größe;n\n" + "1;7\n2;5\n" * 20
    latin.write_bytes(text.encode("latin-1"))
    utf.write_text(text)
    refused = invoke("learn", model, latin, "--kind", "mixture")
    assert refused.exit_code == 2
    assert "not UTF-8: add --encoding latin-1 (in " in refused.stderr
    learn = ["learn", model, latin, "--kind", "mixture", "-q", "--encoding", "latin1"]
    assert invoke(*learn, "--decimal", ",").exit_code == 0
    layout = Session.load(model).layout
    assert (layout.encoding, layout.decimal) == ("latin1", ",")
    with open(latin, "ab") as file:
        file.write("1,5;3\n".encode("latin-1"))
    assert invoke("learn", model, latin, "-q").exit_code == 0
    assert Session.load(model).ledger.bad == 0
    assert invoke("learn", model, utf, "-q", "--encoding", "utf-8").exit_code == 0
    assert Session.load(model).ledger.records == 81
    assert invoke("learn", model, latin, "-q").exit_code == 0  # as it was begun
    header = invoke("predict", model, latin, "--encoding", "utf-8")
    assert "not UTF-8: add --encoding latin-1" in header.stderr
    for option, value in (("--encoding", "klingon"), ("--decimal", "x")):
        result = invoke("learn", model, latin, option, value)
        assert result.exit_code == 2
        assert f"{option} must be" in result.stderr


def test_what_is_said_later_holds_for_the_rest_of_a_file(tmp_path, invoke):
    """The advice of a bad record must help, also after the first records showed something else."""
    model, path = tmp_path / "m.evl", tmp_path / "a.csv"
    path.write_text("host;x;y\n" + "web;1;7\n" * 20)
    assert invoke("learn", model, path, "--kind", "mixture", "-q").exit_code == 0
    with open(path, "ab") as file:
        file.write("K\xf6ln;1;7\nweb;1,5;7\n".encode("latin-1"))
    assert invoke("learn", model, path, "-q").exit_code == 0
    reasons = [line["reason"] for line in read_log(tmp_path / "m.evl.quarantine.jsonl")]
    assert reasons == [
        "not UTF-8: add option 'encoding' latin-1",
        "'x' is not a number: '1,5'. For decimal commas, add option 'decimal' ,",
    ]
    with open(path, "ab") as file:
        file.write("K\xf6ln;2,5;7\n".encode("latin-1"))
    for option in ("--encoding", "latin-1"), ("--decimal", ","):
        assert invoke("learn", model, path, "-q", *option).exit_code == 0
    with open(path, "ab") as file:
        file.write("K\xf6ln;3,5;7\n".encode("latin-1"))
    assert invoke("learn", model, path, "-q").exit_code == 0
    assert Session.load(model).ledger.records == 21


def test_texts_of_a_folder_may_have_any_encoding(tmp_path, invoke):
    folder = tmp_path / "texts"
    folder.mkdir()
    for i in range(30):
        text = f"größer {WORDS[i % 5]} schön\r\n"
        (folder / f"{i}.txt").write_bytes(text.encode("utf-16"))
    learn = ["learn", tmp_path / "m.evl", folder, "--kind", "topics", "-s", "n_topics=2"]
    refused = invoke(*learn)
    assert refused.exit_code == 2
    assert "not a text: not UTF-8 but UTF-16" in refused.stderr
    assert not list(tmp_path.glob("m.evl*"))
    assert invoke(*learn, "--encoding", "utf-16", "-q").exit_code == 0
    session = Session.load(tmp_path / "m.evl")
    assert (session.ledger.records, session.ledger.bad) == (30, 0)
    assert "zürich" in {str(word) for words in session.model.top_words(20) for word in words}


@pytest.mark.parametrize("option", [("--encoding", "latin-1"), ("--decimal", ",")])
def test_options_about_texts_need_one(tmp_path, invoke, option):
    np.save(tmp_path / "a.npy", np.eye(5))
    learn = ["learn", tmp_path / "m.evl", tmp_path / "a.npy", "--kind", "mixture"]
    result = invoke(*learn, *option)
    assert result.exit_code == 2
    assert f"{option[0]} is about sources of text, and none of those given is" in result.stderr


def test_bad_bytes_in_the_quarantine_are_readable(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("a;b\n1;2\nKöln\n".encode("latin-1"))
    source = LineSource(str(path), format="csv", writing=Writing("latin-1"))
    (chunk,) = source.read(0, Progress(source.key))
    assert chunk.rows.bad(1, "x").record == "Köln"
