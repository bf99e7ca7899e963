"""Model files that are damaged, or replaced while they are read."""

import json
import threading
import time

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.io.opening import open_sources
from everlearn.stream.predict import predictions
from everlearn.stream.session import Session
from store.test_archive_damage import mutated
from support.store_files import overwrite, resealed
from support.stream_cases import FILES, learned

N_DAMAGED = 150
N_USED = 10
"""So many of the files that are not refused are used, for each kind of model."""
N_READERS = 8


def outcome(path, content):
    """The session of a file, or None if it is refused by name, and the CPU seconds that it took."""
    overwrite(path, content)
    start, session, refusal = time.process_time(), None, ""
    try:
        session = Session.load(path)
    except CheckpointError as error:
        refusal = str(error)
    assert session is not None or str(path) in refusal
    return session, time.process_time() - start


def check_usable(session, path, sources):
    """It can be written and read again, and answers what the sound model answers to."""
    session.save(path)
    again = Session.load(path)
    assert again.ledger.batches == session.ledger.batches
    answers = list(predictions(session, open_sources(sources, label=session.layout.label)))
    assert answers
    assert json.loads(json.dumps(answers, allow_nan=False))


@pytest.mark.parametrize("name", FILES)
def test_damaged_models_are_refused_at_once(tmp_path, name):
    request = learned(tmp_path, name)
    sound = request.model.read_bytes()
    rng = np.random.default_rng(5)
    for _ in range(N_DAMAGED):
        damaged = mutated(sound, rng)
        if damaged == sound:
            continue
        session, seconds = outcome(request.model, damaged)
        assert session is None
        assert seconds < 1.0, "a damaged file must not keep anybody waiting"


@pytest.mark.parametrize("name", FILES)
def test_damage_under_a_valid_seal_is_refused_or_does_not_matter(tmp_path, name):
    """What is not refused by name is a model like any other: it is written, read and answers."""
    request = learned(tmp_path, name)
    sound = request.model.read_bytes()
    rng = np.random.default_rng(6)
    refused = used = 0
    for _ in range(N_DAMAGED):
        damaged = bytearray(sound)
        for position in rng.integers(0, len(sound) - 64, size=rng.integers(1, 4)):
            damaged[position] ^= 1 << int(rng.integers(8))
        session, seconds = outcome(request.model, resealed(bytes(damaged)))
        assert seconds < 1.0, "a damaged file must not keep anybody waiting"
        refused += session is None
        if session is not None and used < N_USED:
            used += 1
            check_usable(session, tmp_path / "again.evl", request.sources)
    assert refused


def test_many_readers_and_one_writer(tmp_path):
    """Two states in turn; whoever reads sees one of them, never a mixture."""
    request = learned(tmp_path, "mixture from an array")
    session = Session.load(request.model)
    before = session.with_model(type(session.model)(random_state=3).partial_fit(np.eye(4)))
    states = {s.model.n_samples_seen_: s.model.means_.tobytes() for s in (before, session)}
    assert len(states) == 2
    stop, faults = threading.Event(), []
    reads = [set() for _ in range(N_READERS)]

    def read(seen):
        while not stop.is_set():
            try:
                model = Session.load(request.model).model
                assert states[model.n_samples_seen_] == model.means_.tobytes()
                seen.add(model.n_samples_seen_)
            except Exception as error:
                faults.append(error)
                return

    readers = [threading.Thread(target=read, args=(seen,)) for seen in reads]
    for reader in readers:
        reader.start()
    for i in range(400):
        (before, session)[i % 2].save(request.model)
        if i >= 40 and all(reads):
            break
    stop.set()
    for reader in readers:
        reader.join()
    assert not faults
    assert all(reads)
    assert set().union(*reads) == set(states)
