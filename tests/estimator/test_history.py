"""`history_`: its length, its table, and its data frame."""

import sys

import numpy as np
import pytest

from everlearn import DPMixture
from everlearn.core.moves import LapInfo, MoveRecord
from everlearn.estimator.history import History, Misfit


def history_of(n: int) -> History:
    found = History()
    for lap in range(n):
        moves = (MoveRecord("birth", (0,), (1, 2), 3.5, True),) if lap == 1 else ()
        found = found.after(LapInfo(lap, -1234.5 + lap, 1 + lap, 1000.0, moves, False))
    return found


def test_the_length_is_the_number_of_laps() -> None:
    assert [len(history_of(n)) for n in (0, 1, 5)] == [0, 1, 5]


def test_print_shows_a_table_of_the_first_and_the_latest_laps() -> None:
    assert str(history_of(3)) == (
        "     lap           rows            bound components\n"
        "       0          1,000         -1,234.5          1\n"
        "       1          1,000         -1,233.5          2\n"
        "       2          1,000         -1,232.5          3\n"
        "moves: 1 birth accepted"
    )
    lines = str(history_of(40)).splitlines()
    assert len(lines) == 15
    assert lines[2].strip() == "..."
    assert lines[1].split()[0] == "0"
    assert lines[-2].split()[0] == "39"
    assert str(History()).endswith("moves: none")
    assert repr(history_of(3)) == "<History of 3 laps, 1 of the latest moves>"


def test_print_says_which_records_fit_badly() -> None:
    history = history_of(3).with_misfit(Misfit(since=10_000, rows=3_000, drop=1.63))
    assert str(history).splitlines()[-2:] == [
        "moves: 1 birth accepted",
        "3,000 records fit badly since record 10,000 (1.6 nats below the others)",
    ]


def test_a_data_frame_has_a_row_for_each_lap() -> None:
    frame = history_of(5).to_frame()
    assert frame.columns.tolist() == ["lap", "rows", "bound", "n_components"]
    assert frame["n_components"].tolist() == [1, 2, 3, 4, 5]
    assert frame.dtypes.map(str).tolist() == ["int64", "int64", "float64", "int64"]
    np.testing.assert_array_equal(frame["bound"], history_of(5).curve[:, 2])


def test_without_pandas_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas: pip install pandas"):
        history_of(2).to_frame()


def test_an_estimator_has_a_history() -> None:
    X = np.random.default_rng(0).normal(size=(200, 2))
    model = DPMixture(random_state=0, engine="serial").fit(X)
    assert len(model.history_) == len(model.bound_history_) == len(model.history_.to_frame())
