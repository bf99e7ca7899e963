"""The ledger of learned sources, and what a file may not say about it."""

import numpy as np
import pytest

from everlearn.errors import CheckpointError
from everlearn.io.ledger import MAX_SOURCES, Ledger, Progress


class TestLedger:
    def test_it_comes_back_from_a_checkpoint(self):
        ledger = Ledger().after(
            [Progress("a", 7, ((3, "x"),)), Progress("f").with_done([9, 3])], 5, 1
        )
        back = Ledger.from_checkpoint(*ledger.to_checkpoint())
        assert back.to_checkpoint()[0] == ledger.to_checkpoint()[0]
        assert back.of("f").done.tolist() == [3, 9]
        assert (back.batches, back.records, back.bad) == (1, 5, 1)
        assert back.of("new").position == 0

    @pytest.mark.parametrize(
        "change",
        [
            {"sources": "all"},
            {"sources": [["a", -1, []]]},
            {"sources": [["a", 1, 0]]},
            {"sources": [["a", 1, [[0, "x"]]]]},
            {"sources": [["a", 1, [[1, 2]]]]},
            {"batches": -1},
            {"bad": None},
        ],
    )
    def test_a_forged_ledger_is_refused(self, change):
        header, arrays = Ledger().to_checkpoint()
        with pytest.raises(CheckpointError):
            Ledger.from_checkpoint({**header, **change}, arrays)

    def test_a_place_that_was_kept_as_spelled_is_found_by_its_key(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        keys = [str(tmp_path.resolve() / name) for name in ("a.csv", "b.csv")]
        old = Ledger({name: Progress(name, 7) for name in ("-", "a.csv", "z.csv", keys[1])})
        new = old.with_keys(["-", *keys])
        assert {name: p.name for name, p in new.sources.items()} == {
            name: name for name in ("-", keys[0], "z.csv", keys[1])
        }
        assert new.of(keys[0]).position == 7

    def test_marks_must_ascend(self):
        header, _ = Ledger().after([Progress("f").with_done([1, 2])], 1, 0).to_checkpoint()
        with pytest.raises(CheckpointError, match="ascending"):
            Ledger.from_checkpoint(header, {"done/0": np.array([2, 1], np.uint64)})

    def test_it_remembers_the_latest_sources(self):
        many = Ledger({str(i): Progress(str(i), 1) for i in range(MAX_SOURCES)})
        after = many.after([Progress("0", 2), Progress("new", 1)], 1, 0)
        assert len(after.sources) == MAX_SOURCES
        assert after.of("0").position == 2
        assert "1" not in after.sources
