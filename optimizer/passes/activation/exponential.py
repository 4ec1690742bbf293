"""More activations that sources spell out: those with exponentials, choices and clips."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.optimizer.passes.activation.basic import _number
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape, tolerance_of
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_RECIPROCAL = {DType.F64: 0.0, DType.F32: 1e-6}
"""By how much of it a number and the reciprocal of another one may differ."""


def _tolerance(x: Value) -> float:
    return _RECIPROCAL.get(x.type.dtype, tolerance_of(x.type.dtype))


def _half(p: Any, x: Any) -> Any:
    return p.Mul(x, 0.5) | p.Div(x, 2.0)


def _one_and_exp(p: Any, x: Any) -> Any:
    return p.Add(p.Exp(x), 1.0)


@rewrite(
    lambda p, x: (
        p.Div(1.0, _one_and_exp(p, p.Neg(x))) | p.Reciprocal(_one_and_exp(p, p.Neg(x)))
        | p.Add(p.Mul(p.Tanh(_half(p, x)), 0.5), 0.5)
        | p.Mul(p.Add(p.Tanh(_half(p, x)), 1.0), 0.5) | p.Div(p.Add(p.Tanh(_half(p, x)), 1.0), 2.0)
    )
)  # fmt: skip
def fuse_sigmoid(b: Builder, m: Match) -> Value:
    """1 / (1 + exp(-x)), or (1 + tanh(x / 2)) / 2

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %b: f32[4] = Exp(%a)
          %c: f32[4] = Add(%b, f32[](1.0))
          %y: f32[4] = Div(f32[](1.0), %c)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Sigmoid(%x)
          return %y
        }
    """
    return b.Sigmoid(m.x)


@rewrite(lambda p, x: p.Div(1.0, x), shared=True)
def fuse_reciprocal(b: Builder, m: Match) -> Value | None:
    """1 / x

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Div(f32[](1.0), %x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Reciprocal(%x)
          return %y
        }
    """
    if not m.x.type.dtype.is_float or m.x.is_const:
        return m.no("it does not compute with floats")
    if float(np.asarray(m.root.input(0).array).reshape(-1)[0]) != 1:
        return m.no("the dividend is close to 1, but not equal")
    return b.Reciprocal(m.x)


@rewrite(lambda p, x: p.Div(x, p.Add(p.Abs(x), 1.0)))
def fuse_softsign(b: Builder, m: Match) -> Value | None:
    """x / (1 + |x|)

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Abs(%x)
          %b: f32[4] = Add(f32[](1.0), %a)
          %y: f32[4] = Div(%x, %b)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Softsign(%x)
          return %y
        }
    """
    return b.Softsign(m.x) if m.x.type.dtype.is_float else m.no("it does not compute with floats")


def _softplus(p: Any, x: Any) -> Any:
    return p.Log(_one_and_exp(p, x)) | p.Log1p(p.Exp(x))


@rewrite(lambda p, x: _softplus(p, x), level=3, target="minnow")
def fuse_softplus(b: Builder, m: Match) -> Value:
    """log(1 + exp(x)); where exp(x) is too large for a float, the op still gives x.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Exp(%x)
          %b: f32[4] = Add(%a, f32[](1.0))
          %y: f32[4] = Log(%b)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Softplus(%x)
          return %y
        }
    """
    return b.Softplus(m.x)


@rewrite(lambda p, x: p.Mul(x, p.Tanh(p.Softplus(x) | _softplus(p, x))))
def fuse_mish(b: Builder, m: Match) -> Value:
    """x * tanh(log(1 + exp(x))): a sum that is too large makes it x in either form.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Exp(%x)
          %b: f32[4] = Log1p(%a)
          %c: f32[4] = Tanh(%b)
          %y: f32[4] = Mul(%x, %c)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Mish(%x)
          return %y
        }
    """
    return b.Mish(m.x)


@rewrite(
    lambda p, x: (
        p.Clip(p.Add(p.Mul(x, p.const("alpha")) | p.Div(x, p.const("divisor")), p.const("beta")), min=0.0, max=1.0)
        | p.Div(p.Clip(p.Add(x, p.const("shift")), min=0.0, as_="clip"), p.const("divisor"))
        | p.Mul(p.Clip(p.Add(x, p.const("shift")), min=0.0, as_="clip"), p.const("alpha"))
    )
)
def fuse_hard_sigmoid(b: Builder, m: Match) -> Value | None:
    """clip(alpha * x + beta, 0, 1), or clip(x + shift, 0, width) / width

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Add(%x, f32[](3.0))
          %b: f32[4] = Clip(%a) {min=0.0, max=6.0}
          %y: f32[4] = Div(%b, f32[](6.0))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = HardSigmoid(%x) {alpha=0.16666666666666666}
          return %y
        }
    """
    numbers = {n: _number(m.bound[n]) for n in ("alpha", "divisor", "beta", "shift") if n in m.bound}
    if None in numbers.values() or not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("a constant is not one number, or changes the shape, or it does not compute with floats")
    known = {n: v for n, v in numbers.items() if v is not None}
    if not all(map(math.isfinite, known.values())) or known.get("divisor") == 0:
        return m.no("a constant is not finite")
    alpha = known["alpha"] if "alpha" in known else 1 / known["divisor"]
    if m.x.type.dtype is DType.F64 and not ("alpha" in known and "clip" not in m.bound):
        return m.no("to doubles its reciprocal is another number")
    if "clip" not in m.bound:
        return b.HardSigmoid(m.x, alpha=alpha, beta=known["beta"])
    # A clip whose end is negative, and below its begin, gives nothing but that end.
    if alpha <= 0 or not math.isclose(alpha * m.clip.attrs.get("max", math.inf), 1, rel_tol=_tolerance(m.x)):
        return m.no("it does not end at 1")
    return b.HardSigmoid(m.x, alpha=alpha, beta=known["shift"] * alpha)


def _chosen(p: Any, x: Any, below: Any) -> Any:
    """x where it is positive, else something else."""
    return (
        p.Where(p.Greater(x, 0.0) | p.GreaterOrEqual(x, 0.0), x, below)
        | p.Where(p.Less(x, 0.0) | p.LessOrEqual(x, 0.0), below, x)
    )  # fmt: skip


def _least(p: Any, x: Any) -> Any:
    return p.Clip(x, min=-math.inf, max=0.0) | p.Min(x, 0.0)


def _expm1(p: Any, x: Any) -> Any:
    return p.Expm1(x) | p.Sub(p.Exp(x), 1.0) | p.Add(p.Exp(x), -1.0)


@rewrite(
    lambda p, x: (
        _chosen(p, x, _expm1(p, x) | p.Mul(_expm1(p, x), p.const("alpha")))
        | p.Add(p.Relu(x), _expm1(p, _least(p, x)) | p.Mul(_expm1(p, _least(p, x)), p.const("alpha")))
    )
)
def fuse_elu(b: Builder, m: Match) -> Value | None:
    """x where it is positive, alpha * (exp(x) - 1) elsewhere.

    Given:
        graph g(%x: f32[4]) {
          %a: bool[4] = Greater(%x, f32[](0.0))
          %b: f32[4] = Exp(%x)
          %c: f32[4] = Sub(%b, f32[](1.0))
          %d: f32[4] = Mul(%c, f32[](0.5))
          %y: f32[4] = Where(%a, %x, %d)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Elu(%x) {alpha=0.5}
          return %y
        }
    """
    alpha = _number(m.alpha) if "alpha" in m.bound else 1.0
    if alpha is None or not math.isfinite(alpha) or not same_shape(m.x, m.root.output):
        return m.no("the factor is not one finite number, or changes the shape")
    return b.Elu(m.x, alpha=alpha)


@rewrite(lambda p, x: p.Mul(p.Elu(x, as_="elu"), p.const("gamma")))
def fuse_selu(b: Builder, m: Match) -> Value | None:
    """Elu times a number.

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Elu(%x) {alpha=1.5}
          %y: f32[4] = Mul(%a, f32[](1.25))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Selu(%x) {alpha=1.5, gamma=1.25}
          return %y
        }
    """
    gamma = _number(m.gamma)
    if gamma is None or not math.isfinite(gamma) or not same_shape(m.x, m.root.output):
        return m.no("the factor is not one finite number, or changes the shape")
    return b.Selu(m.x, alpha=m.elu.attrs.get("alpha", 1.0), gamma=gamma)


def _bent(p: Any, x: Any) -> Any:
    """alpha * (exp(x / alpha) - 1)"""
    inner = _expm1(p, p.Div(x, p.const("alpha")) | p.Mul(x, p.const("inverse")))
    return p.Mul(inner, p.const("factor"))


@rewrite(lambda p, x: p.Add(p.Relu(x), _least(p, _bent(p, x))))
def fuse_celu(b: Builder, m: Match) -> Value | None:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Relu(%x)
          %b: f32[4] = Div(%x, f32[](2.0))
          %c: f32[4] = Expm1(%b)
          %d: f32[4] = Mul(%c, f32[](2.0))
          %e: f32[4] = Min(%d, f32[](0.0))
          %y: f32[4] = Add(%a, %e)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Celu(%x) {alpha=2.0}
          return %y
        }
    """
    factor = _number(m.factor)
    inner = _number(m.alpha) if "alpha" in m.bound else _number(m.inverse)
    if not factor or not inner or factor < 0 or not same_shape(m.x, m.root.output):
        return m.no("a constant is not one positive number, or changes the shape")
    if not math.isclose(inner if "alpha" in m.bound else 1 / inner, factor, rel_tol=_tolerance(m.x)):
        return m.no("what it is divided by is not what it is multiplied with")
    return b.Celu(m.x, alpha=factor)


@rewrite(lambda p, x: _chosen(p, x, p.Mul(x, p.const("slope"))))
def fuse_chosen_slope(b: Builder, m: Match) -> Value | None:
    """x where it is positive, a multiple of it elsewhere.

    Given:
        graph g(%x: f32[1,2,3]) {
          %a: bool[1,2,3] = Less(%x, f32[](0.0))
          %b: f32[1,2,3] = Mul(%x, f32[2,1](0.5, 0.25))
          %y: f32[1,2,3] = Where(%a, %b, %x)
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = PRelu(%x, f32[2,1](0.5, 0.25))
          return %y
        }
    """
    if not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("the slope changes the shape, or it does not compute with floats")
    if not np.isfinite(m.slope.data.numpy()).all():
        return m.no("the slope is not finite")
    return b.PRelu(m.x, m.slope)


@rewrite(lambda p, x: p.PRelu(x, p.const("slope")), shared=True)
def fuse_one_slope(b: Builder, m: Match) -> Value | None:
    """A slope that is one number is an attribute.

    Given:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = PRelu(%x, f32[1](0.25))
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = LeakyRelu(%x) {alpha=0.25}
          return %y
        }
    """
    slope = _number(m.slope)
    if slope is None or not math.isfinite(slope) or slope == 0:
        return m.no("the slope is not one finite number, or 0")
    return b.LeakyRelu(m.x, alpha=slope)


@rewrite(
    lambda p, x: (
        (lambda d: (
            p.Add(p.Relu(x), p.Mul(p.Mul(d, p.const("slope")), 0.5))
            | p.Add(p.Relu(x), p.Mul(p.Mul(d, 0.5), p.const("slope")))
            | p.Add(p.Relu(x), p.Mul(d, p.const("halved")))
        ))(p.Sub(x, p.Abs(x)))
    ),
    level=3,
)  # fmt: skip
def fuse_prelu_of_sizes(b: Builder, m: Match) -> Value | None:
    """relu(x) + slope * (x - |x|) / 2, which is not a number for infinity.

    Given:
        graph g(%x: f32[1,2,3]) {
          %a: f32[1,2,3] = Relu(%x)
          %b: f32[1,2,3] = Abs(%x)
          %c: f32[1,2,3] = Sub(%x, %b)
          %d: f32[1,2,3] = Mul(%c, f32[2,1](0.5, 0.25))
          %e: f32[1,2,3] = Mul(%d, f32[](0.5))
          %y: f32[1,2,3] = Add(%a, %e)
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = PRelu(%x, f32[2,1](0.5, 0.25))
          return %y
        }
    """
    if not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("the slope changes the shape, or it does not compute with floats")
    slope = np.asarray(m.slope.array if "slope" in m.bound else 2 * m.halved.array, m.x.type.dtype.numpy)
    if not np.isfinite(slope).all():
        return m.no("the slope is not finite")
    return b.PRelu(m.x, slope)


@rewrite(lambda p, x: p.Where(p.Less(x, 0.0), 0.0, x))
def fuse_chosen_relu(b: Builder, m: Match) -> Value | None:
    """0 where x is less, x elsewhere.

    Given:
        graph g(%x: f32[4]) {
          %a: bool[4] = Less(%x, f32[](0.0))
          %y: f32[4] = Where(%a, f32[](0.0), %x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Relu(%x)
          return %y
        }
    """
    if not m.x.type.dtype.is_float or not same_shape(m.x, m.root.output):
        return m.no("it changes the shape, or does not compute with floats")
    return b.Relu(m.x)


@rewrite(lambda p, x: p.Max(x, p.Neg(x)) | p.Add(p.Relu(x), p.Relu(p.Neg(x))))
def fuse_abs(b: Builder, m: Match) -> Value | None:
    """The larger one of x and -x

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Neg(%x)
          %y: f32[4] = Max(%x, %a)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[4] = Abs(%x)
          return %y
        }
    """
    return b.Abs(m.x) if m.x.type.dtype.is_float else m.no("it does not compute with floats")


@rewrite(lambda p, x, y: p.Square(p.Sub(x, y)) | (lambda d: p.Mul(d, d))(p.Sub(x, y)) | p.Pow(p.Sub(x, y), 2.0))
def fuse_squared_difference(b: Builder, m: Match) -> Value | None:
    """(x - y)^2

    Given:
        graph g(%x: f32[4], %y: f32[2,1]) {
          %a: f32[2,4] = Sub(%x, %y)
          %z: f32[2,4] = Square(%a)
          return %z
        }
    Result:
        graph g(%x: f32[4], %y: f32[2,1]) {
          %z: f32[2,4] = SquaredDifference(%x, %y)
          return %z
        }
    """
    if not m.x.type.dtype.is_float or m.x.is_const:
        return m.no("it does not compute with floats")
    return b.SquaredDifference(m.x, m.y)
