"""Whole graphs by the numpy references, against onnxruntime."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper

from minnow.schema.errors import InternalError, ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ir.text import parse
from minnow.schema.ops import Builder, get
from minnow.schema.registry.interpreter import evaluate, within

F32 = TensorType(DType.F32, ("N", 3))
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)


def test_a_graph_gives_what_onnxruntime_gives() -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"], axis=0),
        helper.make_node("ReduceSum", ["b", "axes"], ["c"]),
        helper.make_node("TopK", ["b", "k"], ["d", "e"], axis=1),
        helper.make_node("Add", ["c", "d"], ["f"]),
    ]
    w = np.arange(12, dtype=np.float32).reshape(3, 4) / 10
    axes, k = np.array([1]), np.array([2])
    proto = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 3])],
        [helper.make_tensor_value_info(n, TensorProto.UNDEFINED, None) for n in "fe"],
        [helper.make_tensor(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape, v.reshape(-1).tolist())
         for n, v in (("w", w), ("axes", axes), ("k", k))],
    )  # fmt: skip
    for output in proto.output:
        output.ClearField("type")
    model = helper.make_model(proto, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])

    graph = Graph()
    x = graph.add_param(F32, "x")
    b = Builder(graph)
    soft = b.Softmax(b.MatMul(x, w), axis=0)
    values, indices = b.TopK(soft, k, axis=1)
    graph.outputs = [b.Add(b.ReduceSum(soft, axes=(1,)), values), indices]
    for ours, theirs in zip(evaluate(graph, [X]), session.run(None, {"x": X}), strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def chain() -> tuple[Graph, list[Value]]:
    graph = Graph()
    x = graph.add_param(F32, "x")
    b = Builder(graph, origin="onnx:/chain")
    a = b.Relu(x)
    c = b.Add(a, a)
    d = b.Neg(c)
    graph.outputs = [d, x, d]
    return graph, [x, a, c, d]


def test_outputs_may_be_parameters_constants_and_the_same_twice() -> None:
    graph, _ = chain()
    graph.outputs = [*graph.outputs, Value.constant(np.array([7], np.int64))]
    negated, x, again, constant = evaluate(graph, [X])
    np.testing.assert_array_equal(negated, -2 * np.maximum(X, 0))
    np.testing.assert_array_equal(x, X)
    assert again is negated
    assert constant.tolist() == [7]


def test_intermediates_are_kept_on_request() -> None:
    graph, values = chain()
    kept: dict[Value, Any] = {}
    evaluate(graph, [X], kept)
    assert list(kept) == values
    np.testing.assert_array_equal(kept[values[2]], 2 * np.maximum(X, 0))


def test_values_are_freed_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, _ = chain()
    made: list[weakref.ref[Any]] = []
    alive: list[list[bool]] = []

    def watch(op: str) -> None:
        reference = get(op).reference

        def run(*inputs: Any) -> Any:
            result = reference(*inputs)
            alive.append([r() is not None for r in made])
            made.append(weakref.ref(result))
            return result

        monkeypatch.setattr(get(op), "reference", run)

    for op in ("Relu", "Add", "Neg"):
        watch(op)
    evaluate(graph, [X])
    # While Neg runs, the result of Relu is gone and that of Add still there.
    assert alive == [[], [True], [False, True]]


def test_inputs_are_checked() -> None:
    graph, _ = chain()
    with pytest.raises(ModelError, match="takes 1 inputs, not 2"):
        evaluate(graph, [X, X])
    with pytest.raises(ModelError, match=r"%x: f32\[N,3\] is given as f64\[2,3\]"):
        evaluate(graph, [X.astype(np.float64)])
    with pytest.raises(ModelError, match=r"is given as f32\[2,4\]"):
        evaluate(graph, [np.zeros((2, 4), np.float32)])


def test_a_node_that_fails_is_named() -> None:
    graph = Graph()
    x, y = (graph.add_param(TensorType(DType.F32, ("N",)), n) for n in "xy")
    graph.outputs = [Builder(graph, origin="onnx:/sum").Add(x, y)]
    with pytest.raises(ModelError, match=r"cannot be computed from f32\[2\], f32\[3\]") as caught:
        evaluate(graph, [np.zeros(2, np.float32), np.zeros(3, np.float32)])
    assert caught.value.where == "onnx:/sum"


def test_a_result_must_be_what_was_recorded() -> None:
    graph, values = chain()
    values[2].type = F32.with_shape(("N", 4))
    with pytest.raises(InternalError, match=r"gives f32\[2,3\], recorded as f32\[N,4\]"):
        evaluate(graph, [X])


def test_a_loop_without_end_ends_when_the_time_is_up() -> None:
    graph = parse("""graph g(%x: f32[2], %t: bool[]) {
      %y: f32[2] = Loop(_, %t, %x) {num_carried=1, body=graph b(%i: i64[], %c: bool[], %a: f32[2]) {
        %b: f32[2] = Neg(%a)
        return %c, %b
      }}
      return %y
    }""")
    with pytest.raises(ModelError, match="longer than there is time for"), within(0.05):
        evaluate(graph, [np.ones(2, np.float32), np.array(True)])
    (once,) = evaluate(graph, [np.ones(2, np.float32), np.array(False)])
    assert once.tolist() == [1, 1]
