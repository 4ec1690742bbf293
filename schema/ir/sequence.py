"""Tensors in a tensor: the bytes of a sequence (any number of tensors) or an optional (one, or none).

    "sequence" or "optional" | count: i64 | count records
    record: bytes of the record: i64 | name of the element type: 16 bytes, zero at the end | rank: i64 | dims: i64 ... |
            the elements, row-major, with zeros up to a multiple of 8 bytes

Numbers are little-endian, and a record is found behind the one before it: so the size of a sequence that has got one
more tensor follows from the types alone. A sequence in an optional is a record of its bytes, u8 of rank 1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir.blob import Array
from minnow.schema.ir.dtype import DType

_HEADER = struct.Struct("<8sq")
_RECORD = struct.Struct("<q16sq")
_DTYPES = {t.value.encode(): t for t in DType}
_MAX_RANK = 64


def pack(arrays: Iterable[Array], kind: str = "sequence") -> Array:
    """The bytes of arrays, as a u8 array; `kind` is "sequence" or "optional"."""
    parts = list(arrays)
    pieces = [_HEADER.pack(kind.encode(), len(parts))]
    for array in parts:
        data = np.asarray(array)
        padding = -data.nbytes % 8
        size = _RECORD.size + 8 * data.ndim + data.nbytes + padding
        pieces.append(_RECORD.pack(size, DType.of(data.dtype).value.encode(), data.ndim))
        pieces.append(struct.pack(f"<{data.ndim}q", *data.shape))
        pieces.append(data.tobytes())
        pieces.append(bytes(padding))
    return np.frombuffer(b"".join(pieces), np.uint8)


def unpack(data: Array) -> list[Array]:
    """The arrays in the bytes of a sequence or optional, which they share.

    Raises:
        ModelError: the bytes are those of neither, or damaged.
    """
    flat = np.ascontiguousarray(data)
    if flat.dtype != np.uint8 or flat.ndim != 1 or flat.size < _HEADER.size:
        raise ModelError(f"{flat.dtype}{list(flat.shape)} cannot be a sequence")
    kind, count = _HEADER.unpack_from(flat.data)
    if kind not in (b"sequence", b"optional"):
        raise ModelError("the bytes are not those of a sequence", why=f"they begin with {kind!r}")
    if count < 0 or count > (flat.size - _HEADER.size) // _RECORD.size or (kind == b"optional" and count > 1):
        raise ModelError(f"the bytes of the {kind.decode()} are damaged", why=f"it says that it has {count} elements")
    at = _HEADER.size
    out = []
    for i in range(count):
        array, at = _record(flat, at)
        if array is None:
            raise ModelError(f"the bytes of the {kind.decode()} are damaged", why=f"element {i} of {count} is invalid")
        out.append(array)
    if at != flat.size:
        raise ModelError(f"the bytes of the {kind.decode()} are damaged", why="there are some behind its last element")
    return out


def _record(flat: Array, at: int) -> tuple[Array | None, int]:
    """The array of a record, None when it is damaged; and where the next one is."""
    if flat.size - at < _RECORD.size:
        return None, at
    size, name, rank = _RECORD.unpack_from(flat.data, at)
    dtype = _DTYPES.get(name.rstrip(b"\0"))
    if dtype is None or not 0 <= rank <= _MAX_RANK or size < _RECORD.size + 8 * rank or size > flat.size - at:
        return None, at
    shape = struct.unpack_from(f"<{rank}q", flat.data, at + _RECORD.size)
    first = at + _RECORD.size + 8 * rank
    count = 1
    for d in shape:
        count *= d
    used = first - at + count * dtype.size
    if any(d < 0 for d in shape) or size != used + -used % 8:
        return None, at
    return flat[first : first + count * dtype.size].view(dtype.numpy).reshape(shape), at + size
