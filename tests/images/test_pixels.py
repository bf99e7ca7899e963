"""Pixels become points in documented units, and labels become images again."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from everlearn.images.pixels import labels_as_image, pixel_points, shrunken_shape
from support.pictures import colours


def test_places_are_measured_from_the_centre_in_parts_of_the_side():
    points = pixel_points(colours(4, 5)).reshape(4, 5, 5)
    x, y = points[0, :, 0], points[:, 0, 1]
    np.testing.assert_allclose(x, [-0.4, -0.2, 0.0, 0.2, 0.4], atol=1e-15)
    np.testing.assert_allclose(y, [-0.375, -0.125, 0.125, 0.375])
    assert (points[:, :, 0] == x).all()
    assert (points[:, :, 1] == y[:, np.newaxis]).all()


@pytest.mark.parametrize(
    ("rgb", "lab"),  # of D65, as tables have them
    [
        ((255, 255, 255), (100.0, 0.0, 0.0)),
        ((0, 0, 0), (0.0, 0.0, 0.0)),
        ((255, 0, 0), (53.24, 80.09, 67.20)),
        ((0, 255, 0), (87.74, -86.18, 83.18)),
        ((0, 0, 255), (32.30, 79.19, -107.86)),
    ],
)
def test_colours_are_lab_divided_by_100(rgb, lab):
    (point,) = pixel_points(np.array([[rgb]], np.uint8))
    np.testing.assert_allclose(point[2:], np.array(lab) / 100, atol=2e-4)


def test_points_are_finite_doubles_and_the_image_stays():
    image = colours(7, 9)
    before = image.copy()
    points = pixel_points(image)
    assert points.shape == (63, 5)
    assert points.dtype == np.float64
    assert np.isfinite(points).all()
    np.testing.assert_array_equal(image, before)


def test_grey_and_transparent_images_are_taken():
    grey = colours(5, 6)[:, :, 0]
    expected = pixel_points(np.dstack([grey] * 3))
    np.testing.assert_allclose(pixel_points(grey), expected)
    opaque = np.dstack([grey, grey, grey, np.full_like(grey, 255)])
    np.testing.assert_allclose(pixel_points(opaque), expected)
    assert np.abs(expected[:, 3:]).max() < 1e-3


def test_shrinking_averages_the_pixels_covered():
    blocks = np.zeros((4, 8), np.uint8)
    blocks[:, 4:] = 200
    points = pixel_points(blocks, max_side=4)
    assert points.shape == (8, 5)
    fine = pixel_points(blocks).reshape(2, 2, 4, 2, 5).mean(axis=(1, 3)).reshape(8, 5)
    np.testing.assert_allclose(points, fine, atol=1e-12)


def test_small_images_are_not_shrunk():
    image = colours(5, 6)
    np.testing.assert_array_equal(pixel_points(image, max_side=6), pixel_points(image))


@given(st.integers(1, 40), st.integers(1, 40), st.none() | st.integers(1, 45))
def test_points_and_labels_fit_together(height, width, max_side):
    image = np.zeros((height, width), np.uint8)
    points = pixel_points(image, max_side)
    rows, columns = shrunken_shape(image, max_side)
    assert len(points) == rows * columns
    assert max(rows, columns) <= (max_side or max(height, width))
    labels = labels_as_image(np.arange(len(points)), image, max_side)
    assert labels.shape == (height, width)
    assert set(labels.ravel().tolist()) == set(range(len(points)))


def test_labels_of_all_pixels_are_only_reshaped():
    image = colours(3, 4)
    np.testing.assert_array_equal(
        labels_as_image(np.arange(12), image), np.arange(12).reshape(3, 4)
    )


def test_enlarged_labels_belong_to_the_point_that_covers_the_pixel():
    image = np.zeros((6, 6), np.uint8)
    x = pixel_points(image, max_side=3)[:, 0]
    enlarged = labels_as_image(x, image, max_side=3)
    assert np.abs(enlarged[0] - pixel_points(image)[:6, 0]).max() <= 1 / 6


def test_a_wrong_number_of_labels_is_refused_with_a_hint():
    with pytest.raises(ValueError, match=r"12 labels.* 3 x 4 points.*\(11,\).*'max_side'"):
        labels_as_image(np.zeros(11), colours(3, 4))


@pytest.mark.parametrize("max_side", [0, -1, 2.5, "big", True])
def test_a_wrong_side_is_refused(max_side):
    image = colours(3, 4)
    for function, arguments in (
        (pixel_points, (image, max_side)),
        (shrunken_shape, (image, max_side)),
        (labels_as_image, (np.zeros(12), image, max_side)),
    ):
        with pytest.raises(ValueError, match=f"'max_side' parameter of {function.__name__}"):
            function(*arguments)


@pytest.mark.parametrize("image", [[1, 2, 3], None, np.zeros((1, 2, 3, 4))])
def test_labels_of_what_is_no_image_are_refused(image):
    with pytest.raises(ValueError, match="'image' of labels_as_image must have the shape"):
        labels_as_image([1, 2, 3], image)
