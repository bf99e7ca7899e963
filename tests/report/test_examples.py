"""Examples of parts are those of its records that fit best."""

import os
from dataclasses import replace

import numpy as np
import pytest

from everlearn.io.ledger import Ledger, Progress
from everlearn.report import examples
from everlearn.report.examples import EXAMPLES, examples_of
from everlearn.stream.session import Session
from support.stream_cases import learned


@pytest.fixture(scope="module")
def mixture(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixture")
    return folder, Session.load(learned(folder, "mixture from an array").model)


def test_rows_of_highest_density_are_shown(mixture):
    folder, session = mixture
    model, rows = session.model, np.load(folder / "rows.npy")
    found = examples_of(session)
    owner = model.component_ids_[model.predict_proba(rows).argmax(axis=1)]
    density = model.score_samples(rows)
    assert set(found) == set(owner.tolist())
    for key, texts in found.items():
        own = np.flatnonzero(owner == key)
        best = rows[own[np.argsort(-density[own])[:EXAMPLES]]]
        shown = [[float(v.replace("−", "-")) for v in text.split(", ")] for text in texts]
        np.testing.assert_allclose(shown, best, rtol=1e-3)


def test_without_sources_there_are_none(mixture):
    _, session = mixture
    assert examples_of(replace(session, ledger=Ledger())) == {}


def test_a_pipe_is_not_waited_for(mixture, tmp_path):
    _, session = mixture
    os.mkfifo(tmp_path / "pipe.jsonl")
    name = str(tmp_path / "pipe.jsonl")
    ledger = replace(session.ledger, sources={name: Progress(name)})
    assert examples_of(replace(session, ledger=ledger)) == {}


def test_only_the_beginning_of_a_long_source_is_read(mixture, monkeypatch):
    folder, session = mixture
    monkeypatch.setattr(examples, "_MAX_RECORDS", 1)
    (texts,) = examples_of(session).values()
    (shown,) = ([float(v.replace("−", "-")) for v in text.split(", ")] for text in texts)
    np.testing.assert_allclose(shown, np.load(folder / "rows.npy")[0], rtol=1e-3)


def test_a_source_that_became_something_else_has_none(tmp_path):
    request = learned(tmp_path, "mixture from an array")
    (tmp_path / "rows.npy").write_bytes(b"no array")
    assert examples_of(Session.load(request.model)) == {}
    np.save(tmp_path / "rows.npy", np.zeros((4, 9)))  # other columns
    assert examples_of(Session.load(request.model)) == {}


def test_each_text_is_shown_once_and_shortened(tmp_path):
    request = learned(tmp_path, "classifier from texts")
    source = tmp_path / "texts.jsonl"
    line = source.read_text().splitlines()[0]
    long = line.replace('"text": "', '"text": "' + "very\\n " * 100)
    source.write_text(f"{line}\n{line}\n{long}\n")
    texts = [text for found in examples_of(Session.load(request.model)).values() for text in found]
    assert len(texts) == 2
    assert max(map(len, texts)) <= 112
    assert any(text.endswith("very\N{NO-BREAK SPACE}…") for text in texts)


@pytest.mark.parametrize(
    "name", ["topics from counts", "regressor from a table", "ppca from a table"]
)
def test_kinds_without_examples(tmp_path, name):
    assert examples_of(Session.load(learned(tmp_path, name).model)) == {}
