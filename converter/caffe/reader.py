"""Caffe net -> Model: finds the inputs, translates the layers in their order, gives what no layer reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from minnow.converter.base import Unsupported
from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.source import Source, open_source
from minnow.converter.caffe.upgrade import parameter_field
from minnow.converter.caffe.weight import constant
from minnow.converter.extent import shape_from_use
from minnow.converter.variable import View, keep
from minnow.schema.errors import ModelError, UnsupportedError, UsageError
from minnow.schema.ir import UNKNOWN, Dim, DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder
from minnow.schema.ops.folding import fold

Shape = tuple[Dim, ...] | None


def read(
    path: Path,
    inputs: Mapping[str, Sequence[Dim]] | None = None,
    batch: int | None = None,
    cut_outputs: Sequence[str] = (),
    weights: str = "",
) -> Model:
    """Reads a net and its weights.

    Args:
        path: the definition (.prototxt) or the weights (.caffemodel); what is missing is looked for beside it.
        inputs: shapes that replace those in the file, by input name; "?" leaves an extent as it is.
        batch: takes the place of the first open extent of every input.
        cut_outputs: names of the tops that the model gives; by default those that no layer reads.
        weights: the other file of the pair, where it lies somewhere else.

    Raises:
        FormatError: no net, or damaged. ModelError: invalid. UnsupportedError: with all unknown layers.
        UsageError: names of inputs or tops that there are not.
    """
    source = open_source(path, weights)
    return _Net(source, cut_outputs).model(inputs or {}, batch)


def declared_inputs(source: Source, layers: Iterable[Any]) -> dict[str, Shape]:
    """The inputs of a net in their order: those it declares, and what its layers read of the data of a training."""
    read = {name for layer in layers if layer.type not in frontend.dropped for name in layer.bottom}
    left = {name for layer in layers if layer.type in frontend.dropped for name in layer.bottom} - read
    net = source.net
    found: dict[str, Shape] = {}
    for i, name in enumerate(net.input):
        shape: Shape = None
        if i < len(net.input_shape):
            shape = tuple(net.input_shape[i].dim)
        elif dims := tuple(net.input_dim)[4 * i : 4 * i + 4]:
            shape = dims
        found[name] = shape
    for layer in layers:
        if layer.type == "Input":
            shapes = [tuple(s.dim) for s in layer.input_param.shape]
            for i, name in enumerate(layer.top):
                found[name] = shapes[i if len(shapes) == len(layer.top) else 0] if shapes else None
        elif layer.type in frontend.sources:
            found |= {n: _data_shape(layer) if i == 0 else None for i, n in enumerate(layer.top) if n in read}
    return {name: shape for name, shape in found.items() if name not in left}


def _data_shape(layer: Any) -> Shape:
    """The shape of the images that a layer reads from a data base, as far as it says."""
    own = getattr(layer, parameter_field(layer.type) or "data_param")
    if layer.type == "MemoryData":
        return tuple(getattr(own, n) or UNKNOWN for n in ("batch_size", "channels", "height", "width"))
    crop = layer.transform_param.crop_size or getattr(own, "crop_size", 0)
    if not crop:
        return (own.batch_size or UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)
    return (own.batch_size or UNKNOWN, UNKNOWN, crop, crop)


def unread_tops(layers: Iterable[Any]) -> list[str]:
    """The tops that no later layer reads, in their order."""
    unread: dict[str, None] = {}
    for layer in layers:
        if layer.type in frontend.dropped and layer.type != "Silence":
            continue
        for name in layer.bottom:
            unread.pop(name, None)
        if layer.type != "Input" and layer.type not in frontend.sources:
            unread |= dict.fromkeys(layer.top)
    return [*unread]


class _Net:
    """A net while it is translated."""

    def __init__(self, source: Source, cut_outputs: Sequence[str]) -> None:
        self.source = source
        self.layers = source.layers
        self.outputs = list(dict.fromkeys(cut_outputs)) or unread_tops(self.layers)
        if cut_outputs:
            self.layers = self._needed()
        if not self.outputs:
            raise ModelError("the net has no outputs", where=source.where, why="every top is read by another layer")
        self.unsupported = Unsupported()
        self.graph = Graph("main")
        self.values: dict[str, Value | None] = {}
        self.notices: list[str] = []
        self.memory = View(self.graph)

    def _needed(self) -> list[Any]:
        """The layers that the outputs depend on."""
        wanted, kept = set(self.outputs), []
        for layer in reversed(self.layers):
            if hit := wanted & set(layer.top):
                wanted = (wanted - hit) | set(layer.bottom)
                kept.append(layer)
        names = {n for layer in self.source.layers for n in layer.top} | set(self.source.net.input)
        if unknown := [n for n in self.outputs if n not in names]:
            raise UsageError(f"the net has no top '{unknown[0]}'", where=self.source.where)
        return kept[::-1]

    def model(self, shapes: Mapping[str, Sequence[Dim]], batch: int | None) -> Model:
        inputs = self._inputs(shapes, batch)
        for name, type in inputs.items():
            self.values[name] = self.graph.add_param(type, name)
        self._check()
        for i, layer in enumerate(self.layers):
            if layer.type == "Input" or layer.type in frontend.sources or layer.type in frontend.dropped:
                self._leave_out(layer)
            else:
                self._layer(layer, layer.name or f"{layer.type}{i}")
        self.unsupported.raise_if_any(self.source.where)
        outputs = [(name, self._value(name, "an output")) for name in self.outputs]
        self.graph.outputs = [value for _, value in outputs]
        remembered = set(self.memory.params.values())
        for parameter in self.graph.params:
            parameter.type = parameter.type.with_shape(merge(parameter.type.shape, shape_from_use(parameter)))
        model = Model(self.graph, source="caffe", notices=self.notices)
        model.inputs = [(v.name, v.type) for v in self.graph.params if v not in remembered]
        model.outputs = [(name, value.type) for name, value in outputs]
        for key, param in self.memory.params.items():
            start = np.zeros(param.type.static_shape, np.float32)
            self.graph.outputs = [*self.graph.outputs, keep(model, self.memory, key, start)]
        return model

    def state(self, key: str, shape: tuple[int, ...]) -> Value:
        """What the last run has left of a layer; it starts as 0."""
        if key in self.memory.params:
            raise ModelError(f"two layers remember '{key}'", where=self.source.where)
        self.memory.params[key] = self.memory.values[key] = self.graph.add_param(TensorType(DType.F32, shape), key)
        return self.memory.params[key]

    def assign(self, key: str, value: Value) -> None:
        """What a layer leaves for the next run."""
        self.memory.values[key] = value

    def _inputs(self, shapes: Mapping[str, Sequence[Dim]], batch: int | None) -> dict[str, TensorType]:
        found = declared_inputs(self.source, self.layers)
        if not found:
            raise ModelError("the net has no inputs", where=self.source.where)
        if unknown := sorted(set(shapes) - set(found)):
            raise UsageError(f"the model has no input '{unknown[0]}'", hint=f"its inputs: {', '.join(found)}")
        types = {}
        for name, shape in found.items():
            if shape is not None and any(isinstance(d, int) and d < 0 for d in shape):
                raise ModelError(f"the input '{name}' has the shape {shape}", where=self.source.where)
            if name in shapes:
                shape = _replaced(shape, shapes[name], name)
            if batch is not None and shape is not None and any(not isinstance(d, int) for d in shape):
                first = next(i for i, d in enumerate(shape) if not isinstance(d, int))
                shape = tuple(batch if i == first else d for i, d in enumerate(shape))
            types[name] = TensorType(DType.F32, shape)
        return types

    def _check(self) -> None:
        """Puts on the list what has no mapping."""
        for i, layer in enumerate(self.layers):
            if layer.type in frontend.dropped or layer.type in frontend.sources or layer.type == "Input":
                continue
            if frontend.find(layer.type, 1) is None:
                refusal = frontend.refusal(layer.type, 1)
                reason = f"{layer.type} ({refusal.why})" if refusal else layer.type or "a layer without a type"
                self.unsupported.add(reason, layer.name or f"{layer.type}{i}", refusal.hint if refusal else "")

    def _leave_out(self, layer: Any) -> None:
        if layer.type in frontend.dropped:
            self.notices.append(f"the layer '{layer.name}' is left out: {layer.type} {frontend.dropped[layer.type]}")
        elif layer.type in frontend.sources and (read := [n for n in layer.top if n in self.values]):
            self.notices.append(f"what the layer '{layer.name}' ({layer.type}) gives is an input: {', '.join(read)}")

    def _value(self, name: str, reader: str) -> Value:
        value = self.values.get(name)
        if value is None:
            raise ModelError(f"there is no '{name}'", where=self.source.where,
                             why=f"{reader} is asked for, and no layer before gives it")  # fmt: skip
        return value

    def _layer(self, layer: Any, name: str) -> None:
        mapping = frontend.find(layer.type, 1)
        for bottom in layer.bottom:
            if bottom not in self.values:
                raise ModelError(f"'{bottom}' is read before any layer gives it", where=f"caffe:{name}")
        operands = [self.values[bottom] for bottom in layer.bottom]
        results: Sequence[Value | None] = [None] * len(layer.top)
        if mapping is not None and all(v is not None for v in operands):
            try:
                results = self._converted(layer, name, mapping, operands)
            except UnsupportedError as e:
                self.unsupported.add_error(e, name)
        self.values |= dict(zip(layer.top, results, strict=False))

    def _converted(self, layer: Any, name: str, mapping: Any, operands: Sequence[Value | None]) -> list[Value | None]:
        origin = f"caffe:{name}"
        b = Builder(self.graph, origin=origin)
        blobs = self.source.blobs.get(layer.name, [])
        numbers = [constant(blob, f"{name}.{i}", origin) for i, blob in enumerate(blobs)]
        call = Layer(layer.type, name, origin, 1, len(layer.top), list(layer.top), self, message=layer,
                     weights=numbers)  # fmt: skip
        results: list[Value | None] = list(frontend.translate(mapping, b, call, operands, attributes(layer)))
        if len(results) < len(layer.top):
            raise ModelError(f"{layer.type} has {len(results)} tops, not {len(layer.top)}", where=origin)
        fresh = {v for node in b.made for v in node.outputs}
        folded = fold(self.graph, b.made, results)
        for top, old, value in zip(layer.top, results, folded, strict=False):
            if old in fresh and value is not None:
                value.name = top
        return folded


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


def _replaced(shape: Shape, given: Sequence[Dim], name: str) -> Shape:
    """The shape that is asked for, with the extents of the file where it asks for none."""
    if shape is None or len(given) != len(shape):
        return tuple(UNKNOWN if d == "?" else d for d in given)
    return tuple(old if new == "?" else new for old, new in zip(shape, given, strict=True))
