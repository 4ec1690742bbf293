"""Operators that stand for a body of other operators: functions of the file, and those that the ONNX standard defines.

A body is taken apart into nodes whose attribute references are bound; the reader translates them in a scope of their
own at the place of the call, when the types of the operands are known: the standard's body of some operators depends
on them. Translating late also keeps what earlier nodes folded to constants, and needs no copy of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import onnx
from onnx import helper

from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, TensorType, Value
from minnow.schema.limit import add_bytes, add_nodes

DEFAULT_DOMAINS = ("", "ai.onnx")

_BYTES_OF_NODE = 16
"""That a node takes in a file at least."""
_GRAPHS = (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS)


@dataclass(frozen=True)
class Body:
    """What one call stands for.

    Attributes:
        inputs, outputs: names of the formal parameters and results.
        nodes: with the attributes of the call in place of every reference.
        opsets: version of each domain for these nodes.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    nodes: Sequence[onnx.NodeProto]
    opsets: Mapping[str, int]


def opsets_of(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    """Version by domain; the default domain is ""."""
    return {("" if o.domain in DEFAULT_DOMAINS else o.domain): int(o.version) for o in imports}


class Library:
    """The bodies that calls of one file may use.

    Args:
        functions: those in the file itself, which come before the standard's.
    """

    def __init__(self, functions: Iterable[onnx.FunctionProto] = ()) -> None:
        self._local = {_key(f, f.name): f for f in functions}
        self._sizes: dict[tuple[str, str, str], int] = {}

    def local(self, node: onnx.NodeProto, opsets: Mapping[str, int]) -> Body | None:
        """The body that the file itself gives for a call; `opsets` fill in for imports that it forgets.

        Raises:
            ModelError: the functions of the file grow out of proportion to it.
            UnsupportedError: the body is of an opset that is not known.
        """
        key = _key(node, node.op_type)
        function = self._local.get(key)
        if function is None:
            return None
        # A few functions that call each other twice make more nodes than any machine holds; so do many calls of one
        # with a large graph in it.
        if key not in self._sizes:
            self._sizes[key] = _size(function.node)
        add_nodes(1 + self._sizes[key], f"function '{function.name}'")
        version = opsets_of(function.opset_import).get("", 1)
        if version > onnx.defs.onnx_opset_version():
            raise UnsupportedError(f"opset {version} is not supported", where=f"function '{function.name}'")
        return _instantiate(function, node, {a.name: a for a in function.attribute_proto}, opsets)

    @staticmethod
    def standard(
        node: onnx.NodeProto, opsets: Mapping[str, int], types: Sequence[TensorType | None] | None
    ) -> Body | None:
        """The body that the ONNX standard gives for a call.

        Args:
            node: the call.
            opsets: versions that apply to it.
            types: of its operands, None for one that is not given; None when they are not known yet.
        """
        version = opsets.get("" if node.domain in DEFAULT_DOMAINS else node.domain, 1)
        schema = _schema(node.op_type, node.domain, version)
        function = None if schema is None else _standard(schema, node, version, types)
        if schema is None or function is None:
            return None
        defaults = {k: a.default_value for k, a in schema.attributes.items() if a.default_value.name}
        return _instantiate(function, node, defaults, opsets)

    @staticmethod
    def has_standard(node: onnx.NodeProto, opsets: Mapping[str, int]) -> bool:
        """The ONNX standard gives a body for the call, perhaps for some types of operands only."""
        version = opsets.get("" if node.domain in DEFAULT_DOMAINS else node.domain, 1)
        schema = _schema(node.op_type, node.domain, version)
        if schema is None:
            return False
        if schema.get_function_with_opset_version(version):
            return True
        return any(v <= version for v in schema.context_dependent_function_opset_versions)


def standard_bodies() -> dict[str, int]:
    """First version with a body by name, of all operators for which the ONNX standard gives one."""
    found: dict[str, int] = {}
    schemas: list[Any] = list(onnx.defs.get_all_schemas_with_history())
    for schema in schemas:
        if schema.has_function or schema.has_context_dependent_function:
            name = f"{schema.domain}::{schema.name}" if schema.domain else schema.name
            found[name] = min(schema.since_version, found.get(name, schema.since_version))
    return found


def _size(nodes: Iterable[onnx.NodeProto]) -> int:
    """How many nodes there are, with those of inner graphs."""
    return sum(1 + sum(_size(g.node) for a in n.attribute for g in _subgraphs(a)) for n in nodes)


def _key(proto: onnx.NodeProto | onnx.FunctionProto, name: str) -> tuple[str, str, str]:
    # Older releases of onnx know no overloads.
    return "" if proto.domain in DEFAULT_DOMAINS else proto.domain, name, getattr(proto, "overload", "")


@cache
def _schema(name: str, domain: str, version: int) -> Any:
    # Not typed: the stubs of some onnx releases lack what is asked of it here.
    try:
        return onnx.defs.get_schema(name, version, "" if domain in DEFAULT_DOMAINS else domain)
    except onnx.defs.SchemaError:
        return None


def _standard(
    schema: Any, node: onnx.NodeProto, version: int, types: Sequence[TensorType | None] | None
) -> onnx.FunctionProto | None:
    if fixed := schema.get_function_with_opset_version(version):
        return onnx.FunctionProto.FromString(fixed)
    if not schema.has_context_dependent_function or types is None:
        return None
    # The body's maker looks at which operands are given: of those that the enclosing function did not get, neither.
    call = onnx.NodeProto()
    call.CopyFrom(node)
    del call.input[:]
    call.input.extend(n if t is not None else "" for n, t in zip(node.input, types, strict=False))
    protos = [type_proto(t).SerializeToString() for t in types]
    for made_for in sorted(schema.context_dependent_function_opset_versions, reverse=True):
        if made_for > version:
            continue
        try:
            body = schema.get_context_dependent_function_with_opset_version(made_for, call.SerializeToString(), protos)
        except (RuntimeError, ValueError) as e:
            raise ModelError(f"{node.op_type} is invalid", why=str(e)) from None
        if body:
            return onnx.FunctionProto.FromString(body)
    return None


def type_proto(type: TensorType | None) -> onnx.TypeProto:
    """A type in ONNX's form; empty for an operand that is not given."""
    proto = onnx.TypeProto()
    if type is None:
        return proto
    if type.holds_tensors:
        holder = proto.sequence_type if type.layout == "sequence" else proto.optional_type
        holder.elem_type.CopyFrom(type_proto(type.element))
        return proto
    proto.tensor_type.elem_type = helper.np_dtype_to_tensor_dtype(type.dtype.numpy)
    if type.shape is not None:
        proto.tensor_type.shape.SetInParent()
        for d in type.shape:
            dim = proto.tensor_type.shape.dim.add()
            if isinstance(d, int):
                dim.dim_value = d
            elif d != UNKNOWN:
                dim.dim_param = d
    return proto


def types_of(values: Iterable[Value | None]) -> list[TensorType | None]:
    return [None if v is None else v.type for v in values]


def _instantiate(
    function: onnx.FunctionProto,
    node: onnx.NodeProto,
    defaults: Mapping[str, onnx.AttributeProto],
    opsets: Mapping[str, int],
) -> Body:
    given = {**defaults, **{a.name: a for a in node.attribute}}
    return Body(
        function.input,
        function.output,
        [_bound(n, given) for n in function.node],
        {**opsets, **opsets_of(function.opset_import)},
    )


def _bound(node: onnx.NodeProto, given: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """A node with references replaced by what the call gives; a reference to what it does not give goes away."""
    if not _refers(node):
        return node
    out = onnx.NodeProto()
    out.CopyFrom(node)
    # An attribute may be a graph, or megabytes: each reference is a copy of it.
    for a in (given[a.ref_attr_name] for a in node.attribute if a.ref_attr_name in given):
        add_bytes(a.ByteSize(), node.name)
        if a.type in _GRAPHS:
            add_nodes(a.ByteSize() // _BYTES_OF_NODE, node.name)
    del out.attribute[:]
    for a in node.attribute:
        if a.ref_attr_name:
            if a.ref_attr_name in given:
                kept = out.attribute.add()
                kept.CopyFrom(given[a.ref_attr_name])
                kept.name = a.name
            continue
        kept = out.attribute.add()
        kept.CopyFrom(a)
        for graph in _subgraphs(kept):
            nodes = [_bound(n, given) for n in graph.node]
            del graph.node[:]
            graph.node.extend(nodes)
    return out


def _refers(node: onnx.NodeProto) -> bool:
    return any(a.ref_attr_name or any(_refers(n) for g in _subgraphs(a) for n in g.node) for a in node.attribute)


def _subgraphs(attribute: Any) -> list[onnx.GraphProto]:
    if attribute.type not in _GRAPHS:
        return []
    return [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)
