"""Counted loops: their trip count, and the array elements that they store by the counter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from minnow.converter.tensorflow.symbolic.tensor_list import Write, scalar
from minnow.schema.ir import DType, Graph, Node, Value
from minnow.schema.ops import Builder, Trait, get

_INTEGERS = (DType.I32, DType.I64)


class Counters:
    """The carried values of a loop that start at a constant and are one more in each round.

    Args:
        b: builds in the graph around the loop.
        body: parameters (iteration, flag, carried..., others...), results (flag, carried...).
        carried, others: the operands.
    """

    def __init__(self, b: Builder, body: Graph, carried: Sequence[Value], others: Sequence[Value]) -> None:
        self.b = b
        self.body = body
        self.others = dict(zip(body.params[2 + len(carried) :], others, strict=True))
        self.starts: dict[Value, int] = {}  # by parameter
        self.nexts: dict[Value, int] = {}  # start of what the round makes of it
        for param, value, after in zip(body.params[2:], carried, body.outputs[1:], strict=False):
            if value.data is None or value.type.shape != () or value.type.dtype not in _INTEGERS:
                continue
            if _is_one_more(after, param):
                self.starts[param] = self.nexts[after] = int(value.data.numpy())

    def trips(self) -> Value | None:
        """How often the loop runs, an i64 scalar: known where all it asks is whether counters are below limits."""
        given: list[tuple[Value, int]] = []
        for condition in _conjuncts(self.body.outputs[0]):
            node = condition.producer
            if condition.data is not None and bool(np.all(condition.data.numpy())):
                continue
            if node is None or node.op not in ("Less", "Greater"):
                return None
            counter, limit = (node.input(0), node.input(1)) if node.op == "Less" else (node.input(1), node.input(0))
            if counter not in self.nexts or limit.type.count != 1:
                return None
            outside = limit if limit.data is not None else self.others.get(limit)
            if outside is None:
                return None
            start = self.nexts[counter]
            if not any(start == s and number_of(outside) is number_of(o) for o, s in given):
                given.append((outside, start))
        if not given:
            return None
        limits = [self._rounds(outside, start) for outside, start in given]
        trips = limits[0]
        for limit in limits[1:]:
            trips = _least(self.b, trips, limit)
        return trips

    def _rounds(self, limit: Value, start: int) -> Value:
        if limit.data is not None:
            return self.b.const(np.array(max(int(limit.data.numpy().reshape(())) - start, 0), np.int64))
        rounds = scalar(self.b, limit)
        if start:
            rounds = self.b.Sub(rounds, np.array(start, np.int64))
        return rounds

    def counts_from(self, index: Value | None) -> int | None:
        """The first of the numbers that a value of the body runs through; None when it does not count."""
        while index is not None and index.producer is not None and _keeps_number(index.producer):
            index = index.producer.input(0)
        if index is self.body.params[0]:
            return 0
        return None if index is None else self.starts.get(index)


def _keeps_number(node: Node) -> bool:
    """Whether the result of a node is the number that its first operand is, in another shape or type."""
    return node.op == "Cast" or Trait.VIEW in get(node.op).traits


def number_of(value: Value) -> Value:
    """A whole number without its casts and shapes."""
    while (node := value.producer) is not None and _keeps_number(node):
        if node.input(0).type.dtype not in _INTEGERS or node.input(0).type.count != 1:
            break
        value = node.input(0)
    return value


def _least(b: Builder, a: Value, other: Value) -> Value:
    if a.data is not None and other.data is not None:
        return b.const(np.minimum(a.data.numpy(), other.data.numpy()))
    return b.Min(a, other)


def _is_one_more(after: Value, before: Value) -> bool:
    node = after.producer
    if node is None or node.op != "Add":
        return False
    first, second = node.input(0), node.input(1)
    step = second if first is before else first if second is before else None
    return step is not None and step.data is not None and step.data.shape == () and int(step.data.numpy()) == 1


def _conjuncts(condition: Value) -> list[Value]:
    out, todo = [], [condition]
    while todo:
        value = todo.pop()
        node = value.producer
        if node is not None and node.op == "And":
            todo += [node.input(0), node.input(1)]
        elif node is not None and Trait.VIEW in get(node.op).traits and node.input(0).type.count == 1:
            todo.append(node.input(0))
        else:
            out.append(value)
    return out


def accumulate(body: Graph, counters: Counters, writes: Mapping[Value, Write]) -> dict[int, Write]:
    """Lists that a loop fills element by element: the body gives the element, and the loop stacks them.

    Gives the places of these lists among the carried values; the body does not carry them any more.
    """
    found: dict[int, Write] = {}
    for k, after in enumerate(body.outputs[1:]):
        write = writes.get(after)
        param = body.params[2 + k]
        if write is None or write.before is not param or param.type.holds_tensors:
            continue
        if write.index is not None and counters.counts_from(write.index) != 0:
            continue
        if any(node not in write.nodes for node, _ in param.uses) or len(after.uses) != 1:
            continue
        if write.element.data is None and write.element.type.shape is not None:
            found[k] = write
    if not found:
        return {}
    results = list(body.outputs[1:])
    kept = [v for k, v in enumerate(results) if k not in found]
    body.outputs = [body.outputs[0], *kept, *(w.element for w in found.values())]
    for write in found.values():
        for node in [n for n in reversed(body) if n in write.nodes]:
            if not any(v.uses for v in node.outputs):
                body.erase(node)
    body.params = [p for i, p in enumerate(body.params) if i - 2 not in found]
    return found
