"""Online EM for PPCA and mixtures of it, with a natural constraint that keeps it from forgetting.

With a constraint, reference and batch are merged by their *moments* in closed form, which is the
exact maximiser of the batch's likelihood under the constraint on the divergence from the reference.
Without one, the *statistics* of Cappe and Moulines' online EM are blended with a step size.
Derivation: docs/math/ppca.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from everlearn.core.arrays import Vec
from everlearn.engine.chunks import ChunkedRows
from everlearn.engine.protocol import Engine
from everlearn.engine.rows import Rows
from everlearn.ppca.gaps import first_models, refill_gaps
from everlearn.ppca.local import LocalRequest, LocalSum, sum_over_rows
from everlearn.ppca.model import PPCA
from everlearn.ppca.moments import Moments
from everlearn.ppca.state import PPCAState, Typical
from everlearn.ppca.stats import expected_stats, m_steps

_WARM_UP_ROWS = 20
"""At least this many rows are learned exactly before online EM begins."""
_MATURE_ROWS, _MATURE_PER_RANK = 50, 5
"""A component is mature after this many rows, or after this many for each dimension if more."""
_ODD_SPAN = 2
"""Odd rows fade while this many times the mature number of usual rows go by."""
_NEARLY = 1.0 - 1e-9
"""Sums of weights equal numbers of rows only up to rounding."""
_STRAY_ROWS = 10
"""Fewer odd rows than this are dropped when a batch brings more of them."""


@dataclass(frozen=True, slots=True)
class StepSize:
    """Weight of the newest batch: a constant, or (k + offset) ** -power for the k-th."""

    constant: float | None = None
    power: float = 0.6
    offset: float = 0.0

    def __call__(self, k: int) -> float:
        if k <= 1:
            return 1.0
        return self.constant if self.constant is not None else (k + self.offset) ** -self.power


@dataclass(frozen=True, slots=True)
class NaturalEM:
    """The learner: it holds settings only. What it has learned is a `PPCAState`.

    Attributes
    ----------
    rank : components of a PPCA
    kept_rank : directions that references and windows keep, at least `rank`
    constraint : when the reference is updated: "step", "task", "previous" (it is the model before
        the step), or None (there is no reference)
    weight : weight of the reference in units of the window's, or None to count rows
    max_reference_mass : the most that the reference weighs, in rows of weight 1
    step_size : weights of batches in statistics and windows
    max_components : the most PPCAs in the mixture
    novelty : standard deviations below the usual log density from which on a row is odd
    """

    rank: int
    kept_rank: int
    constraint: str | None
    weight: float | None = None
    max_reference_mass: float = np.inf
    step_size: StepSize = StepSize()
    max_components: int = 1
    novelty: float = 2.0

    @property
    def in_moments(self) -> bool:
        """Whether batches are merged by their moments, and not by statistics of online EM."""
        return self.constraint is not None

    # ------------------------------------------------------------------ a batch

    def step(self, state: PPCAState, rows: Rows | ChunkedRows, engine: Engine) -> PPCAState:
        """The state after one batch."""
        state, gap_models = self._gap_models(state, rows, engine)
        request = replace(self._request(state), gap_models=gap_models)
        local = sum_over_rows(request, rows, engine)
        mass = rows.mass
        usual = mass if local.odd is None else mass - local.odd.mass
        state = replace(
            state,
            clock=state.clock + 1,
            n_rows=state.n_rows + len(rows),
            mass=state.mass + mass,
            new_mass=state.new_mass + usual,
            typical=self._typical(state, local),
        )
        state = replace(state, odd=self._odd(state, local.odd, float(local.likelihoods[0])))
        if self.in_moments:
            state = self._merge(state, local.moments, mass, usual)
        elif state.stats is None:
            state = self._warm_up(state, local.moments)
        elif usual > 0.0:
            state = self._blend(state, local, mass, usual)
        return self._grow(state, mass)

    def _gap_models(
        self, state: PPCAState, rows: Rows | ChunkedRows, engine: Engine
    ) -> tuple[PPCAState, tuple[PPCA, ...] | None]:
        """The state with gaps of earlier rows refilled, and models that fill those of `rows`.

        None if there are no gaps, or if the components themselves fill them.
        """
        unit, gap_models = 1.0, None
        gaps = rows.missing
        if not gaps and all(p.present is None for p in (*state.reference, *state.window)):
            return state, None
        if self.in_moments and (known := self._joint(state)):
            if self.weight is not None and self.constraint != "task":
                unit = self.step_size(state.clock + 1) / rows.mass
            request = self._request(state)
            state, gap_models = refill_gaps(
                state, known, request, rows, engine, unit, self.kept_rank
            )
        if gaps and state.n_rows < self._mature_rows and (self.in_moments or state.stats is None):
            known = self._joint(state) if self.in_moments else state.window
            gap_models = first_models(state, known, rows, engine, unit, self.rank)
        return state, gap_models

    def adopt(self, state: PPCAState, rows: Rows | ChunkedRows, engine: Engine) -> PPCAState:
        """The state from which learning can go on, after batch EM found the components."""
        request = LocalRequest(
            state.models,
            state.log_weights,
            state.origin,
            moments=True,
            stats=not self.in_moments,
        )
        local, mass = sum_over_rows(request, rows, engine), rows.mass
        parts = tuple(part.truncated(self.kept_rank) for part in local.moments)
        shares = tuple(part.with_mass(part.mass / mass) for part in parts)
        state = replace(state, clock=1, n_rows=len(rows), mass=mass, new_mass=mass)
        if local.stats is not None:
            state = replace(state, stats=local.stats * (1.0 / mass))
        if self.constraint == "step":
            state = replace(state, reference=self._capped(parts))
        if self.constraint == "task":
            state = replace(state, window=parts)
        elif self.in_moments and self.weight is not None:
            state = replace(state, window=shares)
        return self._with_previous(state)

    def consolidate(self, state: PPCAState) -> PPCAState:
        """The state after the end of a task, which becomes part of the reference."""
        if self.constraint != "task" or state.new_mass == 0.0:
            return state
        both = self._joint(state)
        scale = (state.reference_mass + state.new_mass) / sum(part.mass for part in both)
        reference = tuple(p.with_mass(p.mass * scale).truncated(self.kept_rank) for p in both)
        return replace(state, reference=self._capped(reference), window=(), new_mass=0.0)

    def _request(self, state: PPCAState) -> LocalRequest:
        growing = len(state.models) < self.max_components
        usual = state.typical
        ready = growing and usual.mass >= self._mature_rows
        low = usual.mean - self.novelty * np.sqrt(usual.variance) if ready else None
        stats = not self.in_moments and state.stats is not None
        return LocalRequest(
            state.models,
            state.log_weights,
            state.origin,
            moments=not stats,
            stats=stats,
            threshold=-np.inf if growing and low is None else low,
        )

    # ------------------------------------------------------------------ moments

    def _merge(
        self, state: PPCAState, batch: tuple[Moments, ...], mass: float, usual: float
    ) -> PPCAState:
        """Merge reference, window and batch. `usual` is the batch's mass without odd rows."""
        reference, window = state.reference, state.window
        if self.constraint == "task":
            window = self._merged(window, batch)
        elif self.weight is not None:
            gamma = self.step_size(state.clock) / mass
            old = tuple(part.with_mass(part.mass * (1.0 - gamma * usual)) for part in window)
            window = self._merged(old, tuple(part.with_mass(gamma * part.mass) for part in batch))
        elif self.constraint == "step":  # and all rows count alike
            window = ()
        if self.constraint == "step":
            reference = self._capped(self._merged(reference, batch))
        state = replace(state, reference=reference, window=window)
        both = self._joint(state)
        alone = not window or not reference  # and cut to its directions already
        models = tuple(part.ppca(self.rank, ordered=alone) for part in both)
        weights = np.array([part.mass for part in both])
        state = replace(state, models=models, weights=weights / weights.sum())
        return self._with_previous(state)

    def _joint(self, state: PPCAState) -> tuple[Moments, ...]:
        """Reference and window together, each with its weight."""
        if not state.window or not state.reference:
            return state.window or state.reference
        scale = 1.0
        if self.weight is not None:
            recent = sum(part.mass for part in state.window)
            scale = self.weight * recent / state.reference_mass
        pairs = zip(state.reference, state.window, strict=True)
        return tuple(one.with_mass(scale * one.mass) + two for one, two in pairs)

    def _merged(self, old: tuple[Moments, ...], new: tuple[Moments, ...]) -> tuple[Moments, ...]:
        if not old:
            return tuple(part.truncated(self.kept_rank) for part in new)
        pairs = zip(old, new, strict=True)
        return tuple(
            (one + two).truncated(self.kept_rank) if two.mass else one for one, two in pairs
        )

    def _capped(self, reference: tuple[Moments, ...]) -> tuple[Moments, ...]:
        total = sum(part.mass for part in reference)
        if total <= self.max_reference_mass:
            return reference
        return tuple(
            part.with_mass(part.mass * self.max_reference_mass / total) for part in reference
        )

    def _with_previous(self, state: PPCAState) -> PPCAState:
        if self.constraint != "previous":
            return state
        pairs = zip(state.models, state.weights, strict=True)
        return replace(state, reference=tuple(Moments.of_model(m, float(w)) for m, w in pairs))

    # ------------------------------------------------------------------ statistics

    def _warm_up(self, state: PPCAState, batch: tuple[Moments, ...]) -> PPCAState:
        """Learn the first rows by their exact PPCA: they are too few for online EM."""
        first = (state.window[0] + batch[0] if state.window else batch[0]).compact()
        model = first.ppca(self.rank)
        state = replace(state, models=(model,), window=(first,))
        # Loadings of zero stay zero in EM, so it begins only when rows vary enough.
        if state.n_rows < max(2 * self.rank, _WARM_UP_ROWS) or model.is_flat:
            return state
        stats = expected_stats(model, first.truncated(self.kept_rank), state.origin)
        return replace(state, stats=stats, window=())

    def _blend(self, state: PPCAState, local: LocalSum, mass: float, usual: float) -> PPCAState:
        """One step of online EM."""
        if state.stats is None or local.stats is None:
            raise ValueError("statistics are blended after the warm-up only")
        gamma = self.step_size(state.clock)
        stats = state.stats * (1.0 - gamma * usual / mass) + local.stats * (gamma / mass)
        models = m_steps(stats, state.models, state.origin)
        return replace(state, stats=stats, models=models, weights=stats.n / stats.n.sum())

    # ------------------------------------------------------------------ components

    @property
    def _mature_rows(self) -> int:
        return max(_MATURE_ROWS, _MATURE_PER_RANK * self.rank)

    def _typical(self, state: PPCAState, local: LocalSum) -> Typical:
        """Log densities of recent rows. The first rows do not count: the model was still rough."""
        early = state.n_rows < self._mature_rows or any(model.is_flat for model in state.models)
        if self.max_components == 1 or early:
            return state.typical
        return state.typical.after(local.likelihoods / state.row_weight)

    def _odd(self, state: PPCAState, new: Moments | None, usual: float) -> Moments | None:
        """Odd rows of late. They fade while usual rows come."""
        old, one = state.odd, state.row_weight
        if old is None or new is None:
            return new if old is None else old
        kept = float(old.mass * np.exp(-usual / (_ODD_SPAN * self._mature_rows * one)))
        if kept < min(new.mass, _STRAY_ROWS * one):  # the earlier ones were strays
            return new
        return (old.with_mass(kept) + new).compact()

    def _grow(self, state: PPCAState, mass: float) -> PPCAState:
        """Make a component of the odd rows, once there are enough of them."""
        odd = state.odd
        if odd is None or odd.mass < self._mature_rows * state.row_weight * _NEARLY:
            return state
        odd = odd.truncated(self.kept_rank)
        model = odd.ppca(self.rank)
        share = odd.mass / (odd.mass + mass / self.step_size(state.clock))
        left = None if len(state.models) + 1 == self.max_components else odd.with_mass(0.0)
        state = replace(state, odd=left, new_mass=state.new_mass + odd.mass)
        if state.reference:
            kept = odd.mass if self.constraint == "step" else 0.0
            state = replace(state, reference=(*state.reference, odd.with_mass(kept)))
        if state.window:
            inside = odd.mass if self.constraint == "task" else share
            state = replace(state, window=(*state.window, odd.with_mass(inside)))
        if state.stats is not None:
            new = expected_stats(model, odd, state.origin)
            state = replace(state, stats=(state.stats * (1.0 - share)).join(new * share))
        return replace(state, models=(*state.models, model), weights=self._shares(state, share))

    def _shares(self, state: PPCAState, share: float) -> Vec:
        """Shares of components, of which the last is new."""
        both = self._joint(state) if self.in_moments else ()
        if both:
            masses = np.array([part.mass for part in both])
            return np.asarray(masses / masses.sum())
        return np.append(state.weights * (1.0 - share), share)
