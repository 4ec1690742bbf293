"""Small ONNX models in which each flag of MNN's converter has something to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

F, I64 = TensorProto.FLOAT, TensorProto.INT64


def save(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: dict[str, Any], **consts: Any) -> Path:
    """Writes a model; `inputs` and `outputs` are shapes by name, or pairs of element type and shape."""

    def infos(table: dict[str, Any]) -> list[Any]:
        pairs = {n: s if isinstance(s, tuple) else (F, s) for n, s in table.items()}
        return [helper.make_tensor_value_info(n, t, s) for n, (t, s) in pairs.items()]

    initializers = [numpy_helper.from_array(np.asarray(v), n) for n, v in consts.items()]
    graph = helper.make_graph(nodes, "g", infos(inputs), infos(outputs), initializers)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), str(path))
    return path


def network(path: Path, groups: int = 2) -> Path:
    """Convolutions of all kinds, one of mostly zeros, and a product with a constant."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.3).astype(np.float32)

    few = weights(32, 16, 3, 3)
    few[np.abs(few) < 0.4] = 0
    few[0, 0, 0, :2] = 1e-40, 0.5
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "w2", "b2"], ["c"], strides=[2, 2]),
        node("Conv", ["c", "wd"], ["d"], group=32, pads=[1, 1, 1, 1]),
        node("Conv", ["d", "wg"], ["g"], group=groups),
        node("ConvTranspose", ["g", "wt"], ["e"], strides=[2, 2]),
        node("GlobalAveragePool", ["e"], ["p"]),
        node("Flatten", ["p"], ["h"]),
        node("MatMul", ["h", "m"], ["i"]),
        node("Add", ["i", "mb"], ["y"]),
    ]
    return save(
        path, nodes, {"x": ["N", 3, 20, 20]}, {"y": ["N", 12], "e": ["N", 32, "h", "w"]},
        w1=weights(16, 3, 3, 3), w2=few, b2=weights(32), wd=weights(32, 1, 3, 3), wg=weights(32, 32 // groups, 1, 1),
        wt=weights(32, 32, 2, 2), m=weights(32, 12), mb=weights(12),
    )  # fmt: skip


def movements(path: Path) -> Path:
    """What a static file has regions for: transposes, joins, parts, padding, repeats, reductions, nearest neighbors."""
    node = helper.make_node
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Transpose", ["a"], ["t"], perm=[0, 2, 1]),
        node("Sigmoid", ["z"], ["s"]),
        node("Concat", ["t", "s"], ["c"], axis=1),
        node("Add", ["c", "k"], ["y"]),
        node("ReduceMean", ["c"], ["m"], axes=[0, 2], keepdims=1),
        node("Sub", ["c", "m"], ["q"]),
        node("Pad", ["a", "pads"], ["padded"]),
        node("Split", ["c"], ["left", "right"], axis=1),
        node("Mul", ["left", "right"], ["product"]),
        node("Unsqueeze", ["a", "zero"], ["image"]),
        node("Resize", ["image", "", "scales"], ["large"], mode="nearest"),
        node("Exp", ["large"], ["grown"]),
    ]
    outputs = {
        "y": [2, 6, 3], "q": [2, 6, 3], "padded": [2, 5, 4], "product": [2, 3, 3], "grown": [1, 2, 6, 8],
    }  # fmt: skip
    return save(
        path, nodes, {"x": [2, 3, 4], "z": [2, 2, 3]}, outputs, k=np.float32([0.5, -1, 2]),
        pads=np.int64([0, 1, 0, 0, 1, 0]), zero=np.int64([0]), scales=np.float32([1, 1, 2, 2]),
    )  # fmt: skip


def gelu(path: Path) -> Path:
    """GELU by erf, as exporters write it."""
    node = helper.make_node
    nodes = [
        node("Div", ["x", "root"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
        node("Mul", ["x", "c"], ["d"]), node("Mul", ["d", "half"], ["y"]),
    ]  # fmt: skip
    numbers = {"root": np.float32(2**0.5), "one": np.float32(1), "half": np.float32(0.5)}
    return save(path, nodes, {"x": [2, 64]}, {"y": [2, 64]}, **numbers)


def custom(path: Path) -> Path:
    """An operator that nothing defines."""
    made = helper.make_node("MyOp", ["x"], ["v"], domain="acme", name="my", alpha=2.5, k=[1, 2], s="abc", n=3)
    nodes = [made, helper.make_node("Relu", ["v"], ["y"])]
    return save(path, nodes, {"x": [1, 4]}, {"y": [1, 4]})


def recurrent(path: Path) -> Path:
    """An LSTM."""
    rng = np.random.default_rng(1)
    nodes = [helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=6)]
    w, r = (rng.standard_normal((1, 24, n)).astype(np.float32) for n in (3, 6))
    return save(path, nodes, {"x": [5, 1, 3]}, {"y": [5, 1, 1, 6]}, w=w, r=r)


def shared(path: Path) -> Path:
    """One weight for five convolutions: more than MNN's converter copies."""
    w = np.random.default_rng(2).standard_normal((16, 16, 1, 1)).astype(np.float32) * 0.3
    nodes = []
    for i in range(5):
        nodes.append(helper.make_node("Conv", [f"s{i}" if i else "x", "w"], [f"c{i}"]))
        nodes.append(helper.make_node("Sin", [f"c{i}"], [f"s{i + 1}" if i < 4 else "y"]))
    return save(path, nodes, {"x": [1, 16, 4, 4]}, {"y": [1, 16, 4, 4]}, w=w)


def named(path: Path) -> Path:
    """Names that are paths, integers, and two outputs."""
    node = helper.make_node
    nodes = [node("Add", ["in/a:0", "b"], ["o/c.d"]), node("Mul", ["i", "i"], ["o2"])]
    inputs = {"in/a:0": [2, 3], "b": [3], "i": (I64, [4])}
    return save(path, nodes, inputs, {"o/c.d": [2, 3], "o2": (I64, [4])})
