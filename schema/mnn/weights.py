"""Smaller weights in the tables of a file: float16, few bits, or without zeros. The layers are convolutions of all
kinds, whose `quanParameter` (IDSTQuan) has forms for each; constants can be float16, too."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.schema.mnn import wire
from minnow.schema.mnn.form import FileForm, Net, array_of, ops

# The types of ops with the table Convolution2D whose weights the format can compress.
_KINDS = ("Convolution", "ConvolutionDepthwise", "Deconvolution", "DeconvolutionDepthwise")
_LARGEST_HALF = 65504.0

_SPARSE_SHARE = 0.6
"""A convolution is stored without zeros if more than this share of its weights are zeros, as by MNN's converter. Forms
for zeros of several output channels at the same places end its runtime, if weights were not made for them."""

_LEAST_SCALE = 1e-6
_LEAST_BLOCK = 16
_LARGEST_U16 = 65535


def _layers(net: Net) -> Iterator[tuple[Net, npt.NDArray[Any]]]:
    """The tables of all convolutions that have float weights, with these: one row for each output channel."""
    for op in ops(net):
        main = op.get("main")
        if op.get("type") not in _KINDS or not isinstance(main, dict) or "quanParameter" in main:
            continue
        weight = main.get("weight")
        if weight is not None and int(np.prod(weight.shape, dtype=object)):
            yield main, array_of(weight).astype(np.float32, copy=False).reshape(-1)


def half(net: Net, form: FileForm) -> None:
    """Stores weights and constants as float16, rounded to the nearest; those beyond its range become the largest."""
    for main, weight in _layers(net):
        del main["weight"]
        main["quanParameter"] = {"type": 3, "buffer": _halves(weight).view(np.int8)}
    names = []
    for op in ops(net):
        if (
            op.get("type") == "Const"
            and op["main"].get("dataType", "DT_FLOAT") == "DT_FLOAT"
            and "float32s" in op["main"]
        ):
            blob = op["main"]
            blob["uint8s"] = _halves(array_of(blob.pop("float32s"))).view(np.uint8)
            blob["dataType"] = "DT_HALF"
            names.append(op["name"])
    if names:
        # For our reader: the graph computes in float32 with them.
        extra = wire.read_nested("Extra", np.asarray(net["extraInfo"]["buffer"]).tobytes())
        pairs = [*extra["attr"], {"key": "minnow.halves", "s": json.dumps(names, separators=(",", ":"))}]
        extra["attr"] = sorted(pairs, key=lambda pair: pair["key"])
        net["extraInfo"]["buffer"] = np.frombuffer(wire.write_nested("Extra", extra), np.int8)


def _halves(numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
    rounded: npt.NDArray[Any] = np.clip(numbers.reshape(-1), -_LARGEST_HALF, _LARGEST_HALF).astype("<f2")
    return rounded


def sparse(net: Net, form: FileForm) -> None:
    """Stores the places and values of the weights that are not 0, for layers with enough zeros."""
    for main, weight in _layers(net):
        places = np.flatnonzero(weight).astype(np.uint32)
        if places.size >= (1 - _SPARSE_SHARE) * weight.size:
            continue
        del main["weight"]
        main["quanParameter"] = {
            "type": 0,
            "alpha": weight[places],
            "index": places,
            "weightSize": weight.size,
        }
        counts = {"NNZElement": places.size, "blockNumber": places.size, "sparseBlockKernel": 1, "sparseBlockOC": 1}
        main["sparseParameter"] = {"args": [{"key": key, "i": count} for key, count in sorted(counts.items())]}


def quantize(net: Net, form: FileForm) -> None:
    """Stores weights as integers of `form.weight_bits` bits, with a scale for each output channel or block.

    A weight is (q - least q) * scale + minimum, or q * scale if the integers are symmetric.
    """
    bits = form.weight_bits
    for main, weight in _layers(net):
        channels = int(main.get("common", {}).get("outputCount", 1))
        rows = _rows(weight, main, channels, form.block)
        if rows is None:
            continue
        del main["weight"]
        q, alpha = _quantized(rows, bits, form.asymmetric)
        quan: Net = {
            "type": 1,
            "buffer": np.frombuffer(_stream(q, bits), np.int8),
            "quantScale": 1.0,
            "aMaxOrBits": bits,
            "readType": rows.shape[0] if form.asymmetric else 0,
            "aMin": -(1 << (bits - 1)) if form.asymmetric else 0,
            "shapeInt32": max(rows.shape) > _LARGEST_U16,
        }
        if form.half_scales:
            quan |= {"alphaFp16": _halves(alpha).view("<u2"), "scaleStorage": "FP16"}
        else:
            quan["alpha"] = alpha
        main["quanParameter"] = quan


def _rows(weight: npt.NDArray[Any], main: Net, channels: int, block: int) -> npt.NDArray[Any] | None:
    """The weights with one row for each scale, in their order in the file; None if they are no such rows.

    Those of a deconvolution begin with the input channel; the format divides them into rows all the same.
    """
    if weight.size % channels:
        return None
    common = main.get("common", {})
    kernel = int(common.get("kernelX", 1)) * int(common.get("kernelY", 1))
    inputs = weight.size // channels // kernel
    if block >= _LEAST_BLOCK and block % _LEAST_BLOCK == 0 and inputs % block == 0:
        return weight.reshape(channels * inputs // block, block * kernel)
    return weight.reshape(channels, -1)


def _quantized(rows: npt.NDArray[Any], bits: int, asymmetric: bool) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The integers, and the numbers of each row: its scale; or its minimum and its scale."""
    most, least = (1 << (bits - 1)) - 1, -(1 << (bits - 1))
    wide = rows.astype(np.float64)
    if asymmetric:
        low = wide.min(axis=1, keepdims=True)
        scale = ((wide.max(axis=1, keepdims=True) - low) / ((1 << bits) - 1)).astype(np.float32).astype(np.float64)
        q = np.where(scale > _LEAST_SCALE, np.rint((wide - low) / np.maximum(scale, _LEAST_SCALE)) + least, least)
        return np.clip(q, least, most).astype(np.int64), np.hstack([low, scale]).astype(np.float32).reshape(-1)
    scale = (np.abs(wide).max(axis=1, keepdims=True) / most).astype(np.float32).astype(np.float64)
    q = np.where(scale > _LEAST_SCALE, np.rint(wide / np.maximum(scale, _LEAST_SCALE)), 0)
    return np.clip(q, -most, most).astype(np.int64), scale.astype(np.float32).reshape(-1)


def _stream(q: npt.NDArray[Any], bits: int) -> bytes:
    """The shape, a table of all integers, and the place of each element in it, highest bit first."""
    wide = max(q.shape) > _LARGEST_U16
    head = bytes([2]) + np.asarray(q.shape, "<u4" if wide else "<u2").tobytes()
    table = np.arange(-(1 << (bits - 1)), 1 << (bits - 1), dtype=np.int8)
    places = (q.reshape(-1) + (1 << (bits - 1))).astype(np.uint8)
    packed = np.packbits(np.unpackbits(places[:, None], axis=1)[:, 8 - bits :].reshape(-1))
    return head + bytes([len(table) & 255]) + table.tobytes() + packed.tobytes()
