"""What survives a run: checkpoints as single, safe files."""

from everlearn.runtime.store.checkpoint import (
    JSON,
    Checkpoint,
    read_checkpoint,
    write_checkpoint,
)

__all__ = ["JSON", "Checkpoint", "read_checkpoint", "write_checkpoint"]
