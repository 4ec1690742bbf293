"""Weights in a file without their zeros: the tables of the format for float32 and for small integers."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.ir import QuantizedBlob
from minnow.schema.ir.blob import Array
from minnow.schema.ir.compressed import listed, pack


def without_zeros(weights: Array) -> dict[str, Any]:
    """The fields of the table of a layer that list places and values of float weights, of any shape.

    MNN's runtime needs the counts, and takes them for weights of one group only. Forms for zeros of several output
    channels at the same places end it, if weights were not made for them.
    """
    flat = np.ascontiguousarray(weights, np.float32).reshape(-1)
    places = np.flatnonzero(flat).astype(np.uint32)
    table = {"type": 0, "alpha": flat[places], "index": places, "weightSize": flat.size, "quantScale": 1.0}
    counts = {"NNZElement": places.size, "blockNumber": places.size, "sparseBlockKernel": 1, "sparseBlockOC": 1}
    args = [{"key": key, "i": count} for key, count in sorted(counts.items())]
    return {"quanParameter": table, "sparseParameter": {"args": args}}


def listed_stream(blob: QuantizedBlob) -> bytes:
    """The second kind of compressed weights: codes other than that of 0, each with the distance from the one before."""
    half = 1 << (blob.bits - 1)
    wide = max(blob.codes.shape) > 0xFFFF
    found = listed(blob)
    head = bytes([2]) + np.array(blob.codes.shape, "<u4" if wide else "<u2").tobytes()
    head += np.array(found.steps.size, "<u4").tobytes() + bytes([found.step_bits])
    table = bytes([2 * half % 256]) + np.arange(-half, half).astype(np.int8).tobytes()
    return head + pack(found.steps, found.step_bits) + table + pack(found.codes, blob.bits)
