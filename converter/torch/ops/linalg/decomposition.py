"""Matrix factorizations as in LAPACK: Cholesky, LU with partial pivoting, Householder QR; matrix exponentials.

All are computed in float64. Each round eliminates one column, with whole rows and columns as vectors.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.linalg.matrix import Batch, rounds, square, turned
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.limit import add_bytes
from minnow.schema.ops import Builder

_ZERO, _ONE, _BELOW = np.array(0.0), np.array(1.0), np.array(-1.0)


def _rows(m: int) -> np.ndarray[Any, Any]:
    return np.arange(m)[:, None]


def _columns(n: int) -> np.ndarray[Any, Any]:
    return np.arange(n)[None]


# ---- Cholesky


def _cholesky(b: Builder, x: Value, upper: bool) -> tuple[Value, Value]:
    """Triangles whose squares are matrices, of which only that triangle counts.

    Returns:
        Them, and the first pivot that is not positive, from 1, or 0.
    """
    given = square(b, x)
    n = given.n
    x = b.Trilu(turned(b, given.x) if upper else given.x, upper=False)
    whole = b.Add(x, turned(b, b.Trilu(x, np.array(-1), upper=False)))

    def step(b: Builder, k: Value, carried: list[Value]) -> list[Value]:
        rest, factor, info = carried
        column = b.Gather(rest, k, axis=2)
        pivot = b.Gather(column, k, axis=1)
        column = b.Where(b.GreaterOrEqual(_rows(n), k), b.Div(column, b.Sqrt(pivot)), _ZERO)
        factor = b.Where(b.Equal(_columns(n), k), column, factor)
        fails = b.And(b.Not(b.Greater(pivot, 0.0)), b.Equal(info, np.array(0)))
        return [b.Sub(rest, b.Mul(column, turned(b, column))), factor, b.Where(fails, b.Add(k, np.array(1)), info)]

    none = given.each(b, np.zeros((1, 1), np.int64))
    _, factor, info = rounds(b, n, [whole, given.each(b, np.zeros((n, n))), none], step)
    return given.back(b, turned(b, factor) if upper else factor, n, n), given.info(b, info)


@torch.op("aten::linalg_cholesky", "aten::cholesky")
def _(b, self, upper=False):
    return _cholesky(b, self, upper)[0]


@torch.op("aten::linalg_cholesky_ex")
def _(b, self, upper=False, check_errors=False):
    return _cholesky(b, self, upper)


# ---- LU


def lu(b: Builder, given: Batch, pivot: bool = True) -> tuple[Value, Value, Value]:
    """Both triangles in one matrix, the rows swapped with each row (from 1, int64[batch, k, 1]), info[batch, 1, 1]."""
    m, n = given.m, given.n
    count = min(m, n)

    def step(b: Builder, k: Value, carried: list[Value]) -> list[Value]:
        x, pivots, info = carried
        if pivot:
            size = b.Where(b.GreaterOrEqual(_rows(m), k), b.Abs(b.Gather(x, k, axis=2)), _BELOW)
            best = b.ArgMax(size, axis=1)
            pivots = b.Where(b.Equal(_rows(count), k), b.Add(best, np.array(1)), pivots)
            here, there = b.Gather(x, k, axis=1), b.GatherElements(x, b.Expand(best, np.array([1, 1, n])), axis=1)
            x = b.Where(b.Equal(_rows(m), k), there, b.Where(b.Equal(_rows(m), best), here, x))
        row, column = b.Gather(x, k, axis=1), b.Gather(x, k, axis=2)
        top = b.Gather(row, k, axis=2)
        nothing = b.Equal(top, 0.0)
        info = b.Where(b.And(nothing, b.Equal(info, np.array(0))), b.Add(k, np.array(1)), info)
        below = b.Greater(_rows(m), k)
        # With pivots all of the column is 0 where its pivot is.
        column = b.Where(below, b.Where(nothing, column, b.Div(column, top)) if pivot else b.Div(column, top), _ZERO)
        x = b.Sub(x, b.Mul(column, b.Where(b.Greater(_columns(n), k), row, _ZERO)))
        return [b.Where(b.And(b.Equal(_columns(n), k), below), column, x), pivots, info]

    start = [given.x, given.each(b, _rows(count) + 1), given.each(b, np.zeros((1, 1), np.int64))]
    x, pivots, info = rounds(b, count, start, step)
    return x, pivots, info


def _order(b: Builder, given: Batch, pivots: Value, count: int) -> Value:
    """The row of the matrix that becomes each row of the triangles, int64[batch, m, 1]."""
    rows = _rows(given.m)

    def step(b: Builder, k: Value, carried: list[Value]) -> list[Value]:
        order, pivots = carried
        other = b.Sub(b.Gather(pivots, k, axis=1), np.array(1))
        here, there = b.Gather(order, k, axis=1), b.GatherElements(order, other, axis=1)
        return [b.Where(b.Equal(rows, k), there, b.Where(b.Equal(rows, other), here, order))]

    return rounds(b, count, [given.each(b, rows)], step, [pivots])[0]


def _swaps(b: Builder, given: Batch, pivots: Value) -> Value:
    """The permutation P of P L U, [batch, m, m]."""
    order = _order(b, given, pivots, min(given.m, given.n))
    made: Value = b.Cast(b.Equal(_rows(given.m), turned(b, order)), to=DType.F64)
    return made


def _lower(b: Builder, x: Value, m: int, n: int) -> Value:
    count = min(m, n)
    x = b.Slice(x, np.array([0]), np.array([count]), np.array([2]))
    made: Value = b.Where(np.eye(m, count, dtype=bool), _ONE, b.Trilu(x, upper=False))
    return made


def _upper(b: Builder, x: Value, m: int, n: int) -> Value:
    made: Value = b.Trilu(b.Slice(x, np.array([0]), np.array([min(m, n)]), np.array([1])))
    return made


def _unpacked(b: Builder, given: Batch, x: Value, pivots: Value) -> tuple[Value, Value, Value]:
    m, n = given.m, given.n
    count = min(m, n)
    return (given.back(b, _swaps(b, given, pivots), m, m), given.back(b, _lower(b, x, m, n), m, count),
            given.back(b, _upper(b, x, m, n), count, n))  # fmt: skip


def _nothing(x: Value) -> Value:
    return Value.constant(np.zeros(0, x.type.dtype.numpy))


@torch.op("aten::linalg_lu")
def _(b, A, pivot=True):
    given = Batch(b, A)
    x, pivots, _ = lu(b, given, pivot)
    swaps, lower, upper = _unpacked(b, given, x, pivots)
    return swaps if pivot else _nothing(A), lower, upper


def _factor(b: Builder, x: Value, pivot: bool) -> tuple[Value, Value, Value]:
    given = Batch(b, x)
    made, pivots, info = lu(b, given, pivot)
    places = given.back(b, b.Squeeze(pivots, axes=(2,)), min(given.m, given.n), dtype=DType.I32)
    return given.back(b, made, given.m, given.n), places, given.info(b, info)


@torch.op("aten::linalg_lu_factor")
def _(b, A, pivot=True):
    return _factor(b, A, pivot)[:2]


@torch.op("aten::linalg_lu_factor_ex")
def _(b, A, pivot=True, check_errors=False):
    return _factor(b, A, pivot)


@torch.op("aten::_lu_with_info")
def _(b, self, pivot=True, check_errors=True):
    return _factor(b, self, pivot)


def _given_pivots(b: Builder, given: Batch, pivots: Value) -> Value:
    wide = b.Unsqueeze(as_value(b, pivots, DType.I64), axes=(rank(pivots, "pivots"),))
    return given.flat(b, wide, min(given.m, given.n), 1)


@torch.op("aten::lu_unpack")
def _(b, LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    given = Batch(b, LU_data)
    swaps, lower, upper = _unpacked(b, given, given.x, _given_pivots(b, given, LU_pivots))
    none = _nothing(LU_data)
    return (swaps if unpack_pivots else none), *((lower, upper) if unpack_data else (none, none))


def _lu_solved(b: Builder, x: Value, pivots: Value, y: Value, left: bool = True, adjoint: bool = False) -> Value:
    given = square(b, x)
    n = given.n
    lower, upper = _lower(b, given.x, n, n), _upper(b, given.x, n, n)
    swaps = turned(b, _swaps(b, given, _given_pivots(b, given, pivots)))
    inverse = b.MatMul(b.Inverse(upper), b.MatMul(b.Inverse(lower), swaps))
    inverse = given.back(b, turned(b, inverse) if adjoint else inverse, n, n, dtype=DType.F64)
    wide = as_value(b, y, DType.F64)
    return as_value(b, b.MatMul(inverse, wide) if left else b.MatMul(wide, inverse), y.type.dtype)


@torch.op("aten::linalg_lu_solve")
def _(b, LU, pivots, B, left=True, adjoint=False):
    return _lu_solved(b, LU, pivots, B, left, adjoint)


@torch.op("aten::lu_solve")
def _(b, self, LU_data, LU_pivots):
    return _lu_solved(b, LU_data, LU_pivots, self)


# ---- QR


def reflections(b: Builder, given: Batch) -> tuple[Value, Value]:
    """R, below its diagonal the vectors of the reflections that make it, and their factors [batch, k, 1]."""
    m, n = given.m, given.n

    def step(b: Builder, k: Value, carried: list[Value]) -> list[Value]:
        x, factors = carried
        column = b.Gather(x, k, axis=2)
        below = b.Greater(_rows(m), k)
        top = b.Gather(column, k, axis=1)
        tail = b.Where(below, column, _ZERO)
        largest = b.Max(b.ReduceMax(b.Abs(tail), axes=(1,)), b.Abs(top))
        scale = b.Where(b.Equal(largest, 0.0), _ONE, largest)
        square = b.ReduceSumSquare(b.Div(tail, scale), axes=(1,))
        length = b.Mul(b.Sqrt(b.Add(square, b.Square(b.Div(top, scale)))), scale)
        still = b.Equal(square, 0.0)
        end = b.Where(still, top, b.Where(b.Less(top, _ZERO), length, b.Neg(length)))
        factor = b.Where(still, _ZERO, b.Div(b.Sub(end, top), b.Where(still, _ONE, end)))
        tail = b.Div(tail, b.Where(still, _ONE, b.Sub(top, end)))
        vector = b.Where(b.Equal(_rows(m), k), _ONE, tail)
        move = b.Mul(b.MatMul(vector, x, transpose_a=True), factor)
        x = b.Where(b.Greater(_columns(n), k), b.Sub(x, b.Mul(vector, move)), x)
        own = b.Where(below, tail, b.Where(b.Equal(_rows(m), k), end, x))
        x = b.Where(b.Equal(_columns(n), k), own, x)
        return [x, b.Where(b.Equal(_rows(min(m, n)), k), factor, factors)]

    x, factors = rounds(b, min(m, n), [given.x, given.each(b, np.zeros((min(m, n), 1)))], step)
    return x, factors


def reflected(b: Builder, given: Batch, x: Value, factors: Value, count: int, start: Value) -> Value:
    """Q times something of m rows, Q being the product of the reflections in the first columns of x."""
    m = given.m

    def step(b: Builder, k: Value, carried: list[Value]) -> list[Value]:
        to, x, factors = carried
        at = b.Sub(np.array([count - 1]), k)
        column = b.Gather(x, at, axis=2)
        vector = b.Where(b.Greater(_rows(m), at), column, b.Where(b.Equal(_rows(m), at), _ONE, _ZERO))
        move = b.Mul(b.MatMul(vector, to, transpose_a=True), b.Gather(factors, at, axis=1))
        return [b.Sub(to, b.Mul(vector, move))]

    return rounds(b, count, [start], step, [x, factors])[0]


@torch.op("aten::geqrf")
def _(b, self):
    given = Batch(b, self)
    x, factors = reflections(b, given)
    return given.back(b, x, given.m, given.n), given.back(b, b.Squeeze(factors, axes=(2,)), min(given.m, given.n))


def _qr(b: Builder, a: Value, mode: str) -> tuple[Value, Value]:
    given = Batch(b, a)
    m, n = given.m, given.n
    count = min(m, n)
    width = m if mode == "complete" else count
    x, factors = reflections(b, given)
    right = b.Trilu(b.Slice(x, np.array([0]), np.array([width]), np.array([1])))
    if mode == "r":
        return _nothing(a), given.back(b, right, width, n)
    q = reflected(b, given, x, factors, count, given.each(b, np.eye(m, width)))
    return given.back(b, q, m, width), given.back(b, right, width, n)


@torch.op("aten::linalg_qr")
def _(b, A, mode="reduced"):
    if mode not in ("reduced", "complete", "r"):
        raise ModelError(f"the mode '{mode}' of the QR decomposition is unknown")
    return _qr(b, A, mode)


@torch.op("aten::qr")
def _(b, self, some=True):
    return _qr(b, self, "reduced" if some else "complete")


def _product(b: Builder, x: Value, factors: Value, width: int | None = None) -> tuple[Batch, Value]:
    """Q, or its first columns, of reflections."""
    given = Batch(b, x)
    count = static_dim(factors.type, -1, "the reflections")
    factors = given.flat(b, b.Unsqueeze(factors, axes=(rank(factors, "the factors"),)), count, 1)
    columns = given.m if width is None else width
    add_bytes(8 * given.m * columns)
    start = given.each(b, np.eye(given.m, columns))
    return given, reflected(b, given, given.x, factors, count, start)


def _householder(b: Builder, x: Value, factors: Value) -> Value:
    n = static_dim(x.type, -1, "the reflections")
    given, q = _product(b, x, factors, n)
    return given.back(b, q, given.m, n)


@torch.op("aten::linalg_householder_product")
def _(b, input, tau):
    return _householder(b, input, tau)


@torch.op("aten::orgqr")
def _(b, self, input2):
    return _householder(b, self, input2)


@torch.op("aten::ormqr")
def _(b, self, input2, input3, left=True, transpose=False):
    given, q = _product(b, self, input2)
    q = given.back(b, turned(b, q) if transpose else q, given.m, given.m, dtype=DType.F64)
    to = as_value(b, input3, DType.F64)
    return as_value(b, b.MatMul(q, to) if left else b.MatMul(to, q), input3.type.dtype)


# ---- exponentials

_TERMS = 12
_NORM = 0.25
"""Up to this norm so many terms of the series are exact in float64."""


@torch.op("aten::matrix_exp", "aten::linalg_matrix_exp")
def _(b, self):
    given = square(b, self)
    n = given.n
    if n == 0:
        return self
    x = given.x
    size = b.ReduceMax(b.ReduceSum(b.Abs(x), axes=(1,)), axes=(2,))
    halvings = b.Ceil(b.Div(b.Log(b.Clip(b.Div(size, _NORM), min=1.0, max=1e300)), math.log(2)))
    x = b.Mul(x, b.Pow(b.const(np.array(2.0)), b.Neg(halvings)))
    eye = b.const(np.eye(n)[None])
    powers = [eye, x, square_ := b.MatMul(x, x), b.MatMul(square_, x)]
    fourth = b.MatMul(square_, square_)
    made: Value | None = None
    for first in range(_TERMS, -1, -4):
        part: Value | None = None
        for i, power in enumerate(powers):
            if first + i <= _TERMS:
                term = b.Mul(power, 1 / math.factorial(first + i))
                part = term if part is None else b.Add(part, term)
        made = part if made is None else b.Add(b.MatMul(made, fourth), part)
    graph = Graph("squaring")
    k = graph.add_param(TensorType(DType.I64, ()), "k")
    again = graph.add_param(TensorType(DType.BOOL, ()), "again")
    assert made is not None
    made = b.Mul(made, given.each(b, np.ones((1, 1))))
    y, times = graph.add_param(made.type, "y"), graph.add_param(halvings.type, "halvings")
    inner = Builder(graph, origin=b.origin)
    more = inner.Less(inner.Cast(k, to=DType.F64), times)
    graph.outputs = [again, inner.Where(more, inner.MatMul(y, y), y)]
    most = b.Cast(b.ReduceMax(halvings, keepdims=False), to=DType.I64)
    (made,) = b.Loop(most, None, made, halvings, body=graph, num_carried=1, n_outputs=1)
    return given.back(b, made, n, n)
