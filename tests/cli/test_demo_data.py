"""Data of the demo: digits as rows and pictures, and docstrings of packages."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import datasets

from everlearn.cli import demo_data
from everlearn.estimator.saving import load
from everlearn.report.mixture import render

TWO = ("numpy", "sklearn")


@pytest.fixture(scope="module")
def digits():
    return demo_data.load_digits(0)


class TestDigits:
    def test_rows_have_unit_variance_on_average(self, digits):
        assert digits.rows.shape == (1797, 30)
        assert_allclose(digits.rows.var(axis=0).mean(), 1.0, rtol=1e-12)

    def test_rows_pictures_and_labels_are_of_the_same_digit(self, digits):
        pixels = digits.images.reshape(1797, 64) * 16.0
        assert_allclose(digits.pca.transform(pixels) / digits.scale, digits.rows, atol=1e-9)
        known = datasets.load_digits()
        place = {row.tobytes(): label for row, label in zip(known.data, known.target, strict=True)}
        assert [place[row.tobytes()] for row in pixels] == digits.labels.tolist()

    def test_the_seed_gives_the_order(self, digits):
        assert_array_equal(demo_data.load_digits(0).labels, digits.labels)
        assert (demo_data.load_digits(1).labels != digits.labels).any()

    def test_rows_survive_a_csv_file(self, digits, tmp_path):
        path = demo_data.write_rows(digits.rows[:20], tmp_path / "rows.csv")
        head, *lines = path.read_text().splitlines()
        assert head.split(",")[::29] == ["pc1", "pc30"]
        assert_allclose(np.loadtxt(lines, delimiter=","), digits.rows[:20], rtol=1e-5)

    def test_without_pillow_the_page_about_digits_has_no_pictures(
        self, digits, demo_report, monkeypatch
    ):
        model = load(demo_report.parent / "digits.evl")
        monkeypatch.setattr(demo_data, "find_spec", lambda name: None)
        page = render(digits.study(model))
        assert "<img" not in page
        assert 'class="strip"' in page
        assert "<img" in demo_report.read_text("utf-8")


class TestDocstrings:
    def test_documents_are_labelled_and_do_not_give_their_label_away(self):
        corpus = demo_data.load_docstrings(0, 20, TWO)
        assert len(corpus) == 40
        assert sorted(set(corpus.labels)) == list(TWO)
        for text, label, name in zip(corpus.texts, corpus.labels, corpus.names, strict=True):
            assert name.startswith(label + ".")
            assert label not in text.lower()
            assert len(text.split()) >= 20

    def test_the_seed_says_which_and_in_which_order(self):
        first, again, other = (demo_data.load_docstrings(seed, 10, TWO) for seed in (0, 0, 1))
        assert first == again
        assert first != other

    def test_a_package_that_is_not_there_is_left_out(self):
        corpus = demo_data.load_docstrings(0, 5, ("numpy", "no_such_package"))
        assert set(corpus.labels) == {"numpy"}
