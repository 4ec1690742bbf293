"""What a model keeps between runs: resource variables, and the variable tensors of recurrent operators.

Each becomes an input and an output of the graph; `Model.states` ties them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.converter.control_flow.variable import View, keep
from minnow.converter.operand import bounded
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value

if TYPE_CHECKING:
    from minnow.converter.tflite.document import Tensor


class Variables:
    """All variables of a model while it is translated."""

    def __init__(self) -> None:
        self.initial: dict[str, np.ndarray[Any, Any]] = {}
        self.views: list[View] = []
        self.closed: dict[Graph, View] = {}

    def read(self, key: str, type: TensorType) -> Value:
        """The variable as it is at this place; `type` where nothing says more."""
        return self._read(key, type, len(self.views) - 1)

    def assign(self, key: str, value: Value) -> None:
        """Makes the value the variable's from here on."""
        view = self.views[-1]
        view.values[key] = value
        view.assigned[key] = None

    def tensor(self, tensor: Tensor) -> Value:
        """A variable tensor as it is at this place. It starts as 0."""
        key = self.key(tensor)
        zero = 0 if tensor.quant is None else tensor.quant.zero[0]
        if not tensor.type.is_static:
            raise UnsupportedError("a variable of unknown shape is not supported", where=tensor.where)
        bounded(tensor.type.count or 0, "a variable")
        self.initial.setdefault(key, np.full(tensor.type.static_shape, zero, tensor.type.dtype.numpy))
        return self.read(key, tensor.type)

    def key(self, tensor: Tensor) -> str:
        """The name that a variable tensor has among the variables."""
        return tensor.name or tensor.where

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[View]:
        """Opens the view of a subgraph; afterwards `closed` has it."""
        view = View(graph)
        self.views.append(view)
        try:
            yield view
        finally:
            self.views.pop()
            self.closed[graph] = view

    def _read(self, key: str, type: TensorType, level: int) -> Value:
        view = self.views[level]
        if key not in view.values:
            if level:
                type = self._read(key, type, level - 1).type
            elif key in self.initial:
                type = TensorType(DType.of(self.initial[key].dtype), self.initial[key].shape)
            param = view.graph.add_param(type, key)
            view.values[key] = view.params[key] = param
        return view.values[key]

    def finish(self, model: Model, view: View) -> None:
        """Ends the translation: adds the inputs and outputs of what is kept, and makes constants of what never changes.

        Raises:
            UnsupportedError: a variable has no shape that is known.
        """
        outputs = model.graph.outputs
        for key, param in view.params.items():
            if not param.type.is_static:
                raise UnsupportedError("a variable of unknown shape is not supported", where=f"tflite:{key}")
            bounded(param.type.count or 0, "a variable")
            start = self.initial.get(key)
            if start is None:
                start = np.zeros(param.type.static_shape, param.type.dtype.numpy)
            if key not in view.assigned:
                param.replace_all_uses(Value.constant(start, key))
                outputs = [Value.constant(start, key) if v is param else v for v in outputs]
                model.graph.params.remove(param)
                continue
            outputs.append(keep(model, view, key, start))
        model.graph.outputs = outputs


def handle(value: Value) -> str:
    """The variable that a resource names. Raises UnsupportedError where that is known only at run time."""
    if value.type.layout != "resource":
        raise UnsupportedError("a variable that is chosen at run time is not supported")
    return value.name


@tflite.op("VAR_HANDLE")
def _(b, *, container="", shared_name="", node):
    key = f"{container}/{shared_name}" if container else shared_name
    return Value(TensorType(DType.I32, (), "resource"), key or node.name)


@tflite.op("READ_VARIABLE", raw=True)
def _(b, resource, *, node):
    return node.context.variables.read(handle(resource), node.type_out())


@tflite.op("ASSIGN_VARIABLE", raw=True)
def _(b, resource, value, *, node):
    node.context.variables.assign(handle(resource), value)
    return ()


@tflite.op("CALL_ONCE")
def _(b, *, init_subgraph_index, node):
    from minnow.schema.registry.interpreter import evaluate

    variables = node.context.variables
    graph = node.context.subgraph(init_subgraph_index, (), "once")
    view = variables.closed[graph]
    if view.params:
        raise UnsupportedError("CALL_ONCE that reads variables is not supported")
    graph.outputs = [view.values[key] for key in view.assigned]
    for value in graph.values():
        bounded(value.type.count or 0, "what CALL_ONCE computes")
    for key, array in zip(view.assigned, evaluate(graph, []), strict=True):
        variables.initial.setdefault(key, np.asarray(array))
    return ()
