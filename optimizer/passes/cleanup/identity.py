"""Nodes that give their input unchanged."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ir.blob import Array
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder, Trait, get


def _same_type(a: Value, b: Value) -> bool:
    """Equal dtype, and shapes known to be equal."""
    x, y = a.type.shape, b.type.shape
    return (
        a.type.dtype is b.type.dtype
        and x is not None
        and y is not None
        and len(x) == len(y)
        and all(same_dim(p, q) for p, q in zip(x, y, strict=True))
    )


@rewrite(lambda p, x: p.Identity(x), shared=True, level=1)
def eliminate_identity(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Identity(%x)
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    return m.x


@rewrite(lambda p, x: p.Cast(x), shared=True, level=1)
def eliminate_cast(b: Builder, m: Match) -> Value | None:
    """A cast to the type that is there already.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Cast(%x) {to=f32}
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    if m.x.type.dtype is m.root.attrs["to"]:
        return m.x
    return m.no("the types differ")


def _keeps_zeros(node: Node, zeros: Array | None, x: Value) -> bool:
    """Adding -0, or subtracting 0, leaves the sign of a zero; the other two make it positive."""
    negative = np.signbit(np.asarray(zeros, np.float64))
    neutral = negative.all() if node.op == "Add" else not negative.any()
    return bool(neutral) or (x.producer is not None and Trait.SUMS in get(x.producer.op).traits)


@rewrite(
    lambda p, x: p.Add(x, 0.0) | p.Sub(x, 0.0) | p.Mul(x, 1.0) | p.Div(x, 1.0) | p.Pow(x, 1.0), shared=True, level=1
)
def eliminate_neutral(b: Builder, m: Match) -> Value | None:
    """Arithmetic with its neutral element. The constant must not widen the shape.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](1.0))
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    number = 0.0 if m.root.op in ("Add", "Sub") else 1.0
    const = next((v for v in m.root.inputs if v is not None and v is not m.x), m.x)  # both may be one constant
    if not bool(np.all(const.array == number)):
        return m.no("the constant is close to the neutral element, but not equal")
    if m.x.type.dtype.is_float and number == 0 and not _keeps_zeros(m.root, const.array, m.x):
        return m.no("it makes 0 of -0")
    return m.x


@rewrite(
    lambda p, x: p.Reshape(x, ...) | p.Expand(x, ...) | p.Flatten(x) | p.Squeeze(x) | p.Unsqueeze(x) | p.Tile(x, ...),
    shared=True,
    level=1,
)
def eliminate_reshape(b: Builder, m: Match) -> Value | None:
    """Shape ops that keep the shape.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = Reshape(%x, i64[2](2, 3))
          %b: f32[2,3] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[2,3]) {
          %b: f32[2,3] = Exp(%x)
          return %b
        }
    """
    return m.x if _same_type(m.x, m.root.output) else m.no("the shape changes, or is not known well enough")


@rewrite(lambda p, x: p.Transpose(x), shared=True, level=1)
def eliminate_transpose(b: Builder, m: Match) -> Value | None:
    """A transpose that moves nothing.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = Transpose(%x) {perm=(0, 1)}
          %b: f32[2,3] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[2,3]) {
          %b: f32[2,3] = Exp(%x)
          return %b
        }
    """
    perm = m.root.attrs["perm"]
    return m.x if perm == tuple(range(len(perm))) else m.no(f"perm is {perm}")


@rewrite(lambda p, x: p.Concat(x), shared=True, level=1)
def eliminate_concat(b: Builder, m: Match) -> Value:
    """Concatenation of one value.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Concat(%x) {axis=0}
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    return m.x


@rewrite(lambda p, x: p.Pad(x, p.const("pads"), ...), shared=True, level=1)
def eliminate_pad(b: Builder, m: Match) -> Value | None:
    """Padding by nothing.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Pad(%x, i64[2](0, 0))
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    return m.no("the pads are not zero") if m.pads.array.any() else m.x


@rewrite(lambda p, x, start, end: p.Slice(x, start, end, ...), shared=True, level=1)
def eliminate_slice(b: Builder, m: Match) -> Value | None:
    """A slice with positive steps that keeps every dimension.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Slice(%x, i64[1](0), i64[1](4))
          %b: f32[4] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4]) {
          %b: f32[4] = Exp(%x)
          return %b
        }
    """
    steps = m.root.input(4) if m.root.has_input(4) else None
    if steps is not None and (steps.data is None or not (steps.data.numpy() == 1).all()):
        return m.no("it has steps")
    if not _same_type(m.x, m.root.output) or not m.x.type.is_static:
        return m.no("the shape changes, or is not known")
    return m.x
