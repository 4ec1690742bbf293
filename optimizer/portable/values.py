"""Small integers that are moved, converted, compared and looked up."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.portable.translation import (
    SMALL,
    NoFormError,
    Translation,
    computes,
    ends_of,
    is_small,
    on_floats,
)
from minnow.schema.ir import DType, Node, Value

# op list: those that compare or choose numbers, or cut them off at a bound: their results are numbers of the same type
_CHOOSING = (
    "MaxPool", "Max", "Min", "ReduceMax", "ReduceMin", "Relu", "Clip", "Where", "Pad", "TopK", "ScatterElements",
    "ScatterND",
)  # fmt: skip
computes(*_CHOOSING)(on_floats)


@computes("Resize")
def _(t: Translation, node: Node) -> None:
    if node.attrs.get("mode", "nearest") != "nearest":
        raise NoFormError("Resize of small integers between which it computes others")
    on_floats(t, node)


@computes("Cast")
def _(t: Translation, node: Node) -> None:
    x, to = node.input(0), node.output.type.dtype
    if is_small(x) and to not in SMALL:
        ways = {DType.F32: t.floats, DType.I32: t.ints}
        made = ways[to](x) if to in ways else t.b.Cast(t.ints(x), to=to)
        # The value may be there under another name already.
        t.set_value(node.output, t.b.Identity(made) if node.output.is_output else made)
        return
    if is_small(x) and x.type.dtype is to:
        t.set_floats(node.output, t.floats(x))
        return
    known = t.ranges.of(x)
    ends = low, high = ends_of(to)
    inside = known is not None and low <= known.low and known.high <= high
    t.set_floats(node.output, _cut(t, x) if inside or _is_clipped(x, ends) else _wrapped(t, x, ends))


def _is_clipped(x: Value, ends: tuple[int, int]) -> bool:
    maker = x.producer
    if maker is None or maker.op != "Clip":
        return False
    low, high = maker.attrs.get("min", -np.inf), maker.attrs.get("max", np.inf)
    return bool(ends[0] <= low <= high <= ends[1])


def _cut(t: Translation, x: Value) -> Value:
    """The numbers without what is behind their point."""
    if not x.type.dtype.is_float:
        return t.floats(x)
    whole = t.b.Cast(t.floats(x), to=DType.I32)
    made: Value = t.b.Cast(whole, to=DType.F32)
    return made


def _wrapped(t: Translation, x: Value, ends: tuple[int, int]) -> Value:
    """The lowest bits of the numbers, as the type holds them."""
    whole = t.b.Cast(t.floats(x), to=DType.I32) if x.type.dtype.is_float else t.ints(x)
    span, low = np.int32(ends[1] - ends[0]), np.int32(ends[0])
    rest = t.b.BitwiseAnd(t.b.Sub(whole, low) if low else whole, span)
    return t.plus(t.b.Cast(rest, to=DType.F32), float(low))


@computes("Gather")
def _(t: Translation, node: Node) -> None:
    table, y = node.input(0), node.output
    if table.data is None or table.type.dtype not in (DType.I8, DType.U8):
        on_floats(t, node)
        return
    # Only the rows of a run become floats: the table stays as small as it is, and both graphs have it.
    rows = t.b.Gather(Value(table.type, table.name, table.data), t.value(node.input(1)), **node.attrs)
    t.set_floats(y, t.b.Cast(rows, to=DType.F32))


@computes("LookUp")
def _(t: Translation, node: Node) -> None:
    x, table = node.input(0), node.input(1)
    at = t.place(x)
    kind = table.type.dtype
    if is_small(table):
        t.set_floats(node.output, t.b.Gather(t.floats(table), at, axis=0))
    elif kind in (DType.F32, DType.I32):
        t.set_value(node.output, t.b.Gather(t.value(table), at, axis=0))
    elif kind is DType.BOOL:
        numbers = t.b.Gather(t.b.Cast(t.value(table), to=DType.I32), at, axis=0)
        t.set_value(node.output, t.b.Cast(numbers, to=DType.BOOL))
    else:
        raise NoFormError(f"LookUp of {kind}")
    t.in_floats(node)
