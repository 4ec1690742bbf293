"""Quantized weights that have no form of the format's own: packed bytes, and the nodes that make numbers of them.

Every runtime has these nodes. Where they expand a constant, Minnow's engine takes the bytes as weights that are packed
(`runtime/src/decode/expanded_weights.cpp` knows these nodes); of a table, only the rows of a run are expanded.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.ir import ArrayBlob, DType, Node, QuantizedBlob, RoundedBlob, Value
from minnow.schema.ops import Builder

Array = npt.NDArray[Any]


def expand(b: Builder, blob: QuantizedBlob, name: str) -> Value:
    """The numbers of weights, as a value."""
    groups, length = blob.codes.shape
    packed = Value.constant(_packed(blob.codes, blob.bits), name)
    codes = _unpacked(b, packed, blob.bits, length)
    numbers = _numbers(b, codes, blob, *_scales(blob, groups, 1, name))
    return numbers if blob.shape == (groups, length) else b.Reshape(numbers, np.asarray(blob.shape))


def look_up(b: Builder, node: Node, blob: QuantizedBlob, name: str) -> Value:
    """What Gather takes of a table of rows, `blob` having one or more groups for each."""
    rows, width = blob.shape
    blocks = len(blob.codes) // rows
    indices = node.input(1)

    def taken(table: Value) -> Value:
        found: Value = b.Gather(table, indices, axis=0)
        return found

    packed = Value.constant(_packed(blob.codes.reshape(rows, width), blob.bits), name)
    codes = _unpacked(b, taken(packed), blob.bits, width)
    scale, low = _scales(blob, rows, blocks, name)
    spread = np.arange(width) // (width // blocks)

    def of_columns(table: Value | None) -> Value | None:
        if table is None:
            return None
        found = taken(table)
        return found if blocks == 1 else b.Gather(found, spread.astype(np.int32), axis=-1)

    return _numbers(b, codes, blob, of_columns(scale), of_columns(low))


def _numbers(b: Builder, codes: Value, blob: QuantizedBlob, scale: Value | None, low: Value | None) -> Value:
    if low is None:
        product: Value = b.Mul(b.Sub(codes, np.float32(1 << (blob.bits - 1))), scale)
        return product
    total: Value = b.Add(b.Mul(codes, scale), low)
    return total


def _scales(blob: QuantizedBlob, rows: int, blocks: int, name: str) -> tuple[Value, Value | None]:
    def constant(array: Array, what: str) -> Value:
        plain = ArrayBlob(array.astype(np.float32).reshape(rows, blocks))
        stored = RoundedBlob(plain, DType.F16) if array.dtype == np.float16 else plain
        return Value.constant(stored, f"{name}.{what}" if name else "")

    return constant(blob.scale, "scale"), None if blob.low is None else constant(blob.low, "low")


def _packed(codes: Array, bits: int) -> Array:
    """u8: a byte has the codes of one place in each part of a row, the first part in the lowest bits."""
    parts = 8 // bits
    length = -(-codes.shape[1] // parts)
    padded = np.zeros((len(codes), parts * length), np.uint8)
    padded[:, : codes.shape[1]] = codes
    shifted = padded.reshape(len(codes), parts, length) << (bits * np.arange(parts, dtype=np.uint8))[:, None]
    return np.asarray(np.bitwise_or.reduce(shifted, axis=1), np.uint8)


def _unpacked(b: Builder, packed: Value, bits: int, length: int) -> Value:
    """The codes as floats, along the last axis: exact, as all are small integers."""
    rest: Value = b.Cast(packed, to=DType.F32)
    parts: list[Value] = []
    for part in range(8 // bits - 1, 0, -1):
        unit = float(1 << (bits * part))
        high = b.Floor(b.Mul(rest, np.float32(1 / unit)))
        rest = b.Sub(rest, b.Mul(high, np.float32(unit)))
        parts.insert(0, high)
    if not parts:
        return rest
    codes: Value = b.Concat(rest, *parts, axis=-1)
    if -(-length // (8 // bits)) * (8 // bits) == length:
        return codes
    return _first(b, codes, length)


def _first(b: Builder, codes: Value, length: int) -> Value:
    found: Value = b.Gather(codes, np.arange(length, dtype=np.int32), axis=-1)
    return found
