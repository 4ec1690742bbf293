"""Special functions that the engine does not have: by polynomials that hold in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.movement import cast
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

# M. Giles, "Approximating the erfinv function": polynomials in -log(1 - x^2), in the middle and in the tails.
_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAILS = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
          0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def _polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Any:
    y: Any = b.Add(b.Mul(x, coefficients[0]), coefficients[1])
    for c in coefficients[2:]:
        y = b.Add(b.Mul(y, x), c)
    return y


def erfinv(b: Builder, x: Value) -> Value:
    """The inverse of the error function, of f32 numbers; infinite at -1 and 1, NaN beyond."""
    w = b.Neg(b.Log(b.Mul(b.Add(b.Neg(x), 1.0), b.Add(x, 1.0))))
    middle = _polynomial(b, b.Sub(w, 2.5), _MIDDLE)
    tails = _polynomial(b, b.Sub(b.Sqrt(w), 3.0), _TAILS)
    y = b.Mul(b.Where(b.Less(w, 5.0), middle, tails), x)
    infinite = b.Mul(b.Sign(x), float("inf"))
    return b.Where(b.Equal(b.Abs(x), 1.0), infinite, y)


@tf.op("Erfinv")
def _(b, x):
    return cast(b, erfinv(b, cast(b, x, DType.F32)), x.type.dtype)


@tf.op("Ndtri")
def _(b, x):
    y = erfinv(b, b.Sub(b.Mul(cast(b, x, DType.F32), 2.0), 1.0))
    return cast(b, b.Mul(y, float(np.sqrt(2))), x.type.dtype)
