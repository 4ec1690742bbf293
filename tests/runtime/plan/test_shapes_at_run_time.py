"""Shapes that only the run can tell: the plan goes on in stages, which are kept for the next run."""

from __future__ import annotations

import numpy as np
import pytest
from engine_oracle import check, f32, normal, run, session_of

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

RNG = np.random.default_rng(0)


def i64(*shape: int | str) -> TensorType:
    return TensorType(DType.I64, shape)


def graph_of(*types: TensorType) -> tuple[Graph, Builder, list[Value]]:
    graph = Graph()
    values = [graph.add_param(t) for t in types]
    return graph, Builder(graph), values


def test_the_shape_is_an_input():
    graph, b, (x, shape) = graph_of(f32("n"), i64("rank"))
    y = b.Reshape(x, shape)
    graph.outputs = [b.Add(b.Relu(y), 1.0), b.ReduceSum(y), b.Shape(y)]
    session = session_of(graph)
    for dims in ([2, 3, 4], [24], [4, -1], [2, 3, 4], [-1, 1, 1, 1, 2]):
        check(graph, [normal(RNG, 24), np.array(dims)], session)
    with pytest.raises(ModelError, match="cannot be reshaped"):
        run(session, [normal(RNG, 24), np.array([5, 5])])
    check(graph, [normal(RNG, 24), np.array([24])], session)


def test_the_shape_is_computed_from_contents():
    graph, b, (x, n) = graph_of(f32(1, 3, 8, 8), i64())
    y = b.Conv(x, normal(RNG, 5, 3, 3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
    rows = b.Concat(b.Unsqueeze(b.Mul(n, 2), axes=(0,)), np.array([-1]), axis=0)
    flat = b.Reshape(y, rows)
    graph.outputs = [b.Softmax(flat, axis=-1), b.Relu(y)]
    session = session_of(graph)
    for k in (1, 4, 16, 4, 1):
        check(graph, [normal(RNG, 1, 3, 8, 8), np.array(k)], session)


def test_stage_upon_stage():
    """Each shape hangs on contents that were computed with the shape before."""
    graph, b, (x,) = graph_of(f32("n"))
    for _ in range(4):
        places = b.NonZero(b.Greater(x, 0.0))
        x = b.Sub(b.Gather(x, b.Squeeze(places, axes=(0,))), 0.1)
    graph.outputs = [x, b.ReduceSum(x)]
    session = session_of(graph)
    for n in (50, 3, 1, 0, 50, 200):
        check(graph, [normal(RNG, n)], session)


def test_more_plans_than_are_kept():
    graph, b, (x,) = graph_of(f32("n"))
    places = b.NonZero(b.Greater(x, 0.0))
    graph.outputs = [b.Gather(x, b.Squeeze(places, axes=(0,)))]
    session = session_of(graph)
    for k in [*range(40), *range(40)]:
        x_ = -np.ones(40, np.float32)
        x_[:k] = 1 + np.arange(k)
        check(graph, [x_], session)


def test_what_does_not_wait_is_computed_once():
    """Nodes that do not hang on the unknown shape keep their place in the first stage, and feed the second."""
    graph, b, (x, k) = graph_of(f32(2, 17, 5, 5), i64(1))
    y = b.Conv(x, normal(RNG, 19, 17, 1, 1), strides=(1, 1), pads=(0,) * 4, dilations=(1, 1))
    values, _ = b.TopK(b.Reshape(y, np.array([2, -1])), k, n_outputs=2)
    z = b.Sigmoid(y)
    graph.outputs = [b.ReduceMax(values, axes=(1,)), z, b.Concat(z, y, axis=1), values]
    session = session_of(graph)
    for n in (1, 3, 7, 3):
        check(graph, [normal(RNG, 2, 17, 5, 5), np.array([n])], session)
    ops = [r["op"] for r in session.profile({"in0": normal(RNG, 2, 17, 5, 5), "in1": np.array([3])}, runs=1)]
    assert ops.count("Conv") == 1
    assert ops.index("Sigmoid") < ops.index("TopK")


def test_an_output_that_is_an_input_a_constant_or_another_output():
    graph, b, (x, shape) = graph_of(f32("n"), i64("rank"))
    y = b.Reshape(x, shape)
    one = b.Identity(b.const(np.arange(3, dtype=np.int32)))
    graph.outputs = [b.Identity(x), one, y, b.Identity(y), b.Identity(shape), y]
    session = session_of(graph)
    for dims in ([2, 3], [6], [2, 3]):
        check(graph, [normal(RNG, 6), np.array(dims)], session)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_operands_that_are_attributes_of_our_ops(dtype):
    """Axes and permutations that a file gives as tensors, known late."""
    import minnow
    from minnow.schema.mnn import wire

    kind = {np.int32: "DT_INT32", np.int64: "DT_INT64"}[dtype]

    def source(name: str, index: int, type: str, dims: list[int]) -> dict:
        main = {"dtype": type, "dims": dims, "dformat": "NCHW"}
        return {"type": "Input", "main_type": "Input", "main": main, "outputIndexes": [index], "name": name}

    net = {
        "tensorName": ["x", "perm", "axis", "t", "s", "c"],
        "outputName": ["s", "c"],
        "oplists": [
            source("x", 0, "DT_FLOAT", [2, 3, 5]),
            source("perm", 1, kind, [3]),
            source("axis", 2, kind, [1]),
            {"type": "Transpose", "inputIndexes": [0, 1], "outputIndexes": [3], "name": "t"},
            {
                "type": "Reduction",
                "main_type": "ReductionParam",
                "main": {"operation": "SUM"},
                "inputIndexes": [3, 2],
                "outputIndexes": [4],
                "name": "s",
            },
            {"type": "CumSum", "main_type": "CumSum", "main": {}, "inputIndexes": [3, 2], "outputIndexes": [5]},
        ],
    }
    session = minnow.load(wire.write(net))
    x = normal(RNG, 2, 3, 5)
    for perm, axis in (([2, 0, 1], 0), ([0, 2, 1], 0), ([2, 0, 1], -1), ([1, 0, 2], 1)):
        got = session.run({"x": x, "perm": np.array(perm, dtype), "axis": np.array([axis], dtype)})
        np.testing.assert_allclose(got["s"], x.transpose(perm).sum(axis), rtol=1e-5)
        np.testing.assert_allclose(got["c"], np.cumsum(x.transpose(perm), axis), rtol=1e-5)
