"""Call kernels that only other kernels can call."""

from collections.abc import Callable
from typing import Any

import numba


def from_python(kernel: Any) -> Callable[..., Any]:
    """The kernel, called by a function that is compiled for the test."""

    @numba.njit
    def call(*args):  # type: ignore[no-untyped-def]
        return kernel(*args)

    return call  # type: ignore[no-any-return]
