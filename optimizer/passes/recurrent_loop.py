"""What a loop over time does in each round: its counters, the rows that it reads and stores, sums of products."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.schema.errors import MinnowError
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import get

Array = np.ndarray[Any, Any]
_MOST_ROUNDS = 4096
_MOST_NODES = 64  # that compute a place
_MOST_TERMS = 16


class NoMatchError(Exception):
    """The loop is no recurrent layer."""


def evaluated(value: Value, known: Mapping[Value, Array], left: int = _MOST_NODES) -> Array:
    """The numbers of a value that hangs on known ones alone. Raises NoMatchError for others."""
    if value in known:
        return known[value]
    if value.data is not None:
        return np.asarray(value.data.numpy())
    node = value.producer
    if node is None or left <= 0 or any(isinstance(a, Graph) for a in node.attrs.values()):
        raise NoMatchError
    inputs = [None if v is None else evaluated(v, known, left - 1) for v in node.inputs]
    try:
        made = get(node.op).evaluate(inputs, node.attrs)
    except (MinnowError, ValueError, IndexError):
        raise NoMatchError from None
    if made is None or value.index >= len(made):
        raise NoMatchError
    return np.asarray(made[value.index])


class Counted:
    """A loop whose number of rounds is known.

    Attributes:
        outside: for each parameter of the body what it is before the first round.
        rounds: how many there are.

    Raises:
        NoMatchError: it is not known.
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
        self.rounds = self._rounds()
        self._sequence: Value | None = None

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

    def _rounds(self) -> int:
        trip, cond = (self.node.input(i) if self.node.has_input(i) else None for i in (0, 1))
        if cond is not None and (cond.data is None or not bool(np.all(cond.data.numpy()))):
            raise NoMatchError
        if trip is not None and (trip.data is None or trip.type.count != 1):
            raise NoMatchError
        most = _MOST_ROUNDS if trip is None or trip.data is None else int(trip.data.numpy().item())
        if not 0 < most <= _MOST_ROUNDS:
            raise NoMatchError
        if self.body.outputs[0] is self.body.params[1]:
            return most
        for t in range(most):
            if not bool(np.all(evaluated(self.body.outputs[0], self.at(t)))):
                return t + 1
        if trip is None:
            raise NoMatchError
        return most

    def samples(self) -> list[int]:
        """Rounds that stand for all: what is linear in the round is known by these."""
        return sorted({0, min(1, self.rounds - 1), self.rounds - 1})

    def states(self) -> list[tuple[Value, Value]]:
        """The carried floats of two axes: what they are in a round, and after it."""
        return [(p, r) for p, r in self.carried if p.type.dtype is DType.F32 and p.type.rank == 2 and r is not p]

    def is_now(self, value: Value) -> bool:
        """The value is the row of this round of a sequence from outside, which there can be one of."""
        node = value.producer
        if node is None or node.op != "Gather" or node.attrs.get("axis", 0) != 0:
            return False
        whole, index = node.input(0), node.input(1)
        outer = self.outside.get(whole)
        invariant = outer is not None and all(p is not whole or r is p for p, r in self.carried)
        if not invariant or outer is None or outer.type.rank != 3 or (outer.type.shape or (0,))[0] != self.rounds:
            return False
        try:
            if any(evaluated(index, self.at(t)).tolist() != t for t in self.samples()):
                return False
        except NoMatchError:
            return False
        if self._sequence is not None and self._sequence is not outer:
            return False
        self._sequence = outer
        return True

    def sequence(self) -> Value:
        """The sequence that the rounds read."""
        if self._sequence is None:
            raise NoMatchError
        return self._sequence

    def results(self, states: Sequence[Value]) -> list[tuple[str, Any]]:
        """What each output of the loop is: ("state", which), ("rows", None), ("last row", None) or ("value", it)."""
        after = dict(self.carried)
        found: list[tuple[str, Any]] = []
        for (param, result), out in zip(self.carried, self.node.outputs, strict=False):
            if param in states:
                found.append(("state", states.index(param)))
            elif param in self.starts:
                number = np.full([1] * (param.type.rank or 0), self.starts[param] + self.rounds, param.type.dtype.numpy)
                found.append(("value", Value.constant(number)))
            elif result is param:
                found.append(("value", self.outside[param]))
            elif out.uses:
                found.append((self._list(param, result, after[states[0]]), None))
            else:
                found.append(("value", None))
        for scan, out in zip(self.scans, self.node.outputs[len(self.carried) :], strict=True):
            if scan is not after[states[0]] and out.uses:
                raise NoMatchError
            found.append(("rows", None))
        return found

    def _list(self, param: Value, result: Value, row: Value) -> str:
        """How the rounds fill a list with their rows: one behind the other, or each in place of the one before."""
        if viewed(result) is row:
            return "last row"
        node, dims = result.producer, self.outside[param].type.shape
        if node is None or node.op != "Concat" or node.attrs["axis"] != 0 or len(node.inputs) != 3 or dims is None:
            raise NoMatchError
        if viewed(node.input(1)) is not row or dims[0] != self.rounds:
            raise NoMatchError
        size = [d if isinstance(d, int) else 3 for d in dims]
        places = np.arange(self.rounds).reshape(-1, *[1] * (len(size) - 1)) + np.zeros(size)
        for t in self.samples():
            known = {**self.at(t), param: places}
            before, behind = (evaluated(node.input(i), known) for i in (0, 2))
            if not np.array_equal(before, places[:t]) or not np.array_equal(behind, places[t + 1 :]):
                raise NoMatchError
        return "rows"


def viewed(value: Value) -> Value:
    """What the elements of the value are, whatever its shape."""
    while value.producer is not None and value.producer.op in ("Reshape", "Unsqueeze", "Squeeze", "Identity"):
        value = value.producer.input(0)
    return value


def terms(value: Value) -> list[Value]:
    """What a sum adds up."""
    done: list[Value] = []
    todo = [value]
    while todo:
        v = _one_row(todo.pop(0))
        if v.producer is not None and v.producer.op == "Add" and len(todo) + len(done) < _MOST_TERMS:
            todo[:0] = [v.producer.input(0), v.producer.input(1)]
        else:
            done.append(v)
    return done


def _one_row(value: Value) -> Value:
    """A row that was made a vector, in the form that it had."""
    node = value.producer
    if node is None or node.op not in ("Reshape", "Squeeze") or value.type.rank != 1:
        return value
    row = node.input(0)
    return row if row.type.shape == (1, *(value.type.shape or ())) else value


def of_one(value: Value, z: Value) -> bool:
    """The value is 1 - z."""
    node = value.producer
    if node is None or node.op != "Sub" or node.input(1) is not z:
        return False
    one = node.input(0).array
    return one is not None and bool(np.all(one == 1))


@dataclass
class Parts:
    """w x + r h + bias."""

    w: Array
    r: Array
    bias: Array

    @staticmethod
    def zero(like: Parts) -> Parts:
        return Parts(0 * like.w, 0 * like.r, 0 * like.bias)

    def __add__(self, other: Parts) -> Parts:
        return Parts(self.w + other.w, self.r + other.r, self.bias + other.bias)


def affine(loop: Counted, value: Value, h: Value) -> Parts:
    """The value in terms of the row of this round and of h. Raises NoMatchError where it is something else."""
    hidden, features = _extent(value), 0
    total_w: list[Array] = []
    total_r = np.zeros((hidden, _extent(h)))
    bias = np.zeros(hidden)
    for leaf in terms(value):
        for source, rows in _selected(leaf, hidden):
            for part in terms(source):
                if part.data is not None:
                    numbers = np.asarray(part.data.numpy(), np.float64).reshape(-1)
                    full = _extent(source)
                    if part.type.count not in (1, full) or (part.type.shape or (full,))[-1] not in (1, full):
                        raise NoMatchError
                    bias = bias + np.broadcast_to(numbers, (full,))[rows]
                    continue
                operand, matrix, offset = _product(part)
                if offset is not None:
                    bias = bias + offset[rows]
                if operand is h:
                    total_r = total_r + matrix[rows]
                elif loop.is_now(operand):
                    total_w.append(matrix[rows])
                else:
                    raise NoMatchError
    sequence = loop.sequence() if total_w else None
    features = total_w[0].shape[1] if sequence is not None else _features(loop)
    w = sum(total_w, start=np.zeros((hidden, features)))
    return Parts(np.asarray(w), total_r, bias)


def _features(loop: Counted) -> int:
    """How wide the rows are, for a part that does not read them."""
    for node in loop.body:
        if node.op == "Gather" and loop.is_now(node.output):
            return _extent(node.output)
    raise NoMatchError


def _extent(value: Value) -> int:
    last = (value.type.shape or ("?",))[-1] if value.type.shape else "?"
    if not isinstance(last, int):
        raise NoMatchError
    return last


def _selected(leaf: Value, hidden: int) -> list[tuple[Value, slice]]:
    """The value that the leaf takes its columns from, and which these are."""
    node = leaf.producer
    if node is not None and node.op in ("Split", "Slice") and node.input(0).type.rank == 2:
        source = node.input(0)
        columns = np.arange(_extent(source), dtype=np.float32)[None]
        taken = evaluated(leaf, {source: columns})
        if taken.shape != (1, hidden):
            raise NoMatchError
        start = int(taken[0, 0])
        if not np.array_equal(taken[0], columns[0, start : start + hidden]):
            raise NoMatchError
        return [(source, slice(start, start + hidden))]
    return [(leaf, slice(0, hidden))]


def _product(value: Value) -> tuple[Value, Array, Array | None]:
    """(x, w, bias) of x w^T + bias with constant w."""
    node = value.producer
    if node is None or node.op not in ("Linear", "MatMul"):
        raise NoMatchError
    matrix = node.input(1).array
    if matrix is None or matrix.ndim != 2 or node.attrs.get("activation") or node.attrs.get("transpose_a"):
        raise NoMatchError
    wide = matrix.astype(np.float64)
    if node.op == "MatMul":
        return node.input(0), wide if node.attrs.get("transpose_b") else wide.T, None
    offset = node.input(2).array if node.has_input(2) else None
    if node.has_input(2) and offset is None:
        raise NoMatchError
    return node.input(0), wide, None if offset is None else offset.astype(np.float64)
