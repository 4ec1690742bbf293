"""Spellings of matrix products with constant weights: axes of size 1 in front, and factors of the other operand."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.passes.matmul.linear import per_feature
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.optimizer.rewrite.weight import ScaledBlob, minus_one
from minnow.schema.ir import LazyBlob, Node, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@rewrite(lambda p, x, w: p.Linear(p.Mul(x, p.const("k")) | p.Div(x, p.const("k")) | p.Neg(x), w, ..., as_="linear"))
def fuse_scale_linear(b: Builder, m: Match) -> Value | None:
    """A constant factor for each feature in front of a product.

    Given:
        graph g(%x: f32[2,2]) {
          %a: f32[2,2] = Mul(%x, f32[2](2.0, 3.0))
          %y: f32[2,1] = Linear(%a, f32[1,2](0.5, 1.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,2]) {
          %y: f32[2,1] = Linear(%x, f32[1,2](1.0, 3.0))
          return %y
        }
    """
    linear: Node = m.linear
    scaling = linear.input(0).producer
    assert scaling is not None
    k: Value = m.bound.get("k") or minus_one(m.w)
    scale = per_feature(k, scaling)
    if scale is None or m.w.data is None or m.x.type.shape is None:
        return m.no(f"the factor {k!r} is not one number per feature, or the weights are computed")
    if not same_shape(m.x, scaling.output) and k.type.count != 1:
        return m.no("the factor widens the input")
    if len(k.type.static_shape) > len(m.x.type.shape):
        return m.no("the factor has more axes than the input")
    with np.errstate(divide="ignore"):
        factor = 1 / scale.astype(np.float64) if scaling.op == "Div" else scale.astype(np.float64)
    if not np.isfinite(factor).all():
        return m.no("the factor is not finite")
    w = Value.constant(ScaledBlob(m.w.data, factor.reshape(1, -1)), m.w.name)
    return b.node("Linear", [m.x, w, *linear.inputs[2:]], linear.attrs).output


@rewrite(lambda p, x: p.MatMul(x, p.const("w"), transpose_a=False, as_="product"))
def fuse_linear_of_batch(b: Builder, m: Match) -> Value | None:
    """A product with one constant matrix that has axes of size 1 in front.

    Given:
        graph g(%x: f32[3,2,2]) {
          %y: f32[3,2,1] = MatMul(%x, f32[1,2,1](1.0, 2.0))
          return %y
        }
    Result:
        graph g(%x: f32[3,2,2]) {
          %y: f32[3,2,1] = Linear(%x, f32[1,2](1.0, 2.0))
          return %y
        }
    """
    w: Value = m.w
    shape, rank = w.type.static_shape, m.x.type.rank
    if rank is None or not 2 < len(shape) <= rank or any(d != 1 for d in shape[:-2]) or not w.type.dtype.is_float:
        return m.no("the weights are not one matrix of floats, or have more axes than the input")
    blob = w.data
    assert blob is not None
    flat = shape[-2:]
    turned = m.product.attrs.get("transpose_b", False)

    def matrix() -> Array:
        array = blob.numpy().reshape(flat)
        return array if turned else np.ascontiguousarray(array.T)

    return b.Linear(m.x, Value.constant(LazyBlob(matrix, w.type.dtype, flat if turned else flat[::-1]), w.name))
