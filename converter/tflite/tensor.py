"""Tensors of a TFLite file: element types, and constant data, sparse and packed data included."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tflite

from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import ArrayBlob, Blob, DType, LazyBlob, MappedBlob
from minnow.schema.limit import add_stored

if TYPE_CHECKING:
    from minnow.converter.tflite.document import Tensor

Array = np.ndarray[Any, Any]

DTYPES = {
    tflite.TensorType.FLOAT32: DType.F32,
    tflite.TensorType.FLOAT16: DType.F16,
    tflite.TensorType.FLOAT64: DType.F64,
    tflite.TensorType.BFLOAT16: DType.BF16,
    tflite.TensorType.BOOL: DType.BOOL,
    tflite.TensorType.INT8: DType.I8,
    tflite.TensorType.UINT8: DType.U8,
    tflite.TensorType.INT16: DType.I16,
    tflite.TensorType.UINT16: DType.U16,
    tflite.TensorType.INT32: DType.I32,
    tflite.TensorType.UINT32: DType.U32,
    tflite.TensorType.INT64: DType.I64,
    tflite.TensorType.UINT64: DType.U64,
    tflite.TensorType.INT4: DType.I8,  # unpacked, for nothing computes in less
    tflite.TensorType.COMPLEX64: DType.F32,  # pairs
    tflite.TensorType.COMPLEX128: DType.F64,
    tflite.TensorType.RESOURCE: DType.I32,  # its place among the variables, never read
}
"""By number: the type that tensors have here."""

_COMPLEX = frozenset({tflite.TensorType.COMPLEX64, tflite.TensorType.COMPLEX128})
_MAPPED = 1 << 12  # bytes from which on numbers stay in the file until they are needed
_SPARSE_LIMIT = 1 << 24
_SPARSE_RATIO = 1 << 10


@dataclass(frozen=True)
class Sparsity:
    """How a sparse constant is stored.

    Attributes:
        order: of the axes, outermost first; those behind the tensor's own are the blocks'.
        blocks: the axis that each block axis is a part of.
        levels: for each axis of `order` its dimension, or the segments and indices of compressed rows.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: list[int | tuple[Array, Array]]


def name_of(code: int) -> str:
    """An element type in the words of the format, in lower case."""
    return next((k.lower() for k, v in vars(tflite.TensorType).items() if v == code and k.isupper()), f"type {code}")


def dtype_of(code: int, where: str) -> DType:
    """The DType that numbers of an element type have here. Raises UnsupportedError for strings and variants."""
    if code == tflite.TensorType.STRING:
        raise UnsupportedError(
            "string tensors are not supported",
            where=where,
            why="the engine has no tensors of strings",
            hint="begin the model at the tensor where text has become numbers: `--inputs NAME`",
        )
    if code not in DTYPES:
        raise UnsupportedError(f"the element type {name_of(code)} is not supported", where=where)
    return DTYPES[code]


def blob_of(tensor: Tensor, data: memoryview | None) -> Blob | None:
    """The numbers of a constant; None for a tensor that is computed.

    Raises:
        FormatError: they do not fit the shape. UnsupportedError: strings.
    """
    shape = tensor.type.shape if data is not None else ()
    if data is None:
        return None
    if shape is None or any(not isinstance(d, int) for d in shape):
        raise ModelError(f"the shape {shape} of a constant must be known", where=tensor.where)
    dims = tuple(int(d) for d in shape)
    dtype = dtype_of(tensor.code, tensor.where)
    if tensor.sparsity is not None:
        return _sparse(tensor, data, dims, dtype)
    packed = tensor.code == tflite.TensorType.INT4
    count = math.prod(dims)
    size = (count + 1) // 2 if packed else count * dtype.size
    if len(data) != size:
        why = f"{len(data)} bytes for {tensor.kind}{list(dims)}, which needs {size}"
        raise FormatError("the data of a tensor does not fit its shape", where=tensor.where, why=why)
    add_stored(size, None, tensor.where)
    if packed:
        return LazyBlob(lambda: _halves(data, count), dtype, dims)
    if size >= _MAPPED and not tensor.document.offset_of(tensor.buffer) % dtype.size:
        return MappedBlob(tensor.document.path, tensor.document.offset_of(tensor.buffer), dtype, dims)
    return ArrayBlob(_array(data, dtype).reshape(dims))


def _array(data: memoryview, dtype: DType) -> Array:
    if dtype is DType.BOOL:
        return np.frombuffer(data, np.uint8) != 0
    return np.array(np.frombuffer(data, dtype.numpy))


def _halves(data: memoryview, count: int) -> Array:
    """Signed numbers of 4 bits, the first one in the low bits of a byte."""
    raw = np.frombuffer(data, np.uint8)
    both = np.stack([raw << 4, raw & 0xF0], axis=-1).reshape(-1)[:count]
    return both.view(np.int8) >> 4


def _sparse(tensor: Tensor, data: memoryview, shape: tuple[int, ...], dtype: DType) -> Blob:
    """The dense form of a sparse constant, made when it is asked for.

    Raises:
        FormatError: its metadata does not fit its shape, or itself.
    """
    s = tensor.sparsity
    assert s is not None

    def bad(why: str) -> FormatError:
        return FormatError("the sparse tensor is damaged", where=tensor.where, why=why)

    rank, blocks = len(shape), len(s.blocks)
    if sorted(s.order) != list(range(rank + blocks)) or len(s.levels) != rank + blocks:
        raise bad(f"traversal order {s.order} with {len(s.levels)} levels for rank {rank} and {blocks} block axes")
    if any(not 0 <= axis < rank for axis in s.blocks) or len(set(s.blocks)) != blocks:
        raise bad(f"the block map {s.blocks} is invalid")
    # Dimensions of the tiles inside of blocks, and of the grid of blocks along each axis.
    inner = dict.fromkeys(range(rank), 1)
    for axis, level in zip(s.order, s.levels, strict=True):
        if axis >= rank:
            if not isinstance(level, int) or level <= 0:
                raise bad("a block axis is not dense")
            inner[s.blocks[axis - rank]] = level
    dimensions = [-(-shape[a] // inner[a]) if a < rank else inner[s.blocks[a - rank]] for a in range(rank + blocks)]
    if any(shape[a] % inner[a] for a in range(rank)):
        raise bad(f"blocks {inner} do not divide {shape}")
    if dtype.bits < 8 or tensor.code == tflite.TensorType.INT4:
        raise UnsupportedError("sparse tensors of 4 bits are not supported", where=tensor.where)
    stored = len(data) // dtype.size
    if math.prod(shape) > max(_SPARSE_LIMIT, stored * _SPARSE_RATIO):
        raise bad(f"{stored} stored numbers are too few for the shape {shape}")
    places = np.zeros((1, rank + blocks), np.int64)  # one row for each prefix of the order that is stored
    for axis, level in zip(s.order, s.levels, strict=True):
        dimension = dimensions[axis]
        if isinstance(level, int):
            if level != dimension:
                raise bad(f"axis {axis} has the dimension {level}, not {dimension}")
            if len(places) * dimension > len(tensor.document.bytes):  # each place has a number or a segment
                raise bad("it has more elements than the file has bytes")
            index, rows = np.tile(np.arange(dimension), len(places)), np.repeat(np.arange(len(places)), dimension)
        else:
            segments, index = level
            if len(segments) != len(places) + 1 or segments[0] != 0 or segments[-1] != len(index):
                raise bad(f"{len(segments)} segments for {len(places)} rows of {len(index)} numbers")
            if np.any(np.diff(segments) < 0) or np.any((index < 0) | (index >= dimension)):
                raise bad("segments decrease, or an index is out of range")
            rows = np.repeat(np.arange(len(places)), np.diff(segments))
        places = places[rows]
        places[:, axis] = index
    if len(places) != stored or len(data) % dtype.size:
        raise bad(f"{len(data)} bytes do not fit {len(places)} numbers")
    full = places[:, :rank].copy()
    for i, axis in enumerate(s.blocks):
        full[:, axis] = full[:, axis] * inner[axis] + places[:, rank + i]
    at = tuple(full.T)

    def dense() -> Array:
        out = np.zeros(shape, dtype.numpy)
        out[at] = _array(data, dtype)
        return out

    return LazyBlob(dense, dtype, shape)
