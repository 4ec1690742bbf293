"""Weights of few bits in the form that the format has for those of convolutions, `IDSTQuan`."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.ir import DType, LazyBlob, QuantizedBlob
from minnow.schema.ir.compressed import pack
from minnow.schema.ops.sparse_weights import listed_stream
from minnow.schema.ops.special import Array


def quantized(blob: QuantizedBlob) -> dict[str, Any]:
    """The first kind of compressed weights: shape, a table of all integers, and the codes, which are places in it; or
    the second kind, which lists codes."""
    bits, half = blob.bits, 1 << (blob.bits - 1)
    count, length = blob.groups
    wide = max(count, length) > 0xFFFF
    head = bytes([2]) + np.array([count, length], "<u4" if wide else "<u2").tobytes()
    head += bytes([2 * half % 256]) + np.arange(-half, half).astype(np.int8).tobytes()
    stored = blob.scale_type

    def stream() -> Array:
        return np.frombuffer(head + pack(blob.parts()[0], bits), np.int8)

    def alpha() -> Array:
        _, scale, low = blob.parts()
        both = scale if low is None else np.stack([low, scale], 1).reshape(-1)
        return both.view(np.uint16) if stored is DType.F16 else both

    scales = LazyBlob(alpha, DType.U16 if stored is DType.F16 else DType.F32, (count * (2 if blob.has_low else 1),))
    buffer = LazyBlob(stream, DType.I8, (len(head) + -(-count * length * bits // 8),))
    quantized: dict[str, Any] = {
        "type": 2 if blob.is_sparse else 1,
        "buffer": np.frombuffer(listed_stream(blob), np.int8) if blob.is_sparse else buffer,
        "aMaxOrBits": bits,
        "aMin": -half if blob.has_low else 0,
        "readType": count if blob.has_low else 0,
        "quantScale": 1.0,
        "shapeInt32": wide,
    }
    if stored is DType.F16:
        return quantized | {"alphaFp16": scales, "scaleStorage": "FP16"}
    return quantized | {"alpha": scales}
