"""Tensors cut into parts, put together and padded."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, Node, TensorType
from minnow.schema.registry import symbolic
from minnow.schema.registry.dimension import (
    agree,
    axes_of,
    axis_of,
    contents,
    length,
    total,
)
from minnow.schema.registry.encoding import bound, constant, fields
from minnow.schema.registry.op import MOVEMENT, Arg, Decoded, Sizes, T, Trait, WireOp, op
from minnow.schema.registry.sign import where_all
from minnow.schema.registry.symbolic import moved

Array = np.ndarray[Any, Any]
BLOCKS = MOVEMENT | {Trait.BLOCKABLE}

# Bounds at or beyond this mean "to the end": no axis is that long, and files clamp larger numbers to it.
FAR = 2**30


@op(mnn=fields("Concat", "Axis", axis=("axis", 0)), traits=BLOCKS)
def Concat(*xs: T, axis: int):
    """The operands one after another along an axis; all other dimensions are equal."""
    return np.concatenate(xs, axis)


Concat.sign(where_all())


@Concat.contents
def _(node, memo):
    parts = [v for v in node.inputs if v is not None]
    if node.output.type.rank != 1 or not all(v.type.is_static for v in parts):
        return None
    # What is not known of one part leaves the others as they are.
    return [e for v in parts for e in symbolic.contents(v, memo) or [None] * (v.type.count or 0)]


@op(traits=BLOCKS, outputs=None)
def Split(x: T, parts: Sizes | None = None, *, axis: int = 0, sizes: tuple[int, ...] = ()):
    """x cut along an axis into parts of these sizes, one output each.

    `parts` takes the place of `sizes` where the sizes are computed.
    """
    return tuple(np.split(x, np.cumsum(sizes if parts is None else parts, dtype=np.int64)[:-1], axis))


@op(traits=MOVEMENT)
def Slice(x: T, starts: Sizes, ends: Sizes, axes: Sizes | None = None, steps: Sizes | None = None):
    """x[start:end:step] along each of the axes (default: the first ones), by the rules of Python's slices.

    Negative bounds count from the end, bounds beyond it are clamped, a negative step walks backwards. With one, an end
    of -1 is the last element, not "before the first"; for that the end must lie below minus the size of the axis.
    """
    at = [slice(None)] * x.ndim
    for axis, start, end, step in zip(*_slices(x.ndim, starts, ends, axes, steps), strict=True):
        start, end, step = slice(start, end, step).indices(x.shape[axis])
        at[axis] = slice(start, None if end < 0 else end, step)
    return x[tuple(at)]


Slice.contents(moved)


@op()
def Pad(
    x: T, pads: Sizes, value: T | None = None, *, mode: Literal["constant", "reflect", "edge", "wrap"] = "constant"
):
    """x made larger at both ends of its axes; negative numbers cut off.

    pads is [before0, after0, before1, after1, ...]. "constant" fills with `value` (default 0), "edge" repeats the
    outermost element, "reflect" mirrors without repeating it, "wrap" goes on at the other end.
    """
    ends = np.asarray(pads, np.int64).reshape(-1, 2)
    x = x[tuple(slice(max(-b, 0), d - max(-a, 0)) for d, (b, a) in zip(x.shape, ends.tolist(), strict=True))]
    ends = np.maximum(ends, 0)
    if not ends.any():
        return x
    if mode != "constant":
        return np.pad(x, ends, mode=mode)
    return np.pad(x, ends, constant_values=x.dtype.type(0) if value is None else np.asarray(value).reshape(()))


# ---- types -------------------------------------------------------------------------------------------------------


@Concat.shape
def _(*xs: Arg, axis: int) -> TensorType:
    if not xs:
        raise ModelError("Concat needs an operand")
    if len({x.dtype for x in xs}) > 1:
        raise ModelError(f"the operands are {', '.join(str(x.dtype) for x in xs)}", why="they must be of one type")
    known = [x.shape for x in xs if x.shape is not None]
    if not known:
        return TensorType(xs[0].dtype)
    rank = len(known[0])
    if any(len(s) != rank for s in known):
        raise ModelError(f"the ranks of {', '.join(str(x.type) for x in xs)} differ")
    at = axis_of(axis, rank)
    dims: list[Dim] = [agree([s[i] for s in known], f"axis {i}") if i != at else UNKNOWN for i in range(rank)]
    if len(known) == len(xs):
        dims[at] = total(s[at] for s in known)
    return TensorType(xs[0].dtype, tuple(dims))


@Split.shape
def _(x: Arg, parts: Arg | None, axis: int, sizes: tuple[int, ...], n_outputs: int) -> tuple[TensorType, ...]:
    if parts is not None:
        if length(parts) not in (n_outputs, None):
            raise ModelError(f"{length(parts)} sizes for {n_outputs} outputs")
        known = contents(parts)
        if known is None:
            at = None if x.shape is None else axis_of(axis, len(x.shape))
            shape = None if x.shape is None else tuple(UNKNOWN if i == at else d for i, d in enumerate(x.shape))
            return (TensorType(x.dtype, shape),) * n_outputs
        sizes = known
    if min(sizes, default=-1) < 0:
        raise ModelError(f"sizes {sizes} must be one number per output, none negative")
    if x.shape is None:
        return (TensorType(x.dtype),) * len(sizes)
    at = axis_of(axis, len(x.shape))
    dim = x.shape[at]
    if isinstance(dim, int) and dim != sum(sizes):
        raise ModelError(f"sizes {sizes} add up to {sum(sizes)}, axis {axis} of {x.type} has {dim}")
    return tuple(TensorType(x.dtype, (*x.shape[:at], n, *x.shape[at + 1 :])) for n in sizes)


def _slices(rank: int, starts: Any, ends: Any, axes: Any, steps: Any) -> tuple[list[int], ...]:
    """Axes (from the front), starts, ends and steps as equally long lists of ints."""
    rows = [[int(v) for v in row] for row in (starts, ends)]
    n = len(rows[0])
    chosen = range(n) if axes is None else (int(a) for a in axes)
    steps = [1] * n if steps is None else [int(s) for s in steps]
    return list(axes_of(chosen, rank)), rows[0], rows[1], steps


@Slice.shape
def _(x: Arg, starts: Arg, ends: Arg, axes: Arg | None, steps: Arg | None) -> TensorType:
    operands = {"starts": starts, "ends": ends, "axes": axes, "steps": steps}
    lengths = {name: length(a) for name, a in operands.items() if a is not None}
    if len({n for n in lengths.values() if n is not None}) > 1:
        raise ModelError(f"the operands have different lengths: {lengths}")
    if x.shape is None:
        return TensorType(x.dtype)
    rank = len(x.shape)
    n = next((n for n in lengths.values() if n is not None), None)
    if axes is not None:
        named = contents(axes)
        touched = tuple(range(rank)) if named is None else axes_of(named, rank)
    else:
        touched = tuple(range(rank)) if n is None else axes_of(range(n), rank)
    values = [contents(a) for a in (starts, ends, steps)]
    if values[0] is None or values[1] is None or (steps is not None and values[2] is None) or len(touched) != n:
        return TensorType(x.dtype, tuple(UNKNOWN if i in touched else d for i, d in enumerate(x.shape)))
    dims = list(x.shape)
    for axis, start, end, step in zip(touched, values[0], values[1], values[2] or (1,) * n, strict=True):
        dims[axis] = _sliced(dims[axis], start, end, step)
    return TensorType(x.dtype, tuple(dims))


def _sliced(dim: Dim, start: int, end: int, step: int) -> Dim:
    if step == 0:
        raise ModelError("a step of Slice is 0")
    if isinstance(dim, int):
        return len(range(*slice(start, end, step).indices(dim)))
    forwards = step == 1 and (start == 0 or start <= -FAR) and end >= FAR
    backwards = step == -1 and (start == -1 or start >= FAR) and end <= -FAR
    return dim if forwards or backwards else UNKNOWN


@Pad.shape
def _(x: Arg, pads: Arg, value: Arg | None, mode: str) -> TensorType:
    if value is not None and (value.dtype != x.dtype or value.type.count not in (1, None)):
        raise ModelError(f"the value is {value.type}, not one element of type {x.dtype}")
    n = length(pads)
    if n is not None and n % 2:
        raise ModelError(f"pads has the odd length {n}")
    if x.shape is None:
        return TensorType(x.dtype, None if n is None else (UNKNOWN,) * (n // 2))
    if n is not None and n != 2 * len(x.shape):
        raise ModelError(f"pads has {n} numbers, not two for each axis of {x.type}")
    numbers = contents(pads)
    if numbers is None:
        return TensorType(x.dtype, (UNKNOWN,) * len(x.shape))
    pairs = list(zip(numbers[::2], numbers[1::2], strict=True))
    for d, (b, a) in zip(x.shape, pairs, strict=True):
        kept = d + min(b, 0) + min(a, 0) if isinstance(d, int) else 1
        if kept < 0 or (kept == 0 and mode != "constant" and max(a, b) > 0):
            raise ModelError(f"cannot pad {x.type} by {numbers}", why=f"{d} elements, {kept} left to {mode}")
    return TensorType(x.dtype, tuple(total((d, b + a)) for d, (b, a) in zip(x.shape, pairs, strict=True)))


# ---- encoding ----------------------------------------------------------------------------------------------------


@Split.encode("Slice")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    if node.has_input(1):
        # A constant is the attribute, once it is folded; a single number would be the size of every part.
        if node.input(1).is_const or node.input(1).type.shape != (len(node.outputs),):
            return None
        main = {"axis": attrs["axis"], "sourceType": "TORCH"}
        return WireOp("Slice", "Slice", main, node.inputs, len(node.outputs))
    # Runtimes of the format do not make empty parts.
    if 0 in attrs["sizes"]:
        return None
    main = {"axis": attrs["axis"], "slicePoints": list(attrs["sizes"]), "sourceType": "TORCH"}
    return WireOp("Slice", "Slice", main, node.inputs, len(node.outputs))


@Split.decode
def _(wire: WireOp) -> Decoded:
    axis, source = wire.field("axis", 0), wire.field("sourceType", "CAFFE")
    points = wire.field("slicePoints") if len(wire.inputs) == 1 else constant(wire, 1)
    numbers = [] if points is None else [int(p) for p in points]
    n = wire.n_outputs
    if source == "TORCH" and points is None and len(wire.inputs) > 1 and wire.inputs[1].type.shape == (n,):
        return wire.inputs, {"axis": axis}
    shape = wire.inputs[0].type.shape
    dim = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else UNKNOWN
    sizes: tuple[int, ...]
    if source == "TORCH" and len(numbers) == n:
        sizes = tuple(numbers)
    elif not isinstance(dim, int) or (points is None and len(wire.inputs) > 1):
        return None
    elif source == "CAFFE" and len(numbers) == n - 1 and numbers:
        sizes = tuple(b - a for a, b in pairwise([0, *numbers, dim]))
    elif source == "TORCH" and len(numbers) == 1:
        sizes = tuple(min(numbers[0], dim - i * numbers[0]) for i in range(n))
    elif len(numbers) == n and source == "TENSORFLOW" and n > 1:
        rest = dim - sum(p for p in numbers if p >= 0)
        sizes = tuple(rest if p < 0 else p for p in numbers)
    elif dim % n == 0:
        sizes = (dim // n,) * n
    else:
        return None
    return wire.inputs[:1], {"axis": axis, "sizes": sizes}


@Slice.encode("StridedSlice", "SliceTf")
def _(node: Node) -> WireOp | None:
    x, starts, ends = (node.input(i) for i in range(3))
    axes, steps = (node.input(i) if node.has_input(i) else None for i in (3, 4))
    operands: list[Any] = [x, starts, ends]
    if axes is None and steps is not None:
        # Not every runtime takes a missing operand in the middle.
        n = starts.type.shape[0] if starts.type.shape else None
        if not isinstance(n, int):
            return None
        operands.append(np.arange(n, dtype=np.int32))
    operands += [v for v in (axes, steps) if v is not None]
    main = {"Index": "DT_INT32", "T": "DT_FLOAT", "fromType": 1}
    return WireOp("StridedSlice", "StridedSliceParam", main, operands)


@Slice.decode
def _(wire: WireOp) -> Decoded:
    if wire.type == "StridedSlice":
        return (wire.inputs, {}) if wire.field("fromType", 0) == 1 else None
    begin, size = constant(wire, 1), constant(wire, 2)
    if begin is None or size is None:
        return None
    to_end = (size < 0) | ((begin < 0) & (begin + size >= 0))
    ends = np.where(to_end, 2**31 - 1, begin + size).astype(np.int32)
    return (wire.inputs[0], begin.astype(np.int32), ends), {}


_PAD_MODES = {"constant": "CONSTANT", "reflect": "REFLECT", "edge": "EDGE"}


def _pads_fit(node: Node) -> bool:
    """The format's runtimes do not cut off, do not wrap, and mirror once at most, which is what a mirror is asked for
    where the dimension is not known."""
    mode = bound(node)["mode"]
    pads = node.input(1).array
    shape = node.input(0).type.shape
    if mode not in _PAD_MODES or (pads is not None and pads.size and pads.min() < 0):
        return False
    if mode != "reflect":
        return True
    if pads is None or shape is None:
        return True
    known = [(d, p) for d, p in zip(shape, pads.reshape(-1, 2), strict=True) if isinstance(d, int) and any(p)]
    return all(max(p) < d for d, p in known)


@Pad.encode("Padding")
def _(node: Node) -> WireOp | None:
    main = {"mode": _PAD_MODES.get(bound(node)["mode"])}
    return WireOp("Padding", "PadParam", main, node.inputs) if _pads_fit(node) else None


@Pad.decode
def _(wire: WireOp) -> Decoded:
    modes = {code: mode for mode, code in _PAD_MODES.items()}
    mode = modes.get(wire.field("mode", "CONSTANT"))
    return None if mode is None else (wire.inputs, {"mode": mode})


# ---- samples -----------------------------------------------------------------------------------------------------


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


@Concat.samples
def _(rng):
    for shapes, axis in (
        (((2, 3), (2, 5)), 1), (((2, 3), (4, 3), (1, 3)), 0), (((1, 17, 3, 3), (1, 4, 3, 3)), 1), (((3,),), 0),
        (((2, 3), (2, 3)), -1), (((0, 3), (2, 3)), 0), (((1, 3, 5, 7), (1, 3, 2, 7)), -2), (((1, 8, 3), (1, 16, 3)), 1),
    ):  # fmt: skip
        yield shapes, {"axis": axis}
    yield (_ints(1, 2), _ints(3)), {"axis": 0}


@Split.samples
def _(rng):
    for x, axis, sizes in (
        ((2, 6, 3), 1, (1, 2, 3)), ((7,), 0, (7,)), ((4, 5), -1, (2, 3)), ((1, 17, 3, 3), 1, (4, 13)),
        ((6, 2), 0, (3, 3)), ((5, 2), 0, (0, 5)), ((1, 16, 2, 2), 1, (8, 8)), ((2, 3, 0), 1, (1, 1, 1)),
    ):  # fmt: skip
        yield (x,), {"axis": axis, "sizes": sizes}, len(sizes)
    for x, axis, sizes in (((2, 6, 3), 1, (1, 2, 3)), ((4, 5), -1, (2, 3)), ((7,), 0, (7,)), ((5, 2), 0, (0, 5))):
        yield (x, _ints(*sizes)), {"axis": axis}, len(sizes)


@Slice.samples
def _(rng):
    rows: list[Any] = [
        ((5, 7), (1,), (4,), None, None),
        ((5, 7), (0, 2), (5, 7), None, None),
        ((5, 7), (-3,), (-1,), (1,), None),
        ((5, 7), (0,), (99,), (-1,), (2,)),
        ((5, 7), (-1,), (-99,), (0,), (-1,)),
        ((7,), (5,), (1,), (0,), (-2,)),
        ((5, 7), (3, 1), (1, 6), (0, 1), (-1, 3)),
        ((5, 7), (2,), (2,), (0,), None),
        ((4, 5), (9,), (-9,), (1,), (-3,)),
        ((1, 17, 5, 5), (3,), (11,), (1,), None),
        ((1, 16, 6, 6), (0, 0), (2**63 - 1, 2**63 - 1), (2, 3), (2, 2)),
        ((2, 3), (0,), (2**31 - 1,), (0,), None),
        ((0, 3), (0,), (2,), (0,), None),
        ((5, 3), (1, 0), (4, 3), None, (2, 1)),
        ((6,), (-2,), (-(2**63),), (0,), (-1,)),
    ]
    for x, *operands in rows:
        yield (x, *(None if o is None else _ints(*o) for o in operands)), {}
    yield (np.arange(20, dtype=np.int32).reshape(4, 5), _ints(1), _ints(3)), {}


@Pad.samples
def _(rng):
    value = np.array(-1.5, np.float32)
    rows: list[Any] = [
        ((3, 5), (1, 2, 0, 3), None, "constant"),
        ((3, 5), (0, 0, 2, 1), value, "constant"),
        ((7,), (3, 0), value, "edge"),
        ((1, 3, 5, 7), (0, 0, 0, 0, 2, 1, 1, 3), None, "reflect"),
        ((1, 17, 3, 3), (0, 0, 0, 0, 1, 1, 1, 1), None, "edge"),
        ((3, 4), (-1, 2, 1, -2), value, "constant"),
        ((3, 5), (2, 1, 4, 3), None, "wrap"),
        ((), (), None, "constant"),
        ((3,), (5, 4), None, "reflect"),
        ((4,), (9, 6), None, "wrap"),
        ((0, 2), (1, 1, 0, 0), None, "constant"),
        ((2, 16, 3, 3), (0, 0, 0, 0, 1, 1, 1, 1), None, "constant"),
        ((2, 3), (0, 0, 0, 0), None, "reflect"),
    ]
    for x, pads, fill, mode in rows:
        yield (x, _ints(*pads), fill), {"mode": mode}
    yield (np.arange(6, dtype=np.int64).reshape(2, 3), _ints(1, 0, 0, 1), np.array(7, np.int64)), {}
    yield (np.array([True, False]), _ints(1, 1), np.array(True)), {}
