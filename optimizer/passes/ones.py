"""Transposes that move no element. They may have met their inverse: these rules come when that has been tried."""

from __future__ import annotations

from minnow.optimizer.contents import Extent
from minnow.optimizer.passes.movement import extents, view_as
from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x: p.Transpose(x, as_="transpose"), shared=True)
def eliminate_transpose_of_ones(b: Builder, m: Match) -> Value | None:
    """A transpose that only moves axes of extent 1 moves no element.

    Given:
        graph g(%x: f32[N,1,1,7]) {
          %y: f32[N,7,1,1] = Transpose(%x) {perm=(0, 3, 1, 2)}
          return %y
        }
    Result:
        graph g(%x: f32[N,1,1,7]) {
          %y: f32[N,7,1,1] = Reshape(%x, i64[4](0, 7, 1, 1))
          return %y
        }
    """
    own, perm = extents(m.x), m.transpose.attrs["perm"]
    if own is None:
        return m.no("the rank is not known")
    moved = [p for p in perm if own[p] != Extent(1)]
    if moved != sorted(moved):
        return m.no("it moves axes that are not of extent 1")
    y = view_as(b, m.x, [own[p] for p in perm])
    return m.no("no single view does it") if y is None else y
