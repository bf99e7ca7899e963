"""Counts and sizes as people read them."""

import pytest

from everlearn.core.text import counted, megabytes


@pytest.mark.parametrize(
    ("n", "names", "text"),
    [
        (0, ("row",), "0 rows"),
        (1, ("row",), "1 row"),
        (2, ("row",), "2 rows"),
        (1, ("batch", "batches"), "1 batch"),
        (1200, ("batch", "batches"), "1,200 batches"),
    ],
)
def test_counts(n, names, text):
    assert counted(n, *names) == text


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [
        (0, "0 bytes"),
        (1, "1 byte"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (340_400, "340 kB"),
        (999_499, "999 kB"),
        (999_500, "1.0 MB"),
        (1_240_000, "1.2 MB"),
        (12_000_000_000, "12000.0 MB"),
    ],
)
def test_sizes(n_bytes, text):
    assert megabytes(n_bytes) == text
