"""The source to copy is learned exactly once, also over several runs."""

import importlib.util
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from conftest import REPOSITORY
from everlearn import load
from everlearn.io.sources import Source
from everlearn.stream import learn as loop
from everlearn.stream.learn import LearnRequest, learn_stream

PATH = REPOSITORY / "docs" / "skeletons" / "source.py"
SPEC = importlib.util.spec_from_file_location("everlearn.skeleton_source", PATH)
assert SPEC is not None
assert SPEC.loader is not None
SKELETON = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = SKELETON  # dataclasses look their module up
SPEC.loader.exec_module(SKELETON)
TABLE = 'odd "name"'
ROWS = np.random.default_rng(0).normal(size=(1300, 3)).round(3)


def add_rows(path: Path, rows: np.ndarray) -> None:
    with closing(sqlite3.connect(path)) as db:
        quoted = TABLE.replace('"', '""')
        db.execute(f'CREATE TABLE IF NOT EXISTS "{quoted}" (a REAL, b REAL, c REAL)')
        db.executemany(f'INSERT INTO "{quoted}" VALUES (?, ?, ?)', rows.tolist())
        db.commit()


def learn(monkeypatch: pytest.MonkeyPatch, model: Path, data: Path) -> None:
    source: Source = SKELETON.SQLiteSource(str(data), TABLE)
    monkeypatch.setattr(loop, "open_sources", lambda *_, **__: [source])
    options = {"kind": "mixture", "batch": 100}
    learn_stream(LearnRequest(model, (source.name,), options, {"engine": "serial"}))


def test_rows_come_in_order_with_names_and_places(tmp_path: Path) -> None:
    add_rows(tmp_path / "x.db", ROWS)
    source = SKELETON.SQLiteSource(str(tmp_path / "x.db"), TABLE)
    start = SKELETON.Progress(source.key)
    chunks = list(source.read(4, start))
    assert len(chunks) > 2
    assert {chunk.source for chunk in chunks} == {4}
    assert {chunk.names for chunk in chunks} == {("a", "b", "c")}
    np.testing.assert_array_equal(np.concatenate([chunk.rows for chunk in chunks]), ROWS)
    later = source.advanced(source.resume(start), chunks[0].places)
    (first, *_) = source.read(0, later)
    assert first.places[0] == later.position + 1 == len(chunks[0]) + 1


def test_runs_over_a_table_that_grows_learn_each_row_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, grown = tmp_path / "whole.db", tmp_path / "grown.db"
    add_rows(whole, ROWS)
    learn(monkeypatch, tmp_path / "whole.evl", whole)
    for part in (ROWS[:700], ROWS[700:], ROWS[:0]):
        add_rows(grown, part)
        learn(monkeypatch, tmp_path / "grown.evl", grown)
    one, other = load(tmp_path / "whole.evl"), load(tmp_path / "grown.evl")
    assert one.n_samples_seen_ == other.n_samples_seen_ == len(ROWS)
    np.testing.assert_array_equal(one.means_, other.means_)


def test_bad_rows_are_set_aside_with_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = ROWS[:300].astype(object)
    rows[41, 1] = "many"
    add_rows(tmp_path / "x.db", rows)
    learn(monkeypatch, tmp_path / "m.evl", tmp_path / "x.db")
    (line,) = (tmp_path / "m.evl.quarantine.jsonl").read_text("utf-8").splitlines()
    assert json.loads(line)["place"] == "rowid 42"
    assert load(tmp_path / "m.evl").n_samples_seen_ == 299
