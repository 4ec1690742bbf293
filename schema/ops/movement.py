"""Ops that move elements to other places: no arithmetic."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Node, TensorType
from minnow.schema.registry.dimension import (
    agree,
    axes_of,
    contents,
    divided,
    length,
    need_rank,
    scaled,
)
from minnow.schema.registry.encoding import constant, fields, simple, when
from minnow.schema.registry.op import MOVEMENT, Arg, Decoded, Sizes, T, Trait, WireOp, op
from minnow.schema.registry.symbolic import moved

Array = np.ndarray[Any, Any]


@op(traits=MOVEMENT | {Trait.REORDER})
def Transpose(x: T, *, perm: tuple[int, ...]):
    """The axes of x in another order: axis i of the result is axis perm[i] of x."""
    return np.ascontiguousarray(x.transpose(perm)).reshape([x.shape[p] for p in perm])


@Transpose.dimension
def _(node, axis, hops):
    x = node.input(0)
    return None if x.type.shape is None else (x, node.attrs["perm"][axis])


@op(mnn=simple("Tile"), traits=MOVEMENT)
def Tile(x: T, repeats: Sizes):
    """x repeated repeats[i] times along each axis i."""
    return np.tile(x, tuple(int(r) for r in repeats))


@op(traits=MOVEMENT)
def Reverse(x: T, *, axes: tuple[int, ...]):
    """x in the opposite order along these axes."""
    return np.ascontiguousarray(np.flip(x, axes)).reshape(x.shape)


Reverse.contents(moved)


@op(traits=MOVEMENT)
def ReverseSequence(x: T, lens: Sizes, *, batch_axis: int = 1, time_axis: int = 0):
    """For each batch b, the first lens[b] elements along the time axis in the opposite order, the rest as it is."""
    y = np.moveaxis(x, (batch_axis, time_axis), (0, 1)).copy()
    for b, n in enumerate(lens):
        y[b, : int(n)] = y[b, : int(n)][::-1].copy()
    return np.moveaxis(y, (0, 1), (batch_axis, time_axis))


@op(mnn=fields("DepthToSpace", "DepthSpaceParam", blocksize=("blockSize", 0), mode=("mode", "DCR")), traits=MOVEMENT)
def DepthToSpace(x: T, *, blocksize: int, mode: Literal["DCR", "CRD"] = "DCR"):
    """x[N, C * b * b, H, W] -> [N, C, H * b, W * b].

    A channel index means (row in the block, column in the block, channel) for "DCR", (channel, row, column) for "CRD".
    """
    n, c, h, w = x.shape
    b = blocksize
    c //= b * b
    if mode == "DCR":
        y = x.reshape(n, b, b, c, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        y = x.reshape(n, c, b, b, h, w).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, c, h * b, w * b)


@op(traits=MOVEMENT)
def SpaceToDepth(x: T, *, blocksize: int):
    """x[N, C, H * b, W * b] -> [N, b * b * C, H, W]; a channel index means (row in the block, column, channel)."""
    n, c, h, w = x.shape
    b = blocksize
    y = x.reshape(n, c, h // b, b, w // b, b).transpose(0, 3, 5, 1, 2, 4)
    return y.reshape(n, c * b * b, h // b, w // b)


@op(traits=frozenset({Trait.NO_ROUNDING}))
def Trilu(x: T, k: Sizes | None = None, *, upper: bool = True):
    """The part of the matrices x[..., M, N] on and above (`upper`) or below the k-th diagonal, zeros elsewhere."""
    offset = 0 if k is None else int(np.asarray(k).reshape(()))
    return np.triu(x, offset) if upper else np.tril(x, offset)


# ---- types -------------------------------------------------------------------------------------------------------


@Transpose.shape
def _(x: Arg, perm: tuple[int, ...]) -> TensorType:
    if sorted(perm) != list(range(len(perm))):
        raise ModelError(f"perm {perm} is not a permutation")
    need_rank(x, len(perm), "the input")
    return TensorType(x.dtype, tuple(x.shape[p] for p in perm) if x.shape is not None else (UNKNOWN,) * len(perm))


@Tile.shape
def _(x: Arg, repeats: Arg) -> TensorType:
    n = length(repeats)
    if x.shape is None:
        return TensorType(x.dtype, None if n is None else (UNKNOWN,) * n)
    numbers = contents(repeats)
    if n is not None and n != len(x.shape):
        raise ModelError(f"repeats has {n} numbers, not one for each axis of {x.type}")
    if numbers is None:
        return TensorType(x.dtype, (UNKNOWN,) * len(x.shape))
    if min(numbers, default=0) < 0:
        raise ModelError(f"repeats {numbers} has a negative number")
    return TensorType(x.dtype, tuple(scaled(d, r) for d, r in zip(x.shape, numbers, strict=True)))


@Reverse.shape
def _(x: Arg, axes: tuple[int, ...]) -> TensorType:
    if x.rank is not None:
        axes_of(axes, x.rank)
    return x.type


@ReverseSequence.shape
def _(x: Arg, lens: Arg, batch_axis: int, time_axis: int) -> TensorType:
    need_rank(lens, 1, "lens")
    if x.shape is not None:
        batch, time = axes_of((batch_axis, time_axis), len(x.shape))
        if lens.shape is not None:
            agree([lens.shape[0], x.shape[batch]], "lens and the batch axis")
        numbers, dim = contents(lens), x.shape[time]
        if numbers and isinstance(dim, int) and not 0 <= min(numbers) <= max(numbers) <= dim:
            raise ModelError(f"lens {numbers} has a number that is not within 0..{dim}")
    return x.type


def _blocks(x: Arg, blocksize: int) -> Any:
    if blocksize < 1:
        raise ModelError(f"blocksize is {blocksize}, it must be 1 or more")
    need_rank(x, 4, "the input")
    return x.shape or (UNKNOWN,) * 4


@DepthToSpace.shape
def _(x: Arg, blocksize: int, mode: str) -> TensorType:
    n, c, h, w = _blocks(x, blocksize)
    c = divided(c, blocksize * blocksize, "the number of channels")
    return TensorType(x.dtype, (n, c, scaled(h, blocksize), scaled(w, blocksize)))


@SpaceToDepth.shape
def _(x: Arg, blocksize: int) -> TensorType:
    n, c, h, w = _blocks(x, blocksize)
    h, w = (divided(d, blocksize, "the size") for d in (h, w))
    return TensorType(x.dtype, (n, scaled(c, blocksize * blocksize), h, w))


@Trilu.shape
def _(x: Arg, k: Arg | None, upper: bool) -> TensorType:
    if x.rank is not None and x.rank < 2:
        raise ModelError(f"{x.type} is not a matrix")
    if k is not None and k.type.count not in (1, None):
        raise ModelError(f"k is {k.type}, not one number")
    return x.type


# ---- encoding ----------------------------------------------------------------------------------------------------


def _no_empty_sequence(node: Node) -> bool:
    """Runtimes of the format refuse sequences without elements."""
    lens = node.input(1).array
    return lens is None or bool(np.all(lens))


ReverseSequence.mnn = when(
    _no_empty_sequence,
    fields("ReverseSequence", "ReverseSequenceParam", batch_axis=("batchDim", 0), time_axis=("seqDim", 0)),
)


@Transpose.encode("Permute", "Transpose")
def _(node: Node) -> WireOp:
    return WireOp("Permute", "Permute", {"dims": list(node.attrs["perm"])}, node.inputs)


@Transpose.decode
def _(wire: WireOp) -> Decoded:
    dims = wire.field("dims") if wire.type == "Permute" else constant(wire, 1)
    rank = wire.inputs[0].type.rank
    if dims is None and (wire.type == "Transpose" or rank is None):
        return None
    perm = range(rank - 1, -1, -1) if dims is None else (int(d) for d in dims)
    return wire.inputs[:1], {"perm": tuple(perm)}


@Reverse.encode("Reverse")
def _(node: Node) -> WireOp | None:
    axes, rank = node.attrs["axes"], node.input(0).type.rank
    if len(axes) != 1 or rank is None:
        return None
    # Runtimes do not count from the end.
    return WireOp("Reverse", inputs=(node.input(0), np.array(axes_of(axes, rank), np.int32)))


@Reverse.decode
def _(wire: WireOp) -> Decoded:
    axes = constant(wire, 1)
    return None if axes is None else (wire.inputs[:1], {"axes": tuple(int(a) for a in axes.reshape(-1))})


@SpaceToDepth.encode("SpaceToDepth")
def _(node: Node) -> WireOp:
    main = {"blockSize": node.attrs["blocksize"], "mode": "DCR"}
    return WireOp("SpaceToDepth", "DepthSpaceParam", main, node.inputs)


@SpaceToDepth.decode
def _(wire: WireOp) -> Decoded:
    return (wire.inputs, {"blocksize": wire.field("blockSize", 0)}) if wire.field("mode", "DCR") == "DCR" else None


# ---- samples -----------------------------------------------------------------------------------------------------


def _ints(*values: int) -> Array:
    return np.array(values, np.int64)


@Transpose.samples
def _(rng):
    for x, perm in (
        ((2, 3), (1, 0)), ((2, 3, 5), (2, 0, 1)), ((1, 3, 7, 5), (0, 2, 3, 1)), ((2, 5, 7, 17), (0, 3, 1, 2)),
        ((), ()), ((0, 3), (1, 0)), ((2, 1, 3, 1, 5), (4, 3, 0, 1, 2)), ((3, 4), (0, 1)), ((33, 65), (1, 0)),
    ):  # fmt: skip
        yield (x,), {"perm": perm}
    yield (rng.integers(0, 99, (3, 4, 5)).astype(np.uint8),), {"perm": (2, 1, 0)}
    yield (rng.integers(0, 99, (3, 4, 5)).astype(np.int64),), {"perm": (1, 2, 0)}


@Tile.samples
def _(rng):
    for x, repeats in (((2, 3), (1, 2)), ((2, 3), (3, 1)), ((5,), (4,)), ((1, 3, 1, 2), (2, 1, 5, 3)), ((2, 3), (0, 1)),
                       ((1, 17), (3, 1)), ((), ())):  # fmt: skip
        yield (x, _ints(*repeats)), {}
    yield (np.array([[1, 2]], np.int32), _ints(2, 2)), {}


@Reverse.samples
def _(rng):
    for x, axes in (((7,), (0,)), ((2, 3, 5), (1,)), ((2, 3, 5), (-1,)), ((2, 3, 5), (0, 2)), ((0, 3), (0,)),
                    ((1, 17, 4, 3), (2,)), ((3, 2), ())):  # fmt: skip
        yield (x,), {"axes": axes}


@ReverseSequence.samples
def _(rng):
    yield ((5, 3), _ints(1, 5, 0)), {}
    yield ((3, 7, 2), _ints(7, 4, 1)), {"batch_axis": 0, "time_axis": 1}
    yield ((2, 17), _ints(17, 4)), {"batch_axis": 0, "time_axis": 1}
    yield ((3, 2, 5, 2), _ints(2, 5)), {"batch_axis": 1, "time_axis": 2}
    yield ((5, 2, 3), _ints(3, 1)), {"batch_axis": -2, "time_axis": 0}
    yield ((2, 2, 3), _ints(3, 1)), {"batch_axis": 0, "time_axis": -1}


@DepthToSpace.samples
def _(rng):
    for x, b in (((1, 8, 2, 3), 2), ((2, 9, 3, 1), 3), ((1, 68, 3, 5), 2), ((1, 5, 3, 2), 1), ((0, 4, 2, 2), 2)):
        for mode in ("DCR", "CRD"):
            yield (x,), {"blocksize": b, "mode": mode}


@SpaceToDepth.samples
def _(rng):
    for x, b in (((1, 2, 4, 6), 2), ((2, 1, 9, 3), 3), ((1, 17, 6, 10), 2), ((1, 5, 3, 2), 1), ((0, 3, 2, 2), 2)):
        yield (x,), {"blocksize": b}


@Trilu.samples
def _(rng):
    for x, k, upper in (
        ((3, 3), None, True), ((3, 5), 1, True), ((5, 3), -1, True), ((2, 4, 4), 0, False), ((3, 5), 2, False),
        ((4, 2), -2, False), ((3, 3), 9, True), ((3, 3), -9, False), ((0, 3), None, True), ((1, 17), 3, True),
    ):  # fmt: skip
        yield (x, None if k is None else np.array(k, np.int64)), {"upper": upper}
    yield (np.arange(9, dtype=np.int64).reshape(3, 3), None), {}
