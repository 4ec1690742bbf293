"""Batches of matrices, and loops over their columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import rank, static_dim
from minnow.converter.torch.symbolic.dimension import Size, size_of, vector_of
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.converter.torch.symbolic.view import swapped
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

_WRITTEN_OUT = 3
"""So many rounds need no loop."""

Round = Callable[[Builder, Value, list[Value]], list[Value]]


def rounds(b: Builder, count: int, start: Sequence[Value], step: Round, fixed: Sequence[Value] = ()) -> list[Value]:
    """Applies a step so many times.

    Args:
        step: (builder, number of the round as int64[1], what is carried, what is fixed) -> what is carried on, of the
            same types. It reads nothing else but constants.
        fixed: what stays as it is.
    """
    carried = list(start)
    if all(x.type.count == 0 for x in carried):
        return carried
    if count <= _WRITTEN_OUT:
        for k in range(count):
            carried = step(b, b.const(np.array([k])), [*carried, *fixed])
        return carried
    graph = Graph("round")
    number = graph.add_param(TensorType(DType.I64, ()), "k")
    again = graph.add_param(TensorType(DType.BOOL, ()), "again")
    params = [graph.add_param(x.type, f"value{i}") for i, x in enumerate([*carried, *fixed])]
    inner = Builder(graph, origin=b.origin)
    graph.outputs = [again, *step(inner, inner.Reshape(number, np.array([1])), params)]
    n = len(carried)
    return list(b.Loop(np.array(count), None, *carried, *fixed, body=graph, num_carried=n, n_outputs=n))


class Batch:
    """Matrices of any leading shape as x[batch, m, n] in float64, and the way back.

    Attributes:
        x: the matrices.
        m, n: their rows and columns.
        dtype: what they were.
    """

    def __init__(self, b: Builder, x: Value) -> None:
        count = rank(x, "a matrix")
        if count < 2:
            raise ModelError(f"{x.type} is not a matrix")
        if not x.type.dtype.is_float:
            raise ModelError(f"{x.type} is not a matrix of floats")
        self.m, self.n = (static_dim(x.type, i, "the side of a matrix") for i in (-2, -1))
        self.sizes: list[Size] = [size_of(b, x, i) for i in range(count - 2)]
        self.dtype = x.type.dtype
        self.x = self.flat(b, x, self.m, self.n)

    def flat(self, b: Builder, x: Value, *tail: int) -> Value:
        """Something with the same leading shape as one batch; in float64 if it is of floats."""
        if x.type.dtype.is_float:
            x = as_value(b, x, DType.F64)
        if len(self.sizes) == 1:
            return x
        made: Value = b.Reshape(x, vector_of(b, [self._count(), *tail]), allowzero=True)
        return made

    def _count(self) -> int:
        if all(isinstance(d, int) for d in self.sizes):
            return math.prod(d for d in self.sizes if isinstance(d, int))
        if 0 in (self.m, self.n):
            raise UnsupportedError("empty matrices in a batch of unknown size are not supported")
        return -1

    def back(self, b: Builder, x: Value, *tail: int, dtype: DType | None = None) -> Value:
        """A result [batch, *tail] in the shape and type of what was given."""
        x = as_value(b, x, dtype or self.dtype)
        if len(self.sizes) == 1:
            return x
        made: Value = b.Reshape(x, vector_of(b, [*self.sizes, *tail]), allowzero=True)
        return made

    def info(self, b: Builder, x: Value) -> Value:
        """What [batch, 1, 1] says of every matrix."""
        return self.back(b, b.Squeeze(x, axes=(1, 2)), dtype=DType.I32)

    def each(self, b: Builder, x: Any) -> Value:
        """A constant for every matrix."""
        count = size_of(b, self.x, 0) if self._count() < 0 else self._count()
        made: Value = b.Expand(b.const(np.asarray(x)[None]), vector_of(b, [count, *np.shape(x)]))
        return made


def square(b: Builder, x: Value) -> Batch:
    """Square matrices.

    Raises:
        ModelError: they are not.
    """
    given = Batch(b, x)
    if given.m != given.n:
        raise ModelError(f"{x.type} is not a square matrix")
    return given


def turned(b: Builder, x: Value) -> Value:
    """Rows for columns."""
    n = rank(x, "a matrix")
    made: Value = b.Transpose(x, perm=tuple(swapped(n, -2, -1)))
    return made
