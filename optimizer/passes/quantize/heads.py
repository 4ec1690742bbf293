"""Keys and values of attention, which are integers, and repeated for the heads of queries that share them."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from minnow.optimizer.facts.heads import Part, parts_of
from minnow.optimizer.passes.quantize.qdq import meaning
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ir.type import Shape
from minnow.schema.ops import Builder

# op list: those that keep all numbers, in any order and any number of times
_REPEATING = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Expand")


@rewrite(
    lambda p, x: p.QuantizeLinear(
        reduce(or_, [getattr(p, name)(x, ..., as_="view") for name in _REPEATING]), p.const("step"), ..., as_="end"
    ),
    shared=True,
)
def quantize_before_repeating(b: Builder, m: Match) -> Value | None:
    """What is repeated becomes integers before that.

    Given:
        graph g(%x: f32[2,3,4]) {
          %0: f32[2,1,3,4] = Unsqueeze(%x) {axes=(1,)}
          %1: f32[2,5,3,4] = Expand(%0, i64[4](2, 5, 3, 4))
          %y: u8[2,5,3,4] = QuantizeLinear(%1, f32[](0.5), u8[](3))
          return %y
        }
    Result:
        graph g(%x: f32[2,3,4]) {
          %0: u8[2,3,4] = QuantizeLinear(%x, f32[](0.5), u8[](3))
          %1: u8[2,1,3,4] = Unsqueeze(%0) {axes=(1,)}
          %y: u8[2,5,3,4] = Expand(%1, i64[4](2, 5, 3, 4))
          return %y
        }
    """
    end: Node = m.end
    if end.input(1).type.count != 1 or (end.has_input(2) and end.input(2).type.count != 1):
        return m.no("it does not have one scale")
    views: list[Node] = [m.view]
    while (node := views[0].input(0).producer) is not None and node.op in _REPEATING and len(views) < _MOST_VIEWS:
        views.insert(0, node)
    if any(len(v.output.uses) != 1 for v in views):
        return m.no("others read what is moved")
    if not any(v.op == "Expand" and v.input(0).type.shape != v.output.type.shape for v in views):
        return m.no("nothing is repeated")
    new = b.node("QuantizeLinear", [views[0].input(0), *end.inputs[1:]], end.attrs).output
    for view in views:
        new = b.node(view.op, [new, *view.inputs[1:]], view.attrs).output
    return new


_MOST_VIEWS = 8


@rewrite(
    lambda p, a: p.MatMul(
        a, p.DequantizeLinear(p.any("k"), p.const("step"), ..., as_="begin"), transpose_a=False, as_="product"
    ),
    shared=True,
)
def share_heads(b: Builder, m: Match) -> Value | None:
    """Heads of queries that have the same keys or values are rows of one product with these, which are not repeated.

    Given:
        graph g(%a: f32[1,4,3,2], %x: u8[1,2,5,2]) {
          %0: u8[1,2,1,5,2] = Unsqueeze(%x) {axes=(2,)}
          %1: u8[1,2,2,5,2] = Expand(%0, i64[5](1, 2, 2, 5, 2))
          %2: u8[1,4,5,2] = Reshape(%1, i64[4](1, 4, 5, 2))
          %k: f32[1,4,5,2] = DequantizeLinear(%2, f32[](0.5), u8[](3))
          %y: f32[1,4,3,5] = MatMul(%a, %k) {transpose_b=True}
          return %y
        }
    Result:
        graph g(%a: f32[1,4,3,2], %x: u8[1,2,5,2]) {
          %0: f32[1,2,5,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %1: f32[1,2,6,2] = Reshape(%a, i64[4](0, 2, 6, 2))
          %2: f32[1,2,6,5] = MatMul(%1, %0) {transpose_b=True}
          %y: f32[1,4,3,5] = Reshape(%2, i64[4](0, 4, 3, 5))
          return %y
        }
    """
    x, shape, made = meaning(m.begin.output), m.a.type.shape, m.product.output.type.shape
    if x is None or not x.is_one:
        return m.no("the other operand is not made of bytes with one constant scale")
    if shape is None or made is None or len(shape) != 4 or len(made) != 4 or not isinstance(shape[1], int):
        return m.no("the heads are not an axis of known size")
    found = _repeated(x.numbers, shape)
    if found is None:
        return m.no("there are no heads that each stand for several")
    part, turned = found
    rows = shape[2] * part.group if isinstance(shape[2], int) else -1
    before, after = [0, part.heads, rows, shape[3]], [0, shape[1], shape[2], made[3]]
    if any(sum(not isinstance(d, int) or d < 0 for d in s) > 1 or 0 in s[1:] for s in (before, after)):
        return m.no("two dimensions are not known")
    numbers = b.node("DequantizeLinear", [part.value, *m.begin.inputs[1:]], m.begin.attrs).output
    transposed = m.product.attrs.get("transpose_b", False) != turned
    joined = b.Reshape(m.a, _listed(before))
    return b.Reshape(b.MatMul(joined, numbers, transpose_b=transposed), _listed(after))


def _listed(shape: list[int | str]) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.array([d if isinstance(d, int) else -1 for d in shape], np.int64)


def _repeated(numbers: Value, shape: Shape) -> tuple[Part, bool] | None:
    """Where the heads lie once, and whether rows and columns have changed places since; None where they do not."""
    for turned in (False, True):
        for part in parts_of(numbers, False, turned):
            fits = part.start is None and part.turned is None and part.value.type.rank == 4
            if fits and part.group > 1 and part.heads * part.group == shape[1]:
                return part, turned
    return None
