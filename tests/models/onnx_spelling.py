"""ONNX graphs written op by op, and what the engine makes of them, next to onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.optimizer.facts.format import Target


class Spelling:
    """An ONNX graph that is written op by op, and random numbers for its inputs."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(7)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.inputs: dict[str, np.ndarray] = {}

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs[name] = self.rng.standard_normal(shape).astype(np.float32)
        return name

    def constant(self, value: object, dtype: type = np.float32) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{len(self.constants)}"))
        return self.constants[-1].name

    def op(self, op: str, *inputs: str, outputs: int = 1, **attrs: object) -> list[str]:
        names = [f"n{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, **attrs))
        return names

    def __getattr__(self, op: str) -> Callable[..., str]:
        return lambda *inputs, **attrs: self.op(op, *inputs, **attrs)[0]

    def reshaped(self, x: str, *shape: int) -> str:
        return self.Reshape(x, self.constant(shape, np.int64))

    def heads(self, x: str, heads: int, depth: int, perm: tuple[int, ...] = (0, 2, 1, 3)) -> str:
        return self.Transpose(self.reshaped(x, 0, -1, heads, depth), perm=perm)

    def attend(self, q: str, k: str, v: str, scale: float = 0.3) -> str:
        scores = self.Mul(self.MatMul(q, k), self.constant(scale))
        return self.MatMul(self.Softmax(scores, axis=-1), v)

    def merged(self, y: str, width: int) -> str:
        return self.reshaped(self.Transpose(y, perm=[0, 2, 1, 3]), 0, -1, width)

    def model(self, result: str) -> bytes:
        inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "attention", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


Case = Callable[[Spelling], str]


def check(case: Case, folder: str, threads: int, target: Target = "mnn") -> set[str]:
    """Compares the engine with onnxruntime; returns the ops that the engine has run."""
    spelling = Spelling()
    source = Path(folder) / "model.onnx"
    source.write_bytes(spelling.model(case(spelling)))
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    wanted = onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    converted = Path(folder) / "model.mnn"
    minnow.convert(source, output=converted, target=target, verify=False)
    session = minnow.load(converted, threads=threads)
    for _ in range(2):  # the memory holds what the first run left there
        (got,) = session.run(spelling.inputs).values()
        (want,) = wanted.run(None, spelling.inputs)
        assert got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-6 * np.nanmax(np.abs(want), initial=1))
    return {row["op"] for row in session.profile(spelling.inputs, 1)}
