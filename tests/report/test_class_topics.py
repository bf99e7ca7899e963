"""The topics of each class: in the run log, in what a model shows, and on its page."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from everlearn import MedLDAClassifier
from everlearn.cli.main import app
from everlearn.report.class_topics import topics_by_class
from everlearn.stream.class_topics import class_topics, stages
from everlearn.stream.learn import log_path
from everlearn.stream.summary import parts_of
from support.browser import needs_browser, opened, widths
from support.stream_cases import learned

WORDS = np.array([f"w{i}" for i in range(12)])
RNG = np.random.default_rng(0)
Y = np.array(["a<b", "cat", "dog"])[np.arange(90) % 3]
TEXTS = [" ".join(RNG.choice(WORDS[4 * k : 4 * k + 4], 9)) for k in np.arange(90) % 3]


def classifier(y=Y, **params):
    classes = ["a<b", "cat", "dog"]
    model = MedLDAClassifier(random_state=0, engine="serial", **params)
    return model.partial_fit(
        TEXTS, y, classes=classes[: len(set(y.ravel()))] if y.ndim < 2 else classes
    )


class TestWhatTheLogKeeps:
    @pytest.mark.parametrize("params", [{"n_topics": 6}, {"n_topics": 4, "strategy": "ovr"}])
    def test_averages_of_each_class(self, params):
        model = classifier(**params)
        told = class_topics(model, TEXTS, Y, 90)["class_topics"]
        assert told["records"] == 90
        assert list(told["classes"]) == model.classes_.tolist()
        z, ids = model.transform(TEXTS), model.component_ids_
        for q, (name, one) in enumerate(told["classes"].items()):
            own = np.arange(4 * q, 4 * q + 4) if "strategy" in params else np.arange(6)
            mean = z[name == Y][:, own].mean(axis=0)
            assert one["n"] == 30
            expected = {str(ids[own[k]]): mean[k] for k in range(len(own)) if mean[k] >= 0.02}
            assert one["topics"] == pytest.approx(expected, abs=6e-4)
            assert one["words"] == model.top_words(5)[own[mean.argmax()]]

    def test_a_document_may_have_several_labels(self):
        y = np.column_stack([Y != "dog", Y == "cat", np.zeros(90)])
        model = classifier(y)
        told = class_topics(model, TEXTS, y, 1)["class_topics"]["classes"]
        assert {name: one["n"] for name, one in told.items()} == {"a<b": 60, "cat": 30}

    def test_nothing_if_there_is_nothing_to_tell(self):
        assert class_topics(classifier(), TEXTS, Y, 0) == {}
        assert class_topics(classifier(), [1, 2], Y[:2], 9) == {}

    def test_early_batches_and_those_that_are_scored(self, tmp_path):
        request = learned(tmp_path, "classifier from texts")  # 8 batches of 20, scored by threes
        lines = [json.loads(line) for line in log_path(request.model).read_text().splitlines()]
        known = [line["class_topics"]["records"] for line in lines if "class_topics" in line]
        assert known == [20, 40, 60, 80, 120]
        assert sum("score_after" in line for line in lines) == 3

    def test_other_models_keep_nothing(self, tmp_path):
        request = learned(tmp_path, "topics from a folder")
        assert "class_topics" not in log_path(request.model).read_text()


def line(records, **classes):
    told = {
        name: {"n": n, "topics": topics, "words": ["x"]} for name, (n, topics) in classes.items()
    }
    return {"records": records + 10, "class_topics": {"records": records, "classes": told}}


class TestStages:
    def test_beginning_middle_and_end(self):
        log = [line(n, a=(1, {"0": 0.5})) for n in (10, 20, 40, 80, 160, 320, 500, 640, 1000)]
        assert [(s.first, s.last) for s in stages(log)] == [(10, 10), (80, 80), (640, 1000)]
        assert [(s.first, s.last) for s in stages(log[:2])] == [(10, 10), (20, 20)]
        assert [(s.first, s.last) for s in stages(log[:1])] == [(10, 10)]

    def test_documents_weigh_alike(self):
        log = [
            {"records": 5},
            line(10, a=(1, {"0": 1.0})),
            line(30, a=(1, {"0": 1.0})),
            line(100, a=(1, {"0": 0.9, "3": 0.1})),
            line(110, a=(3, {"3": 0.5}), b=(2, {"7": 0.4})),
        ]
        last = stages(log)[-1]
        assert last.classes["a"].n_documents == 4
        assert last.classes["a"].shares == pytest.approx({0: 0.225, 3: 0.4})
        assert last.classes["b"].shares == pytest.approx({7: 0.4})

    def test_logs_of_older_versions(self):
        assert stages([{"records": 5, "score_after": 0.5}]) == []


def page_of(tmp_path, name="classifier from texts"):
    request = learned(tmp_path, name)
    page = tmp_path / "page.html"
    result = CliRunner().invoke(app, ["report", str(request.model), "-o", str(page)])
    assert result.exit_code == 0, result.output
    return request, page


class TestPage:
    def test_pictures_and_words(self, tmp_path):
        _, page = page_of(tmp_path)
        text = page.read_text("utf-8")
        assert text.count('data-chart="chart-classes-') == 3
        section = text.split("Topics of the classes")[1].split("</section>")[0]
        assert "With 20 records learned" in section
        for k, word in enumerate(("sea", "ship", "star", "stone")):
            row = section.split(f'<th scope="row">t{k}</th>')[1].split("</tr>")[0]
            assert row.count(word) >= 4  # of the six words, most are of the class

    def test_weights_if_the_log_tells_nothing(self, tmp_path):
        request, page = page_of(tmp_path)
        log_path(request.model).unlink()
        CliRunner().invoke(app, ["report", str(request.model), "-o", str(page)])
        text = page.read_text("utf-8")
        assert text.count('data-chart="chart-classes-') == 1
        assert "How much each topic speaks for each class" in text

    @pytest.mark.parametrize("name", ["topics from a folder", "classifier from rows"])
    def test_not_without_classes_and_topics(self, tmp_path, name):
        _, page = page_of(tmp_path, name)
        assert "Topics of the classes" not in page.read_text("utf-8")

    @pytest.mark.parametrize(
        "params",
        [
            {},
            {"strategy": "ovr"},
            {"n_topics": 2, "word_weights": True},
            {"n_topics": 70},
            {"loss": "gibbs"},
        ],
    )
    @pytest.mark.parametrize(
        "y",
        [Y, np.where(Y == "dog", "cat", Y), np.column_stack([Y == "dog", Y == "cat", Y == "a<b"])],
    )
    def test_every_kind_of_classes(self, params, y):
        model = classifier(np.asarray(y, dtype=float) if y.ndim == 2 else y, **params)
        weights = topics_by_class(model, [])
        log = [class_topics(model, TEXTS, np.asarray(y), n) for n in (30, 90)]
        shares = topics_by_class(model, log)
        for text, n in ((weights, 1), (shares, 2)):
            assert text.count("data-chart") == n
            assert '<th scope="row">a&lt;b</th>' in text
            assert "a<b" not in text

    def test_many_classes_are_cut_short(self):
        names = [f"a class with a long name and the number {q}" for q in range(70)]
        y = np.array(names)[np.arange(140) % 70]
        texts = [f"word{q} common" for q in range(70)] * 2
        model = MedLDAClassifier(random_state=0, engine="serial").fit(texts, y)
        for log in ([], [class_topics(model, texts, y, 9)]):
            text = topics_by_class(model, log)
            assert "and 10 more classes." in text
            assert text.count('<th scope="row">') == 60

    @needs_browser
    def test_it_is_drawn_and_fits_a_phone(self, tmp_path):
        _, page = page_of(tmp_path)
        dom, said = opened(page, tmp_path)
        assert said == []
        assert dom.count("js-plotly-plot") == 5
        needed, given = widths(page, tmp_path)
        assert needed <= given


class TestPortrait:
    def test_topics_speak_for_classes(self, tmp_path):
        model = classifier(n_topics=6)
        weights = dict(zip(model.component_ids_.tolist(), model.coef_.T, strict=True))
        for part in parts_of(model):
            assert part.speaks_for == model.classes_[weights[part.id].argmax()]
        request = learned(tmp_path, "classifier from texts")
        shown = CliRunner().invoke(app, ["show", str(request.model)]).stdout
        assert "speaks for" in shown
        assert all(name in shown for name in ("t0", "t1", "t2", "t3"))

    def test_two_classes(self):
        model = classifier(np.where(Y == "dog", "cat", Y), n_topics=4)
        weights = dict(zip(model.component_ids_.tolist(), model.coef_[0], strict=True))
        for part in parts_of(model):
            assert part.speaks_for == model.classes_[int(weights[part.id] > 0)]

    def test_other_models_speak_for_nobody(self, tmp_path):
        request = learned(tmp_path, "topics from a folder")
        assert "speaks for" not in CliRunner().invoke(app, ["show", str(request.model)]).stdout
