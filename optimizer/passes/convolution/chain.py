"""Convolutions in a row with nothing in between. Rounding differs in the last bits: only at the highest level."""

from __future__ import annotations

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.optimizer.rewrite.weight import chained
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import RESIDUAL


def _takes_single_pixels(conv: Node) -> bool:
    return all(d == 1 for d in conv.input(1).type.static_shape[2:]) and not any(conv.attrs["pads"])


@rewrite(
    lambda p, x: p.Conv(
        p.Conv(x, p.const("first"), ..., activation="", group=1, auto_pad="", as_="inner"),
        p.const("second"), ..., group=1, auto_pad="", as_="outer",
    ),
    level=3,
)  # fmt: skip
def fuse_convs(b: Builder, m: Match) -> Value | None:
    """Two convolutions in a row, one of single pixels, are one, where its weights are no more than those of both.

    Given:
        graph g(%x: f32[1,1,2,2]) {
          %a: f32[1,2,2,2] = Conv(%x, f32[2,1,1,1](2.0, 3.0), f32[2](0.5, 1.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,1,1] = Conv(%a, f32[1,2,1,1](1.0, -1.0)) {strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), activation="relu"}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,1,1] = Conv(%x, f32[1,1,1,1](-1.0), f32[1](-0.5)) {strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), activation="relu"}
          return %y
        }
    """  # noqa: E501
    inner, outer = m.inner, m.outer
    if inner.has_input(RESIDUAL):
        return m.no("the first one adds something else")
    if _takes_single_pixels(outer):
        strides = tuple(s * t for s, t in zip(inner.attrs["strides"], outer.attrs["strides"], strict=True))
        window = {**inner.attrs, "strides": strides}
    elif _takes_single_pixels(inner) and set(inner.attrs["strides"]) == {1}:
        if any(outer.attrs["pads"]) and inner.has_input(2):
            return m.no("the padding between them is not what the first one makes of padding")
        window = outer.attrs
    else:
        return m.no("neither takes single pixels")
    both = chained(inner, outer)
    if isinstance(both, str):
        return m.no(both)
    attrs = {**outer.attrs, **{k: window[k] for k in ("strides", "pads", "dilations")}}
    return b.node("Conv", [m.x, *both, *outer.inputs[RESIDUAL:]], attrs).output
