"""The natural constraint on the M-step of online EM, as the paper has it.

`OnlinePPCA` merges reference and batch in closed form. Here, statistics are blended with a step
size first, and the M-step of each batch is constrained: exactly, or by one of the quadratic forms
of `constraint.py`. All end further from batch learning: docs/papers/natural_online_em.md.
Derivation: docs/math/ppca.md, section 4.
"""

from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any

from benchmarks.reference.constraint import constrained
from everlearn import OnlinePPCA
from everlearn.ppca.local import LocalRequest, LocalSum
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.natural_em import NaturalEM
from everlearn.ppca.settings import PPCASettings
from everlearn.ppca.state import PPCAState
from everlearn.ppca.stats import LatentStats, expected_stats, m_steps


@dataclass(frozen=True)
class ConstrainedEM(NaturalEM):
    """Online EM with a constrained M-step.

    Attributes
    ----------
    form : "kl" constrains by the divergence itself, "gain" and "ewc" by a quadratic form
    """

    form: str = "kl"

    @property
    def in_moments(self) -> bool:
        return False

    def consolidate(self, state: PPCAState) -> PPCAState:
        """The state after the end of a task, which becomes part of the reference."""
        if self.constraint != "task" or state.new_mass == 0.0:
            return state
        old = [part.mass for part in state.reference] or [0.0] * len(state.models)
        # Shares of recent rows alone; `weights` would count the reference, too.
        shares = state.weights if state.stats is None else state.stats.n / state.stats.n.sum()
        reference = tuple(
            Moments.of_model(model, mass + state.new_mass * float(share))
            for model, mass, share in zip(state.models, old, shares, strict=True)
        )
        # During the warm-up the window holds all rows so far: the statistics will begin with them.
        window = () if state.stats is not None else state.window
        return replace(state, reference=self._capped(reference), window=window, new_mass=0.0)

    def _request(self, state: PPCAState) -> LocalRequest:
        request = super()._request(state)
        return replace(request, moments=request.moments or self.constraint == "step")

    def _warm_up(self, state: PPCAState, batch: tuple[Moments, ...]) -> PPCAState:
        state = self._with_batch(super()._warm_up(state, batch), batch)
        return state if state.stats is None else self._with_previous(state)

    def _blend(self, state: PPCAState, local: LocalSum, mass: float, usual: float) -> PPCAState:
        new = super()._blend(state, local, mass, usual)
        weight = self._reference_weight(state, mass / self.step_size(state.clock))
        if weight and new.stats is not None:
            new = self._constrained(new, new.stats, state.models, weight)
        return self._with_previous(self._with_batch(new, local.moments))

    def _constrained(
        self, state: PPCAState, stats: LatentStats, before: tuple[PPCA, ...], weight: float
    ) -> PPCAState:
        """The state after a constrained M-step in place of a plain one."""
        if self.form == "kl":
            used = (stats + _reference_stats(state, before) * weight) * (1.0 / (1.0 + weight))
            models = m_steps(used, before, state.origin)
            return replace(state, models=models, weights=used.n / used.n.sum())
        part, zz = state.reference[0], stats.zz[0] / stats.n[0]
        is_model = part.factor.shape[1] == self.rank and part.noise > 0.0
        reference = PPCA(part.mean, part.factor, part.noise) if is_model else part.ppca(self.rank)
        models = (constrained(self.form, state.models[0], zz, reference, weight),)
        return replace(state, models=models)

    def _with_batch(self, state: PPCAState, batch: tuple[Moments, ...]) -> PPCAState:
        """With the batch in the reference, if that is updated by step."""
        if self.constraint != "step":
            return state
        return replace(state, reference=self._capped(self._merged(state.reference, batch)))

    def _reference_weight(self, state: PPCAState, window: float) -> float:
        """Mass behind the reference in units of the mass in the window of statistics."""
        if not state.reference or self.constraint is None:
            return 0.0
        if self.weight is not None:
            return self.weight
        # The window stands for its whole task, even if it still holds only the latest rows.
        recent = state.new_mass if self.constraint == "task" else min(state.mass, window)
        return state.reference_mass / recent


def _reference_stats(state: PPCAState, models: tuple[PPCA, ...]) -> LatentStats:
    """What the reference expects the statistics to be under the E-step of these models."""
    parts = []
    for model, truth in zip(models, state.reference, strict=True):
        stats = expected_stats(model, truth, state.origin)
        parts.append(stats * (truth.mass / state.reference_mass))
    return reduce(LatentStats.join, parts)


class ConstrainedPPCA(OnlinePPCA):
    """`OnlinePPCA` that learns by `ConstrainedEM`."""

    form = "kl"

    def _settings(self) -> PPCASettings:
        settings = super()._settings()
        known = {f.name: getattr(settings.learner, f.name) for f in fields(NaturalEM)}
        return replace(settings, learner=ConstrainedEM(**known, form=self.form))


def constrained_ppca(form: str, n_components: int, **params: Any) -> ConstrainedPPCA:
    """A `ConstrainedPPCA` of a form; other parameters are those of `OnlinePPCA`."""
    model = ConstrainedPPCA(n_components, **params)
    model.form = form
    return model
