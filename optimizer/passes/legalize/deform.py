"""Convolution at places that are data, in terms of sampling at such places."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder, get


@rewrite(lambda p, x, w, offset: p.DeformConv(x, w, offset, ..., as_="conv"), level=0)
def legalize_deform_conv(b: Builder, m: Match) -> Value | None:
    """What the taps find is sampled, all taps as rows of one image, and weighted by a convolution of one element.

    Given:
        graph g(%x: f32[1,1,2,1], %w: f32[1,1,1,1], %o: f32[1,2,2,1]) {
          %y: f32[1,1,2,1] = DeformConv(%x, %w, %o) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,1], %w: f32[1,1,1,1], %o: f32[1,2,2,1]) {
          %0: f32[1,1,2,2] = Reshape(%o, i32[4](1, 1, 2, 2))
          %1: f32[1,1,2,2] = Transpose(%0) {perm=(0, 1, 3, 2)}
          %2: f32[1,1,2,2] = Reverse(%1) {axes=(3,)}
          %3: f32[1,1,2,2] = Mul(%2, f32[2](2.0, 1.0))
          %4: f32[1,1,2,2] = Add(%3, f32[1,2,2](0.0, -0.5, 0.0, 0.5))
          %5: f32[1,1,2,1] = Reshape(%x, i32[4](1, 1, 2, 1))
          %6: f32[1,1,1,2] = GridSample(%5, %4)
          %7: f32[1,1,2,1] = Reshape(%6, i32[4](1, 1, 2, 1))
          %8: f32[1,1,1,1] = Reshape(%w, i32[4](1, 1, 1, 1))
          %y: f32[1,1,2,1] = Conv(%7, %8) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """
    x, w, offset = m.x.type, m.w.type, m.offset.type
    if not (x.is_static and w.is_static and offset.is_static) or 0 in (*x.static_shape, *offset.static_shape):
        return m.no("the shapes are not known, or something is empty")
    a = get("DeformConv").bind(3, m.conv.attrs)
    n, channels, *sizes = x.static_shape
    o, per_group, *kernel = w.static_shape
    out = offset.static_shape[2:]
    parts, taps, pixels = a["offset_group"], int(np.prod(kernel)), int(np.prod(out))

    def rows(v: Value, *shape: int) -> Value:
        return b.Reshape(v, np.array(shape, np.int32))

    # Where the taps are without offsets: by tap and pixel, a column and a row, from -1 to 1.
    k = np.indices(kernel).reshape(2, taps, 1) * np.reshape(a["dilations"], (2, 1, 1))
    p = np.indices(out).reshape(2, 1, pixels) * np.reshape(a["strides"], (2, 1, 1))
    at = np.moveaxis(k + p - np.reshape(a["pads"][:2], (2, 1, 1)), 0, -1)[..., ::-1]
    extents = np.array(sizes[::-1], np.float64)
    moves = b.Reverse(b.Transpose(rows(m.offset, n * parts, taps, 2, pixels), perm=(0, 1, 3, 2)), axes=(3,))
    scaled = b.Mul(moves, (2 / extents).astype(np.float32))
    grid = b.Add(scaled, ((2 * at + 1) / extents - 1).astype(np.float32))
    found = b.GridSample(rows(m.x, n * parts, channels // parts, *sizes), grid)
    if m.conv.has_input(4):
        found = b.Mul(found, rows(m.conv.input(4), n * parts, 1, taps, pixels))
    columns = rows(found, n, channels * taps, *out)
    weights = rows(m.w, o, per_group * taps, 1, 1)
    bias = m.conv.input(3) if m.conv.has_input(3) else None
    return b.Conv(columns, weights, bias, strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=a["group"])
