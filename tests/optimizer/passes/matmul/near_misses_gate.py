"""Graphs that come close to gates with a factor; see test_negative.py."""

from __future__ import annotations


def _chain(*lines: str, t: str = "f32[2,2]", result: str = "%y", more: str = "") -> str:
    return f"graph g(%x: {t}, %z: {t}{more}) {{ {' '.join(lines)} return {result} }}"


def _swish(
    *around: str, k: str = "f32[](2.0)", of: str = "%x", gate: str = "Sigmoid", t: str = "f32[2,2]"
) -> tuple[str, ...]:
    first, last = (*around, "", "")[:2]
    return (
        first,
        f"%a: {t} = Mul({of}, {k})",
        f"%b: {t} = {gate}(%a)",
        f"%c: {t} = Mul({of}, %b)",
        last or f"%y: {t} = Neg(%c)",
    )


def _in(more: str = "", w: str = "f32[2,2](1.0, 2.0, 3.0, 4.0)", attrs: str = "") -> str:
    return f"%i: f32[2,2] = Linear(%x, {w}{more}){attrs}"


_OUT = "%y: f32[2,1] = Linear(%c, f32[1,2](1.0, 2.0))"

CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_gate": [
        ("as many nodes", _chain("%b: f32[2,2] = Exp(%x)", "%c: f32[2,2] = Add(%b, f32[](1.0))",
                                 "%y: f32[2,2] = Div(%x, %c)")),
        ("as many nodes", _chain("%a: f32[2,2] = Mul(%x, f32[2](-1.0, 1.0))", "%b: f32[2,2] = Exp(%a)",
                                 "%c: f32[2,2] = Add(%b, f32[](1.0))", "%y: f32[2,2] = Div(%x, %c)")),
        ("constant 1", _chain("%a: f32[2,2] = Neg(%x)", "%b: f32[2,2] = Exp(%a)",
                              "%c: f32[2,2] = Add(%b, f32[](1.5))", "%y: f32[2,2] = Div(%x, %c)")),
    ],
    "fuse_swish_linear": [
        ("usual size", _chain(*_swish("", _OUT, k="f32[](0.0)"))),
        ("usual size", _chain(*_swish("", _OUT, k="f32[](1e38)"))),
        ("usual size", _chain(*_swish("", _OUT, k="f32[2](1.0, 2.0)"))),
        ("not constant", _chain(*_swish("", _OUT, k="%z"))),
        ("not constant", _chain(*_swish("", "%y: f32[2,2] = Linear(%c, %z)"))),
        ("expected Sigmoid", _chain(*_swish("", _OUT, gate="Tanh"))),
        ("two different", _chain(*_swish("", _OUT)).replace("Mul(%x, %b)", "Mul(%z, %b)")),
    ],
    "fuse_linear_swish": [
        ("behind a layer", _chain(*_swish())),
        ("behind a layer", _chain(*_swish(_in(), of="%i"), result="%y, %i")),
        ("behind a layer", _chain(*_swish(_in(w="%z"), of="%i"))),
        ("behind a layer", _chain(*_swish(_in(", %d"), of="%i"), more=", %d: f32[2]")),
        ("behind a layer", _chain(*_swish(_in(", _, %z"), of="%i"))),
        ("behind a layer", _chain(*_swish(_in(attrs=' {activation="relu"}'), of="%i"))),
        ("usual size", _chain(*_swish(_in(), of="%i", k="f32[](1e-30)"))),
    ],
}  # fmt: skip
