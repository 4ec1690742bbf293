"""Which variable is restored from which tensor of the checkpoint.

The graph's own operator for restoring variables says it. For those that it leaves out, objects do: functions list the
objects that they have captured, and objects the tensors that they are saved in.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minnow.converter.tensorflow.message import TrackableObjectGraph
from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port, port_of
from minnow.schema.errors import FormatError

if TYPE_CHECKING:
    from minnow.converter.tensorflow.file.variables import Variables
    from minnow.converter.tensorflow.symbolic.translator import Library

_ASSIGN = ("Assign", "AssignVariableOp")
_COPY = ("Identity", "ReadVariableOp")
_CALL = ("PartitionedCall", "StatefulPartitionedCall")
_MAX_DEPTH = 20


@dataclass(frozen=True)
class Stored:
    """A tensor in the file of variables, or a slice of it, as `Variables.read` takes it."""

    key: str
    part: str = ""


_OBJECTS = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "VARIABLE_VALUE"


@dataclass
class _Place:
    """A body with the places where its arguments come from."""

    body: Body
    arguments: Mapping[str, tuple[_Place, Port]]


def restored(name: str, body: Body, library: Library) -> dict[str, Stored]:
    """What each variable is restored from, by the name of its node.

    Args:
        name: of the operator that restores all variables; nothing is known where the graph does not have it.
    """
    node = port_of(name.removeprefix("^")).node
    return dict(_restored(_Place(body, {}), [node], library, 0)) if node in body.operations else {}


def captured(objects: Any, variables: Variables, body: Body) -> dict[str, Stored]:
    """What the variables that calls capture are saved in, by the name of the variable's node.

    Args:
        objects: the SavedObjectGraph, whose objects are numbered as those in the file of variables.
    """
    if _OBJECTS not in variables:
        return {}
    try:
        saved = TrackableObjectGraph.FromString(variables.text(_OBJECTS)).nodes
    except Exception as e:  # noqa: BLE001  (protobuf's parsers raise classes of their own, other ones in each version)
        raise FormatError("the list of objects is damaged", where=str(variables.path), why=str(e)[:200]) from None
    out: dict[str, Stored] = {}
    for operation in body.operations.values():
        function = operation.attrs["f"].func.name if operation.op in _CALL and "f" in operation.attrs else ""
        if not function or function not in objects.concrete_functions:
            continue
        bound = objects.concrete_functions[function].bound_inputs
        given = operation.inputs[max(len(operation.inputs) - len(bound), 0) :]
        for port, number in zip(given, bound, strict=False):
            attributes = saved[number].attributes if 0 <= number < len(saved) else ()
            key = next((a.checkpoint_key for a in attributes if a.name == _VALUE), None)
            if key is not None:
                out[port.node] = Stored(key)
    return out


def _restored(place: _Place, roots: list[str], library: Library, depth: int) -> Iterator[tuple[str, Stored]]:
    todo, seen = list(roots), set()
    while todo:
        name = todo.pop()
        operation = place.body.operations.get(name)
        if operation is None or name in seen:
            continue
        seen.add(name)
        todo += [*operation.controls, *(port.node for port in operation.inputs)]
        if operation.op in _ASSIGN and len(operation.inputs) == 2:
            variable, value = (_origin(place, port) for port in operation.inputs)
            stored = _stored(*value)
            if variable[1] is not None and stored is not None:
                yield variable[1].name, stored
        elif operation.op in _CALL and depth < _MAX_DEPTH:
            inner = library.body(operation.attrs["f"].func.name, {})
            given = dict(zip(inner.arguments, ((place, port) for port in operation.inputs), strict=False))
            effects = [n for n, o in inner.operations.items() if o.op in (*_ASSIGN, *_CALL)]
            yield from _restored(_Place(inner, given), effects, library, depth + 1)


def _origin(place: _Place, port: Port) -> tuple[_Place, Operation | None, int]:
    """The operator that computes a tensor, through copies and the arguments of calls."""
    for _ in range(1000):
        if port.node in place.arguments:
            place, port = place.arguments[port.node]
            continue
        operation = place.body.operations.get(port.node)
        if operation is not None and operation.op in _COPY and operation.inputs:
            port = operation.inputs[0]
            continue
        return place, operation, port.output
    return place, None, 0


def _stored(place: _Place, operation: Operation | None, output: int) -> Stored | None:
    if operation is None or operation.op != "RestoreV2" or len(operation.inputs) != 3:
        return None
    key, part = (_text(_origin(place, port)[1], output) for port in operation.inputs[1:])
    return None if key is None else Stored(key, part or "")


def _text(operation: Operation | None, index: int) -> str | None:
    """A text of a constant; where there are fewer than its shape needs, the last one stands for the rest."""
    tensor: Any = operation.attrs["value"].tensor if operation is not None and "value" in operation.attrs else None
    if tensor is None or not tensor.string_val or index < 0:
        return None
    there = len(tensor.string_val)
    count = tensor.tensor_shape.dim[0].size if len(tensor.tensor_shape.dim) == 1 else 1
    if index >= max(there, count):
        return None
    return bytes(tensor.string_val[min(index, there - 1)]).decode("utf-8", "replace")
