"""Activations that sources spell out, as one node each. Every constant of a spelling is checked."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder, Trait, get


def _number(value: Value) -> float | None:
    """The only element of a constant, where it keeps its value as an attribute, which is a float32."""
    if value.data is None or value.type.count != 1:
        return None
    number = float(value.data.numpy().reshape(-1)[0])
    return None if value.type.dtype is DType.F64 and float(np.float32(number)) != number else number


@rewrite(
    lambda p, x: (
        p.Max(x, p.const("low")) | p.Min(x, p.const("high")) | p.Clip(p.Clip(x, as_="first"), as_="second")
        | p.Clip(p.Relu(x, as_="first"), as_="second") | p.Relu(p.Clip(x, as_="first"), as_="second")
    )
)  # fmt: skip
def fuse_clip(b: Builder, m: Match) -> Value | None:
    """Bounds that are numbers make one Clip.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Max(%x, f32[](-1.0))
          %b: f32[4] = Min(%a, f32[](6.0))
          %y: f32[4] = Relu(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Clip(%x) {min=0.0, max=6.0}
          return %y
        }
    """
    if not m.x.type.dtype.is_float or m.x.is_const:
        return m.no("it does not compute with floats")
    if "second" in m.bound:
        (low, high), (least, most) = _bounds(m.first), _bounds(m.second)
        # The later clip bounds the bounds of the first one too.
        return b.Clip(m.x, min=min(max(low, least), most), max=min(max(high, least), most))
    bound = _number(m.low if "low" in m.bound else m.high)
    if bound is None or math.isnan(bound) or not same_shape(m.x, m.root.output):
        return m.no("the bound is not one number, or changes the shape")
    return b.Clip(m.x, min=bound) if "low" in m.bound else b.Clip(m.x, max=bound)


def _bounds(node: Any) -> tuple[float, float]:
    return (0.0, math.inf) if node.op == "Relu" else (node.attrs.get("min", -math.inf), node.attrs.get("max", math.inf))


@rewrite(lambda p, x: p.Clip(x, min=0.0, max=math.inf), level=1)
def fuse_relu(b: Builder, m: Match) -> Value:
    """A clip that only has the lower bound 0.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Clip(%x) {min=0.0}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Relu(%x)
          return %y
        }
    """
    return b.Relu(m.x)


@rewrite(lambda p, x: p.Max(x, p.Mul(x, p.const("alpha"))))
def fuse_leaky_relu(b: Builder, m: Match) -> Value | None:
    """The larger one of x and a smaller multiple of it.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](0.125))
          %y: f32[4] = Max(%x, %a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = LeakyRelu(%x) {alpha=0.125}
          return %y
        }
    """
    alpha = _number(m.alpha)
    if alpha is None or not 0 < alpha < 1:
        return m.no("the factor is not one number between 0 and 1")
    if not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("the factor changes the shape, or it does not compute with floats")
    return b.LeakyRelu(m.x, alpha=alpha)


def _fits_in(constant: Value, x: Value) -> bool:
    """Broadcasting the constant to x widens no axis, whatever the dynamic dimensions of x are."""
    inner, outer = constant.type.static_shape, x.type.shape
    if outer is None or len(inner) > len(outer):
        return False
    return all(d in (1, outer[i]) for i, d in enumerate(inner, len(outer) - len(inner)))


@rewrite(
    lambda p, x: (
        p.Add(p.Relu(x), p.Mul(p.const("slope"), p.Neg(p.Relu(p.Neg(x)))))
        | p.Add(p.Relu(x), p.Neg(p.Mul(p.const("slope"), p.Relu(p.Neg(x)))))
        | p.Sub(p.Relu(x), p.Mul(p.const("slope"), p.Relu(p.Neg(x))))
        | p.Add(p.Relu(x), p.Mul(p.const("slope"), p.Min(x, 0.0) | p.Clip(x, min=-math.inf, max=0.0)))
        | p.Add(p.Relu(x), p.Mul(p.const("negated"), p.Relu(p.Neg(x))))
    )
)
def fuse_prelu(b: Builder, m: Match) -> Value | None:
    """relu(x) - slope * relu(-x)

    Given:
        graph g(%x: f32[1,2,3]) {
          %a: f32[1,2,3] = Relu(%x)
          %b: f32[1,2,3] = Neg(%x)
          %c: f32[1,2,3] = Relu(%b)
          %d: f32[1,2,3] = Mul(%c, f32[2,1](-0.5, -0.25))
          %y: f32[1,2,3] = Add(%a, %d)
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = PRelu(%x, f32[2,1](0.5, 0.25))
          return %y
        }
    """
    slope = m.slope if "slope" in m.bound else m.negated
    if not (same_shape(m.x, m.root.output) or _fits_in(slope, m.x)) or not m.x.type.dtype.is_float:
        return m.no("the slope changes the shape, or it does not compute with floats")
    if not np.isfinite(slope.data.numpy()).all():
        return m.no("the slope is not finite: it counts where x is positive, too")
    return b.PRelu(m.x, m.slope if "slope" in m.bound else -m.negated.data.numpy())


@rewrite(lambda p, x: p.Mul(x, p.Sigmoid(x)) | p.Div(x, p.Add(p.Exp(p.Neg(x)), 1.0)))
def fuse_silu(b: Builder, m: Match) -> Value:
    """x * sigmoid(x), or x / (1 + exp(-x))

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Sigmoid(%x)
          %y: f32[4] = Mul(%a, %x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Silu(%x)
          return %y
        }
    """
    return b.Silu(m.x)


def _clip6(p: Any, x: Any) -> Any:
    return p.Clip(p.Add(x, 3.0), min=0.0, max=6.0)


@rewrite(
    lambda p, x: (
        p.Mul(x, p.HardSigmoid(x, alpha=lambda a: math.isclose(a, 1 / 6, rel_tol=1e-4), beta=0.5))
        | p.Mul(x, p.Div(_clip6(p, x), 6.0) | p.Mul(_clip6(p, x), 1 / 6))
        | p.Div(p.Mul(x, _clip6(p, x)), 6.0)
        | p.Mul(p.Mul(x, _clip6(p, x)), 1 / 6)
        | p.Mul(p.Div(x, 6.0) | p.Mul(x, 1 / 6), _clip6(p, x))
    )
)
def fuse_hard_swish(b: Builder, m: Match) -> Value | None:
    """x * clip(x + 3, 0, 6) / 6

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Add(%x, f32[](3.0))
          %b: f32[4] = Clip(%a) {min=0.0, max=6.0}
          %c: f32[4] = Mul(%x, %b)
          %y: f32[4] = Div(%c, f32[](6.0))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = HardSwish(%x)
          return %y
        }
    """
    if not m.x.type.dtype.is_float:
        return m.no("it does not compute with floats")
    return b.HardSwish(m.x)


_SQRT2 = math.sqrt(2)


def _erfc_term(p: Any, x: Any) -> Any:
    """erfc(-x / sqrt 2)"""
    turned = p.Neg(p.Div(x, _SQRT2) | p.Mul(x, 1 / _SQRT2)) | p.Div(p.Neg(x), _SQRT2) | p.Mul(p.Neg(x), 1 / _SQRT2)
    return p.Erfc(p.Mul(x, -1 / _SQRT2) | p.Div(x, -_SQRT2) | turned)


def _erf_term(p: Any, x: Any) -> Any:
    """1 + erf(x / sqrt 2)"""
    return p.Add(p.Erf(p.Div(x, _SQRT2) | p.Mul(x, 1 / _SQRT2)), 1.0)


@rewrite(
    lambda p, x: (
        p.Mul(p.Mul(x, _erf_term(p, x)), 0.5) | p.Div(p.Mul(x, _erf_term(p, x)), 2.0)
        | p.Mul(p.Mul(x, 0.5) | p.Div(x, 2.0), _erf_term(p, x))
        | p.Mul(x, p.Mul(_erf_term(p, x), 0.5) | p.Div(_erf_term(p, x), 2.0))
        | p.Mul(x, p.Add(p.Mul(p.Erf(p.Div(x, _SQRT2) | p.Mul(x, 1 / _SQRT2)), 0.5), 0.5))
        | p.Mul(p.Mul(x, 0.5) | p.Div(x, 2.0), _erfc_term(p, x)) | p.Mul(p.Mul(x, _erfc_term(p, x)), 0.5)
        | p.Mul(x, p.Mul(_erfc_term(p, x), 0.5))
    )
)  # fmt: skip
def fuse_gelu(b: Builder, m: Match) -> Value:
    """0.5 * x * (1 + erf(x / sqrt 2))

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Div(%x, f32[](1.4142135))
          %b: f32[4] = Erf(%a)
          %c: f32[4] = Add(%b, f32[](1.0))
          %d: f32[4] = Mul(%x, %c)
          %y: f32[4] = Mul(%d, f32[](0.5))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Gelu(%x)
          return %y
        }
    """
    return b.Gelu(m.x)


_SQRT_2_PI = math.sqrt(2 / math.pi)


def _square(p: Any, x: Any) -> Any:
    return p.Square(x) | p.Mul(x, x) | p.Pow(x, 2.0)


def _cubic(p: Any, x: Any, c: float = _SQRT_2_PI) -> Any:
    """c * (x + 0.044715 x^3)"""
    cube = p.Pow(x, 3.0) | p.Mul(x, _square(p, x))
    cubic = p.Mul(cube, 0.044715) | p.Mul(p.Mul(x, 0.044715), _square(p, x)) | p.Mul(x, p.Mul(_square(p, x), 0.044715))
    factor = p.Add(p.Mul(_square(p, x), 0.044715) | p.Mul(p.Mul(x, 0.044715), x), 1.0)
    return (
        p.Mul(p.Add(x, cubic), c)
        | p.Mul(p.Mul(x, c), factor)
        | p.Mul(x, p.Mul(factor, c))
        | p.Mul(p.Mul(x, factor), c)
        | p.Mul(x, p.Add(p.Mul(_square(p, x), 0.044715 * c), c))
    )


def _tanh_term(p: Any, x: Any) -> Any:
    """1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))"""
    return p.Add(p.Tanh(_cubic(p, x)), 1.0)


@rewrite(
    lambda p, x: (
        p.Mul(p.Mul(x, _tanh_term(p, x)), 0.5) | p.Div(p.Mul(x, _tanh_term(p, x)), 2.0)
        | p.Mul(p.Mul(x, 0.5) | p.Div(x, 2.0), _tanh_term(p, x))
        | p.Mul(x, p.Mul(_tanh_term(p, x), 0.5) | p.Div(_tanh_term(p, x), 2.0))
        | p.Mul(x, p.Add(p.Mul(p.Tanh(_cubic(p, x)), 0.5), 0.5))
        | p.Mul(x, p.Sigmoid(_cubic(p, x, 2 * _SQRT_2_PI)))
    )
)  # fmt: skip
def fuse_gelu_tanh(b: Builder, m: Match) -> Value:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Pow(%x, f32[](3.0))
          %b: f32[4] = Mul(%a, f32[](0.044715))
          %c: f32[4] = Add(%x, %b)
          %d: f32[4] = Mul(%c, f32[](0.7978846))
          %e: f32[4] = Tanh(%d)
          %f: f32[4] = Add(%e, f32[](1.0))
          %g: f32[4] = Mul(%x, %f)
          %y: f32[4] = Mul(%g, f32[](0.5))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Gelu(%x) {approximate="tanh"}
          return %y
        }
    """
    return b.Gelu(m.x, approximate="tanh")


_POWERS = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal", -0.5: "Rsqrt"}


def _is_positive(value: Value) -> bool:
    """No element is negative, -0 included; it may be NaN."""
    node = value.producer
    if value.data is not None:
        numbers = value.data.numpy() if (value.type.count or 0) <= 4096 else None
        return numbers is not None and not np.signbit(numbers).any()
    if node is None:
        return False
    if node.op in ("Add", "ReduceSum", "ReduceMean"):
        return all(v is None or v.type.dtype.is_int or _is_positive(v) for v in node.inputs)
    return Trait.NO_SIGN_BIT in get(node.op).traits or (node.op == "Mul" and node.input(0) is node.input(1))


@rewrite(lambda p, x: p.Pow(x, p.const("exponent")), shared=True)
def split_pow(b: Builder, m: Match) -> Value | None:
    """Powers that have ops of their own, which are faster.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Pow(%x, f32[](2.0))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Square(%x)
          return %y
        }
    """
    exponent = _number(m.exponent)
    if exponent not in _POWERS or not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("the exponent has no op of its own, changes the shape, or is no float")
    if exponent in (0.5, -0.5) and not _is_positive(m.x):
        return m.no("roots of -0 and of -inf are others than these powers")
    return getattr(b, _POWERS[exponent])(m.x)


@rewrite(lambda p, x: p.Mul(x, x), shared=True)
def fuse_square(b: Builder, m: Match) -> Value:
    """x * x

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Mul(%x, %x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Square(%x)
          return %y
        }
    """
    return b.Square(m.x)


@rewrite(lambda p, x: p.Reciprocal(p.Sqrt(x)) | p.Div(1.0, p.Sqrt(x)))
def fuse_rsqrt(b: Builder, m: Match) -> Value:
    """1 / sqrt(x)

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Sqrt(%x)
          %y: f32[4] = Div(f32[](1.0), %a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Rsqrt(%x)
          return %y
        }
    """
    return b.Rsqrt(m.x)
