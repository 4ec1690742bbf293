"""mnnconvert inspect"""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from minnow.cli._option import FORMAT, MODEL_FILE, Command, emit, options, table
from minnow.output import write_text

if TYPE_CHECKING:
    from minnow.optimizer.layout.movement import Layout
    from minnow.options.read import InspectCommand
    from minnow.schema.ir import Model


@click.command(cls=Command)
@click.argument("model", type=MODEL_FILE)
@click.argument("other", type=MODEL_FILE, required=False)
@options("read.InspectCommand")
@click.option("--graph", is_flag=True, help="Print the whole graph as text.")
@click.option("--layout", is_flag=True, help="Show layout conversions and transposes, and their cost in bytes.")
@click.option(
    "--dot", type=click.Path(), metavar="FILE", help="Write the graph as Graphviz text; '-' for standard output."
)
@click.option(
    "--svg", type=click.Path(), metavar="FILE", help="Draw the graph as SVG, for a browser; '-' for standard output."
)
@FORMAT
def command(
    model: str, other: str | None, options: InspectCommand, graph: bool, layout: bool, dot: str | None,
    svg: str | None, format_: str,
) -> None:  # fmt: skip
    """Show the contents of a model of any supported format.

    With OTHER, show the differences between the two models.
    """
    if options.inputs and not options.placement:
        raise click.UsageError("--input is for --placement, whose result depends on the shapes")
    if other is not None:
        if graph or layout or dot or svg or options.placement:
            raise click.UsageError("--graph, --layout, --placement, --dot and --svg need a single model")
        _compare(model, other, options, format_)
    elif dot or svg:
        _draw(model, options, dot, svg)
    else:
        _show(model, graph, layout, options, format_)


def _show(model: str, graph: bool, layout: bool, options: InspectCommand, format_: str) -> None:
    from minnow.cli._model import open_model, weight_bytes
    from minnow.optimizer.pipeline import count_nodes
    from minnow.schema.ir.text import to_text
    from minnow.schema.mnn.container import row

    opened = open_model(model, options)
    moved = _layout(opened) if layout else None
    counts = count_nodes(opened.graph)
    info = {
        "source": opened.source,
        "inputs": [row(n, t) for n, t in opened.inputs],
        "outputs": [row(n, t) for n, t in opened.outputs],
        "nodes": counts,
        "weights_bytes": weight_bytes(opened.graph),
        "metadata": opened.metadata,
    }
    if opened.states:
        info["states"] = [{"input": s.input, "output": s.output} for s in opened.states]
    if moved is not None:
        info["layout"] = moved.as_dict()
    placed = _placement(model, options) if options.placement else None
    if placed is not None:
        info["placement"] = placed
    if graph:
        info["graph"] = to_text(opened.graph, {})

    def text() -> str:
        rows = [f"source: {opened.source}"]
        rows += [f"input:  {n}: {t}" for n, t in opened.inputs]
        rows += [f"output: {n}: {t}" for n, t in opened.outputs]
        rows += [f"state:  {s.output} is {s.input} of the next run" for s in opened.states]
        rows += [f"meta:   {k} = {v}" for k, v in opened.metadata.items()]
        rows += [f"weights: {info['weights_bytes']} bytes", ""]
        rows.append(table(["op", "nodes"], [*counts.items(), ("total", sum(counts.values()))]))
        if moved is not None:
            rows += ["", _layout_text(moved)]
        if placed is not None:
            cells = [list(p.values()) for p in placed]
            rows += ["", table(["node", "op", "device", "why it runs there"], cells, right=99)]
        if graph:
            rows += ["", str(info["graph"])]
        return "\n".join(rows)

    emit(info, format_, text)


def _compare(model: str, other: str, options: InspectCommand, format_: str) -> None:
    from dataclasses import replace

    from minnow.cli._difference import difference, difference_text
    from minnow.cli._model import open_model

    found = difference(open_model(model, options), open_model(other, replace(options, weights="")))
    emit(found, format_, lambda: difference_text(found, (model, other)))


def _draw(model: str, options: InspectCommand, dot: str | None, svg: str | None) -> None:
    from minnow.cli._model import open_model
    from minnow.report.drawing.dot import to_dot
    from minnow.report.drawing.svg import to_svg

    graph = open_model(model, options).graph
    for path, text_of in ((dot, to_dot), (svg, to_svg)):
        if path == "-":
            click.echo(text_of(graph), nl=False)
        elif path:
            write_text(path, text_of(graph))


def _placement(model: str, options: InspectCommand) -> list[dict[str, str]]:
    """Where the nodes of the converted model run, for random inputs of the shapes of `--input`."""
    import tempfile
    from pathlib import Path

    from minnow.converter.formats import is_mnn
    from minnow.runtime.session import load
    from minnow.runtime.verify.samples import random_inputs

    with tempfile.TemporaryDirectory(prefix="minnow-") as folder:
        path = Path(model)
        if not is_mnn(path):
            import minnow

            path = Path(folder, "model.mnn")
            minnow.convert(model, output=path, verify=False, weights=options.weights, trust=options.trust)
        arrays = random_inputs(path, options.inputs or {}, 0)
        session = load(path, device=options.placement)
        return session.placement({name: array.shape for name, array in arrays.items()})


def _layout(model: Model) -> Layout:
    """The layouts of a model. Those of a source model are what a conversion would choose."""
    from minnow.optimizer import optimize
    from minnow.optimizer.layout.movement import layout_of

    if not any(node.op == "ConvertLayout" for node in model.graph):
        optimize(model)
    return layout_of(model.graph)


def _layout_text(layout: Layout) -> str:
    head = (
        f"layout: {layout.packed} nodes in blocked layout, {layout.plain} in plain layout; layout conversions: "
        f"{layout.moved_bytes:,} of {layout.bytes:,} bytes"
    )
    rows = [(m.value, m.what, m.type, f"{m.bytes:,}", m.before, ", ".join(m.after)) for m in layout.moves]
    return "\n".join([head, table(["value", "to", "type", "bytes", "from", "for"], rows, right=99)]) if rows else head
