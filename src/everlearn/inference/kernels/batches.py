"""A batch of documents in one call of each thread: topics are drawn, then words are counted.

To wake a thread takes as long as to draw the topics of several documents, so whoever has drawn goes
on with counting. What the kernels called here do is said where they are.
"""

from typing import Any

from everlearn.inference.kernels._jit import kernel
from everlearn.inference.kernels.augmented import sample_augmented
from everlearn.inference.kernels.topics import sample_documents
from everlearn.inference.kernels.turns import all_ended
from everlearn.inference.kernels.word_counts import Counting, add_words


@kernel()
def sample_documents_and_count(drawing: Any, counting: Counting) -> None:
    """`sample_documents`, and `add_words` once all documents are drawn.

    Whoever waits too long for the others leaves the words to them.
    """
    sample_documents(*drawing)
    if all_ended(drawing[-1], drawing[0].indptr.size - 1):
        add_words(counting)


@kernel()
def sample_augmented_and_count(drawing: Any, counting: Counting) -> None:
    """The same with `sample_augmented`."""
    sample_augmented(*drawing)
    if all_ended(drawing[-1], drawing[0].indptr.size - 1):
        add_words(counting)
