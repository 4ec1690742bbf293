"""What is known of the contents of small integer tensors: numbers, and dynamic dimensions.

An element is a polynomial of dimensions, `6*N*H+2`; a dimension is a symbol, or one without a name ("?") that is told
from others by the value and axis that it belongs to. Models compute shapes like this: they take parts of shapes, add
and multiply them and put them together. Dimensions are not negative, which decides many comparisons.

Beside each op stands how it computes elements (`@Op.contents`) and where the dimensions of its result come from
(`@Op.dimension`); this module has what many of these rules are written with.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache, reduce
from typing import Any, TypeVar

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, Value
from minnow.schema.ir.type import Dim
from minnow.schema.registry.op import Trait, get

_MAX_ELEMENTS = 64
_MAX_STEPS = 256
_MAX_DEPTH = 96  # each level takes several frames of the stack
_MAX_TERMS = 8
_MAX_FACTORS = 8

Atom = tuple[Value | None, int | str]
"""A dimension: (None, symbol), or (value, axis) for an unknown one."""

Atoms = tuple[Atom, ...]


@dataclass(frozen=True, init=False)
class Polynomial:
    """A sum of numbers times products of atoms.

    Attributes:
        terms: (atoms, number), both in a fixed order; no number is 0.
    """

    terms: tuple[tuple[Atoms, int], ...]

    def __init__(self, number: int = 0, atoms: Atoms = ()) -> None:
        self._set(((tuple(sorted(atoms, key=_order)), number),) if number else ())

    def _set(self, terms: tuple[tuple[Atoms, int], ...]) -> None:
        object.__setattr__(self, "terms", terms)

    @staticmethod
    def of(number: int, *atoms: Atom) -> Polynomial:
        """One term."""
        return Polynomial(number, atoms)

    @staticmethod
    def _sum(terms: Iterable[tuple[Atoms, int]]) -> Polynomial:
        total: dict[Atoms, int] = {}
        for atoms, number in terms:
            total[atoms] = total.get(atoms, 0) + number
        rows = sorted(((a, n) for a, n in total.items() if n), key=lambda t: (-len(t[0]), [_order(a) for a in t[0]]))
        made = Polynomial()
        made._set(tuple(rows))
        return made

    def __add__(self, other: Polynomial) -> Polynomial:
        return Polynomial._sum(t for e in (self, other) for t in e.terms)

    def __neg__(self) -> Polynomial:
        return Polynomial._sum((a, -n) for a, n in self.terms)

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        return Polynomial._sum((tuple(sorted(a + b, key=_order)), m * n) for a, m in self.terms for b, n in other.terms)

    @property
    def number(self) -> int:
        """The number that the atoms are multiplied by; a sum is 1 times an atom of its own."""
        return 0 if not self.terms else self.terms[0][1] if len(self.terms) == 1 else 1

    @property
    def atoms(self) -> Atoms:
        """What the number is multiplied by."""
        return () if not self.terms else self.terms[0][0] if len(self.terms) == 1 else ((None, repr(self)),)

    @property
    def integer(self) -> int | None:
        """Its value if it is a number; None if it depends on the input."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def is_big(self) -> bool:
        """Larger than any formula that models compute shapes with: given up."""
        return len(self.terms) > _MAX_TERMS or any(len(a) > _MAX_FACTORS for a, _ in self.terms)

    def divided(self, other: Polynomial) -> Polynomial | None:
        """The quotient, None where it may leave a remainder for some dimensions above 0."""
        if len(other.terms) != 1:
            dims = [a for atoms, _ in other.terms for a in atoms]
            return Polynomial.of(1) if self == other and other.at_least(1, dims) else None
        ((atoms, divisor),) = other.terms
        out = []
        for mine, number in self.terms:
            rest = list(mine)
            if number % divisor or any(atoms.count(a) > rest.count(a) for a in atoms):
                return None
            for a in atoms:
                rest.remove(a)
            out.append((tuple(rest), number // divisor))
        return Polynomial._sum(out)

    def at_least(self, low: int, filled: Collection[Atom] = ()) -> bool:
        """True when it is certain that it is no less than `low`; `filled` are dimensions known not to be 0."""
        above = self
        if filled:
            # Each of them is 1 more than something that is not negative.
            above = reduce(Polynomial.__add__, (_shifted(a, n, filled) for a, n in self.terms), Polynomial())
        return all(n >= 0 for a, n in above.terms if a) and above._constant >= low

    @property
    def _constant(self) -> int:
        return next((n for a, n in self.terms if not a), 0)

    @property
    def dim(self) -> Dim:
        """As a dimension of a type: a number, a symbol, or a formula of symbols without blanks, `2*N+1`."""
        if self.integer is not None:
            return self.integer
        if self.is_big or any(value is not None for atoms, _ in self.terms for value, _ in atoms):
            return UNKNOWN
        text = ""
        for atoms, number in self.terms:
            factors = [_quoted(str(name)) for _, name in atoms]
            if abs(number) != 1 or not factors:
                factors.insert(0, str(abs(number)))
            text += ("" if not text else "+") if number > 0 else " - " if text else "0 - "
            text += "*".join(factors)
        return text if len(self.terms) > 1 or self.terms[0][1] != 1 or len(self.terms[0][0]) > 1 else str(
            self.terms[0][0][0][1])  # fmt: skip

    def value(self, known: Mapping[str, int]) -> int:
        """The number for given dimensions; KeyError for one that is not given."""
        total = 0
        for atoms, number in self.terms:
            for _, name in atoms:
                number *= known[str(name)]
            total += number
        return total


def _order(atom: Atom) -> tuple[int, str, int]:
    value, name = atom
    return (0, str(name), 0) if value is None else (1, str(name), id(value))


def _shifted(atoms: Atoms, number: int, filled: Collection[Atom]) -> Polynomial:
    factors = (Polynomial.of(1, a) + Polynomial.of(int(a in filled)) for a in atoms)
    return reduce(Polynomial.__mul__, factors, Polynomial.of(number))


_NAME = re.compile(r"[A-Za-z_][\w.]*")
_FACTOR = r"(?:\d+|[A-Za-z_][\w.]*|\([^()]*\))"
_TERM = rf"{_FACTOR}(?:\*{_FACTOR})*"
_FORMULA = re.compile(rf"{_TERM}(?:(?:\+| - ){_TERM})*")


def _quoted(name: str) -> str:
    return name if _NAME.fullmatch(name) else f"({name})"


@lru_cache(4096)
def of_dim(dim: Dim) -> Polynomial:
    """A number, symbol or formula of a type as a dimension.

    Only what is written as `Polynomial.dim` writes it is read as a formula: inputs of models have names like `past + 1`
    that nothing enforces.
    """
    if isinstance(dim, int):
        return Polynomial.of(dim)
    if not _FORMULA.fullmatch(dim) or _NAME.fullmatch(dim):
        return Polynomial.of(1, (None, dim))
    total = Polynomial()
    for sign, text in re.findall(rf"(\+| - |^)({_TERM})", dim):
        term = Polynomial.of(-1 if sign == " - " else 1)
        for factor in re.findall(_FACTOR, text):
            bare = factor[1:-1] if factor.startswith("(") else factor
            term *= Polynomial.of(int(bare)) if bare.isdigit() else Polynomial.of(1, (None, bare))
        total += term
    return total


_MAX_HOPS = 64
_MOST_NESTED = 4
_nested: ContextVar[int] = ContextVar("_nested", default=0)

Hops = list[int]
"""How many values a search may still look at, in a list of one."""

Source = tuple[Value, int] | Polynomial | None
"""Where a dimension of a result comes from: an operand and axis, or its value; None for one that starts here."""


def dimension(value: Value, axis: int) -> Polynomial | None:
    """The dimension of a value along an axis."""
    shape = value.type.shape
    if shape is None:
        return None
    return origin(value, axis % len(shape), [_MAX_HOPS])


def origin(value: Value, axis: int, hops: Hops) -> Polynomial | None:
    """The dimension, named by the first value that has it, however often it is passed on. `axis` counts from 0."""
    while True:
        shape = value.type.shape
        if shape is None:
            return None
        dim = shape[axis]
        if dim != UNKNOWN:
            return of_dim(dim)
        node, hops[0] = value.producer, hops[0] - 1
        found = None if node is None or len(node.outputs) != 1 or hops[0] < 0 else _before(node, axis, hops)
        if isinstance(found, Polynomial):
            return found
        if found is None:
            return Polynomial(1, ((value, axis),))
        value, axis = found


def _before(node: Node, axis: int, hops: Hops) -> Source:
    op = get(node.op)
    if op.dimension_rule is not None:
        found: Source = op.dimension_rule(node, axis, hops)
        return found
    if Trait.ELEMENTWISE in op.traits:
        return broadcast([(v, axis - (node.output.type.rank or 0)) for v in node.inputs if v is not None], hops)
    return None


def broadcast(sources: list[tuple[Value, int]], hops: Hops) -> Source:
    """The dimension that axes, counted from the end, are broadcast to; known where all but those of 1 are the same."""
    left = []
    for v, axis in sources:
        shape = v.type.shape
        if shape is None:
            return None
        if -axis <= len(shape) and shape[axis] != 1:
            left.append((v, axis + len(shape)))
    if len(left) == 1:
        return left[0]
    found = {origin(v, axis, hops) for v, axis in left}
    return found.pop() if len(found) == 1 else None


def of_first(node: Node, axis: int, hops: Hops) -> Source:
    """`@Op.dimension` of ops whose result has the shape of the first operand, whatever the others are."""
    x = node.input(0)
    return None if x.type.shape is None else (x, axis)


def broadcast_first(node: Node, axis: int, hops: Hops) -> Source:
    """`@Op.dimension` of elementwise ops whose other operands stand along an axis of their own."""
    return broadcast([(node.input(0), axis - (node.output.type.rank or 0))], hops)


def element(value: Value, i: int) -> Polynomial | None:
    """An element of a shape; None where it is not known, or shapes are computed from each other too often."""
    depth = _nested.get()
    if depth >= _MOST_NESTED:
        return None
    token = _nested.set(depth + 1)
    try:
        known = contents(value)
    finally:
        _nested.reset(token)
    return known[i] if known is not None and -len(known) <= i < len(known) else None


Known = list[Polynomial | None]
"""Elements in row-major order; None where nothing is known. True is 1."""

Found = TypeVar("Found")


class Memo(dict[Value, "Found | None"]):
    """What was found of values, and how far the search may go.

    Args:
        most: how many values are looked at; a walk over all nodes in their order needs no limit.
    """

    def __init__(self, most: int = _MAX_STEPS) -> None:
        super().__init__()
        self.left = most
        self.depth = 0

    def ask(self, value: Value, find: Callable[[], Found | None]) -> Found | None:
        """What is known of a value; what is asked for while that is found out is not known."""
        if value not in self:
            self[value] = None
            if self.left > 0 and self.depth < _MAX_DEPTH:
                self.left -= 1
                self.depth += 1
                self[value] = find()
                self.depth -= 1
        return self[value]


Rule = Callable[[Node, Memo[Known]], Known | None]


def contents(value: Value, memo: Memo[Known] | None = None) -> Known | None:
    """The elements of a small tensor of integers or booleans; None if none of them is known.

    Args:
        value: any value.
        memo: what was found before, where several values are asked for in a graph that does not change.
    """
    type = value.type
    if type.dtype.is_float or not type.is_static or (type.count or 0) > _MAX_ELEMENTS:
        return None
    known: Memo[Known] = Memo() if memo is None else memo
    return known.ask(value, lambda: _elements(value, known))


def _elements(value: Value, memo: Memo[Known]) -> Known | None:
    if value.data is not None:
        return [Polynomial.of(int(v)) for v in value.data.numpy().reshape(-1)]
    node = value.producer
    if node is None or len(node.outputs) != 1:
        return None
    op = get(node.op)
    rule = op.contents_rule or (_same if Trait.VIEW in op.traits else None)
    found = None if rule is None else rule(node, memo)
    if found is None or len(found) != value.type.count or all(e is None for e in found):
        return None
    return [e if e is not None and _holds(value.type.dtype, e) else None for e in found]


def _holds(dtype: DType, e: Polynomial) -> bool:
    """Whether the type can hold the number: one that wraps around is no dimension."""
    if e.integer is None:
        return dtype in (DType.I64, DType.I32) and not e.is_big
    if dtype.is_storage:
        return False  # of few bits, which numpy does not know: no size
    if dtype is DType.BOOL:
        return e.integer in (0, 1)
    limits = np.iinfo(dtype.numpy.name)
    return int(limits.min) <= e.integer <= int(limits.max)


def _same(node: Node, memo: Memo[Known]) -> Known | None:
    return contents(node.input(0), memo)


def product(factors: Known) -> Polynomial | None:
    """The product; None when a factor is not known."""
    known = [f for f in factors if f is not None]
    return reduce(Polynomial.__mul__, known, Polynomial.of(1)) if len(known) == len(factors) else None


def moved(node: Node, memo: Memo[Known]) -> Known | None:
    """`@Op.contents` of ops that only move elements: the op's own reference moves their indices."""
    x = contents(node.input(0), memo)
    if x is None:
        return None
    rest: list[Any] = []
    for v in node.inputs[1:]:
        numbers = None if v is None else v.array
        if v is not None and numbers is None:
            # Indices that are computed from dimensions, which have become numbers.
            found = contents(v, memo)
            if found is None or any(e is None or e.integer is None for e in found):
                return None
            numbers = np.array([e.integer for e in found if e is not None], np.int64).reshape(v.type.static_shape)
        rest.append(numbers)
    index = np.arange(len(x)).reshape(node.input(0).type.static_shape)
    try:
        (moved,) = get(node.op).evaluate([index, *rest], node.attrs)
    except (ModelError, IndexError, ValueError):
        return None  # an index beyond the end is not ours to report
    return [x[i] for i in moved.reshape(-1)]


def elementwise(combine: Callable[..., Polynomial | None], strict: bool = True) -> Rule:
    """`@Op.contents` of elementwise ops; with `strict` nothing is known where an operand is not."""

    def rule(node: Node, memo: Memo[Known]) -> Known | None:
        shape = node.output.type.static_shape
        rows = []
        for v in node.inputs:
            if v is None or not v.type.is_static:
                return None
            known = contents(v, memo) or [None] * (v.type.count or 0)
            places = np.arange(len(known)).reshape(v.type.static_shape)
            try:
                rows.append([known[i] for i in np.broadcast_to(places, shape).reshape(-1)])
            except ValueError:
                return None
        return [None if strict and None in row else combine(*row) for row in zip(*rows, strict=True)]

    return rule


def truth(yes: bool) -> Polynomial:
    """A boolean as an element."""
    return Polynomial.of(int(yes))


def inverted(e: Polynomial | None) -> Polynomial | None:
    """The negation of a boolean, if it is known."""
    return None if e is None else Polynomial.of(1) - e


def equal(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """Whether both are the same, where that is certain."""
    if a == b:
        return truth(True)
    return truth(False) if (a - b).at_least(1) or (b - a).at_least(1) else None


def different(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """Whether they are not the same, where that is certain."""
    return inverted(equal(a, b))


def less(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """Whether `a` is less, where that is certain."""
    return truth(True) if (b - a).at_least(1) else truth(False) if (a - b).at_least(0) else None


def greatest(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The greater one, where it is certain which one that is."""
    return a if (a - b).at_least(0) else b if (b - a).at_least(0) else None


def least(a: Polynomial, b: Polynomial) -> Polynomial | None:
    """The lesser one, where it is certain which one that is."""
    return b if (a - b).at_least(0) else a if (b - a).at_least(0) else None


def reduced(combine: Callable[[Polynomial, Polynomial], Polynomial | None]) -> Rule:
    """`@Op.contents` of reductions, known where they give one element."""

    def rule(node: Node, memo: Memo[Known]) -> Known | None:
        x = contents(node.input(0), memo)
        if not x or node.output.type.count != 1:
            return None
        total = x[0]
        for e in x[1:]:
            total = None if total is None or e is None else combine(total, e)
        return [total]

    return rule
