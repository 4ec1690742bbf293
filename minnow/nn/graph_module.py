"""`load_module`: the graph between Vars as a module, which can be trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from minnow.expr.names import named
from minnow.expr.operation import Operation, apply, ordered
from minnow.expr.var import CONST, TRAINABLE, Var
from minnow.interpreter.model_file import IMAGE, Slot
from minnow.nn.layer import Convolution, Linear, trainable
from minnow.nn.layout import change_for
from minnow.nn.module import Module, batch
from minnow.schema.errors import UsageError
from minnow.schema.ops import Trait

_WEIGHTS = frozenset({Trait.PRODUCT, Trait.CHANNEL_OPERANDS})
"""What holds of ops whose operands behind the first one are weights."""
_FIXED = 3
"""Operands from this one on are no weights: statistics of a normalization."""


class GraphModule(Module):
    """The graph between Vars as a module; `load_module` makes it.

    For training, convolutions and products with a constant matrix are parts of it, layers as `conv` and `linear` make
    them.
    """

    def __init__(self, inputs: Sequence[Var], outputs: Sequence[Var], for_training: bool) -> None:
        super().__init__()
        self._slots = [_slot(var) for var in inputs]
        self._inputs = list(inputs)
        self._outputs = list(outputs)
        given = dict.fromkeys(inputs)
        ends = {var._operation for var in inputs if var._operation is not None}
        roots = [v._operation for v in outputs if v._operation is not None and v not in given]
        self._order = ordered(list(dict.fromkeys(roots)), lambda operation: operation in ends)
        for operation in self._order:
            for var in operation.inputs:
                if var is not None and var._operation is None and var._kind != CONST and var not in given:
                    if var._kind == TRAINABLE:
                        continue
                    raise UsageError(f"the outputs need the input '{var.name}', too", hint="name it among the inputs")
        self._layers: dict[Operation, str] = {}
        self._weights: dict[Var, str] = {}
        if for_training:
            for i, operation in enumerate(self._order):
                self._take(operation, i)

    def _take(self, operation: Operation, number: int) -> None:
        """Makes the weights of an operation parameters."""
        layer = _layer(operation)
        if layer is not None:
            self._layers[operation] = name = f"{operation.op.name.lower()}{number}"
            setattr(self, name, layer)
            return
        if _WEIGHTS.isdisjoint(operation.op.traits):
            return
        for k, var in enumerate(operation.inputs[1:_FIXED], 1):
            if var is not None and _is_weight(var) and var not in self._weights:
                self._weights[var] = name = f"{operation.op.name.lower()}{number}_{k}"
                setattr(self, name, trainable(var._value()))

    def forward(self, x: Any) -> Any:
        """The outputs for other inputs.

        Args:
            x: a Var for a graph with one input, a list of Vars for others, in any data format.

        Returns:
            A Var for a single Var and a single output, else a list.

        Raises:
            UsageError: an input is missing, or has the wrong number of axes or channels.
        """
        is_list = isinstance(x, (list, tuple)) and any(isinstance(v, (Var, np.ndarray)) for v in x)
        given = batch(x)
        if len(given) != len(self._inputs):
            names = ", ".join(f"'{s.name}'" for s in self._slots)
            raise UsageError(f"{len(given)} inputs are given, the graph has {len(self._slots)}", hint=names)
        made: dict[Any, Var] = {}
        for var, slot, value in zip(self._inputs, self._slots, given, strict=True):
            made[_key(var)] = _changed(value, slot, var)
        for var, name in self._weights.items():
            made[var] = self._vars[name]
        for operation in self._order:
            for index, result in enumerate(self._applied(operation, made)):
                made.setdefault((operation, index), result)
        results = [made.get(_key(var), var) for var in self._outputs]
        for var, result in zip(self._outputs, results, strict=True):
            result.name = result.name or var.name
        return results if is_list or len(results) > 1 else results[0]

    def _applied(self, operation: Operation, made: Mapping[Any, Var]) -> Sequence[Var]:
        operands = [None if v is None else made.get(_key(v), v) for v in operation.inputs]
        name = self._layers.get(operation)
        if name is not None:
            return [self._children[name].forward(operands[0])]
        attrs = operation.op.without_defaults(dict(operation.attrs))
        results: Sequence[Var] = apply(operation.op.name, *operands, n_outputs=operation.count, **attrs)
        return results


def _key(var: Var) -> Any:
    return var if var._operation is None else (var._operation, var._index)


def _is_weight(var: Var) -> bool:
    array = var._constant()
    return array is not None and array.dtype == np.float32 and array.ndim > 0


def _layer(operation: Operation) -> Module | None:
    """The layer that an operation is, if it is one whose weights are constants."""
    x, *rest = operation.inputs
    if x is None or not rest or any(v is not None and not _is_weight(v) for v in rest) or rest[0] is None:
        return None
    attrs = dict(operation.attrs)
    weight = rest[0]._value()
    bias = rest[1]._value() if len(rest) == 2 and rest[1] is not None else None
    if any(v is not None for v in rest[2:]) or attrs.get("activation"):
        return None
    if operation.op.name == "Conv" and weight.ndim == IMAGE:
        kept = ("strides", "pads", "dilations", "group", "auto_pad")
        return Convolution(
            trainable(weight), None if bias is None else trainable(bias), {key: attrs[key] for key in kept}
        )
    if operation.op.name == "Linear":
        return Linear(trainable(weight), None if bias is None else trainable(bias[None]))
    is_plain = operation.op.name == "MatMul" and weight.ndim == 2 and not attrs["transpose_a"]
    if is_plain and (x._type().rank or 0) > 1:
        return Linear(trainable(weight if attrs["transpose_b"] else weight.T), None)
    return None


def _slot(var: Var) -> Slot:
    type = var._type()
    shape = None if type.shape is None else tuple(d if isinstance(d, int) else -1 for d in type.shape)
    return Slot(var.name, type.dtype.numpy.name, shape, var.data_format.name)


def _changed(value: Var, slot: Slot, like: Var) -> Var:
    """A Var in the data format of an input."""
    change = change_for(value.shape, value.data_format, slot)
    if change.axes is not None:
        value = apply("Transpose", value, perm=change.axes, format=like.data_format)
    if change.batch:
        from minnow.expr import expand_dims

        value = expand_dims(value, 0)
    return value


@named("nn")
def load_module(inputs: Any, outputs: Any, for_training: Any) -> Module:
    """The graph between Vars, such as `expr.load_as_dict` gives, as a module.

    Args:
        inputs: the Vars that `forward` replaces by what it is given: placeholders, or results within the graph.
        outputs: the Vars to compute.
        for_training: True: weights become parameters, which an optimizer can change. False: they stay constants.

    Raises:
        UsageError: an argument is not a list of Vars, or the outputs need other placeholders.
    """
    rows = []
    for what, vars in (("inputs", inputs), ("outputs", outputs)):
        row = [vars] if isinstance(vars, Var) else vars
        if not isinstance(row, (list, tuple)) or not row or not all(isinstance(v, Var) for v in row):
            raise UsageError(f"{what} are not a list of Vars", hint="net = nn.load_module([x], [y], True)")
        rows.append(list(row))
    return GraphModule(rows[0], rows[1], bool(for_training))
