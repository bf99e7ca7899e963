"""Exit codes: each expected error has one, and a message; bugs keep their traceback."""

import re

import pytest
import typer

from everlearn.cli import exits
from everlearn.errors import (
    BadRecordError,
    CheckpointError,
    ClusterError,
    LockedError,
    MemoryBudgetError,
    SourceError,
    UsageError,
)

CODES = {
    BadRecordError: exits.BAD_RECORD,
    CheckpointError: exits.BAD_MODEL,
    ClusterError: exits.FAILED,
    ImportError: exits.FAILED,
    LockedError: exits.LOCKED,
    MemoryBudgetError: exits.USAGE,
    OSError: exits.FAILED,
    SourceError: exits.USAGE,
    UsageError: exits.USAGE,
}


def ended(error):
    """The exit code of a command that raises this error."""
    with pytest.raises(typer.Exit) as caught, exits.exit_on_errors():
        raise error
    return caught.value.exit_code


@pytest.mark.parametrize("kind", CODES)
def test_an_expected_error_is_one_line_and_a_code(kind, capsys):
    assert ended(kind("it is so")) == CODES[kind]
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "Error: it is so\n"


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError, KeyboardInterrupt])
def test_any_other_error_is_a_bug_and_goes_through(kind, capsys):
    with pytest.raises(kind), exits.exit_on_errors():
        raise kind("bug")
    assert capsys.readouterr().err == ""


def test_all_is_well():
    with exits.exit_on_errors():
        pass


def test_a_source_that_is_noted_on_an_error_is_named_once(capsys):
    for text in ("not a table", "'a.csv' is not a table"):
        error = SourceError(text)
        error.add_note("a.csv")
        ended(error)
    assert capsys.readouterr().err.splitlines() == [
        "Error: not a table (in 'a.csv')",
        "Error: 'a.csv' is not a table",
    ]


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("give option 'label'", "give --label"),
        ("option 'score-every' above 0", "--score-every above 0"),
        ("an adoption 'label'", "an adoption 'label'"),
        ("the 'label' parameter", "the 'label' parameter"),
    ],
)
def test_options_are_named_as_they_are_typed(text, typed):
    assert exits.as_typed(text) == typed


def test_help_lists_every_code():
    codes = {
        value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)
    }
    listed = {int(code) for code in re.findall(r"(?:^|[:;] |or )(\d+)\b", exits.EXIT_CODES)}
    assert listed == {0, 130, 143} | codes
