"""Rarely used parameters of an estimator, together in one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from everlearn.estimator.params import Constraint, check_params


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpertOptions:
    """Base of the options of a family of models, such as `SamplerOptions`.

    A subclass is a frozen dataclass with a default for every field and a constraint for each in
    `constraints`. An estimator names it in `_options`, and takes one as the parameter of that
    name, or a mapping of some fields, or None for the defaults.
    """

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {}

    @classmethod
    def of(cls, value: Any, owner: str, parameter: str = "options") -> Self:
        """The options that a parameter of the estimator `owner` stands for."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            known = value
        elif isinstance(value, Mapping):
            names = [field.name for field in fields(cls)]
            if unknown := [name for name in value if name not in names]:
                raise ValueError(
                    f"the {parameter!r} parameter of {owner} has no entry {unknown[0]!r}; "
                    f"it has {', '.join(names)}"
                )
            known = cls(**value)
        else:
            raise TypeError(
                f"the {parameter!r} parameter of {owner} must be {cls.__name__}, a mapping or "
                f"None. Got {value!r} instead."
            )
        check_params(f"{cls.__name__} of {owner}", asdict(known), cls.constraints)
        return known
