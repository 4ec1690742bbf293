"""Inlining of calls: tensors inside of functions get names in the graph, at which a model can be cut."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from minnow.converter.tensorflow.symbolic.body import Body, Operation, Port
from minnow.schema.errors import ModelError

if TYPE_CHECKING:
    from minnow.converter.tensorflow.symbolic.translator import Translator

CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_MAX_DEPTH = 60


def flatten(body: Body, translator: Translator) -> Body:
    """The same body, in which the nodes of a called function stand for the call, named "call/node".

    Raises:
        ModelError: calls without end.
    """
    for _ in range(_MAX_DEPTH):
        calls = {n: o for n, o in body.operations.items() if o.op in CALLS and "f" in o.attrs}
        if not calls:
            return body
        body = _flatten(body, calls, translator)
    raise ModelError(
        "the functions of the file are nested too deeply", where=body.name, why=f"the limit is {_MAX_DEPTH} calls"
    )


def _flatten(body: Body, calls: dict[str, Operation], translator: Translator) -> Body:
    operations: dict[str, Operation] = {}
    results: dict[Port, Port] = {}  # of calls
    waits: dict[str, list[str]] = {}  # what stands for a call to those that wait for it
    for name, operation in body.operations.items():
        if name not in calls:
            operations[name] = operation
            continue
        inner = translator.library.body(translator.attributes(operation, body)["f"], {})
        if len(inner.arguments) != len(operation.inputs):
            raise ModelError(f"'{inner.name}' takes {len(inner.arguments)} arguments, but gets {len(operation.inputs)}")
        given = dict(zip(inner.arguments, operation.inputs, strict=True))

        def outer(port: Port, given: dict[str, Port] = given, name: str = name) -> Port:
            return given[port.node] if port.node in given else Port(f"{name}/{port.node}", port.output)

        for part in inner.operations.values():
            controls = [f"{name}/{c}" for c in part.controls if c not in given]
            operations[f"{name}/{part.name}"] = Operation(
                f"{name}/{part.name}",
                part.op,
                [outer(p) for p in part.inputs],
                controls + operation.controls,
                translator.attributes(part, inner),
            )
        results |= {Port(name, i): outer(p) for i, p in enumerate(inner.results)}
        waits[name] = [f"{name}/{effect}" for effect in inner.effects]

    def final(port: Port) -> Port:
        while port in results:
            port = results[port]
        return port

    def all_controls(names: Iterable[str]) -> list[str]:
        return [c for name in names for c in waits.get(name, [name])]

    moved = {
        name: replace(o, inputs=[final(p) for p in o.inputs], controls=all_controls(o.controls))
        for name, o in operations.items()
    }
    return replace(body, operations=moved, results=[final(p) for p in body.results])
