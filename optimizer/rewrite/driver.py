"""The driver: applies rules to a fixpoint, and passes."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from minnow.optimizer.rewrite.pattern import Call, Match, Matcher
from minnow.optimizer.rewrite.rule import GraphPass, Rule
from minnow.optimizer.rewrite.trace import Application, Trace
from minnow.schema.errors import InternalError, MinnowError, ModelError, UnsupportedError
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ir.type import merge
from minnow.schema.ops import Builder

_MAX_REWRITES_PER_NODE = 16

_MANY = 32
"""Of a value with more readers than these, a change at one of them does not call the others at once."""


def apply_rules(graph: Graph, selected: Iterable[Rule], log: Trace | None = None) -> int:
    """Applies rules until none fires any more, as one group; see `apply_groups`."""
    return apply_groups(graph, [selected], log)


def apply_groups(
    graph: Graph,
    groups: Iterable[Iterable[Rule]],
    log: Trace | None = None,
    where: Callable[[Node], bool] | None = None,
) -> int:
    """Applies groups of rules until none fires any more, in this graph and its subgraphs. Gives the number of rewrites.

    A group looks at a node only while those before it have nothing left to do. Each node is visited once by each group;
    after a rewrite only its neighborhood is visited again, by all groups. Nodes that `where` is not true of are left
    alone.

    Raises:
        InternalError: rules undo each other without end; the message names the last ones.
    """
    log = log or Trace()
    tables = [_Table(rules) for rules in groups]
    return sum(_fixpoint(g, tables, log, where) for g in reversed(list(graph.walk())))


class _Table:
    """Rules by the op of their roots. Most models have few of the ops: a matcher is made when a node asks for it."""

    def __init__(self, selected: Iterable[Rule]) -> None:
        self._patterns: dict[str, list[tuple[Rule, Call]]] = {}
        self._matchers: dict[str, list[tuple[Rule, Matcher]]] = {}
        for rule in selected:
            for pattern in rule.patterns:
                self._patterns.setdefault(pattern.op, []).append((rule, pattern))

    def __contains__(self, op: object) -> bool:
        return op in self._patterns

    def at(self, op: str) -> list[tuple[Rule, Matcher]]:
        """The rules for nodes of an op, in the order in which they are tried."""
        if op not in self._matchers:
            self._matchers[op] = [(rule, Matcher(pattern)) for rule, pattern in self._patterns.get(op, ())]
        return self._matchers[op]


class _Work:
    """Nodes to visit, each once until it is called again.

    The readers of a value with many of them come when nothing else is left: if each that changes called all others at
    once, the visits would be as many as the square of the readers.
    """

    def __init__(self, graph: Graph, ops: Container[str]) -> None:
        self._graph, self._ops = graph, ops
        self._queue = deque(node for node in graph if node.op in ops)
        self._queued = set(self._queue)
        self._later: dict[Value, None] = {}

    def __bool__(self) -> bool:
        while not self._queue and self._later:
            waiting, self._later = self._later, {}
            for value in waiting:
                self.add(value.users)
        return bool(self._queue)

    def pop(self) -> Node:
        node = self._queue.popleft()
        self._queued.discard(node)
        return node

    def add(self, nodes: Iterable[Node]) -> None:
        for node in nodes:
            if node.op in self._ops and node not in self._queued and node.graph is self._graph:
                self._queued.add(node)
                self._queue.append(node)

    def add_readers(self, nodes: Iterable[Node]) -> None:
        """Has those who read of these nodes visited."""
        for node in nodes:
            for value in node.outputs if node.graph is self._graph else ():
                if len(value.uses) > _MANY:
                    self._later[value] = None
                else:
                    self.add(value.users)


def _fixpoint(
    graph: Graph,
    tables: Sequence[_Table],
    log: Trace,
    where: Callable[[Node], bool] | None = None,
) -> int:
    works = [_Work(graph, table) for table in tables]
    limit = _MAX_REWRITES_PER_NODE * (len(graph) + 1) * len(tables)
    done = 0
    last: deque[str] = deque(maxlen=4)
    group = 0
    while group < len(works):
        if not works[group]:
            group += 1
            continue
        node = works[group].pop()
        if node.graph is not graph or not (where is None or where(node)):
            continue
        for rule, matcher in tables[group].at(node.op):
            if log.stopped:
                return done
            log.of(rule.name).tries += 1
            if not matcher.may_match(node) and rule.name not in log.explain:
                continue
            touched = _attempt(graph, node, rule, matcher, log)
            if touched is None:
                continue
            done += 1
            log.rewrites += 1
            last.append(rule.name)
            if done > limit:
                raise InternalError(
                    f"the rules {', '.join(sorted(set(last)))} undo each other",
                    where=f"graph '{graph.name}', {node.origin}",
                )
            for work in works:
                work.add(touched)
                work.add_readers(touched)
            group = 0
            break
    return done


def _attempt(graph: Graph, node: Node, rule: Rule, matcher: Matcher, log: Trace) -> list[Node] | None:
    """Tries one rule at one node; the nodes to visit again when it fired."""
    statistics = log.of(rule.name)
    begin, nodes = time.perf_counter(), len(graph)
    try:
        m = matcher.match(node, explain=rule.name in log.explain)
        if m is None:
            if matcher.why:
                log.failed(rule.name, node, matcher.why, matcher.matched)
            return None
        if not rule.shared and (reader := _outside_reader(m)):
            log.failed(rule.name, node, f"a value inside the pattern is also read by {reader}")
            return None
        b = Builder(graph, node, changed_by(node.origin, rule.name))
        try:
            result = rule.apply(b, m)
        except OverflowError as e:  # an attribute too large for a list of int32, which the encoder refuses
            result = m.no(str(e))
        except Exception as e:
            log.failing = Application(rule.name, graph, node, m.nodes, b.made)
            if isinstance(e, MinnowError):  # refuses what the model holds
                e.where = e.where or node.origin
                raise
            raise _defect("rule", rule.name, node.origin, e) from e
        values = [] if result is None else [result] if isinstance(result, Value) else list(result)
        reason = m.reason or "the rule does not apply" if not values else _misfit(node, values)
        if reason:
            for made in reversed(b.made):
                graph.erase(made)
            log.failed(rule.name, node, reason)
            return None
        statistics.hits += 1
        log.applied(rule.name, node)
        if log.watch is not None:
            log.watch(Application(rule.name, graph, node, m.nodes, b.made))
        return _replace(graph, node, m, values, b.made)
    finally:
        statistics.seconds += time.perf_counter() - begin
        statistics.removed += nodes - len(graph)


def apply_pass(step: GraphPass, graph: Graph, log: Trace, **options: Any) -> int:
    """Applies a pass to a graph and all in it. Gives the number of changes."""
    statistics, done = log.of(step.name), 0
    begin, graphs = time.perf_counter(), list(graph.walk())
    nodes = sum(map(len, graphs))
    # Inner graphs first, so that what they no longer read is seen as unused outside.
    for inner in [graph] if step.whole else reversed(graphs):
        if log.stopped:
            break
        if log.watch is not None:
            log.watch(Application(step.name, inner))
        explained = (n for g in (inner.walk() if step.name in log.explain else ()) for n in g if log.is_meant(n))
        states = [(n, n.op, n.inputs, n.attrs) for n in explained]
        try:
            changes = step.apply(inner, **options)
        except Exception as e:
            log.failing = Application(step.name, inner)
            if isinstance(e, MinnowError):
                raise
            raise _defect("pass", step.name, "", e) from e
        for node, *before in states:
            if before != [node.op, node.inputs, node.attrs]:
                log.applied(step.name, node)
            elif log.node:
                log.failed(step.name, node, "the pass leaves it as it is")
        statistics.tries += 1
        statistics.hits += changes
        log.rewrites += changes > 0
        done += changes
    statistics.seconds += time.perf_counter() - begin
    statistics.removed += nodes - sum(map(len, graph.walk()))
    return done


def _defect(kind: str, name: str, where: str, error: Exception) -> MinnowError:
    """What is raised where a rule or pass has raised something that is no refusal: mostly a defect of ours."""
    if isinstance(error, (MemoryError, RecursionError)):
        what = "memory than there is" if isinstance(error, MemoryError) else "steps in a row than it can follow"
        return UnsupportedError(
            f"the {kind} {name} needs more {what}",
            where=where,
            why=str(error),
            hint=f"`--passes -{name}` leaves it out",
        )
    return InternalError(
        f"the {kind} {name} failed: {type(error).__name__}: {error}",
        where=where,
        hint=f"`--passes -{name}` leaves it out; `mnnconvert debug bisect` makes a small model that shows it",
    )


def _outside_reader(m: Match) -> str:
    inside = set(m.nodes)
    for node in m.nodes:
        if node is not m.root:
            for value in node.outputs:
                for reader, _ in value.uses:
                    if reader not in inside:
                        return f"{reader.op} ({reader.origin})" if reader.op != "ret" else "the graph's outputs"
    return ""


def _misfit(root: Node, values: list[Value]) -> str:
    """Why these values cannot stand for the outputs of the root: their types are others."""
    for old, new in zip(root.outputs, values, strict=True):
        if old.type.dtype is not new.type.dtype:
            return f"it would turn {old!r} into {new!r}"
        try:
            merge(new.type.shape, old.type.shape)
        except ModelError as e:
            return f"it would turn {old!r} into {new!r}: {e.message}"
    return ""


def _replace(graph: Graph, root: Node, m: Match, values: list[Value], made: list[Node]) -> list[Node]:
    touched = [*made]
    for old, new in zip(root.outputs, values, strict=True):
        # What is known of a parameter is what its caller says.
        if new.producer is not None:
            new.type = new.type.with_shape(merge(new.type.shape, old.type.shape))
        if new.producer in made:
            new.name = old.name or new.name
        touched += old.users
        old.replace_all_uses(new)
    for node in m.nodes:
        touched += [v.producer for v in node.inputs if v is not None and v.producer is not None]
    erase_dead(graph, m.nodes)
    return [n for n in dict.fromkeys(touched) if n.graph is graph]


def changed_by(origin: str, name: str) -> str:
    """The origin of what a rule or pass makes; each is named once, for a chain may become one node step by step."""
    if not origin:
        return name
    return origin if name in origin and name in origin.split(" > ")[1:] else f"{origin} > {name}"


def erase_dead(graph: Graph, nodes: Iterable[Node]) -> int:
    """Erases unused nodes among these, then their unused producers. Returns the number erased."""
    stack = list(nodes)
    erased = 0
    while stack:
        node = stack.pop()
        if node.graph is graph and node is not graph.ret and not any(v.uses for v in node.outputs):
            stack += [v.producer for v in node.inputs if v is not None and v.producer is not None]
            graph.erase(node)
            erased += 1
    return erased
