"""Sums with Relu, layers whose epilogues are spelled out again, and shapes of channel blocks: in MNN's own runtime.

Needs an environment with MNN, whose Python MINNOW_MNN_PYTHON names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import pytest

from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.mnn import decode, encode
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import FUNCTIONS
from minnow.schema.ops.math_binary import RECTIFIED
from minnow.schema.registry.interpreter import evaluate

pytestmark = mnn_oracle.needs_mnn

Array = np.ndarray[Any, Any]
SHAPE = (2, 7, 5, 3)
WINDOW = {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1)}


def numbers(*shape: int) -> Array:
    return np.random.default_rng(shape).standard_normal(shape).astype(np.float32)


class Net:
    """A graph of two inputs."""

    def __init__(self) -> None:
        self.graph = Graph("main")
        self.b = Builder(self.graph)
        self.x, self.z = (self.graph.add_param(TensorType(DType.F32, SHAPE), name) for name in "xz")

    def conv(self, x: Value, residual: Value | None = None, **attrs: Any) -> Value:
        operands = [x, numbers(7, 7, 3, 3) / 8, numbers(7), residual]
        return self.b.node("Conv", operands, {**WINDOW, **attrs}).output

    def check(self, folder: Path, *outputs: Value, target: Any = "mnn") -> list[str]:
        """What is left after optimization, whose numbers are the reference's before it; the ops."""
        self.graph.outputs = list(outputs)
        feeds = [numbers(*SHAPE), -2 * numbers(*SHAPE)]
        want = evaluate(self.graph, feeds)
        named = [(f"y{i}", v.type) for i, v in enumerate(outputs)]
        model = Model(self.graph, [(p.name, p.type) for p in self.graph.params], named)
        if target == "minnow":
            optimize(model, target="minnow")
            model = decode(encode(model))
        optimize(model)
        assert not model.notices
        (answer,) = mnn_oracle.run([mnn_oracle.Job(model, dict(zip("xz", feeds, strict=True)))], folder)
        assert answer.outputs is not None, answer.log
        for got, wanted in zip(answer.outputs, want, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-4, 1e-4)
        return [node.op for node in model.graph if node.op != "ConvertLayout"]


@pytest.mark.parametrize("op", RECTIFIED)
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
def test_relu_behind_binary_math(op: str, packed: bool, tmp_path: Path) -> None:
    net = Net()
    a = net.conv(net.x) if packed else net.x
    one = net.b.node(op, [a, net.z], {}).output
    channel = net.b.node(op, [net.z, numbers(7, 1, 1)], {}).output
    ops = net.check(tmp_path, *(net.b.Relu(v) for v in (one, channel)))
    assert ops.count("BinaryRelu") == 2
    assert "Relu" not in ops


def test_a_sum_that_is_also_an_output_stays(tmp_path: Path) -> None:
    net = Net()
    total = net.b.Add(net.conv(net.x), net.z)
    assert net.check(tmp_path, net.b.Relu(total), total) == ["Conv", "Add", "Relu"]


@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_what_our_engine_alone_runs_becomes_what_others_run(activation: str, tmp_path: Path) -> None:
    net = Net()
    y = net.conv(net.x, net.z, activation=activation)
    rows = net.b.Reshape(y, np.array([-1, 15], np.int64))
    more = net.b.node("Linear", [rows, numbers(4, 15), numbers(4)], {"activation": activation}).output
    assert net.check(tmp_path, y, more, target="minnow").count("Conv") == 1


def test_shapes_of_channel_blocks(tmp_path: Path) -> None:
    net = Net()
    for value in (net.x, net.z):
        value.type = TensorType(DType.F32, ("N", 7, "H", 3))
    y = net.conv(net.x)
    shape = net.b.Shape(y)
    first = net.b.Gather(shape, np.array([0], np.int64), axis=0)
    rows = net.b.Reshape(net.conv(y), net.b.Concat(first, np.array([7, -1], np.int64), axis=0))
    ops = net.check(tmp_path, rows, net.b.Cast(net.b.Size(y), to=DType.F32))
    assert ops.count("Conv") == 2
