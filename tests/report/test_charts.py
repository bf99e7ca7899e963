"""Charts are valid plotly figures and tell the history of the model."""

from dataclasses import replace

import numpy as np
import plotly.graph_objects as go
import pytest

from everlearn.estimator.history import AcceptedMove, History
from everlearn.report.charts import chart, confusion, mixture_growth, share_bars, stream_growth
from everlearn.report.study import Truth, agreement, assigned, components
from everlearn.stream.summary import Part

COLOURS = {
    "--accent",
    "--accent-2",
    "--birth",
    "--merge",
    "--delete",
    "--on-mark",
    "--ink",
    "--muted",
    "--line",
    "--surface",
    "--cell-0",
    "--cell-1",
    "--cell-2",
}


class Learned:
    """Stands for a model that has a history and has learned nothing since."""

    n_samples_seen_ = 0

    def __init__(self, history: History) -> None:
        self.history_ = history


def coloured(value):
    """The figure with real colours, and the names they had."""
    if isinstance(value, str) and value.startswith("--"):
        return "#123456", {value}
    if isinstance(value, list):
        parts = [coloured(item) for item in value]
        return [p for p, _ in parts], set().union(*(n for _, n in parts))
    if isinstance(value, dict):
        parts = {key: coloured(item) for key, item in value.items()}
        names = set().union(*(n for _, n in parts.values()))
        return {key: p for key, (p, _) in parts.items()}, names
    return value, set()


def figures(study):
    rows = assigned(study)
    classes = agreement(rows.labels, study.truth, study.model.n_components_)
    found = components(study, rows, classes)
    return mixture_growth(study), confusion(study.truth, classes, found)


@pytest.mark.parametrize("which", [0, 1])
def test_plotly_accepts_the_figure(study, which):
    figure, names = coloured(figures(study)[which])
    go.Figure(figure)  # refuses unknown properties and values
    assert names
    assert names <= COLOURS


def test_every_colour_is_in_the_style_sheet_for_light_and_dark(hostile_page):
    style = hostile_page[hostile_page.index("<style>") : hostile_page.index("</style>")]
    assert all(style.count(f"{name}:") == 2 for name in COLOURS)


def test_growth_shows_every_batch_and_ends_where_the_model_is(study):
    components_line, bound_line, *_ = mixture_growth(study)["data"]
    assert {p.rows for p in study.trace} <= set(components_line["x"])
    assert components_line["x"] == sorted(components_line["x"])
    assert components_line["y"][-1] == study.model.n_components_
    assert bound_line["y"][-1] == pytest.approx(study.model.bound_ / study.model.n_samples_seen_)


def test_moves_are_marked_where_they_happened(study):
    curve = np.array([(1, 100, -9.0, 1), (2, 200, -8.0, 3), (3, 400, -7.0, 2)])
    moves = (
        AcceptedMove(2, 200, "birth", (0,), (1, 2), 12.5),
        AcceptedMove(2, 200, "birth", (0,), (3, 4), 2.5),
        AcceptedMove(3, 400, "merge", (4,), (1,), 3.5),
        AcceptedMove(3, 400, "delete", (2,), (), 0.5),
    )
    model = Learned(History(curve, moves, {}))
    births, merges, deletes = mixture_growth(replace(study, model=model, trace=()))["data"][2:]
    assert (births["x"], births["text"], births["y"]) == ([200], ["2"], ["births"])
    assert "#0 gave birth to #1, #2 (+12.5 nats)" in births["hovertext"][0]
    assert "#0 gave birth to #3, #4 (+2.5 nats)" in births["hovertext"][0]
    assert merges["x"] == [400]
    assert "#4 merged into #1 (+3.5 nats)" in merges["hovertext"][0]
    assert "#2 deleted (+0.5 nats)" in deletes["hovertext"][0]


def test_many_moves_share_marks(study):
    curve = np.array([(i, 10 * i, -1.0, 1) for i in range(1, 501)])
    moves = tuple(AcceptedMove(i, 10 * i, "birth", (i,), (i + 1,), 1.0) for i in range(1, 501))
    births = mixture_growth(replace(study, model=Learned(History(curve, moves, {})), trace=()))[
        "data"
    ][2]
    assert len(births["x"]) <= 41
    assert sum(int(n) for n in births["text"]) == 500
    assert "more" in births["hovertext"][1]


def test_growth_without_a_history_is_empty(study):
    figure = mixture_growth(replace(study, model=Learned(History()), trace=(), marks=()))
    assert all(trace["x"] == [] for trace in figure["data"])


def test_confusion_counts_rows_and_follows_the_classes(study):
    rows = assigned(study)
    order = np.array([2, 0, 1])
    truth = Truth("class", order[study.truth.labels], ("a", "b", "c"))
    classes = agreement(rows.labels, truth, study.model.n_components_)
    heatmap = confusion(truth, classes, components(study, rows, classes))["data"][0]
    counts = np.array([[int(n or 0) for n in line] for line in heatmap["text"]])
    assert counts.sum() == len(study.rows)
    assert counts.argmax(axis=1).tolist() == sorted(counts.argmax(axis=1))
    assert np.allclose(np.sum(heatmap["z"], axis=1), 1)


def test_numbers_that_json_lacks_are_refused():
    with pytest.raises(ValueError, match="JSON"):
        chart("c", {"data": [{"x": [float("nan")]}], "layout": {"height": 10}}, "label")


def log_of(n, **values):
    return [{"records": 10 * (i + 1), **{k: v(i) for k, v in values.items()}} for i in range(n)]


@pytest.mark.parametrize("accuracy", [True, False])
def test_curves_of_a_stream_are_valid_and_named(accuracy):
    log = log_of(5, components=lambda i: i, score_before=lambda i: i / 5, score_after=lambda _: 0.9)
    figure = stream_growth(log, "score <per> row", accuracy=accuracy)
    plain, names = coloured(figure)
    go.Figure(plain)
    assert names <= COLOURS
    assert [line["x"] for line in figure["data"]] == [[10, 20, 30, 40, 50]] * 3
    titles = [note["text"] for note in figure["layout"]["annotations"]]
    assert titles == ["components in use", "score <per> row"]
    assert ("range" in figure["layout"]["yaxis2"]) == accuracy


def test_curves_need_something_to_draw():
    assert stream_growth([], "score") is None
    assert stream_growth(log_of(3, score_after=lambda _: None), "score") is None
    figure = stream_growth(log_of(3, score_after=lambda i: i), "score")
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["score"]


@pytest.mark.parametrize("n", [999, 1500, 12_345])
def test_long_curves_are_thinned_and_end_where_the_log_ends(n):
    figure = stream_growth(log_of(n, components=lambda i: i), "score")
    (line,) = figure["data"]
    assert len(line["x"]) < 2000
    assert (line["x"][-1], line["y"][-1]) == (10 * n, n - 1)
    assert line["x"] == sorted(line["x"])
    assert figure["layout"]["xaxis"]["range"][1] > 10 * n


@pytest.mark.parametrize("most", [1, 2, 5])
def test_few_components_have_a_tick_each(most):
    figure = stream_growth(log_of(3, components=lambda _: most), "score")
    assert figure["layout"]["yaxis"]["dtick"] == 1
    assert figure["layout"]["yaxis"]["range"][1] > most


def test_bars_of_shares_are_valid_and_the_largest_forty():
    parts = [Part(i, 1 / 50, (f"<{i}>",)) for i in range(50)]
    figure = share_bars(parts)
    go.Figure(coloured(figure)[0])
    (bars,) = figure["data"]
    assert bars["y"] == [f"#{i}" for i in range(40)]
    assert bars["hovertext"][3] == "&lt;3&gt;"
    assert share_bars([Part(7, 0.5)], "")["data"][0]["hovertext"] == ["7"]
