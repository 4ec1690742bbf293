"""What an ONNX file declares, without converting it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx

from minnow.converter.base import Description, Port
from minnow.converter.onnx.function import opsets_of
from minnow.converter.onnx.reader import parse
from minnow.converter.onnx.tensor import contained
from minnow.converter.onnx.translator import qualified


def describe(path: Path) -> Description:
    """Reads a file's declarations.

    Raises:
        FormatError: not an ONNX file.
    """
    proto = parse(path)
    constants = {i.name for i in proto.graph.initializer}
    return Description(
        versions={domain or "ai.onnx": version for domain, version in opsets_of(proto.opset_import).items()},
        producer=" ".join(filter(None, (proto.producer_name, proto.producer_version))),
        operators=dict(Counter(qualified(n) for n in _nodes(proto.graph.node)).most_common()),
        inputs=[_port(i) for i in proto.graph.input if i.name not in constants],
        outputs=[_port(o) for o in proto.graph.output],
        size=path.stat().st_size + sum(p.stat().st_size for p in _side_files(proto, path)),
        versioned="opset",
    )


def _nodes(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for a in node.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(a.g.node)


def _side_files(proto: onnx.ModelProto, path: Path) -> set[Path]:
    places = {
        entry.value
        for tensor in proto.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return {contained(place, path, f"'{place}'") for place in places}


def _port(info: onnx.ValueInfoProto) -> Port:
    names, type_ = [], info.type
    while type_.WhichOneof("value") in ("sequence_type", "optional_type"):
        kind = type_.WhichOneof("value")
        names.append(kind.removesuffix("_type"))
        type_ = getattr(type_, kind).elem_type
    kind = type_.WhichOneof("value")
    if kind != "tensor_type":
        return Port(info.name, " of ".join([*names, (kind or "untyped").removesuffix("_type")]), None)
    tensor = type_.tensor_type
    known = {number: name.lower() for name, number in onnx.TensorProto.DataType.items()}
    names.append(known.get(tensor.elem_type, f"type {tensor.elem_type}"))
    dims = [d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim]
    return Port(info.name, " of ".join(names), dims if tensor.HasField("shape") else None)
