"""Independent random generators: one for each seed, purpose and position.

A draw depends on the seed, on what it is for and on where in the run it happens, never on
threads, workers or on how many draws came before. A checkpoint therefore needs no generator
state: the seed and the step say it all.
"""

from typing import Final, Literal, TypeAlias

import numpy as np

Purpose: TypeAlias = Literal["order", "birth", "subsample", "sample", "start", "score"]
_PURPOSES: Final[dict[Purpose, int]] = {
    "order": 1,
    "birth": 2,
    "subsample": 3,
    "sample": 4,
    "start": 5,
    "score": 6,
}


def stream(seed: int, purpose: Purpose, *position: int) -> np.random.Generator:
    """An independent generator for one unit of random work.

    Examples
    --------
    >>> a = stream(7, "birth", 3, 0).random()
    >>> a == stream(7, "birth", 3, 0).random(), a == stream(7, "birth", 3, 1).random()
    (True, False)
    """
    # A spawn key, unlike entropy, is not padded with zeros: (3,) and (3, 0) are different places.
    key = np.random.SeedSequence(seed, spawn_key=(_PURPOSES[purpose], *position))
    return np.random.Generator(np.random.Philox(key))
