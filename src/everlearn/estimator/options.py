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
    `constraints`. An estimator takes one as its parameter `options`, or a mapping of some fields,
    or None for the defaults.
    """

    constraints: ClassVar[Mapping[str, tuple[Constraint, ...]]] = {}

    @classmethod
    def of(cls, value: Any, owner: str) -> Self:
        """The options that a parameter stands for; errors name the estimator `owner`."""
        if value is None:
            return cls()
        if isinstance(value, cls):
            known = value
        elif isinstance(value, Mapping):
            names = [field.name for field in fields(cls)]
            if unknown := [name for name in value if name not in names]:
                raise ValueError(
                    f"the 'options' parameter of {owner} has no entry {unknown[0]!r}; "
                    f"it has {', '.join(names)}"
                )
            known = cls(**value)
        else:
            raise TypeError(
                f"the 'options' parameter of {owner} must be {cls.__name__}, a mapping or None. "
                f"Got {value!r} instead."
            )
        check_params(f"options of {owner}", asdict(known), cls.constraints)
        return known
