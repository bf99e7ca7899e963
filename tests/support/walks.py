"""Walks through the code as `docs/architecture.md` tells them, and the calls that really happen."""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType, FunctionType
from typing import Any

import everlearn
from everlearn.registry import imported

PACKAGE = Path(everlearn.__file__).parent
LINE = re.compile(r"(?P<indent> *)(?P<path>\w[\w/]*\.py) +(?P<name>[\w.]+) *(?:: .*)?")

Key = tuple[str, str]
"""File within the package, and qualified name of a function in it."""


@dataclass
class Step:
    """One line of a walk, with the steps that are called from it."""

    key: Key
    steps: list["Step"] = field(default_factory=list)


def walk_of(text: str) -> Step:
    """A walk as a tree; a step is two spaces further in than its caller."""
    path: list[Step] = []
    for line in text.strip("\n").splitlines():
        match = LINE.fullmatch(line)
        assert match, f"a walk has lines such as 'mixture/fit.py learn: why', not {line!r}"
        step = Step((match["path"], match["name"]))
        depth = len(match["indent"]) // 2
        assert depth <= len(path), f"{line!r} is more than one step further in"
        del path[depth:]
        if path:
            path[-1].steps.append(step)
        path.append(step)
    return path[0]


def walks_in(page: str) -> Iterator[tuple[str, Step]]:
    """Title and tree of each block of a page that begins with ```walk."""
    for title, text in re.findall(r"^```walk +([^\n]+)\n(.*?)^```", page, re.M | re.S):
        yield title, walk_of(text)


class Calls:
    """Every call of a function of everlearn, in order, each with the call that it came from."""

    def __init__(self) -> None:
        self.keys: list[Key] = []
        self.callers: list[int | None] = []
        self._open: dict[FrameType, int] = {}

    @classmethod
    def of(cls, function: Callable[[], object]) -> "Calls":
        """The calls that a function makes in this thread."""
        calls = cls()
        before = sys.getprofile()
        sys.setprofile(calls._watch)
        try:
            function()
        finally:
            sys.setprofile(before)
        return calls

    def _watch(self, frame: FrameType, event: str, _: object) -> None:
        if event == "return":
            self._open.pop(frame, None)
        if event != "call":
            return
        key = key_of(frame.f_code)
        if key is None:
            return
        caller = frame.f_back
        while caller is not None and caller not in self._open:
            caller = caller.f_back
        self._open[frame] = len(self.keys)
        self.keys.append(key)
        self.callers.append(None if caller is None else self._open[caller])

    def distance(self, call: int, callers: set[int]) -> int | None:
        """How many calls lie between a call and the nearest of these callers above it."""
        between, caller = 0, self.callers[call]
        while caller is not None:
            if caller in callers:
                return between
            between, caller = between + 1, self.callers[caller]
        return None


def key_of(code: Any) -> Key | None:
    """File and name of a function of everlearn; None for others and for nameless ones."""
    path = Path(code.co_filename)
    if "<" in code.co_qualname.replace("<locals>", "") or not path.is_relative_to(PACKAGE):
        return None
    return path.relative_to(PACKAGE).as_posix(), code.co_qualname


def is_kernel(key: Key) -> bool:
    """Whether numba compiles it, so that Python does not see its calls."""
    return "kernels" in key[0]


def function_of(key: Key) -> Any:
    """The function that a step names."""
    module, name = key
    found = imported(
        f"everlearn.{module.removesuffix('.py').replace('/', '.')}:{name.split('.')[0]}"
    )
    for part in name.split(".")[1:]:
        found = found.__dict__[part]
    return getattr(found, "__wrapped__", getattr(found, "__func__", found))


def mentions(function: Any, name: str) -> bool:
    """Whether a function uses a global name, in its own body or in one nested in it."""
    codes = [function.__code__] if isinstance(function, FunctionType) else []
    while codes:
        code = codes.pop()
        if name in code.co_names:
            return True
        codes += [const for const in code.co_consts if hasattr(const, "co_names")]
    return False


def faults_of(walk: Step, calls: Calls, hidden: int) -> Iterator[str]:
    """Where the code does not go as the walk says.

    `hidden` calls may lie between a step and the step that it is listed under.
    """
    root = {i for i, key in enumerate(calls.keys) if key == walk.key}
    if not root:
        yield f"{walk.key} is not called"
        return
    yield from _faults_below(walk, root, calls, hidden)


def _faults_below(step: Step, at: set[int], calls: Calls, hidden: int) -> Iterator[str]:
    last = -1
    for below in step.steps:
        if is_kernel(below.key):
            function_of(below.key)  # it exists
            if not mentions(function_of(step.key), below.key[1]):
                yield f"{step.key} does not use {below.key}"
            continue
        all_calls = {i for i, key in enumerate(calls.keys) if key == below.key}
        distances = {i: calls.distance(i, at) for i in all_calls}
        near = {i for i, far in distances.items() if far is not None and far <= hidden}
        if not near:
            shortest = min((far for far in distances.values() if far is not None), default=None)
            yield (
                f"{below.key} is not called from {step.key}"
                if shortest is None
                else f"{shortest} calls lie between {step.key} and {below.key}"
            )
            continue
        if min(near) < last:
            yield f"{below.key} is called before the step above it"
        last = min(near)
        yield from _faults_below(below, near, calls, hidden)
