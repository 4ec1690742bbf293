"""Quantized networks in MNN's runtime: the same numbers as in Minnow's engine, since nothing is near the middle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from oracles import mnn_oracle

import minnow
from minnow.optimizer.quantize.activations import Step
from minnow.optimizer.quantize.exact import _fractions, exact_scales
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("whole", [0, -128, 127, 29, -1, 96])
def test_no_whole_number_times_a_fraction_is_near_the_middle_of_two_integers(whole: int) -> None:
    factors = np.exp(np.random.default_rng(0).uniform(np.log(2e-4), np.log(0.015), 40))
    found = _fractions(factors, whole)
    assert (found >= factors).all()
    assert (found <= factors * 1.035).all()
    assert np.median(found / factors) < 1.002
    sums = np.arange(-200_000, 200_000, dtype=np.float64)
    for factor in found:
        products = sums * factor
        products = products[np.abs(products) < 256]
        assert np.abs(np.abs(products - np.floor(products)) - 0.5).min() > 5e-5
        if whole:
            assert abs(whole / factor - round(whole / factor)) < 1e-6 * abs(whole / factor)


def test_large_factors_and_results_of_16_bits_keep_their_scales() -> None:
    graph = Graph()
    x = graph.add_param(TensorType(DType.F32, (1, 4, 3, 3)), "x")
    y: Value = Builder(graph).Conv(
        x, np.ones((4, 1, 1, 1), np.float32), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=4
    )
    assert y.producer is not None
    scale, step = np.array([0.5, 0.1, 0.01, 0.02], np.float32), Step(np.float32(0.02), 100)
    np.testing.assert_array_equal(exact_scales(y.producer, step, Step.wide(-1, 1), scale), scale)
    found = exact_scales(y.producer, step, Step(np.float32(0.02), 99), scale)
    assert found[0] == scale[0]  # 29 is no whole number of anything near
    assert (found[2:] > scale[2:]).all()


def network(path: Path) -> Path:
    """Layers of all kinds, depthwise ones with and without activation, and sums that read each other."""
    rng = np.random.default_rng(4)
    nodes, tensors, last = [], [], "x"

    def conv(name: str, x: str, outs: int, ins: int, size: int, group: int = 1) -> str:
        w = rng.standard_normal((outs, ins // group, size, size)) / np.sqrt(ins // group * size * size)
        for key, array in ((f"{name}.w", w), (f"{name}.b", 0.3 * rng.standard_normal(outs))):
            tensors.append(numpy_helper.from_array(array.astype(np.float32), key))
        pads = [size // 2] * 4
        nodes.append(helper.make_node("Conv", [x, f"{name}.w", f"{name}.b"], [name], pads=pads, group=group))
        return name

    def node(op: str, inputs: list[str], name: str) -> str:
        nodes.append(helper.make_node(op, inputs, [name]))
        return name

    last = node("Relu", [conv("first", last, 24, 3, 3)], "start")
    for k in range(5):
        wide = conv(f"depth{k}", last, 24, 24, 3, 24)
        wide = node("Relu", [wide], f"on{k}") if k % 2 else wide
        last = node("Add", [last, conv(f"point{k}", wide, 24, 24, 1)], f"sum{k}")
        last = node("Relu", [last], f"end{k}") if k % 2 == 0 else last
    conv("y", last, 7, 24, 1)
    ends = [
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s)]
        for n, s in (("x", [1, 3, 24, 24]), ("y", [1, 7, 24, 24]))
    ]
    graph = helper.make_graph(nodes, "g", *ends, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@mnn_oracle.needs_mnn
@pytest.mark.parametrize("method", ["auto", "minmax"])
def test_mnn_gives_the_same_numbers_through_many_layers(method: Any, tmp_path: Path) -> None:
    source = network(tmp_path / "n.onnx")
    data = np.random.default_rng(5).standard_normal((12, 1, 3, 24, 24)).astype(np.float32)
    report = minnow.quantize(
        source, output=tmp_path / "n.mnn", calibration=[{"x": x} for x in data[:8]], measure=False,
        activation_method=method, activations="int8",
    )  # fmt: skip
    assert report.quantization is not None
    session = minnow.load(tmp_path / "n.mnn")
    jobs = [mnn_oracle.File((tmp_path / "n.mnn").read_bytes(), {"x": x}, ["y"]) for x in data[8:]]
    for x, answer in zip(data[8:], mnn_oracle.run(jobs, tmp_path / "mnn"), strict=True):
        assert answer.outputs is not None, answer.log
        want = session.run({"x": x})["y"]
        step = np.ptp(want) / 255
        assert np.abs(answer.outputs[0] - want).max() < 0.01 * step
