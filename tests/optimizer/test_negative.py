"""Graphs that come close to what a rule or pass does, and must stay as they are. Rules say why."""

from __future__ import annotations

from pathlib import Path
from runpy import run_path

import pytest
from rewriting import ALL, apply, normal_form, read

from minnow.optimizer.rewrite import Rule, Trace

_W = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_CONV = f"graph g(%x: f32[1,2,3,2]) {{ %a: f32[1,2,3,2] = Conv(%x, f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) {_W}"
_4 = "f32[4]"


def _chain(*lines: str, params: str = "%x: f32[4]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


def _sequence(*lines: str, params: str = "%x: f32[4], %z: f32[5]") -> str:
    """Lines that read the sequence %s of %x and %z, and a position %i."""
    return _chain("%s: sequence(?) = SequenceConstruct(%x, %z)", *lines, params=f"{params}, %i: i64[]")


def _split(*lines: str, params: str = "%x: f32[3,2]") -> str:
    """Lines that read the sequence %s of the rows of %x."""
    return _chain("%s: sequence(f32[*]) = SplitToSequence(%x) {keepdims=False}", *lines, params=params)


def _dilated(strides: str = "(1, 1)", pads: str = "(0, 0, 0, 0)", block: str = "(2, 4, 0, 1, 3, 5)", w: int = 2,
             step: str = "Relu(%f)") -> str:  # fmt: skip
    """A convolution of two channels between blocks that are images of the batch."""
    return _chain(
        "%a: f32[1,2,2,3,2,1] = Reshape(%x, i64[6](1, 2, 2, 3, 2, 1))",
        f"%b: f32[2,2,1,{'3,2' if '3, 1' in block else '2,3'},1] = Transpose(%a) {{perm={block}}}",
        "%c: f32[4,2,3,1] = Reshape(%b, i64[4](4, 2, 3, 1))",
        "%d: f32[4,1,2,3] = Transpose(%c) {perm=(0, 3, 1, 2)}",
        f"%e: f32[4,2,1,{w}] = Conv(%d, f32[2,1,2,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)) "
        f"{{strides={strides}, pads={pads}, dilations=(1, 1)}}",
        f"%f: f32[4,1,{w},2] = Transpose(%e) {{perm=(0, 2, 3, 1)}}",
        f"%g: f32[4,1,{w},2] = {step}",
        f"%h: f32[2,2,1,1,{w},2] = Reshape(%g, i64[6](2, 2, 1, 1, {w}, 2))",
        f"%i: f32[1,1,2,{w},2,2] = Transpose(%h) {{perm=(2, 3, 0, 4, 1, 5)}}",
        f"%y: f32[1,2,{2 * w},2] = Reshape(%i, i64[4](1, 2, {2 * w}, 2))",
        params="%x: f32[1,4,6,1]",
    )


def _layer(
    rounds: int = 3, index: str = "%t", sums: str = "Add(%a, %b)", function: str = "Tanh", scanned: str = "%d"
) -> str:
    """A plain recurrent layer as a loop."""
    return _chain(
        f'%n: f32[1,1], %y: f32[{rounds},1,1] = Loop(i64[]({rounds}), _, %h, %x) {{body=graph "b"(%t: i64[],'
        " %go: bool[], %s: f32[1,1], %all: f32[3,1,2]) {"
        f" %now: f32[1,2] = Gather(%all, {index})",
        "%a: f32[1,1] = Linear(%now, f32[1,2](0.5, 0.25), f32[1](1.0))",
        "%b: f32[1,1] = Linear(%s, f32[1,1](2.0))",
        f"%c: f32[1,1] = {sums}",
        f"%d: f32[1,1] = {function}(%c)",
        f"return %go, %d, {scanned}",
        "}, num_carried=1}",
        params="%x: f32[3,1,2], %h: f32[1,1]",
    )


# name -> (part of the reason, or "" where the root op is another one; graph)
CASES: dict[str, list[tuple[str, str]]] = {
    # ---- activation
    "fuse_clip": [
        ("not one number", _chain("%y: f32[4] = Max(%x, f32[4](1.0, 2.0, 3.0, 4.0))")),
        ("floats", _chain("%y: i32[4] = Max(%x, i32[](0))", params="%x: i32[4]")),
        ("not one number", _chain("%y: f32[4] = Max(%x, f32[](nan))")),
        ("not one number", _chain("%y: f64[4] = Max(%x, f64[](0.1))", params="%x: f64[4]")),
        ("changes the shape", _chain("%y: f32[1,4] = Min(%x, f32[1,1](1.0))")),
    ],
    "fuse_relu": [("min=", _chain("%y: f32[4] = Clip(%x) {min=0.5}")),
                  ("max=", _chain("%y: f32[4] = Clip(%x) {min=0.0, max=6.0}"))],
    "fuse_leaky_relu": [
        ("between 0 and 1", _chain("%a: f32[4] = Mul(%x, f32[](1.5))", "%y: f32[4] = Max(%x, %a)")),
        ("not one number", _chain("%a: f32[4] = Mul(%x, f32[4](0.1, 0.2, 0.3, 0.4))", "%y: f32[4] = Max(%x, %a)")),
        ("two different values", _chain("%a: f32[4] = Mul(%z, f32[](0.5))", "%y: f32[4] = Max(%x, %a)",
                                        params="%x: f32[4], %z: f32[4]")),
    ],
    "fuse_prelu": [
        ("two different values", _chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%z)", "%c: f32[4] = Relu(%b)",
                                        "%d: f32[4] = Mul(%c, f32[](0.5))", "%y: f32[4] = Sub(%a, %d)",
                                        params="%x: f32[4], %z: f32[4]")),
        ("with floats", _chain("%a: i32[4] = Relu(%x)", "%b: i32[4] = Neg(%x)", "%c: i32[4] = Relu(%b)",
                               "%d: i32[4] = Mul(%c, i32[](2))", "%y: i32[4] = Sub(%a, %d)", params="%x: i32[4]")),
        ("not finite", _chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%x)", "%c: f32[4] = Relu(%b)",
                              "%d: f32[4] = Mul(%c, f32[](inf))", "%y: f32[4] = Sub(%a, %d)")),
        ("changes the shape", _chain("%a: f32[4] = Relu(%x)", "%b: f32[4] = Neg(%x)", "%c: f32[4] = Relu(%b)",
                                     "%d: f32[2,4] = Mul(%c, f32[2,1](0.5, 0.25))", "%y: f32[2,4] = Sub(%a, %d)")),
    ],
    "fuse_silu": [("two different values", _chain("%a: f32[4] = Sigmoid(%x)", "%y: f32[4] = Mul(%a, %z)",
                                                  params="%x: f32[4], %z: f32[4]"))],
    "fuse_hard_swish": [
        ("with floats", _chain("%a: i32[4] = Add(%x, i32[](3))", "%b: i32[4] = Clip(%a) {min=0.0, max=6.0}",
                               "%c: i32[4] = Mul(%x, %b)", "%y: i32[4] = Div(%c, i32[](6))", params="%x: i32[4]")),
        ("constant 6", _chain("%a: f32[4] = Add(%x, f32[](3.0))", "%b: f32[4] = Clip(%a) {min=0.0, max=6.0}",
                              "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](5.0))")),
        ("max=", _chain("%a: f32[4] = Add(%x, f32[](3.0))", "%b: f32[4] = Clip(%a) {min=0.0, max=5.0}",
                        "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](6.0))")),
        ("constant 3", _chain("%a: f32[4] = Add(%x, f32[](2.5))", "%b: f32[4] = Clip(%a) {min=0.0, max=6.0}",
                              "%c: f32[4] = Mul(%x, %b)", "%y: f32[4] = Div(%c, f32[](6.0))")),
    ],
    "fuse_gelu": [
        ("constant", _chain("%a: f32[4] = Div(%x, f32[](1.5))", "%b: f32[4] = Erf(%a)",
                            "%c: f32[4] = Add(%b, f32[](1.0))", "%d: f32[4] = Mul(%x, %c)",
                            "%y: f32[4] = Mul(%d, f32[](0.5))")),
        ("changes the shape", _chain("%a: f32[4] = Div(%x, f32[](1.4142135))", "%b: f32[4] = Erf(%a)",
                                     "%c: f32[4] = Add(%b, f32[](1.0))", "%d: f32[4] = Mul(%x, %c)",
                                     "%y: f32[2,4] = Mul(%d, f32[2,1](0.5, 0.5))")),
    ],
    "fuse_gelu_tanh": [
        ("constant 0.044715", _chain("%a: f32[4] = Pow(%x, f32[](3.0))", "%b: f32[4] = Mul(%a, f32[](0.05))",
                                     "%c: f32[4] = Add(%x, %b)", "%d: f32[4] = Mul(%c, f32[](0.7978846))",
                                     "%e: f32[4] = Tanh(%d)", "%f: f32[4] = Add(%e, f32[](1.0))",
                                     "%g: f32[4] = Mul(%x, %f)", "%y: f32[4] = Mul(%g, f32[](0.5))")),
    ],
    "split_pow": [("roots of -0", _chain("%y: f32[4] = Pow(%x, f32[](0.5))")),
                  ("roots of -0", _chain("%y: f32[4] = Pow(%x, f32[](-0.5))")),
                  ("no op of its own", _chain("%y: f32[4] = Pow(%x, f32[](3.0))")),
                  ("no float", _chain("%y: i32[4] = Pow(%x, i32[](2))", params="%x: i32[4]"))],
    "fuse_square": [("two different values", _chain("%y: f32[4] = Mul(%x, %z)", params="%x: f32[4], %z: f32[4]"))],
    "fuse_rsqrt": [("constant 1", _chain("%a: f32[4] = Sqrt(%x)", "%y: f32[4] = Div(f32[](2.0), %a)"))],
    # ---- arithmetic
    "fuse_constants": [
        ("no floats", _chain("%a: i32[4] = Mul(%x, i32[](65536))", "%y: i32[4] = Mul(%a, i32[](65536))",
                             params="%x: i32[4]")),
        ("expected Mul", _chain("%a: f32[4] = Add(%x, f32[](2.0))", "%y: f32[4] = Mul(%a, f32[](3.0))")),
    ],
    "split_division": [("normal number", _chain("%y: f32[4] = Div(%x, f32[](0.0))")),
                       ("normal number", _chain("%y: f32[4] = Div(%x, f32[](3e38))")),
                       ("no float", _chain("%y: i32[4] = Div(%x, i32[](2))", params="%x: i32[4]"))],
    "split_division_by_root": [("constant", _chain("%a: f32[4] = Sqrt(%x)", "%y: f32[4] = Div(f32[](1.0), %a)"))],
    # ---- identity
    "eliminate_identity": [("", _chain("%y: f32[4] = Neg(%x)"))],
    "eliminate_cast": [("types differ", _chain("%y: i32[4] = Cast(%x) {to=i32}"))],
    "eliminate_neutral": [
        ("changes the shape", _chain("%y: f32[1,4] = Add(%x, f32[1,1](0.0))")),
        ("close to", _chain("%y: f32[4] = Mul(%x, f32[](1.00001))")),
        ("0 of -0", _chain("%y: f32[4] = Add(%x, f32[](0.0))")),
        ("0 of -0", _chain("%y: f32[4] = Sub(%x, f32[](-0.0))")),
        ("constant 0", _chain("%y: f32[4] = Sub(f32[](0.0), %x)")),
    ],
    "eliminate_reshape": [
        ("shape changes", _chain("%y: f32[2,2] = Reshape(%x, i64[2](2, 2))")),
        ("not known", _chain("%y: f32[?,2] = Reshape(%x, i64[2](-1, 2))", params="%x: f32[?,2]")),
    ],
    "eliminate_transpose": [("perm is", _chain("%y: f32[2,2] = Transpose(%x) {perm=(1, 0)}", params="%x: f32[2,2]"))],
    "eliminate_concat": [("2 inputs", _chain("%y: f32[8] = Concat(%x, %x) {axis=0}"))],
    "eliminate_pad": [("not zero", _chain("%y: f32[5] = Pad(%x, i64[2](0, 1))"))],
    "eliminate_slice": [
        ("shape changes", _chain("%y: f32[3] = Slice(%x, i64[1](0), i64[1](3))")),
        ("has steps", _chain("%y: f32[4] = Slice(%x, i64[1](-1), i64[1](-9), i64[1](0), i64[1](-1))")),
        ("not known", _chain("%y: f32[?] = Slice(%x, i64[1](0), i64[1](9))", params="%x: f32[?]")),
    ],
    # ---- legalization
    "legalize_index": [
        ("can be negative", _chain("%y: f32[2] = Gather(%x, i32[2](0, 3))")),
        ("can be negative", _chain("%a: i64[1] = Shape(%x)", "%y: f32[1] = Gather(%x, %a)")),
        ("rank is not known", _chain("%y: f32[*] = Gather(%x, %i)", params="%x: f32[*], %i: i32[2]")),
    ],
    "legalize_one_hot": [("computed", _chain("%y: f32[2,?] = OneHot(%i, %d, f32[2](0.0, 1.0))",
                                             params="%i: i32[2], %d: i32[]"))],
    "legalize_hardmax": [("not known", _chain("%y: f32[2,N] = Hardmax(%x)", params="%x: f32[2,N]")),
                         ("nothing", _chain("%y: f32[2,0] = Hardmax(%x)", params="%x: f32[2,0]"))],
    "legalize_dft": [
        ("float32", _chain("%y: f64[2,2] = DFT(%x)", params="%x: f64[2,1]")),
        ("computed", _chain("%y: f32[?,2] = DFT(%x, %n)", params="%x: f32[2,1], %n: i64[]")),
        ("computed", _chain("%y: f32[?,?,2] = DFT(%x, _, %a)", params="%x: f32[2,2,1], %a: i64[]")),
        ("not known", _chain("%y: f32[N,2] = DFT(%x)", params="%x: f32[N,1]")),
        ("better", _chain("%y: f32[4096,2] = DFT(%x)", params="%x: f32[4096,1]")),
    ],
    "legalize_stft": [
        ("float32", _chain("%y: f64[1,4,2,2] = STFT(%x, i64[](1), _, i64[](2))", params="%x: f64[1,5,1]")),
        ("computed", _chain("%y: f32[1,?,2,2] = STFT(%x, %s, _, i64[](2))", params="%x: f32[1,5,1], %s: i64[]")),
        ("computed", _chain("%y: f32[1,4,2,2] = STFT(%x, i64[](1), %w)", params="%x: f32[1,5,1], %w: f32[2]")),
        ("not known", _chain("%y: f32[1,?,?,2] = STFT(%x, i64[](1))", params="%x: f32[1,N,1]")),
        ("better", _chain("%y: f32[1,1,2049,2] = STFT(%x, i64[](1))", params="%x: f32[1,4096,1]")),
    ],
    "legalize_non_zero": [("rank", _chain("%y: i64[0,?] = NonZero(%x)", params="%x: f32[]"))],
    "legalize_trilu": [("not known", _chain("%y: f32[N,2] = Trilu(%x)", params="%x: f32[N,2]"))],
    "legalize_top_k": [("last axis", _chain("%y: f32[2], %i: i64[2] = TopK(%x, i64[1](2))", result="%y, %i"))],
    "legalize_reverse": [("one axis", _chain("%y: f32[4] = Reverse(%x) {axes=(0,)}"))],
    "legalize_deform_conv": [("not known", _chain(
        "%y: f32[1,1,H,2] = DeformConv(%x, f32[1,1,1,1](2.0), %o) {strides=(1, 1), pads=(0, 0, 0, 0), "
        "dilations=(1, 1)}", params="%x: f32[1,1,H,2], %o: f32[1,2,H,2]"))],
    "legalize_round": [("f32", _chain("%y: f64[4] = Round(%x)", params="%x: f64[4]"))],
    "legalize_extremum": [
        ("integers", _chain("%y: i32[4] = Max(%x, %x)", params="%x: i32[4]")),
        ("is a number", _chain("%y: f32[4] = Max(f32[](1.0), %x)")),
        ("looked at", _chain("%a: f32[4] = Max(%x, %z)", "%c: bool[4] = LessOrEqual(%x, %x)",
                             "%y: f32[4] = Where(%c, %a, %x)", params="%x: f32[4], %z: f32[4]")),
    ],
    "legalize_last_arg": [("not known", _chain("%y: i64[1] = ArgMax(%x) {select_last_index=True}",
                                               params="%x: f32[N]"))],
    "legalize_hard_sigmoid": [("", _chain("%y: f32[4] = Sigmoid(%x)"))],
    "legalize_softplus": [("", _chain("%a: f32[4] = Exp(%x)", "%y: f32[4] = Log1p(%a)"))],
    "legalize_mish": [("", _chain("%y: f32[4] = Silu(%x)"))],
    "legalize_softsign": [("", _chain("%y: f32[4] = Sign(%x)"))],
    "legalize_celu": [("", _chain("%y: f32[4] = Elu(%x)"))],
    "legalize_thresholded_relu": [("", _chain("%y: f32[4] = Relu(%x)"))],
    "legalize_shrink": [("integers", _chain("%y: i32[4] = Shrink(%x)", params="%x: i32[4]"))],
    "legalize_not": [("", _chain("%y: i32[4] = BitwiseNot(%x)", params="%x: i32[4]"))],
    "legalize_cast_bool": [("to=", _chain("%y: i32[4] = Cast(%x) {to=i32}"))],
    "legalize_clip": [("has it", _chain("%y: f32[4] = Clip(%x) {min=0.0, max=1.0}"))],
    "legalize_prelu": [("has it", _chain("%y: f32[1,2,1,1] = PRelu(%x, f32[2,1,1](1.0, 2.0))",
                                         params="%x: f32[1,2,1,1]"))],
    "legalize_log_softmax": [("", _chain("%y: f32[4] = Softmax(%x)"))],
    "legalize_reduction": [("integers", _chain("%y: i32[1] = ReduceL2(%x)", params="%x: i32[4]"))],
    "legalize_arg": [("form of the format", _chain("%y: i64[] = ArgMax(%x) {keepdims=False}")),
                     ("none", _chain("%y: i64[1] = ArgMax(%x) {select_last_index=True}"))],
    "legalize_relu": [("floats", _chain("%y: f32[4] = Relu(%x)"))],
    "legalize_bitwise_not": [("32 bits", _chain("%y: u8[4] = BitwiseNot(%x)", params="%x: u8[4]"))],
    "legalize_equal": [("has it", _chain("%y: bool[4] = Equal(%x, f32[](1.0))")),
                       ("does not have", _chain("%y: bool[4] = Equal(%x, %x)", params="%x: i64[4]"))],
    "legalize_special": [("f32", _chain("%y: bool[4] = IsNaN(%x)", params="%x: f16[4]")),
                         ("nothing", _chain("%y: bool[4] = IsInf(%x) {detect_negative=False, detect_positive=False}"))],
    "legalize_comparison": [
        ("has it", _chain("%y: bool[4] = Less(%x, f32[](1.0))")),
        ("not known", _chain("%y: bool[N,M] = Less(%x, %z)", params="%x: f32[N,1], %z: f32[1,M]")),
    ],
    "legalize_where": [("has it", _chain("%y: f32[4] = Where(%c, %x, f32[](0.0))", params="%c: bool[4], %x: f32[4]"))],
    "legalize_vector_product": [("vector", _chain("%y: f32[2,2] = MatMul(%x, %x)", params="%x: f32[2,2]"))],
    "legalize_vector_linear": [("no vector", _chain("%y: f32[2,1] = Linear(%x, f32[1,2](1.0, 2.0))",
                                                    params="%x: f32[2,2]"))],
    "legalize_batch_norm": [("zero or negative", _chain(
        "%y: f32[1,1,2] = BatchNorm(%x, f32[1](3.0), f32[1](1.0), f32[1](4.0), f32[1](-4.0))",
        params="%x: f32[1,1,2]"))],
    "legalize_scale": [("has it", _chain("%y: f32[1,1,2,2] = Scale(%x, f32[1](3.0), f32[1](1.0))",
                                         params="%x: f32[1,1,2,2]"))],
    "legalize_conv_1d": [("one spatial axis", f"{_CONV} return %a }}")],
    "legalize_pool_1d": [("one spatial axis", _chain(
        "%y: f32[1,1,2,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}",
        params="%x: f32[1,1,2,2]"))],
    "legalize_global_pool_1d": [("one spatial axis", _chain("%y: f32[1,2,1,1] = GlobalMaxPool(%x)",
                                                            params="%x: f32[1,2,3,3]"))],
    "legalize_lp_pool": [("p is 3", _chain("%y: f32[1,2,1,1] = GlobalLpPool(%x) {p=3}", params="%x: f32[1,2,3,3]"))],
    "legalize_groups": [
        ("one group", f"{_CONV} return %a }}"),
        ("has it", _chain("%y: f32[1,2,2,2] = Conv(%x, f32[2,1,1,1](1.0, 2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), "
                          "dilations=(1, 1), group=2}", params="%x: f32[1,2,2,2]")),
    ],
    "legalize_average_pads": [
        ("has it", _chain("%y: f32[1,1,4,4] = AveragePool(%x) {kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1), "
                          "dilations=(1, 1), count_include_pad=True}", params="%x: f32[1,1,3,3]")),
        ("count_include_pad", _chain("%y: f32[1,1,3,3] = AveragePool(%x) {kernel=(2, 2), strides=(1, 1), "
                                     "pads=(0, 0, 1, 1), dilations=(1, 1)}", params="%x: f32[1,1,3,3]")),
    ],
    "legalize_norm_operands": [("has neither", _chain("%y: f32[2,2] = RMSNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_instance_norm": [("", _chain("%y: f32[2,2] = LayerNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_group_norm": [("", _chain("%y: f32[2,2] = LayerNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_backward": [
        ("lengths of their own", _chain(
            '%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0), _, %n) '
            '{hidden=1, direction="reverse"}', params="%x: f32[3,1,1], %n: i32[1]", result="%y, %h")),
        ("direction=", _chain("%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0)) "
                              "{hidden=1}", params="%x: f32[3,1,1]", result="%y, %h")),
    ],
    "legalize_resize": [
        ("has it", _chain("%y: f32[1,1,4,2] = Resize(%x, _, f32[4](1.0, 1.0, 2.0, 1.0)) {mode=\"linear\"}",
                          params="%x: f32[1,1,2,2]")),
        ("depends on the others", _chain(
            "%y: f32[1,1,2,4] = Resize(%x, _, _, i64[2](9, 4)) {axes=(2, 3), keep_aspect=\"not_larger\"}",
            params="%x: f32[1,1,1,2]")),
        ("last axes", _chain("%y: f32[4,1,2] = Resize(%x, _, f32[3](2.0, 1.0, 1.0)) {mode=\"linear\"}",
                             params="%x: f32[2,1,2]")),
    ],
    "legalize_wrap": [
        ("more than once", _chain("%y: f32[9] = Pad(%x, i64[2](0, 5)) {mode=\"wrap\"}")),
        ("not known", _chain("%y: f32[*] = Pad(%x, i64[2](0, 1)) {mode=\"wrap\"}", params="%x: f32[N]")),
    ],
    "legalize_dilated_pool": [
        ("counts what is there", _chain("%y: f32[1,1,2,2] = AveragePool(%x) {kernel=(2, 1), strides=(1, 1), "
                                        "pads=(1, 0, 1, 0), dilations=(2, 1)}", params="%x: f32[1,1,2,2]")),
        ("dilations=", _chain("%y: f32[1,1,2,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), "
                              "dilations=(1, 1)}", params="%x: f32[1,1,2,2]")),
        ("two spatial axes", _chain("%y: f32[1,1,2] = MaxPool(%x) {kernel=(1,), strides=(1,), pads=(0, 0), "
                                    "dilations=(2,)}", params="%x: f32[1,1,2]")),
        ("not known", _chain("%y: f32[1,1,H,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), "
                             "dilations=(2, 1)}", params="%x: f32[1,1,H,2]")),
    ],
    "legalize_reflection": [("neither way", _chain(
        '%y: f32[1,1,3,4] = GridSample(%x, %g) {mode="cubic", padding="reflection"}',
        params="%x: f32[1,1,2,2], %g: f32[1,3,4,2]"))],
    "legalize_both_ways": [
        ("has it", _chain(
            "%y: f32[3,2,1,1], %h: f32[2,1,1] = RNN(%x, f32[2,1,1](2.0, 1.0), f32[2,1,1](3.0, 4.0)) "
            '{hidden=1, direction="bidirectional"}', params="%x: f32[3,1,1]", result="%y, %h")),
        ("one direction either", _chain(
            "%y: f32[3,2,1,1], %h: f32[2,1,1] = RNN(%x, f32[2,1,1](2.0, 1.0), f32[2,1,1](3.0, 4.0)) "
            '{hidden=1, direction="bidirectional", clip=0.5}', params="%x: f32[3,1,1]", result="%y, %h")),
    ],
    "legalize_whole_sequences": [("shorter", _chain(
        "%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0), _, i32[1](2)) {hidden=1}",
        params="%x: f32[3,1,1]", result="%y, %h"))],
    "legalize_pool_3d": [("known dimensions", _chain(
        "%y: f32[1,1,D,2,2] = MaxPool(%x) {kernel=(1, 1, 1), strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_conv_3d": [("known dimensions", _chain(
        "%y: f32[1,1,D,2,2] = Conv(%x, f32[1,1,1,1,1](2.0)) {strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_conv_transpose_3d": [("known dimensions", _chain(
        "%y: f32[1,1,D,2,2] = ConvTranspose(%x, f32[1,1,1,1,1](2.0)) {strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1), output_padding=(0, 0, 0)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_expand": [
        ("has it", _chain("%y: f32[2,4] = Expand(%x, i64[2](2, 4))")),
        ("not known", _chain("%y: f32[*] = Expand(%x, %s)", params="%x: f32[*], %s: i32[2]")),
    ],
    "legalize_crop": [("no number is negative", _chain("%y: f32[5] = Pad(%x, i64[2](0, 1))"))],
    # ---- products
    "fuse_linear": [
        ("not constant", _chain("%y: f32[2,2] = MatMul(%x, %x)", params="%x: f32[2,2]")),
        ("not a matrix", _chain("%y: f32[1,2,1] = MatMul(%x, f32[1,2,1](1.0, 2.0))", params="%x: f32[1,2,2]")),
        ("a vector", _chain("%y: f32[1] = MatMul(%x, f32[2,1](1.0, 2.0))", params="%x: f32[2]")),
        ("transpose_a", _chain("%y: f32[2,1] = MatMul(%x, f32[2,1](1.0, 2.0)) {transpose_a=True}",
                               params="%x: f32[2,2]")),
    ],
    "fuse_linear_bias": [
        # One number per row.
        ("not one number per feature", _chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                                              "%y: f32[2,2] = Add(%a, f32[2,1](3.0, 4.0))", params="%x: f32[2,1]")),
        ("not one number per feature", _chain("%a: f32[2,1] = Linear(%x, f32[1,1](1.0))",
                                              "%y: f32[2,2] = Add(%a, f32[2](3.0, 4.0))", params="%x: f32[2,1]")),
        ("activation=", _chain('%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0)) {activation="relu"}',
                               "%y: f32[2,2] = Add(%a, f32[2](3.0, 4.0))", params="%x: f32[2,1]")),
    ],
    "fuse_linear_scale": [
        ("not one number per feature", _chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                                              "%y: f32[2,2] = Mul(%a, f32[2,1](3.0, 4.0))", params="%x: f32[2,1]")),
        ("not finite", _chain("%a: f32[2,2] = Linear(%x, f32[2,1](1.0, 2.0))",
                              "%y: f32[2,2] = Div(%a, f32[](0.0))", params="%x: f32[2,1]")),
    ],
    "fuse_matmul_transpose": [
        ("not a swap", _chain("%a: f32[3,2,2] = Transpose(%x) {perm=(2, 1, 0)}", "%y: f32[3,2,2] = MatMul(%a, %z)",
                              params="%x: f32[2,2,3], %z: f32[2,2]")),
    ],
    # ---- shapes and movement
    "fold_reshape_shape": [
        ("more than one", _chain("%a: i64[2] = Shape(%x)", "%b: i64[2] = Gather(%a, i64[2](1, 0))",
                                 "%y: f32[?,?] = Reshape(%x, %b)", params="%x: f32[N,M]")),
        ("nothing is known", _chain("%y: f32[?,?] = Reshape(%x, %s)", params="%x: f32[N,M], %s: i64[2]")),
        ("does not copy", _chain("%a: i64[2] = Shape(%x)", "%y: f32[?,?] = Reshape(%x, %a) {allowzero=True}",
                                 params="%x: f32[N,M]")),
    ],
    "eliminate_expand": [
        ("neither 1 nor", _chain("%y: f32[3,4] = Expand(%x, i64[2](3, 4))", params="%x: f32[1,4]")),
        ("nothing is known", _chain("%y: f32[?,4] = Expand(%x, %s)", params="%x: f32[1,4], %s: i64[2]")),
    ],
    "fuse_views": [("no single view", _chain(
        "%a: f32[N,M] = Squeeze(%x) {axes=(2,)}", "%y: f32[1,N,M] = Unsqueeze(%a) {axes=(0,)}",
        params="%x: f32[N,M,1]")),
        ("not known", _chain("%a: f32[*] = Squeeze(%x)", "%y: f32[*] = Unsqueeze(%a) {axes=(0,)}",
                             params="%x: f32[N,1]"))],
    "fuse_transposes": [("found %x", _chain("%y: f32[2,2] = Transpose(%x) {perm=(1, 0)}", params="%x: f32[2,2]"))],
    "eliminate_transpose_of_ones": [("not of size 1", _chain("%y: f32[1,3,2] = Transpose(%x) {perm=(0, 2, 1)}",
                                                               params="%x: f32[1,2,3]"))],
    "hoist_elementwise": [
        ("more than one element", _chain("%a: f32[2,2] = Reshape(%x, i64[2](2, 2))",
                                         "%y: f32[2,2] = Mul(%a, f32[2](2.0, 3.0))")),
        ("more axes", _chain("%a: f32[2,2] = Reshape(%x, i64[2](2, 2))", "%y: f32[1,2,2] = Mul(%a, f32[1,1,1](2.0))")),
    ],
    "eliminate_expand_before_broadcast": [
        ("with the expansion only", _chain("%a: f32[3,4] = Expand(%x, i64[2](3, 4))", "%y: bool[3,4] = Less(%a, %z)",
                                           params="%x: f32[3,1], %z: f32[1,4]")),
        ("may decide", _chain("%a: f32[3,4] = Expand(%x, i64[2](3, 4))", "%y: f32[3,4] = Add(%a, f32[](1.0))",
                                       params="%x: f32[1,4]")),
        ("may decide", _chain("%a: f32[N,4] = Expand(%x, %s)", "%y: f32[N,4] = Add(%a, %z)",
                              params="%x: f32[1,4], %s: i64[2], %z: f32[?,4]")),
    ],
    "fuse_casts": [("every number", _chain("%a: i32[4] = Cast(%x) {to=i32}", "%y: f32[4] = Cast(%a) {to=f32}"))],
    "fuse_concats": [
        ("no operand", _chain("%a: f32[2,4] = Concat(%x, %x) {axis=1}", "%y: f32[4,4] = Concat(%a, %a) {axis=0}",
                              params="%x: f32[2,2]")),
        ("no operand", _chain("%a: f32[8] = Concat(%x, %x) {axis=0}", "%y: f32[12] = Concat(%a, %x) {axis=0}",
                              result="%y, %a")),
    ],
    # ---- normalization
    "fuse_layer_norm": [
        ("same last axes", _chain("%a: f32[1,4] = ReduceMean(%x) {axes=(0,)}", "%b: f32[2,4] = Sub(%x, %a)",
                                  "%c: f32[2,4] = Square(%b)", "%d: f32[2,1] = ReduceMean(%c) {axes=(1,)}",
                                  "%e: f32[2,1] = Add(%d, f32[](0.001))", "%f: f32[2,1] = Sqrt(%e)",
                                  "%y: f32[2,4] = Div(%b, %f)", params="%x: f32[2,4]")),
        ("not one number", _chain("%a: f32[2,1] = ReduceMean(%x) {axes=(1,)}", "%b: f32[2,4] = Sub(%x, %a)",
                                  "%c: f32[2,4] = Square(%b)", "%d: f32[2,1] = ReduceMean(%c) {axes=(1,)}",
                                  "%e: f32[2,1] = Add(%d, f32[2,1](0.001, 0.002))", "%f: f32[2,1] = Sqrt(%e)",
                                  "%y: f32[2,4] = Div(%b, %f)", params="%x: f32[2,4]")),
    ],
    "fuse_rms_norm": [
        ("last axes", _chain("%a: f32[2,4] = Square(%x)", "%b: f32[1,4] = ReduceMean(%a) {axes=(0,)}",
                             "%c: f32[1,4] = Add(%b, f32[](0.001))", "%d: f32[1,4] = Rsqrt(%c)",
                             "%y: f32[2,4] = Mul(%x, %d)", params="%x: f32[2,4]")),
        ("not one number", _chain("%a: f32[2,4] = Square(%x)", "%b: f32[2,1] = ReduceMean(%a) {axes=(1,)}",
                                  "%c: f32[2,1] = Add(%b, f32[](-0.001))", "%d: f32[2,1] = Rsqrt(%c)",
                                  "%y: f32[2,4] = Mul(%x, %d)", params="%x: f32[2,4]")),
    ],
    "fuse_norm_scale": [
        ("not one number per", _chain("%a: f32[2,2] = RMSNorm(%x)", "%y: f32[2,2] = Mul(%a, f32[2,1](1.0, 2.0))",
                                      params="%x: f32[2,2]")),
        ("inputs", _chain("%a: f32[2,2] = RMSNorm(%x, f32[2](1.0, 2.0))", "%y: f32[2,2] = Mul(%a, f32[2](1.0, 2.0))",
                          params="%x: f32[2,2]")),
    ],
    "fuse_norm_bias": [
        ("already", _chain("%a: f32[2,2] = LayerNorm(%x, f32[2](1.0, 2.0), f32[2](1.0, 2.0))",
                           "%y: f32[2,2] = Add(%a, f32[2](1.0, 2.0))", params="%x: f32[2,2]")),
        ("not one number per", _chain("%a: f32[2,2] = LayerNorm(%x)", "%y: f32[2,2] = Add(%a, f32[2,1](1.0, 2.0))",
                                      params="%x: f32[2,2]")),
    ],
    "fuse_softmax": [
        ("same one axis", _chain("%a: f32[1,2] = ReduceMax(%x) {axes=(0,)}", "%b: f32[2,2] = Sub(%x, %a)",
                                 "%c: f32[2,2] = Exp(%b)", "%d: f32[2,1] = ReduceSum(%c) {axes=(1,)}",
                                 "%y: f32[2,2] = Div(%c, %d)", params="%x: f32[2,2]")),
    ],
    "fuse_global_average": [
        ("axes N, C, H, W", _chain("%y: f32[2,3,1,1,2] = ReduceMean(%x) {axes=(2, 3)}", params="%x: f32[2,3,2,2,2]")),
        ("axes=", _chain("%y: f32[2,1,1,2] = ReduceMean(%x) {axes=(1, 2)}", params="%x: f32[2,3,2,2]")),
    ],
    "fuse_pooled_view": [
        ("other axes", _chain("%a: f32[2,3,1,1] = GlobalAveragePool(%x)", "%y: f32[3,2] = Reshape(%a, i64[2](3, 2))",
                              params="%x: f32[2,3,2,2]")),
        ("other axes", _chain("%a: f32[N,3,1,1] = GlobalAveragePool(%x)", "%y: f32[N,3,1] = Squeeze(%a) {axes=(3,)}",
                              params="%x: f32[N,3,2,2]")),
        ("other axes", _chain("%a: f32[2,3,1,1] = GlobalAveragePool(%x)", "%y: f32[6] = Reshape(%a, i64[1](-1))",
                              params="%x: f32[2,3,2,2]")),
    ],
    # ---- sequences
    "take_known_element": [
        ("not known", _sequence("%y: f32[?] = SequenceAt(%s, %i) {dtype=f32}")),
        ("out of range", _sequence("%y: f32[?] = SequenceAt(%s, i64[](2)) {dtype=f32}")),
        ("shapes differ", _sequence("%y: f32[7] = SequenceAt(%s, i64[](0)) {dtype=f32, shape=(7,)}",
                                    params="%x: f32[4], %z: f32[7]")),
    ],
    "count_known_elements": [
        ("expected SequenceConstruct", _chain("%y: i64[] = SequenceLength(%x)", params="%x: sequence(f32[4])")),
    ],
    "insert_known_element": [
        ("not known", _sequence("%y: sequence(f32[?]) = SequenceInsert(%s, %x, %i)")),
        ("out of range", _sequence("%y: sequence(f32[?]) = SequenceInsert(%s, %x, i64[](3))")),
    ],
    "erase_known_element": [
        ("not known", _sequence("%y: sequence(f32[?]) = SequenceErase(%s, %i)")),
        ("out of range", _sequence("%y: sequence(f32[?]) = SequenceErase(%s, i64[](-3))")),
        ("out of range", _chain("%s: sequence(f32[*]) = SequenceConstruct()",
                                "%y: sequence(f32[*]) = SequenceErase(%s)")),
    ],
    "concat_known_elements": [
        ("is empty", _chain("%s: sequence(f32[*]) = SequenceConstruct()",
                            "%y: f32[*] = ConcatFromSequence(%s) {axis=0, dtype=f32}")),
        ("rank is not known", _sequence("%y: f32[*] = ConcatFromSequence(%s) {axis=0, dtype=f32}",
                                        params="%x: f32[4], %z: f32[*]")),
        ("differ", _sequence("%y: f32[?,?] = ConcatFromSequence(%s) {axis=0, dtype=f32}",
                             params="%x: f32[4,2], %z: f32[4,3]")),
    ],
    "split_known_extent": [
        ("not known", _split("%y: f32[2] = SequenceAt(%s, i64[](0)) {dtype=f32, shape=(2,)}", params="%x: f32[N,2]")),
        ("wanted", _split("%y: f32[2] = SequenceAt(%s, %i) {dtype=f32, shape=(2,)}",
                          params="%x: f32[3,2], %i: i64[]")),
        ("out of range", _split("%y: f32[2] = SequenceAt(%s, i64[](3)) {dtype=f32, shape=(2,)}")),
        ("too many", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[1000,2]")),
        ("none", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[0,2]")),
    ],
    "take_slice": [
        ("has 2 inputs", _chain("%s: sequence(f32[2,2]) = SplitToSequence(%x, i64[](2))",
                                "%y: f32[2,2] = SequenceAt(%s, i64[](0)) {dtype=f32}", params="%x: f32[4,2]")),
        ("rank is not known", _split("%y: f32[*] = SequenceAt(%s, i64[](0)) {dtype=f32}", params="%x: f32[*]")),
    ],
    "count_slices": [
        ("has 2 inputs", _chain("%s: sequence(f32[2,2]) = SplitToSequence(%x, i64[](2))",
                                "%y: i64[] = SequenceLength(%s)", params="%x: f32[4,2]")),
        ("rank is not known", _split("%y: i64[] = SequenceLength(%s)", params="%x: f32[*]")),
    ],
    "join_what_was_split": [
        ("axes differ", _split("%y: f32[2,3] = ConcatFromSequence(%s) {axis=1, new_axis=True, dtype=f32}")),
        ("is not kept", _split("%y: f32[6] = ConcatFromSequence(%s) {axis=0, dtype=f32}")),
        ("not known whether", _split("%y: f32[N,2] = ConcatFromSequence(%s) {axis=0, new_axis=True, dtype=f32}",
                                     params="%x: f32[N,2]")),
    ],
    # ---- passes
    "split_products": [
        ("", _chain("%a: i32[4] = BitwiseAnd(%x, i32[](1023))", "%y: i32[4] = Mul(%a, i32[](16384))",
                    params="%x: i32[4]")),
        ("", _chain("%y: f32[4] = Mul(%x, %x)")),
        ("", _chain("%a: i32[4] = Mul(%x, %x)", "%y: i8[4] = Requantize(%a, i32[](1073741824), i32[](-3)) "
                    "{to=i8, min=-128, max=127}", params="%x: i32[4]")),
        ("", _chain("%a: i32[2] = Mul(%x, i32[](2048))", "%y: f32[*] = Reshape(%z, %a)",
                    params="%x: i32[2], %z: f32[4]")),
    ],
    "assign_layout": [("", _chain("%y: f32[1,4,2,2] = Exp(%x)", params="%x: f32[1,4,2,2]"))],
    "eliminate_dead": [("", _chain("%y: f32[4] = Exp(%x)"))],
    "eliminate_common": [("", _chain("%a: f32[4] = LeakyRelu(%x) {alpha=0.5}", "%y: f32[4] = LeakyRelu(%x)",
                                     result="%a, %y"))],
    "fold_constants": [("", _chain("%a: i64[1] = Shape(%x)", "%y: i64[1] = Mul(%a, i64[](2))", params="%x: f32[N]"))],
    "fuse_dilation": [
        ("strides", _dilated(strides="(1, 2)", w=1)),
        ("padding", _dilated(pads="(0, 1, 0, 0)", w=3)),
        ("reads no blocks", _dilated(block="(2, 4, 0, 3, 1, 5)")),
        ("Softmax stands between", _dilated(step="Softmax(%f) {axis=1}")),
        ("Add stands between", _dilated(step="Add(%f, f32[2,1](0.5, 1.5))")),
        ("no convolution", _chain("%b: f32[1,2,2,1,1,1] = Reshape(%x, i64[6](1, 2, 2, 1, 1, 1))",
                                  "%c: f32[2,1,1,1,2,1] = Transpose(%b) {perm=(2, 3, 0, 4, 1, 5)}",
                                  "%y: f32[2,1,2,1] = Reshape(%c, i64[4](2, 1, 2, 1))")),
        ("put the blocks together", _chain("%b: f32[2,2,1,1,1,1] = Reshape(%x, i64[6](2, 2, 1, 1, 1, 1))",
                                           "%c: f32[1,1,2,1,2,1] = Transpose(%b) {perm=(2, 3, 0, 4, 1, 5)}",
                                           "%y: f32[2,2,1,1] = Reshape(%c, i64[4](2, 2, 1, 1))")),
    ],
    "reduce_before_transpose": [("keeps its axes", _chain(
        "%a: f32[3,2] = Transpose(%x) {perm=(1, 0)}", "%y: f32[1,2] = ReduceMax(%a) {axes=(0,)}",
        params="%x: f32[2,3]"))],
    # The transposes stand at the small values: moving them costs more.
    "sink_transposes": [("", _chain(
        "%a: f32[3,2] = Transpose(%x) {perm=(1, 0)}", "%b: f32[3,2] = Exp(%a)",
        "%c: f32[3,8] = Concat(%b, %z) {axis=1}",
        "%y: f32[8,3] = Transpose(%c) {perm=(1, 0)}", params="%x: f32[2,3], %z: f32[3,6]", result="%y, %c, %b, %a"))],
    "fuse_recurrent_loops": [
        ("", _layer(rounds=4)),
        ("", _layer(index="i64[](0)")),
        ("", _layer(sums="Mul(%a, %b)")),
        ("", _layer(sums="Max(%a, %b)")),
        ("", _layer(scanned="%c")),
        ("", _layer(function="Relu")),
    ],
    "fuse_other_recurrent_loops": [("", _layer(sums="Max(%a, %b)")), ("", _layer(function="Sin"))],
    "narrow_types": [("", _chain("%y: f32[4] = Exp(%x)"))],
    "lower_bools": [("", _chain("%y: bool[4] = And(%x, %x)", params="%x: bool[4]"))],
}  # fmt: skip


# Topics with cases of their own: beside the tests of their rules.
for _path in sorted(Path(__file__).parent.glob("passes/*/near_misses*.py")):
    for _name, _cases in run_path(str(_path))["CASES"].items():
        CASES[_name] = [*CASES.get(_name, ()), *_cases]


def test_every_rule_and_pass_has_a_negative_case() -> None:
    assert sorted(CASES) == sorted(ALL)


@pytest.mark.parametrize(("name", "reason", "text"), [(n, *case) for n, cases in CASES.items() for case in cases])
def test_stays_as_it_is(name: str, reason: str, text: str) -> None:
    graph = read(text)
    before = normal_form(graph)
    log = Trace(explain=frozenset({name}))
    assert apply(ALL[name], graph, log) == 0, f"{name} changed it:\n{normal_form(graph)}"
    assert normal_form(graph) == before
    if isinstance(ALL[name], Rule):
        reasons = [why for _, _, why in log.reasons]
        assert (reason in " | ".join(reasons)) if reason else not reasons, reasons
