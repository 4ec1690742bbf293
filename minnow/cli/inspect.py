"""mnnconvert inspect"""

from __future__ import annotations

import click

from minnow.cli._option import FORMAT, emit, table


@click.command()
@click.argument("model", type=click.Path())
@click.option("--graph", is_flag=True, help="Print the whole graph in text form.")
@FORMAT
def command(model: str, graph: bool, format_: str) -> None:
    """Show what is in a model: a .mnn file, or any format that can be converted."""
    from minnow.cli._model import open_model, weight_bytes
    from minnow.optimizer.pipeline import count_nodes
    from minnow.schema.ir.text import to_text
    from minnow.schema.mnn.container import row

    opened = open_model(model)
    counts = count_nodes(opened.graph)
    info = {
        "source": opened.source,
        "inputs": [row(n, t) for n, t in opened.inputs],
        "outputs": [row(n, t) for n, t in opened.outputs],
        "nodes": counts,
        "weights_bytes": weight_bytes(opened.graph),
        "metadata": opened.metadata,
    }
    if graph:
        info["graph"] = to_text(opened.graph, {})

    def text() -> str:
        rows = [f"source: {opened.source}"]
        rows += [f"input:  {n}: {t}" for n, t in opened.inputs]
        rows += [f"output: {n}: {t}" for n, t in opened.outputs]
        rows += [f"meta:   {k} = {v}" for k, v in opened.metadata.items()]
        rows += [f"weights: {info['weights_bytes']} bytes", ""]
        rows.append(table(["op", "nodes"], [*counts.items(), ("total", sum(counts.values()))]))
        if graph:
            rows += ["", str(info["graph"])]
        return "\n".join(rows)

    emit(info, format_, text)
