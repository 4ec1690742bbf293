"""Coordinates for the rows of a group.

Every row takes positions near the medians of its neighbors' positions, as far as the widths of its cells allow
(isotonic regression, which is optimal and takes linear time). A group that is much taller than wide is wrapped into
columns where few lines cross; these go around through the gap between the columns.

`place.js` of the page does the same when a group is opened, with the same operations in the same order; a test compares
both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, sqrt

from minnow.report.drawing.layers import Rows

GAP_X, GAP_LINE, GAP_Y, TRACK = 26, 12, 28, 9
"""Pixels between boxes; beside lines; between rows; between lines beside each other where a column ends."""

_SWEEPS = 7
_STEEP, _MOST_STEEP = 0.1, 40
"""A line that goes far sideways gets more height: a fraction of its width, and the most of it."""
_TALL, _RATIO, _LEAST_WIDTH = 900, 1.5, 160
"""Height from which on a group is wrapped, the width of the result as a multiple of its height, the least width."""
_BOX, _LINE, _TRUNK = 4, 1, 8
"""Weights of segments between boxes, to and from a bend, and between bends."""

Point = tuple[float, float]


@dataclass
class Port:
    """Where values go into and out of an open group, relative to its center, by the number of the value."""

    ins: Mapping[int, float]
    outs: Mapping[int, float]


@dataclass
class Placed:
    """The coordinates of a group.

    Attributes:
        x, y: the center of each cell, and its upper edge.
        lines: the points of each segment. Those beside or above each other are joined by straight lines, others by
            curves with vertical ends.
        width, height: of the whole.
    """

    x: list[float]
    y: list[float]
    lines: list[list[Point]]
    width: float
    height: float


def place(
    rows: Rows, width: Sequence[float], height: Sequence[float], ports: Mapping[int, Port], tall: float = _TALL
) -> Placed:
    """Gives coordinates.

    Args:
        rows: the order.
        width, height: of each cell; 0 for bends.
        ports: for each cell that is an open group, where its lines end.
        tall: height from which on a group is wrapped into columns.
    """
    upper, lower = _ends(rows, width, ports)
    x = _sideways(rows, width, upper, lower, ports)
    tops, deep = _downwards(rows, x, height, upper, lower)
    cuts = _cuts(rows, x, width, tops, deep, tall)
    return _folded(rows, x, width, height, tops, deep, cuts, upper, lower)


def _ends(rows: Rows, width: Sequence[float], ports: Mapping[int, Port]) -> tuple[list[float], list[float]]:
    """Where segments end at their upper and lower cells, relative to the centers."""
    slot = [0] * len(rows.cells)
    for row in rows.rows:
        for k, cell in enumerate(row):
            slot[cell] = k
    upper, lower = [0.0] * len(rows.segments), [0.0] * len(rows.segments)
    leaving: list[dict[int, list[int]]] = [{} for _ in rows.cells]
    arriving: list[list[int]] = [[] for _ in rows.cells]
    for s, (a, b, value) in enumerate(rows.segments):
        leaving[a].setdefault(value, []).append(s)
        arriving[b].append(s)
    for cell, size in enumerate(width):
        if not size:
            continue
        port = ports.get(cell)
        groups = sorted(leaving[cell].items(), key=lambda kv: (sum(slot[rows.segments[s][1]] for s in kv[1]), kv[0]))
        for k, (value, segments) in enumerate(groups):
            for s in segments:
                known = port is not None and value in port.outs
                upper[s] = port.outs[value] if port is not None and known else _spread(k, len(groups), size)
        came = sorted(arriving[cell], key=lambda s: (slot[rows.segments[s][0]], s))
        for k, s in enumerate(came):
            value = rows.segments[s][2]
            known = port is not None and value in port.ins
            lower[s] = port.ins[value] if port is not None and known else _spread(k, len(came), size)
    return upper, lower


def _spread(k: int, count: int, width: float) -> float:
    """The offset of one of several ends of lines at a box."""
    step = min(18.0, (width - 16) / count)
    return (k - (count - 1) / 2) * step


def _sideways(
    rows: Rows, width: Sequence[float], upper: Sequence[float], lower: Sequence[float], ports: Mapping[int, Port]
) -> list[float]:
    """The centers of all cells.

    Lines between boxes become straight. Open groups are aligned by their centers: aligned by the ends of their lines,
    one after the other would be further to the side.
    """
    x = [0.0] * len(rows.cells)
    weight = [1.0 if not w else 4.0 for w in width]
    up: list[list[tuple[int, float, int]]] = [[] for _ in rows.cells]
    down: list[list[tuple[int, float, int]]] = [[] for _ in rows.cells]
    for s, (a, b, _) in enumerate(rows.segments):
        bends = (not width[a]) + (not width[b])
        pull = _TRUNK if bends == 2 else _LINE if bends else _BOX
        offset = (0.0 if a in ports else upper[s]) - (0.0 if b in ports else lower[s])
        up[b].append((a, offset, pull))
        down[a].append((b, -offset, pull))
    offsets = []
    for row in rows.rows:
        places = [0.0] * len(row)
        for k in range(1, len(row)):
            left, right = width[row[k - 1]], width[row[k]]
            gap = GAP_X if left and right else GAP_LINE
            places[k] = places[k - 1] + left / 2 + right / 2 + gap
        offsets.append(places)
        for k, cell in enumerate(row):
            x[cell] = places[k] - places[-1] / 2
    for sweep in range(_SWEEPS):
        rising = sweep % 2 == 1
        for r in range(len(rows.rows) - 1, -1, -1) if rising else range(len(rows.rows)):
            row = rows.rows[r]
            wish, trust = [0.0] * len(row), [0.0] * len(row)
            for k, cell in enumerate(row):
                near = down[cell] if rising else up[cell]
                wish[k] = (_median([(x[o] + d, p) for o, d, p in near]) if near else x[cell]) - offsets[r][k]
                trust[k] = weight[cell] if near else weight[cell] * 0.02
            fit = _isotonic(wish, trust)
            for k, cell in enumerate(row):
                x[cell] = fit[k] + offsets[r][k]
    return x


def _median(points: list[tuple[float, int]]) -> float:
    """The weighted median."""
    if len(points) == 1:
        return points[0][0]
    points.sort(key=lambda p: p[0])
    half = sum(p[1] for p in points) / 2
    seen = 0
    for k, (at, pull) in enumerate(points):
        seen += pull
        if seen == half:
            return (at + points[k + 1][0]) / 2
        if seen > half:
            return at
    return points[-1][0]


def _isotonic(wish: Sequence[float], weight: Sequence[float]) -> list[float]:
    """The ascending values with the smallest weighted squared distance from the wishes."""
    means: list[float] = []
    weights: list[float] = []
    sizes: list[int] = []
    for w, t in zip(wish, weight, strict=True):
        mean, total, size = w, t, 1
        while means and means[-1] > mean:
            both = weights[-1] + total
            mean = (means[-1] * weights[-1] + mean * total) / both
            total, size = both, sizes[-1] + size
            means.pop()
            weights.pop()
            sizes.pop()
        means.append(mean)
        weights.append(total)
        sizes.append(size)
    return [mean for mean, size in zip(means, sizes, strict=True) for _ in range(size)]


def _downwards(
    rows: Rows, x: Sequence[float], height: Sequence[float], upper: Sequence[float], lower: Sequence[float]
) -> tuple[list[float], list[float]]:
    """The upper edge and the height of each row."""
    row_of = [0] * len(rows.cells)
    for r, row in enumerate(rows.rows):
        for cell in row:
            row_of[cell] = r
    wide = [0.0] * len(rows.rows)
    for s, (a, b, _) in enumerate(rows.segments):
        wide[row_of[a]] = max(wide[row_of[a]], abs(x[a] + upper[s] - x[b] - lower[s]))
    tops, deep = [], []
    y = 0.0
    for r, row in enumerate(rows.rows):
        size = 0.0
        for cell in row:
            size = max(size, height[cell])
        tops.append(y)
        deep.append(size)
        if row and r + 1 < len(rows.rows) and rows.rows[r + 1]:
            gap = GAP_Y if size or r else GAP_Y / 2
            y += size + gap + floor(min(_MOST_STEEP, _STEEP * wide[r]))
        else:
            y += size
    return tops, deep


def _cuts(
    rows: Rows,
    x: Sequence[float],
    width: Sequence[float],
    tops: Sequence[float],
    deep: Sequence[float],
    tall: float,
) -> list[int]:
    """The rows with which new columns begin."""
    count = len(rows.rows)
    total = tops[-1] + deep[-1]
    widest = 0.0
    for row in rows.rows:
        if row:
            start, end = row[0], row[-1]
            widest = max(widest, x[end] + width[end] / 2 - x[start] + width[start] / 2)
    columns = floor(sqrt(_RATIO * total / max(widest, _LEAST_WIDTH)) + 0.5)
    if total <= tall or columns < 2:
        return []
    cross = [0] * (count + 1)
    row_of = [0] * len(rows.cells)
    for r, row in enumerate(rows.rows):
        for cell in row:
            row_of[cell] = r
    for a, _, _ in rows.segments:
        cross[row_of[a] + 1] += 1
    cuts: list[int] = []
    step = total / columns
    for k in range(1, columns):
        best, cost = 0, 0.0
        for r in range((cuts[-1] if cuts else 1) + 1, count - 1):
            away = abs(tops[r] - step * k) / step
            if away <= 0.4 and (not best or cross[r] + 12 * away < cost):
                best, cost = r, cross[r] + 12 * away
        if best:
            cuts.append(best)
    return cuts


def _folded(
    rows: Rows,
    x: Sequence[float],
    width: Sequence[float],
    height: Sequence[float],
    tops: Sequence[float],
    deep: Sequence[float],
    cuts: Sequence[int],
    upper: Sequence[float],
    lower: Sequence[float],
) -> Placed:
    """Puts the columns beside each other, and gives the lines."""
    count = len(rows.rows)
    first = [0, *cuts]
    column = [0] * count
    for cut in cuts:
        for r in range(cut, count):
            column[r] += 1
    row_of = [0] * len(rows.cells)
    left, right = [0.0] * len(first), [0.0] * len(first)
    known = [False] * len(first)
    for r, row in enumerate(rows.rows):
        k = column[r]
        for cell in row:
            row_of[cell] = r
            a, b = x[cell] - width[cell] / 2, x[cell] + width[cell] / 2
            left[k] = min(left[k], a) if known[k] else a
            right[k] = max(right[k], b) if known[k] else b
            known[k] = True
    # The lines that go from one column to the next: one track for each value, that of the rightmost cell inside.
    cell_of: list[list[int]] = [[] for _ in first]
    crossing = [False] * len(rows.segments)
    for s, (a, b, _) in enumerate(rows.segments):
        k = column[row_of[a]]
        if column[row_of[b]] != k:
            crossing[s] = True
            cell_of[k].append(s)
    track = [0] * len(rows.segments)
    tracks = [0] * len(first)
    for k, segments in enumerate(cell_of):
        places: dict[float, int] = {}
        for s in sorted(segments, key=lambda s: (-(x[rows.segments[s][0]] + upper[s]), s)):
            start = x[rows.segments[s][0]] + upper[s]
            places.setdefault(start, len(places))
            track[s] = places[start]
        tracks[k] = len(places)
    shift = [0.0] * len(first)
    total = 0.0
    roof = 0.0
    for k in range(len(first)):
        shift[k] = total - left[k]
        total += right[k] - left[k]
        if k < len(cuts):
            total += 2 * GAP_X + TRACK * tracks[k]
            roof = max(roof, float(GAP_Y + TRACK * tracks[k]))
    at_x, at_y = [0.0] * len(rows.cells), [0.0] * len(rows.cells)
    base = [0.0] * count
    ends = [0.0] * len(first)
    tallest = 0.0
    for r, row in enumerate(rows.rows):
        k = column[r]
        base[r] = roof + tops[r] - tops[first[k]]
        ends[k] = base[r] + deep[r]
        for cell in row:
            at_x[cell] = floor(x[cell] + shift[k] + 0.5)
            at_y[cell] = base[r] + floor((deep[r] - height[cell]) / 2)
    for k, end in enumerate(ends):
        tallest = max(tallest, end + (GAP_Y + TRACK * tracks[k] if k < len(cuts) else 0))
    for cell in rows.ins.values():
        at_y[cell] = 0.0
    for cell in rows.outs.values():
        at_y[cell] = tallest
    lines: list[list[Point]] = []
    for s, (a, b, _) in enumerate(rows.segments):
        k = column[row_of[a]]
        ax, bx = floor(at_x[a] + upper[s] + 0.5), floor(at_x[b] + lower[s] + 0.5)
        ay, by = at_y[a] + height[a], at_y[b]
        if crossing[s]:
            gutter = floor(shift[k] + right[k] + GAP_X + TRACK * (track[s] + 0.5))
            below = ends[k] + GAP_Y / 2 + TRACK * track[s]
            above = roof - GAP_Y / 2 - TRACK * (tracks[k] - 1 - track[s])
            points = [(ax, ay), (ax, below), (gutter, below), (gutter, above), (bx, above), (bx, by)]
        else:
            points = [(ax, ay), (ax, base[row_of[a]] + deep[row_of[a]]), (bx, base[row_of[b]]), (bx, by)]
        lines.append([p for i, p in enumerate(points) if not i or p != points[i - 1]])
    return Placed(at_x, at_y, lines, 2 * ceil(total / 2), tallest)
