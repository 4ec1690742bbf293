"""Subgraphs of files of MNN's converter, which are read where they are called: only there it is known what they get.

Such files have no booleans, and few types of integers: conditions become booleans, and what the branches of an If give,
or a body gives for its next round, one type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from minnow.schema.errors import FormatError, UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

_DEEPEST = 64
_GRAPHS = ("cond_graph", "then_graph", "else_graph", "body_graph")


def called_by(op: Mapping[str, Any]) -> list[str]:
    """The names of the subgraphs that an op calls."""
    main = op.get("main", {})
    names = [main.get(field) for field in _GRAPHS]
    names += [a.get("s") for a in main.get("attr", ()) if a.get("type") == "DT_RESOURCE"]
    return [str(n) for n in names if n]


def check_copies(tables: Sequence[Mapping[str, Any]], ops: Sequence[Mapping[str, Any]], most: int) -> None:
    """Raises UnsupportedError where the ops, and the copies of the subgraphs that they call, are more than `most`.

    Copies of copies multiply: the first ones that are too many would be made only after very many others.
    """
    nodes = {str(t.get("name", "")): t.get("nodes", ()) for t in tables}
    sizes: dict[str, int] = {}

    def size(ops: Sequence[Mapping[str, Any]]) -> int:
        return len(ops) + sum(sizes.get(name, 0) for op in ops for name in called_by(op))

    waiting = [name for op in ops for name in called_by(op) if name in nodes]
    begun: set[str] = set()
    while waiting:
        name = waiting[-1]
        if name in sizes:
            waiting.pop()
            continue
        inner = [n for op in nodes[name] for n in called_by(op) if n in nodes and n not in begun]
        if name not in begun and inner:
            begun.add(name)  # one that calls itself is an error of another kind
            waiting += inner
            continue
        begun.add(name)
        sizes[waiting.pop()] = min(size(nodes[name]), most + 1)
    if size(ops) > most:
        raise UnsupportedError(f"the subgraphs of the file come to more than {most} nodes")


class Called:
    """The subgraphs of a file by name.

    Args:
        tables: as the file has them.
        decode: decodes one, given the types of its inputs by their names.
        subgraphs: by name, as they were decoded last.
    """

    def __init__(
        self,
        tables: Sequence[Mapping[str, Any]],
        decode: Callable[[Mapping[str, Any], Mapping[str, TensorType]], Any],
        subgraphs: dict[str, Any],
    ) -> None:
        self._tables = {str(t.get("name", "")): t for t in tables}
        self._decode = decode
        self._subgraphs = subgraphs
        self._decoded: dict[tuple[Any, ...], Any] = {}  # by name and types: calls of calls would multiply
        self._open: list[str] = []

    def read(self, op: Mapping[str, Any], values: Sequence[Value | None]) -> None:
        """Reads those that an op calls. Raises FormatError for one that calls itself."""
        main = op.get("main", {})
        if op.get("type") not in ("If", "While") or op.get("main_type") == "LoopParam":
            return
        for field in _GRAPHS:
            name = str(main.get(field) or "")
            if name not in self._tables:
                continue
            if name in self._open:
                raise FormatError(f"the subgraph '{name}' calls itself")
            if len(self._open) >= _DEEPEST:
                raise UnsupportedError(f"subgraphs that call each other in more than {_DEEPEST} levels")
            table = self._tables[name]
            types = dict(_by_name(main, values) if main.get("aliases_inputs") else _in_order(table, values))
            key = (name, *types.items())
            if key not in self._decoded:
                self._open.append(name)
                self._decoded[key] = self._decode(table, types)
                self._open.pop()
            self._subgraphs[name] = self._decoded[key]


def _by_name(main: Mapping[str, Any], values: Sequence[Value | None]) -> Iterator[tuple[str, TensorType]]:
    changed = {a["data"][1] for a in main.get("aliases_updates", ()) if len(a.get("data", ())) > 1}
    seen: set[str] = set()
    for alias, value in zip(main.get("aliases_inputs", ()), values, strict=False):
        for name in alias.get("data", ()):
            if value is not None and name not in seen:
                seen.add(name)
                yield name, _any_size(value.type) if name in changed else value.type


def _in_order(table: Mapping[str, Any], values: Sequence[Value | None]) -> Iterator[tuple[str, TensorType]]:
    names, inputs, outputs = table.get("tensors") or [], [*table.get("inputs", ())], [*table.get("outputs", ())]
    for k, i in enumerate(inputs):
        if not 0 <= i < len(names):
            return  # which reading it will tell
        if k == 0:
            yield names[i], TensorType(DType.I64, ())
        elif k == 1:
            yield names[i], TensorType(DType.BOOL, ())
        elif k < len(values) and (value := values[k]) is not None:
            constant = k - 1 < len(outputs) and outputs[k - 1] == i
            yield names[i], value.type if constant else _any_size(value.type)


def _any_size(type: TensorType) -> TensorType:
    """The type of what may have other sizes in a later round."""
    return type if type.shape is None else type.with_shape((UNKNOWN,) * len(type.shape))


def as_condition(b: Builder, condition: Value | None, body: Graph) -> Value | None:
    """The condition of a Loop as a boolean, and that of the next round."""
    first, *others = body.outputs
    if first.type.dtype is not DType.BOOL:
        body.outputs = [Builder(body, origin=b.origin).Cast(first, to=DType.BOOL), *others]
    if condition is None or condition.type.dtype is DType.BOOL:
        return condition
    return b.Cast(condition, to=DType.BOOL)  # type: ignore[no-any-return]


def same_state(body: Graph, carried: int) -> None:
    """Gives what a body passes on to its next round the types of what it gets."""
    results = list(body.outputs)
    for k in range(1, 1 + carried):
        results[k] = _cast(body, results[k], body.params[1 + k].type.dtype)
    body.outputs = results


def as_taken(graph: Graph, operands: Sequence[Value], branch: Graph) -> list[Value]:
    """The operands of an If in the types that a branch takes: one that reads the condition takes an integer."""
    return [_cast(graph, value, taken.type.dtype) for value, taken in zip(operands, branch.params, strict=True)]


def same_results(one: Graph, other: Graph) -> None:
    """Gives the results of one branch the types of those of the other."""
    pairs = zip(one.outputs, other.outputs, strict=True)
    other.outputs = [_cast(other, value, like.type.dtype) for like, value in pairs]


def _cast(graph: Graph, value: Value, to: DType) -> Value:
    if value.type.dtype is to or value.type.holds_tensors:
        return value
    made: Value = Builder(graph, origin=value.name).Cast(value, to=to)
    return made
