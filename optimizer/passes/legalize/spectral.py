"""Short Fourier transforms, which the file format has no form for, as matrix products."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ir.blob import Array
from minnow.schema.ops import Builder, get

# Larger matrices are left to the engine's own transform: they take longer than it does, and much space in the file.
_MOST_NUMBERS = 300_000


@rewrite(lambda p, x: p.DFT(x, ..., as_="dft"), level=0)
def legalize_dft(b: Builder, m: Match) -> Value | None:
    """A product with the matrix of the transform, of each line with its real and imaginary parts.

    Given:
        graph g(%x: f32[N,2,1]) {
          %y: f32[N,2,2] = DFT(%x) {onesided=True}
          return %y
        }
    Result:
        graph g(%x: f32[N,2,1]) {
          %0: f32[N,2] = Reshape(%x, i64[2](0, 2))
          %1: f32[N,4] = MatMul(%0, f32[2,4](1.0, 0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0))
          %y: f32[N,2,2] = Reshape(%1, i64[3](0, 2, 2))
          return %y
        }
    """
    node, shape, out = m.dft, m.x.type.shape, m.dft.output.type.shape
    if m.x.type.dtype is not DType.F32 or shape is None or out is None:
        return m.no("it is not one of float32, or its rank is not known")
    length, axis = (node.input(i) if node.has_input(i) else None for i in (1, 2))
    if (length is not None and length.data is None) or (axis is not None and axis.data is None):
        return m.no("the length or the axis is computed")
    rank = len(shape)
    at = rank - 2 if axis is None else int(axis.array.reshape(())) % rank
    rows, columns = (shape[at], shape[-1]), (out[at], out[-1])
    if not all(isinstance(d, int) for d in (*rows, *columns)):
        return m.no("the size of the axis is not known")
    if not 0 < int(np.prod((*rows, *columns))) <= _MOST_NUMBERS:
        return m.no("the engine's own transform is better")
    matrix = _matrix(rows, None if length is None else length.array, node.attrs).astype(np.float32) + 0
    turn = [*(k for k in range(rank - 1) if k != at), at, rank - 1]
    y = m.x if at == rank - 2 else b.Transpose(m.x, perm=tuple(turn))
    lead = [0] * (rank - 2)
    y = b.Reshape(y, np.array([*(lead or [1]), len(matrix)], np.int64))
    y = b.Reshape(b.MatMul(y, matrix), np.array([*lead, *columns], np.int64))
    return y if at == rank - 2 else b.Transpose(y, perm=tuple(int(k) for k in np.argsort(turn)))


@rewrite(lambda p, x: p.STFT(x, ..., as_="stft"), level=0)
def legalize_stft(b: Builder, m: Match) -> Value | None:
    """All frames beside one another, and a product with the matrix of the transform, times the window.

    Given:
        graph g(%x: f32[1,N,1]) {
          %y: f32[1,?,2,2] = STFT(%x, i64[](3), f32[2](1.0, 2.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,N,1]) {
          %0: i64[1] = Shape(%x) {start=1, end=2}
          %1: i32[1] = Cast(%0) {to=i32}
          %2: i32[1] = Sub(%1, i32[](1))
          %3: i32[] = Squeeze(%2) {axes=(0,)}
          %4: i32[?] = Range(i32[](0), %3, i32[](3))
          %5: i32[?,1] = Reshape(%4, i64[2](-1, 1))
          %6: i32[?,2] = Add(%5, i32[2](0, 1))
          %7: f32[1,?,2,1] = Gather(%x, %6) {axis=1}
          %8: f32[1,?,2] = Reshape(%7, i64[3](0, 0, 2))
          %9: f32[1,?,4] = MatMul(%8, f32[2,4](1.0, 0.0, 1.0, 0.0, 2.0, 0.0, -2.0, 0.0))
          %y: f32[1,?,2,2] = Reshape(%9, i64[4](0, 0, 2, 2))
          return %y
        }
    """
    node, shape, out = m.stft, m.x.type.shape, m.stft.output.type.shape
    if m.x.type.dtype is not DType.F32 or shape is None or out is None:
        return m.no("it is not one of float32, or its rank is not known")
    step, window, length = (node.input(i) if node.has_input(i) else None for i in (1, 2, 3))
    if any(v is not None and v.data is None for v in (step, window, length)) or step is None:
        return m.no("the step, the window or the length is computed")
    n = shape[1] if length is None else int(length.array.reshape(()))
    n = n if window is None else window.array.size
    parts, bins = shape[2], out[2]
    if not all(isinstance(d, int) for d in (n, parts, bins)):
        return m.no("the length is not known")
    if n * parts * bins * 2 > _MOST_NUMBERS:
        return m.no("the engine's own transform is better")
    hop = int(step.array.reshape(()))
    matrix = _matrix((n, parts), None, {"onesided": bool(get("STFT").bind(1, node.attrs)["onesided"])})
    if window is not None:
        matrix = matrix * np.repeat(window.array.astype(np.float64), parts)[:, None]
    # The places of the frames are computed: written down, they could be longer than the signal.
    ends = b.const(np.array([shape[1]], np.int32)) if isinstance(shape[1], int) else _extent(b, m.x)
    ends = b.Squeeze(b.Sub(ends, n - 1), axes=(0,))
    starts = b.Reshape(b.Range(np.array(0, np.int32), ends, np.array(hop, np.int32)), np.array([-1, 1], np.int64))
    y = b.Gather(m.x, b.Add(starts, np.arange(n, dtype=np.int32)), axis=1)
    y = b.MatMul(b.Reshape(y, np.array([0, 0, len(matrix)], np.int64)), matrix.astype(np.float32) + 0)
    return b.Reshape(y, np.array([0, 0, bins, 2], np.int64))


def _extent(b: Builder, x: Value) -> Value:
    made: Value = b.Cast(b.Shape(x, start=1, end=2), to=DType.I32)
    return made


def _matrix(rows: Any, length: Array | None, attrs: Any) -> Array:
    """What the transform makes of each element by itself: [size * parts, bins * parts]."""
    n = int(np.prod(rows))
    return get("DFT").evaluate([np.eye(n).reshape(n, *rows), length, np.array(1)], attrs)[0].reshape(n, -1)
