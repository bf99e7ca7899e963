"""The section on the topics of each class."""

import numpy as np
import pytest
from typer.testing import CliRunner

from everlearn import MedLDAClassifier
from everlearn.cli.main import app
from everlearn.report.class_topics import topics_by_class
from everlearn.stream.class_topics import class_topics
from everlearn.stream.learn import log_path
from support.browser import needs_browser, opened, widths
from support.class_texts import TEXTS, Y, classifier
from support.stream_cases import learned


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
        assert text.count('class="heat blank"') == 3
        section = text.split("Topics of the classes")[1].split("</section>")[0]
        assert "After 20 records" in section
        for k, word in enumerate(("sea", "ship", "star", "stone")):
            row = section.split(f'<th scope="row">t{k}</th>')[-1].split("</tr>")[0]
            assert row.count(word) >= 4  # of the six words, most are of the class

    def test_weights_if_the_log_tells_nothing(self, tmp_path):
        request, page = page_of(tmp_path)
        log_path(request.model).unlink()
        CliRunner().invoke(app, ["report", str(request.model), "-o", str(page)])
        text = page.read_text("utf-8")
        assert text.count('class="heat blank"') == 1
        assert "The weight of each topic for each class" in text

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
            assert text.count('<table class="heat blank">') == n
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
            listed = text[text.rindex("<table>") :]
            assert listed.count('<th scope="row">') == 60

    @needs_browser
    def test_it_is_drawn_and_fits_a_phone(self, tmp_path):
        _, page = page_of(tmp_path)
        dom, said = opened(page, tmp_path)
        assert said == []
        assert dom.count('class="heat blank"') == 3
        needed, given = widths(page, tmp_path)
        assert needed <= given
