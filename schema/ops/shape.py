"""Shapes as data, and the same elements under another shape."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, DType, Node, TensorType, Value
from minnow.schema.ir.type import Shape as Dims
from minnow.schema.ir.type import broadcast
from minnow.schema.registry import symbolic
from minnow.schema.registry.dimension import axes_of, broadcast_to, contents, length, product, split_factors, unknown
from minnow.schema.registry.encoding import bound, constant, simple, when
from minnow.schema.registry.op import MOVEMENT, VIEW, Arg, Decoded, Sizes, T, Trait, WireOp, op
from minnow.schema.registry.symbolic import Polynomial, element

SHAPE_ONLY = frozenset({Trait.SHAPE_ONLY, Trait.NONNEGATIVE})


@op(traits=SHAPE_ONLY)
def Shape(x: T, *, start: int = 0, end: int | None = None):
    """The shape of x, [start:end] of it, as int64[rank]; negative bounds count from the end, others are clamped."""
    return np.array(x.shape[_span(x.ndim, start, end)], np.int64)


@Shape.contents
def _(node, memo):
    x = node.input(0)
    if x.type.shape is None:
        return None
    axes = range(len(x.type.shape))[slice(node.attrs.get("start", 0), node.attrs.get("end"))]
    return [symbolic.dimension(x, a) for a in axes]


@op(mnn=simple("Size", "NCHW"), traits=SHAPE_ONLY)
def Size(x: T):
    """Number of elements, an int64 scalar."""
    return np.int64(x.size)


@Size.contents
def _(node, memo):
    x = node.input(0)
    rank = x.type.rank
    return None if rank is None else [symbolic.product([symbolic.dimension(x, a) for a in range(rank)])]


@op(traits=VIEW)
def Reshape(x: T, shape: Sizes, *, allowzero: bool = False):
    """The elements in the same order under another shape.

    One dimension may be -1: it follows from the others. 0 copies the dimension of x at that place; with `allowzero` it
    is 0.
    """
    return x.reshape(_resolved(x.shape, tuple(int(d) for d in shape), allowzero))


@Reshape.dimension
def _(node, axis, hops):
    x = node.input(0)
    if x.type.shape is None:
        return None
    target = element(node.input(1), axis)
    if target is not None and target != Polynomial() and target.at_least(0):
        return target
    copies = not node.attrs.get("allowzero") and target == Polynomial()
    return (x, axis) if copies and axis < len(x.type.shape) else None


@op(traits=VIEW)
def Flatten(x: T, *, axis: int = 1):
    """x as a matrix: the axes in front of `axis` are its rows, the others its columns."""
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@op(traits=VIEW)
def Squeeze(x: T, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None):
    """x without the named axes, whose size must be 1; without all axes of size 1 when none are named.

    `at` takes the place of `axes` where the axes are computed.
    """
    return x.squeeze(axes if at is None else tuple(int(a) for a in at))


@op(traits=VIEW)
def Unsqueeze(x: T, at: Sizes | None = None, *, axes: tuple[int, ...] = ()):
    """x with new axes of size 1, at these places of the output.

    `at` takes the place of `axes` where the axes are computed.
    """
    return np.expand_dims(x, axes if at is None else tuple(int(a) for a in at))


@Unsqueeze.dimension
def _(node, axis, hops):
    x, rank = node.input(0), node.output.type.rank or 0
    if x.type.shape is None or node.has_input(1):
        return None
    new = {a % rank for a in node.attrs.get("axes", ())}
    return x, axis - sum(a < axis for a in new)


@op(traits=MOVEMENT)
def Expand(x: T, shape: Sizes):
    """x repeated along axes of size 1, by numpy's rules of broadcasting x with `shape`: x may be the larger one."""
    target = np.broadcast_shapes(x.shape, tuple(int(d) for d in shape))
    return np.ascontiguousarray(np.broadcast_to(x, target)).reshape(target)


Expand.contents(symbolic.moved)


@Expand.dimension
def _(node, axis, hops):
    x = node.input(0)
    if x.type.shape is None:
        return None
    back = axis - (node.output.type.rank or 0)
    at, target = back + len(x.type.shape), element(node.input(1), back)
    if target is not None and (at < 0 or x.type.shape[at] == 1):
        return target
    return target if target is not None and at >= 0 and target == symbolic.origin(x, at, hops) else None


@op(traits=frozenset({Trait.REORDER}))
def ConvertLayout(x: T, *, to: Literal["NCHW", "NC4HW4"]):
    """x in another memory layout; the values are the same."""
    return x


# ---- types -------------------------------------------------------------------------------------------------------


def _span(rank: int, start: int, end: int | None) -> slice:
    def clamp(i: int) -> int:
        return min(max(i + rank if i < 0 else i, 0), rank)

    return slice(clamp(start), rank if end is None else clamp(end))


@Shape.shape
def _(x: Arg, start: int, end: int | None) -> TensorType:
    if x.shape is None:
        return TensorType(DType.I64, (UNKNOWN,))
    return TensorType(DType.I64, (len(x.shape[_span(len(x.shape), start, end)]),))


@Size.shape
def _(x: Arg) -> TensorType:
    return TensorType(DType.I64, ())


def _resolved(dims: Dims, wanted: tuple[int, ...], allowzero: bool) -> tuple[Any, ...]:
    """The shape that `wanted` asks for, given the dimensions of the input."""
    if wanted.count(-1) > 1 or min(wanted, default=0) < -1:
        raise ModelError(f"cannot reshape to {wanted}", why="one -1 is allowed, and no other negative number")
    copied = [i for i, d in enumerate(wanted) if d == 0 and not allowzero]
    if any(i >= len(dims) for i in copied):
        raise ModelError(f"cannot reshape {dims} to {wanted}", why=f"a 0 copies a dimension, and there are {len(dims)}")
    out: list[Dim] = [dims[i] if i in copied else d for i, d in enumerate(wanted)]
    # What is copied stands on both sides and needs no number; a known 0 among it decides nothing, though.
    rest, symbols = split_factors(d for i, d in enumerate(dims) if i not in copied)
    given = math.prod(d for i, d in enumerate(wanted) if i not in copied and d != -1)
    if -1 not in wanted:
        # Zero elements on both sides agree whatever the other factors are.
        empty = any(dims[i] == 0 for i in copied)
        if not symbols and rest != given and not empty:
            raise ModelError(f"cannot reshape {dims} to {wanted}", why="the numbers of elements differ")
        return tuple(out)
    at = wanted.index(-1)
    if any(dims[i] == 0 for i in copied) and given:
        # The dimension is not determined; by what is left of the input, as the copied zeros cancel.
        out[at] = rest // given if not symbols and rest % given == 0 else UNKNOWN
    elif given == 0:
        raise ModelError(f"cannot reshape {dims} to {wanted}", why="-1 beside a dimension of 0 can be any number")
    elif not symbols:
        if rest % given:
            raise ModelError(f"cannot reshape {dims} to {wanted}", why="the numbers of elements differ")
        out[at] = rest // given
    else:
        out[at] = symbols[0] if len(symbols) == 1 and rest == given else UNKNOWN
    return tuple(out)


@Reshape.shape
def _(x: Arg, shape: Arg, allowzero: bool) -> TensorType:
    n = length(shape)
    wanted = contents(shape)
    if wanted is None:
        return TensorType(x.dtype, unknown(n))
    dims = x.shape
    if dims is None:
        known = tuple(d if d > 0 or (d == 0 and allowzero) else UNKNOWN for d in wanted)
        _resolved((UNKNOWN,) * len(wanted), wanted, allowzero)
        return TensorType(x.dtype, known)
    return TensorType(x.dtype, _resolved(dims, wanted, allowzero))


@Flatten.shape
def _(x: Arg, axis: int) -> TensorType:
    if x.shape is None:
        return TensorType(x.dtype, (UNKNOWN, UNKNOWN))
    rank = len(x.shape)
    if not -rank <= axis <= rank:
        raise ModelError(f"axis {axis} is out of range for rank {rank}")
    axis = axis + rank if axis < 0 else axis
    return TensorType(x.dtype, (product(x.shape[:axis]), product(x.shape[axis:])))


@Squeeze.shape
def _(x: Arg, at: Arg | None, axes: tuple[int, ...] | None) -> TensorType:
    n = None if at is None else length(at)
    if at is not None:
        axes = contents(at)
    if x.shape is None:
        return TensorType(x.dtype)
    if at is None and axes is None:
        # A symbol may turn out to be 1, and then the rank is another one.
        return TensorType(x.dtype, tuple(d for d in x.shape if d != 1) if x.type.is_static else None)
    if axes is None:
        if n is not None and n > len(x.shape):
            raise ModelError(f"cannot squeeze {n} axes of {x.type}")
        return TensorType(x.dtype, unknown(None if n is None else len(x.shape) - n))
    gone = axes_of(axes, len(x.shape))
    for i in gone:
        if isinstance(x.shape[i], int) and x.shape[i] != 1:
            raise ModelError(f"cannot squeeze axis {i} of {x.type}", why="its size is not 1")
    return TensorType(x.dtype, tuple(d for i, d in enumerate(x.shape) if i not in gone))


@Unsqueeze.shape
def _(x: Arg, at: Arg | None, axes: tuple[int, ...]) -> TensorType:
    n = len(axes) if at is None else length(at)
    if x.shape is None or n is None:
        return TensorType(x.dtype)
    rank = len(x.shape) + n
    chosen = axes if at is None else contents(at)
    if chosen is None:
        return TensorType(x.dtype, unknown(rank))
    new = axes_of(chosen, rank)
    rest = iter(x.shape)
    return TensorType(x.dtype, tuple(1 if i in new else next(rest) for i in range(rank)))


@Expand.shape
def _(x: Arg, shape: Arg) -> TensorType:
    n = length(shape)
    wanted = contents(shape)
    if wanted is None:
        known = unknown(n)
    elif min(wanted, default=0) < 0:
        raise ModelError(f"cannot expand to {wanted}", why="a dimension is negative")
    else:
        known = wanted
    return TensorType(x.dtype, broadcast(x.shape, known))


@ConvertLayout.shape
def _(x: Arg, to: str) -> TensorType:
    return x.type.with_layout(to.lower())


# ---- encoding ----------------------------------------------------------------------------------------------------


@Shape.encode("Shape")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    start, end, rank = attrs["start"], attrs["end"], node.input(0).type.rank
    if start == 0 and end is None:
        return WireOp("Shape", inputs=node.inputs, format="NCHW")
    # Runtimes of the format do not clamp.
    if rank is None or not all(-rank <= i <= rank for i in (start, end or 0)):
        return None
    main = {"hasStart": True, "start": start, "hasEnd": end is not None, "end": end or 0}
    return WireOp("Shape", "ShapeParam", main, node.inputs, format="NCHW")


@Shape.decode
def _(wire: WireOp) -> Decoded:
    start = wire.field("start", 0) if wire.field("hasStart", False) else 0
    end = wire.field("end", 0) if wire.field("hasEnd", False) else None
    return wire.inputs, {"start": start, "end": end}


@Reshape.encode("Reshape")
def _(node: Node) -> WireOp | None:
    if bound(node)["allowzero"]:
        return None
    dims = node.input(1).array
    main: dict[str, Any] = {"dimType": "NCHW"}
    if dims is None:
        return WireOp("Reshape", "Reshape", main, node.inputs, format="NCHW")
    # A scalar's shape is empty, and an empty vector is as good as absent: it stays an operand.
    if dims.size == 0:
        return WireOp("Reshape", "Reshape", main, node.inputs, format="NCHW")
    main["dims"] = [int(d) for d in dims]
    return WireOp("Reshape", "Reshape", main, node.inputs[:1], format="NCHW")


@Reshape.decode
def _(wire: WireOp) -> Decoded:
    if len(wire.inputs) > 1:
        return wire.inputs, {}
    return (wire.inputs[0], np.asarray(wire.field("dims", ()), np.int32)), {}


@Flatten.encode("Flatten")
def _(node: Node) -> WireOp:
    return WireOp("Flatten", "Flatten", {"axis": bound(node)["axis"], "endAxis": 0}, node.inputs)


@Flatten.decode
def _(wire: WireOp) -> Decoded:
    # The form with an end is that of another framework.
    return None if wire.field("endAxis", 0) else (wire.inputs, {"axis": wire.field("axis", 0)})


@Squeeze.encode("Squeeze")
def _(node: Node) -> WireOp | None:
    if node.has_input(1):
        return _at_operand(node)
    axes = bound(node)["axes"]
    if axes is None:
        return WireOp("Squeeze", "SqueezeParam", {}, node.inputs)
    # No axes would mean all of them.
    return WireOp("Squeeze", "SqueezeParam", {"squeezeDims": list(axes)}, node.inputs) if axes else None


def _at_operand(node: Node) -> WireOp | None:
    """With computed axes, of which there must be some; constant ones are an attribute, once they are folded."""
    at = node.input(1)
    n = at.type.shape[0] if at.type.shape else None
    return WireOp(node.op, "SqueezeParam", {}, node.inputs) if not at.is_const and isinstance(n, int) and n else None


def _axes(wire: WireOp) -> tuple[int, ...] | None:
    dims = wire.field("squeezeDims")
    if dims is None:
        dims = constant(wire, 1)
    return None if dims is None else tuple(int(d) for d in dims.reshape(-1))


@Squeeze.decode
def _(wire: WireOp) -> Decoded:
    axes = _axes(wire)
    return (wire.inputs, {}) if axes is None and len(wire.inputs) > 1 else (wire.inputs[:1], {"axes": axes or None})


@Unsqueeze.encode("Unsqueeze", "ExpandDims")
def _(node: Node) -> WireOp | None:
    if node.has_input(1):
        return _at_operand(node)
    axes = bound(node)["axes"]
    return WireOp("Unsqueeze", "SqueezeParam", {"squeezeDims": list(axes)}, node.inputs) if axes else None


@Unsqueeze.decode
def _(wire: WireOp) -> Decoded:
    axes = _axes(wire)
    if axes is None and len(wire.inputs) > 1:
        return wire.inputs, {}
    if axes is None and wire.type == "ExpandDims":
        axes = (wire.field("axis", 0),)
    return None if axes is None else (wire.inputs[:1], {"axes": axes})


def _one_sided(node: Node) -> bool:
    """The shape operand alone gives the result, as the format's runtimes want it."""
    shape = node.input(1)
    array = shape.array
    x = node.input(0).type.shape
    if array is not None:
        return broadcast_to(x, tuple(int(d) for d in array))
    if _keeps_dims(shape, node.input(0)):
        return True
    n = shape.type.shape[0] if shape.type.shape else None
    if x is None or not isinstance(n, int) or len(x) > n:
        return False
    if all(d == 1 for d in x):
        return True
    asked = symbolic.contents(shape) or [None] * n
    return all(
        d == 1 or (e is not None and (e.integer not in (None, 1) or e == symbolic.dimension(node.input(0), i)))
        for i, (d, e) in enumerate(zip(x, asked[n - len(x) :], strict=True))
    )


def _keeps_dims(shape: Value, x: Value) -> bool:
    """The shape is Where(Equal(s, 1), Shape(x), s): a pass writes it to keep the dimensions of x where s has ones."""
    choice = shape.producer
    if choice is None or choice.op != "Where" or shape.type.shape != (x.type.rank,):
        return False
    test, own = choice.input(0).producer, choice.input(1)
    while own.producer is not None and own.producer.op == "Cast":
        own = own.producer.input(0)
    if test is None or test.op != "Equal" or own.producer is None or own.producer.op != "Shape":
        return False
    one = test.input(1).array
    plain = not own.producer.attrs.get("start") and own.producer.attrs.get("end") is None
    return (
        test.input(0) is choice.input(2)
        and one is not None
        and bool(np.all(one == 1))
        and plain
        and (own.producer.input(0) is x)
    )


Expand.mnn = when(_one_sided, simple("BroadcastTo"))


@ConvertLayout.encode("ConvertTensor")
def _(node: Node) -> WireOp:
    main = {"source": node.input(0).type.layout.upper(), "dest": bound(node)["to"]}
    return WireOp("ConvertTensor", "TensorConvertInfo", main, node.inputs)


@ConvertLayout.decode
def _(wire: WireOp) -> Decoded:
    ends = {wire.field("source", "NCHW"), wire.field("dest", "NCHW")}
    # From and to NHWC the dimensions change their places: that is a transpose.
    return (wire.inputs, {"to": wire.field("dest", "NCHW")}) if ends <= {"NCHW", "NC4HW4"} else None


# ---- samples -----------------------------------------------------------------------------------------------------


def _ints(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


@Shape.samples
def _(rng):
    for x in ((2, 3, 5, 7), (), (0, 3), (17,)):
        yield (x,), {}
    for bounds in ({"start": 1}, {"start": -2}, {"end": 2}, {"end": -1}, {"start": 1, "end": 3}, {"start": 3, "end": 1},
                   {"start": -9, "end": 9}, {"start": 7}):  # fmt: skip
        yield ((2, 3, 5, 7),), bounds


@Size.samples
def _(rng):
    for x in ((2, 3, 5, 7), (), (0, 3), (17,)):
        yield (x,), {}


@Reshape.samples
def _(rng):
    for x, shape in (
        ((2, 3, 5), (6, 5)), ((2, 3, 5), (-1,)), ((2, 3, 5), (0, -1)), ((2, 3, 5), (0, 0, 1, 5)), ((7,), (7, 1)),
        ((1, 1), ()), ((), (1, 1)), ((2, 0, 3), (0, 0, 3)), ((0, 3), (0, 1, 3)), ((1, 16, 3, 3), (1, 4, 4, 9)),
        ((2, 17, 3, 1), (2, -1, 17)), ((0, 5), (-1, 5)),
    ):  # fmt: skip
        yield (x, _ints(*shape)), {}
    yield ((0, 3), _ints(3, 0, 4)), {"allowzero": True}
    yield (np.arange(12, dtype=np.int32).reshape(3, 4), _ints(2, 6)), {}
    yield (np.array([[True, False, True]]), _ints(3)), {}


@Flatten.samples
def _(rng):
    for x, axis in (((2, 3, 5, 7), 1), ((2, 3, 5), 0), ((2, 3, 5), 3), ((2, 3, 5), -1), ((17,), 1), ((0, 3), 1)):
        yield (x,), {"axis": axis}


@Squeeze.samples
def _(rng):
    for x, axes in (((1, 3, 1, 5), (0, 2)), ((1, 3, 1), (-1,)), ((1, 1), (0, -1)), ((1, 0, 1), (2,)), ((17, 1), (1,))):
        yield (x,), {"axes": axes}
    yield ((1, 3, 1, 5),), {}
    yield ((2, 3),), {"axes": ()}
    computed: list[Any] = [((1, 3, 1, 5), (-2, 0)), ((1,), (0,)), ((2, 3), ()), ((0, 1), (1,))]
    for x, axes in computed:
        yield (x, _ints(*axes)), {}


@Unsqueeze.samples
def _(rng):
    for x, axes in (((3, 5), (0,)), ((3, 5), (1, 3)), ((3, 5), (-1,)), ((), (0,)), ((0, 2), (2, 0)), ((17,), (-2, 0))):
        yield (x,), {"axes": axes}
    computed: list[Any] = [((3, 5), (1, -1)), ((), (0,)), ((0, 2), (2, 0)), ((2, 3), ())]
    for x, axes in computed:
        yield (x, _ints(*axes)), {}


@Expand.samples
def _(rng):
    for x, shape in (
        ((3, 1), (3, 5)), ((3, 1), (2, 1, 6)), ((5,), (2, 5)), ((2, 3, 5), (1, 1)), ((3, 5), (1,)), ((), (2, 3)),
        ((1,), (0,)), ((1, 17, 1, 1), (2, 17, 3, 3)), ((3, 4), ()), ((1, 3), (0, 3)),
    ):  # fmt: skip
        yield (x, _ints(*shape)), {}
    yield (np.array([[True], [False]]), _ints(2, 3)), {}
    yield (np.array([[1], [-2]], np.int32), _ints(2, 3)), {}


@ConvertLayout.samples
def _(rng):
    for x in ((1, 3, 5, 7), (2, 17, 3, 3), (1, 16, 1, 1)):
        for to in ("NC4HW4", "NCHW"):
            yield (x,), {"to": to}
