"""Graphs as SVG that needs no other program: what `mnnconvert inspect --svg` writes, and pages show without scripts."""

from __future__ import annotations

from minnow.report.drawing.look import COLORS, color_of, heading, lines_of, short, size_of, tip_of
from minnow.report.drawing.outline import outline_of
from minnow.report.drawing.picture import HEAD, Box, Picture, drawing_of
from minnow.report.drawing.place import Point
from minnow.report.markup import text
from minnow.schema.ir import Graph, Value

_ROUND = 7
"""Radius of right-angled corners."""

_ARROW = (
    '<defs><marker id="end" viewBox="0 0 6 6" markerWidth="6" markerHeight="6" refX="6" refY="3" orient="auto" '
    'markerUnits="userSpaceOnUse"><path class="end" d="M0 0L6 3L0 6z"/></marker></defs>'
)
_STYLE = (
    "text{font:11px system-ui,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;fill:#1c2330}"
    ".t{font-weight:600}.s{fill:#5b6475}.line{stroke-width:1.2}.dashed{stroke-dasharray:6 3}"
    ".line:hover{stroke:#d0331f;stroke-width:2.4}g:hover>rect{stroke-width:2}"
)


def to_svg(graph: Graph) -> str:
    """The graph as an SVG file, with all groups open, that is the same for the same graph."""
    outline = outline_of(graph)
    picture = drawing_of(outline).picture(outline.groups, size_of)
    colors = "".join(f".{name}{{fill:{fill};stroke:{stroke}}}" for name, ((fill, stroke), _) in COLORS.items())
    return svg_of(picture, outline.values, style=f"{_STYLE}{colors}")


def svg_of(picture: Picture, values: list[Value], *, style: str = "", label: str = "") -> str:
    """A picture as SVG.

    Args:
        picture: the boxes and lines.
        values: those that the numbers of the lines mean.
        style: the content of a style element, for a file; without one, what is around it has to give the colors.
        label: what it shows, for readers who cannot see it.
    """
    width, height = _number(picture.width), _number(picture.height)
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
        + (f' role="img" aria-label="{text(label)}">' if label else ">"),
    ]
    if style:
        rows += [f"<style>{style}</style>", f'<rect width="{width}" height="{height}" fill="#fff"/>']
    rows.append(_ARROW)
    rows += [_group(box) for box in picture.boxes if box.is_open]
    for line in picture.lines:
        value = values[line.value]
        tip = f"<title>{text(f'{value.name}: {value.type}')}</title>"
        end = ' marker-end="url(#end)"' if line.ends else ""
        rows.append(f'<path class="line"{end} d="{path_of(line.points)}">{tip}</path>')
    rows += [_heading(box) for box in picture.boxes if box.is_open]
    rows += [_box(box) for box in picture.boxes if not box.is_open]
    return "\n".join([*rows, "</svg>", ""])


def path_of(points: list[Point]) -> str:
    """The path of a line: straight along the axes, with round corners, and curves in other directions."""
    made = [f"M{_number(points[0][0])} {_number(points[0][1])}"]
    for k in range(1, len(points)):
        (x, y), (u, v) = points[k - 1], points[k]
        if x != u and y != v:
            middle = _number((y + v) / 2)
            made.append(f"C{_number(x)} {middle} {_number(u)} {middle} {_number(u)} {_number(v)}")
            continue
        following = points[k + 1] if k + 1 < len(points) else None
        if following is not None and (x == u) != (following[0] == u) and (following[0] == u or following[1] == v):
            reach = min(_ROUND, abs(u - x) / 2 + abs(v - y) / 2, abs(following[0] - u) / 2 + abs(following[1] - v) / 2)
            near, far = _towards((u, v), (x, y), reach), _towards((u, v), following, reach)
            made.append(f"L{_number(near[0])} {_number(near[1])}")
            made.append(f"Q{_number(u)} {_number(v)} {_number(far[0])} {_number(far[1])}")
        else:
            made.append(f"L{_number(u)} {_number(v)}")
    return "".join(made)


def _towards(a: Point, b: Point, reach: float) -> Point:
    size = abs(b[0] - a[0]) + abs(b[1] - a[1]) or 1.0
    return a[0] + (b[0] - a[0]) * reach / size, a[1] + (b[1] - a[1]) * reach / size


def _group(box: Box) -> str:
    kind = " dashed" if box.item.node is not None or box.item.kind == "body" else ""
    return f'<rect class="group{kind}" {_frame(box)} rx="10"/>'


def _heading(box: Box) -> str:
    room = max(4, int((box.width - 24) / 6.5))
    at = f'x="{_number(box.x + 12)}" y="{_number(box.y + HEAD - 9)}"'
    return f'<text class="t s" {at}>{text(short(heading(box.item), room))}</text>'


def _box(box: Box) -> str:
    item = box.item
    corner = 14 if item.value is not None else 6
    rows = [f"<g><title>{text(tip_of(item))}</title>", f'<rect class="{color_of(item)}" {_frame(box)} rx="{corner}"/>']
    if item.is_group:
        rows.append(f'<rect class="{color_of(item)}" {_frame(box, 3)} rx="{corner}"/>')
    y = box.y + 17
    for k, line in enumerate(lines_of(item)):
        if line or not k:
            rows.append(
                f'<text class="{"s" if k else "t"}" x="{_number(box.x + 10)}" y="{_number(y)}">{text(line)}</text>'
            )
            y += 14
    return "".join([*rows, "</g>"])


def _frame(box: Box, inset: float = 0) -> str:
    x, y, w, h = box.x + inset, box.y + inset, box.width - 2 * inset, box.height - 2 * inset
    return f'x="{_number(x)}" y="{_number(y)}" width="{_number(w)}" height="{_number(h)}"'


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
