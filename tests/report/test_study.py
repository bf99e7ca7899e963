"""Numbers about a model, against the plain formulas."""

from dataclasses import replace

import numpy as np
import pytest

from everlearn.core.text import megabytes
from everlearn.estimator.history import AcceptedMove, History
from everlearn.metrics.clustering import clustering_scores
from everlearn.mixture.estimator import DPMixture
from everlearn.report.study import (
    Truth,
    agreement,
    assigned,
    components,
    curve,
    move_tallies,
    move_text,
)


def test_agreement_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 2])
    truth = Truth("class", np.array([0, 0, 1, 1, 1, 0]), ("a", "b"))
    found = agreement(labels, truth, 4)
    assert found.table.tolist() == [[2, 1], [0, 2], [1, 0], [0, 0]]
    assert found.purity == pytest.approx(5 / 6)
    scores = clustering_scores(truth.labels, labels)
    assert (found.nmi, found.ami) == (scores.nmi, scores.ami)


def test_agreement_of_equal_partitions_is_one():
    labels = np.array([0, 1, 2, 0, 1, 2])
    found = agreement(labels, Truth("class", (labels + 1) % 3, ("a", "b", "c")), 3)
    assert (found.purity, found.nmi, found.ami) == pytest.approx((1, 1, 1))


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([0, 1, 2, 1], r"positions of its 2 'classes', whole numbers from 0 to 1, got \[2\]"),
        ([0, -1, 1, 1], r"from 0 to 1, got \[-1\]"),
        ([0.0, 1.0, 1.0, 1.0], "from 0 to 1, got float64"),
        ([0, 1, 1], r"one for each of the 4 rows, got the shape \(3,\)"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels, message):
    with pytest.raises(ValueError, match=f"the 'labels' of Truth must be .*{message}"):
        agreement(np.zeros(4, np.intp), Truth("class", np.array(labels), ("a", "b")), 1)


def test_components_are_those_of_the_model_largest_first(study):
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = components(study, rows, classes)
    shares = [one.share for one in found]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(1)
    assert sum(one.n_rows for one in found) == len(study.rows)
    for one in found:
        assert study.model.component_ids_[one.position] == one.id
        assert study.model.weights_[one.position] == one.share


def test_component_without_rows_has_no_class(study):
    only = replace(
        study,
        rows=study.rows[:5],
        truth=replace(study.truth, labels=study.truth.labels[:5]),
    )
    rows = assigned(only)
    classes = agreement(rows.labels, only.truth, only.model.n_components_)
    empty = [one for one in components(only, rows, classes) if one.n_rows == 0]
    assert empty
    assert all(one.top is None and one.purity is None for one in empty)


def test_curve_is_in_order_and_without_repetition(study):
    points = curve(study)
    keys = [(p.rows, p.lap) for p in points]
    assert keys == sorted(set(keys))
    assert {p.rows for p in study.trace} <= {p.rows for p in points}


def test_curve_ends_with_the_model_as_it_is(study):
    model = DPMixture(random_state=0)
    rng = np.random.default_rng(0)
    for _ in range(9):
        model.partial_fit(rng.normal(size=(40, 2)))
    last = model.history_.points[-1]
    assert last.rows < model.n_samples_seen_  # or this test shows nothing
    end = curve(replace(study, model=model, trace=()))[-1]
    assert (end.rows, end.lap) == (360, last.lap)
    assert (end.bound, end.n_components) == (model.bound_, model.n_components_)


def test_moves_are_counted_by_kind():
    moves = (
        AcceptedMove(1, 10, "birth", (0,), (1, 2), 2.0),
        AcceptedMove(2, 20, "birth", (1,), (3, 4), 5.0),
    )
    births, merges, deletes = move_tallies(
        History((), moves, {"birth accepted": 2, "birth refused": 7, "merge refused": 1})
    )
    assert (births.accepted, births.refused, births.gain, births.largest) == (2, 7, 7.0, 5.0)
    assert (merges.accepted, merges.refused, merges.gain) == (0, 1, 0.0)
    assert (deletes.accepted, deletes.refused) == (0, 0)


@pytest.mark.parametrize(
    ("move", "text"),
    [
        (AcceptedMove(1, 10, "birth", (3,), (7, 8), 1.0), "#3 gave birth to #7, #8"),
        (AcceptedMove(1, 10, "merge", (3,), (7,), 1.0), "#3 merged into #7"),
        (AcceptedMove(1, 10, "delete", (3,), (), 1.0), "#3 deleted"),
    ],
)
def test_moves_in_words(move, text):
    assert move_text(move) == text


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1_500, "2 kB"), (2_340_000, "2.3 MB")]
)
def test_sizes_for_people(size, text):
    assert megabytes(size) == text
