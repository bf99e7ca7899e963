"""What survives a run: checkpoints as single, safe files."""

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
