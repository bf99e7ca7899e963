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
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4
from weakref import WeakKeyDictionary

from distributed import Future
from distributed.comm import CommClosedError
from distributed.core import Status, clean_exception, error_message, send_recv
from distributed.protocol import to_serialize
from distributed.protocol.pickle import dumps

from everlearn.runtime.engine import worker
from everlearn.runtime.engine.groups import Node, folded

_STEP = "everlearn-step"
_PATIENCE = 3.0
"""Seconds to wait for a worker to take a connection."""
_PAUSE = 300.0
"""Seconds until a worker that was out of reach is tried again."""
_WORK = {work.__name__: work for work in (worker.each, worker.added)}
_known: WeakKeyDictionary[Any, dict[str, float]] = WeakKeyDictionary()
"""For each client the workers it has called, and the time from when on each may be called."""
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
    lost: bool


# ------------------------------------------------------------------ on a worker


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


# ------------------------------------------------------------------ in this process


class DirectLine:
    """Calls the workers of a client by themselves, as far as it can."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._from = _known.setdefault(client, {})

    def asked(self, work: str, call: bytes, errands: Mapping[str, Sequence[Errand]]) -> Answers:
        """What workers make of the errands for them; an error of a task is raised as it is."""
        if self._client.direct_to_workers is False or not errands:
            return Answers([], {}, {}, lost=False)
        return self._client.sync(self._gathered, work, call, errands)  # type: ignore[no-any-return]

    async def _gathered(
        self, work: str, call: bytes, errands: Mapping[str, Sequence[Errand]]
    ) -> Answers:
        asked = (self._ask(address, work, call, some) for address, some in errands.items())
        found = Answers([], {}, {}, lost=False)
        for reply in await asyncio.gather(*asked):
            if reply is None:
                found = found._replace(lost=True)
                continue
            if isinstance(reply, BaseException):
                raise reply
            nodes, infos, futures = reply
            found.nodes.extend(nodes)
            found.infos.update(infos)
            found.futures.update(futures)
        return found

    async def _ask(self, address: str, work: str, call: bytes, errands: Sequence[Errand]) -> Any:
        """What a worker answers: its results, the error of a task, or None."""
        try:
            comm = await self._connected(address)
            if comm is None:
                return None
            try:
                message = {"work": work, "call": to_serialize(call), "errands": errands}
                reply = await send_recv(comm, op=_STEP, **message)
                if reply["status"] == "error":
                    _, error, trace = clean_exception(**reply)
                    return error.with_traceback(trace)
                futures = await self._adopted(address, reply["sizes"], errands)
                if futures:
                    await comm.write("OK")
            except BaseException:
                comm.abort()  # it may be in the middle of something
                raise
            finally:
                self._client.rpc.reuse(address, comm)
        except OSError as error:
            self._out_of_reach(address, error)
            return None
        return *reply["found"], futures

    async def _connected(self, address: str) -> Any:
        """A connection to a worker that listens, or None if it is out of reach."""
        since = self._from.get(address)
        if since is not None and time.monotonic() < since:
            return None
        async with asyncio.timeout(_PATIENCE):
            comm = await self._client.rpc.connect(address)
        if since is None or since > 0.0:
            reply = await send_recv(comm, op="run", function=dumps(listen))
            if reply["status"] != "OK":
                self._client.rpc.reuse(address, comm)
                raise OSError(f"it does not know how to answer: {reply.get('exception_text')}")
            self._from[address] = 0.0
        return comm

    def _out_of_reach(self, address: str, error: OSError) -> None:
        log.info("%s is asked by way of the scheduler, not by itself: %s", address, error)
        self._from[address] = time.monotonic() + _PAUSE

    async def _adopted(
        self, address: str, sizes: Mapping[str, int], errands: Iterable[Errand]
    ) -> dict[int, Any]:
        """Futures of what a worker has kept, after the scheduler was told of it."""
        if not sizes:
            return {}
        who_has = {key: [address] for key in sizes}
        client = self._client
        try:
            await client.scheduler.update_data(who_has=who_has, nbytes=sizes, client=client.id)
        except KeyError as error:
            raise CommClosedError(f"the scheduler has lost {address}") from error
        futures = {e.number: Future(e.keep, client) for e in errands if e.keep in sizes}
        for key in sizes:
            client.futures[key].finish()
        return futures
