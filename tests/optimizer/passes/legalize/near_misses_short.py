"""Short graphs that come close to ops that the format has no form for, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain

_W = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
_CONV = f"graph g(%x: f32[1,2,3,2]) {{ %a: f32[1,2,3,2] = Conv(%x, f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) {_W}"

CASES: dict[str, list[tuple[str, str]]] = {
    "legalize_index": [
        ("can be negative", chain("%y: f32[2] = Gather(%x, i32[2](0, 3))")),
        ("can be negative", chain("%a: i64[1] = Shape(%x)", "%y: f32[1] = Gather(%x, %a)")),
        ("rank is not known", chain("%y: f32[*] = Gather(%x, %i)", params="%x: f32[*], %i: i32[2]")),
    ],
    "legalize_one_hot": [("computed", chain("%y: f32[2,?] = OneHot(%i, %d, f32[2](0.0, 1.0))",
                                             params="%i: i32[2], %d: i32[]"))],
    "legalize_hardmax": [("not known", chain("%y: f32[2,N] = Hardmax(%x)", params="%x: f32[2,N]")),
                         ("nothing", chain("%y: f32[2,0] = Hardmax(%x)", params="%x: f32[2,0]"))],
    "legalize_dft": [
        ("float32", chain("%y: f64[2,2] = DFT(%x)", params="%x: f64[2,1]")),
        ("computed", chain("%y: f32[?,2] = DFT(%x, %n)", params="%x: f32[2,1], %n: i64[]")),
        ("computed", chain("%y: f32[?,?,2] = DFT(%x, _, %a)", params="%x: f32[2,2,1], %a: i64[]")),
        ("not known", chain("%y: f32[N,2] = DFT(%x)", params="%x: f32[N,1]")),
        ("better", chain("%y: f32[4096,2] = DFT(%x)", params="%x: f32[4096,1]")),
    ],
    "legalize_stft": [
        ("float32", chain("%y: f64[1,4,2,2] = STFT(%x, i64[](1), _, i64[](2))", params="%x: f64[1,5,1]")),
        ("computed", chain("%y: f32[1,?,2,2] = STFT(%x, %s, _, i64[](2))", params="%x: f32[1,5,1], %s: i64[]")),
        ("computed", chain("%y: f32[1,4,2,2] = STFT(%x, i64[](1), %w)", params="%x: f32[1,5,1], %w: f32[2]")),
        ("not known", chain("%y: f32[1,?,?,2] = STFT(%x, i64[](1))", params="%x: f32[1,N,1]")),
        ("better", chain("%y: f32[1,1,2049,2] = STFT(%x, i64[](1))", params="%x: f32[1,4096,1]")),
    ],
    "legalize_non_zero": [("rank", chain("%y: i64[0,?] = NonZero(%x)", params="%x: f32[]"))],
    "legalize_trilu": [("not known", chain("%y: f32[N,2] = Trilu(%x)", params="%x: f32[N,2]"))],
    "legalize_top_k": [("last axis", chain("%y: f32[2], %i: i64[2] = TopK(%x, i64[1](2))", result="%y, %i"))],
    "legalize_reverse": [("one axis", chain("%y: f32[4] = Reverse(%x) {axes=(0,)}"))],
    "legalize_deform_conv": [("not known", chain(
        "%y: f32[1,1,H,2] = DeformConv(%x, f32[1,1,1,1](2.0), %o) {strides=(1, 1), pads=(0, 0, 0, 0), "
        "dilations=(1, 1)}", params="%x: f32[1,1,H,2], %o: f32[1,2,H,2]"))],
    "legalize_round": [("f32", chain("%y: f64[4] = Round(%x)", params="%x: f64[4]"))],
    "legalize_extremum": [
        ("integers", chain("%y: i32[4] = Max(%x, %x)", params="%x: i32[4]")),
        ("is a number", chain("%y: f32[4] = Max(f32[](1.0), %x)")),
        ("looked at", chain("%a: f32[4] = Max(%x, %z)", "%c: bool[4] = LessOrEqual(%x, %x)",
                             "%y: f32[4] = Where(%c, %a, %x)", params="%x: f32[4], %z: f32[4]")),
    ],
    "legalize_last_arg": [("not known", chain("%y: i64[1] = ArgMax(%x) {select_last_index=True}",
                                               params="%x: f32[N]"))],
    "legalize_hard_sigmoid": [("", chain("%y: f32[4] = Sigmoid(%x)"))],
    "legalize_softplus": [("", chain("%a: f32[4] = Exp(%x)", "%y: f32[4] = Log1p(%a)"))],
    "legalize_mish": [("", chain("%y: f32[4] = Silu(%x)"))],
    "legalize_softsign": [("", chain("%y: f32[4] = Sign(%x)"))],
    "legalize_celu": [("", chain("%y: f32[4] = Elu(%x)"))],
    "legalize_thresholded_relu": [("", chain("%y: f32[4] = Relu(%x)"))],
    "legalize_shrink": [("integers", chain("%y: i32[4] = Shrink(%x)", params="%x: i32[4]"))],
    "legalize_not": [("", chain("%y: i32[4] = BitwiseNot(%x)", params="%x: i32[4]"))],
    "legalize_cast_bool": [("to=", chain("%y: i32[4] = Cast(%x) {to=i32}"))],
    "legalize_clip": [("has it", chain("%y: f32[4] = Clip(%x) {min=0.0, max=1.0}"))],
    "legalize_prelu": [("has it", chain("%y: f32[1,2,1,1] = PRelu(%x, f32[2,1,1](1.0, 2.0))",
                                         params="%x: f32[1,2,1,1]"))],
    "legalize_log_softmax": [("", chain("%y: f32[4] = Softmax(%x)"))],
    "legalize_reduction": [("integers", chain("%y: i32[1] = ReduceL2(%x)", params="%x: i32[4]"))],
    "legalize_arg": [("form of the format", chain("%y: i64[] = ArgMax(%x) {keepdims=False}")),
                     ("none", chain("%y: i64[1] = ArgMax(%x) {select_last_index=True}"))],
    "legalize_relu": [("floats", chain("%y: f32[4] = Relu(%x)"))],
    "legalize_bitwise_not": [("32 bits", chain("%y: u8[4] = BitwiseNot(%x)", params="%x: u8[4]"))],
    "legalize_equal": [("has it", chain("%y: bool[4] = Equal(%x, f32[](1.0))")),
                       ("does not have", chain("%y: bool[4] = Equal(%x, %x)", params="%x: i64[4]"))],
    "legalize_special": [("f32", chain("%y: bool[4] = IsNaN(%x)", params="%x: f16[4]")),
                         ("nothing", chain("%y: bool[4] = IsInf(%x) {detect_negative=False, detect_positive=False}"))],
    "legalize_comparison": [
        ("has it", chain("%y: bool[4] = Less(%x, f32[](1.0))")),
        ("not known", chain("%y: bool[N,M] = Less(%x, %z)", params="%x: f32[N,1], %z: f32[1,M]")),
    ],
    "legalize_where": [("has it", chain("%y: f32[4] = Where(%c, %x, f32[](0.0))", params="%c: bool[4], %x: f32[4]"))],
    "legalize_vector_product": [("vector", chain("%y: f32[2,2] = MatMul(%x, %x)", params="%x: f32[2,2]"))],
    "legalize_vector_linear": [("no vector", chain("%y: f32[2,1] = Linear(%x, f32[1,2](1.0, 2.0))",
                                                    params="%x: f32[2,2]"))],
    "legalize_batch_norm": [("zero or negative", chain(
        "%y: f32[1,1,2] = BatchNorm(%x, f32[1](3.0), f32[1](1.0), f32[1](4.0), f32[1](-4.0))",
        params="%x: f32[1,1,2]"))],
    "legalize_scale": [("has it", chain("%y: f32[1,1,2,2] = Scale(%x, f32[1](3.0), f32[1](1.0))",
                                         params="%x: f32[1,1,2,2]"))],
    "legalize_conv_1d": [("one spatial axis", f"{_CONV} return %a }}")],
    "legalize_pool_1d": [("one spatial axis", chain(
        "%y: f32[1,1,2,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}",
        params="%x: f32[1,1,2,2]"))],
    "legalize_global_pool_1d": [("one spatial axis", chain("%y: f32[1,2,1,1] = GlobalMaxPool(%x)",
                                                            params="%x: f32[1,2,3,3]"))],
    "legalize_lp_pool": [("p is 3", chain("%y: f32[1,2,1,1] = GlobalLpPool(%x) {p=3}", params="%x: f32[1,2,3,3]"))],
    "legalize_groups": [
        ("one group", f"{_CONV} return %a }}"),
        ("has it", chain("%y: f32[1,2,2,2] = Conv(%x, f32[2,1,1,1](1.0, 2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), "
                          "dilations=(1, 1), group=2}", params="%x: f32[1,2,2,2]")),
    ],
    "legalize_average_pads": [
        ("has it", chain("%y: f32[1,1,4,4] = AveragePool(%x) {kernel=(2, 2), strides=(1, 1), pads=(1, 1, 1, 1), "
                          "dilations=(1, 1), count_include_pad=True}", params="%x: f32[1,1,3,3]")),
        ("count_include_pad", chain("%y: f32[1,1,3,3] = AveragePool(%x) {kernel=(2, 2), strides=(1, 1), "
                                     "pads=(0, 0, 1, 1), dilations=(1, 1)}", params="%x: f32[1,1,3,3]")),
    ],
    "legalize_norm_operands": [("has neither", chain("%y: f32[2,2] = RMSNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_instance_norm": [("", chain("%y: f32[2,2] = LayerNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_group_norm": [("", chain("%y: f32[2,2] = LayerNorm(%x)", params="%x: f32[2,2]"))],
    "legalize_backward": [
        ("lengths of their own", chain(
            '%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0), _, %n) '
            '{hidden=1, direction="reverse"}', params="%x: f32[3,1,1], %n: i32[1]", result="%y, %h")),
        ("direction=", chain("%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0)) "
                              "{hidden=1}", params="%x: f32[3,1,1]", result="%y, %h")),
    ],
    "legalize_resize": [
        ("has it", chain("%y: f32[1,1,4,2] = Resize(%x, _, f32[4](1.0, 1.0, 2.0, 1.0)) {mode=\"linear\"}",
                          params="%x: f32[1,1,2,2]")),
        ("depends on the others", chain(
            "%y: f32[1,1,2,4] = Resize(%x, _, _, i64[2](9, 4)) {axes=(2, 3), keep_aspect=\"not_larger\"}",
            params="%x: f32[1,1,1,2]")),
        ("last axes", chain("%y: f32[4,1,2] = Resize(%x, _, f32[3](2.0, 1.0, 1.0)) {mode=\"linear\"}",
                             params="%x: f32[2,1,2]")),
    ],
    "legalize_wrap": [
        ("more than once", chain("%y: f32[9] = Pad(%x, i64[2](0, 5)) {mode=\"wrap\"}")),
        ("not known", chain("%y: f32[*] = Pad(%x, i64[2](0, 1)) {mode=\"wrap\"}", params="%x: f32[N]")),
    ],
    "legalize_dilated_pool": [
        ("counts what is there", chain("%y: f32[1,1,2,2] = AveragePool(%x) {kernel=(2, 1), strides=(1, 1), "
                                        "pads=(1, 0, 1, 0), dilations=(2, 1)}", params="%x: f32[1,1,2,2]")),
        ("dilations=", chain("%y: f32[1,1,2,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), "
                              "dilations=(1, 1)}", params="%x: f32[1,1,2,2]")),
        ("two spatial axes", chain("%y: f32[1,1,2] = MaxPool(%x) {kernel=(1,), strides=(1,), pads=(0, 0), "
                                    "dilations=(2,)}", params="%x: f32[1,1,2]")),
        ("not known", chain("%y: f32[1,1,H,2] = MaxPool(%x) {kernel=(1, 1), strides=(1, 1), pads=(0, 0, 0, 0), "
                             "dilations=(2, 1)}", params="%x: f32[1,1,H,2]")),
    ],
    "legalize_reflection": [("neither way", chain(
        '%y: f32[1,1,3,4] = GridSample(%x, %g) {mode="cubic", padding="reflection"}',
        params="%x: f32[1,1,2,2], %g: f32[1,3,4,2]"))],
    "legalize_both_ways": [
        ("has it", chain(
            "%y: f32[3,2,1,1], %h: f32[2,1,1] = RNN(%x, f32[2,1,1](2.0, 1.0), f32[2,1,1](3.0, 4.0)) "
            '{hidden=1, direction="bidirectional"}', params="%x: f32[3,1,1]", result="%y, %h")),
        ("one direction either", chain(
            "%y: f32[3,2,1,1], %h: f32[2,1,1] = RNN(%x, f32[2,1,1](2.0, 1.0), f32[2,1,1](3.0, 4.0)) "
            '{hidden=1, direction="bidirectional", clip=0.5}', params="%x: f32[3,1,1]", result="%y, %h")),
    ],
    "legalize_whole_sequences": [("shorter", chain(
        "%y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0), _, i32[1](2)) {hidden=1}",
        params="%x: f32[3,1,1]", result="%y, %h"))],
    "legalize_pool_3d": [("known dimensions", chain(
        "%y: f32[1,1,D,2,2] = MaxPool(%x) {kernel=(1, 1, 1), strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_conv_3d": [("known dimensions", chain(
        "%y: f32[1,1,D,2,2] = Conv(%x, f32[1,1,1,1,1](2.0)) {strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_conv_transpose_3d": [("known dimensions", chain(
        "%y: f32[1,1,D,2,2] = ConvTranspose(%x, f32[1,1,1,1,1](2.0)) {strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), "
        "dilations=(1, 1, 1), output_padding=(0, 0, 0)}", params="%x: f32[1,1,D,2,2]"))],
    "legalize_expand": [
        ("has it", chain("%y: f32[2,4] = Expand(%x, i64[2](2, 4))")),
        ("not known", chain("%y: f32[*] = Expand(%x, %s)", params="%x: f32[*], %s: i32[2]")),
    ],
    "legalize_crop": [("no number is negative", chain("%y: f32[5] = Pad(%x, i64[2](0, 1))"))],
    "split_products": [
        ("", chain("%a: i32[4] = BitwiseAnd(%x, i32[](1023))", "%y: i32[4] = Mul(%a, i32[](16384))",
                    params="%x: i32[4]")),
        ("", chain("%y: f32[4] = Mul(%x, %x)")),
        ("", chain("%a: i32[4] = Mul(%x, %x)", "%y: i8[4] = Requantize(%a, i32[](1073741824), i32[](-3)) "
                    "{to=i8, min=-128, max=127}", params="%x: i32[4]")),
        ("", chain("%a: i32[2] = Mul(%x, i32[](2048))", "%y: f32[*] = Reshape(%z, %a)",
                    params="%x: i32[2], %z: f32[4]")),
    ],
    "narrow_types": [("", chain("%y: f32[4] = Exp(%x)"))],
    "lower_bools": [("", chain("%y: bool[4] = And(%x, %x)", params="%x: bool[4]"))],
}  # fmt: skip
