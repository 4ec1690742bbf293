"""Gradients of whole graphs: what is asked for, what is refused, and what is left in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder, all_ops
from minnow.schema.registry.gradient import add_gradients, gradient
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.verify import verify

F32 = DType.F32


def _params(*shapes: Any) -> tuple[Graph, Builder, list[Value]]:
    graph = Graph()
    values = [graph.add_param(TensorType(F32, s), f"x{i}") for i, s in enumerate(shapes)]
    return graph, Builder(graph, origin="test:net"), values


def test_a_copy_gets_the_derivatives_as_outputs() -> None:
    graph, b, (x, y) = _params((2, 3), (3,))
    graph.outputs = [b.ReduceSum(b.Mul(b.Mul(x, x), y), keepdims=False)]
    before = str(list(graph))
    made = gradient(graph)
    assert str(list(graph)) == before
    assert len(graph.outputs) == 1
    verify(made)
    xs, ys = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
    loss, by_x, by_y = evaluate(made, [xs, ys])
    assert loss == (xs * xs * ys).sum()
    np.testing.assert_array_equal(by_x, 2 * xs * ys)
    np.testing.assert_array_equal(by_y, (xs * xs).sum(0))


def test_what_has_no_influence_has_zeros_and_no_nodes() -> None:
    graph, b, (x, y) = _params((2, 3), (3,))
    loss = b.ReduceSum(b.Exp(x), keepdims=False)
    count = len(graph)
    (by_y,) = add_gradients(graph, loss, [y])
    graph.outputs = [by_y]
    (zeros,) = evaluate(graph, [np.ones((2, 3), np.float32), np.ones(3, np.float32)])
    np.testing.assert_array_equal(zeros, np.zeros(3, np.float32))
    assert not [n for n in list(graph)[count:] if n.op != "Fill"], "nothing is computed that is unused"


def test_by_a_constant_and_by_an_inner_value() -> None:
    graph, b, (x,) = _params((4,))
    w = b.const(np.array([1, 2, 3, 4], np.float32))
    inner = b.Mul(x, w)
    loss = b.ReduceSum(b.Square(inner), keepdims=False)
    graph.outputs = add_gradients(graph, loss, [w, inner])
    xs = np.array([1, -1, 2, 0.5], np.float32)
    by_w, by_inner = evaluate(graph, [xs])
    np.testing.assert_array_equal(by_inner, 2 * xs * w.array)
    np.testing.assert_array_equal(by_w, 2 * xs * w.array * xs)


def test_a_value_used_twice_gets_both_gradients() -> None:
    graph, b, (x,) = _params((3,))
    graph.outputs = [b.ReduceSum(b.Add(b.Mul(x, x), b.MatMul(x, x)), keepdims=False)]
    xs = np.array([1, 2, 3], np.float32)
    np.testing.assert_array_equal(evaluate(gradient(graph), [xs])[1], 2 * xs + 3 * 2 * xs)


def test_the_second_derivative() -> None:
    graph, b, (x,) = _params((3,))
    graph.outputs = [b.ReduceSum(b.Exp(b.Square(x)), keepdims=False)]
    once = gradient(graph)
    b = Builder(once)
    once.outputs = [b.ReduceSum(once.outputs[1], keepdims=False)]
    xs = np.array([0.1, -0.5, 0.7], np.float32)
    expected = (2 + 4 * xs**2) * np.exp(xs**2)
    np.testing.assert_allclose(evaluate(gradient(once), [xs])[1], expected, rtol=1e-5)


def test_a_dynamic_batch() -> None:
    graph, b, (x, w, bias) = _params(("N", 3), (3, 4), (4,))
    y = b.Softmax(b.Relu(b.Add(b.MatMul(x, w), bias)))
    graph.outputs = [b.ReduceMean(b.Square(y), keepdims=False)]
    made = gradient(graph, by=[1, 2])
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(s).astype(np.float32) for s in ((5, 3), (3, 4), (4,))]
    _, by_w, by_bias = evaluate(made, arrays)
    static, b, (x, w, bias) = _params((5, 3), (3, 4), (4,))
    y = b.Softmax(b.Relu(b.Add(b.MatMul(x, w), bias)))
    static.outputs = [b.ReduceMean(b.Square(y), keepdims=False)]
    for got, want in zip((by_w, by_bias), evaluate(gradient(static, by=[1, 2]), arrays)[1:], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)


def test_an_op_without_a_gradient_is_named_with_its_node() -> None:
    graph, b, (x,) = _params((3, 3))
    table = b.Unique(x, n_outputs=4, names=["values"])[0]
    loss = b.ReduceSum(table, keepdims=False)
    with pytest.raises(UnsupportedError, match="the op Unique has no gradient") as error:
        add_gradients(graph, loss, [x])
    assert error.value.where == "test:net"
    assert "Unique(%x0)" in error.value.why


def test_an_op_without_a_gradient_beside_the_way_is_no_matter() -> None:
    graph, b, (x, y) = _params((3,), (3,))
    graph.outputs = [b.ReduceSum(b.Mul(x, b.Gather(b.Unique(y, n_outputs=4)[0], np.array(0))), keepdims=False)]
    by_x = evaluate(gradient(graph, by=[0]), [np.ones(3, np.float32), np.array([5, 4, 4], np.float32)])[1]
    np.testing.assert_array_equal(by_x, [4, 4, 4])


def test_what_a_rule_must_know_is_said() -> None:
    graph, b, (x, k) = _params((3, 4), (4,))
    scales = b.Cast(k, to=F32)
    loss = b.ReduceSum(b.Resize(x, None, b.Slice(scales, [0], [2]), mode="linear"), keepdims=False)
    with pytest.raises(UnsupportedError, match="the operand 'scales' to be constant") as error:
        add_gradients(graph, loss, [x])
    assert error.value.where == "test:net"


@pytest.mark.parametrize(("shape", "dtype", "text"), [((2,), F32, "one float"), ((), DType.I32, "one float")])
def test_a_loss_is_one_float(shape: Any, dtype: DType, text: str) -> None:
    graph = Graph()
    loss = graph.add_param(TensorType(dtype, shape))
    with pytest.raises(ModelError, match=text):
        add_gradients(graph, loss, [loss])


def test_integers_have_no_derivative() -> None:
    graph = Graph()
    x, i = graph.add_param(TensorType(F32, ())), graph.add_param(TensorType(DType.I64, (2,)), "places")
    with pytest.raises(ModelError, match="no derivative by %places"):
        add_gradients(graph, x, [i])


def test_more_than_a_hundred_ops_have_a_gradient() -> None:
    """Not only those of test_like_mnn.py."""
    names = {op.name for op in all_ops() if op.gradient_rule is not None}
    assert len(names) > 130
    # op list: what users train with, and MNN has no gradient of
    assert names >= {"LayerNorm", "RMSNorm", "Attention", "Gelu", "LSTM", "CumSum", "ScatterND", "ScatterElements"}


def _rounds(x: float, n: int) -> float:
    for _ in range(n):
        x = x * x * 0.9
    return x


@pytest.mark.parametrize("trips", [0, 1, 3])
def test_a_loop_that_squares(trips: int) -> None:
    body = Graph("body")
    params = [body.add_param(TensorType(t, ())) for t in (DType.I64, DType.BOOL, F32, F32)]
    inner = Builder(body)
    squared = inner.Mul(inner.Mul(params[2], params[2]), params[3])
    body.outputs = [params[1], squared]
    graph, b, (x, factor) = _params((), ())
    graph.outputs = [b.Loop(np.array(trips), None, x, factor, body=body, num_carried=1, n_outputs=1)[0]]
    y, by_x, by_factor = evaluate(gradient(graph), [np.float32(0.8), np.float32(0.9)])
    h = 1e-6
    np.testing.assert_allclose(y, _rounds(0.8, trips), rtol=1e-6)
    np.testing.assert_allclose(by_x, (_rounds(0.8 + h, trips) - _rounds(0.8 - h, trips)) / (2 * h), rtol=1e-4)
    assert (by_factor != 0) == (trips > 0)


@pytest.mark.parametrize("taken", [True, False])
def test_a_branch_that_was_taken(taken: bool) -> None:
    branches = []
    for op in ("Square", "Exp"):
        branch = Graph(op)
        p = branch.add_param(TensorType(F32, (2,)))
        branch.outputs = [getattr(Builder(branch), op)(p)]
        branches.append(branch)
    graph, b, (x,) = _params((2,))
    cond = graph.add_param(TensorType(DType.BOOL, ()))
    (y,) = b.If(cond, x, then_branch=branches[0], else_branch=branches[1], n_outputs=1)
    graph.outputs = [b.ReduceSum(y, keepdims=False)]
    xs = np.array([0.5, -2], np.float32)
    by_x = evaluate(gradient(graph, by=[0]), [xs, np.array(taken)])[1]
    np.testing.assert_allclose(by_x, 2 * xs if taken else np.exp(xs), rtol=1e-6)


def test_what_is_added_to_others_is_not_repeated_first() -> None:
    graph, b, (x,) = _params((2, 3, 4))
    mean = b.ReduceMean(b.Square(x), axes=(0, 2))
    graph.outputs = [b.ReduceSum(b.Mul(b.Square(x), mean), keepdims=False)]
    made = gradient(graph)
    assert [n.inputs[0].type.count for n in made if n.op == "Expand" and n.inputs[0]] == [1], "only that of the loss"
    xs = np.arange(24, dtype=np.float32).reshape(2, 3, 4) / 10
    # Each mean m of a channel stands in 8 terms: the sum is 8 m^2.
    expected = 4 * xs * (xs**2).mean((0, 2), keepdims=True)
    np.testing.assert_allclose(evaluate(made, [xs])[1], expected, rtol=1e-5)


def test_a_sum_that_is_all_there_is_gets_repeated() -> None:
    graph, b, (x, y) = _params((2, 3), (1, 3))
    graph.outputs = [b.ReduceSum(b.Add(b.ReduceSum(x, axes=(0,)), y), keepdims=False)]
    _, by_x, by_y = evaluate(gradient(graph), [np.zeros((2, 3), np.float32), np.zeros((1, 3), np.float32)])
    np.testing.assert_array_equal(by_x, np.ones((2, 3), np.float32))
    np.testing.assert_array_equal(by_y, np.ones((1, 3), np.float32))
