"""Short graphs that come close to normalizations, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_layer_norm": [
        ("same last axes", chain("%a: f32[1,4] = ReduceMean(%x) {axes=(0,)}", "%b: f32[2,4] = Sub(%x, %a)",
                                  "%c: f32[2,4] = Square(%b)", "%d: f32[2,1] = ReduceMean(%c) {axes=(1,)}",
                                  "%e: f32[2,1] = Add(%d, f32[](0.001))", "%f: f32[2,1] = Sqrt(%e)",
                                  "%y: f32[2,4] = Div(%b, %f)", params="%x: f32[2,4]")),
        ("not one number", chain("%a: f32[2,1] = ReduceMean(%x) {axes=(1,)}", "%b: f32[2,4] = Sub(%x, %a)",
                                  "%c: f32[2,4] = Square(%b)", "%d: f32[2,1] = ReduceMean(%c) {axes=(1,)}",
                                  "%e: f32[2,1] = Add(%d, f32[2,1](0.001, 0.002))", "%f: f32[2,1] = Sqrt(%e)",
                                  "%y: f32[2,4] = Div(%b, %f)", params="%x: f32[2,4]")),
    ],
    "fuse_rms_norm": [
        ("last axes", chain("%a: f32[2,4] = Square(%x)", "%b: f32[1,4] = ReduceMean(%a) {axes=(0,)}",
                             "%c: f32[1,4] = Add(%b, f32[](0.001))", "%d: f32[1,4] = Rsqrt(%c)",
                             "%y: f32[2,4] = Mul(%x, %d)", params="%x: f32[2,4]")),
        ("not one number", chain("%a: f32[2,4] = Square(%x)", "%b: f32[2,1] = ReduceMean(%a) {axes=(1,)}",
                                  "%c: f32[2,1] = Add(%b, f32[](-0.001))", "%d: f32[2,1] = Rsqrt(%c)",
                                  "%y: f32[2,4] = Mul(%x, %d)", params="%x: f32[2,4]")),
    ],
    "fuse_norm_scale": [
        ("not one number per", chain("%a: f32[2,2] = RMSNorm(%x)", "%y: f32[2,2] = Mul(%a, f32[2,1](1.0, 2.0))",
                                      params="%x: f32[2,2]")),
        ("inputs", chain("%a: f32[2,2] = RMSNorm(%x, f32[2](1.0, 2.0))", "%y: f32[2,2] = Mul(%a, f32[2](1.0, 2.0))",
                          params="%x: f32[2,2]")),
    ],
    "fuse_norm_bias": [
        ("already", chain("%a: f32[2,2] = LayerNorm(%x, f32[2](1.0, 2.0), f32[2](1.0, 2.0))",
                           "%y: f32[2,2] = Add(%a, f32[2](1.0, 2.0))", params="%x: f32[2,2]")),
        ("not one number per", chain("%a: f32[2,2] = LayerNorm(%x)", "%y: f32[2,2] = Add(%a, f32[2,1](1.0, 2.0))",
                                      params="%x: f32[2,2]")),
    ],
    "fuse_softmax": [
        ("same one axis", chain("%a: f32[1,2] = ReduceMax(%x) {axes=(0,)}", "%b: f32[2,2] = Sub(%x, %a)",
                                 "%c: f32[2,2] = Exp(%b)", "%d: f32[2,1] = ReduceSum(%c) {axes=(1,)}",
                                 "%y: f32[2,2] = Div(%c, %d)", params="%x: f32[2,2]")),
    ],
}  # fmt: skip
