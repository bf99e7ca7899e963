"""HOG and LBP are those of scikit-image, of the grey square in the middle."""

import numpy as np
import pytest
from skimage.feature import hog, local_binary_pattern

from everlearn.images import HOG, LBP
from everlearn.images.base import square
from support.pictures import colours

IMAGES = [colours(40, 60, seed) for seed in range(5)]


def grey(image, size):
    """The middle square as Pillow's grey, by its formula."""
    pixels = square(image, size).astype(np.int64)
    return ((pixels @ [19595, 38470, 7471] + 0x8000) >> 16).astype(np.uint8)


def test_hog_is_that_of_the_middle_square():
    (row,) = HOG(size=64, cell=8, orientations=6).transform(IMAGES[:1])
    image = grey(IMAGES[0], 64)
    peer = hog(image, 6, (8, 8), (2, 2), block_norm="L2-Hys")
    assert row.shape == (7 * 7 * 4 * 6,)
    np.testing.assert_allclose(row, peer, atol=1e-6)


@pytest.mark.parametrize(
    ("invariant", "method", "n_codes"), [(False, "nri_uniform", 59), (True, "uniform", 10)]
)
def test_lbp_counts_patterns_part_by_part(invariant, method, n_codes):
    (row,) = LBP(size=32, grid=4, rotation_invariant=invariant).transform(IMAGES[:1])
    codes = local_binary_pattern(grey(IMAGES[0], 32), 8, 1.0, method).astype(int)
    expected = []
    for top in range(0, 32, 8):
        for left in range(0, 32, 8):
            part = codes[top : top + 8, left : left + 8].ravel()
            expected.append(np.bincount(part, minlength=n_codes) / 64)
    np.testing.assert_allclose(row, np.concatenate(expected), atol=1e-7)


def test_a_grid_that_does_not_divide_the_side_still_counts_every_pixel():
    (row,) = LBP(size=50, grid=7).transform(IMAGES[:1])
    np.testing.assert_allclose(row.reshape(49, 59).sum(axis=1), 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"size": 4}, "'size' parameter of HOG must be an integer at least 16"),
        ({"cell": 1}, "'cell' parameter of HOG"),
        ({"size": 20, "cell": 16}, "'size' parameter of HOG must hold a block of 2 x 2"),
        ({"orientations": 0}, "'orientations' parameter of HOG"),
        ({"n_jobs": 0}, "'n_jobs' parameter of HOG"),
        ({"verbose": -1}, "'verbose' parameter of HOG"),
    ],
)
def test_parameters_of_hog_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        HOG(**params).fit(IMAGES)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"grid": 0}, "'grid' parameter of LBP"),
        ({"size": 16, "grid": 17}, "'size' parameter of LBP must be a pixel or more"),
        ({"radius": 0}, "'radius' parameter of LBP"),
        ({"rotation_invariant": 1}, "'rotation_invariant' parameter of LBP"),
    ],
)
def test_parameters_of_lbp_are_checked(params, message):
    with pytest.raises(ValueError, match=message):
        LBP(**params).fit(IMAGES)
