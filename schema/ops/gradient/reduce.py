"""Derivatives of reductions, running sums and products, top-k, softmax."""

from __future__ import annotations

import math

import numpy as np

from minnow.schema.ops import reduce
from minnow.schema.ops.gradient.pooling import shared
from minnow.schema.registry.dimension import axes_of, axis_of


def _over(x, at, axes):
    """The axes that are reduced over."""
    if at is not None:
        axes = [int(a) for a in at.numbers("the axes")]
    return tuple(range(x.rank)) if axes is None else axes_of(axes, x.rank)


def _kept(g, v, x, over, keepdims):
    """A result with its reduced axes as axes of size 1."""
    return v if keepdims or not over else g.Unsqueeze(v, axes=tuple(sorted(over)))


def _rule(function):
    """A rule that is given x, dy and y with all axes, and the reduced axes."""

    def rule(g, x, at, *, axes, keepdims):
        over = _over(x, at, axes)
        dy, y = (_kept(g, v, x, over, keepdims) for v in (g.dy, g.y))
        return function(g, x, dy, y, over), None

    return rule


@reduce.ReduceSum.gradient
@_rule
def _(g, x, dy, y, over):
    return dy


@reduce.ReduceMean.gradient
@_rule
def _(g, x, dy, y, over):
    dims = [x.dims[a] for a in over]
    if all(isinstance(d, int) for d in dims):
        return dy * (1 / max(math.prod(dims), 1))
    # By way of the numbers of elements, which are known when the graph runs.
    count = g.Cast(g.Size(x), to=x.dtype) / g.Cast(g.Size(y), to=x.dtype)
    return dy / count


@reduce.ReduceMax.gradient
@reduce.ReduceMin.gradient
@_rule
def _(g, x, dy, y, over):
    return shared(g, x, over, dy, y)


@reduce.ReduceProd.gradient
@_rule
def _(g, x, dy, y, over):
    """dy times the product of all others: of those in front of an element, and of those behind it."""
    if not over:
        return dy
    kept = [a for a in range(x.rank) if a not in over]
    perm = (*kept, *over)
    shape = [x.shape[a] for a in perm]
    flat = g.reshaped(g.Transpose(x, perm=perm), *shape[: len(kept)], math.prod(shape[len(kept) :]))
    last = g.term(np.int64(len(kept)))
    others = g.CumProd(flat, last, exclusive=True) * g.CumProd(flat, last, exclusive=True, reverse=True)
    return dy * g.Transpose(g.reshaped(others, *shape), perm=tuple(int(i) for i in np.argsort(perm)))


@reduce.ReduceL1.gradient
@_rule
def _(g, x, dy, y, over):
    return dy * g.Sign(x)


@reduce.ReduceL2.gradient
@_rule
def _(g, x, dy, y, over):
    return g.Where(y > 0.0, dy / y, 0.0) * x


@reduce.ReduceSumSquare.gradient
@_rule
def _(g, x, dy, y, over):
    return dy * 2.0 * x


@reduce.ReduceLogSum.gradient
@_rule
def _(g, x, dy, y, over):
    return dy * g.Exp(-y)


@reduce.ReduceLogSumExp.gradient
@_rule
def _(g, x, dy, y, over):
    return dy * g.Exp(x - y)


@reduce.CumSum.gradient
def _(g, x, axis, *, exclusive, reverse):
    return g.CumSum(g.dy, axis, exclusive=exclusive, reverse=not reverse), None


@reduce.CumProd.gradient
def _(g, x, axis, *, exclusive, reverse):
    """dy_j times the products that end at j, without the factor that the gradient is of.

    All of them at once: a matrix for each row, since dividing by a factor fails where it is 0.
    """
    at = axis_of(int(axis.numbers("the axis").reshape(())), x.rank)
    n = x.shape[at]
    if n == 0:
        return g.zeros(x), None
    perm = (*(a for a in range(x.rank) if a != at), at)

    def last(v):
        v = g.Transpose(v, perm=perm)
        return g.Reverse(v, axes=(-1,)) if reverse else v

    rows, dy = last(x), last(g.dy)
    if exclusive:  # what was moved by one place goes back
        pads = [0] * (2 * x.rank)
        pads[-2:] = [-1, 1]
        dy = g.Pad(dy, g.ints(*pads))
    # factors[i, k] is x_k behind i, and 1 up to it: their running products at j are x_i+1 ... x_j.
    behind = g.term(np.triu(np.ones((n, n), bool), 1))
    end = g.term(np.int64(x.rank))
    factors = g.Where(behind, g.Unsqueeze(rows, axes=(-2,)), 1.0)
    products = g.Where(g.term(np.triu(np.ones((n, n), bool))), g.CumProd(factors, end), 0.0)
    sums = g.Squeeze(g.MatMul(products, g.Unsqueeze(dy, axes=(-1,))), axes=(-1,))
    made = sums * g.CumProd(rows, g.term(np.int64(x.rank - 1)), exclusive=True)
    made = g.Reverse(made, axes=(-1,)) if reverse else made
    return g.Transpose(made, perm=tuple(int(i) for i in np.argsort(perm))), None


@reduce.TopK.gradient
def _(g, x, k, *, axis, largest, sorted):
    return g.ScatterElements(g.zeros(x), g.ys[1], g.dy, axis=axis, reduction="add"), None


@reduce.Softmax.gradient
def _(g, x, *, axis):
    inner = g.dy * g.y
    return inner - g.y * g.total(inner, [axis])


@reduce.LogSoftmax.gradient
def _(g, x, *, axis):
    return g.dy - g.Exp(g.y) * g.total(g.dy, [axis])


@reduce.Hardmax.gradient
def _(g, x, *, axis):
    return None
