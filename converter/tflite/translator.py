"""Translates the subgraphs of a TFLite file operator by operator, in float or on quantized values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from minnow.converter.base import Mapping_, Unsupported
from minnow.converter.inputs.dimension import fix_inputs
from minnow.converter.tflite.document import Document, Operator, Subgraph, Tensor, node_name, port_name
from minnow.converter.tflite.frontend import Operation, frontend
from minnow.converter.tflite.ops.state import Variables
from minnow.converter.tflite.quantization import Quantization, dequantize, quantize, requantize
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, Model, TensorType, Value
from minnow.schema.ir.type import merge
from minnow.schema.limit import add_nodes
from minnow.schema.notice import Notice
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold


class _MissingError(Exception):
    """The value depends on an unsupported operator, which has been reported."""


@dataclass
class Scope:
    """A subgraph while it is translated.

    Attributes:
        values: by index of the tensor.
        missing: tensors that come from operators which cannot be converted.
    """

    source: Subgraph
    graph: Graph
    values: dict[int, Value]
    missing: set[int] = field(default_factory=set)


class Translator:
    """Translates operators in order. Control flow mappings reach it through `node.context`.

    An unsupported operator is reported, and what depends on it is skipped.

    Attributes:
        float_only: quantized tensors are kept as the real numbers that they stand for.
        variables: what the graph keeps between runs.
    """

    def __init__(self, document: Document, unsupported: Unsupported, float_only: bool) -> None:
        self.document = document
        self.unsupported = unsupported
        self.float_only = float_only
        self.variables = Variables()
        self._stack: list[int] = []

    def model(self, index: int, given: Any, batch: int | None) -> Model:
        """The model of an entry point."""
        source = self.document.subgraphs[index]
        scope = Scope(source, Graph("main"), {})
        types: dict[str, TensorType] = {}
        names = []
        for k, i in enumerate(source.inputs):
            name = port_name(source.tensors[i], k)
            name = name if name not in types else f"{name}:{k}"
            names.append(name)
            types[name] = self._plain(source.tensors[i], "an input")
        fixed = fix_inputs(types, given, batch)
        b = Builder(scope.graph, origin="tflite:inputs")
        for name, i in zip(names, source.inputs, strict=True):
            if i in scope.values:
                raise ModelError(f"tensor {i} is listed twice among the inputs", where=str(self.document.path))
            param = scope.graph.add_param(fixed[name], name)
            q = source.tensors[i].quant
            scope.values[i] = dequantize(b, param, q) if q and q.is_activation and self.float_only else param
        with self.variables.inside(scope.graph):
            self._operators(index, scope)
            outputs = [self._output(scope, i) for i in source.outputs]
        self.unsupported.raise_if_any(str(self.document.path))
        scope.graph.outputs = [v for v in outputs if v is not None]
        model = Model(scope.graph, source="tflite")
        model.inputs = [(name, fixed[name]) for name in names]
        for k, (i, value) in enumerate(zip(source.outputs, scope.graph.outputs, strict=True)):
            model.outputs.append((port_name(source.tensors[i], k), self._declared(source.tensors[i], value)))
        for what, indices in (("input", source.inputs), ("output", source.outputs)):
            for k, i in enumerate(indices):
                if source.tensors[i].is_complex:
                    name = port_name(source.tensors[i], k)
                    text = f"the {what} '{name}' is complex: its real and imaginary parts are pairs along a last axis"
                    model.notices.append(Notice(text, "complex-as-pairs"))
        self.variables.finish(model, self.variables.closed[scope.graph])
        return model

    def _plain(self, tensor: Tensor, what: str) -> TensorType:
        if tensor.is_complex:
            return tensor.type
        if tensor.kind == "resource":
            raise UnsupportedError(f"a {tensor.kind} as {what} is not supported", where=tensor.where)
        return tensor.type

    def _output(self, scope: Scope, i: int) -> Value | None:
        tensor = scope.source.tensors[i]
        try:
            value = self._lookup(i, scope, str(self.document.path))
        except _MissingError:
            return None
        assert value is not None
        if value.type.layout == "resource":
            raise UnsupportedError("a resource as an output is not supported", where=tensor.where)
        if self.float_only and tensor.quant and tensor.quant.is_activation:
            value = quantize(Builder(scope.graph, origin="tflite:outputs"), value, tensor.quant)
        return value

    def _declared(self, tensor: Tensor, value: Value) -> TensorType:
        if all(isinstance(d, int) for d in value.type.shape or ("?",)):
            return value.type
        try:
            return value.type.with_shape(merge(value.type.shape, tensor.type.shape))
        except ModelError:
            return value.type  # what is computed counts: files declare shapes of other dimensions of the inputs

    def inline(self, index: int, operands: Sequence[Value | None], graph: Graph) -> list[Value]:
        """Translates a subgraph into the graph of its caller; gives its outputs."""
        source = self.document.subgraphs[index]
        if len(operands) != len(source.inputs):
            raise ModelError(f"subgraph {index} has {len(source.inputs)} inputs, but gets {len(operands)}")
        scope = Scope(source, graph, {i: v for i, v in zip(source.inputs, operands, strict=True) if v is not None})
        self._operators(index, scope)
        return self._given(scope, source.outputs)

    def subgraph(self, index: int, params: Sequence[Value | TensorType], name: str) -> Graph:
        """Translates a subgraph into a graph of its own, whose parameters have these types.

        A Value among `params` is known to the subgraph as it stands, and is no parameter: a resource. Variables that
        the subgraph reads are further parameters; `Variables.closed` tells which these are, and which it assigns.
        """
        source = self.document.subgraphs[index]
        if len(params) != len(source.inputs):
            raise ModelError(f"subgraph {index} has {len(source.inputs)} inputs, but gets {len(params)}")
        scope = Scope(source, Graph(name), {})
        for i, type in zip(source.inputs, params, strict=True):
            tensor_name = source.tensors[i].name
            scope.values[i] = type if isinstance(type, Value) else scope.graph.add_param(type, tensor_name)
        with self.variables.inside(scope.graph):
            self._operators(index, scope)
            scope.graph.outputs = [v for v in self._given(scope, source.outputs) if v.type.layout != "resource"]
        return scope.graph

    def _given(self, scope: Scope, indices: Sequence[int]) -> list[Value]:
        values = [self._lookup(i, scope, str(self.document.path)) for i in indices]
        return [v for v in values if v is not None]

    def _operators(self, index: int, scope: Scope) -> None:
        if index in self._stack:
            raise ModelError(f"subgraph {index} ('{scope.source.name}') calls itself", where=str(self.document.path))
        self._stack.append(index)
        try:
            for operator in scope.source.operators:
                add_nodes(1, f"subgraph {index} ('{scope.source.name}')")
                name = node_name(scope.source, operator)
                try:
                    self._operator(operator, name, scope)
                except UnsupportedError as e:
                    self.unsupported.add_error(e, name)
                    scope.missing.update(operator.outputs)
                except _MissingError:
                    scope.missing.update(operator.outputs)
        finally:
            self._stack.pop()

    def _operator(self, operator: Operator, name: str, scope: Scope) -> None:
        origin, tensors = f"tflite:{name}", scope.source.tensors
        inputs = [self._lookup(i, scope, origin) for i in operator.inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        outs = [tensors[i] for i in operator.outputs if i >= 0]
        ins = [tensors[i] if i >= 0 else None for i in operator.inputs]
        call = Operation(operator.op, name, origin, operator.version, len(operator.outputs), [t.name for t in outs],
                         self, operator=operator, tensors_in=ins, tensors_out=outs,
                         tensors_between=[tensors[i] for i in operator.intermediates if i >= 0])  # fmt: skip
        if not frontend.knows(operator.op, operator.version):
            raise _MissingError  # `_check` has reported it
        mapping = frontend.find(operator.op, operator.version)
        if any(t is not None and t.is_complex for t in [*ins, *outs]) and operator.op not in frontend.flow:
            mapping = frontend.complex_mappings.get(operator.op)
            if mapping is None:
                raise UnsupportedError(f"{operator.op} of complex numbers is not supported", where=origin)
        b = Builder(scope.graph, origin=origin)
        made = fold(scope.graph, b.made, self._translated(b, call, mapping, inputs))
        fresh = {v for n in b.made for v in n.outputs}
        if len(made) < len(operator.outputs):
            raise ModelError(
                f"{operator.op} has {len(made)} outputs, but the file names {len(operator.outputs)}", where=origin
            )
        for i, value in zip(operator.outputs, made, strict=False):
            if i < 0:
                continue
            if value is None:
                continue  # scratch space that old files list
            if i in scope.values:
                raise ModelError(f"the tensor '{tensors[i].name}' is computed twice", where=origin)
            if value in fresh or (value.data is not None and not value.name):
                value.name = tensors[i].name
            scope.values[i] = self._typed(b, value, tensors[i], call)

    def _typed(self, b: Builder, value: Value, tensor: Tensor, call: Operation) -> Value:
        """The value as its type is declared: an index that is i64 here and i32 there, and no rank that is known."""
        if value.type.layout == "resource" or tensor.kind in ("resource", "variant", "string"):
            return value
        declared = tensor.type
        wanted = DType.F32 if self.float_only and tensor.quant and tensor.quant.is_activation else declared.dtype
        if value.type.dtype is not wanted:
            if not (value.type.dtype.is_int and wanted.is_int):
                raise ModelError(f"{call.op} gives {value.type.dtype}, but {wanted} is declared", where=call.origin)
            (value,) = (v for v in fold(b.graph, b.made, [b.Cast(value, to=wanted)]) if v is not None)
            value.name = tensor.name
        if value.type.shape is None and value.data is None and declared.shape:
            # Dynamic dimensions are written as 1 by some tools, but the rank is right.
            value.type = value.type.with_shape(("?",) * len(declared.shape))
        return value

    def _translated(
        self, b: Builder, call: Operation, mapping: Mapping_ | None, inputs: list[Value | None]
    ) -> Sequence[Value | None]:
        """The results of an operator: quantized where a mapping supports that, in float otherwise."""
        quants = [call.quant(i) if v is not None else None for i, v in enumerate(inputs)]
        outs = [t.quant for t in call.tensors_out]
        if call.op in frontend.flow:
            return self._call(mapping, b, call, inputs)
        if self.float_only:
            return self._in_float(b, call, mapping, inputs, quants, outs)
        if not any(q is not None and q.is_activation for q in [*quants, *outs]):
            return self._call(mapping, b, call, inputs)
        if special := frontend.quantized_mappings.get(call.op):
            made: Sequence[Value | None] = self._call(special, b, call, inputs)
            if made:
                return made
        if call.op in frontend.raw:
            return self._call(mapping, b, call, inputs)
        if call.op in frontend.moving and (made := self._moved(b, call, mapping, inputs, quants, outs)):
            return made
        floats = []
        for i, (v, q) in enumerate(zip(inputs, quants, strict=True)):
            of_reals = q is not None and v is not None and (q.is_activation or _is_bias(mapping, i, v))
            floats.append(dequantize(b, v, q) if v is not None and q is not None and of_reals else v)
        made = self._call(mapping, b, call, floats)
        return [_fitted(b, v, q) for v, q in zip(made, outs, strict=False)]

    def _moved(
        self,
        b: Builder,
        call: Operation,
        mapping: Mapping_ | None,
        inputs: Sequence[Value | None],
        quants: Sequence[Quantization | None],
        outs: Sequence[Quantization | None],
    ) -> Sequence[Value | None]:
        """Moves quantized values: operands get the quantization of the first result, others follow from it."""
        target = outs[0] if outs else None
        if target is None or target.per_axis or any(q is not None and q.per_axis for q in quants):
            return ()
        args = [
            requantize(b, v, q, target) if v is not None and q is not None and q.is_activation else v
            for v, q in zip(inputs, quants, strict=True)
        ]
        made = self._call(mapping, b, call, args)
        return [
            requantize(b, v, target, q) if v is not None and q is not None and q.is_activation else v
            for v, q in zip(made, outs, strict=False)
        ]

    def _in_float(
        self,
        b: Builder,
        call: Operation,
        mapping: Mapping_ | None,
        inputs: Sequence[Value | None],
        quants: Sequence[Quantization | None],
        outs: Sequence[Quantization | None],
    ) -> Sequence[Value | None]:
        """Activations are real numbers already; biases, and numbers read as they are stored, are not."""
        if call.op in ("QUANTIZE", "DEQUANTIZE") and inputs[0] is not None and inputs[0].type.dtype is DType.F32:
            return [inputs[0]]
        raw = call.op in frontend.raw
        args = []
        for i, (v, q) in enumerate(zip(inputs, quants, strict=True)):
            if v is not None and q is not None and raw and q.is_activation:
                v = quantize(b, v, q)
            elif v is not None and q is not None and v.type.dtype.is_int and _is_bias(mapping, i, v):
                v = dequantize(b, v, q)
            args.append(v)
        made = list(self._call(mapping, b, call, args))
        for i, (v, q) in enumerate(zip(made, outs, strict=False)):
            if v is None or q is None or not q.is_activation:
                continue
            if v.type.dtype.is_int:
                made[i] = dequantize(b, v, q)
            elif not q.per_axis and call.op not in frontend.moving:
                # The ends of the range are an activation's, which is why the file need not name it.
                low, high = q.real(np.array([q.lowest, q.highest]))
                made[i] = b.Clip(v, min=float(low), max=float(high))
        return made

    def _call(
        self, mapping: Mapping_ | None, b: Builder, call: Operation, inputs: Sequence[Value | None]
    ) -> tuple[Value | None, ...]:
        if mapping is None:
            raise UnsupportedError(f"{call.op} is supported for quantized operands only", where=call.origin)
        operator = call.operator
        # What a mapping does not know counts only where the file gives another value than the default.
        attrs = {k: v for k, v in operator.attrs.items() if k in mapping.attrs or v != operator.defaults.get(k)}
        return frontend.translate(mapping, b, call, inputs, attrs)

    def _lookup(self, i: int, scope: Scope, origin: str) -> Value | None:
        if i < 0:
            return None
        tensor = scope.source.tensors[i]
        if i in scope.values and not tensor.variable:
            return scope.values[i]
        if i in scope.missing:
            raise _MissingError
        value = self._constant(tensor, scope)
        if value is None:
            raise ModelError(
                f"tensor {i} ('{tensor.name}') is read before it is computed",
                where=origin,
                why="operators must be in execution order: this file has a cycle, or the data is missing",
            )
        scope.values[i] = value
        return value

    def _constant(self, tensor: Tensor, scope: Scope) -> Value | None:
        blob = tensor.blob
        if blob is None:
            if tensor.variable:
                value = self.variables.tensor(tensor)
                real = self.float_only and tensor.quant is not None and tensor.quant.is_activation
                return dequantize(Builder(scope.graph), value, tensor.quant) if real and tensor.quant else value
            if tensor.kind != "resource" and prod(d for d in tensor.shape if isinstance(d, int)) == 0:
                shape = tuple(d if isinstance(d, int) else 0 for d in tensor.shape)
                return Value.constant(np.zeros(shape, tensor.type.dtype.numpy), tensor.name)
            return None
        value = Value.constant(blob, tensor.name)
        q = tensor.quant
        if self.float_only and q is not None and q.is_activation:
            return dequantize(Builder(scope.graph), value, q)
        return value


def _is_bias(mapping: Mapping_ | None, i: int, value: Value) -> bool:
    """Quantized sums, which have a scale too: by the name of the operand, and where there are only numbers constant."""
    if mapping is None or mapping.variadic:
        return value.data is not None
    return i < len(mapping.parameters) and "bias" in mapping.parameters[i]


def _fitted(b: Builder, value: Value | None, q: Quantization | None) -> Value | None:
    """A result computed in float, quantized where that is declared."""
    if value is None or q is None or not q.is_activation or not value.type.dtype.is_float:
        return value
    return quantize(b, value, q)
