"""Layers in a row with nothing in between. Rounding differs in the last bits: only at the highest level."""

from __future__ import annotations

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.optimizer.rewrite.weight import chained
from minnow.schema.ir import Value
from minnow.schema.ops import Builder
from minnow.schema.ops.epilogue import RESIDUAL


@rewrite(
    lambda p, x: p.Linear(
        p.Linear(x, p.const("first"), ..., activation="", as_="inner"), p.const("second"), ..., as_="outer"
    ),
    level=3,
)
def fuse_linears(b: Builder, m: Match) -> Value | None:
    """Two layers in a row are one, whose weights are the product, where that has no more elements than both.

    Given:
        graph g(%x: f32[3,2]) {
          %a: f32[3,2] = Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0), f32[2](0.5, 0.25))
          %y: f32[3,1] = Linear(%a, f32[1,2](1.0, -2.0)) {activation="relu"}
          return %y
        }
    Result:
        graph g(%x: f32[3,2]) {
          %y: f32[3,1] = Linear(%x, f32[1,2](-5.0, -6.0), f32[1](0.0)) {activation="relu"}
          return %y
        }
    """
    if m.inner.has_input(RESIDUAL):
        return m.no("the first one adds something else")
    both = chained(m.inner, m.outer)
    if isinstance(both, str):
        return m.no(both)
    return b.node("Linear", [m.x, *both, *m.outer.inputs[RESIDUAL:]], m.outer.attrs).output
