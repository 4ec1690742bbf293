"""The values that a block's graph captures of the graphs around it."""

from __future__ import annotations

from minnow.schema.ir import Graph, Value


def close(graph: Graph) -> list[Value]:
    """Turns what the nodes of a graph read of graphs around it into parameters; gives the values outside."""
    own = {*graph.params}
    captured: dict[Value, Value] = {}

    def local(v: Value | None) -> Value | None:
        if v is None or v in own:
            return v
        if v.data is not None:
            return v if all(n.graph is graph for n, _ in v.uses) else Value(v.type, v.name, v.data)
        if v not in captured:
            captured[v] = graph.add_param(v.type, v.name)
            own.add(captured[v])
        return captured[v]

    for node in graph.nodes():
        for i, v in enumerate(node.inputs):
            if (mine := local(v)) is not v:
                node.set_input(i, mine)
        own.update(node.outputs)
    graph.outputs = [o for v in graph.outputs if (o := local(v)) is not None]
    return list(captured)
