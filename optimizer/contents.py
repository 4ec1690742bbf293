"""What is known of the contents of small integer tensors: numbers, and extents that only the input decides.

An element is a product of a number and of extents, `6*N*H`; an extent is a symbol, or "?" told apart by the value and
axis where it stands. This is what shapes are computed with: parts of shapes, taken out, multiplied and put together.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from functools import reduce

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, Value
from minnow.schema.ir.type import Dim
from minnow.schema.ops import Trait, get

_MAX_ELEMENTS = 64
_MAX_STEPS = 256
_MAX_HOPS = 64
_MOST_NESTED = 4
_nested: ContextVar[int] = ContextVar("_nested", default=0)
_SAME_SHAPE = ("LayerNorm", "RMSNorm", "Softmax")

Atom = tuple[Value | None, int | str]
"""An extent: (None, symbol), or (value, axis) for an unknown one."""


@dataclass(frozen=True)
class Extent:
    """`number` times the product of `atoms`, which are in a fixed order."""

    number: int
    atoms: tuple[Atom, ...] = ()

    def __mul__(self, other: Extent) -> Extent:
        if self.number * other.number == 0:
            return Extent(0)
        atoms = sorted(self.atoms + other.atoms, key=_order)
        return Extent(self.number * other.number, tuple(atoms))

    def divided(self, other: Extent) -> Extent | None:
        """The quotient where it goes without a rest whatever the extents are, none of them being 0."""
        if other.number == 0 or self.number % other.number:
            return None
        rest = list(self.atoms)
        for atom in other.atoms:
            if atom not in rest:
                return None
            rest.remove(atom)
        return Extent(self.number // other.number, tuple(rest))

    @property
    def dim(self) -> Dim:
        """As an extent of a type."""
        if not self.atoms or self.number == 0:
            return self.number
        (value, name), *more = self.atoms
        return name if self.number == 1 and not more and value is None and isinstance(name, str) else UNKNOWN


def _order(atom: Atom) -> tuple[int, str, int]:
    value, name = atom
    return (0, str(name), 0) if value is None else (1, str(name), id(value))


def extent(value: Value, axis: int) -> Extent | None:
    """The extent of a value along an axis."""
    shape = value.type.shape
    if shape is None:
        return None
    return _origin(value, axis % len(shape), [_MAX_HOPS])


def _origin(value: Value, axis: int, hops: list[int]) -> Extent | None:
    """The extent, by the first value that it is one of, however often it is handed on."""
    while True:
        shape = value.type.shape
        if shape is None:
            return None
        dim = shape[axis]
        if dim != UNKNOWN:
            return Extent(dim) if isinstance(dim, int) else Extent(1, ((None, dim),))
        node, hops[0] = value.producer, hops[0] - 1
        found = None if node is None or len(node.outputs) != 1 or hops[0] < 0 else _before(node, axis, hops)
        if isinstance(found, Extent):
            return found
        if found is None:
            return Extent(1, ((value, axis),))
        value, axis = found


def _before(node: Node, axis: int, hops: list[int]) -> tuple[Value, int] | Extent | None:
    """The operand and axis that an extent of the result is from, or the extent; None where it is one of its own."""
    rank, x = node.output.type.rank or 0, node.inputs[0] if node.inputs else None
    if Trait.ELEMENTWISE in get(node.op).traits:
        return _broadcast([(v, axis - rank) for v in node.inputs if v is not None], hops)
    if x is None or x.type.shape is None:
        return None
    if node.op == "Attention":
        return _of_attention(node, axis, rank, hops)
    if node.op == "Transpose":
        return x, node.attrs["perm"][axis]
    if node.op == "Unsqueeze" and not node.has_input(1):
        new = {a % rank for a in node.attrs["axes"]}
        return x, axis - sum(a < axis for a in new)
    if node.op in ("Reshape", "Expand"):
        copies = node.op == "Reshape" and not node.attrs.get("allowzero")
        target = _element(node.input(1), axis if node.op == "Reshape" else axis - rank)
        at = axis if node.op == "Reshape" else axis - rank + len(x.type.shape)
        if node.op == "Expand" and target is not None and (at < 0 or x.type.shape[at] == 1):
            return target
        if node.op == "Expand":
            return target if target is not None and at >= 0 and target == _origin(x, at, hops) else None
        if target is not None and target.number > 0:
            return target
        return (x, at) if copies and target == Extent(0) and at < len(x.type.shape) else None
    if node.op == "Range" and [_element(v, 0) for v in (x, node.input(2))] == [Extent(0), Extent(1)]:
        end = _element(node.input(1), 0)
        return end if end is not None and end.number >= 0 else None
    if node.op == "MatMul" and (node.attrs.get("transpose_a") or node.input(1).type.rank != 2):
        return None
    return (x, axis) if node.op in _SAME_SHAPE or (node.op in ("Linear", "MatMul") and axis < rank - 1) else None


def _broadcast(sources: list[tuple[Value, int]], hops: list[int]) -> tuple[Value, int] | Extent | None:
    """The extent that axes, counted from the end, have together: those that may not be 1 are one and the same."""
    left = []
    for v, axis in sources:
        shape = v.type.shape
        if shape is None:
            return None
        if -axis <= len(shape) and shape[axis] != 1:
            left.append((v, axis + len(shape)))
    if len(left) == 1:
        return left[0]
    found = {_origin(v, axis, hops) for v, axis in left}
    return found.pop() if len(found) == 1 else None


def _of_attention(node: Node, axis: int, rank: int, hops: list[int]) -> tuple[Value, int] | Extent | None:
    """Batch and queries are those of the operands, and of masks."""
    q, *others = node.inputs
    masks = [(v, -4 if axis == 0 else -2) for v in others[4:] if v is not None]
    if q is None or axis not in (0, rank - 2):
        return None
    if axis == 0:
        return _broadcast([*((v, -(v.type.rank or 0)) for v in (q, *others[:2]) if v is not None), *masks], hops)
    return _broadcast([(q, -2), *masks], hops)


def _element(value: Value, i: int) -> Extent | None:
    """An element of a shape, where shapes are not computed from each other too often."""
    depth = _nested.get()
    if depth >= _MOST_NESTED:
        return None
    token = _nested.set(depth + 1)
    try:
        known = contents(value)
    finally:
        _nested.reset(token)
    return known[i] if known is not None and -len(known) <= i < len(known) else None


Known = list[Extent | None]
"""Elements in row-major order; None where nothing is known. True is 1."""

Memo = dict[Value, Known | None]
Rule = Callable[[Node, Memo], Known | None]


def contents(value: Value, memo: Memo | None = None) -> Known | None:
    """The elements of a small tensor of integers or truth values; None when nothing is known of any.

    Args:
        value: any value.
        memo: what was found before, where several values are asked for in a graph that does not change.
    """
    memo = {} if memo is None else memo
    if value not in memo:
        type = value.type
        small = not type.dtype.is_float and type.is_static and (type.count or 0) <= _MAX_ELEMENTS
        # A computation this long is none of extents; and each of its steps is a level of the stack.
        memo[value] = _elements(value, memo) if small and len(memo) < _MAX_STEPS else None
    return memo[value]


def _elements(value: Value, memo: Memo) -> Known | None:
    if value.data is not None:
        return [Extent(int(v)) for v in value.data.numpy().reshape(-1)]
    node = value.producer
    if node is None or len(node.outputs) != 1:
        return None
    memo[value] = None
    rule = _RULES.get(node.op, _same if Trait.VIEW in get(node.op).traits else None)
    found = None if rule is None else rule(node, memo)
    if found is None or len(found) != value.type.count:
        return None
    return [e if e is None or _holds(value.type.dtype, e) else None for e in found]


def _holds(dtype: DType, e: Extent) -> bool:
    """The type has the number; what it has not wraps around, which is nothing that extents do."""
    if e.atoms:
        return dtype in (DType.I64, DType.I32)
    if dtype is DType.BOOL:
        return e.number in (0, 1)
    limits = np.iinfo(dtype.numpy.name)
    return int(limits.min) <= e.number <= int(limits.max)


def _same(node: Node, memo: Memo) -> Known | None:
    return contents(node.input(0), memo)


def _shape(node: Node, memo: Memo) -> Known | None:
    x = node.input(0)
    if x.type.shape is None:
        return None
    return [extent(x, a) for a in range(len(x.type.shape))[slice(node.attrs.get("start", 0), node.attrs.get("end"))]]


def _size(node: Node, memo: Memo) -> Known | None:
    x = node.input(0)
    return None if x.type.shape is None else [_product([extent(x, a) for a in range(len(x.type.shape))])]


def _product(factors: Known) -> Extent | None:
    known = [f for f in factors if f is not None]
    return reduce(Extent.__mul__, known, Extent(1)) if len(known) == len(factors) else None


def _moved(node: Node, memo: Memo) -> Known | None:
    """For ops that only move elements: the op's own reference moves their indices."""
    x = contents(node.input(0), memo)
    rest = node.inputs[1:]
    if x is None or any(v is not None and v.data is None for v in rest):
        return None
    index = np.arange(len(x)).reshape(node.input(0).type.static_shape)
    try:
        (moved,) = get(node.op).evaluate([index, *(None if v is None else v.array for v in rest)], node.attrs)
    except (ModelError, IndexError, ValueError):
        return None  # an index beyond the end is not ours to report
    return [x[i] for i in moved.reshape(-1)]


def _concat(node: Node, memo: Memo) -> Known | None:
    parts = [v for v in node.inputs if v is not None]
    if node.output.type.rank != 1 or not all(v.type.is_static for v in parts):
        return None
    # What is not known of one part leaves the others as they are.
    return [e for v in parts for e in contents(v, memo) or [None] * (v.type.count or 0)]


def _elementwise(combine: Callable[..., Extent | None]) -> Rule:
    """Operands of one element, or of equally many."""

    def rule(node: Node, memo: Memo) -> Known | None:
        operands = [contents(v, memo) for v in node.inputs if v is not None]
        known = [o for o in operands if o is not None]
        sizes = {len(o) for o in known} - {1}
        if len(known) != len(operands) or len(sizes) > 1 or 0 in sizes:
            return None
        rows = zip(*(o * max(sizes) if len(o) == 1 and sizes else o for o in known), strict=True)
        return [None if None in row else combine(*row) for row in rows]

    return rule


def _number(function: Callable[[int, int], int]) -> Callable[[Extent, Extent], Extent | None]:
    """An operation that is only done with numbers."""
    return lambda a, b: None if a.atoms or b.atoms else Extent(function(a.number, b.number))


def _sum(a: Extent, b: Extent) -> Extent | None:
    if a.atoms == b.atoms:
        total = a.number + b.number
        return Extent(total, a.atoms if total else ())
    return a if b.number == 0 else b if a.number == 0 else None


def _quotient(a: Extent, b: Extent) -> Extent | None:
    if not a.atoms and not b.atoms and b.number:
        # Integers are divided towards zero.
        return Extent(abs(a.number) // abs(b.number) * (1 if (a.number < 0) == (b.number < 0) else -1))
    return a.divided(b)


def _equal(a: Extent, b: Extent) -> Extent | None:
    if a == b:
        return Extent(1)
    # Extents are not negative.
    known = not (a.atoms or b.atoms) or (a.number > 0 > b.number) or (b.number > 0 > a.number)
    return Extent(0) if known else None


def _chosen(c: Extent, a: Extent, b: Extent) -> Extent | None:
    return None if c.atoms else a if c.number else b


def _product_of_all(node: Node, memo: Memo) -> Known | None:
    x = contents(node.input(0), memo)
    return None if x is None or node.output.type.count != 1 else [_product(x)]


_RULES: dict[str, Rule] = {
    "Shape": _shape,
    "Size": _size,
    "Gather": _moved,
    "Slice": _moved,
    "Cast": _same,
    "Concat": _concat,
    "Add": _elementwise(_sum),
    "Sub": _elementwise(lambda a, b: _sum(a, Extent(-b.number, b.atoms))),
    "Mul": _elementwise(Extent.__mul__),
    "Div": _elementwise(_quotient),
    "Max": _elementwise(_number(max)),
    "Min": _elementwise(_number(min)),
    "Equal": _elementwise(_equal),
    "Where": _elementwise(_chosen),
    "ReduceProd": _product_of_all,
}
"""Which ops are seen through, and how. Views of any kind are."""
