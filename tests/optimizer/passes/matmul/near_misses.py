"""Graphs that come close to layers of joined axes, and must stay as they are."""

from __future__ import annotations


def _flat(flat: str = "6,2", wide: int = 1, y: str = "2,3,1", w: str = "f32[1,2](1.0, 2.0)", x: str = "f32[2,3,2]",
          more: str = "", result: str = "%y") -> str:  # fmt: skip
    rows = flat.split(",")[0]
    return (
        f"graph g(%x: {x}, %z: f32[{rows},{wide}]) {{ %a: f32[{flat}] = Reshape(%x, i64[2]({flat})) "
        f"%b: f32[{rows},{wide}] = Linear(%a, {w}{more}) "
        f"%y: f32[{y}] = Reshape(%b, i64[{y.count(',') + 1}]({y})) return {result} }}"
    )


def _turned(a: str = "(1, 0, 2)", b: str = "(1, 0, 2)", y: str = "4,3,1", w: str = "f32[1,2](1.0, 2.0)",
            x: str = "4,3,2", more: str = "", result: str = "%y") -> str:  # fmt: skip
    n = [x.split(",")[int(i)] for i in a.strip("()").split(",")]
    return (
        f"graph g(%x: f32[{x}], %z: f32[{n[0]},{n[1]},1]) {{ %a: f32[{','.join(n)}] = Transpose(%x) {{perm={a}}} "
        f"%b: f32[{n[0]},{n[1]},1] = Linear(%a, {w}{more}) "
        f"%y: f32[{y}] = Transpose(%b) {{perm={b}}} return {result} }}"
    )


CASES: dict[str, list[tuple[str, str]]] = {
    "unflatten_linear": [
        ("features of the input", _flat("4,3", 1, "2,2,1", "f32[1,3](1.0, 2.0, 3.0)")),
        ("other axes", _flat(y="6,1,1,1")),
        ("other axes", _flat(x="f32[12]")),
        ("not known to be", _flat(y="3,2,1")),
        ("not known to be", _flat(wide=2, y="2,6,1", w="f32[2,2](1.0, 2.0, 3.0, 4.0)")),
        ("does more", _flat(more=", _, %z")),
        ("read elsewhere", _flat(result="%y, %b")),
    ],
    "unturn_linear": [
        ("features are moved", _turned(a="(0, 2, 1)", y="2,1,1", w="f32[1,4](1.0, 2.0, 3.0, 4.0)", x="1,4,2")),
        ("features are moved", _turned(b="(2, 1, 0)", y="1,4,3")),
        ("does more", _turned(more=", _, %z")),
        ("read by", _turned(result="%y, %b")),
    ],
}
