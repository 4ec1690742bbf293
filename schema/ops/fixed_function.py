"""Functions of fixed-point numbers, in the steps of gemmlowp, which TFLite uses for softmax and recurrent layers.

Numbers are whole ones (i64) of `word` bits, of which `whole` stand before the point: x / 2**(word - 1 - whole).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.schema.ops.fixed_point import divided

Array = np.ndarray[Any, Any]


def _most(word: int) -> int:
    return (1 << (word - 1)) - 1


def _saturated(x: Array, word: int) -> Array:
    return np.clip(x, -_most(word) - 1, _most(word))


def product(x: Array, y: Any, word: int) -> Array:
    """The upper half of a doubled product, halves up."""
    return np.minimum((x * y + (1 << (word - 2))) >> (word - 1), _most(word))


def _constant(value: float, whole: int, word: int) -> int:
    """A constant, which is known with 32 bits."""
    return int(divided(np.int64(round(value * 2.0 ** (31 - whole))), 32 - word))


def negative_exp(x: Array, whole: int, word: int) -> Array:
    """exp(x) of x <= 0, with no bits before the point: a series around -1/8, times powers of e."""
    point = word - 1 - whole
    quarter = 1 << (point - 2)
    below = (x & (quarter - 1)) - quarter
    a = _saturated(below << whole, word) + (1 << (word - 4))
    square = product(a, a, word)
    cube, fourth = product(square, a, word), divided(product(square, square, word), 2)
    series = divided(product(fourth + cube, _constant(1 / 3, 0, word), word) + square, 1)
    start = _constant(math.exp(-1 / 8), 0, word)
    y = _saturated(start + product(a + series, start, word), word)
    for exponent in range(-2, min(whole, 5)):
        bit = ((below - x) >> (point + exponent)) & 1
        y = np.where(bit, product(y, _constant(math.exp(-(2.0**exponent)), 0, word), word), y)
    if whole > 5:
        y = np.where(x < -(1 << (point + 5)), 0, y)
    return np.where(x == 0, _most(word), y)


def inverse(x: Array, word: int) -> Array:
    """1 / (1 + x), both with no bits before the point."""
    return _saturated(_newton(x, word) << 1, word)


def _newton(x: Array, word: int) -> Array:
    """2 / (1 + x) of 0 <= x <= 1 without bits before the point, with two of them."""
    half = (x + (1 << (word - 1))) >> 1
    y = _constant(48 / 17, 2, word) + product(half, _constant(-32 / 17, 2, word), word)
    for _ in range(3):
        rest = product(y, (1 << (word - 3)) - product(half, y, word), word)
        y = y + _saturated(rest << 2, word)
    return np.asarray(y)


def sigmoid(x: Array, whole: int, word: int) -> Array:
    """1 / (1 + exp(-x)), with no bits before the point."""
    y = inverse(negative_exp(-np.abs(x), whole, word), word)
    return np.where(x > 0, y, np.where(x < 0, _most(word) - y, 1 << (word - 2)))


def tanh(x: Array, whole: int, word: int) -> Array:
    """tanh(x), with no bits before the point."""
    exps = negative_exp(-np.abs(x), whole + 1, word)
    y = _saturated((_newton(exps, word) - (1 << (word - 3))) << 2, word)
    return np.sign(x) * y
