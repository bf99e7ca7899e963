"""Streams of tables with text: from lines to a model, and what happens to bad records."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from everlearn.cli.main import app
from everlearn.errors import UsageError
from everlearn.io.opening import open_sources
from everlearn.stream.learn import LearnRequest, Schedule, learn_stream
from everlearn.stream.predict import predictions
from everlearn.stream.session import Session
from everlearn.stream.summary import parts_of

COLUMNS = ("channel", "spend", "visits", "member")


def records(n: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for k in rng.integers(3, size=n).tolist():
        channel = ("web", "shop", "phone")[k if rng.random() < 0.9 else rng.integers(3)]
        rows.append(
            {
                "channel": channel if rng.random() < 0.95 else None,
                "spend": float(rng.normal((10, 30, 60)[k], 4)),
                "visits": int(rng.poisson((1, 6, 14)[k])),
                "member": bool(rng.random() < (0.1, 0.5, 0.9)[k]),
            }
        )
    return rows


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    with path.open("w", newline="") as file:
        if path.suffix == ".jsonl":
            file.writelines(json.dumps(row) + "\n" for row in rows)
        else:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return path


def learn(path: Path, *sources: Path, **options: Any) -> Session:
    names = tuple(map(str, sources))
    return learn_stream(LearnRequest(path, names, options, {"random_state": 0}, Schedule()))


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_columns_of_text_are_learned(tmp_path: Path, ending: str) -> None:
    source = write(tmp_path / f"table.{ending}", records(1500))
    session = learn(tmp_path / "m.evl", source, kind="mixture")
    model: Any = session.model
    assert session.layout.texts == ("channel", "member")
    assert [(c.name, c.kind) for c in model.columns_] == [
        ("channel", "categories"),
        ("spend", "numbers"),
        ("visits", "counts"),
        ("member", "categories"),
    ]
    assert model.n_components_ == 3
    assert session.ledger.bad == 0
    about = {word for part in parts_of(model) for word in part.about}
    assert any(word.startswith("channel=phone 9") for word in about), about


def test_new_values_and_gaps_come_later(tmp_path: Path) -> None:
    first = write(tmp_path / "a.csv", records(600))
    learn(tmp_path / "m.evl", first, kind="mixture")
    later = write(tmp_path / "b.csv", [row | {"channel": "fax"} for row in records(300, 1)])
    model: Any = learn(tmp_path / "m.evl", later).model
    assert model.columns_[0].values == ("phone", "shop", "web", "fax")
    assert model.n_samples_seen_ == 900
    answers = list(predictions(Session.load(tmp_path / "m.evl"), open_sources([str(later)])))
    assert len(answers) == 300
    assert all("component" in answer for answer in answers)


def test_stopping_and_going_on_changes_nothing(tmp_path: Path) -> None:
    rows = records(1200)
    whole = write(tmp_path / "whole.csv", rows)
    one = learn(tmp_path / "one.evl", whole, kind="mixture")
    part = write(tmp_path / "part.csv", rows[:512])
    learn(tmp_path / "two.evl", part, kind="mixture")
    write(part, rows)
    two = learn(tmp_path / "two.evl", part)
    packed = [session.model.to_checkpoint() for session in (one, two)]
    assert packed[0][0] == packed[1][0]
    for name, array in packed[0][1].items():
        np.testing.assert_array_equal(array, packed[1][1][name])


def test_text_in_a_column_of_numbers_is_a_bad_record(tmp_path: Path) -> None:
    rows = records(400)
    rows[300]["spend"] = "a lot"
    session = learn(tmp_path / "m.evl", write(tmp_path / "t.csv", rows), kind="mixture")
    assert (session.ledger.records, session.ledger.bad) == (399, 1)
    line = json.loads((tmp_path / "m.evl.quarantine.jsonl").read_text())
    assert "'spend' is not a number" in line["reason"]


def test_free_text_is_left_out_and_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    rows = [row | {"name": f"Name {i}"} for i, row in enumerate(records(300))]
    source = write(tmp_path / "t.csv", rows)
    session = learn(tmp_path / "m.evl", source, kind="mixture")
    assert session.layout.columns == COLUMNS
    assert session.ledger.records == 300
    assert "left out: name (texts)" in caplog.text


def test_free_text_that_was_asked_for_is_named_and_nothing_is_learned(tmp_path: Path) -> None:
    rows = [row | {"name": f"Name {i}"} for i, row in enumerate(records(300))]
    source = write(tmp_path / "t.csv", rows)
    with pytest.raises(UsageError, match=r"'name' has 256 different values.*--columns"):
        learn(tmp_path / "m.evl", source, kind="mixture", columns=(*COLUMNS, "name"))
    assert not (tmp_path / "m.evl").exists()


def test_truth_values_are_categories_however_a_file_writes_them(tmp_path: Path) -> None:
    rows = [row | {"member": str(row["member"]).lower()} for row in records(600)]
    rows = [{name: row[name] for name in ("spend", "member")} for row in rows]
    first = write(tmp_path / "a.csv", rows[:300])
    model: Any = learn(tmp_path / "m.evl", first, kind="mixture").model
    assert [column.kind for column in model.columns_] == ["numbers", "categories"]
    later = [row | {"member": row["member"] == "true"} for row in rows[300:]]
    model = learn(tmp_path / "m.evl", write(tmp_path / "b.jsonl", later)).model
    assert model.columns_[1].values == ("False", "True")
    assert model.n_samples_seen_ == 600


def test_families_of_numbers_leave_text_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    source = write(tmp_path / "t.csv", records(300))
    request = LearnRequest(
        tmp_path / "m.evl", (str(source),), {"kind": "mixture"}, {"family": "full"}, Schedule()
    )
    session = learn_stream(request)
    assert session.layout.columns == COLUMNS[1:]
    assert session.ledger.bad == 0
    assert "left out: channel (texts)" in caplog.text


def test_families_of_numbers_set_records_with_text_aside(tmp_path: Path) -> None:
    rows = records(400)
    rows[300]["spend"] = "a lot"
    source = write(tmp_path / "t.csv", rows)
    request = LearnRequest(
        tmp_path / "m.evl", (str(source),), {"kind": "mixture"}, {"family": "full"}, Schedule()
    )
    session = learn_stream(request)
    assert (session.ledger.records, session.ledger.bad) == (399, 1)


def test_show_and_report_say_how_columns_are_learned(tmp_path: Path) -> None:
    source = write(tmp_path / "table.csv", records(1500))
    learn(tmp_path / "m.evl", source, kind="mixture")
    shown = CliRunner().invoke(app, ["show", str(tmp_path / "m.evl")]).stdout
    assert re.search(r"channel +categories: phone, shop, web", shown)
    assert re.search(r"spend +numbers", shown)
    answer = CliRunner().invoke(app, ["show", str(tmp_path / "m.evl"), "--json"]).stdout
    assert json.loads(answer)["columns"]["visits"] == "counts"
    CliRunner().invoke(app, ["report", str(tmp_path / "m.evl"), "-o", str(tmp_path / "m.html")])
    page = (tmp_path / "m.html").read_text("utf-8").split("What sets components apart")[1]
    assert re.search(r"phone 9\d% \(all: 3\d%\)", page)
    assert ">categories: False, True<" in page


def test_a_report_shows_records_of_a_table_as_examples(tmp_path: Path) -> None:
    source = write(tmp_path / "table.csv", records(600))
    learn(tmp_path / "m.evl", source, kind="mixture", columns=("spend", "channel", "visits"))
    page = tmp_path / "m.html"
    result = CliRunner().invoke(app, ["report", str(tmp_path / "m.evl"), "-o", str(page)])
    assert result.exit_code == 0, result.output
    found = page.read_text("utf-8").split("What it found")[1].split("What sets components apart")[0]
    assert "examples (spend, channel, visits)" in found
    assert re.search(r"<li>[\d.\N{MINUS SIGN}]+, (phone|web|shop|missing), \d+</li>", found)
