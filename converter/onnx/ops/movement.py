"""Shapes, data movement, indexing, constants."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.tensor import dtype_of, no_strings, string_constant
from minnow.converter.operand import constant, count, ints, is_known, rank
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import axes_of

onnx.same("Size", "Expand", "Tile", "Range", "NonZero")


@onnx.op("Constant")
def _(b, *, value=None, value_float=None, value_floats=None, value_int=None, value_ints=None, value_string=None,
      value_strings=None, sparse_value=None):  # fmt: skip
    if value is not None:
        return value if isinstance(value, Value) else Value.constant(value)
    if value_float is not None or value_floats is not None:
        return b.const(np.asarray(value_floats if value_float is None else value_float, np.float32))
    if value_int is not None or value_ints is not None:
        return b.const(np.asarray(value_ints if value_int is None else value_int, np.int64))
    if value_string is not None or value_strings is not None:
        return string_constant(() if value_strings is None else (len(value_strings),))
    raise UnsupportedError("a sparse constant is not supported")


@onnx.op("ConstantOfShape")
def _(b, shape, *, value=None):
    if isinstance(value, Value):
        raise no_strings("a ConstantOfShape")
    fill = np.zeros(1, np.float32) if value is None else value.numpy()
    return b.Fill(shape, fill.reshape(()))


@onnx.op("Shape")
def _(b, x, *, start=0, end=None):
    return b.Shape(x, start=start, end=end)


@onnx.op("Reshape")
def _(b, x, shape, *, allowzero=0):
    return b.Reshape(x, shape, allowzero=bool(allowzero))


@onnx.op("Flatten")
def _(b, x, *, axis=1):
    return b.Flatten(x, axis=axis)


@onnx.op("Squeeze", until=12)
def _(b, x, *, axes=None):
    return b.Squeeze(x, axes=None if axes is None else tuple(axes))


@onnx.op("Squeeze", since=13)
def _(b, x, axes=None):
    if axes is None:
        return b.Squeeze(x)
    return b.Squeeze(x, axes=ints(axes)) if is_known(axes) else b.Squeeze(x, axes)


@onnx.op("Unsqueeze", until=12)
def _(b, x, *, axes):
    return b.Unsqueeze(x, axes=tuple(axes))


@onnx.op("Unsqueeze", since=13)
def _(b, x, axes):
    return b.Unsqueeze(x, axes=ints(axes)) if is_known(axes) else b.Unsqueeze(x, axes)


@onnx.op("Transpose")
def _(b, x, *, perm=None):
    return b.Transpose(x, perm=tuple(range(rank(x, "the input of Transpose")))[::-1] if perm is None else tuple(perm))


@onnx.op("Concat")
def _(b, *xs, axis=1):
    return b.Concat(*xs, axis=axis)


@onnx.op("Split", until=12)
def _(b, x, *, axis=0, split=None, node):
    return b.Split(x, axis=axis, sizes=tuple(split), n_outputs=len(split)) if split else _equally(b, x, axis, node)


@onnx.op("Split", since=13)
def _(b, x, split=None, *, axis=0, num_outputs=None, node):
    if split is None:
        return _equally(b, x, axis, node, num_outputs)
    if is_known(split):
        sizes = ints(split)
        return b.Split(x, axis=axis, sizes=sizes, n_outputs=len(sizes))
    if count(split) not in (None, len(node.outputs)):
        raise ModelError(f"Split has {len(node.outputs)} outputs, and {count(split)} sizes")
    return b.Split(x, split, axis=axis, n_outputs=len(node.outputs))


def _equally(b: Builder, x: Value, axis: int, node: Any, num_outputs: int | None = None) -> Any:
    """Where the number of parts does not divide the dimension, those at the end are smaller."""
    n = num_outputs or len(node.outputs)
    if n != len(node.outputs):
        raise ModelError(f"Split has {len(node.outputs)} outputs, but num_outputs is {n}")
    dims = x.type.shape
    dimension = dims[axis] if dims is not None and -len(dims) <= axis < len(dims) else UNKNOWN
    if isinstance(dimension, int):
        if dimension % n and num_outputs is None:
            raise ModelError(f"Split cannot cut the dimension {dimension} into {n} equal parts")
        chunk = -(-dimension // n)
        sizes = tuple(max(min(chunk, dimension - i * chunk), 0) for i in range(n))
        return b.Split(x, axis=axis, sizes=sizes, n_outputs=n)
    whole = b.Shape(x, start=axis, end=None if axis == -1 else axis + 1)
    part = b.Div(b.Add(whole, n - 1), n)
    rest = b.Sub(whole, b.Mul(part, np.arange(n)))
    return b.Split(x, b.Min(b.Max(rest, 0), part), axis=axis, n_outputs=n)


@onnx.op("Slice", until=9)
def _(b, x, *, axes=None, ends, starts):
    operands = [np.asarray(v, np.int64) for v in (starts, ends)]
    return b.Slice(x, *operands, None if axes is None else np.asarray(axes, np.int64))


@onnx.op("Slice", since=10)
def _(b, x, starts, ends, axes=None, steps=None):
    return b.Slice(x, starts, ends, axes, steps)


@onnx.op("Pad", until=10)
def _(b, x, *, mode="constant", pads, value=0.0):
    n = len(pads) // 2
    interleaved = np.asarray(pads, np.int64).reshape(2, n).T.reshape(-1)
    return b.Pad(x, interleaved, np.asarray(value, x.type.dtype.numpy), mode=mode)


@onnx.op("Pad", since=11)
def _(b, x, pads, value=None, axes=None, *, mode="constant"):
    if value is not None and value.type.shape == (1,):
        value = b.Reshape(value, np.zeros(0, np.int64))
    return b.Pad(x, _beside_each_other(b, x, pads, axes), value, mode=mode)


def _beside_each_other(b: Builder, x: Value, pads: Value, axes: Value | None) -> Any:
    """Pads are stored as all begins, then all ends, of some axes; the op wants begin and end of each axis."""
    if pads.is_const and (axes is None or axes.is_const):
        rows = constant(pads).astype(np.int64).reshape(2, -1).T
        if axes is not None:
            full = np.zeros((rank(x, "the input of Pad"), 2), np.int64)
            full[list(axes_of(ints(axes), len(full), "axes"))] = rows
            rows = full
        return rows.reshape(-1)
    made = b.Transpose(b.Reshape(pads, np.array([2, -1])), perm=(1, 0))
    if axes is not None:
        table = b.Fill(b.Concat(b.Shape(b.Shape(x)), np.array([2]), axis=0), np.array(0, np.int64))
        made = b.ScatterND(table, b.Reshape(axes, np.array([-1, 1])), made)
    n = x.type.rank
    return b.Reshape(made, np.array([-1 if n is None else 2 * n]))


@onnx.op("Gather")
def _(b, x, indices, *, axis=0):
    return b.Gather(x, indices, axis=axis)


@onnx.op("GatherElements")
def _(b, x, indices, *, axis=0):
    return b.GatherElements(x, indices, axis=axis)


@onnx.op("GatherND")
def _(b, x, indices, *, batch_dims=0):
    return b.GatherND(x, indices, batch_dims=batch_dims)


@onnx.op("Scatter", "ScatterElements")
def _(b, x, indices, updates, *, axis=0, reduction="none"):
    return b.ScatterElements(x, indices, updates, axis=axis, reduction=reduction)


@onnx.op("ScatterND")
def _(b, x, indices, updates, *, reduction="none"):
    return b.ScatterND(x, indices, updates, reduction=reduction)


@onnx.op("TensorScatter")
def _(b, past, update, write=None, *, axis=-2, mode="linear"):
    n = rank(past, "the cache of TensorScatter")
    at = axis % n
    if at == 0:
        raise ModelError("TensorScatter cannot write along axis 0", why="that axis is the batch")
    place = b.Range(np.array(0), b.Squeeze(b.Shape(update, start=at, end=at + 1), axes=(0,)), np.array(1))
    place = b.Reshape(place, np.array([-1, *[1] * (n - 1 - at)]))
    if write is not None:
        place = b.Add(place, b.Reshape(write, np.array([-1, *[1] * (n - 1)])))
    if mode == "circular":
        place = b.Mod(place, b.Shape(past, start=at, end=at + 1))
    elif mode != "linear":
        raise ModelError(f"TensorScatter has the unknown mode '{mode}'")
    return b.ScatterElements(past, b.Expand(place, b.Shape(update)), update, axis=at)


@onnx.op("DepthToSpace")
def _(b, x, *, blocksize, mode="DCR"):
    return b.DepthToSpace(x, blocksize=blocksize, mode=mode)


@onnx.op("SpaceToDepth")
def _(b, x, *, blocksize, mode="DCR"):
    if mode != "DCR":
        return NotImplemented
    return b.SpaceToDepth(x, blocksize=blocksize)


@onnx.op("Trilu")
def _(b, x, k=None, *, upper=1):
    return b.Trilu(x, k, upper=bool(upper))


@onnx.op("ReverseSequence")
def _(b, x, lens, *, batch_axis=1, time_axis=0):
    return b.ReverseSequence(x, lens, batch_axis=batch_axis, time_axis=time_axis)


@onnx.op("OneHot")
def _(b, indices, depth, values, *, axis=-1):
    return b.OneHot(indices, depth, values, axis=axis)


@onnx.op("EyeLike")
def _(b, x, *, dtype=None, k=0):
    to = x.type.dtype if dtype is None else dtype_of(dtype, "EyeLike")
    return b.EyeLike(x, k=k, to=to)


@onnx.op("Compress")
def _(b, x, condition, *, axis=None):
    return b.Compress(x, condition, axis=axis)


@onnx.op("Unique")
def _(b, x, *, axis=None, sorted=1, node):
    return b.Unique(x, axis=axis, sorted=bool(sorted), n_outputs=node.n_outputs)


# Operators of the experimental period, which files of the first converters still hold.


@onnx.op("Crop")
def _(b, x, *, border, scale=None):
    if len(border) != 4:
        raise ModelError(f"Crop has the border {border}, but needs left, top, right and bottom")
    left, top, right, bottom = border
    if scale:
        ends = [top + scale[0], left + scale[1]]
    else:
        big = np.iinfo(np.int32).max
        ends = [-bottom or big, -right or big]
    return b.Slice(x, np.array([top, left]), np.array(ends), np.array([2, 3]))


@onnx.op("ImageScaler")
def _(b, x, *, bias, scale=1.0):
    shift = np.asarray(bias, np.float32).reshape(1, -1, 1, 1)
    return b.Add(b.Mul(x, scale), shift)


@onnx.op("Affine")
def _(b, x, *, alpha=1.0, beta=0.0):
    return b.Add(b.Mul(x, alpha), beta)


@onnx.op("ParametricSoftplus")
def _(b, x, *, alpha=1.0, beta=1.0):
    return b.Mul(b.Softplus(b.Mul(x, beta)), alpha)


@onnx.op("ScaledTanh")
def _(b, x, *, alpha=1.0, beta=1.0):
    return b.Mul(b.Tanh(b.Mul(x, beta)), alpha)
