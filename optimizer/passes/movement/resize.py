"""Interpolation that does nothing, in a row, or beside padding.

Where nearest elements are taken and every scale is a whole number, all that happens is that each element is repeated;
so what it has in common with padding can be told without rounding.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.passes.movement.pad import fill_of, pads_of
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder, get
from minnow.schema.registry.symbolic import contents, dimension

_REPEATING = frozenset({
    ("asymmetric", "floor"), ("tf_half_pixel_for_nn", "floor"),
    *((mode, to) for mode in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")
      for to in ("round_prefer_floor", "round_prefer_ceil")),
})  # fmt: skip
"""Places and rounding by which element i of the result is element i // scale, for every whole scale."""


def _scales(node: Node) -> list[float] | None:
    """The scale of each axis of the operand; None where some is not known, or sizes are no multiples."""
    attrs, x = get("Resize").bind(4, node.attrs), node.input(0)
    if x.type.rank is None or attrs["keep_aspect"] != "stretch":
        return None
    axes = range(x.type.rank) if attrs["axes"] is None else [a % x.type.rank for a in attrs["axes"]]
    whole = [1.0] * x.type.rank
    given = node.input(3) if node.has_input(3) and node.input(3).type.shape != (0,) else None
    if given is None:
        factors = node.input(2).array
        if factors is None:
            return None
        for axis, factor in zip(axes, factors.tolist(), strict=True):
            whole[axis] = factor
        return whole
    sizes = contents(given)
    for axis, size in zip(axes, [None] * len(axes) if sizes is None else sizes, strict=True):
        before = dimension(x, axis)
        times = size.divided(before) if size is not None and before is not None and before.number else None
        if times is None or times.integer is None:
            return None
        whole[axis] = times.integer
    return whole


def _repeats(node: Node) -> Any:
    """How often each element is repeated along each axis; None where it is not only that."""
    attrs = get("Resize").bind(4, node.attrs)
    if attrs["mode"] != "nearest" or (attrs["coordinate_mode"], attrs["nearest_mode"]) not in _REPEATING:
        return None
    scales = _scales(node)
    if scales is None or any(s < 1 or s != int(s) for s in scales):
        return None
    return np.array(scales, np.int64)


def _repeated(b: Builder, x: Value, times: Any, node: Node) -> Value:
    attrs = {**node.attrs, "axes": None}
    return b.node("Resize", [x, None, times.astype(np.float32)], attrs).output


@rewrite(lambda p, x: p.Resize(x, ..., as_="resize"), shared=True, level=1)
def eliminate_resize(b: Builder, m: Match) -> Value | None:
    """Interpolation at the places of the elements.

    Given:
        graph g(%x: f32[1,N,5]) {
          %a: f32[1,N,5] = Resize(%x, _, _, i64[1](5)) {mode="linear", axes=(2,)}
          %b: f32[1,N,5] = Exp(%a)
          return %b
        }
    Result:
        graph g(%x: f32[1,N,5]) {
          %b: f32[1,N,5] = Exp(%x)
          return %b
        }
    """
    scales = _scales(m.resize)
    if scales is None or any(s != 1 for s in scales) or not same_shape(m.x, m.root.output):
        return m.no("the scales are not all 1")
    attrs = {**m.resize.attrs, "axes": (0,)}
    if attrs.get("coordinate_mode") == "tf_crop_and_resize":
        return m.no("it cuts out a part")
    # The places depend on the index alone, so a few of them tell where all are.
    some = np.arange(5.0)
    (same,) = get("Resize").evaluate([some, None, np.ones(1, np.float32), None], attrs)
    return m.x if np.array_equal(same, some) else m.no("it takes what lies between the elements")


@rewrite(lambda p, x: p.Resize(p.Resize(x, ..., as_="first"), ..., as_="second"))
def fuse_resizes(b: Builder, m: Match) -> Value | None:
    """Elements that are repeated twice are repeated more often.

    Given:
        graph g(%x: f32[1,1,2,H]) {
          %a: f32[1,1,4,H] = Resize(%x, _, _, i64[1](4)) {coordinate_mode="asymmetric", nearest_mode="floor", axes=(2,)}
          %y: f32[1,1,8,H] = Resize(%a, _, _, i64[1](8)) {axes=(2,)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,H]) {
          %y: f32[1,1,8,H] = Resize(%x, _, f32[4](1.0, 1.0, 4.0, 1.0))
          return %y
        }
    """
    first, second = _repeats(m.first), _repeats(m.second)
    if first is None or second is None:
        return m.no("they do more than to repeat each element")
    return _repeated(b, m.x, first * second, m.second)


def _is_padded_by_readers(x: Value, fill: float) -> bool:
    """What reads x can put this number around it by itself."""
    readers = list(x.uses)
    if len(readers) != 1:
        return False
    (reader, i), *_ = readers
    if i or reader.attrs.get("auto_pad"):
        return False
    if reader.op == "Pad":
        return reader.attrs.get("mode", "constant") == "constant" and fill_of(reader) == fill
    return reader.op == "Conv" and fill == 0


def _repeats_and_pads(m: Match) -> tuple[Any, Any, float] | None:
    """How often elements are repeated, what is put around them along each axis, and with which number."""
    times, ends, fill = _repeats(m.resize), pads_of(m.pad), fill_of(m.pad)
    if times is None:
        return m.no("it does more than to repeat each element")
    if ends is None or fill is None:
        return m.no("pads are computed, or cut off")
    return times, ends, fill


@rewrite(lambda p, x, pads: p.Resize(p.Pad(x, pads, ..., as_="pad", mode="constant"), ..., as_="resize"))
def resize_before_pad(b: Builder, m: Match) -> Value | None:
    """Padding in front of elements that are repeated is put behind them, where what follows pads by itself.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,4,3] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 0, 1))
          %b: f32[1,1,8,9] = Resize(%a, _, _, i64[4](1, 1, 8, 9))
          %y: f32[1,1,8,9] = Conv(%b, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,4,6] = Resize(%x, _, f32[4](1.0, 1.0, 2.0, 3.0))
          %b: f32[1,1,8,9] = Pad(%a, i64[8](0, 0, 0, 0, 2, 2, 0, 3))
          %y: f32[1,1,8,9] = Conv(%b, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """
    known = _repeats_and_pads(m)
    if known is None:
        return None
    times, ends, fill = known
    if not _is_padded_by_readers(m.root.output, fill):
        return m.no("nothing that follows does the padding")
    y = _repeated(b, m.x, times, m.resize)
    pads = (ends * times[:, None]).reshape(-1).astype(m.pads.type.dtype.numpy)
    return b.node("Pad", [y, pads, *m.pad.inputs[2:]], m.pad.attrs).output


@rewrite(lambda p, x, pads: p.Pad(p.Resize(x, ..., as_="resize"), pads, ..., as_="pad", mode=lambda v: v != "reflect"))
def pad_before_resize(b: Builder, m: Match) -> Value | None:
    """Padding by whole repetitions of elements is done before they are repeated, when there are fewer of them.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,4,4] = Resize(%x, _, _, i64[4](1, 1, 4, 4))
          %y: f32[1,1,8,6] = Pad(%a, i64[8](0, 0, 0, 0, 2, 2, 0, 2)) {mode="edge"}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,1,4,3] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 0, 1)) {mode="edge"}
          %y: f32[1,1,8,6] = Resize(%a, _, f32[4](1.0, 1.0, 2.0, 2.0))
          return %y
        }
    """
    known = _repeats_and_pads(m)
    if known is None:
        return None
    times, ends, fill = known
    if (ends % times[:, None]).any():
        return m.no("the padding ends within what is repeated")
    if m.pad.attrs.get("mode", "constant") == "constant" and _is_padded_by_readers(m.root.output, fill):
        return m.no("what follows does the padding")
    pads = (ends // times[:, None]).reshape(-1).astype(m.pads.type.dtype.numpy)
    x = b.node("Pad", [m.x, pads, *m.pad.inputs[2:]], m.pad.attrs).output
    return _repeated(b, x, times, m.resize)
