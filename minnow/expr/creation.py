"""Tensors made from a few numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.expr.argument import integer, number, shape_operand
from minnow.expr.constant import NCHW
from minnow.expr.dtype import dtype as dtypes
from minnow.expr.dtype import promote, to_array, wanted
from minnow.expr.names import named
from minnow.expr.operation import apply, apply_one
from minnow.expr.var import Var, as_var
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType

_I32 = np.dtype(np.int32)


@named("expr", like="numpy.full")
def fill(shape: Any, value: Any) -> Var:
    """A Var of a shape, all of whose elements are `value`, in the type of `value`."""
    one = as_var(value)
    if one.size != 1:
        raise UsageError(f"the value has the shape {one.shape}, it must be a single number")
    return apply_one("Fill", shape_operand(shape), apply("Reshape", one, Var._of(np.zeros(0, np.int64))))


@named("expr", like="numpy.zeros_like")
def zeros_like(x: Any) -> Var:
    """A Var of the shape and type of x, all of whose elements are 0."""
    var = as_var(x)
    type = var._type()
    zero = Var._of(np.zeros((), _I32 if var._dtype() == np.bool_ else var._dtype()))
    if type.is_static:
        return Var._of(np.zeros(type.static_shape, zero._dtype()), var.data_format)
    return apply_one("Fill", apply("Shape", var), zero, format=var.data_format)


@named("expr", like="numpy.arange")
def range(start: Any, limit: Any, delta: Any) -> Var:
    """start, start + delta, ... below the limit, in the type of the widest of the three."""
    parts = [as_var(v) for v in (start, limit, delta)]
    if any(p.size != 1 for p in parts):
        raise UsageError("start, limit and delta are single numbers")
    to = promote(promote(parts[0]._dtype(), parts[1]._dtype()), parts[2]._dtype())
    flat = [apply("Reshape", p, Var._of(np.zeros(0, np.int64)))._cast(to) for p in parts]
    if flat[2]._is_known() and not flat[2]._value().item():
        raise UsageError("delta is 0")
    return apply_one("Range", *flat)


@named("expr", like="torch.nn.functional.one_hot")
def one_hot(indices: Any, depth: Any, onValue: Any = 1.0, offValue: Any = 0.0, axis: Any = -1) -> Var:
    """A new axis of size `depth`, with `onValue` at the index and `offValue` elsewhere, as floats.

    Args:
        indices: ints; one that is out of range gives `offValue` everywhere.
        depth: size of the new axis.
        onValue, offValue: numbers.
        axis: where the new axis goes.
    """
    var = as_var(indices)
    values = np.array([number(offValue, "offValue"), number(onValue, "onValue")], np.float32)
    place = integer(axis, "axis")
    if not -var.ndim - 1 <= place <= var.ndim:
        raise UsageError(f"axis is {place}", why=f"the result has {var.ndim + 1} axes")
    size = Var._of(np.asarray(integer(depth, "depth", 0), np.int64))
    if var._dtype().kind == "f":
        raise UsageError("the indices are floats", hint="astype(expr.int)")
    # Those below 0 count from the end in the op, here they are out of range.
    wide = var._cast(np.dtype(np.int64))
    zero, far = (Var._of(np.asarray(v, np.int64)) for v in (0, 2**40))
    inside = apply("Where", apply("Less", wide, zero), far, wide)
    return apply_one("OneHot", inside, size, Var._of(values), axis=place)


@named("expr", like="numpy.random.uniform")
def randomuniform(
    shape: Any, dtype: Any = dtypes.float, low: Any = 0.0, high: Any = 1.0, seed0: Any = 0, seed1: Any = 1
) -> Var:
    """Random numbers, each between `low` and `high` with the same probability. The seeds fix them.

    In a graph they are made when it is computed, otherwise at once.
    """
    of = wanted(dtype)
    seed = (integer(seed0, "seed0") * 0x9E3779B1 + integer(seed1, "seed1")) % 2**31
    lowest, highest = number(low, "low"), number(high, "high")
    bounds = {"low": lowest, "high": highest}
    return apply_one("RandomUniform", shape_operand(shape), **bounds, seed=seed, to=DType.F32, format=NCHW)._cast(of)


@named("expr", like="numpy.array")
def scalar(value: Any, dtype: Any = None) -> Var:
    """A Var without axes: an int or a float, by the type of the number."""
    array = to_array(value, None if dtype is None else wanted(dtype))
    if array.size != 1:
        raise UsageError(f"{value!r} is not a single number")
    return Var._of(array.reshape(()).copy())


@named("expr", like="numpy.shape", note="It is a Var of ints.")
def shape(x: Any) -> Var:
    """The sizes of the axes, as a Var of ints."""
    return apply_one("Shape", as_var(x), format=NCHW)._cast(_I32)


@named("expr", like="numpy.size", note="It is a Var without axes.")
def size(x: Any) -> Var:
    """The number of elements, as a Var without axes."""
    return apply_one("Size", as_var(x), format=NCHW)._cast(_I32)


@named("expr", like="numpy.ndim", note="It is a Var without axes.")
def rank(x: Any) -> Var:
    """The number of axes, as a Var without axes."""
    return Var._of(np.asarray(as_var(x).ndim, _I32))
