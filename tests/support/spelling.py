"""Additions that remember their order and grouping, to see in which order an engine adds."""


class Concat(tuple):
    """A sum that is the pair of what was added."""

    def __add__(self, other):
        return Concat((tuple(self), tuple(other)))


def spell(shared, item):
    return Concat((item,)), (shared, item)
