"""Bodies: the nodes of a graph or a function in one form, and the order in which they are translated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from minnow.converter.tensorflow.frontend import frontend
from minnow.schema.errors import ModelError


class Port(NamedTuple):
    """An output of a node. An argument of a function is output 0 of a node of its name."""

    node: str
    output: int = 0

    def __str__(self) -> str:
        return self.node if self.output == 0 else f"{self.node}:{self.output}"


@dataclass
class Operation:
    """A node.

    Attributes:
        inputs: what it reads.
        controls: nodes that run before it although it reads nothing of them.
        attrs: messages by name, or plain values where the frontend has made the node itself.
    """

    name: str
    op: str
    inputs: list[Port]
    controls: list[str] = field(default_factory=list)
    attrs: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Body:
    """A graph or a function.

    Attributes:
        arguments: names of the parameters of a function, in order.
        operations: by name, in the order of the file.
        results: what it gives.
        effects: nodes that run even if their results are unused.
        bound: attributes of the call of a function, which stand for references to them.
    """

    name: str
    arguments: list[str]
    operations: dict[str, Operation]
    results: list[Port]
    effects: list[str] = field(default_factory=list)
    bound: Mapping[str, Any] = field(default_factory=dict)

    def order(self, given: Iterable[Port] = ()) -> list[Operation]:
        """The nodes that results and effects need, each behind those that it reads, or waits for.

        Args:
            given: tensors that are there already: what computes them is left out.

        Raises:
            ModelError: the nodes form a cycle, or one reads what there is not.
        """
        have = set(given)
        needed = self.reached(have)
        return [self.operations[n] for n in self.ordered(needed, {p.node for p in have}) if n in needed]

    def reached(self, given: set[Port]) -> dict[str, None]:
        """Names of the nodes that results and effects reach over data, in the order of the file.

        What a needed node only waits for is needed if it has an effect.
        """
        arguments = set(self.arguments)
        needed: set[str] = set()
        awaited: set[str] = {port.node for port in given}
        todo = [(port, "", False) for port in self.results] + [(Port(name), "", False) for name in self.effects]
        while todo:
            port, reader, waits = todo.pop()
            name = port.node
            if port in given or name in needed or name in arguments or (waits and name in awaited):
                continue
            if name not in self.operations:
                if waits:
                    continue
                raise ModelError(f"the node '{name}' is read, but does not exist", where=reader or self.name)
            operation = self.operations[name]
            waits = waits and operation.op not in frontend.effects
            (awaited if waits else needed).add(name)
            todo += [(port, name, waits) for port in operation.inputs]
            todo += [(Port(control), name, True) for control in operation.controls]
        return {n: None for n in self.operations if n in needed}

    def ordered(self, roots: Mapping[str, None], given: set[str]) -> list[str]:
        """All that the roots depend on, over data or control, dependencies first."""
        done: dict[str, bool] = {}  # False: is being looked at
        out: list[str] = []
        for root in roots:
            stack = [root]
            while stack:
                name = stack[-1]
                node = self.operations.get(name)
                if node is None or done.get(name):  # an argument, or a control of what is not there
                    stack.pop()
                elif name not in done:
                    done[name] = False
                    if name in given and name not in roots:
                        continue
                    for needed in [*(p.node for p in reversed(node.inputs)), *node.controls]:
                        if done.get(needed) is False and needed in self.operations:
                            raise ModelError("the nodes form a cycle", where=f"{self.name}/{needed}")
                        if needed not in done:
                            stack.append(needed)
                else:
                    stack.pop()
                    done[name] = True
                    out.append(name)
        return out


def graph_body(nodes: Iterable[Any], name: str = "main") -> Body:
    """The nodes of a graph. Raises ModelError when two bear the same name."""
    operations: dict[str, Operation] = {}
    for node in nodes:
        if not node.name or node.name in operations:
            raise ModelError(f"there are two nodes named '{node.name}'", where=name)
        inputs = [port_of(text) for text in node.input if not text.startswith("^")]
        controls = [text[1:] for text in node.input if text.startswith("^")]
        operations[node.name] = Operation(node.name, node.op, inputs, controls, node.attr)
    return Body(name, [], operations, [])


def port_of(text: str) -> Port:
    """A tensor by its name in a graph: "node" or "node:1"."""
    node, colon, index = text.rpartition(":")
    if not colon or not index.isdigit() or len(index) > 9:
        return Port(text)
    return Port(node, int(index))


def function_body(function: Any, bound: Mapping[str, Any]) -> Body:
    """The nodes of a function, for a call with these attributes. Raises ModelError when a name is there twice."""
    name = function.signature.name
    arguments = [a.name for a in function.signature.input_arg]
    operations: dict[str, Operation] = {}
    for node in function.node_def:
        if not node.name or node.name in operations or node.name in arguments:
            raise ModelError(f"there are two nodes named '{node.name}'", where=name)
        operations[node.name] = Operation(node.name, node.op, [], [], node.attr)
    for node in function.node_def:
        operation = operations[node.name]
        operation.inputs = [_inner_port(t, operations) for t in node.input if not t.startswith("^")]
        operation.controls = [t[1:] for t in node.input if t.startswith("^")]
    missing = [a.name for a in function.signature.output_arg if a.name not in function.ret]
    if missing:
        raise ModelError(f"the function does not compute its result '{missing[0]}'", where=name)
    results = [_inner_port(function.ret[a.name], operations) for a in function.signature.output_arg]
    effects = [n for n in function.control_ret.values() if n in operations and operations[n].op in frontend.effects]
    return Body(name, arguments, operations, results, effects, bound)


def _inner_port(text: str, operations: Mapping[str, Operation]) -> Port:
    """A tensor by its name in a function: "argument", or "node:output:0" with the name of the operator's output."""
    node, *rest = text.split(":")
    if not rest or node not in operations:
        return Port(node)
    output, index = (rest[0], rest[1]) if len(rest) == 2 else ("", rest[0])
    if not index.isdigit() or len(index) > 9:
        raise ModelError(f"'{text}' is not the name of a node's output")
    names: Sequence[str] = frontend.results.get(operations[node].op, ())
    return Port(node, (names.index(output) if output in names else 0) + int(index))
