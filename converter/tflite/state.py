"""What a model keeps between runs: resource variables, and the variable tensors of recurrent operators.

Each becomes an input and an output of the graph; `Model.states` ties them together.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from minnow.converter.operand import bounded
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, Model, State, TensorType, Value

if TYPE_CHECKING:
    from minnow.converter.tflite.document import Tensor


@dataclass
class Frame:
    """The variables as one graph sees them.

    Attributes:
        values: what each variable is now.
        params: the parameters that bring in variables from outside, by variable.
        assigned: the variables that the graph changes.
    """

    graph: Graph
    values: dict[str, Value] = field(default_factory=dict)
    params: dict[str, Value] = field(default_factory=dict)
    assigned: dict[str, None] = field(default_factory=dict)


class Variables:
    """All variables of a model while it is translated."""

    def __init__(self) -> None:
        self.initial: dict[str, np.ndarray[Any, Any]] = {}
        self.frames: list[Frame] = []
        self.closed: dict[Graph, Frame] = {}

    def read(self, key: str, type: TensorType) -> Value:
        """The variable as it is at this place; `type` where nothing says more."""
        return self._read(key, type, len(self.frames) - 1)

    def assign(self, key: str, value: Value) -> None:
        """Makes the value the variable's from here on."""
        frame = self.frames[-1]
        frame.values[key] = value
        frame.assigned[key] = None

    def tensor(self, tensor: Tensor) -> Value:
        """A variable tensor as it is at this place. It starts as 0."""
        key = self.key(tensor)
        zero = 0 if tensor.quant is None else tensor.quant.zero[0]
        if not tensor.type.is_static:
            raise UnsupportedError("a variable of open shape", where=tensor.where)
        bounded(tensor.type.count or 0, "a variable")
        self.initial.setdefault(key, np.full(tensor.type.static_shape, zero, tensor.type.dtype.numpy))
        return self.read(key, tensor.type)

    def key(self, tensor: Tensor) -> str:
        """The name that a variable tensor has among the variables."""
        return tensor.name or tensor.where

    @contextmanager
    def inside(self, graph: Graph) -> Iterator[Frame]:
        """Opens the view of a subgraph; afterwards `closed` has it."""
        frame = Frame(graph)
        self.frames.append(frame)
        try:
            yield frame
        finally:
            self.frames.pop()
            self.closed[graph] = frame

    def _read(self, key: str, type: TensorType, level: int) -> Value:
        frame = self.frames[level]
        if key not in frame.values:
            if level:
                type = self._read(key, type, level - 1).type
            elif key in self.initial:
                type = TensorType(DType.of(self.initial[key].dtype), self.initial[key].shape)
            param = frame.graph.add_param(type, key)
            frame.values[key] = frame.params[key] = param
        return frame.values[key]

    def finish(self, model: Model, frame: Frame) -> None:
        """Ends the translation: adds the inputs and outputs of what is kept, and makes constants of what never changes.

        Raises:
            UnsupportedError: a variable has no shape that is known.
        """
        taken = {name for name, _ in (*model.inputs, *model.outputs)}
        outputs = model.graph.outputs
        for key, param in frame.params.items():
            if not param.type.is_static:
                raise UnsupportedError("a variable of open shape", where=f"tflite:{key}")
            bounded(param.type.count or 0, "a variable")
            start = self.initial.get(key)
            if start is None:
                start = np.zeros(param.type.static_shape, param.type.dtype.numpy)
            if key not in frame.assigned:
                param.replace_all_uses(Value.constant(start, key))
                outputs = [Value.constant(start, key) if v is param else v for v in outputs]
                model.graph.params.remove(param)
                continue
            after = frame.values[key]
            if after.type.dtype is not param.type.dtype:
                raise ModelError(f"the variable is {param.type}, and becomes {after.type}", where=f"tflite:{key}")
            names = []
            for wanted in (key, f"{key}:next"):
                while wanted in taken:
                    wanted += "_"
                taken.add(wanted)
                names.append(wanted)
            param.name = names[0]
            model.inputs.append((names[0], param.type))
            model.outputs.append((names[1], param.type))
            outputs.append(after)
            model.states.append(State(names[0], names[1], start))
        model.graph.outputs = outputs


def handle(value: Value) -> str:
    """The variable that a resource names. Raises UnsupportedError where only the run can tell."""
    if value.type.layout != "resource":
        raise UnsupportedError("the variable is chosen at run time")
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
    from minnow.schema.ops.interpreter import evaluate

    variables = node.context.variables
    graph = node.context.subgraph(init_subgraph_index, (), "once")
    frame = variables.closed[graph]
    if frame.params:
        raise UnsupportedError("CALL_ONCE reads variables")
    graph.outputs = [frame.values[key] for key in frame.assigned]
    for value in graph.values():
        bounded(value.type.count or 0, "what CALL_ONCE computes")
    for key, array in zip(frame.assigned, evaluate(graph, []), strict=True):
        variables.initial.setdefault(key, np.asarray(array))
    return ()
