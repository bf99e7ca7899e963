"""Workers and schedulers that are lost, clusters that are not there."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

import dask
import dask.array as da
import dask.bag as db
import distributed
import numpy as np
import pytest

import everlearn
from everlearn.components.estimator import ComponentTree
from everlearn.engine.dask import DaskEngine
from everlearn.engine.opening import open_engine
from everlearn.engine.protocol import Piece
from everlearn.errors import ClusterError
from everlearn.linear.classifier import (
    BayesianPassiveAggressiveClassifier,
)
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.topics.medlda import MedLDAClassifier
from everlearn.topics.topic_model import TopicModel
from support.bits import assert_same_model
from support.corpora import LABELS, TOKENS

pytestmark = pytest.mark.filterwarnings("ignore::everlearn.errors.NotConvergedWarning")
RNG = np.random.default_rng(2)
POINTS = np.concatenate([RNG.normal(c, 1.0, (300, 3)) for c in (-8, 0, 8)])
RNG.shuffle(POINTS)


def mixture(engine):
    return DPMixture(random_state=0, max_laps=5, batch_size=300, engine=engine)


def slow_sum(shared, rows):
    time.sleep(shared)
    return float(rows.sum()), os.getpid()


class Killer:
    """Kills a worker process when the run sends its n-th step, or waits for it."""

    def __init__(self, client, monkeypatch, step):
        self.client, self.left, self.killed = client, step, 0
        gather, submit = client.gather, DaskEngine._submitted

        def gathered(*args, **kwargs):
            self.count()
            return gather(*args, **kwargs)

        def submitted(engine, *args):
            self.count()
            return submit(engine, *args)

        monkeypatch.setattr(client, "gather", gathered)
        monkeypatch.setattr(DaskEngine, "_submitted", submitted)

    def count(self):
        self.left -= 1
        if self.left == 0:
            pid = next(iter(self.client.run(os.getpid).values()))
            os.kill(pid, signal.SIGKILL)
            self.killed += 1


def raised(error):
    raise error


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file", "no/scheduler.npy"),
        ConnectionResetError("the database went away"),
        OSError("quota of the scheduler exceeded"),
        TimeoutError("the disk is slow"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_users_own_tasks_are_told_as_they_are(error, client):
    """They are no lost workers, whatever their type and even if they speak of a scheduler."""
    rows = da.from_delayed(dask.delayed(raised)(error), (100, 3), float)
    with pytest.raises(type(error), match=str(error.args[-1])):
        mixture(client).fit(rows)
    with pytest.raises(type(error), match=str(error.args[-1])):
        BayesianPassiveAggressiveClassifier(engine=client).fit(POINTS, rows[:, 0])


@pytest.fixture
def whole(client):
    """The cluster, which has two workers again after the test."""
    yield client
    client.wait_for_workers(2, timeout=300)


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("step", [3, 11])
def test_a_killed_worker_does_not_change_the_result(step, whole, monkeypatch):
    killer = Killer(whole, monkeypatch, step)
    far = mixture(whole).fit(POINTS)
    assert killer.killed == 1
    assert_same_model(far, mixture("serial").fit(POINTS))


@pytest.mark.parametrize("step", [4, 12])
def test_nor_does_one_that_held_chunks_and_labels(step, whole, lonely_client, monkeypatch):
    def chunked(client):
        return client.persist(da.from_array(POINTS, chunks=(150, -1)))

    expected = mixture(lonely_client).fit(chunked(lonely_client))
    X = chunked(whole)
    killer = Killer(whole, monkeypatch, step)
    found = mixture(whole).fit(X)
    assert killer.killed == 1
    assert_same_model(found, expected)


def topics(engine):
    bag = db.from_sequence(TOKENS[:96], npartitions=6)
    return TopicModel(n_topics=3, batch_size=48, n_passes=2, random_state=0, engine=engine).fit(bag)


def labelled_topics(engine):
    bag, params = (
        db.from_sequence(TOKENS[:96], npartitions=6),
        {"loss": "gibbs", "options": {"n_rounds": 2}},
    )
    model = MedLDAClassifier(n_topics=6, batch_size=48, random_state=0, engine=engine, **params)
    return model.fit(bag, LABELS[:96])


def ppca(engine):
    X = da.from_array(POINTS, chunks=(150, -1))
    return OnlinePPCA(
        n_components=1, fit_method="em", max_iter=5, random_state=0, engine=engine
    ).fit(X)


def components(engine):
    X = da.from_array(POINTS, chunks=(150, -1))
    return ComponentTree(max_nodes=4, max_iter=2, random_state=0, engine=engine).fit(X)


def brought(engine):
    X, y = da.from_array(POINTS, chunks=(150, -1)), (POINTS[:, 0] > 0).astype(int)
    return BayesianPassiveAggressiveClassifier(random_state=0, engine=engine).fit(X, y)


@pytest.mark.parametrize("learned", [topics, labelled_topics, ppca, components, brought])
def test_nor_one_with_documents_or_other_rows(learned, whole, lonely_client, monkeypatch):
    expected = learned(lonely_client)
    killer = Killer(whole, monkeypatch, 4)
    found = learned(whole)
    assert killer.killed == 1
    assert_same_model(found, expected)


def test_killed_in_the_middle_of_a_task(whole):
    data = np.arange(40.0)
    pieces = [Piece(data, slice(i, i + 10), slice(0, 10)) for i in range(0, 40, 10)]
    with open_engine(whole) as engine:
        engine.map_sum(slow_sum, pieces, 0.0)
        pids = whole.run(os.getpid)
        timer = threading.Timer(0.25, os.kill, (next(iter(pids.values())), signal.SIGKILL))
        timer.start()
        total, workers = engine.map_sum(slow_sum, pieces, 0.5)
        timer.join()
    assert total == data.sum()
    assert next(iter(pids.values())) not in workers


def test_data_that_nobody_has_are_let_go_of(client):
    data = np.arange(40.0)
    with open_engine(client) as engine:
        engine.map_sum(slow_sum, [Piece(data, slice(0, 40), slice(0, 40))], 0.0)
        assert len(engine._sent.futures) == 1
        del data
        assert not engine._sent.futures


def test_an_error_in_a_task_reaches_the_caller_and_leaves_the_engine_usable(client):
    with open_engine(client) as engine:
        with pytest.raises(ZeroDivisionError):
            engine.map(divided, [1, 0, 2], 6)
        assert engine.map(divided, [1, 2], 6) == [6, 3]


def divided(shared, item):
    return shared // item


@pytest.fixture
def scheduler():
    """A scheduler and a worker as processes of their own, and the scheduler's address."""
    code = "import sys; from distributed.cli.dask_{0} import main; main(sys.argv[1:])"
    run = [sys.executable, "-W", "ignore", "-c"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    head = subprocess.Popen(
        [*run, code.format("scheduler"), "--port", "0", "--no-dashboard", "--host", "127.0.0.1"],
        **quiet,
    )
    address = next(
        line.split()[-1] for line in head.stderr if "Scheduler at" in line and "tcp://" in line
    )
    worker = subprocess.Popen(
        [*run, code.format("worker"), address, "--nthreads", "1", "--no-nanny", "--no-dashboard"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    yield address, head
    for process in (worker, head):
        process.kill()
        process.wait()
    head.stderr.close()


def learn_forever(model, X):
    while True:
        model.partial_fit(X)


def test_a_lost_scheduler_is_told_and_the_last_checkpoint_goes_on(scheduler, tmp_path):
    address, process = scheduler
    model = mixture(address).partial_fit(POINTS[:400])
    model.save(tmp_path / "model.evl")
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1)
        model.set_params(engine=client)
        timer = threading.Timer(1.0, process.kill)
        timer.start()
        with pytest.raises(ClusterError, match="scheduler was lost"):
            learn_forever(model, POINTS[400:])
        timer.join()
    assert model.to_checkpoint()[0]["learned"]["n_rows"] == model.n_samples_seen_
    assert (model.n_samples_seen_ - 400) % 500 == 0  # whole calls, or nothing
    resumed = everlearn.load(tmp_path / "model.evl").set_params(engine="serial")
    here = mixture("serial").partial_fit(POINTS[:400])
    assert_same_model(resumed.partial_fit(POINTS[400:]), here.partial_fit(POINTS[400:]))


def test_a_scheduler_that_was_lost_before_the_call(scheduler):
    address, process = scheduler
    with distributed.Client(address, set_as_default=False) as client:
        client.wait_for_workers(1)
        process.kill()
        end = time.monotonic() + 30
        while client.status == "running" and time.monotonic() < end:
            time.sleep(0.01)
        with pytest.raises(ClusterError, match="scheduler was lost"):
            mixture(client).fit(POINTS)


def test_an_address_where_nobody_answers(monkeypatch):
    monkeypatch.setattr("everlearn.engine.dask._PATIENCE", 0.5)
    with pytest.raises(ClusterError, match="no Dask scheduler answers at 'tcp:"):
        mixture("tcp://127.0.0.1:9").fit(POINTS)


def test_a_client_that_does_not_wait(client):
    async def learn():
        address = client.scheduler.address
        async with distributed.Client(address, asynchronous=True, set_as_default=False) as hasty:
            mixture(hasty).fit(POINTS)

    with pytest.raises(ClusterError, match="asynchronous, and learning waits for its steps"):
        asyncio.run(learn())


@pytest.mark.slow
def test_a_script_that_workers_would_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from everlearn import DPMixture\nDPMixture(engine='dask').fit([[1.0], [2.0]])\n"
    )
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    told = run.stderr.strip().splitlines()[-1]
    assert "ClusterError: worker processes could not be started" in told
    assert '`if __name__ == "__main__":`' in told


def test_a_client_that_is_closed(client):
    gone = distributed.Client(client.scheduler.address, set_as_default=False)
    gone.close()
    with pytest.raises(ClusterError, match="client given as engine is closed"):
        mixture(gone).fit(POINTS)
