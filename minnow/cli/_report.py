"""Reports of a conversion as text: cost before and after, and statistics of each pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from minnow.cli._option import table

if TYPE_CHECKING:
    from minnow.optimizer.effect import Effect


def effect_text(before: Effect, after: Effect) -> str:
    """A table of nodes (by op where they changed), operations, memory traffic and peak memory, before and after."""
    rows: list[tuple[str, str, str, str]] = []

    def add(name: str, a: int | None, b: int | None, form: Callable[[int], str]) -> None:
        if a or b:
            shown = ["?" if n is None else form(n) for n in (a, b)]
            rows.append((name, shown[0], shown[1], _change(a, b, form)))

    add("nodes", before.total, after.total, str)
    for op in sorted(before.nodes.keys() | after.nodes.keys(), key=lambda op: (-before.nodes.get(op, 0), op)):
        a, b = before.nodes.get(op, 0), after.nodes.get(op, 0)
        if a != b:
            add(f"  {op}", a, b, str)
    add("multiply-accumulates", before.macs, after.macs, lambda n: _scaled(n, ""))
    add("bytes read and written", before.bytes, after.bytes, lambda n: _scaled(n, "B"))
    add("  layout conversions", before.moved_bytes, after.moved_bytes, lambda n: _scaled(n, "B"))
    add("weights", before.weight_bytes, after.weight_bytes, lambda n: _scaled(n, "B"))
    add("peak memory", before.peak_bytes, after.peak_bytes, lambda n: _scaled(n, "B"))
    text = table(["", "before", "after", "change"], rows)
    return f"{text}\n(assuming 1 for a dynamic batch, and 64 for other dynamic dimensions)" if after.guessed else text


def statistics_text(statistics: Mapping[str, Mapping[str, Any]]) -> str:
    """A table of rules and passes, slowest first."""
    rows = [
        (name, f"{s['tries']:.0f}", f"{s['hits']:.0f}", f"{s['removed']:.0f}", f"{s['ms']:.1f}")
        for name, s in sorted(statistics.items(), key=lambda item: -item[1]["ms"])
    ]
    return table(["pass", "tries", "hits", "nodes removed", "ms"], rows)


def _change(a: int | None, b: int | None, form: Callable[[int], str]) -> str:
    if a is None or b is None:
        return ""
    if a == b:
        return "="
    return f"{100 * (b - a) / a:+.0f}%" if a and b - a < 10 * a else f"+{form(b - a)}"


def _scaled(n: int, unit: str) -> str:
    number = float(n)
    for prefix in ("", "k", "M", "G"):
        if number < 1000:
            return f"{number:.{0 if prefix == '' else 1}f} {prefix}{unit}".rstrip()
        number /= 1000
    return f"{number:.1f} T{unit}"
