"""Determinants, inverses, linear systems, powers and covariances of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.linalg.decomposition import lu
from minnow.converter.torch.ops.linalg.matrix import square, turned
from minnow.converter.torch.ops.matmul import product
from minnow.converter.torch.symbolic.dimension import known, size_of, vector_of
from minnow.converter.torch.symbolic.dtype import as_value, float_type
from minnow.converter.torch.symbolic.part import diagonal
from minnow.converter.torch.symbolic.view import at_least, moved, reshape
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

torch.refuse(
    "aten::linalg_eig", "aten::linalg_eigvals", "aten::_linalg_eigvals",
    why="the eigenvalues of a matrix that is not symmetric are complex numbers",
    hint="keep that part in PyTorch, and give its result to the model as an input",
)  # fmt: skip
torch.refuse(
    "aten::linalg_ldl_factor", "aten::linalg_ldl_factor_ex", "aten::linalg_ldl_solve",
    why="the LDL factorization (Bunch-Kaufman pivoting) is not converted",
    hint="use linalg.cholesky or linalg.lu, if the matrix allows it",
)  # fmt: skip


def _exact(b: Builder, x: Value) -> Value:
    """In float64: what one matrix makes of another loses as many digits as it is ill-conditioned."""
    return as_value(b, x, DType.F64)


def _det(b: Builder, x: Value) -> Value:
    if 0 in (x.type.shape or ())[-2:]:
        made: Value = b.Expand(np.ones((), x.type.dtype.numpy), vector_of(b, [size_of(b, x, i) for i in
                               range(rank(x, "a matrix") - 2)]))  # fmt: skip
        return made
    made = b.Det(x)
    return made


@torch.op("aten::det")
def _(b, self):
    return _det(b, self)


@torch.op("aten::linalg_det")
def _(b, A):
    return _det(b, A)


@torch.op("aten::logdet")
def _(b, self):
    return as_value(b, b.Log(_det(b, _exact(b, self))), self.type.dtype)


def _slogdet(b: Builder, x: Value) -> tuple[Value, Value]:
    det = _det(b, _exact(b, x))
    return as_value(b, b.Sign(det), x.type.dtype), as_value(b, b.Log(b.Abs(det)), x.type.dtype)


@torch.op("aten::slogdet")
def _(b, self):
    return _slogdet(b, self)


@torch.op("aten::linalg_slogdet")
def _(b, A):
    return _slogdet(b, A)


@torch.op("aten::inverse")
def _(b, self):
    return b.Inverse(self)


@torch.op("aten::linalg_inv")
def _(b, A):
    return b.Inverse(A)


def _info(b: Builder, a: Value) -> Value:
    """The first pivot that is 0, from 1; 0 where there is none."""
    given = square(b, a)
    return given.info(b, lu(b, given)[2])


@torch.op("aten::linalg_inv_ex")
def _(b, A, check_errors=False):
    return b.Inverse(A), _info(b, A)


def solved(b: Builder, a: Value, y: Value, left: bool = True) -> Value:
    """x with a x = y, or x a = y."""
    n = rank(y, "the right side")
    vector = n == 1 or (rank(a, "a matrix") - 1 == n and y.type.shape == (a.type.shape or ())[:-1])
    inverse, wide = b.Inverse(_exact(b, a)), _exact(b, y)
    if vector:
        wide = b.Unsqueeze(wide, axes=(n,))
    x = product(b, inverse, wide) if left else product(b, wide, inverse)
    return as_value(b, b.Squeeze(x, axes=(rank(x, "") - 1,)) if vector else x, y.type.dtype)


@torch.op("aten::linalg_solve")
def _(b, A, B, left=True):
    return solved(b, A, B, left)


@torch.op("aten::linalg_tensorsolve")
def _(b, self, other, dims=None):
    n = rank(self, "an operand")
    if dims is not None:
        self = b.Transpose(self, perm=tuple(moved(n, dims, [-i - 1 for i in range(len(dims))][::-1])))
    shape = self.type.static_shape[rank(other, "the right side") :]
    side = math.prod(shape)
    return reshape(b, solved(b, reshape(b, self, [side, side]), reshape(b, other, [side])), shape)


@torch.op("aten::linalg_tensorinv")
def _(b, self, ind=2):
    shape = self.type.static_shape
    side = math.prod(shape[ind:])
    return reshape(b, b.Inverse(reshape(b, self, [side, side])), [*shape[ind:], *shape[:ind]])


@torch.op("aten::linalg_solve_ex")
def _(b, A, B, left=True, check_errors=False):
    x = solved(b, A, B, left)
    return x, _info(b, A)


def _triangle(b: Builder, x: Value, upper: bool, unit: bool) -> Value:
    if unit:
        x = b.Where(np.eye(static_dim(x.type, -1, "a matrix"), dtype=bool), 1.0, x)
    made: Value = b.Trilu(x, upper=upper)
    return made


@torch.op("aten::linalg_solve_triangular")
def _(b, self, B, upper, left=True, unitriangular=False):
    return solved(b, _triangle(b, self, upper, unitriangular), B, left)


@torch.op("aten::triangular_solve")
def _(b, self, A, upper=True, transpose=False, unitriangular=False):
    a = _triangle(b, A, upper, unitriangular)
    return solved(b, turned(b, a) if transpose else a, self), A


def _square(b: Builder, x: Value, upper: bool) -> Value:
    """The matrix that a Cholesky factor is of."""
    x = _exact(b, x)
    made: Value = b.MatMul(x, x, transpose_a=upper, transpose_b=not upper)
    return made


@torch.op("aten::cholesky_inverse")
def _(b, self, upper=False):
    return as_value(b, b.Inverse(_square(b, _triangle(b, self, upper, False), upper)), self.type.dtype)


@torch.op("aten::cholesky_solve")
def _(b, self, input2, upper=False):
    return solved(b, _square(b, _triangle(b, input2, upper, False), upper), self)


def _power(b: Builder, x: Value, n: int) -> Value:
    n = known(n, "the power of a matrix")
    if n == 0:
        one = np.eye(static_dim(x.type, -1, "a matrix"), dtype=x.type.dtype.numpy)
        made: Value = b.Expand(one, vector_of(b, [size_of(b, x, i) for i in range(rank(x, "a matrix"))]))
        return made
    if n < 0:
        x, n = b.Inverse(x), -n
    result: Value | None = None
    while True:
        if n & 1:
            result = x if result is None else b.MatMul(result, x)
        n >>= 1
        if not n:
            assert result is not None
            return result
        x = b.MatMul(x, x)


@torch.op("aten::matrix_power", "aten::linalg_matrix_power")
def _(b, self, n):
    return _power(b, self, n)


# ---- covariance


def covariance(b: Builder, x: Value, correction: Any = 1, counts: Value | None = None, weights: Any = None) -> Value:
    """Of the variables in the rows of x; observations stand `counts` times and have `weights`."""
    dtype = float_type(x)
    x = as_value(b, x, dtype)
    if rank(x, "the observations") < 2:
        x = b.Reshape(x, np.array([1, -1]))
    given = [as_value(b, w, dtype) for w in (counts, weights) if w is not None]
    w: Value | None = None
    if given:
        w = given[0] if len(given) == 1 else b.Mul(*given)
    if w is None:
        mean = b.ReduceMean(x, axes=(1,))
        total: Value = as_value(b, b.Shape(x, start=1, end=2), dtype)
        whole = total
    else:
        total = b.ReduceSum(w, axes=(0,))
        mean = b.Div(b.ReduceSum(b.Mul(x, w), axes=(1,)), total)
        whole = total
        if weights is not None:
            # Every weight counts with its own share of the correction.
            whole = b.Div(b.ReduceSum(b.Mul(w, given[-1]), axes=(0,)), total)
    centered = b.Sub(x, mean)
    weighted = centered if w is None else b.Mul(centered, w)
    correction = as_value(b, correction, dtype)
    norm = b.Sub(total, b.Mul(whole, correction) if weights is not None else correction)
    made = b.Div(b.MatMul(weighted, centered, transpose_b=True), b.Max(norm, as_value(b, 0, dtype)))
    return b.Reshape(made, np.zeros(0, np.int64)) if static_dim(x.type, 0, "the variables") == 1 else made


@torch.op("aten::cov")
def _(b, self, correction=1, fweights=None, aweights=None):
    return covariance(b, self, correction, fweights, aweights)


@torch.op("aten::corrcoef")
def _(b, self):
    c = covariance(b, self)
    if c.type.rank == 0:
        return b.Div(c, c)
    spread = b.Sqrt(diagonal(b, c))
    c = b.Div(b.Div(c, b.Unsqueeze(spread, axes=(1,))), b.Unsqueeze(spread, axes=(0,)))
    return b.Clip(c, min=-1.0, max=1.0)


def powers(b: Builder, x: Value, n: int | None, increasing: bool) -> Value:
    """The powers of every element along a new last axis, from 0 on."""
    x = at_least(b, x, 1)
    at = rank(x, "what powers are of")
    n = static_dim(x.type, -1, "what powers are of") if n is None else known(n, "the number of powers")
    if not x.type.dtype.is_float:
        x = as_value(b, x, DType.I64)
    wide = b.Expand(b.Unsqueeze(x, axes=(at,)), vector_of(b, [*[1] * at, max(n - 1, 0)]))
    ones = b.Expand(np.ones((), x.type.dtype.numpy), vector_of(b, [*(size_of(b, x, i) for i in range(at)), min(n, 1)]))
    made: Value = b.CumProd(b.Concat(ones, wide, axis=at), np.array(at))
    return made if increasing else b.Reverse(made, axes=(at,))


@torch.op("aten::vander")
def _(b, x, N=None, increasing=False):
    return powers(b, x, N, increasing)


@torch.op("aten::linalg_vander")
def _(b, x, N=None):
    return powers(b, x, N, True)
