"""Layouts of graphs: boxes do not overlap, lines do not pass behind boxes, and go from each value to its readers."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from minnow.report.drawing.look import size_of
from minnow.report.drawing.outline import Item, outline_of, scope_of
from minnow.report.drawing.picture import Box, Drawing, Picture, drawing_of
from minnow.report.drawing.place import Point
from minnow.report.drawing.repeat import repeats
from minnow.report.drawing.svg import to_svg
from minnow.schema.ir import DType, Graph, Node, TensorType

F32 = TensorType(DType.F32, (1, 8))


@dataclass
class Plan:
    """A graph to be: per node what it reads (counted from the end of the values so far), and its scope."""

    nodes: list[tuple[list[int], str]]
    body: int

    def graph(self) -> Graph:
        graph = Graph()
        values = [graph.add_param(F32, "x"), graph.add_param(F32, "y")]
        for k, (back, scope) in enumerate(self.nodes):
            inputs = [values[-1 - b % len(values)] for b in back]
            op = "Concat" if len(inputs) > 1 else "Relu"
            attrs = {}
            if k == self.body:
                op, inputs = "If", inputs[:1]
                attrs = {name: _body() for name in ("then_branch", "else_branch")}
            node = Node(op, inputs, attrs, [F32], [f"{scope}/v{k}" if scope else f"v{k}"], f"onnx:{scope}/n{k}")
            values.append(graph.insert(node).output)
        graph.outputs = [v for v in values[2:] if not v.uses] or values[-1:]
        return graph


def _body() -> Graph:
    graph = Graph("body")
    graph.outputs = [graph.insert(Node("Relu", [graph.add_param(F32, "p")], {}, [F32], ["q"])).output]
    return graph


SCOPES = ("", "a", "a/b", "a/c", "d", "d/e/f")
NODES = st.tuples(st.lists(st.integers(0, 12), min_size=1, max_size=4), st.sampled_from(SCOPES))
PLANS = st.builds(Plan, st.lists(NODES, min_size=1, max_size=32), st.integers(0, 40))


def shown(drawing: Drawing, opened: set[Item], item: Item) -> Item:
    """The box that stands for an item: itself, or the outermost closed group around it."""
    best, up = item, item.parent
    while up is not None:
        if up not in opened and up is not drawing.outline.root:
            best = up
        up = up.parent
    return best


def points_of(line: list[Point]) -> list[Point]:
    """Points along a line, as it is drawn."""
    found = []
    for (x, y), (u, v) in itertools.pairwise(line):
        for k in range(17):
            t = k / 16
            if x == u or y == v:
                found.append((x + (u - x) * t, y + (v - y) * t))
            else:  # a Bezier curve whose inner points are at half the height
                a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
                found.append((x * (a + b) + u * (c + d), y * a + (y + v) / 2 * (b + c) + v * d))
    return found


def check(drawing: Drawing, opened: set[Item], picture: Picture) -> None:
    boxes = {box.item: box for box in picture.boxes}
    closed = [box for box in picture.boxes if not box.is_open]
    for k, a in enumerate(closed):
        assert a.x >= 0
        assert a.y >= 0
        assert a.x + a.width <= picture.width
        assert a.y + a.height <= picture.height
        for b in closed[:k]:
            apart = a.x + a.width <= b.x or b.x + b.width <= a.x or a.y + a.height <= b.y or b.y + b.height <= a.y
            assert apart, (a, b)
    for box in picture.boxes:
        if box.item.parent in boxes:
            outer = boxes[box.item.parent]
            assert outer.is_open
            assert outer.x < box.x
            assert outer.y < box.y
            assert box.x + box.width < outer.x + outer.width
            assert box.y + box.height < outer.y + outer.height
    for line in picture.lines:
        for x, y in points_of(line.points):
            assert 0 <= x <= picture.width
            assert 0 <= y <= picture.height
            for box in closed:
                inside = box.x + 0.6 < x < box.x + box.width - 0.6 and box.y + 0.6 < y < box.y + box.height - 0.6
                assert not inside, (line, box)
    check_connected(drawing, opened, picture, boxes)


def check_connected(drawing: Drawing, opened: set[Item], picture: Picture, boxes: dict[Item, Box]) -> None:
    pieces: dict[int, list[list[Point]]] = defaultdict(list)
    for line in picture.lines:
        pieces[line.value].append(line.points)
    of_node = {item.node: item for item in drawing.outline.items if item.node is not None}
    for number, value in enumerate(drawing.outline.values):
        source = shown(drawing, opened, drawing.outline.sources[number])
        reached = {p[0] for p in pieces[number] if on_edge(p[0], boxes[source], bottom=True)}
        for _ in pieces[number]:
            reached |= {p[-1] for p in pieces[number] if p[0] in reached}
        for reader in (of_node[n] for n, _ in value.uses if n in of_node):
            target = shown(drawing, opened, reader)
            assert target is source or any(on_edge(p, boxes[target], bottom=False) for p in reached), (value, target)


def on_edge(point: Point, box: Box, bottom: bool) -> bool:
    level = box.y + box.height if bottom else box.y
    return point[1] == level and box.x <= point[0] <= box.x + box.width


@settings(max_examples=20, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(PLANS, st.integers(0, 2**31))
def test_lines_go_around_boxes_and_boxes_do_not_overlap(plan: Plan, choice: int) -> None:
    drawing = drawing_of(outline_of(plan.graph()))
    groups = drawing.outline.groups
    for opened in ({*groups}, set(), {g for k, g in enumerate(groups) if choice >> (k % 31) & 1}):
        picture = drawing.picture(opened, size_of)
        reachable = {box.item for box in picture.boxes if box.is_open}
        check(drawing, reachable, picture)


@settings(max_examples=10, deadline=None)
@given(PLANS)
def test_the_same_graph_gives_the_same_bytes(plan: Plan) -> None:
    assert to_svg(plan.graph()) == to_svg(plan.graph())


@pytest.mark.parametrize("fan", [0, 2])
def test_a_long_chain_is_wrapped_with_lines_around_boxes(fan: int) -> None:
    nodes = [([0, 7 * (k % 9)][: 1 + fan // 2], "") for k in range(70)]
    drawing = drawing_of(outline_of(Plan(nodes, -1).graph()))
    picture = drawing.picture(drawing.outline.groups, size_of)
    check(drawing, {*drawing.outline.groups}, picture)
    assert 0.4 < picture.width / picture.height < 3


def test_large_graphs_are_divided_into_few_items_per_group() -> None:
    nodes = [([0, 3, k % 50], "") for k in range(3000)]
    outline = outline_of(Plan(nodes, -1).graph())
    assert max(len(g.children) for g in outline.groups) <= 90
    leaves = [i for i in outline.items if i.node is not None]
    assert len(leaves) == 3000
    assert all(leaf.parent is not None for leaf in leaves)


def test_repeated_sequences_become_blocks() -> None:
    block = ["Norm", "MatMul", "Add", "Relu", "MatMul", "Add"]
    signs = ["Embed", "Norm", *block * 5, "MatMul", "Softmax"]
    found = repeats(signs, [1] * (len(signs) + 1))
    (start, period, count) = max(found, key=lambda f: f[2])
    assert (period, count) == (6, 5)
    assert sum(p * c for _, p, c in found) == len(signs)
    assert signs[start : start + 6] * 5 == signs[start : start + 30]


def test_scopes_of_the_source_become_groups() -> None:
    nodes = [([0], f"net/layer{k // 4}") for k in range(12)]
    outline = outline_of(Plan(nodes, -1).graph())
    titles = [g.title for g in outline.groups[0].children if g.is_group]
    assert titles == ["layer0", "layer1", "layer2"]
    assert scope_of(Node("Relu", [], {}, [F32], ["x"], "onnx:p2o.Conv.12 > fuse_conv_bn")) == ("p2o",)
    assert scope_of(Node("Relu", [], {}, [F32], ["a/b/x;c/d"], "")) == ("a", "b")
