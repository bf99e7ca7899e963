"""Every family with rows to learn, one at a time."""

import pytest

from oracles.runs import RUNS, model_of, runner_of


@pytest.fixture(params=RUNS, ids=lambda case: case.name)
def case(request):
    return request.param


@pytest.fixture
def model(case):
    return model_of(case)


@pytest.fixture
def runner(case):
    return runner_of(case)


@pytest.fixture(params=[False, True], ids=["unit", "weighted"])
def weighted(request):
    return request.param
