"""What the parameters of `OnlinePPCA` may be, each by itself and together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from everlearn.core.params import Constraint, Instance, Interval, Options
from everlearn.estimators.base import COMMON_CONSTRAINTS

_TRUTH = (Instance((bool, np.bool_), "a truth value"),)
CONSTRAINTS: Final[Mapping[str, tuple[Constraint, ...]]] = {
    "n_components": (Interval(1, integer=True),),
    "constraint": (Options((None, "step", "task", "previous")),),
    "constraint_form": (Options(("kl", "gain", "ewc", "printed")),),
    "solver": (Options(("moment", "em")),),
    "constraint_weight": (Options(("count",)), Interval(0, 1e12, low_open=True)),
    "max_reference_rows": (Options((None,)), Interval(1)),
    "kept_components": (Options((None,)), Interval(1, integer=True)),
    "step_size": (Options((None,)), Interval(0, 1, low_open=True)),
    "step_power": (Interval(0.5, 1, low_open=True),),
    "step_offset": (Interval(0),),
    "statistics": (Options(("raw", "printed")),),
    "fisher": (Options(("complete", "marginal")),),
    "clip": _TRUTH,
    "align": _TRUTH,
    "n_mixtures": (Interval(1, integer=True),),
    "novelty": (Interval(0, low_open=True),),
    "batch_size": (Options((None,)), Interval(1, integer=True)),
    "fit_method": (Options(("auto", "exact", "em")),),
    "max_iter": (Interval(1, integer=True),),
    "tol": (Interval(0),),
    **COMMON_CONSTRAINTS,
}


def check_combination(estimator: Any) -> None:
    """Refuse parameters that are right one by one but not together."""
    name, constrained = type(estimator).__name__, estimator.constraint is not None
    form = estimator.constraint_form
    for asked, what in (
        (constrained and form == "printed", "constraint_form='printed'"),
        (estimator.constraint == "previous", "constraint='previous'"),
    ):
        if asked and estimator.constraint_weight == "count":
            raise ValueError(
                f"the 'constraint_weight' parameter of {name} must be a number if {what}, because "
                "its reference stands for no number of rows. Got 'count' instead."
            )
    if constrained and form != "kl" and estimator.n_mixtures > 1:
        raise ValueError(
            f"the 'constraint_form' parameter of {name} must be 'kl' if n_mixtures is more than 1. "
            f"Got constraint_form={form!r} instead."
        )
    kept = estimator.kept_components
    if kept is not None and kept < estimator.n_components:
        raise ValueError(
            f"the 'kept_components' parameter of {name} must be at least n_components="
            f"{estimator.n_components}. Got {kept!r} instead."
        )


def check_closed_form(estimator: Any, gaps: bool) -> None:
    """Refuse an exact fit where there is none."""
    if estimator.fit_method == "exact" and (estimator.n_mixtures > 1 or gaps):
        why = "X has missing values" if gaps else "n_mixtures is more than 1"
        raise ValueError(
            f"the 'fit_method' parameter of {type(estimator).__name__} must be 'auto' or 'em' if "
            f"{why}: there is no closed form. Got 'exact' instead."
        )
