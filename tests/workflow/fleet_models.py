"""Small models of many sizes and kinds, each another one by its number."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper

KINDS = 5


def save(folder: Path, number: int) -> Path:
    """Writes the model of that number; the same number gives the same bytes."""
    random = np.random.default_rng(number)
    make = (_perceptron, _convolutions, _elementwise, _attention, _recurrent)[number % KINDS]
    weights: list[onnx.TensorProto] = []

    def weight(*shape: int) -> str:
        name = f"w{len(weights)}"
        weights.append(numpy_helper.from_array((random.standard_normal(shape) * 0.2).astype(np.float32), name))
        return name

    nodes, shape = make(weight, 2 + number // KINDS % 7, 4 + number % 11)
    graph = helper.make_graph(
        nodes, f"model{number}", [helper.make_tensor_value_info("x", 1, shape)],
        [helper.make_tensor_value_info("y", 1, None)], weights,
    )  # fmt: skip
    path = folder / f"model{number:03}.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def _chain(nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    nodes[-1].output[0] = "y"
    return nodes


def _perceptron(weight, depth, width):  # type: ignore[no-untyped-def]
    nodes, at = [], "x"
    for i in range(depth):
        nodes.append(helper.make_node("Gemm", [at, weight(width, width), weight(width)], [f"g{i}"]))
        nodes.append(helper.make_node(("Relu", "Tanh", "Sigmoid")[i % 3], [f"g{i}"], [f"a{i}"]))
        at = f"a{i}"
    return _chain(nodes), [1, width]


def _convolutions(weight, depth, width):  # type: ignore[no-untyped-def]
    nodes, at, channels = [], "x", 3
    for i in range(depth):
        nodes.append(helper.make_node("Conv", [at, weight(width, channels, 3, 3), weight(width)], [f"c{i}"],
                                      pads=[1, 1, 1, 1]))  # fmt: skip
        nodes.append(helper.make_node("Relu", [f"c{i}"], [f"a{i}"]))
        at, channels = f"a{i}", width
    nodes.append(helper.make_node("GlobalAveragePool", [at], ["p"]))
    return _chain(nodes), [1, 3, 8 + width, 8 + width]


def _elementwise(weight, depth, width):  # type: ignore[no-untyped-def]
    nodes, at = [], "x"
    for i in range(2 * depth):
        operation = ("Add", "Mul", "Sub")[i % 3]
        nodes.append(helper.make_node(operation, [at, weight(1, width)], [f"e{i}"]))
        at = f"e{i}"
    nodes.append(helper.make_node("Softmax", [at], ["s"], axis=-1))
    return _chain(nodes), [2, width]


def _attention(weight, depth, width):  # type: ignore[no-untyped-def]
    nodes = [helper.make_node("MatMul", ["x", weight(width, width)], [name]) for name in "qkv"]
    nodes += [
        helper.make_node("Transpose", ["k"], ["t"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["q", "t"], ["m"]),
        helper.make_node("Softmax", ["m"], ["s"], axis=-1),
        helper.make_node("MatMul", ["s", "v"], ["o"]),
    ]
    return _chain(nodes), [1, depth, width]


def _recurrent(weight, depth, width):  # type: ignore[no-untyped-def]
    nodes = [
        helper.make_node("LSTM", ["x", weight(1, 4 * width, width), weight(1, 4 * width, width)], ["l"],
                         hidden_size=width),
        helper.make_node("Squeeze", ["l"], ["s"]),
        helper.make_node("Tanh", ["s"], ["h"]),
    ]  # fmt: skip
    return _chain(nodes), [depth, 1, width]
