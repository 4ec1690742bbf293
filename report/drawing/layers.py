"""The items of a group in rows, each below what it reads, with few crossings of lines.

A value that is read further below has a bend in every row in between. Bends take part in the order of their rows like
boxes, so that a line always goes between boxes. The readers of a value share its bends.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field

from minnow.report.drawing.outline import Item, Net, Outline

BEND = -1
"""In `Rows.cells`, a bend of a line, or the end of a line at the border of the group."""

_SWEEPS = 8


@dataclass
class Rows:
    """The order of a group.

    Attributes:
        cells: for each cell the id of its item, or `BEND`.
        rows: cells of each row, from left to right.
        segments: (cell, cell of the next row, value).
        ins, outs: the cells where a value (by its number) comes in at the top, and goes out at the bottom.
    """

    cells: list[int] = field(default_factory=list)
    rows: list[list[int]] = field(default_factory=list)
    segments: list[tuple[int, int, int]] = field(default_factory=list)
    ins: dict[int, int] = field(default_factory=dict)
    outs: dict[int, int] = field(default_factory=dict)


def rows_of(outline: Outline, group: Item) -> Rows:
    """The rows of a group's children."""
    made = Rows()
    at = {child: k for k, child in enumerate(group.children)}
    made.cells = [child.id for child in group.children]
    nets = list(outline.nets.get(group, {}).values())
    inside = [net for net in nets if net.source is None or net.source in at]
    depth = _depths(group, inside, at)
    count = max(depth, default=-1) + 1
    rows: list[list[int]] = [[] for _ in range(count + 2)]  # the first and the last one are for ends at the border
    for cell, k in enumerate(depth):
        rows[k + 1].append(cell)

    def bend(row: int) -> int:
        made.cells.append(BEND)
        rows[row].append(len(made.cells) - 1)
        return len(made.cells) - 1

    for net in inside:
        if net.source is None:
            top, row = bend(0), 0
            made.ins[net.value] = top
        else:
            top, row = at[net.source], depth[at[net.source]] + 1
        targets = sorted((depth[at[t]] + 1, at[t]) for t in net.targets if t in at)
        last = max([r for r, _ in targets] + ([count + 1] if net.leaves else []), default=row)
        trunk = {row: top}
        for k in range(row + 1, last):
            trunk[k] = bend(k)
            made.segments.append((trunk[k - 1], trunk[k], net.value))
        for r, cell in targets:
            made.segments.append((trunk[r - 1], cell, net.value))
        if net.leaves:
            made.outs[net.value] = bend(count + 1)
            made.segments.append((trunk[count], made.outs[net.value], net.value))
    made.rows = rows
    _order(made)
    return made


def _depths(group: Item, nets: list[Net], at: dict[Item, int]) -> list[int]:
    """The row of each child: its longest distance from the top; what reads nothing stands above its first reader."""
    above: list[set[int]] = [set() for _ in group.children]
    below: list[set[int]] = [set() for _ in group.children]
    for net in nets:
        for target in net.targets:
            if net.source is not None and target in at:
                above[at[target]].add(at[net.source])
                below[at[net.source]].add(at[target])
    depth = [0] * len(group.children)
    waits = [len(others) for others in above]
    order = [k for k, n in enumerate(waits) if not n]
    for k in order:
        for other in sorted(below[k]):
            depth[other] = max(depth[other], depth[k] + 1)
            waits[other] -= 1
            if not waits[other]:
                order.append(other)
    for k in reversed(order):
        if not above[k] and below[k]:
            depth[k] = min(depth[other] for other in below[k]) - 1
    deepest = max(depth, default=0)
    for k, child in enumerate(group.children):
        if child.kind == "output":
            depth[k] = deepest
    return depth


def _order(made: Rows) -> None:
    """Sorts the rows: sweeps move each cell to the median of its neighbors; the order with fewest crossings stays."""
    up: list[list[int]] = [[] for _ in made.cells]
    down: list[list[int]] = [[] for _ in made.cells]
    for a, b, _ in made.segments:
        up[b].append(a)
        down[a].append(b)
    rows = _depth_first(made.rows, up, down)
    best, fewest = [list(row) for row in rows], _crossings(rows, down)
    slot = [0] * len(made.cells)

    def settle(row: list[int]) -> None:
        for k, cell in enumerate(row):
            slot[cell] = k

    for row in rows:
        settle(row)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        near = down if sweep % 2 else up
        for row in reversed(rows) if sweep % 2 else rows:
            wish = {cell: _middle([slot[other] for other in near[cell]], slot[cell]) for cell in row}
            row.sort(key=lambda cell: (wish[cell], slot[cell]))
            settle(row)
        now = _crossings(rows, down)
        if now < fewest:
            best, fewest = [list(row) for row in rows], now
    made.rows = best


def _depth_first(rows: list[list[int]], up: list[list[int]], down: list[list[int]]) -> list[list[int]]:
    """The rows in the order in which a walk from the top meets their cells, which keeps branches together."""
    of = {cell: k for k, row in enumerate(rows) for cell in row}
    made: list[list[int]] = [[] for _ in rows]
    seen: set[int] = set()
    for start in (cell for row in rows for cell in row if not up[cell]):
        stack = [start]
        while stack:
            cell = stack.pop()
            if cell in seen:
                continue
            seen.add(cell)
            made[of[cell]].append(cell)
            stack += reversed(down[cell])
    return made


def _middle(values: list[int], own: int) -> float:
    """The median; of an even number the mean of the middle two. A cell without neighbors stays."""
    if not values:
        return own
    values.sort()
    half = len(values) // 2
    return values[half] if len(values) % 2 else (values[half - 1] + values[half]) / 2


def _crossings(rows: list[list[int]], down: list[list[int]]) -> int:
    """The number of crossings of all segments: inversions, counted with a binary indexed tree."""
    total = 0
    for row, following in itertools.pairwise(rows):
        slot = {cell: k for k, cell in enumerate(following)}
        tree = [0] * (len(following) + 1)
        seen = 0
        for cell in row:
            ends = [slot[other] for other in down[cell]]
            for end in ends:
                k, smaller = end + 1, 0
                while k:
                    smaller += tree[k]
                    k -= k & -k
                total += seen - smaller
            for end in ends:
                k = end + 1
                while k <= len(following):
                    tree[k] += 1
                    k += k & -k
                seen += 1
    return total
