"""Logic, comparisons and whole numbers: what is known without computing, and what is said in fewer nodes."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, Trait
from minnow.schema.ops.compare import MIRRORED, OPPOSITE
from minnow.schema.registry.op import ops_with

# More elements than these are not worth writing down.
_MAX_ELEMENTS = 4096


def _filled(value: Value, number: int) -> Value | None:
    """A constant of the type of a value, every element of which is one number; None where its shape is open, or big."""
    count = value.type.count
    if count is None or count > _MAX_ELEMENTS:
        return None
    return Value.constant(np.full(value.type.static_shape, number, value.type.dtype.numpy))


@rewrite(
    lambda p, x, y: p.Not(reduce(or_, (getattr(p, op)(x, y, as_="test") for op in OPPOSITE))),
    level=1,
)
def invert_comparison(b: Builder, m: Match) -> Value | None:
    """The opposite of a comparison. Only (in)equality has one where a number may be NaN.

    Given:
        graph g(%x: f32[4], %y: f32[4]) {
          %a: bool[4] = Equal(%x, %y)
          %b: bool[4] = Not(%a)
          return %b
        }
    Result:
        graph g(%x: f32[4], %y: f32[4]) {
          %b: bool[4] = NotEqual(%x, %y)
          return %b
        }
    """
    if MIRRORED[m.test.op] != m.test.op and m.x.type.dtype.is_float:
        return m.no("neither holds for NaN")
    return b.node(OPPOSITE[m.test.op], [m.x, m.y], {}).output


@rewrite(
    lambda p, x: reduce(or_, (getattr(p, op)(getattr(p, op)(x)) for op in ops_with(Trait.INVOLUTION))),
    shared=True,
    level=1,
)
def eliminate_double_negation(b: Builder, m: Match) -> Value:
    """The opposite of the opposite.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %b: f32[4] = Neg(%a)
          %y: f32[4] = Exp(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Exp(%x)
          return %y
        }
    """
    return m.x


@rewrite(
    lambda p, x: (
        reduce(or_, (getattr(p, op)(getattr(p, op)(x, as_="first")) for op in ops_with(Trait.IDEMPOTENT)))
        | p.Relu(p.Abs(x, as_="first"))
        | p.Abs(p.Relu(x, as_="first"))
    ),
    shared=True,
    level=1,
)
def eliminate_repeated(b: Builder, m: Match) -> Value | None:
    """What changes nothing the second time.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Relu(%x)
          %b: f32[4] = Relu(%a)
          %y: f32[4] = Exp(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %a: f32[4] = Relu(%x)
          %y: f32[4] = Exp(%a)
          return %y
        }
    """
    return m.first.output


@rewrite(lambda p, x: p.Abs(p.Neg(x)) | p.Square(p.Neg(x)) | p.Square(p.Abs(x)), shared=True, level=1)
def eliminate_sign(b: Builder, m: Match) -> Value | None:
    """A sign that does not matter. What has none wraps around instead.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %y: f32[4] = Abs(%a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Abs(%x)
          return %y
        }
    """
    if m.root.op == "Abs" and m.x.type.dtype.numpy.kind == "u":
        return m.no("the numbers have no sign")
    return b.node(m.root.op, [m.x], m.root.attrs).output


@rewrite(lambda p, x, y: p.Add(x, p.Neg(y)) | p.Sub(x, p.Neg(y)), shared=True, level=1)
def fuse_negation(b: Builder, m: Match) -> Value | None:
    """A negative summand is subtracted, and the other way round.

    Given:
        graph g(%x: f32[4], %y: f32[4]) {
          %a: f32[4] = Neg(%y)
          %b: f32[4] = Add(%x, %a)
          return %b
        }
    Result:
        graph g(%x: f32[4], %y: f32[4]) {
          %b: f32[4] = Sub(%x, %y)
          return %b
        }
    """
    if m.x.is_const:
        return m.no("a constant would stand in front")
    return b.node("Sub" if m.root.op == "Add" else "Add", [m.x, m.y], {}).output


@rewrite(
    lambda p, x: p.And(x, x) | p.Or(x, x) | p.Max(x, x) | p.Min(x, x) | p.BitwiseAnd(x, x) | p.BitwiseOr(x, x),
    shared=True,
    level=1,
)
def eliminate_same_operands(b: Builder, m: Match) -> Value:
    """Two operands of which either would do.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Max(%x, %x)
          %y: f32[4] = Exp(%a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Exp(%x)
          return %y
        }
    """
    return m.x


@rewrite(
    lambda p, x, y: (
        p.Max(x, p.Max(x, y, as_="inner"))
        | p.Min(x, p.Min(x, y, as_="inner"))
        | p.And(x, p.And(x, y, as_="inner"))
        | p.Or(x, p.Or(x, y, as_="inner"))
    ),
    shared=True,
    level=1,
)
def eliminate_known_operand(b: Builder, m: Match) -> Value | None:
    """An operand that takes part already.

    Given:
        graph g(%x: f32[4], %z: f32[4]) {
          %a: f32[4] = Max(%x, %z)
          %b: f32[4] = Max(%a, %x)
          %y: f32[4] = Exp(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4], %z: f32[4]) {
          %a: f32[4] = Max(%x, %z)
          %y: f32[4] = Exp(%a)
          return %y
        }
    """
    return m.inner.output


@rewrite(
    lambda p, x: p.And(x, 1.0) | p.Or(x, 0.0) | p.Xor(x, 0.0) | p.And(x, 0.0) | p.Or(x, 1.0) | p.Xor(x, 1.0),
    shared=True,
    level=1,
)
def fold_logic(b: Builder, m: Match) -> Value | None:
    """Logic with a constant.

    Given:
        graph g(%x: bool[4], %z: bool[4]) {
          %a: bool[4] = And(%x, bool[](True))
          %b: bool[4] = Xor(%a, bool[](True))
          return %b
        }
    Result:
        graph g(%x: bool[4], %z: bool[4]) {
          %b: bool[4] = Not(%x)
          return %b
        }
    """
    constant = next((v for v in m.root.inputs if v is not None and v is not m.x), m.x)
    number = bool(np.all(constant.array))
    if m.root.op == "Xor" and number:
        return b.Not(m.x)
    if m.root.op == "Xor" or number == (m.root.op == "And"):
        return m.x
    known = _filled(m.root.output, int(number))
    return m.no("the result is big, or its shape is not known") if known is None else known


@rewrite(
    lambda p, x: (
        p.Sub(x, x) | p.Xor(x, x) | p.BitwiseXor(x, x) | p.Mul(x, 0.0) | p.BitwiseAnd(x, 0.0) | p.Equal(x, x)
        | p.LessOrEqual(x, x) | p.GreaterOrEqual(x, x) | p.NotEqual(x, x) | p.Less(x, x) | p.Greater(x, x)
    ),
    shared=True,
    level=1,
)  # fmt: skip
def fold_integers(b: Builder, m: Match) -> Value | None:
    """What has one result whatever the operand is. Floats may be NaN, or infinite.

    Given:
        graph g(%x: i32[2], %z: i32[2]) {
          %a: i32[2] = Sub(%x, %x)
          %y: i32[2] = Add(%z, %a)
          return %y
        }
    Result:
        graph g(%x: i32[2], %z: i32[2]) {
          %y: i32[2] = Add(%z, i32[2](0, 0))
          return %y
        }
    """
    if m.x.type.dtype.is_float and m.root.op not in ("Less", "Greater"):
        return m.no("it computes with floats")
    known = _filled(m.root.output, int(m.root.op in ("Equal", "LessOrEqual", "GreaterOrEqual")))
    return m.no("the result is big, or its shape is not known") if known is None else known


@rewrite(lambda p, x, y, c: p.Where(p.const("mask"), x, y) | p.Where(c, x, x), shared=True, level=1)
def fold_where(b: Builder, m: Match) -> Value | None:
    """A choice that is made already.

    Given:
        graph g(%x: f32[2], %z: f32[2]) {
          %a: f32[2] = Where(bool[2](True, True), %x, %z)
          %y: f32[2] = Exp(%a)
          return %y
        }
    Result:
        graph g(%x: f32[2], %z: f32[2]) {
          %y: f32[2] = Exp(%x)
          return %y
        }
    """
    if "mask" not in m.bound:
        taken = m.x
    elif (m.mask.type.count or 0) > _MAX_ELEMENTS or not m.mask.type.count > 0:
        return m.no("the condition is big, or empty")
    elif (mask := m.mask.array).all() or not mask.any():
        taken = m.x if mask.all() else m.y
    else:
        return m.no("the condition is not the same everywhere")
    return taken if same_shape(taken, m.root.output) else m.no("the others change the shape")


@rewrite(lambda p, c, x, y: p.Where(p.Not(c), x, y), shared=True, level=1)
def swap_choices(b: Builder, m: Match) -> Value:
    """A choice by the opposite of a condition.

    Given:
        graph g(%c: bool[4], %x: f32[4], %z: f32[4]) {
          %a: bool[4] = Not(%c)
          %y: f32[4] = Where(%a, %x, %z)
          return %y
        }
    Result:
        graph g(%c: bool[4], %x: f32[4], %z: f32[4]) {
          %y: f32[4] = Where(%c, %z, %x)
          return %y
        }
    """
    return b.Where(m.c, m.y, m.x)


def _as_number(p: Any, x: Any) -> Any:
    return p.Cast(x, as_="cast", to=lambda t: t is not DType.BOOL)


@rewrite(
    lambda p, x: (
        p.NotEqual(_as_number(p, x), 0.0) | p.Equal(_as_number(p, x), 1.0) | p.Greater(_as_number(p, x), 0.0)
        | p.Equal(_as_number(p, x), 0.0) | p.NotEqual(_as_number(p, x), 1.0)
    ),
    shared=True,
    level=1,
)  # fmt: skip
def compare_truth(b: Builder, m: Match) -> Value | None:
    """A boolean that is cast to a number and compared with 0 or 1.

    Given:
        graph g(%x: bool[4]) {
          %a: i32[4] = Cast(%x) {to=i32}
          %b: bool[4] = Equal(%a, i32[](0))
          return %b
        }
    Result:
        graph g(%x: bool[4]) {
          %b: bool[4] = Not(%x)
          return %b
        }
    """
    if m.x.type.dtype is not DType.BOOL or not same_shape(m.x, m.root.output):
        return m.no("it is not a boolean, or the constant changes the shape")
    numbers = next(v for v in m.root.inputs if v is not None and v is not m.cast.output).array
    if numbers is None or not np.isin(numbers, (0, 1)).all():
        return m.no("the constant is close to 1, but not equal")
    same = (m.root.op != "Equal") != bool(numbers.reshape(-1)[0])
    return m.x if same else b.Not(m.x)
