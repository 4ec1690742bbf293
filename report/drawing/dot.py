"""Graphs as text for Graphviz: a box for each node with its attributes, edges with types, and bodies as clusters."""

from __future__ import annotations

from dataclasses import dataclass, field

from minnow.report.drawing.look import COLORS, attribute_rows, family_of, shape_text, short, tip_of_node
from minnow.schema.ir import Graph, Node, Value

_MOST_TEXT = 48


@dataclass
class Box:
    """A box of the drawing: its lines, its tooltip, its color, and the names of the graphs around it."""

    lines: list[str]
    tip: str
    color: str
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

    def box(lines: list[str], tip: str, color: str) -> int:
        picture.boxes.append(Box([short(t, _MOST_TEXT) for t in lines if t], tip, color, path))
        return len(picture.boxes) - 1

    def port(value: Value, kind: str) -> int:
        lines = [value.name or kind, _type(value)]
        return box(lines, f"{kind} {value.name}: {value.type}", "port")

    def read(node: Node, index: int) -> None:
        for value in filter(None, node.inputs):
            if value in at:
                picture.edges.append((at[value], index, _type(value)))

    for value in graph.params:
        at[value] = port(value, "input")
    for node in graph:
        weights = [_type(v) for v in node.inputs if v is not None and v.is_const]
        lines = [node.op, node.name, " ".join(attribute_rows(node)), " ".join(weights)]
        index = box(lines, tip_of_node(node), family_of(node))
        read(node, index)
        at.update(dict.fromkeys(node.outputs, index))
        for name, body in node.subgraphs.items():
            for end in _add(picture, body, (*path, f"{name} of {node.name or node.op}")):
                picture.bodies.append((end, index))
    ends = []
    for value in graph.outputs:
        ends.append(port(value, "output"))
        if value in at:
            picture.edges.append((at[value], ends[-1], _type(value)))
    return ends


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
        label, color = _quoted("\n".join(b.lines)), COLORS[b.color][0][0]
        indent = "  " * (len(open_) + 1)
        lines.append(f'{indent}n{i} [label={label}, tooltip={_quoted(b.tip)}, fillcolor="{color}"]')
    lines += ["  " * depth + "}" for depth in range(len(open_), 1, -1)]
    lines += [f"  n{a} -> n{b} [label={_quoted(text)}]" for a, b, text in picture.edges]
    lines += [f"  n{a} -> n{b} [style=dashed]" for a, b in picture.bodies]
    return "\n".join([*lines, "}", ""])


def _type(value: Value) -> str:
    return shape_text(value.type).replace("×", "x")


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
