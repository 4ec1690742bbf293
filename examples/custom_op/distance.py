"""An op of your own for the conversion: what it gives, and which operator of ONNX it is.

mnnconvert convert model.onnx --op-plugin distance.py
"""

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.schema.ir import TensorType
from minnow.schema.registry.op import Float, op


@op()
def Distance(a: Float, b: Float, *, squared: int = 0):
    """The distances, or their squares, between the rows of two matrices."""
    squares = ((a[:, None, :] - b[None, :, :]) ** 2).sum(-1, dtype=a.dtype)
    return squares if squared else np.sqrt(squares)


@Distance.shape
def _(a, b, squared):
    rows = (a.shape or (None,))[0], (b.shape or (None,))[0]
    return TensorType(a.dtype, None if None in rows else rows)


@onnx.op("com.example::Distance")
def _(b, x, y, *, squared=0):
    return b.Distance(x, y, squared=squared)
