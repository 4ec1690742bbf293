"""Tensors of an ONNX file: element types, and weights inside or beside the file."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import ArrayBlob, Blob, DType, LazyBlob, MappedBlob, TensorType, Value
from minnow.schema.limit import add_stored, check_shape

Array = np.ndarray[Any, Any]

_NO_STRINGS = "the engine computes with numbers only"
_CUT_STRINGS = "cut the model where its text has become numbers: `--inputs NAME`"


# By number: what the package `onnx` has numpy types for depends on its version.
_DTYPES = {
    1: DType.F32,
    2: DType.U8,
    3: DType.I8,
    4: DType.U16,
    5: DType.I16,
    6: DType.I32,
    7: DType.I64,
    9: DType.BOOL,
    10: DType.F16,
    11: DType.F64,
    12: DType.U32,
    13: DType.U64,
    16: DType.BF16,
    17: DType.F8E4M3FN,
    18: DType.F8E4M3FNUZ,
    19: DType.F8E5M2,
    20: DType.F8E5M2FNUZ,
    21: DType.U4,
    22: DType.I4,
    23: DType.F4E2M1,
    24: DType.F8E8M0,
    25: DType.U2,
    26: DType.I2,
    27: DType.F6E2M3,
    28: DType.F6E3M2,
}
# Where the numbers of a tensor are that are no raw bytes; all others share `int32_data`.
_FIELDS = {
    DType.F32: "float_data",
    DType.F64: "double_data",
    DType.I64: "int64_data",
    DType.U32: "uint64_data",
    DType.U64: "uint64_data",
}


def dtype_of(code: int, where: str) -> DType:
    """The DType of an ONNX element type. Raises UnsupportedError for strings and complex numbers."""
    if code == onnx.TensorProto.STRING:
        raise no_strings(where)
    if code not in _DTYPES:
        names = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise UnsupportedError(f"element type {names.get(code, code)} is not supported", where=where)
    return _DTYPES[code]


def code_of(dtype: DType) -> int:
    """The number that ONNX has for an element type."""
    return next(code for code, known in _DTYPES.items() if known is dtype)


def no_strings(where: str) -> UnsupportedError:
    """What to raise where a string tensor would reach the engine."""
    return UnsupportedError("string tensors are not supported", where=where, why=_NO_STRINGS, hint=_CUT_STRINGS)


def string_constant(shape: Iterable[int], name: str = "") -> Value:
    """Takes the place of a constant of strings, of which only the shape may be read."""
    dims = tuple(int(d) for d in shape)
    check_shape(dims, f"the strings '{name}'")
    blob = ArrayBlob(np.broadcast_to(np.uint8(0), dims))
    return Value(TensorType(blob.dtype, tuple(blob.shape), "string"), name, blob)


def initializer(tensor: onnx.TensorProto, model_path: Path) -> Value:
    """A constant of the file, of strings perhaps."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return string_constant(tensor.dims, tensor.name)
    return Value.constant(load_tensor(tensor, model_path), tensor.name)


def load_tensor(tensor: onnx.TensorProto, model_path: Path) -> Blob:
    """The numbers of a tensor; external ones are mapped.

    Raises:
        FormatError: the data is missing, too short, or the external file may not be read.
    """
    where = f"tensor '{tensor.name}'"
    dtype = dtype_of(tensor.data_type, where)
    shape = tuple(int(d) for d in tensor.dims)
    check_shape(shape, where)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, model_path, dtype, shape)
    return ArrayBlob(_numbers(tensor, dtype, shape, where))


def _numbers(tensor: onnx.TensorProto, dtype: DType, shape: tuple[int, ...], where: str) -> Array:
    count = math.prod(shape)
    if tensor.HasField("raw_data"):
        data = np.frombuffer(tensor.raw_data, np.uint8)
        needed, unit = _packed_size(count, dtype), "bytes"
    else:
        data = np.array(getattr(tensor, _FIELDS.get(dtype, "int32_data")))
        # Types of 2 and 4 bits are packed here, too: a byte each, which is one number of the field.
        packed = dtype.bits in (2, 4)
        needed, unit = _packed_size(count, dtype) if packed else count, "numbers"
    if data.size != needed:
        why = f"{data.size} {unit} for the shape {shape} of {dtype}, which needs {needed}"
        raise FormatError("the data of a tensor does not fit its shape", where=where, why=why)
    if unit == "bytes" or dtype.bits in (2, 4):
        return _unpacked(data.astype(np.uint8, copy=False), dtype, shape)
    if dtype.is_storage or dtype in (DType.F16, DType.BF16):
        data = data.astype(f"u{dtype.size}").view(dtype.numpy)  # the field has their bits
    return data.astype(dtype.numpy, copy=False).reshape(shape)


def _packed_size(count: int, dtype: DType) -> int:
    """Bytes of so many numbers as files have them: those of less than 8 bits lie side by side."""
    return (count * dtype.bits + 7) // 8


def _unpacked(data: Array, dtype: DType, shape: tuple[int, ...]) -> Array:
    """The numbers in packed bytes, from the lowest bit on."""
    bits = dtype.bits
    if bits >= 8:
        return data.view(dtype.numpy).reshape(shape)
    count = math.prod(shape)
    if bits == 6:  # may lie across two bytes
        stream = np.unpackbits(data, count=count * bits, bitorder="little").reshape(count, bits)
        codes = np.packbits(stream, axis=1, bitorder="little").reshape(-1)
    else:
        per = 8 // bits
        codes = np.empty(data.size * per, np.uint8)
        for k in range(per):
            codes[k::per] = data >> np.uint8(k * bits) & np.uint8(2**bits - 1)
    return codes[:count].view(dtype.numpy).reshape(shape)


def _external(tensor: onnx.TensorProto, model_path: Path, dtype: DType, shape: tuple[int, ...]) -> Blob:
    where = f"tensor '{tensor.name}'"
    entries = {e.key: e.value for e in tensor.external_data}
    try:
        location = entries["location"]  # bytes, where they are no text
        offset = int(entries.get("offset", "0"))
        size = _packed_size(math.prod(shape), dtype)
        length = int(entries.get("length", str(size)))
    except (KeyError, ValueError) as e:
        raise FormatError("the external data entry is invalid", where=where, why=f"{type(e).__name__}: {e}") from None
    path = contained(location, model_path, where)
    if length != size or offset < 0 or offset + size > path.stat().st_size:
        raise FormatError(
            "the external data is too short",
            where=where,
            why=f"{size} bytes are needed at {offset}; the entry gives {length}, {path.name} has {path.stat().st_size}",
        )
    add_stored(size, path, where)
    if dtype.bits >= 8:
        return MappedBlob(path, offset, dtype, shape)
    packed = MappedBlob(path, offset, DType.U8, (size,))
    return LazyBlob(lambda: _unpacked(packed.numpy(), dtype, shape), dtype, shape)


_LONGEST_PATH = 4096


def contained(location: str | bytes, model_path: Path, where: str) -> Path:
    """The path of an external file, which must be a plain file inside the model's folder.

    Model files are untrusted: a path that leaves the folder, or a link, could make us read any file of the user's.

    Raises:
        FormatError: it is not.
    """
    if not isinstance(location, str) or "\0" in location or len(location) > _LONGEST_PATH:
        raise FormatError(
            "the name of an external data file is not a path", where=where, why=f"it is {location[:60]!r}..."
        )
    folder = model_path.resolve().parent
    path = Path(os.path.normpath(folder / location))
    hint = "put the data file beside the model"
    try:
        return _plain_file(path, folder, location, where, hint)
    except OSError as e:  # of a part that is longer than the system's names may be, or that is not readable
        raise FormatError(
            f"external data '{location[:60]}' cannot be read", where=where, why=e.strerror or type(e).__name__
        ) from e


def _plain_file(path: Path, folder: Path, location: str, where: str, hint: str) -> Path:
    if not path.is_relative_to(folder) or Path(location).is_absolute():
        raise FormatError(f"external data '{location}' lies outside of the model's folder", where=where, hint=hint)
    for part in [path, *path.parents]:
        if part == folder:
            break
        if part.is_symlink():
            raise FormatError(f"external data '{location}' is a link", where=where, hint=hint)
    if not path.is_file():
        raise FormatError(f"external data '{location}' is missing", where=where, hint=hint)
    if path.stat().st_nlink > 1:
        raise FormatError(f"external data '{location}' is a hard link", where=where, hint="copy the data file")
    return path
