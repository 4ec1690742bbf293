"""Small networks of images, one for each op that MNN's runtime computes on 8-bit integers, as ONNX models.

Each is a convolution, what the name says, and a convolution of 1 x 1. Those of `BEFORE` have no Relu before it.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

SHAPE = (1, 3, 16, 16)
CHANNELS = 4


class Graph:
    """Nodes, with weights that depend on the name of the network alone."""

    def __init__(self, name: str) -> None:
        self.rng = np.random.default_rng(zlib.crc32(name.encode()))
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def normal(self, *shape: int) -> np.ndarray:
        return self.rng.standard_normal(shape).astype(np.float32)

    def const(self, array: Any) -> str:
        name = f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def op(self, kind: str, *inputs: Any, out: str = "", **attrs: Any) -> str:
        names = [i if isinstance(i, str) else self.const(i) for i in inputs]
        out = out or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [out], name=out, **attrs))
        return out

    def conv(
        self, x: str, size: int = 3, ins: int = CHANNELS, outs: int = CHANNELS, group: int = 1, **more: Any
    ) -> str:
        w, bias = self.normal(outs, ins // group, size, size) * 0.3, self.normal(outs)
        attrs = {"kernel_shape": [size, size], "pads": [size // 2] * 4, "group": group, **more}
        return self.op("Conv", x, w.astype(np.float32), bias, **attrs)


def _norm(g: Graph, x: str) -> str:
    pooled = g.op("MaxPool", x, kernel_shape=[2, 2], strides=[1, 1])
    numbers = [g.normal(CHANNELS) for _ in range(3)]
    return g.op("BatchNormalization", pooled, *numbers, np.abs(g.normal(CHANNELS)) + 0.5)


def _fork(kind: str) -> Callable[[Graph, str], str]:
    return lambda g, x: g.op(kind, g.conv(x), x)


def _pool(kind: str, size: int = 2, stride: int = 2) -> Callable[[Graph, str], str]:
    return lambda g, x: g.op(kind, x, kernel_shape=[size, size], strides=[stride, stride])


def _one(kind: str, **attrs: Any) -> Callable[[Graph, str], str]:
    return lambda g, x: g.op(kind, x, **attrs)


def _squeeze(g: Graph, x: str) -> str:
    return g.op("Mul", x, g.op("Sigmoid", g.conv(g.op("GlobalAveragePool", x), 1)))


def _shuffle(g: Graph, x: str) -> str:
    wide = g.op("Reshape", x, np.array([1, 2, CHANNELS // 2, 8, 8]))
    return g.op("Reshape", g.op("Transpose", wide, perm=[0, 2, 1, 3, 4]), np.array([1, CHANNELS, 8, 8]))


def _layer_norm(g: Graph, x: str) -> str:
    rows = g.op("Reshape", g.op("Transpose", x, perm=[0, 2, 3, 1]), np.array([1, 64, CHANNELS]))
    normed = g.op("LayerNormalization", rows, g.normal(CHANNELS), g.normal(CHANNELS), axis=-1)
    return g.op("Reshape", g.op("Transpose", normed, perm=[0, 2, 1]), np.array([1, CHANNELS, 8, 8]))


def _dense(g: Graph, x: str) -> str:
    flat = g.op("Flatten", g.op("MaxPool", x, kernel_shape=[4, 4], strides=[4, 4]))
    return g.op("Gemm", flat, (g.normal(4 * CHANNELS, 5) * 0.3).astype(np.float32), g.normal(5), out="y")


AFTER_RELU: dict[str, Callable[[Graph, str], str]] = {
    "conv": lambda g, x: x,
    "depthwise": lambda g, x: g.conv(x, group=CHANNELS),
    "groups": lambda g, x: g.conv(x, group=2),
    "strided": lambda g, x: g.conv(x, strides=[2, 2]),
    "relu6": lambda g, x: g.op("Clip", g.conv(x), np.float32(0), np.float32(6)),
    "max_pool": _pool("MaxPool"),
    "add": _fork("Add"),
    "add_relu": lambda g, x: g.op("Relu", g.op("Add", g.conv(x), x)),
    "add_channels": lambda g, x: g.op("Add", x, g.conv(g.op("GlobalAveragePool", x), 1)),
    "sub": _fork("Sub"),
    "mul": _fork("Mul"),
    "squeeze": _squeeze,
    "concat": lambda g, x: g.conv(g.op("Concat", x, g.conv(x), axis=1), ins=2 * CHANNELS),
    "scale": _norm,
    "deconv": lambda g, x: g.op(
        "ConvTranspose", x, g.normal(CHANNELS, CHANNELS, 2, 2), g.normal(CHANNELS), kernel_shape=[2, 2], strides=[2, 2]
    ),
    "pad": lambda g, x: g.op("Pad", x, np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.float32(0)),
    "transpose": _one("Transpose", perm=[0, 1, 3, 2]),
    "shuffle": _shuffle,
    "dense": _dense,
}
BEFORE: dict[str, Callable[[Graph, str], str]] = {
    "mean_pool": _pool("AveragePool"),
    "mean_pool_3": _pool("AveragePool", 3, 1),
    "global_mean": _one("GlobalAveragePool"),
    "sigmoid": _one("Sigmoid"),
    "tanh": _one("Tanh"),
    "hard_swish": _one("HardSwish"),
    "leaky": _one("LeakyRelu", alpha=0.1),
    "neg": _one("Neg"),
    "softmax": _one("Softmax", axis=1),
    "layer_norm": _layer_norm,
}
NETS = {**AFTER_RELU, **BEFORE}


def model(name: str) -> bytes:
    """The model of one network, with input x and output y."""
    g = Graph(name)
    x = g.conv("x", ins=3, strides=[2, 2])
    if name in AFTER_RELU:
        x = g.op("Relu", x)
    y = NETS[name](g, x)
    if y != "y":
        g.op(
            "Conv", y, (g.normal(3, CHANNELS, 1, 1) * 0.3).astype(np.float32), g.normal(3), out="y", kernel_shape=[1, 1]
        )
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", SHAPE), ("y", None))]
    graph = helper.make_graph(g.nodes, name, infos[:1], infos[1:], g.weights)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return bytes(made.SerializeToString())


def feed() -> np.ndarray:
    """What the networks are run with: as the images are that the quantizer sees."""
    return np.random.default_rng(7).uniform(-0.99, 0.99, SHAPE).astype(np.float32)
