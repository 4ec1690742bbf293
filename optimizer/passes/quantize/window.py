"""Other layers that slide a window over integers, as convolutions of these."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.optimizer.passes.quantize.qdq import Array, end_of, ended, last_operands, meaning, saturates, whole_bias
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder

_MOST_PLACES = 64
"""Of a mean that is a window; kernels for windows of one channel have no more taps. Other means are products."""

_MOST_ONES = 2**16
"""That are made of a single one when a model is loaded; there may be more if they are made of a fourth of these."""


def _averaged(p: Any, x: Any) -> Any:
    return p.AveragePool(x, as_="pool") | p.GlobalAveragePool(x, as_="pool")


@rewrite(
    lambda p, x: ended(p, _averaged(p, p.DequantizeLinear(x, p.const("unit"), ..., as_="begin"))), shared=True
)  # fmt: skip
def quantize_mean(b: Builder, m: Match) -> Value | None:
    """The mean of integers whose result becomes integers is a layer whose weights are ones.

    Given:
        graph g(%x: u8[1,2,4,4]) {
          %a: f32[1,2,4,4] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %b: f32[1,2,2,2] = AveragePool(%a) {kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: u8[1,2,2,2] = QuantizeLinear(%b, f32[](0.25), u8[](7))
          return %y
        }
    Result:
        graph g(%x: u8[1,2,4,4]) {
          %0: i8[2,1,2,2] = Expand(i8[1](1), i64[4](2, 1, 2, 2))
          %y: u8[1,2,2,2] = QuantizedConv(%x, %0, u8[](3), _, _, f32[1](0.5), u8[](7)) {strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), group=2, to=u8}
          return %y
        }
    """  # noqa: E501
    pool: Node = m.pool
    if len(pool.output.uses) != 1 or ("activation" in m.bound and len(m.activation.output.uses) != 1):
        return m.no("others read what the integers mean")
    x, end, shape = meaning(m.begin.output), end_of(m.end), m.x.type.shape
    if x is None or end is None or not x.is_one:
        return m.no("input or result are not made of bytes with one constant scale")
    if not saturates(m, *end):
        return m.no("saturation does not do what the activation does")
    window = shape[2:] if pool.op == "GlobalAveragePool" and shape else pool.attrs.get("kernel", ())
    if shape is None or not all(isinstance(d, int) for d in (shape[1], *window)):
        return m.no("the channels, or the numbers of a mean, are not known")
    if shape[1] == 0:
        return m.no("there are no channels, which a convolution of each refuses")
    count = math.prod(window)
    pads = any(pool.attrs.get("pads", ())) and not pool.attrs.get("count_include_pad")
    if pads or pool.attrs.get("auto_pad") or pool.attrs.get("ceil_mode") or not 0 < count < 2**23:
        return m.no("not all means are of as many numbers")
    zero, (scale, last) = x.zero.reshape(()).astype(x.numbers.type.dtype.numpy), end
    ends = (
        (x.scale.reshape(1) / (count * scale)).astype(np.float32),
        np.asarray(last).astype(m.end.output.type.dtype.numpy),
    )
    to, channels = m.end.output.type.dtype, shape[1]
    whole = pool.op == "GlobalAveragePool"
    is_large = channels * count > _MOST_ONES
    if whole and (len(window) != 2 or count > _MOST_PLACES or channels * (count - 4 * window[0]) > _MOST_ONES):
        rows = b.Reshape(x.numbers, np.array([0, channels, count]))
        total = b.QuantizedMatMul(rows, np.ones((count, 1), np.int8), zero, None, None, *ends, to=to)
        return b.Unsqueeze(total, axes=tuple(range(3, len(shape)))) if len(shape) > 3 else total
    seed = (channels, 1, window[0], *(1,) * (len(window) - 1)) if is_large else (1,)
    ones = b.Expand(np.ones(seed, np.int8), np.array([channels, 1, *window]))
    steps = {"strides": (1, 1), "pads": (0, 0, 0, 0), "dilations": (1, 1)} if whole else pool.attrs
    attrs = {k: steps[k] for k in ("strides", "pads", "dilations")}
    return b.QuantizedConv(x.numbers, ones, zero, None, None, *ends, group=channels, to=to, **attrs)


@rewrite(lambda p, x, w: ended(p, p.ConvTranspose(x, w, ..., as_="conv")), shared=True)
def quantize_unfolding(b: Builder, m: Match) -> Value | None:
    """A transposed convolution whose kernels do not overlap makes a block of each place: a pointwise one of integers.

    Given:
        graph g(%x: u8[1,2,2,2]) {
          %a: f32[1,2,2,2] = DequantizeLinear(%x, f32[](0.5), u8[](3))
          %w: f32[2,1,2,2] = DequantizeLinear(i8[2,1,2,2](4, -3, 2, 1, 5, 6, 7, 8), f32[1](0.25)) {axis=1}
          %c: f32[1,1,4,4] = ConvTranspose(%a, %w, f32[1](0.5)) {strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), output_padding=(0, 0)}
          %y: u8[1,1,4,4] = QuantizeLinear(%c, f32[](0.375), u8[](7))
          return %y
        }
    Result:
        graph g(%x: u8[1,2,2,2]) {
          %0: u8[1,4,2,2] = QuantizedConv(%x, i8[4,2,1,1](4, 5, -3, 6, 2, 7, 1, 8), u8[](3), _, i32[4,1,1](4, 4, 4, 4), f32[4,1,1](0.33333334, 0.33333334, 0.33333334, 0.33333334), u8[](7)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), to=u8}
          %y: u8[1,1,4,4] = DepthToSpace(%0) {blocksize=2}
          return %y
        }
    """  # noqa: E501
    conv: Node = m.conv
    if len(conv.output.uses) != 1 or ("activation" in m.bound and len(m.activation.output.uses) != 1):
        return m.no("others read what the integers mean")
    x, w, end = meaning(m.x), meaning(m.w), end_of(m.end)
    if x is None or w is None or end is None or not x.is_one or w.numbers.data is None:
        return m.no("input, weights or result are not made of bytes with constant scales")
    if not saturates(m, *end) or conv.attrs.get("activation") or conv.has_input(3):
        return m.no("saturation does not do what the activation does")
    if 0 in (x.numbers.type.shape or ()):
        return m.no("there are no places, which a convolution refuses")
    ins, outs, *kernel = w.numbers.type.static_shape
    if len(kernel) != 2 or kernel[0] != kernel[1] or tuple(kernel) != conv.attrs["strides"]:
        return m.no("the kernels overlap, or leave gaps, or are not square")
    if any(conv.attrs["pads"]) or any(conv.attrs["output_padding"]) or conv.attrs.get("group", 1) != 1:
        return m.no("there are groups, or its result is cut or filled up")
    if w.zero.any() or (w.scale.size != 1 and (w.axis % 4 != 1 or w.scale.size != outs)):
        return m.no("the scales of the weights do not go along the channels, or have zero points")
    unit = (x.scale.reshape(()) * np.broadcast_to(w.scale.reshape(-1), (outs,))).astype(np.float64)
    places, shape = math.prod(kernel), (math.prod(kernel) * outs, 1, 1)
    bias: Array | None = None
    if conv.has_input(2):
        bias = whole_bias(conv.input(2), unit, m)
        if bias is None:
            return None
        bias = np.tile(bias, places).reshape(shape)
    weights = w.numbers.data.numpy().transpose(2, 3, 1, 0).reshape(-1, ins, 1, 1)
    last, more = last_operands(m, np.tile(unit, places) / end[0], *end, shape)
    blocks = b.QuantizedConv(
        x.numbers, Value.constant(np.ascontiguousarray(weights), w.numbers.name),
        x.zero.reshape(()).astype(x.numbers.type.dtype.numpy), None, bias, *last,
        strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), **more,
    )  # fmt: skip
    return b.DepthToSpace(blocks, blocksize=kernel[0], mode="DCR")
