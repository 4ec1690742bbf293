"""Graphs that come close to nodes that do nothing, or the same twice, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "eliminate_identity": [("", chain("%y: f32[4] = Neg(%x)"))],
    "eliminate_cast": [("types differ", chain("%y: i32[4] = Cast(%x) {to=i32}"))],
    "eliminate_neutral": [
        ("changes the shape", chain("%y: f32[1,4] = Add(%x, f32[1,1](0.0))")),
        ("close to", chain("%y: f32[4] = Mul(%x, f32[](1.00001))")),
        ("0 of -0", chain("%y: f32[4] = Add(%x, f32[](0.0))")),
        ("0 of -0", chain("%y: f32[4] = Sub(%x, f32[](-0.0))")),
        ("constant 0", chain("%y: f32[4] = Sub(f32[](0.0), %x)")),
    ],
    "eliminate_reshape": [
        ("shape changes", chain("%y: f32[2,2] = Reshape(%x, i64[2](2, 2))")),
        ("not known", chain("%y: f32[?,2] = Reshape(%x, i64[2](-1, 2))", params="%x: f32[?,2]")),
    ],
    "eliminate_transpose": [("perm is", chain("%y: f32[2,2] = Transpose(%x) {perm=(1, 0)}", params="%x: f32[2,2]"))],
    "eliminate_concat": [("2 inputs", chain("%y: f32[8] = Concat(%x, %x) {axis=0}"))],
    "eliminate_pad": [("not zero", chain("%y: f32[5] = Pad(%x, i64[2](0, 1))"))],
    "eliminate_slice": [
        ("shape changes", chain("%y: f32[3] = Slice(%x, i64[1](0), i64[1](3))")),
        ("has steps", chain("%y: f32[4] = Slice(%x, i64[1](-1), i64[1](-9), i64[1](0), i64[1](-1))")),
        ("not known", chain("%y: f32[?] = Slice(%x, i64[1](0), i64[1](9))", params="%x: f32[?]")),
    ],
    "eliminate_dead": [("", chain("%y: f32[4] = Exp(%x)"))],
    "eliminate_common": [("", chain("%a: f32[4] = LeakyRelu(%x) {alpha=0.5}", "%y: f32[4] = LeakyRelu(%x)",
                                     result="%a, %y"))],
    "fold_constants": [("", chain("%a: i64[1] = Shape(%x)", "%y: i64[1] = Mul(%a, i64[](2))", params="%x: f32[N]"))],
}  # fmt: skip
