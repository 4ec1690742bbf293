"""Functions along axes: sums, means, extremes, running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from minnow.expr.argument import axes_of, axis_of, flag, int64s, integer
from minnow.expr.dtype import NumpyType, narrow
from minnow.expr.elementwise import _boolean, square, subtract
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one
from minnow.expr.var import Var, as_var

_I32, _I64, _F32 = np.dtype(np.int32), np.dtype(np.int64), np.dtype(np.float32)
_BOOL = np.dtype(np.bool_)


def reduced(op: str, x: Var, axis: Any, keepdims: Any) -> Var:
    """An op of the family of ReduceSum; no axes: all of them."""
    is_all = axis is None or (isinstance(axis, (list, tuple)) and not axis)
    axes = None if is_all else axes_of(axis, x.ndim)
    return apply_one(op, x, axes=axes, keepdims=flag(keepdims, "keepdims"))


def widened(x: Any) -> Var:
    """Integers in 64 bits, so that their sum fits."""
    var = as_var(x)
    return var if var._dtype().kind == "f" else var._cast(_I64)


def narrowed(x: Var, like: NumpyType) -> Var:
    """A sum of integers in 32 bits again, if it has a value that fits and the operand was not of 64."""
    array = x._constant()
    if array is None or array.dtype != _I64 or like == _I64:
        return x
    return Var._of(narrow(array), x.data_format)


def _summing(name: str, op: str, like: str) -> Callable[..., Var]:
    def compute(x: Any, axis: Any = (), keepdims: Any = False) -> Var:
        return narrowed(reduced(op, widened(x), axis, keepdims), as_var(x)._dtype())

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, axis, keepdims): along one axis, several, or all of them."
    note = "Integers that do not fit 32 bits give 64, as all of a graph do."
    return named("expr", like=like, note=note)(compute)


def _largest(name: str, op: str, like: str) -> Callable[..., Var]:
    def compute(x: Any, axis: Any = (), keepdims: Any = False) -> Var:
        return reduced(op, as_var(x), axis, keepdims)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, axis, keepdims): along one axis, several, or all of them."
    return named("expr", like=like)(compute)


def _boolean_reduction(name: str, op: str, like: str) -> Callable[..., Var]:
    def compute(x: Any, axis: Any = (), keepdims: Any = False) -> Var:
        return reduced(op, _boolean(x), axis, keepdims)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"{name}(x, axis, keepdims): 1 or 0, along one axis, several, or all of them."
    return named("expr", like=like)(compute)


reduce_sum = _summing("reduce_sum", "ReduceSum", "numpy.sum")
reduce_prod = _summing("reduce_prod", "ReduceProd", "numpy.prod")
reduce_max = _largest("reduce_max", "ReduceMax", "numpy.max")
reduce_min = _largest("reduce_min", "ReduceMin", "numpy.min")
reduce_any = _boolean_reduction("reduce_any", "ReduceMax", "numpy.any")
reduce_all = _boolean_reduction("reduce_all", "ReduceMin", "numpy.all")


@named("expr", like="numpy.mean", note="The mean of integers is a float.")
def reduce_mean(x: Any, axis: Any = (), keepdims: Any = False) -> Var:
    """The mean along one axis, several, or all of them."""
    var = as_var(x)
    return reduced("ReduceMean", var if var._dtype().kind == "f" else var._cast(_F32), axis, keepdims)


@named("expr", like="numpy.argmax")
def argmax(x: Any, axis: Any = 0) -> Var:
    """The index of the largest element along an axis, of the first one of equals."""
    return _arg("ArgMax", x, axis)


@named("expr", like="numpy.argmin")
def argmin(x: Any, axis: Any = 0) -> Var:
    """The index of the smallest element along an axis, of the first one of equals."""
    return _arg("ArgMin", x, axis)


def _arg(op: str, x: Any, axis: Any) -> Var:
    var = as_var(x)
    return apply_one(op, var, axis=axis_of(axis, var.ndim), keepdims=False)._cast(_I32)


@named("expr", like="numpy.cumsum", note="Integers that do not fit 32 bits give 64, as all of a graph do.")
def cumsum(x: Any, axis: Any = 0) -> Var:
    """The sums of the elements up to each one along an axis."""
    return _running("CumSum", x, axis)


@named("expr", like="numpy.cumprod", note="Integers that do not fit 32 bits give 64, as all of a graph do.")
def cumprod(x: Any, axis: Any = 0) -> Var:
    """The products of the elements up to each one along an axis."""
    return _running("CumProd", x, axis)


def _running(op: str, x: Any, axis: Any) -> Var:
    var = widened(x)
    place = axis_of(axis, var.ndim)
    return narrowed(apply(op, var, Var._of(np.asarray(place, np.int64))), as_var(x)._dtype())


@named("expr", like="torch.var_mean")
def moments(x: Any, axes: Any = (2, 3), shift: Any = None, keep_dims: Any = True) -> list[Var]:
    """The mean and the variance along axes."""
    var = as_var(x)
    mean = reduce_mean(var, axes, True)
    variance = reduce_mean(square(subtract(var, mean)), axes, True)
    if flag(keep_dims, "keep_dims"):
        return [mean, variance]
    dropped = axes_of(axes, var.ndim, "axes")
    return [apply("Squeeze", v, axes=dropped) for v in (mean, variance)]


@named("expr", like="numpy.sort")
def sort(x: Any, axis: Any = -1, arg: Any = False, descend: Any = False) -> Var:
    """The elements in order along an axis, or (`arg`) their indices; equal ones keep their order."""
    var = as_var(x)
    if var._dtype() == _BOOL:
        var = var._cast(_I32)
    place = axis_of(axis, var.ndim)
    k = int64s([var.shape[place]])
    values, indices = apply("TopK", var, k, axis=place, largest=flag(descend, "descend"), n_outputs=2)
    return indices._cast(_I32) if flag(arg, "arg") else values  # type: ignore[no-any-return]


@named("expr", like="torch.bincount", note="Elements outside of the limits are left out; the counts are floats.")
def histogram(x: Any, bin_num: Any, min: Any, max: Any, channel: Any = -1) -> Var:
    """How many elements are in each of `bin_num` parts of equal size between two limits.

    Args:
        x: any shape.
        bin_num: number of parts.
        min, max: limits, whole numbers.
        channel: along axis 1, the only channel to look at; -1: all.
    """
    var = as_var(x)
    count, low, high = integer(bin_num, "bin_num", 1), integer(min, "min"), integer(max, "max")
    place = integer(channel, "channel")
    array = var._shown()
    if place >= 0:
        array = array.take(place, axis_of(1, array.ndim, "the axis of channels"))
    if high <= low:
        return Var._of(np.zeros(count, np.float32))
    inside = array[(array >= low) & (array <= high)]
    counts, _ = np.histogram(inside, count, (low, high))
    return Var._of(counts.astype(np.float32))
