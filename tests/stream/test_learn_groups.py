"""Several batches learned in one call give the same file and the same log."""

from dataclasses import replace
from pathlib import Path

import pytest

from everlearn.cli.learn import learn_in_terminal
from everlearn.io.log import read_log
from everlearn.linear.estimator import PassiveAggressive
from everlearn.ppca.estimator import OnlinePPCA
from everlearn.stream import learn as learning
from everlearn.stream.learn import Schedule
from support.stream_rows import HARD, TINY, rows_request


def outcome(request, monkeypatch, max_batches):
    """The model file, and both logs without times, with at most so many batches in a call."""
    monkeypatch.setattr(learning, "MAX_BATCHES_PER_CALL", max_batches)
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

    def recorded(self, learned, X, targets):
        sizes.append(len(targets))
        return learn(self, learned, X, targets)

    monkeypatch.setattr(PassiveAggressive, "_learn_in_order", recorded)
    return sizes


class TestOneCall:
    @pytest.mark.parametrize(
        "schedule",
        [
            Schedule(every_batches=100, score_every=0),
            Schedule(every_batches=3, score_every=0),
        ],
        ids=["all", "checkpoints"],
    )
    def test_the_file_and_the_logs_are_the_same(self, tmp_path, monkeypatch, call_sizes, schedule):
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
        ],
        ids=["all", "checkpoints"],
    )
    @pytest.mark.parametrize("params", [{}, {"batch_size": 5}, {"n_mixtures": 2}])
    def test_models_with_partial_fit_each_get_several_batches_in_a_call(
        self, tmp_path, monkeypatch, schedule, params
    ):
        batch_counts, partial_fit_each = [], OnlinePPCA.partial_fit_each

        def recorded(self, batches):
            batch_counts.append(len(batches))
            return partial_fit_each(self, batches)

        monkeypatch.setattr(OnlinePPCA, "partial_fit_each", recorded)
        request = rows_request(tmp_path, schedule=schedule, kind="ppca", params=params)
        request = replace(request, options={**request.options, "columns": tuple("abcd")})
        alone = outcome(request, monkeypatch, 1)
        assert not batch_counts
        assert outcome(request, monkeypatch, 16) == alone
        assert max(batch_counts) > 1

    def test_batches_that_take_long_are_learned_one_by_one(self, tmp_path, monkeypatch, call_sizes):
        monkeypatch.setattr(learning, "MAX_CALL_SECONDS", 1e-9)
        schedule = Schedule(every_batches=100, score_every=0)
        outcome(rows_request(tmp_path, schedule=schedule), monkeypatch, 16)
        assert max(call_sizes) <= 8

    def test_nothing_is_joined_over_a_checkpoint_or_a_score(
        self, tmp_path, monkeypatch, call_sizes
    ):
        schedule = Schedule(every_batches=3, score_every=0)
        outcome(rows_request(tmp_path, schedule=schedule), monkeypatch, 16)
        assert max(call_sizes) == 3 * 8
        call_sizes.clear()
        schedule = Schedule(every_batches=100, score_every=4)
        outcome(rows_request(tmp_path, schedule=schedule), monkeypatch, 16)
        assert max(call_sizes) <= 8  # each batch is scored before it is learned

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
    def test_models_that_do_not_learn_row_by_row_get_one_batch_in_a_call(
        self, tmp_path, monkeypatch, call_sizes, changed
    ):
        schedule = Schedule(every_batches=100, score_every=0)
        outcome(rows_request(tmp_path, schedule=schedule, params=changed), monkeypatch, 16)
        assert max(call_sizes) <= 8
