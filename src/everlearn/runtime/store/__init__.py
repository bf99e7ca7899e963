"""What survives a run: checkpoints as single, safe files."""

from everlearn.runtime.store.checkpoint import (
    Checkpoint,
    read_checkpoint,
    remove_leftovers,
    replacement,
    write_checkpoint,
)
from everlearn.runtime.store.header import JSON

__all__ = [
    "JSON",
    "Checkpoint",
    "read_checkpoint",
    "remove_leftovers",
    "replacement",
    "write_checkpoint",
]
