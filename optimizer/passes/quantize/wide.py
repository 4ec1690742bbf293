"""Integers of 16 bits that functions read, in the form that is computed in one pass over memory."""

from __future__ import annotations

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder, Trait, get


@rewrite(lambda p, x: p.DequantizeLinear(x, p.const("step"), ..., as_="begin"), target="minnow")
def spell_wide(b: Builder, m: Match) -> Value | None:
    """What integers of 16 bits mean is a product, which is fused with the function that reads it.

    Given:
        graph g(%x: i16[20,20]) {
          %a: f32[20,20] = DequantizeLinear(%x, f32[](0.5), i16[](0))
          %b: f32[20,20] = HardSwish(%a)
          return %b
        }
    Result:
        graph g(%x: i16[20,20]) {
          %0: f32[20,20] = Cast(%x) {to=f32}
          %a: f32[20,20] = Mul(%0, f32[](0.5))
          %b: f32[20,20] = HardSwish(%a)
          return %b
        }
    """
    begin: Node = m.begin
    numbers, scale, y = begin.input(0), begin.input(1), begin.output
    zero = begin.input(2).array if begin.has_input(2) else None
    if numbers.type.dtype is not DType.I16 or y.type.dtype is not DType.F32 or scale.type.dtype is not DType.F32:
        return m.no("it is not made of integers of 16 bits, or no float of 32 bits")
    if scale.type.count != 1 or begin.attrs.get("block_size") or (begin.has_input(2) and (zero is None or zero.any())):
        return m.no("it has more than one scale, or a zero point")
    if y.is_output or not all(Trait.ELEMENTWISE in get(n.op).traits and same_shape(n.outputs[0], y) for n in y.users):
        return m.no("others than functions read it")
    assert scale.data is not None
    return b.Mul(b.Cast(numbers, to=DType.F32), Value.constant(scale.data.numpy().reshape(()), scale.name))
