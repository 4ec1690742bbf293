"""If and Loop: branches and rounds known before the run, and known only in it."""

from __future__ import annotations

import numpy as np
import pytest
from engine_oracle import check, f32, model_of, normal, run, session_of

import minnow
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder, get

RNG = np.random.default_rng(0)
BOOL, I64 = TensorType(DType.BOOL, ()), TensorType(DType.I64, ())


def branch(make, *types: TensorType) -> Graph:
    graph = Graph("branch")
    made = make(Builder(graph), *(graph.add_param(t) for t in types))
    graph.outputs = list(made) if isinstance(made, (tuple, list)) else [made]
    return graph


def if_(b: Builder, cond, captured, then, otherwise, n: int = 1):
    types = [v.type for v in captured]
    attrs = {"then_branch": branch(then, *types), "else_branch": branch(otherwise, *types)}
    return b.node("If", [cond, *captured], attrs, n).outputs


def loop(b: Builder, trips, cond, carried, captured, body, n: int):
    """`body` gets the builder, the round, the condition, what is carried, what is captured."""
    types = [I64, BOOL, *(v.type for v in (*carried, *captured))]
    attrs = {"body": branch(body, *types), "num_carried": len(carried)}
    return b.node("Loop", [trips, cond, *carried, *captured], attrs, n).outputs


@pytest.mark.parametrize("name", ["If", "Loop"])
def test_samples(name):
    op = get(name)
    for sample in op.cases():
        graph = Graph()
        values, feeds = [], []
        for a in sample.inputs:
            values.append(None if a is None else graph.add_param(TensorType(DType.of(a.dtype), a.shape)))
            feeds += [] if a is None else [a]
        graph.outputs = Builder(graph).node(op, values, sample.attrs, sample.n_outputs).outputs
        check(graph, feeds)


def test_constants_that_a_loop_hands_through_stay_in_the_file(tmp_path):
    """Its memory cannot be written to: a loop that copied them to themselves ended the process."""
    graph = Graph()
    n = graph.add_param(I64)
    b = Builder(graph)
    x, step = Value.constant(normal(RNG, 3)), Value.constant(normal(RNG, 3))
    results = loop(b, n, None, [x], [step], lambda d, i, c, s, k: [d.Identity(c), d.Add(s, k), d.Mul(s, k)], 2)
    graph.outputs = list(results)
    path = tmp_path / "loop.mnn"
    path.write_bytes(encode(model_of(graph)))
    session = minnow.load(path)
    for trips in (3, 0, 5):
        check(graph, [np.array(trips)], session)


def test_the_branch_is_chosen_by_the_run():
    graph = Graph()
    c, x = graph.add_param(BOOL), graph.add_param(f32("n", 5, 3, 3))
    b = Builder(graph)
    w = normal(RNG, 7, 5, 1, 1)
    conv = {"strides": (1, 1), "pads": (0,) * 4, "dilations": (1, 1)}
    y = b.Relu(x)
    (z,) = if_(b, c, [y], lambda d, v: d.Relu(d.Conv(v, w, **conv)), lambda d, v: d.Mul(v, 2.0))
    graph.outputs = [b.ReduceSum(z, axes=(2, 3)), y]
    session = session_of(graph)
    for k in range(6):
        check(graph, [np.array(k % 2 == 0), normal(RNG, 1 + k // 4, 5, 3, 3)], session)


def test_the_branch_is_known_before_the_run():
    """It hangs on a shape: no stage, and the untaken branch may be impossible."""
    graph = Graph()
    x = graph.add_param(f32("n", "m"))
    b = Builder(graph)
    cond = b.Equal(b.Gather(b.Shape(x), 1), np.int64(1))
    (y,) = if_(
        b, cond, [x], lambda d, v: d.Squeeze(v, axes=(1,)), lambda d, v: d.ReduceMax(v, axes=(1,), keepdims=False)
    )
    graph.outputs = [b.Neg(y)]
    session = session_of(graph)
    for shape in ((4, 1), (4, 3), (1, 1), (4, 1)):
        check(graph, [normal(RNG, *shape)], session)
    ops = [r["op"] for r in session.profile({"in0": normal(RNG, 4, 3)}, runs=2)]
    assert ops == ["If", "Neg", "ReduceMax"]


def test_branches_in_branches_and_outputs_that_repeat():
    graph = Graph()
    c, d, x = graph.add_param(BOOL), graph.add_param(BOOL), graph.add_param(f32(3))
    b = Builder(graph)

    def inner(e, flag, v):
        (w,) = if_(e, flag, [v], lambda f, u: f.Exp(u), lambda f, u: f.Identity(u))
        return w, w, v

    outs = if_(b, c, [d, x], inner, lambda e, flag, v: (v, e.Neg(v), e.Neg(e.Neg(v))), 3)
    graph.outputs = [*outs, b.Add(outs[0], outs[2])]
    session = session_of(graph)
    for k in range(8):
        check(graph, [np.array(k % 2 == 1), np.array(k // 2 % 2 == 1), normal(RNG, 3)], session)


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
@pytest.mark.parametrize("known", [True, False])
def test_rounds(trips, known):
    graph = Graph()
    x = graph.add_param(f32(2, 3))
    n = np.int64(trips) if known else graph.add_param(I64)
    b = Builder(graph)
    w = normal(RNG, 3, 3)

    def body(d, k, cond, v, u):
        y = d.Tanh(d.Add(d.MatMul(v, w), u))
        return cond, y, d.ReduceSum(y, axes=(0,)), d.Mul(k, 2)

    y, sums, counts = loop(b, n, None, [x], [x], body, 3)
    graph.outputs = [y, sums, counts, b.Neg(sums)]
    session = session_of(graph)
    for _ in range(2):
        check(graph, [normal(RNG, 2, 3)] + ([] if known else [np.array(trips)]), session, scale=4)


def test_known_rounds_need_no_stage():
    graph = Graph()
    x = graph.add_param(f32(2, 3))
    b = Builder(graph)
    y, z = loop(b, np.int64(3), None, [x], [], lambda d, k, c, v: (c, d.Neg(v), v), 2)
    graph.outputs = [b.Relu(y), z]
    session = session_of(graph)
    check(graph, [normal(RNG, 2, 3)], session)
    ops = [r["op"] for r in session.profile({"in0": normal(RNG, 2, 3)}, runs=1)]
    assert ops[:2] == ["Loop", "Relu"], "the loop is a step among others"


def test_the_condition_ends_it():
    graph = Graph()
    x = graph.add_param(f32(1))
    b = Builder(graph)

    def body(d, k, cond, v):
        y = d.Mul(v, 2.0)
        return d.Squeeze(d.Less(y, np.float32([100])), axes=(0,)), y, y

    y, rows = loop(b, None, np.bool_(True), [x], [], body, 2)
    graph.outputs = [y, rows]
    session = session_of(graph)
    for start in (1.0, 60.0, 0.001, 99.0, 1.0):
        check(graph, [np.array([start], np.float32)], session)


def test_what_is_carried_may_grow():
    graph = Graph()
    x, n = graph.add_param(f32("k", 2)), graph.add_param(I64)
    b = Builder(graph)
    (y,) = loop(b, n, None, [x], [x], lambda d, k, c, v, u: (c, d.Concat(v, d.Neg(u), axis=0)), 1)
    graph.outputs = [y, b.ReduceSum(y)]
    session = session_of(graph)
    for trips, k in ((3, 2), (0, 2), (12, 1), (3, 2)):
        check(graph, [normal(RNG, k, 2), np.array(trips)], session)


def test_a_state_without_elements_stays_as_it_is():
    graph = Graph()
    x, y, n = graph.add_param(f32("k", 2)), graph.add_param(f32(3)), graph.add_param(I64)
    b = Builder(graph)
    graph.outputs = list(loop(b, n, None, [x, y], [], lambda d, k, c, u, v: (c, u, d.Neg(v)), 2))
    session = session_of(graph)
    for trips, k in ((2, 0), (0, 0), (3, 1), (1, 0)):
        check(graph, [normal(RNG, k, 2), normal(RNG, 3), np.array(trips)], session)


def test_states_that_change_places():
    """A round reads all states of the one before, whatever it writes first."""
    graph = Graph()
    x, y, n = graph.add_param(f32(3)), graph.add_param(f32(3)), graph.add_param(I64)
    b = Builder(graph)
    graph.outputs = list(loop(b, n, None, [x, y], [], lambda d, k, c, u, v: (c, v, u, d.Sub(u, v)), 3))
    session = session_of(graph)
    for trips in (1, 2, 3, 4):
        check(graph, [normal(RNG, 3), normal(RNG, 3), np.array(trips)], session)


def test_loops_in_loops():
    graph = Graph()
    x, n = graph.add_param(f32(4)), graph.add_param(I64)
    b = Builder(graph)

    def outer(d, k, c, v, m):
        (w,) = loop(d, k, None, [v], [m], lambda e, j, g, u, m_: (g, e.Add(u, e.Cast(e.Mul(j, m_), to=DType.F32))), 1)
        return c, w, w

    graph.outputs = list(loop(b, n, None, [x], [n], outer, 2))
    session = session_of(graph)
    for trips in (1, 4, 2):
        check(graph, [normal(RNG, 4), np.array(trips)], session)


def test_weights_reach_the_body():
    """What a body captures is a constant there, so that its kernels pack it once."""
    graph = Graph()
    x = graph.add_param(f32(64, 64))
    b = Builder(graph)
    w = b.const(normal(RNG, 64, 64) / 8)
    (y,) = loop(b, np.int64(4), None, [x], [w], lambda d, k, c, v, u: (c, d.Tanh(d.MatMul(v, u))), 1)
    graph.outputs = [y]
    session = session_of(graph)
    check(graph, [normal(RNG, 64, 64)], session, scale=4)
    rows = session.profile({"in0": normal(RNG, 64, 64)}, runs=1)
    assert "packed" in next(r["scheme"] for r in rows if r["op"] == "MatMul")


def test_a_defect_in_a_body_is_told_with_its_place():
    from minnow.schema.errors import ModelError

    graph = Graph()
    x, n = graph.add_param(f32("k")), graph.add_param(TensorType(DType.I64, ("r",)))
    b = Builder(graph)
    graph.outputs = list(loop(b, np.int64(2), None, [x], [n], lambda d, k, c, v, s: (c, v, d.Reshape(v, s)), 2))
    session = session_of(graph)
    check(graph, [normal(RNG, 6), np.array([2, 3])], session)
    with pytest.raises(ModelError, match=r"Loop .*: round 0: Reshape .*: the input \[6\] cannot be reshaped to \[4\]"):
        run(session, [normal(RNG, 6), np.array([4])])
