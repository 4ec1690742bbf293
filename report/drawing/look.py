"""What boxes say, how large they are, and their colors."""

from __future__ import annotations

from collections import Counter
from typing import Any

from minnow.report.drawing.outline import Item
from minnow.schema.ir import Node, TensorType
from minnow.schema.ops import get

_FAMILIES = {
    "conv": ("convolution", "convolution_integer", "deformable", "col2im", "quantized_layer"),
    "matmul": ("matmul", "attention", "recurrent", "rotary", "inverse", "spectral"),
    "activation": ("activation", "epilogue", "fused"),
    "norm": ("norm",),
    "pool": ("pooling", "reduce", "resize", "sampling", "window"),
    "math": ("math_binary", "math_unary", "compare", "special", "select", "fixed_point", "random", "create"),
    "move": ("movement", "shape", "slicing", "index", "sequence", "ngram"),
    "cast": ("cast", "quantize"),
    "control": ("control_flow",),
}
"""The families of ops (the modules of `schema.ops`) that share a color."""

_COLOR_OF = {module: color for color, modules in _FAMILIES.items() for module in modules}

COLORS = {
    "conv": (("#d6e6ff", "#3b6fc4"), ("#1f3557", "#6f9fe6")),
    "matmul": (("#e0dcfb", "#6a52c9"), ("#312a5c", "#a392f0")),
    "activation": (("#ffe3d3", "#c7612a"), ("#51301d", "#e8935f")),
    "norm": (("#fdf0c4", "#a8821a"), ("#453a14", "#d9b544")),
    "pool": (("#d3f0e4", "#2b8a63"), ("#173d30", "#5cc296")),
    "math": (("#eef1f5", "#6b7688"), ("#2a313d", "#8d99ad")),
    "move": (("#fadfe9", "#b94a78"), ("#4a2233", "#e283ab")),
    "cast": (("#d9f1f5", "#2c8597"), ("#173b43", "#62bccd")),
    "control": (("#e9ddf6", "#8546b8"), ("#3a2650", "#bd8be6")),
    "port": (("#ffffff", "#47526a"), ("#12151b", "#aab4c6")),
    "other": (("#eceff3", "#6b7688"), ("#262c37", "#8d99ad")),
    "line": (("none", "#93a0b5"), ("none", "#66738a")),
    "end": (("#93a0b5", "none"), ("#66738a", "none")),
    "group": (("#6b76880d", "#aeb7c6"), ("#a0b0d00f", "#4a5568")),
}
"""Fill and stroke, in light and in dark, by the class of an element."""

TITLES = {
    "conv": "convolution",
    "matmul": "matrix product, attention, recurrence",
    "activation": "activation",
    "norm": "normalization",
    "pool": "pooling, reduction, resizing",
    "math": "arithmetic",
    "move": "movement, shapes",
    "cast": "conversion of types",
    "control": "control flow",
    "port": "input, output",
    "other": "group",
}
"""What the colors of boxes mean."""

_CHAR, _BOLD, _LINE, _SIDE, _TOP = 6.6, 7.4, 14, 10, 7
_LEAST, _MOST_TEXT = 84, 30


def color_of(item: Item) -> str:
    """The color of a box, a key of `COLORS`."""
    if item.node is None:
        return "port" if item.value is not None else "other"
    return family_of(item.node)


def family_of(node: Node) -> str:
    """The color of a node."""
    return _COLOR_OF.get(get(node.op).module.rpartition(".")[2], "other")


def shape_text(type: TensorType) -> str:
    """A type without its layout: "f32 1×16×8×8"."""
    if type.holds_tensors:
        return str(type)
    if type.shape is None:
        return f"{type.dtype} of unknown rank"
    return f"{type.dtype} {'×'.join(map(str, type.shape)) or 'scalar'}"


def lines_of(item: Item) -> list[str]:
    """The text in a box: a title, and up to two lines."""
    if item.value is not None:
        return [short(item.title), item.kind, shape_text(item.value.type)]
    if item.node is not None and not item.is_group:
        types = [shape_text(v.type) for v in item.node.outputs]
        more = f" and {len(types) - 1} more" if len(types) > 1 else ""
        return [short(item.title), short(item.node.name), short(types[0] + more) if types else ""]
    count = f"{item.size} node{'s' if item.size != 1 else ''}"
    return [short(heading(item)), count, short(_ops_in(item))]


def heading(item: Item) -> str:
    """The title of a group."""
    if item.node is not None:
        return f"{item.title} {item.node.name}".strip()
    return item.title


def size_of(item: Item) -> tuple[float, float]:
    """Width and height of a box that is not open."""
    title, *more = lines_of(item)
    width = max(_BOLD * len(title) + (16 if item.is_group else 0), *(_CHAR * len(t) for t in more))
    return float(max(_LEAST, 2 * round(width / 2 + _SIDE))), float(2 * _TOP + _LINE * (1 + sum(bool(t) for t in more)))


def short(text: str, most: int = _MOST_TEXT) -> str:
    """Long text without its middle."""
    return text if len(text) <= most else f"{text[: most // 2 - 1]}…{text[-(most - most // 2) :]}"


def tip_of(item: Item) -> str:
    """All that is known of a box, one fact per line."""
    if item.value is not None:
        return f"{item.kind} {item.value.name}: {item.value.type}"
    if item.node is None:
        return f"{item.title}: {item.size} nodes"
    return tip_of_node(item.node)


def tip_of_node(node: Node) -> str:
    """The same for a node."""
    rows = [f"{node.op} {node.name}", node.origin, *attribute_rows(node)]
    rows += [f"constant {shape_text(v.type)}" for v in node.inputs if v is not None and v.is_const]
    rows += [f"gives {v.name}: {v.type}" for v in node.outputs]
    return "\n".join(row for row in rows if row)


def attribute_rows(node: Node) -> list[str]:
    """The attributes of a node that are not graphs, "name=value"."""
    return [f"{k}={plain(v)}" for k, v in node.attrs.items() if k not in node.subgraphs]


def plain(value: Any) -> str:
    """The value of an attribute; of a list its elements with "x" between them."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _ops_in(item: Item) -> str:
    counts: Counter[str] = Counter()
    queue = [item]
    for one in queue:
        queue += one.children
        if one is not item and one.node is not None:
            counts[one.node.op] += 1
    common = sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:3]
    return ", ".join(f"{n} {op}" for op, n in common)
