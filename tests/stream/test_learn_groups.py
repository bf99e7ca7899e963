"""Batches that are learned in one call, and strict runs: the model and its file agree."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from everlearn.cli.exits import USAGE
from everlearn.cli.learn import learn_in_terminal
from everlearn.errors import BadRecordError
from everlearn.io.log import read_log
from everlearn.linear.estimator import PassiveAggressive
from everlearn.mixture.estimator import DPMixture
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.stream import learn as learning
from everlearn.stream.learn import LearnRequest, Schedule
from everlearn.stream.session import Session
from support.stream_cases import CASES, json_rows

HARD = {"slack": "none", "fit_intercept": False}
"""Under these, a row of next to nothing asks for weights beyond all bounds."""
TINY = json.dumps(dict.fromkeys("abcd", 1e-160) | {"label": "g1"})


def rows_request(folder, *, schedule, kind="classifier", params=None):
    """A classifier of rows in small batches, with bad records among them."""
    source, params = json_rows(folder), {"random_state": 3, **(params or {})}
    return LearnRequest(
        folder / "m.evl", (str(source),), {"kind": kind, "batch": 8}, params, schedule
    )


def outcome(request, monkeypatch, most):
    """The model file and both logs without times, if so many batches may be learned at once."""
    monkeypatch.setattr(learning, "MAX_BATCHES_PER_CALL", most)
    for path in request.model.parent.glob("m.evl*"):
        path.unlink()
    assert learn_in_terminal(request, quiet=True) == 0
    logs = [
        [{k: v for k, v in line.items() if k not in ("time", "seconds")} for line in read_log(path)]
        for path in sorted(request.model.parent.glob("m.evl.*.jsonl"))
    ]
    return request.model.read_bytes(), logs


@pytest.fixture
def call_sizes(monkeypatch):
    """Rows of each call of `partial_fit`."""
    sizes = []
    learn = PassiveAggressive._learn_in_order

    def noted(self, learned, X, targets):
        sizes.append(len(targets))
        return learn(self, learned, X, targets)

    monkeypatch.setattr(PassiveAggressive, "_learn_in_order", noted)
    return sizes


class TestAtOnce:
    @pytest.mark.parametrize(
        "schedule",
        [
            Schedule(every_batches=100, score_every=0),
            Schedule(every_batches=3, score_every=0),
            Schedule(),
        ],
        ids=["all", "checkpoints", "scores"],
    )
    def test_it_is_the_same_file_and_the_same_log(
        self, tmp_path, monkeypatch, call_sizes, schedule
    ):
        request = rows_request(tmp_path, schedule=schedule)
        alone = outcome(request, monkeypatch, 1)
        assert max(call_sizes) <= 8
        together = outcome(request, monkeypatch, 16)
        assert max(call_sizes) > 8
        assert together == alone

    @pytest.mark.parametrize(
        "schedule",
        [
            Schedule(every_batches=100, score_every=0),
            Schedule(every_batches=3, score_every=0),
            Schedule(),
        ],
        ids=["all", "checkpoints", "scores"],
    )
    @pytest.mark.parametrize("params", [{}, {"batch_size": 5}, {"n_mixtures": 2}])
    def test_models_that_are_told_where_batches_end_learn_several(
        self, tmp_path, monkeypatch, schedule, params
    ):
        numbers, each = [], OnlinePPCA.partial_fit_each

        def noted(self, batches):
            numbers.append(len(batches))
            return each(self, batches)

        monkeypatch.setattr(OnlinePPCA, "partial_fit_each", noted)
        request = rows_request(tmp_path, schedule=schedule, kind="ppca", params=params)
        request = replace(request, options={**request.options, "columns": tuple("abcd")})
        alone = outcome(request, monkeypatch, 1)
        assert not numbers
        assert outcome(request, monkeypatch, 16) == alone
        assert max(numbers) > 1

    def test_batches_that_take_long_are_learned_one_by_one(self, tmp_path, monkeypatch, call_sizes):
        monkeypatch.setattr(learning, "MAX_CALL_SECONDS", 1e-9)
        schedule = Schedule(every_batches=100, score_every=0)
        outcome(rows_request(tmp_path, schedule=schedule), monkeypatch, 16)
        assert max(call_sizes) <= 8

    def test_nothing_is_joined_over_a_checkpoint_or_a_score(
        self, tmp_path, monkeypatch, call_sizes
    ):
        outcome(rows_request(tmp_path, schedule=Schedule(every_batches=3)), monkeypatch, 16)
        assert max(call_sizes) == 3 * 8
        call_sizes.clear()
        schedule = Schedule(every_batches=100, score_every=4)
        outcome(rows_request(tmp_path, schedule=schedule), monkeypatch, 16)
        assert max(call_sizes) == 3 * 8

    def test_a_record_that_the_model_refuses_is_found_in_its_batch(self, tmp_path, monkeypatch):
        request = rows_request(
            tmp_path, schedule=Schedule(every_batches=100, score_every=0), params=HARD
        )
        lines = Path(request.sources[0]).read_text().splitlines()
        lines[100] = TINY
        Path(request.sources[0]).write_text("\n".join(lines) + "\n")
        alone = outcome(request, monkeypatch, 1)
        assert outcome(request, monkeypatch, 16) == alone
        assert any("not finite" in line["reason"] for line in alone[1][1])

    @pytest.mark.parametrize("changed", [{"loss": "gibbs"}, {"batch_size": 4}])
    def test_models_that_do_not_learn_row_by_row_are_fed_batch_by_batch(
        self, tmp_path, monkeypatch, call_sizes, changed
    ):
        schedule = Schedule(every_batches=100, score_every=0)
        outcome(rows_request(tmp_path, schedule=schedule, params=changed), monkeypatch, 16)
        assert max(call_sizes) <= 8


class TestStrict:
    @pytest.mark.parametrize("name", ["mixture from JSON lines", "classifier from rows"])
    def test_it_leaves_what_it_had_learned_before_the_bad_record(self, tmp_path, name):
        """And no part of the batch that the record is in, which would be learned again."""
        request, _ = CASES[name].request(tmp_path, tmp_path / "m.evl")
        good = [line for line in json_rows(tmp_path).read_text().splitlines() if _is_good(line)]
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

    def test_nor_of_one_that_the_model_refuses(self, tmp_path):
        request = rows_request(
            tmp_path, schedule=Schedule(every_batches=100, score_every=0), params=HARD
        )
        good = [
            line for line in Path(request.sources[0]).read_text().splitlines() if _is_good(line)
        ]
        Path(request.sources[0]).write_text("\n".join([*good[:21], TINY, *good[21:]]) + "\n")
        strict = replace(request, strict=True)
        with pytest.raises(BadRecordError, match="not finite"):
            learn_in_terminal(strict, quiet=True)
        left = Session.load(request.model)
        assert left.ledger.records == left.model.n_samples_seen_ == 16
        assert np.isfinite(left.model.coef_).all()

    def test_what_the_model_takes_in_halves_is_learned(self, tmp_path, monkeypatch):
        """A batch that is refused as a whole, none of whose records is."""
        monkeypatch.setattr(DPMixture, "partial_fit", picky(DPMixture.partial_fit, lambda X: True))
        request = replace(rows_request(tmp_path, schedule=Schedule(), kind="mixture"), strict=True)
        lines = Path(request.sources[0]).read_text().splitlines()
        Path(request.sources[0]).write_text("\n".join(filter(_is_good, lines)) + "\n")
        assert learn_in_terminal(request, quiet=True) == 0
        done = Session.load(request.model)
        assert done.model.n_samples_seen_ == done.ledger.records == 237


class TestScores:
    def test_what_was_kept_of_a_batch_is_scored_and_audited(self, tmp_path, invoke, monkeypatch):
        for name in ("partial_fit", "score"):
            method = picky(getattr(DPMixture, name), lambda X: (X > 1e9).any(), most=0)
            monkeypatch.setattr(DPMixture, name, method)
        request = rows_request(tmp_path, schedule=Schedule(score_every=1), kind="mixture")
        lines = Path(request.sources[0]).read_text().splitlines()
        far = '{"a": 1e10, "b": 0, "c": 0, "d": 0, "label": "g0"}'
        kept = [line for line in lines if _is_good(line)]
        Path(request.sources[0]).write_text("\n".join([*kept[:3], far, *kept[3:12], far]) + "\n")
        assert learn_in_terminal(request, quiet=True) == 0
        log = list(read_log(Path(f"{request.model}.log.jsonl")))
        assert [len(next(iter(line["places"].values()))) for line in log] == [7, 5]
        assert all(isinstance(line["score_after"], float) for line in log)
        card = json.loads(invoke("audit", request.model, *request.sources, "--json").stdout)
        assert [mark["records"] for mark in card["marks"]] == [7, 5]

    def test_scores_that_could_not_be_had_are_told_as_such(self, tmp_path, invoke, monkeypatch):
        monkeypatch.setattr(DPMixture, "score", picky(DPMixture.score, lambda X: True, most=0))
        request = rows_request(tmp_path, schedule=Schedule(score_every=1), kind="mixture")
        assert learn_in_terminal(request, quiet=True) == 0
        result = invoke("audit", request.model, *request.sources)
        assert result.exit_code == USAGE
        assert "could not score any batch" in result.stderr
        assert "--score-every" not in result.stderr


class TestSettings:
    """Settings that a model cannot go on with end the command, and no record is set aside."""

    @pytest.mark.parametrize(
        ("name", "option", "words"),
        [
            ("mixture from JSON lines", ["--memory", "1kB"], "memory_budget"),
            ("clumped from images", ["--memory", "10"], "memory_budget"),
            ("clumped from images", ["--set", "family=diagonal"], "'family'"),
            ("clumped from images", ["--set", "topic_price=3"], "'topic_price'"),
            ("classifier from rows", ["--set", "loss=gibbs"], "loss='averaging'"),
            ("mixture from JSON lines", ["--set", "random_state=4"], "(random_state) was 3"),
            ("mixture from JSON lines", ["--classes", "a,b"], "does not learn from classes"),
            ("classifier from rows", ["--memory", "1MB"], "for the kinds mixture, clumped"),
        ],
    )
    def test_they_are_told(self, tmp_path, invoke, name, option, words):
        request, _ = CASES[name].request(tmp_path, tmp_path / "m.evl")
        assert learn_in_terminal(request, quiet=True) == 0
        before, set_aside = request.model.read_bytes(), Path(f"{request.model}.quarantine.jsonl")
        known = set_aside.read_bytes() if set_aside.exists() else b""
        if Path(request.sources[0]).is_file():  # more to learn
            with open(request.sources[0], "a") as file:
                file.write('{"a": 1, "b": 2, "c": 3, "d": 4, "label": "g1"}\n' * 40)
        result = invoke("learn", request.model, request.sources[0], *option)
        assert result.exit_code == USAGE, result.output
        assert words in result.stderr
        assert request.model.read_bytes() == before
        assert (set_aside.read_bytes() if set_aside.exists() else b"") == known


def picky(method, dislikes, most=2):
    """The method of an estimator that refuses more than `most` rows if it dislikes them."""

    def refusing(self, X, *rest, **options):
        if len(X) > most and dislikes(X):
            raise ValueError("not these")
        return method(self, X, *rest, **options)

    return refusing


def _is_good(line):
    try:
        record = json.loads(line)
    except ValueError:
        return False
    return len(record) == 5 and all(np.isfinite(record[name]) for name in "abcd")
