"""What a TensorFlow graph declares, without converting it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Port
from minnow.converter.tensorflow.file.source import Entry, open_source
from minnow.converter.tensorflow.message import type_name
from minnow.converter.tensorflow.symbolic.body import graph_body
from minnow.converter.tensorflow.symbolic.frame import outer
from minnow.converter.tensorflow.tensor import shape_of
from minnow.schema.errors import ModelError


def describe(path: Path) -> Description:
    """Reads a file's declarations; of a SavedModel those of the entry point that is the usual one.

    Raises:
        FormatError: not a TensorFlow graph.
    """
    source = open_source(path)
    graph = source.graph
    nodes = [*graph.node, *(n for f in graph.library.function for n in f.node_def)]
    if source.outputs is not None:
        inputs, outputs = ([_declared(e) for e in entries or ()] for entries in (source.inputs, source.outputs))
    else:
        read = {text.removeprefix("^").partition(":")[0] for node in graph.node for text in node.input}
        ends = [n for n in graph.node if n.name not in read and n.op not in ("NoOp", "Const", "Placeholder", "Assert")]
        ends = _outside_of_loops(graph, ends)
        starts = [n for n in graph.node if n.op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")]
        inputs, outputs = [_port(n) for n in starts], [_port(n) for n in ends]
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return Description(
        versions={"GraphDef": source.version},
        producer=source.producer,
        operators=dict(Counter(n.op for n in nodes).most_common()),
        inputs=inputs,
        outputs=outputs,
        size=sum(p.stat().st_size for p in files),
    )


def _outside_of_loops(graph: Any, nodes: list[Any]) -> list[Any]:
    try:
        kept = set(outer([n.name for n in nodes], graph_body(graph.node).operations))
    except ModelError:  # the conversion reports it
        return nodes
    return [n for n in nodes if n.name in kept]


def _declared(entry: Entry) -> Port:
    return Port(entry.name, _type(entry.info.dtype), _shape(entry.info.tensor_shape))


def _port(node: Any) -> Port:
    kind = next((node.attr[k].type for k in ("dtype", "DstT", "out_type", "T") if k in node.attr), 0)
    shape = _shape(node.attr["shape"].shape) if "shape" in node.attr else None
    if shape == [] and node.op == "Placeholder":
        shape = None  # of any shape, in files of older versions
    return Port(node.name, _type(kind), shape)


def _type(code: int) -> str:
    return type_name(code).removeprefix("DT_").lower()


def _shape(shape: Any) -> list[int | str] | None:
    try:
        known = shape_of(shape)
    except ModelError:
        return None
    return None if known is None else list(known)
