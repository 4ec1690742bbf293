"""Translates bodies node by node. Mappings of control flow and calls reach it through `node.context`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minnow.converter.base import Call, Mapping_, Unsupported
from minnow.converter.control_flow.variable import View
from minnow.converter.tensorflow.frontend import frontend
from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port, function_body
from minnow.converter.tensorflow.symbolic.frame import structure
from minnow.converter.tensorflow.symbolic.handle import Handle
from minnow.converter.tensorflow.symbolic.state import Memory, Variable
from minnow.converter.tensorflow.tensor import COMPLEX, attribute_of
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.limit import add_name, add_nodes
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold

_MAX_DEPTH = 60
_CALL = 20  # what a call counts besides its nodes

# Hints for TensorFlow's own run time, and what repeats the number of operands.
_HARMLESS = frozenset({"N", "use_cudnn_on_gpu", "validate_indices", "validate_shape", "seed", "seed2",
                       "parallel_iterations", "executor_type", "config", "config_proto",
                       "explicit_paddings", "grad_a", "grad_b", "grad_x", "grad_y"})  # fmt: skip


class Library:
    """The functions of a file, by name."""

    def __init__(self, functions: Iterable[Any] = ()) -> None:
        self._functions = {f.signature.name: f for f in functions}

    def body(self, function: Any, attrs: Mapping[str, Any]) -> Body:
        """The body of a function for a call with these attributes.

        Args:
            function: its name, the attribute that names it, or a Body, which is given back.

        Raises:
            ModelError: there is no such function, or its calls grow beyond any sensible size.
        """
        if isinstance(function, Body):
            return function
        name = function if isinstance(function, str) else function.name
        known = self._functions.get(name)
        if known is None:
            raise ModelError(f"the file has no function '{name}'")
        # A few functions that call each other twice make more nodes than any machine holds.
        add_nodes(len(known.node_def) + _CALL, f"function '{name}'")
        bound = dict(attrs)
        if not isinstance(function, str):
            bound |= {k: attribute_of(v, attrs, name) for k, v in function.attr.items()}
        return structure(function_body(known, bound))

    def __contains__(self, name: str) -> bool:
        return name in self._functions


@dataclass
class Frame:
    """A graph that is being made: what it captures of the graph around it becomes a parameter.

    Attributes:
        captured: parameter by the value outside.
    """

    graph: Graph
    captured: dict[Value, Value] = field(default_factory=dict)


@dataclass
class Part:
    """A function as a graph of its own. Its parameters stand for the arguments, for what it captures, for variables.

    Attributes:
        results: not yet set as its outputs.
        captured: values of the graph around it.
        view: what it reads and changes of variables.
    """

    graph: Graph
    results: list[Value | Handle]
    captured: list[Value]
    view: View


@dataclass
class Scope:
    """What the ports of one body are. None stands for what depends on a node that cannot be converted."""

    body: Body
    values: dict[Port, Value | Handle | None]
    prefix: str = ""


class MissingError(Exception):
    """The value depends on an unsupported node, which has been reported."""


class Translator:
    """Translates the nodes of a file in order.

    An unsupported node is reported, and what depends on it is skipped: all others are looked at.

    Attributes:
        where: the file, for messages.
        version: of the program that wrote the graph, in TensorFlow's count.
        memory: what its variables are.
        view: how the variables stand at the end of the main graph.
        frames: the graphs that are being made, the innermost last.
        seen: all operators of the file that `check` has met.
        writes: how lists of tensors came from others.
        rounds: how often the body of a loop has been translated.
    """

    def __init__(
        self,
        where: str,
        library: Library,
        unsupported: Unsupported,
        version: int = 1 << 30,
        memory: Memory | None = None,
    ) -> None:
        self.where = where
        self.library = library
        self.unsupported = unsupported
        self.version = version
        self.memory = memory or Memory()
        self.view = View(Graph("main"))
        self.frames: list[Frame] = []
        self.seen: set[str] = set()
        self.writes: dict[Value, Any] = {}
        self.rounds = 0
        self._scopes: list[Scope] = []

    # ---- bodies

    def graph(
        self, body: Body, graph: Graph, given: Mapping[Port, Value | Handle], widen: bool = False
    ) -> list[tuple[str, Value | Handle]]:
        """Translates a body into a graph; gives its results with their names.

        Args:
            given: what some ports are: the arguments, and tensors that are not to be computed.
            widen: a result stands for all outputs of its node.
        """
        self.frames.append(Frame(graph))
        scope = self._enter(body, given, "")
        try:
            with self.memory.inside(graph) as self.view:
                self._nodes(scope)
                results: list[tuple[str, Value | Handle]] = []
                for port in body.results:
                    ports = [port]
                    if widen:
                        ports += sorted(p for p in scope.values if p.node == port.node and p.output > port.output)
                    try:
                        results += [(str(p), self._operand(p, "", scope, self.where)) for p in ports]
                    except MissingError:
                        continue
                return results
        finally:
            self._scopes.pop()
            self.frames.pop()

    def subgraph(
        self, function: Any, arguments: Sequence[TensorType | Value | Handle], attrs: Mapping[str, Any] | None = None
    ) -> Part:
        """Translates a function into a graph of its own.

        Args:
            function: its name, the attribute that names it, or a Body.
            arguments: per argument a type, which makes a parameter; a constant or a handle is passed on as it is.
            attrs: of the call.
        """
        body = self.library.body(function, attrs or {})
        graph = Graph(body.name)
        given: dict[Port, Value | Handle] = {}
        for name, argument in zip(body.arguments, arguments, strict=True):
            if isinstance(argument, TensorType):
                given[Port(name)] = graph.add_param(argument, name)
            elif isinstance(argument, Value):
                given[Port(name)] = Value(argument.type, argument.name, argument.data)
            else:
                given[Port(name)] = argument
        prefix = self._scopes[-1].prefix if self._scopes else ""
        frame = Frame(graph)
        self.frames.append(frame)
        with self.memory.inside(graph) as view:
            scope = self._enter(body, given, prefix)
            try:
                self._nodes(scope)
                results = [self._value(port, scope) for port in body.results]
            finally:
                self._scopes.pop()
                self.frames.pop()
        graph.params = [p for p in graph.params if p not in view.params.values()] + [*view.params.values()]
        return Part(graph, results, list(frame.captured), view)

    def inline(
        self, function: Any, arguments: Sequence[Value | Handle], attrs: Mapping[str, Any], name: str
    ) -> tuple[Value | Handle, ...]:
        """Translates a function into the current graph; gives its results."""
        body = self.library.body(function, attrs)
        if len(arguments) != len(body.arguments):
            raise ModelError(f"'{body.name}' takes {len(body.arguments)} arguments, but gets {len(arguments)}")
        given = {Port(a): v for a, v in zip(body.arguments, arguments, strict=True)}
        scope = self._enter(body, given, f"{name}/")
        try:
            self._nodes(scope)
            return tuple(self._value(port, scope) for port in body.results)
        finally:
            self._scopes.pop()

    def local(self, value: Value) -> Value:
        """A value of one of the graphs around as one of the current graph, captured where needed."""
        if value.data is not None:
            return Value(value.type, value.name, value.data)
        home = next((i for i, f in enumerate(self.frames) if _owns(f.graph, value)), len(self.frames) - 1)
        for frame in self.frames[home + 1 :]:
            if value not in frame.captured:
                frame.captured[value] = frame.graph.add_param(value.type, value.name)
            value = frame.captured[value]
        return value

    def _enter(self, body: Body, given: Mapping[Port, Value | Handle], prefix: str) -> Scope:
        if len(self._scopes) == _MAX_DEPTH:
            raise ModelError(
                "the functions of the file are nested too deeply",
                where=body.name,
                why=f"the limit is {_MAX_DEPTH} calls",
            )
        scope = Scope(body, dict(given), prefix)
        self._scopes.append(scope)
        return scope

    def _nodes(self, scope: Scope) -> None:
        body = scope.body
        used: dict[str, int] = {}
        order = body.order(set(scope.values))
        for port in [*body.results, *(p for operation in order for p in operation.inputs)]:
            used[port.node] = max(used.get(port.node, 0), port.output + 1)
        for operation in order:
            if Port(operation.name) not in scope.values or used.get(operation.name, 1) > 1:
                self._node(operation, scope, used.get(operation.name, 0))

    def _value(self, port: Port, scope: Scope, origin: str = "") -> Value | Handle:
        if port not in scope.values:
            raise ModelError(f"'{port.node}' has no output {port.output}", where=origin or self.where)
        value = scope.values[port]
        if value is None:
            raise MissingError
        return value

    # ---- nodes

    def _node(self, operation: Operation, scope: Scope, used: int) -> None:
        name = add_name(scope.prefix + operation.name)
        try:
            results = self._convert(operation, name, scope, used)
        except UnsupportedError as e:
            self.unsupported.add_error(e, name)
            results = ()
        except MissingError:
            results = ()
        for i, value in enumerate(results):
            if value is not None:
                scope.values.setdefault(Port(operation.name, i), value)
        for i in range(used):
            scope.values.setdefault(Port(operation.name, i), None)

    def _convert(self, operation: Operation, name: str, scope: Scope, used: int) -> Sequence[Value | Handle | None]:
        origin = f"tensorflow:{name}"
        attrs = self.attributes(operation, scope.body)
        mapping = self._mapping(operation, attrs)
        if mapping is None:
            raise MissingError  # `check` has reported it
        inputs: list[Any] = [self._operand(port, operation.op, scope, origin) for port in operation.inputs]
        graph = self.frames[-1].graph
        n = len(frontend.results.get(operation.op, ())) if used == 0 else used
        call = Call(operation.op, name, origin, 1, max(n, 1), (), self)
        b = Builder(graph, origin=origin)
        asked = {k: v for k, v in attrs.items() if k in mapping.attrs or not _is_harmless(k, v)}
        made = frontend.translate(mapping, b, call, inputs, asked)
        if len(made) < used:
            raise ModelError(f"{operation.op} has {len(made)} outputs, but {used} are used", where=origin)
        results: list[Any] = list(made)
        values = [i for i, v in enumerate(results) if isinstance(v, Value)]
        fresh = {v for node in b.made for v in node.outputs}
        folded = fold(graph, b.made, [results[i] for i in values])
        for i, known in zip(values, folded, strict=True):
            if results[i] in fresh and known is not None:
                known.name = str(Port(name, i))
            results[i] = known
        for i in range(used):
            if results[i] is None:
                raise UnsupportedError(f"output {i} of {operation.op} is not supported", where=origin)
        _complete(results, attrs)
        return results

    def _operand(self, port: Port, op: str, scope: Scope, origin: str) -> Value | Handle:
        """What an operator (or, without a name, the caller) is handed: of variables what they are at this place."""
        value = self._value(port, scope, origin)
        takes_handles = op in frontend.handles
        if isinstance(value, Variable) and op not in frontend.variables and (value.by_reference or not takes_handles):
            return self.memory.read(value.key)
        if isinstance(value, Handle) and not takes_handles and op:
            raise UnsupportedError(f"{op} of {value.kind} is not supported", where=origin)
        return value

    def _mapping(self, operation: Operation, attrs: Mapping[str, Any]) -> Mapping_ | None:
        if _is_complex(attrs):
            return frontend.pairs.get(operation.op)
        return frontend.find(operation.op, 1)

    def attributes(self, operation: Operation, body: Body) -> dict[str, Any]:
        """The attributes of a node as plain values; see `attribute_of`."""
        out = {}
        for key, value in operation.attrs.items():
            plain = attribute_of(value, body.bound, operation.name) if hasattr(value, "placeholder") else value
            if plain is not None or key == "shape":
                out[key] = plain
        return out

    def check(self, body: Body, given: Iterable[Port] = (), calls: tuple[str, ...] = ()) -> None:
        """Reports operators without a mapping, in the functions that the body calls as well."""
        done = {p.node for p in given} if not calls else set()
        for operation in body.order({Port(n) for n in done}):
            if operation.name in done:
                continue
            self.seen.add(operation.op)
            attrs = self.attributes(operation, body)
            where = "/".join([*calls, operation.name])
            if operation.op in self.library and frontend.find(operation.op, 1) is None:
                functions = [operation.op]
            else:
                functions = [
                    f for v in attrs.values() for f in (v if isinstance(v, tuple) else (v,)) if _is_function(f)
                ]
                if self._mapping(operation, attrs) is None:
                    self._refuse(operation.op, where, _is_complex(attrs))
            for function in functions:
                inner = self.library.body(function, attrs)
                if inner.name in self._checked:
                    continue
                self._checked.add(inner.name)
                self.check(inner, (), (*calls, operation.name))

    @property
    def _checked(self) -> set[str]:
        return self.__dict__.setdefault("_names", set())

    def _refuse(self, op: str, node: str, of_complex: bool) -> None:
        refusal = frontend.refusal(op, 1)
        if refusal:
            self.unsupported.add(f"{op} ({refusal.why})", node, refusal.hint)
        elif of_complex and frontend.mappings.get(op):
            self.unsupported.add(f"{op} of complex numbers", node)
        else:
            self.unsupported.add(op, node)


def _owns(graph: Graph, value: Value) -> bool:
    return value.producer.graph is graph if value.producer is not None else value in graph.params


def _is_function(value: Any) -> bool:
    return isinstance(value, Body) or (hasattr(value, "attr") and hasattr(value, "name"))


def _is_complex(attrs: Mapping[str, Any]) -> bool:
    return any(isinstance(v, str) and v in COMPLEX for k, v in attrs.items())


def _is_harmless(key: str, value: Any) -> bool:
    """Whether an attribute that a mapping does not ask for says nothing to it: types follow from the operands."""
    if key.startswith("_") or key in _HARMLESS or isinstance(value, DType):
        return True
    if isinstance(value, str):
        return value.startswith("DT_")
    return isinstance(value, tuple) and all(isinstance(v, DType) or str(v).startswith("DT_") for v in value)


def _complete(results: Sequence[Any], attrs: Mapping[str, Any]) -> None:
    """Gives results of unknown rank the shape that TensorFlow has inferred and left in the file."""
    shapes = attrs.get("_output_shapes")
    if not isinstance(shapes, tuple) or _is_complex(attrs):
        return
    for value, shape in zip(results, shapes, strict=False):
        if isinstance(value, Value) and value.producer is not None and value.type.shape is None and shape is not None:
            value.type = value.type.with_shape(shape)
