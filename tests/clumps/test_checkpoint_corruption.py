"""Files that are whole but say what no `ClumpedTopicModel` says: a named error, never a model."""

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest

from everlearn.store.archive import Checkpoint
from support.clumped_data import FAMILIES, documents, taught
from support.spoiling import FLOATS, SHAPES, assert_named, loaded

every = pytest.mark.parametrize("family", FAMILIES)
FUZZ_CASES = 150


@cache
def _content(family: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    model = taught(family, count=12, max_clumps=25, max_groups=9)
    report = model.memory_report()
    assert report["n_clumps"] > 2
    assert report["n_single_points"] > 0
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content(family: str = "full") -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content(family)
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda a: a - 100,
    "large": lambda a: a + 2**20,
    "fractions": lambda a: a.astype(float),
    "other size": lambda a: a.astype(np.int32 if a.dtype == np.int64 else np.int64),
}


def changes_of(array: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    return SHAPES | (FLOATS if array.dtype.kind == "f" else INTEGERS)


@every
def test_every_member_is_checked(family: str) -> None:
    for key, array in content(family).arrays.items():
        for change in changes_of(array).values():
            file = content(family)
            file.arrays[key] = change(file.arrays[key])
            assert_named(file, *file.arrays)  # names some member
        file = content(family)
        del file.arrays[key]
        assert_named(file, key)
    file = content(family)
    file.arrays["topics/more"] = np.ones(3)
    assert_named(file, "topics/more")


def scaled(key: str, factor: float) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[key] = (file.arrays[key] * factor).astype(file.arrays[key].dtype)

    return change


def moved(key: str) -> Callable[[Checkpoint], None]:
    """More here, as much less there: sums stay, places do not."""

    def change(file: Checkpoint) -> None:
        array = file.arrays[key].reshape(len(file.arrays[key]), -1)
        array[0] += 0.9 * array[-1]
        array[-1] -= 0.9 * array[-1]

    return change


def swapped(one: str, two: str) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        file.arrays[one], file.arrays[two] = file.arrays[two], file.arrays[one]

    return change


def entry(*path: Any, value: Any) -> Callable[[Checkpoint], None]:
    def change(file: Checkpoint) -> None:
        place: Any = file.header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


WRONG: list[tuple[Callable[[Checkpoint], None], str]] = [
    (scaled("clumps/mass", 1.5), "clumps/mass"),
    (scaled("clumps/counts", 2.0), "clumps/mass"),
    (moved("clumps/mass"), "clumps/mass"),
    (scaled("clumps/features", 3.0), "clumps/features"),
    (moved("clumps/counts"), "clumps/mass"),
    (scaled("clumps/groups", 0), "topics/counts"),
    (scaled("clumps/groups", -1), "clumps/groups"),
    (scaled("singles/groups", 0), "topics/counts"),
    (scaled("singles/X", 3.0), "clumps/features"),
    (scaled("topics/n", 2.0), "topics/counts"),
    (scaled("topics/t", 2.0), "topics/t"),
    (moved("topics/t"), "topics/"),
    (scaled("topics/counts", 0.5), "topics/counts"),
    (scaled("topics/alpha", -1.0), "topics/alpha"),
    (scaled("topics/alpha", 0.0), "topics/alpha"),
    (scaled("topics/alpha", 1e250), "topics/alpha"),
    (scaled("topics/ids", 0), "topics/ids"),
    (scaled("groups/sizes", 2.0), "groups/sizes"),
    (scaled("groups/sizes", 0.5), "groups/sizes"),
    (scaled("groups/ids", -1), "groups/ids"),
    (scaled("groups/ids", 100), "groups/ids"),
    (swapped("topics/n", "topics/alpha"), "topics/"),
    (swapped("clumps/mass", "clumps/counts"), "clumps/"),
    (swapped("clumps/groups", "singles/groups"), "clumps/"),
    (swapped("topics/ids", "groups/ids"), "groups/ids"),
    (entry("state", "price", value=-1.0), "price"),
    (entry("state", "price", value=None), "price"),
    (entry("state", "entropy", value=-5.0), "entropy"),
    (entry("state", "entropy", value=1e9), "entropy"),
    (entry("state", "base", value=0.0), "base"),
    (entry("state", "n_points", value=5), "clumps/mass"),
    (entry("state", "n_points", value=2.5), "n_points"),
    (entry("state", "n_documents", value=1), "groups/sizes"),
    (entry("state", "n_epochs", value=0), "n_epochs"),
    (entry("state", "next_id", value=0), "next_id"),
    (entry("state", "compression_loss", value="much"), "compression_loss"),
    (entry("state", "alpha_rate", value=0.0), "alpha_rate"),
    (entry("state", "family", "kind", value="diagonal"), "family"),
    (entry("state", "more", value=1), "more"),
    (entry("params", "family", value="diagonal"), "family"),
    (entry("params", "topic_price", value=1.25), "topic_price"),
    (entry("params", "max_clumps", value=0), "max_clumps"),
    (entry("params", "prior", value={"scale": [[1.0]]}), "prior"),
    (entry("params", "colour", value="red"), "colour"),
    (entry("history", value=[]), "history"),
    (entry("feature_names", value=["a"]), "feature_names"),
    (entry("estimator", value="topic-model"), "header"),
]


@pytest.mark.parametrize("case", range(len(WRONG)))
def test_what_is_wrong_is_named(case: int) -> None:
    file = content()
    spoil, word = WRONG[case]
    spoil(file)
    assert_named(file, word)


@every
def test_untouched_content_is_accepted(family: str) -> None:
    assert_sound(loaded(content(family)), family)


VALUES = [None, True, -1, 0, 1, 7, 2**63, 10**30, 0.5, -0.5, 1e-300, 1e300, "", "words", [], {}]


def places(node: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a tree of lists and objects."""
    if path:
        yield path
    keys = node if isinstance(node, dict) else range(len(node) if isinstance(node, list) else 0)
    for key in keys:
        yield from places(node[key], (*path, key))


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    every_place = list(places(file.header))
    path = every_place[rng.integers(len(every_place))]
    place: Any = file.header
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    if rng.random() < 0.3 and isinstance(old, (int, float)):
        place[path[-1]] = [old + 1, old - 1, -old, old * 1000, float(old)][rng.integers(5)]
    else:
        place[path[-1]] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    keys = sorted(file.arrays)
    key, other = (keys[i] for i in rng.integers(len(keys), size=2))
    old = file.arrays[key]
    changes = list(changes_of(old).values())
    choice = rng.integers(len(changes) + 3)
    if choice < len(changes):
        file.arrays[key] = changes[choice](old)
    elif choice == len(changes):
        file.arrays[key] = rng.permutation(old)
    elif choice == len(changes) + 1:
        file.arrays[key] = file.arrays[other]
    else:
        noise = old * rng.normal(size=old.shape) * 10.0 ** rng.integers(9)
        file.arrays[key] = noise.astype(old.dtype)


def assert_sound(model: Any, family: str) -> None:
    """What was loaded after all must be a model like any other."""
    parts = documents(family, 3, seed=8)[0]
    z = model.transform(parts)
    assert np.isfinite(z).all()
    assert np.isfinite(model.bound_)
    assert np.isfinite(model.score(parts))
    model.set_params(engine="serial", batch_size=4, memory_budget="64MB", verbose=0)
    model.partial_fit(parts)
    assert np.isfinite(model.bound_)


@every
@pytest.mark.filterwarnings("ignore::everlearn.errors.ForcedJoinWarning")
def test_random_damage_is_refused_or_harmless(family: str) -> None:
    rng = np.random.default_rng(FAMILIES.index(family))
    messages = []
    for _ in range(FUZZ_CASES):
        file = content(family)
        spoil = spoil_header if rng.random() < 0.5 else spoil_array
        with np.errstate(all="ignore"):
            spoil(file, rng)
        found = loaded(file)
        if isinstance(found, str):
            messages.append(found)
        else:
            assert_sound(found, family)
    assert len(messages) > FUZZ_CASES // 2
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)
