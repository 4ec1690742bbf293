"""Transposes of axes of size 1. They may have met their inverse: these rules come when that has been tried."""

from __future__ import annotations

from typing import Any

from minnow.optimizer.facts.derive import extents, viewed
from minnow.optimizer.passes.movement.cancel import any_view, view_as
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Value
from minnow.schema.ops import Builder
from minnow.schema.registry.symbolic import Polynomial


@rewrite(lambda p, x: p.Transpose(x, as_="transpose"), shared=True)
def eliminate_transpose_of_ones(b: Builder, m: Match) -> Value | None:
    """A transpose that only moves axes of size 1 moves no element.

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
    moved = [p for p in perm if own[p] != Polynomial.of(1)]
    if moved != sorted(moved):
        return m.no("it moves axes that are not of size 1")
    y = view_as(b, m.x, [own[p] for p in perm])
    return m.no("no single view does it") if y is None else y


def _before(p: Any, x: Any) -> Any:
    return p.Reshape(x, ...) | p.Squeeze(x) | p.Unsqueeze(x)


@rewrite(lambda p, x: any_view(p, p.Transpose(_before(p, x), as_="transpose")))
def view_before_transpose(b: Builder, m: Match) -> Value | None:
    """Axes of size 1 that come or go behind a transpose do so in front of it, where there is a view already.

    Given:
        graph g(%x: f32[1,5,6]) {
          %a: f32[1,5,3,2] = Reshape(%x, i64[4](1, 5, 3, 2))
          %b: f32[3,1,5,2] = Transpose(%a) {perm=(2, 0, 1, 3)}
          %y: f32[3,5,2] = Squeeze(%b) {axes=(1,)}
          return %y
        }
    Result:
        graph g(%x: f32[1,5,6]) {
          %0: f32[5,3,2] = Reshape(%x, i64[3](5, 3, 2))
          %y: f32[3,5,2] = Transpose(%0) {perm=(1, 0, 2)}
          return %y
        }
    """
    inner = m.transpose.input(0)
    own, moved = extents(inner), extents(m.transpose.output)
    target = None if moved is None else viewed(m.view, moved)
    if own is None or moved is None or target is None or None in target:
        return m.no("the shapes are not known well enough")
    perm = [i for i in m.transpose.attrs["perm"] if own[i] != Polynomial(1)]
    kept = [i for i, e in enumerate(target) if e != Polynomial(1)]
    if [own[i] for i in perm] != [target[i] for i in kept]:
        return m.no("other axes than those of size 1 change")
    # An axis of size 1 stays in front of the one that it stands in front of behind the transpose.
    place = dict(zip(kept, perm, strict=True))
    order: list[tuple[int, int]] = []
    for i in range(len(target)):
        following = next((k for k in kept if k >= i), None)
        order.append((len(own) if following is None else place[following], i))
    before = sorted(order)
    source = view_as(b, m.x, [target[i] for _, i in before])
    if source is None:
        return m.no("no single view does it")
    axes = [i for _, i in before]
    turned = tuple(axes.index(i) for i in range(len(target)))
    return source if turned == tuple(range(len(target))) else b.Transpose(source, perm=turned)
