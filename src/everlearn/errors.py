"""Exceptions and warnings that users may want to catch by name."""

from __future__ import annotations


class UsageError(ValueError):
    """A parameter or an option does not fit the model or the data."""


class SourceError(ValueError):
    """A source of records cannot be read at all. A bad record within one is set aside instead."""


class BadRecordError(ValueError):
    """A record cannot be learned, and the run is strict."""


class LockedError(RuntimeError):
    """Another process is learning into the same model file."""


class CheckpointError(ValueError):
    """A checkpoint file is corrupt, truncated, foreign, or newer than this library."""


class ClusterError(RuntimeError):
    """A cluster does not answer, has no workers, or lost its scheduler."""


class ImageDecodeError(ValueError):
    """A file is no image, or a damaged one."""


class ImageSkippedWarning(UserWarning):
    """An image that could not be decoded was left out."""


class MemoryBudgetError(ValueError):
    """A memory budget is too small to hold the model it was given for."""


class NotConvergedWarning(UserWarning):
    """Learning stopped at its limit of laps or rounds while it was still getting better."""


class TopicCollapseWarning(UserWarning):
    """One topic has taken most of the words, so topics cannot tell documents apart."""


class ForcedJoinWarning(UserWarning):
    """Topics were joined against the evidence, because memory does not hold all of them."""


def is_interrupt(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, also where compiled code reports it as a SystemError."""
    while isinstance(error, SystemError) and error.__cause__ is not None:
        error = error.__cause__
    return isinstance(error, KeyboardInterrupt)
