"""A cluster of real worker processes, started once for the tests of a file."""

import gc
from collections import Counter
from contextlib import contextmanager

import pytest

dask = pytest.importorskip("dask")
pytest.importorskip("distributed")


@contextmanager
def open_client(n_workers: int):
    """Its threads and sockets are gone when other tests watch memory and warnings.

    A worker that is killed twice within the time after which it counts as lost would be given
    up by the cluster while it starts again, so that time is longer than all tests.
    """
    from everlearn.engine.dask import local_workers

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 day"}),
        local_workers(n_workers) as client,
    ):
        yield client
    gc.collect()


@pytest.fixture(scope="module")
def client():
    """Of two worker processes with one thread each."""
    with open_client(2) as client:
        yield client


@pytest.fixture(scope="module")
def lonely_client():
    """Of one worker process."""
    with open_client(1) as client:
        yield client


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


def pytest_collection_modifyitems(items):
    """Sockets that the cluster's own libraries leave to the garbage collector are not ours."""
    for item in items:
        if item.path.parent.name == "cluster":
            item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
            item.add_marker(
                pytest.mark.filterwarnings(
                    "ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"
                )
            )
            item.add_marker(pytest.mark.filterwarnings("ignore:Port .* is already in use"))
