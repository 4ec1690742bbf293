"""Views of all elements: reshapes, permutations, and expansion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any

import numpy as np

from minnow.converter.operand import rank, turned
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, known, vector_of
from minnow.converter.torch.symbolic.dtype import dtype_of
from minnow.converter.torch.symbolic.tensor import Number, in_order
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ir.type import Dim, same_dim
from minnow.schema.ops import Builder

Function = Callable[..., Any]


@dataclass(frozen=True)
class Axis:
    """The dimension that the operand, or another one, has along an axis, in a list of sizes."""

    index: int
    of: Value | None = None


def view(*names: str, write: Function | None = None, copies: bool = False) -> Callable[[Function], Function]:
    """Registers a view, and the operator that gives a copy of it."""

    def add(function: Function) -> Function:
        torch.op(*(f"aten::{n}" for n in names), view=True, write=write, copies=copies)(function)
        torch.op(*(f"aten::{base}_copy{dot}{overload}" for n in names for base, dot, overload in [n.partition(".")]))(
            function
        )
        return function

    return add


# ---- other shapes


def source_of(size: Any) -> tuple[Value, int] | None:
    """The tensor and axis whose dimension a number is, where it is nothing else."""
    vector = size.vector if isinstance(size, Number) else None
    node = None if vector is None else vector.producer
    if node is None or node.op != "Shape" or node.attrs.get("end") != node.attrs.get("start", 0) + 1:
        return None
    return node.input(0), node.attrs.get("start", 0)


def same_dimension(size: Any, x: Value, axis: int) -> bool:
    """A size is certainly the dimension of x along an axis."""
    shape = x.type.shape or ()
    if isinstance(size, int) or axis >= len(shape):
        return axis < len(shape) and size == shape[axis]
    found = (size.of or x, size.index) if isinstance(size, Axis) else source_of(size)
    if found is None:
        return False
    other, at = found
    if other is x:
        return at == axis
    theirs: Dim = (other.type.shape or ())[at]
    return same_dim(theirs, shape[axis])


def reshape(b: Builder, x: Value, sizes: Sequence[Any]) -> Value:
    """The elements of x in another shape, by one Reshape with a constant shape where that says it all.

    Args:
        sizes: ints, -1 for the one that follows from the others, `Number`s, and `Axis` for a dimension of x.
    """
    shape = x.type.shape
    given = [_resolved(s, x) for s in sizes]
    if x.type.is_static and all(isinstance(s, int) for s in given):
        wanted = _counted(given, x.type.count or 0, x)
        if tuple(wanted) == shape:
            return x
        made: Value = b.Reshape(x, np.array(wanted, np.int64), allowzero=0 in wanted)
        return made
    # 0 stands for the dimension of x at the same place, -1 for the only other one that is not a number.
    kept = [0 if not isinstance(s, int) and same_dimension(s, x, i) else s for i, s in enumerate(given)]
    zeros = any(isinstance(s, int) and s == 0 for s in given)
    open_ = [i for i, s in enumerate(kept) if not isinstance(s, int)]
    if not zeros and len(open_) + kept.count(-1) <= 1:
        made = b.Reshape(x, np.array([s if isinstance(s, int) else -1 for s in kept], np.int64))
        return made
    sizes = [_dimension(b, x, s) for s in (given if zeros else kept)]
    made = b.Reshape(x, vector_of(b, sizes), allowzero=zeros)
    return made


def _resolved(size: Any, x: Value) -> Any:
    if isinstance(size, Axis):
        shape = (size.of or x).type.shape or ()
        d = shape[size.index] if size.index < len(shape) else None
        return d if isinstance(d, int) else size
    return size


def _counted(sizes: Sequence[int], count: int, x: Value) -> list[int]:
    """The sizes with a number for -1."""
    if -1 not in sizes:
        return list(sizes)
    rest = int(np.prod([s for s in sizes if s != -1], dtype=np.int64))
    if not rest or count % rest:
        raise ModelError(f"{x.type} cannot be viewed in the shape {list(sizes)}")
    return [count // rest if s == -1 else s for s in sizes]


def _dimension(b: Builder, x: Value, size: Any) -> Any:
    if not isinstance(size, Axis):
        return size
    vector = b.Shape(size.of or x, start=size.index, end=size.index + 1)
    return Number(vector, vector)


def axes_of(x: Value) -> list[Any]:
    """The dimensions of an operand as sizes for another one."""
    return [Axis(i, x) for i in range(rank(x, "an operand"))]


def _told(sizes: Sequence[Any], node: Any) -> list[Any]:
    """The sizes, with a number for -1 where an exported program says what it is."""
    outputs = node.node.outputs
    declared = node.node.declared.get(outputs[0]) if len(outputs) == 1 and isinstance(outputs[0], str) else None
    if declared is None or declared.shape is None or len(declared.shape) != len(sizes):
        return list(sizes)
    return [d if isinstance(s, int) and s == -1 and isinstance(d, int) else s
            for s, d in zip(sizes, declared.shape, strict=True)]  # fmt: skip


@view("view", "_reshape_alias", write=in_order)
def _(b, self, size, stride=None, *, node):
    return reshape(b, self, _told(size, node))


@torch.op("aten::reshape", view=True, write=in_order, copies=True)
def _(b, self, shape, *, node):
    return reshape(b, self, _told(shape, node))


@torch.op("aten::_unsafe_view")
def _(b, self, size, *, node):
    return reshape(b, self, _told(size, node))


def _cast_back(b: Builder, old: Value, new: Value, dtype: Any) -> Value:
    return _bits(b, new, old.type.dtype)


def _bits(b: Builder, x: Value, to: DType) -> Value:
    if x.type.dtype is to:
        return x
    if x.type.dtype.size != to.size:
        raise UnsupportedError(f"viewing {x.type.dtype} as {to} is not supported: their sizes differ")
    made: Value = b.BitCast(x, to=to)
    return made


@view("view.dtype", write=_cast_back)
def _(b, self, dtype):
    return _bits(b, self, dtype_of(dtype))


@view("view_as", write=in_order)
def _(b, self, other):
    return reshape_like(b, self, other)


@torch.op("aten::reshape_as", view=True, write=in_order, copies=True)
def _(b, self, other):
    return reshape_like(b, self, other)


def reshape_like(b: Builder, x: Value, other: Value) -> Value:
    """The elements of x in the shape of another operand."""
    return reshape(b, x, axes_of(other))


def flattened(b: Builder, x: Value, start: int = 0, end: int = -1) -> Value:
    """Axes from `start` to `end`, which is one of them, as one."""
    n = rank(x, "what is flattened")
    start, end = axis_in(start, n), axis_in(end, n)
    if start > end:
        raise UnsupportedError(f"axes {start} to {end} cannot be flattened")
    if n == 0:
        return reshape(b, x, [1])
    middle = (x.type.shape or ())[start : end + 1]
    one: Any = -1
    if all(isinstance(d, int) for d in middle):
        one = math.prod(d for d in middle if isinstance(d, int))
    return reshape(b, x, [*map(Axis, range(start)), one, *map(Axis, range(end + 1, n))])


@torch.op("aten::flatten", view=True, write=in_order, copies=True)
def _(b, self, start_dim=0, end_dim=-1):
    return flattened(b, self, start_dim, end_dim)


@torch.op("aten::ravel", view=True, write=in_order, copies=True)
def _(b, self):
    return flattened(b, self)


@view("unflatten", write=in_order)
def _(b, self, dim, sizes):
    n = rank(self, "what is unflattened")
    at = axis_in(dim, n)
    d = (self.type.shape or ())[at]
    if isinstance(d, int) and all(isinstance(s, int) for s in sizes):
        sizes = _counted(sizes, d, self)
    return reshape(b, self, [*map(Axis, range(at)), *sizes, *map(Axis, range(at + 1, n))])


def _is_one(x: Value, axis: int, node: Any) -> bool:
    """The dimension is 1. An exported program has been checked for that; elsewhere it must be a known number."""
    d = (x.type.shape or ())[axis]
    if not isinstance(d, int) and not node.node.declared:
        raise UnsupportedError(f"whether squeeze removes axis {axis} of {x.type} depends on its unknown size",
                               hint="fix the input shapes with `--input NAME=1x3x...`")  # fmt: skip
    return d == 1


@view("squeeze", write=in_order)
def _(b, self, dim=None, *, node):
    n = rank(self, "what is squeezed")
    axes = range(n) if dim is None else [axis_in(a, n) for a in ([dim] if isinstance(dim, int) else dim)]
    ones = tuple(sorted(i for i in set(axes) if i < n and _is_one(self, i, node)))
    return b.Squeeze(self, axes=ones) if ones else self


@view("unsqueeze", write=in_order)
def _(b, self, dim):
    return b.Unsqueeze(self, axes=(axis_in(dim, rank(self, "what is unsqueezed") + 1),))


def at_least(b: Builder, x: Value, n: int) -> Value:
    """x with so many axes or more: in front, and from the third on behind."""
    have = rank(x, "an operand")
    places: dict[int, dict[int, tuple[int, ...]]] = {
        1: {0: (0,)},
        2: {0: (0, 1), 1: (0,)},
        3: {0: (0, 1, 2), 1: (0, 2), 2: (2,)},
    }
    new = places[n].get(have)
    return b.Unsqueeze(x, axes=new) if new else x


def _at_least(n: int) -> None:
    @torch.op(f"aten::atleast_{n}d", view=True, write=in_order)
    def _(b: Builder, self: Value) -> Value:
        return at_least(b, self, n)

    @torch.op(f"aten::atleast_{n}d.Sequence")
    def _(b: Builder, tensors: Sequence[Value]) -> list[Value]:
        return [at_least(b, x, n) for x in tensors]


for _n in (1, 2, 3):
    _at_least(_n)


# ---- other orders of the axes


def _turns(*names: str) -> Callable[[Function], Function]:
    """Registers views with the axes in another order, which the function gives for a rank and the arguments."""

    def add(order: Function) -> Function:
        @wraps(order)
        def read(b: Builder, self: Value, **arguments: Any) -> Value:
            n = rank(self, "what is transposed")
            perm = order(n, None, **arguments)
            if sorted(perm) != list(range(n)):
                raise ModelError(f"{list(perm)} is not an order of the axes of {self.type}")
            return turned(b, self, perm)

        def write(b: Builder, old: Value, new: Value, **arguments: Any) -> Value:
            perm = order(rank(old, "what is transposed"), None, **arguments)
            return turned(b, new, [perm.index(i) for i in range(len(perm))])

        return view(*names, write=write)(read)

    return add


def swapped(n: int, i: int, j: int) -> list[int]:
    """The order of n axes with two of them exchanged."""
    order = list(range(n))
    if n:
        i, j = axis_in(i, n), axis_in(j, n)
        order[i], order[j] = j, i
    return order


@_turns("transpose")
def _(n, self, dim0, dim1):
    return swapped(n, dim0, dim1)


@_turns("swapaxes", "swapdims")
def _(n, self, dim0, dim1):
    return swapped(n, dim0, dim1)


@_turns("t", "numpy_T")
def _(n, self):
    return list(range(n))[::-1]


@_turns("mT", "mH", "matrix_H", "adjoint")
def _(n, self):
    return swapped(n, -2, -1) if n else []


@_turns("permute")
def _(n, self, dims):
    return [axis_in(d, n) for d in dims]


@_turns("movedim", "moveaxis")
def _(n, self, source, destination):
    return moved(n, source, destination)


def moved(n: int, source: int | Sequence[int], destination: int | Sequence[int]) -> list[int]:
    """The order of n axes with some of them in other places."""
    sources, places = ([axis_in(a, n) for a in ([v] if isinstance(v, int) else v)] for v in (source, destination))
    at = dict(zip(places, sources, strict=True))
    rest = iter(i for i in range(n) if i not in sources)
    return [at[i] if i in at else next(rest) for i in range(n)]


# ---- repeated


def expanded(b: Builder, x: Value, sizes: Sequence[Any]) -> Value:
    """x repeated to these sizes; -1 leaves a dimension as it is."""
    n = rank(x, "what is expanded")
    first = len(sizes) - n
    if first < 0:
        raise ModelError(f"{x.type} cannot be expanded to {len(sizes)} axes")
    sizes = [_resolved(s, x) for s in sizes]
    # A dimension that stays is 1 in the shape that Expand gets: it takes the larger one of both.
    wanted = [1 if i >= first and _stays(s, x, i - first) else s for i, s in enumerate(sizes)]
    if all(isinstance(s, int) and s == 1 for s in wanted):
        return b.Unsqueeze(x, axes=tuple(range(first))) if first else x
    made: Value = b.Expand(x, vector_of(b, [_dimension(b, x, s) for s in wanted]))
    return made


def _stays(size: Any, x: Value, axis: int) -> bool:
    d = (x.type.shape or ())[axis]
    if isinstance(size, int):
        return size == -1 or size == d
    return (isinstance(d, int) and d != 1) or same_dimension(size, x, axis)


@view("expand")
def _(b, self, size, implicit=False):
    return expanded(b, self, size)


@view("broadcast_to")
def _(b, self, size):
    return expanded(b, self, size)


@view("expand_as")
def _(b, self, other):
    return expand_like(b, self, other)


def expand_like(b: Builder, x: Value, other: Value) -> Value:
    """x repeated to the shape of another operand."""
    sizes = axes_of(other)
    first = len(sizes) - rank(x, "what is expanded")
    if other.type.is_static or all(_stays(_resolved(s, x), x, i - first) for i, s in enumerate(sizes) if i >= first):
        return expanded(b, x, sizes)
    made: Value = b.Expand(x, b.Shape(other))
    return made


@torch.op("aten::broadcast_tensors")
def _(b, tensors):
    return together(b, tensors)


def together(b: Builder, xs: Sequence[Value]) -> list[Value]:
    """Operands broadcast to one shape."""
    shape: list[Any] = [_common(xs, i) for i in range(-max(rank(x, "an operand") for x in xs), 0)]
    if None not in shape:
        return [expanded(b, x, shape) for x in xs]
    out = []
    for x in xs:
        for other in xs:
            if other is not x:
                x = b.Expand(x, b.Shape(other))
        out.append(x)
    return out


def _common(xs: Sequence[Value], axis: int) -> Any:
    """The dimension of broadcast operands along an axis that is counted from the end; None if it is not known."""
    found: Any = 1
    for x in xs:
        n = rank(x, "an operand") + axis
        if n < 0 or (x.type.shape or ())[n] == 1:
            continue
        size = _resolved(Axis(n, x), x)
        if found == 1 or (isinstance(size, int) and not isinstance(found, int)):
            found = size
        elif not isinstance(found, int) and not isinstance(size, int) and not same_dimension(found, x, n):
            return None
    return found


@view("unfold")
def _(b, self, dimension, size, step):
    n = rank(self, "what is unfolded")
    if n == 0:
        if size > 1:
            raise ModelError("a scalar has no windows of more than one element")
        return reshape(b, self, [size]) if size else b.const(np.zeros(0, self.type.dtype.numpy))
    at = axis_in(dimension, n)
    d = (self.type.shape or ())[at]
    inside = np.arange(known(size, "the size of a window"))
    if isinstance(d, int):
        if size > d:
            raise ModelError(f"windows of {size} elements do not fit axis {at} of {self.type}")
        places: Any = np.arange(0, d - size + 1, step)[:, None] + inside
    else:
        last = b.Sub(b.Reshape(b.Shape(self, start=at, end=at + 1), np.zeros(0, np.int64)), np.array(size - 1))
        places = b.Add(b.Unsqueeze(b.Range(np.array(0), last, np.array(step)), axes=(1,)), inside)
    windows = b.Gather(self, places, axis=at)
    return turned(b, windows, moved(n + 1, at + 1, -1))
