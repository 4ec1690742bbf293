"""Compares two models: nodes, graph inputs and outputs, weights, metadata.

Nodes are matched by the names of their outputs, then by origin, and the rest in order if op and type are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

import numpy as np

from minnow.cli._option import table
from minnow.optimizer.pipeline import count_nodes
from minnow.schema.ir import Blob, Model, Node, Value
from minnow.schema.ir.blob import nbytes

_CHUNK = 1 << 18

Pair = tuple[Node, Node]


def difference(a: Model, b: Model) -> dict[str, Any]:
    """The differences as JSON-ready values, and the numbers of nodes by op."""
    pairs, only_a, only_b = _matched(*([n for g in m.graph.walk() for n in g] for m in (a, b)))
    counts = [count_nodes(m.graph) for m in (a, b)]
    return {
        "nodes": {op: [c.get(op, 0) for c in counts] for op in sorted(counts[0].keys() | counts[1].keys())},
        "inputs": _changes(*({n: str(t) for n, t in m.inputs} for m in (a, b))),
        "outputs": _changes(*({n: str(t) for n, t in m.outputs} for m in (a, b))),
        "states": _changes(*({s.input: s.output for s in m.states} for m in (a, b))),
        "metadata": _changes(a.metadata, b.metadata),
        "changed": [change for pair in pairs if (change := _change(pair))],
        "only": [[_row(n) for n in only_a], [_row(n) for n in only_b]],
        "weights": [row for pair in pairs for row in _weights(pair)],
    }


def difference_text(found: Mapping[str, Any], names: tuple[str, str]) -> str:
    """The differences as text."""
    rows: list[tuple[Any, ...]] = [(op, a, b, f"{b - a:+d}" if a != b else "") for op, (a, b) in found["nodes"].items()]
    total = [sum(row[i] for row in rows) for i in (1, 2)]
    parts = [f"a: {names[0]}\nb: {names[1]}"]
    parts.append(table(["op", "a", "b", ""], [*rows, ("total", *total, "")]))
    for key in ("inputs", "outputs", "states", "metadata"):
        changed = [(name, _shown(a), _shown(b)) for name, (a, b) in found[key].items()]
        if changed:
            parts.append(table([key, "a", "b"], changed, right=9))
    if found["changed"]:
        rows = [(c["name"], c["what"], _shown(c["a"]), _shown(c["b"])) for c in found["changed"]]
        parts.append(table(["node", "", "a", "b"], rows, right=9))
    for letter, only in zip("ab", found["only"], strict=True):
        if only:
            parts.append(table([f"only in {letter}", "node"], [(n["op"], n["name"]) for n in only], right=9))
    if found["weights"]:
        rows = [(w["node"], w["operand"], w["a"], w["b"], _number(w["max_difference"])) for w in found["weights"]]
        parts.append(table(["weight of", "operand", "a", "b", "max difference"], rows, right=4))
    if len(parts) == 2 and not any(a != b for a, b in found["nodes"].values()):
        parts.append("no difference")
    return "\n\n".join(parts)


def _shown(text: Any) -> str:
    shown = "-" if text is None else str(text)
    return shown if len(shown) <= 60 else shown[:57] + "..."


def _number(n: float | None) -> str:
    return "" if n is None else f"{n:.3g}"


def _changes(a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {k: [a.get(k), b.get(k)] for k in dict.fromkeys((*a, *b)) if a.get(k) != b.get(k)}


def _row(node: Node) -> dict[str, str]:
    return {"op": node.op, "name": node.name, "origin": node.origin}


def _matched(a: Iterable[Node], b: Iterable[Node]) -> tuple[list[Pair], list[Node], list[Node]]:
    left, right = list(a), list(b)
    pairs: list[Pair] = []
    keys: tuple[Callable[[Node], Hashable], ...] = (
        lambda n: (n.op, n.name) if n.name else None,
        lambda n: n.name or None,
        lambda n: (n.op, n.origin.partition(" > ")[0]) if n.origin else None,
        lambda n: (n.op, *(str(v.type) for v in n.outputs)),
    )
    for key in keys:
        waiting: dict[Hashable, list[Node]] = {}
        for node in reversed(right):
            waiting.setdefault(key(node), []).append(node)
        found: dict[Node, Node] = {}
        for node in left:
            if (k := key(node)) is not None and waiting.get(k):
                found[node] = waiting[k].pop()
        pairs += found.items()
        taken = set(found.values())
        left, right = [n for n in left if n not in found], [n for n in right if n not in taken]
    return pairs, left, right


def _change(pair: Pair) -> dict[str, Any] | None:
    a, b = pair
    said: tuple[tuple[str, str, str], ...] = (
        ("op", a.op, b.op),
        ("attributes", _attributes(a), _attributes(b)),
        ("type", ", ".join(str(v.type) for v in a.outputs), ", ".join(str(v.type) for v in b.outputs)),
    )
    for what, x, y in said:
        if x != y:
            return {"name": b.name or a.name, "what": what, "a": x, "b": y}
    return None


def _attributes(node: Node) -> str:
    return " ".join(f"{k}={v}" for k, v in sorted(node.attrs.items()) if k not in node.subgraphs)


def _weights(pair: Pair) -> Iterable[dict[str, Any]]:
    a, b = pair
    for i in range(min(len(a.inputs), len(b.inputs))):
        x, y = a.inputs[i], b.inputs[i]
        if x is None or y is None or x.data is None or y.data is None or x.data is y.data:
            continue
        most = _most(x.data, y.data) if _size(x) == _size(y) else None
        if most is None or most > 0:
            yield {"node": b.name or a.name, "operand": i, "a": str(x.type), "b": str(y.type), "max_difference": most}


def _size(value: Value) -> tuple[int, ...]:
    return tuple(value.data.shape) if value.data is not None else ()


def _most(a: Blob, b: Blob) -> float:
    """The largest absolute difference; infinite if only one of two values is NaN."""
    if nbytes(a) == 0:
        return 0.0
    x, y = a.numpy().reshape(-1), b.numpy().reshape(-1)
    most = 0.0
    for i in range(0, x.size, _CHUNK):
        p, q = (v[i : i + _CHUNK].astype(np.float64) for v in (x, y))
        with np.errstate(invalid="ignore"):
            gap = np.where((p == q) | (np.isnan(p) & np.isnan(q)), 0.0, np.abs(p - q))
        most = max(most, float(np.max(np.where(np.isnan(gap), np.inf, gap))))
    return most
