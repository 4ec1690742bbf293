"""The places of all boxes and lines of a graph, with some groups open and others closed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from minnow.report.drawing.layers import Rows, rows_of
from minnow.report.drawing.outline import Item, Outline
from minnow.report.drawing.place import Placed, Point, Port, place

PAD, HEAD = 14, 24
"""Pixels around the items of an open group, and of its heading."""

Size = tuple[float, float]


@dataclass
class Box:
    """A box in the picture: the item, its left upper corner, and its size."""

    item: Item
    x: float
    y: float
    width: float
    height: float
    is_open: bool


@dataclass
class Line:
    """A piece of a line: the number of its value, its points, and whether it ends at a box."""

    value: int
    points: list[Point]
    ends: bool


@dataclass
class Picture:
    """What is drawn: boxes, outer ones first, and lines above the boxes of the groups they are in."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0


@dataclass
class Drawing:
    """The outline of a graph, and the rows of each group; what stays when groups are opened and closed."""

    outline: Outline
    rows: dict[Item, Rows]

    def picture(self, opened: Collection[Item], size: Callable[[Item], Size]) -> Picture:
        """Places everything.

        Args:
            opened: groups that are open, if those around them are, too. The outermost group always is.
            size: width and height of a box that is not open.
        """
        placed: dict[Item, Placed] = {}
        shown = self._shown({*opened, self.outline.root})
        for group in reversed(shown):
            self._place(group, placed, size)
        made = Picture()
        root = placed[self.outline.root]
        made.width, made.height = root.width + 2 * PAD, root.height + 2 * PAD
        corner = {self.outline.root: (float(PAD), float(PAD))}
        for group in shown:
            self._add(made, group, placed, corner, size)
        return made

    def _shown(self, opened: Collection[Item]) -> list[Item]:
        """The open groups that are seen, outer ones first."""
        found = [self.outline.root]
        for group in found:
            found += [child for child in group.children if child.is_group and child in opened]
        return found

    def _place(self, group: Item, placed: dict[Item, Placed], size: Callable[[Item], Size]) -> None:
        rows = self.rows[group]
        width, height = [0.0] * len(rows.cells), [0.0] * len(rows.cells)
        ports: dict[int, Port] = {}
        for cell, child in enumerate(group.children):
            inner = placed.get(child)
            if inner is None:
                width[cell], height[cell] = size(child)
                continue
            width[cell] = max(inner.width + 2 * PAD, size(child)[0])
            height[cell] = inner.height + HEAD + 2 * PAD
            own, left = self.rows[child], (width[cell] - inner.width) / 2 - width[cell] / 2
            ports[cell] = Port(
                {value: inner.x[c] + left for value, c in own.ins.items()},
                {value: inner.x[c] + left for value, c in own.outs.items()},
            )
        placed[group] = place(rows, width, height, ports)

    def _add(
        self,
        made: Picture,
        group: Item,
        placed: dict[Item, Placed],
        corner: dict[Item, Point],
        size: Callable[[Item], Size],
    ) -> None:
        own, rows = placed[group], self.rows[group]
        left, top = corner[group]
        for cell, child in enumerate(group.children):
            inner = placed.get(child)
            if inner is None:
                w, h = size(child)
            else:
                w, h = max(inner.width + 2 * PAD, size(child)[0]), inner.height + HEAD + 2 * PAD
            x, y = left + own.x[cell] - w / 2, top + own.y[cell]
            if inner is not None:
                corner[child] = (x + (w - inner.width) / 2, y + HEAD + PAD)
            made.boxes.append(Box(child, x, y, w, h, inner is not None))
        entering, leaving = {*rows.ins.values()}, {*rows.outs.values()}
        is_root = group is self.outline.root
        for (a, b, value), points in zip(rows.segments, own.lines, strict=True):
            line = [(left + x, top + y) for x, y in points]
            if a in entering and not is_root:  # up to the border of the group's box
                line.insert(0, (line[0][0], top - HEAD - PAD))
            if b in leaving and not is_root:
                line.append((line[-1][0], top + own.height + PAD))
            made.lines.append(Line(value, line, b < len(group.children)))


def drawing_of(outline: Outline) -> Drawing:
    """Orders the rows of every group."""
    return Drawing(outline, {group: rows_of(outline, group) for group in outline.groups or [outline.root]})
