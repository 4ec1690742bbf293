"""Layers between reshapes that only join the axes in front of the features, for frameworks with matrices only."""

from __future__ import annotations

from minnow.optimizer.contents import extent
from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.view import dims_of
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@rewrite(
    lambda p, x, w, flat, shape: p.Reshape(p.Linear(p.Reshape(x, flat), w, ..., as_="linear"), shape),
    shared=True,
)
def unflatten_linear(b: Builder, m: Match) -> Value | None:
    """A layer of a matrix that was made of a tensor, whose rows become that tensor's axes again.

    Given:
        graph g(%x: f32[N,3,2]) {
          %a: f32[?,2] = Reshape(%x, i64[2](-1, 2))
          %b: f32[?,1] = Linear(%a, f32[1,2](1.0, 2.0), f32[1](3.0))
          %y: f32[N,3,1] = Reshape(%b, i64[3](-1, 3, 1))
          return %y
        }
    Result:
        graph g(%x: f32[N,3,2]) {
          %y: f32[N,3,1] = Linear(%x, f32[1,2](1.0, 2.0), f32[1](3.0))
          return %y
        }
    """
    layer, y, rank = m.linear, m.root.output, m.x.type.rank
    if len(layer.inputs) > 3 or len(layer.output.uses) != 1:
        return m.no("the layer does more, or its result is read elsewhere")
    if rank is None or rank < 2 or y.type.rank != rank:
        return m.no("the result has other axes than the input")
    if extent(m.x, -1) != extent(layer.input(0), -1):
        return m.no("the features of the input are not those of the matrix")
    dims = dims_of(y) or [None] * rank
    wanted = [*(extent(m.x, a) for a in range(rank - 1)), extent(layer.output, -1)]
    # There are as many elements, so that one extent which nothing is known of is the one that is wanted.
    if sum(have is None or have != want for have, want in zip(dims, wanted, strict=True)) > 1:
        return m.no("the axes of the result are not known to be those of the input")
    return b.node("Linear", [m.x, *layer.inputs[1:]], layer.attrs).output
