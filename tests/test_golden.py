"""Predictions of every estimator stay what they were: the file changes on purpose or not at all."""

import json
from typing import Any

import numpy as np
import pytest

from golden.predictions import COURSES, FILE, predictions

KEPT: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8"))


def test_every_course_is_kept() -> None:
    assert list(COURSES) == list(KEPT)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", COURSES)
def test_predictions_stay(name: str) -> None:
    check(name, predictions(name))


def check(name: str, found: dict[str, Any]) -> None:
    assert found.keys() == KEPT[name].keys()
    for key, want in KEPT[name].items():
        if key == "predict" and isinstance(want[0], str | list):
            assert found[key] == want
        else:
            np.testing.assert_allclose(found[key], want, rtol=1e-7, atol=1e-9, err_msg=key)
