"""Charts as SVG for pages: bars, histograms, points on logarithmic axes, steps, rectangles by area.

Colors come from the classes of `chart.css`. All charts are about as wide as a phone, so that their text can be read
there; wider windows show several beside each other.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minnow.report.markup import text

WIDTH = 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 10, 12, 30


@dataclass(frozen=True)
class Mark:
    """A point or rectangle: its position or size, the text of its tooltip, its class, and what a click goes to."""

    x: float
    y: float
    tip: str
    kind: str = "after"
    link: str = ""
    label: str = ""


def svg(height: float, body: str, label: str) -> str:
    """The frame of a chart."""
    return (
        f'<svg class="chart" viewBox="0 0 {WIDTH} {number(height)}" role="img" aria-label="{text(label)}">{body}</svg>'
    )


def number(value: float) -> str:
    """A coordinate."""
    return f"{value:.1f}".removesuffix(".0")


def bar(value: float, most: float, kind: str) -> str:
    """A bar for a cell of a table."""
    width = 100 * value / most if most else 0.0
    return (
        f'<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{kind}" width="{number(max(width, 0.7 if value else 0))}" height="8" rx="1"/></svg>'
    )


def histogram(
    counts: Sequence[int],
    title: Callable[[int], str],
    ticks: Sequence[tuple[float, str]],
    *,
    label: str,
    limit: float | None,
) -> str:
    """Bars for counts, on a logarithmic scale.

    Args:
        counts: per bin.
        title: the tooltip of a bin.
        ticks: positions (in bins) with text.
        label: what it shows.
        limit: where a vertical line stands (in bins).
    """
    height, inner = 150, 150 - _TOP - _BOTTOM
    most = math.log10(max([*counts, 1])) + 0.3
    step = (WIDTH - _LEFT - _RIGHT) / max(1, len(counts))
    rows = []
    for power in range(int(most) + 1):
        y = _TOP + inner * (1 - (power + 0.3) / most) if most else _TOP
        name = "1" if not power else f"1e{power}"
        rows.append(f'<path class="grid" d="M{_LEFT} {number(y)}H{WIDTH - _RIGHT}"/>')
        rows.append(f'<text class="tick end" x="{_LEFT - 5}" y="{number(y + 3)}">{name}</text>')
    for k, count in enumerate(counts):
        if count:
            size = inner * (math.log10(count) + 0.3) / most
            rows.append(
                f'<rect class="after" x="{number(_LEFT + k * step + 0.5)}" y="{number(_TOP + inner - size)}" '
                f'width="{number(max(step - 1, 0.5))}" height="{number(size)}"><title>{text(title(k))}</title></rect>'
            )
    rows += [_tick_x(_LEFT + at * step, _TOP + inner, name) for at, name in ticks]
    if limit is not None and 0 <= limit <= len(counts):
        x = _LEFT + limit * step
        rows.append(f'<path class="limit" d="M{number(x)} {_TOP}V{_TOP + inner}"/>')
    rows.append(f'<path class="axis" d="M{_LEFT} {_TOP + inner}H{WIDTH - _RIGHT}"/>')
    return svg(height, "".join(rows), label)


def _tick_x(x: float, y: float, name: str) -> str:
    return (
        f'<path class="axis" d="M{number(x)} {number(y)}v3"/>'
        f'<text class="tick middle" x="{number(x)}" y="{number(y + 14)}">{text(name)}</text>'
    )


def _powers(low: float, high: float) -> list[int]:
    return list(range(math.ceil(low - 1e-9), math.floor(high + 1e-9) + 1))


def roofline(points: Sequence[Mark], flops: float, bandwidth: float, *, label: str) -> str:
    """Operations per second (y of the marks) over operations per byte (x), with both limits."""
    height = 260
    inner_w, inner_h = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM - 8
    ridge = flops / bandwidth
    xs = [math.log10(p.x) for p in points] + [math.log10(ridge)]
    ys = [math.log10(p.y) for p in points] + [math.log10(flops)]
    x0, x1 = math.floor(min(xs) - 0.2), math.ceil(max(xs) + 0.5)
    y0, y1 = math.floor(min(ys) - 0.1), math.ceil(max(ys) + 0.1)

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            _LEFT + inner_w * (math.log10(x) - x0) / (x1 - x0),
            _TOP + inner_h * (1 - (math.log10(y) - y0) / (y1 - y0)),
        )

    rows = []
    for power in _powers(y0, y1):
        _, y = place(1, 10.0**power)
        rows.append(f'<path class="grid" d="M{_LEFT} {number(y)}H{WIDTH - _RIGHT}"/>')
        rows.append(f'<text class="tick end" x="{_LEFT - 5}" y="{number(y + 3)}">{_rate(10.0**power)}</text>')
    for power in _powers(x0, x1):
        x, _ = place(10.0**power, 1)
        rows.append(_tick_x(x, _TOP + inner_h, f"{10.0**power:g}"))
    low = max(10.0**x0, 10.0**y0 / bandwidth)
    (a, b), (c, d), (e, _) = place(low, low * bandwidth), place(ridge, flops), place(10.0**x1, flops)
    rows.append(f'<path class="roof" d="M{number(a)} {number(b)}L{number(c)} {number(d)}H{number(e)}"/>')
    rows.append(f'<text class="tick end" x="{WIDTH - _RIGHT}" y="{number(d - 5)}">{_rate(flops)}OP/s</text>')
    start = f'x="{number(a + 6)}" y="{number(max(b - 14, _TOP + 10))}"'
    rows.append(f'<text class="tick" {start}>{_rate(bandwidth)}B/s</text>')
    for p in points:
        x, y = place(p.x, p.y)
        center = f'cx="{number(x)}" cy="{number(y)}"'
        dot = f'<circle class="dot {p.kind}" {center} r="4"><title>{text(p.tip)}</title></circle>'
        rows.append(_linked(dot, p.link, p.tip))
    rows.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{number(_TOP + inner_h)}H{WIDTH - _RIGHT}"/>')
    rows.append(f'<text class="tick middle" x="{WIDTH / 2}" y="{height - 4}">operations per byte</text>')
    return svg(height, "".join(rows), label)


def _linked(body: str, link: str, tip: str) -> str:
    name = text(tip.partition("\n")[0])
    return f'<a href="#{text(link)}" aria-label="{name}" tabindex="-1">{body}</a>' if link else body


def _rate(value: float) -> str:
    for unit in ("", "k", "M", "G", "T"):
        if value < 999.5:
            return f"{value:.3g} {unit}"
        value /= 1000
    return f"{value:.3g} P"


def distributions(rows: Sequence[tuple[str, Sequence[float], str]], *, label: str) -> str:
    """For each row (name, milliseconds, class) a histogram, with the median and 90 % as lines, on a shared axis."""
    merged = sorted(t for _, times, _ in rows for t in times)
    low = merged[0]
    high = max(sorted(times)[int(0.98 * (len(times) - 1))] for _, times, _ in rows) * 1.05
    span, line = high - low or high or 1.0, 62
    height = line * len(rows) + _BOTTOM
    inner, bins, left = WIDTH - 20, 60, 10
    parts = []
    for k, (name, times, kind) in enumerate(rows):
        base = line * (k + 1) - 2
        counts = [0] * bins
        for t in times:
            counts[min(bins - 1, int((t - low) / span * bins))] += 1
        most = max(counts)
        points = [f"M{left} {base}"]
        for i, count in enumerate(counts):
            points.append(f"V{number(base - 36 * count / most)}H{number(left + inner * (i + 1) / bins)}")
        ordered = sorted(times)
        middle, late = ordered[len(ordered) // 2], ordered[int(0.9 * (len(ordered) - 1))]
        parts.append(f'<path class="{kind} area" d="{"".join(points)}V{base}z"/>')
        for value, style in ((middle, "median"), (late, "late")):
            x = left + inner * min(1.0, (value - low) / span)
            parts.append(f'<path class="{style}" d="M{number(x)} {base}v-40"/>')
        parts.append(f'<path class="axis" d="M{left} {base}H{left + inner}"/>')
        parts.append(f'<text class="name" x="{left}" y="{base - 44}">{text(name)}</text>')
        parts.append(
            f'<text class="tick end" x="{left + inner}" y="{base - 44}">'
            f"median {middle:.3g} ms, 90% {late:.3g} ms</text>"
        )
    for k in range(5):
        value = low + span * k / 4
        anchor = "tick" if not k else "tick end" if k == 4 else "tick middle"
        x = left + inner * k / 4
        parts.append(f'<text class="{anchor}" x="{number(x)}" y="{line * len(rows) + 14}">{value:.3g}</text>')
    parts.append(f'<text class="tick middle" x="{WIDTH / 2}" y="{height - 2}">milliseconds</text>')
    return svg(height, "".join(parts), label)


def steps(values: Sequence[float], form: Callable[[float], str], *, label: str, across: str) -> str:
    """An area of steps, with its highest marked."""
    height = 170
    inner_w, inner_h = WIDTH - _LEFT - _RIGHT, height - _TOP - _BOTTOM - 6
    most = max(values) or 1.0
    thin = values if len(values) <= 2 * inner_w else _thinned(values, inner_w)
    width = inner_w / len(thin)
    points = [f"M{_LEFT} {_TOP + inner_h}"]
    for k, value in enumerate(thin):
        y = _TOP + inner_h * (1 - value / most)
        points.append(f"V{number(y)}H{number(_LEFT + width * (k + 1))}")
    rows = []
    for part in (0.0, 0.5, 1.0):
        y = _TOP + inner_h * (1 - part)
        rows.append(f'<path class="grid" d="M{_LEFT} {number(y)}H{WIDTH - _RIGHT}"/>')
        rows.append(f'<text class="tick end" x="{_LEFT - 4}" y="{number(y + 3)}">{text(form(most * part))}</text>')
    rows.append(f'<path class="after area" d="{"".join(points)}V{_TOP + inner_h}z"/>')
    at = list(values).index(max(values))
    x = _LEFT + inner_w * (at + 0.5) / len(values)
    rows.append(f'<path class="limit" d="M{number(x)} {_TOP}V{_TOP + inner_h}"/>')
    count = len(values) - 1
    ticks = sorted({0, count // 2, count})
    rows += [_tick_x(_LEFT + inner_w * (k + 0.5) / len(values), _TOP + inner_h, str(k)) for k in ticks]
    rows.append(f'<path class="axis" d="M{_LEFT} {_TOP + inner_h}H{WIDTH - _RIGHT}"/>')
    rows.append(f'<text class="tick middle" x="{WIDTH / 2}" y="{height - 3}">{text(across)}</text>')
    return svg(height, "".join(rows), label)


def _thinned(values: Sequence[float], count: int) -> list[float]:
    """The largest values of `count` equal parts."""
    bounds = [len(values) * k // count for k in range(count + 1)]
    return [max(values[a:b]) for a, b in itertools.pairwise(bounds)]


def treemap(groups: Sequence[tuple[str, Sequence[Mark]]], *, label: str) -> str:
    """Rectangles by area, those of a group beside each other; marks have their size as `x`."""
    height = 300.0
    totals = [(sum(m.x for m in marks), name, marks) for name, marks in groups]
    totals = sorted((t for t in totals if t[0] > 0), key=lambda t: (-t[0], t[1]))
    rows = []
    boxes = squarified([t[0] for t in totals], 0, 0, WIDTH, height)
    for (size, name, marks), (x, y, w, h) in zip(totals, boxes, strict=True):
        inner = sorted((m for m in marks if m.x > 0), key=lambda m: (-m.x, m.tip))
        head = 13 if h > 30 and w > 44 else 0
        for m, (u, v, a, b) in zip(inner, squarified([m.x for m in inner], x, y + head, w, h - head), strict=True):
            frame = _frame(u + 0.4, v + 0.4, max(a - 0.8, 0.2), max(b - 0.8, 0.2))
            cell = f'<rect class="cell {m.kind}" {frame}><title>{text(m.tip)}</title></rect>'
            rows.append(_linked(cell, m.link, m.tip))
        if head:
            room = int(w / 6.4)
            shown = name if len(name) <= room else f"{name[: max(1, room - 1)]}…"
            rows.append(f'<text class="name" x="{number(x + 3)}" y="{number(y + 10.5)}">{text(shown)}</text>')
        title = f"<title>{text(f'{name}: {size:.4g} ms')}</title>"
        rows.append(f'<rect class="frame" {_frame(x, y, w, h)}>{title}</rect>')
    return svg(height, "".join(rows), label)


def _frame(x: float, y: float, width: float, height: float) -> str:
    return f'x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}"'


def squarified(
    sizes: Sequence[float], x: float, y: float, width: float, height: float
) -> list[tuple[float, float, float, float]]:
    """Rectangles with these areas (descending), which fill another one and are about as wide as high."""
    total = sum(sizes)
    if not total or width <= 0 or height <= 0:
        return [(x, y, 0.0, 0.0)] * len(sizes)
    scale = width * height / total
    areas = [s * scale for s in sizes]
    found: list[tuple[float, float, float, float]] = []
    start = 0
    while start < len(areas):
        side = min(width, height)
        end, worst = start + 1, _stretch(areas[start : start + 1], side)
        while end < len(areas) and (now := _stretch(areas[start : end + 1], side)) <= worst:
            worst, end = now, end + 1
        row = areas[start:end]
        depth = sum(row) / side if side else 0.0
        found += _row(row, x, y, depth, width >= height)
        if width >= height:
            x, width = x + depth, max(0.0, width - depth)
        else:
            y, height = y + depth, max(0.0, height - depth)
        start = end
    return found


def _stretch(row: Sequence[float], side: float) -> float:
    """How far the worst rectangle of a row is from a square."""
    total = sum(row)
    if not total or not side or not min(row):
        return math.inf
    return max(side * side * max(row) / total**2, total**2 / (side * side * min(row)))


def _row(
    areas: Sequence[float], x: float, y: float, depth: float, upright: bool
) -> Iterator[tuple[float, float, float, float]]:
    for area in areas:
        size = area / depth if depth else 0.0
        if upright:
            yield x, y, depth, size
            y += size
        else:
            yield x, y, size, depth
            x += size
