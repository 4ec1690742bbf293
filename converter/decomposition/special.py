"""Special functions that the engine does not have, in polynomials and series of ops that it has."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from minnow.converter.decomposition.bessel import polynomial
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

# M. Giles, "Approximating the erfinv function": polynomials in -log(1 - x^2), in the middle and in the tails.
_MIDDLE = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
           -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAILS = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
          0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


def erfinv(b: Builder, x: Value) -> Value:
    """The inverse of the error function, of f32 numbers; infinite at -1 and 1, NaN beyond."""
    w = b.Neg(b.Log(b.Mul(b.Add(b.Neg(x), 1.0), b.Add(x, 1.0))))
    middle = polynomial(b, b.Sub(w, 2.5), _MIDDLE)
    tails = polynomial(b, b.Sub(b.Sqrt(w), 3.0), _TAILS)
    y = b.Mul(b.Where(b.Less(w, 5.0), middle, tails), x)
    infinite = b.Mul(b.Sign(x), float("inf"))
    made: Value = b.Where(b.Equal(b.Abs(x), 1.0), infinite, y)
    return made


# C. Lanczos' approximation of the gamma function, for g = 7.
_LANCZOS = (676.5203681218851, -1259.1392167224028, 771.32342877765313, -176.61502916214059, 12.507343278686905,
            -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7)  # fmt: skip


def lgamma(b: Builder, x: Value) -> Value:
    """log |gamma(x)|, computed in f64."""
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
    made: Value = b.Cast(b.Where(b.IsInf(wide), b.Abs(wide), y), to=x.type.dtype)
    return made


def digamma(b: Builder, x: Value) -> Value:
    """The derivative of log(gamma(x)), computed in f64."""
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
    made: Value = b.Cast(b.Where(below, b.Sub(high, cotangent), high), to=x.type.dtype)
    return made


# B(2k) / (2k)!, the coefficients of Euler and Maclaurin's formula.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
_STEPS = 10


def hurwitz(b: Builder, s: float, q: Value) -> Value:
    """The sum of (q + k)^-s over k = 0, 1, 2, ..., of f64 numbers q > 0 and s > 1."""
    exponent = b.const(np.array(s))
    terms = [b.Pow(b.Add(q, float(k)), -s) for k in range(_STEPS)]
    made: Value = reduce(b.Add, [*terms, euler_maclaurin(b, exponent, b.Add(q, float(_STEPS)))])
    return made


def euler_maclaurin(b: Builder, s: Value, far: Value) -> Value:
    """The sum of (far + k)^-s over k = 0, 1, 2, ..., of f64 numbers far >= 10."""
    last = b.Pow(far, b.Neg(s))
    total: Any = b.Add(b.Div(b.Mul(last, far), b.Sub(s, 1.0)), b.Mul(last, 0.5))
    power: Any = b.Mul(b.Div(last, far), s)
    for k, c in enumerate(_BERNOULLI):
        total = b.Add(total, b.Mul(power, c))
        rise = b.Mul(b.Add(s, 2.0 * k + 1), b.Add(s, 2.0 * k + 2))
        power = b.Div(b.Mul(power, rise), b.Square(far))
    made: Value = total
    return made


def polygamma(b: Builder, n: int, x: Value) -> Value:
    """The n-th derivative of digamma, n > 0, computed in f64; below 0 by reflection at 1/2."""
    wide = b.Cast(x, to=DType.F64)
    below = b.Less(wide, 0.5)
    sign, factorial = (-1.0) ** (n + 1), float(math.factorial(n))
    high = b.Mul(hurwitz(b, n + 1.0, b.Where(below, b.Add(b.Neg(wide), 1.0), wide)), sign * factorial)
    # The n-th derivative of cot(pi x) is pi^n times a polynomial in cot(pi x), as cot' = -(1 + cot^2).
    p = np.polynomial.Polynomial([0.0, 1.0])
    for _ in range(n):
        p = -p.deriv() * np.polynomial.Polynomial([1.0, 0.0, 1.0])
    cotangent = b.Reciprocal(b.Tan(b.Mul(b.Sub(wide, b.Floor(wide)), np.pi)))
    bend = b.Mul(polynomial(b, cotangent, [float(c) for c in p.coef[::-1]]), np.pi ** (n + 1))
    mirrored = b.Sub(b.Mul(high, (-1.0) ** n), bend)
    pole = b.And(b.LessOrEqual(wide, 0.0), b.Equal(wide, b.Floor(wide)))
    y = b.Where(pole, np.array(sign * np.inf), b.Where(below, mirrored, high))
    made: Value = b.Cast(y, to=x.type.dtype)
    return made
