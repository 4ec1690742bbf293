"""Rounding to small integers and back, and sums of products, in floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.portable.sharing import LEAST_STORED, ExpandedBlob, signed
from minnow.optimizer.portable.translation import SMALL, NoFormError, Translation, computes, ends_of, is_small
from minnow.schema.ir import Blob, DType, Node, Value
from minnow.schema.ops import window

Array = np.ndarray[Any, Any]
_LARGEST = float(np.nextafter(np.float32(2**31), np.float32(0)))
"""The largest f32 that an i32 holds."""


def _limits(dtype: DType) -> tuple[float, float]:
    if dtype not in SMALL and dtype is not DType.I32:
        raise NoFormError(f"rounding to {dtype}")
    low, high = ends_of(dtype)
    return max(float(low), -_LARGEST), min(float(high), _LARGEST)


def finished(t: Translation, node: Node, y: Value, least: float | None = None, most: float | None = None) -> None:
    """Sets what a node gives: whole numbers, within the limits of its type or narrower ones."""
    to = node.output.type.dtype
    low, high = _limits(to)
    low, high = (low if least is None else max(low, least)), (high if most is None else min(high, most))
    y = t.b.Clip(y, min=low, max=high)
    if is_small(node.output):
        t.set_floats(node.output, y)
    else:
        t.set_value(node.output, t.b.Cast(y, to=to))
    t.in_floats(node)


def _along(t: Translation, v: Value, node: Node, x: Value) -> Value:
    """Scales or zero points as floats that are broadcast along `axis`."""
    numbers = t.floats(v)
    if v.type.count == 1:
        return t.b.Reshape(numbers, np.zeros(0, np.int64)) if v.type.rank else numbers
    if x.type.rank is None or node.attrs.get("block_size"):
        raise NoFormError(f"{node.op} with scales of blocks")
    axis = node.attrs.get("axis", 1) % x.type.rank
    shape = np.array([-1 if i == axis else 1 for i in range(x.type.rank)])
    made: Value = t.b.Reshape(numbers, shape)
    return made


def _is_f32(*values: Value | None) -> bool:
    return all(v is None or v.type.dtype is DType.F32 for v in values)


@computes("QuantizeLinear")
def _(t: Translation, node: Node) -> None:
    x, scale = node.input(0), node.input(1)
    if node.attrs.get("block_size") or not _is_f32(x, scale) or node.attrs.get("precision") not in (None, DType.F32):
        raise NoFormError("QuantizeLinear of other floats than f32, or of blocks")
    y = t.b.Round(t.b.Div(t.value(x), _along(t, scale, node, x)))
    if node.has_input(2):
        y = t.b.Add(y, _along(t, node.input(2), node, x))
    finished(t, node, y)


@computes("DequantizeLinear")
def _(t: Translation, node: Node) -> None:
    x, scale = node.input(0), node.input(1)
    if node.attrs.get("block_size") or not _is_f32(scale) or node.output.type.dtype is not DType.F32:
        raise NoFormError("DequantizeLinear to other floats than f32, or of blocks")
    y = t.floats(x)
    if node.has_input(2):
        y = t.b.Sub(y, _along(t, node.input(2), node, x))
    t.set_value(node.output, t.b.Mul(y, _along(t, scale, node, x)))
    t.in_floats(node)


@computes("DynamicQuantizeLinear")
def _(t: Translation, node: Node) -> None:
    if node.attrs.get("steps"):
        raise NoFormError("DynamicQuantizeLinear with a number of steps")
    x = t.value(node.input(0))
    low = t.b.Min(t.b.ReduceMin(x, keepdims=False), np.float32(0))
    high = t.b.Max(t.b.ReduceMax(x, keepdims=False), np.float32(0))
    span = t.b.Div(t.b.Sub(high, low), np.float32(255))
    scale = t.b.Where(t.b.Equal(high, low), np.float32(1), span)
    zero = t.b.Round(t.b.Clip(t.b.Div(t.b.Neg(low), scale), min=0.0, max=255.0))
    y = t.b.Clip(t.b.Add(t.b.Round(t.b.Div(x, scale)), zero), min=0.0, max=255.0)
    t.set_floats(node.outputs[0], y)
    t.set_value(node.outputs[1], scale)
    t.set_floats(node.outputs[2], zero)
    t.in_floats(node)


def scaled(t: Translation, node: Node, sums: Value, factor: Value, last: Value | None) -> None:
    """Ends a layer: sums times factors as small integers, in the two ways of QuantizedConv."""
    if factor.type.dtype is DType.F32:
        y = t.b.Round(t.b.Mul(sums, t.value(factor)))
        finished(t, node, y if last is None else t.b.Add(y, t.floats(last)))
        return
    assert last is not None
    _ended(t, node, t.b.Mul(sums, factor_of(t, factor, t.value(last))))


def _ended(t: Translation, node: Node, real: Value) -> None:
    """Rounds to what Requantize and its like give."""
    y, attrs = t.b.Round(real, halves="away"), node.attrs
    finished(t, node, t.plus(y, float(attrs.get("zero", 0))), attrs.get("min", 0), attrs.get("max", 0))


def factor_of(t: Translation, multiplier: Value, shift: Value) -> Value:
    """multiplier * 2**(shift - 31): a value of the old graph, and one of the new graph."""
    if multiplier.array is not None and shift.array is not None:
        number = multiplier.array.astype(np.float64) * 2.0 ** (shift.array.astype(np.float64) - 31)
        return t.b.const(number.astype(np.float32))
    powers = 2.0 ** (np.arange(-31, 32, dtype=np.float64) - 31)
    at = t.b.Max(t.b.Add(shift, np.int32(31)), np.int32(0))
    made: Value = t.b.Mul(
        t.b.Cast(t.value(multiplier), to=DType.F32), t.b.Gather(powers.astype(np.float32), at, axis=0)
    )
    return made


@computes("Requantize")
def requantize(t: Translation, node: Node) -> None:
    x, multiplier, shift = (node.input(i) for i in range(3))
    if x.type.dtype is not DType.I32:
        _requantize_long(t, node)
        return
    if not _may_wrap(t, x, shift):
        scaled(t, node, t.floats(x), multiplier, shift)
        return
    # What is shifted left wraps, as integers do.
    if shift.array is None:
        left, right = (f(t.value(shift), np.int32(0)) for f in (t.b.Max, t.b.Min))
    else:
        left, right = (t.b.const(f(shift.array, 0).astype(np.int32)) for f in (np.maximum, np.minimum))
    shifted = t.b.BitShift(t.value(x), left, direction="LEFT")
    _ended(t, node, t.b.Mul(t.b.Cast(shifted, to=DType.F32), factor_of(t, multiplier, right)))


def _requantize_long(t: Translation, node: Node) -> None:
    """Sums of i64, whose factors have 15 bits: in floats, these have more bits than the result."""
    x, multiplier, shift = node.input(0), node.input(1).array, node.input(2).array
    if multiplier is None or shift is None or node.output.type.dtype is DType.I32:
        raise NoFormError("Requantize of i64 to i32, or by computed factors")
    wide = multiplier.astype(np.int64)
    reduced = np.where(wide < 0x7FFF0000, (wide + (1 << 15)) >> 16, 0x7FFF)
    factor = reduced * 2.0 ** (shift.astype(np.float64) - 15)
    _ended(t, node, t.b.Mul(_long(t, x), factor.astype(np.float32)))


def _long(t: Translation, x: Value) -> Value:
    """Sums of i64 as floats: how they are made of narrower integers, done with floats."""
    maker = x.producer
    if x.array is not None:
        return t.b.const(x.array.astype(np.float32))
    if x.type.dtype is not DType.I64:
        return t.floats(x)
    # op list: what sums of more than 32 bits are made of
    if maker is None or maker.op not in ("Add", "Sub", "Mul", "Cast", "Reshape", "Transpose"):
        raise NoFormError("Requantize of i64 that is no sum of narrower integers")
    first = _long(t, maker.input(0))
    if maker.op == "Cast":
        return first
    rest = [t.value(v) if maker.op == "Reshape" else _long(t, v) for v in maker.inputs[1:] if v is not None]
    return t.b.node(maker.op, [first, *rest], maker.attrs).output


def _may_wrap(t: Translation, x: Value, shift: Value) -> bool:
    """Whether numbers that are shifted left may need more than 32 bits."""
    most = None if shift.array is None else int(shift.array.max(initial=0))
    known = t.ranges.of(x)
    return most is None or (most > 0 and (known is None or known.magnitude * 2.0**most >= 2.0**31))


def sums(t: Translation, node: Node) -> Value:
    """The sums of products of a layer, in floats."""
    x, w = (_centered(t, node, i) for i in (0, 1))
    if node.op.endswith("MatMul") or node.op.startswith("MatMul"):
        total: Value = t.b.MatMul(x, w)
    else:
        total = t.b.Conv(x, w, **window_of(node))
    return total


def window_of(node: Node) -> dict[str, Any]:
    """The attributes of the window of a layer, whose padding is in numbers where the sizes are known."""
    attrs = {k: v for k, v in node.attrs.items() if k in ("strides", "pads", "dilations", "group", "auto_pad")}
    sizes, kernel = node.input(0).type.shape, node.input(1).type.shape
    if attrs.get("auto_pad") and sizes is not None and kernel is not None:
        known = [d for d in (*sizes[2:], *kernel[2:]) if isinstance(d, int)]
        n = len(sizes) - 2
        if len(known) == 2 * n:
            span = window.spread(known[n:], attrs["dilations"])
            ends = window.resolve(known[:n], span, attrs["strides"], attrs["pads"], attrs.pop("auto_pad"))
            attrs["pads"] = tuple(e[side] for side in (0, 1) for e in ends)
    return attrs


def _centered(t: Translation, node: Node, i: int) -> Value:
    """An operand minus its zero points."""
    x, zero = node.input(i), node.input(i + 2) if node.has_input(i + 2) else None
    if i == 1 and "MatMul" in node.op and x.data is not None and (x.type.count or 0) >= LEAST_STORED:
        return _stored(t, x.data, x, zero)
    if zero is None or (zero.array is not None and not zero.array.any()):
        return t.floats(x)
    shape: tuple[int, ...] = () if zero.type.count == 1 else (-1,)
    if shape and i == 1 and "Conv" in node.op:
        shape = (-1, *(1,) * ((x.type.rank or 0) - 1))
    if shape and i == 0:
        shape = (-1, 1)
    if x.array is not None and zero.array is not None:
        wide = x.array.astype(np.float32) - zero.array.astype(np.float32).reshape(shape)
        return Value.constant(wide, x.name)
    made: Value = t.b.Sub(t.floats(x), t.b.Reshape(t.floats(zero), np.array(shape, np.int64)))
    return made


def _stored(t: Translation, blob: Blob, x: Value, zero: Value | None) -> Value:
    """Weights of a product, minus their zero points. The file has the same integers for both graphs."""
    shift = 0
    if blob.dtype is DType.U8:
        blob, shift = signed(blob), 128
    numbers = Value.constant(ExpandedBlob(blob), x.name)
    if zero is None:
        return t.plus(numbers, float(shift))
    if zero.array is None:
        made: Value = t.b.Sub(numbers, t.plus(t.floats(zero), float(-shift)))
        return made
    middle = zero.array.astype(np.float32) - np.float32(shift)
    return t.b.Sub(numbers, middle) if middle.any() else numbers


@computes("QuantizedSoftmax")
def _(t: Translation, node: Node) -> None:
    x, exps, to = t.floats(node.input(0)), t.floats(node.input(1)), node.output.type.dtype
    below = t.b.Sub(t.b.ReduceMax(x, axes=(-1,), keepdims=True), x)
    each = t.b.Gather(exps, t.b.Cast(below, to=DType.I32), axis=0)
    real = t.b.Div(each, t.b.ReduceSum(each, axes=(-1,), keepdims=True))
    y = t.b.Round(t.b.Mul(real, np.float32(2.0**to.bits)), halves="away")
    finished(t, node, t.plus(y, _limits(to)[0]))


@computes("ConvInteger", "MatMulInteger")
def _(t: Translation, node: Node) -> None:
    finished(t, node, sums(t, node))


@computes("DynamicLinear")
def _(t: Translation, node: Node) -> None:
    raise NoFormError("DynamicLinear")
