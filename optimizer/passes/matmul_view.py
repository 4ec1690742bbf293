"""Products of rows that are counted along one axis for a while."""

from __future__ import annotations

from typing import Any

from minnow.optimizer.derive import extents
from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import Value
from minnow.schema.ops import Builder
from minnow.schema.ops.symbolic import product


def _rows(p: Any, x: Any) -> Any:
    return p.Reshape(x, ..., as_="rows") | p.Flatten(x, as_="rows")


@rewrite(
    lambda p, x, w: (
        p.Reshape(p.Linear(_rows(p, x), w, ..., as_="linear"), ...)
        | p.Reshape(p.MatMul(_rows(p, x), p.const("k"), as_="linear"), ...)
    )
)
def eliminate_view_around_linear(b: Builder, m: Match) -> Value | None:
    """Axes that are merged before a layer and come back after it: it takes any number of them.

    Given:
        graph g(%x: f32[N,S,2]) {
          %a: f32["N*S",2] = Reshape(%x, i64[2](-1, 2))
          %b: f32["N*S",3] = Linear(%a, f32[3,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
          %h: i64[2] = Shape(%x) {end=2}
          %t: i64[3] = Concat(%h, i64[1](3)) {axis=0}
          %y: f32[N,S,3] = Reshape(%b, %t)
          return %y
        }
    Result:
        graph g(%x: f32[N,S,2]) {
          %y: f32[N,S,3] = Linear(%x, f32[3,2](1.0, 2.0, 3.0, 4.0, 5.0, 6.0))
          return %y
        }
    """
    own, middle, after, out = (extents(v) for v in (m.x, m.rows.output, m.linear.output, m.root.output))
    if own is None or middle is None or after is None or out is None:
        return m.no("some rank is not known")
    if m.linear.attrs.get("transpose_a") or (m.linear.op == "MatMul" and m.linear.input(1).type.rank != 2):
        return m.no("it is no product of rows with a matrix")
    if len(own) < 2 or len(out) != len(own) or len(middle) < 2 or product(own[:-1]) != product(middle[:-1]):
        return m.no("the rows are others")
    if own[-1] != middle[-1] or out[:-1] != own[:-1] or out[-1] != after[-1]:
        return m.no("the axes do not come back as they were")
    return b.node(m.linear.op, [m.x, *m.linear.inputs[1:]], m.linear.attrs).output
