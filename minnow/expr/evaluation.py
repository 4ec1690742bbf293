"""Computes Vars: by numpy, or by the engine in sessions that are kept for graphs of the same structure."""

from __future__ import annotations

import atexit
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakSet

import numpy as np

from minnow.expr.dtype import Array
from minnow.expr.names import named
from minnow.expr.operation import SMALL, Clock, Operation, ordered, reference
from minnow.expr.setting import SETTINGS
from minnow.expr.var import CONST, Var
from minnow.runtime.session import Model as EngineModel
from minnow.runtime.session import Session
from minnow.schema.errors import UnsupportedError, UsageError
from minnow.schema.ir import ArrayBlob, DType, Graph, Model, Node, TensorType, Value
from minnow.schema.mnn.encoder import encode
from minnow.schema.ops import Trait
from minnow.schema.registry.interpreter import evaluate as interpret

PROGRAMS = 128
"""Sessions that are kept, for the graphs that were computed last."""

_lock = threading.RLock()
_programs: OrderedDict[Any, Program] = OrderedDict()
_living: WeakSet[Program] = WeakSet()

_ON_HOST = frozenset({Trait.MOVEMENT, Trait.REDUCTION, Trait.SHAPE_ONLY, Trait.DATA_DEPENDENT,
                      Trait.ARGUMENT, Trait.CONTROL_FLOW})  # fmt: skip
_LITTLE = 4096
"""Elements of all operands of a single op for which numpy is faster than the engine."""


class Program:
    """A graph made ready to run: a session of the engine, or the graph itself where the engine lacks something."""

    def __init__(self, graph: Graph, exact: bool) -> None:
        self.graph = graph
        self.session: Session | None = None
        self.held: list[Any] = []  # graphs that the key knows by their addresses
        _living.add(self)
        self._names = [f"in{i}" for i in range(len(graph.params))]
        self._outputs = [f"out{i}" for i in range(len(graph.outputs))]
        if not exact:
            self.session = self._open()

    def _open(self) -> Session | None:
        graph = self.graph.clone()
        for param, name in zip(graph.params, self._names, strict=True):
            param.name = name
        inputs = [(p.name, p.type) for p in graph.params]
        outputs = []
        for i, value in enumerate(graph.outputs):
            outputs.append((self._outputs[i], value.type))
            if value.producer is not None:
                value.name = self._outputs[i]
        try:
            data = encode(Model(graph, inputs, outputs))
            return EngineModel(data).session(
                threads=SETTINGS.threads, precision=SETTINGS.precision, device=SETTINGS.device
            )
        except UnsupportedError:
            return None

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        if self.session is None:
            return interpret(self.graph, arrays)
        found = self.session.run(dict(zip(self._names, arrays, strict=True)))
        return [found[name] for name in self._outputs]


@atexit.register
def _close() -> None:
    """Frees the sessions while the engine is still there: Vars may outlive it."""
    _programs.clear()
    for program in list(_living):
        program.session = None


# ---- a single op, now


def compute_now(operation: Operation) -> tuple[Array, ...]:
    """The results of an operation whose operands have values."""
    arrays = [None if v is None else v._value() for v in operation.inputs]
    given = [a for a in arrays if a is not None]
    if (
        not _ON_HOST.isdisjoint(operation.op.traits)
        or sum(a.size for a in given) <= _LITTLE
        or any(a.dtype == np.float64 for a in given)
    ):
        operation.types()
        return reference(operation, arrays)
    evaluate_operations([operation])
    assert operation.results is not None
    return operation.results


# ---- graphs


def evaluate(outputs: Sequence[Var]) -> None:
    """Computes Vars together, so that what they have in common is computed once; they keep the results."""
    evaluate_operations([v._operation for v in outputs if v._operation is not None])


def evaluate_operations(roots: Sequence[Operation]) -> None:
    with _lock:
        wanted = [o for o in dict.fromkeys(roots) if not o.is_valid()]
        if not wanted:
            return
        plan = wanted[0].plan if len(wanted) == 1 else None
        if plan is None or not plan.holds():
            plan = Plan(wanted)
            if len(wanted) == 1:
                wanted[0].plan = plan
        plan.run()


class Plan:
    """What to run for some operations: a program, the leaves that it takes, and where the results go."""

    def __init__(self, wanted: Sequence[Operation]) -> None:
        self._structure = Clock.structure
        self._settings = (SETTINGS.threads, SETTINGS.precision, SETTINGS.device)
        self._wanted = wanted
        self._order = ordered(wanted, Operation.is_valid)
        self._sources = sources(wanted)
        key, self._leaves, self._held = self._structure_key()
        program = _programs.get(key)
        if program is None:
            graph, _ = build(self._order, self._leaves, [(o, i) for o in wanted for i in range(o.count)])
            program = _programs[key] = Program(graph, exact=_is_exact(self._order))
            program.held = self._held
            while len(_programs) > PROGRAMS:
                _programs.popitem(last=False)
        else:
            _programs.move_to_end(key)
        self._program = program

    def holds(self) -> bool:
        """The graph is as it was, and so is what it takes from others that were computed."""
        if self._structure != Clock.structure:
            return False
        if self._settings != (SETTINGS.threads, SETTINGS.precision, SETTINGS.device):
            return False
        return all(v._operation is None or v._operation.is_valid() for v in self._leaves)

    def run(self) -> None:
        arrays = self._program.run([v._value() for v in self._leaves])
        at = 0
        for operation in self._wanted:
            operation.keep(arrays[at : at + operation.count], self._sources)
            at += operation.count

    def _structure_key(self) -> tuple[Any, list[Var], list[Any]]:
        """A key that is equal for graphs which one program computes, the leaves in order, and what must stay alive."""
        numbers: dict[Any, int] = {}
        leaves: list[Var] = []
        held: list[Any] = []
        rows: list[Any] = []
        inside = set(self._order)
        for operation in self._order:
            row: list[Any] = []
            for var in operation.inputs:
                if var is None:
                    row.append(None)
                    continue
                if var._operation is not None and var._operation in inside:
                    row.append((numbers[var._operation], var._index))
                    continue
                place = numbers.get(var)
                if place is None:
                    place = numbers[var] = len(numbers)
                    array = var._value()
                    if is_structure(var):
                        rows.append((array.dtype.char, array.shape, array.tobytes()))
                    else:
                        rows.append((array.dtype.char, array.shape))
                        leaves.append(var)
                row.append(place)
            numbers[operation] = len(numbers)
            held += [v for v in operation.attrs.values() if isinstance(v, Graph)]
            rows.append((operation.key, tuple(row)))
        ends = tuple(numbers[o] for o in self._wanted)
        return (tuple(rows), ends, *self._settings), leaves, held


def is_structure(var: Var) -> bool:
    """Whether a leaf is a small constant, which is a part of the graph rather than an input of it."""
    return var._operation is None and var._kind == CONST and var._array is not None and var._array.size <= SMALL


def sources(roots: Sequence[Operation]) -> list[Var]:
    """The placeholders and trainables that operations depend on."""
    found: dict[Var, None] = {}
    for operation in ordered(roots, lambda o: False):
        for var in operation.inputs:
            if var is not None and var._operation is None and var._kind != CONST:
                found[var] = None
    return list(found)


def _is_exact(order: Sequence[Operation]) -> bool:
    """Whether numbers need the 64 bits of a double, which the engine computes with fewer."""
    for operation in order:
        types = [*operation.types(), *(v._type() for v in operation.inputs if v is not None)]
        if any(t.dtype is DType.F64 for t in types):
            return True
    return False


def build(
    order: Sequence[Operation],
    leaves: Sequence[Var],
    ends: Sequence[tuple[Operation, int]],
    type_of: Callable[[Var], TensorType] = lambda v: v._type(),
) -> tuple[Graph, dict[Any, Value]]:
    """The graph of operations, with a parameter for each leaf, and all other Vars as constants.

    Returns:
        It, and the value for each leaf and each (operation, output).
    """
    graph = Graph()
    table: dict[Any, Value] = {}
    for i, var in enumerate(leaves):
        table[var] = graph.add_param(type_of(var), var.name or f"in{i}")
    for operation in order:
        inputs: list[Value | None] = []
        for operand in operation.inputs:
            if operand is None:
                inputs.append(None)
                continue
            var = operand
            key: Any = (var._operation, var._index)
            if key not in table:
                key = var
            if key not in table:
                table[var] = Value.constant(ArrayBlob(np.ascontiguousarray(var._value()).reshape(var._value().shape)))
                table[var].name = var.name
            inputs.append(table[key])
        types = operation.types()
        attrs = operation.op.without_defaults(dict(operation.attrs))
        node = Node(operation.op.name, inputs, attrs, types[: operation.count], (), "")
        graph.insert(node)
        for i, value in enumerate(node.outputs):
            table[operation, i] = value
    graph.outputs = [table[end] for end in ends]
    return graph, table


@named("expr")
def gc(full: bool = False) -> None:
    """Frees the sessions that are kept for graphs; all of them, or (`full` false) the half that was not used last."""
    if not isinstance(full, (bool, int)):
        raise UsageError(f"full is {full!r}, not a bool")
    with _lock:
        for _ in range(len(_programs) if full else len(_programs) // 2):
            _programs.popitem(last=False)
    if full:
        Clock.structure += 1  # plans hold programs, too


def graph_of(outputs: Sequence[Var]) -> tuple[Graph, list[Var]]:
    """The graph behind Vars.

    Args:
        outputs: results of operations, or leaves.

    Returns:
        The graph, whose parameters are the placeholders and trainables that the outputs depend on (in the order in
        which they are met, with their names), and these Vars in the same order. Constants are constants of the graph.
        The outputs of the graph have the names of the Vars where these have some.

    Raises:
        UsageError: an output is not a Var.
    """
    graph, leaves, _ = graph_and_values(outputs)
    return graph, leaves


def graph_and_values(outputs: Sequence[Var]) -> tuple[Graph, list[Var], Callable[[Var], Value | None]]:
    """As `graph_of`, and a function that gives the graph's value for a Var, None if it is not in the graph."""
    if isinstance(outputs, Var) or not all(isinstance(v, Var) for v in outputs):
        raise UsageError("the outputs are a list of Vars")
    roots = list(dict.fromkeys(v._operation for v in outputs if v._operation is not None))
    order = ordered(roots, lambda o: False)
    direct = [v for v in outputs if v._operation is None and v._kind != CONST]
    leaves = list(dict.fromkeys([*sources(roots), *direct]))
    graph, table = build(order, leaves, [])
    ends = []
    for var in outputs:
        key: Any = var if var._operation is None else (var._operation, var._index)
        if key not in table:
            table[key] = Value.constant(ArrayBlob(np.ascontiguousarray(var._value())), var.name)
        value = table[key]
        if var.name and value.producer is not None:
            value.name = var.name
        ends.append(value)
    graph.outputs = ends

    def value_of(var: Var) -> Value | None:
        return table.get(var if var._operation is None else (var._operation, var._index))

    return graph, leaves, value_of
