"""A training step as one program of the engine: its inputs are the batch, the parameters and the settings of the
optimizer, its outputs the loss and the new parameters; what the optimizer keeps of each parameter are its states, which
stay in the engine.

Programs are kept by the structure of the loss. A loop that makes a new graph for every batch has constants in it that
are others each time: these become inputs. What is a constant of a program and what an input is found out by looking
at what changes.
"""

from __future__ import annotations

import math
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.expr.dtype import Array
from minnow.expr.evaluation import build
from minnow.expr.operation import Operation, ordered
from minnow.expr.setting import SETTINGS
from minnow.expr.var import CONST, PLACEHOLDER, Var
from minnow.runtime.session import Model as EngineModel
from minnow.runtime.session import Session
from minnow.schema.errors import UsageError
from minnow.schema.ir import DType, Graph, Model, State, TensorType, Value
from minnow.schema.mnn.encoder import encode
from minnow.schema.registry.builder import Builder, infer_node
from minnow.schema.registry.gradient import Step, Term, add_gradients
from minnow.schema.registry.signature import Role

if TYPE_CHECKING:
    from minnow.optim.optimizer import Optimizer

_KEPT = 8
"""Programs of one optimizer: for the shapes of batches, and for modes of a module."""


@dataclass
class Structure:
    """What is the same for losses that one program computes.

    Attributes:
        key: without shapes and contents; `shapes` are all shapes of leaves, `sizes` the contents of those that say how
            an op works.
        params: parameters that are trained, in the order in which they are met; so are the others.
        inputs: placeholders, and Vars that may change in other ways.
        constants: constants, and which of them are likely to be part of a batch.
    """

    key: Any = None
    shapes: list[Any] = field(default_factory=list)
    sizes: list[Any] = field(default_factory=list)
    params: list[Var] = field(default_factory=list)
    inputs: list[Var] = field(default_factory=list)
    constants: dict[Var, bool] = field(default_factory=dict)
    order: list[Operation] = field(default_factory=list)


def _structure(roots: Sequence[Operation], ends: Sequence[Var], trained: set[int]) -> Structure:
    found = Structure(order=ordered(roots, lambda o: False))
    numbers: dict[Any, int] = {}
    rows: list[Any] = []
    for operation in found.order:
        row: list[Any] = []
        for i, var in enumerate(operation.inputs):
            if var is None:
                row.append(None)
                continue
            if var._operation is not None:
                row.append((numbers[var._operation], var._index))
                continue
            place = numbers.get(var)
            if place is None:
                place = numbers[var] = len(numbers)
                array = var._value()
                found.shapes.append(array.shape)
                kind = "param" if id(var) in trained else "input" if var._kind != CONST else "constant"
                rows.append((array.dtype.char, array.ndim, kind))
                if kind == "param":
                    found.params.append(var)
                elif kind == "input":
                    found.inputs.append(var)
                else:
                    found.constants[var] = False
            if var in found.constants:
                role = operation.op.operand(i).role
                if role is Role.SIZE:
                    found.sizes.append(var._value().tobytes())
                    found.constants.pop(var)
                elif i == 0:
                    found.constants[var] = True  # what is computed with first is data, weights stand behind it
            row.append(place)
        numbers[operation] = len(numbers)
        rows.append((operation.key, tuple(row)))
    found.key = tuple(rows), tuple((numbers[v._operation], v._index) for v in ends if v._operation is not None)
    return found


class Programs:
    """The programs of an optimizer, one of which has the states."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = weakref.ref(optimizer)
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._varying: dict[Any, set[int]] = {}
        self._last: dict[Any, list[Array]] = {}
        self._home: Program | None = None
        self._kept: dict[int, list[Array]] = {}  # states by the id of the parameter
        self._owners: list[Var] = []  # so that ids stay those of these Vars

    def run(self, loss: Var, parameters: Sequence[Var], module: Any) -> None:
        """One step. Afterwards the parameters, and what the module collects, have their new values."""
        optimizer = self._optimizer()
        assert optimizer is not None
        if loss._operation is None:
            if SETTINGS.lazy and hasattr(module, "settle"):  # a program that only collects the ranges of a calibration
                module.settle()
                return
            raise UsageError("the loss is a constant: no parameter can change it", hint="expr.lazy_eval(True)")
        pending = list(module.pending()) if hasattr(module, "pending") else []
        pending = [(var, value) for var, value in pending if value._operation is not None]
        ends = [loss, *(value for _, value in pending)]
        roots = list(dict.fromkeys(v._operation for v in ends if v._operation is not None))
        known = _structure(roots, ends, {id(p) for p in parameters})
        program = self._program(optimizer, known, ends)
        self._move_states(program, known.params)
        results = program.run(known, optimizer._numbers())
        for var, array in zip(known.params, results[len(ends) :], strict=True):
            var._set(array)
        for (_, value), array in zip(pending, results[1:], strict=False):
            assert value._operation is not None
            value._operation.keep((array,), ())
        if pending:
            module.settle()
        loss._operation.keep((results[0],), [v for v in known.inputs if v._kind == PLACEHOLDER])

    def _program(self, optimizer: Optimizer, known: Structure, ends: Sequence[Var]) -> Program:
        loose = known.key, optimizer._structure()
        exact = loose, tuple(known.shapes), tuple(known.sizes)
        arrays = [v._value() for v in known.constants]
        guessed = {i for i, is_data in enumerate(known.constants.values()) if is_data}
        varying = self._varying.setdefault(loose, guessed)
        before = self._last.get(exact)
        if before is not None:
            changed = (i for i, (a, b) in enumerate(zip(arrays, before, strict=True)) if a is not b)
            varying.update(i for i in changed if not np.array_equal(arrays[i], before[i], equal_nan=True))
        self._last[exact] = list(arrays)
        key = exact, frozenset(varying), SETTINGS.threads, SETTINGS.precision, SETTINGS.device
        if key not in self._programs:
            self._programs[key] = Program(optimizer, known, ends, varying)
            while len(self._programs) > _KEPT:
                old, program = self._programs.popitem(last=False)
                self._last.pop(old[0], None)
                self._leave(program)
        self._programs.move_to_end(key)
        return self._programs[key]

    def _leave(self, program: Program) -> None:
        """Keeps the states of a program that is given up."""
        if program is self._home:
            self._kept |= program.states()
            self._home = None

    def _move_states(self, program: Program, params: Sequence[Var]) -> None:
        """Brings the states to a program that is to run."""
        if program is not self._home:
            if self._home is not None:
                self._leave(self._home)
            program.params = [id(p) for p in params]
            program.start(self._kept)
            self._home = program
            self._owners = list({id(p): p for p in [*self._owners, *params]}.values())
        elif program.params != [id(p) for p in params]:
            self._kept |= program.states()
            program.params = [id(p) for p in params]
            program.start(self._kept)


class Program:
    """A session of the engine for one structure."""

    def __init__(self, optimizer: Optimizer, known: Structure, ends: Sequence[Var], varying: set[int]) -> None:
        self._varying = sorted(varying)
        self._slots = optimizer._states
        self.params = [id(p) for p in known.params]
        leaves = [*known.params, *known.inputs, *self._batch(known)]
        keys = [(v._operation, v._index) for v in ends]
        graph, _ = build(known.order, leaves, keys, _static)  # type: ignore[arg-type]
        _infer_again(graph)
        weights = graph.params[: len(known.params)]
        for i, value in enumerate(graph.params):
            value.name = f"in{i}"
        self._leaves = [p.name for p in graph.params]
        outputs = list(graph.outputs)
        slopes = add_gradients(graph, outputs[0], weights)
        self._numbers = {name: graph.add_param(TensorType(DType.F32, ()), name) for name in optimizer._numbers()}
        step = Step(Builder(graph, origin="update"), graph.ret, ())
        numbers = {name: Term(step.builder, v) for name, v in self._numbers.items()}
        states: list[tuple[Value, Value]] = []
        for i, (p, dp) in enumerate(zip(weights, slopes, strict=True)):
            old = [graph.add_param(p.type, f"{slot}{i}") for slot in self._slots]
            new, kept = optimizer._update(
                step, Term(step.builder, p), Term(step.builder, dp), [Term(step.builder, v) for v in old], numbers
            )
            outputs.append(new.value)
            states += zip(old, (t.value for t in kept), strict=True)
        self._session = _open(graph, outputs, states)
        self._count = len(outputs)

    def _batch(self, known: Structure) -> list[Var]:
        constants = list(known.constants)
        return [constants[i] for i in self._varying]

    def run(self, known: Structure, numbers: dict[str, float]) -> list[Array]:
        leaves = [*known.params, *known.inputs, *self._batch(known)]
        arrays: dict[str, Any] = dict(zip(self._leaves, (v._value() for v in leaves), strict=True))
        arrays |= {name: np.float32(number) for name, number in numbers.items()}
        found = self._session.run(arrays)
        return [found[f"out{i}"] for i in range(self._count)]

    def states(self) -> dict[int, list[Array]]:
        """What is kept of each parameter."""
        held = self._session.states
        return {p: [held[f"{slot}{i}"] for slot in self._slots] for i, p in enumerate(self.params)}

    def start(self, states: dict[int, list[Array]]) -> None:
        """Begins with these states, zeros for parameters that are new."""
        self._session.reset()
        given = {
            f"{slot}{i}": array
            for i, p in enumerate(self.params)
            for slot, array in zip(self._slots, states.get(p, ()), strict=False)
        }
        if given:
            self._session.reset(given)


def _static(var: Var) -> TensorType:
    """A leaf as it is now: a placeholder of a dynamic shape has the shape of what was written to it."""
    array = var._value()
    return TensorType(DType.of(array.dtype), array.shape)


def _infer_again(graph: Graph) -> None:
    """Types of all results by what is known of the leaves."""
    for node in graph:
        for value, type in zip(node.outputs, infer_node(node), strict=True):
            value.type = type


def _places_first(graph: Graph) -> None:
    """Statistics of channels by way of those of each image, which the engine has in the layout of convolutions."""
    for node in graph:
        x = node.inputs[0] if node.op in ("ReduceSum", "ReduceMean") and len(node.inputs) == 1 else None
        if (
            x is None
            or node.attrs.get("axes") != (0, 2, 3)
            or x.type.dtype is not DType.F32
            or 0 in x.type.static_shape
        ):
            continue
        b = Builder(graph, node, node.origin)
        places = b.GlobalAveragePool(x)
        if node.op == "ReduceSum":
            places = b.Mul(places, np.float32(math.prod(x.type.static_shape[2:])))
        node.set_input(0, places)


def _open(graph: Graph, outputs: Sequence[Value], states: Sequence[tuple[Value, Value]]) -> Session:
    b = Builder(graph)
    rows = [*outputs, *(new for _, new in states)]
    named: list[Value] = []
    for i, value in enumerate(rows):
        # An output is the result of a node, and has one name.
        value = b.Identity(value) if value.producer is None or value in named else value
        value.name = f"out{i}"
        named.append(value)
    graph.outputs = named
    _places_first(graph)
    kept = {old for old, _ in states}
    graph.params = [p for p in graph.params if p not in kept] + [old for old, _ in states]
    model = Model(graph, [(p.name, p.type) for p in graph.params], [(v.name, v.type) for v in named])
    for (old, _), new in zip(states, named[len(outputs) :], strict=True):
        zeros = np.zeros(old.type.static_shape, old.type.dtype.numpy)
        model.states.append(State(old.name, new.name, zeros))
    used = SETTINGS
    return EngineModel(encode(model)).session(threads=used.threads, precision=used.precision, device=used.device)
