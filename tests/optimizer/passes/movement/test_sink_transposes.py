"""Transposes meet their inverse behind every op that works along axes, which are other ones then."""

from __future__ import annotations

import pytest
from rewriting import ALL, apply, assert_same_numbers, read

from minnow.schema.ir import Graph

_IN, _OUT = "(0, 2, 3, 1)", "(0, 3, 1, 2)"


def _text(line: str, outputs: str = "%b: f32[*]", more: str = "", x: str = "f32[2,3,4,5]", into: str = _IN) -> str:
    """A line that makes %b of %a, the turned input."""
    back = _OUT if into == _IN else into
    return (
        f"graph g(%x: {x}{more}) {{ %a: f32[*] = Transpose(%x) {{perm={into}}} {outputs} = {line} "
        f"%y: f32[*] = Transpose(%b) {{perm={back}}} return %y }}"
    )


_INDICES = "i64[2,2,1,2](1, 0, 1, 1, 0, 0, 1, 1)"

SINKS = {
    "Gather": _text("Gather(%a, i64[4](2, 0, 1, 2)) {axis=1}"),
    "Gather of computed places": _text("Gather(%a, %i) {axis=-2}", more=", %i: i64[3]"),
    "Gather of symbolic dimensions": _text("Gather(%a, i64[2](2, 0)) {axis=-1}", x="f32[N,3,S,H]"),
    "GatherElements": _text(f"GatherElements(%a, {_INDICES}) {{axis=2}}"),
    "ScatterElements": _text(
        f"ScatterElements(%a, {_INDICES}, f32[2,2,1,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)) "
        '{axis=3, reduction="add"}'
    ),
    "ScatterElements of computed updates": _text(f"ScatterElements(%a, {_INDICES}, %u)", more=", %u: f32[2,2,1,2]"),
    "TopK": _text("TopK(%a, i64[1](2)) {axis=1}", "%b: f32[*], %k: i64[*]"),
    "TopK along the last axis": _text("TopK(%a, i64[1](2))", "%b: f32[*], %k: i64[*]", into="(2, 1, 0, 3)"),
    "Compress": _text("Compress(%a, bool[4](True, False, True, True)) {axis=1}"),
    "Reverse": _text("Reverse(%a) {axes=(1, -1)}"),
    "ReverseSequence": _text("ReverseSequence(%a, i64[2](3, 2)) {batch_axis=0, time_axis=1}"),
    "Tile": _text("Tile(%a, i64[4](1, 2, 1, 3))"),
    "Expand": _text("Expand(%a, i64[4](2, 4, 5, 3))", x="f32[2,3,1,5]"),
    "Split": _text("Split(%a) {axis=1, sizes=(1, 3)}", "%b: f32[*], %c: f32[*]"),
    "Hardmax": _text("Hardmax(%a)"),
    "CumSum": _text("CumSum(%a, i64[](2))"),
    "ReduceMax": _text("ReduceMax(%a) {axes=(1, -1)}"),
    "ReduceL2 of all": _text("ReduceL2(%a)"),
    "LayerNorm": _text("LayerNorm(%a, f32[5](1.0, 2.0, 3.0, 4.0, 5.0))", into="(0, 2, 1, 3)"),
    "RMSNorm of two axes": _text("RMSNorm(%a) {axis=2}", into="(1, 0, 2, 3)"),
    "ArgMax": _text("ArgMax(%a) {axis=1}", "%k: i64[*]").replace("%y:", "%b: f32[*] = Cast(%k) {to=f32} %y:"),
}

STAYS = {
    "one place": _text("Gather(%a, i64[2,1](2, 0)) {axis=1}").replace(_OUT, "(0, 4, 1, 2, 3)"),
    "all elements": _text("Compress(%a, bool[4](True, False, True, True))").replace(_OUT, "(0,)"),
    "TopK along the last axis": _text("TopK(%a, i64[1](2))", "%b: f32[*], %k: i64[*]"),
    "LayerNorm over what is moved": _text("LayerNorm(%a, f32[3](1.0, 2.0, 3.0))"),
    "computed repeats": _text("Tile(%a, %r)", more=", %r: i64[4]"),
    "fewer dimensions": _text("Expand(%a, i64[2](5, 3))"),
}


def _graph(text: str) -> Graph:
    graph = read(text)
    apply(ALL["fold_constants"], graph)  # completes the types
    return graph


@pytest.mark.parametrize("name", SINKS)
def test_the_transposes_cancel(name: str) -> None:
    before, after = _graph(SINKS[name]), _graph(SINKS[name])
    assert apply(ALL["sink_transposes"], after) > 0
    turned = [node for node in after if node.op == "Transpose" and not node.input(0).is_const]
    # Updates that are computed are turned, which are fewer.
    assert all(node.input(0).name == "u" for node in turned)
    assert_same_numbers(before, after, 1e-6)


@pytest.mark.parametrize("name", STAYS)
def test_the_transposes_stay(name: str) -> None:
    graph = _graph(STAYS[name])
    assert apply(ALL["sink_transposes"], graph) == 0
