"""Random numbers, and dropout in training mode."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from minnow.converter.base import Call
from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.tensor import dtype_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def _seed(node: Call, given: float | None) -> int:
    """An int32 that is not 0: of the bits of the seed in the file, else of the node's name."""
    text = np.float32(given).tobytes() if given is not None else f"{node.outputs or node.name}".encode()
    return int(np.int32(zlib.crc32(text) - 2**31)) or 1


def _generator(op: str, first: str, second: str, at: float, until: float) -> None:
    def of_shape(b: Builder, *, shape: Any, dtype: int = 1, seed: float | None = None, low: float = at,
                 high: float = until, mean: float = at, scale: float = until, node: Call) -> Value:  # fmt: skip
        return make(b, np.asarray(shape, np.int64), dtype_of(dtype, op), node, seed, low, high, mean, scale)

    def like(b: Builder, x: Value, *, dtype: int | None = None, seed: float | None = None, low: float = at,
             high: float = until, mean: float = at, scale: float = until, node: Call) -> Value:  # fmt: skip
        to = x.type.dtype if dtype is None else dtype_of(dtype, op)
        return make(b, b.Shape(x), to, node, seed, low, high, mean, scale)

    def make(b: Builder, shape: Any, to: DType, node: Call, seed: float | None, low: float, high: float, mean: float,
             scale: float) -> Value:  # fmt: skip
        ends = {"low": low, "high": high, "mean": mean, "scale": scale}
        made = getattr(b, op)(shape, **{k: ends[k] for k in (first, second)}, seed=_seed(node, seed), to=to)
        return made

    onnx.op(op)(of_shape)
    onnx.op(f"{op}Like")(like)


_generator("RandomUniform", "low", "high", 0.0, 1.0)
_generator("RandomNormal", "mean", "scale", 0.0, 1.0)


@onnx.op("Bernoulli")
def _(b, x, *, dtype=None, seed=None, node):
    # In float32 even for halves: their multiples of 2^-11 are too coarse for small probabilities.
    to = DType.F64 if x.type.dtype is DType.F64 else DType.F32
    drawn = b.Less(b.RandomUniform(b.Shape(x), seed=_seed(node, seed), to=to), b.Cast(x, to=to))
    return b.Cast(drawn, to=x.type.dtype if dtype is None else dtype_of(dtype, "Bernoulli"))


@onnx.op("Multinomial")
def _(b, x, *, dtype=6, sample_size=1, seed=None, node):
    return b.Multinomial(x, samples=sample_size, seed=_seed(node, seed), to=dtype_of(dtype, "Multinomial"))


@onnx.op("Dropout", since=10, until=11)
def _(b, x, *, ratio=0.5, node):
    return _kept(b, x, node)


@onnx.op("Dropout", since=12)
def _(b, x, ratio=None, training=None, *, seed=None, node):
    if training is None or (training.data is not None and not training.data.numpy().any()):
        return _kept(b, x, node)
    share = b.const(np.float32(0.5)) if ratio is None else b.Cast(b.Reshape(ratio, np.zeros(0, np.int64)), to=DType.F32)
    drawn = b.RandomUniform(b.Shape(x), seed=_seed(node, seed))
    mask = b.GreaterOrEqual(drawn, b.Where(b.Reshape(training, np.zeros(0, np.int64)), share, np.float32(0)))
    scale = b.Where(b.Reshape(training, np.zeros(0, np.int64)), b.Sub(1.0, share), np.float32(1))
    y = b.Where(mask, b.Div(x, b.Cast(scale, to=x.type.dtype)), b.const(np.zeros((), x.type.dtype.numpy)))
    return (y, mask) if node.n_outputs > 1 else y


def _kept(b: Builder, x: Value, node: Call) -> Any:
    """Dropout of a model that only infers."""
    y = b.Identity(x)
    return (y, b.Fill(b.Shape(x), np.array(True))) if node.n_outputs > 1 else y
