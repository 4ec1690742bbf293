"""The nodes of a graph as a tree of groups, and the values that go between its items.

Groups are the bodies of control flow, the scopes in the names of the source, repeated sequences of ops, and otherwise
parts of long graphs, so that no group has more than a few dozen items. Each group is a contiguous part of an order of
execution: no path leaves it and comes back, so that it can be drawn as one box.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from heapq import heappop, heappush
from typing import Literal

from minnow.report.drawing.repeat import parts, repeats
from minnow.schema.ir import Graph, Node, Value
from minnow.schema.ops import all_ops

Kind = Literal["graph", "node", "input", "output", "control", "body", "scope", "repeat", "part"]

MOST = 80
"""Items of a group, if it can be divided."""

_MANY = 24
"""Items of a group in which repetitions are looked for."""

_LEAST = 3
"""Nodes of a scope that is a group of its own."""

_DEEPEST = 12
"""Levels of scopes in names that become groups."""


@dataclass(eq=False)
class Item:
    """A box: a node, an input or output of a graph, or a group of items.

    Attributes:
        id: its position in `Outline.items`.
        kind: "graph" is the outermost group, "control" a node with bodies.
        title: the op, or the name of a port, or what a group is.
        node: of a node or control flow.
        value: of an input or output.
        parent: the group that it is in.
        children: of a group, in an order of execution.
        size: the number of nodes in it.
        path: the names of the scopes that it stands for, from the outermost.
    """

    id: int
    kind: Kind
    title: str
    node: Node | None = None
    value: Value | None = None
    parent: Item | None = None
    children: list[Item] = field(default_factory=list)
    size: int = 1
    path: tuple[str, ...] = ()

    @property
    def is_group(self) -> bool:
        return bool(self.children)


@dataclass(eq=False)
class Net:
    """A value inside of a group: from an item, or from outside (None), to items, and to the outside."""

    value: int
    source: Item | None
    targets: dict[Item, None] = field(default_factory=dict)
    leaves: bool = False


@dataclass
class Outline:
    """The tree; the values, with the items that they come from; and per group its nets, by number of the value."""

    items: list[Item] = field(default_factory=list)
    values: list[Value] = field(default_factory=list)
    sources: list[Item] = field(default_factory=list)
    nets: dict[Item, dict[int, Net]] = field(default_factory=dict)

    @property
    def root(self) -> Item:
        return self.items[0]

    @property
    def groups(self) -> list[Item]:
        return [item for item in self.items if item.is_group]


def outline_of(graph: Graph, scopes: bool = True) -> Outline:
    """The tree of a graph and its subgraphs.

    Args:
        graph: the graph.
        scopes: use the names of the source for groups.
    """
    made = _Maker(scopes)
    root = made.item("graph", graph.name)
    made.fill(root, graph)
    made.measure(root)
    return made.outline


def scope_of(node: Node) -> tuple[str, ...]:
    """The names of the scopes around a node, as its source has them; () if the names say nothing."""
    origin = node.origin.partition(" > ")[0].partition(":")[2] if ":" in node.origin else ""
    name = (origin or node.name).partition(";")[0].strip("/")
    for separator in ("/", "."):
        if separator in name:
            scopes = [part for part in name.split(separator)[:-1] if part]
            while scopes and scopes[-1] in _op_names():  # some exporters name nodes "Conv.12"
                scopes.pop()
            return tuple(scopes[:_DEEPEST])
    return ()


@cache
def _op_names() -> frozenset[str]:
    return frozenset(op.name for op in all_ops())


class _Maker:
    def __init__(self, scopes: bool) -> None:
        self.outline = Outline()
        self.scopes = scopes

    def item(
        self, kind: Kind, title: str, node: Node | None = None, value: Value | None = None, path: tuple[str, ...] = ()
    ) -> Item:
        made = Item(len(self.outline.items), kind, title, node, value, path=path)
        self.outline.items.append(made)
        return made

    def fill(self, group: Item, graph: Graph) -> None:
        """Adds the items of a graph to a group, and the nets between them."""
        inputs = [self.item("input", v.name or "input", value=v) for v in graph.params]
        at: dict[Value, Item] = dict(zip(graph.params, inputs, strict=True))
        nodes = list(graph)
        paths = self._paths(nodes)
        leaves = []
        for node in nodes:
            item = self.item("control" if node.subgraphs else "node", node.op, node)
            leaves.append(item)
            at.update(dict.fromkeys(node.outputs, item))
        outputs = [self.item("output", v.name or "output", value=v) for v in graph.outputs]
        tree = self._level(leaves, paths, 0)
        self._adopt(group, [*inputs, *self._divided(tree), *outputs])
        for item in leaves:
            assert item.node is not None
            for name, body in item.node.subgraphs.items():
                inner = self.item("body", name)
                self.fill(inner, body)
                self._adopt(item, [*item.children, inner])
        self._connect(graph, at, outputs)

    def measure(self, root: Item) -> None:
        """Counts the nodes in each group."""
        for item in reversed(self._walk(root)):
            own = int(item.node is not None)
            item.size = own + sum(child.size for child in item.children)

    def _walk(self, root: Item) -> list[Item]:
        order = [root]
        for item in order:
            order.extend(item.children)
        return order

    def _adopt(self, group: Item, children: list[Item]) -> None:
        group.children = children
        for child in children:
            child.parent = group

    def _paths(self, nodes: Sequence[Node]) -> dict[Node, tuple[str, ...]]:
        """The scopes of nodes; a node without any gets those of what it reads."""
        paths: dict[Node, tuple[str, ...]] = {}
        for node in nodes:
            paths[node] = scope_of(node) if self.scopes else ()
            if not paths[node] and not node.name:
                above = [paths[v.producer] for v in node.inputs if v is not None and v.producer in paths]
                paths[node] = above[0] if above else ()
        return paths

    def _level(self, leaves: Sequence[Item], paths: dict[Node, tuple[str, ...]], depth: int) -> list[Item]:
        """Items of one level: nodes, and groups of those that share the next scope."""

        def key(item: Item) -> str:
            assert item.node is not None
            path = paths[item.node]
            return path[depth] if len(path) > depth else ""

        keys = [key(item) for item in leaves]
        while leaves and keys[0] and depth < _DEEPEST and all(k == keys[0] for k in keys):
            depth += 1  # a scope around everything says nothing
            keys = [key(item) for item in leaves]
        if not any(keys):
            return list(leaves)
        found: list[Item] = []
        seen: dict[str, int] = {}
        for name, run in _runs(leaves, keys):
            if not name or len(run) < _LEAST:
                found += run
                continue
            seen[name] = seen.get(name, 0) + 1
            node = run[0].node
            assert node is not None
            title = name if seen[name] == 1 else f"{name} ({seen[name]})"
            group = self.item("scope", title, path=paths[node][: depth + 1])
            self._adopt(group, self._divided(self._level(run, paths, depth + 1)))
            found.append(group)
        return found

    def _divided(self, items: list[Item]) -> list[Item]:
        """The same items with repeated sequences, and parts of what is still long, as groups."""
        found: list[Item] = []
        few = len(items) < _MANY
        divided = [(0, len(items), 1)] if few else repeats([_signature(i) for i in items], self._crossings(items))
        for start, period, count in divided:
            if count == 1:
                found += items[start : start + period]
                continue
            for k in range(count):
                group = self.item("repeat", f"block {k + 1} of {count}")
                self._adopt(group, items[start + k * period : start + (k + 1) * period])
                found.append(group)
        while len(found) > MOST:
            bounds = parts(self._crossings(found), MOST // 2)
            made = []
            for k, (a, b) in enumerate(itertools.pairwise(bounds)):
                group = self.item("part", f"part {k + 1} of {len(bounds) - 1}")
                self._adopt(group, found[a:b])
                made.append(group)
            found = made
        return found

    def _crossings(self, items: Sequence[Item]) -> list[int]:
        """For each position, how many values go from the items before it to those behind it."""
        where: dict[Node, int] = {}
        for k, item in enumerate(items):
            for leaf in self._walk(item):
                if leaf.node is not None:
                    where[leaf.node] = k
        change = [0] * (len(items) + 2)
        for node, k in where.items():
            for value in node.outputs:
                last = max((where.get(reader, k) for reader, _ in value.uses), default=k)
                change[k + 1] += 1
                change[last + 1] -= 1
        total, counts = 0, []
        for step in change[: len(items) + 1]:
            total += step
            counts.append(total)
        return counts

    def _connect(self, graph: Graph, at: dict[Value, Item], outputs: Sequence[Item]) -> None:
        values = self.outline.values
        for value, source in at.items():
            readers = [at_node for node, _ in value.uses if (at_node := self._item_of.get(node)) is not None]
            ends = [o for o, v in zip(outputs, graph.outputs, strict=True) if v is value]
            if readers or ends:
                values.append(value)
                self.outline.sources.append(source)
                self._route(len(values) - 1, source, dict.fromkeys([*readers, *ends]))

    @property
    def _item_of(self) -> dict[Node, Item]:
        if not hasattr(self, "_nodes"):
            self._nodes: dict[Node, Item] = {}
            self._known = 0
        for item in self.outline.items[self._known :]:
            if item.node is not None:
                self._nodes[item.node] = item
        self._known = len(self.outline.items)
        return self._nodes

    def _route(self, value: int, source: Item, targets: Iterable[Item]) -> None:
        """Adds a value to the nets of all groups that it goes through."""
        up = [source, *_around(source)]
        place = {item: k for k, item in enumerate(up)}
        for target in targets:
            below = target
            group = target.parent
            while group is not None and group not in place:
                self._net(group, value, None).targets[below] = None
                below, group = group, group.parent
            if group is None:
                continue
            for k in range(1, place[group]):
                self._net(up[k], value, up[k - 1]).leaves = True
            self._net(group, value, up[place[group] - 1]).targets[below] = None

    def _net(self, group: Item, value: int, source: Item | None) -> Net:
        nets = self.outline.nets.setdefault(group, {})
        if value not in nets:
            nets[value] = Net(value, source)
        return nets[value]


def _around(item: Item) -> list[Item]:
    """The groups around an item, from the innermost."""
    found = []
    while item.parent is not None:
        item = item.parent
        found.append(item)
    return found


def _signature(item: Item) -> str:
    """What two items have in common if one repeats the other."""
    if item.node is not None:
        return item.title
    return "(" + " ".join(_signature(child) for child in item.children[:MOST]) + ")"


def _runs(leaves: Sequence[Item], keys: Sequence[str]) -> list[tuple[str, list[Item]]]:
    """The items in an order of execution in which those with equal keys follow each other as far as possible."""
    index = {item.node: k for k, item in enumerate(leaves)}
    waits = [0] * len(leaves)
    readers: list[list[int]] = [[] for _ in leaves]
    for k, item in enumerate(leaves):
        assert item.node is not None
        above = {index[v.producer] for v in item.node.inputs if v is not None and v.producer in index}
        waits[k] = len(above)
        for a in above:
            readers[a].append(k)
    ready: dict[str, list[int]] = {}
    first: list[tuple[int, str]] = []

    def offer(k: int) -> None:
        heappush(ready.setdefault(keys[k], []), k)
        heappush(first, (k, keys[k]))

    for k, count in enumerate(waits):
        if not count:
            offer(k)
    runs: list[tuple[str, list[Item]]] = []
    done = [False] * len(leaves)
    while first:
        k, name = heappop(first)
        if done[k]:
            continue
        run: list[Item] = []
        while ready[name]:
            k = heappop(ready[name])
            done[k] = True
            run.append(leaves[k])
            for reader in sorted(readers[k]):
                waits[reader] -= 1
                if not waits[reader]:
                    offer(reader)
        if runs and runs[-1][0] == name:
            runs[-1][1].extend(run)
        else:
            runs.append((name, run))
    return runs
