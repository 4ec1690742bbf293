"""Operands that the format's runtimes take only within bounds: brought into these."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_BITS = 32


@rewrite(lambda p, x: p.Slice(x, p.const("starts"), p.const("ends"), ..., as_="cut"), level=0)
def legalize_bounds(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format do not clamp a bound that lies before the first element.

    Given:
        graph g(%x: f32[4,5]) {
          %y: f32[4,3] = Slice(%x, i32[1](-8), i32[1](3), i32[1](1))
          return %y
        }
    Result:
        graph g(%x: f32[4,5]) {
          %y: f32[4,3] = Slice(%x, i32[1](0), i32[1](3), i32[1](1))
          return %y
        }
    """
    shape = m.x.type.shape
    if shape is None:
        return m.no("the rank is not known")
    starts, ends = (np.array(v.data.numpy()) for v in (m.starts, m.ends))
    axes, steps = (m.cut.input(i) if m.cut.has_input(i) else None for i in (3, 4))
    if any(v is not None and v.data is None for v in (axes, steps)):
        return m.no("the axes or steps are computed")
    changed = False
    for i, axis in enumerate(range(starts.size) if axes is None else axes.data.numpy().tolist()):
        dim = shape[axis]
        if not isinstance(dim, int) or (steps is not None and steps.data.numpy()[i] < 0):
            continue
        for bounds in (starts, ends):
            if bounds[i] < -dim:
                bounds[i], changed = 0, True
    if not changed:
        return m.no("no bound is known to lie before the first element")
    return b.node("Slice", [m.x, starts, ends, *m.cut.inputs[3:]], {}).output


@rewrite(lambda p, x, n: p.BitShift(x, n, as_="shift"), level=0)
def legalize_shift(b: Builder, m: Match) -> Value | None:
    """Processors shift by the last five bits of the number: what is shifted further has no bits left but the sign.

    Given:
        graph g(%x: i32[4], %n: i32[4]) {
          %y: i32[4] = BitShift(%x, %n) {direction="LEFT"}
          return %y
        }
    Result:
        graph g(%x: i32[4], %n: i32[4]) {
          %0: i32[4] = BitwiseAnd(%n, i32[](31))
          %1: bool[4] = Equal(%n, %0)
          %2: i32[4] = BitShift(%x, %0) {direction="LEFT"}
          %y: i32[4] = Where(%1, %2, i32[](0))
          return %y
        }
    """
    if m.x.type.dtype is not DType.I32:
        return m.no("the format shifts i32 only")
    if _is_within(m.n):
        return m.no("the number is within 0..31")
    direction = m.shift.attrs["direction"]
    last = np.int32(_BITS - 1)
    kept = b.BitwiseAnd(m.n, last)
    fits = b.Equal(m.n, kept)
    if direction == "LEFT":
        return b.Where(fits, b.BitShift(m.x, kept, direction=direction), np.int32(0))
    return b.BitShift(m.x, b.Where(fits, kept, last), direction=direction)


def _is_within(n: Value) -> bool:
    """Whether all numbers are known to be within 0..31."""
    if n.data is not None:
        numbers = np.asarray(n.data.numpy(), np.int64)
        return bool(((numbers >= 0) & (numbers < _BITS)).all())
    node = n.producer
    if node is None:
        return False
    if node.op == "BitwiseAnd":
        return any(v.data is not None and _is_within(v) for v in node.inputs if v is not None)
    return node.op == "Where" and all(_is_within(node.input(i)) for i in (1, 2))


@rewrite(lambda p, x, lens: p.ReverseSequence(x, lens, as_="node"), level=0)
def legalize_empty_sequence(b: Builder, m: Match) -> Value | None:
    """Runtimes of the format refuse sequences without elements. A sequence of one element is the same turned round.

    Given:
        graph g(%x: f32[4,2], %n: i32[2]) {
          %y: f32[4,2] = ReverseSequence(%x, %n)
          return %y
        }
    Result:
        graph g(%x: f32[4,2], %n: i32[2]) {
          %0: i32[2] = Max(%n, i32[](1))
          %y: f32[4,2] = ReverseSequence(%x, %0)
          return %y
        }
    """
    if m.lens.data is not None:
        numbers = m.lens.data.numpy()
        if numbers.size and numbers.min() > 0:
            return m.no("no sequence is empty")
        lens: Value = b.const(np.maximum(numbers, 1).astype(numbers.dtype))
    elif (made := m.lens.producer) is not None and made.op == "Max" and any(_is_positive(v) for v in made.inputs):
        return m.no("no sequence is empty")
    else:
        lens = b.Max(m.lens, np.ones((), m.lens.type.dtype.numpy))
    return b.node("ReverseSequence", [m.x, lens], m.node.attrs).output


def _is_positive(v: Value | None) -> bool:
    return v is not None and v.data is not None and bool((np.asarray(v.data.numpy(), np.int64) > 0).all())


@rewrite(lambda p, x, grid: p.GridSample(x, grid, mode="nearest", as_="sample"), level=0)
def legalize_nearest_sample(b: Builder, m: Match) -> Value | None:
    """Half way between two elements, runtimes of the format take the later one: the grid is brought onto elements.

    Given:
        graph g(%x: f32[1,1,3,3], %g: f32[1,2,4,2]) {
          %y: f32[1,1,2,4] = GridSample(%x, %g) {mode="nearest", align_corners=True}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,3,3], %g: f32[1,2,4,2]) {
          %0: f32[1,2,4,2] = Add(%g, f32[](1.0))
          %1: f32[1,2,4,2] = Mul(%0, f32[2](1.0, 1.0))
          %2: f32[1,2,4,2] = Round(%1)
          %3: f32[1,2,4,2] = Sub(%2, f32[2](1.0, 1.0))
          %4: f32[1,2,4,2] = Div(%3, f32[2](1.0, 1.0))
          %y: f32[1,1,2,4] = GridSample(%x, %4) {mode="nearest", align_corners=True}
          return %y
        }
    """
    if m.grid.type.dtype is not DType.F32:
        return m.no("the format computes with f32")
    shape = m.x.type.shape
    sizes = () if shape is None else shape[2:]
    if not sizes or not all(isinstance(d, int) for d in sizes):
        return m.no("the sizes of the image are not known")
    if m.grid.type.shape is None or m.grid.type.shape[-1] != len(sizes):
        return m.no("it is not known that the grid has a number for each axis")
    if m.sample.attrs.get("padding") == "reflection":
        return m.no("the format does not mirror")
    made = m.grid.producer
    if made is not None and made.op == "Div" and _is_rounded(made.input(0)):
        return m.no("the grid lies on elements")
    corners = bool(m.sample.attrs.get("align_corners", False))
    extents = np.array(sizes[::-1], np.float32)
    if corners and (extents < 2).any():
        return m.no("an axis has one element")
    # Elements 0..n-1 of an axis: place = (g + 1) * scale - offset, and back again.
    scale = (extents - 1) / 2 if corners else extents / 2
    offset = np.float32(0 if corners else 0.5)
    place = b.Mul(b.Add(m.grid, np.float32(1)), scale)
    place = b.Round(b.Sub(place, offset) if offset else place)
    # g * scale = place + offset - scale, in which halves are exact.
    back = b.Div(b.Sub(place, scale - offset), scale)
    return b.node("GridSample", [m.x, back], m.sample.attrs).output


def _is_rounded(v: Value) -> bool:
    made = v.producer
    if made is None or made.op != "Sub":
        return False
    inner = made.input(0).producer
    return inner is not None and inner.op in ("Round", "Where")
