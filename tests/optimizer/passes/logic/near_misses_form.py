"""Graphs that come close to what the rules for one form of signs and comparisons do; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, t: str = "f32[4]", result: str = "%y", more: str = "") -> str:
    return f"graph g(%x: {t}, %z: {t}{more}) {{ {' '.join(lines)} return {result} }}"


CASES: dict[str, list[tuple[str, str]]] = {
    "turn_comparison": [
        ("not constant", _chain("%y: bool[4] = Less(%x, f32[](2.0))")),
        ("not constant", _chain("%y: bool[4] = Less(%x, %z)")),
        ("both", _chain("%y: bool[] = Less(f32[](1.0), f32[](2.0))")),
    ],
    "compare_without_sign": [
        ("no opposite", _chain("%a: i32[4] = Neg(%x)", "%y: bool[4] = Less(%a, i32[](2))", t="i32[4]")),
        ("not constant", _chain("%a: f32[4] = Neg(%x)", "%y: bool[4] = Less(%a, %z)")),
    ],
    "write_negation": [
        ("close to -1", _chain("%y: f32[4] = Mul(%x, f32[](-1.00005))")),
        ("changes the shape", _chain("%y: f32[2,4] = Mul(%x, f32[2,1](-1.0, -1.0))")),
        ("changes the shape", _chain("%y: f32[1,4] = Div(%x, f32[1,1](-1.0))")),
        ("is not -0", _chain("%a: f32[4] = Sub(f32[](0.0), %x)", "%y: f32[4] = Reciprocal(%a)")),
        ("is not -0", _chain("%a: f32[4] = Sub(f32[](0.0), %x)", "%y: f32[4] = Exp(%a)", result="%y, %a")),
        ("constant", _chain("%y: f32[4] = Mul(%x, f32[4](-1.0, -1.0, -1.0, 1.0))")),
    ],
    "negate_difference": [
        ("is -0", _chain("%a: f32[4] = Sub(%x, %z)", "%b: f32[4] = Neg(%a)", "%y: f32[4] = Reciprocal(%b)")),
        ("is -0", _chain("%a: f32[4] = Sub(%x, %z)", "%y: f32[4] = Neg(%a)")),
    ],
    "fuse_factor_sign": [
        ("one float", _chain("%a: f32[4] = Mul(%x, f32[4](1.0, 2.0, 3.0, 4.0))", "%y: f32[4] = Neg(%a)")),
        ("one float", _chain("%a: i32[4] = Neg(%x)", "%y: i32[4] = Div(%a, i32[](2))", t="i32[4]")),
        ("not constant", _chain("%a: f32[4] = Mul(%x, %z)", "%y: f32[4] = Neg(%a)")),
    ],
}  # fmt: skip
