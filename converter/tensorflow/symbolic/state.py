"""Variables: read-only ones are constants, those that the graph assigns become states kept from run to run.

What a variable is at a place follows from the order of the nodes: reads and changes happen as they are translated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.control_flow.variable import View, keep
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.index import SCATTERS, strided_slice_update
from minnow.converter.tensorflow.symbolic.handle import Handle
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Blob, DType, Graph, Model, TensorType, Value

Numbers = tuple[DType, tuple[int, ...], Blob]
Load = Callable[[str], "Numbers | None"]
"""Name of a variable -> its numbers in the file; None where it has none."""


@dataclass(frozen=True)
class Variable(Handle):
    """A variable. `by_reference`: of TensorFlow 1, where whatever takes a tensor reads it."""

    key: str
    by_reference: bool = False
    kind = "a variable"


class Memory:
    """All variables of a model while it is translated.

    Args:
        load: gives their numbers.
        kept: those that become states. All others are constants until they are assigned.

    Attributes:
        assigned: those that the model changes.
    """

    def __init__(self, load: Load = lambda name: None, kept: Iterable[str] = ()) -> None:
        self.load = load
        self.kept = frozenset(kept)
        self.assigned: set[str] = set()
        self._known: dict[str, Numbers | None] = {}
        self._views: list[View] = []

    def variable(self, names: Sequence[str], by_reference: bool = False) -> Variable:
        """The variable of a node: of its names the first that the file has numbers for."""
        names = [name for name in names if name]
        return Variable(next((n for n in names if self.numbers(n) is not None), names[-1]), by_reference)

    def numbers(self, key: str) -> Numbers | None:
        """What the file says of a variable."""
        if key not in self._known:
            self._known[key] = self.load(key)
        return self._known[key]

    @contextmanager
    def inside(self, graph: Graph) -> Any:
        """Opens the view of a graph, the main one or one in it."""
        view = View(graph)
        self._views.append(view)
        try:
            yield view
        finally:
            self._views.pop()

    def read(self, key: str) -> Value:
        """The variable as it is at this place. Raises UnsupportedError when it has no value."""
        return self._read(key, len(self._views) - 1)

    def assign(self, key: str, value: Value) -> None:
        """Makes the value the variable's from here on. Raises UnsupportedError when it is of another type."""
        known = self.numbers(key)
        if known is not None:
            dtype, shape, _ = known
            wanted = TensorType(dtype, shape)
            if value.type.dtype is not dtype:
                raise ModelError(f"the variable '{key}' has the type {wanted}, but is assigned {value.type}")
            if value.type.shape != shape and value.type.is_static:
                raise UnsupportedError(f"the variable '{key}' has the type {wanted}, but is assigned {value.type}")
        view = self._views[-1]
        view.values[key] = value
        view.assigned[key] = None
        self.assigned.add(key)

    def _read(self, key: str, level: int) -> Value:
        view = self._views[level]
        if key in view.values:
            return view.values[key]
        if level:
            outer = self._read(key, level - 1)
            if outer.data is not None:
                return Value(outer.type, outer.name, outer.data)
            param = view.graph.add_param(outer.type, key)
        else:
            known = self.numbers(key)
            if known is None:
                raise UnsupportedError(
                    f"the file has no value for the variable '{key}'",
                    hint="freeze the graph with `convert_variables_to_constants_v2`, or convert the SavedModel",
                )
            dtype, shape, blob = known
            if key not in self.kept:
                view.values[key] = Value(TensorType(dtype, shape), key, blob)
                return view.values[key]
            param = view.graph.add_param(TensorType(dtype, shape), key)
        view.values[key] = view.params[key] = param
        return param

    def finish(self, model: Model, view: View) -> None:
        """Ends the translation: what is kept is the graph's last parameters; they get names, and outputs."""
        model.inputs = model.inputs[: len(model.inputs) - len(view.params)]
        outputs = model.graph.outputs
        for key in view.params:
            known = self.numbers(key)
            assert known is not None  # it was read
            outputs.append(keep(model, view, key, np.array(known[2].numpy())))
        model.graph.outputs = outputs


def assign(variable: Any, value: Value, node: Any) -> None:
    """Makes a value the variable's. Raises UnsupportedError where the variable is chosen at run time."""
    _memory(variable, node).assign(variable.key, value)


def read(variable: Any, node: Any) -> Value:
    """What a variable is at this place."""
    return _memory(variable, node).read(variable.key)


def _memory(variable: Any, node: Any) -> Memory:
    if not isinstance(variable, Variable):
        raise UnsupportedError("a variable that is chosen at run time, or of this kind, is not supported")
    memory: Memory = node.context.memory
    return memory


# ---- the operators; all others are handed the numbers of a variable


@tf.op("VarHandleOp", "Variable", "VariableV2", "AutoReloadVariable", variables=True, complex=True)
def _(b, *, container="", shared_name="", shape=None, allowed_devices=(), debug_name="", node):
    memory = node.context.memory
    return memory.variable([node.name, shared_name], by_reference=node.op.startswith("Variable"))


@tf.op("ReadVariableOp", complex=True)
def _(b, x):
    return x


@tf.op("VarIsInitializedOp", "IsVariableInitialized", variables=True)
def _(b, variable, *, node):
    return b.const(np.array(_memory(variable, node).numbers(variable.key) is not None))


@tf.op("DisableCopyOnRead", "DestroyResourceOp", variables=True, silent=True)
def _(b, variable, *, ignore_lookup_error=True):
    return ()


@tf.op("Assign", "AssignVariableOp", variables=True, complex=True, effect=True, silent=True)
def _(b, variable, value, *, validate_shape=None, use_locking=None, node):
    assign(variable, value, node)
    return variable


@tf.op("AssignAdd", "AssignAddVariableOp", "AssignSub", "AssignSubVariableOp",
       variables=True, complex=True, effect=True, silent=True)  # fmt: skip
def _(b, variable, value, *, use_locking=False, node):
    before = read(variable, node)
    assign(variable, b.Add(before, value) if "Add" in node.op else b.Sub(before, value), node)
    return variable


_SCATTERS = {**SCATTERS, "Mul": "mul", "Div": "mul"}  # of Div the updates are inverted


@tf.op(*(f"{head}Scatter{kind}" for head in ("", "Resource") for kind in _SCATTERS),
       *(f"{head}ScatterNd{kind}" for head in ("", "Resource") for kind in SCATTERS),
       variables=True, effect=True, silent=True)  # fmt: skip
def _(b, variable, indices, updates, *, use_locking=True, bad_indices_policy="", node):
    by_position = "ScatterNd" in node.op
    kind = node.op.removeprefix("Resource").removeprefix("ScatterNd" if by_position else "Scatter")
    before = read(variable, node)
    if kind == "Sub":
        updates = b.Neg(updates)
    elif kind == "Div":
        if not updates.type.dtype.is_float:
            raise UnsupportedError(f"{node.op} of integers is not supported")
        updates = b.Reciprocal(updates)
    if not by_position:
        # One number stands for all updates.
        shape = b.Concat(b.Shape(indices), b.Shape(before, start=1), axis=0)
        updates, indices = b.Expand(updates, shape), b.Unsqueeze(indices, axes=(-1,))
    assign(variable, b.ScatterND(before, indices, updates, reduction=_SCATTERS[kind]), node)
    return variable


@tf.op("ResourceStridedSliceAssign", "StridedSliceAssign", variables=True, effect=True, silent=True)
def _(b, variable, begin, end, strides, value, *, begin_mask=0, end_mask=0, ellipsis_mask=0, new_axis_mask=0,
      shrink_axis_mask=0, node):  # fmt: skip
    after = strided_slice_update(
        b, read(variable, node), begin, end, strides, value, begin_mask=begin_mask, end_mask=end_mask,
        ellipsis_mask=ellipsis_mask, new_axis_mask=new_axis_mask, shrink_axis_mask=shrink_axis_mask,
    )  # fmt: skip
    assign(variable, after, node)
    return variable
