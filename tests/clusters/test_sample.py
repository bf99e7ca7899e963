"""The sample is uniform, bounded, and does not depend on batches."""

import numpy as np
import pytest

from everlearn.clusters.sample import Sample

ROWS = np.arange(3000.0)[:, None]


def sampled(step: int, most: int, seed: int = 0) -> Sample:
    sample = Sample.empty(1)
    for first in range(0, len(ROWS), step):
        sample = sample.after(ROWS[first : first + step], first, seed, most)
    return sample


@pytest.mark.parametrize("step", [1, 7, 500, 3000])
def test_batches_do_not_matter(step: int) -> None:
    whole, parts = sampled(3000, 100), sampled(step, 100)
    np.testing.assert_array_equal(whole.numbers, parts.numbers)
    np.testing.assert_array_equal(whole.rows, parts.rows)
    np.testing.assert_array_equal(parts.rows[:, 0], parts.numbers)


def test_all_rows_are_kept_while_there_is_room() -> None:
    assert len(sampled(100, 3000)) == 3000


def test_every_part_of_the_stream_has_its_share() -> None:
    shares = [np.histogram(sampled(3000, 600, s).numbers, 6, (0, 3000))[0] for s in range(30)]
    mean = np.mean(shares, axis=0)  # standard error: sqrt(100 * 5/6 * 4/5 / 30) = 1.5
    assert (np.abs(mean - 100) < 6).all()


def test_the_old_sample_stays_as_it_is() -> None:
    old = sampled(3000, 100)
    before = old.rows.copy()
    old.after(ROWS, 3000, 0, 100)
    np.testing.assert_array_equal(old.rows, before)
