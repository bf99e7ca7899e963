"""Files of estimators: parameters come back, extras travel along, and wrong files are named."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import everlearn
from everlearn.errors import CheckpointError
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.saving import checked_names, load_with, plain_params, save_with
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.registry import BY_KEY
from everlearn.store.archive import read_checkpoint, write_checkpoint

X = np.random.default_rng(0).normal(size=(30, 3))


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    OnlinePPCA(1, random_state=0).fit(X).save(tmp_path / "model.evl")
    return tmp_path / "model.evl"


def test_files(tmp_path: Path) -> None:
    model = OnlinePPCA(1).fit(X)
    whole = tmp_path / "model.evl"
    model.save(whole)
    short = tmp_path / "short.evl"
    short.write_bytes(whole.read_bytes()[:500])
    (tmp_path / "a.py").write_text("import numpy\n")
    np.savez(tmp_path / "a.npz", X=X)
    (tmp_path / "empty.evl").touch()
    foreign = "is not an everlearn model: those are files that `save` or `everlearn learn` wrote"
    for name, message in {
        "a.py": foreign,
        "a.npz": foreign,
        "empty.evl": "the file is empty or cut off, it has 0 bytes",
        "short.evl": "it is cut off, extended or no checkpoint",
        ".": "it is a directory; name a file in it",
    }.items():
        with pytest.raises(CheckpointError, match=re.escape(message)) as raised:
            everlearn.load(tmp_path / name)
        assert str(tmp_path / name) in str(raised.value)
    with pytest.raises(FileNotFoundError, match=r"absent\.evl"):
        everlearn.load(tmp_path / "absent.evl")
    with pytest.raises(TypeError, match="'path' of load cannot be used: expected str, bytes or"):
        everlearn.load(None)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="it is a directory; name a file in it"):
        model.save(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        model.save(tmp_path / "absent" / "model.evl")
    with pytest.raises(TypeError, match="'path' of OnlinePPCA cannot be used: expected str, bytes"):
        model.save(None)  # type: ignore[arg-type]


class TestExtras:
    """What a stream keeps beside its model."""

    def test_they_come_back_and_the_model_does_not_know_them(self, tmp_path: Path) -> None:
        model = OnlinePPCA(1, random_state=0).fit(X)
        save_with(tmp_path / "a.evl", model, {"place": [3, "x"]}, {"seen": np.arange(4)})
        back, extras, arrays = load_with(tmp_path / "a.evl")
        assert extras == {"place": [3, "x"]}
        assert {name: a.tolist() for name, a in arrays.items()} == {"seen": [0, 1, 2, 3]}
        np.testing.assert_array_equal(back.transform(X), model.transform(X))
        np.testing.assert_array_equal(
            everlearn.load(tmp_path / "a.evl").transform(X), model.transform(X)
        )

    def test_a_model_that_was_saved_alone_has_none(self, saved: Path) -> None:
        _, extras, arrays = load_with(saved)
        assert extras == arrays == {}


class TestForeign:
    """Files that are whole, and lie."""

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"estimator": "os.system"}, "no estimator is called 'os.system'; there are "),
            ({"estimator": None}, "no estimator is called None"),
            ({"estimator": ["ppca"]}, "no estimator is called"),
            ({"stream": [1]}, "'stream' must be an object"),
            ({"more": 1}, "'header' must not have 'more'"),
            ({"params": {}}, "'params' must have"),
            ({"feature_names": ["a"]}, "'feature_names' must be 3 names, got 1"),
            ({"feature_names": "abc"}, "'feature_names' must be names, got 'abc'"),
        ],
    )
    def test_headers(self, saved: Path, change: dict[str, Any], words: str) -> None:
        file = read_checkpoint(saved)
        write_checkpoint(saved, {**file.header, **change}, file.arrays)
        with pytest.raises(CheckpointError, match=re.escape(words)) as caught:
            everlearn.load(saved)
        assert str(saved) in str(caught.value)

    def test_parameters(self, saved: Path) -> None:
        file = read_checkpoint(saved)
        params: Any = file.header["params"]
        write_checkpoint(
            saved, {**file.header, "params": {**params, "n_components": -1}}, file.arrays
        )
        with pytest.raises(CheckpointError, match=r"saved parameters cannot be.*'n_components'"):
            everlearn.load(saved)

    def test_an_array_of_nobody(self, saved: Path) -> None:
        file = read_checkpoint(saved)
        write_checkpoint(saved, file.header, {**file.arrays, "stray": np.zeros(1)})
        with pytest.raises(CheckpointError, match="'stray' belongs to nothing in the header"):
            everlearn.load(saved)

    def test_every_known_name_is_listed(self, saved: Path) -> None:
        file = read_checkpoint(saved)
        write_checkpoint(saved, {**file.header, "estimator": "x"}, file.arrays)
        with pytest.raises(CheckpointError) as caught:
            everlearn.load(saved)
        assert str(caught.value).endswith(f"there are {', '.join(sorted(BY_KEY))}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Oven(ExpertOptions):
    heat: float = 180.0
    trays: tuple[str, ...] = ("top",)
    constraints: ClassVar = {}


class TestParams:
    @pytest.mark.parametrize(
        ("value", "plain"),
        [
            (None, None),
            (np.int64(3), 3),
            (np.float32(0.5), 0.5),
            (np.bool_(True), True),
            (np.str_("em"), "em"),
            (("a", ("b", 2)), ["a", ["b", 2]]),
            ({"b", "a"}, ["a", "b"]),
            ({"rate": np.ones(2), "scale": 3, "kind": "x"},
             {"rate": [1.0, 1.0], "scale": 3.0, "kind": "x"}),
            (Oven(heat=np.float64(9)), {"heat": 9.0, "trays": ["top"]}),
        ],
    )  # fmt: skip
    def test_values_become_what_json_can_hold(self, value: Any, plain: Any) -> None:
        found = plain_params({"it": value}, 0)["it"]
        assert found == plain
        assert type(found) is type(plain)

    def test_a_generator_becomes_the_seed_that_was_drawn_from_it(self) -> None:
        found = plain_params({"random_state": np.random.RandomState(0), "n": 3}, 17)
        assert found == {"random_state": 17, "n": 3}

    @pytest.mark.parametrize(("engine", "kept"), [("serial", "serial"), ("tcp://h:1", None)])
    def test_a_cluster_stays_behind(self, engine: str, kept: str | None) -> None:
        given = {"engine": engine}
        assert plain_params(given, 0) == {"engine": kept}
        assert given == {"engine": engine}

    def test_names_of_columns_come_back(self) -> None:
        assert checked_names(["a", "b"], 2).tolist() == ["a", "b"]
        with pytest.raises(CheckpointError, match="must be names"):
            checked_names(["a", 1], 2)
