"""Softmax of bytes, with whole numbers only."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, TensorType
from minnow.schema.ops.fixed_function import inverse, product
from minnow.schema.ops.fixed_point import Int32, divided
from minnow.schema.ops.matmul import Int8
from minnow.schema.registry.op import ROUNDING, Arg, op

_RESULTS = (DType.I8, DType.U8, DType.I16)
WHOLE_BITS = 12
"""Of the sum of a row: bits before its point."""


@op(traits=ROUNDING)
def QuantizedSoftmax(x: Int8, exps: Int32, *, to: DType):
    """Softmax along the last axis, in steps of 2**-8 (of 2**-16 for `to` i16) from the least number of the type on.

    `exps` has 256 numbers: entry k is the exponential, in steps of 2**-31, of a number that lies k below the greatest
    one of its row. A row's are added in steps of 2**-19, halves away from zero. Each is multiplied by the reciprocal of
    the sum, which three steps of Newton's method give with 31 bits: halves up, then away from zero.
    """
    info: Any = _limits(to)
    wide = x.astype(np.int64)
    each = exps.astype(np.int64)[wide.max(axis=-1, keepdims=True, initial=-128) - wide]
    total = divided(each, WHOLE_BITS).sum(axis=-1, keepdims=True) & 0xFFFFFFFF
    bits = np.maximum(np.frexp(total.astype(np.float64))[1], 1).astype(np.int64)
    factor = inverse((total << (32 - bits)) & 0x7FFFFFFF, 32)
    right = np.maximum(bits + WHOLE_BITS - 1 - info.bits, 0)
    y = divided(product(each, factor, 32), right)
    return (np.clip(y, 0, info.max - info.min) + info.min).astype(to.numpy)


def _limits(to: DType) -> Any:
    numpy: Any = to.numpy
    return np.iinfo(numpy)


@QuantizedSoftmax.shape
def _(x: Arg, exps: Arg, *, to: DType) -> TensorType:
    if to not in _RESULTS:
        raise ModelError(f"QuantizedSoftmax cannot give {to}")
    if x.shape == ():
        raise ModelError("QuantizedSoftmax needs an axis")
    if exps.shape not in (None, (256,), ("?",)):
        raise ModelError(f"exponentials of shape {exps.shape}: 256 are needed")
    return x.type.with_dtype(to)


@QuantizedSoftmax.samples
def _(rng):
    for kind, to, scale in (np.int8, DType.I8, 0.09), (np.uint8, DType.U8, 0.02), (np.int8, DType.I16, 0.5):
        exps = np.minimum(np.rint(np.exp(-scale * np.arange(256)) * 2.0**31), 2**31 - 1).astype(np.int32)
        info = np.iinfo(kind)
        for shape in (3, 131), (2, 3, 257), (5, 1), (0, 4), (7, 0):
            yield (rng.integers(info.min, info.max + 1, shape).astype(kind), exps), {"to": to}
        yield (np.full((2, 1001), info.max, kind), exps), {"to": to}
