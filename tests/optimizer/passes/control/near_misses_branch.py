"""Graphs with branches that are to stay as they are; see test_negative.py."""

from __future__ import annotations


def _if(one: str, other: str, t: str = "f32[2]", result: str = "", params: str = "", cond: str = "bool[]") -> str:
    """Branches of lines that read %a and %b and make %y."""
    result = result or t
    lines = (f"graph {name}(%a: {t}, %b: {t}{params}) {{ {body} }}" for name, body in (("t", one), ("e", other)))
    branches = ", ".join(f"{name}_branch={line}" for name, line in zip(("then", "else"), lines, strict=True))
    given = "%c, %x, %z" + ", %k" * bool(params)
    return (
        f"graph g(%c: {cond}, %x: {t}, %z: {t}{params.replace('%d', '%k')}) "
        f"{{ %r: {result} = If({given}) {{{branches}}} return %r }}"
    )


def _y(line: str, t: str = "f32[2]") -> str:
    return f"%y: {t} = {line} return %y"


_BIG = "f32[4097]"

CASES: dict[str, list[tuple[str, str]]] = {
    "hoist_common": [
        ("", _if(_y("Mul(%a, %b)"), _y("Add(%a, %b)"))),
        # Which operand is which counts, and so do attributes and constants.
        ("", _if(_y("Sub(%a, %b)"), _y("Sub(%b, %a)"))),
        ("", _if(_y("LeakyRelu(%a) {alpha=0.5}"), _y("LeakyRelu(%a) {alpha=0.25}"))),
        ("", _if(_y("Mul(%a, f32[](2.0))"), _y("Mul(%a, f32[](3.0))"))),
        # Equal, but of what is not.
        ("", _if("%h: f32[2] = Neg(%a) " + _y("Exp(%h)"), "%h: f32[2] = Abs(%a) " + _y("Exp(%h)"))),
        # One branch does it twice, the other one not at all.
        ("", _if("%h: f32[2] = Exp(%a) " + _y("Add(%h, %b)"), "return %b")),
        # Each draws numbers of its own.
        ("", _if(_y("RandomNormal(i64[1](2))"), _y("RandomNormal(i64[1](2))"))),
    ],
    "choose_results": [
        ("", _if(_y("Mul(%a, %b)", _BIG), "return %a", _BIG)),
        ("", _if(_y("Mul(%a, %b)", "f32[N]"), "return %a", "f32[N]")),
        ("", _if(_y("Mul(%a, %b)", "f32[?]"), "return %a", "f32[2]", "f32[?]").replace("%y: f32[?]", "%y: f32[2]")
             .replace("return %a", "%q: f32[4] = Concat(%a, %b) {axis=0} return %q")),
        ("", _if("%h: f32[2,2] = Reshape(%a, i64[2](2, 2)) %g: f32[2,2] = MatMul(%h, %h) "
                 "%y: f32[4] = Reshape(%g, i64[1](4)) return %y", "return %a", "f32[4]")),
        ("", _if(" ".join(f"%v{i + 1}: f32[2] = Exp(%v{i})" for i in range(5)).replace("%v0", "%a") + " return %v5",
                 "return %a")),
        # What could fail if it were computed where it is not asked for.
        ("", _if(_y("Div(%a, %b)", "i64[2]"), "return %a", "i64[2]")),
        ("", _if(_y("Gather(%a, %d)"), "return %a", params=", %d: i64[2]")),
        ("", _if(_y("RandomNormal(i64[1](2))"), "return %a")),
        ("", _if(_y("Add(%a, %b)", "u8[2]"), "return %a", "u8[2]")),
        ("", _if(_y("Mul(%a, %b)"), "return %a", cond="bool[?]")),
    ],
}  # fmt: skip
