"""Short graphs that come close to shapes that are computed, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fold_reshape_shape": [
        ("more than one", chain("%a: i64[2] = Shape(%x)", "%b: i64[2] = Gather(%a, i64[2](1, 0))",
                                 "%y: f32[?,?] = Reshape(%x, %b)", params="%x: f32[N,M]")),
        ("nothing is known", chain("%y: f32[?,?] = Reshape(%x, %s)", params="%x: f32[N,M], %s: i64[2]")),
        ("does not copy", chain("%a: i64[2] = Shape(%x)", "%y: f32[?,?] = Reshape(%x, %a) {allowzero=True}",
                                 params="%x: f32[N,M]")),
    ],
    "eliminate_expand": [
        ("neither 1 nor", chain("%y: f32[3,4] = Expand(%x, i64[2](3, 4))", params="%x: f32[1,4]")),
        ("nothing is known", chain("%y: f32[?,4] = Expand(%x, %s)", params="%x: f32[1,4], %s: i64[2]")),
    ],
}  # fmt: skip
