"""Normalization. Statistics are those of the biased estimators: the sum of squared deviations over n."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node
from minnow.schema.ops.special import Array, keep
from minnow.schema.registry.dimension import agree, axis_of
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import SPATIAL, Arg, Decoded, Float, Trait, WireOp, fill, op
from minnow.schema.registry.symbolic import of_first


def _channels(v: Array, x: Array) -> Array:
    """A vector along axis 1 of `x`; x of rank 1 has one channel."""
    if v.size != (x.shape[1] if x.ndim > 1 else 1):
        raise ValueError(f"{v.size} numbers for the channels of {list(x.shape)}")
    return v.reshape(-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 else v.reshape(())


def _per_channel(x: Arg, *vectors: Arg | None, **attrs: Any) -> Any:
    if x.shape is not None:
        channels = x.shape[1] if len(x.shape) > 1 else 1
        for v in filter(None, vectors):
            if v.dtype is not x.dtype:
                raise ModelError(f"operands of the types {x.dtype} and {v.dtype} are mixed")
            if v.shape is not None and len(v.shape) != 1:
                raise ModelError(f"a parameter with one number per channel has the shape {v.shape}, not one axis")
            if v.shape is not None:
                agree([channels, v.shape[0]], "channels")
    return x.type


@op(traits=SPATIAL | {Trait.SUMS})
def BatchNorm(x: Float, scale: Float, bias: Float, mean: Float, var: Float, *, epsilon: float = 1e-5):
    """y = (x - mean) / sqrt(var + epsilon) * scale + bias, with one number per channel (axis 1) each."""

    def normalize(v, *statistics):
        s, b, m, d = (_channels(t, v) for t in statistics)
        return (v - m) / np.sqrt(d + epsilon) * s + b

    return keep(normalize, x, scale, bias, mean, var)


@op(traits=SPATIAL | {Trait.SUMS})
def Scale(x: Float, scale: Float, bias: Float):
    """y = x * scale + bias, with one number per channel (axis 1) each."""
    return keep(lambda v, s, b: v * _channels(s, v) + _channels(b, v), x, scale, bias)


_SHAPES = ((2, 3, 5, 7), (1, 19, 3, 3), (2, 17, 3), (5, 3), (1, 1, 1), (0, 3, 2), (2, 3, 1, 2, 3))


@BatchNorm.samples
def _(rng):
    for i, shape in enumerate(_SHAPES):
        c = shape[1]
        operands = (fill(rng, shape), fill(rng, (c,)), fill(rng, (c,)), fill(rng, (c,)), np.abs(fill(rng, (c,))))
        yield operands, {"epsilon": 1e-3} if i % 2 else {}
    yield tuple(np.abs(fill(rng, s, DType.F64)) for s in ((2, 3, 4), (3,), (3,), (3,), (3,))), {}


@Scale.samples
def _(rng):
    for shape in _SHAPES:
        yield (shape, shape[1:2], shape[1:2]), {}


for _op in (BatchNorm, Scale):
    _op.shape(_per_channel)


@Scale.encode("Scale")
def _(node: Node) -> WireOp | None:
    x, scale, bias = (node.input(i) for i in range(3))
    # The format's runtime takes channel blocks for granted, and other ranks than 4 are never stored as such.
    if x.type.dtype is not DType.F32 or x.type.rank != 4 or scale.array is None or bias.array is None:
        return None
    main = {"channels": scale.array.size, "scaleData": scale.array, "biasData": bias.array}
    return WireOp("Scale", "Scale", main, (x,))


@Scale.decode
def _(wire: WireOp) -> Decoded:
    scale, bias = wire.field("scaleData"), wire.field("biasData")
    if scale is None:
        return None
    return (*wire.inputs, scale, np.zeros(len(scale), np.float32) if bias is None else bias), {}


@op()
def LayerNorm(
    x: Float, scale: Float | None = None, bias: Float | None = None, *, axis: int = -1, epsilon: float = 1e-5
):
    """y = (x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis` to the last."""

    def normalize(v):
        axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
        d = v - np.mean(v, axis=axes, keepdims=True)
        y = d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + epsilon)
        return _affine(y, scale, bias)

    return keep(normalize, x)


LayerNorm.dimension(of_first)


@op()
def RMSNorm(x: Float, scale: Float | None = None, *, axis: int = -1, epsilon: float = 1e-5):
    """y = x / sqrt(mean(x^2) + epsilon) * scale over the axes from `axis` to the last."""

    def normalize(v):
        axes = tuple(range(axis_of(axis, x.ndim), x.ndim))
        return _affine(v / np.sqrt(np.mean(v * v, axis=axes, keepdims=True) + epsilon), scale)

    return keep(normalize, x)


RMSNorm.dimension(of_first)


def _affine(y: Array, scale: Array | None, bias: Array | None = None) -> Array:
    y = y if scale is None else y * scale.astype(np.float64)
    return y if bias is None else y + bias.astype(np.float64)


def _normalized_type(x: Arg, *operands: Arg | None, axis: int, epsilon: float) -> Any:
    if x.rank is not None:
        tail = _tail(x.shape or (), axis_of(axis, x.rank))
        for v in operands:
            if v is None or v.shape is None:
                continue
            given = v.shape[len(v.shape) - len(tail) :] if len(v.shape) > len(tail) else v.shape
            for a, b in zip(reversed(given), reversed(tail), strict=False):
                if isinstance(a, int) and isinstance(b, int) and a not in (1, b):
                    raise ModelError(f"a scale or bias of shape {v.shape} does not fit the normalized axes {tail}")
    return x.type


def _tail(shape: Sequence[Any], start: int) -> tuple[Any, ...]:
    return tuple(shape[start:])


@LayerNorm.samples
def _(rng):
    yield ((2, 3, 5, 7), (7,), (7,)), {}
    yield ((2, 3, 5), None, None), {"epsilon": 1e-3}
    yield ((2, 3, 5), (5,), None), {}
    yield ((2, 3, 5), (3, 5), (3, 5)), {"axis": -2}
    yield ((2, 3, 5), (3, 5), (3, 5)), {"axis": 1}
    yield ((2, 17), (17,), (17,)), {"axis": 1, "epsilon": 1e-6}
    yield ((17,), (17,), (17,)), {"axis": 0}
    yield ((0, 3), (3,), (3,)), {}
    yield ((3, 1), (1,), (1,)), {}
    yield ((1, 131), None, None), {}
    yield (fill(rng, (3, 5)) * 100 + 1000, (5,), (5,)), {}
    yield tuple(fill(rng, s, DType.F64) for s in ((3, 5), (5,), (5,))), {}


@RMSNorm.samples
def _(rng):
    yield ((2, 3, 5, 7), (7,)), {}
    yield ((2, 3, 5), None), {"epsilon": 1e-3}
    yield ((2, 3, 5), (3, 5)), {"axis": -2}
    yield ((2, 3, 5), (3, 5)), {"axis": 1}
    yield ((17,), (17,)), {"axis": 0, "epsilon": 1e-6}
    yield ((0, 3), (3,)), {}
    yield ((3, 1), (1,)), {}
    yield ((1, 131), (131,)), {}
    yield tuple(fill(rng, s, DType.F64) for s in ((3, 5), (5,))), {}


def _encode_norm(node: Node) -> WireOp | None:
    """LayerNorm; its table has both scale and bias, or neither, each with a number per normalized element."""
    attrs = bound(node)
    x = node.input(0)
    scale, bias = (node.input(i).array if node.has_input(i) else None for i in (1, 2))
    if x.type.dtype is not DType.F32 or x.type.shape is None:
        return None
    if any(node.has_input(i) and node.input(i).array is None for i in (1, 2)) or (scale is None and bias is not None):
        return None
    rank, axis = len(x.type.shape), attrs["axis"]
    main: dict[str, Any] = {"axis": list(range(axis, rank if axis >= 0 else 0)), "epsilon": attrs["epsilon"]}
    if scale is not None:
        tail = _tail(x.type.shape, axis_of(axis, rank))
        if scale.shape != tail or (bias is not None and bias.shape != tail):
            return None
        main["gamma"] = scale.reshape(-1)
        main["beta"] = np.zeros(scale.size, np.float32) if bias is None else bias.reshape(-1)
    if node.op == "RMSNorm":
        main["useRMSNorm"] = True
    return WireOp("LayerNorm", "LayerNorm", main, (x,))


def _decode_norm(wire: WireOp, rms: bool) -> Decoded:
    x = wire.inputs[0]
    listed = [int(a) for a in wire.field("axis", ())]
    # Two inputs and channel blocks mean a fused addition, groups a GroupNorm: other ops.
    if wire.field("useRMSNorm", False) is not rms or len(wire.inputs) != 1 or wire.field("group", 1) != 1 or not listed:
        return None
    # The runtime counts the axes, and takes that many at the end.
    count = len(listed)
    axis = listed[0] if listed == list(range(listed[0], listed[0] + count)) and listed[0] >= 0 else -count
    attrs = {"axis": axis, "epsilon": wire.field("epsilon", 0.0)}
    gamma, beta = wire.field("gamma"), wire.field("beta")
    if gamma is None:
        return (x,), attrs
    tail = None if x.type.shape is None else _tail(x.type.shape, len(x.type.shape) - count)
    if tail is None or not all(isinstance(d, int) for d in tail):
        if count > 1:
            return None
        tail = (len(gamma),)
    if int(np.prod(tail)) != len(gamma):
        return None
    operands = [x, gamma.reshape(tail)]
    if not rms and beta is not None and np.any(beta):  # a bias of zeros stands for none
        operands.append(beta.reshape(tail))
    return operands, attrs


for _op in (LayerNorm, RMSNorm):
    _op.shape(_normalized_type)
    _op.encode("LayerNorm")(_encode_norm)
    _op.decode(partial(_decode_norm, rms=_op is RMSNorm))


@op()
def InstanceNorm(x: Float, scale: Float, bias: Float, *, epsilon: float = 1e-5):
    """Every channel of every image normalized on its own, times scale[C], plus bias[C]."""

    def normalize(v, s, b):
        axes = tuple(range(2, v.ndim))
        d = v - np.mean(v, axis=axes, keepdims=True)
        y = d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + epsilon)
        return y * _channels(s, v) + _channels(b, v)

    return keep(normalize, x, scale, bias)


@op()
def GroupNorm(
    x: Float, scale: Float | None = None, bias: Float | None = None, *, num_groups: int, epsilon: float = 1e-5
):
    """Groups of channels of every image normalized on their own, times scale[C], plus bias[C]."""

    def normalize(v):
        grouped = v.reshape(v.shape[0], num_groups, v.shape[1] // num_groups, *v.shape[2:])
        axes = tuple(range(2, grouped.ndim))
        d = grouped - np.mean(grouped, axis=axes, keepdims=True)
        y = d / np.sqrt(np.mean(d * d, axis=axes, keepdims=True) + epsilon)
        s, b = (None if w is None else _channels(w, v) for w in (scale, bias))
        return _affine(y.reshape(v.shape), s, b)

    return keep(normalize, x)


@InstanceNorm.shape
def _(x, scale, bias, *, epsilon):
    if x.rank is not None and x.rank < 3:
        raise ModelError(f"InstanceNorm needs an input of rank 3 or more, not {x.rank}")
    return _per_channel(x, scale, bias)


@GroupNorm.shape
def _(x, scale, bias, *, num_groups, epsilon):
    if x.rank is not None and x.rank < 2:
        raise ModelError(f"GroupNorm needs an input of rank 2 or more, not {x.rank}")
    channels = x.shape[1] if x.shape is not None else None
    if num_groups < 1 or (isinstance(channels, int) and channels % num_groups):
        raise ModelError(f"{channels} channels cannot be split into {num_groups} groups")
    return _per_channel(x, scale, bias)


@InstanceNorm.samples
def _(rng):
    for i, shape in enumerate(s for s in _SHAPES if len(s) > 2):
        yield (shape, shape[1:2], shape[1:2]), {"epsilon": 1e-3} if i % 2 else {}


@GroupNorm.samples
def _(rng):
    for shape, groups in (((2, 6, 5, 7), 3), ((1, 19, 3, 3), 19), ((1, 15, 3, 3), 1), ((3, 4, 5), 2), ((5, 8), 4)):
        yield (shape, shape[1:2], shape[1:2]), {"num_groups": groups}
    yield ((2, 9, 5), (9,), (9,)), {"num_groups": 3, "epsilon": 1e-2}
    yield ((0, 4, 3), (4,), (4,)), {"num_groups": 2}
    yield ((2, 6, 5, 7), None, None), {"num_groups": 3}
    yield ((1, 6, 5), (6,), None), {"num_groups": 2, "epsilon": 1e-3}
    yield ((2, 3, 1, 2, 3), None, (3,)), {"num_groups": 3}


@GroupNorm.encode("LayerNorm")
def _(node: Node) -> WireOp | None:
    """Groups of LayerNorm's table, which has no numbers per channel; a single one is what it means by none."""
    a, x = bound(node), node.input(0)
    if x.type.dtype is not DType.F32 or x.type.rank is None or a["num_groups"] == 1:
        return None
    if any(node.has_input(i) for i in (1, 2)):
        return None
    axes = list(range(1 - x.type.rank, 0))
    return WireOp("LayerNorm", "LayerNorm", {"axis": axes, "epsilon": a["epsilon"], "group": a["num_groups"]}, (x,))


@GroupNorm.decode
def _(wire: WireOp) -> Decoded:
    group, x = wire.field("group", 1), wire.inputs[0]
    if group < 2 or len(wire.inputs) != 1 or wire.field("useRMSNorm", False) or wire.field("gamma") is not None:
        return None
    channels = x.type.shape[1] if x.type.shape is not None and len(x.type.shape) > 1 else None
    if not isinstance(channels, int) or channels % group:
        return None  # its rows are parts of the memory, whatever they hold
    return (x,), {"num_groups": group, "epsilon": wire.field("epsilon", 0.0)}


@op(traits=SPATIAL)
def LRN(x: Float, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0):
    """y = x / (bias + alpha / size * s)^beta, s the sum of squares over `size` neighboring channels.

    The window of channel c starts at c - (size - 1) // 2.
    """

    def normalize(v):
        before = (size - 1) // 2
        padding = [(0, 0)] * v.ndim
        padding[1] = (before, size - 1 - before)
        squares = np.pad(v * v, padding)
        total = sum(np.take(squares, range(i, i + v.shape[1]), axis=1) for i in range(size))
        return v / (bias + alpha / size * total) ** beta

    return keep(normalize, x)


@LRN.shape
def _(x, *, size, **_):
    if x.rank is not None and x.rank < 2:
        raise ModelError(f"LRN needs an input of rank 2 or more, not {x.rank}")
    if size < 1:
        raise ModelError(f"LRN cannot sum over {size} channels: size must be 1 or more")
    return x.type


@LRN.encode("LRN")
def _(node: Node) -> WireOp | None:
    a = bound(node)
    if node.input(0).type.dtype is not DType.F32 or node.input(0).type.rank != 4 or a["size"] % 2 == 0:
        return None
    main = {"regionType": 0, "localSize": a["size"], "alpha": a["alpha"], "beta": a["beta"], "bias": a["bias"]}
    return WireOp("LRN", "LRN", main, node.inputs)


@LRN.decode
def _(wire: WireOp) -> Decoded:
    if wire.field("regionType", 0):
        return None
    attrs = {k: wire.field(k, 0.0) for k in ("alpha", "beta")}
    return wire.inputs, {"size": wire.field("localSize", 0), **attrs, "bias": wire.field("bias", 1.0)}


@LRN.samples
def _(rng):
    yield ((2, 3, 5, 7),), {"size": 3}
    yield ((1, 19, 3, 3),), {"size": 5, "alpha": 0.5, "beta": 0.5, "bias": 2.0}
    yield ((1, 7, 2, 3),), {"size": 4, "alpha": 1.0}
    yield ((2, 5, 3),), {"size": 1, "alpha": 1.0}
    yield ((1, 2, 3, 3),), {"size": 7, "alpha": 2.0}
    yield ((3, 5),), {"size": 2, "alpha": 1.0}
    yield ((0, 3, 2, 2),), {"size": 3}
