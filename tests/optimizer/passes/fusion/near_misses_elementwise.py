"""Elementwise nodes that are not one: of other shapes, with others between them, or alone."""

from __future__ import annotations


def _pair(
    first: str = "f32[4,5] = Exp(%x)", second: str = "f32[4,5] = Neg(%a)", x: str = "f32[4,5]"
) -> tuple[str, str]:
    return "", f"graph g(%x: {x}, %m: f32[5,5], %z: f32[4,5]) {{ %a: {first} %y: {second} return %y }}"


CASES = {
    "fuse_elementwise": [
        _pair(second="f32[4,5] = MatMul(%a, %m)"),
        _pair(first="f32[4,5] = MatMul(%x, %m)"),
        _pair(first="f32[5] = Exp(%x)", second="f32[4,5] = Add(%z, %a)", x="f32[5]"),
        _pair(first="f32[*] = Exp(%x)", second="f32[*] = Neg(%a)", x="f32[*]"),
        _pair(first="i64[2] = Mul(%x, i64[2](1, 2))", second="i64[2] = Neg(%a)", x="i64[2]"),
        _pair(first="f32[5,4] = Transpose(%x) {perm=(1, 0)}", second="f32[5,4] = Neg(%a)"),
    ],
    "inline_fused": [_pair()],
}
