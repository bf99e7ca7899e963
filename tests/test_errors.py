"""Errors that users may catch by name, and which of them are interrupts."""

import inspect

import pytest

from everlearn import errors
from everlearn.errors import is_interrupt


def caused(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        caused(SystemError(), KeyboardInterrupt()),
        caused(SystemError(), caused(SystemError(), KeyboardInterrupt())),
    ],
    ids=["plain", "of compiled code", "of nested compiled code"],
)
def test_interrupts(error: BaseException) -> None:
    assert is_interrupt(error)


@pytest.mark.parametrize(
    "error",
    [
        SystemError(),
        ValueError(),
        caused(ValueError(), KeyboardInterrupt()),
        caused(SystemError(), ValueError()),
    ],
    ids=["a bug", "an error", "an error after an interrupt", "an error of compiled code"],
)
def test_others(error: BaseException) -> None:
    assert not is_interrupt(error)


def test_old_code_that_catches_standard_errors_catches_ours() -> None:
    own = [
        kind for _, kind in inspect.getmembers(errors, inspect.isclass)
        if kind.__module__ == errors.__name__
    ]  # fmt: skip
    assert len(own) > 8
    for kind in own:
        base = UserWarning if kind.__name__.endswith("Warning") else (ValueError, RuntimeError)
        assert issubclass(kind, base)
        assert kind.__name__.endswith(("Error", "Warning"))
