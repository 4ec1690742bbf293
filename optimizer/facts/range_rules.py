"""The interval of each op's results, from those of its operands."""

from __future__ import annotations

import math
from typing import Any

from minnow.optimizer.facts.range import (
    EXTENT,
    SIZE,
    TRUTH,
    Interval,
    Known,
    arithmetic,
    hull,
    reduced_count,
    transfer,
)
from minnow.schema.ir import DType, Node
from minnow.schema.ops import get

_BITS = 64
"""Powers and shifts beyond this are nothing that an integer could hold."""


def _is_int(node: Node) -> bool:
    return node.outputs[0].type.dtype.is_int


def _products(a: Interval, b: Interval) -> Interval:
    return hull(a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high)


# ---- arithmetic ----


@arithmetic("Add")
def _(node: Node, a: Interval, b: Interval) -> Known:
    return Interval(a.low + b.low, a.high + b.high)


@arithmetic("Sub")
def _(node: Node, a: Interval, b: Interval) -> Known:
    return Interval(a.low - b.high, a.high - b.low)


@arithmetic("Mul")
def _(node: Node, a: Interval, b: Interval) -> Known:
    return _products(a, b)


@arithmetic("Square")
def _(node: Node, x: Interval) -> Known:
    return Interval(0 if x.low <= 0 <= x.high else min(x.low**2, x.high**2), x.magnitude**2)


@arithmetic("SquaredDifference")
def _(node: Node, a: Interval, b: Interval) -> Known:
    # The difference itself must fit: it is computed on the way.
    return hull(0, max(abs(a.low - b.high), abs(a.high - b.low)) ** 2)


def _divisors(b: Interval) -> list[int]:
    """The ends of what remains of the divisors without 0."""
    ends = {b.low, b.high, *(n for n in (-1, 1) if b.low <= n <= b.high)}
    return sorted(ends - {0})


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _quotients(a: Interval, b: Interval, divide: Any) -> Interval:
    found = [divide(x, y) for x in (a.low, a.high) for y in _divisors(b)]
    # What has no quotient is 0; and a quotient of small numbers may be.
    return hull(*found, *([0] if b.low <= 0 <= b.high or a.low <= 0 <= a.high else []))


@arithmetic("Div")
def _(node: Node, a: Interval, b: Interval) -> Known:
    if _is_int(node):
        return _quotients(a, b, _truncated)
    return None if b.low <= 0 <= b.high else _quotients(a, b, lambda x, y: x / y)


@arithmetic("FloorDiv")
def _(node: Node, a: Interval, b: Interval) -> Known:
    return _quotients(a, b, lambda x, y: x // y) if _is_int(node) else None


@arithmetic("Mod")
def _(node: Node, a: Interval, b: Interval) -> Known:
    if not _is_int(node):
        return None
    rest = max(b.magnitude - 1, 0)
    if node.attrs.get("fmod"):
        return Interval(-min(rest, max(-a.low, 0)), min(rest, max(a.high, 0)))
    low, high = min(b.low + 1, 0), max(b.high - 1, 0)
    return Interval(0, min(high, a.high)) if a.low >= 0 and b.low >= 0 else Interval(low, high)


@arithmetic("Pow")
def _(node: Node, a: Interval, b: Interval) -> Known:
    if not _is_int(node) or b.high > _BITS or not isinstance(b.high, int):
        return None
    most = max(a.magnitude, 1) ** max(b.high, 0)
    return Interval(0 if a.low >= 0 else -most, most)


@arithmetic("Max", exact=True)
def _(node: Node, a: Interval, b: Interval) -> Known:
    return Interval(max(a.low, b.low), max(a.high, b.high))


@arithmetic("Min", exact=True)
def _(node: Node, a: Interval, b: Interval) -> Known:
    return Interval(min(a.low, b.low), min(a.high, b.high))


@arithmetic("Neg", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(-x.high, -x.low)


@arithmetic("Abs", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(0 if x.low <= 0 <= x.high else min(abs(x.low), abs(x.high)), x.magnitude)


@arithmetic("Sign", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval((x.low > 0) - (x.low < 0), (x.high > 0) - (x.high < 0))


@arithmetic("Relu", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(max(x.low, 0), max(x.high, 0))


@arithmetic("Floor", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(math.floor(x.low), math.floor(x.high))


@arithmetic("Ceil", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(math.ceil(x.low), math.ceil(x.high))


@arithmetic("Round", exact=True)
def _(node: Node, x: Interval) -> Known:
    return Interval(math.floor(x.low), math.ceil(x.high))


@arithmetic("Clip", exact=True)
def _(node: Node, x: Interval) -> Known:
    low, high = node.attrs.get("min", -math.inf), node.attrs.get("max", math.inf)
    if _is_int(node):
        low = math.ceil(low) if math.isfinite(low) else x.low
        high = math.floor(high) if math.isfinite(high) else x.high
    return Interval(min(max(x.low, low), high), min(max(x.high, low), high))


# ---- bits ----


def _power_above(*xs: Interval) -> int:
    return 1 << max(int(max(x.high, -x.low - 1, 0)).bit_length() for x in xs)


@arithmetic("BitwiseAnd")
def _(node: Node, a: Interval, b: Interval) -> Known:
    highs = [x.high for x in (a, b) if x.low >= 0]
    return Interval(0, min(highs)) if highs else Interval(-_power_above(a, b), _power_above(a, b) - 1)


@arithmetic("BitwiseOr", "BitwiseXor")
def _(node: Node, a: Interval, b: Interval) -> Known:
    power = _power_above(a, b)
    return Interval(0 if a.low >= 0 and b.low >= 0 else -power, power - 1)


@arithmetic("BitwiseNot")
def _(node: Node, x: Interval) -> Known:
    # Unsigned numbers have the width of their type in it.
    signed = node.outputs[0].type.dtype.numpy.kind == "i"
    return Interval(-x.high - 1, -x.low - 1) if signed else None


@arithmetic("BitShift")
def _(node: Node, a: Interval, b: Interval) -> Known:
    if b.low < 0 or b.high >= 32:
        return None
    if node.attrs["direction"] == "LEFT":
        return hull(*(x << y for x in (a.low, a.high) for y in (b.low, b.high)))
    return hull(*(x >> y for x in (a.low, a.high) for y in (b.low, b.high)))


# ---- other types ----


@transfer("Cast")
def _(node: Node, x: Known) -> Known:
    source, to = node.input(0).type.dtype, node.attrs["to"]
    if to is DType.BOOL:
        return TRUTH
    if to.is_int and source.is_float and x is not None:
        return Interval(math.trunc(x.low), math.trunc(x.high))
    return x


@transfer("Where", exact=True)
def _(node: Node, cond: Known, a: Known, b: Known) -> Known:
    return None if a is None or b is None else a | b


# ---- movement of more than one operand, and what counts places ----


@transfer("Concat")
def _(node: Node, *xs: Known) -> Known:
    return _joined(*xs)


def _joined(*xs: Known) -> Known:
    known = [x for x in xs if x is not None]
    return hull(*(n for x in known for n in (x.low, x.high))) if known and len(known) == len(xs) else None


@transfer("Pad", exact=True)
def _(node: Node, x: Known, pads: Known, value: Known = None) -> Known:
    if node.attrs.get("mode", "constant") != "constant":
        return x
    return _joined(x, value if node.has_input(2) else Interval(0, 0))


@transfer("Trilu", exact=True)
def _(node: Node, x: Known, k: Known = None) -> Known:
    return _joined(x, Interval(0, 0))


@transfer("ScatterElements", "ScatterND")
def _(node: Node, x: Known, indices: Known, updates: Known) -> Known:
    return _joined(x, updates) if node.attrs.get("reduction", "none") in ("none", "max", "min") else None


@transfer("Resize", exact=True)
def _(node: Node, x: Known, *rest: Known) -> Known:
    attrs = get("Resize").bind(len(node.inputs), node.attrs)
    inside = attrs["mode"] == "nearest" and attrs["coordinate_mode"] != "tf_crop_and_resize"
    return x if inside else None


@transfer("Fill")
def _(node: Node, shape: Known, value: Known) -> Known:
    return value


@transfer("OneHot")
def _(node: Node, indices: Known, depth: Known, values: Known) -> Known:
    return values


@transfer("EyeLike")
def _(node: Node, *xs: Known) -> Known:
    return TRUTH


@arithmetic("Range")
def _(node: Node, start: Interval, limit: Interval, delta: Interval) -> Known:
    return start | limit if _is_int(node) else None


@transfer("Shape")
def _(node: Node, x: Known) -> Known:
    shape = node.input(0).type.shape
    if not shape:
        return SIZE
    part = shape[slice(node.attrs.get("start", 0), node.attrs.get("end"))]
    return hull(*(n for d in part for n in ((d, d) if isinstance(d, int) else (0, EXTENT)))) if part else SIZE


# op list: the ops that this function is for
@transfer("Size", "NonZero", "ArgWhere", "SequenceLength")
def _(node: Node, x: Known) -> Known:
    return SIZE


@transfer("ArgMax", "ArgMin")
def _(node: Node, x: Known) -> Known:
    shape = node.input(0).type.shape
    dim = None if not shape else shape[node.attrs.get("axis", 0)]
    return Interval(0, max(dim - 1, 0)) if isinstance(dim, int) else SIZE


@transfer("NonMaxSuppression")
def _(node: Node, *xs: Known) -> Known:
    return SIZE


@transfer("TopK", "MaxPool", "Unique", exact=True)
def _(node: Node, x: Known, *rest: Known) -> list[Known]:
    return [x, *[SIZE] * (len(node.outputs) - 1)]


@transfer("GlobalMaxPool", exact=True)
def _(node: Node, x: Known) -> Known:
    return x


# ---- sums and the like ----


def _sum(x: Interval, count: int) -> Interval:
    """Of at most `count` numbers, and of each part of them."""
    return Interval(min(x.low, 0) * count, max(x.high, 0) * count)


@transfer("ReduceSum")
def _(node: Node, x: Known, at: Known = None) -> Known:
    return None if x is None else _sum(x, reduced_count(node))


@transfer("ReduceL1")
def _(node: Node, x: Known, at: Known = None) -> Known:
    return None if x is None else Interval(0, x.magnitude * reduced_count(node))


@transfer("ReduceSumSquare")
def _(node: Node, x: Known, at: Known = None) -> Known:
    return None if x is None else Interval(0, x.magnitude**2 * reduced_count(node))


@transfer("ReduceMean")
def _(node: Node, x: Known, at: Known = None) -> Known:
    # The sum must fit, too.
    return None if x is None else _sum(x, reduced_count(node))


@transfer("ReduceL2")
def _(node: Node, x: Known, at: Known = None) -> Known:
    return None if x is None else Interval(0, x.magnitude**2 * reduced_count(node))


@transfer("ReduceProd")
def _(node: Node, x: Known, at: Known = None) -> Known:
    count = reduced_count(node)
    if x is None or not _is_int(node):
        return None
    if x.magnitude <= 1:
        return Interval(min(x.low, 0), 1)
    if count > _BITS:
        return None
    most = x.magnitude**count
    return Interval(0 if x.low >= 0 else -most, most)


@transfer("ReduceMax", "ReduceMin", exact=True)
def _(node: Node, x: Known, at: Known = None) -> Known:
    # Of nothing it is the end of the type, whichever that is.
    shape = node.input(0).type.shape
    return x if shape is not None and all(isinstance(d, int) and d > 0 for d in shape) else None


@transfer("CumSum")
def _(node: Node, x: Known, axis: Known) -> Known:
    shape = node.input(0).type.shape
    longest = max((d if isinstance(d, int) else EXTENT for d in shape), default=1) if shape is not None else EXTENT
    return None if x is None else _sum(x, longest)


@arithmetic("MatMul")
def _(node: Node, a: Interval, b: Interval) -> Known:
    x = node.input(0).type
    if x.shape is None or not _is_int(node):
        return None
    places = x.shape[-2:] if node.attrs.get("transpose_a") else x.shape[-1:]
    depth = max((d if isinstance(d, int) else EXTENT for d in places), default=1)
    return _sum(_products(a, b), depth)
