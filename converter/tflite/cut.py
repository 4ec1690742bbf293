"""The part of a TFLite subgraph between inner tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from minnow.converter.inputs.cut import unknown_tensor
from minnow.converter.tflite.document import Operator, Subgraph


def cut(graph: Subgraph, inputs: Sequence[str], outputs: Sequence[str], where: str) -> Subgraph:
    """A subgraph of the operators between tensors.

    Args:
        inputs: tensors that become inputs, in front of those of the subgraph that are still read.
        outputs: tensors that it gives; none stand for the outputs of the subgraph.

    Raises:
        UsageError: there is no such tensor.
    """
    places: dict[str, int] = {}
    for i in [*graph.inputs, *(i for o in graph.operators for i in o.outputs if i >= 0)]:
        places.setdefault(graph.tensors[i].name, i)
    for name in (*inputs, *outputs):
        if not name or name not in places:
            raise unknown_tensor(name, places, where)
    begins = list(dict.fromkeys(places[n] for n in inputs))
    ends = list(dict.fromkeys(places[n] for n in outputs)) or graph.outputs
    read, operators = _needed(graph, set(begins), ends)
    given = [*begins, *(i for i in graph.inputs if i in read and i not in begins)]
    return replace(graph, inputs=given, outputs=list(ends), operators=operators)


def _needed(graph: Subgraph, begins: set[int], ends: Sequence[int]) -> tuple[set[int], list[Operator]]:
    """The tensors that are read on the way back from the ends to the begins, and the operators there, in order."""
    makers = {i: k for k, o in enumerate(graph.operators) for i in o.outputs if i >= 0 and i not in begins}
    read: set[int] = set()
    kept = {k for k, o in enumerate(graph.operators) if not o.outputs and not o.inputs}  # what sets variables up
    todo = list(ends)
    while todo:
        while todo:
            i = todo.pop()
            read.add(i)
            if i in makers and makers[i] not in kept:
                kept.add(makers[i])
                todo.extend(j for j in graph.operators[makers[i]].inputs if j >= 0)
        # What is left behind in a variable that the part reads belongs to it.
        variables = {_variable(graph.operators[k]) for k in kept} - {None}
        for k, o in enumerate(graph.operators):
            handle = makers.get(o.inputs[0]) if o.inputs and not o.outputs and k not in kept else None
            if handle is not None and _variable(graph.operators[handle]) in variables:
                kept.add(k)
                todo.extend(j for j in o.inputs if j >= 0)
    return read, [graph.operators[k] for k in sorted(kept)]


def _variable(operator: Operator) -> tuple[str, str] | None:
    """The names of the variable that an operator gives the handle of."""
    if operator.op != "VAR_HANDLE":
        return None
    return str(operator.attrs.get("container", "")), str(operator.attrs.get("shared_name", ""))
