"""Reductions, running sums and products, arg-max, top-k, softmax."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, DType, Node, TensorType
from minnow.schema.ir.type import Shape
from minnow.schema.ops.special import Array, keep
from minnow.schema.registry import symbolic
from minnow.schema.registry.dimension import axes_of, axis_of, contents, length, scalar, unknown
from minnow.schema.registry.encoding import BOOL, F32, F32_I32, WIRE_DTYPES, bound, computes, constant, dtype_of, fields
from minnow.schema.registry.op import (
    REDUCTION,
    Arg,
    Computed,
    Decoded,
    Encoding,
    Float,
    Numeric,
    Op,
    Sizes,
    Trait,
    WireOp,
    fill,
    op,
)
from minnow.schema.registry.sign import where_all
from minnow.schema.registry.symbolic import Polynomial, greatest, least


def reduced(shape: Shape | None, axes: Sequence[int] | None, keepdims: bool) -> Shape | None:
    """The shape after a reduction over `axes` (None: all): the reduced dimensions become 1, or are dropped."""
    if shape is None:
        return () if axes is None and not keepdims else None
    gone = set(range(len(shape)) if axes is None else axes_of(axes, len(shape), "axes"))
    kept: list[tuple[int, Dim]] = [(i, 1 if i in gone else d) for i, d in enumerate(shape)]
    return tuple(d for i, d in kept if keepdims or i not in gone)


def _may_be_empty(listed: TensorType) -> bool:
    """False when the operand is sure to hold a number."""
    return not (listed.shape and isinstance(listed.shape[0], int) and listed.shape[0] > 0)


def _reduction(code: str, dtypes: frozenset[DType] = F32_I32, logical: str = "") -> Encoding:
    """Reduction with an operation code; `logical` is the code that means the same for bool in foreign files."""

    def encode(node: Node) -> WireOp | None:
        attrs = bound(node)
        # No axes, in the table or as operand, stand for all of them, so that none at all cannot be said.
        x = node.input(0).type
        at = node.input(1) if node.has_input(1) else None
        if at is not None and (at.is_const or _may_be_empty(at.type)):  # a constant is the attribute, once it is folded
            return None
        if attrs["axes"] == () or x.dtype not in dtypes or 0 in (x.shape or ()):  # what is empty makes it crash
            return None
        main = {"operation": code, "keepDims": attrs["keepdims"]}
        if attrs["axes"] is not None:
            main["dim"] = list(attrs["axes"])
        return WireOp("Reduction", "ReductionParam", main, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        asked = wire.field("operation", "SUM")
        if asked != code and not (asked == logical and dtype_of(wire) is DType.BOOL):
            return None
        axes = wire.field("dim")
        attrs = {"keepdims": wire.field("keepDims", False)}
        if axes is None and len(wire.inputs) > 1:
            axes = constant(wire, 1)
            if axes is None:
                return None if _may_be_empty(wire.inputs[1].type) else (wire.inputs, attrs)
        listed = None if axes is None else tuple(int(a) for a in np.reshape(axes, -1))
        return wire.inputs[:1], {"axes": listed or None, **attrs}

    return Encoding(encode, decode, ("Reduction",))


def _over(x: Array, axes: Sequence[int] | None, at: Array | None) -> tuple[int, ...]:
    """The axes to reduce over: the computed ones, else those of the attribute, else all."""
    if at is not None:
        return axes_of((int(a) for a in at), x.ndim)
    return tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)


@op(mnn=_reduction("SUM"), traits=REDUCTION | {Trait.SIZE_MATH, Trait.SUMS})
def ReduceSum(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Sum over axes; integers wrap around."""
    if x.dtype.kind in "iu":
        return np.sum(x, axis=_over(x, axes, at), keepdims=keepdims, dtype=x.dtype)
    return keep(lambda v: np.sum(v, axis=_over(x, axes, at), keepdims=keepdims), x)


ReduceSum.contents(symbolic.reduced(Polynomial.__add__))


@op(mnn=_reduction("MEAN", F32), traits=REDUCTION | {Trait.SUMS})
def ReduceMean(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Mean over axes, NaN where there is nothing; of integers truncated toward zero."""
    over = _over(x, axes, at)
    if x.dtype.kind not in "iu":
        return keep(lambda v: np.sum(v, axis=over, keepdims=keepdims) / np.prod([x.shape[a] for a in over]), x)
    total = np.sum(x.astype(object), axis=over, keepdims=keepdims)
    n = int(np.prod([x.shape[a] for a in over], dtype=np.int64)) or 1
    return (np.abs(total) // n * np.where(total < 0, -1, 1)).astype(x.dtype)


def _limit(dtype: np.dtype[Any], highest: bool) -> Any:
    if dtype.kind == "b":
        return highest
    if dtype.kind in "iu":
        return np.iinfo(dtype).max if highest else np.iinfo(dtype).min
    return np.asarray(np.inf if highest else -np.inf).astype(dtype)


@op(mnn=_reduction("MAXIMUM", F32_I32 | BOOL, "ANY"), traits=REDUCTION | {Trait.SIZE_MATH, Trait.NO_ROUNDING})
def ReduceMax(x: Computed, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Maximum over axes, of bool "any"; the lowest number there is where there is nothing."""
    return np.max(x, axis=_over(x, axes, at), keepdims=keepdims, initial=_limit(x.dtype, highest=False))


ReduceMax.contents(symbolic.reduced(greatest))


@op(mnn=_reduction("MINIMUM", F32_I32 | BOOL, "ALL"), traits=REDUCTION | {Trait.SIZE_MATH, Trait.NO_ROUNDING})
def ReduceMin(x: Computed, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Minimum over axes, of bool "all"; the highest number there is where there is nothing."""
    return np.min(x, axis=_over(x, axes, at), keepdims=keepdims, initial=_limit(x.dtype, highest=True))


ReduceMin.contents(symbolic.reduced(least))


@op(mnn=_reduction("PROD"), traits=REDUCTION | {Trait.SIZE_MATH})
def ReduceProd(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Product over axes; integers wrap around."""
    if x.dtype.kind in "iu":
        return np.prod(x, axis=_over(x, axes, at), keepdims=keepdims, dtype=x.dtype)
    return keep(lambda v: np.prod(v, axis=_over(x, axes, at), keepdims=keepdims), x)


ReduceProd.contents(symbolic.reduced(Polynomial.__mul__))


@op(traits=REDUCTION)
def ReduceL1(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Sum of absolute values over axes; integers wrap around."""
    if x.dtype.kind in "iu":
        return np.sum(np.abs(x), axis=_over(x, axes, at), keepdims=keepdims, dtype=x.dtype)
    return keep(lambda v: np.sum(np.abs(v), axis=_over(x, axes, at), keepdims=keepdims), x)


@op(traits=REDUCTION)
def ReduceL2(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Square root of the sum of squares over axes."""
    return keep(lambda v: np.sqrt(np.sum(v * v, axis=_over(x, axes, at), keepdims=keepdims)), x)


@op(traits=REDUCTION)
def ReduceSumSquare(x: Numeric, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Sum of squares over axes; integers wrap around."""
    if x.dtype.kind in "iu":
        return np.sum(x * x, axis=_over(x, axes, at), keepdims=keepdims, dtype=x.dtype)
    return keep(lambda v: np.sum(v * v, axis=_over(x, axes, at), keepdims=keepdims), x)


@op(traits=REDUCTION)
def ReduceLogSum(x: Float, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Logarithm of the sum over axes."""
    return keep(lambda v: np.log(np.sum(v, axis=_over(x, axes, at), keepdims=keepdims)), x)


@op(traits=REDUCTION)
def ReduceLogSumExp(x: Float, at: Sizes | None = None, *, axes: tuple[int, ...] | None = None, keepdims: bool = True):
    """Logarithm of the sum of exp(x) over axes, without overflow."""
    return keep(lambda v: np.logaddexp.reduce(_flat(v, _over(x, axes, at)), axis=-1), x).reshape(
        np.sum(x, axis=_over(x, axes, at), keepdims=keepdims).shape
    )


def _flat(x: Array, axes: Sequence[int]) -> Array:
    """The given axes moved to the end, as one."""
    kept = [a for a in range(x.ndim) if a not in axes]
    n = int(np.prod([x.shape[a] for a in axes], dtype=np.int64))
    return np.transpose(x, (*kept, *axes)).reshape(*(x.shape[a] for a in kept), n)


def _reduced_type(x: Arg, at: Arg | None, *, axes, keepdims):
    if at is None:
        return x.type.with_shape(reduced(x.shape, axes, keepdims))
    if axes is not None:
        raise ModelError("the axes are given twice, as attribute and as operand")
    n, axes = length(at), contents(at)
    if axes is None and x.rank is not None and n is not None:
        if n > x.rank:
            raise ModelError(f"{n} axes are reduced, the input has only {x.rank}")
        axes = range(n) if n in (0, x.rank) else None  # none or all of them, whichever they are
    if axes is not None or x.shape is None:
        return x.type.with_shape(None if axes is None else reduced(x.shape, axes, keepdims))
    if keepdims:
        return x.type.with_shape(1 if d == 1 else UNKNOWN for d in x.shape)
    return x.type.with_shape(None if n is None else unknown(len(x.shape) - n))


def _reduction_samples(op: Op) -> Any:
    name = op.name

    def samples(rng: np.random.Generator) -> Iterator[Any]:
        positive = name in ("ReduceLogSum",)
        shapes: list[tuple[tuple[int, ...], dict[str, Any]]] = [
            ((2, 3, 5, 7), {"axes": (1,)}),
            ((2, 3, 5, 7), {"axes": (-1,), "keepdims": False}),
            ((2, 3, 5, 7), {"axes": (2, 3)}),
            ((2, 3, 5, 7), {"axes": (3, 0), "keepdims": False}),
            ((2, 3, 5), {}),
            ((2, 3, 5), {"keepdims": False}),
            ((17,), {"axes": (0,)}),
            ((17,), {"axes": (-1,), "keepdims": False}),
            ((), {}),
            ((), {"keepdims": False}),
            ((3, 0), {"axes": (0,)}),
            ((3, 1), {"axes": ()}),
            ((1, 19, 3, 3), {"axes": (1,), "keepdims": False}),
            ((1, 131), {"axes": (1,)}),
        ]
        for shape, attrs in shapes:
            x = fill(rng, shape)
            yield (np.abs(x) if positive else x,), attrs
        if name != "ReduceMean":
            yield (fill(rng, (3, 0)),), {"axes": (1,)}
        for shape, axes, keepdims in (((2, 3, 5, 7), (-1, 1), True), ((2, 3, 5), (1,), False), ((2, 3), (0, 1), False),
                                      ((3, 5), (), True), ((), (), False)):  # fmt: skip
            x = fill(rng, shape)
            yield (np.abs(x) if positive else x, np.array(axes, np.int64)), {"keepdims": keepdims}
        for dtype in (DType.F64, DType.F16, DType.I32, DType.I64):
            if dtype in op.inputs[0].dtypes:
                x = fill(rng, (3, 5, 2), dtype)
                yield (np.abs(x) if positive else x,), {"axes": (1,)}
                yield (np.abs(x) if positive else x,), {"axes": (-1, 0), "keepdims": False}
        if DType.BOOL in op.inputs[0].dtypes:
            yield (fill(rng, (3, 5, 2), DType.BOOL),), {"axes": (1,)}
        yield (np.array([[1, np.inf], [2, -np.inf], [3, np.nan], [np.inf, -np.inf]], np.float32),), {"axes": (1,)}

    return samples


_REDUCTIONS = (
    *(ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd),
    *(ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum, ReduceLogSumExp),
)
for _op in _REDUCTIONS:
    _op.doc += "\n\n`at` takes the place of `axes` where the axes are computed; without either it is over all of them."
    _op.shape(_reduced_type)
    _op.samples(_reduction_samples(_op))


# ---- arg-max and top-k


def _arg(x: Array, axis: int, keepdims: bool, last: bool, pick: Any) -> Array:
    if last:
        return x.shape[axis] - 1 - pick(np.flip(x, axis), axis=axis, keepdims=keepdims)
    return pick(x, axis=axis, keepdims=keepdims)


def _arg_encoding(type: str) -> Encoding:
    def encode(node: Node) -> WireOp | None:
        attrs = bound(node)
        # The file's form drops the axis and takes the first of equals; its runtime compares int32 as if it were float.
        if attrs["keepdims"] or attrs["select_last_index"] or node.input(0).type.dtype is not DType.F32:
            return None
        return WireOp(type, "ArgMax", {"axis": attrs["axis"], "topK": 1}, node.inputs)

    def decode(wire: WireOp) -> Decoded:
        if wire.field("outMaxVal", 0) or wire.field("topK", 0) > 1 or wire.field("axis", 0) == 10000:
            return None
        return wire.inputs, {"axis": wire.field("axis", 0), "keepdims": False}

    return Encoding(encode, decode, (type,))


INDEX = frozenset({Trait.NONNEGATIVE})


@op(mnn=_arg_encoding("ArgMax"), traits=INDEX | {Trait.ARGUMENT})
def ArgMax(x: Numeric, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False):
    """Index of the largest element along an axis, as i64; of equal ones the first, or the last."""
    return _arg(x, axis, keepdims, select_last_index, np.argmax).astype(np.int64)


@op(mnn=_arg_encoding("ArgMin"), traits=INDEX | {Trait.ARGUMENT})
def ArgMin(x: Numeric, *, axis: int = 0, keepdims: bool = True, select_last_index: bool = False):
    """Index of the smallest element along an axis, as i64; of equal ones the first, or the last."""
    return _arg(x, axis, keepdims, select_last_index, np.argmin).astype(np.int64)


def _arg_type(x: Arg, *, axis, keepdims, select_last_index):
    return TensorType(DType.I64, reduced(x.shape, (axis,), keepdims))


def _arg_samples(rng):
    yield ((2, 3, 5, 7),), {}
    yield ((2, 3, 5, 7),), {"axis": -1, "keepdims": False}
    yield ((2, 3, 5, 7),), {"axis": 1}
    yield ((17,),), {"axis": 0, "keepdims": False}
    yield ((1, 19, 3),), {"axis": 1, "keepdims": False}
    yield ((3, 1),), {"axis": -1}
    yield ((0, 3),), {"axis": 1, "keepdims": False}
    ties = np.array([[1, 3, 3, 2], [5, 5, 5, 5], [0, -1, -1, 0]])
    for dtype in (np.float32, np.float64, np.int32, np.int64):
        yield (ties.astype(dtype),), {"axis": 1, "keepdims": False}
        yield (ties.astype(dtype),), {"axis": -1, "select_last_index": True}
    yield (np.array([[np.inf, 1, -np.inf], [-np.inf, -np.inf, -3e38]], np.float32),), {"axis": 1}


for _op in (ArgMax, ArgMin):
    _op.shape(_arg_type)
    _op.samples(_arg_samples)


@op(outputs=2, traits=frozenset({Trait.NO_ROUNDING}))
def TopK(x: Numeric, k: Sizes, *, axis: int = -1, largest: bool = True, sorted: bool = True):
    """The k (one number) largest or smallest elements along an axis, and their indices as i64.

    They come in order, of equal ones the one with the lower index first. With `sorted=False` any order will do.
    """
    n = x.shape[axis]
    count = int(k.reshape(()))
    if largest:  # the mirror image keeps equal elements in order, and needs no negative numbers
        order = n - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    order = np.take(order, range(count), axis=axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


@TopK.shape
def _(x, k, *, axis, largest, sorted):
    count = scalar(k)
    shape = x.shape
    if shape is not None:
        at = axis_of(axis, len(shape))
        dim = shape[at]
        if count is not None and (count < 0 or (isinstance(dim, int) and count > dim)):
            raise ModelError(f"TopK cannot take {count} of {dim} elements")
        shape = (*shape[:at], UNKNOWN if count is None else count, *shape[at + 1 :])
    return x.type.with_shape(shape), TensorType(DType.I64, shape)


# Only the last axis has a form. Of equal elements, other runtimes of the format may take any.
@TopK.encode("TopKV2")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    dtype = node.input(0).type.dtype
    if dtype not in F32_I32 or attrs["axis"] != -1:
        return None
    main = {"T": WIRE_DTYPES[dtype], "largest": attrs["largest"], "sorted": attrs["sorted"]}
    return WireOp("TopKV2", "TopKV2", main, node.inputs, len(node.outputs))


@TopK.decode
def _(wire: WireOp) -> Decoded:
    attrs: dict[str, Any] = {"largest": wire.field("largest", True), "sorted": wire.field("sorted", False)}
    if len(wire.inputs) > 2:
        axis = constant(wire, 2)
        if axis is None or axis.size != 1:
            return None
        attrs["axis"] = int(axis.reshape(()))
    return wire.inputs[:2], attrs


@TopK.samples
def _(rng):
    def k(n):
        return np.array([n], np.int64)

    yield ((2, 3, 5, 7), k(3)), {}, 2
    yield ((2, 3, 5, 7), k(2)), {"axis": 1, "largest": False}, 2
    yield ((17,), k(17)), {"axis": 0}, 2
    yield ((17,), k(1)), {"largest": False}, 2
    yield ((3, 5), k(0)), {}, 2
    yield ((0, 5), k(2)), {}, 2
    yield ((1, 131), k(5)), {}, 2
    ties = np.array([[1, 3, 3, 2], [5, 5, 5, 5], [0, -1, -1, 0]])
    for dtype in (np.float32, np.int32, np.int64, np.float64):
        yield (ties.astype(dtype), k(3)), {}, 2
        yield (ties.astype(dtype), k(3)), {"largest": False}, 2
    yield (np.array([[np.inf, 1, -np.inf, -0.5]], np.float32), k(2)), {}, 2


# ---- running sums and products


def _running(x: Array, axis: Array, exclusive: bool, reverse: bool, function: Any, neutral: int) -> Array:
    at = axis_of(int(axis.reshape(())), x.ndim)
    v = x if x.dtype.kind in "iu" else x.astype(np.float64)
    v = np.flip(v, at) if reverse else v
    v = function(v, axis=at, dtype=v.dtype)
    if exclusive and x.shape[at]:
        first = np.full_like(np.take(v, [0], at), neutral)
        v = np.concatenate([first, np.take(v, range(x.shape[at] - 1), at)], at)
    return (np.flip(v, at) if reverse else v).astype(x.dtype)


@op()
def CumSum(x: Numeric, axis: Sizes, *, exclusive: bool = False, reverse: bool = False):
    """Sums of all elements up to each one along an axis; without the element itself, or from the end."""
    return _running(x, axis, exclusive, reverse, np.cumsum, 0)


CumSum.sign(where_all(0))


@CumSum.encode("CumSum")
def _(node: Node) -> WireOp | None:
    if node.input(0).type.dtype not in F32_I32:
        return None
    attrs = bound(node)
    return WireOp("CumSum", "CumSum", {"exclusive": attrs["exclusive"], "reverse": attrs["reverse"]}, node.inputs)


@CumSum.decode
def _(wire: WireOp) -> Decoded:
    if len(wire.inputs) != 2 or wire.inputs[1].type.count != 1:
        return None
    return wire.inputs, {"exclusive": wire.field("exclusive", False), "reverse": wire.field("reverse", False)}


@op()
def CumProd(x: Numeric, axis: Sizes, *, exclusive: bool = False, reverse: bool = False):
    """Products of all elements up to each one along an axis; without the element itself, or from the end."""
    return _running(x, axis, exclusive, reverse, np.cumprod, 1)


def _running_type(x: Arg, axis: Arg, **_):
    at = scalar(axis)
    if axis.type.count not in (1, None):
        raise ModelError(f"the axis is {axis.type}, not one number")
    if at is not None and x.rank is not None:
        axis_of(at, x.rank)
    return x.type


def _running_samples(rng):
    for exclusive in (False, True):
        for reverse in (False, True):
            attrs = {"exclusive": exclusive, "reverse": reverse}
            for shape, axis in (((2, 3, 5), 1), ((2, 3, 5), -1), ((17,), 0), ((3, 0), 1), ((1, 19, 3, 3), 0)):
                yield (shape, np.array(axis)), attrs
            for dtype in (DType.I32, DType.I64, DType.F64):
                yield (fill(rng, (5, 3), dtype), np.array(0, np.int32)), attrs
    yield (np.array([1, np.inf, -np.inf, np.nan, 1], np.float32), np.array([0])), {}


for _op in (CumSum, CumProd):
    _op.shape(_running_type)
    _op.samples(_running_samples)


# ---- softmax and its like


def _same_type(x: Arg, *, axis):
    if x.rank is not None:
        axis_of(axis, x.rank)
    return x.type


def _shifted(v: Array, axis: int) -> Array:
    return v - np.max(v, axis=axis, keepdims=True, initial=-np.inf)


@op(
    mnn=computes(fields("Softmax", "Axis", axis=("axis", 0))),
    traits=frozenset({Trait.NOT_BELOW_ZERO, Trait.SAME_FOR_ZEROS}),
)
def Softmax(x: Float, *, axis: int = -1):
    """y = exp(x) / sum(exp(x)) along an axis."""

    def softmax(v: Array) -> Array:
        e = np.exp(_shifted(v, axis))
        return e / np.sum(e, axis=axis, keepdims=True)

    return keep(softmax, x)


Softmax.dimension(symbolic.of_first)


@op()
def LogSoftmax(x: Float, *, axis: int = -1):
    """y = x - log(sum(exp(x))) along an axis."""

    def log_softmax(v: Array) -> Array:
        s = _shifted(v, axis)
        return s - np.log(np.sum(np.exp(s), axis=axis, keepdims=True))

    return keep(log_softmax, x)


@op()
def Hardmax(x: Float, *, axis: int = -1):
    """1 for the largest element along an axis, the first one of equals; 0 for the others."""
    out = np.zeros_like(x)
    if x.size:
        np.put_along_axis(out, np.argmax(x, axis=axis, keepdims=True), 1, axis)
    return out


def _softmax_samples(rng):
    yield ((2, 3, 5, 7),), {}
    yield ((2, 3, 5, 7),), {"axis": 1}
    yield ((2, 3, 5, 7),), {"axis": 0}
    yield ((2, 3, 5),), {"axis": -2}
    yield ((17,),), {"axis": 0}
    yield ((3, 1),), {}
    yield ((3, 0),), {}
    yield ((0, 3),), {}
    yield ((1, 131),), {}
    yield (fill(rng, (3, 5), DType.F64),), {}
    yield (fill(rng, (3, 5), DType.F16),), {}
    yield (np.array([[1000, 1001, -1000], [-3e38, 3e38, 0], [2, 2, 2], [-np.inf, 0, 1]], np.float32),), {}


for _op in (Softmax, LogSoftmax, Hardmax):
    _op.shape(_same_type)
    _op.samples(_softmax_samples)
