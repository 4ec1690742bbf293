"""Reading and writing elements by index. An index may be negative: it then counts from the end."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, QuantizedBlob, TensorType
from minnow.schema.ops.quantized_weights import quantized
from minnow.schema.registry.dimension import agree, axis_of
from minnow.schema.registry.encoding import bound, constant
from minnow.schema.registry.op import MOVEMENT, Arg, Decoded, Places, T, WireOp, fill, op
from minnow.schema.registry.sign import is_nonnegative
from minnow.schema.registry.symbolic import moved

Array = np.ndarray[Any, Any]
Reduction = Literal["none", "add", "mul", "max", "min"]

_UFUNCS = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _within(indices: Array, dim: int) -> Array:
    """The indices counted from the front. Raises ModelError when one is out of range."""
    bad = (indices < -dim) | (indices >= dim)
    if np.any(bad):
        raise ModelError(f"index {indices[bad].flat[0]} is out of range for an axis of {dim} elements")
    index = indices.astype(np.int64)
    return np.where(index < 0, index + dim, index)


def _store(y: Array, at: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    if reduction == "none":
        y[at] = updates
    else:
        _UFUNCS[reduction].at(y, at, updates)
    return y


@op(traits=MOVEMENT)
def Gather(x: T, indices: Places, *, axis: int = 0):
    """The slices of x along an axis that the indices name; the shape of `indices` takes the place of the axis."""
    return np.take(x, _within(indices, x.shape[axis]), axis)


Gather.contents(moved)


@op(traits=MOVEMENT)
def GatherElements(x: T, indices: Places, *, axis: int = 0):
    """y[i, j, k] = x[i, indices[i, j, k], k] for axis 1, and likewise for others; the shape is that of `indices`."""
    return x[_along(indices, x.shape, axis)]


def _along(indices: Array, shape: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    """The place in a tensor of that shape of each element of `indices`, which tells the one along `axis`."""
    at: list[Array] = list(np.indices(indices.shape, sparse=True)) if indices.ndim else []
    at[axis] = _within(indices, shape[axis])
    return tuple(at)


@op(traits=MOVEMENT)
def GatherND(x: T, indices: Places, *, batch_dims: int = 0):
    """The slices of x that the vectors in the last axis of `indices` name, after `batch_dims` axes both have."""
    return x[_places(indices, x.shape, batch_dims)]


def _places(indices: Array, shape: tuple[int, ...], batch_dims: int = 0) -> tuple[Array, ...]:
    """Index arrays, shaped as `indices` without its last axis, for the leading axes of a tensor of that shape."""
    rows = np.moveaxis(indices, -1, 0)
    batch = np.indices(rows.shape[1:], sparse=True)[:batch_dims] if batch_dims else ()
    return (*batch, *(_within(row, shape[batch_dims + i]) for i, row in enumerate(rows)))


@op()
def ScatterElements(x: T, indices: Places, updates: T, *, axis: int = 0, reduction: Reduction = "none"):
    """x with y[i, indices[i, j, k], k] = updates[i, j, k] for axis 1, and likewise for others.

    `reduction` combines what is there with the update; without one, places named twice hold one of the updates.
    """
    return _store(x.copy(), _along(indices, x.shape, axis), updates, reduction)


@op()
def ScatterND(x: T, indices: Places, updates: T, *, reduction: Reduction = "none"):
    """x with `updates` in place of, or combined with, the slices that the vectors in the last axis of indices name."""
    if indices.shape[-1] == 0:
        # An empty vector names all of x.
        for update in updates.reshape(-1, *x.shape) if updates.size or x.size else ():
            x = update.copy() if reduction == "none" else _UFUNCS[reduction](x, update)
        return x
    return _store(x.copy(), _places(indices, x.shape), updates, reduction)


# ---- types -------------------------------------------------------------------------------------------------------


def _check_constant(indices: Arg, dim: Any) -> None:
    if indices.value is not None and isinstance(dim, int) and indices.value.size:
        _within(indices.value, dim)


@Gather.shape
def _(x: Arg, indices: Arg, axis: int) -> TensorType:
    if x.shape is None:
        return TensorType(x.dtype)
    at = axis_of(axis, len(x.shape))
    _check_constant(indices, x.shape[at])
    if indices.shape is None:
        return TensorType(x.dtype)
    return TensorType(x.dtype, (*x.shape[:at], *indices.shape, *x.shape[at + 1 :]))


def _same_rank(x: Arg, indices: Arg, axis: int) -> None:
    if x.shape is None or indices.shape is None:
        return
    if len(x.shape) != len(indices.shape) or not x.shape:
        raise ModelError(f"data {x.type} and indices {indices.type} must have the same rank, 1 or more")
    at = axis_of(axis, len(x.shape))
    for i, (d, n) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != at and isinstance(d, int) and isinstance(n, int) and n > d:
            raise ModelError(f"indices {indices.type} reach beyond data {x.type} on axis {i}")
    _check_constant(indices, x.shape[at])


@GatherElements.shape
def _(x: Arg, indices: Arg, axis: int) -> TensorType:
    _same_rank(x, indices, axis)
    return TensorType(x.dtype, indices.shape if indices.shape or x.shape is None else (UNKNOWN,) * len(x.shape))


def _depth(x: Arg, indices: Arg, batch_dims: int) -> int | None:
    """How many axes of x an index vector names."""
    if indices.shape is None:
        return None
    if len(indices.shape) <= batch_dims or batch_dims < 0:
        raise ModelError(f"indices {indices.type} have no vectors behind {batch_dims} batch axes")
    n = indices.shape[-1]
    if not isinstance(n, int) or x.shape is None:
        return None
    if batch_dims + n > len(x.shape):
        raise ModelError(f"indices {indices.type} name {n} axes, of {x.type} there are {len(x.shape) - batch_dims}")
    return n


@GatherND.shape
def _(x: Arg, indices: Arg, batch_dims: int) -> TensorType:
    n = _depth(x, indices, batch_dims)
    if n is None or x.shape is None or indices.shape is None:
        return TensorType(x.dtype)
    batch = [agree([x.shape[i], indices.shape[i]], f"batch axis {i}") for i in range(batch_dims)]
    return TensorType(x.dtype, (*batch, *indices.shape[batch_dims:-1], *x.shape[batch_dims + n :]))


def _scattered(x: Arg, updates: Arg, expected: Any) -> TensorType:
    if updates.dtype != x.dtype:
        raise ModelError(f"the updates are {updates.dtype}, the data {x.dtype}")
    if updates.shape is not None and expected is not None:
        if len(updates.shape) != len(expected):
            raise ModelError(f"updates {updates.type} must have rank {len(expected)}")
        for i, dims in enumerate(zip(updates.shape, expected, strict=True)):
            agree(dims, f"axis {i} of the updates")
    return x.type


@ScatterElements.shape
def _(x: Arg, indices: Arg, updates: Arg, axis: int, reduction: str) -> TensorType:
    _same_rank(x, indices, axis)
    return _scattered(x, updates, indices.shape)


@ScatterND.shape
def _(x: Arg, indices: Arg, updates: Arg, reduction: str) -> TensorType:
    n = _depth(x, indices, 0)
    known = n is not None and x.shape is not None and indices.shape is not None
    return _scattered(x, updates, (*indices.shape[:-1], *x.shape[n:]) if known else None)  # type: ignore[index]


# ---- encoding ----------------------------------------------------------------------------------------------------


@Gather.encode("GatherV2")
def _(node: Node) -> WireOp:
    table = node.input(0).data
    if isinstance(table, QuantizedBlob) and len(table.shape) == 2 and bound(node)["axis"] in (0, -2):
        return _of_packed_rows(table, node)
    main = {"Taxis": "DT_INT32", "Tindices": "DT_INT32", "Tparams": "DT_FLOAT"}
    return WireOp("GatherV2", "GatherV2", main, (*node.inputs, np.array(bound(node)["axis"], np.int32)))


def _of_packed_rows(table: QuantizedBlob, node: Node) -> WireOp:
    """Rows of a table in the parameters of the op, as a convolution has its weights: a file has both once, if they are
    the same. The bias, of zeros, is there for that alone."""
    rows, columns = table.shape
    common = {"outputCount": rows, "inputCount": columns}
    main = {"common": common, "quanParameter": quantized(table), "bias": np.zeros(rows, np.float32)}
    return WireOp("GatherV2", "Convolution2D", main, (node.input(1),))


@Gather.decode
def _(wire: WireOp) -> Decoded:
    if wire.main_type == "Convolution2D":
        return None
    if len(wire.inputs) == 2:
        return wire.inputs, {"axis": wire.field("axis", 0)}
    axis = constant(wire, 2)
    return None if axis is None else (wire.inputs[:2], {"axis": int(axis.reshape(()))})


@GatherElements.encode("GatherElements")
def _(node: Node) -> WireOp | None:
    if not is_nonnegative(node.input(1)):
        return None
    return WireOp("GatherElements", inputs=(*node.inputs, np.array(bound(node)["axis"], np.int32)))


@GatherElements.decode
def _(wire: WireOp) -> Decoded:
    axis = constant(wire, 2) if len(wire.inputs) > 2 else np.zeros(1, np.int32)
    return None if axis is None else (wire.inputs[:2], {"axis": int(axis.reshape(-1)[0])})


@GatherND.encode("GatherND")
def _(node: Node) -> WireOp | None:
    indices = node.input(1)
    # Runtimes of the format ignore batch axes, and get the shape wrong where there are no indices.
    if bound(node)["batch_dims"] or 0 in (indices.type.shape or ()) or not is_nonnegative(indices):
        return None
    return WireOp("GatherND", inputs=node.inputs)


@GatherND.decode
def _(wire: WireOp) -> Decoded:
    return None if wire.field("axis", 0) else (wire.inputs, {})


# The format could name others; its runtimes get them wrong.
_CODES: dict[str, Any] = {"none": -1, "add": "ADD", "mul": "MUL"}


def _reduction(wire: WireOp) -> str | None:
    code = wire.field("opType", "ADD") if wire.main_type == "BinaryOp" else -1
    return next((name for name, c in _CODES.items() if c == code), None)


def _has_code(node: Node, reduction: str) -> bool:
    # Runtimes of the format combine the bits of integers as if they were floats.
    return reduction in _CODES and (reduction == "none" or node.input(0).type.dtype is DType.F32)


@ScatterElements.encode("ScatterElements")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    if not _has_code(node, attrs["reduction"]) or not is_nonnegative(node.input(1)):
        return None
    operands = (*node.inputs, np.array(attrs["axis"], np.int32))
    return WireOp("ScatterElements", "BinaryOp", {"opType": _CODES[attrs["reduction"]]}, operands)


@ScatterElements.decode
def _(wire: WireOp) -> Decoded:
    axis = constant(wire, 3) if len(wire.inputs) > 3 else np.zeros(1, np.int32)
    reduction = _reduction(wire)
    if axis is None or reduction is None:
        return None
    return wire.inputs[:3], {"axis": int(axis.reshape(-1)[0]), "reduction": reduction}


@ScatterND.encode("ScatterNd")
def _(node: Node) -> WireOp | None:
    x, indices, updates = node.inputs
    reduction = bound(node)["reduction"]
    # The shape is an operand of its own; what is not known now would have to be computed.
    if x is None or not x.type.is_static or not _has_code(node, reduction) or not is_nonnegative(node.input(1)):
        return None
    shape = np.array(x.type.static_shape, np.int32)
    main = {"opType": _CODES[reduction]}
    return WireOp("ScatterNd", "BinaryOp", main, (indices, updates, shape, x))


@ScatterND.decode
def _(wire: WireOp) -> Decoded:
    reduction = _reduction(wire)
    if len(wire.inputs) < 4 or reduction is None:
        return None
    return (wire.inputs[3], *wire.inputs[:2]), {"reduction": reduction}


# ---- samples -----------------------------------------------------------------------------------------------------


def _ints(*values: Any) -> Array:
    return np.array(values, np.int64)


@Gather.samples
def _(rng):
    for x, shape, axis in (
        ((5, 3), (2,), 0), ((5, 3), (2, 3), 1), ((5, 7), (), 0), ((3, 5, 7), (4,), -1), ((3, 5), (0,), 0),
        ((2, 3, 17), (1, 2), 1), ((1, 16, 3, 3), (), 1), ((7,), (3,), 0),
    ):  # fmt: skip
        n = x[axis]
        yield (x, rng.integers(0, n, shape)), {"axis": axis}
        yield (x, np.asarray(rng.integers(-n, n, shape)).astype(np.int32)), {"axis": axis}
    yield (_ints(3, 5, 7), _ints(2, 0)), {}
    yield (np.array([True, False]), np.array(1)), {}


@GatherElements.samples
def _(rng):
    for x, shape, axis in (((3, 3), (2, 3), 0), ((3, 5), (3, 4), 1), ((2, 3, 5), (2, 3, 7), -1), ((4, 5), (3, 2), 0),
                           ((7,), (11,), 0), ((3, 2), (0, 2), 0)):  # fmt: skip
        n = x[axis]
        yield (x, rng.integers(0, n, shape)), {"axis": axis}
        yield (x, rng.integers(-n, n, shape)), {"axis": axis}


@GatherND.samples
def _(rng):
    yield ((2, 3), _ints([0, 0], [1, 2])), {}
    yield ((2, 3, 5), _ints([1], [0], [1])), {}
    yield ((2, 3, 5), _ints([[0, 1]], [[1, 2]])), {}
    yield ((2, 3), _ints([-1, -3], [0, -1])), {}
    yield ((2, 3, 5), _ints([1], [2])), {"batch_dims": 1}
    yield ((2, 3, 5, 2), _ints([[1, 0], [2, 4]], [[0, 3], [1, 1]])), {"batch_dims": 1}
    yield ((2, 3, 5), _ints([[4], [0], [2]], [[1], [1], [-1]])), {"batch_dims": 2}
    yield ((2, 3), np.zeros((0, 2), np.int64)), {}


@ScatterElements.samples
def _(rng):
    for reduction in ("none", "add", "mul", "max", "min"):
        yield ((3, 3), _ints([1, 0, 2], [0, 2, 1]), (2, 3)), {"reduction": reduction}
        yield ((1, 5), _ints([1, 3]), (1, 2)), {"axis": 1, "reduction": reduction}
        yield ((2, 7), _ints([-1, 2], [0, -7]), (2, 2)), {"axis": -1, "reduction": reduction}
        if reduction != "none":
            yield ((2, 5), _ints([1, 1, 3], [0, 0, 0]), (2, 3)), {"axis": 1, "reduction": reduction}
        for dtype in (DType.BOOL, DType.F16, DType.BF16, DType.F64, DType.I8, DType.U8, DType.I64):
            x, updates = fill(rng, (2, 7), dtype), fill(rng, (2, 2), dtype)
            yield (x, _ints([-1, 2], [0, -7]), updates), {"axis": 1, "reduction": reduction}
    yield (_ints(1, 2, 3), _ints(2, 0), _ints(9, 8)), {}
    yield ((2, 3), np.zeros((0, 3), np.int64), (0, 3)), {}


@ScatterND.samples
def _(rng):
    for reduction in ("none", "add", "mul", "max", "min"):
        yield ((7,), _ints([4], [3], [1]), (3,)), {"reduction": reduction}
        yield ((4, 3, 5), _ints([0], [2]), (2, 3, 5)), {"reduction": reduction}
        yield ((3, 5), _ints([0, 4], [-1, -2]), (2,)), {"reduction": reduction}
        yield ((3, 5), _ints([[0], [1]], [[2], [-1]])[:, :1], (2, 1, 5)), {"reduction": reduction}
        if reduction != "none":
            yield ((5, 2), _ints([1], [1], [4]), (3, 2)), {"reduction": reduction}
        for dtype in (DType.BOOL, DType.F16, DType.BF16, DType.F64, DType.I8, DType.U8, DType.I64):
            x, updates = fill(rng, (3, 5), dtype), fill(rng, (2, 5), dtype)
            yield (x, _ints([2], [-3]), updates), {"reduction": reduction}
    yield (_ints(1, 2, 3), _ints([2], [0]), _ints(9, 8)), {}
    yield ((2, 3), np.zeros((0, 1), np.int64), (0, 3)), {}
