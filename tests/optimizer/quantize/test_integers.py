"""Quantized networks against a computation of the same steps in numpy, and which parts stay in integers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.schema.mnn import read_file

Array = np.ndarray[Any, Any]


def network(path: Path, nodes: list[Any], constants: dict[str, Array], shape: list[int], outputs: list[str]) -> Path:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def quantized(source: Path, data: list[Array], **options: Any) -> tuple[Path, Counter[str]]:
    target = source.with_suffix(".mnn")
    common = {"target": "minnow", "measure": False, "activation_method": "minmax", "bias_correction": False}
    minnow.quantize(source, calibration=data, output=target, **{**common, **options})
    return target, Counter(node.op for node in read_file(target).graph)


def conv(x: Array, w: Array, b: Array) -> Array:
    pad = w.shape[-1] // 2
    windows = sliding_window_view(np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad))), w.shape[2:], (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]


def rows_rounded(w: Array) -> tuple[Array, Array]:
    scale = np.abs(w.reshape(len(w), -1)).max(1) / 127
    shape = (-1,) + (1,) * (w.ndim - 1)
    return np.clip(np.rint(w / scale.reshape(shape)), -127, 127) * scale.reshape(shape), scale


class Rounding:
    """Numbers rounded to 256 steps from their least to their largest in a calibration."""

    def __init__(self, measured: Array) -> None:
        low, high = min(float(measured.min()), 0.0), max(float(measured.max()), 0.0)
        self.scale = float(np.float32((high - low) / 255))
        self.zero = np.rint(-low / self.scale)

    def __call__(self, x: Array) -> Array:
        return np.asarray((np.clip(np.rint(x / self.scale) + self.zero, 0, 255) - self.zero) * self.scale)


def test_layers_and_sums_give_what_rounded_floats_give(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    w1, w2 = rng.normal(size=(8, 4, 3, 3)), rng.normal(size=(8, 8, 1, 1))
    w3 = rng.normal(size=(5, 8 * 36)) * 0.1
    b1, b2, b3 = rng.normal(size=8), rng.normal(size=8), rng.normal(size=5)
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2", "b2"], ["c2"]),
        helper.make_node("Add", ["c2", "r1"], ["s"]),
        helper.make_node("Flatten", ["s"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["y"], transB=1),
    ]
    constants = {"w1": w1, "w2": w2, "w3": w3, "b1": b1, "b2": b2, "b3": b3}
    single = {n: a.astype(np.float32) for n, a in constants.items()}
    source = network(tmp_path / "n.onnx", nodes, single, [2, 4, 6, 6], ["y"])
    data = [rng.normal(size=(2, 4, 6, 6)).astype(np.float32) for _ in range(3)]
    target, ops = quantized(source, data)
    assert ops["QuantizedConv"] == 2
    assert ops["QuantizedMatMul"] == ops["QuantizedSum"] == 1
    assert not {"Conv", "Linear", "MatMul", "Add"} & set(ops)

    def floats(x: Array) -> list[Array]:
        r1 = np.maximum(conv(x, single["w1"], single["b1"]), 0)
        c2 = conv(r1, single["w2"], single["b2"])
        s = c2 + r1
        return [x, r1, c2, s, s.reshape(2, -1) @ single["w3"].T + single["b3"]]

    rx, r1r, r2, rs, ry = (Rounding(np.concatenate(parts)) for parts in zip(*map(floats, data), strict=True))
    (q1, _), (q2, _), (q3, _) = (rows_rounded(single[n].astype(np.float64)) for n in ("w1", "w2", "w3"))
    session = minnow.load(target)
    for x in data:
        a = r1r(np.maximum(conv(rx(x.astype(np.float64)), q1, b1), 0))
        s = rs(r2(conv(a, q2, b2)) + a)
        want = ry(s.reshape(2, -1) @ q3.T + b3)
        # A number between two steps may become the other one, here and there.
        steps = np.abs(session.run({"x": x})["y"] - want) / ry.scale
        assert steps.max() < 2.5
        assert np.mean(steps > 0.5) < 0.4
        assert np.abs(floats(x)[-1] - want).max() < 12 * ry.scale


def test_pooling_concatenation_tables_and_views_stay_in_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"]),
        helper.make_node("HardSwish", ["c1"], ["h"]),
        helper.make_node("MaxPool", ["h"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Conv", ["p", "w2"], ["c2"]),
        helper.make_node("Conv", ["p", "w3"], ["c3"]),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Concat", ["r2", "c3"], ["j"], axis=1),
        helper.make_node("Transpose", ["j"], ["t"], perm=[0, 1, 3, 2]),
        helper.make_node("Conv", ["t", "w4"], ["y"]),
    ]
    shapes = {"w1": (8, 4, 1, 1), "w2": (8, 8, 1, 1), "w3": (4, 8, 1, 1), "w4": (4, 12, 1, 1)}
    constants = {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    source = network(tmp_path / "n.onnx", nodes, constants, [1, 4, 8, 8], ["y"])
    data = [rng.normal(size=(1, 4, 8, 8)).astype(np.float32) for _ in range(3)]
    target, ops = quantized(source, data)
    assert ops["QuantizedConv"] == 4
    assert not {"Conv", "HardSwish", "Relu"} & set(ops)
    assert ops["QuantizeLinear"] == ops["DequantizeLinear"] == 1  # at the input and at the output
    floats = minnow.convert(source, output=tmp_path / "f.mnn", verify=False).output
    want, got = (minnow.load(p).run({"x": data[0]})["y"] for p in (floats, target))
    assert np.corrcoef(want.reshape(-1), got.reshape(-1))[0, 1] > 0.999


@pytest.mark.parametrize("correct", [True, False])
def test_biases_make_up_for_the_mean_error_of_weights(correct: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    w = rng.normal(size=(6, 512, 1, 1)).astype(np.float32)
    w[:, 0] = 60  # so that the other weights have few steps
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"])]
    source = network(tmp_path / "n.onnx", nodes, {"w": w}, [1, 512, 4, 4], ["y"])
    data = [(rng.random((1, 512, 4, 4)) + 1).astype(np.float32) for _ in range(4)]
    target, _ = quantized(source, data, bias_correction=correct)
    want = np.mean([conv(x, w, np.zeros(6)) for x in data], (0, 1, 3, 4))
    session = minnow.load(target)
    got = np.mean([session.run({"x": x})["y"] for x in data], (0, 1, 3, 4))
    step = 900 / 255
    assert bool(np.abs(got - want).max() < step / 4) is correct


def test_a_channel_without_weights_keeps_its_bias_and_the_layer_its_integers(tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    w, b = rng.normal(size=(4, 3, 1, 1)).astype(np.float32), np.array([1, 2, 3, 1], np.float32)
    w[1] *= 1e-20
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["y"])]
    source = network(tmp_path / "n.onnx", nodes, {"w": w, "b": b}, [1, 3, 4, 4], ["y"])
    data = [rng.normal(size=(1, 3, 4, 4)).astype(np.float32) for _ in range(2)]
    target, ops = quantized(source, data)
    assert ops["QuantizedConv"] == 1
    got = minnow.load(target).run({"x": data[0]})["y"]
    assert np.abs(got - conv(data[0], w, b)).max() < 0.15


@pytest.mark.parametrize("middle", ["HardSwish", "Relu"])
def test_results_of_16_bits_are_nearer_and_the_layers_still_compute_with_integers(middle: str, tmp_path: Path) -> None:
    """A function, or a mean, reads the results. The images are too large for the check of each step: one float in some
    thousand rounds otherwise to 16 bits than the exact sum does.
    """
    rng = np.random.default_rng(11)
    w = [(rng.standard_normal(s) / np.sqrt(np.prod(s[1:]))).astype(np.float32) for s in ((16, 3, 3, 3), (16, 16, 1, 1))]
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b"], ["c0"], pads=[1] * 4),
        helper.make_node(middle, ["c0"], ["h"]),
        helper.make_node("Conv", ["h", "w1", "b"], ["c1"]),
        helper.make_node("Relu", ["c1"], ["r"]),
        helper.make_node("ReduceMean", ["r"], ["m"], axes=[2, 3], keepdims=0),
        helper.make_node("MatMul", ["m", "w2"], ["y"]),
    ]
    constants = {"w0": w[0], "w1": w[1], "b": rng.standard_normal(16).astype(np.float32),
                 "w2": rng.standard_normal((16, 5)).astype(np.float32)}  # fmt: skip
    source = network(tmp_path / "m.onnx", nodes, constants, [1, 3, 80, 80], ["y"])
    data = [(3 * rng.standard_normal((1, 3, 80, 80))).astype(np.float32) for _ in range(4)]
    minnow.convert(source, output=tmp_path / "f.mnn", target="minnow", verify=False)
    want = [minnow.load(tmp_path / "f.mnn").run({"x": x})["y"] for x in data]
    loss = {}
    for kind in ("int8", "int16"):
        target, _ = quantized(source, data, activations=kind, equalize="off", verify=True)
        got = [minnow.load(target).run({"x": x})["y"] for x in data]
        loss[kind] = float(np.square(np.subtract(got, want)).sum())
        layers = [n for n in read_file(target).graph if n.op in ("QuantizedConv", "QuantizedMatMul")]
        wide = [n for n in layers if str(n.output.type.dtype) == "i16"]
        assert len(layers) == 3
        assert len(wide) == (0 if kind == "int8" else 2 if middle == "Relu" else 3)
    assert loss["int16"] < loss["int8"]
    score = {kind: cosine_loss(source, data, activations=kind) for kind in ("int8", "int16")}
    assert score["int16"][0] < score["int8"][0]
    drop = str((score["int16"][0] + score["int8"][0]) / 2)
    report = cosine_loss(source, data, max_drop=drop)
    assert any("16 bits" in text for text in report[1].corrections)
    assert all(row.kind == "int8" for row in report[1].calibrated)


def cosine_loss(source: Path, data: list[Array], **options: Any) -> tuple[float, Any]:
    """What the outputs lose, and the report."""
    report = minnow.quantize(
        source, calibration=data, output=source.with_suffix(".q"), target="minnow", measure=False, verify=False,
        activation_method="minmax", bias_correction=False, equalize="off", **options,
    )  # fmt: skip
    done: Any = report.quantization
    return 1 - done.score, done


@pytest.mark.parametrize(("mode", "coordinates"), [("nearest", "asymmetric"), ("linear", "half_pixel")])
def test_enlarging_by_the_nearest_moves_integers(mode: str, coordinates: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    w0, w1 = rng.normal(size=(6, 3, 1, 1)), rng.normal(size=(4, 6, 1, 1))
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"]),
        helper.make_node("Resize", ["a", "", "s"], ["b"], mode=mode, coordinate_transformation_mode=coordinates,
                         nearest_mode="floor"),
        helper.make_node("Conv", ["b", "w1"], ["y"]),
    ]  # fmt: skip
    constants = {"w0": w0.astype(np.float32), "w1": w1.astype(np.float32), "s": np.float32([1, 1, 2, 2])}
    source = network(tmp_path / "n.onnx", nodes, constants, [1, 3, 5, 5], ["y"])
    data = [rng.normal(size=(1, 3, 5, 5)).astype(np.float32) for _ in range(3)]
    target, ops = quantized(source, data, equalize="off", activations="int8")
    (resize,) = (n for n in read_file(target).graph if n.op == "Resize")
    assert str(resize.output.type.dtype) == ("u8" if mode == "nearest" else "f32")
    assert ops["QuantizedConv"] == 2
    if mode == "nearest":
        assert ops["DequantizeLinear"] == ops["QuantizeLinear"] == 1
        steps = [Rounding(np.concatenate(data))]
        floats = [conv(x, w0, np.zeros(6)) for x in data]
        steps.append(Rounding(np.concatenate(floats)))
        large = [conv(np.repeat(np.repeat(a, 2, 2), 2, 3), w1, np.zeros(4)) for a in floats]
        steps.append(Rounding(np.concatenate(large)))
        inner = steps[1](conv(steps[0](data[0]), rows_rounded(w0)[0], np.zeros(6)))
        want = steps[2](conv(np.repeat(np.repeat(inner, 2, 2), 2, 3), rows_rounded(w1)[0], np.zeros(4)))
        got = minnow.load(target).run({"x": data[0]})["y"]
        assert np.abs(got - want).max() < 1.01 * steps[2].scale
        assert np.mean(np.abs(got - want) > 0.1 * steps[2].scale) < 0.02
