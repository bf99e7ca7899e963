"""Images are coloured by topic as promised, in arrays, in files and in pages."""

import re
from base64 import b64decode
from itertools import combinations, pairwise

import numpy as np
import pytest
from skimage.color import deltaE_ciede2000, rgb2lab

from everlearn.images.files import read_image
from everlearn.report.images import (
    LONGEST_SIDE,
    NO_TOPIC,
    contact_sheet,
    drawing,
    mean_colours,
    photograph,
    png_file,
    segmentation_page,
    segmentation_picture,
    topic_colour,
    write_segmentations,
)
from support.browser import needs_browser, opened, widths
from support.markup import HOSTILE, Page
from support.pictures import colours

IMAGES = [colours(12, 10, seed) for seed in range(3)]
LABELS = [np.arange(120).reshape(12, 10) // 40 + 5 * k for k in range(3)]


def pictures_in(html):
    return [read_image(b64decode(data)) for data in re.findall(r'base64,([^"]+)"', html)]


def test_mean_colours_are_those_of_the_pixels():
    picture = segmentation_picture(IMAGES[0], LABELS[0], boundaries=False)
    for topic in range(3):
        inside = LABELS[0] == topic
        expected = np.rint(IMAGES[0][inside].mean(axis=0))
        assert (picture[inside] == expected).all()


def test_mean_colours_over_images_weigh_every_pixel_alike():
    images = [np.zeros((2, 2), np.uint8), np.full((1, 4), 80, np.uint8)]
    labels = [np.zeros((2, 2), int), np.array([[0, 0, 0, 3]])]
    assert mean_colours(images, labels) == {0: (34, 34, 34), 3: (80, 80, 80)}


def test_the_palette_belongs_to_the_ids():
    first = segmentation_picture(IMAGES[0], LABELS[0], colours="palette", boundaries=False)
    other = segmentation_picture(IMAGES[1], LABELS[0][::-1], colours="palette", boundaries=False)
    np.testing.assert_array_equal(first, other[::-1])
    assert tuple(first[0, 0].tolist()) == topic_colour(0)


def test_colours_of_the_palette_differ_clearly():
    found = np.array([topic_colour(i) for i in range(24)]) / 255
    lab = rgb2lab(found[np.newaxis])[0]
    nearest = min(deltaE_ciede2000(a, b) for a, b in combinations(lab, 2))
    following = min(deltaE_ciede2000(a, b) for a, b in pairwise(lab))
    assert nearest > 9
    assert following > 29
    assert len({topic_colour(i) for i in range(200)}) == 200
    assert topic_colour(-1) == NO_TOPIC


def test_own_colours_are_taken():
    mine = {0: (1, 2, 3), 1: (4, 5, 6), 2: (7, 8, 9)}
    picture = segmentation_picture(IMAGES[0], LABELS[0], colours=mine, boundaries=False)
    assert {tuple(c) for c in picture.reshape(-1, 3).tolist()} == set(mine.values())


def test_boundaries_are_lighter_and_nothing_else_changes():
    plain = segmentation_picture(IMAGES[0], LABELS[0], boundaries=False)
    lined = segmentation_picture(IMAGES[0], LABELS[0])
    changed = (plain != lined).any(axis=2)
    assert np.flatnonzero(changed.all(axis=1)).tolist() == [3, 7]
    assert changed.sum() == 20
    assert (lined[changed] >= 128).all()


def test_flat_and_smaller_labels_are_taken():
    expected = segmentation_picture(IMAGES[0], LABELS[0])
    np.testing.assert_array_equal(segmentation_picture(IMAGES[0], LABELS[0].ravel()), expected)
    small = segmentation_picture(IMAGES[0], [[1, 2]], colours="palette", boundaries=False)
    assert (small[:, :5] == topic_colour(1)).all()
    assert (small[:, 5:] == topic_colour(2)).all()


def test_arguments_stay_as_they_are():
    image, labels = IMAGES[0].copy(), LABELS[0].copy()
    segmentation_picture(image, labels)
    np.testing.assert_array_equal(image, IMAGES[0])
    np.testing.assert_array_equal(labels, LABELS[0])


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        (np.zeros((12, 10)), {}, "integers, got float64"),
        (np.zeros(119, int), {}, r"12 x 10 topic ids.*\(119,\)"),
        (np.zeros((13, 10), int), {}, r"\(13, 10\)"),
        (np.zeros((0, 10), int), {}, r"\(0, 10\)"),
        (LABELS[0], {"colours": "bright"}, "'mean', 'palette' or a mapping of ids, got 'bright'"),
        (LABELS[0], {"colours": {0: (0, 0, 0)}}, r"a colour for each topic, got none for \[1, 2\]"),
    ],
)
def test_what_does_not_fit_is_refused(labels, options, message):
    with pytest.raises(ValueError, match=message):
        segmentation_picture(IMAGES[0], labels, **options)


@pytest.mark.parametrize("colours", ["mean", "palette", {0: (0, 0, 0)}])
@pytest.mark.parametrize("function", [contact_sheet, segmentation_page])
def test_labels_must_be_ids_with_any_colours(function, colours):
    with pytest.raises(ValueError, match=r"'labels' must be topic ids, .* got float64"):
        function(IMAGES[:1], [LABELS[0] + 0.5], colours=colours)


def test_files_hold_the_pictures(tmp_path):
    paths = write_segmentations(tmp_path / "new", IMAGES, LABELS, colours="palette")
    assert [path.name for path in paths] == ["0001.png", "0002.png", "0003.png"]
    for path, image, labels in zip(paths, IMAGES, LABELS, strict=True):
        expected = segmentation_picture(image, labels, colours="palette")
        np.testing.assert_array_equal(read_image(path), expected)


def test_in_files_a_topic_has_one_mean_colour(tmp_path):
    labels = [np.zeros((12, 10), int)] * 3
    pictures = [read_image(p) for p in write_segmentations(tmp_path, IMAGES, labels)]
    assert len({p.tobytes() for p in pictures}) == 1


def test_names_of_files_are_harmless_and_distinct(tmp_path):
    names = ["../a b.jpg", "c/d", ".x"]
    paths = write_segmentations(tmp_path, IMAGES, LABELS, names)
    assert [p.name for p in paths] == ["_a_b.png", "c_d.png", "x.png"]
    assert all(p.parent == tmp_path for p in paths)
    with pytest.raises(ValueError, match="a file name of its own"):
        write_segmentations(tmp_path, IMAGES, LABELS, ["a", "A", "b"])


@pytest.mark.parametrize("function", [contact_sheet, segmentation_page])
def test_lengths_must_agree(function):
    with pytest.raises(ValueError, match=r"'labels' of contact_sheet .* 3 images, got 2"):
        function(IMAGES, LABELS[:2])
    with pytest.raises(ValueError, match=r"'names' of contact_sheet .* 3 images, got 1"):
        function(IMAGES, LABELS, ["a"])


def test_the_sheet_shows_image_and_segmentation():
    html = contact_sheet(IMAGES, LABELS, colours="palette")
    found = pictures_in(html)
    assert len(found) == 6
    for k in range(3):
        expected = segmentation_picture(IMAGES[k], LABELS[k], colours="palette")
        np.testing.assert_array_equal(found[2 * k + 1], expected)
        difference = np.abs(found[2 * k].astype(int) - IMAGES[k])
        assert difference.mean() < 12  # JPEG
    page = Page(html)
    assert page.problems == []
    assert [i["alt"] for i in page.all("img")][:2] == ["image 1", "image 1, coloured by topic"]
    assert page.text.count("3 topics") == 3
    assert "#5 11.1%" in page.text


def test_a_long_list_of_topics_is_cut():
    labels = [np.arange(120).reshape(12, 10)]
    text = Page(contact_sheet(IMAGES[:1], labels)).text
    assert text.count("#") == 24
    assert "and 96 more" in text


def test_the_page_is_well_built_and_fetches_nothing():
    page = Page(segmentation_page(IMAGES, LABELS, HOSTILE, title=HOSTILE[0], lead=HOSTILE[1]))
    assert page.problems == []
    assert page.fetched == []
    assert page.scripts == []
    for words in HOSTILE:
        assert words in page.text
    (policy,) = (m["content"] for m in page.all("meta") if "http-equiv" in m)
    assert "script-src 'none'" in policy
    assert "topics in them9" in page.text


def test_a_page_without_images_is_a_page():
    assert Page(segmentation_page([], [])).problems == []


def test_large_pictures_are_shrunk_for_pages():
    large = np.zeros((600, 1200, 3), np.uint8)
    large[:, 600:] = (10, 200, 30)
    (photo,), (drawn,) = pictures_in(photograph(large, "x")), pictures_in(drawing(large, "x"))
    assert photo.shape == drawn.shape == (LONGEST_SIDE // 2, LONGEST_SIDE, 3)
    assert {tuple(c) for c in drawn.reshape(-1, 3).tolist()} == {(0, 0, 0), (10, 200, 30)}


@pytest.mark.parametrize("n_colours", [1, 2, 40, 256, 257])
def test_png_files_are_exact_with_any_number_of_colours(n_colours):
    rng = np.random.default_rng(n_colours)
    table = rng.integers(0, 256, (n_colours, 3), dtype=np.uint8)
    pixels = table[np.arange(60 * 70).reshape(60, 70) % n_colours]
    np.testing.assert_array_equal(read_image(png_file(pixels)), pixels)


@needs_browser
def test_the_page_opens_and_fits_a_narrow_window(tmp_path):
    path = tmp_path / "page.html"
    path.write_text(segmentation_page(IMAGES, LABELS, HOSTILE), encoding="utf-8")
    assert opened(path, tmp_path)[1] == []
    needed, given = widths(path, tmp_path)
    assert needed == given <= 500
