"""Products of integers, which the format's runtimes compute in floats: right up to 24 bits."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.facts.format import engine_only
from minnow.optimizer.facts.range import Interval, Ranges, analyze
from minnow.optimizer.facts.range_use import Uses
from minnow.optimizer.rewrite import graph_pass
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder

_FLOAT = Interval(-(2**24), 2**24)
DIGIT = 11
"""Bits of the digits that products are made of: those of two digits, and sums of two of these, have at most 24."""


@graph_pass(level=1, whole=True)
def split_products(graph: Graph) -> int:
    """Makes long multiplications of products of i32 that may have more than 24 bits, with digits of 11 bits.

    What is only used as a size or a position stays: tensors whose elements take more bits to number are rare, the
    arithmetic of shapes is not.

    Given:
        graph g(%x: i32[4]) {
          %z: i32[4] = Mul(%x, i32[](3))
          return %z
        }
    Result:
        graph g(%x: i32[4]) {
          %0: i32[4] = BitShift(%x, i32[](11)) {direction="RIGHT"}
          %1: i32[4] = BitwiseAnd(%0, i32[](2047))
          %2: i32[4] = BitwiseAnd(%x, i32[](2047))
          %3: i32[4] = BitShift(%x, i32[](22)) {direction="RIGHT"}
          %4: i32[4] = Mul(%2, i32[](3)#c0)
          %5: i32[4] = Mul(%1, i32[]#c0)
          %6: i32[4] = BitShift(%5, i32[](11)) {direction="LEFT"}
          %7: i32[4] = Add(%4, %6)
          %8: i32[4] = Mul(%3, i32[]#c0)
          %9: i32[4] = BitShift(%8, i32[](22)) {direction="LEFT"}
          %z: i32[4] = Add(%7, %9)
          return %z
        }
    """
    if engine_only(graph):
        return 0  # other runtimes refuse it anyway, and ours multiplies integers as they are
    ranges, uses = analyze(graph), Uses(graph)
    wide = [node for g in graph.walk() for node in g if node.op == "Mul" and _is_wide(node, ranges, uses)]
    for node in wide:
        assert node.graph is not None
        b = Builder(node.graph, node, f"{node.origin} > split_products")
        made = _product(b, node, ranges)
        made.name = node.output.name
        node.output.replace_all_uses(made)
        node.graph.erase(node)
    return len(wide)


def _is_wide(node: Node, ranges: Ranges, uses: Uses) -> bool:
    if node.output.type.dtype is not DType.I32 or uses.place(node.output):
        return False
    return _magnitude(node.inputs[0], ranges) * _magnitude(node.inputs[1], ranges) > _FLOAT.high


def _magnitude(value: Value | None, ranges: Ranges) -> int:
    known = ranges.of(value)
    return 2**31 if known is None else int(known.magnitude)


def _product(b: Builder, node: Node, ranges: Ranges) -> Value:
    # One digit for an operand that is small enough: it may be negative, and have two bits more.
    factors = [
        [v] if _magnitude(v, ranges) <= 2 ** (24 - DIGIT) else digits(b, v) for v in node.inputs if v is not None
    ]
    total: Value | None = None
    for place in range(3):
        terms = [b.Mul(x, y) for i, x in enumerate(factors[0]) for j, y in enumerate(factors[1]) if i + j == place]
        column = terms[0]
        for term in terms[1:]:
            column = b.Add(column, term)
        shifted = b.BitShift(column, place * DIGIT, direction="LEFT") if place else column
        total = shifted if total is None else b.Add(total, shifted)
    assert total is not None
    return total


def digits(b: Builder, v: Value) -> list[Value]:
    """The number in digits of 11 bits, the last of which has its sign."""
    mask, step = np.int32(2**DIGIT - 1), np.int32(DIGIT)
    middle = b.BitwiseAnd(b.BitShift(v, step, direction="RIGHT"), mask)
    return [b.BitwiseAnd(v, mask), middle, b.BitShift(v, 2 * step, direction="RIGHT")]
