"""Descriptors are those of a plain reference, and change with the image as they should."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter

from everlearn.images.descriptors import (
    SCALES,
    Places,
    dense_descriptors,
    descriptors_at,
    random_places,
)
from support.pictures import colours, texture

IMAGE = texture(90, 110)


def inner_places(n=40, seed=0):
    """Corners between pixels so far from the edges of IMAGE that smoothing does not meet them."""
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(35, side - 35, n) + 0.5 for side in (110, 90))
    return Places(x, y, rng.choice(SCALES, n))


def plain_descriptor(grey, x, y, scale):
    """The definition, sample by sample."""
    smooth = gaussian_filter(grey, scale * 2 / 3, mode="nearest")
    padded = np.pad(smooth, 1, mode="edge")
    sums = np.zeros((4, 4, 8))
    half = [np.floor((k + 0.5) * scale) + 0.5 for k in range(8)]
    offsets = [-h for h in reversed(half)] + half
    for dy in offsets:
        for dx in offsets:
            i, j = round(y + dy), round(x + dx)
            if not (0 <= i < grey.shape[0] and 0 <= j < grey.shape[1]):
                continue
            right = (padded[i + 1, j + 2] - padded[i + 1, j]) / 2
            down = (padded[i + 2, j + 1] - padded[i, j + 1]) / 2
            weight = np.exp(-(dx**2 + dy**2) / (2 * (8 * scale) ** 2))
            turn = np.degrees(np.arctan2(down, right)) % 360 / 45
            for cy in range(4):
                for cx in range(4):
                    away = [abs(d / (4 * scale) - (c - 1.5)) for d, c in ((dy, cy), (dx, cx))]
                    share = max(0, 1 - away[0]) * max(0, 1 - away[1])
                    for direction in range(8):
                        turned = abs((turn - direction + 4) % 8 - 4)
                        rise = np.hypot(right, down) * weight * share * max(0, 1 - turned)
                        sums[cy, cx, direction] += rise
    flat = sums.ravel()
    unit = np.minimum(flat / np.linalg.norm(flat), 0.2)
    return unit / np.linalg.norm(unit)


@pytest.mark.parametrize(
    ("x", "y", "scale"),
    [(40.5, 50.5, 1.0), (50.5, 45.5, 2**0.5), (3.5, 88.5, 2.0), (55.5, 44.5, 3)],
)
def test_descriptors_are_those_of_the_definition(x, y, scale):
    (found,) = descriptors_at(IMAGE, Places(*np.array([[x], [y], [scale]])))
    np.testing.assert_allclose(found, plain_descriptor(IMAGE, x, y, scale), atol=1e-12)


def test_lengths_and_signs():
    found = dense_descriptors(IMAGE, n=200)
    assert found.shape == (200, 128)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)
    assert found.min() >= 0.0
    assert found.max() < 0.5


def test_strong_edges_are_held_back():
    edge = np.zeros((40, 40))
    edge[:, 20:] = 1.0
    (found,) = descriptors_at(edge, Places(*np.array([[19.5], [19.5], [1.0]])))
    strong = np.sort(found)[-8:]  # the two middle cells of each line, one direction
    np.testing.assert_allclose(strong, 8**-0.5, rtol=1e-5)  # all alike: they were cut
    assert np.sort(found)[-9] < 1e-3


def test_brightness_and_contrast_do_not_matter():
    places = inner_places()
    expected = descriptors_at(IMAGE, places)
    for other in (0.5 * IMAGE, IMAGE - 0.1, 0.01 * IMAGE + 0.7):
        np.testing.assert_allclose(descriptors_at(other, places), expected, atol=1e-10)


def test_colour_images_count_by_their_brightness():
    image = colours(60, 60)
    grey = image @ np.array([0.2125, 0.7154, 0.0721]) / 255
    places = random_places(grey, n=30)
    np.testing.assert_allclose(descriptors_at(image, places), descriptors_at(grey, places))


@given(st.integers(0, 12), st.integers(0, 12))
def test_a_shifted_image_has_the_same_descriptors_at_shifted_places(down, right):
    large = texture(102, 122, seed=5)
    places = inner_places()
    shifted = Places(places.x + right, places.y + down, places.scale)
    window = large[down : down + 90, right : right + 110]
    np.testing.assert_allclose(
        descriptors_at(window, places), descriptors_at(large, shifted), atol=1e-10
    )


def test_a_quarter_turn_permutes_the_numbers():
    places = inner_places()
    turned_places = Places(places.y, 110 - 1 - places.x, places.scale)
    found = descriptors_at(np.rot90(IMAGE), turned_places).reshape(-1, 4, 4, 8)
    expected = np.rot90(descriptors_at(IMAGE, places).reshape(-1, 4, 4, 8), axes=(1, 2))
    np.testing.assert_allclose(found, np.roll(expected, -2, axis=3), atol=1e-10)


def test_a_mirror_permutes_the_numbers():
    places = inner_places()
    mirrored = Places(110 - 1 - places.x, places.y, places.scale)
    found = descriptors_at(IMAGE[:, ::-1], mirrored).reshape(-1, 4, 4, 8)
    expected = descriptors_at(IMAGE, places).reshape(-1, 4, 4, 8)[:, :, ::-1]
    np.testing.assert_allclose(found, expected[..., (4 - np.arange(8)) % 8], atol=1e-10)


def test_a_larger_image_looks_alike_at_a_larger_scale():
    small = texture(60, 60, seed=2)
    large = np.kron(small, np.ones((2, 2)))
    one = descriptors_at(small, Places(*np.array([[29.5], [29.5], [1.0]])))
    other = descriptors_at(large, Places(*np.array([[59.5], [59.5], [2.0]])))
    assert float((one * other).sum()) > 0.95


@pytest.mark.parametrize("level", [0.0, 0.1, 1 / 3, 1.0])
def test_flat_images_are_described_by_zeros(level):
    assert (dense_descriptors(np.full((50, 60), level), n=30) == 0.0).all()


def test_a_place_is_the_nearest_corner():
    corner = descriptors_at(IMAGE, Places(*np.array([[40.5], [50.5], [1.0]])))
    near = descriptors_at(IMAGE, Places(*np.array([[40.1], [50.9], [1.0]])))
    np.testing.assert_array_equal(near, corner)


def test_far_outside_there_is_nothing():
    away = Places(np.array([-500.0, 1e6]), np.array([10.0, 10.0]), np.array([1.0, 2.0]))
    assert (descriptors_at(IMAGE, away) == 0.0).all()


def test_no_places_give_no_descriptors():
    none = np.empty(0)
    assert descriptors_at(IMAGE, Places(none, none, none)).shape == (0, 128)


def test_places_depend_on_seed_and_image_only():
    first = dense_descriptors(IMAGE, n=50, seed=3)
    dense_descriptors(texture(30, 30), n=7)
    np.testing.assert_array_equal(dense_descriptors(IMAGE.copy(), n=50, seed=3), first)
    np.testing.assert_array_equal(dense_descriptors(IMAGE.tolist(), n=50, seed=3), first)
    assert not np.array_equal(dense_descriptors(IMAGE, n=50, seed=4), first)
    here, there = random_places(IMAGE), random_places(IMAGE[::-1])
    assert not np.array_equal(here.x, there.x)


def test_descriptors_are_those_at_the_random_places():
    np.testing.assert_array_equal(
        dense_descriptors(IMAGE, n=20, seed=1),
        descriptors_at(IMAGE, random_places(IMAGE, 20, seed=1)),
    )


@given(st.integers(1, 120), st.integers(1, 120))
def test_patches_lie_inside_if_they_can(height, width):
    places = random_places(np.zeros((height, width)), n=60)
    assert ((places.x % 1 == 0.5) & (places.y % 1 == 0.5)).all()
    half = np.ceil(8 * places.scale)
    for at, side in ((places.x + 0.5, width), (places.y + 0.5, height)):
        fits = 2 * half <= side
        assert (at[fits] >= half[fits]).all()
        assert (at[fits] + half[fits] <= side).all()
        assert (np.abs(at[~fits] - side / 2) <= 0.5).all()
    if min(height, width) < 24:
        assert (places.scale == 1.0).all()


def test_all_scales_and_places_are_drawn_evenly():
    places = random_places(np.zeros((128, 192)), n=20_000)
    counts = [int(np.sum(places.scale == s)) for s in SCALES]
    assert sum(counts) == 20_000
    assert max(np.abs(np.array(counts) - 5000)) < 5 * np.sqrt(20_000 * 0.25 * 0.75)
    small = places.x[places.scale == 1.0]
    values, counts = np.unique(small, return_counts=True)
    assert (values[0], values[-1], len(values)) == (7.5, 183.5, 177)


def test_tiny_images_have_descriptors():
    found = dense_descriptors(texture(5, 7), n=10)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1.0)


def test_one_pixel_is_flat():
    assert (dense_descriptors(np.ones((1, 1)), n=3) == 0.0).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "'n' parameter of {}"),
        ({"n": 2.5}, "'n' parameter of {}"),
        ({"seed": -1}, "'seed' parameter of {}"),
        ({"scales": ()}, "scales given to {} must be positive"),
        ({"scales": (1.0, 0.0)}, "scales given to {} must be positive"),
        ({"scales": (np.nan,)}, "scales given to {} must be positive"),
    ],
)
def test_wrong_settings_are_refused(options, message):
    for function in (dense_descriptors, random_places):
        with pytest.raises(ValueError, match=message.format(function.__name__)):
            function(IMAGE, **options)


@pytest.mark.parametrize("image", [np.zeros(4), np.zeros((0, 3)), np.zeros((2, 2, 2, 3))])
def test_what_is_no_image_is_refused(image):
    for function in (dense_descriptors, random_places):
        with pytest.raises(ValueError, match=f"'image' of {function.__name__} must have the shape"):
            function(image)


@pytest.mark.parametrize(
    ("places", "message"),
    [
        (Places(np.zeros(2), np.zeros(3), np.ones(2)), "arrays of one length"),
        (Places(np.zeros((2, 1)), np.zeros((2, 1)), np.ones((2, 1))), "arrays of one length"),
        (Places(np.array([np.nan]), np.zeros(1), np.ones(1)), "must be finite"),
        (Places(np.zeros(1), np.zeros(1), np.zeros(1)), "must be positive"),
    ],
)
def test_wrong_places_are_refused(places, message):
    with pytest.raises(ValueError, match=message):
        descriptors_at(IMAGE, places)
