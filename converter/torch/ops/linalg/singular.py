"""Singular values, eigenvalues of symmetric matrices, and what follows: norms, ranks, pseudoinverses.

Jacobi's method on one side: pairs of columns are turned until all are orthogonal, and have the singular values as
lengths. The signs of singular vectors are arbitrary, so that nothing tells those of LAPACK: only what does not depend
on them is computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.linalg.matrix import Batch, square, turned
from minnow.converter.torch.ops.reduce import norm
from minnow.converter.torch.symbolic.dimension import axis_in, known, vector_of
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of
from minnow.converter.torch.symbolic.thing import Missing
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

_SWEEPS = 30
_SMALL = 1e-15
_ZERO, _ONE, _MINUS = np.array(0.0), np.array(1.0), np.array(-1.0)
_MOST = 512
"""Columns; the time grows with their cube, ten times over."""


def _around(n: int) -> tuple[int, ...]:
    """The next order of n columns, of which i meets i + n / 2: in n - 1 rounds all meet all."""
    top, bottom = list(range(n // 2)), list(range(n // 2, n))
    return tuple([*top[:1], *bottom[:1], *top[1:-1], *bottom[1:], *top[-1:]] if n > 2 else range(n))


def _jacobi(b: Builder, x: Value, n: int, turns: Value | None) -> list[Value]:
    """x[batch, m, n] V with orthogonal columns, and `turns` V, both with columns in the same order; n is even."""
    parts = [x] if turns is None else [x, turns]
    if x.type.count == 0:
        return parts
    total = b.ReduceSumSquare(x, axes=(1, 2))
    graph = Graph("turn")
    k = graph.add_param(TensorType(DType.I64, ()), "k")
    graph.add_param(TensorType(DType.BOOL, ()), "again")
    off = graph.add_param(TensorType(DType.F64, ()), "off")
    before = [graph.add_param(v.type, "columns") for v in parts]
    size = graph.add_param(total.type, "total")
    c = Builder(graph, origin=b.origin)
    pairs = [c.Split(v, np.array([n // 2, n // 2]), axis=2, n_outputs=2) for v in before]
    p, q = pairs[0]
    left, right = c.ReduceSumSquare(p, axes=(1,)), c.ReduceSumSquare(q, axes=(1,))
    both = c.ReduceSum(c.Mul(p, q), axes=(1,))
    # Columns of noise are left alone.
    share = c.Div(c.Abs(both), c.Add(c.Sqrt(c.Mul(left, right)), c.Add(c.Mul(size, _SMALL), 1e-300)))
    still = c.LessOrEqual(share, _SMALL)
    ratio = c.Div(c.Sub(right, left), c.Mul(c.Where(still, _ONE, both), 2.0))
    steep = c.Add(c.Abs(ratio), c.Sqrt(c.Add(c.Square(ratio), 1.0)))
    tangent = c.Where(still, _ZERO, c.Div(c.Where(c.Less(ratio, 0.0), _MINUS, _ONE), steep))
    cosine = c.Reciprocal(c.Sqrt(c.Add(c.Square(tangent), 1.0)))
    sine = c.Mul(cosine, tangent)

    def turn(p: Value, q: Value) -> Value:
        ends = c.Sub(c.Mul(p, cosine), c.Mul(q, sine)), c.Add(c.Mul(p, sine), c.Mul(q, cosine))
        made: Value = c.Gather(c.Concat(*ends, axis=2), np.array(_around(n)), axis=2)
        return made

    place = c.Mod(k, np.array(n - 1))
    now = c.Max(c.Where(c.Equal(place, np.array(0)), _ZERO, off), c.ReduceMax(share, keepdims=False))
    done = c.And(c.Equal(place, np.array(n - 2)), c.LessOrEqual(now, _SMALL * 8))
    graph.outputs = [c.Not(done), now, *(turn(*pair) for pair in pairs)]
    carried = [b.const(np.array(0.0)), *parts]
    count = len(carried)
    made = b.Loop(np.array(_SWEEPS * (n - 1)), None, *carried, total, body=graph, num_carried=count, n_outputs=count)
    return list(made[1:])


class _Decomposed:
    """Matrices [batch, m, n], turned so that m >= n, as columns of the lengths s[batch, 1, n or n + 1].

    Attributes:
        s: singular values, in no order; the last ones may be 0 and of no column.
    """

    def __init__(self, b: Builder, given: Batch, vectors: bool = False) -> None:
        self.wide = given.m < given.n
        x = turned(b, given.x) if self.wide else given.x
        self.n = min(given.m, given.n)
        if self.n > _MOST:
            raise UnsupportedError(
                f"singular values of matrices with {self.n} rows or columns are not supported",
                why=f"the limit is {_MOST}",
            )
        self.columns, self.turns = x, given.each(b, np.eye(self.n))
        if self.n > 1:
            even = self.n + self.n % 2
            if even != self.n:
                x = b.Pad(x, np.array([0, 0, 0, 0, 0, 1]))
            turns = given.each(b, np.eye(self.n, even)) if vectors else None
            self.columns, *rest = _jacobi(b, x, even, turns)
            self.turns = rest[0] if rest else self.turns
        self.s: Value = b.ReduceL2(self.columns, axes=(1,))

    def ordered(self, b: Builder) -> Value:
        """The n largest, the largest first: [batch, n]."""
        return _largest_first(b, b.Squeeze(self.s, axes=(1,)), self.n)

    def inverse(self, b: Builder, least: Value) -> Value:
        """The pseudoinverses [batch, n, m]; singular values [batch, 1, 1] count that are above `least`."""
        counts = b.Greater(self.s, least)
        squared = b.Square(b.Where(counts, self.s, _ONE))
        scaled = b.Where(counts, b.Div(self.columns, squared), _ZERO)
        made: Value = b.MatMul(scaled, self.turns, transpose_b=True) if self.wide else b.MatMul(
            self.turns, scaled, transpose_b=True)  # fmt: skip
        return made


def _largest_first(b: Builder, s: Value, n: int) -> Value:
    made: tuple[Value, ...] = b.TopK(s, np.array([n]), axis=1)
    return made[0]


def _values(b: Builder, x: Value) -> Value:
    """Singular values [..., k], the largest first."""
    given = Batch(b, x)
    return given.back(b, _Decomposed(b, given).ordered(b), min(given.m, given.n))


@torch.op("aten::linalg_svdvals")
def _(b, A, driver=None):
    return _values(b, A)


_SIGNS = "nothing tells the signs that LAPACK gives singular vectors and eigenvectors; only the values are computed"


@torch.op("aten::linalg_svd")
def _(b, A, full_matrices=True, driver=None):
    return Missing(_SIGNS), _values(b, A), Missing(_SIGNS)


@torch.op("aten::_linalg_svd")
def _(b, A, full_matrices=False, compute_uv=True, driver=None):
    return Missing(_SIGNS), _values(b, A), Missing(_SIGNS)


@torch.op("aten::svd")
def _(b, self, some=True, compute_uv=True):
    return Missing(_SIGNS), _values(b, self), Missing(_SIGNS)


def _symmetric(b: Builder, given: Batch, upper: bool) -> Value:
    """The symmetric matrices that a triangle tells."""
    half = turned(b, given.x) if upper else given.x
    return b.Add(b.Trilu(half, upper=False), turned(b, b.Trilu(half, np.array(-1), upper=False)))


def _eigenvalues(b: Builder, x: Value, triangle: str) -> Value:
    """Those of symmetric matrices, the smallest first. Moved up by more than their size all are singular values."""
    given = square(b, x)
    n = given.n
    if n == 0:
        return given.back(b, b.Squeeze(b.ReduceSum(given.x, axes=(1,)), axes=(1,)), 0)
    given.x = _symmetric(b, given, triangle.upper() == "U")
    up = b.Add(b.Mul(b.ReduceL2(given.x, axes=(1, 2)), 2.0), 1e-300)
    given.x = b.Add(given.x, b.Mul(b.const(np.eye(n)), up))
    s = b.Sub(_Decomposed(b, given).ordered(b), b.Squeeze(up, axes=(2,)))
    return given.back(b, b.Reverse(s, axes=(1,)), n)


@torch.op("aten::linalg_eigvalsh")
def _(b, self, UPLO="L"):
    return _eigenvalues(b, self, UPLO)


@torch.op("aten::linalg_eigh")
def _(b, self, UPLO="L"):
    return _eigenvalues(b, self, UPLO), Missing(_SIGNS)


@torch.op("aten::_linalg_eigh")
def _(b, A, UPLO="L", compute_v=True):
    return _eigenvalues(b, A, UPLO), Missing(_SIGNS)


# ---- ranks and pseudoinverses


def _least(b: Builder, given: Batch, s: Value, atol: Any, rtol: Any, dtype: DType) -> Value:
    """The number [batch, 1, 1] up to which singular values s[batch, 1, n] count as 0."""

    def tolerance(x: Any) -> Value:
        if isinstance(x, Value) and x.type.rank:
            return given.flat(b, b.Unsqueeze(b.Expand(as_value(b, x, DType.F64), vector_of(b, given.sizes)),
                                             axes=(len(given.sizes), len(given.sizes) + 1)), 1, 1)  # fmt: skip
        return as_value(b, x, DType.F64)

    kind: Any = dtype.numpy
    usual = max(given.m, given.n) * float(np.finfo(kind).eps)
    absolute = None if atol is None else tolerance(atol)
    if rtol is not None:
        relative = tolerance(rtol)
    elif absolute is None:
        relative = as_value(b, usual, DType.F64)
    else:
        relative = b.Where(b.Greater(absolute, 0.0), _ZERO, np.array(usual))
    least = b.Mul(b.ReduceMax(s, axes=(2,)), relative)
    return least if absolute is None else b.Max(least, absolute)


def _prepared(b: Builder, x: Value, hermitian: bool, vectors: bool) -> tuple[Batch, _Decomposed]:
    given = square(b, x) if hermitian else Batch(b, x)
    if hermitian:
        given.x = _symmetric(b, given, False)
    return given, _Decomposed(b, given, vectors)


def _rank(b: Builder, x: Value, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Value:
    if 0 in (x.type.shape or ())[-2:]:
        given = Batch(b, x)
        return given.back(b, b.Squeeze(given.each(b, np.zeros((1, 1))), axes=(1, 2)), dtype=DType.I64)
    given, found = _prepared(b, x, hermitian, False)
    counts = b.Greater(found.s, _least(b, given, found.s, atol, rtol, x.type.dtype))
    number = b.ReduceSum(b.Cast(counts, to=DType.I64), axes=(1, 2), keepdims=False)
    return given.back(b, number, dtype=DType.I64)


@torch.op("aten::linalg_matrix_rank.atol_rtol_tensor")
def _(b, input, atol=None, rtol=None, hermitian=False):
    return _rank(b, input, atol, rtol, hermitian)


@torch.op("aten::linalg_matrix_rank.atol_rtol_float")
def _(b, self, atol=None, rtol=None, hermitian=False):
    return _rank(b, self, atol, rtol, hermitian)


@torch.op("aten::linalg_matrix_rank")
def _(b, self, tol, hermitian=False):
    return _rank(b, self, tol, 0.0, hermitian)


@torch.op("aten::linalg_matrix_rank.tol_tensor")
def _(b, input, tol, hermitian=False):
    return _rank(b, input, tol, 0.0, hermitian)


def _pinv(b: Builder, x: Value, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Value:
    if 0 in (x.type.shape or ())[-2:]:
        return turned(b, x)
    given, found = _prepared(b, x, hermitian, True)
    made = found.inverse(b, _least(b, given, found.s, atol, rtol, x.type.dtype))
    return given.back(b, made, given.n, given.m)


@torch.op("aten::linalg_pinv.atol_rtol_tensor", "aten::linalg_pinv.atol_rtol_float")
def _(b, self, atol=None, rtol=None, hermitian=False):
    return _pinv(b, self, atol, rtol, hermitian)


@torch.op("aten::linalg_pinv", "aten::linalg_pinv.rcond_tensor")
def _(b, self, rcond, hermitian=False):
    return _pinv(b, self, 0.0, rcond, hermitian)


@torch.op("aten::pinverse")
def _(b, self, rcond=1e-15):
    return _pinv(b, self, 0.0, rcond)


# ---- norms


def _matrix_norm(
    b: Builder, x: Value, order: Any, dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None
) -> Value:
    """Norms of the matrices in two axes.

    Args:
        order: "fro", "nuc" (the sum of the singular values), 2 or -2 (the largest or smallest of them), 1 or -1 (the
            largest or smallest sum of a column), inf or -inf (of a row).
    """
    n = rank(x, "a matrix")
    to = dtype_of(dtype, x.type.dtype)
    x = as_value(b, x, to)
    row, column = (axis_in(known(a, "an axis"), n) for a in dim)
    order = known(order, "the order of a norm")
    if order == "fro":
        return norm(b, x, 2, [row, column], keepdim)
    if order in ("nuc", 2, -2):
        perm = [*(i for i in range(n) if i not in (row, column)), row, column]
        s = _values(b, b.Transpose(x, perm=tuple(perm)))
        made = getattr(b, "ReduceSum" if order == "nuc" else "ReduceMax" if order == 2 else "ReduceMin")(
            s, axes=(n - 2,), keepdims=False)  # fmt: skip
    elif order in (1, -1, float("inf"), -float("inf")):
        along, other = (row, column) if abs(order) == 1 else (column, row)
        sums = b.ReduceSum(b.Abs(x), axes=(along,))
        made = getattr(b, "ReduceMax" if order > 0 else "ReduceMin")(sums, axes=(other,))
        made = b.Squeeze(made, axes=(row, column))
    else:
        raise ModelError(f"{order} is not the order of a matrix norm")
    if 0 in (x.type.shape or ()) and order != "nuc" and order > 0:
        made = b.Max(made, 0.0)
    return b.Unsqueeze(made, axes=tuple(sorted((row, column)))) if keepdim else made


@torch.op("aten::linalg_matrix_norm")
def _(b, self, ord, dim=(-2, -1), keepdim=False, dtype=None):
    return _matrix_norm(b, self, ord, dim, keepdim, dtype)


@torch.op("aten::linalg_matrix_norm.str_ord")
def _(b, self, ord="fro", dim=(-2, -1), keepdim=False, dtype=None):
    return _matrix_norm(b, self, ord, dim, keepdim, dtype)


@torch.op("aten::linalg_norm", "aten::linalg_norm.ord_str")
def _(b, self, ord=None, dim=None, keepdim=False, dtype=None):
    n = rank(self, "an operand")
    axes = None if dim is None else [dim] if isinstance(dim, int) else list(dim)
    if ord is None or len(axes or range(n)) == 1:
        return norm(b, self, 2 if ord is None else ord, axes, keepdim, dtype)
    return _matrix_norm(b, self, ord, axes or (0, 1), keepdim, dtype)


@torch.op("aten::nuclear_norm")
def _(b, self, keepdim=False):
    return _matrix_norm(b, self, "nuc", keepdim=keepdim)


@torch.op("aten::nuclear_norm.dim")
def _(b, self, dim, keepdim=False):
    return _matrix_norm(b, self, "nuc", dim, keepdim)


@torch.op("aten::linalg_cond", "aten::linalg_cond.p_str")
def _(b, self, p=None):
    p = 2 if p is None else known(p, "the order of a norm")
    if 0 in (self.type.shape or ())[-2:]:
        given = Batch(b, self)
        return given.back(b, b.Squeeze(given.each(b, np.zeros((1, 1))), axes=(1, 2)))
    if p in (2, -2):
        s = as_value(b, _values(b, as_value(b, self, DType.F64)), DType.F64)
        ends = [f(s, axes=(-1,), keepdims=False) for f in (b.ReduceMax, b.ReduceMin)]
        return as_value(b, b.Div(*ends[:: 1 if p == 2 else -1]), self.type.dtype)
    x = as_value(b, self, DType.F64)
    other = _matrix_norm(b, b.Inverse(x), p)
    other = b.Where(b.IsNaN(other), np.array(np.inf), other)
    return as_value(b, b.Mul(_matrix_norm(b, x, p), other), self.type.dtype)


# ---- least squares


@torch.op("aten::linalg_lstsq")
def _(b, self, other, rcond=None, driver=None):
    driver = driver or "gelsy"
    given, right = Batch(b, self), as_value(b, other, DType.F64)
    m, n = given.m, given.n
    if 0 in (m, n):
        raise UnsupportedError("least squares of empty matrices is not supported")
    found = _Decomposed(b, given, vectors=True)
    least = _least(b, given, found.s, None, rcond, self.type.dtype)
    vector = rank(other, "the right side") == rank(self, "a matrix") - 1
    if vector:
        right = b.Unsqueeze(right, axes=(rank(other, ""),))
    inverse = given.back(b, found.inverse(b, least), n, m, dtype=DType.F64)
    made = b.MatMul(inverse, right)
    nothing = Value.constant(np.zeros(0, self.type.dtype.numpy))
    count: Any = Value.constant(np.zeros(0, np.int64))
    if driver != "gels":
        number = b.ReduceSum(b.Cast(b.Greater(found.s, least), to=DType.I64), axes=(1, 2), keepdims=False)
        count = given.back(b, number, dtype=DType.I64)
    residuals: Any = nothing
    if m > n and driver == "gels":
        off = b.Sub(b.MatMul(as_value(b, self, DType.F64), made), right)
        residuals = as_value(b, b.ReduceSumSquare(off, axes=(rank(off, "") - 2,), keepdims=False), self.type.dtype)
    elif m > n and driver != "gelsy":
        residuals = Missing(
            "the residuals of least squares, which exist only for matrices of full rank, are not supported"
        )
    if vector:
        made = b.Squeeze(made, axes=(rank(made, "") - 1,))
    s = given.back(b, found.ordered(b), min(m, n)) if driver in ("gelsd", "gelss") else nothing
    return as_value(b, made, self.type.dtype), residuals, count, s
