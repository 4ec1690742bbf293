"""What a loop over time does in each round: its counters, and the rows that it reads and stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get
from minnow.schema.registry.op import ops_with
from minnow.schema.registry.symbolic import contents, dimension

Array = np.ndarray[Any, Any]
_MOST_ROUNDS = 4096
_MOST_NODES = 64  # that compute a place
_VIEWS = ops_with(Trait.VIEW)
_KEEP_NUMBERS = (*_VIEWS, "Cast")
_WIDE = (DType.I32, DType.I64)


class NoMatchError(Exception):
    """The loop is no recurrent layer."""


def evaluated(value: Value, known: Mapping[Value, Array]) -> Array:
    """The elements of a value that depends on constants only. Raises NoMatchError for others."""
    return _evaluated(value, dict(known), _MOST_NODES)


def _evaluated(value: Value, known: dict[Value, Array], left: int) -> Array:
    if value in known:
        return known[value]
    if value.data is not None:
        return np.asarray(value.data.numpy())
    node = value.producer
    if node is None or left <= 0 or any(isinstance(a, Graph) for a in node.attrs.values()):
        raise NoMatchError
    inputs = [None if v is None else _evaluated(v, known, left - 1) for v in node.inputs]
    try:
        made = get(node.op).evaluate(inputs, node.attrs)
    except (MinnowError, ValueError, IndexError):
        raise NoMatchError from None
    if made is None or value.index >= len(made):
        raise NoMatchError
    known[value] = np.asarray(made[value.index])
    return known[value]


class Counted:
    """A loop of which it is known how often it runs, or what number says so.

    Attributes:
        outside: for each parameter of the body what it is before the first round.
        rounds: how many there are; None where `trips` says it.
        trips: the number of rounds as an operand.

    Raises:
        NoMatchError: neither is known.
    """

    def __init__(self, node: Node) -> None:
        self.node, self.body = node, node.attrs["body"]
        n = node.attrs["num_carried"]
        values = [v for v in node.inputs[2:] if v is not None]
        if len(values) != len(self.body.params) - 2:
            raise NoMatchError
        self.outside = dict(zip(self.body.params[2:], values, strict=True))
        self.carried = list(zip(self.body.params[2 : 2 + n], self.body.outputs[1 : 1 + n], strict=True))
        self.scans = self.body.outputs[1 + n :]
        self.starts = {p: self._start(p, r) for p, r in self.carried if self._counts(p, r)}
        self.trips = node.input(0) if node.has_input(0) else None
        self.rounds = self._rounds()

    def _counts(self, param: Value, after: Value) -> bool:
        node, first = after.producer, self.outside[param]
        if (
            node is None
            or node.op != "Add"
            or first.data is None
            or first.type.count != 1
            or not first.type.dtype.is_int
        ):
            return False
        a, b = node.input(0), node.input(1)
        step = b if a is param else a if b is param else None
        return (
            step is not None and step.data is not None and step.type.count == 1 and int(step.data.numpy().item()) == 1
        )

    def _start(self, param: Value, after: Value) -> int:
        data = self.outside[param].data
        assert data is not None
        return int(data.numpy().item())

    def at(self, t: int) -> dict[Value, Array]:
        """What the counters are in round t."""
        known = {p: np.full([1] * (p.type.rank or 0), s + t, p.type.dtype.numpy) for p, s in self.starts.items()}
        iteration, go_on = self.body.params[:2]
        known[iteration] = np.full([1] * (iteration.type.rank or 0), t, iteration.type.dtype.numpy)
        known[go_on] = np.full([1] * (go_on.type.rank or 0), True)
        return known

    def _rounds(self) -> int | None:
        cond = self.node.input(1) if self.node.has_input(1) else None
        if cond is not None and (cond.data is None or not bool(np.all(cond.data.numpy()))):
            raise NoMatchError
        if self.trips is not None and self.trips.type.count != 1:
            raise NoMatchError
        most = None if self.trips is None or self.trips.data is None else int(self.trips.data.numpy().item())
        if most is not None and most <= 0:
            raise NoMatchError
        go_on = self.body.outputs[0]
        if go_on is self.body.params[1] or (go_on.data is not None and bool(np.all(go_on.data.numpy()))):
            if self.trips is None:
                raise NoMatchError
            return most
        if self.trips is not None and most is None:
            raise NoMatchError
        for t in range(_MOST_ROUNDS if most is None else min(most, _MOST_ROUNDS)):
            if not bool(np.all(evaluated(go_on, self.at(t)))):
                return t + 1
        if most is None or most > _MOST_ROUNDS:
            raise NoMatchError
        return most

    def _samples(self, rounds: int) -> list[int]:
        """Rounds that stand for all: what is linear in the round is known by these."""
        return sorted({0, min(1, rounds - 1), rounds - 1})

    def states(self) -> list[tuple[Value, Value]]:
        """The carried floats of two axes: what they are in a round, and after it."""
        floats = (DType.F32, DType.F64)
        return [
            (p, r)
            for p, r in self.carried
            if p.type.dtype in floats and p.type.rank == 2 == self.outside[p].type.rank and r is not p
        ]

    def sequence_of(self, row: Value) -> Value | None:
        """The sequence from outside that a value is the row of this round of; None when it is no such row."""
        node = row.producer
        if node is None or node.op != "Gather" or node.attrs.get("axis", 0) != 0 or node.input(1).type.rank != 0:
            return None
        whole = node.input(0)
        outer = self.outside.get(whole)
        if outer is None or outer.type.rank != 3 or any(p is whole and r is not p for p, r in self.carried):
            return None
        return outer if self._is_round(node.input(1)) else None

    def _is_round(self, index: Value) -> bool:
        """The value is the number of the round."""
        plain = index
        while plain.producer is not None and plain.producer.op in _KEEP_NUMBERS and plain.type.dtype in _WIDE:
            plain = plain.producer.input(0)
        if plain is self.body.params[0] or plain in self.starts:
            return self.starts.get(plain, 0) == 0
        if self.rounds is None or self.rounds > _MOST_ROUNDS:
            return False
        try:
            return all(evaluated(index, self.at(t)).tolist() == t for t in range(self.rounds))
        except NoMatchError:
            return False

    def rows(self, b: Builder, x: Value) -> Value:
        """As much of a sequence as the rounds read; like the loop it fails at run time where there is less.

        Raises:
            NoMatchError: there is less.
        """
        first = np.zeros(1, np.int64)
        length = dimension(x, 0)
        known = None if length is None else length.integer
        if self.rounds is not None and known is not None:
            if known < self.rounds:
                raise NoMatchError
            return x if known == self.rounds else b.Slice(x, first, np.array([self.rounds]), first)
        if self.rounds is not None:
            return b.Gather(x, np.arange(self.rounds), axis=0)
        counted = None if self.trips is None else contents(self.trips)
        if counted is not None and counted[0] is not None and counted[0] == length:
            return x
        return b.Gather(x, b.Range(np.array(0), self._number(b), np.array(1)), axis=0)

    def _number(self, b: Builder) -> Value:
        """The operand as an i64 scalar."""
        assert self.trips is not None
        wide = self.trips if self.trips.type.dtype is DType.I64 else b.Cast(self.trips, to=DType.I64)
        return wide if wide.type.rank == 0 else b.Reshape(wide, np.zeros(0, np.int64))

    def count(self, b: Builder, start: int, like: Value) -> Value:
        """A counter behind the last round."""
        shape, dtype = [1] * (like.type.rank or 0), like.type.dtype
        if self.rounds is not None:
            return Value.constant(np.full(shape, start + self.rounds, dtype.numpy))
        rounds = b.Cast(b.Add(b.Max(self._number(b), np.array(0)), np.array(start)), to=dtype)
        return b.Reshape(rounds, np.array(shape, np.int64)) if shape else rounds

    def results(self, states: Sequence[Value]) -> list[tuple[str, Any]]:
        """What each output of the loop is: ("state", which), ("rows", None), ("last row", the one before the first
        round), ("count", where it starts) or ("value", it)."""
        after = dict(self.carried)
        found: list[tuple[str, Any]] = []
        for (param, result), out in zip(self.carried, self.node.outputs, strict=False):
            if param in states:
                found.append(("state", states.index(param)))
            elif param in self.starts:
                found.append(("count", self.starts[param]))
            elif result is param:
                found.append(("value", self.outside[param]))
            elif out.uses:
                kind = self._list(param, result, after[states[0]])
                found.append((kind, None if kind == "rows" else self.outside[param]))
            else:
                found.append(("value", None))
        for scan, out in zip(self.scans, self.node.outputs[len(self.carried) :], strict=True):
            if scan is not after[states[0]] and out.uses:
                raise NoMatchError
            found.append(("rows", None))
        return found

    def _list(self, param: Value, result: Value, row: Value) -> str:
        """How the rounds fill a list with their rows: one behind the other, or each in place of the one before."""
        node, dims = result.producer, self.outside[param].type.shape
        if viewed(result) is row and result.type.rank == 3 and dims is not None and dims[:1] == (1,):
            if node is not None and node.op == "Unsqueeze" and node.input(0) is row and node.attrs.get("axes") == (0,):
                return "last row"
            if row.type.is_static and result.type.shape == (1, *row.type.static_shape):
                return "last row"
        if node is None or node.op != "Concat" or node.attrs["axis"] != 0 or len(node.inputs) != 3 or dims is None:
            raise NoMatchError
        if self.rounds is None or viewed(node.input(1)) is not row or dims[0] != self.rounds:
            raise NoMatchError
        size = [d if isinstance(d, int) else 3 for d in dims]
        places = np.arange(self.rounds).reshape(-1, *[1] * (len(size) - 1)) + np.zeros(size)
        for t in self._samples(self.rounds):
            known = {**self.at(t), param: places}
            before, behind = (evaluated(node.input(i), known) for i in (0, 2))
            if not np.array_equal(before, places[:t]) or not np.array_equal(behind, places[t + 1 :]):
                raise NoMatchError
        return "rows"


def viewed(value: Value) -> Value:
    """What the elements of the value are, whatever its shape."""
    while value.producer is not None and value.producer.op in _VIEWS:
        value = value.producer.input(0)
    return value
