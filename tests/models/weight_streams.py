"""Compressed weights of convolutions (IDSTQuan of type 1 and 3) as a reader for tests has them.

It is written from the description of the format alone, and shares no code with the writer: places are taken bit by bit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def codes(buffer: bytes, wide: bool) -> tuple[Array, int]:
    """The numbers that the places of a stream name in its table, i64[rows, length], and the bits of a place."""
    assert buffer[0] == 2
    size = 4 if wide else 2
    rows, length = (int.from_bytes(buffer[1 + i * size : 1 + (i + 1) * size], "little") for i in range(2))
    at = 1 + 2 * size
    count = buffer[at] or 256
    table = np.frombuffer(buffer[at + 1 : at + 1 + count], np.int8).astype(np.int64)
    assert (np.diff(table) > 0).all()
    bits = max(1, (count - 1).bit_length())
    rest = buffer[at + 1 + count :]
    assert len(rest) == -(-bits * rows * length // 8)
    text = "".join(f"{byte:08b}" for byte in rest)
    places = [int(text[bits * i : bits * (i + 1)], 2) for i in range(rows * length)]
    return table[places].reshape(rows, length), bits


def numbers(quan: Mapping[str, Any]) -> Array:
    """The weights, f64[rows, length] (or in one row for halves)."""
    buffer = np.asarray(quan["buffer"]).tobytes()
    if quan["type"] == 3:
        return np.frombuffer(buffer, "<f2").astype(np.float64)[None]
    q, _ = codes(buffer, bool(quan.get("shapeInt32")))
    half = quan.get("scaleStorage") == "FP16"
    alpha = np.asarray(quan["alphaFp16"]).view(np.float16) if half else np.asarray(quan["alpha"])
    alpha = alpha.astype(np.float64) * (quan.get("quantScale", 1.0) or 1.0)
    if not quan.get("readType"):
        return np.asarray(q * alpha[:, None])
    least = quan.get("aMin", 0) or -128
    low, scale = alpha.reshape(-1, 2).T
    return np.asarray((q - (least if least < 0 else 0)) * scale[:, None] + low[:, None])
