"""Layers between what only moves the axes in front of the features, and moves them back."""

from __future__ import annotations

from minnow.optimizer.facts.view import dims_of
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import dimension


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
    if dimension(m.x, -1) != dimension(layer.input(0), -1):
        return m.no("the features of the input are not those of the matrix")
    dims = dims_of(y) or [None] * rank
    wanted = [*(dimension(m.x, a) for a in range(rank - 1)), dimension(layer.output, -1)]
    # The number of elements is the same, so that a single unknown dimension must be the right one.
    if sum(have is None or have != want for have, want in zip(dims, wanted, strict=True)) > 1:
        return m.no("the axes of the result are not known to be those of the input")
    return b.node("Linear", [m.x, *layer.inputs[1:]], layer.attrs).output


@rewrite(lambda p, x, w: p.Transpose(p.Linear(p.Transpose(x, as_="a"), w, ..., as_="linear"), as_="b"))
def unturn_linear(b: Builder, m: Match) -> Value | None:
    """The axes in front of the features are turned before a layer and behind it: once is enough, or not at all.

    Given:
        graph g(%x: f32[4,3,2]) {
          %a: f32[3,4,2] = Transpose(%x) {perm=(1, 0, 2)}
          %b: f32[3,4,1] = Linear(%a, f32[1,2](1.0, 2.0))
          %y: f32[4,3,1] = Transpose(%b) {perm=(1, 0, 2)}
          return %y
        }
    Result:
        graph g(%x: f32[4,3,2]) {
          %y: f32[4,3,1] = Linear(%x, f32[1,2](1.0, 2.0))
          return %y
        }
    """
    first, second = m.a.attrs["perm"], m.b.attrs["perm"]
    if len(m.linear.inputs) > 3:
        return m.no("the layer does more")
    last = len(first) - 1
    if first[-1] != last or second[-1] != last:
        return m.no("the features are moved")
    perm = tuple(first[a] for a in second)
    x = m.x if perm == tuple(range(len(perm))) else b.Transpose(m.x, perm=perm)
    return b.node("Linear", [x, *m.linear.inputs[1:]], m.linear.attrs).output
