"""The sections of a model's page as HTML."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from minnow.report.drawing.chart import Mark, bar, distributions, histogram, roofline, steps, treemap
from minnow.report.drawing.look import family_of, shape_text
from minnow.report.page.content import ModelPage, name_of
from minnow.report.page.graph import color_css, graph_html
from minnow.report.page.skeleton import Section, badge, document, table, text
from minnow.runtime.verify.comparison import BINS_PER_DECADE, LEAST_ERROR, OutputComparison

_MOST_ROWS = 40
_VERDICTS = {"pass": "good", "inconclusive": "warn", "fail": "bad"}


def render(page: ModelPage) -> str:
    """The whole document."""
    sections = [
        before_and_after(page),
        verification(page),
        graph(page),
        *speed(page),
        memory(page),
        *quantization(page),
    ]
    return document(
        page.title,
        sections,
        subtitle=page.subtitle,
        summary=summary(page),
        footer=page.footer,
        data={"graph": page.graph.data()},
        css=color_css(),
        styles=("chart.css", "graph.css"),
        scripts=("place.js", "canvas.js", "graph.js"),
    )


def amount(value: float, unit: str = "") -> str:
    """A number with a prefix: 1.2 MB."""
    for prefix in ("", "k", "M", "G"):
        if abs(value) < 999.5:
            digits = 0 if not prefix or value >= 99.5 else 1
            return f"{value:.{digits}f} {prefix}{unit}".rstrip()
        value /= 1000
    return f"{value:.1f} T{unit}"


def change_text(before: int | None, after: int | None) -> str:
    """The change of a number: "−34 %"; "" if one is unknown."""
    if before is None or after is None or not before:
        return ""
    return "=" if before == after else f"{100 * (after - before) / before:+.0f} %".replace("-", "−")


def milliseconds(ms: float) -> str:
    """A time with three digits: "12.3 µs"."""
    return f"{ms:.3g} ms" if ms >= 1 else f"{1000 * ms:.3g} µs"


# --- before and after ------------------------------------------------------------------------------------------------


def summary(page: ModelPage) -> str:
    """The figures at the top."""
    change, figures = page.change, []

    def figure(title: str, value: str, more: str = "") -> None:
        below = f'<span class="muted">{text(more)}</span>' if more else ""
        figures.append(f'<div class="card figure"><span class="muted">{text(title)}</span>{value}{below}</div>')

    if page.verification is not None:
        verdict = page.verification.verdict
        worst = max((o.needed for o in page.verification.worst.values()), default=0.0)
        figure(
            "Verification",
            f"<strong>{badge(_VERDICTS[verdict], verdict)}</strong>",
            f"largest error {worst:.2g} of the scale" if worst < float("inf") else "",
        )
    for row in change.sizes():
        if row.name in ("File", "Nodes", "Multiply-accumulates", "Peak memory of tensors"):
            shown = "?" if row.after is None else amount(row.after, "B" if row.is_bytes else "")
            more = "" if row.before is None else f"from {amount(row.before, 'B' if row.is_bytes else '')}"
            figure(row.name, f"<strong>{shown}</strong>", " ".join(filter(None, [more, _in_brackets(row)])))
    if page.timings and not page.timings[0].error:
        timing = page.timings[0]
        more = f"90% {milliseconds(1e3 * timing.p90_s)}"
        figure("Latency", f"<strong>{milliseconds(1e3 * timing.median_s)}</strong>", more)
    notices = "".join(f"<li>{text(n)}</li>" for n in page.notices)
    notes = f'<details class="card" open><summary>Notices</summary><ul>{notices}</ul></details>' if notices else ""
    return f'<div class="figures">{"".join(figures)}</div>{notes}'


def _in_brackets(row: Any) -> str:
    shown = change_text(row.before, row.after)
    return f"({shown})" if shown and shown != "=" else ""


def before_and_after(page: ModelPage) -> Section:
    """Sizes and nodes by op, as tables with bars."""
    change = page.change
    rows = []
    for row in change.sizes():
        most = max(row.before or 0, row.after or 0)
        form: Callable[[int], str] = (lambda n: amount(n, "B")) if row.is_bytes else amount
        rows.append(_pair(text(row.name), row.before, row.after, most, form))
    header = ["", "", "before", "after", "change"]
    sizes = table(header, rows, caption="Cost of the graph", right=2)
    before = {} if change.before is None else change.before.nodes
    after = change.after.nodes
    ops = sorted(before.keys() | after.keys(), key=lambda op: (-max(before.get(op, 0), after.get(op, 0)), op))
    most = max([*before.values(), *after.values()], default=1)
    nodes = [_pair(text(op), before.get(op, 0) if change.before else None, after.get(op, 0), most, str) for op in ops]
    by_op = table(header, nodes, caption="Nodes by op", right=2)
    note = (
        "Dynamic dimensions count as 1 if they are the first of an input, else as 64." if change.after.guessed else ""
    )
    if change.before is None:
        note = f"Without a source there is nothing to compare with. {note}".strip()
    return Section(
        "change",
        "Before and after" if change.before else "The model",
        f'<div class="grid"><div class="card">{sizes}</div><div class="card">{by_op}</div></div>',
        note,
    )


def _pair(name: str, before: int | None, after: int | None, most: float, form: Callable[[int], str]) -> list[str]:
    bars = "" if before is None else bar(before, most, "before")
    bars += bar(after or 0, most, "after")
    cells = ["" if n is None else form(n) for n in (before, after)]
    return [name, bars, *cells, change_text(before, after)]


# --- verification ----------------------------------------------------------------------------------------------------


def verification(page: ModelPage) -> Section:
    """The verdict of each output, and how its errors are distributed."""
    found = page.verification
    if found is None:
        return Section("verification", "Verification", f'<p class="muted">{text(page.unverified)}</p>')
    rows = []
    for o in found.worst.values():
        verdict = "fail" if not o.passed else "inconclusive" if o.inconclusive else "pass"
        why = "; ".join(filter(None, (o.reason, o.inconclusive)))
        shape = "×".join(map(str, o.shape)) or "scalar"
        rows.append([
            badge(_VERDICTS[verdict], verdict), f"<code>{text(o.name)}</code>", text(f"{o.dtype} {shape}"), text(why),
            f"{o.max_abs:.3g}", f"{o.max_rel:.3g}", f"{o.needed:.3g}", f"{o.tolerance:g}", f"{o.cosine:.6f}",
        ])  # fmt: skip
    header = ["", "output", "type", "remark", "max abs", "max rel", "needed", "tolerance", "cosine"]
    errors = [f"<p>{badge('bad', 'fail')} {text(c.error)}</p>" for c in found.cases if c.error]
    cards = [_errors(o, len(found.cases)) for o in found.worst.values()]
    runs = f"{len(found.cases)} run{'s' if len(found.cases) != 1 else ''}"
    note = f"{runs} against {found.reference}; per output the run with the largest error. {found.note}".strip()
    body = f'<div class="card">{table(header, rows, caption="Outputs", right=4)}{"".join(errors)}</div>'
    return Section("verification", "Verification", f'{body}<div class="grid few">{"".join(cards)}</div>', note)


def _errors(o: OutputComparison, runs: int) -> str:
    """The histogram of one output's errors, and its worst elements."""
    name = f"Errors of {o.name}"
    if o.errors is None:
        return ""
    total = sum(o.errors.counts)
    if not total:
        shown = f"all {o.errors.exact:,} elements are equal"
        return f'<div class="card"><h3>{text(name)}</h3><p class="good">{shown}</p></div>'
    used = [k for k, count in enumerate(o.errors.counts) if count]
    first, last = max(0, used[0] - 1), min(len(o.errors.counts), used[-1] + 3)

    def edge(k: float) -> float:
        return float(10.0 ** (LEAST_ERROR + k / BINS_PER_DECADE))

    limit = o.tolerance * o.scale
    at = (math.log10(limit) - LEAST_ERROR) * BINS_PER_DECADE - first if limit > 0 else None
    if at is not None and 0 < at - (last - first) < 8:
        last = min(len(o.errors.counts), first + math.ceil(at) + 1)
    ticks = [(k - first, f"1e{LEAST_ERROR + k // BINS_PER_DECADE}") for k in range(first, last + 1) if not k % 2]
    if len(ticks) > 8:
        ticks = ticks[:: -(-len(ticks) // 8)]
    counts = o.errors.counts[first:last]
    chart = histogram(
        counts,
        lambda k: f"{counts[k]:,} elements from {edge(first + k):.1e} to {edge(first + k + 1):.1e}",
        ticks,
        label=f"{name}: number of elements by absolute error, both logarithmic",
        limit=at,
    )
    rows = [
        [f"<code>{text(list(index))}</code>", f"{got:.7g}", f"{want:.7g}", f"{abs(got - want):.3g}"]
        for index, got, want in o.errors.worst
    ]
    worst = table(["element", "converted", "source", "error"], rows, caption=f"Worst elements of {o.name}")
    equal = f"{o.errors.exact:,} of {o.errors.exact + total:,} elements are equal. " if o.errors.exact else ""
    marked = "The dashed line is the tolerance." if at is not None and 0 <= at <= len(counts) else ""
    return (
        f'<div class="card"><h3>{text(name)}</h3>{chart}<p class="muted">{equal}{marked}</p>'
        f"<details><summary>Worst elements</summary>{worst}</details></div>"
    )


# --- graph -----------------------------------------------------------------------------------------------------------


def graph(page: ModelPage) -> Section:
    """The drawing."""
    nodes = page.change.after.total
    return Section("graph", "Graph", graph_html(page.graph, f"Graph of {page.title}, {nodes} nodes"))


# --- time ------------------------------------------------------------------------------------------------------------


def speed(page: ModelPage) -> Iterator[Section]:
    """Latency beside other runtimes, the time of each op, and the roofline."""
    if not page.timings:
        yield Section("time", "Time", f'<p class="muted">{text(page.untimed)}</p>')
        return
    first = page.timings[0]
    if first.error:
        yield Section("time", "Time", f'<p class="bad">{text(first.error)}</p>')
        return
    yield _latency(page)
    if first.profile:
        yield _ops(page)


def _latency(page: ModelPage) -> Section:
    rows, drawn = [], []
    for k, t in enumerate(page.timings):
        if t.error:
            rows.append([text(f"{t.name} {t.version}"), text(t.error[:200]), *[""] * 6])
            continue
        ratio = f"{t.ratio:.2f}" if k else ""
        if t.ratio_low is not None:
            ratio += f" ({t.ratio_low:.2f} to {t.ratio_high:.2f})"
        times = [milliseconds(1e3 * s) for s in (t.min_s, t.median_s, t.p90_s, t.p99_s, t.load_s)]
        rows.append([text(f"{t.name} {t.version}"), *times, amount(t.peak_bytes, "B"), ratio])
        samples = [1e3 * s for start in t.samples for r in start for s in r]
        if samples:
            drawn.append((t.name, samples, "before" if k else "after"))
    header = ["runtime", "min", "median", "90%", "99%", "load", "peak memory", f"time / {page.timings[0].name}"]
    body = table(header, rows, caption="Latency")
    chart = distributions(drawn, label="Distribution of the latency of each runtime") if drawn else ""
    note = "Runtimes were measured in turns, each in a process of its own." if len(page.timings) > 1 else ""
    return Section(
        "time", "Time", f'<div class="grid"><div class="card">{chart}</div><div class="card">{body}</div></div>', note
    )


def _profiled(page: ModelPage) -> list[tuple[dict[str, Any], int, str]]:
    """Rows of the profile, with the number of the box in the graph, and the color."""
    found = []
    for row in page.timings[0].profile:
        node = page.names.get(row["name"])
        item = page.item_of(node)
        found.append((row, item, "other" if node is None else family_of(node)))
    return found


def _ops(page: ModelPage) -> Section:
    profiled = _profiled(page)
    total = sum(row["ms"] for row, _, _ in profiled) or 1.0
    groups: dict[str, list[Mark]] = {}
    points = []
    for row, item, color in profiled:
        link = f"item-{item}" if item >= 0 else ""
        flops = 2 * row["macs"]
        tip = f"{row['op']} {row['name']}\n{milliseconds(row['ms'])} ({row['ms'] / total:.1%})"
        tip += f"\n{row['scheme']}" if row["scheme"] else ""
        groups.setdefault(row["op"], []).append(Mark(row["ms"], 0, tip, color, link))
        if flops and row["ms"] > 0 and row["bytes"]:
            rate = 1e3 * flops / row["ms"]
            share = f", {row['roofline']:.0%} of the limit" if "roofline" in row else ""
            points.append(Mark(flops / row["bytes"], rate, f"{tip}\n{amount(rate, 'OP/s')}{share}", color, link))
    tree = treemap(list(groups.items()), label="Time of each op, as areas")
    cards = [f'<div class="card"><h3>Share of the time</h3>{tree}</div>']
    if page.limits and points:
        chart = roofline(points, page.limits["flops"], page.limits["bytes"], label="Roofline: speed of ops and limits")
        cards.append(
            f'<div class="card"><h3>Roofline</h3>{chart}<p class="muted">Nodes with multiply-accumulates beside the '
            "measured limits of this machine. Above the line: the algorithm needs fewer operations, or the data is "
            "in a cache.</p></div>"
        )
    rows = []
    for row, item, _ in sorted(profiled, key=lambda r: -r[0]["ms"])[:_MOST_ROWS]:
        name = f"<code>{text(row['name'])}</code>"
        shown = f'<a href="#item-{item}">{name}</a>' if item >= 0 else name
        limit = f"{row['roofline']:.0%}" if "roofline" in row else ""
        rows.append([
            shown, text(row["op"]), text(row["scheme"]), bar(row["ms"], total, "after"), milliseconds(row["ms"]),
            f"{row['ms'] / total:.1%}", amount(row["macs"]) if row["macs"] else "", amount(row["bytes"], "B"), limit,
        ])  # fmt: skip
    header = ["node", "op", "scheme", "", "time", "share", "MACs", "traffic", "of the limit"]
    listed = table(header, rows, caption=f"The slowest of {len(profiled)} nodes", right=4)
    more = "" if len(profiled) <= _MOST_ROWS else f" {_MOST_ROWS} are listed."
    note = "As the engine runs them: it fuses nodes when it loads the file; a fused node has the name of one of them."
    return Section(
        "ops", "Time by op", f'<div class="grid">{"".join(cards)}</div><div class="card">{listed}</div>', note + more
    )


# --- memory ----------------------------------------------------------------------------------------------------------


def memory(page: ModelPage) -> Section:
    """Bytes of tensors while each node runs."""
    found = page.memory
    live = found.live
    if len(live) < 2 or not max(live):
        return Section("memory", "Memory over time", '<p class="muted">The model has no tensors of known size.</p>')
    chart = steps(
        live,
        lambda n: amount(n, "B"),
        label="Bytes of tensors over the nodes of the main graph",
        across="nodes of the main graph",
    )
    peak = live.index(max(live))
    rows = []
    for life in found.largest:
        item = page.item_of(life.value.producer)
        producer = life.value.producer
        name = f"<code>{text(life.value.name or (name_of(producer) if producer else 'input'))}</code>"
        rows.append([
            f'<a href="#item-{item}">{name}</a>' if item >= 0 else name, text(shape_text(life.value.type)),
            bar(life.bytes, max(live), "after"), amount(life.bytes, "B"), f"{life.first + 1} to {life.last + 1}",
        ])  # fmt: skip
    caption = f"Alive at the peak, at node {peak}"
    listed = table(["tensor", "type", "", "bytes", "nodes"], rows, caption=caption, right=3)
    arena = (
        f" The engine has reserved {amount(found.arena, 'B')}, computing some results in place." if found.arena else ""
    )
    note = f"From the lifetimes of tensors in the main graph: peak {amount(max(live), 'B')}.{arena}"
    return Section(
        "memory",
        "Memory over time",
        f'<div class="grid"><div class="card">{chart}</div><div class="card">{listed}</div></div>',
        note,
    )


# --- quantization ----------------------------------------------------------------------------------------------------


def quantization(page: ModelPage) -> Iterator[Section]:
    """The layers with weights of few bits; nothing without any."""
    if not page.quantized:
        return
    most = max(layer.bytes for layer in page.quantized)
    rows = []
    for layer in page.quantized[:400]:
        name = f"<code>{text(layer.name)}</code>"
        rows.append([
            f'<a href="#item-{layer.item}">{name}</a>' if layer.item >= 0 else name, text(layer.op), text(layer.dtype),
            text(layer.scale), bar(layer.bytes, most, "after"), str(layer.bits), amount(layer.bytes, "B"),
        ])  # fmt: skip
    header = ["layer", "op", "weights", "scales", "", "bits", "bytes"]
    total, count = sum(layer.bytes for layer in page.quantized), len(page.quantized)
    caption = f"{count} layer{'s' if count > 1 else ''}, {amount(total, 'B')} of weights"
    listed = table(header, rows, caption=caption, right=5)
    yield Section("quantization", "Quantized layers", f'<div class="card">{listed}</div>')
