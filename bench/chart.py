"""Draws `docs/speed.svg`: the times of `bench/TABLE.md` as bars, for the README.

    ./dev docs

Every bar is the time of one inference divided by Minnow's for the same model: Minnow's own bar has the length 1. The
drawing has a background of its own and follows the color scheme of the viewer, light or dark.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

TABLE = Path(__file__).with_name("TABLE.md")

PEERS = {
    "ort": "onnxruntime",
    "ov": "OpenVINO",
    "litert": "LiteRT",
    "mnn": "MNN",
    "inductor": "torch.compile",
}
"""Columns of the table in the order of the bars, and what they are called in the chart."""

COLORS = {
    "minnow": ("#0969da", "#4493f8"),
    "ort": ("#8c959f", "#818b98"),
    "ov": ("#d4a72c", "#d29922"),
    "litert": ("#4ac26b", "#3fb950"),
    "mnn": ("#fa8f8b", "#f47067"),
    "inductor": ("#a475f9", "#a371f7"),
}
"""On light and on dark ground."""

STYLE = """
text { font: 11px -apple-system, 'Segoe UI', 'Noto Sans', Helvetica, Arial, sans-serif; fill: #1f2328; }
.ground { fill: #ffffff; stroke: #d1d9e0; } .axis { stroke: #d1d9e0; }
.title { font-size: 14px; font-weight: 600; } .model { font-weight: 600; } .quiet { fill: #59636e; }
"""
DARK = """
text { fill: #f0f6fc; } .quiet { fill: #9198a1; } .ground { fill: #0d1117; stroke: #3d444d; } .axis { stroke: #3d444d; }
"""

WIDTH, MARGIN, COLUMNS = 860, 20, 2
HEAD, BAR, GAP = 76, 12, 12
NAMES, VALUES = 134, 40  # widths of the models' names, and of the numbers behind the bars


@dataclass(frozen=True)
class Row:
    model: str
    ms: float
    ratios: dict[str, float]
    """Minnow's time divided by that of a peer."""


def _cells(table: str) -> list[list[str]]:
    """The cells of a table in Markdown: its header, then its lines."""
    lines = [line.strip("|").split("|") for line in table.splitlines() if line[:1] == "|" and line[:4] != "|---"]
    return [[cell.strip() for cell in line] for line in lines]


def rows(table: str, threads: int) -> list[Row]:
    """The models of the table that were timed with this number of threads."""
    header, *lines = _cells(table)
    found = []
    for cells in lines:
        named = dict(zip(header, cells, strict=True))
        if named["threads"] == str(threads) and named["minnow ms"]:
            ratios = {peer: float(named[f"/ {peer}"]) for peer in PEERS if named.get(f"/ {peer}")}
            found.append(Row(named["model"], float(named["minnow ms"]), ratios))
    return found


def mean(table: str, threads: int) -> str:
    """Minnow's time divided by that of each model's fastest peer: the geometric mean, from the table."""
    header, *lines = _cells(table)
    means = next(cells for cells in lines if cells[:2] == [str(threads), "geometric mean"])
    return means[header.index("/ best")].strip("*")  # the first of three, which are those of time, start and memory


def draw(table: str, threads: int = 1) -> str:
    """The chart as SVG."""
    found = rows(table, threads)
    half = -(-len(found) // COLUMNS)
    columns = [found[:half], found[half:]]
    height = HEAD + max(map(_height, columns)) + MARGIN
    shown = ["minnow", *(p for p in PEERS if any(p in row.ratios for row in found))]
    longest = max(1 / ratio for row in found for ratio in row.ratios.values())
    width = (WIDTH - 2 * MARGIN) / COLUMNS
    unit = (width - NAMES - VALUES) / longest
    light = "".join(f".{p} {{ fill: {COLORS[p][0]}; }} " for p in shown)
    dark = "".join(f".{p} {{ fill: {COLORS[p][1]}; }} " for p in shown)
    count = f"{threads} thread{'s' if threads > 1 else ''}"
    title = f"Time of one inference, {count}, relative to Minnow (shorter is faster)"
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{title}</title>",
        f"<style>{STYLE}{light}\n@media (prefers-color-scheme: dark) {{ {DARK} {dark}}}\n</style>",
        f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="6"/>',
        _text(MARGIN, 28, title, "title"),
    ]
    x = MARGIN
    for name in shown:
        parts.append(f'<rect class="{name}" x="{x}" y="43" width="11" height="11" rx="2"/>')
        label = PEERS.get(name, "Minnow")
        parts.append(_text(x + 16, 53, label))
        x += 16 + 7 * len(label) + 18
    for index, column in enumerate(columns):
        parts += _column(column, MARGIN + index * width, unit)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _height(column: list[Row]) -> int:
    return sum((1 + len(row.ratios)) * BAR + GAP for row in column)


def _column(column: list[Row], left: float, unit: float) -> list[str]:
    start = left + NAMES
    parts = [_line(start, HEAD - 6, HEAD + _height(column) - GAP + 4)]
    y = HEAD
    for row in column:
        parts.append(_text(start - 8, y + 10, row.model, "model", "end"))
        parts.append(_text(start - 8, y + 23, f"Minnow {row.ms:.1f} ms", "quiet", "end"))
        times = {"minnow": 1.0} | {peer: 1 / row.ratios[peer] for peer in PEERS if peer in row.ratios}
        for name, time in times.items():
            size = f'width="{time * unit:.1f}" height="{BAR - 2}"'
            parts.append(f'<rect class="{name}" x="{start:.1f}" y="{y + 1}" {size}/>')
            parts.append(_text(start + time * unit + 4, y + BAR - 2, f"{time:.2f}", "quiet"))
            y += BAR
        y += GAP
    return parts


def _line(x: float, top: float, bottom: float) -> str:
    return f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{bottom}"/>'


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "") -> str:
    style = f' class="{style}"' if style else ""
    anchor = f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y}"{style}{anchor}>{escape(text)}</text>'
