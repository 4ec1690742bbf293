"""Short graphs that come close to arithmetic with constants, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_constants": [
        ("no floats", chain("%a: i32[4] = Mul(%x, i32[](65536))", "%y: i32[4] = Mul(%a, i32[](65536))",
                             params="%x: i32[4]")),
        ("expected Mul", chain("%a: f32[4] = Add(%x, f32[](2.0))", "%y: f32[4] = Mul(%a, f32[](3.0))")),
    ],
    "split_division": [("normal number", chain("%y: f32[4] = Div(%x, f32[](0.0))")),
                       ("normal number", chain("%y: f32[4] = Div(%x, f32[](3e38))")),
                       ("no float", chain("%y: i32[4] = Div(%x, i32[](2))", params="%x: i32[4]"))],
    "split_division_by_root": [("constant", chain("%a: f32[4] = Sqrt(%x)", "%y: f32[4] = Div(f32[](1.0), %a)"))],
}  # fmt: skip
