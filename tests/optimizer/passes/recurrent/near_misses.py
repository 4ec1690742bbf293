"""Graphs that come close to recurrent layers written as loops, and must stay; see test_negative.py."""

from __future__ import annotations

from rewriting import chain


def _layer(
    rounds: int = 3, index: str = "%t", sums: str = "Add(%a, %b)", function: str = "Tanh", scanned: str = "%d"
) -> str:
    """A plain recurrent layer as a loop."""
    return chain(
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


CASES: dict[str, list[tuple[str, str]]] = {
    "fuse_recurrent_loops": [
        ("", _layer(rounds=4)),
        ("", _layer(index="i64[](0)")),
        ("", _layer(sums="Mul(%a, %b)")),
        ("", _layer(sums="Max(%a, %b)")),
        ("", _layer(scanned="%c")),
        ("", _layer(function="Relu")),
    ],
    "fuse_other_recurrent_loops": [("", _layer(sums="Max(%a, %b)")), ("", _layer(function="Sin"))],
}  # fmt: skip
