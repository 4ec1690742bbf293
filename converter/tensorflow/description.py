"""What a TensorFlow graph says of itself, before anything of it is translated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from minnow.converter.base import Description, Port
from minnow.converter.tensorflow.message import type_name
from minnow.converter.tensorflow.reader import parse
from minnow.converter.tensorflow.tensor import shape_of
from minnow.schema.errors import ModelError


def describe(path: Path) -> Description:
    """Reads a file's declarations.

    Raises:
        FormatError: not a TensorFlow graph.
    """
    proto = parse(path)
    nodes = [*proto.node, *(n for f in proto.library.function for n in f.node_def)]
    read = {text.removeprefix("^").partition(":")[0] for node in proto.node for text in node.input}
    ends = [n for n in proto.node if n.name not in read and n.op not in ("NoOp", "Const", "Placeholder", "Assert")]
    return Description(
        versions={"GraphDef": proto.versions.producer or proto.version},
        producer="TensorFlow",
        operators=dict(Counter(n.op for n in nodes).most_common()),
        inputs=[_port(n) for n in proto.node if n.op in ("Placeholder", "PlaceholderV2", "PlaceholderWithDefault")],
        outputs=[_port(n) for n in ends],
        size=path.stat().st_size,
    )


def _port(node: Any) -> Port:
    kind = next((node.attr[k].type for k in ("dtype", "DstT", "out_type", "T") if k in node.attr), 0)
    try:
        shape = shape_of(node.attr["shape"].shape) if "shape" in node.attr else None
    except ModelError:
        shape = None
    if shape == () and node.op == "Placeholder":
        shape = None  # of any shape, in files of older versions
    return Port(node.name, type_name(kind).removeprefix("DT_").lower(), None if shape is None else list(shape))
