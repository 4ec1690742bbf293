"""Movement that cancels, merges, or can be left to its readers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.facts.derive import extents, viewed
from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.passes.shape.constant import refined, shape_operand
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ir.type import broadcast, same_dim
from minnow.schema.ops import Builder, Op, Trait, all_ops
from minnow.schema.registry.symbolic import Known, Polynomial


def view_as(b: Builder, x: Value, target: Known) -> Value | None:
    """The elements of x under the shape `target` by the plainest op that does it; None when no single one can."""
    own = extents(x)
    if own is None:
        return None
    if target == own:
        return x
    if (gone := _ones(own, target)) is not None:
        return b.Squeeze(x, axes=gone)
    if (new := _ones(target, own)) is not None:
        return b.Unsqueeze(x, axes=new)
    numbers = shape_operand(x, target)
    return None if numbers is None else refined(b.Reshape(x, np.array(numbers, np.int64)), target)


def _ones(longer: Known, shorter: Known) -> tuple[int, ...] | None:
    """The places of ones that `longer` has more than `shorter`, when that is the only difference."""
    out, rest = [], list(shorter)
    for i, e in enumerate(longer):
        if rest and e is not None and e == rest[0]:
            rest.pop(0)
        elif e == Polynomial.of(1):
            out.append(i)
        else:
            return None
    return tuple(out) if out and not rest else None


def any_view(p: Any, x: Any, name: str = "view") -> Any:
    """Pattern: any view, with a constant shape where it has one, under this name."""
    return (
        p.Reshape(x, p.const(f"{name}_shape"), as_=name)
        | p.Flatten(x, as_=name)
        | p.Squeeze(x, as_=name)
        | (p.Unsqueeze(x, as_=name))
    )


@rewrite(lambda p, x: any_view(p, any_view(p, x, "first"), "second"), shared=True)
def fuse_views(b: Builder, m: Match) -> Value | None:
    """Two views in a row are one, or none.

    Given:
        graph g(%x: f32[N,1,6,1]) {
          %a: f32[N,6] = Squeeze(%x) {axes=(1, 3)}
          %b: f32[N,2,3] = Reshape(%a, i64[3](0, 2, 3))
          %c: f32[N,6] = Flatten(%b)
          %d: f32[N,1,6,1] = Unsqueeze(%c) {axes=(1, 3)}
          %y: f32[N,1,6,1] = Exp(%d)
          return %y
        }
    Result:
        graph g(%x: f32[N,1,6,1]) {
          %y: f32[N,1,6,1] = Exp(%x)
          return %y
        }
    """
    own = extents(m.x)
    middle = None if own is None else viewed(m.first, own)
    target = None if middle is None else viewed(m.second, middle)
    if target is None:
        return m.no("the shapes are not known well enough")
    y = view_as(b, m.x, target)
    return m.no("no single view does both") if y is None else y


@rewrite(lambda p, x: p.Transpose(p.Transpose(x, as_="first"), as_="second"), shared=True)
def fuse_transposes(b: Builder, m: Match) -> Value:
    """Two transposes in a row are one.

    Given:
        graph g(%x: f32[2,3,4]) {
          %a: f32[3,2,4] = Transpose(%x) {perm=(1, 0, 2)}
          %b: f32[3,4,2] = Transpose(%a) {perm=(0, 2, 1)}
          return %b
        }
    Result:
        graph g(%x: f32[2,3,4]) {
          %b: f32[3,4,2] = Transpose(%x) {perm=(1, 2, 0)}
          return %b
        }
    """
    first, second = m.first.attrs["perm"], m.second.attrs["perm"]
    return b.Transpose(m.x, perm=tuple(first[i] for i in second))


def _elementwise(n: int) -> list[Op]:
    return [op for op in all_ops() if Trait.ELEMENTWISE in op.traits and len(op.operand_names) == n]


def _unary() -> list[Op]:
    """Ops that work on single elements of one tensor, so that its shape does not matter."""
    return [op for op in _elementwise(1) if op.name != "Identity"]


def _binary() -> list[Op]:
    return [op for op in _elementwise(2) if op.name != "PRelu"]


def _moved(p: Any, x: Any) -> Any:
    blocks = p.DepthToSpace(x, as_="view") | p.SpaceToDepth(x, as_="view")
    return any_view(p, x, "view") | p.Transpose(x, as_="view") | blocks


@rewrite(
    lambda p, x: reduce(
        or_,
        [getattr(p, op.name)(_moved(p, x)) for op in _unary()]
        + [getattr(p, op.name)(_moved(p, x), p.const("k")) for op in _binary()],
    )
)
def hoist_elementwise(b: Builder, m: Match) -> Value | None:
    """What is done to single elements is done before they are moved, beside the op that computes them.

    Given:
        graph g(%x: f32[2,6]) {
          %a: f32[2,3,2] = Reshape(%x, i64[3](2, 3, 2))
          %b: f32[2,2,3] = Transpose(%a) {perm=(0, 2, 1)}
          %c: f32[2,2,3] = Mul(%b, f32[](0.125))
          %y: f32[2,2,3] = Exp(%c)
          return %y
        }
    Result:
        graph g(%x: f32[2,6]) {
          %0: f32[2,6] = Mul(%x, f32[](0.125))
          %1: f32[2,6] = Exp(%0)
          %2: f32[2,3,2] = Reshape(%1, i64[3](2, 3, 2))
          %y: f32[2,2,3] = Transpose(%2) {perm=(0, 2, 1)}
          return %y
        }
    """
    k = m.bound.get("k")
    if k is not None and any(d != 1 for d in k.data.shape):
        return m.no("the constant has more than one element")
    if m.x.is_const:
        return m.no("it will be computed before the model runs")
    operands = [m.x]
    if k is not None:
        if len(k.data.shape) > (m.view.output.type.rank or 0):
            return m.no("the constant has more axes")
        operand = k if not k.data.shape else Value.constant(k.data.numpy().reshape(()), k.name)
        operands = [operand, m.x] if m.root.inputs[0] is k else [m.x, operand]
    early = b.node(m.root.op, operands, m.root.attrs).output
    return b.node(m.view.op, [early, *m.view.inputs[1:]], m.view.attrs).output


def broadcasts_alone(operands: Sequence[Value], result: Value) -> bool:
    """The operands have the dimensions of the result between them."""
    alone, whole = broadcast(*(v.type.shape for v in operands)), result.type.shape
    return alone is not None and whole is not None and len(alone) == len(whole) and all(map(same_dim, alone, whole))


@rewrite(lambda p, x, y, z: reduce(or_, [getattr(p, op.name)(x, y) for op in _binary()], p.Where(x, y, z)), shared=True)
def eliminate_expand_before_broadcast(b: Builder, m: Match) -> Value | None:
    """An operand that is expanded to what broadcasting makes of it anyway.

    Given:
        graph g(%x: f32[1,3,1], %y: f32[2,3,4]) {
          %a: f32[2,3,4] = Expand(%x, i64[3](2, 3, 4))
          %z: f32[2,3,4] = Sub(%y, %a)
          return %z
        }
    Result:
        graph g(%x: f32[1,3,1], %y: f32[2,3,4]) {
          %z: f32[2,3,4] = Sub(%y, %x)
          return %z
        }
    """
    return _without_stretching(b, m, "Expand", lambda node: True)


def _without_stretching(b: Builder, m: Match, op: str, repeats_ones: Callable[[Node], bool]) -> Value | None:
    """The root without what stretches one of its operands, which `repeats_ones` holds of."""
    operands = [v for v in m.root.inputs if v is not None]
    if m.root.output.type.shape is None or not any(v.producer is not None and v.producer.op == op for v in operands):
        return m.no("no operand is expanded, or the rank is not known")
    for i, value in enumerate(operands):
        if value.producer is None or value.producer.op != op or not repeats_ones(value.producer):
            continue
        rest = [*operands[:i], value.producer.input(0), *operands[i + 1 :]]
        if broadcasts_alone(rest, m.root.output):
            made = b.node(m.root.op, rest, m.root.attrs)
            if is_encodable(m.root) and not is_encodable(made):
                return m.no("the format has it with the expansion only")
            return made.output
    return m.no("the expansion may decide some dimension")


@rewrite(lambda p, x, y, z: reduce(or_, [getattr(p, op.name)(x, y) for op in _binary()], p.Where(x, y, z)), shared=True)
def eliminate_tile_before_broadcast(b: Builder, m: Match) -> Value | None:
    """An operand whose single elements are repeated as often as broadcasting repeats them anyway.

    Given:
        graph g(%x: f32[1,3,1], %y: f32[1,3,4]) {
          %a: f32[1,3,4] = Tile(%x, i64[3](1, 1, 4))
          %z: f32[1,3,4] = Sub(%y, %a)
          return %z
        }
    Result:
        graph g(%x: f32[1,3,1], %y: f32[1,3,4]) {
          %z: f32[1,3,4] = Sub(%y, %x)
          return %z
        }
    """
    return _without_stretching(b, m, "Tile", _repeats_ones)


def _repeats_ones(tile: Node) -> bool:
    """No axis of more than one element is repeated."""
    own, times = tile.input(0).type.shape, tile.input(1).array
    if own is None or (times is not None and len(times) != len(own)):
        return False
    return all(d == 1 or (times is not None and times[i] == 1) for i, d in enumerate(own))


_EXACT: dict[DType, tuple[DType, ...]] = {
    DType.BOOL: tuple(t for t in DType if t is not DType.BOOL and not t.is_storage),
    DType.U8: (DType.I16, DType.U16, DType.I32, DType.U32, DType.I64, DType.U64, DType.F16, DType.F32, DType.F64),
    DType.I8: (DType.I16, DType.I32, DType.I64, DType.F16, DType.BF16, DType.F32, DType.F64),
    DType.I16: (DType.I32, DType.I64, DType.F32, DType.F64),
    DType.U16: (DType.I32, DType.U32, DType.I64, DType.U64, DType.F32, DType.F64),
    DType.I32: (DType.I64, DType.F64),
    DType.U32: (DType.I64, DType.U64, DType.F64),
    DType.F16: (DType.F32, DType.F64),
    DType.BF16: (DType.F32, DType.F64),
    DType.F32: (DType.F64,),
}
"""Types that hold every number of another type."""


@rewrite(lambda p, x: p.Cast(p.Cast(x, as_="first"), as_="second"), shared=True, level=1)
def fuse_casts(b: Builder, m: Match) -> Value | None:
    """A cast to a type that holds every number of the one before it changes nothing for the next cast.

    Given:
        graph g(%x: i32[4]) {
          %a: i64[4] = Cast(%x) {to=i64}
          %y: f32[4] = Cast(%a) {to=f32}
          return %y
        }
    Result:
        graph g(%x: i32[4]) {
          %y: f32[4] = Cast(%x) {to=f32}
          return %y
        }
    """
    source, middle = m.x.type.dtype, m.first.attrs["to"]
    if middle is not source and middle not in _EXACT.get(source, ()):
        return m.no(f"{middle} does not hold every number of {source}")
    return b.Cast(m.x, **m.second.attrs)


@rewrite(lambda p, x: p.Concat(x, ..., as_="concat"), shared=True)
def fuse_concats(b: Builder, m: Match) -> Value | None:
    """A concatenation inside another one along the same axis.

    Given:
        graph g(%x: f32[2,1], %y: f32[2,3], %z: f32[2,2]) {
          %a: f32[2,4] = Concat(%x, %y) {axis=1}
          %b: f32[2,6] = Concat(%a, %z) {axis=-1}
          return %b
        }
    Result:
        graph g(%x: f32[2,1], %y: f32[2,3], %z: f32[2,2]) {
          %b: f32[2,6] = Concat(%x, %y, %z) {axis=-1}
          return %b
        }
    """
    node: Node = m.concat
    rank = node.output.type.rank
    if rank is None:
        return m.no("the rank is not known")
    flat: list[Value | None] = []
    for value in node.inputs:
        inner = value.producer if value is not None else None
        same = inner is not None and inner.op == "Concat" and inner.attrs["axis"] % rank == node.attrs["axis"] % rank
        # Others that read the inner one would have it computed all the same.
        if inner is not None and same and len(inner.output.uses) == 1:
            flat += inner.inputs
        else:
            flat.append(value)
    if len(flat) == len(node.inputs):
        return m.no("no operand is a concatenation along the same axis without other readers")
    return b.node("Concat", flat, node.attrs).output
