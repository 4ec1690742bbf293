"""Small models with one layer each whose weights can be quantized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.optimizer import optimize
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class LayerCase:
    """A layer.

    Attributes:
        shape: of the input; dimensions that are text are dynamic.
        run: the shape of the input to run with.
        build: makes the output of the input.
        below: integers below it are the inputs, if it is not 0.
    """

    shape: tuple[int | str, ...]
    run: tuple[int, ...]
    build: Callable[[Builder, Value, np.random.Generator], Value]
    below: int = 0

    def model(self, target: str = "mnn") -> Model:
        """The optimized model."""
        rng = np.random.default_rng(1)
        graph = Graph()
        dtype = DType.I32 if self.below else DType.F32
        x = graph.add_param(TensorType(dtype, self.shape), "x")
        y = self.build(Builder(graph, origin="test"), x, rng)
        y.name = "y"
        graph.outputs = [y]
        model = Model(graph, [("x", x.type)], [("y", y.type)])
        optimize(model, target=target)  # type: ignore[arg-type]
        return model

    def inputs(self) -> dict[str, Array]:
        """Random inputs."""
        rng = np.random.default_rng(2)
        if self.below:
            return {"x": rng.integers(0, self.below, self.run).astype(np.int32)}
        return {"x": rng.standard_normal(self.run).astype(np.float32)}


def weights(rng: np.random.Generator, *shape: int) -> Array:
    """Weights of all kinds of ranges: rows that are shifted, and rows of other sizes."""
    rows = np.arange(shape[0]).reshape(-1, *(1,) * (len(shape) - 1))
    numbers = rng.standard_normal(shape) * 0.1 * (1 + rows % 3) + 0.05 * (rows % 4)
    return np.asarray(numbers, np.float32)


def _conv(
    outputs: int, inputs: int, size: int, group: int = 1, **more: Any
) -> Callable[[Builder, Value, np.random.Generator], Value]:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w = weights(rng, outputs, inputs // group, size, size)
        pads = (size // 2,) * 4
        y: Value = b.Conv(x, w, weights(rng, outputs), strides=(1, 1), pads=pads, dilations=(1, 1), group=group, **more)
        return y

    return build


def _deconv(inputs: int, outputs: int, group: int = 1) -> Callable[[Builder, Value, np.random.Generator], Value]:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w = weights(rng, inputs, outputs // group, 3, 3)
        y: Value = b.ConvTranspose(
            x, w, strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1), output_padding=(1, 1), group=group
        )
        return y

    return build


def _line(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.Conv(x, weights(rng, 24, 32, 3), strides=(1,), pads=(1, 1), dilations=(1,))
    return y


def _linear(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.Linear(x, weights(rng, 48, 64), weights(rng, 48), activation="gelu")
    return y


def _product(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.MatMul(x, weights(rng, 64, 48))
    return y


def _batched(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.MatMul(x, weights(rng, 3, 64, 48))
    return y


def _table(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.Gather(weights(rng, 100, 48), x, axis=0)
    return y


def _odd_table(b: Builder, x: Value, rng: np.random.Generator) -> Value:
    y: Value = b.Gather(weights(rng, 50, 37), x, axis=0)
    return y


def _recurrent(op: str, gates: int) -> Callable[[Builder, Value, np.random.Generator], Value]:
    def build(b: Builder, x: Value, rng: np.random.Generator) -> Value:
        w, r = (weights(rng, gates * 24, n)[None] * np.float32(0.5) for n in (16, 24))
        node = b.node(op, [x, Value.constant(w), Value.constant(r)], {"hidden": 24}, 3 if op == "LSTM" else 2)
        return node.outputs[0]

    return build


CASES: dict[str, LayerCase] = {
    "conv": LayerCase((1, 32, 6, 7), (1, 32, 6, 7), _conv(24, 32, 3, activation="relu")),
    "pointwise": LayerCase(("n", 64, 5, 5), (2, 64, 5, 5), _conv(17, 64, 1)),
    "depthwise": LayerCase((1, 24, 6, 6), (1, 24, 6, 6), _conv(24, 24, 3, 24)),
    "groups": LayerCase((1, 64, 5, 5), (1, 64, 5, 5), _conv(32, 64, 3, 2)),
    "silu": LayerCase((1, 32, 5, 5), (1, 32, 5, 5), _conv(16, 32, 3, activation="silu")),
    "deconv": LayerCase((1, 32, 5, 5), (1, 32, 5, 5), _deconv(32, 16)),
    "deconv depthwise": LayerCase((1, 16, 5, 5), (1, 16, 5, 5), _deconv(16, 16, 16)),
    "deconv groups": LayerCase((1, 32, 5, 5), (1, 32, 5, 5), _deconv(32, 16, 2)),
    "line": LayerCase((1, 32, 20), (1, 32, 20), _line),
    "linear": LayerCase(("n", 64), (3, 64), _linear),
    "linear 3": LayerCase(("n", "t", 64), (2, 3, 64), _linear),
    "product": LayerCase((2, 64), (2, 64), _product),
    "product 4": LayerCase(("n", 2, "t", 64), (3, 2, 5, 64), _product),
    "batched": LayerCase((3, 5, 64), (3, 5, 64), _batched),
    "table": LayerCase(("n", "t"), (2, 5), _table, below=100),
    "odd table": LayerCase(("n",), (7,), _odd_table, below=50),
    "LSTM": LayerCase((5, 1, 16), (5, 1, 16), _recurrent("LSTM", 4)),
    "GRU": LayerCase((5, 1, 16), (5, 1, 16), _recurrent("GRU", 3)),
    "RNN": LayerCase((5, 1, 16), (5, 1, 16), _recurrent("RNN", 1)),
}
"""All layers by name."""
