"""Which numbers the values of a graph can hold: an abstract interpreter with intervals.

One transfer function per op, registered with `@transfer`, gives the interval of the results from those of the operands.
It answers in the integers of mathematics; a result that its type may not hold wraps around, so nothing is known of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ir.blob import nbytes
from minnow.schema.ops import Trait, get

EXTENT = 2**31 - 1
"""No tensor has more elements, along an axis or in all: the file holds dimensions as 32-bit integers."""

# Floats matter only where they may be sizes in a division; larger constants are weights.
_MAX_FLOATS = 4096
_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class Interval:
    """All numbers from `low` to `high`, both included; Python integers, or finite floats."""

    low: Any
    high: Any

    def __contains__(self, other: Interval) -> bool:
        return bool(self.low <= other.low and other.high <= self.high)

    def __or__(self, other: Interval) -> Interval:
        return Interval(min(self.low, other.low), max(self.high, other.high))

    @property
    def magnitude(self) -> Any:
        """The largest absolute value."""
        return max(abs(self.low), abs(self.high))


INT32 = Interval(-(2**31), 2**31 - 1)
TRUTH = Interval(0, 1)
SIZE = Interval(0, EXTENT)

Known = Interval | None
"""None: nothing is known; of an integer, only its type."""

Transfer = Callable[..., "Known | Sequence[Known]"]


def of_type(dtype: DType) -> Known:
    """The numbers a type can hold; None for floats, which have NaN and infinities, and for types of the minority."""
    if dtype is DType.BOOL:
        return TRUTH
    if not dtype.is_int or dtype.numpy.kind not in "iu":
        return None
    info: Any = np.iinfo(dtype.numpy.name)
    return Interval(int(info.min), int(info.max))


@dataclass
class Ranges:
    """What `analyze` found.

    Attributes:
        known: the interval of every value that has one.
        wraps: nodes whose results may not fit their own type, or that have no transfer function.
        assumed: values that were taken to fit 32 bits though nothing proves it.
    """

    known: dict[Value, Interval] = field(default_factory=dict)
    wraps: set[Node] = field(default_factory=set)
    assumed: dict[Value, None] = field(default_factory=dict)

    def of(self, value: Value | None) -> Known:
        """The interval of a value; constants are looked at when they are asked for."""
        if value is None:
            return None
        if value not in self.known and value.data is not None:
            found = _of_constant(value)
            if found is not None:
                self.known[value] = found
        return self.known.get(value) or of_type(value.type.dtype)


def _of_constant(value: Value) -> Known:
    blob = value.data
    assert blob is not None
    dtype = value.type.dtype
    if of_type(dtype) is None and (not dtype.is_float or (value.type.count or 0) > _MAX_FLOATS):
        return None
    if nbytes(blob) == 0:
        return Interval(0, 0)
    low, high = blob.numpy().min(), blob.numpy().max()
    if dtype.is_float:
        low, high = float(low), float(high)
        return Interval(low, high) if math.isfinite(low) and math.isfinite(high) else None
    return Interval(int(low), int(high))


Assume = Callable[[Value], bool]


def analyze(graph: Graph, assume: Assume = lambda value: False) -> Ranges:
    """The intervals of all values of a graph and of those nested in it.

    Args:
        graph: the main graph; its parameters may be anything their type can hold.
        assume: asked for wide integers that are not known to fit 32 bits; true takes them to fit all the same.
    """
    ranges = Ranges()
    for param in graph.params:
        _learn(ranges, param, of_type(param.type.dtype), assume)
    _walk(graph, ranges, assume)
    return ranges


def _learn(ranges: Ranges, value: Value, found: Known, assume: Assume) -> None:
    if found is None:
        ranges.known.pop(value, None)
        return
    if value.type.dtype.is_int and found not in INT32 and assume(value):
        ranges.assumed[value] = None
        low, high = max(found.low, INT32.low), min(found.high, INT32.high)
        found = Interval(low, high) if low <= high else INT32
    ranges.known[value] = found


def _walk(graph: Graph, ranges: Ranges, assume: Assume) -> None:
    for node in graph:
        ranges.wraps.discard(node)
        if node.op == "If":
            found = _branches(node, ranges, assume)
        elif node.op == "Loop":
            found = _rounds(node, ranges, assume)
        else:
            found = _results(node, ranges)
        for value, interval in zip(node.outputs, found, strict=True):
            _learn(ranges, value, _in_type(node, value, interval, ranges), assume)


def _results(node: Node, ranges: Ranges) -> list[Known]:
    if Trait.COMPARE in get(node.op).traits:
        return [TRUTH] * len(node.outputs)
    rule = _TRANSFER.get(node.op)
    if rule is None and Trait.MOVEMENT in get(node.op).traits:
        return [ranges.of(node.inputs[0])] * len(node.outputs)
    found = None if rule is None else rule(node, *(ranges.of(v) for v in node.inputs))
    return [found] * len(node.outputs) if found is None or isinstance(found, Interval) else list(found)


def _in_type(node: Node, value: Value, found: Known, ranges: Ranges) -> Known:
    """The interval of what arrives in the type of the value: integers wrap, floats are rounded."""
    dtype = value.type.dtype
    if dtype.is_float:
        if found is None or node.op in _EXACT or Trait.MOVEMENT in get(node.op).traits:
            return found
        return _rounded(found, dtype)
    everything = of_type(dtype)
    if everything is None:
        return None  # of a type that is only stored
    if found is not None and found in everything:
        return found
    ranges.wraps.add(node)
    return everything


_BITS = {DType.F64: 53, DType.F32: 24, DType.F16: 11, DType.BF16: 8}


def _rounded(found: Interval, dtype: DType) -> Known:
    bits = _BITS.get(dtype)
    if bits is None:
        return None
    whole = isinstance(found.low, int) and isinstance(found.high, int)
    if whole and found.magnitude <= 2**bits:
        return Interval(float(found.low), float(found.high))
    if found.magnitude > (60000 if dtype is DType.F16 else 1e38):
        return None
    room = 2.0 ** (1 - bits)
    low, high = float(found.low), float(found.high)
    return Interval(low - abs(low) * room - 1e-40, high + abs(high) * room + 1e-40)


def _branches(node: Node, ranges: Ranges, assume: Assume) -> list[Known]:
    joined: list[Known] | None = None
    for body in node.subgraphs.values():
        for param, operand in zip(body.params, node.inputs[1:], strict=True):
            _pass(ranges, param, operand)
        _walk(body, ranges, assume)
        found = [ranges.of(v) for v in body.outputs]
        joined = found if joined is None else [_join(a, b) for a, b in zip(joined, found, strict=True)]
    return joined or []


def _pass(ranges: Ranges, param: Value, operand: Value | None) -> None:
    found = ranges.of(operand)
    if found is None:
        ranges.known.pop(param, None)
    else:
        ranges.known[param] = found


def _join(a: Known, b: Known) -> Known:
    return None if a is None or b is None else a | b


def _rounds(node: Node, ranges: Ranges, assume: Assume) -> list[Known]:
    body: Graph = node.attrs["body"]
    carried = node.attrs["num_carried"]
    limit = ranges.of(node.inputs[0])
    most = EXTENT if limit is None else max(0, min(EXTENT, limit.high - 1))
    _learn(ranges, body.params[0], Interval(0, most), assume)
    _learn(ranges, body.params[1], TRUTH, assume)
    for param, operand in zip(body.params[2:], node.inputs[2:], strict=True):
        _pass(ranges, param, operand)
    states = body.params[2 : 2 + carried]
    for i in range(_ROUNDS + 2):
        _walk(body, ranges, assume)
        grown = False
        for state, after in zip(states, body.outputs[1:], strict=False):
            before = ranges.known.get(state)
            joined = _join(before, ranges.of(after))
            if joined == before:
                continue
            grown = True
            # What keeps growing may become anything.
            joined = joined if i < _ROUNDS else of_type(state.type.dtype)
            if joined is None:
                ranges.known.pop(state, None)
            else:
                ranges.known[state] = joined
        if not grown:
            break
    else:
        _walk(body, ranges, assume)
    return [*(ranges.of(s) for s in states), *(ranges.of(v) for v in body.outputs[1 + carried :])]


# ---- transfer functions: called with the node and an interval, or None, per operand --------------------------------

_TRANSFER: dict[str, Transfer] = {}
_EXACT: set[str] = set()


def transfer(*names: str, exact: bool = False) -> Callable[[Transfer], Transfer]:
    """Registers the rule of some ops.

    Args:
        names: the ops.
        exact: floats come out as the rule says, without a rounding.
    """

    def add(function: Transfer) -> Transfer:
        _TRANSFER.update(dict.fromkeys(names, function))
        _EXACT.update(names if exact else ())
        return function

    return add


def all_known(function: Callable[..., Known]) -> Transfer:
    """For rules that can say nothing when one of their operands is unknown."""
    return lambda node, *xs: None if any(x is None for x in xs) else function(node, *xs)


def arithmetic(*names: str, exact: bool = False) -> Callable[[Callable[..., Known]], Transfer]:
    """`transfer` with `all_known`."""
    return lambda function: transfer(*names, exact=exact)(all_known(function))


def hull(*numbers: Any) -> Interval:
    """The least interval that holds some numbers."""
    return Interval(min(numbers), max(numbers))


def reduced_count(node: Node) -> int:
    """How many elements at most a reduction puts together into one."""
    shape = node.input(0).type.shape
    axes = node.attrs.get("axes")
    if shape is None:
        return EXTENT
    if node.has_input(1):
        axes = None  # any of them
    count = 1
    for dim in shape if axes is None else [shape[a] for a in axes]:
        count *= dim if isinstance(dim, int) else EXTENT
    return min(count, EXTENT)


import minnow.optimizer.facts.range_rules  # noqa: E402, F401  (registers the rules)
