"""Engines of this machine, and what tests of the cluster watch."""

from collections import Counter

import pytest

from everlearn.engine.local import SerialEngine, ThreadEngine


@pytest.fixture(params=["serial", 1, 2, 5])
def engine(request):
    if request.param == "serial":
        yield SerialEngine()
        return
    with ThreadEngine(request.param) as engine:
        yield engine


@pytest.fixture
def sent(monkeypatch):
    """How many tasks were sent to the cluster so far, by what they do."""
    from everlearn.engine.dask import DaskEngine

    found: Counter[str] = Counter()
    submit = DaskEngine._submitted

    def counted(self, work, groups, call):
        found[work.__name__] += len(groups)
        return submit(self, work, groups, call)

    monkeypatch.setattr(DaskEngine, "_submitted", counted)
    return found


@pytest.fixture
def small_chunks(monkeypatch):
    """Few rows are enough to be spread over workers."""
    monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 96)
