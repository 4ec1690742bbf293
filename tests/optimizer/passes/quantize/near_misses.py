"""Graphs that come close to layers of quantized networks; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, params: str = "%x: u8[1,2,2,2]", result: str = "%y") -> str:
    return f"graph g({params}) {{ {' '.join(lines)} return {result} }}"


_SUMS = (
    "%a: i32[1,2,2,2] = ConvInteger(%x, i8[2,2,1,1](2, -3, 4, 5)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
)
_END = "{zero=3, to=i8, min=-128, max=127}"
_SCALED = ("%b: f32[1,2,2,2] = Cast(%a) {to=f32}", "%c: f32[1,2,2,2] = Mul(%b, f32[](0.25))")
_PAIR = "%x: i8[20,20], %z: i8[20,20], %s: i32[256], %t: i32[256]"


def _ranged(q: str = "%x", step: str = "%s", middle: str = "%z", w: str = "i8[3,2](1, 2, 3, 4, 5, 6)",
            scale: str = "f32[2](0.5, 0.25)", out: str = "2,2", more: str = "") -> str:  # fmt: skip
    """A layer whose input is quantized by its own range; each part may be another one."""
    return _chain(
        f"%q: u8[2,3], %s: f32[], %z: u8[] = DynamicQuantizeLinear({q})",
        "%q2: u8[2,3], %s2: f32[], %z2: u8[] = DynamicQuantizeLinear(%x2)",
        f"%a: i32[{out}] = MatMulInteger(%q, {w}, {middle})",
        f"%b: f32[{out}] = Cast(%a) {{to=f32}}",
        f"%c: f32[{'2' if '2]' in scale else ''}] = Mul({step}, {scale})",
        f"%y: f32[{out}] = Mul(%b, %c)",
        params="%x: f32[2,3], %x2: f32[2,3], %w: i8[3,2], %t: f32[]",
        result=f"%y, %q2{more}",
    )


def _biased(bias: str, layer: str = "_, _, f32[](0.5)", attrs: str = "", result: str = "%y") -> str:
    return _chain(
        f"%a: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), {layer}) {attrs}",
        f"%y: f32[2,2] = Add(%a, {bias})",
        params="%x: f32[2,3], %r: f32[2,2]",
        result=result,
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_requantize": [
        ("each channel", _chain(_SUMS, "%b: i32[1,2,2,2] = Add(%a, i32[2](1, 2))",
                                f"%y: i8[1,2,2,2] = Requantize(%b, i32[](1500000000), i32[](-2)) {_END}")),
        ("each channel", _chain(_SUMS, "%y: i8[1,2,2,2] = Requantize(%a, i32[2](1500000000, 1600000000), "
                                       f"i32[2](-2, -3)) {_END}")),
        ("not constant", _chain(_SUMS, "%b: i32[1,2,2,2] = Add(%a, %z)",
                                f"%y: i8[1,2,2,2] = Requantize(%b, i32[](1500000000), i32[](-2)) {_END}",
                                params="%x: u8[1,2,2,2], %z: i32[2,1,1]")),
        ("no channels", _chain("%a: i32[2] = MatMulInteger(%x, i8[2,2](2, -3, 4, 5))",
                               f"%y: i8[2] = Requantize(%a, i32[](1500000000), i32[](-2)) {_END}",
                               params="%x: u8[2]")),
        ("is a vector", _chain("%a: i32[2,3] = MatMulInteger(%x, i8[2](2, -3))",
                               f"%y: i8[2,3] = Requantize(%a, i32[](1500000000), i32[](-2)) {_END}",
                               params="%x: u8[2,3,2]")),
    ],
    "fuse_quantize": [
        ("constant 1", _chain(_SUMS, *_SCALED, "%y: u8[1,2,2,2] = QuantizeLinear(%c, f32[](0.5), u8[](5))")),
        ("scale is not 1", _chain(_SUMS, *_SCALED, "%y: u8[1,2,2,2] = QuantizeLinear(%c, f32[](1.00005), u8[](5))")),
        ("what Relu does", _chain(_SUMS, *_SCALED, "%d: f32[1,2,2,2] = Relu(%c)",
                                  "%y: u8[1,2,2,2] = QuantizeLinear(%d, f32[](1.0), u8[](5))")),
        ("give 8 bits", _chain(_SUMS, *_SCALED,
                               "%y: i16[1,2,2,2] = QuantizeLinear(%c, f32[](1.0), i16[](5)) {to=i16}")),
        ("computed", _chain(_SUMS, *_SCALED, "%y: u8[1,2,2,2] = QuantizeLinear(%c, f32[](1.0), %z)",
                            params="%x: u8[1,2,2,2], %z: u8[]")),
        ("there are blocks", _chain(_SUMS, *_SCALED, "%y: u8[1,2,2,2] = QuantizeLinear(%c, f32[](1.0), u8[](5)) "
                                                     "{block_size=1}")),
    ],
    "fuse_dynamic_linear": [
        ("not the scale of an input", _ranged(step="%t")),
        ("not the scale of an input", _ranged(step="%t", scale="f32[](0.5)")),
        ("has this scale", _ranged(step="%s2")),
        ("has this scale", _ranged(middle="%z2")),
        ("has this scale", _ranged(middle="u8[](3)")),
        ("not constant", _ranged(w="%w")),
        ("no matrix", _ranged(w="i8[1,3,2](1, 2, 3, 4, 5, 6)", out="1,2,2")),
        ("one for each column", _ranged(scale="f32[1,1](0.5)").replace("%c: f32[]", "%c: f32[1,1]")),
        ("also read by", _ranged(more=", %a")),
    ],
    # What it does with its result becomes a node of its own first.
    "legalize_dynamic_linear": [
        ("activation", _chain("%y: f32[2,2] = DynamicLinear(%x, i8[3,2](1, 2, 3, 4, 5, 6), _, _, f32[](0.5)) "
                              '{activation="relu"}', params="%x: f32[2,3]")),
    ],
    "fuse_dynamic_bias": [
        ("already", _biased("f32[2](1.0, 2.0)", "f32[2](1.0, 2.0), _, f32[](0.5)")),
        ("already", _biased("f32[2](1.0, 2.0)", "_, %r, f32[](0.5)")),
        ("already", _biased("f32[2](1.0, 2.0)", attrs='{activation="relu"}')),
        ("each column", _biased("f32[](1.0)")),
        ("each column", _biased("f32[2,1](1.0, 2.0)")),
        ("also read by", _biased("f32[2](1.0, 2.0)", result="%y, %a")),
    ],
    "fuse_quantized_sum": [
        ("shapes are not known", _chain("%a: i32[n,20] = LookUp(%x, %s)", "%b: i32[n,20] = LookUp(%z, %t)",
                                        "%c: i32[n,20] = Add(%a, %b)",
                                        f"%y: i8[n,20] = Requantize(%c, i32[](1500000000), i32[](-2)) {_END}",
                                        params=_PAIR.replace("i8[20,20]", "i8[n,20]"))),
        ("expected LookUp", _chain("%a: i32[20,20] = LookUp(%x, %s)", "%b: i32[20,20] = Cast(%z) {to=i32}",
                                   "%c: i32[20,20] = Add(%a, %b)",
                                   f"%y: i8[20,20] = Requantize(%c, i32[](1500000000), i32[](-2)) {_END}",
                                   params=_PAIR)),
        # Sums of 64 bits are scaled in other steps.
        ("not of i32", _chain("%a: i64[20,20] = LookUp(%x, %s)", "%b: i64[20,20] = LookUp(%z, %t)",
                              "%c: i64[20,20] = Add(%a, %b)",
                              f"%y: i8[20,20] = Requantize(%c, i32[](1500000000), i32[](-2)) {_END}",
                              params=_PAIR.replace("i32", "i64"))),
    ],
    "fuse_tables": [
        ("at the same place", _chain("%a: i32[20,20] = LookUp(%x, %s)", "%b: i32[20,20] = LookUp(%z, %t)",
                                     "%y: i32[20,20] = Mul(%a, %b)", params=_PAIR)),
        ("more numbers", _chain("%a: i32[7] = LookUp(%x, %s)", "%y: i32[7] = Neg(%a)",
                                params="%x: i8[7], %s: i32[256]")),
        ("at the same place", _chain("%a: i32[20,20] = LookUp(%x, %s)", "%y: i32[20,20] = Mul(%a, %z)",
                                     params="%x: i8[20,20], %s: i32[256], %z: i32[20]")),
    ],
    "tabulate_gate": [
        ("one constant scale", _chain("%a: f32[2,200] = DequantizeLinear(%x, f32[2](0.5, 0.25), u8[2](3, 4)) {axis=0}",
                                      "%b: f32[2,200] = LookUp(%x, %t)", "%y: f32[2,200] = Mul(%a, %b)",
                                      params="%x: u8[2,200], %t: f32[256]")),
        ("more numbers", _chain("%a: f32[7] = DequantizeLinear(%x, f32[](0.5), u8[](3))", "%b: f32[7] = LookUp(%x, %t)",
                                "%y: f32[7] = Mul(%b, %a)", params="%x: u8[7], %t: f32[256]")),
    ],
}  # fmt: skip
