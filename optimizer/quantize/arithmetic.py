"""Floats to integers of few bits: one definition of each method, on rows that have a scale each.

A row becomes codes of 0 .. 2^bits - 1, a scale and the number of code 0. Symmetric codes are around 2^(bits - 1), which
stands for 0, and leave out code 0. All is computed in float32, row by row, so that the same numbers give the same codes
whatever else is quantized.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Method = Literal["rtn", "mse", "hqq"]

_CHUNK = 1 << 20
"""Numbers that are worked on at a time: temporary arrays stay in the processor's caches, and memory small."""

_CLIPS = {2: (1.0, 0.3, 15), 3: (1.0, 0.4, 13), 4: (1.0, 0.5, 11)}
_FEW_CLIPS = (1.0, 0.85, 4)
"""For "mse": the shares of the range that are tried, from, to and how many; many bits gain nothing from small ones."""
_FITS = 3
"""How often scale and offset are fitted to the codes, and the codes to them."""

_LP, _BETA, _GROWTH, _ROUNDS = 0.7, 10.0, 1.01, 20
"""For "hqq": the norm, the weight of the error, by which it grows in each round, and the rounds."""

HALF_LEAST, HALF_MOST = 2.0**-14, 65504.0
"""Between these float16 has all of its digits."""


@dataclass(frozen=True)
class Codes:
    """Quantized rows.

    Attributes:
        codes: u8[rows, length].
        scale: [rows] in f32 or f16.
        low: [rows] of the same type, the number of code 0; None for symmetric codes.
    """

    codes: Array
    scale: Array
    low: Array | None


def quantized(rows: Array, bits: int, symmetric: bool, half: bool, method: Method) -> Codes:
    """Quantizes rows.

    Args:
        rows: f32[rows, length], all finite, none empty.
        bits: 2 to 8.
        symmetric: around 0, instead of from the least to the largest number. "hqq" is never symmetric.
        half: scales and offsets are f16, for which `fits_half` holds; the codes are those nearest with them.
        method: "rtn": the least and the largest number; "mse": the range with the least squared error; "hqq": the
            offset with the least error in a norm that large errors count less in (half-quadratic quantization).
    """
    step = max(1, _CHUNK // rows.shape[1])
    parts = [
        _chunk(np.ascontiguousarray(rows[i : i + step], np.float32), bits, symmetric, half, method)
        for i in range(0, len(rows), step)
    ]
    low = None if symmetric else np.concatenate([p.low for p in parts if p.low is not None])
    return Codes(np.concatenate([p.codes for p in parts]), np.concatenate([p.scale for p in parts]), low)


def fits_half(rows: Array, bits: int, symmetric: bool) -> bool:
    """Whether float16 has the scales of all rows that are not constant, and their least numbers."""
    least, most = rows.min(1), rows.max(1)
    span = (most - least) / ((1 << bits) - 1) if not symmetric else np.maximum(-least, most) / ((1 << (bits - 1)) - 1)
    some = span[span > 0]
    large = max(float(np.abs(least).max(initial=0)), float(np.abs(most).max(initial=0)))
    # A narrower range, as "mse" chooses, may be a third.
    return bool(large <= HALF_MOST and (some.size == 0 or float(some.min()) >= 4 * HALF_LEAST))


def restored(found: Codes, bits: int) -> Array:
    """The numbers that the codes stand for, f32[rows, length]."""
    scale = found.scale.astype(np.float32)[:, None]
    if found.low is None:
        return np.asarray((found.codes.astype(np.float32) - np.float32(1 << (bits - 1))) * scale)
    return np.asarray(found.codes.astype(np.float32) * scale + found.low.astype(np.float32)[:, None])


@dataclass
class _Grid:
    """What the codes of each row stand for: [rows, 1] of f32. `low` is that of code 0, also of symmetric codes."""

    scale: Array
    low: Array


def _chunk(rows: Array, bits: int, symmetric: bool, half: bool, method: Method) -> Codes:
    grid = _whole(rows, bits, symmetric)
    if half:
        grid = _halved(grid, bits, symmetric)
    codes = _codes(rows, grid, bits, symmetric)
    if method == "hqq" and not symmetric:
        grid = _half_quadratic(rows, _whole(rows, bits, symmetric), bits)
        if half:
            grid = _halved(grid, bits, symmetric)
        codes = _codes(rows, grid, bits, symmetric)
    elif method == "mse":
        error = _error(rows, codes, grid)
        for other in _narrower(rows, bits, symmetric):
            if half:
                other = _halved(other, bits, symmetric)
            other_codes = _codes(rows, other, bits, symmetric)
            other_error = _error(rows, other_codes, other)
            better = (other_error < error)[:, None]
            error = np.minimum(error, other_error)
            codes = np.where(better, other_codes, codes)
            grid = _Grid(np.where(better, other.scale, grid.scale), np.where(better, other.low, grid.low))
    kind = np.float16 if half else np.float32
    low = None if symmetric else grid.low[:, 0].astype(kind)
    return Codes(codes, grid.scale[:, 0].astype(kind), low)


def _whole(rows: Array, bits: int, symmetric: bool) -> _Grid:
    """From the least to the largest number of each row."""
    least, most = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    return _between(least, most, bits, symmetric)


def _between(least: Array, most: Array, bits: int, symmetric: bool) -> _Grid:
    if symmetric:
        scale = np.maximum(-least, most) / np.float32((1 << (bits - 1)) - 1)
        return _Grid(scale, -scale * np.float32(1 << (bits - 1)))
    return _Grid((most - least) / np.float32((1 << bits) - 1), least.astype(np.float32))


def _halved(grid: _Grid, bits: int, symmetric: bool) -> _Grid:
    scale = grid.scale.astype(np.float16).astype(np.float32)
    if symmetric:
        return _Grid(scale, -scale * np.float32(1 << (bits - 1)))
    return _Grid(scale, np.clip(grid.low, -HALF_MOST, HALF_MOST).astype(np.float16).astype(np.float32))


def _codes(rows: Array, grid: _Grid, bits: int, symmetric: bool) -> Array:
    """The nearest codes; of two that are as near the one further from 0, as the C function `round` has it."""
    divisor = np.where(grid.scale > 0, grid.scale, np.float32(1))
    if symmetric:
        most = (1 << (bits - 1)) - 1
        q = _round(rows / divisor)
        return np.asarray(np.clip(q, -most, most) + np.float32(1 << (bits - 1)), np.uint8)
    return np.asarray(np.clip(_round((rows - grid.low) / divisor), 0, (1 << bits) - 1), np.uint8)


def _round(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(whole + np.trunc((x - whole) * np.float32(2)))


def _error(rows: Array, codes: Array, grid: _Grid) -> Array:
    rest = codes.astype(np.float32) * grid.scale + grid.low - rows
    return np.asarray(np.einsum("ij,ij->i", rest, rest, dtype=np.float64))


def _narrower(rows: Array, bits: int, symmetric: bool) -> Iterator[_Grid]:
    """Ranges to try: parts of the whole one, and after the best of them what fits the codes best."""
    least, most = rows.min(1, keepdims=True), rows.max(1, keepdims=True)
    middle = np.zeros_like(least) if symmetric else (least + most) / np.float32(2)
    best: _Grid | None = None
    error: Array | None = None
    for share in np.linspace(*_CLIPS.get(bits, _FEW_CLIPS)).astype(np.float32):
        grid = _between(middle + (least - middle) * share, middle + (most - middle) * share, bits, symmetric)
        yield grid
        found = _error(rows, _codes(rows, grid, bits, symmetric), grid)
        if best is None or error is None:
            best, error = grid, found
        else:
            better = (found < error)[:, None]
            best = _Grid(np.where(better, grid.scale, best.scale), np.where(better, grid.low, best.low))
            error = np.minimum(error, found)
    for _ in range(_FITS if best is not None else 0):
        assert best is not None
        best = _fitted(rows, _codes(rows, best, bits, symmetric), best, bits, symmetric)
        yield best


def _fitted(rows: Array, codes: Array, grid: _Grid, bits: int, symmetric: bool) -> _Grid:
    """Scale and offset with the least squared error for these codes."""
    q = codes.astype(np.float32)
    if symmetric:
        q -= np.float32(1 << (bits - 1))
        top, bottom = (np.einsum("ij,ij->i", q, other, dtype=np.float64) for other in (rows, q))
        scale = _divided(top, bottom, grid.scale)
        return _Grid(scale, -scale * np.float32(1 << (bits - 1)))
    means = [a.mean(1, keepdims=True, dtype=np.float64) for a in (q, rows)]
    centered = (q - means[0]).astype(np.float32)
    top, bottom = (np.einsum("ij,ij->i", centered, other, dtype=np.float64) for other in (rows, centered))
    scale = _divided(top, bottom, grid.scale)
    return _Grid(scale, (means[1] - scale * means[0]).astype(np.float32))


def _divided(top: Array, bottom: Array, otherwise: Array) -> Array:
    usable = (bottom > 0) & (top > 0)
    ratio = np.divide(top, bottom, out=np.zeros_like(top), where=usable)[:, None].astype(np.float32)
    return np.asarray(np.where(usable[:, None], ratio, otherwise))


def _half_quadratic(rows: Array, grid: _Grid, bits: int) -> _Grid:
    """The offset that makes the errors sparse; the scale stays that of the whole range."""
    flat = grid.scale == 0
    per = np.float32(1) / np.where(flat, np.float32(1), grid.scale)
    zero, most, beta = -grid.low * per, np.float32((1 << bits) - 1), _BETA
    least: Array | None = None
    best = zero
    for _ in range(_ROUNDS):
        q = np.clip(np.rint(rows * per + zero), 0, most)
        rest = rows - (q - zero) / per
        error = np.abs(rest).mean(1, keepdims=True)
        if least is None:
            least, best = error, zero
        else:
            best = np.where(error < least, zero, best)
            least = np.minimum(error, least)
        shrunk = _shrunk(rest, beta)
        zero = (q - (rows - shrunk) * per).mean(1, keepdims=True)
        beta *= _GROWTH
    return _Grid(grid.scale, np.where(flat, grid.low, -best / per))


def _shrunk(x: Array, beta: float) -> Array:
    size = np.abs(x)
    power = np.power(np.maximum(size, np.float32(1e-12)), np.float32(_LP - 1))
    return np.asarray(np.sign(x) * np.maximum(size - power / np.float32(beta), 0))


METHODS: dict[Method, str] = {
    "rtn": "from the least to the largest weight",
    "mse": "the range with the least squared error",
    "hqq": "the offset that makes most errors small",
}
"""The methods, in a few words."""
