"""Products with weights that DequantizeLinear makes of constants: the file keeps these; beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import minnow
from minnow.cli._app import run as run_cli

RNG = np.random.default_rng(0)
K, N = 256, 320
RANGES = {T.INT4: (-8, 8), T.UINT4: (0, 16), T.INT8: (-128, 128), T.UINT8: (0, 256)}


def product(path: Path, kind: int, axis: int, block: int, zeros: bool, transposed: bool) -> Path:
    shape = [N, K] if transposed else [K, N]
    sizes = [d // block if block and i == axis else d for i, d in enumerate(shape)] if block else [shape[axis]]
    scale = RNG.uniform(0.01, 0.03, sizes).astype(np.float32)
    weights = [helper.make_tensor("q", kind, shape, RNG.integers(*RANGES[kind], shape).reshape(-1).tolist()),
               numpy_helper.from_array(scale, "s")]  # fmt: skip
    if zeros:
        weights.append(helper.make_tensor("z", kind, sizes, RNG.integers(*RANGES[kind], sizes).reshape(-1).tolist()))
    attrs: dict[str, Any] = {"axis": axis, **({"block_size": block} if block else {})}
    names = ["q", "s", "z"][: len(weights)]
    nodes = [helper.make_node("DequantizeLinear", names, ["w"], **attrs),
             helper.make_node("Gemm", ["x", "w"], ["y"], transB=1, alpha=0.5) if transposed
             else helper.make_node("MatMul", ["x", "w"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", T.FLOAT, ["rows", K])],
        [helper.make_tensor_value_info("y", T.FLOAT, ["rows", N])], weights)  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("kind", "axis", "block", "zeros", "transposed"),
    [
        (T.INT4, 0, 32, False, False),
        (T.UINT4, 0, 64, True, False),
        (T.UINT4, 1, 32, False, True),
        (T.INT8, 1, 64, False, True),
        (T.UINT8, 1, 0, True, False),
        (T.INT8, 0, 0, False, True),
    ],
)
def test_weights_stay_packed(kind, axis, block, zeros, transposed, tmp_path):
    source = product(tmp_path / "m.onnx", kind, axis, block, zeros, transposed)
    target = tmp_path / "m.mnn"
    assert run_cli(["convert", str(source), "-o", str(target), "--no-verify"]) == 0
    codes = N * K // (2 if kind in (T.INT4, T.UINT4) else 1)
    scales = 4 * (N * K // block if block else N) * (2 if zeros or kind in (T.UINT4, T.UINT8) else 1)
    assert target.stat().st_size < codes + scales + 10000
    # As it is written: optimized, it rounds the other operand.
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    right = onnxruntime.InferenceSession(str(source), options, providers=["CPUExecutionProvider"])
    session = minnow.load(target)
    for rows in (1, 7):
        x = {"x": RNG.standard_normal((rows, K)).astype(np.float32)}
        want = right.run(None, x)[0]
        np.testing.assert_allclose(session.run(x)["y"], want, rtol=0, atol=1e-5 * np.max(np.abs(want)))
        assert any("quantized" in row["scheme"] for row in session.profile(x, runs=1))
