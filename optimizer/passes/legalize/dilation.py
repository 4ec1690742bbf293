"""Windows with gaps, in terms of windows without: the format's pooling has none."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, get, window


def _has_gaps(dilations: tuple[int, ...]) -> bool:
    return set(dilations) != {1}


@rewrite(
    lambda p, x: p.MaxPool(x, dilations=_has_gaps, as_="pool") | p.AveragePool(x, dilations=_has_gaps, as_="pool"),
    level=0,
)
def legalize_dilated_pool(b: Builder, m: Match) -> Value | None:
    """Every other element, or every third, is an image of its own, where windows have no gaps.

    Given:
        graph g(%x: f32[1,1,4,3]) {
          %y: f32[1,1,2,2] = MaxPool(%x) {kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(2, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,4,3]) {
          %0: f32[1,1,2,2,3,1] = Reshape(%x, i32[6](1, 1, 2, 2, 3, 1))
          %1: f32[1,1,2,1,2,3] = Transpose(%0) {perm=(0, 1, 3, 5, 2, 4)}
          %2: f32[1,2,2,3] = Reshape(%1, i32[4](1, 2, 2, 3))
          %3: f32[1,2,1,2] = MaxPool(%2) {kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %4: f32[1,1,2,1,1,2] = Reshape(%3, i32[6](1, 1, 2, 1, 1, 2))
          %5: f32[1,1,1,2,2,1] = Transpose(%4) {perm=(0, 1, 4, 2, 5, 3)}
          %6: f32[1,1,2,2] = Reshape(%5, i32[4](1, 1, 2, 2))
          %y: f32[1,1,2,2] = Slice(%6, i32[2](0, 0), i32[2](2, 2), i32[2](2, 3), i32[2](1, 1))
          return %y
        }
    """
    if len(m.pool.outputs) > 1 or m.x.type.rank != 4 or m.x.type.dtype is not DType.F32:
        return m.no("the places are asked for, or it does not have two spatial axes")
    if not (m.x.type.is_static and m.pool.output.type.is_static) or 0 in m.x.type.static_shape:
        return m.no("some dimension is not known, or 0")
    a = get(m.pool.op).bind(1, m.pool.attrs)
    largest = m.pool.op == "MaxPool"
    if a["auto_pad"] or (not largest and (any(a["pads"]) or a["ceil_mode"])):
        return m.no("it pads automatically, or a mean that counts what is there only")
    n, c, *sizes = m.x.type.static_shape
    out = m.pool.output.type.static_shape[2:]
    strides, gaps = a["strides"], a["dilations"]
    kernel = window.fitted(sizes, a["kernel"], gaps, window.resolve(sizes, (), (), a["pads"], ""))
    # What the windows look at, rounded up to whole strides from image to image.
    spans = [(o - 1) * s + (k - 1) * d + 1 for o, s, k, d in zip(out, strides, kernel, gaps, strict=True)]
    counts = [-(-span // d) for span, d in zip(spans, gaps, strict=True)]
    if n * c * counts[0] * gaps[0] * counts[1] * gaps[1] > np.iinfo(np.int32).max:
        return m.no("the images would have more elements than the format can count")
    ends = [q * d - size - begin for q, d, size, begin in zip(counts, gaps, sizes, a["pads"][:2], strict=True)]
    pads = np.array([0, 0, 0, 0, *(v for pair in zip(a["pads"][:2], ends, strict=True) for v in pair)], np.int32)
    x = b.Pad(m.x, pads, np.float32(-np.inf if largest else 0)) if pads.any() else m.x
    apart = b.Reshape(x, np.array([n, c, counts[0], gaps[0], counts[1], gaps[1]], np.int32))
    images = b.Transpose(apart, perm=(0, 1, 3, 5, 2, 4))
    flat = b.Reshape(images, np.array([n, c * gaps[0] * gaps[1], *counts], np.int32))
    plain = {"kernel": kernel, "strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)}
    pooled = b.node(m.pool.op, [flat], plain).output
    left = [q - k + 1 for q, k in zip(counts, kernel, strict=True)]
    parts = b.Reshape(pooled, np.array([n, c, *gaps, *left], np.int32))
    whole = b.Reshape(
        b.Transpose(parts, perm=(0, 1, 4, 2, 5, 3)),
        np.array([n, c, left[0] * gaps[0], left[1] * gaps[1]], np.int32),
    )
    stops = [(o - 1) * s + 1 for o, s in zip(out, strides, strict=True)]
    lists = ([0, 0], stops, [2, 3], list(strides))
    return b.Slice(whole, *(np.array(v, np.int32) for v in lists))
