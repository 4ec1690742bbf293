"""Convolutions over one to three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import (
    UNKNOWN,
    DType,
    LazyBlob,
    Node,
    PackedBlob,
    QuantizedBlob,
    RoundedBlob,
    SparseBlob,
    TensorType,
)
from minnow.schema.ir.blob import nbytes
from minnow.schema.ops import window
from minnow.schema.ops.epilogue import RESIDUAL, Activation, finish, finished, finished_cases
from minnow.schema.ops.quantized_weights import quantized
from minnow.schema.ops.sparse_weights import without_zeros
from minnow.schema.ops.window import Array, AutoPad
from minnow.schema.registry.dimension import agree
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import SPATIAL, Arg, Decoded, Float, Op, Trait, WireOp, op


def _biased(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias.astype(np.float64).reshape(-1, *(1,) * (y.ndim - 2))


@op(traits=SPATIAL | {Trait.SUMS})
def Conv(
    x: Float,
    w: Float,
    bias: Float | None = None,
    residual: Float | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    group: int = 1,
    activation: Activation = "",
    alpha: float | None = None,
    beta: float | None = None,
    auto_pad: AutoPad = "",
):
    """Cross-correlation: y[n, o, p] = sum over c, k of x[n, c, p * stride + k * dilation - pad] * w[o, c, k] + bias[o].

    x is [N, C, spatial...], w [O, C / group, kernel...], bias [O]; weights may be f16 where x is f32. `pads` holds all
    begins, then all ends. `auto_pad` "SAME_UPPER" or "SAME_LOWER" makes ceil(size / stride) outputs, whatever `pads`.
    `residual`, of the shape of the result, is added before the activation, whose numbers are `alpha` and `beta`.
    """
    n, _, *sizes = x.shape
    o, per_group, *kernel = w.shape
    span = window.spread(kernel, dilations)
    ends = window.resolve(sizes, span, strides, pads, auto_pad)
    out = window.counts(sizes, span, strides, ends)
    xp = window.padded(x.astype(np.float64), ends, 0)
    count = int(np.prod(out))
    y = np.zeros((n, group, o // group, count))
    weights = w.astype(np.float64).reshape(group, o // group, per_group, *kernel)
    for k, part in window.taps(xp, out, kernel, strides, dilations):
        # One matrix product per kernel position: no copy of the input for every window.
        part = part.reshape(n, group, per_group, count)
        tap = window.trailing(weights, *k)
        y += tap * part if per_group == 1 else tap @ part
    y = _biased(y.reshape(n, o, *out), bias)
    return finish(y, residual, activation, alpha, beta).astype(x.dtype)


@op(traits=SPATIAL | {Trait.SUMS})
def ConvTranspose(
    x: Float,
    w: Float,
    bias: Float | None = None,
    residual: Float | None = None,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
    output_padding: tuple[int, ...],
    group: int = 1,
    activation: Activation = "",
    alpha: float | None = None,
    beta: float | None = None,
):
    """The transpose (gradient) of `Conv`: each input element adds its multiple of the kernel to the output.

    x is [N, C, spatial...], w [C, O / group, kernel...], bias [O]; weights may be f16 where x is f32. Output size:
    (size - 1) * stride + (kernel - 1) * dilation + 1 + output_padding - pads. Residual and activation are as there.
    """
    n, c, *sizes = x.shape
    _, per_group, *kernel = w.shape
    span = window.spread(kernel, dilations)
    full = [max(s - 1, 0) * t + k + a for s, t, k, a in zip(sizes, strides, span, output_padding, strict=True)]
    y = np.zeros((n, group, per_group, *full))
    source = x.astype(np.float64).reshape(n, group, c // group, int(np.prod(sizes)))
    weights = w.astype(np.float64).reshape(group, c // group, per_group, *kernel)
    for k, part in window.taps(y, sizes, kernel, strides, dilations):
        tap = np.swapaxes(window.trailing(weights, *k), -1, -2)
        part += (tap @ source).reshape(n, group, per_group, *sizes)
    half = len(sizes)
    crop = tuple(slice(b, f - e) for b, e, f in zip(pads[:half], pads[half:], full, strict=True))
    y = window.trailing(y.reshape(n, group * per_group, *full), *crop)
    return finish(_biased(y, bias), residual, activation, alpha, beta).astype(x.dtype)


def _weights(x: Arg, w: Arg, bias: Arg | None, attrs: dict[str, Any]) -> list[Any]:
    """Checks what both directions share; gives the spatial sizes of the kernel."""
    for what, arg in (("weights", w), ("bias", bias)):
        if arg is not None and arg.dtype not in (x.dtype, DType.F16):
            raise ModelError(f"the {what} are {arg.dtype}, the input is {x.dtype}")
    n = len(attrs["strides"])
    if not 1 <= n <= 3:
        raise ModelError(f"there are {n} spatial axes", why="convolution has one to three")
    for what, arg, rank in (("the input", x, n + 2), ("the weight", w, n + 2), ("the bias", bias, 1)):
        if arg is not None and arg.rank is not None and arg.rank != rank:
            raise ModelError(f"{what} has rank {arg.rank}, not {rank}", why=f"strides {attrs['strides']}")
    if attrs["group"] < 1:
        raise ModelError(f"group is {attrs['group']}, it must be 1 or more")
    kernel = list(w.shape[2:]) if w.shape is not None else [UNKNOWN] * n
    fixed = {k: attrs[k] for k in ("strides", "pads", "dilations")}
    window.check(n, kernel=[k if isinstance(k, int) else 1 for k in kernel], **fixed)
    return kernel


def _dim(arg: Arg | None, axis: int) -> Any:
    return UNKNOWN if arg is None or arg.shape is None else arg.shape[axis]


def _finished(type: TensorType, residual: Arg | None, attrs: dict[str, Any]) -> TensorType:
    return finished(type, residual, attrs["activation"], attrs["alpha"], attrs["beta"])


def _times(dim: Any, factor: int) -> Any:
    return dim * factor if isinstance(dim, int) else dim if factor == 1 else UNKNOWN


@Conv.shape
def _(x: Arg, w: Arg, bias: Arg | None, residual: Arg | None, **attrs: Any) -> TensorType:
    kernel = _weights(x, w, bias, attrs)
    agree([_dim(x, 1), _times(_dim(w, 1), attrs["group"])], "input channels and weight channels times groups")
    o = agree([_dim(w, 0), _dim(bias, 0)], "weight and bias")
    if isinstance(o, int) and o % attrs["group"]:
        raise ModelError(f"{o} output channels cannot be split into {attrs['group']} groups")
    n = len(kernel)
    sizes = x.shape[2:] if x.shape is not None else (UNKNOWN,) * n
    strides, pads, same = attrs["strides"], attrs["pads"], bool(attrs["auto_pad"])
    out = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        if isinstance(k, int):
            span = (k - 1) * attrs["dilations"][i] + 1
            out.append(window.out_dim(size, span, strides[i], pads[i], pads[n + i], same=same))
        else:
            out.append(window.out_dim(size, 1, strides[i], 0, 0, same=True) if same else UNKNOWN)
    return _finished(TensorType(x.dtype, (_dim(x, 0), o, *out), x.type.layout), residual, attrs)


@ConvTranspose.shape
def _(x: Arg, w: Arg, bias: Arg | None, residual: Arg | None, **attrs: Any) -> TensorType:
    kernel = _weights(x, w, bias, attrs)
    n = len(kernel)
    strides, pads, dilations, extra = (attrs[k] for k in ("strides", "pads", "dilations", "output_padding"))
    if len(extra) != n or any(e < 0 for e in extra):
        raise ModelError(f"output_padding {extra} needs {n} numbers, none below 0")
    channels = agree([_dim(x, 1), _dim(w, 0)], "input channels and weight")
    if isinstance(channels, int) and channels % attrs["group"]:
        raise ModelError(f"{channels} input channels cannot be split into {attrs['group']} groups")
    o = agree([_times(_dim(w, 1), attrs["group"]), _dim(bias, 0)], "weight and bias")
    sizes = x.shape[2:] if x.shape is not None else (UNKNOWN,) * n
    out: list[Any] = []
    for i, (size, k) in enumerate(zip(sizes, kernel, strict=True)):
        if not isinstance(k, int):
            out.append(UNKNOWN)
            continue
        rest = (k - 1) * dilations[i] + 1 + extra[i] - pads[i] - pads[n + i]
        if isinstance(size, int):
            out.append(max(size - 1, 0) * strides[i] + rest)
            if out[-1] < 0:
                raise ModelError(f"pads {pads} take away more than all of the {out[-1] - rest + 1} outputs")
        else:
            out.append(size if strides[i] == 1 and rest == 1 else UNKNOWN)
    return _finished(TensorType(x.dtype, (_dim(x, 0), o, *out), x.type.layout), residual, attrs)


# ---- encoding ----------------------------------------------------------------------------------------------------


def _encode(node: Node, transposed: bool) -> WireOp | None:
    attrs = bound(node)
    x, w = node.input(0), node.input(1)
    bias = node.input(2) if node.has_input(2) else None
    group = attrs["group"]
    if len(attrs["strides"]) != 2 or not w.type.is_static or x.type.dtype is not DType.F32:
        return None
    if 0 in w.type.static_shape:  # what has no weights is taken for what has lost them
        return None
    if node.has_input(RESIDUAL) or attrs["activation"] not in ("", "relu", "relu6"):
        return None
    # The format's SAME puts an odd element at the end.
    if attrs.get("auto_pad") == "SAME_LOWER":
        return None
    first, second, kh, kw = w.type.static_shape
    ins, outs = (first, second * group) if transposed else (second * group, first)
    depthwise = group > 1 and group == ins == outs
    # Runtimes of the format have no transposed convolution in groups.
    if transposed and group > 1 and not depthwise:
        return None
    pads = list(attrs["pads"])
    same = bool(attrs.get("auto_pad"))
    common: dict[str, Any] = {
        **dict(zip(("kernelY", "kernelX"), (kh, kw), strict=True)),
        **dict(zip(("strideY", "strideX"), attrs["strides"], strict=True)),
        **dict(zip(("dilateY", "dilateX"), attrs["dilations"], strict=True)),
        "padMode": "SAME" if same else "CAFFE",
        "group": group,
        "inputCount": ins,
        "outputCount": outs,
        "relu": attrs["activation"] == "relu",
        "relu6": attrs["activation"] == "relu6",
    }
    if not same:
        # The two scalars are for runtimes that do not know the vector.
        common |= {"padY": pads[0], "padX": pads[1], "pads": pads}
    if transposed:
        common["outPads"] = list(attrs["output_padding"])
    type = ("Deconvolution" if transposed else "Convolution") + ("Depthwise" if depthwise else "")
    main: dict[str, Any] = {"common": common}
    weights = w.data
    # Of 16-bit floats the table has f16 only.
    in_table = not isinstance(weights, RoundedBlob) or weights.stored is DType.F16
    if weights is None or not in_table or (bias is not None and not bias.is_const):
        # Weights that are computed cannot be in groups: runtimes take them for those of the first one.
        fits = w.type.dtype is DType.F32 and (group == 1 or depthwise)
        return WireOp(type, "Convolution2D", main, node.inputs[:RESIDUAL]) if fits else None
    if isinstance(weights, PackedBlob) and weights.bits > 1:
        main["quanParameter"] = _packed(weights)
    elif isinstance(weights, QuantizedBlob):
        main["quanParameter"] = quantized(weights)
    elif isinstance(weights, SparseBlob):
        main |= without_zeros(weights.numpy())
    elif isinstance(weights, RoundedBlob):
        main["quanParameter"] = {"type": 3, "buffer": _halves(weights), "quantScale": 1.0}
    elif weights.dtype is DType.F16:
        # Halves as they are: the third kind of compressed weights.
        buffer = LazyBlob(lambda: _flat(weights.numpy(), np.float16).view(np.int8), DType.I8, (nbytes(weights),))
        main["quanParameter"] = {"type": 3, "buffer": buffer, "quantScale": 1.0}
    else:
        count = nbytes(weights) // weights.dtype.size
        main["weight"] = LazyBlob(lambda: _flat(weights.numpy(), np.float32), DType.F32, (count,))
    # Runtimes of the format read the bias without asking whether there is one.
    main["bias"] = np.zeros(outs, np.float32) if bias is None else _flat(bias.array, np.float32)
    return WireOp(type, "Convolution2D", main, (x,))


def _packed(blob: PackedBlob) -> dict[str, Any]:
    """Weights as they are packed: the first kind of compressed weights, with a row of the table for each block."""
    bits, half = blob.bits, 1 << (blob.bits - 1)
    rows, length = blob.scale.size, math.prod(blob.shape) // blob.scale.size
    wide = max(rows, length) > 0xFFFF
    head = bytes([2]) + np.array([rows, length], np.uint32 if wide else np.uint16).tobytes()
    table = bytes([2 * half % 256]) + np.arange(-half, half).astype(np.int8).tobytes()
    # The format has the first code of a byte in the high bits.
    fields = (np.arange(256)[:, None] >> np.arange(0, 8, bits)) & (2 * half - 1)
    turned = (fields << np.arange(8 - bits, -1, -bits)).sum(1).astype(np.uint8)

    def stream() -> Array:
        return np.frombuffer(head + table + turned[blob.codes.numpy().reshape(-1)].tobytes(), np.int8)

    scale = blob.scale.reshape(-1)
    quantized: dict[str, Any] = {"type": 1, "aMaxOrBits": bits, "quantScale": 1.0, "shapeInt32": wide}
    if blob.zero is not None:
        wide_scale = scale.astype(np.float32)
        scale = np.stack([-blob.zero.astype(np.float32).reshape(-1) * wide_scale, wide_scale], 1).reshape(-1)
        quantized |= {"aMin": -half, "readType": rows}
    if scale.dtype == np.float16:
        quantized |= {"alphaFp16": scale.view(np.uint16), "scaleStorage": "FP16"}
    else:
        quantized["alpha"] = _flat(scale, np.float32)
    size = len(head) + len(table) + nbytes(blob.codes)
    return quantized | {"buffer": LazyBlob(stream, DType.I8, (size,))}


def _halves(blob: RoundedBlob) -> LazyBlob:
    return LazyBlob(lambda: _flat(blob.rounded(), np.float16).view(np.int8), DType.I8, (nbytes(blob) // 2,))


def _flat(array: Any, dtype: Any) -> Array:
    return np.ascontiguousarray(array, dtype).reshape(-1)


def _decode(wire: WireOp) -> Decoded:
    common: dict[str, Any] = wire.field("common") or {}
    transposed = wire.type.startswith("Deconvolution")
    if common.get("hasOutputShape") or any(wire.field(k) for k in ("symmetricQuan", "sparseParameter")):
        return None
    kernel, strides, dilations = (
        tuple(common.get(name + axis, 1) or 1 for axis in "YX") for name in ("kernel", "stride", "dilate")
    )
    outs = common.get("outputCount", 0)
    group = outs if wire.type.endswith("Depthwise") else common.get("group", 1) or 1
    operands: Sequence[Any] = wire.inputs
    if len(operands) == 1:
        weights = _stored(wire)
        if weights is None or outs < 1 or outs % group:
            return None
        shape = (-1, outs // group, *kernel) if transposed else (outs, -1, *kernel)
        bias = wire.field("bias")
        # A bias of zeros is how "no bias" is written.
        bias = None if bias is None or not np.any(bias) else bias
        if weights.size == 0 or weights.size % (outs // group * kernel[0] * kernel[1]):
            return None
        operands = [operands[0], weights.reshape(shape), *([] if bias is None else [bias])]
    attrs: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": group}
    attrs["activation"] = "relu6" if common.get("relu6") else "relu" if common.get("relu") else ""
    pads = common.get("pads")
    explicit = (common.get("padY", 0), common.get("padX", 0)) * 2 if pads is None else tuple(int(p) for p in pads)
    extra = tuple(int(p) for p in common.get("outPads", ())) or (0, 0)
    mode = common.get("padMode", "CAFFE")
    if mode == "SAME" and transposed:
        # size * stride outputs: the padding does not depend on the size.
        over = [k + e - s for k, e, s in zip(window.spread(kernel, dilations), extra, strides, strict=True)]
        explicit = tuple(max(o, 0) // 2 for o in over) + tuple((max(o, 0) + 1) // 2 for o in over)
        extra = tuple(e + max(-o, 0) for e, o in zip(extra, over, strict=True))
    elif mode == "SAME":
        attrs["auto_pad"] = "SAME_UPPER"
    attrs["pads"] = explicit if mode == "CAFFE" or (transposed and mode == "SAME") else (0, 0, 0, 0)
    if transposed:
        attrs["output_padding"] = extra
    return operands, attrs


def _stored(wire: WireOp) -> Array | None:
    """The weights in the table, as they lie in the file; None when they are packed or elsewhere."""
    quantized = wire.field("quanParameter")
    if quantized is None:
        return wire.field("weight")
    if quantized.get("type") == 3 and quantized.get("buffer") is not None:
        return np.asarray(quantized["buffer"]).view(np.float16)
    return None


def _register(target: Op, transposed: bool, *types: str) -> None:
    target.encode(*types)(lambda node: _encode(node, transposed))
    target.decode(_decode)


_register(Conv, False, "Convolution", "ConvolutionDepthwise")
_register(ConvTranspose, True, "Deconvolution", "DeconvolutionDepthwise")


# ---- samples -----------------------------------------------------------------------------------------------------


@Conv.macs
def conv_macs(at):
    """For each element of the result the weights of one of its channels; of convolutions of any element type."""
    return math.prod(at.output()) * math.prod(at.input(1)[1:])


@ConvTranspose.macs
def _(at):
    return math.prod(at.input(0)) * math.prod(at.input(1)[1:])


@Conv.samples
def _(rng):
    def case(x, w, bias=False, strides=None, pads=None, dilations=None, **more):
        n = len(x) - 2
        attrs = {
            "strides": strides or (1,) * n,
            "pads": pads or (0,) * 2 * n,
            "dilations": dilations or (1,) * n,
            **more,
        }
        return (x, w, (w[0],)) if bias else (x, w), attrs

    yield case((1, 3, 7, 5), (4, 3, 3, 3), True)
    yield case((2, 5, 7, 11), (17, 5, 3, 3), True, pads=(1, 1, 1, 1))
    yield case((1, 17, 5, 5), (32, 17, 1, 1), False)
    yield case((1, 32, 9, 9), (13, 32, 3, 3), True, strides=(2, 2), pads=(1, 1, 1, 1), activation="relu")
    yield case((1, 3, 13, 11), (8, 3, 5, 3), True, strides=(3, 2), pads=(0, 1, 2, 3))
    yield case((1, 4, 11, 13), (6, 4, 3, 3), True, dilations=(2, 3), pads=(2, 3, 2, 3), activation="relu6")
    yield case((2, 6, 8, 7), (9, 2, 3, 3), True, group=3)
    yield case((1, 17, 9, 7), (17, 1, 3, 3), True, pads=(1, 1, 1, 1), group=17)
    yield case((1, 16, 9, 9), (16, 1, 5, 5), False, strides=(2, 2), pads=(2, 2, 2, 2), group=16)
    yield case((1, 5, 6, 6), (10, 1, 3, 3), True, group=5)
    yield case((1, 8, 7, 9), (8, 1, 3, 3), True, dilations=(2, 2), pads=(2, 2, 2, 2), group=8, activation="relu6")
    yield case((1, 1, 1, 1), (1, 1, 1, 1), True)
    yield case((1, 2, 4, 5), (3, 2, 1, 7), False, pads=(0, 3, 0, 3))
    yield case((0, 3, 5, 5), (4, 3, 3, 3), True)
    yield case((1, 0, 5, 5), (4, 0, 3, 3), True)
    yield case((1, 3, 5, 5), (0, 3, 3, 3), False)
    yield case((1, 3, 10, 9), (5, 3, 4, 3), True, strides=(3, 2), auto_pad="SAME_UPPER")
    yield case((1, 3, 10, 9), (5, 3, 4, 2), True, strides=(3, 2), auto_pad="SAME_LOWER")
    yield case((1, 64, 6, 6), (64, 64, 3, 3), True, pads=(1, 1, 1, 1))
    yield case((2, 5, 11), (7, 5, 3), True, strides=(2,), pads=(1, 0))
    yield case((1, 6, 13), (6, 1, 5), True, dilations=(2,), group=6)
    yield case((1, 3, 4, 5, 6), (4, 3, 2, 3, 3), True, strides=(1, 2, 1), pads=(1, 1, 0, 0, 1, 2))
    yield case((1, 4, 5, 5, 5), (4, 1, 3, 3, 3), False, pads=(1,) * 6, group=4)
    operands, attrs = case((1, 3, 6, 5), (7, 3, 3, 2), False)
    halves = rng.standard_normal(operands[1]).astype("f2")
    yield (rng.standard_normal(operands[0]).astype("f4"), halves), attrs
    yield (rng.standard_normal(operands[0]).astype("f4"), halves, None, (1, 7, 4, 4)), {**attrs, "activation": "silu"}
    cases: Any = (
        ((1, 5, 7, 11), (17, 5, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((2, 17, 5, 3), (33, 17, 1, 1), {}),
        ((1, 64, 6, 6), (64, 64, 3, 3), {"pads": (1, 1, 1, 1)}),
        ((1, 3, 9, 7), (8, 3, 3, 3), {"strides": (2, 2)}),
        ((1, 17, 9, 7), (17, 1, 3, 3), {"pads": (1, 1, 1, 1), "group": 17}),
        ((1, 6, 8, 7), (9, 2, 3, 3), {"group": 3}),
        ((2, 5, 11), (7, 5, 3), {"pads": (1, 1)}),
        ((1, 3, 4, 5, 6), (4, 3, 2, 3, 3), {"strides": (1, 2, 1), "pads": (1, 1, 0, 0, 1, 2)}),
        ((1, 3, 1, 1), (5, 3, 1, 1), {}),
        ((1, 40, 1, 1), (13, 40, 1, 1), {}),
        ((2, 16, 1, 3), (24, 16, 1, 1), {}),
        ((0, 3, 5, 5), (4, 3, 3, 3), {}),
    )
    yield from finished_cases(rng, Conv, [case(x, w, True, **more) for x, w, more in cases])


@ConvTranspose.samples
def _(rng):
    def case(x, w, bias=False, strides=None, pads=None, dilations=None, output_padding=None, group=1, **more):
        n = len(x) - 2
        attrs = {"strides": strides or (1,) * n, "pads": pads or (0,) * 2 * n, "dilations": dilations or (1,) * n,
                 "output_padding": output_padding or (0,) * n, "group": group, **more}  # fmt: skip
        return (x, w, (w[1] * group,)) if bias else (x, w), attrs

    yield case((1, 3, 5, 7), (3, 4, 3, 3), True)
    yield case((2, 17, 4, 3), (17, 5, 2, 2), True, strides=(2, 2))
    yield case((1, 4, 5, 5), (4, 8, 3, 3), True, strides=(2, 2), pads=(1, 1, 1, 1), output_padding=(1, 1))
    yield case((1, 3, 4, 5), (3, 5, 4, 3), False, strides=(3, 2), pads=(0, 1, 2, 0), activation="relu")
    yield case((1, 2, 5, 4), (2, 3, 3, 3), True, dilations=(2, 3), pads=(1, 2, 1, 2))
    yield case((1, 6, 4, 4), (6, 2, 3, 3), True, strides=(2, 2), group=3)
    yield case((1, 17, 5, 3), (17, 1, 3, 3), True, strides=(2, 2), pads=(1, 1, 1, 1), group=17)
    yield case((1, 8, 5, 5), (8, 1, 4, 4), False, strides=(2, 2), pads=(1, 1, 1, 1), group=8)
    yield case((1, 2, 3, 3), (2, 3, 2, 2), True, strides=(3, 3), output_padding=(1, 2))
    yield case((1, 32, 3, 3), (32, 16, 1, 1), True)
    yield case((0, 2, 3, 3), (2, 3, 2, 2), True)
    yield case((2, 5, 7), (5, 3, 4), True, strides=(2,), pads=(1, 2), output_padding=(1,))
    yield case((1, 3, 3, 2, 4), (3, 2, 3, 2, 2), True, strides=(2, 1, 2), pads=(1, 0, 0, 1, 0, 1))
    yield case((2, 16, 4, 5), (16, 9, 4, 4), True, strides=(2, 2), pads=(1, 1, 1, 1))
    yield case((2, 9, 5, 3), (9, 12, 2, 2), False, strides=(2, 2), activation="silu")
    yield case((2, 8, 5, 4), (8, 17, 3, 5), True, strides=(2, 3), pads=(0, 1, 2, 1), dilations=(1, 2))
    yield case((1, 8, 4, 3), (8, 8, 1, 2), True, strides=(3, 2), pads=(0, 1, 0, 0), output_padding=(1, 0))
    yield case((2, 12, 5), (12, 10, 16), True, strides=(8,), pads=(4, 4))
    cases: Any = (
        ((1, 3, 5, 7), (3, 4, 3, 3), {}),
        ((2, 17, 4, 3), (17, 5, 2, 2), {"strides": (2, 2)}),
        ((2, 12, 3, 4), (12, 9, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1), "output_padding": (1, 1)}),
        ((1, 6, 4, 4), (6, 2, 3, 3), {"strides": (2, 2), "group": 3}),
        ((1, 17, 5, 3), (17, 1, 3, 3), {"strides": (2, 2), "pads": (1, 1, 1, 1), "group": 17}),
        ((2, 5, 7), (5, 3, 4), {"strides": (2,), "pads": (1, 2)}),
        ((1, 3, 3, 2, 4), (3, 2, 3, 2, 2), {"strides": (2, 1, 2)}),
    )
    yield from finished_cases(rng, ConvTranspose, [case(x, w, True, **more) for x, w, more in cases])
