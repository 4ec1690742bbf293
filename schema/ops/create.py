"""Tensors made from a few numbers."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, TensorType
from minnow.schema.registry import symbolic
from minnow.schema.registry.dimension import axis_of, contents, length, need_rank, scalar, unknown
from minnow.schema.registry.encoding import WIRE_DTYPES, constant, simple, when
from minnow.schema.registry.op import Arg, Decoded, Numeric, Sizes, T, Trait, WireOp, op
from minnow.schema.registry.sign import is_nonnegative, where_all
from minnow.schema.registry.signature import Role
from minnow.schema.registry.symbolic import Polynomial, element


@op(mnn=simple("Range"))
def Range(start: Numeric, limit: Numeric, delta: Numeric):
    """start, start + delta, start + 2 * delta, ... up to `limit`, which is left out. Operands: scalars of one type."""
    first, step = (np.asarray(v).reshape(()) for v in (start, delta))
    n = _count(start, limit, delta)
    return (first + np.arange(n).astype(first.dtype) * step).astype(first.dtype)


Range.sign(where_all(0, 1))


@Range.dimension
def _(node, axis, hops):
    start, limit, step = (element(node.input(i), 0) for i in range(3))
    counts = (start, step) == (Polynomial(0), Polynomial(1))
    return limit if counts and limit is not None and limit.at_least(0) else None


def _count(start: Any, limit: Any, delta: Any) -> int:
    """The length of a range."""
    first, last, step = (np.asarray(v).reshape(()) for v in (start, limit, delta))
    return max(int(np.ceil(np.float64(last - first) / np.float64(step))), 0)


@op(mnn=when(lambda n: n.input(0).type.shape != (0,), simple("Fill", "NCHW")))  # runtimes refuse an empty shape
def Fill(shape: Sizes, value: T):
    """A tensor of that shape, `value` (one element) everywhere."""
    return np.full(tuple(int(d) for d in shape), np.asarray(value).reshape(()), np.asarray(value).dtype)


@Fill.contents
def _(node, memo):
    value = symbolic.contents(node.input(1), memo) if node.has_input(1) else [Polynomial()]
    return None if value is None or not node.output.type.is_static else value * (node.output.type.count or 0)


@op()
def OneHot(indices: Annotated[Numeric, Role.PLACE], depth: Annotated[Numeric, Role.SIZE], values: T, *, axis: int = -1):
    """A new axis of size `depth` with values[1] at the index and values[0] elsewhere.

    A negative index counts from the end; one that is out of range gives values[0] everywhere.
    """
    n = int(np.asarray(depth).reshape(()))
    index = indices.astype(np.int64)
    index = np.expand_dims(np.where(index < 0, index + n, index), axis)
    places = np.arange(n).reshape(-1, *(1,) * (-axis - 1 if axis < 0 else indices.ndim - axis))
    return np.where(index == places, values[1], values[0]).astype(values.dtype)


@op(traits=frozenset({Trait.SHAPE_ONLY}))
def EyeLike(x: T, *, to: DType | None = None, k: int = 0):
    """Ones on the k-th diagonal (k > 0: above the main one), zeros elsewhere, in the shape of x[M, N]."""
    rows, columns = x.shape
    return np.eye(rows, columns, k).astype(x.dtype if to is None else to.numpy)


# ---- types -------------------------------------------------------------------------------------------------------


@Range.shape
def _(start: Arg, limit: Arg, delta: Arg) -> TensorType:
    operands = (start, limit, delta)
    if len({a.dtype for a in operands}) > 1:
        raise ModelError(
            f"the operands are {', '.join(str(a.dtype) for a in operands)}", why="they must be of one type"
        )
    for what, a in zip(("start", "limit", "delta"), operands, strict=True):
        if a.shape is not None and any(d != 1 and isinstance(d, int) for d in a.shape):
            raise ModelError(f"{what} is {a.type}, not a scalar")
    if start.value is None or limit.value is None or delta.value is None:
        return TensorType(start.dtype, (UNKNOWN,))
    if not np.all(delta.value):
        raise ModelError("delta is 0", why="the range would never end")
    with np.errstate(all="ignore"):
        return TensorType(start.dtype, (_count(start.value, limit.value, delta.value),))


@Fill.shape
def _(shape: Arg, value: Arg) -> TensorType:
    n = length(shape)
    wanted = contents(shape)
    if wanted is not None and min(wanted, default=0) < 0:
        raise ModelError(f"cannot fill the shape {wanted}", why="a dimension is negative")
    if value.type.count not in (1, None):
        raise ModelError(f"the value is {value.type}, not one element")
    return TensorType(value.dtype, unknown(n) if wanted is None else wanted)


@OneHot.shape
def _(indices: Arg, depth: Arg, values: Arg, axis: int) -> TensorType:
    need_rank(values, 1, "values")
    if values.type.count not in (2, None):
        raise ModelError(f"values has {values.type.count} elements, not 2 (off, on)")
    if indices.shape is None:
        return TensorType(values.dtype)
    at = axis_of(axis, len(indices.shape) + 1)
    n = scalar(depth)
    if n is not None and n < 0:
        raise ModelError(f"depth is {n}")
    return TensorType(values.dtype, (*indices.shape[:at], UNKNOWN if n is None else n, *indices.shape[at:]))


@EyeLike.shape
def _(x: Arg, to: DType | None, k: int) -> TensorType:
    need_rank(x, 2, "x")
    return TensorType(to or x.dtype, x.shape or (UNKNOWN, UNKNOWN))


# ---- encoding ----------------------------------------------------------------------------------------------------


_WRITTEN = {DType.F32, DType.I32, DType.BOOL}
"""What runtimes of the format fill with."""


@OneHot.encode("OneHot")
def _(node: Node) -> WireOp | None:
    indices, depth, values = (node.input(i) for i in range(3))
    array = values.array
    # The format has the two values apart, and all indices int32.
    if array is None or indices.type.dtype is not DType.I32 or values.type.dtype not in _WRITTEN:
        return None
    # Runtimes take a negative index for out of range.
    if not is_nonnegative(indices):
        return None
    main = {"axis": node.attrs.get("axis", -1), "dType": WIRE_DTYPES[values.type.dtype]}
    return WireOp("OneHot", "OneHotParam", main, (indices, depth, array[1], array[0]))


@OneHot.decode
def _(wire: WireOp) -> Decoded:
    on, off = constant(wire, 2), constant(wire, 3)
    if on is None or off is None:
        return None
    values = np.concatenate([off.reshape(-1), on.reshape(-1)])
    return (*wire.inputs[:2], values), {"axis": wire.field("axis", -1)}


# ---- samples -----------------------------------------------------------------------------------------------------


@Range.samples
def _(rng):
    rows: list[Any] = [(0, 7, 1), (3, 20, 4), (10, 0, -3), (5, 5, 1), (5, 2, 1), (-3, 4, 2)]
    for row in rows:
        yield tuple(np.array(v, np.int64) for v in row), {}
        yield tuple(np.array(v, np.int32) for v in row), {}
    for row in ((0.0, 1.0, 0.25), (1.0, -1.0, -0.3), (0.5, 17.0, 1.0), (2.0, 1.0, 0.5)):
        yield tuple(np.array(v, np.float32) for v in row), {}


@Fill.samples
def _(rng):
    for shape in ((2, 3), (), (0, 4), (17,), (1, 3, 5, 7)):
        yield (np.array(shape, np.int64), np.array(1.5, np.float32)), {}
    yield (np.array([2, 3], np.int64), np.array([-7], np.int64)), {}
    yield (np.array([5], np.int64), np.array([True])), {}


@OneHot.samples
def _(rng):
    values = np.array([0, 1], np.float32)
    for shape, axis in (((3,), -1), ((2, 3), 0), ((2, 3), 1), ((2, 3), -2), ((), -1), ((0,), -1)):
        yield (rng.integers(0, 5, shape), np.array(5, np.int64), values), {"axis": axis}
    yield (np.array([0, -1, 7, -6, 4], np.int64), np.array(5, np.int64), np.array([-2.5, 3], np.float32)), {}
    yield (np.array([[1, 0]], np.int32), np.array(17, np.int32), np.array([9, 2], np.int32)), {}
    yield (rng.integers(0, 3, (2, 2)), np.array([3], np.int64), values), {}
    yield (np.array([2.0, 0.0], np.float32), np.array(3.0, np.float32), np.array([1, 0], np.int64)), {"axis": 0}


@EyeLike.samples
def _(rng):
    for shape, k in (((3, 3), 0), ((3, 5), 1), ((5, 2), -2), ((1, 4), 9), ((0, 3), 0)):
        yield (shape,), {"k": k}
    yield ((4, 4),), {"to": DType.I32}
    yield (np.ones((2, 3), np.int64),), {"to": DType.F32, "k": -1}
    yield (np.ones((2, 3), np.uint8),), {}
