"""Stop words found in the texts themselves, in any language: `stop_words="auto"`.

A stop word is frequent, and occurs in all texts at much the same rate. Texts are cut into stretches
of 100 words at most. A word's rate varies from stretch to stretch, more than chance alone explains
if it belongs to a subject. Moments of its counts x in stretches of n words estimate the squared
coefficient of variation of the rate p:

    v = (sum (x - n p)^2 - sum x) / (p^2 sum n^2)

A word of at least one token in 1,000 is left out if v is below 1 by two standard errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from everlearn.core.arrays import Mat
from everlearn.text.vocabulary import Vocabulary

ENOUGH: Final = 100
"""Texts after which stop words are chosen, once and for all."""
_MOST: Final = 2000
"""Texts of a call that are counted, evenly spaced."""
_STRETCH: Final = 100
_LEAST_RATE: Final = 1e-3
_MOST_VARIATION: Final = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class StopWords:
    """Stop words, or what was counted before they are chosen.

    Attributes
    ----------
    vocabulary : the chosen words, the most frequent first; before, all words that were counted
    is_chosen : whether the words are chosen; nothing is left out before
    n_documents : texts counted
    n_tokens, n_squares : sums of n and n^2 over stretches of n words
    sums : (n_words, 3), sums of x, x^2 and n x; no rows once the words are chosen
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    is_chosen: bool = False
    n_documents: int = 0
    n_tokens: int = 0
    n_squares: int = 0
    sums: Mat = field(default_factory=lambda: np.zeros((0, 3)))

    @property
    def words(self) -> list[str]:
        """The chosen words, the most frequent first; none before."""
        return self.vocabulary.words if self.is_chosen else []

    @classmethod
    def chosen(cls, words: Sequence[str], n_documents: int) -> StopWords:
        """Stop words that were chosen from `n_documents` texts."""
        return cls(Vocabulary.fixed(words), True, n_documents)

    @classmethod
    def joined(cls, parts: Sequence[StopWords]) -> StopWords:
        """The words of all parts that have chosen theirs. If none has, counting starts again."""
        words = [word for part in parts for word in part.words]
        n_documents = sum(part.n_documents for part in parts)
        if not any(part.is_chosen for part in parts):
            return cls()
        return cls.chosen(list(dict.fromkeys(words)), n_documents)

    def learn(self, texts: Sequence[Sequence[str]]) -> StopWords:
        """Count words of texts, and choose stop words if there are enough texts now."""
        if self.is_chosen or not texts:
            return self
        counted = self._count(texts)
        if counted.n_documents < ENOUGH:
            return counted
        return self.chosen(counted._even_words(), counted.n_documents)

    def leave_out(self, texts: list[list[str]]) -> list[list[str]]:
        """The texts without stop words."""
        if not self.words:
            return texts
        known = self.vocabulary.columns
        return [[word for word in text if word not in known] for text in texts]

    def _count(self, texts: Sequence[Sequence[str]]) -> StopWords:
        places = np.unique(np.linspace(0, len(texts) - 1, _MOST).astype(np.int64))
        stretches = [
            texts[i][start : start + _STRETCH]
            for i in places.tolist()
            for start in range(0, len(texts[i]), _STRETCH)
        ]
        vocabulary, bags = self.vocabulary.encode(stretches)
        n = np.array([len(stretch) for stretch in stretches], dtype=np.int64)
        x, of = bags.counts.astype(np.float64), np.repeat(n, np.diff(bags.indptr))
        sums = np.zeros((len(vocabulary), 3))
        for column, weights in enumerate((x, x * x, of * x)):
            sums[:, column] = np.bincount(bags.words, weights, len(vocabulary))
        sums[: len(self.sums)] += self.sums
        return replace(
            self,
            vocabulary=vocabulary,
            n_documents=self.n_documents + len(places),
            n_tokens=self.n_tokens + int(n.sum()),
            n_squares=self.n_squares + int((n * n).sum()),
            sums=sums,
        )

    def _even_words(self) -> list[str]:
        """Frequent words whose rate varies little, the most frequent first."""
        x, xx, nx = self.sums.T
        p = x / max(self.n_tokens, 1)
        scale = np.maximum(p * p * self.n_squares, 1e-300)
        variation = (xx - 2.0 * p * nx + scale - x) / scale
        error = np.sqrt(2.0 / scale)
        even = variation + 2.0 * error < _MOST_VARIATION
        places = np.flatnonzero(even & (p >= _LEAST_RATE))
        words = self.vocabulary.words
        return [words[i] for i in places[np.argsort(-p[places], kind="stable")].tolist()]
