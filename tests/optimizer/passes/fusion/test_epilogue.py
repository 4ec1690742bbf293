"""Rules around layers with the numbers of many layers: groups, one to three axes, odd sizes, both directions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rewriting import ALL, apply, assert_same_numbers

from minnow.schema.ir import DType, Graph, PackedBlob, TensorType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]

# op, channels, outputs, groups, spatial dimensions, kernel, more attributes
LAYERS = [
    ("Conv", 5, 7, 1, (6, 5), (3, 2), {}),
    ("Conv", 6, 9, 3, (4, 5), (3, 3), {"pads": (1, 0, 2, 1)}),
    ("Conv", 5, 5, 5, (4, 5), (3, 3), {"strides": (2, 1)}),
    ("Conv", 4, 6, 2, (7,), (3,), {"dilations": (2,)}),
    ("Conv", 2, 4, 2, (3, 4, 5), (2, 1, 3), {}),
    ("ConvTranspose", 5, 7, 1, (3, 4), (3, 2), {"strides": (2, 1)}),
    ("ConvTranspose", 6, 9, 3, (4, 5), (3, 3), {"pads": (1, 0, 1, 1)}),
    ("ConvTranspose", 5, 5, 5, (4,), (3,), {}),
    ("ConvTranspose", 2, 4, 2, (2, 3, 2), (2, 1, 3), {}),
    ("Linear", 5, 7, 1, (), (), {}),
]


class Layer:
    """A layer in a graph of its own, with what may stand around it."""

    def __init__(self, op: str, ins: int, outs: int, groups: int, sizes: Any, kernel: Any, more: Any) -> None:
        self.rng = np.random.default_rng([ins, outs, groups, len(sizes)])
        self.graph = Graph()
        self.b = Builder(self.graph)
        self.x = self.graph.add_param(TensorType(DType.F32, (2, ins, *sizes)))
        n = len(sizes)
        self.attrs = {"strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, "group": groups, **more}
        if op == "ConvTranspose":
            self.attrs["output_padding"] = (0,) * n
        first, second = (ins, outs // groups) if op == "ConvTranspose" else (outs, ins // groups)
        self.op, self.ins, self.outs = op, ins, outs
        self.weights = self.numbers(first, second, *kernel)

    def numbers(self, *shape: int) -> Array:
        return self.rng.standard_normal(shape).astype(np.float32)

    def of(self, x: Value, weights: Any = None) -> Value:
        attrs = {} if self.op == "Linear" else self.attrs
        operands = [x, self.weights if weights is None else weights, self.numbers(self.outs)]
        return self.b.node(self.op, operands, attrs).output

    def norm(self, x: Value, channels: int, shifted: bool = True) -> Value:
        scale, mean, var = self.numbers(channels), self.numbers(channels), np.abs(self.numbers(channels)) + 0.5
        if not shifted:
            return self.b.Scale(x, scale, 0 * scale)
        return self.b.BatchNorm(x, scale, self.numbers(channels), mean, var)

    def changed_by(self, y: Value, *names: str) -> list[str]:
        """The ops that are left when these rules have been applied, in this order."""
        self.graph.outputs = [y]
        before = self.graph.clone()
        for name in names:
            apply(ALL[name], self.graph)
        assert_same_numbers(before, self.graph)
        return [node.op for node in self.graph]


@pytest.fixture(params=LAYERS, ids=lambda row: f"{row[0]}-{len(row[4])}d-{row[3]}")
def layer(request: pytest.FixtureRequest) -> Layer:
    return Layer(*request.param)


def test_normalization_behind_a_layer_is_part_of_it(layer: Layer) -> None:
    rule = "fuse_linear_norm" if layer.op == "Linear" else "fuse_conv_bn"
    assert layer.changed_by(layer.norm(layer.of(layer.x), layer.outs), rule) == [layer.op]


def test_factor_behind_a_layer_is_part_of_it(layer: Layer) -> None:
    factor = layer.numbers(layer.outs, *(1,) * (len(layer.x.type.static_shape) - 2))
    rule = "fuse_linear_scale" if layer.op == "Linear" else "fuse_conv_mul"
    assert layer.changed_by(layer.b.Mul(layer.of(layer.x), factor), rule) == [layer.op]


@pytest.mark.parametrize("shifted", [False, True])
def test_normalization_before_a_layer_is_part_of_it(layer: Layer, shifted: bool) -> None:
    whole = not shifted or (layer.op != "ConvTranspose" and not any(layer.attrs["pads"]))
    y = layer.of(layer.norm(layer.x, layer.ins, shifted))
    assert (layer.changed_by(y, "fuse_norm_input") == [layer.op]) is whole


def test_factor_before_a_layer_is_part_of_it(layer: Layer) -> None:
    factor = layer.numbers(layer.ins, *(1,) * (len(layer.x.type.static_shape) - 2))
    left = ["Div", "Linear"] if layer.op == "Linear" else [layer.op]  # a rule for convolutions
    assert layer.changed_by(layer.of(layer.b.Div(layer.x, factor)), "fuse_factor_input") == left


@pytest.mark.parametrize(
    "activation", ["Relu", "LeakyRelu", "HardSwish", "HardSigmoid", "Sigmoid", "Silu", "Tanh", "Gelu"]
)
def test_sum_and_activation_are_part_of_a_layer(layer: Layer, activation: str) -> None:
    y = layer.of(layer.x)
    z = layer.graph.add_param(y.type)
    sum_ = layer.b.node(activation, [layer.b.Add(z, y)], {}).output
    assert layer.changed_by(sum_, "fuse_residual", "fuse_activation") == [layer.op]
    (node,) = layer.graph
    assert node.input(3) is z
    assert layer.changed_by(node.output, "legalize_epilogue")[:2] == [layer.op, "Add"]


def test_of_two_layers_the_last_adds(layer: Layer) -> None:
    first = layer.of(layer.x)
    second = layer.of(layer.b.Neg(layer.x))
    assert layer.changed_by(layer.b.Add(second, first), "fuse_residual") == [layer.op, "Neg", layer.op]
    assert [len(node.inputs) for node in layer.graph] == [3, 1, 4]


def test_packed_weights_stay_packed(layer: Layer) -> None:
    rows = layer.weights.shape[0]
    codes = Value.constant(layer.rng.integers(0, 256, layer.weights.shape, dtype=np.uint8).reshape(rows, -1)).data
    assert codes is not None
    packed = PackedBlob(codes, 8, np.ones((rows, 1), np.float32), None, layer.weights.shape)
    y = layer.of(layer.x, Value.constant(packed))
    z = layer.graph.add_param(y.type)
    assert layer.changed_by(layer.b.Tanh(layer.b.Add(y, z)), "fuse_residual", "fuse_activation") == [
        layer.op,
        "Add",
        "Tanh",
    ]
