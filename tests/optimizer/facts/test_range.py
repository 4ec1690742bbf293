"""Ranges of integers: every number that the references compute lies in the interval, and what must be known is."""

from __future__ import annotations

import numpy as np
import pytest
from integer_graphs import COMPUTED, Grower
from rewriting import read

from minnow.optimizer.facts.range import _TRANSFER, INT32, Interval, analyze
from minnow.optimizer.facts.range_use import Uses
from minnow.optimizer.passes.legalize.narrow import narrow_types
from minnow.schema.registry.interpreter import evaluate


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(300))
def test_every_number_lies_in_its_interval(seed: int) -> None:
    grower = Grower(seed)
    graph, ranges = grower.graph, analyze(grower.graph)
    tried = 0
    with np.errstate(all="ignore"):
        results = evaluate(graph, grower.inputs)
    for value, array in zip(graph.outputs, results, strict=True):
        known = ranges.of(value)
        if known is None or array.size == 0:
            continue
        low, high = array.min(), array.max()
        assert Interval(low.item(), high.item()) in known, f"{value.producer} gives {low} to {high}, not {known}"
        tried += 1
    assert tried
    # And what was narrowed by it computes the same.
    outputs = [v.type.dtype.numpy for v in graph.outputs]
    narrow_types.apply(graph)
    with np.errstate(all="ignore"):
        again = evaluate(
            graph, [a.astype(p.type.dtype.numpy) for a, p in zip(grower.inputs, graph.params, strict=True)]
        )
    for new, old, dtype in zip(again, results, outputs, strict=True):
        if np.dtype(dtype).kind in "iub":
            np.testing.assert_array_equal(new.astype(dtype), old)
        else:
            np.testing.assert_allclose(new.astype(np.float64), old.astype(np.float64), rtol=1e-2)


def test_the_random_graphs_reach_every_rule() -> None:
    made = {node.op for seed in range(300) for node in Grower(seed).graph}
    assert {*COMPUTED} <= made
    assert len({*_TRANSFER} & made) > 35


def interval(text: str, name: str = "y") -> Interval | None:
    graph = read(text)
    ranges = analyze(graph)
    return ranges.of(next(v for g in graph.walk() for v in g.values() if v.name == name))


@pytest.mark.parametrize(
    ("body", "want"),
    [
        ("%y: i64[2] = Shape(%x)", (3, 5)),
        ("%s: i64[2] = Shape(%x) %y: i64[1] = ReduceProd(%s) {axes=(0,)}", (0, 25)),
        ("%s: i64[] = Size(%x) %y: i64[] = Div(%s, i64[](-2))", (-(2**30) + 1, 0)),
        ("%y: i64[3] = ArgMax(%x) {axis=1, keepdims=False}", (0, 4)),
        ("%b: bool[3,5] = Less(%x, %x) %y: i64[3,5] = Cast(%b) {to=i64}", (0, 1)),
        ("%b: bool[3,5] = Less(%x, %x) %c: i64[3,5] = Cast(%b) {to=i64} %y: i64[3,5] = CumSum(%c, i64[](1))", (0, 5)),
        ("%s: i64[2] = Shape(%x) %f: f32[2] = Cast(%s) {to=f32} %g: f32[2] = Div(%f, f32[](2.0)) "
         "%h: f32[2] = Floor(%g) %y: i64[2] = Cast(%h) {to=i64}", (1, 2)),
        ("%y: i64[3,5] = Clip(%i) {min=-3.0, max=8.0}", (-3, 8)),
        ("%y: i64[3,5] = Mod(%i, i64[](7))", (0, 6)),
        ("%y: i64[3,5] = Mod(%i, i64[](-7)) {fmod=True}", (-6, 6)),
        ("%y: i64[3,5] = BitwiseAnd(%i, i64[](255))", (0, 255)),
        ("%y: i64[3,5] = Neg(%i)", None),
        ("%y: i64[3,5] = Abs(%i)", None),
        ("%y: f32[3,5] = Neg(%x)", None),
    ],
)  # fmt: skip
def test_what_is_known(body: str, want: tuple[int, int] | None) -> None:
    found = interval(f"graph g(%x: f32[3,5], %i: i64[3,5]) {{ {body} return %y }}")
    if want is None:
        assert found is None or found not in INT32
    else:
        assert found == Interval(*want)


def test_uses_are_seen_through_control_flow() -> None:
    graph = read("""graph g(%c: bool[], %a: i64[1], %b: i64[1], %x: f32[4]) {
      %y: f32[?], %n: i64[1] = If(%c, %a, %b, %x) {
        then_branch=graph t(%a: i64[1], %b: i64[1], %x: f32[4]) { %y: f32[?] = Tile(%x, %a) return %y, %b },
        else_branch=graph e(%a: i64[1], %b: i64[1], %x: f32[4]) { %y: f32[1] = Gather(%x, %a) {axis=0} return %y, %b }}
      return %y, %n
    }""")
    uses = Uses(graph)
    _, a, b, _ = graph.params
    assert uses.place(a)
    assert not uses.extent(a), "one branch takes it for a place"
    assert not uses.place(b), "it leaves the graph"
