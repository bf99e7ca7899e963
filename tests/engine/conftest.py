"""Engines of this machine."""

import pytest

from everlearn.engine.local import SerialEngine, ThreadEngine


@pytest.fixture(params=["serial", 1, 2, 5])
def engine(request):
    if request.param == "serial":
        yield SerialEngine()
        return
    with ThreadEngine(request.param) as engine:
        yield engine
