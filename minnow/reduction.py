"""Reduces a model to a small part on which a rule or pass still changes the outputs."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minnow.optimizer.rewrite import Trace, apply_pass, apply_rules, erase_dead, passes, rules
from minnow.runtime.verify.comparison import compare
from minnow.runtime.verify.proof import ROUNDING
from minnow.schema.errors import InternalError, MinnowError
from minnow.schema.ir import DType, Graph, Model, Node, TensorType, Value
from minnow.schema.ir.text import to_text
from minnow.schema.registry.interpreter import evaluate
from minnow.schema.registry.op import NUMPY_REFUSALS
from minnow.schema.registry.verify import verify

Array = np.ndarray[Any, Any]

_RINGS = 6
_SECONDS = 60.0
_SYMBOL = 3
_REFUSALS = (MinnowError, *NUMPY_REFUSALS)


@dataclass
class Case:
    """A rewrite that changes the outputs, and the graph that it is applied to.

    Attributes:
        name: the rule or pass.
        graph: the main graph, before the rewrite.
        index: the index of the subgraph that is changed, in the order of `walk`.
        matched: the indices of the matched nodes in that graph.
        arrays: inputs of the main graph, for each of several runs.
        engine: whether outputs are compared by the engine.
        raised: the name of the exception that the rewrite raises; "" if it changes the outputs instead.
        options: keyword arguments of the pass.
    """

    name: str
    graph: Graph
    index: int
    matched: Sequence[int]
    arrays: Sequence[Sequence[Array]]
    engine: bool = False
    raised: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Small:
    """A small graph, its inputs, the graph after the rewrite as text, and the difference of the outputs."""

    graph: Graph
    arrays: list[Array]
    after: str = ""
    what: str = ""

    def model(self) -> tuple[Model, dict[str, Array]]:
        """The graph as a model with named inputs and outputs, and its input arrays by name."""
        names = _names([p.name for p in self.graph.params], "x")
        outputs = _names([v.name for v in self.graph.outputs], "y", names)
        inputs = [(n, p.type) for n, p in zip(names, self.graph.params, strict=True)]
        model = Model(
            self.graph.clone(), inputs, [(n, v.type) for n, v in zip(outputs, self.graph.outputs, strict=True)]
        )
        return model, dict(zip(names, self.arrays, strict=True))


def _names(wanted: Sequence[str], kind: str, taken: Collection[str] = ()) -> list[str]:
    found: list[str] = []
    for i, name in enumerate(wanted):
        found.append(name if name and name not in (*found, *taken) else f"{kind}{i}_{name}".rstrip("_"))
    return found


def reduced(case: Case) -> Small | None:
    """The smallest part found on which the rewrite changes the outputs; None if it does not even on the whole graph.

    The part grows around the matched nodes until the outputs differ, then nodes are removed as long as they do.
    """
    end = time.perf_counter() + _SECONDS
    graph = list(case.graph.walk())[case.index]
    nodes = list(graph)
    recordings = list(_recordings(case, graph))
    # A rule may look at nodes beyond those that it matches; a pass may look at all nodes.
    chosen = {nodes[i] for i in case.matched}
    steps = [chosen] if chosen else []
    for _ in range(_RINGS if chosen else 0):
        chosen = chosen | {n for node in chosen for n in _beside(node)}
        steps.append(chosen)
    for part in [*steps, set(nodes)]:
        for values in recordings:
            if (small := _tried(case, nodes, part, values)) is not None:
                return _shrunk(case, nodes, part, values, small, end)
    return None


def _recordings(case: Case, graph: Graph) -> list[dict[Value, Array]]:
    """The arrays of all values of the graph, for several runs. The parameters of a subgraph are random."""
    found: list[dict[Value, Array]] = []
    for k, arrays in enumerate(case.arrays):
        values: dict[Value, Array] = {}
        own = list(arrays) if graph is case.graph else []
        if len(own) != len(graph.params):
            own = [_random(p.type, k) for p in graph.params]
        own = [a.astype(p.type.dtype.numpy, copy=False) for a, p in zip(own, graph.params, strict=True)]
        try:
            with np.errstate(all="ignore"):
                evaluate(graph, own, values)
        except _REFUSALS:
            continue
        found.append(values)
    return found


def _random(type: TensorType, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    shape = [d if isinstance(d, int) else _SYMBOL + seed for d in type.shape or ()]
    if type.dtype is DType.BOOL or not type.dtype.is_float:
        return np.asarray(rng.integers(0, 2, shape)).astype(type.dtype.numpy)
    return np.asarray(rng.standard_normal(shape)).astype(type.dtype.numpy)


def _beside(node: Node) -> list[Node]:
    made = [v.producer for v in node.inputs if v is not None and v.producer is not None]
    return [*made, *(user for v in node.outputs for user in v.users if user.graph is node.graph and user.op != "ret")]


def _shrunk(
    case: Case, nodes: Sequence[Node], part: set[Node], values: Mapping[Value, Array], small: Small, end: float
) -> Small:
    """Removes nodes, first many at a time, as long as the outputs differ."""
    kept = [n for n in nodes if n in part]
    size = len(kept) // 2
    while size >= 1:
        k = 0
        while k < len(kept) and time.perf_counter() < end:
            rest = kept[:k] + kept[k + size :]
            found = _tried(case, nodes, set(rest), values) if rest else None
            if found is None:
                k += size
            else:
                kept, small = rest, found
        size //= 2
    return small


def _tried(case: Case, nodes: Sequence[Node], part: set[Node], values: Mapping[Value, Array]) -> Small | None:
    """This part of the graph if the rewrite changes its outputs, else None."""
    cut = _cut([n for n in nodes if n in part], values)
    if cut is None:
        return None
    graph, arrays = cut
    after = graph.clone()
    before = _text(after)
    try:
        verify(graph)
        with np.errstate(all="ignore"):
            want = evaluate(graph, arrays)
    except _REFUSALS:
        return None
    try:
        with np.errstate(all="ignore"):
            _apply(case, after)
    except Exception as e:  # noqa: BLE001  (whatever comes out of a wrong rule)
        if not case.raised:
            return None
        return Small(graph, arrays, "nothing", f"it raises {type(e).__name__}: {e}")
    if _text(after) == before:
        return None
    what = _difference(case, after, arrays, want)
    return Small(graph, arrays, _text(after), what) if what else None


def _text(graph: Graph) -> str:
    """The graph as text; of an invalid graph the list of its nodes."""
    try:
        return to_text(graph, {})
    except InternalError:
        return "\n".join(f"{', '.join(map(repr, node.outputs))} = {node!r}" for node in graph)


def _apply(case: Case, graph: Graph) -> None:
    if case.name in rules:
        apply_rules(graph, [rules[case.name]])
        for inner in graph.walk():
            erase_dead(inner, list(reversed(inner)))
    else:
        apply_pass(passes[case.name], graph, Trace(), **case.options)


def _difference(case: Case, graph: Graph, arrays: Sequence[Array], want: Sequence[Array]) -> str:
    try:
        verify(graph)
        given = [a.astype(p.type.dtype.numpy, copy=False) for a, p in zip(arrays, graph.params, strict=True)]
        with np.errstate(all="ignore"):
            got = _by_engine(graph, given) if case.engine else evaluate(graph, given)
    except _REFUSALS as e:
        return f"the graph cannot be run after it: {e}"
    if len(got) != len(want):
        return f"the graph has {len(got)} outputs instead of {len(want)}"
    for value, g, w in zip(graph.outputs, got, want, strict=True):
        tolerance = (1e-4 if case.engine else ROUNDING) if DType.of(w.dtype).is_float else None
        found = compare(value.name or "output", g.astype(w.dtype, copy=False), w, tolerance)
        if not found.passed:
            return str(found)
    return ""


def _by_engine(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    from minnow.runtime.session import load
    from minnow.schema.mnn import encode

    model, inputs = Small(graph, list(arrays)).model()
    return list(load(encode(model)).run(inputs).values())


def _cut(nodes: Sequence[Node], values: Mapping[Value, Array]) -> tuple[Graph, list[Array]] | None:
    """A graph of these nodes; values that other nodes compute become graph inputs with the recorded arrays."""
    graph = Graph("main")
    table: dict[Value, Value] = {}
    arrays: list[Array] = []
    inside = set(nodes)
    for node in nodes:
        for value in node.inputs:
            if value is None or value in table or value.producer in inside:
                continue
            if value.data is not None:
                table[value] = Value(value.type, value.name, value.data)
                continue
            if value not in values:
                return None
            table[value] = graph.add_param(value.type, value.name)
            arrays.append(values[value])
        attrs = {k: v.clone() if isinstance(v, Graph) else v for k, v in node.attrs.items()}
        operands = [None if v is None else table[v] for v in node.inputs]
        new = Node(
            node.op, operands, attrs, [v.type for v in node.outputs], [v.name for v in node.outputs], node.origin
        )
        graph.insert(new)
        table.update(zip(node.outputs, new.outputs, strict=True))
    read = [v for n in nodes for v in n.outputs if not v.uses or any(user not in inside for user, _ in v.uses)]
    graph.outputs = [table[v] for v in read]
    return graph, arrays


__all__ = ["Case", "Small", "reduced"]
