"""Files that are whole but contradict themselves: a named error, never a broken model.

`test_conformance.py` spoils each part alone in the ways that its schema rules out.
"""

import copy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from everlearn.errors import CheckpointError
from everlearn.estimator.saving import load
from everlearn.store.archive import Checkpoint, write_checkpoint
from support.corpora import BATCH, FITTED, TEXTS, VOCABULARY, X, model_of, targets_of, teach
from support.spoiling import FLOATS, SHAPES, assert_named, loaded, places, with_entry

NAMES = ("lda", "hdp", "averaging", "gibbs", "averaging, words", "gibbs, ovr", "ovr, words")
NAMES += ("born", "born, gibbs", "number", "number, gibbs")
assert set(NAMES) <= set(FITTED)
FUZZ_CASES = 1100


@cache
def _content(name: str, form: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    documents = {"texts": TEXTS, "frame": pd.DataFrame(X.toarray(), columns=VOCABULARY)}[form]
    model = teach(model_of(name), name, slice(0, 2 * BATCH), documents)
    header, arrays = model.to_checkpoint()
    return {"estimator": model.checkpoint_key, **header}, arrays


def content(name: str, form: str = "texts") -> Checkpoint:
    """Header and arrays of a saved model, for the test to spoil."""
    header, arrays = _content(name, form)
    return Checkpoint(copy.deepcopy(header), {key: a.copy() for key, a in arrays.items()})


# Every member, one thing wrong at a time


NOT_NEGATIVE = ("counts", "totals", "tables", "frequencies")
INTEGERS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "negative": lambda a: a - 100,
    "large": lambda a: a + 2**40,
    "fractions": lambda a: a.astype(float),
    "short": lambda a: a.astype(np.int32),
}


def changes_of(key: str, array: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Every way in which a member cannot be."""
    changes = dict(SHAPES)
    if array.dtype.kind == "f":
        changes |= FLOATS
        if key.endswith(NOT_NEGATIVE):
            changes["negative"] = with_entry(-1.0)
    elif array.dtype == np.int64:
        changes |= INTEGERS
    elif array.dtype == np.uint8:
        changes |= {"no text": with_entry(255), "wider": lambda a: a.astype(np.int64)}
    return changes


@pytest.mark.parametrize("name", NAMES)
def test_every_member_is_looked_at(name: str) -> None:
    arrays = content(name).arrays
    for key, array in arrays.items():
        for kind, change in changes_of(key, array).items():
            file = content(name)
            file.arrays[key] = change(file.arrays[key])
            found = loaded(file)
            assert isinstance(found, str), f"{key}, {kind} was accepted"
            # A member of which others take their length is not to blame alone.
            partners = {
                "counts": "learned/states",
                "weights/mean": "learned/states",
                "weights/precision": "learned/states",
                "classes": "learned/",
                "text": "vocabulary",
                "ends": "vocabulary",
            }
            expected = next((v for k, v in partners.items() if key.endswith(k)), key)
            assert expected in found, (key, kind, found)
            assert "does not make" not in found, (key, kind, found)
        file = content(name)
        del file.arrays[key]
        assert_named(file, key)
    for more in ("more", f"{STATE}/more", "learned/states/9/counts", "learned/words/more"):
        file = content(name)
        file.arrays[more] = np.ones(3)
        assert_named(file, more)


def member(key: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        file.arrays[key] = change(file.arrays[key])

    return spoil


def entry(*path: Any, value: Any) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        place: Any = file.header
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return spoil


def without(*path: Any) -> Callable[[Checkpoint], None]:
    def spoil(file: Checkpoint) -> None:
        place: Any = file.header
        for step in path[:-1]:
            place = place[step]
        del place[path[-1]]

    return spoil


def drop_last_state(file: Checkpoint) -> None:
    """Without its arrays, too."""
    states = file.header["learned"]["states"]
    del states[-1]
    for name in [name for name in file.arrays if name.startswith(f"learned/states/{len(states)}/")]:
        del file.arrays[name]


def asymmetric(a: np.ndarray) -> np.ndarray:
    a[0, 0, 1] += 1.0
    return a


def below_zero(a: np.ndarray) -> np.ndarray:
    a[0, 0] -= 1e3
    a[1, 0] += 1e3  # so that the sums are right
    return a


STATE = "learned/states/0"
GAUSSIAN = {"kind": "gaussian"}
WRONG = [
    ("lda", member(f"{STATE}/counts", below_zero), f"{STATE}/counts"),
    ("lda", member(f"{STATE}/totals", lambda a: a * 1.01), f"{STATE}/totals"),
    ("lda", member(f"{STATE}/counts", lambda a: a * 1.01), f"{STATE}/totals"),
    ("lda", member(f"{STATE}/counts", lambda a: a[::-1] * 2), f"{STATE}/totals"),
    ("hdp", member(f"{STATE}/ids", lambda a: a * 0), f"{STATE}/ids"),
    ("averaging", member(f"{STATE}/codes", lambda a: a + 1), f"{STATE}/codes"),
    ("averaging", member(f"{STATE}/weights/mean", lambda a: a.T.copy()), f"{STATE}/weights/mean"),
    ("averaging", member("learned/outputs/classes", lambda a: a[::-1].copy()), "classes"),
    ("averaging", member("learned/outputs/classes", lambda a: np.full_like(a, "x")), "classes"),
    ("averaging", member("learned/outputs/classes", lambda a: np.arange(4) + 0.5), "classes"),
    ("averaging", member("learned/outputs/classes", lambda a: a[:3].copy()), "states/0/weights"),
    ("gibbs", member(f"{STATE}/weights/precision", lambda a: -a), "weights/precision"),
    ("gibbs", member(f"{STATE}/weights/precision", lambda a: a * 0), "weights/precision"),
    ("gibbs", member(f"{STATE}/weights/precision", asymmetric), "weights/precision"),
    (
        "averaging, words",
        member(f"{STATE}/words/frequencies", lambda a: a + 99),
        "words/frequencies",
    ),
    (
        "averaging, words",
        member("learned/words/vocabulary/ends", lambda a: a[::-1].copy()),
        "vocabulary",
    ),
    (
        "averaging, words",
        member("learned/words/vocabulary/text", lambda a: a * 0 + 97),
        "vocabulary",
    ),
    ("ovr, words", member("learned/states/3/counts", lambda a: a[:, :-1]), "states/3"),
    ("ovr, words", entry("learned", "states", value=[]), "states"),
    ("ovr, words", drop_last_state, "states"),
    ("averaging", entry("learned", "states", value={}), "states"),
    ("averaging", entry("learned", "states", 0, "next_id", value=1), "ids"),
    ("averaging", entry("learned", "states", 0, "weights", value=None), "weights"),
    ("averaging", entry("learned", "states", 0, "weights", value=GAUSSIAN), "weights/precision"),
    ("gibbs", entry("learned", "states", 0, "weights", value={"kind": "fixed"}), "weights/mean"),
    ("lda", entry("learned", "states", 0, "weights", value={"kind": "fixed"}), "weights/mean"),
    ("averaging", entry("learned", "states", 0, "weights", value={"kind": "cauchy"}), "weights"),
    ("averaging", entry("learned", "states", 0, "weights", value={"kind": ["fixed"]}), "weights"),
    (
        "averaging",
        entry("learned", "states", 0, "words", value={"n_documents": 3.0}),
        "words/weights",
    ),
    ("averaging, words", entry("learned", "states", 0, "words", value=None), "word"),
    (
        "averaging, words",
        entry("learned", "states", 0, "words", "n_documents", value=1.0),
        "words/frequencies",
    ),
    ("averaging", entry("learned", "weight_prior", "variance", value=3.0), "variance"),
    ("averaging", entry("learned", "weight_prior", "anchored", value=False), "anchors"),
    ("averaging", entry("learned", "weight_prior", value=None), "weight_prior"),
    ("averaging", entry("learned", "words", "n_words", value=7), "n_words"),
    ("averaging", entry("learned", "words", "vocabulary", value=None), "vocabulary"),
    ("averaging", entry("learned", "outputs", "kind", value="binary"), "classes"),
    ("lda", entry("learned", "outputs", value={"kind": "binary"}), "outputs"),
    ("number", entry("learned", "outputs", "spread", value=-1.0), "spread"),
    ("lda", entry("feature_names", value=["a"]), "feature_names"),
    ("lda", entry("feature_names", value="abc"), "feature_names"),
    ("lda", without("feature_names"), "feature_names"),
    ("lda", entry("more", value=1), "more"),
    ("lda", entry("params", value=[]), "params"),
    ("lda", entry("params", "colour", value="red"), "colour"),
    ("lda", without("params", "n_passes"), "n_passes"),
    ("lda", entry("params", "options", "epochs", value=3), "epochs"),
    ("lda", entry("params", "options", "topic_word_prior", value=-1.0), "topic_word_prior"),
    ("lda", entry("params", "options", "word_factor", value="gamma"), "word_factor"),
    ("lda", entry("params", "options", "burn_in", value=3), "burn_in"),
    ("lda", entry("params", "stop_words", value=[[]]), "stop_words"),
    ("lda", entry("params", "text", value={"token_pattern": "("}), "token_pattern"),
    ("lda", entry("params", "vocabulary", value=["a", "a"]), "vocabulary"),
    ("lda", entry("params", "random_state", value=-1), "random_state"),
    ("averaging", entry("params", "loss", value="gibbs"), "loss"),
    ("gibbs", entry("params", "loss", value="averaging"), "loss"),
    ("number", entry("params", "loss", value="gibbs"), "loss"),
    ("number, gibbs", entry("params", "loss", value="averaging"), "loss"),
    ("averaging", entry("params", "word_weights", value=True), "word_weights"),
    ("averaging, words", entry("params", "word_weights", value=False), "word_weights"),
    ("averaging", entry("params", "strategy", value="ovr"), "strategy"),
    ("gibbs, ovr", entry("params", "strategy", value="shared"), "strategy"),
    ("born", entry("params", "options", "word_factor", value="gamma"), "word_factor"),
    ("averaging", entry("estimator", value="topic-model"), "params"),
    ("averaging", entry("estimator", value="medhdp-classifier"), "params"),
    ("averaging", entry("estimator", value="medical"), "estimator"),
]


@pytest.mark.parametrize(("name", "spoil", "word"), WRONG)
def test_what_is_wrong_is_named(
    name: str, spoil: Callable[[Checkpoint], None], word: str, tmp_path: Path
) -> None:
    file, path = content(name), tmp_path / "model.evl"
    spoil(file)
    with mock.patch("os.fsync"):
        write_checkpoint(path, file.header, file.arrays)
    with pytest.raises(CheckpointError) as caught:
        load(path)
    assert word in str(caught.value)
    assert str(path) in str(caught.value)
    assert "does not make" not in str(caught.value)


def test_names_of_columns_must_fit() -> None:
    for names in (["a"], "abc", [1] * 60, {"a": 1}):
        file = content("averaging", "frame")
        file.header["feature_names"] = names
        assert_named(file, "feature_names")


@pytest.mark.parametrize("name", NAMES)
def test_untouched_content_is_accepted(name: str) -> None:
    for form in ("texts", "frame"):
        model = loaded(content(name, form))
        assert_sound(model, name, form)


# Anything wrong, at random

VALUES = [None, True, False, -1, 0, 1, 2, 7, 2**31, 2**63, 2**64 + 1, 10**30, 10**400]
VALUES += [0.5, -0.5, 1e-300, 1e300, "", "words", "fixed", "gibbs", [], [1], {}, {"a": 1}, [[0]]]


def spoil_header(file: Checkpoint, rng: np.random.Generator) -> None:
    every = list(places(file.header))
    path = every[rng.integers(len(every))]
    place: Any = file.header
    for step in path[:-1]:
        place = place[step]
    old, kind = place[path[-1]], rng.integers(4)
    if kind == 0 and isinstance(old, (int, float)):
        place[path[-1]] = [old + 1, old - 1, -old, old * 1000, float(old)][rng.integers(5)]
    elif kind == 1:
        del place[path[-1]]
    elif kind == 2 and isinstance(old, dict):
        old["more"] = 1
    else:
        place[path[-1]] = copy.deepcopy(VALUES[rng.integers(len(VALUES))])


def spoil_array(file: Checkpoint, rng: np.random.Generator) -> None:
    keys = sorted(file.arrays)
    key, other = (keys[i] for i in rng.integers(len(keys), size=2))
    changes = list(changes_of(key, file.arrays[key]).values())
    choice = rng.integers(len(changes) + 4)
    old = file.arrays[key]
    if not old.ndim:  # an earlier change has left nothing that could be cut
        return
    if choice < len(changes):
        file.arrays[key] = changes[choice](old)
    elif choice == len(changes):
        file.arrays[key] = rng.permutation(old)
    elif choice == len(changes) + 1:
        file.arrays[key] = file.arrays[other]
    elif choice == len(changes) + 2 and old.dtype.kind in "fi":
        file.arrays[key] = (old * rng.normal(size=old.shape) * 10.0 ** rng.integers(9)).astype(
            old.dtype
        )
    else:
        file.arrays[f"{key}x"] = old


def assert_sound(model: Any, name: str, form: str = "texts") -> None:
    """What was loaded after all must be a model like any other."""
    documents: Any = TEXTS
    if form == "frame":
        documents = pd.DataFrame(X.toarray(), columns=VOCABULARY)
    z = model.transform(documents[:20])
    assert np.isfinite(z).all()
    assert (z.sum(axis=1) > 0.99).all()
    if hasattr(model, "decision_function"):
        assert np.isfinite(model.decision_function(documents[:20])).all()
        model.predict(documents[:20])
    y = targets_of(name)
    model.partial_fit(documents[:20], None if y is None else y[:20])
    assert np.isfinite(model.components_).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore::everlearn.errors.TopicCollapseWarning")
def test_random_damage_is_refused_or_harmless(name: str) -> None:
    rng = np.random.default_rng(NAMES.index(name))
    messages = []
    for _ in range(FUZZ_CASES // len(NAMES)):
        file = content(name)
        for _ in range(rng.integers(1, 3)):
            spoil = spoil_header if rng.random() < 0.5 else spoil_array
            with np.errstate(all="ignore"):
                spoil(file, rng)
        found = loaded(file)
        if isinstance(found, str):
            messages.append(found)
            continue
        header = content(name).header
        same = all(file.header[part] == header[part] for part in ("params", "estimator"))
        if same and file.header["learned"]["words"] == header["learned"]["words"]:
            assert_sound(found, name)
    assert len(messages) > FUZZ_CASES // len(NAMES) // 2
    assert all(m.startswith("spoilt.evl: ") and "does not make" not in m for m in messages)
