"""Draws graphs: as text for Graphviz, and as SVG, which needs no other program.

Both have a box for every node with its attributes, colored by layout, and edges with shapes. The bodies of control flow
are clusters in Graphviz; in SVG their nodes have dashed borders.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from minnow.schema.ir import Graph, Node, Value

_COLORS = {"port": "#e8e8e8", "packed": "#cfe3ff", "plain": "#ffffff", "move": "#ffd9b3", "control": "#e4d4f4"}
"""Colors: graph input or output, blocked layout, plain layout, layout conversion or transpose, control flow."""

_MOST_TEXT = 48


@dataclass
class Box:
    """A box of the drawing.

    Attributes:
        title: the op, or the name of a graph input or output.
        lines: the text below the title, shortened.
        tip: the full text, shown as tooltip.
        kind: key of the colors.
        path: names of the graphs around it, outermost first.
    """

    title: str
    lines: list[str]
    tip: str
    kind: str
    path: tuple[str, ...] = ()


@dataclass
class Picture:
    """Boxes, and edges (from, to, text); edges between a body and its control flow node are dashed."""

    boxes: list[Box] = field(default_factory=list)
    edges: list[tuple[int, int, str]] = field(default_factory=list)
    bodies: list[tuple[int, int]] = field(default_factory=list)


def picture_of(graph: Graph) -> Picture:
    """The boxes and edges of a graph, with its subgraphs."""
    picture = Picture()
    _add(picture, graph, (graph.name,))
    return picture


def _add(picture: Picture, graph: Graph, path: tuple[str, ...]) -> list[int]:
    """Adds the boxes of a graph; returns those of its outputs."""
    at: dict[Value, int] = {}

    def box(title: str, lines: list[str], tip: str, kind: str) -> int:
        picture.boxes.append(Box(_short(title), [_short(t) for t in lines], tip, kind, path))
        return len(picture.boxes) - 1

    def read(node: Node, index: int) -> None:
        for value in filter(None, node.inputs):
            if value in at:
                picture.edges.append((at[value], index, _type(value)))

    for value in graph.params:
        at[value] = box(value.name or "input", [_type(value)], f"input {value.name}: {value.type}", "port")
    for node in graph:
        attrs = [f"{k}={_plain(v)}" for k, v in node.attrs.items() if k not in node.subgraphs]
        weights = [_type(v) for v in node.inputs if v is not None and v.is_const]
        tip = [f"{node.op} {node.name}", node.origin, *attrs, *(f"constant {w}" for w in weights)]
        tip += [f"gives {v.name}: {v.type}" for v in node.outputs]
        lines = [node.name, " ".join(attrs), " ".join(weights)]
        index = box(node.op, [t for t in lines if t], "\n".join(t for t in tip if t), _kind(node))
        read(node, index)
        at.update(dict.fromkeys(node.outputs, index))
        for name, body in node.subgraphs.items():
            for end in _add(picture, body, (*path, f"{name} of {node.name or node.op}")):
                picture.bodies.append((end, index))
    ends = []
    for value in graph.outputs:
        ends.append(box(value.name or "output", [_type(value)], f"output {value.name}: {value.type}", "port"))
        if value in at:
            picture.edges.append((at[value], ends[-1], _type(value)))
    return ends


def _kind(node: Node) -> str:
    if node.subgraphs:
        return "control"
    if node.op in ("ConvertLayout", "Transpose"):
        return "move"
    return "packed" if any(v.type.layout == "nc4hw4" for v in node.outputs) else "plain"


def _type(value: Value) -> str:
    shape = value.type.shape
    return f"{value.type.dtype} ?" if shape is None else f"{value.type.dtype} {'x'.join(map(str, shape)) or 'scalar'}"


def _plain(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _short(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT // 2 - 1] + "…" + text[-_MOST_TEXT // 2 :]


def to_dot(graph: Graph) -> str:
    """The graph as text for Graphviz (`dot -Tsvg`)."""
    picture = picture_of(graph)
    lines = ["digraph model {", '  node [shape=box, style="filled,rounded", fontname="sans-serif", fontsize=10]']
    lines += ['  edge [fontname="sans-serif", fontsize=8]']
    open_: tuple[str, ...] = (graph.name,)
    clusters = 0
    order = sorted(range(len(picture.boxes)), key=lambda i: picture.boxes[i].path)
    for i in order:
        b = picture.boxes[i]
        common = next(
            (k for k, (p, q) in enumerate(zip(open_, b.path, strict=False)) if p != q), min(len(open_), len(b.path))
        )
        lines += ["  " * depth + "}" for depth in range(len(open_), common, -1)]
        for depth in range(common, len(b.path)):
            clusters += 1
            lines.append("  " * (depth + 1) + f"subgraph cluster_{clusters} {{ label={_quoted(b.path[depth])}")
        open_ = b.path
        label = _quoted("\n".join([b.title, *b.lines]))
        color = _COLORS[b.kind]
        indent = "  " * (len(open_) + 1)
        lines.append(f'{indent}n{i} [label={label}, tooltip={_quoted(b.tip)}, fillcolor="{color}"]')
    lines += ["  " * depth + "}" for depth in range(len(open_), 1, -1)]
    lines += [f"  n{a} -> n{b} [label={_quoted(text)}]" for a, b, text in picture.edges]
    lines += [f"  n{a} -> n{b} [style=dashed]" for a, b in picture.bodies]
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _MARGIN = 190, 56, 30, 54, 30
_CHARS = 30
_SWEEPS = 4


def to_svg(graph: Graph) -> str:
    """The graph as SVG in layers, each node below its inputs; text that does not fit in a box is in its tooltip."""
    picture = picture_of(graph)
    place = _places(picture)
    width = max((x for x, _ in place), default=0) + _WIDTH + _MARGIN
    height = max((y for _, y in place), default=0) + _HEIGHT + _MARGIN
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif" font-size="10">',
        "<style>path{fill:none;stroke:#888}path:hover{stroke:#d00;stroke-width:3}"
        "rect{stroke:#555}g:hover>rect{stroke:#d00;stroke-width:2}.body{stroke:#84a;stroke-dasharray:5 3}</style>",
        '<defs><marker id="end" markerWidth="7" markerHeight="6" refX="7" refY="3" orient="auto">'
        '<polygon points="0 0,7 3,0 6" fill="#888"/></marker></defs>',
        *_lines(picture, place),
    ]
    for b, (x, y) in zip(picture.boxes, place, strict=True):
        body = ' class="body"' if len(b.path) > 1 else ""
        tip = "\n".join([b.tip, *(f"in {name}" for name in b.path[1:])])
        rows.append(
            f'<g><title>{html.escape(tip)}</title><rect{body} x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" '
            f'height="{_HEIGHT}" rx="5" fill="{_COLORS[b.kind]}"/>'
        )
        for k, text in enumerate([b.title, *b.lines][:4]):
            bold = "" if k else ' font-weight="bold"'
            shown = text if len(text) <= _CHARS else text[: _CHARS - 1] + "…"
            rows.append(f'<text x="{x + 6:.0f}" y="{y + 14 + 12 * k:.0f}"{bold}>{html.escape(shown)}</text>')
        rows.append("</g>")
    return "\n".join([*rows, "</svg>", ""])


def _places(picture: Picture) -> list[tuple[float, float]]:
    """The upper left corner of every box.

    Layers are the longest distances from the inputs; boxes in a layer are sorted by the mean position of their
    neighbors, which keeps the number of edge crossings low.
    """
    above: list[list[int]] = [[] for _ in picture.boxes]
    below: list[list[int]] = [[] for _ in picture.boxes]
    for a, b in dict.fromkeys([*((a, b) for a, b, _ in picture.edges), *picture.bodies]):
        above[b].append(a)
        below[a].append(b)
    layers = _layers(above, below)
    slot = {i: float(k) for layer in layers for k, i in enumerate(layer)}
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            mean = {i: sum(slot[j] for j in near[i]) / len(near[i]) if near[i] else slot[i] for i in layer}
            layer.sort(key=lambda i: (mean[i], i))
            for k, i in enumerate(layer):
                slot[i] = k - len(layer) / 2  # centered, so that long chains stay straight
    left = min(slot.values(), default=0.0)
    step_x, step_y = _WIDTH + _GAP_X, _HEIGHT + _GAP_Y
    depth = {i: k for k, layer in enumerate(layers) for i in layer}
    return [(_MARGIN + (slot[i] - left) * step_x, _MARGIN + depth[i] * step_y) for i in range(len(picture.boxes))]


def _layers(above: list[list[int]], below: list[list[int]]) -> list[list[int]]:
    """The boxes by layer: the longest distance from an input."""
    waits = [len(others) for others in above]
    layers: list[list[int]] = []
    layer = [i for i, n in enumerate(waits) if not n]
    while layer:
        layers.append(layer)
        ready = []
        for i in layer:
            for j in below[i]:
                waits[j] -= 1
                if not waits[j]:
                    ready.append(j)
        layer = sorted(ready)
    return layers


def _lines(picture: Picture, place: list[tuple[float, float]]) -> Iterator[str]:
    dashed = [(a, b, "") for a, b in picture.bodies]
    for a, b, text in [*picture.edges, *dashed]:
        x, y = place[a][0] + _WIDTH / 2, place[a][1] + _HEIGHT
        u, v = place[b][0] + _WIDTH / 2, place[b][1]
        bend = min(40.0, (v - y) / 2)
        line = f"M{x:.0f} {y:.0f}C{x:.0f} {y + bend:.0f} {u:.0f} {v - bend:.0f} {u:.0f} {v:.0f}"
        style = "" if text else ' stroke-dasharray="3"'
        yield f'<path d="{line}" marker-end="url(#end)"{style}><title>{html.escape(text)}</title></path>'
        if text and v - y < 2 * _GAP_Y and abs(u - x) < _WIDTH:
            at = f'x="{(x + u) / 2 + 3:.0f}" y="{(y + v) / 2:.0f}"'
            yield f'<text {at} fill="#666" font-size="8">{html.escape(text)}</text>'
