"""Means of channels without axes of one element. They come late: other rules know them as a pooling and a view."""

from __future__ import annotations

from minnow.optimizer.facts.derive import extents, viewed
from minnow.optimizer.passes.movement.cancel import any_view
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x: any_view(p, p.GlobalAveragePool(x, as_="pool")), target="minnow")
def fuse_pooled_view(b: Builder, m: Match) -> Value | None:
    """A global pooling whose spatial axes are taken away is a mean that does not keep them.

    Given:
        graph g(%x: f32[N,3,5,7]) {
          %a: f32[N,3,1,1] = GlobalAveragePool(%x)
          %y: f32[N,3] = Flatten(%a)
          return %y
        }
    Result:
        graph g(%x: f32[N,3,5,7]) {
          %y: f32[N,3] = ReduceMean(%x) {axes=(2, 3), keepdims=False}
          return %y
        }
    """
    own, pooled = extents(m.x), extents(m.pool.output)
    if own is None or pooled is None or viewed(m.view, pooled) != own[:2]:
        return m.no("other axes than the spatial ones are taken away, or the rank is not known")
    return b.ReduceMean(m.x, axes=tuple(range(2, len(own))), keepdims=False)
