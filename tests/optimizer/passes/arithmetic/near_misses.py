"""Graphs that come close to rules of arithmetic, and must stay as they are; see test_negative.py."""

from __future__ import annotations

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_constants": [
        # One after the other they leave small numbers finite, which their product does not.
        ("not finite", "graph g(%x: f32[4]) { %a: f32[4] = Mul(%x, f32[](3e38)) %y: f32[4] = Mul(%a, f32[](10.0)) "
                       "return %y }"),
    ],
}  # fmt: skip
