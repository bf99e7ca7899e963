"""`kernel`, the decorator of all compiled functions. It adds the types that numba lacks.

Compiled kernels are kept beside their files, or in the user's cache folder. Where nothing can be
written, they are compiled anew in each process. The logger "everlearn" says so, once, and it says
when compiling takes long.

Numba's cache of a kernel notices edits of the kernel's own file only. If you change this file, or
one whose kernels other files call (`scalars`, `draws`), delete the cached files (`*.nbi`, `*.nbc`).
No flag ever denies NaN or infinity.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TypeVar, cast

import numba
from numba.core import event
from numba.core.registry import CPUDispatcher
from numba.extending import overload

_LOG: Final = logging.getLogger("everlearn")
_LONG: Final = 2.0
"""Seconds of compiling after which a user who waits should learn why."""

F = TypeVar("F", bound=Callable[..., Any])
EXACT: frozenset[str] = frozenset()
FUSED = frozenset({"contract"})
SUMMED = frozenset({"contract", "reassoc"})


def kernel(
    fastmath: frozenset[str] = EXACT, *, inline: bool = False, inner: bool | None = None
) -> Callable[[F], F]:
    """Compile a function on its first call, free of the GIL, and keep the result on disk.

    Only other kernels can call an `inner` one; None is True for names that begin with an
    underscore. The way in from Python, which it does not have, takes long to compile.

    A call passes every field of every array, which takes as long as a few dozen additions; small
    functions of inner loops are therefore written into their callers, and have their flags.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "error_model": "numpy",
        "fastmath": set(fastmath),
        "inline": "always" if inline else "never",
        "no_cfunc_wrapper": True,
    }

    def compiled(function: F) -> F:
        hidden = function.__name__.startswith("_") if inner is None else inner
        options["no_cpython_wrapper"] = hidden
        try:
            made = numba.njit(cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            _NOTICE.no_cache()
            made = numba.njit(**options)(function)
        if hidden:
            made.__class__ = _InnerKernel
        return cast(F, made)

    return compiled


class _InnerKernel(CPUDispatcher):
    """A kernel without a way in from Python, which numba would not notice before it crashes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(f"{self.py_func.__name__} can be called by other kernels only")


class _Notice(event.Listener):
    """Tells a user, once in a process, why a first call takes long."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._began: dict[int, float] = {}  # by thread, because compiling a kernel compiles others
        self._depth: dict[int, int] = {}
        self._seconds = 0.0
        self._said_slow = self._said_no_cache = False

    def on_start(self, event: Any) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._depth[thread] = self._depth.get(thread, 0) + 1
            self._began.setdefault(thread, time.perf_counter())
            self._look(thread)

    def on_end(self, event: Any) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._look(thread)
            self._depth[thread] -= 1
            if not self._depth[thread]:
                self._seconds += time.perf_counter() - self._began.pop(thread)

    def no_cache(self) -> None:
        """Say that compiled kernels cannot be kept."""
        if not self._said_no_cache:
            self._said_no_cache = True
            _LOG.warning(
                "everlearn: no folder for compiled code is writable, so every process compiles it "
                "anew. Set NUMBA_CACHE_DIR to a writable folder to compile only once."
            )

    def _look(self, thread: int) -> None:
        seconds = self._seconds + time.perf_counter() - self._began[thread]
        if seconds > _LONG and not self._said_slow:
            self._said_slow = True
            again = "in each process" if self._said_no_cache else "once for this machine"
            _LOG.warning("everlearn: compiling, %s; this takes about 10 seconds", again)


_NOTICE: Final = _Notice()
cast(Any, event).register("numba:compile", _NOTICE)


def by_precision(single: F, double: F) -> F:
    """One scalar kernel out of two: `single` for 32-bit arguments and `double` for 64-bit ones.

    Kernels call the result like any other; the choice is made when they are compiled. Both parts
    must be kernels.
    """

    def choose(x: Any) -> Any:
        return single(x) if x.dtype.itemsize == 4 else double(x)

    @overload(choose)
    def _implementation(x: Any) -> Callable[[Any], Any]:
        part = single if x.bitwidth == 32 else double

        def call(x: Any) -> Any:
            return part(x)

        return call

    return cast(F, choose)
