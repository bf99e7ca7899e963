"""Checkpoints: a model in one safe file, and schemas of what it holds."""

from everlearn.store.archive import (
    Checkpoint,
    read_checkpoint,
    remove_leftovers,
    replacement,
    write_checkpoint,
)
from everlearn.store.header import JSON

__all__ = [
    "JSON",
    "Checkpoint",
    "read_checkpoint",
    "remove_leftovers",
    "replacement",
    "write_checkpoint",
]
