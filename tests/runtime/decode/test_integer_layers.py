"""Layers whose tensors are 8-bit integers in the file itself, as MNN wrote them before its tensors had scales."""

from __future__ import annotations

from typing import Any

import mnn_oracle
import numpy as np
import pytest
from wire_net import Net

import minnow
from minnow.schema.errors import FormatError, ModelError, UnsupportedError

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (1, 4, 6, 6)).astype(np.float32)
STEP = np.float32(0.05)


def away(x: np.ndarray) -> np.ndarray:
    """Rounded, halves away from zero."""
    return np.trunc(x + np.copysign(0.5, x))


def to_bytes(x: np.ndarray, factor: Any, zero: Any = 0.0, low: int = -128, high: int = 127) -> np.ndarray:
    return np.clip(away(x * np.float32(factor) + np.float32(zero)), low, high)


def quantize(net: Net, x: str, y: str, factor: Any, **more: Any) -> None:
    main = {"tensorScale": np.atleast_1d(np.asarray(factor, np.float32)), **more}
    net.op("FloatToInt8", [x], [y], "QuantizedFloatParam", main)


def dequantize(net: Net, x: str, y: str, step: Any = STEP, **more: Any) -> None:
    main = {"tensorScale": np.atleast_1d(np.asarray(step, np.float32)), **more}
    net.op("Int8ToFloat", [x], [y], "QuantizedFloatParam", main)


class Layer:
    """x in steps of 0.01, a convolution of 3 x 3, and its result in steps of 0.05, or its sums as floats."""

    def __init__(self, common: dict[str, Any] | None = None, depthwise: bool = False, **more: Any) -> None:
        self.group = 4 if depthwise else 1
        outs = 4 if depthwise else 5
        self.w = RNG.integers(-127, 128, (outs, 4 // self.group, 3, 3)).astype(np.int8)
        self.bias = RNG.integers(-3000, 3000, outs).astype(np.int32)
        self.scale = RNG.uniform(0.0005, 0.002, outs).astype(np.float32) * (4 if depthwise else 1)
        self.common = {"kernelX": 3, "kernelY": 3, "outputCount": outs, "inputCount": 4, **(common or {})}
        self.common |= {"pads": np.array([1, 1, 1, 1], np.int32), "group": self.group}
        self.more = more

    def bytes(self, **changes: Any) -> bytes:
        net = Net()
        net.input("x", X.shape)
        quantize(net, "x", "q", 100.0)
        layer = {"weight": self.w.reshape(-1), "bias": self.bias, "scale": self.scale, **self.more, **changes}
        type = "DepthwiseConvInt8" if self.group > 1 else "ConvInt8"
        floats = layer.get("outputDataType") == "DT_FLOAT"
        main = {"common": self.common, "symmetricQuan": {k: v for k, v in layer.items() if v is not None}}
        net.op(type, ["q"], ["y" if floats else "r"], "Convolution2D", main)
        if not floats:
            dequantize(net, "r", "y")
        return net.bytes("y")

    def result(self) -> np.ndarray:
        q = to_bytes(X, 100.0)
        pad = self.more.get("zeroPoint", 0)
        wide = np.pad(q, ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=pad)
        windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), axis=(2, 3))
        if self.group > 1:
            sums = np.einsum("nchwij,cij->nchw", windows, self.w[:, 0].astype(np.float64))
        else:
            sums = np.einsum("nchwij,ocij->nohw", windows, self.w.astype(np.float64))
        real = (sums + self.bias.reshape(1, -1, 1, 1)) * self.scale.reshape(1, -1, 1, 1)
        relu = self.common.get("relu", False)
        if self.more.get("outputDataType") == "DT_FLOAT":
            return np.asarray(np.maximum(real, 0) if relu else real)
        low, high = self.more.get("clampMin", -128), self.more.get("clampMax", 127)
        low = max(low, self.more.get("outputZeroPoint", 0)) if relu else low
        return np.asarray(np.clip(away(real), low, high) * STEP)


LAYERS = {
    "plain": {},
    "depthwise": {"depthwise": True},
    "relu": {"common": {"relu": True}},
    "clamp": {"clampMin": -20, "clampMax": 30},
    "zero point": {"zeroPoint": 7},
    "zero points": {"zeroPoint": -9, "outputZeroPoint": 9, "common": {"relu": True}},
    "floats": {"outputDataType": "DT_FLOAT", "clampMin": -1, "clampMax": -1},
    "floats and relu": {"outputDataType": "DT_FLOAT", "common": {"relu": True}},
}


def close(y: np.ndarray, right: np.ndarray) -> None:
    """Equal, but for one or two results that are half way between two steps, as nearly as floats can tell."""
    away = np.abs(y - right)
    assert away.max() <= STEP * 1.001
    assert (away > 1e-4).sum() <= 2


@pytest.mark.parametrize("name", LAYERS)
def test_convolution(name):
    layer = Layer(**LAYERS[name])
    y = minnow.load(layer.bytes()).run({"x": X})["y"]
    close(y, layer.result())


def conversion(factor: Any, step: Any, to: dict[str, Any], back: dict[str, Any]) -> bytes:
    net = Net()
    net.input("x", X.shape)
    quantize(net, "x", "q", factor, **to)
    dequantize(net, "q", "y", step, **back)
    return net.bytes("y")


FACTORS, STEPS = np.array([50, 80, 100, 120], np.float32), np.array([0.02, 0.0125, 0.01, 0.3], np.float32)
EACH = (1, 4, 1, 1)
CONVERSIONS = {
    "one scale": (conversion(100, 0.01, {}, {}), to_bytes(X, 100) * 0.01),
    "scales of channels": (
        conversion(FACTORS, STEPS, {}, {}),
        to_bytes(X, FACTORS.reshape(EACH)) * STEPS.reshape(EACH),
    ),
    "limits": (conversion(100, 0.01, {"clampMin": -50, "clampMax": 60}, {}), to_bytes(X, 100, 0, -50, 60) * 0.01),
    "zero points": (
        conversion(100, 0.01, {"zeroPoint": 5}, {"zeroPoint": 3}),
        (to_bytes(X, 100, 5) - 3) * 0.01,
    ),
    "zero point beyond 8 bits": (
        conversion(100, 0.01, {"floatzeros": np.array([-8], np.float32)}, {"floatzeros": np.array([130], np.float32)}),
        (to_bytes(X, 100, -8) - 130) * 0.01,
    ),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversion(name):
    data, right = CONVERSIONS[name]
    np.testing.assert_allclose(minnow.load(data).run({"x": X})["y"], right, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("type", ["PROD", "SUM"])
def test_sum(type):
    """Its type means nothing: MNN's quantizer, which turned sums into this op, left the type of products there."""
    net = Net()
    net.input("x", X.shape)
    for name, factor in (("a", 100.0), ("b", 40.0)):
        quantize(net, "x", name, factor)
    quan = {f"inputQuan{i}": {"tensorScale": np.full(4, s, np.float32)} for i, s in enumerate((0.01, 0.025))}
    main = {"type": type, **quan, "outputQuan": {"tensorScale": np.full(4, 50, np.float32)}}
    net.op("EltwiseInt8", ["a", "b"], ["s"], "EltwiseInt8", main)
    dequantize(net, "s", "y", 0.02)
    total = to_bytes(X, 100) * np.float32(0.01) + to_bytes(X, 40) * np.float32(0.025)
    y = minnow.load(net.bytes("y")).run({"x": X})["y"]
    assert np.abs(y - to_bytes(total, 50) * 0.02).max() <= 0.0201  # one step where the sum is between two
    assert (np.abs(y - to_bytes(total, 50) * 0.02) > 1e-5).mean() < 0.02


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"weight": None}, UnsupportedError, "no integer weights"),
        ({"bias": np.zeros(4, np.int32)}, FormatError, "4 biases"),
        ({"scale": np.full(5, np.nan, np.float32)}, FormatError, "not finite"),
        ({"weight": np.zeros(44, np.int8)}, FormatError, "44 weights"),
        ({"outputDataType": "DT_INT32"}, UnsupportedError, "results of this type"),
        ({"nbits": 4}, UnsupportedError, "4 bits"),
    ],
)
def test_what_does_not_fit_is_refused(changes, error, says):
    with pytest.raises(error, match=says):
        minnow.load(Layer().bytes(**changes))


# op list: ops of TensorFlow's and TFLite's first integer models, which MNN's converter no longer writes
LEGACY = (
    "QuantizedAdd QuantizedAvgPool QuantizedBiasAdd QuantizedDepthwiseConv2D QuantizedLogistic QuantizedMaxPool "
    "QuantizedSoftmax QuantizeMaxMin QuantizeV2 TfQuantizedConv2D Requantize RequantizationRange"
)


@pytest.mark.parametrize("type", LEGACY.split())
def test_other_integer_ops_are_refused_by_name(type):
    net = Net()
    net.input("x", X.shape)
    net.op(type, ["x"], ["y"])
    with pytest.raises(UnsupportedError, match=f"- {type} 'y'"):
        minnow.load(net.bytes("y"))


def test_integers_where_floats_are_needed_are_refused():
    net = Net()
    net.input("x", X.shape)
    main = {"common": {"kernelX": 1, "kernelY": 1, "outputCount": 1, "inputCount": 4}}
    main["symmetricQuan"] = {"weight": np.ones(4, np.int8), "bias": np.zeros(1, np.int32), "scale": np.ones(1, "f4")}
    net.op("ConvInt8", ["x"], ["y"], "Convolution2D", main)
    with pytest.raises(ModelError, match="must be u8 or i8"):
        minnow.load(net.bytes("y")).run({"x": X})


@mnn_oracle.needs_mnn
def test_mnn_computes_the_same(tmp_path):
    cases = [(lay.bytes(), lay.result()) for lay in (Layer(**LAYERS[n]) for n in LAYERS)] + list(CONVERSIONS.values())
    answers = mnn_oracle.run([mnn_oracle.File(data, {"x": X}, ["y"]) for data, _ in cases], tmp_path)
    for answer, (_, right) in zip(answers, cases, strict=True):
        assert answer.outputs is not None, answer.log
        close(answer.outputs[0], right)
