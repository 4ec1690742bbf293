"""What convolutions take in: padding before them; scale, bias and activation behind them.

Weights are folded lazily: the numbers are computed when the file is written, and no second copy is kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.optimizer.rewrite.weight import minus_one, scaled
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import RESIDUAL

Array = np.ndarray[Any, Any]


def per_channel(value: Value, node: Node) -> Array | None:
    """The constant as one number per output channel of a convolution, None when it is not constant along the others.

    Numpy broadcasting aligns at the end: a vector belongs to the last spatial axis, not to the channels.
    """
    out = node.output.type
    if value.data is None or out.shape is None or not isinstance(out.shape[1], int):
        return None
    shape, channels, rank = value.data.shape, out.shape[1], len(out.shape)
    if len(shape) > rank:
        return None
    full = (1,) * (rank - len(shape)) + tuple(shape)
    if any(d != 1 for i, d in enumerate(full) if i != 1) or full[1] not in (1, channels):
        return None
    return np.broadcast_to(value.data.numpy().reshape(-1), (channels,))


def _scaled_weights(node: Node, scale: Array) -> Value:
    """The weights times a factor per output channel."""
    w = node.input(1)
    assert w.data is not None
    rest = (1,) * (len(w.data.shape) - 2)
    if node.op == "Conv":
        factor = scale.reshape(-1, 1, *rest)
    else:
        # [I, O/g, ...]: the output channels of group k belong to the k-th part of the first axis.
        groups = node.attrs.get("group", 1)
        factor = np.repeat(scale.reshape(groups, -1), int(w.data.shape[0]) // groups, axis=0)
        factor = factor.reshape(*factor.shape, *rest)
    return Value.constant(scaled(w.data, factor), w.name)


def _is_finished(node: Node) -> bool:
    """What follows the convolution does not follow its sums: it adds a residual to them, or activates them."""
    return bool(node.attrs.get("activation")) or node.has_input(RESIDUAL)


def _bias(node: Node, channels: int) -> Array | None:
    """The bias as float64, zeros where there is none, None when it is computed."""
    if not node.has_input(2):
        return np.zeros(channels)
    array = node.input(2).array
    return None if array is None else array.astype(np.float64)


def _rebuilt(b: Builder, node: Node, w: Value, bias: Array | Value | None, **changes: Any) -> Value:
    """The convolution with other weights, bias or attributes."""
    x = changes.pop("x", node.input(0))
    value = bias if bias is None or isinstance(bias, Value) else Value.constant(bias.astype(w.type.dtype.numpy))
    made = b.node(node.op, [x, w, value, *node.inputs[RESIDUAL:]], {**node.attrs, **changes})
    made.origin = b.origin
    return made.output


@rewrite(
    lambda p, x, w, scale, bias, mean, var: p.BatchNorm(
        p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), scale, bias, mean, var
    )
)
def fuse_conv_bn(b: Builder, m: Match) -> Value | None:
    """Batch normalization behind a convolution becomes part of its weights and bias.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = BatchNorm(%a, f32[1](3.0), f32[1](1.0), f32[1](4.0), f32[1](4.0)) {epsilon=0.0}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](3.0), f32[1](-5.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    if _is_finished(conv):
        return m.no("the convolution has an activation or a residual")
    constants = [v.array for v in (m.scale, m.bias, m.mean, m.var)]
    if conv.input(1).data is None or any(c is None for c in constants):
        return m.no("weights or statistics are computed")
    scale, shift, mean, var = (np.asarray(c, np.float64) for c in constants)
    old = _bias(conv, len(scale))
    if old is None:
        return m.no("the bias is computed")
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = scale / np.sqrt(var + m.root.attrs.get("epsilon", 1e-5))
    if not np.isfinite(factor).all():
        return m.no("some variance is zero or negative")
    return _rebuilt(b, conv, _scaled_weights(conv, factor), (old - mean) * factor + shift)


@rewrite(
    lambda p, x, w: (
        p.Mul(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), p.const("k"))
        | p.Div(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), p.const("k"))
        | p.Neg(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"))
    )
)
def fuse_conv_mul(b: Builder, m: Match) -> Value | None:
    """A constant factor per channel behind a convolution becomes part of its weights and bias.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0), f32[1](1.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = Mul(%a, f32[1,1,1](3.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](6.0), f32[1](3.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    k = m.bound.get("k") or minus_one(m.w)
    factor = per_channel(k, conv)
    if factor is None:
        return m.no(f"the factor {k!r} is not one number per channel")
    if _is_finished(conv) or conv.input(1).data is None:
        return m.no("the convolution has an activation or a residual, or computed weights")
    old = _bias(conv, len(factor))
    if old is None:
        return m.no("the bias is computed")
    with np.errstate(divide="ignore"):
        factor = 1 / factor.astype(np.float64) if m.root.op == "Div" else factor.astype(np.float64)
    if not np.isfinite(factor).all():
        return m.no("the factor is not finite")
    return _rebuilt(b, conv, _scaled_weights(conv, factor), old * factor if conv.has_input(2) else None)


@rewrite(
    lambda p, x, w, scale, bias: p.Scale(
        p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), scale, bias
    )
)
def fuse_conv_scale(b: Builder, m: Match) -> Value | None:
    """A factor and a summand per channel behind a convolution become part of its weights and bias.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = Scale(%a, f32[1](3.0), f32[1](1.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](6.0), f32[1](1.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    scale, bias = m.scale.array, m.bias.array
    if _is_finished(conv) or conv.input(1).data is None or scale is None or bias is None:
        return m.no("the convolution has an activation or a residual, or something is computed")
    old = _bias(conv, len(scale))
    if old is None:
        return m.no("the bias is computed")
    factor = scale.astype(np.float64)
    if not np.isfinite(factor).all():
        return m.no("the factor is not finite")
    return _rebuilt(b, conv, _scaled_weights(conv, factor), old * factor + bias)


@rewrite(
    lambda p, x, w: (
        p.Add(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), p.const("k"))
        | p.Sub(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), p.const("k"))
    )
)
def fuse_conv_bias(b: Builder, m: Match) -> Value | None:
    """A constant added per channel behind a convolution becomes its bias.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = Add(%a, f32[1,1,1](3.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0), f32[1](3.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    shift = per_channel(m.k, conv)
    if shift is None:
        return m.no(f"the summand {m.k!r} is not one number per channel")
    if _is_finished(conv):
        return m.no("the convolution has an activation or a residual")
    old = _bias(conv, len(shift))
    if old is None:
        return m.no("the bias is computed")
    return _rebuilt(b, conv, conv.input(1), old - shift if m.root.op == "Sub" else old + shift)


@rewrite(
    lambda p, x, w: (
        p.Relu(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"))
        | p.Clip(p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), min=0.0, max=6.0)
    )
)
def fuse_conv_activation(b: Builder, m: Match) -> Value | None:
    """Relu, or a clip to [0, 6], behind a convolution is done by it.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,2,2] = Relu(%a)
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), activation="relu"}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    if conv.attrs.get("activation"):
        return m.no("the convolution has an activation already")
    bias = conv.input(2) if conv.has_input(2) else None
    return _rebuilt(b, conv, conv.input(1), bias, activation="relu" if m.root.op == "Relu" else "relu6")


@rewrite(lambda p, x, w: p.Conv(p.Pad(x, p.const("pads"), ..., as_="pad", mode="constant"), w, ..., as_="conv"))
def fuse_pad_conv(b: Builder, m: Match) -> Value | None:
    """Zero padding of the spatial axes in front of a convolution becomes its own padding.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,4,4] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 1, 1))
          %y: f32[1,1,4,4] = Conv(%a, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,4,4] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}
          return %y
        }
    """
    pad: Node = m.pad
    conv: Node = m.conv
    pads = m.pads.array.astype(np.int64).reshape(-1, 2)
    if pads[:2].any() or (pads < 0).any():
        return m.no("it pads batch or channels, or crops")
    if pad.has_input(2):
        value = pad.input(2).array
        if value is None or value.any():
            return m.no("it does not pad with zeros")
    if conv.attrs.get("auto_pad"):
        return m.no("the convolution has automatic padding")
    n = len(pads) - 2
    own = conv.attrs["pads"]
    both = tuple(int(own[i] + pads[2 + i % n, i // n]) for i in range(2 * n))
    bias = conv.input(2) if conv.has_input(2) else None
    return _rebuilt(b, conv, conv.input(1), bias, x=m.x, pads=both)


def _offset(part: Value, x: Value, step: tuple[int, int]) -> tuple[int, int] | None:
    """(row, column) of the first element that slices of the two last axes of x with these steps take, else None.

    The slices must take all rows and columns that are whole steps after it.
    """
    at = [0, 0]
    seen = [1, 1]
    while part is not x:
        node = part.producer
        if node is None or node.op != "Slice" or not node.has_input(3):
            return None
        starts, axes = node.input(1).array, node.input(3).array
        steps = node.input(4).array if node.has_input(4) else np.ones(0 if axes is None else len(axes), np.int64)
        if starts is None or axes is None or steps is None:
            return None
        for start, axis, by in zip(starts, axes, steps, strict=True):
            spatial = int(axis) % 4 - 2
            if spatial < 0 or start < 0 or by < 1 or seen[spatial] != 1:
                return None
            at[spatial], seen[spatial] = int(start), int(by)
        part = node.input(0)
    return (at[0], at[1]) if tuple(seen) == step and at[0] < step[0] and at[1] < step[1] else None


@rewrite(lambda p, x, w: p.Conv(p.Concat(x, ..., as_="concat"), w, ..., as_="conv"))
def fuse_slices_conv(b: Builder, m: Match) -> Value | None:
    """A convolution of all the shifted subsamplings of an image is one of the image, with larger kernel and stride.

    Given:
        graph g(%x: f32[1,1,2,4]) {
          %a: f32[1,1,2,2] = Slice(%x, i64[1](0), i64[1](4), i64[1](3), i64[1](2))
          %b: f32[1,1,2,2] = Slice(%x, i64[1](1), i64[1](4), i64[1](3), i64[1](2))
          %c: f32[1,2,2,2] = Concat(%a, %b) {axis=1}
          %y: f32[1,1,2,2] = Conv(%c, f32[1,2,1,1](2.0, 3.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,4]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,2](2.0, 3.0)) {strides=(1, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """
    concat: Node = m.concat
    conv: Node = m.conv
    x: Value = m.x
    while x.producer is not None and x.producer.op == "Slice":
        x = x.producer.input(0)
    whole, part, w = x.type.shape, m.x.type.shape, conv.input(1).array
    if whole is None or part is None or len(whole) != 4 or concat.attrs["axis"] not in (1, -3) or w is None:
        return m.no("no channels of images are concatenated, or the weights are computed")
    parts = [v for v in concat.inputs if v is not None]
    if any(v.type.shape != part for v in parts) or whole[:2] != part[:2]:
        return m.no("the parts differ in size")
    sizes = (*whole[1:], *part[2:])
    if not all(isinstance(d, int) and d > 0 for d in sizes) or whole[2] % part[2] or whole[3] % part[3]:
        return m.no("the parts do not cover the image evenly")
    step = (whole[2] // part[2], whole[3] // part[3])
    offsets = [_offset(v, x, step) for v in parts]
    if sorted(offsets, key=str) != sorted(((i, j) for i in range(step[0]) for j in range(step[1])), key=str):
        return m.no("the parts are not all the shifted subsamplings of one image")
    if conv.attrs.get("group", 1) != 1 or any(d != 1 for d in conv.attrs["dilations"]) or conv.attrs.get("auto_pad"):
        return m.no("the convolution has groups, dilation or automatic padding")
    channels = whole[1]
    rows, columns = (int(w.shape[2 + i]) * step[i] for i in range(2))
    kernel = np.zeros((w.shape[0], int(channels), rows, columns), w.dtype)
    for i, (row, column) in enumerate(o for o in offsets if o is not None):
        kernel[:, :, row :: step[0], column :: step[1]] = w[:, i * channels : (i + 1) * channels]
    bias = conv.input(2) if conv.has_input(2) else None
    changes = {
        "strides": tuple(s * by for s, by in zip(conv.attrs["strides"], step, strict=True)),
        "pads": tuple(p * by for p, by in zip(conv.attrs["pads"], step * 2, strict=True)),
    }
    if "kernel_shape" in conv.attrs:
        changes["kernel_shape"] = (rows, columns)
    return _rebuilt(b, conv, Value.constant(kernel, conv.input(1).name), bias, x=x, **changes)
