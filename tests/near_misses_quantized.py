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
    "fuse_quantized_sum": [
        ("shapes differ", _chain("%a: i32[20] = LookUp(%x, %s)", "%b: i32[20,20] = LookUp(%z, %t)",
                                 "%c: i32[20,20] = Add(%a, %b)",
                                 f"%y: i8[20,20] = Requantize(%c, i32[](1500000000), i32[](-2)) {_END}",
                                 params=_PAIR.replace("%x: i8[20,20]", "%x: i8[20]"))),
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
}  # fmt: skip
