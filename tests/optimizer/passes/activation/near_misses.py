"""Graphs that come close to activations, and must stay as they are; see test_negative.py."""

from __future__ import annotations


def _f(*lines: str, shape: str = "2,4", more: str = "") -> str:
    """Lines `name = op`, all of one shape; the last one is the result, %y."""
    body = " ".join(f"%{name}: f32[{shape}] = {op}" for name, _, op in (line.partition(" = ") for line in lines))
    return f"graph g(%x: f32[{shape}]{more}) {{ {body} return %y }}"


def _chosen(test: str = "Greater(%x, f32[](0.0))", yes: str = "%x", no: str = "%d", part: str = "Mul(%x, f32[](0.5))",
            out: str = "2,4", of: str = "2,4", params: str = "%x: f32[2,4], %z: f32[2,4]") -> str:  # fmt: skip
    """One of two, by the sign."""
    used = f"%d: f32[{of}] = {part} " if "%d" in (yes, no) else ""
    return f"graph g({params}) {{ %a: bool[2,4] = {test} {used}%y: f32[{out}] = Where(%a, {yes}, {no}) return %y }}"


_INTS = "graph g(%x: i32[4]) {{ {} return %y }}"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_sigmoid": [
        ("constant 1", _f("n = Neg(%x)", "e = Exp(%n)", "s = Add(%e, f32[](2.0))", "y = Div(f32[](1.0), %s)")),
        ("expected Neg", _f("n = Abs(%x)", "e = Exp(%n)", "s = Add(%e, f32[](1.0))", "y = Reciprocal(%s)")),
        ("constant 0.5", _f("h = Mul(%x, f32[](0.5))", "t = Tanh(%h)", "p = Mul(%t, f32[](0.25))",
                            "y = Add(%p, f32[](0.5))")),
        ("changes the shape", "graph g(%x: f32[4]) { %n: f32[4] = Neg(%x) %e: f32[4] = Exp(%n) "
                              "%s: f32[4] = Add(%e, f32[](1.0)) "
                              "%y: f32[2,4] = Div(f32[2,1](1.0, 1.0), %s) return %y }"),
    ],
    "fuse_silu": [
        ("two different values", _f("n = Neg(%x)", "e = Exp(%n)", "s = Add(%e, f32[](1.0))", "y = Div(%z, %s)",
                                    more=", %z: f32[2,4]")),
    ],
    "fuse_reciprocal": [
        ("constant 1", _f("y = Div(f32[](2.0), %x)")),
        ("not equal", _f("y = Div(f32[](1.00001), %x)")),
        ("changes the shape", "graph g(%x: f32[4]) { %y: f32[2,4] = Div(f32[2,1](1.0, 1.0), %x) return %y }"),
        ("floats", _INTS.format("%y: i32[4] = Div(i32[](1), %x)")),
    ],
    "fuse_softsign": [
        ("constant 1", _f("a = Abs(%x)", "s = Add(%a, f32[](2.0))", "y = Div(%x, %s)")),
        ("two different values", _f("a = Abs(%x)", "s = Add(%a, f32[](1.0))", "y = Div(%z, %s)",
                                    more=", %z: f32[2,4]")),
        ("floats", _INTS.format("%a: i32[4] = Abs(%x) %s: i32[4] = Add(%a, i32[](1)) %y: i32[4] = Div(%x, %s)")),
    ],
    "fuse_softplus": [
        ("constant 1", _f("e = Exp(%x)", "s = Add(%e, f32[](2.0))", "y = Log(%s)")),
        ("expected", _f("y = Log(%x)")),
    ],
    "fuse_mish": [
        ("two different values", _f("s = Softplus(%x)", "t = Tanh(%s)", "y = Mul(%z, %t)", more=", %z: f32[2,4]")),
        ("expected", _f("e = Exp(%x)", "s = Log(%e)", "t = Tanh(%s)", "y = Mul(%x, %t)")),
    ],
    "fuse_hard_sigmoid": [
        ("end at 1", _f("a = Add(%x, f32[](3.0))", "b = Clip(%a) {min=0.0, max=6.0}", "y = Div(%b, f32[](5.0))")),
        ("end at 1", _f("a = Add(%x, f32[](3.0))", "b = Clip(%a) {min=0.0, max=6.0}", "y = Mul(%b, f32[](0.25))")),
        # 1 everywhere.
        ("end at 1", _f("a = Add(%x, f32[](3.0))", "b = Clip(%a) {min=0.0, max=-6.0}", "y = Div(%b, f32[](-6.0))")),
        ("max=", _f("m = Mul(%x, f32[](0.2))", "a = Add(%m, f32[](0.5))", "y = Clip(%a) {min=0.0, max=2.0}")),
        ("min=", _f("a = Add(%x, f32[](3.0))", "b = Clip(%a) {min=-1.0, max=6.0}", "y = Div(%b, f32[](6.0))")),
        ("not one number", _f("m = Mul(%x, f32[4](0.2, 0.3, 0.4, 0.5))", "a = Add(%m, f32[](0.5))",
                              "y = Clip(%a) {min=0.0, max=1.0}")),
        ("changes the shape", "graph g(%x: f32[4]) { %m: f32[4] = Mul(%x, f32[](0.2)) "
                              "%a: f32[1,4] = Add(%m, f32[1,1](0.5)) "
                              "%y: f32[1,4] = Clip(%a) {min=0.0, max=1.0} return %y }"),
        ("not finite", _f("m = Mul(%x, f32[](inf))", "a = Add(%m, f32[](0.5))", "y = Clip(%a) {min=0.0, max=1.0}")),
        ("to doubles", "graph g(%x: f64[4]) { %a: f64[4] = Add(%x, f64[](3.0)) "
                       "%b: f64[4] = Clip(%a) {min=0.0, max=6.0} %y: f64[4] = Div(%b, f64[](6.0)) return %y }"),
    ],
    "fuse_elu": [
        ("expected", _f("e = Exp(%x)", "s = Sub(%e, f32[](1.0))", "r = Relu(%x)", "y = Add(%r, %s)")),
        ("expected", _chosen(part="Exp(%x)")),
        ("constant 0", _chosen(test="Greater(%x, f32[](1.0))", part="Expm1(%x)")),
        ("two different values", _chosen(test="Greater(%z, f32[](0.0))", part="Expm1(%x)")),
        ("two different values", _chosen(yes="%d", no="%x", part="Expm1(%x)", test="Less(%z, f32[](0.0))")),
        ("not one finite", _f("r = Relu(%x)", "c = Clip(%x) {max=0.0}", "e = Expm1(%c)",
                              "m = Mul(%e, f32[4](1.0, 2.0, 3.0, 4.0))", "y = Add(%r, %m)")),
    ],
    "fuse_selu": [
        ("not one finite", _f("e = Elu(%x)", "y = Mul(%e, f32[4](1.0, 2.0, 3.0, 4.0))")),
        ("not one finite", _f("e = Elu(%x)", "y = Mul(%e, f32[](inf))")),
        ("changes the shape", "graph g(%x: f32[4]) { %e: f32[4] = Elu(%x) "
                              "%y: f32[1,4] = Mul(%e, f32[1,1](2.0)) return %y }"),
    ],
    "fuse_celu": [
        ("what it is multiplied with", _f("r = Relu(%x)", "d = Div(%x, f32[](2.0))", "e = Expm1(%d)",
                                          "m = Mul(%e, f32[](3.0))", "n = Min(%m, f32[](0.0))", "y = Add(%r, %n)")),
        ("one positive number", _f("r = Relu(%x)", "d = Div(%x, f32[](-2.0))", "e = Expm1(%d)",
                                   "m = Mul(%e, f32[](-2.0))", "n = Min(%m, f32[](0.0))", "y = Add(%r, %n)")),
        ("max=", _f("r = Relu(%x)", "d = Div(%x, f32[](2.0))", "e = Expm1(%d)", "m = Mul(%e, f32[](2.0))",
                    "n = Clip(%m) {max=1.0}", "y = Add(%r, %n)")),
    ],
    "fuse_chosen_slope": [
        ("constant 0", _chosen(test="Greater(%x, f32[](1.0))")),
        ("two different values", _chosen(test="Greater(%z, f32[](0.0))")),
        ("two different values", _chosen(part="Mul(%z, f32[](0.5))")),
        ("two different values", _chosen(test="Less(%x, f32[](0.0))", yes="%d", no="%z")),
        ("not finite", _chosen(part="Mul(%x, f32[](inf))")),
        ("changes the shape", _chosen(part="Mul(%x, f32[3,1,1](0.5, 0.25, 2.0))", of="3,2,4", out="3,2,4")),
    ],
    "fuse_one_slope": [
        ("not one finite", _f("y = PRelu(%x, f32[4](0.1, 0.2, 0.3, 0.4))")),
        ("or 0", _f("y = PRelu(%x, f32[1](0.0))")),
        ("not constant", _f("y = PRelu(%x, %s)", more=", %s: f32[1]")),
    ],
    "fuse_prelu_of_sizes": [
        ("not finite", _f("r = Relu(%x)", "a = Abs(%x)", "d = Sub(%x, %a)", "m = Mul(%d, f32[](inf))",
                          "y = Add(%r, %m)")),
        ("two different values", _f("r = Relu(%z)", "a = Abs(%x)", "d = Sub(%x, %a)", "m = Mul(%d, f32[](0.5))",
                                    "y = Add(%r, %m)", more=", %z: f32[2,4]")),
        ("changes the shape", "graph g(%x: f32[4]) { %r: f32[4] = Relu(%x) %a: f32[4] = Abs(%x) "
                              "%d: f32[4] = Sub(%x, %a) %m: f32[2,4] = Mul(%d, f32[2,1](0.5, 0.25)) "
                              "%y: f32[2,4] = Add(%r, %m) return %y }"),
    ],
    "fuse_chosen_relu": [
        ("constant 0", _chosen(test="Less(%x, f32[](0.5))", yes="f32[](0.0)", no="%x")),
        ("constant 0", _chosen(test="Less(%x, f32[](0.0))", yes="f32[](1.0)", no="%x")),
        ("two different values", _chosen(test="Less(%z, f32[](0.0))", yes="f32[](0.0)", no="%x")),
        # What is no number is 0 in this one.
        ("expected Less", _chosen(test="Greater(%x, f32[](0.0))", yes="f32[](0.0)", no="%x")),
        ("changes the shape", _chosen(test="Less(%x, f32[](0.0))", yes="f32[3,1,1](0.0, 0.0, 0.0)", no="%x",
                                      out="3,2,4")),
    ],
    "fuse_abs": [
        ("two different values", _f("n = Neg(%z)", "y = Max(%x, %n)", more=", %z: f32[2,4]")),
        ("expected", _f("n = Neg(%x)", "r = Relu(%n)", "y = Add(%x, %r)")),
        ("floats", _INTS.format("%n: i32[4] = Neg(%x) %y: i32[4] = Max(%x, %n)")),
    ],
    "fuse_squared_difference": [
        ("floats", _INTS.format("%d: i32[4] = Sub(%x, %x) %y: i32[4] = Square(%d)")),
        ("floats", _f("d = Sub(f32[](1.0), %x)", "y = Square(%d)")),
        ("expected Sub", _f("d = Add(%x, %x)", "y = Square(%d)")),
    ],
    "fuse_leaky_relu": [
        # The factor has an axis that the result gets, too.
        ("changes the shape", "graph g(%x: f32[4]) { %d: f32[1,4] = Mul(%x, f32[1,1](0.5)) %y: f32[1,4] = Max(%x, %d) "
                              "return %y }"),
    ],
}  # fmt: skip
