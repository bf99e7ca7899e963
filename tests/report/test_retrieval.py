"""The page of images found says what is right and what is wrong, and needs no network."""

import re
from base64 import b64decode

import numpy as np
import pytest

from everlearn.attic.app_report_retrieval import Collection, _number, retrieval_page
from everlearn.images.files import read_image
from support.browser import needs_browser, opened, widths
from support.markup import HOSTILE, Page
from support.pictures import colours, encoded

IMAGES = [colours(10, 14, seed) for seed in range(6)]
SEARCHED = Collection(IMAGES, list("aabbcc"), [f"file {i}" for i in range(6)])
QUERIES = Collection(IMAGES[:3], list("abc"), ["first", "second", "third"])
NEIGHBOURS = [[0, 2], [0, 2], [0, 1]]
SCORES = [[0.9, 0.8], [0.7, 0.6], [-0.5, -12.5]]


@pytest.fixture(scope="module")
def html():
    return retrieval_page(QUERIES, SEARCHED, NEIGHBOURS, SCORES, title="T", score_name="cosine")


class Watched:
    """Images that remember which of them were looked at."""

    def __init__(self, n):
        self.n, self.seen = n, set()

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        self.seen.add(i)
        return IMAGES[i % 6]


def test_images_come_query_by_query(html):
    found = [read_image(b64decode(data)) for data in re.findall(r'base64,([^"]+)"', html)]
    order = [0, 0, 2, 1, 0, 2, 2, 0, 1]
    assert len(found) == len(order)
    for shown, i in zip(found, order, strict=True):
        distances = [np.abs(shown.astype(int) - image).mean() for image in IMAGES]
        assert int(np.argmin(distances)) == i


def test_images_may_be_paths_of_files_that_are_read_when_they_are_shown(html, tmp_path):
    for i in range(3):  # the others are not there
        (tmp_path / f"{i}.png").write_bytes(encoded(IMAGES[i]))
    paths = [tmp_path / f"{i}.png" for i in range(6)]
    searched = Collection(paths, SEARCHED.labels, SEARCHED.names)
    queries = Collection([p.read_bytes() for p in paths[:3]], QUERIES.labels, QUERIES.names)
    page = retrieval_page(queries, searched, NEIGHBOURS, SCORES, title="T", score_name="cosine")
    assert page == html


def test_right_and_wrong_are_marked_and_counted(html):
    page = Page(html)
    kinds = [a["class"] for a in page.all("li") if a.get("class") in ("right", "wrong")]
    assert kinds == ["right", "wrong", "wrong", "right", "wrong", "wrong"]
    assert page.text.count("✓") == 2
    assert page.text.count("✗") == 4
    for words in ("first one right33.3%", "right of all 233.3%", "any of 2 right66.7%"):
        assert words in page.text
    alts = [a["alt"] for a in page.all("img")]
    assert alts[:3] == ["first", "file 0, a, right", "file 2, b, wrong"]


def test_scores_are_shown(html):
    text = Page(html).text
    for words in ("cosine 0.900", "cosine 0.600", "cosine −0.500", "cosine −12.5"):
        assert words in text


@pytest.mark.parametrize(
    ("score", "shown"),
    [(0.0, "0.000"), (0.5, "0.500"), (-1e-5, "−1e−05"), (-98765.4, "−98,765"), (np.nan, "nan")],
)
def test_scores_have_as_many_digits_as_help(score, shown):
    assert _number(score) == shown


def test_labels_have_a_table(html):
    rows = re.findall(r'<th scope="row">(.)</th>(.*?)</tr>', html)
    assert [(label, re.findall(r">([^<]+)<", cells)) for label, cells in rows] == [
        ("a", ["1", "100.0%", "50.0%"]),
        ("b", ["1", "0.0%", "50.0%"]),
        ("c", ["1", "0.0%", "0.0%"]),
    ]


def test_without_labels_nothing_is_judged():
    bare = Collection(IMAGES)
    page = Page(retrieval_page(bare, bare, [[1]] * 6, np.ones((6, 1))))
    assert page.problems == []
    assert "right" not in page.text
    assert "✓" not in page.text
    assert "image 2" in page.text


def test_only_some_queries_are_shown_but_all_are_counted():
    queries = Collection(Watched(100), ["a"] * 50 + ["z"] * 50)
    searched = Collection(Watched(7), list("aaaabbb"))
    neighbours = np.tile([1, 5], (100, 1))
    page = Page(retrieval_page(queries, searched, neighbours, np.ones((100, 2)), max_shown=3))
    assert "first one right50.0%" in page.text
    assert "3 of 100 queries" in page.text
    assert len(page.all("img")) == 9
    assert queries.images.seen == {0, 50, 99}
    assert searched.images.seen == {1, 5}


def test_the_page_is_well_built_and_fetches_nothing():
    hostile = Collection(IMAGES[:3], HOSTILE, HOSTILE)
    page = Page(
        retrieval_page(
            hostile,
            hostile,
            [[1, 2]] * 3,
            np.ones((3, 2)),
            title=HOSTILE[0],
            lead=HOSTILE[1],
            score_name=HOSTILE[2],
        )
    )
    assert page.problems == []
    assert page.fetched == []
    assert page.scripts == []
    for words in HOSTILE:
        assert page.text.count(words) >= 3
    assert all(image["alt"] for image in page.all("img"))
    ids = [a["id"] for _, a in page.elements if "id" in a]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("neighbours", "scores", "message"),
    [
        ([[0, 1]], [[1, 1]], r"'neighbours' .* \(3, n\).*\(1, 2\)"),
        ([0, 1, 2], [1, 1, 1], r"'neighbours' .* \(3,\)"),
        (np.zeros((3, 0), int), np.zeros((3, 0)), r"'neighbours' .*at least 1"),
        ([[0], [1], [6]], [[1]] * 3, "the 6 images searched, got int64 from 0 to 6"),
        ([[0], [1], [-1]], [[1]] * 3, "from -1 to 1"),
        ([[0.0], [1.0], [1.0]], [[1]] * 3, "got float64"),
        ([[0], [1], [2]], [[1]] * 2, r"'scores' .* \(3, 1\), got \(2, 1\)"),
    ],
)
def test_what_does_not_fit_is_refused(neighbours, scores, message):
    with pytest.raises(ValueError, match=message):
        retrieval_page(QUERIES, SEARCHED, neighbours, scores)


def test_wrong_settings_are_refused():
    with pytest.raises(ValueError, match="'max_shown' parameter of retrieval_page"):
        retrieval_page(QUERIES, SEARCHED, NEIGHBOURS, SCORES, max_shown=0)
    with pytest.raises(ValueError, match=r"'labels' of Collection .* 6 images, got 2"):
        Collection(IMAGES, ["a", "b"])
    with pytest.raises(ValueError, match=r"'names' of Collection .* 6 images, got 1"):
        Collection(IMAGES, None, ["a"])


@needs_browser
@pytest.mark.parametrize("flags", [(), ("--force-dark-mode",)])
def test_the_page_opens_and_nothing_goes_wrong(html, tmp_path, flags):
    path = tmp_path / "page.html"
    path.write_text(html, encoding="utf-8")
    dom, said = opened(path, tmp_path, *flags)
    assert said == []
    assert "second" in dom


@needs_browser
def test_nothing_sticks_out_on_a_narrow_screen(tmp_path):
    long = ["averyveryverylongnamewithoutanyspacesinitthatgoesonandon" * 2] * 6
    path = tmp_path / "page.html"
    collection = Collection(IMAGES, long, long)
    page = retrieval_page(collection, collection, [[0, 1, 2, 3, 4, 5]] * 6, np.ones((6, 6)))
    path.write_text(page, encoding="utf-8")
    needed, given = widths(path, tmp_path)
    assert needed == given <= 500
