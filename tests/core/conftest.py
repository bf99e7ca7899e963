"""Every family of the registry, one at a time."""

import pytest

from oracles.cases import CASES


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request):
    return request.param
