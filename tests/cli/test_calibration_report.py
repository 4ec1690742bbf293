"""What `mnnconvert quantize --calibration` says of the layers is what the written file has of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._app import run as run_cli
from minnow.report.calibration import Calibrated, CalibratedLayer
from minnow.schema.ir import DType
from minnow.schema.mnn import read_file

LAYERS = ["c1", "c2", "c3", "t", "y"]


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five layers. The range of a concatenation is larger than what a part of it is cut to: its layer is refused."""
    rng = np.random.default_rng(4)
    shapes = {"w1": (8, 4, 1, 1), "w2": (8, 4, 1, 1), "w3": (4, 16, 1, 1), "wt": (4, 2, 1, 1), "w4": (5, 128)}
    constants: dict[str, Any] = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    constants["w2"] *= 5
    constants |= {"low": np.float32(0), "high": np.float32(2)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"]),
        helper.make_node("Clip", ["c1", "low", "high"], ["r1"]),
        helper.make_node("Conv", ["x", "w2"], ["c2"]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Concat", ["r1", "r2"], ["j"], axis=1),
        helper.make_node("Conv", ["j", "w3"], ["c3"]),
        helper.make_node("ConvTranspose", ["c3", "wt"], ["t"]),
        helper.make_node("Flatten", ["t"], ["f"]),
        helper.make_node("Gemm", ["f", "w4"], ["y"], transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    folder = tmp_path_factory.mktemp("source")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "n.onnx")
    np.savez(folder / "x.npz", x=rng.normal(size=(2, 4, 8, 8)).astype(np.float32))
    return folder / "n.onnx"


def quantized(source: Path, target: Path, capsys: Any, *flags: str) -> str:
    given = ["--calibration", str(source.with_name("x.npz")), "--no-measure", "--activation-method", "minmax"]
    assert run_cli(["quantize", str(source), "-o", str(target), *given, *flags]) == 0
    return str(capsys.readouterr().out)


def integer_layers(path: Path) -> list[str]:
    """The names of the weights in a file that are i8 and multiplied by integers of 8 bits."""
    return [
        node.input(1).name
        for node in read_file(path).graph
        if len(node.inputs) > 1
        and node.input(1).type.dtype is DType.I8
        and node.input(0).type.dtype in (DType.I8, DType.U8)
        and node.op.startswith("Quantized")
    ]


def test_a_layer_that_a_rule_refuses_is_float_with_the_reason(source: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "q.mnn"
    report = json.loads(quantized(source, target, capsys, "--format", "json"))["quantization"]
    rows = {row["name"]: row for row in report["calibrated"]}
    assert list(rows) == LAYERS
    assert integer_layers(target) == ["w2", "w3", "w4"]
    assert {name for name, row in rows.items() if row["kind"] == "int8"} == {"c2", "c3", "y"}
    why = "the rule quantize_conv does not apply: saturation does not do what the activation does"
    assert rows["c1"]["why"] == why
    assert rows["t"]["why"] == "ConvTranspose has no form with integers"
    assert not any(rows[name]["why"] for name in ("c2", "c3", "y"))
    text = quantized(source, target, capsys)
    assert "layers: 3 of 5 with integers of 8 bits" in text
    assert why in next(line for line in text.splitlines() if line.startswith("c1 "))


@pytest.mark.parametrize(
    ("flags", "weights", "why"),
    [
        (("--passes=-quantize_conv",), ["w4"], "`--passes` leaves it out"),
        (("-O1",), [], "it runs from -O2 on"),
        (("--exclude", "c2", "--target", "minnow"), ["w3", "w4"], "excluded by 'c2'"),
    ],
)
def test_the_report_counts_the_layers_of_the_file(
    flags: tuple[str, ...], weights: list[str], why: str, source: Path, tmp_path: Path, capsys: Any
) -> None:
    target = tmp_path / "q.mnn"
    report = json.loads(quantized(source, target, capsys, "--format", "json", *flags))["quantization"]
    assert integer_layers(target) == weights
    assert sum(row["kind"] == "int8" for row in report["calibrated"]) == len(weights)
    floats = [row for row in report["calibrated"] if row["kind"] == "f32"]
    assert all(row["why"] for row in floats)
    assert any(why in row["why"] for row in floats)


def test_the_error_of_a_layer_is_that_of_the_file(source: Path, tmp_path: Path, capsys: Any) -> None:
    target = tmp_path / "q.mnn"
    report = json.loads(quantized(source, target, capsys, "--format", "json"))["quantization"]
    minnow.convert(source, output=tmp_path / "f.mnn", verify=False)
    data = np.load(source.with_name("x.npz"))["x"]
    want, got = (
        np.stack([minnow.load(path).run({"x": x[None]})["y"] for x in data]).astype(np.float64)
        for path in (tmp_path / "f.mnn", target)
    )
    row = next(row for row in report["calibrated"] if row["name"] == "y")
    assert row["measured"] == "file"
    assert row["sqnr_db"] == pytest.approx(10 * np.log10((want**2).sum() / ((want - got) ** 2).sum()), abs=1e-3)


def test_what_was_measured_elsewhere_has_a_mark() -> None:
    rows = [
        CalibratedLayer("a", "Conv", sqnr_db=31.25, cosine=0.5, measured="file"),
        CalibratedLayer("b", "Conv", sqnr_db=32.25, cosine=0.25, measured="steps"),
    ]
    lines = str(Calibrated(calibrated=rows)).splitlines()
    assert "31.2 " in lines[2]
    assert "*" not in lines[2]
    assert "32.2*  0.25000*" in lines[3]
    assert lines[4] == "* measured before the optimizer: the file does not have this tensor"
    assert "*" not in str(Calibrated(calibrated=rows[:1]))


def test_weights_that_two_graphs_share_belong_to_their_layers(tmp_path: Path) -> None:
    """A file for MNN's runtime has products with constants that are turned for one of its graphs."""
    rng = np.random.default_rng(6)
    constants = {n: rng.normal(size=(64, 64)).astype(np.float32) for n in ("a", "b")}
    nodes = [helper.make_node("Gemm", ["x", "a"], ["p"]), helper.make_node("Tanh", ["p"], ["t"]),
             helper.make_node("Gemm", ["t", "b"], ["y"])]  # fmt: skip
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 64])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(a, n) for n, a in constants.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "n.onnx")
    report = minnow.quantize(tmp_path / "n.onnx", synthetic=True, output=tmp_path / "q.mnn", measure=False)
    assert isinstance(report.quantization, Calibrated)
    assert [row.kind for row in report.quantization.calibrated] == ["int8", "int8"]
    made = read_file(tmp_path / "q.mnn").graph
    assert sum(node.op == "QuantizedMatMul" for node in made) == 2
    assert any(node.op == "Transpose" for node in made)
