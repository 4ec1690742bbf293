"""The numbers of a .caffemodel, by layer."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from minnow.converter.caffe.message import BlobProto, LooseBlob
from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import Value

Array = np.ndarray[Any, Any]

_RAW = {"DOUBLE": "<f8", "FLOAT": "<f4", "FLOAT16": "<f2"}


def blobs_by_layer(net: Any) -> dict[str, list[Any]]:
    """The blobs of each layer that has some, by its name; of layers of one name those of the last."""
    found: dict[str, list[Any]] = {}
    for layer in (*net.layers, *net.layer):
        first = getattr(layer, "layer", None)
        blobs = list(layer.blobs) or (list(first.blobs) if first is not None else [])
        if blobs:
            found[layer.name or (first.name if first is not None else "")] = blobs
    return found


def constant(blob: Any, name: str, where: str) -> Value:
    """A blob as a constant of float32. Raises FormatError when its numbers do not fit its shape."""
    numbers = _numbers(blob, name, where)
    shape = tuple(blob.shape.dim)
    if not blob.HasField("shape"):
        old = [blob.num, blob.channels, blob.height, blob.width]
        # Files that name no extents at all are of one axis.
        legacy = any(blob.HasField(n) for n in ("num", "channels", "height", "width"))
        shape = tuple(old) if legacy else (numbers.size,)
    if any(d < 0 for d in shape) or prod(shape) != numbers.size:
        raise FormatError(f"the weights '{name}' are damaged", where=where, why=f"{numbers.size} numbers for {shape}")
    return Value.constant(numbers.reshape(shape), name)


def _numbers(blob: Any, name: str, where: str) -> Array:
    try:
        if blob.raw_data:
            kind = BlobProto.Type.Name(blob.raw_data_type)
            if kind not in _RAW:
                raise UnsupportedError(f"the weights '{name}' are of the type {kind}", where=where)
            return np.frombuffer(blob.raw_data, _RAW[kind]).astype(np.float32)
        if blob.data:
            return np.frombuffer(blob.data, "<f4")
        if blob.double_data:
            return np.frombuffer(blob.double_data, "<f8").astype(np.float32)
    except ValueError as e:
        raise FormatError(f"the weights '{name}' are damaged", where=where, why=str(e)) from None
    loose = LooseBlob.FromString(blob.SerializeToString())
    return np.array(loose.data or loose.double_data, np.float32)
