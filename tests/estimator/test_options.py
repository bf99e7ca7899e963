"""Rarely used parameters travel together, and are checked like others."""

from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from sklearn.base import BaseEstimator

from everlearn.estimator.base import LearnerMixin
from everlearn.estimator.options import ExpertOptions
from everlearn.estimator.params import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class OvenOptions(ExpertOptions):
    heat: float = 180.0
    n_trays: int = 2
    constraints: ClassVar = {
        "heat": (Interval(0, 300),),
        "n_trays": (Interval(1, integer=True),),
    }


class Oven(LearnerMixin, BaseEstimator):  # type: ignore[misc]
    _constraints: ClassVar = {}
    _options: ClassVar = {"options": OvenOptions, "grill": OvenOptions}

    def __init__(self, options: Any = None, grill: Any = None) -> None:
        self.options, self.grill = options, grill


def test_an_object_a_mapping_and_none_are_options() -> None:
    assert OvenOptions.of(None, "Oven") == OvenOptions()
    assert OvenOptions.of({"heat": 200}, "Oven") == OvenOptions(heat=200)
    options = OvenOptions(n_trays=3)
    assert OvenOptions.of(options, "Oven") is options


@pytest.mark.parametrize("name", ["options", "grill"])
@pytest.mark.parametrize(
    ("value", "error", "words"),
    [
        ({"heath": 200}, ValueError, "has no entry 'heath'; it has heat, n_trays"),
        (OvenOptions(heat=301), ValueError, "'heat' parameter of OvenOptions of Oven must be"),
        ({"n_trays": 0}, ValueError, "at least 1. Got 0"),
        (180, TypeError, "must be OvenOptions, a mapping or None. Got 180"),
    ],
)
def test_what_cannot_be_names_the_parameter(
    name: str, value: Any, error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        Oven(**{name: value})._check_params()
    if error is TypeError:
        with pytest.raises(TypeError, match=f"the '{name}' parameter of Oven"):
            Oven(**{name: value})._check_params()
