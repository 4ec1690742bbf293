"""Matrix products with constant weights, and what they take in."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.optimizer.rewrite.weight import ScaledBlob, TransposedBlob, channel_factors, minus_one
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import RESIDUAL

Array = np.ndarray[Any, Any]


@rewrite(lambda p, x: p.MatMul(x, p.const("w"), transpose_a=False, as_="product"))
def fuse_linear(b: Builder, m: Match) -> Value | None:
    """A product with constant weights of two axes.

    Given:
        graph g(%x: f32[2,2]) {
          %y: f32[2,3] = MatMul(%x, f32[2,3](1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,2]) {
          %y: f32[2,3] = Linear(%x, f32[3,2](1.0, 4.0, 2.0, 5.0, 3.0, 6.0))
          return %y
        }
    """
    w: Value = m.w
    if w.type.rank != 2 or not w.type.dtype.is_float or (m.x.type.rank or 0) < 2:
        return m.no("the weights are not a matrix of floats, or the input is a vector")
    if not m.product.attrs.get("transpose_b", False):
        w = Value.constant(TransposedBlob.of(w), w.name)
    return b.Linear(m.x, w)


def per_feature(value: Value, node: Node) -> Array | None:
    """The constant as one number per output feature, None when it differs along other axes."""
    out = node.output.type
    if value.data is None or out.shape is None or not isinstance(out.shape[-1], int):
        return None
    shape, features = value.data.shape, out.shape[-1]
    if len(shape) > len(out.shape) or any(d != 1 for d in shape[:-1]) or (shape and shape[-1] not in (1, features)):
        return None
    return np.broadcast_to(value.data.numpy().reshape(-1), (features,))


def _bias(node: Node) -> Array | None:
    """The bias as float64, zeros where there is none.

    None when it is computed, not the last that is added, or for a number of features that is not known.
    """
    if node.has_input(RESIDUAL):
        return None
    if not node.has_input(2):
        rows = (node.input(1).type.shape or ("?",))[0]
        return np.zeros(rows) if isinstance(rows, int) else None
    array = node.input(2).array
    return None if array is None else array.astype(np.float64)


def takes_factor(linear: Node) -> bool:
    """Its weights and bias are numbers, and nothing happens to the sums behind them."""
    return linear.input(1).data is not None and _bias(linear) is not None and not linear.attrs.get("activation")


def _rebuilt(b: Builder, node: Node, w: Value, bias: Array) -> Value:
    return b.node("Linear", [node.input(0), w, bias.astype(w.type.dtype.numpy)], node.attrs).output


@rewrite(
    lambda p, x, w: (
        p.Add(p.Linear(x, w, ..., activation="", as_="linear"), p.const("k"))
        | p.Sub(p.Linear(x, w, ..., activation="", as_="linear"), p.const("k"))
    )
)
def fuse_linear_bias(b: Builder, m: Match) -> Value | None:
    """A constant summand per feature.

    Given:
        graph g(%x: f32[2,1]) {
          %a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))
          %y: f32[2,2] = Add(%a, f32[2](3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,1]) {
          %y: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    """
    shift, old = per_feature(m.k, m.linear), _bias(m.linear)
    if shift is None or old is None:
        return m.no(f"the summand {m.k!r} is not one number per feature, or the bias is computed")
    return _rebuilt(b, m.linear, m.w, old - shift if m.root.op == "Sub" else old + shift)


@rewrite(
    lambda p, x, w: (
        p.Mul(p.Linear(x, w, ..., activation="", as_="linear"), p.const("k"))
        | p.Div(p.Linear(x, w, ..., activation="", as_="linear"), p.const("k"))
        | p.Neg(p.Linear(x, w, ..., activation="", as_="linear"))
    )
)
def fuse_linear_scale(b: Builder, m: Match) -> Value | None:
    """A constant factor per feature.

    Given:
        graph g(%x: f32[2,1]) {
          %a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0), f32[2](3.0, 4.0))
          %y: f32[2,2] = Mul(%a, f32[](2.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,1]) {
          %y: f32[2,2] = Linear(%x, f32[2,1](2.0, 4.0), f32[2](6.0, 8.0))
          return %y
        }
    """
    k = m.bound.get("k") or minus_one(m.w)
    scale, old = per_feature(k, m.linear), _bias(m.linear)
    if scale is None or old is None or m.w.data is None:
        return m.no(f"the factor {k!r} is not one number per feature, or weights or bias are computed")
    with np.errstate(divide="ignore"):
        factor = 1 / scale.astype(np.float64) if m.root.op == "Div" else scale.astype(np.float64)
    if not np.isfinite(factor).all():
        return m.no("the factor is not finite")
    w = Value.constant(ScaledBlob(m.w.data, factor.reshape(-1, 1)), m.w.name)
    if not m.linear.has_input(2):
        return b.Linear(m.x, w)
    return _rebuilt(b, m.linear, w, old * factor)


@rewrite(
    lambda p, x, w, scale, bias, mean, var: (
        p.BatchNorm(p.Linear(x, w, ..., activation="", as_="linear"), scale, bias, mean, var)
        | p.Scale(p.Linear(x, w, ..., activation="", as_="linear"), scale, bias)
    )
)
def fuse_linear_norm(b: Builder, m: Match) -> Value | None:
    """Factors and summands per channel, where the features are the channels.

    Given:
        graph g(%x: f32[2,1]) {
          %a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0), f32[2](3.0, 4.0))
          %y: f32[2,2] = Scale(%a, f32[2](2.0, 0.5), f32[2](1.0, 0.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,1]) {
          %y: f32[2,2] = Linear(%x, f32[2,1](2.0, 1.0), f32[2](7.0, 2.0))
          return %y
        }
    """
    numbers, old = channel_factors(m.root), _bias(m.linear)
    if numbers is None or old is None or m.w.data is None:
        return m.no("weights, bias or statistics are computed or not finite")
    if m.root.output.type.rank != 2:
        return m.no("the channels are not the last axis")
    factor, shift = numbers
    w = Value.constant(ScaledBlob(m.w.data, factor.reshape(-1, 1)), m.w.name)
    return _rebuilt(b, m.linear, w, old * factor + shift)


@rewrite(
    lambda p, x, y: (
        p.MatMul(p.Transpose(x, as_="a"), y, as_="product") | p.MatMul(x, p.Transpose(y, as_="b"), as_="product")
    ),
    shared=True,
)
def fuse_matmul_transpose(b: Builder, m: Match) -> Value | None:
    """A transpose of the last two axes of an operand is done by the product.

    Given:
        graph g(%x: f32[2,3,4], %y: f32[2,5,4]) {
          %a: f32[2,4,5] = Transpose(%y) {perm=(0, 2, 1)}
          %z: f32[2,3,5] = MatMul(%x, %a)
          return %z
        }
    Result:
        graph g(%x: f32[2,3,4], %y: f32[2,5,4]) {
          %z: f32[2,3,5] = MatMul(%x, %y) {transpose_b=True}
          return %z
        }
    """
    name = "a" if "a" in m.bound else "b"
    perm = m.bound[name].attrs["perm"]
    rank = len(perm)
    if rank < 2 or perm != (*range(rank - 2), rank - 1, rank - 2):
        return m.no(f"perm is {perm}, not a swap of the last two axes")
    key = f"transpose_{name}"
    return b.node("MatMul", [m.x, m.y], {**m.product.attrs, key: not m.product.attrs.get(key, False)}).output
