"""Lists and arrays of tensors, by what their operators do to them.

A list is a tensor that stacks its elements, so that loops and branches carry it as they carry others; where elements
differ in shape, it is a sequence. One that nothing has been stored in yet is `Reserved`: what its elements are is not
known before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.converter.operand import vector
from minnow.converter.tensorflow.ops.movement import wide
from minnow.converter.tensorflow.symbolic.handle import Handle
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Graph, TensorType, Value
from minnow.schema.ir.type import Shape
from minnow.schema.ops import Builder

Tensors = Any  # a Value or Reserved


@dataclass(frozen=True, eq=False)
class Reserved(Handle):
    """A list without content.

    Attributes:
        size: how many elements there are to be, a scalar.
        shape: what is known of that of the elements.
        varying: whether elements may differ in shape.
    """

    size: Value
    dtype: DType
    shape: Shape | None
    varying: bool = False
    kind = "a list of tensors"


@dataclass
class Write:
    """How a list came from another one: an element was put at a place, or behind the last one.

    Attributes:
        index: the place, None behind the last one.
        nodes: what reads the list that was before.
    """

    before: Value
    index: Value | None
    element: Value
    nodes: set[Any] = field(default_factory=set)


def dims(shape: Any) -> Shape | None:
    """The element shape that an operand gives: a vector with -1 for dynamic dimensions, or -1 for an unknown rank."""
    if not isinstance(shape, Value) or shape.data is None or shape.data.numpy().ndim == 0:
        return None
    return tuple(int(d) if d >= 0 else UNKNOWN for d in shape.data.numpy())


def is_static(shape: Shape | None) -> bool:
    return shape is not None and all(isinstance(d, int) for d in shape)


def scalar(b: Builder, x: Value) -> Value:
    """A number as i64 scalar."""
    if x.data is not None:  # at once: handles may keep it
        return b.const(x.data.numpy().astype(np.int64).reshape(()))
    x = wide(b, x)
    return x if x.type.shape == () else b.Reshape(x, np.zeros(0, np.int64))


def single(b: Builder, x: Value) -> Value:
    """A number as i64 vector of one."""
    if x.data is not None:
        return b.const(x.data.numpy().astype(np.int64).reshape(1))
    x = wide(b, x)
    return x if x.type.shape == (1,) else b.Reshape(x, np.array([1], np.int64))


def filled(b: Builder, tensors: Reserved, element: TensorType | None = None) -> Value:
    """The list as a tensor of zeros, or as a sequence of empty tensors.

    Args:
        element: the type of the elements; dimensions that are not known are 0 until something is stored.
    """
    if tensors.varying:
        if tensors.size.data is not None and not int(tensors.size.data.numpy()):
            return b.SequenceConstruct(dtype=tensors.dtype)
        empty = b.Expand(np.zeros((1, 1), tensors.dtype.numpy), vector(b, [single(b, tensors.size), 0]))
        return b.SplitToSequence(empty, axis=0, keepdims=False)
    shape = tensors.shape if element is None or element.shape is None else element.shape
    if shape is None:
        raise UnsupportedError("the shape of the tensors in a list is not known", why="nothing has been stored in it")
    dimensions = [d if isinstance(d, int) else 0 for d in shape]
    zero = np.zeros((1,) * (len(dimensions) + 1), tensors.dtype.numpy)
    if tensors.size.data is not None and (n := int(tensors.size.data.numpy())) * int(np.prod(dimensions)) <= 1 << 16:
        return b.const(np.zeros((n, *dimensions), tensors.dtype.numpy))
    return b.Expand(zero, vector(b, [single(b, tensors.size), *dimensions]))


def content(b: Builder, tensors: Tensors, element: TensorType | None = None) -> Value:
    return filled(b, tensors, element) if isinstance(tensors, Reserved) else tensors


def length(b: Builder, tensors: Tensors) -> Value:
    """Number of elements, an i64 scalar."""
    if isinstance(tensors, Reserved):
        return scalar(b, tensors.size)
    if tensors.type.holds_tensors:
        return b.SequenceLength(tensors)
    return b.Squeeze(b.Shape(tensors, start=0, end=1), axes=(0,))


def element_type(tensors: Tensors) -> TensorType:
    """What is known of one element."""
    if isinstance(tensors, Reserved):
        return TensorType(tensors.dtype, tensors.shape)
    type: TensorType = tensors.type
    if type.holds_tensors:
        if type.element is None:
            raise UnsupportedError("the type of the tensors in a list is not known")
        return type.element
    return type.with_shape(None if type.shape is None else type.shape[1:])


def get(b: Builder, tensors: Tensors, index: Value) -> Any:
    """The element at a place."""
    tensors = content(b, tensors)
    if tensors.type.holds_tensors:
        type = element_type(tensors)
        return b.SequenceAt(tensors, scalar(b, index), dtype=type.dtype, shape=_attribute(type.shape))
    return b.Gather(tensors, index if index.type.shape == () else scalar(b, index), axis=0)


def _attribute(shape: Shape | None) -> tuple[int, ...] | None:
    return None if shape is None else tuple(d if isinstance(d, int) else -1 for d in shape)


def put(b: Builder, tensors: Tensors, index: Value, x: Value, grows: bool) -> tuple[Value, Write]:
    """The list with x at a place.

    Args:
        grows: the place may be behind the last one.
    """
    before = content(b, tensors, x.type)
    start = len(b.made)
    if before.type.holds_tensors:
        after = _put_in_sequence(b, before, scalar(b, index), x, grows)
    elif before.type.shape and before.type.shape[0] == 1 and index.data is not None and not index.data.numpy():
        after = b.Unsqueeze(x, axes=(0,))  # the only one
    else:
        at = single(b, index)
        rows = _fitting(b, before, x, at if grows else None)
        after = b.ScatterND(rows, b.Unsqueeze(at, axes=(0,)), b.Unsqueeze(x, axes=(0,)))
    return after, Write(before, index, x, set(b.made[start:]))


def _put_in_sequence(b: Builder, before: Value, at: Value, x: Value, grows: bool) -> Any:
    if not grows:
        return b.SequenceInsert(b.SequenceErase(before, at), x, at)
    branches = []
    for name in ("replaced", "appended"):
        graph = Graph(name)
        tensors, place = graph.add_param(before.type, "tensors"), graph.add_param(at.type, "at")
        graph.outputs = [Builder(graph).SequenceErase(tensors, place) if name == "replaced" else tensors]
        branches.append(graph)
    is_there = b.Less(at, b.SequenceLength(before))
    (rest,) = b.If(is_there, before, at, then_branch=branches[0], else_branch=branches[1], n_outputs=1)
    return b.SequenceInsert(rest, x, at)


def _fitting(b: Builder, rows: Value, x: Value, at: Value | None) -> Value:
    """The stacked tensors, with room for a tensor of the shape of x, and for one behind the last if `at` says so."""
    have, want = rows.type.shape, x.type.shape
    if have is None or want is None or len(have) != len(want) + 1:
        raise UnsupportedError(
            "the rank of the tensors in a list must be known", why=f"they are {rows.type} and {x.type}"
        )
    fits = is_static(want) and have[1:] == tuple(want)
    if fits and at is None:
        return rows
    dimensions = b.Shape(rows)
    if at is None:
        first = b.Shape(rows, start=0, end=1)
    else:
        first = b.Max(b.Shape(rows, start=0, end=1), b.Add(at, np.array([1], np.int64)))
    target = b.Concat(first, b.Shape(x), axis=0)
    behind = b.Max(b.Sub(target, dimensions), np.zeros(1, np.int64))
    pads = b.Reshape(b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in (b.Sub(behind, behind), behind)), axis=1),
                     np.array([-1], np.int64))  # fmt: skip
    made: Value = b.Pad(rows, pads)
    if made.type.shape is None or len(made.type.shape) != len(have):
        made.type = rows.type
    made.type = made.type.with_shape((UNKNOWN if at is not None else have[0], *want))
    return made


def push(b: Builder, tensors: Tensors, x: Value) -> tuple[Value, Write]:
    """The list with x behind its last element."""
    before = content(b, tensors, x.type)
    start = len(b.made)
    if before.type.holds_tensors:
        after = b.SequenceInsert(before, x)
    elif isinstance(tensors, Reserved) and tensors.size.data is not None and not int(tensors.size.data.numpy()):
        after = b.Unsqueeze(x, axes=(0,))
    else:
        n = length(b, before)
        return put(b, before, n, x, grows=True) if not is_static(x.type.shape) else _appended(b, before, x)
    return after, Write(before, None, x, set(b.made[start:]))


def _appended(b: Builder, before: Value, x: Value) -> tuple[Value, Write]:
    start = len(b.made)
    after = b.Concat(before, b.Unsqueeze(x, axes=(0,)), axis=0)
    return after, Write(before, None, x, set(b.made[start:]))


def stacked(b: Builder, tensors: Tensors, element: Shape | None = None) -> Any:
    """All elements along a new first axis."""
    if isinstance(tensors, Reserved):
        return filled(b, tensors, None if element is None else TensorType(tensors.dtype, element))
    if tensors.type.holds_tensors:
        return b.ConcatFromSequence(tensors, axis=0, new_axis=True, dtype=element_type(tensors).dtype)
    return tensors


def concatenated(b: Builder, tensors: Tensors) -> Any:
    """All elements one behind the other along their first axis."""
    tensors = content(b, tensors)
    if tensors.type.holds_tensors:
        return b.ConcatFromSequence(tensors, axis=0, dtype=element_type(tensors).dtype)
    shape = tensors.type.shape
    if shape is None or len(shape) < 2:
        raise UnsupportedError("the rank of the tensors in a list must be known", why=f"it is {tensors.type}")
    tail = shape[2:]
    if is_static(tail) and 0 not in tail:
        return b.Reshape(tensors, np.array([-1, *tail], np.int64))
    ends = b.Shape(tensors)
    both = b.Mul(b.Slice(ends, [0], [1]), b.Slice(ends, [1], [2]))
    return b.Reshape(tensors, b.Concat(both, b.Slice(ends, [2], [len(shape)]), axis=0), allowzero=True)


def lengths(b: Builder, tensors: Tensors) -> Any:
    """The first dimension of each element, an i64 vector."""
    tensors = content(b, tensors)
    if not tensors.type.holds_tensors:
        ends = b.Shape(tensors)
        return b.Expand(b.Slice(ends, [1], [2]), b.Slice(ends, [0], [1]))
    graph = Graph("lengths")
    step = graph.add_param(TensorType(DType.I64, ()), "step")
    cond = graph.add_param(TensorType(DType.BOOL, ()), "cond")
    inside = Builder(graph, origin=b.origin)
    one = get(inside, graph.add_param(tensors.type, "tensors"), step)
    graph.outputs = [cond, inside.Squeeze(inside.Shape(one, start=0, end=1), axes=(0,))]
    (made,) = b.Loop(b.SequenceLength(tensors), None, tensors, body=graph, num_carried=0, n_outputs=1)
    return made


def gathered(b: Builder, tensors: Tensors, indices: Value) -> Any:
    """The elements at these places, stacked."""
    rows = stacked(b, tensors)
    count = rows.type.shape[0] if rows.type.shape else None
    return rows if _is_all(indices, count) else b.Gather(rows, indices, axis=0)


def _is_all(indices: Value, n: Any) -> bool:
    """Whether these are the places 0, 1, ... of all of n elements."""
    if indices.data is None or not isinstance(n, int):
        return False
    return bool(np.array_equal(indices.data.numpy(), np.arange(n)))


def scattered(b: Builder, tensors: Tensors, indices: Value, x: Value) -> Any:
    """The list with the rows of x at these places."""
    if isinstance(tensors, Reserved) and not tensors.varying:
        size = tensors.size
        n = x.type.shape[0] if x.type.shape else None
        known = size.data is not None and n == int(size.data.numpy())
        if (known and _is_all(indices, n)) or _counts_up(indices):
            return x
    element = x.type.with_shape(None if x.type.shape is None else x.type.shape[1:])
    if isinstance(tensors, Reserved) and tensors.varying:
        return b.SplitToSequence(x, axis=0, keepdims=False) if _counts_up(indices) else _refuse_scatter()
    rows = content(b, tensors, element)
    if rows.type.holds_tensors:
        return _refuse_scatter()
    if rows.type.shape and element.shape and not (is_static(element.shape) and rows.type.shape[1:] == element.shape):
        last = b.ReduceMax(wide(b, indices), keepdims=True)
        rows = _fitting(b, rows, b.Squeeze(b.Slice(x, [0], [1]), axes=(0,)), last)
    return b.ScatterND(rows, b.Unsqueeze(wide(b, indices), axes=(1,)), x)


def _refuse_scatter() -> Any:
    raise UnsupportedError("scattering tensors of different shapes into a list is not supported")


def _counts_up(indices: Value) -> bool:
    """Whether these are 0, 1, ..., as many as there are."""
    if indices.data is not None:
        return bool(np.array_equal(indices.data.numpy(), np.arange(indices.data.numpy().size)))
    node = indices.producer
    if node is None or node.op != "Range":
        return False
    start, step = (node.input(i) for i in (0, 2))
    return bool(start.is_const and step.is_const and np.all(start.array == 0) and np.all(step.array == 1))


def split(b: Builder, x: Value, lengths: Value, varying: bool) -> Any:
    """A list of the parts of x along its first axis, of these lengths."""
    if lengths.data is not None and not varying:
        sizes = lengths.data.numpy().reshape(-1)
        if len(set(sizes.tolist())) == 1 and x.type.rank is not None:
            tail = b.Shape(x, start=1)
            return b.Reshape(x, b.Concat(np.array([sizes.size, sizes[0]], np.int64), tail, axis=0), allowzero=True)
    return b.SplitToSequence(x, wide(b, lengths), axis=0)


def are_varying(ops: Iterable[str]) -> bool:
    """Whether a file puts tensors of a list one behind the other: only there their shapes may differ."""
    return any(op in ("TensorArrayConcatV3", "TensorArrayConcatV2", "TensorListConcat", "TensorListConcatV2",
                      "TensorListSplit", "TensorArraySplitV3") for op in ops)  # fmt: skip
