"""A strict run ends at a bad record, and the model and its file agree."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from everlearn.cli.learn import learn_in_terminal
from everlearn.errors import BadRecordError
from everlearn.mixture.estimator import DPMixture
from everlearn.stream.learn import Schedule
from everlearn.stream.session import Session
from support.stream_cases import CASES, json_rows
from support.stream_rows import HARD, TINY, is_good, picky, rows_request


class TestStrict:
    @pytest.mark.parametrize("name", ["mixture from JSON lines", "classifier from rows"])
    def test_batches_before_the_bad_record_are_saved(self, tmp_path, name):
        """And no part of the batch that the record is in, which would be learned again."""
        request, _ = CASES[name].request(tmp_path, tmp_path / "m.evl")
        good = [line for line in json_rows(tmp_path).read_text().splitlines() if is_good(line)]
        source = Path(request.sources[0])
        source.write_text("\n".join([*good[:50], "not JSON", *good[50:70]]) + "\n")
        strict = replace(request, strict=True, schedule=Schedule(every_batches=100, score_every=0))
        with pytest.raises(BadRecordError, match="not JSON"):
            learn_in_terminal(strict, quiet=True)
        left = Session.load(request.model)
        assert left.ledger.records == 40

        source.write_text("\n".join([*good[:50], *good[50:70]]) + "\n")
        assert learn_in_terminal(strict, quiet=True) == 0
        mended = request.model.read_bytes()
        request.model.unlink()
        Path(f"{request.model}.log.jsonl").unlink()
        assert learn_in_terminal(strict, quiet=True) == 0
        assert request.model.read_bytes() == mended

    def test_a_record_that_the_model_refuses_ends_it_too(self, tmp_path):
        request = rows_request(
            tmp_path, schedule=Schedule(every_batches=100, score_every=0), params=HARD
        )
        good = [line for line in Path(request.sources[0]).read_text().splitlines() if is_good(line)]
        Path(request.sources[0]).write_text("\n".join([*good[:21], TINY, *good[21:]]) + "\n")
        strict = replace(request, strict=True)
        with pytest.raises(BadRecordError, match="not finite"):
            learn_in_terminal(strict, quiet=True)
        left = Session.load(request.model)
        assert left.ledger.records == left.model.n_samples_seen_ == 16
        assert np.isfinite(left.model.coef_).all()

    def test_a_batch_that_is_learned_in_halves_is_no_error(self, tmp_path, monkeypatch):
        """A batch that is refused as a whole, none of whose records is."""
        monkeypatch.setattr(DPMixture, "partial_fit", picky(DPMixture.partial_fit, lambda X: True))
        request = replace(rows_request(tmp_path, schedule=Schedule(), kind="mixture"), strict=True)
        lines = Path(request.sources[0]).read_text().splitlines()
        Path(request.sources[0]).write_text("\n".join(filter(is_good, lines)) + "\n")
        assert learn_in_terminal(request, quiet=True) == 0
        done = Session.load(request.model)
        assert done.model.n_samples_seen_ == done.ledger.records == 237
