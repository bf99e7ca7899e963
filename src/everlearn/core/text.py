"""Format counts and sizes for messages, such as "1,200 batches" and "1.2 MB"."""

from __future__ import annotations


def counted(n: int, one: str, many: str | None = None) -> str:
    """A number of things, such as "1 batch" and "1,200 batches"."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def megabytes(n_bytes: int) -> str:
    """A size for people: 1.2 MB, 340 kB, 12 bytes."""
    if n_bytes >= 999_500:  # rounded, it is not "1000 kB"
        return f"{n_bytes / 1e6:.1f} MB"
    if n_bytes >= 1_000:
        return f"{n_bytes / 1e3:.0f} kB"
    return counted(n_bytes, "byte")
