"""The executable spec of the IR: what holds for every graph. What ops say is for the registry."""

from __future__ import annotations

from typing import Any

from minnow.schema.errors import InternalError
from minnow.schema.ir.dtype import DType
from minnow.schema.ir.graph import RET, Graph, Model, Node, Value


def verify(subject: Graph | Model) -> None:
    """Checks structure: lists and links, uses, order, closedness, constants, the terminator, subgraphs.

    Raises:
        InternalError: something does not hold; the message names the node, `where` its origin.
    """
    graph = subject.graph if isinstance(subject, Model) else subject
    _graph(graph, set())
    if isinstance(subject, Model):
        _model(subject)


def _model(model: Model) -> None:
    for kind, declared, values in (
        ("inputs", model.inputs, model.graph.params),
        ("outputs", model.outputs, model.graph.outputs),
    ):
        if len(declared) != len(values):
            raise InternalError(f"the model declares {len(declared)} {kind}, its graph has {len(values)}")
        names = [name for name, _ in declared]
        if len(set(names)) != len(names):
            raise InternalError(f"two {kind} of the model have one name: {', '.join(sorted(names))}")


def _graph(graph: Graph, seen: set[int]) -> None:
    if id(graph) in seen:
        raise InternalError(f"graph '{graph.name}' stands in two places")
    seen.add(id(graph))
    nodes = _linked(graph)
    known: set[Value] = set()
    for param in graph.params:
        if param in known:
            raise InternalError(f"graph '{graph.name}' has the parameter {param!r} twice")
        if param.producer is not None or param.is_const:
            raise InternalError(f"the parameter {param!r} of graph '{graph.name}' has a producer or is a constant")
        known.add(param)
        _uses(param, graph)
    for node in nodes:
        _inputs(node, known)
        if node is graph.ret:
            break
        if node.op == RET:
            _fail(node, "a second terminator")
        for i, value in enumerate(node.outputs):
            if value.producer is not node or value.index != i or value.is_const:
                _fail(node, f"output {i} does not know that it comes from here")
            _uses(value, graph)
        known.update(node.outputs)
        for name, attr in node.attrs.items():
            if not _is_plain(attr):
                _fail(node, f"the attribute '{name}' is no plain immutable value: {attr!r}")
        for subgraph in node.subgraphs.values():
            _graph(subgraph, seen)


def _linked(graph: Graph) -> list[Node]:
    """The nodes and the terminator, when the chain is whole in both directions."""
    nodes: list[Node] = []
    passed: set[Node] = set()
    node: Node | None = graph._first
    while node is not None:
        if node in passed:
            _fail(node, "the list of nodes runs in a circle")
        if node.graph is not graph:
            _fail(node, f"it stands in the list of graph '{graph.name}', but does not belong to it")
        if node._prev is not (nodes[-1] if nodes else None):
            _fail(node, "the links to and from the node before it differ")
        nodes.append(node)
        passed.add(node)
        node = None if node is graph.ret else node._next
    if nodes[-1] is not graph.ret or graph.ret.op != RET or graph.ret.outputs:
        raise InternalError(f"graph '{graph.name}' does not end with its terminator")
    if len(nodes) - 1 != len(graph):
        raise InternalError(f"graph '{graph.name}' has {len(nodes) - 1} nodes, its count says {len(graph)}")
    if None in graph.ret.inputs:
        raise InternalError(f"graph '{graph.name}' has an output without a value")
    return nodes


def _inputs(node: Node, known: set[Value]) -> None:
    for i, value in enumerate(node.inputs):
        if value is None:
            continue
        if (node, i) not in value.uses:
            _fail(node, f"input {i}, {value!r}, does not know of this use")
        if value in known:
            continue
        if value.is_const:
            _constant(node, i, value)
            known.add(value)
        else:
            where = value.producer.graph if value.producer is not None else None
            early = where is node.graph and where is not None
            _fail(node, f"input {i}, {value!r}, {'is computed later' if early else 'comes from outside the graph'}")


def _constant(node: Node, i: int, value: Value) -> None:
    blob = value.data
    assert blob is not None
    if value.producer is not None:
        _fail(node, f"input {i}, {value!r}, has numbers and a producer")
    if value.type.dtype is not blob.dtype or value.type.shape != tuple(blob.shape):
        _fail(node, f"input {i}, {value!r}, holds numbers of type {blob.dtype}{list(blob.shape)}")
    _use_list(value)


def _uses(value: Value, graph: Graph) -> None:
    _use_list(value)
    for node, _ in value.uses:
        if node.graph is not graph:
            _fail(node, f"it reads {value!r}, which belongs to graph '{graph.name}'")


def _use_list(value: Value) -> None:
    for node, i in value.uses:
        if i >= len(node.inputs) or node.inputs[i] is not value:
            _fail(node, f"{value!r} believes to be input {i}, and is not")
        if node.graph is None:
            _fail(node, f"it is in no graph, but {value!r} is used by it")


def _is_plain(attr: Any) -> bool:
    if isinstance(attr, tuple):
        return all(_is_plain(v) and not isinstance(v, Graph) for v in attr)
    # A mapping is the parameter table of an op of the file that is not modeled.
    return attr is None or isinstance(attr, (bool, int, float, str, bytes, DType, Graph, dict))


def _fail(node: Node, what: str) -> None:
    name = f" '{node.name}'" if node.name else ""
    raise InternalError(f"{node!r}{name}: {what}", where=node.origin)
