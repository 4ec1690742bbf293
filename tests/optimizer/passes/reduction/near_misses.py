"""Graphs that come close to reductions, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_global_average": [
        ("axes N, C, H, W", chain("%y: f32[2,3,1,1,2] = ReduceMean(%x) {axes=(2, 3)}", params="%x: f32[2,3,2,2,2]")),
        ("axes=", chain("%y: f32[2,1,1,2] = ReduceMean(%x) {axes=(1, 2)}", params="%x: f32[2,3,2,2]")),
    ],
    "fuse_pooled_view": [
        ("other axes", chain("%a: f32[2,3,1,1] = GlobalAveragePool(%x)", "%y: f32[3,2] = Reshape(%a, i64[2](3, 2))",
                              params="%x: f32[2,3,2,2]")),
        ("other axes", chain("%a: f32[N,3,1,1] = GlobalAveragePool(%x)", "%y: f32[N,3,1] = Squeeze(%a) {axes=(3,)}",
                              params="%x: f32[N,3,2,2]")),
        ("other axes", chain("%a: f32[2,3,1,1] = GlobalAveragePool(%x)", "%y: f32[6] = Reshape(%a, i64[1](-1))",
                              params="%x: f32[2,3,2,2]")),
    ],
}  # fmt: skip
