"""Translates the graphs of an ONNX file node by node; calls of functions and subgraphs included."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any

import onnx
from onnx import helper

from minnow.converter.base import Call, Unsupported
from minnow.converter.inputs.dimension import fix_inputs
from minnow.converter.onnx.custom import custom_node
from minnow.converter.onnx.frontend import frontend
from minnow.converter.onnx.function import DEFAULT_DOMAINS, Body, Library, types_of
from minnow.converter.onnx.tensor import dtype_of, initializer, load_tensor, no_strings
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Graph, TensorType, Value
from minnow.schema.ir.type import Dim, merge, optional, sequence
from minnow.schema.limit import add_name
from minnow.schema.ops import Builder
from minnow.schema.registry.folding import fold

_LONGEST_DIM = 1000
"""Characters of a formula for a dimension; nothing follows from a longer one."""


def qualified(node: onnx.NodeProto) -> str:
    """Name under which an operator's mapping is registered: "Conv", or "com.microsoft::FusedConv"."""
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}::{node.op_type}"


def version_of(node: onnx.NodeProto, opsets: Mapping[str, int]) -> int:
    return opsets.get("" if node.domain in DEFAULT_DOMAINS else node.domain, 1)


class _MissingError(Exception):
    """The value depends on an unsupported node, which has been reported."""


@dataclass
class Scope:
    """Names visible in a graph: its own values, then those of the graph around it, which are captured on demand.

    Attributes:
        values: None stands for a parameter of a function that the call does not give.
        inlined: the nodes go to the graph of the scope around it, or of the call.
        missing: names of what nodes compute that cannot be converted.
        prefix: of the names of its values and nodes: the calls through which a function's body was reached.
    """

    graph: Graph
    values: dict[str, Value | None]
    outer: Scope | None = None
    inlined: bool = False
    prefix: str = ""
    missing: set[str] = field(default_factory=set)


class Translator:
    """Translates the nodes of a file in order. Control flow mappings reach it through `node.context`.

    An unsupported node is reported, and what depends on it is skipped: all others are looked at.
    """

    def __init__(
        self,
        path: Path,
        opsets: Mapping[str, int],
        library: Library,
        unsupported: Unsupported,
        custom_ops: bool = False,
    ) -> None:
        self.path = path
        self.custom_ops = custom_ops
        self.opsets = opsets
        self.library = library
        self.unsupported = unsupported
        self.scope: Scope | None = None

    def main(
        self, proto: onnx.GraphProto, given: Any = None, batch: int | None = None
    ) -> tuple[Graph, list[tuple[str, TensorType]]]:
        """The main graph, and its outputs as the file declares them."""
        scope = Scope(Graph("main"), {})
        for kind, infos in (("input", proto.input), ("output", proto.output), ("initializer", proto.initializer)):
            for name, times in Counter(info.name for info in infos).most_common(1):
                if times > 1:
                    raise ModelError(f"there are {times} {kind}s named '{name}'", where=str(self.path))
        initialized = self._initializers(proto, scope)
        types = {info.name: self._type(info) for info in proto.input if info.name not in initialized}
        for name, type in fix_inputs(types, given, batch).items():
            scope.values[name] = scope.graph.add_param(type, name)
        try:
            self._body(proto, scope)
        except _MissingError:
            pass
        except UnsupportedError as e:
            self.unsupported.add_error(e, e.where)
        self.unsupported.raise_if_any(str(self.path))
        declared = []
        for info, value in zip(proto.output, scope.graph.outputs, strict=True):
            declared.append((info.name, self._declared(info, value)))
        return scope.graph, declared

    def _declared(self, info: onnx.ValueInfoProto, value: Value) -> TensorType:
        if value.type.holds_tensors:
            declared = self._type(info) if info.type.WhichOneof("value") else value.type
            if declared.layout != value.type.layout:
                raise ModelError(f"the output '{info.name}' is declared as {declared}, but computed as {value.type}")
            return declared
        if not info.type.tensor_type.HasField("shape"):
            return value.type
        try:
            return value.type.with_shape(merge(value.type.shape, self._type(info).shape))
        except ModelError:
            # What is computed counts: exporters are known to declare stale output shapes.
            return value.type

    def subgraph(self, proto: onnx.GraphProto, params: Sequence[TensorType]) -> tuple[Graph, list[Value]]:
        """Translates a nested graph.

        Args:
            proto: the graph; its inputs are bound to `params` in order.
            params: types of its parameters.

        Returns:
            The graph, whose parameters are `params` followed by one per captured value, and the captured values.
        """
        assert self.scope is not None
        outer = self.scope
        scope = Scope(Graph(proto.name or "body"), {}, outer, prefix=outer.prefix)
        self._initializers(proto, scope)
        for info, type in zip(proto.input, params, strict=True):
            scope.values[info.name] = scope.graph.add_param(type, info.name)
        self._body(proto, scope)
        names = [p.name for p in scope.graph.params[len(params) :]]
        captured = [self._given(n, outer) for n in names]
        return scope.graph, captured

    def inline(self, proto: onnx.GraphProto) -> list[Value]:
        """Translates a graph without inputs into the current one, in a scope of its own; gives its outputs."""
        assert self.scope is not None
        scope = Scope(self.scope.graph, {}, self.scope, inlined=True, prefix=self.scope.prefix)
        self._initializers(proto, scope)
        return self._body(proto, scope)

    def _call(self, body: Body, call: Call, inputs: Sequence[Value | None]) -> tuple[Value | None, ...]:
        """Translates the body of a function into the current graph; gives the results that the call asks for."""
        if len(inputs) > len(body.inputs):
            raise ModelError(f"{call.op} takes at most {len(body.inputs)} inputs, not {len(inputs)}", where=call.origin)
        assert self.scope is not None
        values = dict(zip_longest(body.inputs, inputs))
        scope = Scope(self.scope.graph, values, inlined=True, prefix=f"{call.name}/")
        saved = self.scope, self.opsets
        self.scope, self.opsets = scope, body.opsets
        try:
            for i, node in enumerate(body.nodes):
                self._node(node, i, scope, {})
            asked = zip(body.outputs, call.outputs, strict=False)
            return tuple(self._lookup(n, scope, call.origin) if used else None for n, used in asked)
        finally:
            self.scope, self.opsets = saved

    def _body(self, proto: onnx.GraphProto, scope: Scope) -> list[Value]:
        saved, self.scope = self.scope, scope
        try:
            # The rank of what a loop stacks must be known even if no round is run.
            declared = [*proto.value_info, *(proto.output if scope.outer is not None else ())]
            known = {info.name: info for info in declared if info.type.WhichOneof("value")}
            for i, node in enumerate(proto.node):
                self._node(node, i, scope, known)
            outputs = [self._given(info.name, scope) for info in proto.output]
            for info, value in zip(proto.output, outputs, strict=True):
                if value.type.layout == "string":
                    raise no_strings(f"the output '{info.name}' of {self.path}")
            if not scope.inlined:
                scope.graph.outputs = outputs
            return outputs
        finally:
            self.scope = saved

    def _node(self, node: onnx.NodeProto, i: int, scope: Scope, known: Mapping[str, onnx.ValueInfoProto]) -> None:
        name = add_name(scope.prefix + (node.name or next((o for o in node.output if o), f"#{i}")))
        try:
            self._convert(node, name, scope, known)
        except UnsupportedError as e:
            self.unsupported.add_error(e, name)
            scope.missing.update(node.output)
        except _MissingError:
            scope.missing.update(node.output)

    def _convert(self, node: onnx.NodeProto, name: str, scope: Scope, known: Mapping[str, onnx.ValueInfoProto]) -> None:
        origin = f"onnx:{name}"
        inputs = [self._lookup(n, scope, origin) if n else None for n in node.input]
        while inputs and inputs[-1] is None:
            inputs.pop()
        if any(v is not None and v.type.layout == "string" for v in inputs):
            if node.op_type == "Identity" and node.output[0] not in scope.values:
                scope.values[node.output[0]] = inputs[0]
                return
            if node.op_type not in ("Shape", "Size"):
                raise no_strings(f"{origin}, which is a {node.op_type} of one")
        used = max((k + 1 for k, o in enumerate(node.output) if o), default=1)
        version = version_of(node, self.opsets)
        call = Call(qualified(node), name, origin, version, used, list(node.output), self)
        results, fresh = self._translated(node, call, scope, inputs, known)
        if len(results) < used:
            raise ModelError(f"{node.op_type} has {len(results)} outputs, but {used} are used", where=origin)
        for out, value in zip(node.output, results, strict=False):
            if not out:
                continue
            if value is None:
                raise UnsupportedError(f"output '{out}' of {node.op_type} is not supported", where=origin)
            if out in scope.values:
                raise ModelError(f"the name '{out}' is computed twice", where=origin)
            if value in fresh:
                value.name = add_name(scope.prefix + out)
            if value.type.shape is None and out in known:
                value.type = value.type.with_shape(self._type(known[out]).shape)
            scope.values[out] = value

    def _translated(
        self,
        node: onnx.NodeProto,
        call: Call,
        scope: Scope,
        inputs: Sequence[Value | None],
        declared: Mapping[str, onnx.ValueInfoProto],
    ) -> tuple[Sequence[Value | None], set[Value]]:
        """The results of a node, and those of them that it made itself, by a mapping or through its body."""
        body = self.library.local(node, self.opsets)
        if body is None:
            if mapping := frontend.find(call.op, call.version):
                b = Builder(scope.graph, origin=call.origin)
                made = frontend.translate(mapping, b, call, inputs, self._attributes(node, call.origin))
                if made:
                    # The meaning of integers decides that layers compute with them.
                    known = [n for n in b.made if n.op != "DequantizeLinear"]
                    return fold(scope.graph, known, made), {v for n in b.made for v in n.outputs}
            body = self.library.standard(node, self.opsets, types_of(inputs))
        if body is None:
            if frontend.find(call.op, call.version) is None and not self.library.has_standard(node, self.opsets):
                if self.custom_ops:
                    given = [self._type(declared[out]) if out in declared else None for out in node.output]
                    b = Builder(scope.graph, origin=call.origin)
                    custom = custom_node(b, node, inputs, given, self.opsets.get("", call.version))
                    return custom.outputs, set(custom.outputs)
                raise _MissingError  # `_check` has reported it
            types = ", ".join("none" if v is None else str(v.type) for v in inputs)
            raise UnsupportedError(
                f"{call.op} is not supported for operands of these types", where=call.origin, why=types
            )
        results = self._call(body, call, inputs)
        return results, {v for v in results if v is not None and v.producer is not None} - set(inputs)

    def _given(self, name: str, scope: Scope) -> Value:
        value = self._lookup(name, scope)
        if value is None:
            raise ModelError(
                f"'{name}' is an output of the function, but an input that the call leaves out", where=str(self.path)
            )
        return value

    def _lookup(self, name: str, scope: Scope, origin: str = "") -> Value | None:
        if name in scope.values:
            return scope.values[name]
        if name in scope.missing:
            raise _MissingError
        if scope.outer is None:
            raise ModelError(
                f"'{name}' is read before it is computed",
                where=origin or str(self.path),
                why="nodes must be in topological order: this graph has a cycle, or the value is missing",
            )
        outside = self._lookup(name, scope.outer, origin)
        if scope.inlined or outside is None:
            return outside
        if outside.data is not None:
            inside = Value(outside.type, outside.name, outside.data)
        else:
            inside = scope.graph.add_param(outside.type, name)
        scope.values[name] = inside
        return inside

    def _initializers(self, proto: onnx.GraphProto, scope: Scope) -> set[str]:
        if proto.sparse_initializer:
            raise UnsupportedError("sparse initializers are not supported", where=str(self.path))
        for tensor in proto.initializer:
            scope.values[tensor.name] = initializer(tensor, self.path)
        return set(scope.values)

    def _attributes(self, node: onnx.NodeProto, origin: str) -> dict[str, Any]:
        attrs: dict[str, Any] = {}
        for a in node.attribute:
            if a.type == onnx.AttributeProto.TENSOR:
                is_text = a.t.data_type == onnx.TensorProto.STRING
                attrs[a.name] = initializer(a.t, self.path) if is_text else load_tensor(a.t, self.path)
            elif a.type == onnx.AttributeProto.GRAPH:
                attrs[a.name] = a.g
            elif a.type == onnx.AttributeProto.STRING:
                attrs[a.name] = a.s.decode("utf-8", "replace")
            elif a.type == onnx.AttributeProto.STRINGS:
                attrs[a.name] = [s.decode("utf-8", "replace") for s in a.strings]
            else:
                try:
                    attrs[a.name] = helper.get_attribute_value(a)
                except ValueError as e:
                    raise ModelError(f"attribute '{a.name}' is invalid", where=origin, why=str(e)) from None
        return attrs

    def _type(self, info: onnx.ValueInfoProto) -> TensorType:
        return self.type_of(info.type, f"'{info.name}' of {self.path}")

    def type_of(self, type: onnx.TypeProto, where: str) -> TensorType:
        """A type of the file. Raises UnsupportedError for maps, sparse tensors, and sequences of other than tensors."""
        kind = type.WhichOneof("value") or "untyped"
        if kind in ("sequence_type", "optional_type"):
            element = self.type_of(getattr(type, kind).elem_type, where)
            if element.holds_tensors and (kind, element.layout) != ("optional_type", "sequence"):
                raise UnsupportedError(
                    f"a {kind.removesuffix('_type')} of {element.layout}s is not supported", where=where
                )
            if element.shape == ():
                # Scalars, it says; in ONNX's own examples it means tensors of any shape.
                element = element.with_shape(None)
            return sequence(element) if kind == "sequence_type" else optional(element)
        if kind != "tensor_type":
            raise UnsupportedError(f"it is a {kind.removesuffix('_type')}, not a tensor", where=where)
        tensor = type.tensor_type
        dtype = dtype_of(tensor.elem_type, where)
        if not tensor.HasField("shape"):
            return TensorType(dtype)
        return TensorType(dtype, tuple(_dim(d) for d in tensor.shape.dim))


def _dim(d: onnx.TensorShapeProto.Dimension) -> Dim:
    if d.HasField("dim_value"):
        return int(d.dim_value) if d.dim_value >= 0 else UNKNOWN
    return d.dim_param if 0 < len(d.dim_param) <= _LONGEST_DIM else UNKNOWN
