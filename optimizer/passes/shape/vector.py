"""Shape vectors that are computed in a roundabout way."""

from __future__ import annotations

from functools import reduce
from operator import or_

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ir.blob import Array
from minnow.schema.ops import Builder, Trait, all_ops
from minnow.schema.registry.symbolic import contents, dimension


@rewrite(
    lambda p, x, y, z: reduce(
        or_,
        [
            getattr(p, op.name)(x, y)
            for op in all_ops()
            if Trait.ELEMENTWISE in op.traits and len(op.operand_names) == 2 and Trait.COMPARE not in op.traits
        ],
        p.Where(x, y, z) | p.Expand(x, y),
    ),
    shared=True,
    level=1,
)
def fold_vector_of_dimensions(b: Builder, m: Match) -> Value | None:
    """Arithmetic and choices in shape vectors whose result is an operand, or is partly constant.

    Given:
        graph g(%x: f32[N,S]) {
          %s: i64[1] = Shape(%x) {end=1}
          %c: i64[2] = Concat(%s, i64[1](-1)) {axis=0}
          %e: bool[2] = Equal(%c, i64[](-1))
          %w: i64[2] = Where(%e, i64[](4), %c)
          %y: f32[?,4] = Fill(%w, f32[](1.0))
          return %y
        }
    Result:
        graph g(%x: f32[N,S]) {
          %s: i64[1] = Shape(%x) {end=1}
          %0: i64[2] = Concat(%s, i64[1](4)) {axis=0}
          %y: f32[?,4] = Fill(%0, f32[](1.0))
          return %y
        }
    """
    type = m.root.output.type
    if type.dtype.is_float or type.rank not in (0, 1) or type.count is None:
        return m.no("it is no vector of integers")
    wanted = contents(m.root.output)
    if wanted is None or None in wanted or all(e is not None and e.integer is not None for e in wanted):
        return m.no("nothing is known of it, or it is numbers")
    for value in m.root.inputs:
        if value is not None and value.type == type and contents(value) == wanted:
            return value
    for value in m.root.inputs:
        parts = _parts(value) if value is not None and value.type.dtype is type.dtype else []
        if len(parts) != len(wanted):
            continue
        chosen: list[Value] = []
        for e, part in zip(wanted, parts, strict=True):
            if e is not None and e.integer is not None:
                chosen.append(b.const(np.array([e.integer], type.dtype.numpy)))
            elif contents(part) == [e]:
                chosen.append(part)
        if len(chosen) == len(wanted):
            return b.Concat(*chosen, axis=0)
    return m.no("no operand has its elements")


def _parts(value: Value) -> list[Value]:
    """What a vector is put together of, one element each."""
    node = value.producer
    if node is None or node.op != "Concat" or any(v is None or v.type.shape != (1,) for v in node.inputs):
        return []
    return [v for v in node.inputs if v is not None]


@rewrite(
    lambda p, x: (
        p.Slice(p.Shape(x, as_="shape"), ...)
        | p.Unsqueeze(p.Gather(p.Shape(x, as_="shape"), ..., as_="gather"))
        | p.Reshape(p.Gather(p.Shape(x, as_="shape"), ..., as_="gather"), ...)
        | p.Gather(p.Shape(x, as_="shape"), ...)
    ),
    shared=True,
    level=1,
)
def fuse_part_of_shape(b: Builder, m: Match) -> Value | None:
    """A part of a shape that is cut out afterwards.

    Given:
        graph g(%x: f32[N,3,S]) {
          %a: i64[3] = Shape(%x)
          %b: i64[] = Gather(%a, i64[](-1))
          %y: i64[1] = Unsqueeze(%b) {axes=(0,)}
          return %y
        }
    Result:
        graph g(%x: f32[N,3,S]) {
          %y: i64[1] = Shape(%x) {start=2, end=3}
          return %y
        }
    """
    rank, shape = m.x.type.rank, m.root.output.type.shape
    if rank is None or shape is None or len(shape) != 1 or not isinstance(shape[0], int) or not shape[0]:
        return m.no("the rank is not known, or it is not a vector")
    gather: Node = m.bound.get("gather", m.root)
    if any(v is None or v.data is None for v in gather.inputs[1:]):
        return m.no("which part is not known")
    places = np.arange(rank)[_span(m.shape, rank)]
    taken = _taken(gather, places)
    if taken is None or len(taken) != shape[0] or (np.diff(taken) != 1).any():
        return m.no("the dimensions do not stand beside each other")
    return _part(b, m.x, int(taken[0]), int(taken[-1]) + 1)


def _part(b: Builder, x: Value, start: int, end: int) -> Value:
    if start == 0:
        return b.Shape(x) if end == x.type.rank else b.Shape(x, end=end)
    return b.Shape(x, start=start, end=end)


def _span(shape: Node, rank: int) -> slice:
    return slice(shape.attrs.get("start", 0), shape.attrs.get("end"))


def _taken(node: Node, places: Array) -> Array | None:
    rest = [None if v is None else v.array for v in node.inputs[1:]]
    try:
        if node.op == "Gather":
            return places[np.asarray(rest[0], np.int64)].reshape(-1)
        starts, ends = rest[0], rest[1]
        step = rest[3] if len(rest) > 3 else None
        if starts is None or ends is None or len(starts) != 1 or (step is not None and step[0] != 1):
            return None
        return places[int(starts[0]) : int(ends[0])]
    except IndexError:
        return None  # a run ends with an error


@rewrite(lambda p, x: p.Shape(x, as_="shape"), shared=True, level=1)
def move_shape_to_input(b: Builder, m: Match) -> Value | None:
    """Reads dimensions of graph inputs directly from these, so that all readers share one Shape node.

    Given:
        graph g(%x: f32[N,3,S]) {
          %a: f32[N,3,S] = Exp(%x)
          %b: f32[3,N,S] = Transpose(%a) {perm=(1, 0, 2)}
          %y: i64[2] = Shape(%b) {end=2}
          %z: i64[1] = Shape(%b) {start=1, end=2}
          return %y, %z, %b
        }
    Result:
        graph g(%x: f32[N,3,S]) {
          %a: f32[N,3,S] = Exp(%x)
          %b: f32[3,N,S] = Transpose(%a) {perm=(1, 0, 2)}
          %y: i64[2] = Shape(%b) {end=2}
          %z: i64[1] = Shape(%x) {end=1}
          return %y, %z, %b
        }
    """
    rank, graph = m.x.type.rank, m.root.graph
    if rank is None or graph is None or m.x in graph.params:
        return m.no("the rank is not known, or it is an input")
    wanted = [dimension(m.x, a) for a in range(rank)[_span(m.shape, rank)]]
    if not wanted or any(e is None or e.integer is not None for e in wanted):
        return m.no("a dimension is a number")
    for param in graph.params:
        own = [dimension(param, a) for a in range(param.type.rank or 0)]
        for at in range(len(own) - len(wanted) + 1):
            if own[at : at + len(wanted)] == wanted:
                return _part(b, param, at, at + len(wanted))
    return m.no("no input has these dimensions beside each other")
