"""Layers of quantized networks, each in one node: an exact sum of products, a bias, and the way to few bits."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.passes.quantize.qdq import Meaning, meaning, meanings
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder, Trait, all_ops, get
from minnow.schema.ops.epilogue import RESIDUAL
from minnow.schema.ops.quantized_layer import is_along

# Of the small integers there are few: any function of one of them is a table.
_OF_NUMBERS = [op for op in all_ops() if Trait.ELEMENTWISE in op.traits and Trait.RANDOM not in op.traits]


_STEPS = ("QuantizeLinear", "DequantizeLinear")
"""With one scale they are functions of a number, too."""


def _tabled(p: Any, x: Any) -> Any:
    """An elementwise op of which some operand is a table's number at x, or another table's number at that."""
    first = [getattr(p, op.name)(p.LookUp(x, p.any("t")), ..., as_="function") for op in _OF_NUMBERS]
    pairs = [op for op in _OF_NUMBERS if len(op.operand_names) == 2]
    second = [getattr(p, op.name)(p.any("k"), p.LookUp(x, p.any("t")), as_="function") for op in pairs]
    first += [getattr(p, name)(p.LookUp(x, p.any("t")), ..., as_="function") for name in _STEPS]
    return reduce(or_, first + second, p.LookUp(p.LookUp(x, p.any("t")), p.any("k"), as_="function"))


@rewrite(_tabled, shared=True)
def fuse_tables(b: Builder, m: Match) -> Value | None:
    """What is computed of one small integer by way of tables is one table.

    Given:
        graph g(%x: i8[20,20], %s: f32[256], %t: f32[256]) {
          %a: f32[20,20] = LookUp(%x, %s)
          %b: f32[20,20] = LookUp(%x, %t)
          %c: f32[20,20] = Mul(%a, %b)
          %y: f32[20,20] = Clip(%c) {max=2.0}
          return %y
        }
    Result:
        graph g(%x: i8[20,20], %s: f32[256], %t: f32[256]) {
          %0: f32[256] = Mul(%s, %t)
          %1: f32[256] = Clip(%0) {max=2.0}
          %y: f32[20,20] = LookUp(%x, %1)
          return %y
        }
    """
    node: Node = m.function
    tables: list[Value | None] = []
    for i, operand in enumerate(node.inputs):
        maker = None if operand is None else operand.producer
        if operand is None or (node.op == "LookUp" and i == 1):
            tables.append(operand)
        elif maker is not None and maker.op == "LookUp" and maker.input(0) is m.x:
            tables.append(maker.input(1))
        elif operand.data is not None and operand.type.count == 1:
            tables.append(Value.constant(operand.data.numpy().reshape(()), operand.name))
        else:
            return m.no(f"{operand!r} is neither a number nor a table's at the same place")
    if all(t is None or t.data is not None for t in tables):
        arrays = [None if t is None else t.array for t in tables]
        return b.LookUp(m.x, get(node.op).evaluate(arrays, node.attrs)[0])
    if not (m.x.type.count or 0) > 1 << m.x.type.dtype.bits:
        return m.no("the table would be computed, and has more numbers than are asked for")
    return b.LookUp(m.x, b.node(node.op, tables, node.attrs).output)


def _gated(p: Any, x: Any) -> Any:
    begin, table = p.DequantizeLinear(x, p.const("step"), ..., as_="begin"), p.LookUp(x, p.any("t"), as_="found")
    pairs = [getattr(p, op.name) for op in _OF_NUMBERS if len(op.operand_names) == 2]
    return reduce(or_, [op(*each, as_="function") for op in pairs for each in ((begin, table), (table, begin))])


@rewrite(_gated, shared=True)
def tabulate_gate(b: Builder, m: Match) -> Value | None:
    """A function of what bytes mean, and of what a table has for them, is a table, such as x * sigmoid(x).

    Given:
        graph g(%x: u8[20,20], %t: f32[256]) {
          %a: f32[20,20] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[20,20] = LookUp(%x, %t)
          %c: f32[20,20] = Mul(%a, %b)
          return %c
        }
    Result:
        graph g(%x: u8[20,20], %t: f32[256]) {
          %0: i32[256] = Range(i32[](0), i32[](256), i32[](1))
          %1: u8[256] = Cast(%0) {to=u8}
          %2: f32[256] = DequantizeLinear(%1, f32[](0.5), u8[](3))
          %3: f32[256] = Mul(%2, %t)
          %c: f32[20,20] = LookUp(%x, %3)
          return %c
        }
    """
    x: Meaning | None = meaning(m.begin.output)
    if x is None or not x.is_one:
        return m.no("it is not made of bytes with one constant scale")
    if m.t.data is None and not (x.numbers.type.count or 0) > 1 << x.numbers.type.dtype.bits:
        return m.no("the table would be computed, and has more numbers than are asked for")
    if m.t.data is None:
        table = meanings(b, x, m.begin)
        operands = [table if v is m.begin.output else m.t for v in m.function.inputs]
        return b.LookUp(x.numbers, b.node(m.function.op, operands, m.function.attrs).output)
    kind: Any = x.numbers.type.dtype.numpy
    numbers = np.arange(np.iinfo(kind).min, np.iinfo(kind).max + 1).astype(kind)
    begin = [numbers, *(None if v is None else v.array for v in m.begin.inputs[1:])]
    known = get("DequantizeLinear").evaluate(begin, m.begin.attrs)[0]
    arrays = [known if v is m.begin.output else m.t.array for v in m.function.inputs]
    return b.LookUp(x.numbers, get(m.function.op).evaluate(arrays, m.function.attrs)[0])


def _sums(p: Any) -> Any:
    """Sums of products, with or without a bias."""
    exact = p.ConvInteger(p.any("x"), p.any("w"), ..., as_="product") | p.MatMulInteger(
        p.any("x"), p.any("w"), ..., as_="product"
    )
    return p.Add(exact, p.const("bias")) | exact


def _layer(b: Builder, m: Match, factor: Value, last: Value | None, attrs: dict[str, Any]) -> Value | None:
    """The node for all of it; None where a constant does not go along the channels."""
    product: Node = m.product
    conv, shape = product.op == "ConvInteger", product.output.type.shape
    if shape is None or len(shape) < 2:
        return m.no("the rank is not known, or there are no channels")
    right = product.input(1).type.shape
    if not conv and (right is None or len(right) < 2):
        return m.no("the right operand is a vector, so the last axis is not that of its columns")
    axis = 1 - len(shape) if conv else -1
    bias: Value | None = m.bound.get("bias")
    for v in (bias, factor):
        if v is not None and not is_along(v.type.shape, shape, axis):
            return m.no(f"{v!r} is not one number for each channel")
    operands = [*product.inputs, *[None] * (4 - len(product.inputs)), bias, factor, last]
    name = "QuantizedConv" if conv else "QuantizedMatMul"
    return b.node(name, operands, {**product.attrs, **attrs}).output


@rewrite(lambda p: p.Requantize(_sums(p), p.const("multiplier"), p.const("shift"), as_="end"))
def fuse_requantize(b: Builder, m: Match) -> Value | None:
    """Sums of products of integers that are scaled by a fixed-point factor.

    Given:
        graph g(%x: i8[1,2,2,2]) {
          %a: i32[1,1,2,2] = ConvInteger(%x, i8[1,2,1,1](2, -3), i8[](1)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %b: i32[1,1,2,2] = Add(%a, i32[1,1,1](7))
          %y: i8[1,1,2,2] = Requantize(%b, i32[](1500000000), i32[](-2)) {zero=3, to=i8, min=-128, max=127}
          return %y
        }
    Result:
        graph g(%x: i8[1,2,2,2]) {
          %y: i8[1,1,2,2] = QuantizedConv(%x, i8[1,2,1,1](2, -3), i8[](1), _, i32[1,1,1](7), i32[](1500000000), i32[](-2)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), zero=3, to=i8, min=-128, max=127}
          return %y
        }
    """  # noqa: E501
    return _layer(b, m, m.multiplier, m.shift, dict(m.end.attrs))


@rewrite(
    lambda p: (
        p.QuantizeLinear(p.Mul(p.Cast(_sums(p), to=DType.F32), p.const("factor")), 1.0, ..., as_="end")
        | p.QuantizeLinear(p.Relu(p.Mul(p.Cast(_sums(p), to=DType.F32), p.const("factor"))), 1.0, ..., as_="end")
    )
)
def fuse_quantize(b: Builder, m: Match) -> Value | None:
    """Sums of products of integers that are scaled by a float and rounded.

    Given:
        graph g(%x: u8[1,2,2,2]) {
          %a: i32[1,1,2,2] = ConvInteger(%x, i8[1,2,1,1](2, -3), u8[](1)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %b: f32[1,1,2,2] = Cast(%a) {to=f32}
          %c: f32[1,1,2,2] = Mul(%b, f32[](0.25))
          %y: u8[1,1,2,2] = QuantizeLinear(%c, f32[](1.0), u8[](5))
          return %y
        }
    Result:
        graph g(%x: u8[1,2,2,2]) {
          %y: u8[1,1,2,2] = QuantizedConv(%x, i8[1,2,1,1](2, -3), u8[](1), _, _, f32[](0.25), u8[](5)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), to=u8}
          return %y
        }
    """  # noqa: E501
    end: Node = m.end
    to, zero = end.output.type.dtype, end.input(2) if end.has_input(2) else None
    if to not in (DType.I8, DType.U8) or m.factor.type.dtype is not DType.F32:
        return m.no("it does not give 8 bits, or the factor is no float of 32 bits")
    step = end.input(1)
    if step.type.dtype is not DType.F32 or not np.all(step.array == 1) or (step.type.count or 0) != 1:
        return m.no("the scale is not 1")
    if (zero is not None and zero.type.count != 1) or end.attrs.get("precision") or end.attrs.get("block_size"):
        return m.no("the zero point is not one number, or there are blocks, or another precision")
    numbers = None if zero is None else zero.array
    if zero is not None and numbers is None:
        return m.no("the zero point is computed")
    lowest = 0 if numbers is None else int(numbers.reshape(()))
    before = end.input(0).producer
    if before is not None and before.op == "Relu" and lowest != np.iinfo(to.numpy.name).min:
        return m.no("saturation does not do what Relu does")
    return _layer(b, m, m.factor, zero, {"to": to})


@rewrite(
    lambda p, x, y, s, t: p.Requantize(
        p.Add(p.LookUp(x, s), p.LookUp(y, t)), p.const("multiplier"), p.const("shift"), as_="end"
    )
)
def fuse_quantized_sum(b: Builder, m: Match) -> Value | None:
    """A sum of quantized numbers, of which bytes are repeated rather than what tables have for them.

    Given:
        graph g(%x: i8[2,3], %y: u8[3], %s: i32[256], %t: i32[256]) {
          %a: i32[2,3] = LookUp(%x, %s)
          %b: i32[3] = LookUp(%y, %t)
          %c: i32[2,3] = Add(%a, %b)
          %z: i8[2,3] = Requantize(%c, i32[](1500000000), i32[](-2)) {zero=3, to=i8, min=-128, max=127}
          return %z
        }
    Result:
        graph g(%x: i8[2,3], %y: u8[3], %s: i32[256], %t: i32[256]) {
          %0: u8[2,3] = Expand(%y, i64[2](2, 3))
          %z: i8[2,3] = QuantizedSum(%x, i32[](1500000000), i32[](-2), %s, %0, %t) {zero=3, to=i8, min=-128, max=127}
          return %z
        }
    """
    if m.s.type.dtype is not DType.I32 or m.t.type.dtype is not DType.I32:
        return m.no("the tables are not of i32")
    end: Value = m.end.output
    if not end.type.is_static:
        return m.no("the shapes are not known")
    x, y = (v if v.type.shape == end.type.shape else b.Expand(v, np.array(end.type.static_shape)) for v in (m.x, m.y))
    return b.QuantizedSum(x, m.multiplier, m.shift, m.s, y, m.t, **m.end.attrs)


@rewrite(
    lambda p, step: p.Mul(p.Cast(p.MatMulInteger(..., as_="product"), to=DType.F32), p.Mul(step, p.const("scale"))),
    target="minnow",
)
def fuse_dynamic_linear(b: Builder, m: Match) -> Value | None:
    """A layer of integers whose input is quantized by its own range.

    Given:
        graph g(%x: f32[2,3]) {
          %q: u8[2,3], %s: f32[], %z: u8[] = DynamicQuantizeLinear(%x)
          %a: i32[2,2] = MatMulInteger(%q, i8[3,2](1, 2, 3, 4, 5, 6), %z, i8[](3))
          %b: f32[2,2] = Cast(%a) {to=f32}
          %c: f32[2] = Mul(%s, f32[2](0.5, 0.25))
          %y: f32[2,2] = Mul(%b, %c)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), _, _, f32[2](0.5, 0.25), i8[](3))
          return %y
        }
    """
    product, quantize = m.product, m.step.producer
    numbers, w = product.input(0), product.input(1)
    middle, zero = (product.input(i) if product.has_input(i) else None for i in (2, 3))
    if quantize is None or quantize.op != "DynamicQuantizeLinear" or m.step is not quantize.outputs[1]:
        return m.no("what it is multiplied by is not the scale of an input")
    if numbers is not quantize.outputs[0] or middle is not quantize.outputs[2]:
        return m.no("it is not the product of the input that has this scale")
    shape = w.type.shape
    if shape is None or len(shape) != 2 or not w.is_const:
        return m.no("the weights are not constant, or no matrix")
    if any(v is not None and v.type.shape not in ((shape[1],), (1,), ()) for v in (m.scale, zero)):
        return m.no("a scale or zero point is neither one number, nor one for each column")
    return b.DynamicLinear(quantize.input(0), w, None, None, m.scale, zero, **quantize.attrs)


@rewrite(lambda p, x: p.Add(p.DynamicLinear(x, ..., as_="layer"), p.const("bias")), target="minnow")
def fuse_dynamic_bias(b: Builder, m: Match) -> Value | None:
    """A layer of integers adds its bias.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), _, _, f32[](0.5))
          %y: f32[2,2] = Add(%a, f32[2](1.0, 2.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), f32[2](1.0, 2.0), _, f32[](0.5))
          return %y
        }
    """
    layer: Node = m.layer
    if layer.has_input(2) or layer.has_input(RESIDUAL) or layer.attrs.get("activation"):
        return m.no("it adds something, or has an activation already")
    shape = layer.input(1).type.shape
    if shape is None or m.bias.type.shape != shape[1:]:
        return m.no("what is added is not one number for each column")
    return b.node("DynamicLinear", [*layer.inputs[:2], m.bias, *layer.inputs[3:]], layer.attrs).output
