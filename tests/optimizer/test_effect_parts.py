"""The parts of a graph's cost: of single nodes, and of memory over time; together they are the cost of the graph."""

from __future__ import annotations

from pathlib import Path

import pytest

from minnow.converter import read
from minnow.optimizer import optimize
from minnow.optimizer.effect import costs_of, effect_of, lifetimes_of, live_bytes
from minnow.schema.ir.text import parse

DIGITS = Path(__file__).parents[2] / "examples/digits/digits.onnx"


@pytest.mark.parametrize("optimized", [False, True])
def test_the_costs_of_nodes_add_up(optimized: bool) -> None:
    model = read(DIGITS)
    if optimized:
        optimize(model)
    costs = costs_of(model.graph)
    effect = effect_of(model.graph)
    assert sum(c.macs or 0 for c in costs.values()) == effect.macs
    assert sum(c.bytes for c in costs.values()) == effect.bytes
    live = list(live_bytes(model.graph))
    assert len(live) == len(model.graph) + 1
    assert max(live) == effect.peak_bytes


def test_lifetimes_say_the_same_as_the_bytes_alive() -> None:
    graph = parse("""
        graph g(%x: f32[4,8]) {
          %a: f32[4,8] = Relu(%x)
          %b: f32[4,8] = Exp(%a)
          %v: f32[32] = Flatten(%a) {axis=0}
          %c: f32[4,8] = Add(%a, %b)
          return %c
        }
    """)
    spans = {life.value.name: (life.first, life.last) for life in lifetimes_of(graph)}
    assert spans == {"x": (-1, 0), "a": (0, 3), "b": (1, 3), "c": (3, 4)}
    live = list(live_bytes(graph))
    for k, total in enumerate(live[1:]):
        assert total == sum(life.bytes for life in lifetimes_of(graph) if life.first <= k <= life.last), k
