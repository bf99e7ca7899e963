"""Steps that go to the workers themselves, and come back, without the scheduler in between.

A worker gets in one message what the tasks share and its groups of items, takes what these need
from its own memory, runs them on its threads and answers with sums: the posterior travels once to
each worker, and its statistics once back. What a worker does not do, because it has not all of the
data, is paused, lost or out of reach, is left to the scheduler, which moves data and tries again.

This is the one module that relies on what Dask does not document: a worker's table of handlers, the
pool of connections of a client, and how `Client.scatter` makes data known to the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

from distributed import Future
from distributed.comm import CommClosedError
from distributed.core import Status, clean_exception, error_message, send_recv
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps

from everlearn.core.stats import total
from everlearn.engine import dask_data as worker
from everlearn.engine.dask_data import Node, folded

_STEP = "everlearn-step"
_PATIENCE = 3.0
"""Seconds to wait for a worker to take a connection."""
_PAUSE = 300.0
"""Seconds until a worker that was out of reach is tried again."""
_GLANCE = 0.5
"""Seconds between looks at the connection to the scheduler."""
_WORK = {work.__name__: work for work in (worker.each, worker.added)}
_calls: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
"""Workers that a client has called: 0 for those that listen, or the time to try others again."""
log = logging.getLogger("everlearn.engine")


class Errand(NamedTuple):
    """A group of items as it is sent: its number, place in the tree, recipe and keys of slots.

    keep : the key under which the second results are to stay on the worker, or none
    """

    number: int
    start: int
    height: int
    recipe: bytes
    slots: list[str]
    keep: str = ""


class Answers(NamedTuple):
    """What came back: sums, second results or futures of them by group.

    lost : whether a worker did not answer
    """

    nodes: list[Node]
    infos: dict[int, list[Any]]
    futures: dict[int, Any]
    lost: bool = False

    def total(self) -> Any:
        """The sum of all groups, in the order of the tree."""
        nodes = sorted(self.nodes, key=lambda node: node.start)
        return total((node.sum for node in nodes), [node.height for node in nodes])

    def in_order(self) -> list[Any]:
        """The second results of all items."""
        return [info for _, infos in sorted(self.infos.items()) for info in infos]


class _Reply(NamedTuple):
    """What a worker says, and on which connection."""

    address: str
    comm: Any
    message: dict[str, Any]


def listen(dask_worker: Any) -> None:
    """Let a worker take steps. It stays as it is but for the name of a handler."""

    async def answer(comm: Any, **asked: Any) -> Any:
        return await _answered(dask_worker, comm, **asked)

    dask_worker.handlers[_STEP] = answer


async def _answered(dask_worker: Any, comm: Any, work: str, call: Any, errands: Any) -> Any:
    """Do what can be done here, and tell the caller; kept results belong to the scheduler then."""
    mine = [Errand(*errand) for errand in errands]
    if dask_worker.status != Status.running:
        mine = []
    mine = [errand for errand in mine if all(key in dask_worker.data for key in errand.slots)]
    try:
        results = await _worked(dask_worker, work, call, mine)
    except Exception as error:
        return error_message(error)
    nodes = folded(
        Node(errand.start, errand.height, result[0])
        for errand, result in zip(mine, results, strict=True)
        if work == worker.added.__name__
    )
    infos = {errand.number: infos for errand, (_, infos) in zip(mine, results, strict=True)}
    kept = {errand.keep: (None, infos.pop(errand.number)) for errand in mine if errand.keep}
    sizes = dask_worker.update_data(kept)["nbytes"] if kept else {}
    try:
        await comm.write({"status": "OK", "found": to_serialize((nodes, infos)), "sizes": sizes})
        if kept:
            await comm.read()  # the caller has told the scheduler
    except OSError:
        # Does anybody want what is kept? If not, the scheduler has it dropped.
        if kept:
            message = {"op": "add-keys", "keys": list(kept), "stimulus_id": f"kept-{uuid4().hex}"}
            dask_worker.batched_send(message)
        raise
    return Status.dont_reply


async def _worked(dask_worker: Any, work: str, call: Any, errands: Sequence[Errand]) -> list[Any]:
    """The results of errands, side by side on the threads of the worker."""
    if not errands:
        return []
    executor, run = dask_worker.executors["default"], asyncio.get_running_loop().run_in_executor
    task = await run(executor, worker.unpacked, call)
    running = [
        run(executor, _WORK[work], task, e.recipe, *[dask_worker.data[key] for key in e.slots])
        for e in errands
    ]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for one in running:  # after an error: what has not begun need not
            one.cancel()


class DirectLine:
    """Calls the workers of a client by themselves, as far as it can."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._calls = _calls.setdefault(client, {})

    def asked(self, work: str, call: bytes, errands: Mapping[str, Sequence[Errand]]) -> Answers:
        """What workers make of the errands for them; an error of a task is raised as it is."""
        if self._client.direct_to_workers is False or self._client.status != "running":
            errands = {}
        now = time.monotonic()
        errands = {home: e for home, e in errands.items() if self._calls.get(home, 0.0) < now}
        if not errands:
            return Answers([], {}, {})
        return self._client.sync(self._gathered, work, call, errands)  # type: ignore[no-any-return]

    async def _gathered(
        self, work: str, call: bytes, errands: Mapping[str, Sequence[Errand]]
    ) -> Answers:
        """Ask all workers at once, and tell the scheduler at once of what they keep."""
        asked = (self._ask(address, work, call, some) for address, some in errands.items())
        replies = [reply for reply in await asyncio.gather(*asked) if reply is not None]
        try:
            futures = await self._adopted(replies, errands)
        except OSError as error:
            log.info("what workers keep of a step is not known to the scheduler: %s", error)
            return Answers([], {}, {}, lost=True)
        finally:
            for reply in replies:
                self._client.rpc.reuse(reply.address, reply.comm)
        found = Answers([], {}, futures, lost=len(replies) < len(errands))
        for reply in replies:
            if reply.message["status"] == "error":
                _, raised, trace = clean_exception(**reply.message)
                raise raised.with_traceback(trace)
            nodes, infos = reply.message["found"]
            found.nodes.extend(nodes)
            found.infos.update(infos)
        return found

    async def _ask(
        self, address: str, work: str, call: bytes, errands: Sequence[Errand]
    ) -> _Reply | None:
        """What a worker answers, with the connection, on which it may wait; None if it is lost."""
        try:
            async with asyncio.timeout(_PATIENCE):
                comm = await self._client.rpc.connect(address)
            try:
                await self._introduce(comm, address)
                message = {"work": work, "call": to_serialize(call), "errands": errands}
                reply = await send_recv(comm, op=_STEP, **message)
                if reply is None:
                    raise CommClosedError("another worker has taken its address")
            except BaseException:
                comm.abort()
                self._client.rpc.reuse(address, comm)
                raise
        except OSError as error:
            log.info("%s is asked by way of the scheduler, not by itself: %s", address, error)
            self._calls[address] = time.monotonic() + _PAUSE
            return None
        return _Reply(address, comm, reply)

    async def _introduce(self, comm: Any, address: str) -> None:
        """Let a worker listen, unless it does."""
        if self._calls.get(address) == 0.0:
            return
        try:
            reply = await send_recv(comm, op="run", function=dumps(listen))
        except Exception as error:  # forbidden, or not known there
            raise OSError(f"it cannot listen: {error!r}") from error
        if reply["status"] != "OK":
            raise OSError(f"it cannot listen: {reply['exception_text']}")
        self._calls[address] = 0.0

    async def _adopted(
        self, replies: Iterable[_Reply], errands: Mapping[str, Sequence[Errand]]
    ) -> dict[int, Any]:
        """Futures of what workers keep, after the scheduler and then the workers were told."""
        keeping = [reply for reply in replies if reply.message.get("sizes")]
        if not keeping:
            return {}
        client = self._client
        who_has = {key: [reply.address] for reply in keeping for key in reply.message["sizes"]}
        sizes = {key: size for reply in keeping for key, size in reply.message["sizes"].items()}
        told = client.scheduler.update_data(who_has=who_has, nbytes=sizes, client=client.id)
        try:
            await self._while_running(told)
        except (OSError, KeyError) as error:  # it is lost, or has lost one of the workers
            for reply in keeping:
                reply.comm.abort()
            raise CommClosedError(repr(error)) from error
        some = (errand for reply in keeping for errand in errands[reply.address])
        futures = {e.number: Future(e.keep, client) for e in some if e.keep in sizes}
        for key in sizes:
            client.futures[key].finish()
        for reply in keeping:
            with suppress(OSError):  # if it is lost now, the scheduler says so
                await reply.comm.write("OK")
        return futures

    async def _while_running(self, call: Coroutine[Any, Any, Any]) -> None:
        """Wait for a call of the scheduler, which would be tried for long if it were lost."""
        task = asyncio.ensure_future(call)
        while not (await asyncio.wait({task}, timeout=_GLANCE))[0]:
            if self._client.status != "running":
                task.cancel()
                raise CommClosedError("the scheduler is lost")
        await task
