"""Sequences and optionals: tensors of bytes that hold tensors (`schema.ir.sequence`), made and read by ordinary ops.

What an op takes out of one is of the type that its attributes say, because a file tells nothing of the elements: an
element stored in another element type is converted, so that the types of a graph can be narrowed without its bytes.
"""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, TensorType
from minnow.schema.ir.sequence import pack, unpack
from minnow.schema.ir.type import Shape, join_elements, merge, optional, sequence
from minnow.schema.registry.dimension import axis_of
from minnow.schema.registry.op import Arg, Int, T, Trait, fill, op

Array = np.ndarray[Any, Any]
Bytes = Annotated[np.ndarray[Any, Any], frozenset({DType.U8})]
DATA_DEPENDENT = frozenset({Trait.DATA_DEPENDENT, Trait.HOLDERS})
STORES = DATA_DEPENDENT | {Trait.EXACT_TYPES}


def _place(position: Array | None, count: int, end: int) -> int:
    """A position counted from the front, one of `end`; without one the last. Raises ModelError when there is none."""
    if position is None:
        return end - 1
    at = int(np.reshape(position, ()))
    if not -count <= at < end:
        raise ModelError(f"position {at} is out of range for a sequence of {count} tensors")
    return at + count if at < 0 else at


def _as_declared(array: Array, dtype: DType, shape: tuple[int, ...] | None) -> Array:
    fits = shape is None or len(shape) == array.ndim
    if not fits or any(d not in (-1, n) for d, n in zip(shape or (), array.shape, strict=False)):
        raise ModelError(f"the sequence gives a tensor of shape {array.shape}, not {shape}")
    return np.asarray(array.astype(dtype.numpy))


@op(traits=STORES)
def SequenceConstruct(*xs: T, is_optional: bool = False, dtype: DType = DType.F32):
    """The sequence of these tensors, or with `is_optional` the optional that is the only one of them, or nothing.

    `dtype` is the element type where there are no tensors, u8 for an optional sequence.
    """
    return pack(xs, "optional" if is_optional else "sequence")


@op(traits=STORES)
def SequenceInsert(sequence: Bytes, x: T, position: Int | None = None):
    """The sequence with x in front of the tensor at `position`, behind the last one by default; -1 is the last one."""
    arrays = unpack(sequence)
    at = _place(position, len(arrays), len(arrays) + 1)
    return pack([*arrays[:at], x, *arrays[at:]])


@op(traits=DATA_DEPENDENT)
def SequenceErase(sequence: Bytes, position: Int | None = None):
    """The sequence without the tensor at `position`, by default the last one; negative ones count from the end."""
    arrays = unpack(sequence)
    at = _place(position, len(arrays), len(arrays))
    if not arrays:
        raise ModelError("nothing can be taken from an empty sequence")
    return pack([*arrays[:at], *arrays[at + 1 :]])


@op(traits=DATA_DEPENDENT)
def SequenceAt(sequence: Bytes, position: Int, *, dtype: DType, shape: tuple[int, ...] | None = None):
    """The tensor at `position`, negative ones counting from the end, of a sequence or an optional.

    It is given in `dtype`. `shape` is what is known of its dimensions, -1 standing for any; another one is an error.
    """
    arrays = unpack(sequence)
    return _as_declared(arrays[_place(position, len(arrays), len(arrays))], dtype, shape)


@op(traits=frozenset({Trait.NONNEGATIVE, Trait.HOLDERS}))
def SequenceLength(sequence: Bytes):
    """Number of tensors in a sequence or an optional, as an int64 scalar."""
    return np.array(len(unpack(sequence)), np.int64)


@op(traits=DATA_DEPENDENT)
def ConcatFromSequence(
    sequence: Bytes, *, axis: int, new_axis: bool = False, dtype: DType, shape: tuple[int, ...] | None = None
):
    """The tensors of a sequence one behind the other along an axis, or with `new_axis` stacked along a new one.

    The result is given in `dtype`. `shape` is what is known of its dimensions, -1 standing for any; another one is an
    error.
    """
    arrays = [a.astype(dtype.numpy) for a in unpack(sequence)]
    if not arrays:
        raise ModelError("an empty sequence cannot be concatenated")
    return _as_declared(np.stack(arrays, axis) if new_axis else np.concatenate(arrays, axis), dtype, shape)


@op(traits=STORES - {Trait.HOLDERS})
def SplitToSequence(x: T, split: Int | None = None, *, axis: int = 0, keepdims: bool = True):
    """x cut along an axis: into parts of `split` each (the last one may be smaller) or of these several sizes; without
    it into parts of 1, which lose that axis unless `keepdims`."""
    dim = x.shape[axis]
    if split is not None and split.ndim:
        sizes = [int(n) for n in split]
        if any(n < 0 for n in sizes) or sum(sizes) != dim:
            raise ModelError(f"an axis of {dim} cannot be split into {sizes}")
    else:
        size = 1 if split is None else int(split)
        if size < 1:
            raise ModelError(f"an axis cannot be split into parts of {size}")
        sizes = [min(size, dim - i) for i in range(0, dim, size)]
    ends = np.cumsum(sizes, dtype=np.int64)
    parts = [np.take(x, range(end - n, end), axis) for n, end in zip(sizes, ends.tolist(), strict=True)]
    return pack(np.squeeze(p, axis) if split is None and not keepdims else p for p in parts)


# ---- types -------------------------------------------------------------------------------------------------------


def _element(sequence: Arg) -> TensorType | None:
    """What is known of the elements; of bytes that do not say what they hold, nothing."""
    if sequence.rank not in (1, None):
        raise ModelError(f"{sequence.type} cannot be a sequence")
    return sequence.type.element


def _number(position: Arg | None) -> None:
    if position is not None and position.type.count not in (1, None):
        raise ModelError(f"the position is {position.type}, not one number")


def _known(shape: tuple[int, ...] | None, inferred: Shape | None) -> Shape | None:
    declared = None if shape is None else tuple(UNKNOWN if d < 0 else d for d in shape)
    return merge(declared, inferred)


@SequenceConstruct.shape
def _(*xs: Arg, is_optional: bool, dtype: DType) -> TensorType:
    if is_optional and len(xs) > 1:
        raise ModelError(f"an optional cannot hold {len(xs)} tensors")
    if not is_optional and any(x.type.holds_tensors for x in xs):
        raise ModelError("a sequence holds tensors, no sequences or optionals")
    nothing = sequence(None) if is_optional and dtype is DType.U8 else TensorType(dtype)
    element: TensorType | None = xs[0].type if xs else nothing
    for x in xs[1:]:
        element = join_elements(element, x.type)
    return optional(element) if is_optional else sequence(element)


@SequenceInsert.shape
def _(seq: Arg, x: Arg, position: Arg | None) -> TensorType:
    _number(position)
    if x.type.holds_tensors:
        raise ModelError("a sequence holds tensors, no sequences or optionals")
    element = _element(seq)
    return sequence(None if element is None else join_elements(element, x.type))


@SequenceErase.shape
def _(seq: Arg, position: Arg | None) -> TensorType:
    _number(position)
    return sequence(_element(seq))


@SequenceAt.shape
def _(seq: Arg, position: Arg, dtype: DType, shape: tuple[int, ...] | None) -> TensorType:
    _number(position)
    element = _element(seq)
    if element is not None and element.holds_tensors:
        return element
    return TensorType(dtype, _known(shape, None if element is None else element.shape))


@SequenceLength.shape
def _(seq: Arg) -> TensorType:
    _element(seq)
    return TensorType(DType.I64, ())


@ConcatFromSequence.shape
def _(seq: Arg, axis: int, new_axis: bool, dtype: DType, shape: tuple[int, ...] | None) -> TensorType:
    element = _element(seq)
    inferred: Shape | None = None
    if element is not None and element.shape is not None:
        dims = list(element.shape)
        at = axis_of(axis, len(dims) + new_axis)
        dims[at : at + (not new_axis)] = [UNKNOWN]
        inferred = tuple(dims)
    return TensorType(dtype, _known(shape, inferred))


@SplitToSequence.shape
def _(x: Arg, split: Arg | None, axis: int, keepdims: bool) -> TensorType:
    if split is not None and split.rank not in (0, 1, None):
        raise ModelError(f"split is {split.type}, neither a number nor a list")
    if x.shape is None:
        return sequence(TensorType(x.dtype))
    dims = list(x.shape)
    at = axis_of(axis, len(dims))
    if split is None:
        dims[at : at + 1] = [1] if keepdims else []
        return sequence(TensorType(x.dtype, tuple(dims)))
    sizes = set() if split.value is None else {int(n) for n in split.value.reshape(-1)}
    dim, size = dims[at], sizes.pop() if len(sizes) == 1 else 0
    even = split.rank == 1 or (isinstance(dim, int) and size > 0 and dim % size == 0)
    dims[at] = size if size > 0 and even else UNKNOWN
    return sequence(TensorType(x.dtype, tuple(dims)))


# ---- samples -----------------------------------------------------------------------------------------------------


def _mixed(rng: np.random.Generator, dtype: DType = DType.F32) -> list[Array]:
    """Tensors of several ranks and sizes, of which one is empty and one has a size in bytes that needs padding."""
    return [fill(rng, shape, dtype) for shape in ((2, 3), (), (0, 4), (5,), (1, 2, 3))]


def _i(*values: int) -> Array:
    return np.array(values, np.int64)


ALL = (DType.F32, DType.F64, DType.F16, DType.BF16, DType.I8, DType.U8, DType.I16, DType.U16, DType.I32, DType.U32,
       DType.I64, DType.U64, DType.BOOL)  # fmt: skip


@SequenceConstruct.samples
def _(rng):
    for dtype in ALL:
        yield tuple(_mixed(rng, dtype)), {}
    for operands in ((), ((2, 3),), ((), (3,), (0,)), ((7,), (7,))):
        yield operands, {}
    yield ((3, 5),), {"is_optional": True}
    yield (), {"is_optional": True, "dtype": DType.I64}
    yield (pack(_mixed(rng)),), {"is_optional": True}


@SequenceInsert.samples
def _(rng):
    for arrays in (_mixed(rng), [], _mixed(rng, DType.U8)[:1]):
        n = len(arrays)
        x = fill(rng, (3, 1), DType.of(arrays[0].dtype) if arrays else DType.F32)
        yield (pack(arrays), x), {}
        for at in sorted({0, n, -n, n // 2, -1 if n else 0}):
            yield (pack(arrays), x, np.array(at, np.int64)), {}
    yield (pack(_mixed(rng)), fill(rng, (0, 2)), _i(1).astype(np.int32)), {}


@SequenceErase.samples
def _(rng):
    for arrays in (_mixed(rng), _mixed(rng, DType.BOOL)[:1]):
        yield (pack(arrays),), {}
        for at in range(-len(arrays), len(arrays)):
            yield (pack(arrays), np.array(at, np.int64)), {}
    yield (pack(_mixed(rng)), _i(1).astype(np.int32)), {}


@SequenceAt.samples
def _(rng):
    for dtype in ALL:
        arrays = _mixed(rng, dtype)
        for at in range(-len(arrays), len(arrays)):
            yield (pack(arrays), np.array(at, np.int64)), {"dtype": dtype}
    for shape in ((2, 3), (-1, 3), (2, -1)):
        yield (pack(_mixed(rng)), _i(0).astype(np.int32)), {"dtype": DType.F32, "shape": shape}
    yield (pack(_mixed(rng)), _i(1)), {"dtype": DType.F32, "shape": ()}
    yield (pack(_mixed(rng, DType.I64)), _i(0)), {"dtype": DType.I32}
    yield (pack(_mixed(rng, DType.F16)), _i(-1)), {"dtype": DType.F32, "shape": (1, 2, 3)}
    yield (pack([pack(_mixed(rng))], "optional"), np.array(0, np.int64)), {"dtype": DType.U8}


@SequenceLength.samples
def _(rng):
    for arrays in (_mixed(rng), [], _mixed(rng, DType.I8)[:3]):
        yield (pack(arrays),), {}
    yield (pack([], "optional"),), {}
    yield (pack(_mixed(rng)[:1], "optional"),), {}


@ConcatFromSequence.samples
def _(rng):
    for dtype in ALL:
        parts = [fill(rng, shape, dtype) for shape in ((2, 3, 5), (2, 1, 5), (2, 0, 5), (2, 7, 5))]
        for axis in (1, -2):
            yield (pack(parts),), {"axis": axis, "dtype": dtype}
    for shape in ((3, 2), (1,), (), (0, 2)):
        same = [fill(rng, shape) for _ in range(3)]
        for axis in range(-len(shape) - 1, len(shape) + 1):
            yield (pack(same),), {"axis": axis, "new_axis": True, "dtype": DType.F32}
        for axis in range(-len(shape), len(shape)):
            yield (pack(same),), {"axis": axis, "dtype": DType.F32}
    yield (pack(same[:1]),), {"axis": 0, "dtype": DType.F32, "shape": (-1, 2)}
    yield (pack([fill(rng, (2, 3), DType.I64)] * 2),), {"axis": 1, "dtype": DType.I32, "shape": (2, 6)}


@SplitToSequence.samples
def _(rng):
    for dtype in (DType.F32, DType.U8, DType.I64, DType.BOOL, DType.F16):
        yield (fill(rng, (5, 3), dtype),), {}
    for shape, axis in (((4, 3, 2), 1), ((7,), 0), ((4, 3), -1), ((0, 2), 0), ((2, 0, 3), 2)):
        yield (shape,), {"axis": axis}
        yield (shape,), {"axis": axis, "keepdims": False}
        dim = shape[axis]
        for size in (1, 2, 3, 99):
            yield (shape, np.array(size, np.int64)), {"axis": axis, "keepdims": bool(size % 2)}
        for sizes in ([dim], [0, dim], [dim // 2, dim - dim // 2]):
            yield (shape, np.array(sizes, np.int32)), {"axis": axis}
