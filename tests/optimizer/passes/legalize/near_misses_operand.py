"""Graphs whose operands are within the bounds that the format's runtimes take, or not known to be beyond."""

from __future__ import annotations

from rewriting import chain as _chain

_SAMPLE = '{mode="nearest"}'
_TO = "%y: f32[1,1,2,4] = GridSample(%x, %g)"

CASES: dict[str, list[tuple[str, str]]] = {
    "legalize_bounds": [
        ("rank is not known", _chain("%y: f32[*] = Slice(%x, i32[1](-9), i32[1](3))", params="%x: f32[*]")),
        ("are computed", _chain("%y: f32[?,?] = Slice(%x, i32[1](-9), i32[1](3), %a)",
                                params="%x: f32[4,5], %a: i32[1]")),
        ("known to lie before", _chain("%y: f32[2,5] = Slice(%x, i32[1](-4), i32[1](2))", params="%x: f32[4,5]")),
        ("known to lie before", _chain("%y: f32[?,5] = Slice(%x, i32[1](-9), i32[1](2))", params="%x: f32[N,5]")),
    ],
    "legalize_shift": [
        ("i32 only", _chain('%y: u8[4] = BitShift(%x, %n) {direction="LEFT"}', params="%x: u8[4], %n: u8[4]")),
        ("within 0..31", _chain('%y: i32[4] = BitShift(%x, i32[](31)) {direction="LEFT"}', params="%x: i32[4]")),
    ],
    "legalize_empty_sequence": [
        ("no sequence is empty", _chain("%y: f32[4,2] = ReverseSequence(%x, i32[2](1, 4))", params="%x: f32[4,2]")),
        ("no sequence is empty", _chain("%m: i32[2] = Max(%n, i32[](1))", "%y: f32[4,2] = ReverseSequence(%x, %m)",
                                        params="%x: f32[4,2], %n: i32[2]")),
    ],
    "legalize_nearest_sample": [
        ("computes with f32", _chain(f"%y: f16[1,1,2,4] = GridSample(%x, %g) {_SAMPLE}",
                                     params="%x: f16[1,1,3,3], %g: f16[1,2,4,2]")),
        ("image are not known", _chain(f"{_TO} {_SAMPLE}", params="%x: f32[1,1,H,3], %g: f32[1,2,4,2]")),
        ("number for each axis", _chain(f"%y: f32[1,1,2,4] = GridSample(%x, %g) {_SAMPLE}",
                                        params="%x: f32[1,1,3,3], %g: f32[*]")),
        ("does not mirror", _chain(f'{_TO} {{mode="nearest", padding="reflection"}}',
                                   params="%x: f32[1,1,3,3], %g: f32[1,2,4,2]")),
        ("one element", _chain(f'{_TO} {{mode="nearest", align_corners=True}}',
                               params="%x: f32[1,1,1,3], %g: f32[1,2,4,2]")),
        ("lies on elements", _chain(
            "%r: f32[1,2,4,2] = Round(%g)",
            "%s: f32[1,2,4,2] = Sub(%r, f32[2](1.0, 1.0))",
            "%d: f32[1,2,4,2] = Div(%s, f32[2](1.5, 1.5))",
            f"%y: f32[1,1,2,4] = GridSample(%x, %d) {_SAMPLE}",
            params="%x: f32[1,1,3,3], %g: f32[1,2,4,2]")),
    ],
    "legalize_integer_scatter": [
        ("not i32", _chain('%y: f32[4] = ScatterND(%x, %i, %u) {reduction="add"}',
                           params="%x: f32[4], %i: i32[2,1], %u: f32[2]")),
    ],
    "legalize_one_hot_type": [
        ("filled with bytes", _chain("%y: f32[2,3] = OneHot(%i, i32[](3), f32[2](0.0, 1.0))", params="%i: i32[2]")),
    ],
    "legalize_cast_bytes": [
        ("not made of u8", _chain("%y: i8[4] = Cast(%x) {to=i8}", params="%x: i32[4]")),
    ],
}  # fmt: skip
