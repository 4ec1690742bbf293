"""Rotary positions: pairs of features turned by angles that grow with the place in a sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType
from minnow.schema.ir.type import Shape
from minnow.schema.ops.special import Array, keep
from minnow.schema.registry.op import Arg, Float, fill, op


@op()
def RotaryEmbedding(x: Float, cos: Float, sin: Float, *, interleaved: bool = False, size: int = 0):
    """The first `size` features (0: all), of the last axis, in pairs turned by angles: y = x * cos + r(x) * sin.

    A pair are features i and i + size / 2, or with `interleaved` the neighbors 2i and 2i + 1; r makes (-b, a) of the
    pair (a, b). The tables hold a number for each feature, or one for each pair; their other axes are broadcast to
    those of x. The features behind the first `size` stay as they are. (ONNX's operator of this name has tables of pairs
    without an axis of heads.)
    """

    def turn(v: Array, c: Array, s: Array) -> Array:
        count = size or v.shape[-1]
        a, b = _pairs(v[..., :count], interleaved)
        (c0, c1), (s0, s1) = (_pairs(t, interleaved) if t.shape[-1] == count else (t, t) for t in (c, s))
        y = v.copy()
        first, second = _pairs(y[..., :count], interleaved)
        first[...], second[...] = a * c0 - b * s0, b * c1 + a * s1
        return y

    return keep(turn, x, cos, sin)


def _pairs(v: Array, interleaved: bool) -> tuple[Array, Array]:
    half = v.shape[-1] // 2
    return (v[..., ::2], v[..., 1::2]) if interleaved else (v[..., :half], v[..., half:])


@RotaryEmbedding.shape
def _(x: Arg, cos: Arg, sin: Arg, *, interleaved: bool, size: int) -> Any:
    if not x.dtype is cos.dtype is sin.dtype:
        raise ModelError(f"operands of the types {x.dtype}, {cos.dtype} and {sin.dtype} are mixed")
    if x.shape is None:
        return x.type
    if not x.shape:
        raise ModelError("RotaryEmbedding needs an input with features, not a scalar")
    whole = x.shape[-1]
    count = size or whole
    if not isinstance(count, int):
        return x.type
    if count < 0 or count % 2 or (isinstance(whole, int) and count > whole):
        raise ModelError(f"RotaryEmbedding cannot turn {count} of {whole} features")
    for table in (cos, sin):
        if table.shape is None:
            continue
        if not table.shape or (isinstance(table.shape[-1], int) and table.shape[-1] not in (count, count // 2)):
            raise ModelError(f"a table of shape {table.shape} has numbers neither for {count} features nor their pairs")
        if len(table.shape) > len(x.shape) or not _fits(table.shape[:-1], x.shape[:-1]):
            raise ModelError(f"a table of shape {table.shape} does not broadcast to the rows of {x.shape}")
    return x.type


def _fits(shape: Shape, target: Shape) -> bool:
    """Nothing that is known speaks against broadcasting `shape` to `target`."""
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(a == 1 or a == b or not isinstance(a, int) or not isinstance(b, int) for a, b in pairs)


@RotaryEmbedding.samples
def _(rng: np.random.Generator) -> Any:
    for interleaved in (False, True):
        same = {"interleaved": interleaved}
        yield ((2, 3, 5, 34), (2, 1, 5, 34), (2, 1, 5, 34)), same
        yield ((2, 3, 5, 70), (5, 35), (1, 1, 5, 35)), same
        yield ((2, 5, 3, 64), (1, 5, 1, 32), (5, 1, 64)), same
        yield ((1, 12, 1, 64), (1, 1, 1, 64), (1, 1, 1, 64)), same
        yield ((2, 3, 7, 19), (7, 10), (7, 5)), {**same, "size": 10}
        yield ((3, 2), (2,), (1,)), same
        yield ((6,), (6,), (3,)), same
        yield ((0, 3, 4), (3, 2), (3, 2)), same
        yield ((2, 3, 0), (3, 0), (1, 0)), same
        for dtype in (DType.F16, DType.BF16, DType.F64):
            yield tuple(fill(rng, s, dtype) for s in ((2, 3, 5, 36), (5, 36), (5, 18))), same
        yield ((2, 41, 33, 16), (41, 1, 8), (41, 1, 8)), {**same, "size": 16}
