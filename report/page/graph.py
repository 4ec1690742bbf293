"""The graph of a page: what its script draws, as arrays by the number of an item, and a picture without scripts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minnow.report.drawing.look import COLORS, TITLES, attribute_rows, color_of, heading, lines_of, shape_text, size_of
from minnow.report.drawing.outline import Item, outline_of
from minnow.report.drawing.picture import Drawing, drawing_of
from minnow.report.drawing.svg import svg_of
from minnow.report.page.skeleton import text
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.blob import nbytes

MOST_BOXES = 140
"""Boxes that a page shows first: of larger graphs some groups are closed."""


@dataclass
class NodeFacts:
    """What is known of a node besides the graph.

    Attributes:
        ms: milliseconds of one run; None if it was not measured.
        macs: multiply-accumulates; None if a dimension is unknown.
        bytes: that it reads and writes.
        scheme: the algorithm that the engine has chosen.
        sources: the nodes of the source that it stands for, by their origins.
        rules: the rules and passes that have made or changed it, in their order.
    """

    ms: float | None = None
    macs: int | None = None
    bytes: int = 0
    scheme: str = ""
    sources: Sequence[str] = ()
    rules: Sequence[str] = ()


@dataclass
class GraphView:
    """A graph to show: its drawing, the groups that are open at first, and facts of nodes."""

    graph: Graph
    drawing: Drawing
    opened: list[Item]
    facts: Mapping[Node, NodeFacts] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph, facts: Mapping[Node, NodeFacts], most: int = MOST_BOXES) -> GraphView:
        drawing = drawing_of(outline_of(graph))
        return cls(graph, drawing, first_open(drawing.outline.root, most), facts)

    def svg(self, label: str) -> str:
        """The picture as it is at first."""
        return svg_of(self.drawing.picture(self.opened, size_of), self.drawing.outline.values, label=label)

    def data(self) -> dict[str, Any]:
        """The JSON-ready values for `graph.js`."""
        outline = self.drawing.outline
        words = _Words()
        items = outline.items
        facts = [self._facts(item) for item in items]
        sizes = [size_of(item) for item in items]
        colors = list(COLORS)
        number = {item: item.id for item in items}
        lines = [[*lines_of(item), "", ""][:3] for item in items]
        return {
            "strings": words.all,
            "kinds": [item.kind for item in items],
            "title": [words.of(heading(item)) for item in items],
            "lines": [[words.of(t) for t in three] for three in lines],
            "width": [w for w, _ in sizes],
            "height": [h for _, h in sizes],
            "color": [colors.index(color_of(item)) for item in items],
            "colors": colors,
            "size": [item.size for item in items],
            "parent": [-1 if item.parent is None else number[item.parent] for item in items],
            "children": {item.id: [child.id for child in item.children] for item in outline.groups},
            "rows": {group.id: self._rows(group) for group in self.drawing.rows},
            "name": [words.of(_name(item)) for item in items],
            "ms": [None if f.ms is None else round(f.ms, 6) for f in facts],
            "macs": [f.macs for f in facts],
            "bytes": [f.bytes for f in facts],
            "scheme": [words.of(f.scheme) for f in facts],
            "origin": [words.of("\n".join(f.sources)) for f in facts],
            "rules": [words.of("\n".join(f.rules)) for f in facts],
            "about": [words.of(_about(item)) for item in items],
            "weights": [words.of(_weights(item)) for item in items],
            "values": {
                "name": [words.of(v.name) for v in outline.values],
                "type": [words.of(_type(v)) for v in outline.values],
                "source": [item.id for item in outline.sources],
            },
            "opened": [item.id for item in self.opened],
        }

    def _rows(self, group: Item) -> list[Any]:
        rows = self.drawing.rows[group]
        flat = [n for segment in rows.segments for n in segment]
        ins, outs = ([n for pair in ends.items() for n in pair] for ends in (rows.ins, rows.outs))
        return [len(rows.cells), rows.rows, flat, ins, outs]

    def _facts(self, item: Item) -> NodeFacts:
        if item.node is not None:
            return self.facts.get(item.node, NodeFacts())
        return NodeFacts()


_BUTTONS = (
    ("open-all", "Open all", "Open all groups"),
    ("close-all", "Close all", "Close all groups"),
    ("zoom-in", "+", "Zoom in"),
    ("zoom-out", "−", "Zoom out"),
    ("fit", "Fit", "Show the whole graph"),
    ("full-window", "Full window", "Use the whole window"),
)
_COLORINGS = {"kind": "kind of op", "ms": "time", "macs": "multiply-accumulates", "bytes": "memory traffic"}


def graph_html(view: GraphView, label: str) -> str:
    """The elements that `graph.js` fills, and the picture that is there without it."""
    used = {color_of(item) for item in view.drawing.outline.items}
    options = "".join(f'<option value="{name}">Color: {title}</option>' for name, title in _COLORINGS.items())
    buttons = "".join(
        f'<button type="button" class="{name}" title="{tip}" aria-label="{tip}">{title}</button>'
        for name, title, tip in _BUTTONS
    )
    legend = "".join(
        f'<span><svg width="12" height="12" aria-hidden="true"><rect class="{name}" x="1" y="1" width="10" height="10" '
        f'rx="3"/></svg> {title}</span>'
        for name, title in TITLES.items()
        if name in used
    )
    return (
        '<div class="graph card" id="graph-view"><div class="bar"><div class="find">'
        '<label class="sr" for="find">Search the graph</label><input id="find" type="search" role="combobox" '
        'aria-expanded="false" aria-controls="found" aria-autocomplete="list" autocomplete="off" spellcheck="false" '
        'placeholder="Search: op, name, tensor, shape"><ul id="found" class="found" role="listbox" '
        'aria-label="Found nodes" hidden></ul></div>'
        f'<select aria-label="Colors of the boxes">{options}</select>{buttons}</div>'
        f'<div class="view" tabindex="0" role="application" aria-roledescription="graph" aria-label="{text(label)}" '
        'aria-describedby="graph-keys"><canvas class="main" aria-hidden="true"></canvas>'
        '<canvas class="map" aria-hidden="true" hidden></canvas><div class="tip" hidden></div></div>'
        '<aside aria-label="Details"></aside><p class="says sr" aria-live="polite"></p>'
        f'<p class="keys muted" id="graph-keys">{_KEYS}</p>'
        f'<template class="legend-template"><p class="legend">{legend}</p></template>'
        f'<div class="still" tabindex="0" role="region" aria-label="{text(label)}">{view.svg(label)}</div></div>'
    )


_KEYS = (
    "Keys: arrows follow the data and go to neighbors, Enter opens and closes a group, + and − zoom, Shift and arrows "
    "move, 0 fits, / searches, Escape goes to the group around. The wheel zooms once the graph has been clicked; drag "
    "to move."
)


def color_css() -> str:
    """The colors of boxes and lines, for light and dark."""
    rows = []
    for name, (light, dark) in COLORS.items():
        pairs = zip(("fill", "stroke"), light, dark, strict=True)
        rules = (f"{key}:{a if a == b else f'light-dark({a},{b})'}" for key, a, b in pairs)
        rows.append(f":is(.graph,.chart) .{name}{{{';'.join(rules)}}}")
    return "".join(rows)


class _Words:
    """Strings by number, so that each is in the file once."""

    def __init__(self) -> None:
        self.all: list[str] = [""]
        self._known = {"": 0}

    def of(self, text: str) -> int:
        if text not in self._known:
            self._known[text] = len(self.all)
            self.all.append(text)
        return self._known[text]


def first_open(root: Item, most: int) -> list[Item]:
    """The groups that are open at first: outer ones before inner ones, up to `most` boxes."""
    opened, count, queue = [], len(root.children), [child for child in root.children if child.is_group]
    for group in queue:
        if count + len(group.children) > most:
            continue
        count += len(group.children)
        opened.append(group)
        queue += [child for child in group.children if child.is_group]
    return opened


def _name(item: Item) -> str:
    return item.value.name if item.value is not None else item.node.name if item.node is not None else ""


def _type(value: Value) -> str:
    layout = "" if value.type.layout == "nchw" or value.type.holds_tensors else f" in {value.type.layout}"
    return f"{shape_text(value.type)}{layout}"


def _about(item: Item) -> str:
    """Attributes and results, a line for each; lines of results begin with a tab."""
    if item.value is not None:
        return f"\t{_type(item.value)}"
    if item.node is None:
        return "/".join(item.path)
    results = [f"\t{v.name}  {_type(v)}".rstrip() for v in item.node.outputs]
    return "\n".join([*attribute_rows(item.node), *results])


def _weights(item: Item) -> str:
    if item.node is None:
        return ""
    found = [v for v in item.node.inputs if v is not None and v.data is not None]
    return "\n".join(f"{shape_text(v.type)}, {nbytes(v.data):,} bytes" for v in found if v.data is not None)
