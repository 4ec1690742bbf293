"""Patterns over the graph: a traced function over placeholders, and the matcher.

    lambda p, x: p.Mul(x, p.Sigmoid(x))

Parameters after `p` are placeholders: each matches any value, the same one everywhere in the pattern. Numbers match
constants whose every element is that number (relative tolerance 1e-4), where the constant does not change the shape.
`p.const("k")` matches any constant, `a | b` either of two patterns, a last operand `...` any further operands. Operands
of commutative ops match in both orders. Keyword arguments constrain attributes, by value or by a function of it:
`p.Conv(x, w, ..., group=1, pads=lambda pads: not any(pads), as_="conv")`; `as_` names the node for the rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from types import EllipsisType
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Trait, get
from minnow.schema.registry.symbolic import dimension

_REL_TOL = {DType.F64: 1e-15, DType.F16: 2.0**-11, DType.BF16: 2.0**-9}
_REL_TOL_ELSE = 1e-4


@dataclass(eq=False)
class Term:
    """One place of a pattern."""

    def __or__(self, other: Any) -> Either:
        return Either((self, _term(other)))


@dataclass(eq=False)
class Any_(Term):
    """Any value, the same one wherever the name appears."""

    name: str


@dataclass(eq=False)
class Const(Term):
    """Any constant; the name binds it."""

    name: str


@dataclass(eq=False)
class Literal(Term):
    """A constant whose every element is this number."""

    number: float


@dataclass(eq=False)
class Either(Term):
    """The first alternative that matches."""

    terms: tuple[Term, ...]

    def __or__(self, other: Any) -> Either:
        return Either((*self.terms, _term(other)))


@dataclass(eq=False)
class Call(Term):
    """The only output of a node of this op."""

    op: str
    operands: tuple[Term, ...]
    open: bool
    attrs: tuple[tuple[str, Any], ...]
    name: str

    @cached_property
    def commutative(self) -> bool:
        return Trait.COMMUTATIVE in get(self.op).traits and len(self.operands) == 2

    @cached_property
    def orders(self) -> tuple[tuple[Term, ...], ...]:
        """The orders in which operands may stand."""
        return (self.operands, self.operands[::-1]) if self.commutative else (self.operands,)


def _term(x: Any) -> Term:
    return x if isinstance(x, Term) else Literal(float(x))


class Tracer:
    """The `p` of a pattern: `p.Conv(...)` makes a Call."""

    def __getattr__(self, op: str) -> Callable[..., Call]:
        if not op[:1].isupper():
            raise AttributeError(op)
        get(op)

        def call(*operands: Any, as_: str = "", **attrs: Any) -> Call:
            is_open = bool(operands) and isinstance(operands[-1], EllipsisType)
            terms = tuple(_term(o) for o in (operands[:-1] if is_open else operands))
            return Call(op, terms, is_open, tuple(attrs.items()), as_)

        return call

    @staticmethod
    def const(name: str) -> Const:
        return Const(name)

    @staticmethod
    def any(name: str) -> Any_:
        return Any_(name)


def trace(function: Callable[..., Any]) -> tuple[Call, ...]:
    """The pattern of a function `(p, placeholders...)`; alternatives at the root become several calls."""
    code = function.__code__
    names = code.co_varnames[1 : code.co_argcount]
    root = function(Tracer(), *map(Any_, names))
    terms = root.terms if isinstance(root, Either) else (root,)
    flat = [t for term in terms for t in (term.terms if isinstance(term, Either) else (term,))]
    calls = tuple(t for t in flat if isinstance(t, Call))
    if len(calls) != len(flat):
        raise TypeError("the root of a pattern is an op")
    return calls


@dataclass
class Match:
    """Bindings of a successful match: `m.x` is the value or node bound to the name `x`.

    Attributes:
        root: the node that the pattern's root matched.
        nodes: all matched nodes, the root first.
        reason: why the rule does not apply after all, set by `no`.
    """

    root: Node
    nodes: list[Node] = field(default_factory=list)
    bound: dict[str, Any] = field(default_factory=dict)
    reason: str = ""

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["bound"][name]
        except KeyError:
            raise AttributeError(name) from None

    def no(self, reason: str) -> Any:
        """None, and says why the rule does not apply: `return m.no("the bias is not per channel")`."""
        self.reason = reason


class Matcher:
    """Matches one pattern at a node.

    Attributes:
        why: reason of that failure of the last attempt which came latest.
        matched: how late: two for each node that had matched before, one for an op that was right but for the rest.
    """

    def __init__(self, pattern: Call) -> None:
        self.pattern = pattern
        self.why = ""
        self.matched = -1
        self._explain = True
        self._fewest, self._open = len(pattern.operands), pattern.open
        self._orders = [
            [(i, *kinds) for i, term in enumerate(order) if (kinds := _kinds(term)) is not None]
            for order in pattern.orders
        ]
        names = [term.name for term in pattern.operands if isinstance(term, (Any_, Const))]
        is_flat = len({*names, pattern.name}) == len(pattern.operands) + 1
        self._flat = [
            [(term.name, isinstance(term, Const)) for term in order if isinstance(term, (Any_, Const))]
            for order in (pattern.orders if is_flat else ())
        ]

    def may_match(self, root: Node) -> bool:
        """False where a look at what makes the operands tells that `match` would find nothing; most often it does."""
        inputs = root.inputs
        if len(inputs) < self._fewest or (len(inputs) > self._fewest and not self._open):
            return False
        for order in self._orders:
            for i, ops, constant in order:
                value = inputs[i]
                if value is None:
                    break
                if value.data is not None:
                    if not constant:
                        break
                elif value.producer is None or value.producer.op not in ops:
                    break
            else:
                return True
        return False

    def match(self, root: Node, explain: bool = True) -> Match | None:
        """The first match at this node. Without `explain` it may leave unsaid why there is none."""
        self.why, self.matched, self._explain = "", -1, explain
        if self._flat and not explain:
            return self._directly(root)
        return next(self._node(self.pattern, root, Match(root)), None)

    def _directly(self, root: Node) -> Match | None:
        """The match of a pattern of one op whose operands are called differently."""
        inputs = root.inputs
        fits = len(inputs) == self._fewest or (self._open and len(inputs) > self._fewest)
        if not fits or not all(_has(root, name, want) for name, want in self.pattern.attrs):
            return None
        for order in self._flat:
            bound: dict[str, Any] = {self.pattern.name: root} if self.pattern.name else {}
            for value, (name, constant) in zip(inputs, order, strict=False):
                if value is None or (constant and value.data is None):
                    break
                bound[name] = value
            else:
                return Match(root, [root], bound)
        return None

    def _no(self, m: Match, reason: Callable[[], str], right_op: bool = False) -> None:
        if (late := 2 * len(m.nodes) + right_op) > self.matched:
            self.matched, self.why = late, reason() if self._explain else ""

    def _node(self, term: Call, node: Node, m: Match) -> Iterator[Match]:
        if node.op != term.op:
            return self._no(m, lambda: f"expected {term.op}, found {node.op} ({node.origin})")
        if len(node.inputs) < len(term.operands) or (len(node.inputs) > len(term.operands) and not term.open):
            return self._no(m, lambda: f"{node.op} has {len(node.inputs)} inputs ({node.origin})", True)
        for name, want in term.attrs:
            if not _has(node, name, want):
                return self._no(m, partial(_found, node, name), True)
        bound = {**m.bound, term.name: node} if term.name else m.bound
        here = Match(m.root, [*m.nodes, node], bound)
        for order in term.orders:
            yield from self._operands(order, node, 0, here)
        return None

    def _operands(self, terms: tuple[Term, ...], node: Node, i: int, m: Match) -> Iterator[Match]:
        if i == len(terms):
            yield m
            return None
        if isinstance(terms[i], Literal) and not _keeps_shape(node, i):
            return self._no(m, lambda: f"the constant {node.inputs[i]!r} changes the shape of {node.op}")
        for found in self._value(terms[i], node.inputs[i], m):
            yield from self._operands(terms, node, i + 1, found)
        return None

    def _value(self, term: Term, value: Value | None, m: Match) -> Iterator[Match]:
        if value is None:
            return self._no(m, lambda: "an operand is missing")
        if isinstance(term, Either):
            for option in term.terms:
                yield from self._value(option, value, m)
        elif isinstance(term, Call):
            if value.producer is None or len(value.producer.outputs) != 1:
                return self._no(m, lambda: f"expected {term.op}, found {value!r}")
            yield from self._node(term, value.producer, m)
        elif isinstance(term, Literal):
            if not is_number(value, term.number):
                return self._no(m, lambda: f"expected the constant {term.number:g}, found {value!r}")
            yield m
        elif isinstance(term, (Any_, Const)):
            if isinstance(term, Const) and not value.is_const:
                return self._no(m, lambda: f"{value!r} is not constant")
            if m.bound.get(term.name, value) is not value:
                return self._no(m, lambda: f"'{term.name}' stands for two different values")
            yield Match(m.root, m.nodes, {**m.bound, term.name: value})
        return None


def _attr(node: Node, name: str) -> Any:
    return node.attrs[name] if name in node.attrs else get(node.op).attrs[name].default


def _has(node: Node, name: str, want: Any) -> bool:
    have = _attr(node, name)
    return bool(want(have) if callable(want) else have == want)


def _found(node: Node, name: str) -> str:
    return f"{node.op} has {name}={_attr(node, name)} ({node.origin})"


def _kinds(term: Term) -> tuple[frozenset[str], bool] | None:
    """Ops of which one must make what the term matches, and whether it may be a constant; None: it may be anything."""
    if isinstance(term, Any_):
        return None
    if isinstance(term, Call):
        return frozenset({term.op}), False
    if isinstance(term, Either):
        kinds = [_kinds(option) for option in term.terms]
        known = [k for k in kinds if k is not None]
        if len(known) < len(kinds):
            return None
        return frozenset().union(*(ops for ops, _ in known)), any(constant for _, constant in known)
    return frozenset(), True


def tolerance_of(dtype: DType) -> float:
    """The share of itself by which a constant of this type may differ from the number that it stands for."""
    return _REL_TOL.get(dtype, _REL_TOL_ELSE)


def is_number(value: Value, number: float) -> bool:
    """The value is a constant whose every element is `number`, up to a relative tolerance of 1e-4.

    Doubles are taken at their word: to them a constant of float32 is another number. Those of 16 bits are the nearest.
    """
    if value.data is None or 0 in value.data.shape or math.prod(value.data.shape) > 4096:
        return False
    tolerance = tolerance_of(value.type.dtype)
    elements = value.data.numpy().astype(np.float64)
    first = float(elements.flat[0])
    if first != number and not abs(first - number) <= tolerance * abs(number) < math.inf:
        return False
    return elements.size == 1 or bool(np.allclose(elements, number, rtol=tolerance, atol=0))


def same_shape(a: Value, b: Value) -> bool:
    """Both shapes are known to be equal."""
    x, y = a.type.shape, b.type.shape
    if x is None or y is None or len(x) != len(y):
        return False
    return all(
        same_dim(p, q) or (p == q and dimension(a, i) == dimension(b, i))
        for i, (p, q) in enumerate(zip(x, y, strict=True))
    )


def _keeps_shape(node: Node, i: int) -> bool:
    """The constant operand `i` of a binary node takes its shape from the other one."""
    constant, other = node.inputs[i], node.inputs[1 - i] if len(node.inputs) == 2 else None
    if constant is None or constant.data is None or other is None:
        return True
    shape = constant.data.shape
    if all(d == 1 for d in shape) and len(shape) <= (other.type.rank or 0):
        return True
    return same_shape(other, node.output)
