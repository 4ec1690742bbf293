"""Gradients, and the formulas of optimizers, as Vars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.expr.evaluation import graph_and_values
from minnow.expr.operation import apply
from minnow.expr.var import Var
from minnow.schema.errors import UsageError
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.registry.builder import Builder
from minnow.schema.registry.gradient import Step, Term, add_gradients

if TYPE_CHECKING:
    from minnow.optim.optimizer import Optimizer


def derivatives(outputs: Sequence[Var], diffs: Sequence[Var] | None, by: Sequence[Var]) -> list[Var]:
    """The gradients of the sum of all outputs, each element times that of its Var in `diffs`, by other Vars."""
    given = [Var.from_array(np.ones(v.shape, np.float32)) for v in outputs] if diffs is None else list(diffs)
    if len(given) != len(outputs):
        raise UsageError(f"{len(given)} output_diffs for {len(outputs)} outputs")
    graph, leaves, value_of = graph_and_values([*outputs, *given, *by])
    known = {value_of(v): v for v in [*leaves, *computed_of([*outputs, *given])]}
    values = [value_of(v) for v in outputs]
    count = len(graph)
    b = Builder(graph, origin="loss")
    total: Value | None = None
    for value, diff in zip(values, given, strict=True):
        term = b.ReduceSum(b.Mul(value, value_of(diff)), keepdims=False)
        total = term if total is None else b.Add(total, term)
    if total is None:
        raise UsageError("there are no outputs to differentiate")
    found = add_gradients(graph, total, [_value(value_of(v), v) for v in by])
    return _vars(graph, count, known, found)


def _value(value: Value | None, var: Var) -> Value:
    if value is None:
        raise UsageError(f"{var!r} is not in the graph")
    return value


def computed_of(roots: Sequence[Var]) -> list[Var]:
    """All Vars that others are computed of, and these."""
    seen: dict[int, Var] = {}
    stack = list(roots)
    while stack:
        var = stack.pop()
        if id(var) not in seen:
            seen[id(var)] = var
            stack += var.inputs
    return list(seen.values())


def _vars(graph: Graph, count: int, known: dict[Any, Var], wanted: Sequence[Value]) -> list[Var]:
    """New nodes of a graph, behind the first `count`, as operations on the Vars that its other values are."""

    def var_of(value: Value | None) -> Var | None:
        if value is None:
            return None
        if value not in known and value.is_const:
            known[value] = Var.from_array(np.asarray(value.array))
        return known[value]

    def made(node: Node) -> tuple[Var, ...]:
        results = apply(node.op, *map(var_of, node.inputs), n_outputs=len(node.outputs), **node.attrs)
        return tuple(results)

    needed: set[Node] = set()
    stack = [v.producer for v in wanted]
    new = set(list(graph)[count:])
    while stack:
        node = stack.pop()
        if node is not None and node in new and node not in needed:
            needed.add(node)
            stack += [v.producer for v in node.inputs if v is not None]
    for node in list(graph)[count:]:
        if node in needed:
            known.update(zip(node.outputs, made(node), strict=True))
    results = [var_of(v) for v in wanted]
    return [v for v in results if v is not None]


def updated(optimizer: Optimizer, variables: Sequence[Var], slopes: Sequence[Var], rates: Sequence[Var]) -> list[Var]:
    """What a first step makes of parameters, as Vars."""
    graph = Graph()
    step = Step(Builder(graph, origin="update"), graph.ret, ())
    known: dict[Any, Var] = {}

    def term(var: Var) -> Term:
        value = graph.add_param(var._type())
        known[value] = var
        return Term(step.builder, value)

    wanted = []
    for i, (variable, slope) in enumerate(zip(variables, slopes, strict=True)):
        p, dp = term(variable), term(slope)
        numbers = {k: step.term(np.float32(v)) for k, v in optimizer._numbers().items()}
        if rates:
            rate = term(rates[i if len(rates) > 1 else 0])
            share = np.float32(optimizer._numbers().get("rate", 1.0) / (optimizer.learning_rate or 1.0))
            numbers |= {"learning_rate": rate, "rate": rate * step.term(share)}
        states = [step.term(np.zeros(p.shape, p.dtype.numpy)) for _ in optimizer._states]
        wanted.append(optimizer._update(step, p, dp, states, numbers)[0].value)
    return _vars(graph, 0, known, wanted)
