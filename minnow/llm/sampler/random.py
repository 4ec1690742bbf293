"""Random numbers by number: each is a function of a seed and of its place, so that no other draw shifts it."""

from __future__ import annotations

import numpy as np


def uniform(seed: int, place: int, stream: int = 0) -> float:
    """The random number from 0 to 1 at a place: Philox, a counter-based generator.

    Args:
        place: the number of the token in its answer.
        stream: a number for each use, whose random numbers are independent of each other.
    """
    return float(np.random.Generator(np.random.Philox(key=[seed, stream], counter=[0, place, 0, 0])).random())
