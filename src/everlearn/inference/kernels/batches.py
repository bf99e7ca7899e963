"""A batch of documents in one call of each thread: topics are drawn, then words are counted.

To wake a thread takes as long as to draw the topics of several documents, so whoever has drawn goes
on with counting. What the kernels called here do is said where they are.
"""

from typing import Any, NamedTuple

from everlearn.core.arrays import IntVec
from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.augmented import sample_augmented
from everlearn.inference.kernels.documents import Layout, lay_out_one
from everlearn.inference.kernels.topics import sample_documents
from everlearn.inference.kernels.turns import all_ended, linger
from everlearn.inference.kernels.word_counts import Counting, add_words


class Rest(NamedTuple):
    """What to do until the next batch: lay out one of those ahead, and wait for what is coming."""

    ahead: Layout
    coming: IntVec


@kernel()
def stand_by(rest: Rest) -> bool:
    """Lay one batch out, then linger; whether the next piece of work has begun."""
    lay_out_one(rest.ahead)
    return linger(rest.coming)


@kernel()
def sample_documents_and_count(given: Any, counting: Counting, rest: Rest) -> bool:
    """`sample_documents`, and `add_words` once all documents are drawn; then `stand_by`.

    Whoever waits too long for the others leaves the words to them.
    """
    sample_documents(*given)
    if all_ended(given[-1], given[0].indptr.size - 1):
        add_words(counting)
    return stand_by(rest)


@kernel()
def sample_augmented_and_count(given: Any, counting: Counting, rest: Rest) -> bool:
    """The same with `sample_augmented`."""
    sample_augmented(*given)
    if all_ended(given[-1], given[0].indptr.size - 1):
        add_words(counting)
    return stand_by(rest)
