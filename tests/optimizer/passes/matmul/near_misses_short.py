"""Short graphs that come close to layers with constant weights, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_linear": [
        ("not constant", chain("%y: f32[2,2] = MatMul(%x, %x)", params="%x: f32[2,2]")),
        ("not a matrix", chain("%y: f32[1,2,1] = MatMul(%x, f32[1,2,1](1.0, 2.0))", params="%x: f32[1,2,2]")),
        ("a vector", chain("%y: f32[1] = MatMul(%x, f32[2,1](1.0, 2.0))", params="%x: f32[2]")),
        ("transpose_a", chain("%y: f32[2,1] = MatMul(%x, f32[2,1](1.0, 2.0)) {transpose_a=True}",
                               params="%x: f32[2,2]")),
    ],
    "fuse_linear_bias": [
        # One number per row.
        ("not one number per feature", chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                                              "%y: f32[2,2] = Add(%a, f32[2,1](3.0, 4.0))", params="%x: f32[2,1]")),
        ("not one number per feature", chain("%a: f32[2,1] = Linear(%x, f32[1,1](1.0))",
                                              "%y: f32[2,2] = Add(%a, f32[2](3.0, 4.0))", params="%x: f32[2,1]")),
        ("activation=", chain('%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0)) {activation="relu"}',
                               "%y: f32[2,2] = Add(%a, f32[2](3.0, 4.0))", params="%x: f32[2,1]")),
    ],
    "fuse_linear_scale": [
        ("not one number per feature", chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                                              "%y: f32[2,2] = Mul(%a, f32[2,1](3.0, 4.0))", params="%x: f32[2,1]")),
        ("not finite", chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                              "%y: f32[2,2] = Div(%a, f32[](0.0))", params="%x: f32[2,1]")),
    ],
    "fuse_matmul_transpose": [
        ("not a swap", chain("%a: f32[3,2,2] = Transpose(%x) {perm=(2, 1, 0)}", "%y: f32[3,2,2] = MatMul(%a, %z)",
                              params="%x: f32[2,2,3], %z: f32[2,2]")),
    ],
}  # fmt: skip
