"""Special functions of two arguments by series, computed in a loop with as many steps as the slowest element needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.decomposition.special import euler_maclaurin, lgamma
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.capture import close
from minnow.converter.torch.symbolic.dtype import as_value, floats, number, operands
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

Step = Callable[[Builder, Value, Sequence[Value]], tuple[Any, Sequence[Value]]]


def repeated(b: Builder, trips: Any, carried: Sequence[Value], step: Step) -> Sequence[Value]:
    """A loop over tensors that keep their types.

    Args:
        trips: an int, or a scalar of int64: how often at most.
        carried: the carried values.
        step: (builder, number of the round, carried) -> (whether to go on, or None; carried).
    """
    body = Graph("round")
    round_ = body.add_param(TensorType(DType.I64, ()), "round")
    go = body.add_param(TensorType(DType.BOOL, ()), "go")
    inner = Builder(body, origin=b.origin)
    on, after = step(inner, round_, [body.add_param(v.type, f"carried_{i}") for i, v in enumerate(carried)])
    body.outputs = [go if on is None else on, *after]
    captured = close(body)
    made: Sequence[Value] = b.Loop(
        np.array(trips) if isinstance(trips, int) else trips, None, *carried, *captured,
        body=body, num_carried=len(carried), n_outputs=len(carried),
    )  # fmt: skip
    return made


def alike(b: Builder, *xs: Value) -> list[Value]:
    """Tensors broadcast to one shape."""
    total = xs[0]
    for x in xs[1:]:
        total = b.Equal(total, x) if total.type.dtype is x.type.dtype is not DType.BOOL else b.Or(total, total)
    shape = np.array(total.type.shape, np.int64) if total.type.is_static else b.Shape(total)
    return [b.Expand(x, shape) for x in xs]


# ---- integers


def _gcd(b: Builder, self: Any, other: Any) -> tuple[Value, Value, Value]:
    """Euclid's algorithm; the operands, too."""
    x, y = alike(b, *operands(b, self, other))
    signed = x.type.dtype is not DType.U8
    sizes = [b.Abs(v) if signed else v for v in (x, y)]

    def step(b: Builder, _: Value, pair: Sequence[Value]) -> tuple[Any, Sequence[Value]]:
        a, c = pair
        rest = b.Mod(a, c)
        done = b.Equal(c, number(b, 0, c))
        after = b.Where(done, c, rest)
        return b.ReduceMax(b.NotEqual(after, number(b, 0, c)), keepdims=False), (b.Where(done, a, c), after)

    return repeated(b, 100, sizes, step)[0], x, y


@torch.op("aten::gcd")
def _(b, self, other):
    return _gcd(b, self, other)[0]


@torch.op("aten::lcm")
def _(b, self, other):
    divisor, x, y = _gcd(b, self, other)
    made = b.Mul(b.Div(x, divisor), y)
    return b.Abs(made) if x.type.dtype is not DType.U8 else made


# ---- orthogonal polynomials

Rule = Callable[[Builder, Value, Value, Value, Value], Any]


def _twice(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.Sub(b.Mul(b.Mul(x, 2.0), p), q)


def _hermite(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.Mul(b.Sub(b.Mul(x, p), b.Mul(k, q)), 2.0)


def _probabilist(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    return b.Sub(b.Mul(x, p), b.Mul(k, q))


def _laguerre(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    lead = b.Sub(b.Add(b.Mul(k, 2.0), 1.0), x)
    return b.Div(b.Sub(b.Mul(lead, p), b.Mul(k, q)), b.Add(k, 1.0))


def _legendre(b: Builder, x: Value, k: Value, p: Value, q: Value) -> Any:
    lead = b.Mul(b.Add(b.Mul(k, 2.0), 1.0), x)
    return b.Div(b.Sub(b.Mul(lead, p), b.Mul(k, q)), b.Add(k, 1.0))


def _polynomials(name: str, rule: Rule, slope: float, constant: float = 0.0, shifted: bool = False) -> None:
    """Polynomials p_n(x), of which p_0 is 1 and p_1 is slope * x + constant; those of negative n are 0.

    Args:
        rule: (builder, x, k, p_k, p_{k-1}) -> p_{k+1}.
        shifted: of 2 x - 1 in place of x.
    """

    @torch.op(f"aten::special_{name}")
    def _(b, x, n):
        x, n = floats(b, x, n)
        dtype = x.type.dtype
        x, degree = alike(b, b.Cast(x, to=DType.F64), b.Cast(b.Cast(n, to=DType.I64), to=DType.F64))
        if shifted:
            x = b.Sub(b.Mul(x, 2.0), 1.0)
        one = b.Add(b.Mul(degree, 0.0), 1.0)
        first = b.Add(b.Mul(x, slope), constant)
        zero = number(b, 0, x)
        start = b.Where(b.Less(degree, 1.0), b.Where(b.Less(degree, 0.0), zero, one), first)

        def step(b: Builder, i: Value, carried: Sequence[Value]) -> tuple[Any, Sequence[Value]]:
            x, degree, p, q, made = carried
            k = b.Cast(b.Add(i, np.array(1)), to=DType.F64)
            after = rule(b, x, k, p, q)
            return None, (x, degree, after, p, b.Where(b.Equal(degree, b.Add(k, 1.0)), after, made))

        most = b.Max(b.ReduceMax(degree, keepdims=False), 1.0)
        trips = b.Sub(b.Cast(most, to=DType.I64), np.array(1))
        return as_value(b, repeated(b, trips, [x, degree, first, one, start], step)[4], dtype)


for _prefix, _shifted in (("", False), ("shifted_", True)):
    _polynomials(f"{_prefix}chebyshev_polynomial_t", _twice, 1.0, shifted=_shifted)
    _polynomials(f"{_prefix}chebyshev_polynomial_u", _twice, 2.0, shifted=_shifted)
    _polynomials(f"{_prefix}chebyshev_polynomial_v", _twice, 2.0, -1.0, shifted=_shifted)
    _polynomials(f"{_prefix}chebyshev_polynomial_w", _twice, 2.0, 1.0, shifted=_shifted)
_polynomials("hermite_polynomial_h", _hermite, 2.0)
_polynomials("hermite_polynomial_he", _probabilist, 1.0)
_polynomials("laguerre_polynomial_l", _laguerre, -1.0, 1.0)
_polynomials("legendre_polynomial_p", _legendre, 1.0)


# ---- zeta, and the incomplete gamma function


@torch.op("aten::special_zeta")
def _(b, self, other):
    s, q = floats(b, self, other)
    dtype = s.type.dtype
    s, q = alike(b, b.Cast(s, to=DType.F64), b.Cast(q, to=DType.F64))
    enough = 10.0

    def step(b: Builder, _: Value, carried: Sequence[Value]) -> tuple[Any, Sequence[Value]]:
        s, at, total = carried
        near = b.Less(at, enough)
        total = b.Where(near, b.Add(total, b.Pow(at, b.Neg(s))), total)
        return None, (s, b.Where(near, b.Add(at, 1.0), at), total)

    least = b.Max(b.ReduceMin(b.Where(b.Equal(q, q), q, number(b, 0, q)), keepdims=False), -1e4)
    trips = b.Cast(b.Ceil(b.Max(b.Sub(np.array(enough), b.Min(least, enough)), 0.0)), to=DType.I64)
    _, far, total = repeated(b, trips, [s, q, b.Mul(q, 0.0)], step)
    made = b.Add(total, euler_maclaurin(b, s, far))
    whole = b.And(b.LessOrEqual(q, 0.0), b.Equal(q, b.Floor(q)))
    none = b.And(b.Less(q, 0.0), b.NotEqual(s, b.Floor(s)))
    nan, inf = number(b, np.nan, q), number(b, np.inf, q)
    made = b.Where(whole, inf, b.Where(none, nan, made))
    return as_value(b, b.Where(b.Equal(s, 1.0), inf, b.Where(b.Less(s, 1.0), nan, made)), dtype)


def _incomplete(b: Builder, self: Any, other: Any, upper: bool) -> Value:
    """The share of the gamma function up to x, or beyond it: by a power series for x < a + 1, else by a fraction."""
    a, x = floats(b, self, other)
    dtype = a.type.dtype
    given, to = alike(b, b.Cast(a, to=DType.F64), b.Cast(x, to=DType.F64))
    finite = b.And(b.Less(given, np.inf), b.Less(to, np.inf))
    ordinary = b.And(b.And(b.Greater(given, 0.0), b.Greater(to, 0.0)), finite)
    a, x = (b.Where(ordinary, v, number(b, 1, v)) for v in (given, to))
    low = b.Less(x, b.Add(a, 1.0))
    scale = b.Exp(b.Sub(b.Sub(b.Mul(b.Log(x), a), x), lgamma(b, a)))
    one = b.Add(b.Mul(a, 0.0), 1.0)

    def series(b: Builder, i: Value, carried: Sequence[Value]) -> tuple[Any, Sequence[Value]]:
        a, x, term, total = carried
        term = b.Mul(term, b.Div(x, b.Add(a, b.Cast(b.Add(i, np.array(1)), to=DType.F64))))
        more = b.Greater(b.Abs(term), b.Mul(b.Abs(total), 1e-15))
        return b.ReduceMax(more, keepdims=False), (a, x, term, b.Add(total, term))

    near = b.Where(low, x, number(b, 0, x))
    part = b.Mul(b.Div(repeated(b, 3000, [a, near, one, one], series)[3], a), scale)

    def fraction(b: Builder, i: Value, carried: Sequence[Value]) -> tuple[Any, Sequence[Value]]:
        # Lentz' way: c and d are the ratios of successive numerators and denominators.
        a, base, c, d, made = carried
        k = b.Cast(b.Add(i, np.array(1)), to=DType.F64)
        weight = b.Mul(k, b.Sub(a, k))
        base = b.Add(base, 2.0)
        d = b.Reciprocal(b.Add(b.Mul(weight, d), base))
        c = b.Add(base, b.Div(weight, c))
        change = b.Mul(c, d)
        more = b.Greater(b.Abs(b.Sub(change, 1.0)), 1e-15)
        return b.ReduceMax(more, keepdims=False), (a, base, c, d, b.Mul(made, change))

    base = b.Sub(b.Add(b.Max(x, b.Add(a, 1.0)), 1.0), a)
    first = b.Reciprocal(base)
    huge = b.Add(b.Mul(base, 0.0), 1e300)
    rest = b.Mul(repeated(b, 3000, [a, base, huge, first, first], fraction)[4], scale)
    share = b.Where(low, b.Sub(np.array(1.0), part), rest) if upper else b.Where(low, part, b.Sub(np.array(1.0), rest))
    # At the ends of the domain: nothing or all of it, and NaN where they meet and beyond.
    begin, end = (number(b, v, x) for v in ((1.0, 0.0) if upper else (0.0, 1.0)))
    none, all_ = b.Or(b.Equal(to, 0.0), b.IsInf(given)), b.Or(b.Equal(given, 0.0), b.IsInf(to))
    share = b.Where(none, begin, b.Where(all_, end, share))
    inside = b.And(b.GreaterOrEqual(given, 0.0), b.GreaterOrEqual(to, 0.0))
    made = b.Where(b.And(inside, b.Not(b.And(none, all_))), share, number(b, np.nan, x))
    return as_value(b, made, dtype)


@torch.op("aten::igamma", "aten::special_gammainc")
def _(b, self, other):
    return _incomplete(b, self, other, upper=False)


@torch.op("aten::igammac", "aten::special_gammaincc")
def _(b, self, other):
    return _incomplete(b, self, other, upper=True)
