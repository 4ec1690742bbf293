"""QLinear models with weights of all 8 bits in onnxruntime: unsigned ones give what the signed ones mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.runtime.verify.onnx_runtime import OnnxRuntime
from minnow.runtime.verify.unsigned_weights import with_unsigned_weights
from minnow.schema.ir import DType

Array = np.ndarray[Any, Any]
X_SCALE, Y_SCALE = np.float32(0.5), np.float32(2048.0)
X_ZERO, Y_ZERO = np.uint8(7), np.uint8(120)


def model(op: str, zero: Array, data: Any = np.uint8, ir: int = 8) -> tuple[onnx.ModelProto, dict[str, Array]]:
    """One layer whose neighbouring products add up to more than 16 bits have; its inputs."""
    rng = np.random.default_rng(len(op))
    x = rng.integers(200, 256, (1, 8, 5, 5) if op == "QLinearConv" else (6, 32)).astype(np.uint8)
    w = rng.choice(np.array([-128, -127, 126, 127], np.int8), (4, 8, 3, 3) if op == "QLinearConv" else (32, 4))
    x = x if data is np.uint8 else (x.astype(np.int16) - 128).astype(np.int8)
    constants = {"xs": X_SCALE, "xz": data(7), "w": w, "ws": np.full(zero.shape, 0.5, np.float32), "wz": zero,
                 "ys": Y_SCALE, "yz": data(Y_ZERO), "b": np.arange(4, dtype=np.int32)}  # fmt: skip
    operands = {"QLinearConv": ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"],
                "QLinearMatMul": ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"],
                "QGemm": ["x", "xs", "xz", "w", "ws", "wz", "b", "ys", "yz"]}[op]  # fmt: skip
    node = helper.make_node(op, operands, ["y"], domain="com.microsoft" if op == "QGemm" else "")
    kind = TensorProto.UINT8 if data is np.uint8 else TensorProto.INT8
    graph = helper.make_graph(
        [node], "g", [helper.make_tensor_value_info("x", kind, x.shape)],
        [helper.make_tensor_value_info("y", kind, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items() if n in operands],
    )  # fmt: skip
    sets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=sets, ir_version=ir), {"x": x, "w": w}


def meant(op: str, x: Array, w: Array, zero: Array) -> Array:
    numbers, weights = x.astype(np.int64) - 7, w.astype(np.int64) - zero.astype(np.int64).reshape(-1)[0]
    if op == "QLinearConv":
        windows = np.lib.stride_tricks.sliding_window_view(numbers, (3, 3), (2, 3))
        sums = np.einsum("nchwij,ocij->nohw", windows, weights)
    else:
        sums = numbers @ weights + (np.arange(4) if op == "QGemm" else 0)
    return np.clip(np.rint(sums * 0.25 / 2048.0) + int(Y_ZERO), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("op", ["QLinearConv", "QLinearMatMul", "QGemm"])
@pytest.mark.parametrize("zero", [np.int8(0), np.int8(-3), np.zeros(4, np.int8)], ids=["none", "one", "channels"])
def test_results_are_exact(op: str, zero: Any, tmp_path: Path) -> None:
    made, given = model(op, np.asarray(zero))
    (tmp_path / "n.onnx").write_bytes(made.SerializeToString())
    changed = with_unsigned_weights(made.SerializeToString())
    assert changed is not None
    types = {t.name: t.data_type for t in onnx.load_model_from_string(changed).graph.initializer}
    assert types["w/unsigned"] == types["wz/unsigned"] == TensorProto.UINT8
    runtime = OnnxRuntime(tmp_path / "n.onnx", {"y": DType.U8})
    for got in (runtime.run({"x": given["x"]}), runtime.run_again({"x": given["x"]})):
        assert got is not None
        np.testing.assert_array_equal(got["y"], meant(op, given["x"], given["w"], np.asarray(zero)))
    assert len(np.unique(got["y"])) > 3
    report = minnow.convert(tmp_path / "n.onnx", output=tmp_path / "n.mnn")
    assert report.verification is not None
    assert report.verification.passed


def test_models_without_such_weights_stay_as_they_are() -> None:
    signed, _ = model("QLinearConv", np.int8(0), np.int8)
    assert with_unsigned_weights(signed.SerializeToString()) is None
    old, _ = model("QLinearConv", np.int8(0), ir=3)
    assert with_unsigned_weights(old.SerializeToString()) is None
    computed, _ = model("QLinearConv", np.int8(0))
    computed.graph.input.append(helper.make_tensor_value_info("w", TensorProto.INT8, (4, 8, 3, 3)))
    assert with_unsigned_weights(computed.SerializeToString()) is None
