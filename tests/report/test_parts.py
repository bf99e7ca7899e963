"""The table of parts in a report: columns that say something, and text that is no HTML."""

import re

import pytest

from everlearn.report.page import Html
from everlearn.report.parts import MAX_LINES, Heads, described, example_list, part_table
from everlearn.stream.summary import Part

TOPICS = Heads("topic", "topics", "top words")
WEIGHTS = Heads("class", "classes", "largest weights", weights=True)


def heads_of(html):
    return re.findall(r'<th scope="col"[^>]*>(.*?)</th>', html)


def cells_of(html):
    lines = html.split("<tbody>")[1].split("</tr>")[:-1]
    found = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    return [[re.sub("<[^>]*>", "", cell) for cell in line] for line in found]


class TestColumns:
    @pytest.mark.parametrize(
        ("part", "options", "heads"),
        [
            (Part(3, 0.5, ("sea",)), {}, ["topic", "top words", "share"]),
            (Part(3, 0.5), {}, ["topic", "share"]),
            (Part(3, None), {}, ["topic"]),
            (Part(3, 0.5, speaks_for="x"), {}, ["topic", "speaks for", "share"]),
            (Part(3, None, ("a",), speaks_for="x"), {"permanent": False}, ["topic", "top words"]),
            (Part(3, None, ("a",)), {"examples": {3: ["e"]}}, ["topic", "top words", "examples"]),
            (Part(3, None, ("a",)), {"examples": {7: ["e"]}}, ["topic", "top words"]),
            (Part(3, None), {"strips": {3: Html("<svg/>")}}, ["topic", "mean ± spread"]),
        ],
    )
    def test_a_column_that_would_be_empty_is_left_out(self, part, options, heads):
        html = part_table([part], TOPICS, **options)
        assert heads_of(html) == heads
        assert len(cells_of(html)[0]) == len(heads)

    def test_ids_that_are_permanent_have_a_mark(self):
        assert cells_of(part_table([Part(3, None)], TOPICS)) == [["#3"]]
        assert cells_of(part_table([Part(3, None)], TOPICS, permanent=False)) == [["3"]]

    def test_a_part_that_speaks_for_nobody(self):
        found = cells_of(part_table([Part(1, None, speaks_for="x"), Part(2, None)], TOPICS))
        assert found == [["#1", "x"], ["#2", "–"]]

    @pytest.mark.parametrize(
        ("names", "head"),
        [
            (("a", "b"), "examples (a, b)"),
            ((), "examples"),
            (("a" * 20, "b" * 20), "examples"),
        ],
    )
    def test_long_names_do_not_stand_above_examples(self, names, head):
        html = part_table([Part(1, None)], TOPICS, examples={1: ["e"]}, columns_of_rows=names)
        assert heads_of(html)[-1] == head

    def test_examples_belong_to_an_id_or_to_a_class(self):
        parts = [Part(0, None, speaks_for="x"), Part(1, None, speaks_for="y"), Part(2, None)]
        html = part_table(parts, WEIGHTS, permanent=False, examples={"x": ["of x"], 2: ["of 2"]})
        assert cells_of(html) == [["x", "of x"], ["y", "–"], ["–", "of 2"]]


class TestLength:
    @pytest.mark.parametrize("n", [MAX_LINES, MAX_LINES + 1, MAX_LINES + 1500])
    def test_what_is_left_out_is_counted(self, n):
        html = part_table([Part(i, 1 / n) for i in range(n)], TOPICS)
        assert len(cells_of(html)) == MAX_LINES
        rest = re.findall(r"and ([\d,]+) smaller ones", html)
        assert rest == ([f"{n - MAX_LINES:,}"] if n > MAX_LINES else [])

    def test_the_order_is_told_where_there_is_one(self):
        assert "Topics, largest first" in part_table([Part(1, 0.5)], TOPICS)
        assert "largest first" not in part_table([Part(1, None)], TOPICS)


class TestWords:
    @pytest.mark.parametrize(
        ("about", "text"),
        [
            (["x0+0.50", "x1-1.2e-05"], "x0\xa0+0.50, x1\xa0−1.2e-05"),
            (["a-b+1.00"], "a-b\xa0+1.00"),  # a name may have a sign
            (["no weight"], "no weight"),
        ],
    )
    def test_weights_stand_apart_from_their_columns(self, about, text):
        assert described(about, WEIGHTS) == text

    def test_words_are_joined_as_they_are(self):
        assert described(["sea-1", "ship"], TOPICS) == "sea-1, ship"

    def test_text_is_no_html(self):
        html = part_table([Part(1, 0.5, ("<b>",), speaks_for="<i>")], TOPICS, examples={1: ["<u>"]})
        assert not re.search(r"<[biu]>", html)
        for text in ("&lt;b&gt;", "&lt;i&gt;", "&lt;u&gt;"):
            assert text in html
        assert example_list(["<u>"]) == '<ul class="examples"><li>&lt;u&gt;</li></ul>'
        assert example_list([]) == "–"
