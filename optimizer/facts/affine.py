"""Integers that grow evenly along the axes of a tensor: places, as `Range` counts them, and what is computed of them.

Each element is `base + steps[0] * i0 + steps[1] * i1 + ...` at the place (i0, i1, ...). Booleans are 0 and 1: what
is known of all elements of a comparison is a number without steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from minnow.optimizer.facts.derive import bound, extents
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Trait, get
from minnow.schema.ops.compare import MIRRORED
from minnow.schema.registry.symbolic import Atom, Memo, Polynomial, contents

_MAX_ELEMENTS = 4096

ZERO, ONE = Polynomial(), Polynomial.of(1)


@dataclass(frozen=True)
class Affine:
    """`base` plus `steps[a]` times the place along each axis `a`."""

    base: Polynomial
    steps: tuple[Polynomial, ...]

    @property
    def uniform(self) -> Polynomial | None:
        """What all elements are."""
        return None if any(s.terms for s in self.steps) else self.base

    def __add__(self, other: Affine) -> Affine:
        """Of equally many axes."""
        return Affine(self.base + other.base, tuple(a + b for a, b in zip(self.steps, other.steps, strict=True)))

    def times(self, factor: Polynomial) -> Affine:
        return Affine(self.base * factor, tuple(s * factor for s in self.steps))

    def bounds(self, dims: Sequence[Polynomial | None]) -> tuple[Polynomial | None, Polynomial | None]:
        """The least and the largest element of a non-empty tensor with these dimensions; None if they are unknown."""
        low: Polynomial | None = self.base
        high: Polynomial | None = self.base
        some = filled(dims)
        for step, dim in zip(self.steps, dims, strict=True):
            far = None if dim is None else step * (dim - ONE)
            if not step.terms:
                continue
            if step.at_least(0, some):
                high = None if high is None or far is None else high + far
            elif (-step).at_least(0, some):
                low = None if low is None or far is None else low + far
            else:
                return None, None
        return low, high


def filled(dims: Sequence[Polynomial | None]) -> frozenset[Atom]:
    """Dimensions that are not 0 where a tensor of these dims has elements."""
    return frozenset(a for d in dims if d is not None and len(d.terms) == 1 for a in d.terms[0][0])


Rule = Callable[[Node, Memo[Affine]], "Affine | None"]


def affine(value: Value, memo: Memo[Affine] | None = None) -> Affine | None:
    """How integer or boolean elements follow from their positions; None if that is unknown.

    Args:
        value: any value.
        memo: what was found before, where several values are asked for in a graph that does not change.
    """
    if value.type.shape is None or not (value.type.dtype.is_int or value.type.dtype is DType.BOOL):
        return None
    known: Memo[Affine] = Memo() if memo is None else memo
    return known.ask(value, lambda: _found(value, known))


def _found(value: Value, memo: Memo[Affine]) -> Affine | None:
    rank = value.type.rank or 0
    if value.data is not None:
        return _of_numbers(value)
    if value.type.count == 1:
        known = contents(value)
        if known is not None and known[0] is not None:
            return Affine(known[0], (ZERO,) * rank)
    node = value.producer
    if node is None or len(node.outputs) != 1:
        return None
    rule = _RULES.get(node.op, _view if Trait.VIEW in get(node.op).traits else None)
    found = None if rule is None else rule(node, memo)
    if found is None or any(e.is_big for e in (found.base, *found.steps)):
        return None
    if not _holds(value.type.dtype, found):
        return None
    # Along an axis of one element there is only the first place.
    steps = tuple(ZERO if d == 1 else s for s, d in zip(found.steps, value.type.shape or (), strict=True))
    return Affine(found.base, steps)


def _holds(dtype: DType, found: Affine) -> bool:
    """The type has the numbers; dimensions fit any type that is used for them."""
    number = None if found.uniform is None else found.uniform.integer
    if number is None:
        return dtype in (DType.I64, DType.I32)
    if dtype is DType.BOOL:
        return number in (0, 1)
    limits = np.iinfo(dtype.numpy.name)
    return int(limits.min) <= number <= int(limits.max)


def _of_numbers(value: Value) -> Affine | None:
    shape = value.type.static_shape
    if not 0 < (value.type.count or 0) <= _MAX_ELEMENTS:
        return None
    numbers = value.array
    assert numbers is not None
    whole = numbers.astype(np.int64)
    base = int(whole.flat[0])
    steps = [int(np.take(whole, 1, a).flat[0]) - base if d > 1 else 0 for a, d in enumerate(shape)]
    made = np.full(shape, base, np.int64)
    for a, (d, step) in enumerate(zip(shape, steps, strict=True)):
        made += (np.arange(d) * step).reshape(-1, *[1] * (len(shape) - 1 - a))
    return Affine(Polynomial.of(base), tuple(Polynomial.of(s) for s in steps)) if np.array_equal(made, whole) else None


def _aligned(node: Node, i: int, memo: Memo[Affine]) -> Affine | None:
    """Operand i as it is broadcast to the result."""
    operand, rank = node.inputs[i], node.output.type.rank
    if operand is None or rank is None or operand.type.shape is None:
        return None
    found, own, out = affine(operand, memo), extents(operand), extents(node.output)
    if found is None or own is None or out is None:
        return None
    lead = rank - len(own)
    for step, mine, theirs in zip(found.steps, own, out[lead:], strict=True):
        # What may be repeated along an axis must not grow there.
        if step.terms and (mine is None or mine != theirs):
            return None
    return Affine(found.base, (ZERO,) * lead + found.steps)


def _view(node: Node, memo: Memo[Affine]) -> Affine | None:
    x = affine(node.input(0), memo)
    own, out = extents(node.input(0)), extents(node.output)
    if x is None or own is None or out is None:
        return None
    if x.uniform is not None:
        return Affine(x.base, (ZERO,) * len(out))
    # Only axes of one element come or go.
    mine = [(e, s) for e, s in zip(own, x.steps, strict=True) if e != ONE]
    if [e for e, _ in mine] != [e for e in out if e != ONE] or None in own:
        return None
    steps = iter(s for _, s in mine)
    return Affine(x.base, tuple(ZERO if e == ONE else next(steps) for e in out))


def _range(node: Node, memo: Memo[Affine]) -> Affine | None:
    start, _, delta = (affine(node.input(i), memo) for i in range(3))
    return None if start is None or delta is None else Affine(start.base, (delta.base,))


def _transposed(node: Node, memo: Memo[Affine]) -> Affine | None:
    x = affine(node.input(0), memo)
    return None if x is None else Affine(x.base, tuple(x.steps[p] for p in node.attrs["perm"]))


def _sliced(node: Node, memo: Memo[Affine]) -> Affine | None:
    x, own, starts = affine(node.input(0), memo), extents(node.input(0)), contents(node.input(1))
    if x is None or own is None:
        return None
    if x.uniform is not None:
        return x
    places = node.input(3).array if node.has_input(3) else range(len(starts or ()))
    strides = node.input(4).array if node.has_input(4) else [1] * len(starts or ())
    if starts is None or places is None or strides is None:
        return None
    base, steps = x.base, list(x.steps)
    for axis, start, stride in zip(places, starts, strides, strict=True):
        whole = own[int(axis)]
        at = None if whole is None or stride < 1 else bound(start, whole)
        if at is None:
            return None
        base += at * steps[int(axis)]
        steps[int(axis)] *= Polynomial.of(int(stride))
    return Affine(base, tuple(steps))


def _cast(node: Node, memo: Memo[Affine]) -> Affine | None:
    x, to = affine(node.input(0), memo), node.attrs["to"]
    if x is None or to is not DType.BOOL:
        return x if to.is_int else None
    number = None if x.uniform is None else x.uniform.integer
    return None if number is None else Affine(Polynomial.of(int(number != 0)), x.steps)


def _sum(node: Node, memo: Memo[Affine]) -> Affine | None:
    a, b = _aligned(node, 0, memo), _aligned(node, 1, memo)
    return None if a is None or b is None else a + b.times(Polynomial.of(-1 if node.op == "Sub" else 1))


def _product(node: Node, memo: Memo[Affine]) -> Affine | None:
    a, b = _aligned(node, 0, memo), _aligned(node, 1, memo)
    if a is None or b is None:
        return None
    return a.times(b.base) if b.uniform is not None else b.times(a.base) if a.uniform is not None else None


def _negated(node: Node, memo: Memo[Affine]) -> Affine | None:
    x = affine(node.input(0), memo)
    return None if x is None else x.times(Polynomial.of(-1))


def _joined(node: Node, memo: Memo[Affine]) -> Affine | None:
    """Parts of which each goes on where the one before ends."""
    parts = [(affine(v, memo), extents(v)) for v in node.inputs if v is not None]
    axis = node.attrs["axis"] % (node.output.type.rank or 1)
    found, dims = parts[0]
    if found is None or dims is None:
        return None
    long, at = dims[axis] != ONE, dims[axis]
    for more, own in parts[1:]:
        if more is None or own is None or at is None or own[axis] is None:
            return None
        steps = list(found.steps)
        if own[axis] != ONE:
            if long and more.steps[axis] != steps[axis]:
                return None
            steps[axis], long = more.steps[axis], True
        elif not long:
            steps[axis], long = more.base - found.base, True
        rest = [s for a, s in enumerate(more.steps) if a != axis]
        if rest != [s for a, s in enumerate(steps) if a != axis] or more.base != found.base + at * steps[axis]:
            return None
        found, at = Affine(found.base, tuple(steps)), at + own[axis]
    return found


def _counted(node: Node, memo: Memo[Affine]) -> Affine | None:
    """Sums along an axis of equal numbers."""
    x, at = affine(node.input(0), memo), node.input(1).array
    number = None if x is None else x.uniform
    if x is None or number is None or at is None or node.attrs.get("exclusive") or node.attrs.get("reverse"):
        return None
    steps = list(x.steps)
    if steps:
        steps[int(at.reshape(-1)[0])] = number
    return Affine(number, tuple(steps))


def _gathered(node: Node, memo: Memo[Affine]) -> Affine | None:
    x = affine(node.input(0), memo)
    rank, out = node.input(0).type.rank or 0, node.output.type.rank
    if x is None or out is None:
        return None
    if x.uniform is not None:
        return Affine(x.base, (ZERO,) * out)
    places = gathered_places(node, memo)
    if places is None:
        return None
    total = Affine(x.base, (ZERO,) * out)
    for a in range(rank):
        total = total + places[a].times(x.steps[a])
    return total


def gathered_places(node: Node, memo: Memo[Affine]) -> list[Affine] | None:
    """Where a Gather, GatherElements or GatherND takes each element from: the place along each axis of the operand."""
    x, index = node.input(0), node.input(1)
    own, out = extents(x), extents(node.output)
    if own is None or out is None or index.type.rank is None:
        return None
    if node.op == "GatherND":
        if node.attrs.get("batch_dims"):
            return None
        named = _components(index, memo)
        first, width = 0, index.type.rank - 1
        behind = width
    else:
        found = affine(index, memo)
        named = None if found is None else [found]
        first, width = node.attrs.get("axis", 0) % len(own), index.type.rank
        behind = first + width
        if node.op == "GatherElements":
            first, behind = 0, 0
    if named is None:
        return None
    places = [Affine(ZERO, tuple(ONE if i == j else ZERO for i in range(len(out)))) for j in range(len(out))]
    if node.op == "GatherElements":
        axis = node.attrs.get("axis", 0) % len(own)
        places[axis] = named[0]
        moved = places
        chosen = [axis]
    else:
        lead = (ZERO,) * first
        spread = [Affine(p.base, lead + p.steps + (ZERO,) * (len(out) - first - width)) for p in named]
        moved = [*places[:first], *spread, *places[behind:]]
        chosen = list(range(first, first + len(named)))
    if len(moved) != len(own):
        return None
    for a in chosen:
        low, high = moved[a].bounds(out)
        some, whole = filled(out), own[a]
        if low is None or not low.at_least(0, some):
            return None  # it may count from the end
        if high is None or whole is None or not (whole - high).at_least(1, some):
            return None  # it may lie beyond the end
    return moved


def _components(index: Value, memo: Memo[Affine]) -> list[Affine] | None:
    """The numbers along the last axis of an index, one by one, without that axis."""
    node, shape = index.producer, index.type.shape
    if not shape or not isinstance(shape[-1], int):
        return None
    rank = len(shape)
    if shape[-1] == 1:
        found = affine(index, memo)
        return None if found is None else [Affine(found.base, found.steps[:-1])]
    if node is None or node.op != "Concat" or node.attrs["axis"] % rank != rank - 1:
        return None
    parts = [_components(v, memo) for v in node.inputs if v is not None]
    return None if None in parts else [p for part in parts for p in part or ()]


def _compared(node: Node, memo: Memo[Affine]) -> Affine | None:
    a, b, dims = _aligned(node, 0, memo), _aligned(node, 1, memo), extents(node.output)
    if a is None or b is None or dims is None:
        return None
    truth = compared(node.op, a + b.times(Polynomial.of(-1)), dims)
    return None if truth is None else Affine(Polynomial.of(int(truth)), (ZERO,) * len(dims))


def compared(op: str, difference: Affine, dims: Sequence[Polynomial | None]) -> bool | None:
    """What a comparison says of all elements, given how much the first operand is above the second one."""
    low, high = difference.bounds(dims)
    some = filled(dims)
    above = low is not None and low.at_least(1, some)
    below = high is not None and (-high).at_least(1, some)
    no_less = low is not None and low.at_least(0, some)
    no_more = high is not None and (-high).at_least(0, some)
    same = difference.uniform == ZERO
    # op list: what each comparison says of a difference
    yes, no = {
        "Equal": (same, above or below),
        "NotEqual": (above or below, same),
        "Less": (below, no_less),
        "LessOrEqual": (no_more, above),
        "Greater": (above, no_more),
        "GreaterOrEqual": (no_less, below),
    }[op]
    return True if yes else False if no else None


def _logical(node: Node, memo: Memo[Affine]) -> Affine | None:
    known = [None if v is None else affine(v, memo) for v in node.inputs]
    truths = [None if x is None or x.uniform is None else x.uniform.integer for x in known]
    decides = int(node.op == "Or")
    if decides in truths:
        truth = decides
    elif None not in truths:
        truth = 1 - decides
    else:
        return None
    return Affine(Polynomial.of(truth), (ZERO,) * (node.output.type.rank or 0))


def _opposite(node: Node, memo: Memo[Affine]) -> Affine | None:
    x = affine(node.input(0), memo)
    return None if x is None or x.uniform is None else Affine(ONE - x.base, x.steps)


def _chosen(node: Node, memo: Memo[Affine]) -> Affine | None:
    c = affine(node.input(0), memo)
    number = None if c is None or c.uniform is None else c.uniform.integer
    if number is not None:
        return _aligned(node, 1 if number else 2, memo)
    a, b = _aligned(node, 1, memo), _aligned(node, 2, memo)
    return a if a == b else None


# op list: the ops that this analysis has a function for
_RULES: dict[str, Rule] = {
    "Range": _range,
    "Transpose": _transposed,
    "Expand": lambda node, memo: _aligned(node, 0, memo),
    "Slice": _sliced,
    "Cast": _cast,
    "Add": _sum,
    "Sub": _sum,
    "Mul": _product,
    "Neg": _negated,
    "Concat": _joined,
    "CumSum": _counted,
    "Gather": _gathered,
    "GatherElements": _gathered,
    "GatherND": _gathered,
    "Not": _opposite,
    "And": _logical,
    "Or": _logical,
    "Where": _chosen,
    **dict.fromkeys(MIRRORED, _compared),
}
"""Which ops are seen through, and how. Views of any kind are."""
