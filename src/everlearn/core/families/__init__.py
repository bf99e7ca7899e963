"""Families of component distributions."""

from everlearn.core.families.base import Family
from everlearn.core.families.gaussian_diag import DiagGaussian, NormalGammaPrior
from everlearn.core.families.gaussian_full import FullGaussian, NormalWishartPrior
from everlearn.core.families.gaussian_zero_mean import WishartPrior, ZeroMeanGaussian
from everlearn.core.families.multinomial import DirichletPrior, Multinomial

__all__ = [
    "DiagGaussian",
    "DirichletPrior",
    "Family",
    "FullGaussian",
    "Multinomial",
    "NormalGammaPrior",
    "NormalWishartPrior",
    "WishartPrior",
    "ZeroMeanGaussian",
]
