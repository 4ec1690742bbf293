"""Functions along axes. In a graph they are ops of it; otherwise numpy computes them."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np

from minnow.expr import reduction as expr
from minnow.expr.argument import flag
from minnow.expr.casting import cast
from minnow.expr.dtype import wanted
from minnow.expr.elementwise import sqrt, square, subtract
from minnow.expr.movement import reshape
from minnow.expr.names import also, named
from minnow.expr.setting import SETTINGS
from minnow.expr.var import Var, as_var
from minnow.numpy.host import call, host

_SUM_NOTE = "The result is int32 where it fits."
_MEAN_NOTE = "The result is float32, unless the operand or `dtype` is double."


def in_graph(x: Any) -> bool:
    """Whether a function of it becomes a part of a graph."""
    return isinstance(x, Var) and (SETTINGS.lazy or not x._is_known())


def _of_type(function: Any, a: Any, dtype: Any) -> Any:
    """What a function of a part of a graph gives, computed in the type `dtype`, unless that is None."""
    return function(a) if dtype is None else cast(function(cast(a, dtype)), dtype)


def _reduced(name: str, function: Any, of: Any, a: Any, axis: Any, out: Any, keepdims: Any) -> Any:
    if in_graph(a) and out is None:
        return of(a, () if axis is None else axis, flag(keepdims, "keepdims"))
    return call(
        name, function, (a,), {"axis": _axis(axis), "keepdims": flag(keepdims, "keepdims"), "out": out}, masks=True
    )


def _axis(axis: Any) -> Any:
    return tuple(axis) if isinstance(axis, list) else axis


@named("numpy", like="numpy.sum", note=_SUM_NOTE)
def sum(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The sum along one axis, several, or (None) all."""
    return _reduced("sum", np.sum, expr.reduce_sum, a, axis, out, keepdims)


@named("numpy", like="numpy.prod", note=_SUM_NOTE)
def prod(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The product along one axis, several, or (None) all."""
    return _reduced("prod", np.prod, expr.reduce_prod, a, axis, out, keepdims)


@named("numpy", like="numpy.max")
def max(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The largest element along one axis, several, or (None) all."""
    return _reduced("max", np.max, expr.reduce_max, a, axis, out, keepdims)


@named("numpy", like="numpy.min")
def min(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The smallest element along one axis, several, or (None) all."""
    return _reduced("min", np.min, expr.reduce_min, a, axis, out, keepdims)


amax = also(max, "numpy", "amax", like="numpy.amax")
amin = also(min, "numpy", "amin", like="numpy.amin")


@named("numpy", like="numpy.all")
def all(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Whether no element is 0, along one axis, several, or (None) all."""
    return _reduced("all", np.all, expr.reduce_all, a, axis, out, keepdims)


@named("numpy", like="numpy.any")
def any(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """Whether some element is not 0, along one axis, several, or (None) all."""
    return _reduced("any", np.any, expr.reduce_any, a, axis, out, keepdims)


@named("numpy", like="numpy.mean", note=_MEAN_NOTE)
def mean(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The mean along one axis, several, or (None) all."""
    if in_graph(a) and out is None:
        axes, kept = () if axis is None else axis, flag(keepdims, "keepdims")
        return _of_type(lambda x: expr.reduce_mean(x, axes, kept), a, dtype)
    return _statistic("mean", np.mean, a, axis, dtype, out, keepdims)


def _statistic(name: str, function: Any, a: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, **more: Any) -> Any:
    of = None if dtype is None else wanted(dtype)
    arguments = {"axis": _axis(axis), "dtype": of, "out": out, "keepdims": flag(keepdims, "keepdims"), **more}
    return call(name, function, (a,), arguments, masks=True)


@named("numpy", like="numpy.var", note=_MEAN_NOTE)
def var(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    """The mean squared difference from the mean; `ddof` is subtracted from the number of elements."""
    if in_graph(a) and out is None and ddof == 0:
        axes, kept = () if axis is None else axis, flag(keepdims, "keepdims")

        def variance(x: Any) -> Var:
            return expr.reduce_mean(square(subtract(x, expr.reduce_mean(x, axes, True))), axes, kept)

        return _of_type(variance, a, dtype)
    return _statistic("var", np.var, a, axis, dtype, out, keepdims, ddof=ddof)


@named("numpy", like="numpy.std", note=_MEAN_NOTE)
def std(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: Any = False) -> Any:
    """The square root of `var`."""
    if in_graph(a) and out is None and ddof == 0:
        return sqrt(var(a, axis, dtype, None, 0, keepdims))
    return _statistic("std", np.std, a, axis, dtype, out, keepdims, ddof=ddof)


@named("numpy", like="numpy.argmax")
def argmax(a: Any, axis: Any = None, out: Any = None) -> Any:
    """The index of the largest element along an axis, or in the flattened Var."""
    return _place("argmax", np.argmax, expr.argmax, a, axis, out)


@named("numpy", like="numpy.argmin")
def argmin(a: Any, axis: Any = None, out: Any = None) -> Any:
    """The index of the smallest element along an axis, or in the flattened Var."""
    return _place("argmin", np.argmin, expr.argmin, a, axis, out)


def _place(name: str, function: Any, of: Any, a: Any, axis: Any, out: Any) -> Any:
    if in_graph(a) and out is None:
        return of(reshape(a, [-1]), 0) if axis is None else of(a, axis)
    return call(name, function, (a, axis), {"out": out})


@named("numpy", like="numpy.ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: Any = False) -> Any:
    """The largest element minus the smallest one."""
    if in_graph(a) and out is None:
        return subtract(max(a, axis, None, keepdims), min(a, axis, None, keepdims))
    return call("ptp", np.ptp, (a, _axis(axis)), {"out": out, "keepdims": flag(keepdims, "keepdims")})


@named("numpy", like="numpy.cumsum", note="The default axis is 0. " + _SUM_NOTE)
def cumsum(x: Any, axis: Any = 0) -> Any:
    """The sums of the elements up to each one along an axis; None: of the flattened Var."""
    if in_graph(x) and axis is not None:
        return expr.cumsum(x, axis)
    return call("cumsum", np.cumsum, (x, axis), {})


@named("numpy", like="numpy.cumprod", note="The default axis is 0. " + _SUM_NOTE)
def cumprod(x: Any, axis: Any = 0) -> Any:
    """The products of the elements up to each one along an axis; None: of the flattened Var."""
    if in_graph(x) and axis is not None:
        return expr.cumprod(x, axis)
    return call("cumprod", np.cumprod, (x, axis), {})


@named("numpy", like="numpy.sort")
def sort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """The elements in order along an axis; None: of the flattened Var."""
    if in_graph(a) and axis is not None:
        return expr.sort(a, axis)
    return call("sort", np.sort, (a, axis), {"kind": kind})


@named("numpy", like="numpy.argsort", note="Equal elements keep their order.")
def argsort(a: Any, axis: Any = -1, kind: Any = None, order: Any = None) -> Any:
    """The indices of the elements in order along an axis; None: in the flattened Var."""
    if in_graph(a) and axis is not None:
        return expr.sort(a, axis, True)
    return call("argsort", np.argsort, (a, axis), {"kind": "stable"})


@named("numpy", like="numpy.sort")
def msort(a: Any) -> Any:
    """The elements in order along the first axis."""
    return sort(a, 0)


@named("numpy", like="numpy.average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: Any = False) -> Any:
    """The mean, with weights."""
    return call("average", np.average, (a, axis), {"weights": weights, "returned": flag(returned, "returned")})


def _quantile(name: str, function: Any) -> Any:
    def compute(
        a: Any,
        q: Any,
        axis: Any = None,
        out: Any = None,
        overwrite_input: Any = False,
        interpolation: str = "linear",
        keepdims: Any = False,
        method: Any = None,
    ) -> Any:
        arguments = {
            "axis": _axis(axis),
            "keepdims": flag(keepdims, "keepdims"),
            "method": interpolation if method is None else method,
            "out": out,
        }
        return call(name, function, (a, q), arguments)

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"`numpy.{name}`; the method may be given as `interpolation`, too."
    return named("numpy", name, like=f"numpy.{name}")(compute)


percentile = _quantile("percentile", np.percentile)
quantile = _quantile("quantile", np.quantile)
nanpercentile = _quantile("nanpercentile", np.nanpercentile)
nanquantile = _quantile("nanquantile", np.nanquantile)


@named("numpy", like="numpy.median")
def median(a: Any, axis: Any = None, out: Any = None, overwrite_input: Any = False, keepdims: Any = False) -> Any:
    """The middle element, or the mean of the two middle ones."""
    return call("median", np.median, (a,), {"axis": _axis(axis), "out": out, "keepdims": flag(keepdims, "keepdims")})


@named("numpy", like="numpy.count_nonzero")
def count_nonzero(a: Any, axis: Any = None, keepdims: Any = False) -> Any:
    """How many elements are not 0."""
    return call(
        "count_nonzero",
        np.count_nonzero,
        (a,),
        {"axis": _axis(axis), "keepdims": flag(keepdims, "keepdims")},
        masks=True,
    )


@named("numpy", like="numpy.histogram")
def histogram(
    a: Any, bins: Any = 10, range: Any = None, normed: Any = None, weights: Any = None, density: Any = None
) -> Any:
    """How many elements are in each of the bins, and the edges of these."""
    return call(
        "histogram",
        np.histogram,
        (a, bins, range),
        {"weights": weights, "density": density if density is not None else normed},
    )


nanmedian = host("nanmedian")
nanargmax = host("nanargmax")
nanargmin = host("nanargmin")
nancumprod = host("nancumprod")
nancumsum = host("nancumsum")
nanmax = host("nanmax")
nanmin = host("nanmin")
nanmean = host("nanmean")
nanprod = host("nanprod")
nanstd = host("nanstd")
nansum = host("nansum")
nanvar = host("nanvar")
bincount = host("bincount")
corrcoef = host("corrcoef")
correlate = host("correlate")
cov = host("cov")
digitize = host("digitize")
histogram2d = host("histogram2d")
histogram_bin_edges = host("histogram_bin_edges")
histogramdd = host("histogramdd")


def _diff(a: Any, n: Any = 1, *args: Any, **kwargs: Any) -> Any:
    """numpy's, which takes as many turns as `n` says, though there is nothing left after those of the longest axis."""
    if isinstance(n, (int, np.integer)):
        operands = (a, *args[1:], *(v for k, v in kwargs.items() if k != "axis"))
        n = builtins.min(n, builtins.sum(builtins.sum(np.shape(v)) + 1 for v in operands))
    return np.diff(a, n, *args, **kwargs)


diff = host("diff", _diff)
ediff1d = host("ediff1d")
gradient = host("gradient")
interp = host("interp")
convolve = host("convolve")


@named("numpy", like="numpy.trapezoid")
def trapz(y: Any, x: Any = None, dx: Any = 1.0, axis: Any = -1) -> Any:
    """The area under a line through points, by trapezoids."""
    function = getattr(np, "trapezoid", None) or np.trapz  # type: ignore[attr-defined]
    return call("trapezoid", function, (y,), {"x": x, "dx": dx, "axis": axis})


@named("numpy", like="numpy.ndarray.item")
def asscalar(a: Any) -> Any:
    """The only element, as a number of Python."""
    return as_var(a)._one()
