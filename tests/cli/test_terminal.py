"""What runs print beside their results: progress, JSON lines, notes, and how signals end them."""

import io
import json
import logging
import os
import signal
import threading
import time
import warnings

import pytest

from everlearn.cli.terminal import (
    LearnProgress,
    OutputConsole,
    notes_on_stderr,
    print_json,
    stop_on_signals,
    warnings_silenced,
)


def broken(text):
    raise BrokenPipeError


LINE = {"new": 20, "new_bad": 1, "records": 1200, "bad": 3, "components": 1}


class TestProgress:
    def test_new_records_and_bad_ones_are_counted(self):
        with LearnProgress(quiet=True) as progress:
            for _ in range(3):
                progress.show(LINE)
        assert (progress.n_new, progress.n_bad) == (60, 3)

    def test_a_terminal_shows_them(self, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("COLUMNS", "80")
        monkeypatch.setenv("TERM", "xterm")
        with LearnProgress(quiet=False) as progress:
            progress.show(LINE)
            progress.show({**LINE, "records": 1220, "components": 2})
        shown = capsys.readouterr().err
        assert "1,220 records" in shown
        assert "3 bad" in shown
        assert "2 components" in shown

    @pytest.mark.parametrize("quiet", [False, True])
    def test_nothing_is_shown_in_a_file_or_if_it_is_to_be_quiet(self, quiet, monkeypatch, capsys):
        monkeypatch.setenv("FORCE_COLOR", "1" if quiet else "")
        if not quiet:
            monkeypatch.delenv("FORCE_COLOR")
        with LearnProgress(quiet=quiet) as progress:
            progress.show(LINE)
            assert not progress.shown
        assert capsys.readouterr().err == ""


class TestJson:
    def test_a_value_is_a_line(self, capsys):
        value = {"text": "Größe\n", "list": [1, 2.5, None]}
        print_json(value)
        out = capsys.readouterr().out
        assert out.count("\n") == 1
        assert "Größe" in out
        assert json.loads(out) == value

    def test_bytes_of_a_file_name_that_are_no_text_are_replaced(self, capsys):
        print_json({"source": os.fsdecode(b"a\xff.csv")})
        assert json.loads(capsys.readouterr().out) == {"source": "a?.csv"}

    def test_nobody_reads_the_table(self):
        """rich would end the process; the command has an exit code for it."""
        file = io.StringIO()
        file.write = broken  # type: ignore[method-assign]
        with pytest.raises(BrokenPipeError):
            OutputConsole(file=file).print("a table")


class TestWarnings:
    LOGGER = logging.getLogger("everlearn")

    def test_notes_are_printed_as_the_command_line_speaks(self, capsys):
        with notes_on_stderr():
            self.LOGGER.warning("everlearn: add %s", "option 'label'")
            self.LOGGER.info("not this")
        self.LOGGER.warning("nor that")
        lines = [line for line in capsys.readouterr().err.splitlines() if "everlearn:" in line]
        assert lines == ["everlearn: add --label"]

    def test_silence_ends_with_the_block(self, capsys, caplog):
        before = self.LOGGER.level, warnings.showwarning
        with warnings_silenced(), warnings.catch_warnings():
            warnings.simplefilter("always")
            self.LOGGER.warning("not heard")
            warnings.showwarning(UserWarning("nor this"), UserWarning, "here", 1)
            assert not self.LOGGER.isEnabledFor(logging.WARNING)
        assert (self.LOGGER.level, warnings.showwarning) == before
        assert capsys.readouterr().err == ""
        assert not caplog.records

    def test_silence_ends_with_an_error(self):
        before = self.LOGGER.level, warnings.showwarning
        with pytest.raises(ZeroDivisionError), warnings_silenced():
            raise ZeroDivisionError
        assert (self.LOGGER.level, warnings.showwarning) == before


class TestSignals:
    @pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
    def test_a_signal_asks_to_stop_and_is_remembered(self, number):
        before = signal.getsignal(number)
        with stop_on_signals() as (stop, caught):
            assert not stop.is_set()
            signal.raise_signal(number)
            assert stop.wait(30)
        assert caught == [number]
        assert signal.getsignal(number) is before

    def test_the_second_one_kills(self, monkeypatch):
        killed = []
        with stop_on_signals():
            signal.raise_signal(signal.SIGTERM)
            monkeypatch.setattr(signal, "raise_signal", killed.append)
            os.kill(os.getpid(), signal.SIGTERM)
            end = time.monotonic() + 30
            while not killed and time.monotonic() < end:
                time.sleep(0.001)
            assert killed == [signal.SIGTERM]
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def test_a_thread_without_signals_may_use_it_too(self):
        found = []

        def work():
            with stop_on_signals() as (stop, caught):
                found.append((stop.is_set(), caught))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        assert found == [(False, [])]
