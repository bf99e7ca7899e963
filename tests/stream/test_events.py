"""Events in the log of a stream: what happened to components, and rows that fit badly."""

from dataclasses import replace

import numpy as np

from everlearn.estimator.history import Misfit
from everlearn.io.log import read_log
from everlearn.mixture.estimator import DPMixture
from everlearn.stream.events import Structure, events, history_of
from everlearn.stream.learn import LearnRequest, learn_stream, log_path


def write_rows(path, rows):
    path.write_text("a,b,c,d\n" + "\n".join(",".join(map(repr, r)) for r in rows.tolist()) + "\n")


def test_rows_that_fit_badly_are_in_the_log_and_in_the_history(tmp_path):
    rng = np.random.default_rng(0)
    broad, narrow = 10.0 * rng.normal(size=(5000, 4)), 20.0 + rng.normal(size=(600, 4))
    request = LearnRequest(tmp_path / "m.evl", [str(tmp_path / "rows.csv")], {"kind": "mixture"})
    request = replace(request, options={**request.options, "batch": 100})
    write_rows(tmp_path / "rows.csv", np.concatenate([broad, narrow]))
    learn_stream(request)
    lines = list(read_log(log_path(request.model)))
    found = [(line["records"], line["misfit"]) for line in lines if "misfit" in line]
    assert [records for records, _ in found][:3] == [5100, 5200, 5300]
    assert all(text.startswith(f"{n - 5000:,} records fit badly since") for n, text in found)
    assert len(found) < 6  # they are logged again when their number has doubled
    happened = [what for _, what in history_of(lines).latest]
    assert found[-1][1] in happened


def test_misfits_are_news_when_they_begin_and_when_they_have_doubled():
    model = DPMixture(random_state=0).partial_fit(np.random.default_rng(0).normal(size=(300, 2)))

    def line(old, new):
        known = model._learned.history
        model._learned = replace(model._learned, history=replace(known, misfits=(new,)))
        return replace(Structure.of(model), misfit=old).changes(model)

    first = Misfit(700, 40, 2.0)
    assert line(None, first) == {"misfit": str(first)}
    assert line(first, first) == {}
    assert line(first, Misfit(700, 50, 2.0)) == {}
    assert "misfit" in line(first, Misfit(700, 80, 2.0))
    assert "misfit" in line(first, Misfit(900, 40, 2.0))
    assert events({"misfit": str(first)}) == [str(first)]
