"""Views of a part of the elements: selects, slices, splits, diagonals. Writing to a view updates its base."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim, turned
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, known, scalar, vector_of
from minnow.converter.torch.symbolic.tensor import Number, Tensor, scatter_view
from minnow.converter.torch.symbolic.view import Axis, Function, reshape, view
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.limit import add_bytes, add_nodes
from minnow.schema.ops import Builder

FAR = (1 << 63) - 1


def dim_of(x: Value, axis: int) -> Any:
    """The dimension along an axis: a number, or a symbol."""
    return (x.type.shape or ())[axis]


def along(x: Value, axis: int) -> list[int]:
    """The shape of a vector along one of the axes of x."""
    return [-1 if i == axis else 1 for i in range(rank(x, "an operand"))]


def put_at(b: Builder, x: Value, axis: int, places: Any, new: Value) -> Value:
    """x with `new` at some places along an axis, which are a vector or a number."""
    wide = b.Reshape(places, np.array(along(x, axis)))
    shape = np.array(new.type.static_shape, np.int64) if new.type.is_static else b.Shape(new)
    made: Value = b.ScatterElements(x, b.Expand(wide, shape), new, axis=axis)
    return made


# ---- one place along an axis


def _put_selected(b: Builder, old: Value, new: Value, dim: int, index: Any) -> Value:
    at = axis_in(dim, rank(old, "what is changed"))
    new = b.Unsqueeze(new, axes=(at,))
    if isinstance(index, int):
        return _put_sliced(b, old, new, at, index, index + 1 if index != -1 else FAR)
    return put_at(b, old, at, scalar(b, index), new)


def selected(b: Builder, x: Value, dim: int, index: Any) -> Value:
    """x at one place along an axis, which goes away."""
    at = axis_in(dim, rank(x, "what is selected from"))
    made: Value = b.Gather(x, np.array(index) if isinstance(index, int) else scalar(b, index), axis=at)
    return made


@view("select", write=_put_selected)
def _(b, self, dim, index):
    return selected(b, self, dim, index)


@torch.op("aten::select_scatter")
def _(b, self, src, dim, index):
    return _put_selected(b, self, _as(b, src, self), dim, index)


def _as(b: Builder, x: Value, like: Value) -> Value:
    return x if x.type.dtype is like.type.dtype else b.Cast(x, to=like.type.dtype)


@view("unbind", write=lambda b, old, new, dim=0, *, pick: _put_selected(b, old, new, dim, pick))
def _(b, self, dim=0, *, node):
    n = dim_of(self, axis_in(dim, rank(self, "what is taken apart")))
    if not isinstance(n, int):
        n = _declared(node, f"how many parts axis {dim} of {self.type} has")
    return [selected(b, self, dim, i) for i in range(n)]


def _declared(node: Any, what: str) -> int:
    """How many results an exported program says that there are."""
    if len(node.outputs) == 1 and isinstance(node.node.outputs[0], (list, tuple)):
        return len(node.node.outputs[0])
    raise UnsupportedError(f"{what} must be known", hint="fix the input shapes with `--input NAME=1x3x...`")


# ---- slices


def _bounds(n: Any, start: Any, end: Any) -> tuple[Any, Any]:
    """The bounds of a slice, from the front where that can be said."""
    start, end = 0 if start is None else start, FAR if end is None else end
    if isinstance(n, int) and isinstance(start, int) and isinstance(end, int):
        start, end, _ = slice(start, end).indices(n)
        end = max(start, end)
    return start, FAR if end == n else end


def sliced(b: Builder, x: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1) -> Value:
    """x[start:end:step] along an axis."""
    at = axis_in(dim, rank(x, "what is sliced"))
    start, end = _bounds(dim_of(x, at), start, end)
    step = known(step, "the step of a slice")
    if (start, step) == (0, 1) and isinstance(end, int) and end >= FAR:
        return x
    made: Value = b.Slice(x, vector_of(b, [start]), vector_of(b, [end]), np.array([at]), np.array([step]))
    return made


def _put_sliced(
    b: Builder, old: Value, new: Value, dim: int = 0, start: Any = None, end: Any = None, step: Any = 1
) -> Value:
    at = axis_in(dim, rank(old, "what is changed"))
    n = dim_of(old, at)
    start, end = _bounds(n, start, end)
    step = known(step, "the step of a slice")
    # What stands in front of the part and behind it, where they cannot overlap, and the part is not empty.
    apart = isinstance(start, int) and isinstance(end, int) and (isinstance(n, int) or start == 0 or end == FAR
                                                                 or (start > 0) == (end > 0))  # fmt: skip
    if step == 1 and apart and dim_of(new, at) != 0:
        front = [] if start == 0 else [sliced(b, old, at, 0, start)]
        behind = [] if end == FAR else [sliced(b, old, at, end)]
        return b.Concat(*front, new, *behind, axis=at) if front or behind else new
    if isinstance(n, int) and isinstance(start, int) and isinstance(end, int):
        places: Any = np.arange(n)[start : min(end, n) : step]
        if not len(places):
            return old
    else:
        length = b.Reshape(b.Shape(old, start=at, end=at + 1), np.zeros(0, np.int64))
        places = sliced(b, b.Range(np.array(0), length, np.array(1)), 0, start, end, step)
    return put_at(b, old, at, places, new)


@view("slice", write=_put_sliced)
def _(b, self, dim=0, start=None, end=None, step=1):
    return sliced(b, self, dim, start, end, step)


@torch.op("aten::slice_scatter")
def _(b, self, src, dim=0, start=None, end=None, step=1):
    return _put_sliced(b, self, _as(b, src, self), dim, start, end, step)


def _narrow_bounds(b: Builder, x: Value, at: int, start: Any, length: Any) -> tuple[Any, Any]:
    n = dim_of(x, at)
    if isinstance(start, Value):
        start = known(start, "the start") if start.data is not None else Number(start)
    if isinstance(start, int) and start < 0 and isinstance(n, int):
        start += n
    if isinstance(start, int) and isinstance(length, int):
        end = start + length
        if isinstance(n, int) and not (0 <= start <= end <= n):
            raise ModelError(f"{length} elements from {start} on do not exist along axis {at} of {x.type}")
        return start, FAR if start < 0 and end == 0 else end
    if not (isinstance(start, int) and start >= 0):
        # Counted from the end, the part may reach up to it.
        one = vector_of(b, [start])
        whole = b.Shape(x, start=at, end=at + 1)
        one = b.Where(b.Less(one, np.array([0])), b.Add(one, whole), one)
        start = Number(one, one)
    last: Value = b.Add(vector_of(b, [start]), vector_of(b, [length])) if start != 0 else vector_of(b, [length])
    return start, Number(last, last)


def narrowed(b: Builder, x: Value, dim: int, start: Any, length: Any) -> Value:
    """So many elements along an axis from a place on."""
    at = axis_in(dim, rank(x, "what is narrowed"))
    return sliced(b, x, at, *_narrow_bounds(b, x, at, start, length))


def _put_narrowed(b: Builder, old: Value, new: Value, dim: int, start: Any, length: Any) -> Value:
    at = axis_in(dim, rank(old, "what is changed"))
    return _put_sliced(b, old, new, at, *_narrow_bounds(b, old, at, start, length))


@view("narrow", write=_put_narrowed)
def _(b, self, dim, start, length):
    return narrowed(b, self, dim, start, length)


# ---- pieces


def pieces(b: Builder, x: Value, dim: int, sizes: Sequence[Any]) -> list[Value]:
    """x cut along an axis into pieces; None is the size of what is left."""
    at = axis_in(dim, rank(x, "what is split"))
    n = dim_of(x, at)
    if None in sizes and isinstance(n, int):
        sizes = [n - sum(s for s in sizes if s is not None) if s is None else s for s in sizes]
    if len(sizes) == 1:
        return [x]
    if all(isinstance(s, int) for s in sizes):
        return list(b.Split(x, axis=at, sizes=tuple(sizes), n_outputs=len(sizes)))
    if None not in sizes:
        return list(b.Split(x, vector_of(b, sizes), axis=at, n_outputs=len(sizes)))
    out = []
    place: Any = 0
    for size in sizes:
        out.append(sliced(b, x, at) if size is None and place == 0 else sliced(b, x, at, place, _after(b, place, size)))
        place = _after(b, place, size)
    return out


def _after(b: Builder, place: Any, size: Any) -> Any:
    if size is None:
        return None
    if isinstance(place, int) and isinstance(size, int):
        return place + size
    sum_: Value = b.Add(vector_of(b, [place]), vector_of(b, [size])) if place != 0 else vector_of(b, [size])
    return Number(sum_, sum_)


def _cuts(*names: str, unsafe: Sequence[str] = ()) -> Callable[[Function], Function]:
    """Registers operators that cut a tensor into pieces, whose axis and sizes the function gives."""

    def add(function: Function) -> Function:
        @wraps(function)
        def read(b: Builder, self: Value, **arguments: Any) -> list[Value]:
            return pieces(b, self, *function(b, self, **arguments))

        def write(b: Builder, old: Value, new: Value, *, pick: int, **arguments: Any) -> Value:
            dim, sizes = function(b, old, node=None, **arguments)
            parts = pieces(b, old, dim, sizes)
            parts[pick] = new
            return b.Concat(*parts, axis=axis_in(dim, rank(old, "what is changed"))) if len(parts) > 1 else new

        torch.op(*(f"aten::{n}" for n in unsafe))(read)
        return view(*names, write=write)(read)

    return add


def equal_parts(n: Any, size: Any, node: Any, what: str) -> list[Any]:
    """Sizes of pieces, of which the last one may be smaller."""
    if not isinstance(n, int) or isinstance(size, Number):
        return [*[size] * (_declared(node, what) - 1), None]
    if size == 0:
        return [0]
    add_nodes(n // abs(size))  # pieces are as good as nodes: a small file can ask for a million million
    return [min(size, n - i) for i in range(0, n, size)] or [0]


@_cuts("split", unsafe=["unsafe_split"])
def _(b, self, split_size, dim=0, *, node=None):
    if isinstance(split_size, (list, tuple)):
        return dim, split_size
    n = dim_of(self, axis_in(dim, rank(self, "what is split")))
    return dim, equal_parts(n, split_size, node, f"how many pieces of {split_size} {self.type} has")


@_cuts("split_with_sizes", unsafe=["unsafe_split_with_sizes"])
def _(b, self, split_sizes, dim=0, *, node=None):
    return dim, split_sizes


@_cuts("chunk", unsafe=["unsafe_chunk"])
def _(b, self, chunks, dim=0, *, node=None):
    n = dim_of(self, axis_in(dim, rank(self, "what is split")))
    if isinstance(n, int):
        add_nodes(0 if n else chunks)
        return dim, equal_parts(n, -(-n // chunks), node, "") if n else [0] * chunks
    count = _declared(node, f"how many pieces {self.type} has")
    whole = b.Shape(self, start=axis_in(dim, rank(self, "what is split")), end=axis_in(dim, rank(self, "")) + 1)
    size = b.Div(b.Add(whole, np.array([chunks - 1])), np.array([chunks]))
    return dim, [*[Number(size, size)] * (count - 1), None]


def _put_section(b: Builder, old: Value, new: Value, dim: int, parts: Any, pick: int) -> Value:
    return _put_sliced(b, old, new, dim, *_sections(old, dim, parts)[pick])


def _sections(x: Value, dim: int, parts: Any) -> list[tuple[int, int]]:
    """Bounds of a number of pieces, the first ones being larger by one, or of pieces that end at these places."""
    at = axis_in(dim, rank(x, "what is split"))
    n = static_dim(x.type, at, "what is split")
    parts = known(parts, "the number of pieces")
    if isinstance(parts, int):
        add_nodes(parts)
        sizes = [n // parts + (i < n % parts) for i in range(parts)]
        ends = np.cumsum(sizes).tolist()
        return list(zip([0, *ends[:-1]], ends, strict=True))
    return list(zip([0, *parts], [*parts, n], strict=True))


def _sectioned(b: Builder, x: Value, dim: int, parts: Any) -> list[Value]:
    found = _sections(x, dim, parts)
    n = static_dim(x.type, axis_in(dim, rank(x, "what is split")), "what is split")
    sizes = [e - s for s, e in found]
    if min(sizes, default=0) >= 0 and found[0][0] == 0 and found[-1][1] == n and all(0 <= e <= n for _, e in found):
        return pieces(b, x, dim, sizes)
    return [sliced(b, x, dim, s, e) for s, e in found]


@view(
    "tensor_split",
    write=lambda b, old, new, dim=0, *, pick, sections: _put_section(b, old, new, dim, sections, pick),
)
def _(b, self, sections, dim=0):
    return _sectioned(b, self, dim, sections)


@view(
    "tensor_split.indices",
    write=lambda b, old, new, indices, dim=0, *, pick: _put_section(b, old, new, dim, indices, pick),
)
def _(b, self, indices, dim=0):
    return _sectioned(b, self, dim, indices)


def numbers(x: Value, what: str) -> Any:
    """The numbers of a constant tensor: one, or a list."""
    if x.data is None:
        raise UnsupportedError(f"{what} must be constant")
    return x.data.numpy().tolist()


@torch.op("aten::tensor_split.tensor_indices_or_sections")
def _(b, self, tensor_indices_or_sections, dim=0):
    return _sectioned(b, self, dim, numbers(tensor_indices_or_sections, "where a tensor is split"))


def _split_along(name: str, axis: Callable[[int], int]) -> None:
    """`hsplit` and its like: the number of pieces, or the places, under a name for each."""
    for overload, parameter in (("int", "sections"), ("array", "indices")):

        def read(b: Builder, self: Value, parts: Any) -> list[Value]:
            return _sectioned(b, self, axis(rank(self, "what is split")), parts)

        def write(b: Builder, old: Value, new: Value, pick: int, **parts: Any) -> Value:
            return _put_section(b, old, new, axis(rank(old, "what is changed")), next(iter(parts.values())), pick)

        view(f"{name}.{overload}", write=write)(_renamed(read, parts=parameter))


def _renamed(function: Function, **names: str) -> Function:
    """The function with other names for its parameters."""
    back = {new: old for old, new in names.items()}

    def call(b: Builder, *values: Any, **arguments: Any) -> Any:
        return function(b, *values, **{back.get(k, k): v for k, v in arguments.items()})

    signature = inspect.signature(function)
    call.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[p.replace(name=names.get(p.name, p.name)) for p in signature.parameters.values()]
    )
    return call


_split_along("hsplit", lambda n: 0 if n == 1 else 1)
_split_along("vsplit", lambda n: 0)
_split_along("dsplit", lambda n: 2)


# ---- diagonals, and other places


def diagonal(b: Builder, x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """The elements with places on a diagonal of two axes, as the last axis."""
    n = rank(x, "what the diagonal is taken of")
    i, j = axis_in(dim1, n), axis_in(dim2, n)
    if i == j:
        raise ModelError(f"a diagonal needs two different axes, but both are {i}")
    rows, columns = (static_dim(x.type, a, "an axis of a diagonal") for a in (i, j))
    rest = [k for k in range(n) if k not in (i, j)]
    first = offset if offset >= 0 else -offset * columns
    count = max(0, min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns))
    flat = reshape(b, turned(b, x, [*rest, i, j]), [*map(Axis, range(len(rest))), rows * columns])
    # The elements of a diagonal stand in a row of the matrix, and one place further in the next one.
    return sliced(b, flat, len(rest), first if count else 0, first + (count - 1) * (columns + 1) + 1 if count else 0,
                  columns + 1)  # fmt: skip


@view("diagonal")
def _(b, self, offset=0, dim1=0, dim2=1):
    return diagonal(b, self, offset, dim1, dim2)


@view("linalg_diagonal")
def _(b, A, offset=0, dim1=-2, dim2=-1):
    return diagonal(b, A, offset, dim1, dim2)


@torch.op("aten::diagonal_scatter")
def _(b, self, src, offset=0, dim1=0, dim2=1):
    return scatter_view(b, self, _as(b, src, self), lambda b, x: diagonal(b, x, offset, dim1, dim2))


def strided(b: Builder, x: Value, size: Any, stride: Any, offset: Any) -> Value:
    """The elements of x, which lie in order, at the places that sizes and strides say."""
    size, stride = known(size, "the size of `as_strided`"), known(stride, "a stride")
    if any(n < 0 for n in size):
        raise ModelError(f"`as_strided` with the size {tuple(size)}")
    add_bytes(8 * math.prod(size))
    places = np.array(known(offset, "the offset") or 0, np.int64)
    for n, step in zip(size, stride, strict=True):
        places = places[..., None] + np.arange(n) * step
    flat = b.Reshape(x, np.array([-1]))
    made: Value = b.Gather(flat, places.reshape(size))
    return made


@torch.op("aten::as_strided", "aten::as_strided_copy", plain=True)
def _(t, self, size, stride, storage_offset=None):
    root = self.root
    if not root.ordered or (storage_offset is None and not self.ordered):
        raise UnsupportedError("`as_strided` is supported only for contiguous tensors")
    value = t.folded(lambda: strided(t.builder, t.value(root), size, stride, storage_offset))
    return Tensor(value, root, lambda b, x: strided(b, x, size, stride, storage_offset))


@torch.op("aten::as_strided_scatter")
def _(b, self, src, size, stride, storage_offset=None):
    return scatter_view(b, self, _as(b, src, self), lambda b, x: strided(b, x, size, stride, storage_offset))
