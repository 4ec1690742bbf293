"""Parts of a graph: the values between nodes beside those of onnxruntime, and only the nodes that they need."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from engine_oracle import f32, normal, session_of
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType, Graph, TensorType
from minnow.schema.ops import Builder

RNG = np.random.default_rng(0)


def network() -> onnx.ModelProto:
    """Convolutions with a skip connection, a part with integers, and a matrix product; `n` images."""

    def weight(name: str, *shape: int) -> Any:
        array = normal(RNG, *shape) / np.float32(np.sqrt(np.prod(shape[1:])))
        return numpy_helper.from_array(array.astype(np.float32), name)

    nodes = [
        helper.make_node("Conv", ["image", "w0"], ["conv0"], pads=[1] * 4),
        helper.make_node("Relu", ["conv0"], ["relu0"]),
        helper.make_node("Conv", ["relu0", "w1"], ["conv1"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Sigmoid", ["conv1"], ["gate"]),
        helper.make_node("Mul", ["conv1", "gate"], ["swish"]),
        helper.make_node("MaxPool", ["relu0"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["swish", "pooled"], ["sum"]),
        helper.make_node("GlobalAveragePool", ["sum"], ["mean"]),
        helper.make_node("Flatten", ["mean"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w2"], ["logits"]),
        helper.make_node("ArgMax", ["logits"], ["best"], axis=1),
        helper.make_node("Softmax", ["logits"], ["probability"]),
    ]
    graph = helper.make_graph(
        nodes,
        "network",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 8, 8])],
        [
            helper.make_tensor_value_info("probability", TensorProto.FLOAT, ["n", 7]),
            helper.make_tensor_value_info("best", TensorProto.INT64, ["n", 1]),
        ],
        [weight("w0", 5, 3, 3, 3), weight("w1", 5, 5, 3, 3), weight("w2", 5, 7)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("level", [0, 2])
def test_values_between_nodes_are_those_of_onnxruntime(level: int, tmp_path: Path) -> None:
    import onnxruntime

    model = network()
    onnx.save(model, tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", optimize=level, verify=False)
    names = [name for node in model.graph.node for name in node.output]
    del model.graph.output[:]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    reference = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    session = minnow.load(tmp_path / "m.mnn", threads=2)
    for n in (1, 3):
        image = normal(RNG, n, 3, 8, 8)
        whole = session.run({"image": image})
        wanted = dict(zip(names, reference.run(names, {"image": image}), strict=True))
        found = []
        for name in names:
            try:
                (value,) = session.run({"image": image}, fetch=[name]).values()
            except UsageError:
                continue  # the optimizer has made one node of several
            found.append(name)
            assert (value.shape, value.dtype) == (wanted[name].shape, wanted[name].dtype), name
            np.testing.assert_allclose(value, wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)
        least = names if level == 0 else ["relu0", "pooled", "logits", "best", "probability"]
        assert set(least) <= set(found)
        together = session.run({"image": image}, fetch=found)
        assert list(together) == found
        for name in found:
            np.testing.assert_allclose(together[name], wanted[name], rtol=1e-4, atol=1e-5, err_msg=name)
        again = session.run({"image": image})
        assert all(again[k].tobytes() == whole[k].tobytes() for k in whole)


def chain() -> tuple[Graph, list[str]]:
    """Four rows of softmaxes that end in a sum; the names of what each row makes."""
    graph = Graph()
    b = Builder(graph)
    x = graph.add_param(f32("n", 4), "x")
    rows = [b.Softmax(b.Softmax(x, axis=i % 2), axis=1 - i % 2) for i in range(4)]
    for i, row in enumerate(rows):
        row.name = f"row{i}"
    graph.outputs = [b.Concat(*rows, axis=0)]
    return graph, [f"row{i}" for i in range(4)]


def test_only_what_is_needed_runs() -> None:
    graph, names = chain()
    session, x = session_of(graph), normal(RNG, 3, 4)
    seen: list[tuple[str, str]] = []

    def after(name: str, op: str, inputs: list[Any], outputs: list[Any]) -> None:
        seen.append((name, op))

    whole = session.run({"in0": x}, after=after)["out0"]
    assert len([op for _, op in seen if op == "Softmax"]) == 8
    seen.clear()
    part = session.run({"in0": x}, fetch=["row2"], after=after)
    assert [op for _, op in seen if op not in ("Upload", "Download")] == ["Softmax", "Softmax"]
    np.testing.assert_array_equal(part["row2"], whole[6:9])
    seen.clear()
    assert list(session.run({"in0": x}, fetch=[], after=after)) == []
    assert list(session.run({"in0": x}, fetch=["in0"], after=after)) == ["in0"]
    assert seen == []
    for _ in range(2):  # more parts than are kept, and sizes that change
        for i, name in enumerate([*names, "out0", "in0"]):
            y = normal(RNG, i + 1, 4)
            results = session.run({"in0": y}, fetch=[name, "out0", name])
            all_rows = session.run({"in0": y})["out0"]
            np.testing.assert_array_equal(results["out0"], all_rows)
            if name in names:
                np.testing.assert_array_equal(results[name], all_rows[i * (i + 1) : (i + 1) ** 2])


def test_unknown_names_are_told_with_similar_ones() -> None:
    graph, _ = chain()
    session, x = session_of(graph), normal(RNG, 3, 4)
    with pytest.raises(UsageError, match=r"no value 'row7'; similar names are 'row0', 'row1', 'row2', 'row3'"):
        session.run({"in0": x}, fetch=["row1", "row7"])
    with pytest.raises(UsageError, match=r"no value 'something else'\. Values that were fused"):
        session.run({"in0": x}, fetch=["something else"])
    with pytest.raises(UsageError, match="a list of names, not one name"):
        session.run({"in0": x}, fetch="row1")
    with pytest.raises(UsageError, match="the model wants"):
        session.run({"in0": normal(RNG, 3, 5)}, fetch=["row1"])


def test_what_the_engine_fuses_is_visible() -> None:
    graph = Graph()
    b = Builder(graph)
    w = normal(RNG, 5, 3, 1, 1)
    y = b.Conv(graph.add_param(f32(2, 3, 4, 4)), w, strides=(1, 1), pads=(0,) * 4, dilations=(1, 1))
    y.name = "inner"
    graph.outputs = [b.Relu(y)]
    session, x = session_of(graph), normal(RNG, 2, 3, 4, 4)
    whole = session.run({"in0": x})["out0"]
    assert "Relu" not in [row["op"] for row in session.placement()]
    inner = session.run({"in0": x}, fetch=["inner", "out0"])
    assert inner["inner"].min() < 0
    np.testing.assert_array_equal(inner["out0"], whole)
    np.testing.assert_array_equal(np.maximum(inner["inner"], 0), whole)


def test_values_whose_shapes_depend_on_the_run() -> None:
    graph = Graph()
    b = Builder(graph)
    where = b.NonZero(graph.add_param(f32("n")))
    where.name = "where"
    graph.outputs = [b.Cast(b.Add(where, np.int64(1)), to=DType.F32)]
    session = session_of(graph)
    for x in ([0, 1, 2, 0], [0, 0], [3, 4, 5, 6, 7]):
        array = np.array(x, np.float32)
        np.testing.assert_array_equal(session.run({"in0": array}, fetch=["where"])["where"], np.nonzero(array))


def test_values_behind_a_loop() -> None:
    graph, body = Graph(), Graph()
    types = [TensorType(DType.I64, ()), TensorType(DType.BOOL, ()), f32(2)]
    _, go, v = (body.add_param(t) for t in types)
    body.outputs = [go, Builder(body).Add(v, 1.0)]
    b = Builder(graph)
    x = graph.add_param(f32(2))
    y = b.node("Loop", [np.int64(3), None, x], {"body": body, "num_carried": 1}, 1).outputs[0]
    y.name = "carried"
    graph.outputs = [b.Softmax(y, axis=0)]
    session = session_of(graph)
    assert session.run({"in0": np.zeros(2, np.float32)}, fetch=["carried"])["carried"].tolist() == [3, 3]
