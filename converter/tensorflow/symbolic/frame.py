"""Loops of TensorFlow 1 (Enter, Merge, NextIteration, Exit) as While with bodies of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port
from minnow.converter.tensorflow.symbolic.branch import structure_branches
from minnow.schema.errors import ModelError, UsageError

Path = tuple[str, ...]
_MAX_DEPTH = 40
_INPUTS = {
    "Switch": 2,
    "_SwitchN": 2,
    "Merge": 1,
    "Enter": 1,
    "Exit": 1,
    "NextIteration": 1,
    "LoopCond": 1,
    "Identity": 1,
}
_FLOW = frozenset(_INPUTS) - {"Identity"}


def structure(body: Body, given: Iterable[Port] = ()) -> Body:
    """The body with While, If and Case in the place of frames, switches and merges.

    Args:
        given: tensors that are there already: what computes them is left out.

    Raises:
        ModelError: frames or branches are not formed as TensorFlow forms them.
    """
    given = set(given)
    if not any(kind(operation) in _FLOW for operation in body.operations.values()):
        return body
    operations = _needed(body, given)
    if not any(kind(operation) in _FLOW for operation in operations.values()):
        return body
    _check_inputs(operations)
    paths = _paths(operations)
    for port in body.results:
        if port.node in operations and _home(port.node, operations, paths):
            raise UsageError(
                f"'{port}' is computed inside of a loop",
                why="it has one value for each round",
                hint="name a result of the loop",
            )
    for path in sorted(set(paths.values()), key=lambda p: (-len(p), p)):
        if path:
            _Frame(operations, paths, path).replace()
    return structure_branches(replace(body, operations=operations), given)


def kind(operation: Operation) -> str:
    """The operator; references to variables flow as values do."""
    return operation.op.removeprefix("Ref")


def outer(names: Sequence[str], operations: Mapping[str, Operation]) -> list[str]:
    """Those of the nodes that can be meant as results: they are in no loop, nor what only opens a branch."""
    if not any(kind(operation) in _FLOW for operation in operations.values()):
        return list(names)
    _check_inputs(operations)
    paths = _paths(operations)
    opens = _FLOW - {"Merge", "Exit"}
    return [n for n in names if not _home(n, operations, paths) and kind(_copied(n, operations)) not in opens]


def _home(name: str, operations: Mapping[str, Operation], paths: Mapping[str, Path]) -> Path:
    """The frame that a node gives its results to."""
    path = paths.get(name, ())
    return path[:-1] if kind(operations[name]) == "Exit" else path


def _copied(name: str, operations: Mapping[str, Operation]) -> Operation:
    """What a node is a copy of."""
    operation = operations[name]
    for _ in range(len(operations)):
        if operation.op != "Identity" or not operation.inputs or operation.inputs[0].node not in operations:
            break
        operation = operations[operation.inputs[0].node]
    return operation


def _check_inputs(operations: Mapping[str, Operation]) -> None:
    """Raises ModelError unless the nodes of control flow read as much as they need."""
    for operation in operations.values():
        needed = _INPUTS.get(kind(operation), 0)
        if len(operation.inputs) < needed:
            raise ModelError(
                f"{operation.op} needs {needed} inputs, but has {len(operation.inputs)}", where=operation.name
            )


def _needed(body: Body, given: set[Port]) -> dict[str, Operation]:
    """The nodes that results and effects reach, over data or control, in the order of the file."""
    seen: set[str] = set()
    todo = [(p, "") for p in [*body.results, *map(Port, body.effects)]]
    while todo:
        port, reader = todo.pop()
        if port in given or port.node in seen or port.node in body.arguments:
            continue
        if port.node not in body.operations:
            raise ModelError(f"the node '{port.node}' is read, but does not exist", where=reader or body.name)
        seen.add(port.node)
        operation = body.operations[port.node]
        todo += [(p, operation.name) for p in operation.inputs]
        todo += [(Port(c), operation.name) for c in operation.controls if c in body.operations]
    return {n: operation for n, operation in body.operations.items() if n in seen}


def _paths(operations: Mapping[str, Operation]) -> dict[str, Path]:
    """The frames that each node is in, the innermost last.

    What reads nothing may stand outside although only a loop reads it: of several frames the deepest one counts.
    """
    readers: dict[str, list[str]] = {}
    for operation in operations.values():
        for node in dict.fromkeys([*(p.node for p in operation.inputs), *operation.controls]):
            readers.setdefault(node, []).append(operation.name)
    paths: dict[str, Path] = {}
    todo: list[tuple[str, Path]] = [(n, ()) for n in reversed([*operations])]
    while todo:
        name, path = todo.pop()
        if len(path) > _MAX_DEPTH:
            raise ModelError("loops are nested too deeply", where=name, why=f"the limit is {_MAX_DEPTH} frames")
        known = paths.get(name)
        if known is not None and len(path) <= len(known):
            if len(path) == len(known) and path != known:
                raise ModelError("a node is part of two loops", where=name, why=f"{known[-1]} and {path[-1]}")
            continue
        paths[name] = path
        operation = operations[name]
        out: Path = path
        if kind(operation) == "Enter":
            out = (*path, _frame_name(operation))
        elif kind(operation) == "Exit":
            out = path[:-1]
        todo += [(r, out) for r in readers.get(name, ())]
    # An Enter stands in the frame around the one that it feeds.
    return {n: (*p, _frame_name(operations[n])) if kind(operations[n]) == "Enter" else p for n, p in paths.items()}


def _frame_name(operation: Operation) -> str:
    value: Any = operation.attrs.get("frame_name") if "frame_name" in operation.attrs else None
    if value is None:
        raise ModelError("Enter needs the attribute 'frame_name'", where=operation.name)
    return value if isinstance(value, str) else str(value.s.decode("utf-8", "replace"))


class _Frame:
    """One loop, all loops within which are While already."""

    def __init__(self, operations: dict[str, Operation], paths: dict[str, Path], path: Path) -> None:
        self.operations = operations
        self.paths = paths
        self.path = path
        self.members = [n for n, p in paths.items() if p == path and n in operations]
        self.inside = set(self.members)
        self.merges: dict[str, tuple[Port, Port]] = {}  # first value, next value
        for name in self.members:
            operation = operations[name]
            if kind(operation) == "Merge":
                back = [p for p in operation.inputs if self._kind(p) == "NextIteration"]
                first = [p for p in operation.inputs if p not in back]
                if back and (len(back) != 1 or len(first) != 1):
                    raise ModelError(
                        "a Merge of a loop must join the Enter and the NextIteration of a value", where=name
                    )
                if back:
                    self.merges[name] = (self._outside(first[0]), operations[back[0].node].inputs[0])
        self.entered = {n: operations[n].inputs[0] for n in self.members if self._kind(Port(n)) == "Enter"}
        conditions = [n for n in self.members if self._kind(Port(n)) == "LoopCond"]
        if len(conditions) != 1:
            raise ModelError(f"the loop '{path[-1]}' has {len(conditions)} conditions", why="it needs one LoopCond")
        self.condition = conditions[0]
        self.captured: dict[Port, str] = {}

    def _kind(self, port: Port) -> str:
        operation = self.operations.get(port.node)
        return "" if operation is None else kind(operation)

    def _outside(self, port: Port) -> Port:
        """What a first value is outside of the loop."""
        return self.operations[port.node].inputs[0] if self._kind(port) == "Enter" else port

    def _is_condition(self, port: Port) -> bool:
        return _copied(port.node, self.operations).name == self.condition if port.node in self.inside else False

    def _local(self, port: Port) -> Port:
        """A tensor as the bodies know it: a carried or captured value is an argument."""
        for _ in range(len(self.inside)):
            if self._kind(port) != "Switch" or not self._is_condition(self.operations[port.node].inputs[1]):
                break
            port = self.operations[port.node].inputs[0]
        if port.node in self.merges:
            if port.output:
                raise ModelError(
                    "the second output of a loop's Merge is read, which has no meaning here", where=port.node
                )
            return port
        if port.node in self.inside:
            return port
        return Port(self.captured.setdefault(port, str(port)))

    def replace(self) -> None:
        """Puts one While in the place of all nodes of the frame, and copies in that of its exits."""
        inner: dict[str, Operation] = {}
        dropped = {"Enter", "Exit", "NextIteration"}
        for name in self.members:
            operation = self.operations[name]
            leaves = kind(operation) == "Switch" and self._is_condition(operation.inputs[1])
            if name in self.merges or leaves or kind(operation) in dropped:
                continue
            op = "Identity" if kind(operation) == "LoopCond" else operation.op
            inner[name] = replace(operation, op=op, inputs=[self._local(p) for p in operation.inputs])
        go_on = self._local(self.operations[self.condition].inputs[0])
        moved = [self._local(following) for _, following in self.merges.values()]
        exits = {n: self._left(n) for n in self.members if self._kind(Port(n)) == "Exit"}
        arguments = [*self.merges, *self.entered, *self.captured.values()]
        fixed = [Port(n) for n in arguments[len(self.merges) :]]
        name = self._unused("/".join(self.path))

        def body(part: str, results: list[Port]) -> Body:
            return structure_branches(Body(f"{name}/{part}", arguments, inner, results))

        first = [*(f for f, _ in self.merges.values()), *self.entered.values(), *self.captured]
        attrs = {"cond": body("cond", [go_on]), "body": body("body", [*moved, *fixed])}
        outputs = {n: Port(name, i) for i, n in enumerate(arguments)}
        for exit, port in exits.items():
            if port.node in outputs:
                made = Operation(exit, "Identity", [outputs[port.node]])
            else:  # computed in front of the condition, which runs once more than the body
                function = body(f"exit/{exit}", [port])
                made = Operation(exit, "PartitionedCall", list(outputs.values()), [], {"f": function})
            self.operations[exit] = made
        for member in self.members:
            if member not in exits:
                del self.operations[member]
        self.operations[name] = Operation(name, "While", first, [], attrs)
        for made_name in (name, *exits):
            self.paths[made_name] = self.path[:-1]

    def _left(self, exit: str) -> Port:
        port = self.operations[exit].inputs[0]
        if self._kind(port) != "Switch" or not self._is_condition(self.operations[port.node].inputs[1]):
            raise ModelError("an Exit does not read a Switch on the condition of its loop", where=exit)
        return self._local(port)

    def _unused(self, name: str) -> str:
        while name in self.operations:
            name += "/loop"
        return name
