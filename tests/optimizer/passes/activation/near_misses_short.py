"""Short graphs that come close to activations, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_clip": [
        ("not one number", chain("%y: f32[4] = Max(%x, f32[4](1.0, 2.0, 3.0, 4.0))")),
        ("floats", chain("%y: i32[4] = Max(%x, i32[](0))", params="%x: i32[4]")),
        ("not one number", chain("%y: f32[4] = Max(%x, f32[](nan))")),
        ("not one number", chain("%y: f64[4] = Max(%x, f64[](0.1))", params="%x: f64[4]")),
        ("changes the shape", chain("%y: f32[1,4] = Min(%x, f32[1,1](1.0))")),
    ],
    "fuse_relu": [("min=", chain("%y: f32[4] = Clip(%x) {min=0.5}")),
                  ("max=", chain("%y: f32[4] = Clip(%x) {min=0.0, max=6.0}"))],
    "fuse_leaky_relu": [
        ("between 0 and 1", chain("%a: f32[4] = Mul(%x, f32[](1.5))", "%y: f32[4] = Max(%x, %a)")),
        ("not one number", chain("%a: f32[4] = Mul(%x, f32[4](0.1, 0.2, 0.3, 0.4))", "%y: f32[4] = Max(%x, %a)")),
        ("two different values", chain("%a: f32[4] = Mul(%z, f32[](0.5))", "%y: f32[4] = Max(%x, %a)",
                                        params="%x: f32[4], %z: f32[4]")),
    ],
    "fuse_prelu": [
        ("two different values", chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%z)", "%c: f32[4] = Relu(%b)",
                                        "%d: f32[4] = Mul(%c, f32[](0.5))", "%y: f32[4] = Sub(%a, %d)",
                                        params="%x: f32[4], %z: f32[4]")),
        ("with floats", chain("%a: i32[4] = Relu(%x)", "%b: i32[4] = Neg(%x)", "%c: i32[4] = Relu(%b)",
                               "%d: i32[4] = Mul(%c, i32[](2))", "%y: i32[4] = Sub(%a, %d)", params="%x: i32[4]")),
        ("not finite", chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%x)", "%c: f32[4] = Relu(%b)",
                              "%d: f32[4] = Mul(%c, f32[](inf))", "%y: f32[4] = Sub(%a, %d)")),
        ("changes the shape", chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%x)", "%c: f32[4] = Relu(%b)",
                                     "%d: f32[2,4] = Mul(%c, f32[2,1](0.5, 0.25))", "%y: f32[2,4] = Sub(%a, %d)")),
    ],
    "fuse_silu": [("two different values", chain("%a: f32[4] = Sigmoid(%x)", "%y: f32[4] = Mul(%a, %z)",
                                                  params="%x: f32[4], %z: f32[4]"))],
    "fuse_hard_swish": [
        ("with floats", chain("%a: i32[4] = Add(%x, i32[](3))", "%b: i32[4] = Clip(%a) {min=0.0, max=6.0}",
                               "%c: i32[4] = Mul(%x, %b)", "%y: i32[4] = Div(%c, i32[](6))", params="%x: i32[4]")),
        ("constant 6", chain("%a: f32[4] = Add(%x, f32[](3.0))", "%b: f32[4] = Clip(%a) {min=0.0, max=6.0}",
                              "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](5.0))")),
        ("max=", chain("%a: f32[4] = Add(%x, f32[](3.0))", "%b: f32[4] = Clip(%a) {min=0.0, max=5.0}",
                        "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](6.0))")),
        ("constant 3", chain("%a: f32[4] = Add(%x, f32[](2.5))", "%b: f32[4] = Clip(%a) {min=0.0, max=6.0}",
                              "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](6.0))")),
    ],
    "fuse_gelu": [
        ("constant", chain("%a: f32[4] = Div(%x, f32[](1.5))", "%b: f32[4] = Erf(%a)",
                            "%c: f32[4] = Add(%b, f32[](1.0))", "%d: f32[4] = Mul(%x, %c)",
                            "%y: f32[4] = Mul(%d, f32[](0.5))")),
        ("changes the shape", chain("%a: f32[4] = Div(%x, f32[](1.4142135))", "%b: f32[4] = Erf(%a)",
                                     "%c: f32[4] = Add(%b, f32[](1.0))", "%d: f32[4] = Mul(%x, %c)",
                                     "%y: f32[2,4] = Mul(%d, f32[2,1](0.5, 0.5))")),
    ],
    "fuse_gelu_tanh": [
        ("constant 0.044715", chain("%a: f32[4] = Pow(%x, f32[](3.0))", "%b: f32[4] = Mul(%a, f32[](0.05))",
                                     "%c: f32[4] = Add(%x, %b)", "%d: f32[4] = Mul(%c, f32[](0.7978846))",
                                     "%e: f32[4] = Tanh(%d)", "%f: f32[4] = Add(%e, f32[](1.0))",
                                     "%g: f32[4] = Mul(%x, %f)", "%y: f32[4] = Mul(%g, f32[](0.5))")),
    ],
    "split_pow": [("roots of -0", chain("%y: f32[4] = Pow(%x, f32[](0.5))")),
                  ("roots of -0", chain("%y: f32[4] = Pow(%x, f32[](-0.5))")),
                  ("no op of its own", chain("%y: f32[4] = Pow(%x, f32[](3.0))")),
                  ("no float", chain("%y: i32[4] = Pow(%x, i32[](2))", params="%x: i32[4]"))],
    "fuse_square": [("two different values", chain("%y: f32[4] = Mul(%x, %z)", params="%x: f32[4], %z: f32[4]"))],
    "fuse_rsqrt": [("constant 1", chain("%a: f32[4] = Sqrt(%x)", "%y: f32[4] = Div(f32[](2.0), %a)"))],
}  # fmt: skip
