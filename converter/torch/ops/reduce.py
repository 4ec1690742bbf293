"""Reductions: sums, means, extrema and their indices, deviations, norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, known, size_of
from minnow.converter.torch.symbolic.dtype import as_value, dtype_of, floats, number, operands
from minnow.converter.torch.symbolic.tensor import Number
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

HALVES = (DType.F16, DType.BF16)


def axes_over(x: Value, dim: Any) -> tuple[int, ...]:
    """The axes that a `dim` names, counted from the front: all of them for None and an empty list."""
    n = rank(x, "what is reduced")
    dims = known(dim, "the axes")
    if dims is None or dims == []:
        return tuple(range(n))
    axes = [axis_in(d, n) for d in (dims if isinstance(dims, (list, tuple)) else [dims])]
    return tuple(axes) if n else ()


def over(b: Builder, op: str, x: Value, dim: Any = None, keepdim: Any = False) -> Value:
    """A reduction of ours over the axes that a `dim` names."""
    made: Value = getattr(b, op)(x, axes=axes_over(x, dim), keepdims=bool(keepdim))
    return made


def count_over(b: Builder, x: Value, dim: Any) -> Any:
    """How many elements are reduced to one: an int, or a Number."""
    total: Any = 1
    for axis in axes_over(x, dim):
        size = size_of(b, x, axis)
        if isinstance(total, int) and isinstance(size, int):
            total *= size
        else:
            total = Number(b.Mul(as_value(b, total, DType.I64), as_value(b, size, DType.I64)))
    return total


# ---- sums, products, means


def summed(x: Value, dtype: Any) -> DType:
    """The type of a sum: of integers int64, unless another one is asked for."""
    return dtype_of(dtype, x.type.dtype if x.type.dtype.is_float else DType.I64)


def averaged(x: Value, dtype: Any) -> DType:
    """The type of a mean, which must be a float."""
    asked = dtype_of(dtype, x.type.dtype)
    if not asked.is_float:
        raise UnsupportedError(f"the mean of {asked} is not supported", hint="cast to a float type, or give `dtype`")
    return asked


@torch.op("aten::sum")
def _(b, self, dtype=None):
    return over(b, "ReduceSum", as_value(b, self, summed(self, dtype)))


@torch.op("aten::sum.dim_IntList")
def _(b, self, dim=None, keepdim=False, dtype=None):
    return over(b, "ReduceSum", as_value(b, self, summed(self, dtype)), dim, keepdim)


@torch.op("aten::prod")
def _(b, self, dtype=None):
    return over(b, "ReduceProd", as_value(b, self, summed(self, dtype)))


@torch.op("aten::prod.dim_int")
def _(b, self, dim, keepdim=False, dtype=None):
    return over(b, "ReduceProd", as_value(b, self, summed(self, dtype)), dim, keepdim)


@torch.op("aten::mean")
def _(b, self, dtype=None):
    return over(b, "ReduceMean", as_value(b, self, averaged(self, dtype)))


@torch.op("aten::mean.dim")
def _(b, self, dim=None, keepdim=False, dtype=None):
    return over(b, "ReduceMean", as_value(b, self, averaged(self, dtype)), dim, keepdim)


def _without_nan(b: Builder, x: Value) -> Any:
    return b.Where(b.IsNaN(x), number(b, 0, x), x) if x.type.dtype.is_float else x


@torch.op("aten::nansum")
def _(b, self, dim=None, keepdim=False, dtype=None):
    return over(b, "ReduceSum", as_value(b, _without_nan(b, self), summed(self, dtype)), dim, keepdim)


@torch.op("aten::nanmean")
def _(b, self, dim=None, keepdim=False, dtype=None):
    to = averaged(self, dtype)
    total = over(b, "ReduceSum", as_value(b, _without_nan(b, self), to), dim, keepdim)
    return b.Div(total, over(b, "ReduceSum", b.Cast(b.Not(b.IsNaN(self)), to=to), dim, keepdim))


@torch.op("aten::count_nonzero")
def _(b, self, dim=None):
    return over(b, "ReduceSum", b.Cast(as_value(b, self, DType.BOOL), to=DType.I64), dim)


@torch.op("aten::logsumexp", "aten::special_logsumexp")
def _(b, self, dim, keepdim=False):
    return over(b, "ReduceLogSumExp", floats(b, self)[0], dim, keepdim)


# ---- extremes


def _extreme(op: str, arg: str, name: str) -> None:
    @torch.op(f"aten::{name}", f"aten::a{name}")
    def _(b, self, dim=None, keepdim=False):
        return over(b, op, self, dim, keepdim)

    @torch.op(f"aten::{name}.dim")
    def _(b, self, dim, keepdim=False):
        return over(b, op, self, dim, keepdim), place_of(b, arg, self, dim, keepdim)

    @torch.op(f"aten::arg{name}")
    def _(b, self, dim=None, keepdim=False):
        return place_of(b, arg, self, dim, keepdim)


def place_of(b: Builder, op: str, x: Value, dim: int | None, keepdim: bool) -> Value:
    """The first place of an extreme along an axis, or in the flattened tensor."""
    n = rank(x, "what is searched")
    x = b.Cast(x, to=DType.U8) if x.type.dtype is DType.BOOL else x
    if dim is None or n == 0:
        place: Value = getattr(b, op)(b.Reshape(x, np.array([-1])), axis=0, keepdims=False)
        return b.Reshape(place, np.ones(n, np.int64)) if keepdim and n else place
    place = getattr(b, op)(x, axis=axis_in(dim, n), keepdims=bool(keepdim))
    return place


_extreme("ReduceMax", "ArgMax", "max")
_extreme("ReduceMin", "ArgMin", "min")


@torch.op("aten::aminmax", "aten::_aminmax")
def _(b, self, dim=None, keepdim=False):
    return over(b, "ReduceMin", self, dim, keepdim), over(b, "ReduceMax", self, dim, keepdim)


def _logical(op: str, name: str) -> None:
    @torch.op(f"aten::{name}")
    def _(b, self, dim=None, keepdim=False):
        x = as_value(b, self, DType.BOOL)
        made = x if isinstance(dim, list) and not dim else over(b, op, x, dim, keepdim)
        return b.Cast(made, to=DType.U8) if self.type.dtype is DType.U8 else made


_logical("ReduceMax", "any")
_logical("ReduceMin", "all")


@torch.op("aten::_is_any_true")
def _(b, self):
    return b.ReduceMax(self, keepdims=False)


@torch.op("aten::_is_all_true")
def _(b, self):
    return b.ReduceMin(self, keepdims=False)


# ---- deviations


def deviation(b: Builder, x: Value, dim: Any, correction: Any, keepdim: Any, root: bool = False) -> tuple[Value, Value]:
    """Variance, or its root, and mean over axes.

    Args:
        correction: what the number of elements is diminished by for the mean of the squares; None: 1.
    """
    dtype = averaged(x, None)
    wide = b.Cast(x, to=DType.F32) if dtype in HALVES else x
    mean = over(b, "ReduceMean", wide, dim, True)
    squares = over(b, "ReduceSum", b.SquaredDifference(wide, mean), dim, keepdim)
    lost = 1 if correction is None else known(correction, "the correction")
    count = count_over(b, x, dim)
    if isinstance(count, Number):
        left = b.Max(b.Sub(b.Cast(count.value, to=wide.type.dtype), float(lost)), 0.0)
    else:
        left = as_value(b, float(max(count - lost, 0)), wide.type.dtype)
    variance = b.Div(squares, left)
    kept = mean if keepdim else b.Squeeze(mean, axes=axes_over(x, dim)) if x.type.rank else mean
    return as_value(b, b.Sqrt(variance) if root else variance, dtype), as_value(b, kept, dtype)


def _deviation(name: str, root: bool) -> None:
    """The overloads of var and std, and those that give the mean as well."""
    for full, results in ((name, slice(0, 1)), (f"{name}_mean", slice(0, 2))):

        def given(pair: tuple[Value, Value], results: slice = results) -> Any:
            return pair if results.stop == 2 else pair[0]

        @torch.op(f"aten::{full}")
        def _(b, self, unbiased=True, *, given=given):
            return given(deviation(b, self, None, int(unbiased), False, root))

        @torch.op(f"aten::{full}.dim")
        def _(b, self, dim=None, unbiased=True, keepdim=False, *, given=given):
            return given(deviation(b, self, dim, int(unbiased), keepdim, root))

        @torch.op(f"aten::{full}.correction")
        def _(b, self, dim=None, correction=None, keepdim=False, *, given=given):
            return given(deviation(b, self, dim, correction, keepdim, root))


_deviation("var", root=False)
_deviation("std", root=True)


# ---- norms


def norm(b: Builder, x: Value, p: Any = 2, dim: Any = None, keepdim: Any = False, dtype: Any = None) -> Value:
    """(sum of |x|^p)^(1/p) over axes; the largest or smallest |x| for infinite p, the number of others than 0 for 0."""
    to = dtype_of(dtype, x.type.dtype)
    p = 2.0 if p is None or p == "fro" else float(known(p, "the order of a norm"))
    x = as_value(b, x, DType.F32 if to in HALVES else to)
    if not to.is_float:
        raise UnsupportedError(f"the norm of {to} is not supported", hint="cast to a float type first")
    if p in (1.0, 2.0):
        made = over(b, f"ReduceL{int(p)}", x, dim, keepdim)
    elif math.isinf(p):
        made = over(b, "ReduceMax" if p > 0 else "ReduceMin", b.Abs(x), dim, keepdim)
    elif p == 0:
        made = over(b, "ReduceSum", b.Cast(b.NotEqual(x, 0.0), to=x.type.dtype), dim, keepdim)
    else:
        made = b.Pow(over(b, "ReduceSum", b.Pow(b.Abs(x), p), dim, keepdim), 1 / p)
    return as_value(b, made, to)


@torch.op("aten::norm")
def _(b, self, p=2, dim=None, keepdim=False, dtype=None):
    return norm(b, self, p, dim, keepdim, dtype)


@torch.op("aten::linalg_vector_norm")
def _(b, self, ord=2, dim=None, keepdim=False, dtype=None):
    return norm(b, self, ord, dim, keepdim, dtype)


@torch.op("aten::norm.ScalarOpt_dtype")
def _(b, self, p, dtype):
    return norm(b, self, p, dtype=dtype)


@torch.op("aten::frobenius_norm")
def _(b, self, dim=None, keepdim=False):
    return norm(b, self, 2, dim, keepdim)


@torch.op("aten::dist")
def _(b, self, other, p=2):
    return norm(b, b.Sub(*operands(b, self, other)), p)


@torch.op("aten::renorm")
def _(b, self, p, dim, maxnorm):
    axis = axis_in(dim, rank(self, "what is normalized"))
    others = [a for a in range(self.type.rank or 0) if a != axis]
    size = norm(b, self, p, others, True)
    most = number(b, known(maxnorm, "the largest norm"), size)
    factor = b.Div(most, b.Add(size, 1e-7))
    return b.Where(b.Greater(size, most), b.Mul(self, factor), self)


@torch.op("aten::sum_to_size")
def _(b, self, size):
    sizes, n = known(size, "the shape to sum to"), rank(self, "what is summed")
    shape = [None] * (n - len(sizes)) + list(sizes)
    axes = [a for a, d in enumerate(shape) if d is None or (d == 1 and (self.type.shape or ())[a] != 1)]
    total = b.ReduceSum(self, axes=tuple(axes), keepdims=True) if axes else self
    return b.Reshape(total, np.array(sizes, np.int64)) if n != len(sizes) else total
