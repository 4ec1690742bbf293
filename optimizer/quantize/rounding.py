"""Which of two integers a weight becomes: by the error of the layer's outputs, instead of that of the weight itself.

With S the mean products of what an output reads, and d the differences of its weights, its mean squared error is
d^T S d. GPTQ (Frantar et al., 2022) rounds one input after the other, those with the largest squares first, and lets
the weights behind make up for the error. Then, as in QuantEase (Behdin et al., 2023), one weight after the other gets
the integer that is best with all others as they are, until none changes: the error becomes less with each. Both choose
up or down as AdaRound (Nagel et al., 2020) does, but without gradients, and take seconds where that takes minutes.
Nothing is random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.optimizer.quantize.arithmetic import HALF_MOST, Codes
from minnow.optimizer.quantize.seen import COLUMNS, MOST_WORK, inverse_factor, regular

Array = npt.NDArray[Any]

_SWEEPS = 12
"""How often all weights of a layer may change, one after the other."""
_FITS = 3
"""How often scales are fitted to the codes, and the codes to them."""
_CHUNK = 1 << 22
"""Weights that are worked on at a time."""


def fitted(rows: Array, scale: Array, least: float, most: float, squares: Array) -> Array:
    """Integers with a small error of the outputs.

    Args:
        rows: f32[outputs, inputs], the weights.
        scale: f32[outputs], what an integer stands for.
        least, most: the least and the largest integer.
        squares: f64[inputs, inputs], the mean products of the inputs of an output; [groups, inputs, inputs] for
            outputs in groups with inputs of their own.

    Returns:
        Whole numbers, f64[outputs, inputs].
    """
    layer = _Layer.of(squares, len(rows))
    weights = layer.divided(rows)
    step = np.broadcast_to(layer.divided(scale[:, None]), weights.shape)
    return layer.integers(weights, _Grid(step, np.zeros_like(weights), least, most)).reshape(rows.shape)


def fitted_codes(found: Codes, matrix: Array, bits: int, squares: Array) -> Codes:
    """Codes, and scales and offsets of the same groups of weights, with a small error of the outputs.

    Args:
        found: from which scales and offsets start.
        matrix: [outputs, inputs], the weights, each row of which has a whole number of the groups.
        bits: of a code.
        squares: as for `fitted`.
    """
    layer = _Layer.of(squares, len(matrix))
    weights = layer.divided(matrix)
    kind, length = found.scale.dtype, found.codes.shape[1]
    symmetric = found.low is None
    middle = float(1 << (bits - 1))
    scale = found.scale.astype(np.float64)
    low = -middle * scale if found.low is None else found.low.astype(np.float64)
    blocks = (*weights.shape[:2], weights.shape[2] // length)
    scale, low = scale.reshape(blocks), low.reshape(blocks)
    limits = (float(symmetric), float((1 << bits) - 1))
    grid = _Grid(np.repeat(scale, length, 2), np.repeat(low, length, 2), *limits)
    best = layer.integers(weights, grid)
    error = layer.errors(weights - grid.floats(best))
    kept = scale, low
    for _ in range(_FITS):
        scale, low = layer.scales(weights, best, *kept, middle if symmetric else None)
        scale = scale.astype(kind).astype(np.float64)
        low = np.clip(low, -HALF_MOST, HALF_MOST) if kind == np.float16 else low
        low = -middle * scale if symmetric else low.astype(kind).astype(np.float64)
        grid = _Grid(np.repeat(scale, length, 2), np.repeat(low, length, 2), *limits)
        numbers = layer.integers(weights, grid, best)
        made = layer.errors(weights - grid.floats(numbers))
        better = (made < error)[..., None]
        best, error = np.where(better, numbers, best), np.minimum(made, error)
        kept = (np.where(better, scale, kept[0]), np.where(better, low, kept[1]))
    codes = best.astype(np.uint8).reshape(found.codes.shape)
    return Codes(codes, kept[0].reshape(-1).astype(kind), None if symmetric else kept[1].reshape(-1).astype(kind))


@dataclass(frozen=True)
class _Grid:
    """What integers stand for, f64[groups, outputs, inputs]: `scale` times the integer, and `low`.

    A scale of 0 has one number for all integers.
    """

    scale: Array
    low: Array
    least: float
    most: float

    def nearest(self, x: Array, columns: Any = slice(None)) -> Array:
        scale = self.scale[..., columns]
        whole = np.rint((x - self.low[..., columns]) / np.where(scale > 0, scale, 1.0))
        return np.asarray(np.clip(whole, self.least, self.most))

    def floats(self, numbers: Array) -> Array:
        return np.asarray(numbers * self.scale + self.low)

    def taken(self, order: Array, rows: slice) -> _Grid:
        scale, low = (np.take_along_axis(a[:, rows], order, 2) for a in (self.scale, self.low))
        return _Grid(scale, low, self.least, self.most)


@dataclass(frozen=True)
class _Layer:
    """The mean products of the inputs of a layer, f64[groups, inputs, inputs], with an inverse, and how many outputs
    each group has.
    """

    squares: Array
    outputs: int

    @classmethod
    def of(cls, squares: Array, outputs: int) -> _Layer:
        by_group = squares.reshape(-1, *squares.shape[-2:])
        return cls(regular(by_group), outputs // len(by_group))

    def divided(self, matrix: Array) -> Array:
        return matrix.astype(np.float64).reshape(len(self.squares), self.outputs, matrix.shape[1])

    def errors(self, rest: Array) -> Array:
        """The mean squared error of each output, [groups, outputs]."""
        return np.asarray(np.einsum("goi,goi->go", rest @ self.squares, rest))

    def integers(self, weights: Array, grid: _Grid, start: Array | None = None) -> Array:
        """Whole numbers with a small error, for each output no larger than that of `start`, or of the nearest ones."""
        order = np.argsort(-np.diagonal(self.squares, axis1=1, axis2=2), axis=1, kind="stable")[:, None]
        squares = np.take_along_axis(self.squares, order, 2)
        squares = np.take_along_axis(squares, order.transpose(0, 2, 1), 1)
        back = np.argsort(order, axis=2)
        inverse = inverse_factor(squares) if start is None else None
        groups, outputs, inputs = weights.shape
        sweeps = int(min(_SWEEPS, max(1, MOST_WORK // (groups * outputs * inputs**2))))
        step = max(1, _CHUNK // (groups * inputs))
        parts = []
        for i in range(0, outputs, step):
            rows = slice(i, i + step)
            own, part = np.take_along_axis(weights[:, rows], order, 2), grid.taken(order, rows)
            if inverse is None:
                assert start is not None
                first = np.take_along_axis(start[:, rows], order, 2)
            else:
                first = part.nearest(own)
                other = _compensated(own, part, inverse)
                lost = [
                    np.einsum("goi,goi->go", r @ squares, r) for r in (own - part.floats(n) for n in (first, other))
                ]
                first = np.where((lost[1] < lost[0])[..., None], other, first)
            parts.append(np.take_along_axis(_descended(own, first, part, squares, sweeps), back, 2))
        return np.concatenate(parts, 1)

    def scales(
        self, weights: Array, numbers: Array, scale: Array, low: Array, middle: float | None
    ) -> tuple[Array, Array]:
        """Scales and offsets of blocks with the least error for these integers, one block after the other.

        Args:
            weights, numbers: [groups, outputs, inputs].
            scale, low: [groups, outputs, blocks], as they are.
            middle: the integer that stands for 0, so that there is no offset; None for offsets.
        """
        scale, low = scale.copy(), low.copy()
        length = weights.shape[2] // scale.shape[2]
        rest = weights - (numbers * np.repeat(scale, length, 2) + np.repeat(low, length, 2))
        falls = rest @ self.squares
        for k in range(scale.shape[2]):
            columns = slice(k * length, (k + 1) * length)
            own = self.squares[:, columns, columns]
            q = numbers[..., columns] - (middle or 0.0)
            ahead = falls[..., columns]
            by = q @ own
            top, bottom = (q * ahead).sum(2), (q * by).sum(2)
            if middle is None:
                ones, both, rise = own.sum((1, 2))[:, None], by.sum(2), ahead.sum(2)
                area = bottom * ones - both**2
                usable = area > 1e-9 * bottom * ones
                safe = np.where(usable, area, 1.0)
                more, up = (top * ones - rise * both) / safe, (rise * bottom - top * both) / safe
            else:
                usable = bottom > 0
                more, up = top / np.where(usable, bottom, 1.0), np.zeros_like(top)
            usable &= (scale[..., k] > 0) & (scale[..., k] + more > 0.25 * scale[..., k])
            more, up = np.where(usable, more, 0.0), np.where(usable, up, 0.0)
            scale[..., k] += more
            low[..., k] += up if middle is None else -middle * more
            falls -= (q * more[..., None] + up[..., None]) @ self.squares[:, columns]
        return scale, low


def _compensated(weights: Array, grid: _Grid, inverse: Array) -> Array:
    """Integers where what one input loses is made up for by those behind it."""
    rest = np.array(weights)
    numbers = np.empty_like(rest)
    size = rest.shape[2]
    for begin in range(0, size, COLUMNS):
        end = min(begin + COLUMNS, size)
        errors = np.zeros((*rest.shape[:2], end - begin))
        for i in range(begin, end):
            numbers[..., i] = grid.nearest(rest[..., i], i)
            lost = rest[..., i] - (numbers[..., i] * grid.scale[..., i] + grid.low[..., i])
            errors[..., i - begin] = lost / inverse[:, i, i, None]
            rest[..., i:end] -= errors[..., i - begin, None] * inverse[:, None, i, i:end]
        rest[..., end:] -= errors @ inverse[:, begin:end, end:]
    return numbers


def _descended(weights: Array, numbers: Array, grid: _Grid, squares: Array, sweeps: int) -> Array:
    """Integers each of which is the best one with all others as they are, after so many changes of all at most."""
    numbers = numbers.copy()
    rest = weights - grid.floats(numbers)
    size = rest.shape[2]
    for _ in range(sweeps):
        changed = False
        for begin in range(0, size, COLUMNS):
            end = min(begin + COLUMNS, size)
            falls = rest @ squares[:, :, begin:end]
            for i in range(begin, end):
                now = numbers[..., i] * grid.scale[..., i] + grid.low[..., i]
                found = grid.nearest(now + falls[..., i - begin] / squares[:, i, i, None], i)
                move = (found - numbers[..., i]) * grid.scale[..., i]
                if not move.any():
                    continue
                changed = True
                numbers[..., i] = found
                rest[..., i] -= move
                falls[..., i - begin :] -= move[..., None] * squares[:, None, i, i:end]
        if not changed:
            break
    return np.asarray(numbers)
