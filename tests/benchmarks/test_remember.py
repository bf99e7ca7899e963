"""Runs that are remembered are the ones that were made."""

import json
from pathlib import Path
from typing import Any

import pytest

remember = pytest.importorskip("benchmarks.remember")


def test_runs_are_known_by_their_name_and_arguments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remember, "ROOT", tmp_path)
    made: list[Any] = []

    def run(value: int) -> dict[str, Any]:
        made.append(value)
        return {"value": value}

    for _ in range(2):
        for n in (1, 2):
            found = remember.remembered("paper", "name", lambda n=n: run(n), {"n": n})
            assert found["value"] == found["arguments"]["n"] == n
    assert made == [1, 2]
    assert remember.remembered("paper", "name", lambda: run(3))["value"] == 3
    files = sorted((tmp_path / "out" / "reproduce" / "paper").iterdir())
    assert len(files) == 3
    assert all("measured" in json.loads(path.read_text()) for path in files)
