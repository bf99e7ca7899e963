"""Hold back rare words until enough texts have them: `TextOptions(min_df=...)` for streams."""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass, field

import numpy as np

from everlearn.core.arrays import IntVec
from everlearn.text.vocabulary import LONGEST_WORD, Vocabulary


@dataclass(frozen=True, slots=True, eq=False)
class WaitingWords:
    """Words that are in too few texts so far.

    Attributes
    ----------
    vocabulary : the words, in the order in which they came
    seen : (n_words,), texts with each word
    """

    vocabulary: Vocabulary = field(default_factory=lambda: Vocabulary.fixed([]))
    seen: IntVec = field(default_factory=lambda: np.empty(0, np.int64))

    def learn(
        self, texts: Sequence[Sequence[str]], known: Collection[str], needed: int, most: int
    ) -> tuple[Set[str], WaitingWords]:
        """Words that are in `needed` texts now, and those that wait still.

        If more than `most` words wait, the half of these that is in most texts stays, of equal ones
        the latest.
        """
        counts = dict(zip(self.vocabulary.words, self.seen.tolist(), strict=True))
        for text in texts:
            for word in dict.fromkeys(text):
                if word not in known and len(word) <= LONGEST_WORD:
                    counts[str(word)] = counts.get(word, 0) + 1
        ripe = {word for word, count in counts.items() if count >= needed}
        left = [(word, count) for word, count in counts.items() if word not in ripe]
        if len(left) > most:
            seen = np.array([count for _, count in left])
            best = np.lexsort((-np.arange(len(left)), -seen))[: max(most // 2, 1)]
            left = [left[i] for i in np.sort(best).tolist()]
        words = Vocabulary.fixed([word for word, _ in left])
        return ripe, WaitingWords(words, np.array([count for _, count in left], np.int64))
