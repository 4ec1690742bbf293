"""Operators of opset 1 to 6 whose meaning differs from newer opsets: mostly broadcasting by attribute."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx as package

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.ops.neural import batch_norm_of_batch
from minnow.converter.onnx.tensor import dtype_of
from minnow.converter.operand import constant, ints, rank
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def _aligned(b: Builder, x: Value, y: Value, broadcast: int, axis: int | None) -> Value:
    """The second operand such that the dimensions of both line up from the back.

    Before opset 7 its dimensions are those of the first one from `axis` on.
    """
    if not broadcast or axis is None:
        return y
    n, m = rank(x, "the first operand"), rank(y, "the second operand")
    behind = n - (axis % n) - m
    if behind < 0:
        raise ModelError(f"an operand of rank {m} does not fit into one of rank {n} from axis {axis} on")
    return b.Unsqueeze(y, axes=tuple(range(m, m + behind))) if behind else y


def _binary(op: str) -> None:
    def translate(b: Builder, x: Value, y: Value, *, broadcast: int = 0, axis: int | None = None) -> Value:
        made: Value = getattr(b, op)(x, _aligned(b, x, y, broadcast, axis))
        return made

    onnx.op(op, until=6)(translate)


# op list: the operators that opset 7 has changed
for _name in ("Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Less", "Greater"):
    _binary(_name)


@onnx.op("Gemm", until=6)
def _(b, x, y, c, *, alpha=1.0, beta=1.0, broadcast=0, transA=0, transB=0):
    product = b.MatMul(x, y, transpose_a=bool(transA), transpose_b=bool(transB))
    return b.Add(b.Mul(product, alpha) if alpha != 1.0 else product, b.Mul(c, beta) if beta != 1.0 else c)


@onnx.op("PRelu", until=6)
def _(b, x, slope):
    # One slope per channel, which is axis 1, or one for all.
    n = rank(x, "the input of PRelu")
    if slope.type.rank == 1 and slope.type.shape != (1,) and n > 2:
        slope = b.Unsqueeze(slope, axes=tuple(range(1, n - 1)))
    return b.PRelu(x, slope)


@onnx.op("BatchNormalization", until=6)
def _(b, x, scale, bias, mean, var, *, epsilon=1e-5, is_test=0, spatial=1, node):
    if not is_test or node.n_outputs > 1:
        raise UnsupportedError("BatchNormalization in training mode is not supported", hint="export for inference")
    return _batch_norm(b, x, scale, bias, mean, var, epsilon, spatial)


@onnx.op("BatchNormalization", since=7, until=8)
def _(b, x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, spatial=1, node):
    if node.n_outputs > 1 and spatial:
        return batch_norm_of_batch(b, x, scale, bias, mean, var, epsilon, momentum)[: node.n_outputs]
    if node.n_outputs > 1:
        raise UnsupportedError("BatchNormalization in training mode is not supported with spatial=0")
    return _batch_norm(b, x, scale, bias, mean, var, epsilon, spatial)


def _batch_norm(
    b: Builder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float, spatial: int
) -> Any:
    if spatial:
        return b.BatchNorm(x, scale, bias, mean, var, epsilon=epsilon)
    # Every element of a sample has statistics of its own.
    return b.Add(b.Mul(b.Div(b.Sub(x, mean), b.Sqrt(b.Add(var, epsilon))), scale), bias)


@onnx.op("Dropout", until=6)
def _(b, x, *, is_test=0, ratio=0.5, node):
    if not is_test:
        raise UnsupportedError("Dropout in training mode is not supported", hint="export the model for inference")
    return _undropped(b, x, node)


@onnx.op("Dropout", since=7, until=9)
def _(b, x, *, ratio=0.5, node):
    return _undropped(b, x, node)


def _undropped(b: Builder, x: Value, node: Any) -> Any:
    # The mask has the type of the data before opset 10.
    mask = (b.Fill(b.Shape(x), np.ones((), x.type.dtype.numpy)),) if node.n_outputs > 1 else ()
    return (b.Identity(x), *mask)


@onnx.op("Cast", until=5)
def _(b, x, *, to):
    try:
        return b.Cast(x, to=dtype_of(package.TensorProto.DataType.Value(to.upper()), "Cast"))
    except ValueError:
        raise ModelError(f"Cast has the unknown element type '{to}'") from None


@onnx.op("Selu", until=5)
def _(b, x, *, alpha=1.6732, gamma=1.0507):
    return b.Selu(x, alpha=alpha, gamma=gamma)


@onnx.op("Pad", until=1)
def _(b, x, *, mode="constant", paddings, value=0.0):
    interleaved = np.asarray(paddings, np.int64).reshape(2, -1).T.reshape(-1)
    return b.Pad(x, interleaved, np.asarray(value, x.type.dtype.numpy), mode=mode)


@onnx.op("Reshape", until=4)
def _(b, x, *, shape):
    return b.Reshape(x, np.asarray(shape, np.int64))


@onnx.op("Split", until=1)
def _(b, x, sizes=None, *, axis=0, split=None, node):
    parts = ints(sizes, "the sizes of Split") or tuple(split or ())
    mapping = onnx.find("Split", 2)
    assert mapping is not None
    return mapping.function(b, x, axis=axis, split=parts, node=node)


@onnx.op("Tile", until=5)
def _(b, x, tiles, axis):
    repeats = np.ones(rank(x, "the input of Tile"), np.int64)
    repeats[int(constant(axis, "the axis of Tile").reshape(-1)[0])] = constant(tiles, "tiles").reshape(-1)[0]
    return b.Tile(x, repeats)


@onnx.op("Upsample", until=6)
def _(b, x, *, height_scale, mode="nearest", width_scale):
    mapping = onnx.find("Upsample", 7)
    assert mapping is not None
    return mapping.function(b, x, mode=mode, scales=[1.0, 1.0, height_scale, width_scale])


@onnx.op("LpPool", until=1)
def _(b, x, *, auto_pad="NOTSET", kernel_shape, p=2.0, pads=(), strides=()):
    mapping = onnx.find("LpPool", 2)
    assert mapping is not None
    return mapping.function(b, x, auto_pad=auto_pad, kernel_shape=kernel_shape, p=_whole(p), pads=pads, strides=strides)


@onnx.op("GlobalLpPool", until=1)
def _(b, x, *, p=2.0):
    return b.GlobalLpPool(x, p=_whole(p))


def _whole(p: float) -> int:
    if p != int(p):
        raise UnsupportedError(f"pooling by the {p}-norm is not supported", why="p must be an integer")
    return int(p)


@onnx.op("MeanVarianceNormalization", until=8)
def _(b, x, *, across_channels=0, normalize_variance=1):
    n = rank(x, "the input of MeanVarianceNormalization")
    axes = tuple(range(1 if across_channels else 2, n))
    centered = b.Sub(x, b.ReduceMean(x, axes=axes))
    if not normalize_variance:
        return centered
    return b.Div(centered, b.Add(b.Sqrt(b.ReduceMean(b.Square(centered), axes=axes)), 1e-9))


@onnx.op("Scale", until=9)
def _(b, x, *, scale=1.0):
    return b.Mul(x, scale)
