"""Convolutions side by side, each of its own part of the channels."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.passes.movement.slice import piece
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import LazyBlob, Node, PackedBlob, Value
from minnow.schema.ops import Builder, get
from minnow.schema.ops.epilogue import RESIDUAL

Array = np.ndarray[Any, Any]


def _source(parts: list[Value]) -> Value | None:
    """What is cut into these parts along the channels: equal ones, all that there are, in their order."""
    pieces = [piece(v, 1) for v in parts]
    source = None if pieces[0] is None else pieces[0].source
    if source is None or source.type.shape is None:
        return None
    channels = source.type.shape[1]
    if not isinstance(channels, int) or not channels or channels % len(parts):
        return None
    size = channels // len(parts)
    found = [None if p is None or p.source is not source else (p.start, p.end) for p in pieces]
    return source if found == [(i * size, (i + 1) * size) for i in range(len(parts))] else None


def _joined(values: list[Value]) -> Value:
    """Constants behind one another, which are read when the file is written."""
    blobs = [v.data for v in values if v.data is not None]
    rows, *rest = blobs[0].shape
    shape = (rows * len(blobs), *rest)
    return Value.constant(
        LazyBlob(lambda: np.concatenate([blob.numpy() for blob in blobs]), blobs[0].dtype, shape), values[0].name
    )


def _biases(convs: list[Node]) -> list[Value] | None:
    """A bias for each, zeros for those that have none."""
    w = convs[0].input(1).type
    present = [c.input(2) for c in convs if c.has_input(2)]
    dtype = present[0].type.dtype if present else w.dtype
    zeros = np.zeros(w.static_shape[0], dtype.numpy)
    values = [c.input(2) if c.has_input(2) else Value.constant(zeros) for c in convs]
    fits = all(v.data is not None and v.type.dtype is dtype and tuple(v.data.shape) == zeros.shape for v in values)
    return values if fits else None


def _attrs(conv: Node) -> dict[str, Any]:
    return {name: conv.attrs.get(name, attr.default) for name, attr in get(conv.op).attrs.items()}


_FEW, _BLOCK = 8, 16
"""Channels: of groups several of which share a block, and of the widest blocks."""


def _is_as_fast(conv: Node) -> bool:
    """The convolution is as fast in groups as by itself.

    Groups that begin inside a block of channels are copied first, and only one group can be done in the domain of
    Winograd: what has one node less must not take longer for it.
    """
    ins = conv.input(1).type.static_shape[1]
    outs = conv.input(1).type.static_shape[0] // conv.attrs.get("group", 1)
    if 0 < outs <= _FEW and _FEW % outs == 0 and ins and outs % ins == 0:
        return ins == outs or outs < _FEW
    steps = {*conv.attrs["strides"], *conv.attrs["dilations"]}
    return ins % _BLOCK == outs % _BLOCK == 0 and not (conv.input(1).type.static_shape[2:] == (3, 3) and steps == {1})


@rewrite(lambda p, x, w: p.Concat(p.Conv(x, w, ..., as_="conv"), ..., as_="concat"))
def fuse_group_conv(b: Builder, m: Match) -> Value | None:
    """Convolutions of the parts of an image's channels, side by side, are one in groups.

    Given:
        graph g(%x: f32[1,2,2,2]) {
          %a: f32[1,1,2,2], %b: f32[1,1,2,2] = Split(%x) {axis=1, sizes=(1, 1)}
          %c: f32[1,1,2,2] = Conv(%a, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %d: f32[1,1,2,2] = Conv(%b, f32[1,1,1,1](3.0), f32[1](1.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,2,2,2] = Concat(%c, %d) {axis=1}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,2,2]) {
          %y: f32[1,2,2,2] = Conv(%x, f32[2,1,1,1](2.0, 3.0), f32[2](0.0, 1.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=2}
          return %y
        }
    """  # noqa: E501
    rank, convs = m.conv.output.type.rank, [v.producer for v in m.concat.inputs]
    if rank not in (3, 4) or m.concat.attrs["axis"] % rank != 1 or len(convs) < 2:
        return m.no("no channels of images are put together")
    if any(c is None or c.op != "Conv" or c.has_input(RESIDUAL) for c in convs):
        return m.no("not all parts come from convolutions, or some add a residual")
    if any(len(v.uses) != 1 for c in convs for v in (c.output, c.input(0))):
        return m.no("others read some part")
    source = _source([c.input(0) for c in convs])
    if source is None:
        return m.no("they do not read equal parts of all channels of one image, in order")
    weights = [c.input(1) for c in convs]
    like = weights[0]
    if any(w.data is None or isinstance(w.data, PackedBlob) for w in weights):
        return m.no("weights are computed, or of few bits")
    if any(w.type != like.type for w in weights) or any(_attrs(c) != _attrs(m.conv) for c in convs):
        return m.no("the convolutions differ in more than their numbers")
    if not _is_as_fast(m.conv):
        return m.no("one by one they are faster: the parts fill no blocks of channels, or have windows of 3 x 3")
    biases = _biases(convs) if any(c.has_input(2) for c in convs) else []
    if biases is None:
        return m.no("biases are computed, or of several types")
    attrs = {**m.conv.attrs, "group": m.conv.attrs.get("group", 1) * len(convs)}
    return b.node("Conv", [source, _joined(weights), *([_joined(biases)] if biases else [])], attrs).output
