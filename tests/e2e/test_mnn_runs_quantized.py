"""Quantized models in MNN's own runtime: the second graph of a file gives the numbers of the first, but for rounding.

Each layer may be a step beside; over many layers that adds up, so what is compared is how far the outputs are apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import onnx
import pytest
from e2e.shared_models import models, needs_models
from onnx import helper, numpy_helper

import minnow
from minnow.converter import read
from minnow.optimizer import optimize
from minnow.runtime.verify.samples import candidates
from minnow.schema.ir import Model
from minnow.schema.mnn import encode, wire
from minnow.schema.notice import kind_of

pytestmark = mnn_oracle.needs_mnn

Array = np.ndarray[Any, Any]
MODELS = ("mobilenet_v2_1.0_224_quant", "person_detect", "hello_world_int8", "micro_speech_quantized", "model_quant_2",
          "movenet_single_pose_lightning_ptq")  # fmt: skip
IN_FLOATS = "computed in float instead of integers of 8 bits"
FLOAT = ("mobilenet_v2_1.0_224_quant", "model_quant_2")
"""Those with layers that MNN has no integers for: weights with a zero point, depthwise; ranges found in a run."""


def both(model: Model, inputs: dict[str, Array], folder: Path) -> tuple[dict[str, Array], dict[str, Array]]:
    """What Minnow's engine and MNN's runtime give for one file."""
    ours = minnow.load(encode(model), threads=1).run(dict(inputs))
    (answer,) = mnn_oracle.run([mnn_oracle.Job(model, inputs)], folder)
    assert answer.outputs is not None, answer.log
    theirs = {name: a for (name, _), a in zip(model.outputs, answer.outputs, strict=True)}
    return {n: np.asarray(ours[n]) for n in theirs}, theirs


@needs_models
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_real_models(name: str, tmp_path: Path) -> None:
    real = next(m for m in models("tflite", ".tflite") if m.path.stem == name)
    model = read(real.path)
    optimize(model)
    text = next(n for n in model.notices if kind_of(n) == "second-graph")
    assert ("integers of 8 bits" in text) == (name != "model_quant_2")
    assert ("computed in float" in text) >= (name in FLOAT)
    inputs = next(candidates(model, [0])).inputs
    if real.recorded:
        recorded, _ = real.recording()
        inputs = dict(zip((n for n, _ in model.user_inputs), recorded.values(), strict=True))
    ours, theirs = both(model, inputs, tmp_path)
    for output, right in ours.items():
        a, b = (v.astype(np.float64) for v in (theirs[output], right))
        assert a.shape == b.shape
        few = (a != b).mean() <= 0.05
        assert few or np.linalg.norm(a - b) <= 0.4 * np.linalg.norm(b - b.mean())


def network(rng: np.random.Generator) -> onnx.ModelProto:
    def weights(name: str, *shape: int) -> Any:
        numbers = rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        return numpy_helper.from_array(numbers.astype(np.float32), name)

    around = {"pads": [1, 1, 1, 1]}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], **around, strides=[2, 2]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], **around, group=12),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b3"], ["c3"]),
        helper.make_node("Add", ["r1", "c3"], ["sum"]),
        helper.make_node("MaxPool", ["sum"], ["pool"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["pool", "pool"], ["two"], axis=1),
        helper.make_node("Flatten", ["two"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w4"], ["y"]),
    ]
    tensors = [weights("w1", 12, 3, 3, 3), weights("b1", 12), weights("w2", 12, 1, 3, 3), weights("w3", 12, 12, 1, 1),
               weights("b3", 12), weights("w4", 24 * 16, 10)]  # fmt: skip
    ends = [
        [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s)]
        for n, s in (("x", [1, 3, 16, 16]), ("y", [1, 10]))
    ]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize(("activations", "weights"), [("QInt8", "QInt8"), ("QUInt8", "QInt8"), ("QUInt8", "QUInt8")])
def test_a_network_quantized_by_onnx_runtime(each: bool, activations: str, weights: str, tmp_path: Path) -> None:
    quantization = pytest.importorskip("onnxruntime.quantization")
    rng = np.random.default_rng(3)
    onnx.save(network(rng), tmp_path / "float.onnx")
    images = rng.standard_normal((4, 1, 3, 16, 16)).astype(np.float32)
    feeds = iter([{"x": v} for v in images])

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc, name-defined]
        def get_next(self) -> Any:
            return next(feeds, None)

    kinds = {key: getattr(quantization.QuantType, v)
             for key, v in (("activation_type", activations), ("weight_type", weights))}  # fmt: skip
    quantization.quantize_static(tmp_path / "float.onnx", tmp_path / "q.onnx", Reader(), per_channel=each, **kinds)
    report = minnow.convert(tmp_path / "q.onnx", output=tmp_path / "q.mnn", strict_target=True)
    assert report.verification is not None
    assert report.verification.passed
    assert set(report.limits) >= {IN_FLOATS} if weights == "QUInt8" else True
    assert sum(kind_of(n) == "second-graph" for n in report.notices) == 2  # how it is computed, and how well
    net = wire.read((tmp_path / "q.mnn").read_bytes())
    integers = [op for op in net["oplists"] if "symmetricQuan" in (op.get("main") or {})]
    assert len(integers) >= 3
    model = read(tmp_path / "q.onnx")
    optimize(model)
    for i, image in enumerate(images):
        ours, theirs = both(model, {"x": image}, tmp_path / str(i))
        step = np.ptp(ours["y"]) / 255
        assert np.abs(ours["y"] - theirs["y"]).max() <= 6 * step


@pytest.mark.parametrize("kind", [np.int8, np.uint8])
def test_recurrent_layers_products_and_tables_of_integers(kind: Any, tmp_path: Path) -> None:
    """MNN's runtime makes floats of integers that the file has once for both graphs."""
    rng = np.random.default_rng(5)
    middle = 0 if kind is np.int8 else 128

    def weights(*shape: int) -> Array:
        return (rng.integers(-99, 100, shape) + middle).astype(kind)

    tables = {
        "t": weights(300, 72),
        "ts": np.float32(0.02),
        "tz": kind(middle + 3),
        "w": weights(1, 72, 160),
        "r": weights(1, 40, 160),
        "b": rng.standard_normal((1, 320)).astype(np.float32),
        "s": np.full(1, 0.001, np.float32),
        "z": np.full(1, middle, kind),
        "m": weights(40, 110),
        "ms": np.float32(0.002),
        "mz": kind(middle + 2),
    }
    nodes = [
        helper.make_node("Gather", ["t", "x"], ["rows"]),
        helper.make_node("DequantizeLinear", ["rows", "ts", "tz"], ["e"]),
        helper.make_node("DynamicQuantizeLSTM", ["e", "w", "r", "b", "", "", "", "", "s", "z", "s", "z"], ["h"],
                         domain="com.microsoft", hidden_size=40),
        helper.make_node("DynamicQuantizeLinear", ["h"], ["q", "qs", "qz"]),
        helper.make_node("MatMulInteger", ["q", "m", "qz", "mz"], ["i"]),
        helper.make_node("Cast", ["i"], ["f"], to=1),
        helper.make_node("Mul", ["qs", "ms"], ["fs"]),
        helper.make_node("Mul", ["f", "fs"], ["y"]),
    ]  # fmt: skip
    ends = [[helper.make_tensor_value_info("x", onnx.TensorProto.INT32, [6, 2])],
            [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [6, 1, 2, 110])]]  # fmt: skip
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(np.asarray(v), k) for k, v in tables.items()])
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "q.onnx")
    model = read(tmp_path / "q.onnx")
    optimize(model)
    assert len(encode(model)) < sum(v.nbytes for v in tables.values()) + 16000
    ours, theirs = both(model, {"x": rng.integers(0, 300, (6, 2)).astype(np.int32)}, tmp_path)
    np.testing.assert_allclose(theirs["y"], ours["y"], atol=0.05 * np.abs(ours["y"]).max())
