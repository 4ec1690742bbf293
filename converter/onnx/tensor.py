"""Tensors of an ONNX file: element types, and weights inside or beside the file."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from minnow.schema.errors import FormatError, ModelError, UnsupportedError
from minnow.schema.ir import ArrayBlob, Blob, DType, MappedBlob, TensorType, Value

_NO_STRINGS = "the engine computes with numbers only"
_CUT_STRINGS = "cut the model where its text has become numbers, for example with `onnx.utils.extract_model`"


def dtype_of(code: int, where: str) -> DType:
    """The DType of an ONNX element type. Raises UnsupportedError for strings and complex numbers."""
    if code == onnx.TensorProto.STRING:
        raise no_strings(where)
    try:
        return DType.of(onnx.helper.tensor_dtype_to_np_dtype(code))
    except (KeyError, TypeError):
        names = {v: k for k, v in onnx.TensorProto.DataType.items()}
        raise UnsupportedError(f"element type {names.get(code, code)} is not supported", where=where) from None


def no_strings(where: str) -> UnsupportedError:
    """What to raise where a string tensor would reach the engine."""
    return UnsupportedError("string tensors are not supported", where=where, why=_NO_STRINGS, hint=_CUT_STRINGS)


def string_constant(shape: Iterable[int], name: str = "") -> Value:
    """Stands for a constant of strings as long as nobody reads more of it than its shape."""
    blob = ArrayBlob(np.zeros(tuple(shape), np.uint8))
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
    if any(d < 0 for d in shape):
        raise ModelError(f"the shape {shape} has a negative extent", where=where)
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return _external(tensor, model_path, dtype, shape)
    try:
        return ArrayBlob(numpy_helper.to_array(tensor))
    except (ValueError, TypeError) as e:
        raise FormatError("the numbers of a tensor do not fit its shape", where=where, why=str(e)) from None


def _external(tensor: onnx.TensorProto, model_path: Path, dtype: DType, shape: tuple[int, ...]) -> Blob:
    where = f"tensor '{tensor.name}'"
    entries = {e.key: e.value for e in tensor.external_data}
    try:
        location = entries["location"]
        offset = int(entries.get("offset", "0"))
        size = int(np.prod(shape, dtype=np.int64)) * dtype.size
        length = int(entries.get("length", str(size)))
    except (KeyError, ValueError) as e:
        raise FormatError("the external data entry is invalid", where=where, why=f"{type(e).__name__}: {e}") from None
    path = contained(location, model_path, where)
    if length != size or offset < 0 or offset + size > path.stat().st_size:
        raise FormatError(
            "the external data is too short",
            where=where,
            why=f"{size} bytes at {offset} are needed, the entry says {length}, {path.name} has {path.stat().st_size}",
        )
    return MappedBlob(path, offset, dtype, shape)


def contained(location: str, model_path: Path, where: str) -> Path:
    """The path of an external file, which must be a plain file inside the model's folder.

    Model files are untrusted: a path that leaves the folder, or a link, could make us read any file of the user's.

    Raises:
        FormatError: it is not.
    """
    folder = model_path.resolve().parent
    path = Path(os.path.normpath(folder / location))
    hint = "put the data file beside the model"
    if not path.is_relative_to(folder) or Path(location).is_absolute():
        raise FormatError(f"external data '{location}' lies outside the model's folder", where=where, hint=hint)
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
