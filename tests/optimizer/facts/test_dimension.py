"""Dimensions that nobody has a name for are told apart by where they come from, however often they are handed on."""

from __future__ import annotations

import pytest
from rewriting import read

from minnow.schema.registry.symbolic import dimension

# The same unknown dimension at both ends: (value, axis) of the first, lines, (value, axis) of the second.
SAME = {
    "layers": (("x", 1), "%a: f32[2,?,3] = Linear(%x, f32[3,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0)) "
               "%b: f32[2,?,3] = LayerNorm(%a) %y: f32[2,?,3] = Relu(%b)", ("y", 1)),
    "a product": (("x", 1), "%y: f32[2,?,1] = MatMul(%x, f32[2,1](1.0, 2.0))", ("y", 1)),
    "a constant summand": (("x", 1), "%y: f32[2,?,2] = Add(f32[1,2](1.0, 2.0), %x)", ("y", 1)),
    "two of the same": (("x", 1), "%a: f32[2,?,2] = Exp(%x) %y: f32[2,?,2] = Mul(%a, %x)", ("y", 1)),
    "axes that move": (("x", 1), "%a: f32[?,2,2] = Transpose(%x) {perm=(1, 2, 0)} "
                       "%y: f32[1,?,2,2] = Unsqueeze(%a) {axes=(0,)}", ("y", 1)),
    "a reshape": (("x", 1), "%y: f32[2,?,1,2] = Reshape(%x, i64[4](0, 0, 1, 2))", ("y", 1)),
    "a computed shape": (("x", 1), "%s: i64[1] = Shape(%x) {start=1, end=2} %t: i64[2] = Concat(%s, i64[1](4)) {axis=0}"
                         " %y: f32[?,4] = Reshape(%x, %t)", ("y", 0)),
    "places": (("x", 1), "%s: i64[1] = Shape(%x) {start=1, end=2} %n: i64[] = Reshape(%s, i64[0]()) "
               "%y: i64[?] = Range(i64[](0), %n, i64[](1))", ("y", 0)),
    "an expansion": (("x", 1), "%s: i64[1] = Shape(%x) {start=1, end=2} %t: i64[2] = Concat(i64[1](3), %s) {axis=0} "
                     "%y: f32[3,?] = Expand(f32[1,1](1.0), %t)", ("y", 1)),
    "attention": (("x", 1), "%y: f32[2,?,2] = Attention(%x, %x, %x) {num_heads=1, scale=1.0}", ("y", 1)),
}  # fmt: skip

OTHER = {
    "two unknown ones": (("x", 1), "%y: f32[2,?,2] = Add(%x, %z)", ("y", 1)),
    "a part": (("x", 1), "%y: f32[2,?,2] = Slice(%x, i64[1](1), i64[1](9), i64[1](1))", ("y", 1)),
    "other places": (("x", 1), "%s: i64[1] = Shape(%x) {start=1, end=2} %n: i64[] = Reshape(%s, i64[0]()) "
                     "%y: i64[?] = Range(i64[](1), %n, i64[](1))", ("y", 0)),
    "keys": (("x", 1), "%m: f32[2,?,2] = MatMul(%x, %z) {transpose_a=True}", ("m", 1)),
    "a mask of its own": (("x", 1), "%m: f32[?,1] = Reshape(%z, i64[2](-1, 1)) "
                          "%y: f32[2,?,2] = Attention(%x, %x, %x, _, _, %m) {num_heads=1, scale=1.0}", ("y", 1)),
}  # fmt: skip


def _ends(first: tuple[str, int], lines: str, second: tuple[str, int]) -> list[object]:
    graph = read(f"graph g(%x: f32[2,?,2], %z: f32[2,?,2]) {{ {lines} return %{second[0]} }}")
    values = {v.name: v for v in graph.values()}
    return [dimension(values[name], axis) for name, axis in (first, second)]


@pytest.mark.parametrize("case", SAME)
def test_the_same(case: str) -> None:
    a, b = _ends(*SAME[case])
    assert a == b


@pytest.mark.parametrize("case", OTHER)
def test_another_one(case: str) -> None:
    a, b = _ends(*OTHER[case])
    assert a != b
