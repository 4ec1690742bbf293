"""Pooling over one to three spatial axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node, TensorType
from minnow.schema.ops import window
from minnow.schema.ops.window import Array, AutoPad
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import SPATIAL, Arg, Decoded, Float, Numeric, Op, Trait, WireOp, op


def _lowest(dtype: np.dtype[Any]) -> Any:
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.integer) else -np.inf


def _geometry(
    x: Array,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    ceil_mode: bool,
    auto_pad: str,
) -> tuple[tuple[int, ...], list[int], list[tuple[int, int]], list[tuple[int, int]]]:
    """The kernel (see `window.fitted`), the output's dimensions, the padding asked for, and the padding that all
    windows need (`ceil_mode` adds to the ends)."""
    sizes = x.shape[2:]
    span = window.spread(kernel, dilations)
    ends = window.resolve(sizes, span, strides, pads, auto_pad)
    out = window.counts(sizes, span, strides, ends, ceil_mode and not auto_pad)
    kernel = window.fitted(sizes, kernel, dilations, ends)
    rows = zip(sizes, out, window.spread(kernel, dilations), strides, ends, strict=True)
    return kernel, out, list(ends), [(b, max(e, (n - 1) * s + k - size - b)) for size, n, k, s, (b, e) in rows]


@op(traits=SPATIAL | {Trait.NO_ROUNDING}, optional_outputs=1)
def MaxPool(
    x: Numeric,
    *,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    ceil_mode: bool = False,
    auto_pad: AutoPad = "",
):
    """Largest element under the window; padding never wins.

    x is [N, C, spatial...]. `ceil_mode` rounds the output size up, without windows that start behind the input; a
    window may be larger than the input then.
    The second output, if asked for, holds the places of the largest elements (the first one of equals) as int64
    indices into the flattened x.
    """
    kernel, out, _, ends = _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad)
    xp = window.padded(x, ends, _lowest(x.dtype))
    # The padding's place is -1, so that an element equal to the padding's value still wins over it.
    places = window.padded(np.arange(x.size, dtype=np.int64).reshape(x.shape), ends, -1)
    y = np.full((*x.shape[:2], *out), _lowest(x.dtype), x.dtype)
    at = np.full(y.shape, -1, np.int64)
    pairs = zip(*(window.taps(a, out, kernel, strides, dilations) for a in (xp, places)), strict=True)
    for (_, value), (_, place) in pairs:
        better = (value > y) | ((at < 0) & (place >= 0)) | (np.isnan(value) & ~np.isnan(y))
        y[better], at[better] = value[better], place[better]
    return y, at


@op(traits=SPATIAL)
def AveragePool(
    x: Float,
    *,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    auto_pad: AutoPad = "",
):
    """Mean of the elements under the window; `count_include_pad` counts padding as zeros.

    x is [N, C, spatial...]. What `ceil_mode` lets a window reach beyond the padding is never counted.
    """
    kernel, out, ends, needed = _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad)
    xp = window.padded(x.astype(np.float64), needed, 0)
    ones = np.ones((1, 1, *x.shape[2:]))
    if count_include_pad:
        ones = window.padded(ones, ends, 1)
        needed = [(0, n[1] - e[1]) for n, e in zip(needed, ends, strict=True)]
    mask = window.padded(ones, needed, 0)
    total, count = (
        sum((part for _, part in window.taps(a, out, kernel, strides, dilations)), np.zeros(())) for a in (xp, mask)
    )
    return (total / count).astype(x.dtype)


@op(traits=SPATIAL)
def LpPool(
    x: Float,
    *,
    kernel: tuple[int, ...],
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    ceil_mode: bool = False,
    p: int = 2,
    auto_pad: AutoPad = "",
):
    """(sum of |x|^p under the window)^(1/p), x being [N, C, spatial...]; padding counts as zero."""
    kernel, out, _, ends = _geometry(x, kernel, strides, pads, dilations, ceil_mode, auto_pad)
    xp = window.padded(np.abs(x.astype(np.float64)) ** p, ends, 0)
    total = sum((part for _, part in window.taps(xp, out, kernel, strides, dilations)), np.zeros(()))
    return (total ** (1 / p)).astype(x.dtype)


def _spatial(x: Array) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@op(traits=SPATIAL)
def GlobalAveragePool(x: Float):
    """Mean over the spatial axes of x[N, C, spatial...], which are kept with size 1."""
    return np.mean(x, axis=_spatial(x), keepdims=True, dtype=np.float64).astype(x.dtype)


@op(traits=SPATIAL | {Trait.NO_ROUNDING})
def GlobalMaxPool(x: Numeric):
    """Largest element over the spatial axes of x[N, C, spatial...], which are kept with size 1."""
    return np.max(x, axis=_spatial(x), keepdims=True)


@op(traits=SPATIAL)
def GlobalLpPool(x: Float, *, p: int = 2):
    """(sum of |x|^p over the spatial axes)^(1/p), the axes kept with size 1."""
    total = np.sum(np.abs(x.astype(np.float64)) ** p, axis=_spatial(x), keepdims=True)
    return (total ** (1 / p)).astype(x.dtype)


def _pooled(x: Arg, attrs: dict[str, Any]) -> TensorType:
    kernel, strides, pads, dilations = (attrs[k] for k in ("kernel", "strides", "pads", "dilations"))
    n = len(kernel)
    if x.rank is not None and x.rank != n + 2:
        raise ModelError(f"the input has rank {x.rank}, not {n + 2}", why=f"kernel {kernel}")
    window.check(n, kernel=kernel, strides=strides, pads=pads, dilations=dilations)
    if attrs.get("p", 1) < 1:
        raise ModelError(f"p is {attrs['p']}", why="a norm needs p >= 1")
    if x.shape is None:
        return TensorType(x.dtype, ("?",) * (n + 2), x.type.layout)
    same = bool(attrs["auto_pad"])
    span = window.spread(kernel, dilations)
    out = [
        window.out_dim(d, k, s, b, e, ceil_mode=attrs["ceil_mode"], same=same)
        for d, k, s, b, e in zip(x.shape[2:], span, strides, pads[:n], pads[n:], strict=True)
    ]
    return TensorType(x.dtype, (*x.shape[:2], *out), x.type.layout)


@MaxPool.shape
def _(x: Arg, n_outputs: int, **attrs: Any) -> tuple[TensorType, ...]:
    y = _pooled(x, attrs)
    return (y, y.with_dtype(DType.I64))[:n_outputs]


def _mean_shape(x: Arg, **attrs: Any) -> TensorType:
    return _pooled(x, attrs)


def _global_shape(x: Arg, **attrs: Any) -> TensorType:
    if x.shape is None:
        return x.type
    if len(x.shape) < 3:
        raise ModelError(f"the input {x.type} has no spatial axes")
    if attrs.get("p", 1) < 1:
        raise ModelError(f"p is {attrs['p']}", why="a norm needs p >= 1")
    return x.type.with_shape((*x.shape[:2], *(1,) * (len(x.shape) - 2)))


for _op in (AveragePool, LpPool):
    _op.shape(_mean_shape)
for _op in (GlobalAveragePool, GlobalMaxPool, GlobalLpPool):
    _op.shape(_global_shape)


# ---- encoding ----------------------------------------------------------------------------------------------------


def _encode(node: Node, type: str) -> WireOp | None:
    attrs = bound(node)
    kernel, strides, pads = attrs["kernel"], attrs["strides"], list(attrs["pads"])
    x = node.input(0).type
    # The format has no dilation, no indices, and no 3-D window whose padding differs between its ends.
    if len(kernel) != 2 or set(attrs["dilations"]) != {1} or len(node.outputs) > 1 or x.dtype is not DType.F32:
        return None
    auto_pad, ceil_mode = attrs["auto_pad"], attrs["ceil_mode"]
    include = attrs.get("count_include_pad", False)
    # The format's SAME puts an odd element at the end and never counts it.
    if auto_pad == "SAME_LOWER" or (auto_pad and (include or ceil_mode)):
        return None
    # Runtimes clip the counted window by the padding at the beginning only.
    if include and (pads[:2] != pads[2:] or ceil_mode):
        return None
    if ceil_mode and not _all_windows_start_inside(x, kernel, strides, pads):
        return None
    main: dict[str, Any] = {
        "type": type,
        "kernelY": kernel[0],
        "kernelX": kernel[1],
        "strideY": strides[0],
        "strideX": strides[1],
        "padType": "SAME" if auto_pad else "CAFFE",
        "ceilModel": ceil_mode,
        "countType": "INCLUDE_PADDING" if include else "DEFAULT",
    }
    if not auto_pad:
        main |= {"padY": pads[0], "padX": pads[1], "pads": pads}
    return WireOp("Pooling", "Pool", main, node.inputs)


def _all_windows_start_inside(x: TensorType, kernel: Any, strides: Any, pads: Any) -> bool:
    """No window of the rounded-up size is left out; the format's runtimes would keep it."""
    if x.shape is None or not all(isinstance(d, int) for d in x.shape[2:]):
        return False
    rows = zip(x.shape[2:], kernel, strides, pads[:2], pads[2:], strict=True)
    return all(-(-(d + b + e - k) // s) * s < d + b for d, k, s, b, e in rows if isinstance(d, int))


def _decode(wire: WireOp, type: str) -> Decoded:
    if wire.field("type", "MAXPOOL") != type or wire.field("isGlobal", False):
        return None
    kernel = (wire.field("kernelY", 0), wire.field("kernelX", 0))
    strides = (wire.field("strideY", 0) or 1, wire.field("strideX", 0) or 1)
    pads = wire.field("pads")
    mode = wire.field("padType", "CAFFE")
    begin = (wire.field("padY", 0), wire.field("padX", 0))
    if pads is not None and len(pads) not in (2, 4):
        return None
    explicit = tuple(int(p) for p in pads) * (4 // len(pads)) if pads is not None else begin * 2
    attrs: dict[str, Any] = {"kernel": kernel, "strides": strides, "dilations": (1, 1)}
    attrs["pads"] = explicit if mode == "CAFFE" else (0, 0, 0, 0)
    if mode == "SAME":
        attrs["auto_pad"] = "SAME_UPPER"
    attrs["ceil_mode"] = bool(wire.field("ceilModel", True)) and mode == "CAFFE"
    if type == "AVEPOOL":
        count = wire.field("countType", "DEFAULT")
        # Left open, padding counts where only the two scalars give it.
        implied = count == "DEFAULT" and mode == "CAFFE" and (pads is None or len(pads) != 4) and any(explicit)
        attrs["count_include_pad"] = count == "INCLUDE_PADDING" or implied
    return wire.inputs, attrs


def _encode_global(node: Node, type: str) -> WireOp | None:
    rank = node.input(0).type.rank
    if rank == 4:
        return WireOp("Pooling", "Pool", {"type": type, "isGlobal": True, "ceilModel": False}, node.inputs)
    return WireOp("Pooling3D", "Pool3D", {"type": type, "isGlobal": True}, node.inputs) if rank == 5 else None


def _decode_global(wire: WireOp, type: str) -> Decoded:
    return (wire.inputs, {}) if wire.field("isGlobal", False) and wire.field("type", "MAXPOOL") == type else None


def _register(target: Op, encode: Any, decode: Any, type: str, *types: str) -> None:
    target.encode(*types)(lambda node: encode(node, type))
    target.decode(lambda wire: decode(wire, type))


_register(MaxPool, _encode, _decode, "MAXPOOL", "Pooling")
_register(AveragePool, _encode, _decode, "AVEPOOL", "Pooling")
_register(GlobalMaxPool, _encode_global, _decode_global, "MAXPOOL", "Pooling", "Pooling3D")
_register(GlobalAveragePool, _encode_global, _decode_global, "AVEPOOL", "Pooling", "Pooling3D")


# ---- samples -----------------------------------------------------------------------------------------------------


def _case(x, kernel, strides=None, pads=None, dilations=None, **more):
    n = len(kernel)
    attrs = {"kernel": kernel, "strides": strides or (1,) * n, "pads": pads or (0,) * 2 * n}
    return (x,), {**attrs, "dilations": dilations or (1,) * n, **more}


def _cases(**more):
    yield _case((1, 3, 7, 5), (2, 2), (2, 2), **more)
    yield _case((2, 17, 9, 7), (3, 3), (2, 2), (1, 1, 1, 1), **more)
    yield _case((1, 5, 11, 13), (3, 2), (1, 3), (0, 1, 2, 0), **more)
    yield _case((1, 4, 6, 6), (3, 3), (2, 2), (0, 0, 0, 0), ceil_mode=True, **more)
    yield _case((1, 3, 8, 7), (3, 3), (2, 3), (1, 1, 1, 1), ceil_mode=True, **more)
    yield _case((1, 2, 5, 5), (2, 2), (3, 3), (0, 0, 1, 1), ceil_mode=True, **more)
    yield _case((1, 2, 5, 4), (9, 6), (5, 3), ceil_mode=True, **more)
    yield _case((1, 2, 5, 4), (9, 6), (3, 3), (1, 1, 1, 0), ceil_mode=True, **more)
    yield _case((1, 2, 5, 4), (64, 3), (64, 2), ceil_mode=True, **more)
    yield _case((1, 2, 5), (4,), (6,), (0, 0), (3,), ceil_mode=True, **more)
    yield _case((1, 3, 9, 8), (3, 2), (1, 2), (1, 0, 1, 1), (2, 3), **more)
    yield _case((1, 32, 1, 1), (1, 1), **more)
    yield _case((1, 8, 13, 5), (13, 5), **more)
    yield _case((0, 3, 4, 4), (2, 2), (2, 2), **more)
    yield _case((1, 3, 10, 9), (4, 3), (3, 2), auto_pad="SAME_UPPER", **more)
    yield _case((1, 3, 10, 9), (4, 2), (3, 2), auto_pad="SAME_LOWER", **more)
    yield _case((2, 3, 11), (3,), (2,), (1, 1), **more)
    yield _case((1, 3, 4, 5, 7), (2, 3, 2), (2, 1, 2), (0, 1, 1, 1, 1, 0), **more)


@MaxPool.samples
def _(rng):
    yield from _cases()
    for operands, attrs in (
        _case((1, 3, 7, 5), (3, 2), (2, 2), (1, 0, 0, 1)),
        _case((2, 3, 9, 6), (2, 3), (2, 1), (0, 1, 0, 1), (2, 1), ceil_mode=True),
        _case((2, 2, 11), (3,), (2,), (1, 1)),
    ):
        yield operands, attrs, 2
    yield ((rng.integers(0, 9, (1, 3, 6, 5)).astype(np.uint8),), _case((), (2, 2))[1])
    yield ((rng.integers(-9, 9, (1, 3, 6, 5)).astype(np.int8),), _case((), (2, 2), (2, 2), (0, 1, 0, 0))[1])


@AveragePool.samples
def _(rng):
    yield from _cases()
    yield from _cases(count_include_pad=True)


@LpPool.samples
def _(rng):
    yield from _cases()
    yield from _cases(p=3)


def _whole(rng):
    for shape in ((1, 3, 7, 5), (2, 17, 1, 1), (1, 32, 14, 14), (0, 3, 4, 4), (2, 5, 7), (1, 3, 2, 3, 5)):
        yield (shape,), {}


@GlobalLpPool.samples
def _(rng):
    yield from _whole(rng)
    yield ((1, 3, 5, 4),), {"p": 1}


for _op in (GlobalAveragePool, GlobalMaxPool):
    _op.samples(_whole)
