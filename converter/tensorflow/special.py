"""Special functions that the engine does not have: by polynomials that hold in float32."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
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


# C. Lanczos' approximation of the gamma function, for g = 7.
_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
            -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip


@tf.op("Lgamma")
def _(b, x):
    wide = b.Cast(x, to=DType.F64)
    below = b.Less(wide, 0.5)
    at = b.Sub(b.Where(below, b.Add(b.Neg(wide), 1.0), wide), 1.0)
    total: Any = b.const(np.array(0.99999999999980993))
    for i, c in enumerate(_LANCZOS):
        total = b.Add(total, b.Div(np.array(c), b.Add(at, float(i + 1))))
    t = b.Add(at, 7.5)
    high = b.Add(b.Add(b.Mul(b.Log(t), b.Add(at, 0.5)), b.Neg(t)), b.Add(b.Log(total), 0.9189385332046727))
    sine = b.Abs(b.Sin(b.Mul(b.Sub(wide, b.Floor(wide)), np.pi)))
    mirrored = b.Sub(b.Add(b.Neg(high), float(np.log(np.pi))), b.Log(sine))
    y = b.Where(below, mirrored, high)
    return b.Cast(b.Where(b.IsInf(wide), b.Abs(wide), y), to=x.type.dtype)


@tf.op("Digamma")
def _(b, x):
    wide = b.Cast(x, to=DType.F64)
    below = b.Less(wide, 0.5)
    at = b.Where(below, b.Add(b.Neg(wide), 1.0), wide)
    # The series holds far out: so many steps lead there.
    steps = reduce(b.Add, [b.Reciprocal(b.Add(at, float(i))) for i in range(8)])
    far = b.Add(at, 8.0)
    square = b.Reciprocal(b.Square(far))
    series = b.Mul(square, b.Sub(b.Mul(square, b.Sub(b.Mul(square, 1 / 252), 1 / 120)), -1 / 12))
    high = b.Sub(b.Sub(b.Sub(b.Log(far), b.Mul(b.Reciprocal(far), 0.5)), series), steps)
    cotangent = b.Div(np.array(np.pi), b.Tan(b.Mul(b.Sub(wide, b.Floor(wide)), np.pi)))
    return b.Cast(b.Where(below, b.Sub(high, cotangent), high), to=x.type.dtype)


# Abramowitz and Stegun, 9.8.1 to 9.8.4: in (x / 3.75)^2 near zero, in 3.75 / |x| far out.
_BESSEL = {
    "0": ((0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0),
          (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592,
           0.39894228)),
    "1": ((0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5),
          (-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024,
           0.39894228)),
}  # fmt: skip


@tf.op("BesselI0", "BesselI0e", "BesselI1", "BesselI1e")
def _(b, x, *, node):
    near, far = _BESSEL[node.op[7]]
    size = b.Abs(x)
    inner = _polynomial(b, b.Square(b.Mul(x, 1 / 3.75)), near)
    if node.op[7] == "1":
        inner = b.Mul(inner, x)
    outside = b.Max(size, 3.75)
    outer = b.Div(_polynomial(b, b.Div(np.array(3.75, x.type.dtype.numpy), outside), far), b.Sqrt(outside))
    if node.op[7] == "1":
        outer = b.Mul(outer, b.Sign(x))
    if node.op.endswith("e"):
        inner = b.Mul(inner, b.Exp(b.Neg(size)))
    else:
        outer = b.Mul(outer, b.Exp(size))
    return b.Where(b.Less(size, 3.75), inner, outer)
