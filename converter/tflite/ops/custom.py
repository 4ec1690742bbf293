"""Custom operators in use, mostly MediaPipe's, identified by their custom code."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from flatbuffers import flexbuffers

from minnow.converter.decomposition import channel_last
from minnow.converter.operand import bounded, dimensions, static_dim, turned
from minnow.converter.tflite.frontend import Operation
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.neural import then
from minnow.converter.tflite.option import activation_of
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value

_PADDINGS = {1: "SAME", 2: "VALID"}
_MAX_OPTIONS = 1 << 16


def options_of(node: Operation) -> dict[str, Any]:
    """The options of a custom operator, which are a map in the format FlexBuffers. Raises ModelError for others."""
    data = node.operator.custom
    if not 3 <= len(data) <= _MAX_OPTIONS:
        raise ModelError(f"the options of {node.op} are invalid: they have {len(data)} bytes")
    try:
        root = flexbuffers.GetRoot(data)
        if not root.IsMap:
            raise ValueError("they are not a map")
        table = root.AsMap
        keys = [k.AsKey for k in table.Keys]
        if len(keys) > len(data):
            raise ValueError("there are more keys than bytes")
        found: dict[str, Any] = {}
        for key, value in zip(keys, table.Values, strict=True):
            if value.IsBool:
                found[key] = bool(value.AsBool)
            elif value.IsInt:
                found[key] = int(value.AsInt)
            elif value.IsFloat:
                found[key] = float(value.AsFloat)
            elif value.IsTypedVector or value.IsFixedTypedVector or value.IsVector:
                vector = value.AsVector if value.IsVector else value.AsTypedVector
                if len(vector) > len(data):
                    raise ValueError("there are more numbers than bytes")
                found[key] = tuple(v.AsInt for v in vector if v.IsInt)
        return found
    except (ValueError, TypeError, IndexError, KeyError, struct.error, UnicodeError, OverflowError) as e:
        raise ModelError(f"the options of {node.op} cannot be read", why=f"{type(e).__name__}: {e}") from None


def numbers_of(node: Operation, count: int) -> tuple[int, ...]:
    """The first 32-bit integers of options that are a C struct. Raises ModelError where there are fewer."""
    data = node.operator.custom
    if len(data) < 4 * count:
        raise ModelError(f"the options of {node.op} have {len(data)} bytes, but {4 * count} are needed")
    return struct.unpack_from(f"<{count}i", data)


def _padding(node: Operation, code: int) -> str:
    if code not in _PADDINGS:
        raise ModelError(f"the padding {code} of {node.op} is unknown")
    return _PADDINGS[code]


@tflite.op("Convolution2DTransposeBias")
def _(b, x, w, bias=None, *, node):
    padding, width, height = numbers_of(node, 3)
    return channel_last.transposed_conv(
        b, x, turned(b, w, (3, 0, 1, 2)), bias, None, padding=_padding(node, padding), strides=(height, width)
    )


def _window(node: Operation) -> tuple[str, tuple[int, int], tuple[int, int], str]:
    padding, stride_w, stride_h, width, height, activation = numbers_of(node, 6)
    return _padding(node, padding), (stride_h, stride_w), (height, width), activation_of(activation)


@tflite.op("MaxPoolingWithArgmax2D")
def _(b, x, *, node):
    padding, strides, kernel, activation = _window(node)
    y, at = channel_last.max_pool_with_places(b, x, kernel=kernel, padding=padding, strides=strides)
    place = b.Div(at, static_dim(x.type, 3, "the channels"))
    to = node.type_out(1).dtype
    if to.is_float:
        # A tenth more, so that what rounds toward zero finds the place again.
        place = b.Add(b.Cast(place, to=DType.F32), np.float32(0.1))
    return then(b, activation)(y), place if place.type.dtype is to else b.Cast(place, to=to)


@tflite.op("MaxUnpooling2D")
def _(b, x, places, *, node):
    padding, strides, kernel, _ = _window(node)
    n, height, width, channels = dimensions(b, x, "the input of MaxUnpooling2D")
    if not (isinstance(height, int) and isinstance(width, int) and isinstance(channels, int) and isinstance(n, int)):
        raise ModelError("MaxUnpooling2D of an image of unknown size is not supported")
    if padding == "SAME":
        size = (height * strides[0], width * strides[1])
    else:
        size = ((height - 1) * strides[0] + kernel[0], (width - 1) * strides[1] + kernel[1])
    bounded(n * size[0] * size[1] * channels, "the result of MaxUnpooling2D")
    pixel = b.Cast(places, to=DType.I64)
    # Flat places in [N, H, W, C].
    image = np.arange(n).reshape(-1, 1, 1, 1) * (size[0] * size[1] * channels)
    at = b.Add(b.Add(b.Mul(pixel, channels), np.arange(channels)), image)
    empty = Value.constant(np.zeros(n * size[0] * size[1] * channels, np.float32))
    flat = b.ScatterElements(empty, b.Reshape(at, np.array([-1])), b.Reshape(x, np.array([-1])))
    return b.Reshape(flat, np.array([n, *size, channels]))
