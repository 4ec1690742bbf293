"""Windows over three spatial axes, in terms of windows over two: the format's runtimes slide no others."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder, get


def _is_volume(m: Match, *values: Value) -> bool:
    """All shapes are known, there are three spatial axes, and no dimension is 0."""
    return all(v.type.rank == 5 and v.type.is_static and 0 not in v.type.static_shape for v in values)


def _reshape(b: Builder, x: Value, *shape: int) -> Value:
    return b.Reshape(x, np.array(shape, np.int32))


@rewrite(lambda p, x: p.MaxPool(x, as_="pool") | p.AveragePool(x, as_="pool"), level=0)
def legalize_pool_3d(b: Builder, m: Match) -> Value | None:
    """First over the last two axes of every slice, then over the slices.

    Given:
        graph g(%x: f32[1,2,3,4,5]) {
          %y: f32[1,2,2,2,5] = MaxPool(%x) {kernel=(2, 2, 1), strides=(1, 2, 1), pads=(0, 0, 0, 0, 0, 0), dilations=(1, 1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3,4,5]) {
          %0: f32[1,6,4,5] = Reshape(%x, i32[4](1, 6, 4, 5))
          %1: f32[1,6,2,5] = MaxPool(%0) {kernel=(2, 1), strides=(2, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %2: f32[1,2,3,10] = Reshape(%1, i32[4](1, 2, 3, 10))
          %3: f32[1,2,2,10] = MaxPool(%2) {kernel=(2, 1), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,2,2,2,5] = Reshape(%3, i32[5](1, 2, 2, 2, 5))
          return %y
        }
    """  # noqa: E501
    a = get(m.pool.op).bind(1, m.pool.attrs)
    if len(m.pool.outputs) > 1 or not _is_volume(m, m.x, m.pool.output):
        return m.no("it does not have three spatial axes of known dimensions, or its places are asked for")
    n, c, depth, *plane = m.x.type.static_shape
    out = m.pool.output.type.static_shape[2:]

    def of(axes: slice, *more: int) -> dict[str, Any]:
        # An axis of size 1 beside the one that is left.
        one = {k: (*a[k][axes], *(1,) * len(more)) for k in ("kernel", "strides", "dilations")}
        pads = (*a["pads"][:3][axes], *more, *a["pads"][3:][axes], *more)
        return {**{k: a[k] for k in ("ceil_mode", "count_include_pad", "auto_pad") if k in a}, **one, "pads": pads}

    slices = b.node(m.pool.op, [_reshape(b, m.x, n, c * depth, *plane)], of(slice(1, 3))).output
    columns = _reshape(b, slices, n, c, depth, out[1] * out[2])
    return _reshape(b, b.node(m.pool.op, [columns], of(slice(0, 1), 0)).output, n, c, *out)


@rewrite(lambda p, x, w: p.Conv(x, w, ..., as_="conv"), level=0)
def legalize_conv_3d(b: Builder, m: Match) -> Value | None:
    """The slices under a kernel are channels of one image, for every slice of the result.

    Given:
        graph g(%x: f32[1,1,3,2,2], %w: f32[1,1,2,1,1]) {
          %y: f32[1,1,2,2,2] = Conv(%x, %w) {strides=(1, 1, 1), pads=(0, 0, 0, 0, 0, 0), dilations=(1, 1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,3,2,2], %w: f32[1,1,2,1,1]) {
          %0: f32[1,1,2,2,2] = Slice(%x, i32[1](0), i32[1](2), i32[1](2), i32[1](1))
          %1: f32[1,1,2,2,2] = Slice(%x, i32[1](1), i32[1](3), i32[1](2), i32[1](1))
          %2: f32[1,1,1,2,2,2] = Unsqueeze(%0) {axes=(2,)}
          %3: f32[1,1,1,2,2,2] = Unsqueeze(%1) {axes=(2,)}
          %4: f32[1,1,2,2,2,2] = Concat(%2, %3) {axis=2}
          %5: f32[1,2,1,2,2,2] = Transpose(%4) {perm=(0, 3, 1, 2, 4, 5)}
          %6: f32[2,2,2,2] = Reshape(%5, i32[4](2, 2, 2, 2))
          %7: f32[1,2,1,1] = Reshape(%w, i32[4](1, 2, 1, 1))
          %8: f32[2,1,2,2] = Conv(%6, %7) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %9: f32[1,2,1,2,2] = Reshape(%8, i32[5](1, 2, 1, 2, 2))
          %y: f32[1,1,2,2,2] = Transpose(%9) {perm=(0, 2, 1, 3, 4)}
          return %y
        }
    """
    if not _is_volume(m, m.x, m.w, m.conv.output):
        return m.no("it does not have three spatial axes of known dimensions")
    a = get("Conv").bind(2, m.conv.attrs)
    pads = _pads(m, a)
    begin, end = pads[0], pads[3]
    depth, out, w = m.x.type.static_shape[2], m.conv.output.type.static_shape, m.w.type.static_shape
    images = _stacked(b, m.x, w[2], a["strides"][0], a["dilations"][0], (begin, end), depth, out[2])
    weights = _reshape(b, m.w, w[0], w[1] * w[2], *w[3:])
    flat = {"strides": a["strides"][1:], "dilations": a["dilations"][1:], "pads": (*pads[1:3], *pads[4:])}
    rest = {k: a[k] for k in ("group", "activation")}
    y = b.node("Conv", [images, weights, *m.conv.inputs[2:]], {**flat, **rest}).output
    return _slices_last(b, y, out)


def _pads(m: Match, a: dict[str, Any]) -> tuple[int, ...]:
    """The padding in numbers."""
    if not a["auto_pad"]:
        return tuple(a["pads"])
    rows = zip(m.x.type.static_shape[2:], m.conv.output.type.static_shape[2:], m.w.type.static_shape[2:],
               a["strides"], a["dilations"], strict=True)  # fmt: skip
    total = [max((o - 1) * s + (k - 1) * d + 1 - x, 0) for x, o, k, s, d in rows]
    small, big = tuple(t // 2 for t in total), tuple(t - t // 2 for t in total)
    return (*big, *small) if a["auto_pad"] == "SAME_LOWER" else (*small, *big)


def _stacked(
    b: Builder, x: Value, kernel: int, stride: int, dilation: int, pads: tuple[int, int], depth: int, out: int
) -> Value:
    """x[N, C, D, H, W] as [N * out, C * kernel, H, W]: for each slice of the result those that it is made of."""
    n, c, _, *plane = x.type.static_shape
    if any(pads):
        ends = np.zeros((5, 2), np.int32)
        ends[2] = pads
        x = b.Pad(x, ends.reshape(-1))
        depth += sum(pads)
    if kernel == 1 and stride == 1:
        taken = [x]
    else:
        axes, steps = np.array([2], np.int32), np.array([stride], np.int32)
        places = [(k * dilation, k * dilation + (out - 1) * stride + 1) for k in range(kernel)]
        taken = [b.Slice(x, *(np.array([e], np.int32) for e in place), axes, steps) for place in places]
    whole = b.Concat(*(b.Unsqueeze(t, axes=(2,)) for t in taken), axis=2)
    return _reshape(b, b.Transpose(whole, perm=(0, 3, 1, 2, 4, 5)), n * out, c * kernel, *plane)


def _slices_last(b: Builder, y: Value, out: tuple[int, ...]) -> Value:
    """[N * D, C, H, W] as [N, C, D, H, W]."""
    return b.Transpose(_reshape(b, y, out[0], out[2], out[1], *out[3:]), perm=(0, 2, 1, 3, 4))


@rewrite(lambda p, x, w: p.ConvTranspose(x, w, ..., as_="conv"), level=0)
def legalize_conv_transpose_3d(b: Builder, m: Match) -> Value | None:
    """Between slices stand as many zeros as the stride leaves out; then a kernel the other way round slides over them.

    Given:
        graph g(%x: f32[1,1,2,2,2], %w: f32[1,3,1,1,1]) {
          %y: f32[1,3,3,2,2] = ConvTranspose(%x, %w) {strides=(2, 1, 1), pads=(0, 0, 0, 0, 0, 0), dilations=(1, 1, 1), output_padding=(0, 0, 0)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2,2], %w: f32[1,3,1,1,1]) {
          %0: f32[1,1,2,1,2,2] = Unsqueeze(%x) {axes=(3,)}
          %1: f32[1,1,2,2,2,2] = Pad(%0, i32[12](0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0))
          %2: f32[1,1,4,2,2] = Reshape(%1, i32[5](1, 1, 4, 2, 2))
          %3: f32[1,1,3,2,2] = Pad(%2, i32[10](0, 0, 0, 0, 0, -1, 0, 0, 0, 0))
          %4: f32[1,1,1,3,2,2] = Unsqueeze(%3) {axes=(2,)}
          %5: f32[1,1,1,3,2,2] = Concat(%4) {axis=2}
          %6: f32[1,3,1,1,2,2] = Transpose(%5) {perm=(0, 3, 1, 2, 4, 5)}
          %7: f32[3,1,2,2] = Reshape(%6, i32[4](3, 1, 2, 2))
          %8: f32[1,3,1,1,1] = Reverse(%w) {axes=(2,)}
          %9: f32[1,1,3,1,1] = Transpose(%8) {perm=(0, 2, 1, 3, 4)}
          %10: f32[1,3,1,1] = Reshape(%9, i32[4](1, 3, 1, 1))
          %11: f32[3,3,2,2] = ConvTranspose(%7, %10) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), output_padding=(0, 0)}
          %12: f32[1,3,3,2,2] = Reshape(%11, i32[5](1, 3, 3, 2, 2))
          %y: f32[1,3,3,2,2] = Transpose(%12) {perm=(0, 2, 1, 3, 4)}
          return %y
        }
    """  # noqa: E501
    if not _is_volume(m, m.x, m.w, m.conv.output):
        return m.no("it does not have three spatial axes of known dimensions")
    a = get("ConvTranspose").bind(2, m.conv.attrs)
    out, (n, c, depth, *plane) = m.conv.output.type.static_shape, m.x.type.static_shape
    stride, dilation, (_, outs, kernel, *rest) = a["strides"][0], a["dilations"][0], m.w.type.static_shape
    x, spread = m.x, depth
    if stride > 1:
        apart = b.Pad(b.Unsqueeze(x, axes=(3,)), np.array([0] * 7 + [stride - 1] + [0] * 4, np.int32))
        x, spread = _reshape(b, apart, n, c, depth * stride, *plane), depth * stride
    reach = (kernel - 1) * dilation
    begin = reach - a["pads"][0]
    pads = (begin, out[2] + reach - spread - begin)
    images = _stacked(b, x, kernel, 1, dilation, pads, spread, out[2])
    turned = b.Transpose(b.Reverse(m.w, axes=(2,)), perm=(0, 2, 1, 3, 4))
    attrs = {"strides": a["strides"][1:], "dilations": a["dilations"][1:], "output_padding": a["output_padding"][1:],
             "pads": (*a["pads"][1:3], *a["pads"][4:]), "group": a["group"],
             "activation": a["activation"]}  # fmt: skip
    weights = _reshape(b, turned, c * kernel, outs, *rest)
    return _slices_last(b, b.node("ConvTranspose", [images, weights, *m.conv.inputs[2:]], attrs).output, out)
