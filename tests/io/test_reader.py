"""Reading ahead in groups of batches, and stopping."""

import threading
import time

import pytest

from everlearn.io.batches import Chunk
from everlearn.io.ledger import Ledger, Progress
from everlearn.io.reader import Reader


class Numbers:
    """A source of the numbers 0, 1, ...; a pipe waits for `gate` before its last record."""

    def __init__(self, name, n, *, rewinds=True, gate=None):
        self.name = self.key = name
        self.n, self.rewinds, self.gate = n, rewinds, gate
        self.waits = False

    def is_waiting(self):
        return self.waits

    def resume(self, known):
        return known

    def read(self, number, start):
        for i in range(start.position, self.n):
            if self.gate is not None and i == self.n - 1:
                self.waits = True
                self.gate.wait(5)
                self.waits = False
            yield Chunk(number, [i], [i + 1])

    def advanced(self, progress, places):
        return Progress(progress.name or self.name, places[-1])


class Listed:
    """Takes records as they are, as slowly as it is told."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def read(self, chunk):
        return chunk

    def join(self, batch):
        time.sleep(self.seconds)
        return [row for chunk in batch for row in chunk.rows]


def batches(sources, stop=None, *, size=4, idle=60.0, ledger=None, seconds=0.0):
    """What arrives, one by one."""
    reader = Reader(sources, ledger or Ledger(), size, Listed(seconds), idle)
    return (one for group in reader.groups(stop or threading.Event(), lambda: 1) for one in group)


class TestReader:
    def test_batches_span_sources_and_the_rest_is_a_batch(self):
        got = list(batches([Numbers("a", 6), Numbers("b", 5)]))
        assert [one.prepared for one in got] == [[0, 1, 2, 3], [4, 5, 0, 1], [2, 3, 4]]
        assert [p.position for p in got[1].progress] == [6, 2]

    def test_it_goes_on_where_the_ledger_says(self):
        ledger = Ledger({"a": Progress("a", 5)})
        got = list(batches([Numbers("a", 7)], ledger=ledger))
        assert [one.prepared for one in got] == [[5, 6]]

    def test_a_stopped_file_is_left_where_the_last_batch_ended(self):
        stop = threading.Event()
        got = []
        for one in batches([Numbers("a", 1000)], stop):
            got.append(one.prepared)
            if len(got) == 3:
                stop.set()
        assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]

    def test_what_came_through_a_stopped_pipe_is_not_lost(self):
        stop, gate = threading.Event(), threading.Event()
        got = []
        for one in batches([Numbers("-", 7, rewinds=False, gate=gate)], stop):
            got += one.prepared
            stop.set()
        assert got == [0, 1, 2, 3, 4, 5]
        gate.set()

    def test_nothing_is_lost_if_preparing_takes_long(self):
        stop, gate = threading.Event(), threading.Event()
        stop.set()
        source = Numbers("-", 6, rewinds=False, gate=gate)
        got = [one.prepared for one in batches([source], stop, seconds=0.4)]
        gate.set()
        # The reader stops after what it has begun.
        assert [row for batch in got for row in batch] == list(range(sum(map(len, got))))
        assert got

    def test_a_stop_in_a_file_leaves_the_pipe_after_it_alone(self):
        stop = threading.Event()
        got = []
        for one in batches([Numbers("a", 1000), Numbers("-", 10, rewinds=False)], stop):
            got += one.prepared
            stop.set()
        assert got == [0, 1, 2, 3]

    def test_an_endless_pipe_can_be_stopped(self):
        stop = threading.Event()
        taken = 0
        for _ in batches([Numbers("-", 10**9, rewinds=False)], stop):
            taken += 1
            stop.set()
            assert taken < 10
        assert taken >= 1

    def test_batches_that_come_quickly_are_gathered(self):
        reader = Reader([Numbers("a", 200)], Ledger(), 4, Listed(), 60.0)
        groups = list(reader.groups(threading.Event(), lambda: 8))
        rows = [row for group in groups for one in group for row in one.prepared]
        assert rows == list(range(200))
        assert max(map(len, groups)) == 8
        positions = [p.position for group in groups for one in group for p in one.progress]
        assert positions == list(range(4, 201, 4))

    def test_what_is_gathered_does_not_wait_for_a_pipe(self):
        gate = threading.Event()
        source = Numbers("-", 41, rewinds=False, gate=gate)
        reader = Reader([source], Ledger(), 4, Listed(), 60.0)
        rows = []
        for group in reader.groups(threading.Event(), lambda: 100):
            rows += [row for one in group for row in one.prepared]
            if len(rows) == 40:
                gate.set()
        assert rows == list(range(41))

    def test_what_is_gathered_before_an_error_is_learned(self):
        class Broken(Numbers):
            def read(self, number, start):
                yield from super().read(number, start)
                raise OSError("broken")

        reader = Reader([Broken("a", 22)], Ledger(), 4, Listed(), 60.0)
        groups = reader.groups(threading.Event(), lambda: 100)
        rows = []
        with pytest.raises(OSError, match="broken"):
            rows.extend(row for group in groups for one in group for row in one.prepared)
        assert rows == list(range(20))

    def test_a_silent_pipe_makes_a_batch_of_what_it_has(self):
        gate = threading.Event()
        source = Numbers("-", 3, rewinds=False, gate=gate)
        arrived = batches([source], idle=0.2)
        assert next(arrived).prepared == [0, 1]
        gate.set()
        assert next(arrived).prepared == [2]

    def test_an_error_of_a_source_arrives(self):
        class Broken(Numbers):
            def read(self, number, start):
                yield Chunk(number, [1], [1])
                raise OSError("the disk is gone")

        with pytest.raises(OSError, match="the disk is gone"):
            list(batches([Broken("a", 1)]))
