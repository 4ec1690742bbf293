"""Tensors, element types, shapes and attributes of TensorFlow's files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from minnow.converter.tensorflow.message import type_code, type_name
from minnow.converter.tensorflow.symbolic.handle import Text
from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Dim, DType, Value
from minnow.schema.limit import add_bytes

Array = np.ndarray[Any, Any]

COMPLEX = {"DT_COMPLEX64": DType.F32, "DT_COMPLEX128": DType.F64}
"""Complex numbers are pairs of these, along a last axis of their own."""

_NAMES = {
    "DT_FLOAT": DType.F32,
    "DT_DOUBLE": DType.F64,
    "DT_HALF": DType.F16,
    "DT_BFLOAT16": DType.BF16,
    "DT_INT8": DType.I8,
    "DT_UINT8": DType.U8,
    "DT_INT16": DType.I16,
    "DT_UINT16": DType.U16,
    "DT_INT32": DType.I32,
    "DT_UINT32": DType.U32,
    "DT_INT64": DType.I64,
    "DT_UINT64": DType.U64,
    "DT_BOOL": DType.BOOL,
    # Quantized values are plain integers here.
    "DT_QINT8": DType.I8,
    "DT_QUINT8": DType.U8,
    "DT_QINT16": DType.I16,
    "DT_QUINT16": DType.U16,
    "DT_QINT32": DType.I32,
    "DT_FLOAT8_E5M2": DType.F8E5M2,
    "DT_FLOAT8_E4M3FN": DType.F8E4M3FN,
    "DT_INT4": DType.I4,
    "DT_UINT4": DType.U4,
}
_DTYPES = {type_code(name): dtype for name, dtype in _NAMES.items()}
_REFERENCE = 100  # what the number of a type is more for a reference to a variable of that type

# Where the numbers of a tensor are that are no raw bytes.
_FIELDS = {
    DType.F32: "float_val",
    DType.F64: "double_val",
    DType.F16: "half_val",
    DType.BF16: "half_val",
    DType.I64: "int64_val",
    DType.U32: "uint32_val",
    DType.U64: "uint64_val",
    DType.BOOL: "bool_val",
}
_MAX_RANK = 254
_MAX_BYTES = 1 << 33  # of one tensor: files that say more are damaged


def dtype_of(code: int, where: str = "") -> DType:
    """The DType of an element type. Raises UnsupportedError for text, resources and the like."""
    known = _DTYPES.get(code - _REFERENCE if code > _REFERENCE else code)
    if known is None:
        raise UnsupportedError(f"tensors of {type_name(code)} are not supported", where=where)
    return known


def shape_of(shape: Any) -> tuple[Dim, ...] | None:
    """The shape of a file; None when not even the rank is known."""
    if shape.unknown_rank:
        return None
    if len(shape.dim) > _MAX_RANK:
        raise ModelError(f"a shape has {len(shape.dim)} axes", why=f"TensorFlow has at most {_MAX_RANK}")
    return tuple(int(d.size) if d.size >= 0 else UNKNOWN for d in shape.dim)


def constant_of(tensor: Any, name: str) -> Value | Text:
    """A tensor of the file; complex numbers as pairs, along a last axis of their own.

    Raises:
        FormatError: the numbers do not fit the shape. UnsupportedError: of no type of numbers.
    """
    where = f"tensor '{name}'"
    shape = tuple(d.size for d in tensor.tensor_shape.dim)
    if tensor.tensor_shape.unknown_rank or any(d < 0 for d in shape) or len(shape) > _MAX_RANK:
        raise FormatError("the shape of a constant must be known", where=where, why=f"it is {list(shape)[:8]}")
    kind = type_name(tensor.dtype)
    if kind == "DT_STRING":
        return Text(shape)
    if kind in COMPLEX:
        dtype, field = COMPLEX[kind], "scomplex_val" if kind == "DT_COMPLEX64" else "dcomplex_val"
        # Where there are fewer numbers than the shape needs, the last pair stands for the rest.
        return Value.constant(_numbers(tensor, dtype, shape, field, where, 2), name)
    dtype = dtype_of(tensor.dtype, where)
    return Value.constant(_numbers(tensor, dtype, shape, _FIELDS.get(dtype, "int_val"), where), name)


def _numbers(tensor: Any, dtype: DType, shape: tuple[int, ...], field: str, where: str, group: int = 1) -> Array:
    count = math.prod(shape)
    full = shape if group == 1 else (*shape, group)
    if count * group * dtype.size > _MAX_BYTES:
        raise FormatError("a constant is too big", where=where, why=f"its shape is {list(shape)}")
    content = tensor.tensor_content
    if content:
        if len(content) != count * group * dtype.size:
            why = f"{len(content)} bytes for the shape {list(shape)} of {dtype}"
            raise FormatError("the data of a tensor does not fit its shape", where=where, why=why)
        return np.frombuffer(content, dtype.numpy).reshape(full)
    if field == "int_val" and dtype.is_storage:
        given = np.frombuffer(tensor.float8_val, dtype.numpy) if tensor.float8_val else np.zeros(0, dtype.numpy)
    else:
        given = np.array(getattr(tensor, field))
        if field == "half_val":
            given = given.astype(np.uint16).view(dtype.numpy)
        given = given.astype(dtype.numpy)
    if given.size % group or given.size // group > max(count, 1):
        why = f"{given.size} numbers for the shape {list(shape)}"
        raise FormatError("the data of a tensor does not fit its shape", where=where, why=why)
    rows = given.reshape(-1, group)
    if not len(rows):
        rows = np.zeros((1, group), dtype.numpy)
    rows = rows[:count]
    if len(rows) == 1:  # takes no memory
        return np.broadcast_to(rows.reshape(group if group > 1 else ()), full)
    add_bytes(2 * count * group * dtype.size, where)  # the last of a few numbers stands for all the others
    rest = np.broadcast_to(rows[-1:], (count - len(rows), group))
    return np.concatenate([rows, rest]).reshape(full)


def attribute_of(value: Any, bound: Mapping[str, Any], where: str) -> Any:
    """An attribute as a plain Python value; None when the call of a function does not bind it.

    Types are a DType, or their name where they are none of numbers; shapes tuples, or None for an unknown rank;
    functions stay messages. `bound` holds what takes the place of references, in this form.
    """
    kind = value.WhichOneof("value")
    if kind is None:
        return None
    item = getattr(value, kind)
    if kind == "s":
        return item.decode("utf-8", "replace")
    if kind == "type":
        return type_of(item)
    if kind == "shape":
        return shape_of(item)
    if kind == "tensor":
        return constant_of(item, where)
    if kind == "placeholder":
        return bound.get(item)
    if kind != "list":
        return item
    if item.type:
        return tuple(type_of(t) for t in item.type)
    if item.shape:
        return tuple(shape_of(s) for s in item.shape)
    if item.s:
        return tuple(s.decode("utf-8", "replace") for s in item.s)
    return tuple(item.i) or tuple(item.f) or tuple(item.b) or tuple(item.func)


def type_of(code: int) -> DType | str:
    """A type as mappings get it: a DType, or the name of one that is not of plain numbers, "DT_STRING"."""
    known = _DTYPES.get(code - _REFERENCE if code > _REFERENCE else code)
    return type_name(code) if known is None else known
