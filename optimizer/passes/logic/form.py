"""One form for what can be said in several: constants stand behind, and signs are part of them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import Value
from minnow.schema.ir.graph import RET
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.ops.compare import MIRRORED

_ORDERS = [op for op, mirrored in MIRRORED.items() if op != mirrored]


@rewrite(lambda p, x: reduce(or_, (getattr(p, op)(p.const("c"), x) for op in _ORDERS)), shared=True, level=1)
def turn_comparison(b: Builder, m: Match) -> Value | None:
    """A constant is what others are compared with.

    Given:
        graph g(%x: f32[4]) {
          %y: bool[4] = Less(f32[](2.0), %x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: bool[4] = Greater(%x, f32[](2.0))
          return %y
        }
    """
    if m.x.is_const:
        return m.no("both are constants")
    return b.node(MIRRORED[m.root.op], [m.x, m.c], {}).output


@rewrite(
    lambda p, x, y: reduce(
        or_, (getattr(p, op)(p.Neg(x), right) for op in MIRRORED for right in (p.const("c"), p.Neg(y)))
    ),
    level=1,
)
def compare_without_sign(b: Builder, m: Match) -> Value | None:
    """Negative floats are in the opposite order.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %y: bool[4] = GreaterOrEqual(%a, f32[](2.0))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: bool[4] = LessOrEqual(%x, f32[](-2.0))
          return %y
        }
    """
    if not m.x.type.dtype.is_float:
        return m.no("the smallest integer has no opposite")
    return b.node(MIRRORED[m.root.op], [m.x, m.y if "y" in m.bound else -m.c.array], {}).output


def _is_read_without_sign_of_zero(value: Value) -> bool:
    return all(reader.op != RET and Trait.SAME_FOR_ZEROS in get(reader.op).traits for reader in value.users)


@rewrite(lambda p, x: p.Mul(x, -1.0) | p.Div(x, -1.0) | p.Sub(0.0, x), shared=True, level=1)
def write_negation(b: Builder, m: Match) -> Value | None:
    """The opposite, as a product or as a difference.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](-1.0))
          %y: f32[4] = Exp(%a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %y: f32[4] = Exp(%a)
          return %y
        }
    """
    constant = next((v for v in m.root.inputs if v is not None and v is not m.x), m.x)
    number = 0 if m.root.op == "Sub" else -1
    if not bool(np.all(constant.array == number)) or not same_shape(m.x, m.root.output):
        return m.no("the constant is close to -1, but not equal, or changes the shape")
    if number == 0 and m.x.type.dtype.is_float and not _is_read_without_sign_of_zero(m.root.output):
        return m.no("0 - 0 is not -0")
    return b.Neg(m.x)


@rewrite(lambda p, x, y: p.Neg(p.Sub(x, y)), level=1)
def negate_difference(b: Builder, m: Match) -> Value | None:
    """The opposite of a difference is the difference the other way round.

    Given:
        graph g(%x: f32[4], %z: f32[4]) {
          %a: f32[4] = Sub(%x, %z)
          %b: f32[4] = Neg(%a)
          %y: f32[4] = Exp(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4], %z: f32[4]) {
          %b: f32[4] = Sub(%z, %x)
          %y: f32[4] = Exp(%b)
          return %y
        }
    """
    if m.x.type.dtype.is_float and not _is_read_without_sign_of_zero(m.root.output):
        return m.no("the opposite of 0 is -0")
    return b.Sub(m.y, m.x)


@rewrite(
    lambda p, x: (
        p.Neg(p.Mul(x, p.const("k"))) | p.Neg(p.Div(x, p.const("k"))) | p.Neg(p.Div(p.const("k"), x))
        | p.Mul(p.Neg(x), p.const("k")) | p.Div(p.Neg(x), p.const("k")) | p.Div(p.const("k"), p.Neg(x))
    ),
    level=1,
)  # fmt: skip
def fuse_factor_sign(b: Builder, m: Match) -> Value | None:
    """The sign goes into a number that is multiplied with, or divided by.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](2.0))
          %y: f32[4] = Neg(%a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Mul(%x, f32[](-2.0))
          return %y
        }
    """
    if m.k.type.count != 1 or not m.k.type.dtype.is_float:
        return m.no("it is not one float")
    product = m.root if m.root.op != "Neg" else m.root.input(0).producer
    assert product is not None
    negated = Value.constant(-m.k.array)
    operands = [negated if v is m.k else m.x for v in product.inputs]
    return b.node(product.op, operands, {}).output
