"""Small integers that are moved, converted, compared and looked up."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.portable.translation import SMALL, NoFormError, Translation, computes, is_small, on_floats
from minnow.schema.ir import DType, Node, Value

_WHOLE = 2.0**24
"""f32 holds all integers up to this one."""

# op list: those that compare or choose numbers, or cut them off at a bound: their results are numbers of the same type
_CHOOSING = (
    "MaxPool", "Max", "Min", "ReduceMax", "ReduceMin", "Relu", "Clip", "Where", "Pad", "TopK", "ScatterElements",
    "ScatterND",
)  # fmt: skip
computes(*_CHOOSING)(on_floats)


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
    info = np.iinfo(to.numpy)  # type: ignore[type-var]
    inside = known is not None and info.min <= known.low and known.high <= info.max
    t.set_floats(node.output, _cut(t, x) if inside or _is_clipped(x, info) else _wrapped(t, x, info))


def _is_clipped(x: Value, info: np.iinfo) -> bool:  # type: ignore[type-arg]
    maker = x.producer
    if maker is None or maker.op != "Clip":
        return False
    low, high = maker.attrs.get("min", -np.inf), maker.attrs.get("max", np.inf)
    return bool(info.min <= low <= high <= info.max)


def _cut(t: Translation, x: Value) -> Value:
    """The numbers without what is behind their point."""
    if not x.type.dtype.is_float:
        return t.floats(x)
    whole = t.b.Cast(t.floats(x), to=DType.I32)
    return t.b.Cast(whole, to=DType.F32)


def _wrapped(t: Translation, x: Value, info: np.iinfo) -> Value:  # type: ignore[type-arg]
    """The lowest bits of the numbers, as the type holds them."""
    whole = t.b.Cast(t.floats(x), to=DType.I32) if x.type.dtype.is_float else t.ints(x)
    span = np.int32(info.max - info.min)
    low = np.int32(info.min)
    rest = t.b.BitwiseAnd(t.b.Sub(whole, low) if low else whole, span)
    return t.plus(t.b.Cast(rest, to=DType.F32), float(low))


@computes("LookUp")
def _(t: Translation, node: Node) -> None:
    x, table = node.input(0), node.input(1)
    lowest = int(np.iinfo(x.type.dtype.numpy).min)  # type: ignore[type-var]
    at = t.ints(x)
    if lowest:
        at = t.b.Sub(at, np.int32(lowest))
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
    t.made.in_floats[node.op] += 1
