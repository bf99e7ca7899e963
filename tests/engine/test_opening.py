"""The engine as a parameter: what it may be and opens, and that no model keeps a client."""

import copy
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from threadpoolctl import threadpool_info

import everlearn
from everlearn.cli.learn import learn_in_terminal
from everlearn.engine.local import SerialEngine, ThreadEngine
from everlearn.engine.opening import (
    Cluster,
    is_client,
    is_collection,
    keep_engine,
    local_engine,
    open_engine,
    plain_engine,
)
from everlearn.mixture.estimator import DPMixture
from everlearn.stream.learn import LearnRequest, Schedule
from support.bits import assert_same_model
from support.spelling import spell

POINTS = np.random.default_rng(0).normal(size=(200, 2))


class TestOpening:
    @pytest.mark.parametrize("name", ["serial", "threads", None])
    def test_every_name_gives_the_same(self, name):
        with open_engine(name) as engine:
            assert engine.map_sum(spell, [1, 2, 3], 0) == SerialEngine().map_sum(
                spell, [1, 2, 3], 0
            )

    def test_names_mean_what_they_say(self):
        with open_engine("serial") as engine:
            assert isinstance(engine, SerialEngine)
        with open_engine("threads") as engine:
            assert isinstance(engine, ThreadEngine)

    @pytest.mark.parametrize("name", ["serial", "threads"])
    def test_linear_algebra_has_one_thread_meanwhile(self, name):
        def counts():
            return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

        before = counts()
        with open_engine(name):
            assert set(counts()) <= {1}
        assert counts() == before

    @pytest.mark.parametrize("name", [None, "serial", "threads"])
    def test_an_engine_of_this_process_is_kept_by_its_name(self, name):
        with keep_engine(name) as kept:
            assert kept == name

    def test_a_cluster_that_was_started_for_many_calls_is_a_client_meanwhile(self, client):
        with keep_engine(client.scheduler.address) as kept:
            assert is_client(kept)
            assert kept.scheduler.address == client.scheduler.address
            assert kept.status == "running"
        assert kept.status == "closed"
        with keep_engine(client) as own:
            assert own is client
        assert client.status == "running"


class TestNames:
    @pytest.mark.parametrize(
        ("engine", "plain", "local"),
        [
            (None, None, None),
            ("serial", "serial", "serial"),
            ("threads", "threads", "threads"),
            ("dask", "dask", None),
            ("tcp://host:8786", None, None),
        ],
    )
    def test_what_files_keep_and_what_small_work_runs_on(self, engine, plain, local):
        assert plain_engine(engine) == plain
        assert local_engine(engine) == local

    @pytest.mark.parametrize("address", ["tcp://h:1", "tls://h:1", "ucx://h:1", "wss://h:1"])
    def test_addresses_that_a_cluster_may_have(self, address):
        assert Cluster().allows(address)

    def test_a_collection_is_an_object_with_a_graph_and_not_its_class(self):
        array = pytest.importorskip("dask.array").ones(3)
        assert is_collection(array)
        assert not is_collection(type(array))
        assert not is_collection(POINTS)


@pytest.mark.parametrize("engine", ["gpu", "tcp:/host", "host:8786", 3, object(), "tcp://a b"])
def test_what_an_engine_cannot_be(engine):
    with pytest.raises(ValueError, match=r"'engine' parameter of DPMixture.*distributed.Client"):
        DPMixture(engine=engine).fit(POINTS)


def test_copies_share_the_client_and_files_keep_none(client, tmp_path):
    model = DPMixture(engine=client, moves=(), random_state=0).fit(POINTS)
    assert model.get_params()["engine"] is client
    assert clone(model).engine is client
    assert not hasattr(clone(model), "_learned")
    for twin in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        assert twin.engine is None
        assert_same_model(twin, model)
    model.save(tmp_path / "m.evl")
    assert everlearn.load(tmp_path / "m.evl").engine is None
    model.set_params(engine="dask").save(tmp_path / "m.evl")
    assert everlearn.load(tmp_path / "m.evl").engine == "dask"
    model.set_params(engine="tcp://elsewhere:1").save(tmp_path / "m.evl")
    assert everlearn.load(tmp_path / "m.evl").engine is None


def test_predictions_stay_in_this_process():
    model = DPMixture(moves=(), random_state=0).fit(POINTS).set_params(engine="tcp://nowhere:1")
    assert model.predict(POINTS).shape == (200,)


def test_an_address_and_the_client_of_this_process(client):
    serial = DPMixture(engine="serial", moves=(), random_state=0).fit(POINTS)
    address = DPMixture(engine=client.scheduler.address, moves=(), random_state=0).fit(POINTS)
    assert_same_model(serial, address)
    with client.as_current():
        assert_same_model(serial, DPMixture(engine="dask", moves=(), random_state=0).fit(POINTS))


def test_without_dask_the_extra_is_named():
    code = (
        "import sys; sys.modules['distributed'] = None\n"
        "from everlearn import DPMixture\n"
        "DPMixture(engine='dask').fit([[1.0], [2.0]])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "engine='dask' needs the extra 'dask' (pip install 'everlearn[dask]')" in run.stderr


def test_the_tool_learns_on_a_cluster(client, tmp_path):
    source = tmp_path / "rows.jsonl"
    lines = [json.dumps({"a": x, "b": y}) for x, y in POINTS.tolist()]
    source.write_text("\n".join(lines) + "\n")

    def learned(engine, name):
        layout = {"kind": "mixture", "batch": 100}
        params = {"engine": engine, "random_state": 0, "moves": ["merge"]}
        request = LearnRequest(
            tmp_path / name, (str(source),), layout, params, Schedule(every_batches=1)
        )
        assert learn_in_terminal(request, quiet=True) == 0
        return everlearn.load(tmp_path / name)

    far = learned(client.scheduler.address, "far.evl")
    assert far.engine is None
    assert_same_model(far, learned("serial", "here.evl"))


@pytest.mark.slow
def test_the_example_of_the_page_runs(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "ask" / "cluster.md"
    script = tmp_path / "example.py"
    script.write_text(page.read_text().split("```python\n")[1].split("```")[0])
    run = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    components, rows = run.stdout.split()
    assert int(components) >= 1
    assert rows == "200000"
