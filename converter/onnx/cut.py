"""The part of an ONNX model between inner tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import onnx
from onnx import helper

from minnow.converter.inputs.cut import unknown_tensor
from minnow.converter.onnx.tensor import code_of
from minnow.schema.errors import UsageError
from minnow.schema.ir import UNKNOWN, TensorType

_FEW = 1024  # elements of a constant that may tell a shape


def cut(
    proto: onnx.ModelProto, inputs: Sequence[str], outputs: Sequence[str], types: Mapping[str, TensorType], where: str
) -> onnx.ModelProto:
    """A model of the nodes between tensors.

    Args:
        inputs: tensors that become inputs, in front of those of the model that are still read.
        outputs: tensors that it gives; none stand for the outputs of the model.
        types: of inputs, where the file does not tell.

    Raises:
        UsageError: there is no such tensor, or the type of one that becomes an input is not known.
    """
    graph = proto.graph
    given = [n.name for n in (*graph.input, *graph.initializer)]
    known = dict.fromkeys([*given, *(o for node in graph.node for o in node.output if o)])
    for name in (*inputs, *outputs):
        if name not in known:
            raise unknown_tensor(name, known, where)
    ends = list(dict.fromkeys(outputs)) or [o.name for o in graph.output]
    begins = list(dict.fromkeys(inputs))
    read, nodes = _needed(graph, begins, ends)

    part = onnx.ModelProto()
    part.CopyFrom(_without_graph(proto))
    inner = part.graph
    inner.name = graph.name
    inner.node.extend(nodes)
    inner.initializer.extend(t for t in graph.initializer if t.name in read and t.name not in begins)
    inner.sparse_initializer.extend(graph.sparse_initializer)
    inner.value_info.extend(v for v in graph.value_info if v.name not in begins)
    declared = _declared(graph)
    if not all(_is_typed(declared.get(n)) for n in begins):
        declared |= _inferred(proto)
    inner.input.extend(_input(n, types, declared, where) for n in begins)
    inner.input.extend(v for v in graph.input if v.name in read and v.name not in begins)
    inner.output.extend(declared.get(n, onnx.ValueInfoProto(name=n)) for n in ends)
    return part


def _without_graph(proto: onnx.ModelProto) -> onnx.ModelProto:
    return onnx.ModelProto(
        ir_version=proto.ir_version,
        opset_import=proto.opset_import,
        producer_name=proto.producer_name,
        functions=proto.functions,
        metadata_props=proto.metadata_props,
    )


def _needed(
    graph: onnx.GraphProto, begins: Sequence[str], ends: Sequence[str]
) -> tuple[set[str], list[onnx.NodeProto]]:
    """The names that are read on the way back from the ends to the begins, and the nodes there, in order."""
    makers = {o: i for i, node in enumerate(graph.node) for o in node.output if o}
    read: set[str] = set()
    nodes: set[int] = set()
    todo = list(ends)
    while todo:
        name = todo.pop()
        if name in read:
            continue
        read.add(name)
        if name in begins or name not in makers or makers[name] in nodes:
            continue
        nodes.add(makers[name])
        todo.extend(_reads(graph.node[makers[name]]))
    return read, [graph.node[i] for i in sorted(nodes)]


def _reads(node: onnx.NodeProto) -> Iterator[str]:
    """What a node reads, in the bodies that it runs too: names that they make themselves are no harm."""
    yield from (n for n in node.input if n)
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            for inner in body.node:
                yield from _reads(inner)
            yield from (o.name for o in body.output)


def _declared(graph: onnx.GraphProto) -> dict[str, onnx.ValueInfoProto]:
    made = [helper.make_tensor_value_info(t.name, t.data_type, t.dims) for t in graph.initializer]
    return {v.name: v for v in (*made, *graph.value_info, *graph.output, *graph.input)}


def _is_typed(info: onnx.ValueInfoProto | None) -> bool:
    return info is not None and info.type.WhichOneof("value") is not None


def _inferred(proto: onnx.ModelProto) -> dict[str, onnx.ValueInfoProto]:
    """Types that follow from the operators; constants of many elements tell theirs only."""
    light = _without_graph(proto)
    light.graph.CopyFrom(
        onnx.GraphProto(name=proto.graph.name, node=proto.graph.node, input=proto.graph.input,
                        output=proto.graph.output, value_info=proto.graph.value_info)
    )  # fmt: skip
    inputs = {v.name for v in proto.graph.input}
    for tensor in proto.graph.initializer:
        count = 1
        for d in tensor.dims:
            count *= d
        if count <= _FEW and tensor.data_location != onnx.TensorProto.EXTERNAL:
            light.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            light.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    try:
        inferred = onnx.shape_inference.infer_shapes(light)
    except Exception:  # noqa: BLE001  (it raises classes of its own where the graph contradicts itself)
        return {}
    return {v.name: v for v in inferred.graph.value_info if _is_typed(v)}


def _input(
    name: str, types: Mapping[str, TensorType], declared: Mapping[str, onnx.ValueInfoProto], where: str
) -> onnx.ValueInfoProto:
    if _is_typed(declared.get(name)):
        return declared[name]
    if name in types and not types[name].holds_tensors:
        shape = types[name].shape
        dims = None if shape is None else [None if d == UNKNOWN else d for d in shape]
        return helper.make_tensor_value_info(name, code_of(types[name].dtype), dims)
    raise UsageError(
        f"the tensor '{name}' becomes an input, but its type is not known",
        where=where,
        why="the file does not declare it, and it does not follow from the operators in front of it",
        hint=f"give its type and shape: `--input {name}=float32[1,3,224,224]`",
    )
