"""What the plan of a model puts together, against onnxruntime: parts computed where their concatenation has them,
activations behind convolutions, and convolutions that run band by band through each other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper

import minnow

ISAS = ("avx512", "avx2", "sse4")


class Net:
    """An ONNX model under construction: each method adds a node and returns the name of its result."""

    def __init__(self, *shape: int) -> None:
        self.rng = np.random.default_rng(7)
        self.shape = shape
        self.nodes: list = []
        self.weights: list = []

    def add(self, op: str, *inputs: str, **attrs: object) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], **attrs))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        array = (self.rng.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(array, f"w{len(self.weights)}"))
        return str(self.weights[-1].name)

    def conv(self, x: str, inputs: int, outputs: int, kernel: int = 1, group: int = 1, **attrs: object) -> str:
        fan = inputs // group * kernel * kernel
        w = self.weight(outputs, inputs // group, kernel, kernel, scale=fan**-0.5)
        return self.add("Conv", x, w, self.weight(outputs), group=group, kernel_shape=[kernel] * 2, **attrs)

    def swish(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def model(self, *outputs: str) -> ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, self.shape)
        y = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "g", [x], y, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def branches() -> ModelProto:
    """Parts of whole blocks, with one that is read later, one that appears twice, and a concatenation of another."""
    net = Net(1, 16, 9, 11)
    a, b = net.conv("x", 16, 32), net.add("Relu", net.conv("x", 16, 48, 3, pads=[1] * 4))
    first = net.add("Concat", a, b, a, axis=1)
    second = net.add("Concat", net.add("Relu", first), net.conv(a, 32, 16), "x", axis=-3)
    return net.model(net.conv(second, 144, 8), net.add("Neg", b))


def odd_parts() -> ModelProto:
    """Parts that end inside a block."""
    net = Net(1, 16, 5, 7)
    a, b, c = net.conv("x", 16, 21), net.conv("x", 16, 16), net.conv("x", 16, 3)
    return net.model(net.conv(net.add("Concat", a, b, c, axis=1), 40, 8), net.add("Concat", b, a, axis=1))


def batch() -> ModelProto:
    """Parts that lie in pieces, because of a batch; and whole images one after the other."""
    net = Net(2, 16, 5, 7)
    a, b = net.conv("x", 16, 16), net.conv("x", 16, 32)
    both = net.conv(net.add("Concat", a, b, axis=1), 48, 16)
    return net.model(net.add("Concat", net.add("Relu", both), a, "x", axis=0))


def delivered() -> ModelProto:
    """A part and the whole are both outputs; the whole is changed in place elsewhere."""
    net = Net(1, 16, 6, 6)
    a, b = net.conv("x", 16, 16), net.conv("x", 16, 32)
    whole = net.add("Concat", a, b, axis=1)
    return net.model(whole, a, net.add("Sigmoid", whole))


def focus() -> ModelProto:
    """Four shifted subsamplings of an image."""
    net = Net(1, 3, 26, 30)
    parts = []
    for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
        bounds = [np.array(v, np.int64) for v in ([row, column], [26, 30], [2, 3], [2, 2])]
        names = [f"b{len(net.weights)}_{i}" for i in range(4)]
        net.weights += [numpy_helper.from_array(v, n) for v, n in zip(bounds, names, strict=True)]
        parts.append(net.add("Slice", "x", *names))
    return net.model(net.swish(net.conv(net.add("Concat", *parts, axis=1), 12, 20, 3, pads=[1] * 4)))


def gates() -> ModelProto:
    """Swish, sigmoid and hard swish behind pointwise, depthwise and Winograd convolutions."""
    net = Net(1, 32, 29, 31)
    a = net.swish(net.conv("x", 32, 40))
    b = net.swish(net.conv(a, 40, 40, 5, 40, pads=[2] * 4, strides=[2, 2]))
    c = net.add("HardSwish", net.conv(b, 40, 40, 3, 40, pads=[1] * 4))
    return net.model(net.add("Sigmoid", net.conv(c, 40, 32, 3, pads=[1] * 4)))


def pairs() -> ModelProto:
    """Narrow images widened for depthwise convolutions: strides, dilation, rows that no window meets, padding only."""
    net = Net(2, 17, 71, 73)
    ys = []
    for kernel, attrs in (
        (3, {"pads": [1] * 4, "strides": [2, 2]}),
        (5, {"pads": [2, 2, 2, 2]}),
        (3, {"pads": [0, 1, 3, 0], "dilations": [2, 3]}),
        (2, {"strides": [3, 3]}),
        (3, {"pads": [5, 5, 5, 5], "strides": [4, 1]}),
        (37, {"pads": [0, 0, 0, 0]}),
    ):
        wide = net.conv("x", 17, 90)
        gate = len(ys) % 3
        wide = net.swish(wide) if gate == 0 else net.add("Relu", wide) if gate == 1 else wide
        y = net.conv(wide, 90, 90, kernel, 90, **attrs)
        ys.append(net.add("HardSwish", y) if gate == 1 else y)
    return net.model(*ys)


def wide_parts() -> ModelProto:
    """A pair that writes into a concatenation, one whose wide image others read, and one with an addition behind it."""
    net = Net(1, 16, 80, 80)
    pads = {"pads": [1] * 4}
    a = net.conv(net.conv("x", 16, 64), 64, 64, 3, 64, **pads)
    wide = net.conv("x", 16, 64)
    b = net.add("Add", net.conv(wide, 64, 64, 3, 64, **pads), wide)
    c = net.add("Add", net.conv(net.conv("x", 16, 64), 64, 64, 3, 64, **pads), b)
    return net.model(net.conv(net.add("Concat", a, b, c, axis=1), 192, 8))


def squeezes() -> ModelProto:
    """Gates of squeeze and excitation: few and many outputs, channels that end inside a block, with an addition."""
    net = Net(1, 37, 13, 17)

    def gated(x: str) -> str:
        small = net.add("Relu", net.conv(net.add("GlobalAveragePool", x), 37, 8))
        return net.add("Mul", net.add("HardSigmoid", net.conv(small, 8, 37)), x)

    a = net.conv(gated("x"), 37, 37)
    b = net.add("Add", net.conv(gated(a), 37, 37), a)
    c = gated(b)
    d = net.conv(net.conv(c, 37, 24), 24, 37, 3, pads=[1] * 4)
    return net.model(net.conv(gated(d), 37, 300), net.swish(net.conv(gated(c), 37, 5)), net.conv(gated(b), 37, 4, 3))


def shortcuts() -> ModelProto:
    """Sums with what is computed before and after, in every kind of layer, activated or not; one that is an output."""
    net = Net(1, 24, 17, 13)
    pads = {"pads": [1] * 4}
    a = net.add("Relu", net.add("Add", net.conv("x", 24, 24, 3, **pads), "x"))
    b = net.add("LeakyRelu", net.add("Add", a, net.conv(a, 24, 24, 3, 24, **pads)), alpha=0.1)
    c = net.swish(net.add("Add", net.conv(b, 24, 24), net.conv(a, 24, 24, 3, 3, **pads)))
    up = net.add("ConvTranspose", c, net.weight(24, 24, 3, 3, scale=0.1), **pads)
    d = net.add("Tanh", net.add("Add", up, b))
    e = net.add("Add", net.conv(d, 24, 24), c)
    return net.model(net.add("Relu", e), e, net.add("Relu", net.add("Sub", a, d)))


def volumes() -> ModelProto:
    """Three axes: groups, strides, dilation, uneven padding, a sum, and transposed ones."""
    net = Net(2, 6, 5, 7, 4)

    def conv(op: str, x: str, w: tuple[int, ...], **attrs: object) -> str:
        outputs = w[0] if op == "Conv" else w[1] * int(str(attrs.get("group", 1)))
        return net.add(op, x, net.weight(*w, scale=0.1), net.weight(outputs), **attrs)

    a = net.add("Relu", conv("Conv", "x", (8, 3, 3, 3, 3), group=2, pads=[1, 1, 1, 1, 1, 1]))
    dilated = conv("Conv", a, (8, 8, 2, 1, 2), dilations=[2, 1, 1], pads=[1, 0, 0, 1, 0, 1])
    b = net.add("Relu", net.add("Add", dilated, a))
    c = conv("Conv", b, (5, 8, 3, 2, 1), strides=[2, 1, 1], auto_pad="SAME_LOWER")
    up = conv("ConvTranspose", c, (5, 4, 3, 2, 2), strides=[2, 1, 2], pads=[1, 0, 0, 0, 1, 0], output_padding=[1, 0, 0])
    even = net.add("AveragePool", b, kernel_shape=[2, 3, 2], strides=[1, 2, 1], pads=[1, 0, 0, 0, 2, 1], ceil_mode=1)
    top = net.add("MaxPool", a, kernel_shape=[3, 2, 1], dilations=[1, 2, 1], pads=[1, 0, 0, 2, 1, 0])
    return net.model(even, top, up, conv("ConvTranspose", b, (8, 3, 1, 3, 2), group=2), net.swish(c))


MAKERS = (branches, odd_parts, batch, delivered, focus, gates, pairs, wide_parts, squeezes, shortcuts, volumes)
MODELS = {f.__name__: f for f in MAKERS}


def check(name: str) -> None:
    """Both targets: what the plan fuses, and what the file says; the same kernels compute the layers."""
    model = MODELS[name]()
    shape = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    x = np.random.default_rng(3).standard_normal(shape).astype(np.float32)
    expected = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "m.onnx"
        source.write_bytes(model.SerializeToString())
        kernels = []
        for target in ("mnn", "minnow"):
            path = Path(folder) / f"{target}.mnn"
            minnow.convert(source, output=path, target=target, verify=False)
            for threads in (1, 3):
                session = minnow.load(path, threads=threads)
                for _ in range(2):  # the second run finds the memory of the first one
                    got = session.run({"x": x})
                    for y, (key, actual) in zip(expected, got.items(), strict=True):
                        largest = np.abs(y).max()
                        np.testing.assert_allclose(actual, y, 0, 2e-5 * largest, err_msg=f"{name} {target} {key}")
            rows = minnow.load(path, threads=1).profile({"x": x}, runs=1)
            kernels.append(sorted((row["op"], row["scheme"]) for row in rows if row["op"].startswith("Conv")))
            check_packed(path, {"x": x})
        # Transposed convolutions in groups are spelled out for others, and shape the rest.
        assert kernels[0] == kernels[1] or name == "volumes", (name, kernels)
        assert "plain" not in {scheme for _, scheme in kernels[1]}, name


def check_packed(path: Path, inputs: dict[str, np.ndarray]) -> None:
    """Weights packed ahead are found, and give the same bits."""
    session = minnow.load(path, threads=1)
    before = session.run(inputs)
    session.write_packed()
    del session
    for y, again in zip(before.values(), minnow.load(path, threads=1).run(inputs).values(), strict=True):
        np.testing.assert_array_equal(y, again)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ISAS)
def test_fused_models(isa: str) -> None:
    """All models, in a process of their own, for the instruction set is chosen once."""
    run = subprocess.run(
        [sys.executable, __file__], env={**os.environ, "MINNOW_ISA": isa}, capture_output=True, text=True, check=False
    )
    if "this machine has no such instruction set" in run.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert run.returncode == 0, run.stdout + run.stderr


def test_extreme_gates(tmp_path: Path) -> None:
    """Swish and sigmoid behind a convolution that does nothing: large numbers, infinities, NaN."""
    values = np.array([0, -0.0, 1, -1, 20, -20, 80, -80, 87.5, -87.5, 200, -200, 3e38, -3e38, np.inf, -np.inf, np.nan])
    x = np.concatenate([values, np.linspace(-12, 12, 1000)]).astype(np.float32).reshape(1, 1, 1, -1)
    one = numpy_helper.from_array(np.ones((1, 1, 1, 1), np.float32), "one")
    for gate in ("silu", "sigmoid"):
        nodes = [helper.make_node("Conv", ["x", "one"], ["c"]), helper.make_node("Sigmoid", ["c"], ["s"])]
        nodes += [helper.make_node("Mul", ["c", "s"], ["y"])] if gate == "silu" else []
        info = helper.make_tensor_value_info
        outputs = [info("y" if gate == "silu" else "s", TensorProto.FLOAT, None)]
        graph = helper.make_graph(nodes, "g", [info("x", TensorProto.FLOAT, x.shape)], outputs, [one])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        source = tmp_path / "m.onnx"
        source.write_bytes(model.SerializeToString())
        minnow.convert(source, output=tmp_path / "m.mnn", verify=False)
        (got,) = minnow.load(tmp_path / "m.mnn").run({"x": x}).values()
        with np.errstate(all="ignore"):
            wide = x.astype(np.float64)
            sigmoid = 1 / (1 + np.exp(-wide))
            expected = wide * sigmoid if gate == "silu" else sigmoid
        np.testing.assert_allclose(got, expected, rtol=3e-6, atol=1e-35, err_msg=gate)


if __name__ == "__main__":
    for each in MODELS:
        check(each)
