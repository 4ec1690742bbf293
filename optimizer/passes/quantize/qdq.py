"""Layers between DequantizeLinear and QuantizeLinear, which say what numbers mean: they compute with the integers.

Sums are exact then, where floats round: a result that lies between two numbers may become the other one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder, Trait, all_ops
from minnow.schema.ops.resize import computes_between

_BYTES = (DType.I8, DType.U8)
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Meaning:
    """What integers mean: (number - zero) * scale, one of each, or one for each place along an axis."""

    numbers: Value
    scale: Array
    zero: Array
    axis: int

    @property
    def is_one(self) -> bool:
        return self.scale.size == 1 and self.zero.size == 1


def _constants(node: Node) -> tuple[Array, Array] | None:
    """Scale and zero point, when they are constant floats of 32 bits and integers."""
    scale, zero = node.input(1).array, node.input(2).array if node.has_input(2) else np.zeros((), np.int64)
    if scale is None or zero is None or scale.dtype != np.float32 or node.attrs.get("block_size"):
        return None
    if not np.isfinite(scale.astype(np.float64)).all():
        return None
    return scale.astype(np.float64), zero.astype(np.int64)


def meaning(value: Value | None) -> Meaning | None:
    """What the integers mean that a value is made of; None where it is not made of bytes that way."""
    node = None if value is None else value.producer
    if node is None or node.op != "DequantizeLinear" or node.input(0).type.dtype not in _BYTES:
        return None
    if node.output.type.dtype is not DType.F32 or (found := _constants(node)) is None:
        return None
    return Meaning(node.input(0), *found, node.attrs.get("axis", 1))


def end_of(node: Node, kinds: tuple[DType, ...] = _BYTES) -> tuple[float, int] | None:
    """Scale and zero point of a QuantizeLinear to bytes, or to other integers."""
    found = _constants(node)
    if found is None or found[0].size != 1 or found[1].size != 1 or node.output.type.dtype not in kinds:
        return None
    scale, zero = float(found[0].reshape(())), int(found[1].reshape(()))
    return (scale, zero) if scale > 0 and np.isfinite(scale) and not node.attrs.get("precision") else None


def _limits(dtype: DType) -> tuple[int, int]:
    numpy: Any = dtype.numpy
    return int(np.iinfo(numpy).min), int(np.iinfo(numpy).max)


def saturates(m: Match, scale: float, zero: int) -> bool:
    """The activation in front of the end, if there is one, does nothing that saturation does not do."""
    node: Node | None = m.bound.get("activation")
    if node is None or m.end.output.type.dtype not in _BYTES:  # those of 16 bits have limits of their own
        return True
    low, high = _limits(m.end.output.type.dtype)
    least, most = (
        (0.0, np.inf) if node.op == "Relu" else (node.attrs.get("min", -np.inf), node.attrs.get("max", np.inf))
    )
    return bool(np.rint(least / scale) + zero <= low and np.rint(most / scale) + zero >= high)


_RESULTS = (*_BYTES, DType.I16)


def last_operands(
    m: Match, factor: Array, scale: float, zero: int, shape: tuple[int, ...]
) -> tuple[list[Array], dict[str, Any]]:
    """What makes a result of the sums of a layer: its last operands, and attributes.

    Args:
        factor: from sums to steps of the result, f64[outputs].
        scale, zero: of the result.
        shape: of the factors.
    """
    to = m.end.output.type.dtype
    if to in _BYTES:
        return [factor.astype(np.float32).reshape(shape), np.asarray(zero).astype(to.numpy)], {"to": to}
    low, high = _limits(to)
    node: Node | None = m.bound.get("activation")
    if node is not None:
        least, most = (
            (0.0, np.inf) if node.op == "Relu" else (node.attrs.get("min", -np.inf), node.attrs.get("max", np.inf))
        )
        low = int(max(low, np.rint(least / scale) + zero))
        high = int(min(high, np.rint(most / scale) + zero))
    fixed = [a.reshape(shape) for a in _fixed(factor)]
    return fixed, {"to": to, "zero": zero, "min": low, "max": high}


def ended(p: Any, x: Any) -> Any:
    inside = p.Relu(x, as_="activation") | p.Clip(x, as_="activation") | x
    return p.QuantizeLinear(inside, p.const("step"), ..., as_="end")


def _numbers(value: Value) -> Array | None:
    """The contents of a small constant, or of one that is made of constant integers."""
    node = value.producer
    if node is None or node.op != "DequantizeLinear":
        return value.array
    found, numbers = _constants(node), node.input(0).array
    if found is None or numbers is None or numbers.ndim != 1:
        return None
    return (numbers.astype(np.float64) - found[1].reshape(-1)) * found[0].reshape(-1)


def whole_bias(bias: Value | None, unit: Array, m: Match) -> Array | None:
    """A bias in units of the sums, None where it has other parts than whole ones."""
    array = None if bias is None else _numbers(bias)
    if array is None:
        m.no("the bias is computed")
        return None
    with np.errstate(all="ignore"):
        exact = array.astype(np.float64).reshape(-1) / unit.reshape(-1)
    whole = np.rint(exact)
    if not (np.abs(exact - whole) <= 1e-3 + 1e-6 * np.abs(whole)).all() or np.abs(whole).max(initial=0) >= 2**31:
        m.no("the bias is no whole number of steps")
        return None
    return whole.astype(np.int32)


@rewrite(lambda p, x, w: ended(p, p.Conv(x, w, ..., as_="conv")), shared=True)
def quantize_conv(b: Builder, m: Match) -> Value | None:
    """A convolution of integers whose result becomes integers.

    Given:
        graph g(%x: u8[1,2,2,2]) {
          %a: f32[1,2,2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %w: f32[2,2,1,1] = DequantizeLinear(i8[2,2,1,1](4, -3, 2, 1), f32[2](0.25, 0.5)) {axis=0}
          %c: f32[1,2,2,2] = Conv(%a, %w, f32[2](0.5, -1.25)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %d: f32[1,2,2,2] = Relu(%c)
          %y: u8[1,2,2,2] = QuantizeLinear(%d, f32[](0.375), u8[](0))
          return %y
        }
    Result:
        graph g(%x: u8[1,2,2,2]) {
          %y: u8[1,2,2,2] = QuantizedConv(%x, i8[2,2,1,1](4, -3, 2, 1), u8[](3), _, i32[2,1,1](4, -5), f32[2,1,1](0.33333334, 0.6666667), u8[](0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), to=u8}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    if len(conv.output.uses) != 1 or ("activation" in m.bound and len(m.activation.output.uses) != 1):
        return m.no("others read what the integers mean")
    x, w, end = meaning(m.x), meaning(m.w), end_of(m.end, _RESULTS)
    if x is None or w is None or end is None or not x.is_one or w.numbers.data is None:
        return m.no("input, weights or result are not made of bytes with constant scales")
    if not saturates(m, *end) or conv.attrs.get("activation") or conv.has_input(3):
        return m.no("saturation does not do what the activation does")
    outs, rank = w.numbers.type.static_shape[0], len(w.numbers.type.static_shape)
    if (w.scale.size != 1 and (w.axis % rank != 0 or w.scale.size != outs)) or w.zero.size not in (1, w.scale.size):
        return m.no("the scales of the weights do not go along the channels")
    unit = (x.scale.reshape(()) * np.broadcast_to(w.scale.reshape(-1), (outs,))).astype(np.float64)
    shape = (outs, *(1,) * (rank - 2))
    bias: Array | None = None
    if conv.has_input(2):
        bias = whole_bias(conv.input(2), unit, m)
        if bias is None:
            return None
        bias = bias.reshape(shape)
    zeros = w.zero.astype(w.numbers.type.dtype.numpy).reshape(-1) if w.zero.any() else None
    scale, zero = end
    attrs = {k: v for k, v in conv.attrs.items() if k in ("strides", "pads", "dilations", "group", "auto_pad")}
    last, more = last_operands(m, unit / scale, scale, zero, shape)
    return b.QuantizedConv(
        x.numbers,
        w.numbers,
        x.zero.reshape(()).astype(x.numbers.type.dtype.numpy),
        None if zeros is None else zeros.reshape(()) if zeros.size == 1 else zeros,
        bias,
        *last,
        **attrs,
        **more,
    )


def _fixed(factor: Array) -> tuple[Array, Array]:
    """Multipliers and shifts of Requantize for real factors."""
    fraction, exponent = np.frexp(factor)
    multiplier = np.rint(fraction * 2.0**31).astype(np.int64)
    over = multiplier == 2**31
    return np.where(over, 2**30, multiplier).astype(np.int32), (exponent + over).astype(np.int32)


@rewrite(
    lambda p, x, w: ended(
        p, p.Add(p.MatMul(x, w, as_="product"), p.any("bias")) | p.MatMul(x, w, as_="product")
    ),
    shared=True,
)  # fmt: skip
def quantize_matmul(b: Builder, m: Match) -> Value | None:
    """A product of integers with constant weights, whose result becomes integers.

    Given:
        graph g(%x: u8[3,2]) {
          %a: f32[3,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %w: f32[2,2] = DequantizeLinear(i8[2,2](4, -3, 2, 1), f32[](0.25))
          %c: f32[3,2] = MatMul(%a, %w)
          %d: f32[3,2] = Add(%c, f32[2](0.5, -1.0))
          %y: u8[3,2] = QuantizeLinear(%d, f32[](0.375), u8[](7))
          return %y
        }
    Result:
        graph g(%x: u8[3,2]) {
          %y: u8[3,2] = QuantizedMatMul(%x, i8[2,2](4, -3, 2, 1), u8[](3), _, i32[2](4, -8), f32[2](0.33333334, 0.33333334), u8[](7)) {to=u8}
          return %y
        }
    """  # noqa: E501
    product: Node = m.product
    inner = [m.root.input(0).producer, product]
    if any(n is not None and len(n.output.uses) != 1 for n in inner):
        return m.no("others read what the integers mean")
    x, w, end = meaning(m.x), meaning(m.w), end_of(m.end, _RESULTS)
    if x is None or w is None or end is None or not x.is_one or w.numbers.data is None:
        return m.no("input, weights or result are not made of bytes with constant scales")
    if (x.numbers.type.rank or 0) < 2:
        return m.no("the input is a vector, or its rank is not known")
    if not saturates(m, *end) or product.attrs.get("transpose_a") or w.numbers.type.rank != 2:
        return m.no("saturation does not do what the activation does, or the operands are no plain matrices")
    turned = product.attrs.get("transpose_b", False)
    outs = w.numbers.type.static_shape[0 if turned else 1]
    if (w.scale.size != 1 and w.axis % 2 != (0 if turned else 1)) or w.zero.size not in (1, w.scale.size):
        return m.no("the scales of the weights do not go along the columns")
    unit = (x.scale.reshape(()) * np.broadcast_to(w.scale.reshape(-1), (outs,))).astype(np.float64)
    bias: Array | None = None
    if "bias" in m.bound:
        shape, numbers = m.bias.type.shape, _numbers(m.bias)
        if numbers is None or shape is None or any(d != 1 for d in shape[:-1]) or len(shape) > (m.x.type.rank or 0):
            return m.no("the summand is not one number for each column, or computed")
        if numbers.size not in (1, outs):
            return m.no("the summand is not one number for each column")
        flat = Value.constant(np.broadcast_to(numbers.reshape(-1), (outs,)).copy())
        bias = whole_bias(flat, unit, m)
        if bias is None:
            return None
    weights = w.numbers
    if turned:
        weights = Value.constant(np.ascontiguousarray(w.numbers.data.numpy().T), w.numbers.name)
    zeros = w.zero.astype(weights.type.dtype.numpy).reshape(-1) if w.zero.any() else None
    last, more = last_operands(m, unit / end[0], *end, (outs,))
    return b.QuantizedMatMul(
        x.numbers,
        weights,
        x.zero.reshape(()).astype(x.numbers.type.dtype.numpy),
        None if zeros is None else zeros.reshape(()) if zeros.size == 1 else zeros,
        bias,
        *last,
        **more,
    )


@rewrite(lambda p, x, y: ended(p, p.MatMul(x, y, as_="product")), shared=True)
def quantize_product(b: Builder, m: Match) -> Value | None:
    """A product of two computed matrices of integers whose result becomes integers, as in attention.

    Given:
        graph g(%x: u8[3,2], %y: u8[2,2]) {
          %a: f32[3,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[2,2] = DequantizeLinear(%y, f32[](0.25), u8[](128))
          %c: f32[3,2] = MatMul(%a, %b)
          %z: u8[3,2] = QuantizeLinear(%c, f32[](0.375), u8[](7))
          return %z
        }
    Result:
        graph g(%x: u8[3,2], %y: u8[2,2]) {
          %z: u8[3,2] = QuantizedMatMul(%x, %y, u8[](3), u8[](128), _, f32[1](0.33333334), u8[](7)) {to=u8}
          return %z
        }
    """
    product: Node = m.product
    if len(product.output.uses) != 1 or ("activation" in m.bound and len(m.activation.output.uses) != 1):
        return m.no("others read what the integers mean")
    x, y, end = meaning(m.x), meaning(m.y), end_of(m.end)
    if x is None or y is None or end is None or not x.is_one or not y.is_one:
        return m.no("operands or result are not made of bytes with one constant scale")
    if y.numbers.data is not None:
        return m.no("the second matrix is constant: another rule knows more of it")
    if (x.numbers.type.rank or 0) < 2 or (y.numbers.type.rank or 0) < 2:
        return m.no("an operand is a vector, or its rank is not known")
    if not saturates(m, *end) or product.attrs.get("transpose_a") or product.attrs.get("transpose_b"):
        return m.no("saturation does not do what the activation does, or a matrix is transposed")
    zeros = [v.zero.reshape(()).astype(v.numbers.type.dtype.numpy) for v in (x, y)]
    last, more = last_operands(m, (x.scale * y.scale / end[0]).reshape(1), *end, (1,))
    return b.QuantizedMatMul(x.numbers, y.numbers, *zeros, None, *last, **more)


_FRACTION = 20
"""Bits behind the point of the numbers that are added up; there are 10 in front of it, and a sign."""


@rewrite(lambda p, x, y: ended(p, p.Add(x, y, as_="sum")), shared=True)
def quantize_sum(b: Builder, m: Match) -> Value | None:
    """A sum of integers whose result becomes integers.

    Given:
        graph g(%x: u8[2,2], %y: i8[2,2]) {
          %a: f32[2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[2,2] = DequantizeLinear(%y, f32[](0.25), i8[](0))
          %c: f32[2,2] = Add(%a, %b)
          %z: u8[2,2] = QuantizeLinear(%c, f32[](0.375), u8[](7))
          return %z
        }
    Result:
        graph g(%x: u8[2,2], %y: i8[2,2]) {
          %0: i32[256] = Range(i32[](-3), i32[](253), i32[](1))
          %1: i32[256] = Requantize(%0, i32[](1431655765), i32[](21)) {to=i32, min=-2147483648, max=2147483647}
          %2: i32[256] = Range(i32[](-128), i32[](128), i32[](1))
          %3: i32[256] = Requantize(%2, i32[](1431655765), i32[](20)) {to=i32, min=-2147483648, max=2147483647}
          %z: u8[2,2] = QuantizedSum(%x, i32[](1073741824), i32[](-19), %1, %y, %3) {zero=7, to=u8, min=0, max=255}
          return %z
        }
    """
    if len(m.sum.output.uses) != 1 or ("activation" in m.bound and len(m.activation.output.uses) != 1):
        return m.no("others read what the integers mean")
    x, y, end = meaning(m.x), meaning(m.y), end_of(m.end)
    if x is None or y is None or end is None or not x.is_one or not y.is_one:
        return m.no("operands or result are not made of bytes with one constant scale")
    shape = m.end.output.type.shape
    if shape is None or x.numbers.type.shape != shape or y.numbers.type.shape != shape or not m.x.type.is_static:
        return m.no("the shapes differ, or are not known")
    if not saturates(m, *end):
        return m.no("saturation does not do what the activation does")
    tables = []
    for part in (x, y):
        low, high = _limits(part.numbers.type.dtype)
        zero, factor = int(part.zero.reshape(())), part.scale.reshape(()) / end[0]
        if max(high - zero, zero - low) * abs(factor) >= 2**9 or abs(factor) < 2.0**-50:
            return m.no("the steps of an operand are much larger than those of the result, or much smaller")
        numbers = b.Range(*(np.int32(n) for n in (low - zero, high + 1 - zero, 1)))
        ends = {"to": DType.I32, "min": -(2**31), "max": 2**31 - 1}
        tables.append(b.Requantize(numbers, *_fixed(factor * 2.0**_FRACTION), **ends))
    low, high = _limits(m.end.output.type.dtype)
    step = np.int32(2**30), np.int32(1 - _FRACTION)
    ends = {"zero": end[1], "to": m.end.output.type.dtype, "min": low, "max": high}
    return b.QuantizedSum(x.numbers, *step, tables[0], y.numbers, tables[1], **ends)


_OF_BYTES = [op for op in all_ops() if Trait.ELEMENTWISE in op.traits and len(op.operand_names) <= 2]


def _function(p: Any, x: Any) -> Any:
    calls = [getattr(p, op.name)(x, as_="function") for op in _OF_BYTES if len(op.operand_names) == 1]
    calls += [getattr(p, op.name)(x, p.const("k"), as_="function") for op in _OF_BYTES if len(op.operand_names) == 2]
    calls += [getattr(p, op.name)(p.const("k"), x, as_="function") for op in _OF_BYTES if len(op.operand_names) == 2]
    calls.append(p.QuantizeLinear(x, p.const("k"), ..., as_="function"))
    return reduce(or_, calls)


@rewrite(lambda p, x: _function(p, p.DequantizeLinear(x, p.const("step"), ..., as_="begin")), shared=True)
def tabulate_function(b: Builder, m: Match) -> Value | None:
    """A function of what bytes mean is a table of 256 numbers.

    Given:
        graph g(%x: u8[20,20]) {
          %a: f32[20,20] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[20,20] = Sigmoid(%a)
          return %b
        }
    Result:
        graph g(%x: u8[20,20]) {
          %0: i32[256] = Range(i32[](0), i32[](256), i32[](1))
          %1: u8[256] = Cast(%0) {to=u8}
          %2: f32[256] = DequantizeLinear(%1, f32[](0.5), u8[](3))
          %3: f32[256] = Sigmoid(%2)
          %b: f32[20,20] = LookUp(%x, %3)
          return %b
        }
    """
    x: Meaning | None = meaning(m.begin.output)
    if x is None or not x.is_one:
        return m.no("it is not made of bytes with one constant scale")
    maker = x.numbers.producer
    listed = None if maker is None or maker.op != "Cast" else maker.input(0).producer
    if x.numbers.is_const or (listed is not None and listed.op == "Range"):
        return m.no("it is a table, which will be computed before the model runs")
    node: Node = m.function
    others = [v for v in node.inputs if v is not None and v is not m.begin.output]
    if any(v.data is None or v.type.count != 1 for v in others):
        return m.no("it takes more than one number beside them")
    table = meanings(b, x, m.begin)
    scalars = [table if v is m.begin.output else v if v is None else _scalar(v) for v in node.inputs]
    return b.LookUp(x.numbers, b.node(node.op, scalars, node.attrs).output)


def meanings(b: Builder, x: Meaning, begin: Node) -> Value:
    """What each of the integers means."""
    low, high = _limits(x.numbers.type.dtype)
    numbers = b.Cast(b.Range(np.int32(low), np.int32(high + 1), np.int32(1)), to=x.numbers.type.dtype)
    return b.node("DequantizeLinear", [numbers, *begin.inputs[1:]], begin.attrs).output


def _scalar(value: Value) -> Value:
    assert value.data is not None
    return value if value.type.rank == 0 else Value.constant(value.data.numpy().reshape(()), value.name)


# op list: those that only move or choose among the numbers of their first operand
_VIEWS = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "MaxPool", "Expand", "Gather", "Resize")


_MOST_VIEWS = 8


def _view(p: Any, x: Any) -> Any:
    return reduce(or_, [getattr(p, name)(x, ..., as_="view") for name in _VIEWS])


@rewrite(
    lambda p, x: p.QuantizeLinear(
        _view(p, p.DequantizeLinear(x, p.const("step"), ..., as_="begin")), p.const("last"), ..., as_="end"
    ),
    shared=True,
)
def move_integers(b: Builder, m: Match) -> Value | None:
    """What is only moved between integers of one meaning is moved as integers.

    Given:
        graph g(%x: u8[2,3]) {
          %a: f32[2,3] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[3,2] = Transpose(%a) {perm=(1, 0)}
          %y: u8[3,2] = QuantizeLinear(%b, f32[](0.5), u8[](3))
          return %y
        }
    Result:
        graph g(%x: u8[2,3]) {
          %y: u8[3,2] = Transpose(%x) {perm=(1, 0)}
          return %y
        }
    """
    return _moved(b, m, m.begin, m.view)


def _moved(b: Builder, m: Match, begin: Node, *views: Node) -> Value | None:
    """The integers where these nodes, the first one first, move them."""
    x, end = meaning(begin.output), end_of(m.end)
    if x is None or end is None or not x.is_one or any(len(v.outputs) > 1 for v in views):
        return m.no("it is not made of bytes, or does not become bytes, with one constant scale")
    if (
        float(x.scale.reshape(())),
        int(x.zero.reshape(())),
    ) != end or x.numbers.type.dtype is not m.end.output.type.dtype:
        return m.no("the integers mean something else behind it")
    if any(v.op == "Resize" and computes_between(v) for v in views):
        return m.no("numbers between those that there are would be computed")
    old, new = begin.output, x.numbers
    for view in views:
        moved = b.node(view.op, [new if v is old else v for v in view.inputs], view.attrs).output
        old, new = view.output, moved
    return new


@rewrite(lambda p: p.QuantizeLinear(_view(p, p.any("moved")), p.const("last"), ..., as_="end"), shared=True)
def move_integers_far(b: Builder, m: Match) -> Value | None:
    """What is moved by several nodes between integers of one meaning is moved as integers.

    Given:
        graph g(%x: u8[2,1,3]) {
          %a: f32[2,1,3] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[2,4,3] = Expand(%a, i64[3](2, 4, 3))
          %c: f32[8,3] = Reshape(%b, i64[2](8, 3))
          %y: u8[8,3] = QuantizeLinear(%c, f32[](0.5), u8[](3))
          return %y
        }
    Result:
        graph g(%x: u8[2,1,3]) {
          %0: u8[2,4,3] = Expand(%x, i64[3](2, 4, 3))
          %y: u8[8,3] = Reshape(%0, i64[2](8, 3))
          return %y
        }
    """
    views: list[Node] = [m.view]
    while (node := views[0].input(0).producer) is not None and node.op in _VIEWS and len(views) < _MOST_VIEWS:
        views.insert(0, node)
    if node is None or node.op != "DequantizeLinear" or len(views) == 1:
        return m.no("what several nodes move is not made of integers")
    return _moved(b, m, node, *views)


@rewrite(lambda p, x: p.QuantizeLinear(p.Concat(x, ..., as_="concat"), p.const("last"), ..., as_="end"))
def join_integers(b: Builder, m: Match) -> Value | None:
    """Integers that are joined become integers part by part: those that mean the same stay as they are.

    Given:
        graph g(%x: u8[2,3], %z: u8[2,3]) {
          %a: f32[2,3] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[2,3] = DequantizeLinear(%z, f32[](0.25), u8[](3))
          %c: f32[2,6] = Concat(%a, %b) {axis=1}
          %y: u8[2,6] = QuantizeLinear(%c, f32[](0.5), u8[](3))
          return %y
        }
    Result:
        graph g(%x: u8[2,3], %z: u8[2,3]) {
          %b: f32[2,3] = DequantizeLinear(%z, f32[](0.25), u8[](3))
          %0: u8[2,3] = QuantizeLinear(%b, f32[](0.5), u8[](3))
          %y: u8[2,6] = Concat(%x, %0) {axis=1}
          return %y
        }
    """
    end = end_of(m.end)
    parts = [meaning(v) for v in m.concat.inputs]
    if end is None or any(x is None or not x.is_one for x in parts):
        return m.no("it is not made of bytes, or does not become bytes, with one constant scale")
    joined = []
    for value, x in zip(m.concat.inputs, parts, strict=True):
        assert x is not None
        same = (float(x.scale.reshape(())), int(x.zero.reshape(()))) == end
        if same and x.numbers.type.dtype is m.end.output.type.dtype:
            joined.append(x.numbers)
        else:
            joined.append(b.node("QuantizeLinear", [value, *m.end.inputs[1:]], m.end.attrs).output)
    return b.node("Concat", joined, m.concat.attrs).output
