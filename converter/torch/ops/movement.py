"""Concatenation, repetition, flips, rolls, triangles and diagonals."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, rank, static_dim, turned
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import axis_in, dimension, scalar, size_of, vector_of
from minnow.converter.torch.symbolic.dtype import operands, promote
from minnow.converter.torch.symbolic.part import diagonal as diagonal_of
from minnow.converter.torch.symbolic.part import sliced
from minnow.converter.torch.symbolic.tensor import Number
from minnow.converter.torch.symbolic.view import (
    Axis,
    at_least,
    flattened,
    moved,
    reshape,
    reshape_like,
    swapped,
    together,
)
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


def alike(b: Builder, xs: Sequence[Value]) -> tuple[Value, ...]:
    """Operands of one type; all count alike for it, those without axes too."""
    common = xs[0].type.dtype
    for x in xs[1:]:
        common = promote(common, x.type.dtype)
    return operands(b, *xs, dtype=common)


# ---- put together


def joined(b: Builder, xs: Sequence[Value], dim: int) -> Value:
    """Operands one behind the other along an axis."""
    if not xs:
        raise ModelError("there is no tensor to concatenate")
    xs = alike(b, xs)
    # A vector without elements goes with everything, for what it once was.
    full = [x for x in xs if x.type.shape != (0,)] or [xs[0]]
    at = axis_in(dim, rank(full[0], "what is put together"))
    made: Value = b.Concat(*full, axis=at) if len(full) > 1 else full[0]
    return made


@torch.op("aten::cat", "aten::concat", "aten::concatenate")
def _(b, tensors, dim=0):
    return joined(b, tensors, dim)


def stacked(b: Builder, xs: Sequence[Value], dim: int = 0) -> Value:
    """Operands of one shape one behind the other along a new axis."""
    at = axis_in(dim, rank(xs[0], "what is stacked") + 1)
    return joined(b, [b.Unsqueeze(x, axes=(at,)) for x in xs], at)


@torch.op("aten::stack")
def _(b, tensors, dim=0):
    return stacked(b, tensors, dim)


def _joins(least: int, axis: int, *names: str) -> None:
    @torch.op(*(f"aten::{n}" for n in names))
    def _(b: Builder, tensors: Sequence[Value]) -> Value:
        xs = [at_least(b, x, least) for x in tensors]
        return joined(b, xs, 0 if names[0] == "hstack" and rank(xs[0], "an operand") == 1 else axis)


_joins(1, 1, "hstack")
_joins(2, 0, "vstack", "row_stack")
_joins(3, 2, "dstack")


@torch.op("aten::column_stack")
def _(b, tensors):
    xs = [reshape(b, x, [-1 if x.type.rank else 1, 1]) if rank(x, "an operand") < 2 else x for x in tensors]
    return joined(b, xs, 1)


@torch.op("aten::block_diag")
def _(b, tensors):
    xs = [at_least(b, x, 2) for x in alike(b, tensors)]
    sizes = [[static_dim(x.type, i, "a block") for i in (0, 1)] for x in xs]
    width, rows, left = sum(s[1] for s in sizes), [], 0
    for x, (_, n) in zip(xs, sizes, strict=True):
        rows.append(b.Pad(x, np.array([0, 0, left, width - left - n])) if n != width else x)
        left += n
    return joined(b, rows, 0)


def grids(b: Builder, xs: Sequence[Value], indexing: str = "ij") -> list[Value]:
    """Vectors, each one along an axis of its own and repeated along the others."""
    n = len(xs)
    order = [1, 0, *range(2, n)] if indexing == "xy" and n > 1 else range(n)
    shapes = [[-1 if i == at else 1 for i in range(n)] for at in order]
    return together(b, [reshape(b, x, shape) for x, shape in zip(xs, shapes, strict=True)])


@torch.op("aten::meshgrid")
def _(b, tensors, indexing="ij"):
    return grids(b, tensors, indexing)


@torch.op("aten::cartesian_prod")
def _(b, tensors):
    if len(tensors) == 1:
        return tensors[0]
    return b.Concat(*(b.Reshape(x, np.array([-1, 1])) for x in grids(b, alike(b, tensors))), axis=1)


def _choices(n: int, r: int) -> int:
    """How many ways there are to take r of n, or a part of them that is more than any model has."""
    count = 1 if r <= n else 0
    for i in range(min(r, n - r)):
        count = count * (n - i) // (i + 1)
        if count > 1 << 40:
            break
    return count


@torch.op("aten::combinations")
def _(b, self, r=2, with_replacement=False):
    n = static_dim(self.type, 0, "what is combined")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    bounded(_choices(n + r - 1 if with_replacement and n else n, r) * r, "the result of combinations")
    places = np.array(list(choose(range(n), r)), np.int64).reshape(-1, r)
    return b.Gather(self, places) if r else b.const(np.zeros(0, self.type.dtype.numpy))


# ---- repeated


def repeated(b: Builder, x: Value, counts: Sequence[Any]) -> Value:
    """x so many times along each axis; axes that it lacks come in front."""
    missing = len(counts) - rank(x, "what is repeated")
    if missing < 0:
        raise ModelError(f"{len(counts)} repeats do not fit {x.type}")
    if missing:
        x = b.Unsqueeze(x, axes=tuple(range(missing)))
    if all(isinstance(c, int) and c == 1 for c in counts):
        return x
    made: Value = b.Tile(x, vector_of(b, counts))
    return made


@torch.op("aten::repeat", moves=True)
def _(b, self, repeats):
    return repeated(b, self, repeats)


@torch.op("aten::tile")
def _(b, self, dims):
    return repeated(b, self, [*[1] * (rank(self, "what is repeated") - len(dims)), *dims])


@torch.op("aten::repeat_interleave.self_int")
def _(b, self, repeats, dim=None, output_size=None):
    x = flattened(b, self) if dim is None else self
    if x.type.rank == 0:
        x = reshape(b, x, [1])
    n = rank(x, "what is repeated")
    at = axis_in(dim or 0, n)
    if repeats == 1:
        return x
    wide = b.Expand(b.Unsqueeze(x, axes=(at + 1,)), vector_of(b, [repeats if i == at + 1 else 1 for i in range(n + 1)]))
    d = (x.type.shape or ())[at]
    one = d * repeats if isinstance(d, int) and isinstance(repeats, int) else -1
    if one == -1 and 0 in (x.type.shape or ()):
        raise UnsupportedError("repeat_interleave of an empty tensor is not supported")
    # Behind the two axes that become one, every axis of x is one further on.
    sizes = [*map(Axis, range(at)), one, *(Axis(i + 1) for i in range(at + 1, n))]
    return reshape(b, wide, sizes)


def _counted(b: Builder, repeats: Value, output_size: Any) -> Value:
    """The places of a vector, each as often as a vector of counts says."""
    if repeats.data is not None:
        known_counts = repeats.data.numpy().astype(np.int64)
        if (known_counts < 0).any():
            raise ModelError("repeat_interleave of a negative number of times")
        bounded(sum(map(int, known_counts)), "the result of repeat_interleave")
        return b.const(np.repeat(np.arange(len(known_counts)), known_counts))
    counts = repeats if repeats.type.dtype is DType.I64 else b.Cast(repeats, to=DType.I64)
    ends = b.CumSum(counts, np.array(0))
    total = scalar(b, output_size) if output_size is not None else b.ReduceSum(counts, axes=(0,), keepdims=False)
    # The place of an element is the number of parts that end in front of it or at it.
    steps = b.Range(np.array(0), total, np.array(1))
    ended = b.LessOrEqual(b.Unsqueeze(ends, axes=(0,)), b.Unsqueeze(steps, axes=(1,)))
    made: Value = b.ReduceSum(b.Cast(ended, to=DType.I64), axes=(1,), keepdims=False)
    return made


@torch.op("aten::repeat_interleave.Tensor")
def _(b, repeats, output_size=None):
    return _counted(b, repeats, output_size)


@torch.op("aten::repeat_interleave.self_Tensor")
def _(b, self, repeats, dim=None, output_size=None):
    x = flattened(b, self) if dim is None or self.type.rank == 0 else self
    at = axis_in(dim or 0, rank(x, "what is repeated"))
    counts = repeats if rank(repeats, "the counts") else b.Reshape(repeats, np.array([1]))
    n = (x.type.shape or ())[at]
    if counts.type.shape == (1,) and n != 1:
        counts = b.Expand(counts, vector_of(b, [size_of(b, x, at)]))
    return b.Gather(x, _counted(b, counts, output_size), axis=at)


# ---- turned


def reversed_(b: Builder, x: Value, dims: Sequence[int]) -> Value:
    """x in the opposite order along some axes."""
    n = rank(x, "what is reversed")
    axes = tuple(sorted(axis_in(d, n) for d in dims))
    return b.Reverse(x, axes=axes) if axes and n else x


@torch.op("aten::flip", moves=True)
def _(b, self, dims):
    return reversed_(b, self, dims)


@torch.op("aten::fliplr")
def _(b, self):
    return reversed_(b, self, [1])


@torch.op("aten::flipud")
def _(b, self):
    return reversed_(b, self, [0])


@torch.op("aten::rot90")
def _(b, self, k=1, dims=(0, 1)):
    i, j = (axis_in(d, rank(self, "what is turned")) for d in dims)
    k %= 4
    if k == 2:
        return reversed_(b, self, [i, j])
    x = reversed_(b, self, [j]) if k == 1 else self
    if k:
        x = turned(b, x, swapped(rank(self, ""), i, j))
    return reversed_(b, x, [j]) if k == 3 else x


@torch.op("aten::roll")
def _(b, self, shifts, dims=()):
    shifts, dims = ([v] if isinstance(v, (int, Number)) else list(v) for v in (shifts, dims))
    if not dims:
        (shift,) = shifts
        return reshape_like(b, rolled(b, flattened(b, self), shift, 0), self)
    x = self
    for shift, dim in zip(shifts, dims, strict=True):
        x = rolled(b, x, shift, axis_in(dim, rank(x, "what is rolled")))
    return x


def rolled(b: Builder, x: Value, shift: Any, at: int) -> Value:
    """x with its elements moved on along an axis, the last ones to its start."""
    if x.type.rank == 0:
        return x
    n = (x.type.shape or ())[at]
    if isinstance(n, int) and isinstance(shift, int):
        cut: Any = -shift % n if n else 0
        if not cut:
            return x
    else:
        # The place of the new first element: -shift mod n, of nothing any.
        vector = b.Neg(dimension(b, shift)) if isinstance(shift, Number) else b.const(np.array([-shift]))
        cut = b.Mod(vector, b.Max(b.Shape(x, start=at, end=at + 1), np.array([1])))
        cut = Number(cut, cut)
    made: Value = b.Concat(sliced(b, x, at, cut), sliced(b, x, at, 0, cut), axis=at)
    return made


# ---- diagonals


def _triangle(name: str, upper: bool) -> None:
    @torch.op(f"aten::{name}")
    def _(b: Builder, self: Value, diagonal: Any = 0) -> Value:
        x = self
        if x.type.dtype is DType.BOOL:
            x = b.Cast(x, to=DType.U8)
        made: Value = b.Trilu(x, b.const(np.array(diagonal)) if isinstance(diagonal, int) else scalar(b, diagonal),
                              upper=upper)  # fmt: skip
        return made if x is self else b.Cast(made, to=DType.BOOL)


_triangle("triu", upper=True)
_triangle("tril", upper=False)


def embedded(b: Builder, x: Value, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Value:
    """The last axis of x as a diagonal of two new axes, zeros elsewhere."""
    n = rank(x, "a diagonal") + 1
    i, j = axis_in(dim1, n), axis_in(dim2, n)
    if i == j:
        raise ModelError(f"a diagonal needs two different axes, but both are {i}")
    if i > j:
        offset, i, j = -offset, j, i
    d = (x.type.shape or ())[-1]
    if isinstance(d, int):
        bounded((d + abs(offset)) ** 2, "the matrix of a diagonal")
        side = np.arange(d + abs(offset))
        on: Any = side[:, None] + offset == side
    else:
        whole = b.Add(b.Reshape(b.Shape(x, start=n - 2, end=n - 1), np.zeros(0, np.int64)), np.array(abs(offset)))
        other = b.Range(np.array(0), whole, np.array(1))
        on = b.Equal(b.Add(b.Unsqueeze(other, axes=(1,)), np.array(offset)), b.Unsqueeze(other, axes=(0,)))
    if offset:
        pads = [0, 0] * (n - 2) + ([offset, 0] if offset > 0 else [0, -offset])
        x = b.Pad(x, np.array(pads))
    zero = np.zeros((), x.type.dtype.numpy)
    y = b.Where(on, b.Unsqueeze(x, axes=(n - 2,)), zero)
    return turned(b, y, moved(n, (n - 2, n - 1), (i, j)))


@torch.op("aten::diag_embed")
def _(b, self, offset=0, dim1=-2, dim2=-1):
    return embedded(b, self, offset, dim1, dim2)


@torch.op("aten::diagflat")
def _(b, self, offset=0):
    return embedded(b, flattened(b, self), offset)


@torch.op("aten::diag")
def _(b, self, diagonal=0):
    return embedded(b, self, diagonal) if rank(self, "a diagonal") == 1 else diagonal_of(b, self, diagonal)
