"""StableHLO operators in TFLite files: those without regions of code."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import bounded, dimensions, ints, rank, regroup
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.movement import wide
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType

tflite.same(
    STABLEHLO_ABS="Abs",
    STABLEHLO_ADD="Add",
    STABLEHLO_COSINE="Cos",
    STABLEHLO_DIVIDE="Div",
    STABLEHLO_EXPONENTIAL="Exp",
    STABLEHLO_FLOOR="Floor",
    STABLEHLO_LOG="Log",
    STABLEHLO_LOGISTIC="Sigmoid",
    STABLEHLO_MAXIMUM="Max",
    STABLEHLO_MINIMUM="Min",
    STABLEHLO_MULTIPLY="Mul",
    STABLEHLO_NEGATE="Neg",
    STABLEHLO_POWER="Pow",
    STABLEHLO_RSQRT="Rsqrt",
    STABLEHLO_SELECT="Where",
    STABLEHLO_SUBTRACT="Sub",
    STABLEHLO_TANH="Tanh",
)
_COMPARISONS = {
    "STABLEHLO_COMPARISON_DIRECTION_EQ": "Equal",
    "STABLEHLO_COMPARISON_DIRECTION_NE": "NotEqual",
    "STABLEHLO_COMPARISON_DIRECTION_GE": "GreaterOrEqual",
    "STABLEHLO_COMPARISON_DIRECTION_GT": "Greater",
    "STABLEHLO_COMPARISON_DIRECTION_LE": "LessOrEqual",
    "STABLEHLO_COMPARISON_DIRECTION_LT": "Less",
}


def _logical(name: str, of_bools: str, of_bits: str) -> None:
    @tflite.op(name)
    def _(b, x, y):
        return getattr(b, of_bools if x.type.dtype is DType.BOOL else of_bits)(x, y)


_logical("STABLEHLO_AND", "And", "BitwiseAnd")
_logical("STABLEHLO_OR", "Or", "BitwiseOr")


@tflite.op("STABLEHLO_CBRT")
def _(b, x):
    return b.Mul(b.Sign(x), b.Pow(b.Abs(x), 1 / 3))


@tflite.op("STABLEHLO_REMAINDER")
def _(b, x, y):
    return b.Mod(x, y, fmod=True)


@tflite.op("STABLEHLO_SHIFT_LEFT")
def _(b, x, y):
    most = x.type.dtype.bits
    beyond = b.Or(b.Less(y, 0), b.GreaterOrEqual(y, most))
    shifted = b.BitShift(x, b.Min(b.Max(y, 0), most - 1), direction="LEFT")
    return b.Where(beyond, b.const(np.array(0, x.type.dtype.numpy)), shifted)


@tflite.op("STABLEHLO_CLAMP")
def _(b, low, x, high):
    return b.Min(b.Max(x, low), high)


@tflite.op("STABLEHLO_COMPARE")
def _(b, x, y, *, comparison_direction, compare_type=None):
    return getattr(b, _COMPARISONS[comparison_direction])(x, y)


@tflite.op("STABLEHLO_CONVERT")
def _(b, x, *, node):
    to = node.type_out().dtype
    return x if x.type.dtype is to else b.Cast(x, to=to)


@tflite.op("STABLEHLO_RESHAPE", moves=True)
def _(b, x, *, node):
    return b.Reshape(x, np.array(node.type_out().static_shape, np.int64), allowzero=True)


@tflite.op("STABLEHLO_TRANSPOSE", moves=True)
def _(b, x, *, permutation=()):
    return b.Transpose(x, perm=tuple(permutation))


@tflite.op("STABLEHLO_CONCATENATE", moves=True)
def _(b, *xs, dimension=0):
    return b.Concat(*xs, axis=dimension)


@tflite.op("STABLEHLO_SLICE", moves=True)
def _(b, x, *, start_indices=(), limit_indices=(), strides=()):
    axes = np.arange(len(start_indices))
    return b.Slice(x, np.array(start_indices), np.array(limit_indices), axes, np.array(strides))


@tflite.op("STABLEHLO_BROADCAST_IN_DIM", moves=True)
def _(b, x, *, broadcast_dimensions=(), node):
    shape = node.type_out().static_shape
    sizes = x.type.static_shape
    if len(broadcast_dimensions) != len(sizes):
        raise ModelError(f"{len(broadcast_dimensions)} broadcast_dimensions do not fit {x.type}")
    spread = [1] * len(shape)
    for size, axis in zip(sizes, broadcast_dimensions, strict=True):
        spread[axis] = size
    return b.Expand(b.Reshape(x, np.array(spread, np.int64), allowzero=True), np.array(shape, np.int64))


@tflite.op("STABLEHLO_IOTA")
def _(b, *, iota_dimension=0, node):
    declared = node.type_out()
    shape = declared.static_shape
    steps = np.arange(bounded(shape[iota_dimension], "STABLEHLO_IOTA")).reshape(
        [-1 if i == iota_dimension else 1 for i in range(len(shape))]
    )
    return b.Expand(b.const(steps.astype(declared.dtype.numpy)), np.array(shape, np.int64))


@tflite.op("STABLEHLO_PAD", moves=True)
def _(b, x, value, *, edge_padding_low=(), edge_padding_high=(), interior_padding=()):
    return b.Pad(spread_out(b, x, [p + 1 for p in interior_padding], value),
                 np.stack([edge_padding_low, edge_padding_high], 1).reshape(-1).astype(np.int64), value)  # fmt: skip


def spread_out(b: Any, x: Any, steps: list[int], value: Any) -> Any:
    """x with its elements `steps` apart along each axis, and a value between them."""
    for axis, step in enumerate(steps):
        if step < 1:
            raise ModelError(f"the dilation {step} is invalid")
        if step == 1:
            continue
        n = rank(x, "an operand")
        ends = np.zeros((n + 1, 2), np.int64)
        ends[axis + 1, 1] = step - 1
        y = b.Pad(b.Unsqueeze(x, axes=(axis + 1,)), ends.reshape(-1), value)
        sizes = dimensions(b, x, "an operand")
        size = sizes[axis]
        sizes[axis] = size * step if isinstance(size, int) else b.Mul(size, np.array([step]))
        x = b.Slice(regroup(b, y, sizes), np.array([0]), np.array([1 - step]), np.array([axis]))
    return x


@tflite.op("DILATE", moves=True)
def _(b, x, dilations, value):
    return spread_out(b, x, list(ints(dilations, "the dilations")), value)


@tflite.op("STABLEHLO_DYNAMIC_SLICE", moves=True)
def _(b, x, *starts, slice_sizes=()):
    sizes = np.array(slice_sizes, np.int64)
    first = b.Concat(*(b.Reshape(wide(b, s), np.array([1])) for s in starts), axis=0)
    first = b.Max(b.Min(first, b.Sub(b.Shape(x), sizes)), 0)
    y = b.Slice(x, first, b.Add(first, sizes))
    y.type = y.type.with_shape(slice_sizes)
    return y


@tflite.op("REDUCE_WINDOW")
def _(b, x, start, window, strides, dilations, *, reduce_function="UNSUPPORTED"):
    """Windows along every axis, one axis after another: all these functions allow it."""
    sizes, steps, gaps = (ints(v, "a window") for v in (window, strides, dilations))
    functions = {"ADD": "Add", "MUL": "Mul", "MINIMUM": "Min", "MAXIMUM": "Max", "ALL": "And", "ANY": "Or"}
    if reduce_function not in functions:
        raise UnsupportedError(f"windows reduced by {reduce_function} are not supported")
    y = x
    for axis, (size, step, gap) in enumerate(zip(sizes, steps, gaps, strict=True)):
        if size < 1 or step < 1 or gap < 1 or size > 1 << 12:
            raise ModelError(f"the window is invalid: size {size}, dilation {gap}, stride {step}")
        parts = [
            b.Slice(y, np.array([k * gap]), np.array([(k + 1 - size) * gap or np.iinfo(np.int32).max]),
                    np.array([axis]), np.array([step]))
            for k in range(size)
        ]  # fmt: skip
        total = parts[0]
        for part in parts[1:]:
            total = getattr(b, functions[reduce_function])(total, part)
        y = total
    return getattr(b, functions[reduce_function])(y, start)
