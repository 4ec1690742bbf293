"""Functions of shapes and axes. In a graph they are ops of it; otherwise numpy computes them."""

from __future__ import annotations

import builtins
from itertools import pairwise
from typing import Any

import numpy as np

from minnow.expr import movement as expr
from minnow.expr.argument import axes_of, axis_of, integer, integers
from minnow.expr.names import also, named
from minnow.expr.neural import matmul as _matmul
from minnow.expr.operation import apply
from minnow.expr.var import Var, as_var
from minnow.numpy.host import call, host, into
from minnow.numpy.reduction import in_graph
from minnow.schema.errors import UsageError

_BY_ROWS = ("C", "A", "K")
"""Orders in which the last axis is the fastest one of a value of a graph, which has no order in memory."""


def _some_in_graph(values: Any) -> bool:
    return isinstance(values, (list, tuple)) and builtins.any(in_graph(v) for v in values)


@named("numpy", like="numpy.shape", note="It is a list.")
def shape(a: Any) -> list[int]:
    """The sizes of the axes."""
    return as_var(a).shape


@named("numpy", like="numpy.reshape")
def reshape(a: Any, *newshape: Any, order: str = "C") -> Any:
    """The same elements in another shape, given as a list or as several numbers; one of them may be -1."""
    sizes = newshape[0] if len(newshape) == 1 else newshape
    if in_graph(a) and order in _BY_ROWS:
        return expr.reshape(a, sizes)
    if in_graph(a) and order == "F":
        return transpose(expr.reshape(transpose(a), integers(sizes, "the shape")[::-1]))
    return call("reshape", np.reshape, (a, tuple(integers(sizes, "the shape"))), {"order": order})


@named("numpy", like="numpy.ravel")
def ravel(a: Any, order: str = "C") -> Any:
    """All elements along one axis."""
    return reshape(a, -1, order=order) if in_graph(a) else call("ravel", np.ravel, (a, order), {})


@named("numpy", like="numpy.transpose")
def transpose(a: Any, axes: Any = None) -> Any:
    """The axes in another order, or (None) in reverse."""
    if in_graph(a):
        return expr.transpose(a, list(builtins.reversed(builtins.range(as_var(a).ndim))) if axes is None else axes)
    return call("transpose", np.transpose, (a, None if axes is None else tuple(integers(axes, "axes"))), {})


@named("numpy", like="numpy.squeeze")
def squeeze(a: Any, axis: Any = None) -> Any:
    """Without axes of size 1: those that are given, or all."""
    if in_graph(a):
        return expr.squeeze(a, () if axis is None else axis)
    return call("squeeze", np.squeeze, (a, tuple(axis) if isinstance(axis, list) else axis), {})


@named("numpy", like="numpy.expand_dims")
def expand_dims(x: Any, axis: Any) -> Any:
    """New axes of size 1."""
    if in_graph(x):
        return expr.unsqueeze(x, axis)
    return call("expand_dims", np.expand_dims, (x, tuple(integers(axis, "axis"))), {})


@named("numpy", like="numpy.swapaxes")
def swapaxes(a: Any, axis1: Any, axis2: Any) -> Any:
    """The Var with two axes exchanged."""
    if in_graph(a):
        order = list(builtins.range(as_var(a).ndim))
        i, j = (axis_of(v, len(order)) for v in (axis1, axis2))
        order[i], order[j] = j, i
        return expr.transpose(a, order)
    return call("swapaxes", np.swapaxes, (a, axis1, axis2), {})


@named("numpy", like="numpy.moveaxis")
def moveaxis(a: Any, source: Any, destination: Any) -> Any:
    """The Var with axes moved to other places."""
    if in_graph(a):
        rank = as_var(a).ndim
        froms, tos = (axes_of(v, rank) for v in (source, destination))
        if len(froms) != len(tos):
            raise UsageError(f"{len(froms)} axes are moved to {len(tos)} places")
        order = [i for i in builtins.range(rank) if i not in froms]
        for to, come in builtins.sorted(builtins.zip(tos, froms, strict=True)):
            order.insert(to, come)
        return expr.transpose(a, order)
    lists = (tuple(v) if isinstance(v, list) else v for v in (source, destination))
    return call("moveaxis", np.moveaxis, (a, *lists), {})


@named("numpy", like="numpy.rollaxis")
def rollaxis(a: Any, axis: Any, start: Any = 0) -> Any:
    """The Var with an axis moved in front of another one."""
    return call("rollaxis", np.rollaxis, (a, axis, start), {})


@named("numpy", like="numpy.broadcast_to")
def broadcast_to(array: Any, shape: Any) -> Any:
    """The elements repeated until they have a shape."""
    if in_graph(array):
        return expr.broadcast_to(array, shape)
    return call("broadcast_to", np.broadcast_to, (array, tuple(integers(shape, "shape"))), {})


@named("numpy", like="numpy.concatenate")
def concatenate(args: Any, axis: Any = 0, out: Any = None, dtype: Any = None, casting: str = "same_kind") -> Any:
    """Several Vars one behind the other along an axis; None: of the flattened ones."""
    if _some_in_graph(args) and axis is not None and out is None and dtype is None:
        return expr.concat(list(args), axis)
    made = list(args) if isinstance(args, Var) else args
    if isinstance(made, (list, tuple)) and made:
        made = expr.as_vars([*made])
    return call(
        "concatenate",
        np.concatenate,
        (made, axis),
        {"out": out} | ({} if dtype is None else {"dtype": dtype, "casting": casting}),
    )


@named("numpy", like="numpy.stack")
def stack(arrays: Any, axis: Any = 0, out: Any = None) -> Any:
    """Vars of one shape along a new axis."""
    if _some_in_graph(arrays) and out is None:
        return expr.stack(list(arrays), axis)
    made = expr.as_vars([*arrays]) if isinstance(arrays, (list, tuple)) and arrays else arrays
    return call("stack", np.stack, (made, axis), {"out": out})


def _joining(name: str, function: Any, rank: int, axis: int) -> Any:
    def compute(tup: Any) -> Any:
        if _some_in_graph(tup):
            made = [_at_least(as_var(v), rank) for v in tup]
            return expr.concat(made, 0 if axis and made[0].ndim <= axis else axis)
        return call(name, function, (expr.as_vars([*tup]) if isinstance(tup, (list, tuple)) and tup else tup,), {})

    compute.__name__ = compute.__qualname__ = name
    compute.__doc__ = f"`numpy.{name}`: Vars one behind the other."
    return named("numpy", name, like=f"numpy.{name}")(compute)


def _at_least(var: Var, rank: int) -> Var:
    if var.ndim == 0:
        var = expr.reshape(var, [1])
    if rank >= 2 and var.ndim == 1:
        var = expr.unsqueeze(var, 0)
    return expr.unsqueeze(var, 2) if rank == 3 and var.ndim == 2 else var


hstack = _joining("hstack", np.hstack, 1, 1)
vstack = _joining("vstack", np.vstack, 2, 0)
dstack = _joining("dstack", np.dstack, 3, 2)
row_stack = also(vstack, "numpy", "row_stack", like="numpy.vstack")
column_stack = host("column_stack")


@named("numpy", like="numpy.split")
def split(ary: Any, indices_or_sections: Any, axis: Any = 0) -> Any:
    """Equal parts along an axis, or those between indices."""
    if in_graph(ary):
        var = as_var(ary)
        if isinstance(indices_or_sections, (int, np.integer)):
            return expr.split(var, indices_or_sections, axis)
        size = var.shape[axis_of(axis, var.ndim)]
        cuts = [builtins.min(c if c >= 0 else c + size, size) for c in integers(indices_or_sections, "indices")]
        edges = [0, *cuts, size]
        return expr.split(var, [b - a for a, b in pairwise(edges)], axis)
    return call("split", np.split, (ary, indices_or_sections, axis), {})


array_split = host("array_split")
hsplit = host("hsplit")
vsplit = host("vsplit")
dsplit = host("dsplit")


@named("numpy", like="numpy.tile")
def tile(A: Any, reps: Any) -> Any:
    """The elements repeated along each axis."""
    counts = integers(reps, "reps")
    if in_graph(A) and len(counts) == as_var(A).ndim:
        return expr.tile(A, counts)
    return call("tile", np.tile, (A, tuple(counts)), {})


@named("numpy", like="numpy.matlib.repmat")
def repmat(a: Any, m: Any, n: Any) -> Any:
    """A matrix repeated m times down and n times to the right."""
    return tile(atleast_2d(a), (m, n))


@named("numpy", like="numpy.repeat")
def repeat(a: Any, repeats: Any, axis: Any = None) -> Any:
    """Each element several times, along an axis or in the flattened Var."""
    return call("repeat", np.repeat, (a, repeats, axis), {})


@named("numpy", like="numpy.pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """The Var made larger at both ends of its axes."""
    return call("pad", np.pad, (array, pad_width, mode), kwargs)


@named("numpy", like="numpy.flip")
def flip(m: Any, axis: Any = None) -> Any:
    """The elements in reverse order along axes, or (None) all."""
    if in_graph(m):
        return expr.reverse(m, list(builtins.range(as_var(m).ndim)) if axis is None else axis)
    return call("flip", np.flip, (m, tuple(axis) if isinstance(axis, list) else axis), {})


fliplr = host("fliplr")
flipud = host("flipud")
rot90 = host("rot90")
roll = host("roll")
resize = host("resize")
append = host("append")
delete = host("delete")
insert = host("insert")
block = host("block")
trim_zeros = host("trim_zeros")
broadcast_arrays = host("broadcast_arrays", lambda *args: list(np.broadcast_arrays(*args)))


@named("numpy", like="numpy.atleast_1d")
def atleast_1d(*arys: Any) -> Any:
    """Vars with one axis at least."""
    return _atleast(1, np.atleast_1d, arys)


@named("numpy", like="numpy.atleast_2d")
def atleast_2d(*arys: Any) -> Any:
    """Vars with two axes at least."""
    return _atleast(2, np.atleast_2d, arys)


@named("numpy", like="numpy.atleast_3d")
def atleast_3d(*arys: Any) -> Any:
    """Vars with three axes at least."""
    return _atleast(3, np.atleast_3d, arys)


def _atleast(rank: int, function: Any, arys: Any) -> Any:
    made = [
        _at_least(as_var(v), rank) if in_graph(v) else call(function.__name__, function, (as_var(v),), {}) for v in arys
    ]
    return made[0] if len(made) == 1 else made


@named("numpy", like="numpy.tril")
def tril(m: Any, k: Any = 0) -> Any:
    """The matrix without what is above diagonal k."""
    if in_graph(m):
        return apply("Trilu", m, Var._of(np.asarray(integer(k, "k"), np.int64)), upper=False)
    return call("tril", np.tril, (m, k), {})


@named("numpy", like="numpy.triu")
def triu(m: Any, k: Any = 0) -> Any:
    """The matrix without what is below diagonal k."""
    if in_graph(m):
        return apply("Trilu", m, Var._of(np.asarray(integer(k, "k"), np.int64)), upper=True)
    return call("triu", np.triu, (m, k), {})


@named("numpy", like="numpy.matmul")
def matmul(a: Any, b: Any, out: Any = None) -> Any:
    """The product of matrices, of the last two axes."""
    if (in_graph(a) or in_graph(b)) and out is None:
        return _matmul(a, b)
    return call("matmul", np.matmul, tuple(expr.as_vars([a, b])), {} if out is None else {"out": out})


@named("numpy", like="numpy.dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """The product of vectors or matrices: sums over the last axis of a and the last but one of b."""
    if (in_graph(a) or in_graph(b)) and out is None:
        v, w = expr.as_vars([a, b])
        if v.ndim == 0 or w.ndim == 0:
            return v * w
        if w.ndim <= 2:
            return _matmul(v, w)
    result = call("dot", np.dot, tuple(expr.as_vars([a, b])), {})
    return result if out is None else into(out, result)


vdot = host("vdot")
inner = host("inner")
outer = host("outer")
tensordot = host("tensordot")
cross = host("cross")
kron = host("kron", mnn=False)
trace = host("trace", mnn=False)
einsum = host("einsum", mnn=False)
