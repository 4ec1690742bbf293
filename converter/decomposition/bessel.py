"""Bessel and Airy functions of f64 numbers, to about 1e-7, the precision of float32.

The coefficients are those of Abramowitz and Stegun, 9.4.1 to 9.4.6 and 9.8.1 to 9.8.8: in powers of x / 3, x / 3.75 or
x / 2 near zero, and of their reciprocals far out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def polynomial(b: Builder, x: Value, coefficients: Sequence[float]) -> Any:
    """By Horner's rule; the coefficient of the highest power comes first."""
    y: Any = b.Add(b.Mul(x, coefficients[0]), coefficients[1])
    for c in coefficients[2:]:
        y = b.Add(b.Mul(y, x), c)
    return y


_I = (
    ((0.0045813, 0.0360768, 0.2659732, 1.2067492, 3.0899424, 3.5156229, 1.0),
     (0.00392377, -0.01647633, 0.02635537, -0.02057706, 0.00916281, -0.00157565, 0.00225319, 0.01328592, 0.39894228)),
    ((0.00032411, 0.00301532, 0.02658733, 0.15084934, 0.51498869, 0.87890594, 0.5),
     (-0.00420059, 0.01787654, -0.02895312, 0.02282967, -0.01031555, 0.00163801, -0.00362018, -0.03988024,
      0.39894228)),
)  # fmt: skip


def bessel_i(b: Builder, order: int, x: Value, scaled: bool) -> Value:
    """The modified Bessel function of the first kind, of order 0 or 1; `scaled`: times exp(-|x|)."""
    near, far = _I[order]
    size = b.Abs(x)
    inner = polynomial(b, b.Square(b.Mul(x, 1 / 3.75)), near)
    if order:
        inner = b.Mul(inner, x)
    outside = b.Max(size, 3.75)
    outer = b.Div(polynomial(b, b.Div(np.array(3.75, x.type.dtype.numpy), outside), far), b.Sqrt(outside))
    if order:
        outer = b.Mul(outer, b.Sign(x))
    if scaled:
        inner = b.Mul(inner, b.Exp(b.Neg(size)))
    else:
        outer = b.Mul(outer, b.Exp(size))
    made: Value = b.Where(b.Less(size, 3.75), inner, outer)
    return made


_K = (
    ((0.00000740, 0.00010750, 0.00262698, 0.03488590, 0.23069756, 0.42278420, -0.57721566),
     (0.00053208, -0.00251540, 0.00587872, -0.01062446, 0.02189568, -0.07832358, 1.25331414)),
    ((-0.00004686, -0.00110404, -0.01919402, -0.18156897, -0.67278579, 0.15443144, 1.0),
     (-0.00068245, 0.00325614, -0.00780353, 0.01504268, -0.03655620, 0.23498619, 1.25331414)),
)  # fmt: skip


def bessel_k(b: Builder, order: int, x: Value, scaled: bool) -> Value:
    """The modified Bessel function of the second kind; infinite at 0, NaN below. `scaled`: times exp(x)."""
    near, far = _K[order]
    inside, outside = b.Min(x, 2.0), b.Max(x, 2.0)
    log = b.Log(b.Mul(inside, 0.5))
    inner = polynomial(b, b.Square(b.Mul(inside, 0.5)), near)
    if order:
        inner = b.Add(b.Mul(log, bessel_i(b, 1, inside, False)), b.Div(inner, inside))
    else:
        inner = b.Sub(inner, b.Mul(log, bessel_i(b, 0, inside, False)))
    outer = b.Div(polynomial(b, b.Div(np.array(2.0), outside), far), b.Sqrt(outside))
    if scaled:
        inner = b.Mul(inner, b.Exp(inside))
    else:
        outer = b.Mul(outer, b.Exp(b.Neg(outside)))
    made = b.Where(b.Greater(x, 2.0), outer, inner)
    infinite: Value = b.Where(b.Equal(x, 0.0), np.array(np.inf), made)
    return infinite


_J = (
    (0.0002100, -0.0039444, 0.0444479, -0.3163866, 1.2656208, -2.2499997, 1.0),
    (0.00001109, -0.00031761, 0.00443319, -0.03954289, 0.21093573, -0.56249985, 0.5),
)
_Y = (
    (-0.00024846, 0.00427916, -0.04261214, 0.25300117, -0.74350384, 0.60559366, 0.36746691),
    (0.0027873, -0.0400976, 0.3123951, -1.3164827, 2.1682709, 0.2212091, -0.6366198),
)
_SIZE = (
    (0.00014476, -0.00072805, 0.00137237, -0.00009512, -0.00552740, -0.00000077, 0.79788456),
    (-0.00020033, 0.00113653, -0.00249511, 0.00017105, 0.01659667, 0.00000156, 0.79788456),
)
_ANGLE = (
    (0.00013558, -0.00029333, -0.00054125, 0.00262573, -0.00003954, -0.04166397, -math.pi / 4),
    (-0.00029166, 0.00079824, 0.00074348, -0.00637879, 0.00005650, 0.12499612, -3 * math.pi / 4),
)


def _wave(b: Builder, order: int, x: Value) -> tuple[Any, Any]:
    """Amplitude and angle beyond 3."""
    part = b.Div(np.array(3.0), x)
    size = b.Div(polynomial(b, part, _SIZE[order]), b.Sqrt(x))
    return size, b.Add(x, polynomial(b, part, _ANGLE[order]))


def bessel_j(b: Builder, order: int, x: Value) -> Value:
    """The Bessel function of the first kind, of order 0 or 1."""
    inside = polynomial(b, b.Square(b.Mul(x, 1 / 3)), _J[order])
    size, angle = _wave(b, order, b.Max(b.Abs(x), 3.0))
    outside = b.Mul(size, b.Cos(angle))
    if order:
        inside, outside = b.Mul(inside, x), b.Mul(outside, b.Sign(x))
    made: Value = b.Where(b.Less(b.Abs(x), 3.0), inside, outside)
    return made


def bessel_y(b: Builder, order: int, x: Value) -> Value:
    """The Bessel function of the second kind, of order 0 or 1; -inf at 0, NaN below."""
    near = b.Min(x, 3.0)
    inside = polynomial(b, b.Square(b.Mul(near, 1 / 3)), _Y[order])
    inside = b.Div(inside, near) if order else inside
    logs = b.Mul(b.Log(b.Mul(near, 0.5)), 2 / math.pi)
    inside = b.Add(inside, b.Mul(logs, bessel_j(b, order, near)))
    size, angle = _wave(b, order, b.Max(x, 3.0))
    made = b.Where(b.Greater(x, 3.0), b.Mul(size, b.Sin(angle)), inside)
    zero: Value = b.Where(b.Equal(x, 0.0), np.array(-np.inf), made)
    return zero


_FAR, _TERMS = 6.0, 36


def airy(b: Builder, x: Value) -> Value:
    """Airy's function Ai: by its power series near zero, asymptotic ones beyond 6 on both sides."""
    near = b.Clip(x, min=-_FAR, max=_FAR)
    cube = b.Mul(b.Square(near), near)
    first, second = [1.0], [1.0]
    for k in range(1, _TERMS):
        first.append(first[-1] / ((3 * k - 1) * (3 * k)))
        second.append(second[-1] / ((3 * k) * (3 * k + 1)))
    at_zero = 1 / (3 ** (2 / 3) * math.gamma(2 / 3)), 1 / (3 ** (1 / 3) * math.gamma(1 / 3))
    series = b.Sub(
        b.Mul(polynomial(b, cube, first[::-1]), at_zero[0]),
        b.Mul(b.Mul(polynomial(b, cube, second[::-1]), near), at_zero[1]),
    )
    u = [1.0]
    for k in range(1, 9):
        u.append(u[-1] * (6 * k - 5) * (6 * k - 3) * (6 * k - 1) / (216 * k * (2 * k - 1)))
    size = b.Max(b.Abs(x), _FAR)
    z = b.Mul(b.Mul(b.Sqrt(size), size), 2 / 3)
    over, scale = b.Reciprocal(z), b.Mul(b.Sqrt(b.Sqrt(size)), math.sqrt(math.pi))
    right = polynomial(b, over, [(-1) ** k * u[k] for k in range(8, -1, -1)])
    right = b.Div(b.Mul(b.Mul(right, b.Exp(b.Neg(z))), 0.5), scale)
    even = polynomial(b, b.Square(over), [(-1) ** k * u[2 * k] for k in range(4, -1, -1)])
    odd = b.Mul(polynomial(b, b.Square(over), [(-1) ** k * u[2 * k + 1] for k in range(3, -1, -1)]), over)
    angle = b.Add(z, math.pi / 4)
    left = b.Div(b.Sub(b.Mul(b.Sin(angle), even), b.Mul(b.Cos(angle), odd)), scale)
    outside = b.Where(b.Greater(x, 0.0), right, left)
    made = b.Where(b.Greater(b.Abs(x), _FAR), outside, series)
    unlimited: Value = b.Where(b.IsInf(x), np.array(np.nan), made)  # as PyTorch has it
    return unlimited
