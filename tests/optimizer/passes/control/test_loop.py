"""Loops of 0, 1, 2 and more rounds keep their numbers, whatever is taken out of them or written out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_graphs import model_of
from rewriting import apply, assert_same_numbers, read

from minnow.optimizer import optimize
from minnow.optimizer.passes.control.loop import hoist_invariants, prune_loop, unroll_loop
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.verify import verify

ROUNDS = (0, 1, 2, 8)
F32, I64, BOOL = TensorType(DType.F32, (2, 3)), TensorType(DType.I64, ()), TensorType(DType.BOOL, ())


def _grown(seed: int, rounds: int | None, stops: bool = False) -> Graph:
    """A random loop that carries three tensors, captures two and a number, and stacks up to two.

    Args:
        rounds: None: an operand says how many.
        stops: a carried number ends it too.
    """
    rng = np.random.default_rng(seed)
    graph, body = Graph("g"), Graph("body")
    outer = [graph.add_param(F32, f"x{i}") for i in range(5)]
    trip = graph.add_param(I64, "n") if rounds is None else Value.constant(np.array(rounds, np.int64))
    counter, go = body.add_param(I64, "i"), body.add_param(BOOL, "go")
    inner = [body.add_param(F32, f"p{i}") for i in range(3)]
    count = body.add_param(I64, "count")
    inner += [body.add_param(F32, f"k{i}") for i in range(2)]
    b = Builder(body)
    pool = [*inner, b.Mul(inner[3], inner[4]), b.Add(inner[4], np.float32(0.5)), b.Cast(counter, to=F32.dtype)]
    for _ in range(int(rng.integers(2, 7))):
        x, z = (pool[int(i)] for i in rng.integers(0, len(pool), 2))
        make = [b.Add, b.Sub, b.Max, lambda v, w: b.Tanh(b.Mul(v, w)), lambda v, _: b.Sigmoid(v)][rng.integers(0, 5)]
        pool.append(make(x, z))
    full = [v for v in pool if v.type.shape == (2, 3)]
    # Some go around as they are, in their own place or another one.
    after = [inner[k] if rng.random() < 0.3 else full[int(rng.integers(0, len(full)))] for k in range(3)]
    next_count = b.Add(count, np.array(1, np.int64))
    scans = [full[int(rng.integers(0, len(full)))] for _ in range(int(rng.integers(0, 3)))]
    body.outputs = [b.Less(next_count, np.array(3, np.int64)) if stops else go, *after, next_count, *scans]
    start = Value.constant(np.array(0, np.int64))
    results = Builder(graph).Loop(trip, None, *outer[:3], start, *outer[3:], body=body, num_carried=4)
    read_ = [v for i, v in enumerate(results) if i != 3 and rng.random() < 0.6] or [results[0]]
    graph.outputs = [Builder(graph).Neg(v) for v in read_]
    verify(graph)
    return graph


@pytest.mark.parametrize("rounds", [*ROUNDS, None])
@pytest.mark.parametrize("item", [prune_loop, unroll_loop, hoist_invariants], ids=lambda p: p.name)
def test_each_keeps_the_numbers(item: Any, rounds: int | None) -> None:
    changed = 0
    for seed in range(20):
        before = _grown(seed, rounds, stops=seed % 3 == 0)
        after = before.clone()
        changed += apply(item, after) > 0
        assert_same_numbers(before, after, seeds=1)
    assert changed > 5 or (item is unroll_loop and rounds is None)


@pytest.mark.parametrize("target", ["mnn", "minnow"])
@pytest.mark.parametrize("rounds", [*ROUNDS, None])
def test_all_passes_keep_the_numbers(rounds: int | None, target: Any) -> None:
    for seed in range(100, 110):
        before = _grown(seed, rounds, stops=seed % 3 == 0)
        model = model_of(before.clone())
        optimize(model, 2, target=target)
        assert_same_numbers(before, model.graph)
        assert any(n.op == "Loop" for n in model.graph) is False or rounds is None


def test_a_body_shares_no_constant_with_what_was_in_it() -> None:
    """And of two results of one node only the one that is read goes back in."""
    graph = read("""
    graph g(%x: f32[3], %z: f32[3], %n: i64[]) {
      %v: f32[3] = Loop(%n, _, %x, %z) {num_carried=1, body=graph b(%i: i64[], %c: bool[], %a: f32[3], %k: f32[3]) {
        %d: f32[3] = Mul(%k, f32[](3.0))
        %e: f32[3] = Add(%d, f32[](3.0))
        %f: f32[3] = Mul(%a, %e)
        %h: f32[3] = Add(%f, f32[](3.0))
        return %c, %h
      }}
      return %v
    }""")
    before = graph.clone()
    assert apply(hoist_invariants, graph) == 2
    (loop,) = (n for n in graph if n.op == "Loop")
    assert [n.op for n in loop.attrs["body"]] == ["Mul", "Add"]
    assert len(loop.inputs) == 5
    assert_same_numbers(before, graph)


def test_what_can_fail_is_computed_ahead_if_there_is_a_first_round() -> None:
    text = """
    graph g(%x: f32[2], %k: i64[1], %n: i64[]) {{
      %v: f32[2] = Loop({}, _, %x, %k) {{num_carried=1, body=graph b(%i: i64[], %c: bool[], %a: f32[2], %k: i64[1]) {{
        %g: f32[1] = Gather(f32[3](1.0, 2.0, 4.0), %k)
        %y: f32[2] = Mul(%a, %g)
        return %c, %y
      }}}}
      return %v
    }}"""
    for trip, hoisted in (("%n", 0), ("i64[](0)", 0), ("i64[](1)", 1), ("i64[](20)", 1)):
        before, after = read(text.format(trip)), read(text.format(trip))
        assert apply(hoist_invariants, after) == hoisted
        assert_same_numbers(before, after)


def test_open_extents_of_a_round_are_not_those_of_another() -> None:
    """What is carried grows; each round has its own dimensions."""
    before = read("""
    graph g(%x: f32[N]) {
      %v: f32[?], %s: f32[3] = Loop(i64[](3), _, %x) {num_carried=1, body=graph b(%i: i64[], %c: bool[], %a: f32[M]) {
        %d: f32["2*M"] = Concat(%a, %a) {axis=0}
        %e: f32[] = ReduceSum(%d) {keepdims=False}
        return %c, %d, %e
      }}
      return %v, %s
    }""")
    after = before.clone()
    assert apply(unroll_loop, after) == 1
    assert_same_numbers(before, after)
    assert "M" not in {d for v in after.values() for d in v.type.shape or ()}
