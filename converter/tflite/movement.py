"""Shapes, data movement, indexing, constants."""

from __future__ import annotations

import numpy as np

from minnow.converter.tflite.frontend import frontend as tflite


@tflite.op("RESHAPE", moves=True)
def _(b, x, shape=None, *, new_shape=()):
    return b.Reshape(x, np.array(new_shape, np.int64) if shape is None else shape, allowzero=True)


@tflite.op("CONCATENATION", moves=True)
def _(b, *xs, axis=0, fused_activation_function="NONE"):
    from minnow.converter.tflite.math import activate

    return activate(b, b.Concat(*xs, axis=axis), fused_activation_function)
