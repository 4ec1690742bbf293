"""Real quantized models, bit by bit as LiteRT's reference kernels compute them, and without detours."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from e2e.shared_models import SHARED, RealModel, models, needs_models

import minnow
from minnow.converter import read
from minnow.optimizer.pipeline import optimize
from minnow.runtime.session import Session
from minnow.schema.ir import Model
from minnow.schema.mnn import encode

pytestmark = needs_models

EXACT = ("mobilenet_v2_1.0_224_quant", "deeplabv3_mnv2_pascal_quant", "movenet_single_pose_lightning_ptq",
         "hello_world_int8", "micro_speech_quantized", "trained_lstm_int8", "model_quant_2")  # fmt: skip


MEAN = ("Cast", "Div", "Add", "Mul", "Min", "Max", "Sign")  # over the last image


def quantized(name: str) -> RealModel:
    return next(m for m in models("tflite", ".tflite") if m.path.stem == name)


def converted(model: RealModel) -> tuple[Model, Session]:
    made = read(model.path)
    optimize(made)
    return made, minnow.load(encode(made), threads=2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", EXACT)
def test_same_as_reference_kernels(name: str) -> None:
    model = quantized(name)
    made, session = converted(model)
    recorded, _ = model.recording()
    reference = Interpreter(str(model.path), experimental_op_resolver_type=OpResolverType.BUILTIN_REF)
    reference.allocate_tensors()
    details = reference.get_input_details()
    inputs = {name: recorded[detail["name"]] for (name, _), detail in zip(made.inputs, details, strict=False)}
    for detail in details:
        reference.set_tensor(detail["index"], recorded[detail["name"]])
    reference.invoke()
    got = session.run(inputs)
    for (output, _), detail in zip(made.outputs, reference.get_output_details(), strict=False):
        want = reference.get_tensor(detail["index"])
        assert got[output].dtype == want.dtype
        if want.dtype.kind == "f" and name == "model_quant_2":
            assert np.abs(got[output] - want).max() <= 1e-5 * np.abs(want).max()
        else:
            assert np.array_equal(got[output], want)


@pytest.mark.parametrize(("picture", "person"), [("person.bmp", True), ("no_person.bmp", False)])
def test_sees_persons(picture: str, person: bool) -> None:
    """LiteRT refuses this file: its biases name an axis that they do not have. Its gray bytes count as signed ones."""
    from PIL import Image

    made, session = converted(quantized("person_detect"))
    gray = np.asarray(Image.open(SHARED / "tflite" / "person_detect_int8" / picture).convert("L"))
    image = gray.astype(np.uint8).view(np.int8).reshape(1, 96, 96, 1)
    (scores,) = session.run({made.inputs[0][0]: image}).values()
    none, some = scores.reshape(-1).tolist()
    assert (some > none) is person


@pytest.mark.parametrize(("name", "most"), [("mobilenet_v2_1.0_224_quant", 1), ("person_detect", 1)])
def test_layers_follow_each_other(name: str, most: int) -> None:
    """Layers are single nodes in the engine, and no image is turned between them."""
    model = quantized(name)
    made, session = converted(model)
    recorded, _ = model.recording()
    rows = session.profile({made.inputs[0][0]: next(iter(recorded.values()))}, 1)
    ops = [row["op"] for row in rows]
    assert ops.count("Transpose") <= most
    layers = [i for i, op in enumerate(ops) if op == "QuantizedConv"]
    assert set(ops[layers[0] : layers[-1]]) <= {"QuantizedConv", "QuantizedSum", *MEAN}


@pytest.mark.parametrize("per_channel", [False, True], ids=["one scale", "a scale for each channel"])
def test_layers_quantized_by_onnx_runtime_are_one_node_each(per_channel: bool, tmp_path: Path) -> None:
    """As `quantize_dynamic` writes them: each finds the range of its input in a run."""
    from onnxruntime.quantization import quantize_dynamic

    rng = np.random.default_rng(3)
    arrays = {"w": (33, 20), "b": (20,), "v": (20, 7), "c": (7,)}
    constants = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in arrays.items()]
    nodes = [
        onnx.helper.make_node(op, inputs, [output])
        for op, inputs, output in (
            *(("MatMul", ["x", "w"], "a"), ("Add", ["a", "b"], "d"), ("Relu", ["d"], "e")),
            *(("MatMul", ["e", "v"], "f"), ("Add", ["f", "c"], "g"), ("Add", ["g", "r"], "y")),
        )
    ]
    ends = [onnx.helper.make_tensor_value_info(n, 1, s) for n, s in (("x", (2, 5, 33)), ("r", (2, 5, 7)), ("y", None))]
    graph = onnx.helper.make_graph(nodes, "g", ends[:2], ends[2:], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "model.onnx")
    quantize_dynamic(tmp_path / "model.onnx", tmp_path / "small.onnx", per_channel=per_channel)
    report = minnow.convert(tmp_path / "small.onnx", output=tmp_path / "small.mnn", target="minnow", check_each=True)
    assert report.verification is not None
    assert report.verification.passed
    assert "onnxruntime" in report.verification.reference
    assert dict(report.after.nodes) == {"DynamicLinear": 2}
