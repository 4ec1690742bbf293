"""TensorList and TensorArray operators. The flow of a TensorArray is opaque in TensorFlow: here it is the
content, and the handle says of what type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast, wide
from minnow.converter.tensorflow.symbolic import tensor_list as lists
from minnow.converter.tensorflow.symbolic.handle import Handle
from minnow.converter.tensorflow.symbolic.tensor_list import Reserved, dims, is_static, scalar
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Value

_SIZE = np.array(0, np.int64)


def _dtype(dtype: Any) -> DType:
    if not isinstance(dtype, DType):
        raise UnsupportedError(f"lists of {dtype} are not supported")
    return dtype


def _reserved(node: Any, size: Value, dtype: Any, shape: Any) -> Reserved:
    return Reserved(size, _dtype(dtype), shape, lists.are_varying(node.context.seen) and not is_static(shape))


def _written(node: Any, made: tuple[Value, Any]) -> Value:
    after, write = made
    node.context.writes[after] = write
    return after


# ---- lists


@tf.op("TensorListReserve", handles=True)
def _(b, shape, count, *, element_dtype, shape_type=None, node):
    return _reserved(node, scalar(b, count), element_dtype, dims(shape))


@tf.op("EmptyTensorList", handles=True)
def _(b, shape, most, *, element_dtype, shape_type=None, node):
    return _reserved(node, b.const(_SIZE), element_dtype, dims(shape))


@tf.op("TensorListFromTensor", handles=True)
def _(b, x, shape, *, element_dtype=None, shape_type=None):
    return x


@tf.op("TensorListStack", handles=True)
def _(b, tensors, shape=None, *, element_dtype=None, num_elements=-1):
    return lists.stacked(b, tensors, dims(shape))


@tf.op("TensorListGetItem", handles=True)
def _(b, tensors, index, shape=None, *, element_dtype=None):
    return lists.get(b, tensors, index)


@tf.op("TensorListSetItem", handles=True)
def _(b, tensors, index, x, *, element_dtype=None, resize_if_index_out_of_bounds=False, node):
    return _written(node, lists.put(b, tensors, index, x, bool(resize_if_index_out_of_bounds)))


@tf.op("TensorListPushBack", handles=True)
def _(b, tensors, x, *, element_dtype=None, node):
    return _written(node, lists.push(b, tensors, x))


@tf.op("TensorListPopBack", handles=True, outputs=("output_handle", "tensor"))
def _(b, tensors, shape=None, *, element_dtype=None):
    rows = lists.content(b, tensors)
    last = np.array(-1, np.int64)
    x = lists.get(b, rows, b.const(last))
    if rows.type.holds_tensors:
        return b.SequenceErase(rows), x
    return b.Slice(rows, [0], [-1], [0]), x


@tf.op("TensorListLength", handles=True)
def _(b, tensors):
    return cast(b, lists.length(b, tensors), DType.I32)


@tf.op("TensorListElementShape", handles=True)
def _(b, tensors, *, shape_type=DType.I32):
    shape = lists.element_type(tensors).shape
    open_ = np.array(-1) if shape is None else np.array([d if isinstance(d, int) else -1 for d in shape])
    return b.const(open_.astype(shape_type.numpy))


@tf.op("TensorListResize", handles=True)
def _(b, tensors, size, *, node):
    if isinstance(tensors, Reserved):
        return Reserved(scalar(b, size), tensors.dtype, tensors.shape, tensors.varying)
    if tensors.type.holds_tensors:
        raise UnsupportedError("resizing a list of tensors of different shapes is not supported")
    wanted = lists.single(b, size)
    longer = b.Max(b.Sub(wanted, b.Shape(tensors, start=0, end=1)), np.zeros(1, np.int64))
    rest = np.zeros(2 * (tensors.type.rank or 1) - 2, np.int64)
    padded = b.Pad(tensors, b.Concat(np.zeros(1, np.int64), longer, rest, axis=0))
    made = b.Slice(padded, np.zeros(1, np.int64), wanted, np.zeros(1, np.int64))
    if tensors.type.shape is not None:
        first = made.type.shape[0] if made.type.shape else UNKNOWN
        made.type = tensors.type.with_shape((first, *tensors.type.shape[1:]))
    return made


@tf.op("TensorListGather", handles=True)
def _(b, tensors, indices, shape=None, *, element_dtype=None):
    return lists.gathered(b, tensors, indices)


@tf.op("TensorListScatterV2", handles=True)
def _(b, x, indices, shape, count, *, element_dtype, shape_type=None, node):
    # -1: as many as the indices say
    if count.data is not None and int(count.data.numpy()) < 0:
        most = b.ReduceMax(wide(b, indices), keepdims=False)
        count = b.Add(most, np.array(1, np.int64))
    return lists.scattered(b, Reserved(scalar(b, count), _dtype(element_dtype), dims(shape)), indices, x)


@tf.op("TensorListScatter", handles=True)
def _(b, x, indices, shape, *, element_dtype, shape_type=None):
    count = b.Add(b.ReduceMax(wide(b, indices), keepdims=False), np.array(1, np.int64))
    return lists.scattered(b, Reserved(scalar(b, count), _dtype(element_dtype), dims(shape)), indices, x)


@tf.op("TensorListScatterIntoExistingList", handles=True)
def _(b, tensors, x, indices, *, element_dtype=None):
    return lists.scattered(b, tensors, indices, x)


@tf.op("TensorListConcat", "TensorListConcatV2", handles=True, outputs=("tensor", "lengths"))
def _(b, tensors, shape=None, leading=None, *, element_dtype=None, element_shape=None, node):
    return _joined(b, tensors, node)


def _joined(b: Any, tensors: Any, node: Any) -> tuple[Any, ...]:
    joined = lists.concatenated(b, tensors)
    return (joined, lists.lengths(b, tensors)) if node.n_outputs > 1 else (joined,)


@tf.op("TensorListSplit", handles=True)
def _(b, x, shape, lengths, *, element_dtype=None, shape_type=None):
    return lists.split(b, x, lengths, not is_static(dims(shape)))


@tf.op("TensorListConcatLists", handles=True)
def _(b, first, second, *, element_dtype=None):
    first, second = (lists.content(b, v) for v in (first, second))
    if first.type.holds_tensors or second.type.holds_tensors:
        raise UnsupportedError("joining lists of tensors of different shapes is not supported")
    return b.Concat(first, second, axis=0)


# ---- arrays


@dataclass(frozen=True, eq=False)
class Array(Handle):
    """The parameters of a TensorArray."""

    dtype: DType
    grows: bool
    kind = "an array of tensors"


def _array(handle: Any) -> Array:
    if not isinstance(handle, Array):
        raise ModelError("the handle does not belong to a TensorArray")
    return handle


@tf.op("TensorArrayV3", "TensorArrayV2", handles=True, outputs=("handle", "flow"))
def _(b, size, *, dtype, element_shape=None, dynamic_size=False, clear_after_read=True, identical_element_shapes=False,
      tensor_array_name="", node):  # fmt: skip
    return Array(_dtype(dtype), bool(dynamic_size)), _reserved(node, scalar(b, size), dtype, element_shape)


@tf.op("TensorArrayWriteV3", "TensorArrayWriteV2", handles=True)
def _(b, handle, index, x, flow, *, node):
    return _written(node, lists.put(b, flow, index, x, _array(handle).grows))


@tf.op("TensorArrayReadV3", "TensorArrayReadV2", handles=True)
def _(b, handle, index, flow, *, dtype=None):
    return lists.get(b, flow, index)


@tf.op("TensorArrayGatherV3", "TensorArrayGatherV2", handles=True)
def _(b, handle, indices, flow, *, dtype=None, element_shape=None):
    if isinstance(flow, Reserved):
        flow = lists.filled(b, flow)
    return lists.gathered(b, flow, indices)


@tf.op("TensorArrayScatterV3", "TensorArrayScatterV2", handles=True)
def _(b, handle, indices, x, flow):
    return lists.scattered(b, flow, indices, x)


@tf.op("TensorArrayConcatV3", "TensorArrayConcatV2", handles=True, outputs=("value", "lengths"))
def _(b, handle, flow, *, dtype=None, element_shape_except0=None, node):
    return _joined(b, flow, node)


@tf.op("TensorArraySplitV3", "TensorArraySplitV2", handles=True)
def _(b, handle, x, lengths, flow):
    return lists.split(b, x, lengths, False)


@tf.op("TensorArraySizeV3", "TensorArraySizeV2", handles=True)
def _(b, handle, flow):
    return cast(b, lists.length(b, flow), DType.I32)


@tf.op("TensorArrayCloseV3", "TensorArrayCloseV2", handles=True, silent=True)
def _(b, handle):
    return ()
