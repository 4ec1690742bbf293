"""Operands whose value, rank or size a mapping needs to know at conversion time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, LazyBlob, TensorType, Value
from minnow.schema.ops import Builder

_MOST = 1 << 27


def is_known(value: Value) -> bool:
    """The numbers of the operand are constant, or there are none."""
    return value.is_const or count(value) == 0


def constant(value: Value, what: str = "an operand") -> np.ndarray[Any, Any]:
    """The numbers of a constant operand. Raises UnsupportedError when it is computed."""
    if value.data is None:
        raise UnsupportedError(
            f"{what} must be constant",
            why=f"it is computed from the inputs ('{value.name}')",
            hint="if it depends on input shapes only, fix these with `--input NAME=1x3x...`",
        )
    return value.data.numpy()


def ints(value: Value | None, what: str = "an operand") -> tuple[int, ...]:
    """The numbers of a constant operand, of one without elements, or of a missing one, which has none."""
    return () if value is None or count(value) == 0 else tuple(int(v) for v in constant(value, what).reshape(-1))


def count(value: Value | None) -> int | None:
    """How many elements an operand has, a missing one 0; None if that is known only at run time."""
    return 0 if value is None else value.type.count


def rank(value: Value, what: str) -> int:
    """The rank of an operand, which must be known."""
    if value.type.rank is None:
        raise UnsupportedError(f"the rank of {what} must be known", hint="give the input shapes with `--input`")
    return value.type.rank


def bounded(count: int, what: str) -> int:
    """A number of elements that are made while a file is read, if it is none that only a damaged file asks for."""
    if not 0 <= count <= _MOST:
        raise ModelError(f"{what} would have {count} elements, which is more than any model needs")
    return count


def static_dim(type: TensorType, axis: int, what: str) -> int:
    """A dimension that must be a number."""
    d = None if type.shape is None else type.shape[axis]
    if not isinstance(d, int):
        raise UnsupportedError(f"{what} must have a known size", why=f"its type is {type}")
    return d


def turned(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """The operand with its axes in another order; a constant is turned when its numbers are asked for."""
    if tuple(perm) == tuple(range(len(perm))):
        return x
    if x.data is None:
        moved: Value = b.Transpose(x, perm=tuple(perm))
        return moved
    data = x.data
    if len(data.shape) != len(perm):
        raise ModelError(f"'{x.name}' is {x.type}, but must have rank {len(perm)}")
    shape = tuple(data.shape[p] for p in perm)
    return Value.constant(LazyBlob(lambda: np.transpose(data.numpy(), perm), data.dtype, shape), x.name)


def reshaped(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """The operand in another shape without dynamic dimensions; a constant stays one."""
    if x.data is None:
        made: Value = b.Reshape(x, np.asarray(shape, np.int64))
        return made
    data = x.data
    if math.prod(data.shape) != math.prod(shape):
        raise ModelError(f"'{x.name}' is {x.type}, which does not fit the shape {tuple(shape)}")
    return Value.constant(LazyBlob(lambda: data.numpy().reshape(shape), data.dtype, tuple(shape)), x.name)


def dimensions(b: Builder, x: Value, what: str = "an operand") -> list[int | Value]:
    """The dimensions of an operand: numbers where they are known, computed int64[1] where not."""
    sizes: list[int | Value] = []
    for axis in range(rank(x, what)):
        d = (x.type.shape or ())[axis]
        sizes.append(d if isinstance(d, int) else b.Shape(x, start=axis, end=axis + 1))
    return sizes


def vector(b: Builder, parts: Sequence[int | Value]) -> Value:
    """Numbers and computed int64[1] as one int64 vector."""
    if all(isinstance(p, int) for p in parts):
        return b.const(np.array(parts, np.int64))
    if len(parts) == 1 and isinstance(parts[0], Value):
        return parts[0]
    made: Value = b.Concat(*(b.const(np.array([p], np.int64)) if isinstance(p, int) else p for p in parts), axis=0)
    return made


def regroup(b: Builder, x: Value, parts: Sequence[int | Value]) -> Value:
    """The elements of x in a shape with computed dimensions; where there is only one of these, it follows."""
    open_ = [i for i, p in enumerate(parts) if not isinstance(p, int)]
    if len(open_) < 2 and 0 not in parts:
        made: Value = b.Reshape(x, np.array([p if isinstance(p, int) else -1 for p in parts], np.int64))
    else:
        made = b.Reshape(x, vector(b, parts), allowzero=True)
    return made


def turned_by(b: Builder, x: Value, perm: Value) -> Value:
    """The operand with its axes in an order that is computed; its rank must be known."""
    n = rank(x, "what is transposed")
    order = b.Mod(b.Cast(perm, to=DType.I64), np.array(max(n, 1)))
    sizes = b.Shape(x)
    ends = b.CumProd(sizes, np.array(0), exclusive=True, reverse=True)
    out, strides = b.Gather(sizes, order), b.Gather(ends, order)
    places = b.const(np.array(0))
    for k in range(n):
        steps = b.Mul(b.Range(np.array(0), b.Gather(out, np.array(k)), np.array(1)), b.Gather(strides, np.array(k)))
        places = b.Add(places, b.Reshape(steps, np.array([-1 if i == k else 1 for i in range(n)])))
    y: Value = b.Gather(b.Reshape(x, np.array([-1])), places)
    return y
