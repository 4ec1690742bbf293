"""Caffe net -> Model: finds the inputs, translates the layers in order; results that no layer reads are outputs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.base import Unsupported
from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.net import Shape, declared_inputs, needed, unread_tops
from minnow.converter.caffe.source import Source, open_source
from minnow.converter.caffe.upgrade import parameter_field
from minnow.converter.caffe.weight import constant
from minnow.converter.control_flow.variable import View, keep
from minnow.converter.inputs.cut import unknown_tensor
from minnow.converter.inputs.dimension import shape_from_use
from minnow.converter.inputs.given import Inputs
from minnow.schema.errors import ModelError, UnsupportedError, UsageError
from minnow.schema.ir import UNKNOWN, DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import merge
from minnow.schema.notice import Notice
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold


def read(
    path: Path,
    inputs: Any = None,
    batch: int | None = None,
    cut_inputs: Sequence[str] = (),
    cut_outputs: Sequence[str] = (),
    weights: str = "",
) -> Model:
    """Reads a net and its weights.

    Args:
        path: the definition (.prototxt) or the weights (.caffemodel); what is missing is looked for beside it.
        inputs: what `Inputs` takes: shapes that replace those in the file; "?" leaves a dimension as it is.
        batch: takes the place of the first dynamic dimension of every input.
        cut_inputs: names of tops that become inputs: what computes them is left out.
        cut_outputs: names of the tops that the model gives; by default those that no layer reads.
        weights: the other file of the pair, where it lies somewhere else.

    Raises:
        FormatError: no net, or damaged. ModelError: invalid. UnsupportedError: with all unknown layers.
        UsageError: names of inputs or tops that there are not.
    """
    source = open_source(path, weights)
    return _Net(source, cut_inputs, cut_outputs).model(Inputs.of(inputs), batch)


class _Net:
    """A net while it is translated."""

    def __init__(self, source: Source, cut_inputs: Sequence[str], cut_outputs: Sequence[str]) -> None:
        self.source = source
        self.layers = source.layers
        self.outputs = list(dict.fromkeys(cut_outputs)) or unread_tops(self.layers)
        self.cuts = list(dict.fromkeys(cut_inputs))
        if not self.outputs:
            raise ModelError("the net has no outputs", where=source.where, why="every result is read by another layer")
        names = {n for layer in self.layers for n in layer.top} | set(source.net.input)
        if unknown := [n for n in (*self.cuts, *cut_outputs) if n not in names]:
            raise unknown_tensor(unknown[0], sorted(names), source.where, "top")
        if self.cuts or cut_outputs:
            self.layers = needed(self.layers, self.outputs, self.cuts)
        self.unsupported = Unsupported("caffe")
        self.graph = Graph("main")
        self.values: dict[str, Value | None] = {}
        self.notices: list[str] = []
        self.memory = View(self.graph)

    def model(self, given: Inputs, batch: int | None) -> Model:
        inputs = self._inputs(given, batch)
        for name, type in inputs.items():
            self.values[name] = self.graph.add_param(type, name)
        self._check()
        for i, layer in enumerate(self.layers):
            if layer.type == "Input" or frontend.is_source(layer) or frontend.purpose(layer):
                self._leave_out(layer)
            else:
                try:
                    self._layer(layer, layer.name or f"{layer.type}{i}")
                except ModelError:
                    if self.source.weights is None:
                        # A net without weights can still be checked: what is unsupported in it is reported first.
                        self.unsupported.raise_if_any(self.source.where)
                    raise
        self.unsupported.raise_if_any(self.source.where)
        outputs = [(name, self._value(name, "an output")) for name in self.outputs]
        self.graph.outputs = [value for _, value in outputs]
        remembered = set(self.memory.params.values())
        for parameter in self.graph.params:
            parameter.type = parameter.type.with_shape(merge(parameter.type.shape, shape_from_use(parameter)))
        model = Model(self.graph, source="caffe", notices=self.notices)
        model.inputs = [(v.name, v.type) for v in self.graph.params if v not in remembered]
        model.outputs = [(self._free(name), value.type) for name, value in outputs]
        for key, param in self.memory.params.items():
            start = np.zeros(param.type.static_shape, np.float32)
            self.graph.outputs = [*self.graph.outputs, keep(model, self.memory, key, start)]
        return model

    def _free(self, name: str) -> str:
        """The name of an output: an input that a layer has changed in its place is one of another name."""
        taken, free = {p.name for p in self.graph.params}, name
        while free in taken:
            free += "_out"
        if free != name:
            text = f"the output '{name}' is renamed to '{free}': an input has its name"
            self.notices.append(Notice(text, "name-changed"))
        return free

    def state(self, key: str, shape: tuple[int, ...]) -> Value:
        """What the last run has left of a layer; it starts as 0."""
        if key in self.memory.params:
            raise ModelError(f"two layers keep a state named '{key}'", where=self.source.where)
        self.memory.params[key] = self.memory.values[key] = self.graph.add_param(TensorType(DType.F32, shape), key)
        return self.memory.params[key]

    def assign(self, key: str, value: Value) -> None:
        """What a layer leaves for the next run."""
        self.memory.values[key] = value

    def _inputs(self, given: Inputs, batch: int | None) -> dict[str, TensorType]:
        found = declared_inputs(self.source.net, self.layers)
        if self.cuts:
            read = {n for layer in self.layers for n in layer.bottom}
            found = {n: s for n, s in found.items() if n in read and n not in self.cuts} | dict.fromkeys(self.cuts)
        if not found:
            raise ModelError("the net has no inputs", where=self.source.where)
        if unknown := sorted(set(given.named(list(found))) - set(found)):
            raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs: {', '.join(found)}")
        types = {}
        for name, shape in found.items():
            if shape is not None and any(isinstance(d, int) and d < 0 for d in shape):
                raise ModelError(f"the input '{name}' has the invalid shape {shape}", where=self.source.where)
            if name in given:
                given[name].check(name, DType.F32)
                shape = _replaced(shape, given[name].shape)
            if batch is not None and shape is not None and any(not isinstance(d, int) for d in shape):
                first = next(i for i, d in enumerate(shape) if not isinstance(d, int))
                shape = tuple(batch if i == first else d for i, d in enumerate(shape))
            types[name] = TensorType(DType.F32, shape)
        return types

    def _check(self) -> None:
        """Reports layers without a mapping as unsupported."""
        for i, layer in enumerate(self.layers):
            if layer.type == "Input" or frontend.is_source(layer) or frontend.purpose(layer):
                continue
            if frontend.find(layer.type, 1) is None:
                refusal = frontend.refusal(layer.type, 1)
                reason = f"{layer.type} ({refusal.why})" if refusal else layer.type or "a layer without a type"
                self.unsupported.add(reason, layer.name or f"{layer.type}{i}", refusal.hint if refusal else "")

    def _leave_out(self, layer: Any) -> None:
        if purpose := frontend.purpose(layer):
            text = f"the layer '{layer.name}' is left out: {layer.type} {purpose}"
            self.notices.append(Notice(text, "layer-left-out"))
        elif frontend.is_source(layer) and (read := [n for n in layer.top if n in self.values]):
            text = (
                f"the results of the layer '{layer.name}' ({layer.type}) become inputs of the model: {', '.join(read)}"
            )
            self.notices.append(Notice(text, "layer-left-out"))

    def _value(self, name: str, reader: str) -> Value:
        value = self.values.get(name)
        if value is None:
            raise ModelError(f"there is no blob '{name}'", where=self.source.where,
                             why=f"it is needed as {reader}, and no layer before computes it")  # fmt: skip
        return value

    def _layer(self, layer: Any, name: str) -> None:
        mapping = frontend.find(layer.type, 1)
        for bottom in layer.bottom:
            if bottom not in self.values:
                raise ModelError(f"'{bottom}' is read before any layer computes it", where=f"caffe:{name}")
        operands = [self.values[bottom] for bottom in layer.bottom]
        results: Sequence[Value | None] = [None] * len(layer.top)
        if mapping is not None and all(v is not None for v in operands):
            try:
                results = self._converted(layer, name, mapping, operands)
            except UnsupportedError as e:
                self.unsupported.add_error(e, name)
        self.values |= {n: v for n, v in zip(layer.top, results, strict=False) if n not in self.cuts}

    def _converted(self, layer: Any, name: str, mapping: Any, operands: Sequence[Value | None]) -> list[Value | None]:
        origin = f"caffe:{name}"
        b = Builder(self.graph, origin=origin)
        blobs = self.source.blobs.get(layer.name, [])
        numbers = [constant(blob, f"{name}.{i}", origin) for i, blob in enumerate(blobs)]
        call = Layer(layer.type, name, origin, 1, len(layer.top), list(layer.top), self, message=layer,
                     weights=numbers)  # fmt: skip
        results: list[Value | None] = list(frontend.translate(mapping, b, call, operands, self._attributes(layer)))
        if len(results) < len(layer.top):
            raise ModelError(
                f"{layer.type} has {len(results)} outputs, but the net names {len(layer.top)}", where=origin
            )
        fresh = {v for node in b.made for v in node.outputs}
        folded = fold(self.graph, b.made, results)
        for top, old, value in zip(layer.top, results, folded, strict=False):
            if old in fresh and value is not None:
                value.name = top
        return folded

    def _attributes(self, layer: Any) -> dict[str, Any]:
        """The parameters of a layer; unknown ones, too, so that its translation refuses it."""
        own = parameter_field(layer.type)
        strange = {field: None for name, field in self.source.strange.get(layer.name, ()) if name == own}
        return {**strange, **attributes(layer)}


def attributes(layer: Any) -> dict[str, Any]:
    """What the file sets of the parameters of a layer, as plain values: enums by name, what is repeated as a tuple."""
    field = parameter_field(layer.type)
    if not field or not layer.HasField(field):
        return {}
    out: dict[str, Any] = {}
    for known, value in getattr(layer, field).ListFields():
        if known.enum_type is not None:
            value = known.enum_type.values_by_number[value].name
        out[known.name] = tuple(value) if known.is_repeated else value
    return out


def _replaced(shape: Shape, given: Shape) -> Shape:
    """The shape that is asked for, with the dimensions of the file where it asks for none."""
    if given is None or shape is None or len(given) != len(shape):
        return shape if given is None else given
    return tuple(old if new == UNKNOWN else new for old, new in zip(shape, given, strict=True))
