"""Graphs that come close to normalizations, and must stay as they are; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: f32[2,4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


def _layer(gain: str = "", bias: str = "", variance: str = "Square(%b)", axes: str = "1", of: str = "%x") -> str:
    """(x - mean) / sqrt(mean of squares + epsilon) * gain + bias"""
    lines = [
        f"%a: f32[2,1] = ReduceMean({of}) {{axes=(1,)}}",
        "%b: f32[2,4] = Sub(%x, %a)",
        f"%c: f32[2,4] = {variance}",
        f"%d: f32[2,1] = ReduceMean(%c) {{axes=({axes},)}}",
        "%e: f32[2,1] = Add(%d, f32[](0.001))",
        "%f: f32[2,1] = Rsqrt(%e)",
        f"%g: f32[2,{1 if gain else 4}] = Mul({'%f' if gain else '%b'}, {gain or '%f'})",
        f"%y: f32[2,4] = {'Mul(%b, %g)' if gain else 'Identity(%g)'}",
    ]
    return _chain(*lines, params="%x: f32[2,4], %z: f32[2,4]")


def _moved(shift: str = "Mul(%a, %f)", y: str = "Sub(%p, %q)", of: str = "%x") -> str:
    """x / deviation - mean / deviation"""
    return _chain(
        "%a: f32[2,1] = ReduceMean(%x) {axes=(1,)}",
        "%b: f32[2,4] = SquaredDifference(%x, %a)",
        "%d: f32[2,1] = ReduceMean(%b) {axes=(1,)}",
        "%e: f32[2,1] = Add(%d, f32[](0.001))",
        "%f: f32[2,1] = Rsqrt(%e)",
        f"%p: f32[2,4] = Mul({of}, %f)",
        f"%q: f32[2,1] = {shift}",
        f"%y: f32[2,4] = {y}",
        params="%x: f32[2,4], %z: f32[2,4], %k: f32[2,1]",
    )


def _softmax(axis: str = "1", total: str = "%c", y: str = "Sub(%b, %e)", top: str = "1", keep: bool = True,
             t: str = "2,1", out: str = "2,2", last: str = "Log(%d)") -> str:  # fmt: skip
    """x - max - log(sum(exp(x - max)))"""
    return _chain(
        f"%a: f32[{t}] = ReduceMax(%x) {{axes=({top},), keepdims={keep}}}",
        "%b: f32[2,2] = Sub(%x, %a)",
        "%c: f32[2,2] = Exp(%b)",
        f"%d: f32[2,1] = ReduceSum({total}) {{axes=({axis},)}}",
        f"%e: f32[2,1] = {last}",
        f"%y: f32[{out}] = {y}",
        params="%x: f32[2,2]",
    )


def _groups(first: str = "0, 2, -1", grouped: str = "N,2,?", last: str = "0, 4, 5", y: str = "N,4,5",
            norm: str = "LayerNorm(%a)", x: str = "N,4,5") -> str:  # fmt: skip
    shapes = [f"i64[{s.count(',') + 1}]({s})" for s in (first, last)]
    return _chain(
        f"%a: f32[{grouped}] = Reshape(%x, {shapes[0]})",
        f"%b: f32[{grouped}] = {norm}",
        f"%y: f32[{y}] = Reshape(%b, {shapes[1]})",
        params=f"%x: f32[{x}], %s: f32[2]",
    )


def _affine(norm: str, then: str, x: str = "2,3,5") -> str:
    return _chain(f"%a: f32[{x}] = {norm}", f"%y: f32[{x}] = {then}", params=f"%x: f32[{x}], %s: f32[3]")


_CONSTANTS = "f32[3](1.0, 2.0, 3.0), f32[3](0.0, 1.0, 2.0)"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_layer_norm": [
        ("not one number per", _layer(gain="f32[2,1](1.0, 2.0)")),
        ("same last axes", _layer(variance="Square(%b)", axes="1, 0").replace("f32[2,1] = ReduceMean(%c)",
                                                                             "f32[1,1] = ReduceMean(%c)")
         .replace("f32[2,1] = Add", "f32[1,1] = Add").replace("f32[2,1] = Rsqrt", "f32[1,1] = Rsqrt")),
        ("two different values", _layer(of="%z")),
        ("expected", _layer(variance="Abs(%b)")),
        ("two different values", _moved(of="%z")),
        ("expected ReduceMean", _moved(shift="Mul(%k, %f)")),
        ("expected", _moved(y="Add(%p, %q)")),
    ],
    "fuse_rms_norm": [
        ("two different values", _chain("%a: f32[2,4] = Square(%z)", "%b: f32[2,1] = ReduceMean(%a) {axes=(1,)}",
                                        "%c: f32[2,1] = Add(%b, f32[](0.001))", "%d: f32[2,1] = Rsqrt(%c)",
                                        "%y: f32[2,4] = Mul(%x, %d)", params="%x: f32[2,4], %z: f32[2,4]")),
        ("not one number per", _chain("%a: f32[2,4] = Square(%x)", "%b: f32[2,1] = ReduceMean(%a) {axes=(1,)}",
                                      "%c: f32[2,1] = Add(%b, f32[](0.001))", "%d: f32[2,1] = Rsqrt(%c)",
                                      "%e: f32[2,1] = Mul(%d, f32[2,1](1.0, 2.0))", "%y: f32[2,4] = Mul(%x, %e)")),
    ],
    "fuse_reductions": [
        ("the other does not", _chain("%a: f32[2] = ReduceSum(%x) {axes=(1,), keepdims=False}",
                                      "%y: f32[1] = ReduceSum(%a) {axes=(0,)}")),
        ("rounded twice", _chain("%a: i32[2,1] = ReduceMean(%x) {axes=(1,)}",
                                 "%y: i32[1,1] = ReduceMean(%a) {axes=(0,)}",
                                 params="%x: i32[2,4]")),
        ("rank is not known", _chain("%a: f32[*] = ReduceMax(%x) {axes=(0,)}", "%y: f32[*] = ReduceMax(%a) {axes=(1,)}",
                                     params="%x: f32[*]")),
        ("expected ReduceMin", _chain("%a: f32[2,1] = ReduceMax(%x) {axes=(1,)}",
                                      "%y: f32[1,1] = ReduceMin(%a) {axes=(0,)}")),
        ("has 2 inputs", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}", "%y: f32[*] = ReduceSum(%a, %n)",
                                params="%x: f32[2,4], %n: i64[1]")),
    ],
    "fuse_mean": [
        ("over 4 elements", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}", "%y: f32[2,1] = Div(%a, f32[](3.0))")),
        ("over 4 elements", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}", "%y: f32[2,1] = Mul(%a, f32[](4.0))")),
        # Close to a fourth, but not as close as floats are.
        ("over 4 elements", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}",
                                   "%y: f32[2,1] = Mul(%a, f32[](0.250001))")),
        ("not one number", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}",
                                  "%y: f32[2,1] = Div(%a, f32[2,1](4.0, 4.0))")),
        ("changes the shape", _chain("%a: f32[2] = ReduceSum(%x) {axes=(1,), keepdims=False}",
                                     "%y: f32[1,2] = Div(%a, f32[1,1](4.0))")),
        ("not known", _chain("%a: f32[2,1] = ReduceSum(%x) {axes=(1,)}", "%y: f32[2,1] = Div(%a, f32[](4.0))",
                             params="%x: f32[2,N]")),
        ("no floats", _chain("%a: i32[2,1] = ReduceSum(%x) {axes=(1,)}", "%y: i32[2,1] = Div(%a, i32[](4))",
                             params="%x: i32[2,4]")),
    ],
    "fuse_l2": [
        ("2 inputs", _chain("%a: f32[2,4] = Square(%x)", "%b: f32[2,1] = ReduceSum(%a, %at)",
                                 "%y: f32[2,1] = Sqrt(%b)", params="%x: f32[2,4], %at: i64[1]")),
        ("expected", _chain("%a: f32[2,4] = Square(%x)", "%b: f32[2,1] = ReduceMean(%a) {axes=(1,)}",
                            "%y: f32[2,1] = Sqrt(%b)")),
    ],
    "fuse_sum_of_sizes": [
        ("not of floats", _chain("%a: i32[2,4] = Abs(%x)", "%y: i32[2,1] = ReduceSum(%a) {axes=(1,)}",
                                 params="%x: i32[2,4]")),
        ("expected", _chain("%a: f32[2,4] = Exp(%x)", "%y: f32[2,1] = ReduceSum(%a) {axes=(1,)}")),
    ],
    "fuse_instance_norm": [
        ("per channel", _affine("LayerNorm(%x)", "Mul(%a, f32[5](1.0, 2.0, 3.0, 4.0, 5.0))")),
        ("per channel", _affine("LayerNorm(%x)", "Mul(%a, f32[](2.0))")),
        ("per channel", _affine("LayerNorm(%x)", "Mul(%a, f32[2,1,1](2.0, 3.0))")),
        ("not channels", _affine("LayerNorm(%x) {axis=1}", "Add(%a, f32[3,1](1.0, 2.0, 3.0))")),
        ("has 3 inputs", _affine("LayerNorm(%x, f32[5](1.0, 2.0, 3.0, 4.0, 5.0), f32[5](1.0, 2.0, 3.0, 4.0, 5.0))",
                                 "Mul(%a, f32[3,1](1.0, 2.0, 3.0))")),
        ("per channel", _affine("LayerNorm(%x)", "Mul(%a, f32[3,1](1.0, 2.0, 3.0))", x="2,C,5").replace(
            "%a: f32[2,C,5]", "%a: f32[2,?,5]").replace("%y: f32[2,C,5]", "%y: f32[2,3,5]")),
    ],
    "fuse_channel_affine": [
        ("per channel", _affine(f"InstanceNorm(%x, {_CONSTANTS})", "Mul(%a, f32[5](1.0, 2.0, 3.0, 4.0, 5.0))")),
        ("per channel", _affine("GroupNorm(%x) {num_groups=3}", "Add(%a, f32[2,1,1](1.0, 2.0))")),
        ("computed", _affine("InstanceNorm(%x, %s, %s)", "Mul(%a, f32[](2.0))")),
        # Nothing is added, but 0 times infinity would be.
        ("not finite", _affine("GroupNorm(%x) {num_groups=3}", "Mul(%a, f32[](inf))")),
    ],
    "fuse_group_norm": [
        ("as groups", _groups(first="0, 4, -1", grouped="2,4,15", last="2, 5, 12", y="2,5,12", x="2,6,10")),
        ("as channels again", _groups(last="0, 5, 4", y="N,5,4")),
        ("samples", _groups(first="-1, 2, 10", grouped="?,2,10", last="-1, 4, 5")),
        ("not groups", _groups(norm="LayerNorm(%a) {axis=1}")),
        ("computed", _groups(norm="InstanceNorm(%a, %s, %s)")),
        ("has 2 inputs", _groups(grouped="N,2,10", norm="LayerNorm(%a, f32[10](1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, "
                                                        "1.0, 1.0))")),
    ],
    "fuse_norm_casts": [
        ("16 bits", _chain("%a: f32[2,4] = Cast(%x) {to=f32}", "%b: f32[2,4] = RMSNorm(%a)",
                           "%y: bf16[2,4] = Cast(%b) {to=bf16}", params="%x: f16[2,4]")),
        ("16 bits", _chain("%a: f32[2,4] = Cast(%x) {to=f32}", "%b: f32[2,4] = LayerNorm(%a)",
                           "%y: f64[2,4] = Cast(%b) {to=f64}", params="%x: f64[2,4]")),
        ("to=", _chain("%a: f64[2,4] = Cast(%x) {to=f64}", "%b: f64[2,4] = LayerNorm(%a)",
                       "%y: f16[2,4] = Cast(%b) {to=f16}", params="%x: f16[2,4]")),
    ],
    "fuse_softmax": [
        ("expected", _chain("%a: f32[2,1] = ReduceMax(%x) {axes=(1,)}", "%b: f32[2,4] = Sub(%x, %a)",
                            "%c: f32[2,4] = Exp(%b)", "%d: f32[2,1] = ReduceSum(%x) {axes=(1,)}",
                            "%y: f32[2,4] = Div(%c, %d)")),
    ],
    "fuse_log_softmax": [
        ("same one axis", _softmax(top="0", t="1,2")),
        ("keepdims", _softmax(keep=False, t="2")),
        ("expected Sub", _softmax(y="Sub(%x, %e)")),
        ("expected Exp", _softmax().replace("Exp(%b)", "Square(%b)")),
    ],
    "fuse_log_of_softmax": [("expected Softmax", _chain("%a: f32[2,4] = Exp(%x)", "%y: f32[2,4] = Log(%a)"))],
    "fuse_plain_softmax": [
        ("along one axis", _chain("%a: f32[2,4] = Exp(%x)", "%b: f32[1,1] = ReduceSum(%a) {axes=(0, 1)}",
                                  "%y: f32[2,4] = Div(%a, %b)")),
        ("two different values", _chain("%a: f32[2,4] = Exp(%x)", "%c: f32[2,4] = Exp(%z)",
                                        "%b: f32[2,1] = ReduceSum(%c) {axes=(1,)}", "%y: f32[2,4] = Div(%a, %b)",
                                        params="%x: f32[2,4], %z: f32[2,4]")),
    ],
    "fuse_log_sum_exp": [
        ("same one axis", _softmax(top="0", t="1,2", y="Add(%a, %e)")),
        ("expected", _softmax(y="Add(%a, %e)", out="2,1", last="Sqrt(%d)")),
    ],
}  # fmt: skip
