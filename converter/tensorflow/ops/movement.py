"""Shapes and data movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.decomposition.batch_space import batch_to_space, space_to_batch
from minnow.converter.decomposition.strided_slice import strided_slice
from minnow.converter.operand import constant, ints, rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.symbolic.handle import Text
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder
from minnow.schema.registry.dimension import axes_of, axis_of

BIG = np.iinfo(np.int64).max
_MAX_PARTS = 1 << 16


def wide(b: Builder, x: Value) -> Value:
    """Indices as i64, as ops give them that other indices meet."""
    return x if x.type.dtype is DType.I64 else b.Cast(x, to=DType.I64)


def cast(b: Builder, x: Value, to: DType) -> Value:
    return x if x.type.dtype is to else b.Cast(x, to=to)


def axis_operand(value: Value, what: str = "the axis") -> int:
    """An axis, which must be constant."""
    numbers = ints(value, what)
    if len(numbers) != 1:
        raise ModelError(f"{what} must be one number, but has {len(numbers)}")
    return numbers[0]


@tf.op("Shape", handles=True)
def _(b, x, *, out_type=DType.I32):
    if isinstance(x, Text):
        return b.const(np.array(x.shape, out_type.numpy))
    return cast(b, b.Shape(x), out_type)


@tf.op("VariableShape")
def _(b, x, *, out_type=DType.I32):
    return cast(b, b.Shape(x), out_type)


@tf.op("ShapeN")
def _(b, *xs, out_type=DType.I32):
    return tuple(cast(b, b.Shape(x), out_type) for x in xs)


@tf.op("Size")
def _(b, x, *, out_type=DType.I32):
    return cast(b, b.Size(x), out_type)


@tf.op("Rank")
def _(b, x):
    if x.type.rank is not None:
        return b.const(np.array(x.type.rank, np.int32))
    return b.Cast(b.Size(b.Shape(x)), to=DType.I32)


@tf.op("Reshape")
def _(b, x, shape):
    return b.Reshape(x, shape, allowzero=True)


@tf.op("Squeeze")
def _(b, x, *, squeeze_dims=()):
    return b.Squeeze(x, axes=tuple(squeeze_dims)) if squeeze_dims else b.Squeeze(x)


@tf.op("ExpandDims")
def _(b, x, axis):
    return b.Unsqueeze(x, axes=(axis_operand(axis),))


@tf.op("Transpose", "ConjugateTranspose")
def _(b, x, perm):
    if not perm.is_const:
        return _in_computed_order(b, x, perm)
    order = ints(perm, "the order of axes of Transpose")
    return b.Transpose(x, perm=axes_of(order, len(order), "the order of axes"))


def _in_computed_order(b: Builder, x: Value, perm: Value) -> Any:
    """Every element from its place, which is computed, too."""
    n = rank(x, "the input of Transpose")
    shape = b.Shape(x)
    steps = b.Div(b.Size(x), b.Max(b.CumProd(shape, np.array(0)), 1))
    sizes, steps = (b.Gather(v, b.Reshape(perm, np.array([n]))) for v in (shape, steps))
    place = b.const(np.array(0))
    for i in range(n):
        along = b.Range(np.array(0), b.Gather(sizes, np.array(i)), np.array(1))
        place = b.Add(place, b.Reshape(b.Mul(along, b.Gather(steps, np.array(i))), np.array([-1] + [1] * (n - 1 - i))))
    return b.Gather(b.Reshape(x, np.array([-1])), place)


@tf.op("InvertPermutation")
def _(b, x):
    count = b.Range(np.array(0, x.type.dtype.numpy), cast(b, b.Size(x), x.type.dtype), np.array(1, x.type.dtype.numpy))
    return b.ScatterElements(b.Mul(x, 0), x, count)


@tf.op("Concat", "ConcatV2", "ParallelConcat")
def _(b, *xs, shape=None, node):
    if node.op == "ParallelConcat":
        return b.Concat(*xs, axis=0)
    *parts, axis = xs if node.op == "ConcatV2" else (*xs[1:], xs[0])
    return b.Concat(*parts, axis=axis_operand(axis)) if len(parts) > 1 else parts[0]


@tf.op("ConcatOffset")
def _(b, axis, *shapes):
    at, place, out = axis_operand(axis), None, []
    for shape in shapes:
        mask = np.zeros(len(constant(shape)), shape.type.dtype.numpy)
        mask[at] = 1
        place = b.const(mask * 0) if place is None else place
        out.append(place)
        place = b.Add(place, b.Mul(shape, mask))
    return tuple(out)


@tf.op("Pack")
def _(b, *xs, axis=0):
    return b.Concat(*(b.Unsqueeze(x, axes=(axis,)) for x in xs), axis=axis)


@tf.op("Unpack")
def _(b, x, *, num, axis=0):
    return tuple(b.Squeeze(part, axes=(axis,)) for part in split_evenly(b, x, axis, num))


def split_evenly(b: Builder, x: Value, axis: int, n: int) -> Sequence[Value]:
    """x in n equal parts along an axis."""
    if not 0 < n <= _MAX_PARTS:
        raise ModelError(f"a tensor cannot be cut into {n} parts")
    dims = x.type.shape
    dimension = dims[axis_of(axis, len(dims))] if dims is not None else None
    if isinstance(dimension, int):
        if dimension % n:
            raise ModelError(f"the dimension {dimension} cannot be cut into {n} equal parts")
        return b.Split(x, axis=axis, sizes=(dimension // n,) * n, n_outputs=n)
    part = b.Div(b.Shape(x, start=axis, end=axis + 1 or None), np.array([n]))
    return b.Split(x, b.Expand(part, np.array([n])), axis=axis, n_outputs=n)


@tf.op("Split")
def _(b, axis, x, *, num_split):
    return tuple(split_evenly(b, x, axis_operand(axis), num_split))


@tf.op("SplitV")
def _(b, x, sizes, axis, *, num_split):
    at = axis_operand(axis)
    if not 0 < num_split <= _MAX_PARTS:
        raise ModelError(f"a tensor cannot be cut into {num_split} parts")
    if not sizes.is_const:
        return b.Split(x, sizes, axis=at, n_outputs=num_split)
    known = list(ints(sizes))
    if known.count(-1) == 1:
        dimension = (x.type.shape or ())[at] if x.type.shape is not None else None
        rest = sum(known) + 1
        if isinstance(dimension, int):
            known[known.index(-1)] = dimension - rest
        else:
            open_ = b.Sub(b.Shape(x, start=at, end=at + 1 or None), np.array([rest]))
            parts = b.Where(b.const(np.array(known) == -1), open_, b.const(np.array(known, np.int64)))
            return b.Split(x, parts, axis=at, n_outputs=num_split)
    return b.Split(x, axis=at, sizes=tuple(known), n_outputs=num_split)


@tf.op("Slice")
def _(b, x, begin, size):
    if begin.is_const and size.is_const:
        start, dimension = constant(begin).astype(np.int64), constant(size).astype(np.int64)
        return b.Slice(x, start, np.where(dimension == -1, BIG, start + dimension))
    begin, size = wide(b, begin), wide(b, size)
    y = b.Slice(x, begin, b.Where(b.Less(size, 0), b.const(np.array(BIG)), b.Add(begin, size)))
    if size.is_const and np.all(constant(size) >= 0):
        y = b.Reshape(y, size, allowzero=True)  # where it begins is computed, how big it is is not
    return y


@tf.op("StridedSlice")
def _(b, x, begin, end, strides, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0, shrink_axis_mask=0):
    return strided_slice(b, x, begin, end, strides, begin_mask=begin_mask, end_mask=end_mask,
                         ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask,
                         shrink_axis_mask=shrink_axis_mask)  # fmt: skip


@tf.op("Tile")
def _(b, x, repeats):
    return b.Tile(x, repeats)


@tf.op("BroadcastTo")
def _(b, x, shape):
    return b.Expand(x, shape)


@tf.op("BroadcastArgs")
def _(b, x, y):
    n = max(len(b.Shape(v).type.shape) and (v.type.shape or (0,))[0] for v in (x, y))
    if not isinstance(n, int):
        raise UnsupportedError("broadcasting shapes of unknown rank is not supported")
    longer = [b.Concat(np.ones(n - len_, v.type.dtype.numpy), v, axis=0) if (len_ := v.type.shape[0]) < n else v
              for v in (x, y)]  # fmt: skip
    ones = [b.Equal(v, 1) for v in longer]
    return b.Where(ones[0], longer[1], longer[0])


@tf.op("Fill")
def _(b, shape, value):
    return b.Fill(shape, value)


@tf.op("ZerosLike", "OnesLike")
def _(b, x, *, node):
    return b.Fill(b.Shape(x), np.array(node.op == "OnesLike", x.type.dtype.numpy))


@tf.op("Empty")
def _(b, shape, *, dtype, init=False):
    return b.Fill(shape, np.zeros((), dtype.numpy))


@tf.op("Range")
def _(b, start, limit, delta):
    return b.Range(start, limit, delta)


@tf.op("LinSpace")
def _(b, start, stop, num):
    dtype = start.type.dtype
    steps = b.Sub(wide(b, num), 1)
    places = cast(b, b.Range(np.array(0), wide(b, num), np.array(1)), dtype)
    step = b.Div(b.Sub(stop, start), cast(b, b.Max(steps, 1), dtype))
    return b.Add(start, b.Mul(step, places))


def pad_pairs(b: Builder, pads: Value) -> Any:
    """[axes, 2] as the op wants it: begin and end of each axis side by side."""
    return b.Reshape(pads, np.array([-1]))


@tf.op("Pad", "PadV2")
def _(b, x, pads, value=None):
    return b.Pad(x, pad_pairs(b, pads), value)


@tf.op("MirrorPad")
def _(b, x, pads, *, mode):
    if mode == "REFLECT":
        return b.Pad(x, pad_pairs(b, pads), mode="reflect")
    # The outermost element is repeated: what is added are the ends themselves, turned around.
    for axis, (before, after) in enumerate(constant(pads, "the padding").tolist()):
        head = b.Slice(x, np.array([0]), np.array([before]), np.array([axis]))
        tail = b.Slice(x, np.array([-after]), np.array([BIG]), np.array([axis]))
        parts = [b.Reverse(head, axes=(axis,))] * bool(before) + [x] + [b.Reverse(tail, axes=(axis,))] * bool(after)
        x = b.Concat(*parts, axis=axis) if len(parts) > 1 else x
    return x


@tf.op("ReverseV2")
def _(b, x, axes):
    at = ints(axes, "the axes of Reverse")
    return b.Reverse(x, axes=at) if at else x


@tf.op("Reverse")
def _(b, x, dims):
    at = tuple(i for i, d in enumerate(constant(dims, "the axes of Reverse").reshape(-1)) if d)
    return b.Reverse(x, axes=at) if at else x


@tf.op("ReverseSequence")
def _(b, x, lengths, *, seq_dim, batch_dim=0):
    n = rank(x, "the input of ReverseSequence")
    return reverse_sequence(b, x, lengths, axis_of(batch_dim, n), axis_of(seq_dim, n), n)


def reverse_sequence(b: Builder, x: Value, lengths: Value, batch: int, time: int, n: int) -> Value:
    """The first elements along `time` turned around, as many as `lengths` has for each place along `batch`."""
    if {batch, time} == {0, 1}:
        return b.ReverseSequence(x, wide(b, lengths), batch_axis=batch, time_axis=time)
    order = (batch, time, *(i for i in range(n) if i not in (batch, time)))
    y = b.ReverseSequence(b.Transpose(x, perm=order), wide(b, lengths), batch_axis=0, time_axis=1)
    return b.Transpose(y, perm=tuple(np.argsort(order).tolist()))


@tf.op("Roll")
def _(b, x, shift, axis):
    n = rank(x, "the input of Roll")
    for by, at in zip(ints(shift, "the shift of Roll"), ints(axis, "the axes of Roll"), strict=True):
        at = axis_of(at, n)
        dimension = x.type.shape[at]
        if isinstance(dimension, int):
            cut: Any = np.array([-by % dimension if dimension else 0])
            if not cut[0]:
                continue
        else:
            size = b.Shape(x, start=at, end=at + 1)
            cut = b.Mod(np.array([-by]), b.Max(size, 1))
        axes = np.array([at])
        x = b.Concat(b.Slice(x, cut, np.array([BIG]), axes), b.Slice(x, np.array([0]), cut, axes), axis=at)
    return x


def _by_block(b: Builder, x: Value, block: int, data_format: str, op: str) -> Value:
    if data_format == "NCHW":
        return getattr(b, op)(x, blocksize=block)
    if data_format != "NHWC":
        raise UnsupportedError(f"{op} in the layout {data_format} is not supported")
    return b.Transpose(getattr(b, op)(b.Transpose(x, perm=(0, 3, 1, 2)), blocksize=block), perm=(0, 2, 3, 1))


@tf.op("DepthToSpace")
def _(b, x, *, block_size, data_format="NHWC"):
    return _by_block(b, x, block_size, data_format, "DepthToSpace")


@tf.op("SpaceToDepth")
def _(b, x, *, block_size, data_format="NHWC"):
    return _by_block(b, x, block_size, data_format, "SpaceToDepth")


@tf.op("SpaceToBatchND")
def _(b, x, block, paddings):
    return space_to_batch(b, x, block, paddings)


@tf.op("BatchToSpaceND")
def _(b, x, block, crops):
    return batch_to_space(b, x, block, crops)


@tf.op("SpaceToBatch")
def _(b, x, paddings, *, block_size):
    return space_to_batch(b, x, (block_size, block_size), paddings)


@tf.op("BatchToSpace")
def _(b, x, crops, *, block_size):
    return batch_to_space(b, x, (block_size, block_size), crops)
