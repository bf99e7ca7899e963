"""Colours that belong to topic ids for good."""

from __future__ import annotations

from colorsys import hls_to_rgb
from typing import Final, TypeAlias

Colour: TypeAlias = tuple[int, int, int]
"""Red, green and blue, each from 0 to 255."""

NO_TOPIC: Final[Colour] = (128, 128, 128)
"""The colour of negative ids."""

# Found by random search for colours that differ: by CIEDE2000, any two of the first 24 by at least
# 9, and following ones of these by at least 29.
_HUE_STEP = 0.27704
_TONES = ((0.36, 0.62), (0.71, 0.36), (0.3, 0.49), (0.49, 0.46), (0.6, 0.74))
"""Lightness and saturation, in turn."""


def topic_colour(topic: int) -> Colour:
    """The colour of a topic: it depends on the id alone, and neighbouring ids differ clearly.

    Examples
    --------
    >>> topic_colour(0) == topic_colour(0), topic_colour(0) == topic_colour(1)
    (True, False)
    """
    if topic < 0:
        return NO_TOPIC
    lightness, saturation = _TONES[topic % len(_TONES)]
    channels = hls_to_rgb(topic * _HUE_STEP % 1.0, lightness, saturation)
    red, green, blue = (round(255 * c) for c in channels)
    return red, green, blue
