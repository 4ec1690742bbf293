"""Derivatives of matrix products."""

from __future__ import annotations

import math

from minnow.schema.ops import inverse, matmul
from minnow.schema.ops.gradient.epilogue import finished


def _turned(g, x):
    """x with its last two axes swapped."""
    return g.Transpose(x, perm=(*range(x.rank - 2), x.rank - 1, x.rank - 2))


@matmul.MatMul.gradient
def _(g, a, b, *, transpose_a, transpose_b):
    dy = g.dy
    # A vector is a row, or a column.
    row, column = a.rank == 1, b.rank == 1
    left = g.Unsqueeze(a, axes=(0,)) if row else a
    right = g.Unsqueeze(b, axes=(1,)) if column else b
    transpose_a, transpose_b = transpose_a and not row, transpose_b and not column
    if column:
        dy = g.Unsqueeze(dy, axes=(-1,))
    if row:
        dy = g.Unsqueeze(dy, axes=(-2,))
    if right.rank == 2 and left.rank > 2 and not transpose_a:
        # One product instead of many whose sum is taken.
        features = left.dims[-1]
        if isinstance(features, int) and isinstance(dy.dims[-1], int):
            left2, dy2 = g.reshaped(left, -1, features), g.reshaped(dy, -1, dy.dims[-1])
            by_a = g.like(g.MatMul(dy2, right, transpose_b=not transpose_b), left)
            by_b = _by_right(g, left2, dy2, False, transpose_b)
            return by_a, _undone(g, by_b, right, b, 1 if column else None)
    if transpose_a:
        by_a = g.MatMul(right, dy, transpose_a=transpose_b, transpose_b=True)
    else:
        by_a = g.MatMul(dy, right, transpose_b=not transpose_b)
    by_b = _by_right(g, left, dy, transpose_a, transpose_b)
    return _undone(g, by_a, left, a, 0 if row else None), _undone(g, by_b, right, b, 1 if column else None)


def _by_right(g, left, dy, transpose_a, transpose_b):
    if transpose_b:
        return g.MatMul(dy, left, transpose_a=True, transpose_b=transpose_a)
    return g.MatMul(left, dy, transpose_a=not transpose_a)


def _undone(g, piece, matrix, operand, axis):
    """The gradient of a matrix as that of the vector that it was made of by a new axis."""
    if axis is None:
        return piece
    lead = piece.rank - matrix.rank
    return g.Squeeze(g.total(piece, range(lead)), axes=(*range(lead), lead + axis))


@matmul.Linear.gradient
def _(g, x, w, bias, residual, *, activation, alpha, beta):
    dz = finished(g, activation, alpha, beta, lambda: g.Linear(x, w, bias, residual))
    n, k = w.shape
    m = math.prod(x.shape[:-1]) if x.value.type.is_static else -1
    flat, rows = g.reshaped(dz, m, n), g.reshaped(x, m, k)
    by_bias = None if bias is None else g.total(flat, [0], keepdims=False)
    return g.like(g.MatMul(flat, w), x), g.MatMul(flat, rows, transpose_a=True), by_bias, dz


@matmul.Det.gradient
def _(g, x):
    """The determinant times the transposed inverse; a matrix without an inverse gives NaN."""
    scaled = g.Unsqueeze(g.dy * g.y, axes=(-2, -1))
    return scaled * _turned(g, g.Inverse(x))


@inverse.Inverse.gradient
def _(g, x):
    return -g.MatMul(g.MatMul(g.y, g.dy, transpose_a=True), g.y, transpose_b=True)
