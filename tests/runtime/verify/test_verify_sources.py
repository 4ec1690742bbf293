"""Verification against LiteRT: integers may be a quantum apart, and what a model remembers shows in a second run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tflite_one import Tensor, constant, file_of

import minnow
from minnow.cli._app import run
from minnow.runtime.verify import verify
from minnow.runtime.verify.comparison import compare
from minnow.schema.errors import UsageError
from minnow.schema.mnn import decode, encode

RNG = np.random.default_rng(5)


@pytest.fixture
def layer(tmp_path: Path) -> Path:
    """A layer of bytes."""
    weights = constant(RNG.integers(-127, 128, (3, 5)).astype(np.int8), 0.01)
    bias = constant(RNG.integers(-500, 500, 3).astype(np.int32), 0.01 * 0.02)
    operands = [Tensor((2, 5), np.int8, 0.02, 3), weights, bias]
    path = tmp_path / "layer.tflite"
    path.write_bytes(
        file_of("FULLY_CONNECTED", operands, [Tensor((2, 3), np.int8, 0.05, -4)], {}, "FullyConnectedOptions", 4)
    )
    return path


def changed(path: Path, by: int) -> None:
    """The same file, whose last result is moved by that many quanta."""
    model = decode(np.frombuffer(path.read_bytes(), np.uint8))
    node = next(n for n in model.graph if n.op in ("Requantize", "QuantizedMatMul"))
    node.set_attrs(zero=node.attrs.get("zero", 0) + by)
    path.write_bytes(encode(model))


def test_a_layer_of_bytes_is_held_to_lite_rt(layer: Path) -> None:
    report = minnow.convert(layer)
    assert report.verification is not None
    assert report.verification.reference.startswith("LiteRT")
    assert all(o.max_abs == 0 for c in report.verification.cases for o in c.outputs)


@pytest.mark.parametrize(("by", "passes"), [(0, True), (1, True), (-1, True), (2, False), (-3, False)])
def test_one_quantum_apart_passes(layer: Path, by: int, passes: bool) -> None:
    target = layer.with_suffix(".mnn")
    minnow.convert(layer, verify=False)
    changed(target, by)
    data = [{"t0": np.zeros((2, 5), np.int8)}]  # no result is at an end of the range
    assert verify(layer, target, data=data).passed == passes


def test_integers_that_are_no_quanta_must_be_equal() -> None:
    one, other = np.array([1], np.int32), np.array([2], np.int32)
    assert not compare("y", one, other).passed
    assert compare("y", one, other, quanta=1).passed
    assert not compare("y", one, np.array([3], np.int32), quanta=1).passed


def test_in_float_the_numpy_reference_judges(layer: Path) -> None:
    report = minnow.convert(layer, dequantize=True)
    assert report.verification is not None
    assert report.verification.passed
    assert report.verification.reference == "numpy reference"
    assert "rounds" in report.verification.note
    assert "Requantize" not in report.nodes_after


def test_a_recurrent_layer_runs_twice(tmp_path: Path) -> None:
    units, width = 4, 3
    dense = [RNG.standard_normal(s).astype(np.float32) for s in ((units, width), (units, units), (units,))]
    state = Tensor((1, units), variable=True)
    operands = [Tensor((1, width)), *map(constant, dense), state]
    path = tmp_path / "rnn.tflite"
    path.write_bytes(file_of("RNN", operands, [Tensor((1, units))], {"fused_activation_function": 4}, "RNNOptions"))
    report = minnow.convert(path)
    assert report.verification is not None
    assert report.verification.reference.startswith("LiteRT")
    names = set(report.verification.worst)
    assert len(names) == 2
    assert any(n.endswith(", second run") for n in names)
    session = minnow.load(path.with_suffix(".mnn"))
    x = {session.inputs[0].name: np.ones((1, width), np.float32)}
    first, second = (next(iter(session.run(x).values())) for _ in range(2))
    assert not np.allclose(first, second)


def test_what_a_format_does_not_have_is_a_wrong_call(layer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="`--weights` does not apply to tflite models"):
        minnow.convert(layer, weights="t3")
    assert run(["convert", str(layer), "--weights", "t3"]) == 2
    assert run(["convert", str(layer), "--outputs", "nothing"]) == 2
    assert run(["convert", str(layer), "--signature", "nothing"]) == 2
    assert run(["check", str(layer)]) == 0
    assert "tflite, schema 3" in capsys.readouterr().out


def test_timing_beside_lite_rt(layer: Path, capsys: pytest.CaptureFixture[str]) -> None:
    minnow.convert(layer, verify=False)
    target = str(layer.with_suffix(".mnn"))
    assert run(["benchmark", target, "--against", "litert", "--runs", "3", "--no-roofline"]) == 0
    assert "litert" in capsys.readouterr().out
