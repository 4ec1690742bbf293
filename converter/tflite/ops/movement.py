"""Shapes and data movement: the results hold elements of the operands, and at most one padding value."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition import batch_space, strided_slice
from minnow.converter.operand import constant, count, ints, is_known, rank, turned_by
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.activation import activate
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def wide(b: Builder, x: Value) -> Value:
    """Numbers for places and dimensions, as int64."""
    return x if x.type.dtype is DType.I64 else b.Cast(x, to=DType.I64)


def zero_of(x: Value, node: Any) -> np.ndarray[Any, Any]:
    """What stands for 0 where numbers are added to those of operand 0."""
    q = node.quant(0)
    zero = 0 if q is None or x.type.dtype.is_float else int(q.zero[0])
    return np.array(zero, x.type.dtype.numpy)


@tflite.op("RESHAPE", moves=True)
def _(b, x, shape=None, *, new_shape=(), node):
    if shape is None or (shape.type.rank is not None and shape.type.rank != 1):
        wanted = [int(v) for v in new_shape]
    elif is_known(shape):
        wanted = list(ints(shape))
    else:
        return b.Reshape(x, wide(b, shape), allowzero=True)
    if wanted == [0] and x.type.count == 1:
        wanted = []  # how old files write the shape of a scalar
    return b.Reshape(x, np.array(wanted, np.int64), allowzero=0 in wanted)


@tflite.op("TRANSPOSE", moves=True)
def _(b, x, perm):
    if not is_known(perm):
        return turned_by(b, x, perm)
    n = rank(x, "the input of TRANSPOSE") if x.type.rank is not None else count(perm) or 0
    return b.Transpose(x, perm=tuple(p % max(n, 1) for p in ints(perm, "the order of the axes")))


@tflite.op("SQUEEZE", moves=True)
def _(b, x, *, squeeze_dims=()):
    return b.Squeeze(x, axes=tuple(squeeze_dims)) if squeeze_dims else b.Squeeze(x)


@tflite.op("EXPAND_DIMS", moves=True)
def _(b, x, axis):
    return b.Unsqueeze(x, axes=ints(axis)) if is_known(axis) else b.Unsqueeze(x, b.Reshape(axis, np.array([1])))


@tflite.op("SHAPE", raw=True)
def _(b, x, *, out_type=None, node):
    shape = b.Shape(x)
    to = node.type_out().dtype
    return shape if to is DType.I64 else b.Cast(shape, to=to)


@tflite.op("RANK", raw=True)
def _(b, x):
    return b.const(np.array(rank(x, "the input of RANK"), np.int32))


@tflite.op("CONCATENATION", moves=True)
def _(b, *xs, axis=0, fused_activation_function="NONE", node):
    if fused_activation_function != "NONE" and not xs[0].type.dtype.is_float:
        return NotImplemented
    return activate(b, b.Concat(*xs, axis=axis) if len(xs) > 1 else xs[0], fused_activation_function)


@tflite.op("PACK", moves=True)
def _(b, *xs, values_count=None, axis=0):
    if axis < 0:
        axis += rank(xs[0], "the first input of PACK") + 1
    parts = [b.Unsqueeze(x, axes=(axis,)) for x in xs]
    return b.Concat(*parts, axis=axis) if len(parts) > 1 else parts[0]


@tflite.op("UNPACK", moves=True)
def _(b, x, *, num=0, axis=0, node):
    n = len(node.tensors_out)
    parts = b.Split(x, axis=axis, sizes=(1,) * n, n_outputs=n) if n > 1 else (x,)
    return tuple(b.Squeeze(p, axes=(axis,)) for p in parts)


@tflite.op("SPLIT", moves=True)
def _(b, axis, x, *, num_splits=0, node):
    at = int(constant(axis, "the axis of SPLIT").reshape(-1)[0])
    n = _parts(num_splits, node)
    dimension = (x.type.shape or ())[at] if x.type.shape else "?"
    if n == 1:
        return (x,)
    if not isinstance(dimension, int):
        part = b.Div(b.Shape(x, start=at, end=None if at == -1 else at + 1), n)
        return b.Split(x, b.Concat(*[part] * n, axis=0), axis=at, n_outputs=n)
    if dimension % n:
        raise ModelError(f"SPLIT cannot cut the dimension {dimension} into {n} equal parts")
    return b.Split(x, axis=at, sizes=(dimension // n,) * n, n_outputs=n)


def _parts(asked: int, node: Any) -> int:
    """The number of parts, each of which is a result."""
    if asked not in (0, len(node.tensors_out)):
        raise ModelError(f"{asked} parts are asked for, but there are {len(node.tensors_out)} outputs")
    return len(node.tensors_out)


@tflite.op("SPLIT_V", moves=True)
def _(b, x, sizes, axis, *, num_splits=0, node):
    at, n = int(constant(axis, "the axis of SPLIT_V").reshape(-1)[0]), _parts(num_splits, node)
    whole = (x.type.shape or ())[at] if x.type.shape else "?"
    if not is_known(sizes):
        return b.Split(x, wide(b, sizes), axis=at, n_outputs=n)
    parts = list(ints(sizes))
    if -1 in parts:
        rest = sum(p for p in parts if p >= 0)
        if not isinstance(whole, int):
            total = b.Shape(x, start=at, end=None if at == -1 else at + 1)
            known = [b.const(np.array([p], np.int64)) if p >= 0 else b.Sub(total, rest) for p in parts]
            return b.Split(x, b.Concat(*known, axis=0), axis=at, n_outputs=n)
        parts = [whole - rest if p == -1 else p for p in parts]
    return (x,) if n == 1 else b.Split(x, axis=at, sizes=tuple(parts), n_outputs=n)


@tflite.op("SLICE", moves=True)
def _(b, x, begin, size):
    big = np.iinfo(np.int32).max
    if begin.data is not None and size.data is not None:
        starts, sizes = (constant(v).astype(np.int64).reshape(-1) for v in (begin, size))
        if np.any(sizes < -1) or np.any(starts < 0):
            raise ModelError(f"SLICE has an invalid begin {starts.tolist()} or size {sizes.tolist()}")
        return b.Slice(x, starts, np.where(sizes < 0, big, starts + sizes))
    first, length = wide(b, begin), wide(b, size)
    if size.data is not None:
        sizes_known = constant(size).astype(np.int64).reshape(-1)
        ends = b.Add(first, np.maximum(sizes_known, 0))
        if np.any(sizes_known < 0):
            ends = b.Where(b.const(sizes_known < 0), b.const(np.full(sizes_known.shape, big)), ends)
    else:
        ends = b.Where(b.Less(length, 0), b.const(np.array(big)), b.Add(first, length))
    y = b.Slice(x, first, ends)
    if size.data is not None and x.type.shape is not None and len(sizes_known) == len(x.type.shape):
        # The sizes tell what the computed starts leave unknown.
        dims = [int(s) if s >= 0 else d for s, d in zip(sizes_known, y.type.shape or x.type.shape, strict=True)]
        y.type = y.type.with_shape(dims)
    return y


@tflite.op("STRIDED_SLICE", moves=True)
def _(b, x, begin, end, strides, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0,
      offset=False):  # fmt: skip
    return strided_slice.strided_slice(
        b, x, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask, ellipsis_mask=ellipsis_mask,
        new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask, offset=offset,
    )  # fmt: skip


@tflite.op("PAD", moves=True)
def _(b, x, pads, *, node):
    return b.Pad(x, _ends(b, pads), zero_of(x, node))


@tflite.op("PADV2", moves=True)
def _(b, x, pads, value):
    return b.Pad(x, _ends(b, pads), b.Reshape(value, np.zeros(0, np.int64)))


def _ends(b: Builder, pads: Value) -> Any:
    if pads.data is not None:
        return constant(pads).astype(np.int64).reshape(-1)
    n = (pads.type.shape or ("?",))[0]
    return b.Reshape(wide(b, pads), np.array([2 * n if isinstance(n, int) else -1]))


@tflite.op("MIRROR_PAD", moves=True)
def _(b, x, pads, *, mode="REFLECT"):
    ends = constant(pads, "the pads of MIRROR_PAD").astype(np.int64).reshape(-1, 2)
    return mirrored(b, x, ends, mode)


def mirrored(b: Builder, x: Value, ends: np.ndarray[Any, Any], mode: str) -> Value:
    """x with its mirror image at both ends of the axes, with ("SYMMETRIC") or without the outermost element."""
    if mode == "REFLECT":
        return b.Pad(x, ends.reshape(-1), mode="reflect")
    big = np.iinfo(np.int32).max
    for axis, (before, after) in enumerate(ends.tolist()):
        parts = [x]
        if before:
            parts.insert(0, b.Reverse(b.Slice(x, np.array([0]), np.array([before]), np.array([axis])), axes=(axis,)))
        if after:
            last = b.Slice(x, np.array([-after]), np.array([big]), np.array([axis]))
            parts.append(b.Reverse(last, axes=(axis,)))
        x = b.Concat(*parts, axis=axis) if len(parts) > 1 else x
    return x


@tflite.op("TILE", moves=True)
def _(b, x, multiples):
    return b.Tile(x, wide(b, multiples))


@tflite.op("BROADCAST_TO", moves=True)
def _(b, x, shape):
    return b.Expand(x, wide(b, shape))


@tflite.op("BROADCAST_ARGS")
def _(b, first, second, *, node):
    # The longer one decides; missing leading dimensions are 1, and 1 gives way.
    n, m = (static_count(v) for v in (first, second))
    lead = np.ones(abs(n - m), np.int64)
    a, c = wide(b, first), wide(b, second)
    if n < m:
        a = b.Concat(lead, a, axis=0)
    elif m < n:
        c = b.Concat(lead, c, axis=0)
    return b.Cast(b.Where(b.Equal(a, 1), c, a), to=node.type_out().dtype)


def static_count(x: Value) -> int:
    """The number of elements, which must be known."""
    n = x.type.count
    if n is None:
        raise UnsupportedError("the number of dimensions must be known", why=f"its type is {x.type}")
    return n


@tflite.op("SPACE_TO_DEPTH", moves=True)
def _(b, x, *, block_size=0):
    from minnow.converter.decomposition.channel_last import channels_last, channels_second

    return channels_last(b, b.SpaceToDepth(channels_second(b, x, 2), blocksize=block_size), 2)


@tflite.op("DEPTH_TO_SPACE", moves=True)
def _(b, x, *, block_size=0):
    from minnow.converter.decomposition.channel_last import channels_last, channels_second

    return channels_last(b, b.DepthToSpace(channels_second(b, x, 2), blocksize=block_size), 2)


@tflite.op("SPACE_TO_BATCH_ND", moves=True)
def _(b, x, block, paddings, *, node):
    return batch_space.space_to_batch(b, x, block, paddings, zero_of(x, node))


@tflite.op("BATCH_TO_SPACE_ND", moves=True)
def _(b, x, block, crops):
    return batch_space.batch_to_space(b, x, block, crops)


@tflite.op("REVERSE_V2", moves=True)
def _(b, x, axes):
    if is_known(axes):
        at = ints(axes)
        return b.Reverse(x, axes=at) if at else b.Identity(x)
    n = rank(x, "the input of REVERSE_V2")
    named = b.Mod(b.Unsqueeze(wide(b, axes), axes=(1,)), np.array(max(n, 1)))
    turned = b.ReduceMax(b.Equal(named, np.arange(n)), axes=(0,), keepdims=False)
    for axis in range(n):
        size = b.Gather(b.Shape(x), np.array(axis))
        forward = b.Range(np.array(0), size, np.array(1))
        x = b.Gather(x, b.Where(b.Gather(turned, np.array(axis)), b.Sub(b.Sub(size, 1), forward), forward), axis=axis)
    return x


@tflite.op("REVERSE_SEQUENCE", moves=True)
def _(b, x, lengths, *, seq_dim=0, batch_dim=0):
    return b.ReverseSequence(x, wide(b, lengths), batch_axis=batch_dim, time_axis=seq_dim)
