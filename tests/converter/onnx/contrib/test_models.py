"""Small models as onnxruntime's optimizers and exporters write them: as a whole beside onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx_contrib import CONTRIB, onnxruntime_runs

import minnow

Array = np.ndarray[Any, Any]
HIDDEN, HEADS, GROUPS, WORDS, LONGEST = 64, 4, 2, 37, 32
SIZE = HIDDEN // HEADS


class Net:
    """Collects nodes and weights of a model."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(6)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def const(self, array: Any) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def normal(self, *shape: int, scale: float = 0.2) -> str:
        return self.const((self.rng.standard_normal(shape) * scale).astype(np.float32))

    def near_one(self, *shape: int) -> str:
        return self.const((1 + self.rng.standard_normal(shape) * 0.1).astype(np.float32))

    def op(self, op: str, *inputs: str, outputs: Any = None, domain: str = CONTRIB, **attrs: Any) -> str:
        """Adds a node; gives the name of its first output."""
        outputs = outputs or [f"v{len(self.nodes)}"]
        self.nodes.append(helper.make_node(op, inputs, outputs, domain=domain, name=f"{op}_{len(self.nodes)}", **attrs))
        return outputs[0]

    def plain(self, op: str, *inputs: str, **attrs: Any) -> str:
        return self.op(op, *inputs, domain="", **attrs)

    def model(self, inputs: list[tuple[str, int, list[Any]]], outputs: dict[str, int]) -> onnx.ModelProto:
        graph = helper.make_graph(
            self.nodes, "net", [helper.make_tensor_value_info(*i) for i in inputs],
            [helper.make_tensor_value_info(n, t, None) for n, t in outputs.items()], self.weights,
        )  # fmt: skip
        opsets = [helper.make_opsetid("", 17), helper.make_opsetid(CONTRIB, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def session_of(model: onnx.ModelProto, folder: Path, level: int = 2) -> minnow.Session:
    onnx.save(model, str(folder / "m.onnx"))
    report = minnow.convert(folder / "m.onnx", output=folder / "m.mnn", optimize=level)
    assert report.verification is not None
    assert report.verification.passed
    return minnow.load(folder / "m.mnn", threads=2)


def assert_agrees(
    model: onnx.ModelProto, session: minnow.Session, feed: dict[str, Array], close: float
) -> dict[str, Array]:
    """Every output is onnxruntime's; gives them."""
    want = dict(zip([o.name for o in model.graph.output], onnxruntime_runs(model, feed), strict=True))
    got = session.run(feed)
    for name, array in want.items():
        assert got[name].shape == array.shape, name
        assert got[name].dtype == array.dtype, name
        np.testing.assert_allclose(got[name], array, rtol=close, atol=close, err_msg=name)
    return want


def bert() -> onnx.ModelProto:
    net = Net()
    tables = [net.normal(WORDS, HIDDEN), net.normal(LONGEST, HIDDEN), net.normal(2, HIDDEN)]
    x = net.op("EmbedLayerNormalization", "ids", "segments", *tables, net.near_one(HIDDEN), net.normal(HIDDEN), "mask",
               outputs=["embedded", "ends"], epsilon=1e-12)  # fmt: skip
    for _ in range(2):
        y = net.op("Attention", x, net.normal(HIDDEN, 3 * HIDDEN), net.normal(3 * HIDDEN), "ends", num_heads=HEADS)
        y = net.plain("MatMul", y, net.normal(HIDDEN, HIDDEN))
        norm = [net.near_one(HIDDEN), net.normal(HIDDEN), net.normal(HIDDEN)]
        x = net.op("SkipLayerNormalization", x, y, *norm, epsilon=1e-12)
        y = net.op("FastGelu", net.plain("MatMul", x, net.normal(HIDDEN, 2 * HIDDEN)), net.normal(2 * HIDDEN))
        y = net.plain("MatMul", y, net.normal(2 * HIDDEN, HIDDEN))
        norm = [net.near_one(HIDDEN), net.normal(HIDDEN), net.normal(HIDDEN)]
        x = net.op("SkipLayerNormalization", y, x, *norm, epsilon=1e-12)
    net.plain("Identity", x, outputs=["sequence"])
    pooled = net.plain("Gather", x, net.const(np.int64(0)), axis=1)
    net.op("FusedGemm", pooled, net.normal(HIDDEN, HIDDEN), net.normal(HIDDEN), activation="Tanh", outputs=["pooled"])
    inputs = [(n, TensorProto.INT32, ["batch", "length"]) for n in ("ids", "segments", "mask")]
    return net.model(inputs, {"sequence": TensorProto.FLOAT, "pooled": TensorProto.FLOAT})


@pytest.mark.parametrize("level", [0, 2])
def test_an_encoder(level: int, tmp_path: Path) -> None:
    model, rng = bert(), np.random.default_rng(0)
    session = session_of(model, tmp_path, level)
    for batch, length in ((2, 5), (3, 9), (1, 1)):
        ends = rng.integers(1, length + 1, batch)
        feed = {
            "ids": rng.integers(0, WORDS, (batch, length)).astype(np.int32),
            "segments": rng.integers(0, 2, (batch, length)).astype(np.int32),
            "mask": (np.arange(length) < ends[:, None]).astype(np.int32),
        }
        assert_agrees(model, session, feed, 1e-4)


def decoder() -> onnx.ModelProto:
    """Two layers: grouped attention with its own rotation, and heads that are rotated by a node of their own."""
    net = Net()

    def product(x: str, n: int, k: int, bits: int = 4, block: int = 32) -> str:
        codes = net.const(net.rng.integers(0, 256, (n, k // block, block * bits // 8)).astype(np.uint8))
        scales = net.const((net.rng.random((n, k // block)) * 0.02 * 16 / (1 << bits)).astype(np.float32))
        return net.op("MatMulNBits", x, codes, scales, N=n, K=k, bits=bits, block_size=block)

    angles = np.arange(LONGEST)[:, None] / 100 ** (np.arange(SIZE // 2) / (SIZE // 2))
    cos, sin = net.const(np.cos(angles).astype(np.float32)), net.const(np.sin(angles).astype(np.float32))
    axis = net.const(np.array([1]))
    counts = net.plain("ReduceSum", "mask", axis, keepdims=0)
    last = net.plain("Cast", net.plain("Sub", counts, net.const(np.int64(1))), to=TensorProto.INT32)
    total = net.plain("Gather", net.plain("Shape", "mask"), net.const(np.int64(1)))
    total = net.plain("Cast", total, to=TensorProto.INT32)

    x = net.plain("Gather", net.normal(WORDS, HIDDEN), "ids")
    y = net.plain("SimplifiedLayerNormalization", x, net.near_one(HIDDEN), epsilon=1e-5, axis=-1, stash_type=1)
    y = product(y, (HEADS + 2 * GROUPS) * SIZE, HIDDEN)
    y = net.op("GroupQueryAttention", y, "", "", "past.0.key", "past.0.value", last, total, cos, sin,
               num_heads=HEADS, kv_num_heads=GROUPS, do_rotary=1,
               outputs=["attended", "present.0.key", "present.0.value"])  # fmt: skip
    x = net.op("SkipSimplifiedLayerNormalization", x, product(y, HIDDEN, HIDDEN), net.near_one(HIDDEN), epsilon=1e-5,
               outputs=["normal.0", "", "", "sum.0"])  # fmt: skip
    gate, up = product(x, 2 * HIDDEN, HIDDEN), product(x, 2 * HIDDEN, HIDDEN, bits=8)
    y = product(net.plain("Mul", net.op("QuickGelu", gate, alpha=1.0), up), HIDDEN, 2 * HIDDEN)

    x = net.op("SkipSimplifiedLayerNormalization", "sum.0", y, net.near_one(HIDDEN), epsilon=1e-5,
               outputs=["normal.1", "", "", "sum.1"])  # fmt: skip
    q, k, v = (product(x, HIDDEN, HIDDEN) for _ in range(3))
    q, k = (net.op("RotaryEmbedding", h, "places", cos, sin, num_heads=HEADS) for h in (q, k))
    y = net.op("MultiHeadAttention", q, k, v, "", "", "", "past.1.key", "past.1.value", num_heads=HEADS,
               unidirectional=1, outputs=["mixed", "present.1.key", "present.1.value"])  # fmt: skip
    x = net.op("SkipSimplifiedLayerNormalization", "sum.1", product(y, HIDDEN, HIDDEN), net.near_one(HIDDEN))
    net.op("FusedMatMul", x, net.normal(WORDS, HIDDEN), transB=1, outputs=["logits"])

    inputs: list[tuple[str, int, list[Any]]] = [
        ("ids", TensorProto.INT64, ["batch", "length"]),
        ("mask", TensorProto.INT64, ["batch", "total"]),
        ("places", TensorProto.INT64, ["batch", "length"]),
    ]
    for layer, heads in ((0, GROUPS), (1, HEADS)):
        inputs += [(f"past.{layer}.{n}", TensorProto.FLOAT, ["batch", heads, "past", SIZE]) for n in ("key", "value")]
    present = [f"present.{layer}.{n}" for layer in (0, 1) for n in ("key", "value")]
    return net.model(inputs, dict.fromkeys(["logits", *present], TensorProto.FLOAT))


@pytest.mark.parametrize("level", [0, 2])
def test_a_decoder_with_a_cache(level: int, tmp_path: Path) -> None:
    model, rng = decoder(), np.random.default_rng(0)
    session = session_of(model, tmp_path, level)
    for batch, length in ((1, 5), (2, 3)):
        past = {i.name: np.zeros((batch, i.type.tensor_type.shape.dim[1].dim_value, 0, SIZE), np.float32)
                for i in model.graph.input if i.name.startswith("past")}  # fmt: skip
        ids, done = rng.integers(0, WORDS, (batch, length)), 0
        for _ in range(3):  # the prompt, then two tokens one by one
            new = ids.shape[1]
            places = np.broadcast_to(np.arange(done, done + new), ids.shape).copy()
            feed = {"ids": ids, "places": places, "mask": np.ones((batch, done + new), np.int64), **past}
            results = assert_agrees(model, session, feed, 1e-4)
            past = {n: results[n.replace("past", "present")] for n in past}
            ids, done = results["logits"][:, -1:].argmax(-1), done + new


def quantized() -> onnx.ModelProto:
    """A network of 8-bit layers, channels last as the optimizers leave them."""
    net = Net()

    def at(scale: float, zero: int = 128, dtype: Any = np.uint8) -> list[str]:
        return [net.const(np.float32(scale)), net.const(np.array(zero, dtype))]

    def conv(x: str, before: list[str], after: list[str], o: int, i: int, k: int, **attrs: Any) -> str:
        # Of 7 bits: with more, onnxruntime saturates sums of two products on some processors.
        w = net.const(net.rng.integers(-64, 64, (o, i, k, k)).astype(np.int8))
        scale = net.const((net.rng.random(o) * 0.01 + 0.002).astype(np.float32))
        bias = net.const(net.rng.integers(-500, 500, o).astype(np.int32))
        pads = {"pads": [k // 2] * 4, "channels_last": 1}
        return net.op(
            "QLinearConv", x, *before, w, scale, net.const(np.zeros(o, np.int8)), *after, bias, **pads, **attrs
        )

    image, a, s, c = at(0.02), at(0.05), at(1 / 256, 0), at(0.06, 120)
    x = net.op("QuantizeLinear", "x", *image)
    x = conv(x, image, a, 8, 3, 3, strides=[2, 2])
    x = net.op("QLinearLeakyRelu", x, *a, *a, alpha=0.1)
    x = net.op("NhwcMaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    y = conv(x, a, a, 8, 1, 3, group=8)
    gate = net.op("QLinearSigmoid", conv(y, a, a, 8, 8, 1), *a, *s)
    y = net.op("QLinearMul", y, *a, gate, *s, *a)
    x = net.op("QLinearAdd", x, *a, y, *a, *c)
    x = net.op("QLinearConcat", *c, x, *c, y, *a, axis=3)
    x = net.op("QLinearAveragePool", x, *c, *c, kernel_shape=[2, 2], channels_last=1)
    x = net.op("QLinearGlobalAveragePool", x, *c, *c, channels_last=1)
    x = net.plain("Flatten", x)
    w = [net.const(net.rng.integers(-64, 64, (16, 10)).astype(np.int8)), *at(0.02, 0, np.int8)]
    x = net.op("QGemm", x, *c, *w, net.const(net.rng.integers(-99, 99, 10).astype(np.int32)), *a)
    x = net.op("QLinearSoftmax", x, *a, *s, opset=13)
    net.op("DequantizeLinear", x, *s, outputs=["y"])
    return net.model([("x", TensorProto.FLOAT, ["batch", 17, 19, 3])], {"y": TensorProto.FLOAT})


@pytest.mark.parametrize("level", [0, 2])
def test_a_network_of_bytes(level: int, tmp_path: Path) -> None:
    model, rng = quantized(), np.random.default_rng(0)
    session = session_of(model, tmp_path, level)
    for batch in (1, 3):
        feed = {"x": rng.standard_normal((batch, 17, 19, 3)).astype(np.float32)}
        assert_agrees(model, session, feed, 1.01 / 256)
