"""Steps on a cluster: how many bytes they move, side by side, and that nothing is left behind."""

import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager

import dask.array as da
import distributed
import numpy as np
import pytest

from benchmarks import cluster
from everlearn.core.stats import total
from everlearn.engine import protocol
from everlearn.engine.local import SerialEngine
from everlearn.engine.opening import open_engine
from everlearn.engine.protocol import Piece
from everlearn.mixture.estimator import DPMixture
from support.bits import assert_same_model
from support.spelling import spell

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
RNG = np.random.default_rng(4)
POINTS = np.concatenate([RNG.normal(c, 1.0, (300, 3)) for c in (-8, 0, 8)])
RNG.shuffle(POINTS)
DATA = np.arange(80.0)


def mixture(engine):
    return DPMixture(random_state=0, max_laps=4, batch_size=300, engine=engine)


def pieces(data=DATA, size=10):
    return [Piece(data, slice(i, i + size), slice(0, size)) for i in range(0, len(data), size)]


def summed(shared, rows):
    return shared * float(rows.sum()), len(rows)


def held(client):
    """The keys of all that is on the workers."""
    found = client.run(lambda dask_worker: list(dask_worker.data))
    return {key for keys in found.values() for key in keys}


def wait_until(true, seconds=20):
    end = time.monotonic() + seconds
    while not (found := true()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


# ------------------------------------------------------------------ bytes


@pytest.fixture
def counted(client):
    """No new cluster for each measurement, but the shared one; its bytes are counted."""

    @contextmanager
    def opened(n_workers):
        assert len(client.nthreads()) == n_workers
        cluster.count_bytes()
        client.run(cluster.count_bytes)
        yield client

    return opened


@pytest.mark.parametrize(
    ("cost_of", "n"),
    [(cluster.mixture_cost, 8000), (cluster.topics_cost, 800)],
    ids=["mixture", "topics"],
)
def test_a_step_moves_a_posterior_and_statistics_for_each_worker_however_much_there_is(
    cost_of, n, counted, monkeypatch
):
    """Bytes written to sockets by all processes."""
    monkeypatch.setattr(cluster, "cluster", counted)
    moved = []
    for size in (n, 4 * n):
        cost, posterior, statistics = cost_of(2, size)
        assert cost.moved <= cluster.bound(2, posterior, statistics)
        moved.append(cost.moved)
    assert abs(moved[1] - moved[0]) <= 2 * cluster.MESSAGES


def test_chunks_that_lie_on_another_worker_than_expected_are_moved(client):
    one, two = sorted(client.nthreads())
    with open_engine(client) as engine:
        engine.map_sum(summed, pieces(), 1.0)
        engine._sent._homes = {
            key: two if home == one else one for key, home in engine._sent._homes.items()
        }
        assert engine.map_sum(summed, pieces(), 2.0) == (2 * DATA.sum(), [10] * 8)


def test_a_client_that_reaches_the_scheduler_only(client):
    address = client.scheduler.address
    with (
        distributed.Client(address, direct_to_workers=False, set_as_default=False) as behind,
        open_engine(behind) as engine,
    ):
        assert engine.map_sum(summed, pieces(), 1.0)[0] == DATA.sum()
        assert not {*behind.rpc.available, *behind.rpc.occupied} & set(behind.nthreads())


def test_order_and_grouping_are_those_of_one_process(client, monkeypatch):
    monkeypatch.setattr("everlearn.engine.protocol.CHUNK_ROWS", 3)
    runs = protocol.pieces(tuple(range(17)), 2)
    with open_engine(client) as engine:
        assert engine.map(spell, [], "s") == []
        for items in ([7], list(range(13)), runs):
            assert engine.map(spell, items, "s") == SerialEngine().map(spell, items, "s")
            far, handles = engine.map_sum_and_keep(spell, items, "s")
            here, infos = SerialEngine().map_sum(spell, items, "s")
            assert engine.map_sum(spell, items, "s") == (here, infos)
            assert far == here
            assert [info for handle in handles for info in handle.fetch()] == infos
        with pytest.raises(ValueError, match="nothing to sum"):
            engine.map_sum(spell, [], None)


# ------------------------------------------------------------------ side by side


@pytest.mark.usefixtures("small_chunks")
def test_two_models_at_the_same_time(client):
    expected = mixture("serial").fit(POINTS)
    with distributed.Client(client.scheduler.address, set_as_default=False) as other:
        found = {}

        def learn(name, engine):
            found[name] = mixture(engine).fit(POINTS)

        threads = [
            threading.Thread(target=learn, args=(name, engine))
            for name, engine in enumerate([client, other, client])
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for name in range(3):
        assert_same_model(found[name], expected)


def test_threads_of_a_worker_give_the_same_bits(client):
    rows = da.from_array(POINTS, chunks=(50, -1))
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=3, dashboard_address=None, silence_logs=50
        ) as many,
        distributed.Client(many, set_as_default=False) as threads,
    ):
        far = mixture(threads).fit(rows)
    assert_same_model(far, mixture(client).fit(rows))


# ------------------------------------------------------------------ nothing is left


def test_kept_results_are_let_go_of(client):
    before = held(client)
    with open_engine(client) as engine:
        _, handles = engine.map_sum_and_keep(summed, pieces(), 1.0)
        assert [handle.fetch() for handle in handles] == [[10]] * 8
        assert any(key.startswith("added-") for key in held(client) - before)
        del handles
    assert wait_until(lambda: not held(client) - before)


def test_nor_is_what_a_client_that_was_killed_had_asked_for(client, tmp_path):
    """It dies while a worker is at work, which then keeps results that nobody will ask for."""
    before, begun = held(client), tmp_path / "begun"
    script = tmp_path / "script.py"
    script.write_text(f"""
import time
import distributed
from everlearn.engine.opening import open_engine


def slow(shared, item):
    open({str(begun)!r}, "w").close()
    time.sleep(shared)
    return 1.0, item


with distributed.Client({client.scheduler.address!r}, set_as_default=False) as client:
    with open_engine(client) as engine:
        engine.map_sum_and_keep(slow, [1, 2], 2.0)
""")
    process = subprocess.Popen([sys.executable, str(script)])
    assert wait_until(begun.exists, 60)
    process.send_signal(signal.SIGKILL)
    process.wait()
    time.sleep(2.5)  # the workers are ready by then
    assert wait_until(lambda: not held(client) - before)


def test_the_engine_goes_on_after_an_error(client):
    with open_engine(client) as engine:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                engine.map_sum_and_keep(one_by, [1, 0, 2, 3], 6)
            found, handles = engine.map_sum_and_keep(one_by, [1, 2, 3, 6], 6)
            assert found == total([6, 3, 2, 1])
            assert [handle.fetch() for handle in handles] == [[1], [2], [3], [6]]


def one_by(shared, item):
    return shared // item, item
