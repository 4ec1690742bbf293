"""What is told of an optimization: statistics, reasons where a rule came close, and how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from minnow.schema.ir import Graph, Node

_ALL = 1 << 30
"""Number of matched nodes where the whole pattern was there."""


@dataclass
class Statistics:
    """What a rule or pass did: attempts that got past the root op, applications, seconds, nodes that it removed."""

    tries: int = 0
    hits: int = 0
    seconds: float = 0.0
    removed: int = 0


@dataclass(frozen=True, eq=False)
class Application:
    """A rule at a node, or a pass over a graph.

    Attributes:
        name: of the rule or pass.
        graph: the one that is changed, which may be nested in others.
        root, matched: the nodes that the rule's pattern has matched, the root among them; none for a pass.
        made: the nodes that the rule has added to the graph, still unused.
    """

    name: str
    graph: Graph
    root: Node | None = None
    matched: Sequence[Node] = ()
    made: Sequence[Node] = ()


@dataclass
class Trace:
    """Collects statistics, and reasons where a rule came close but did not apply.

    Attributes:
        explain: names of rules whose failures are recorded.
        node: record only at nodes whose origin or output name contains this text.
        stop_after: number of rewrites after which no rule fires and no pass runs any more (for bisection); None: no
            limit.
        watch: called before each rule or pass changes a graph.
        rewrites: how many there have been; a pass that changes a graph is one.
        failing: what was being applied when an exception came out of it.
        unused: why what is to be explained does not run at all, "" where it does.
    """

    explain: frozenset[str] = frozenset()
    node: str = ""
    stop_after: int | None = None
    watch: Callable[[Application], None] | None = None
    statistics: dict[str, Statistics] = field(default_factory=dict)
    rewrites: int = 0
    failing: Application | None = None
    unused: dict[str, str] = field(default_factory=dict)
    _nearest: dict[tuple[str, str], tuple[int, str]] = field(default_factory=dict)
    _applied: dict[tuple[str, str], None] = field(default_factory=dict)

    @property
    def stopped(self) -> bool:
        """There have been as many rewrites as there may be."""
        return self.stop_after is not None and self.rewrites >= self.stop_after

    def hits(self) -> dict[str, int]:
        """How often each rule and pass has been applied."""
        return {name: s.hits for name, s in self.statistics.items()}

    def of(self, name: str) -> Statistics:
        if name not in self.statistics:
            self.statistics[name] = Statistics()
        return self.statistics[name]

    def failed(self, rule: str, node: Node, reason: str, matched: int = _ALL) -> None:
        """Records why a rule does not apply at a node; of several attempts there, the one that matched most nodes."""
        if rule in self.explain and self.is_meant(node):
            key = (rule, _named(node))
            if key not in self._nearest or matched > self._nearest[key][0]:
                self._nearest[key] = (matched, reason)

    def applied(self, rule: str, node: Node) -> None:
        """Records where a rule or pass has done something."""
        if rule in self.explain and self.is_meant(node):
            key = (rule, _named(node))
            self._nearest.pop(key, None)
            self._applied[key] = None

    def is_meant(self, node: Node) -> bool:
        """It is asked for this node."""
        return self.node in node.origin or any(self.node in v.name for v in node.outputs)

    @property
    def applications(self) -> list[tuple[str, str]]:
        """Rule or pass and node, where one that is to be explained has been applied."""
        return list(self._applied)

    @property
    def reasons(self) -> list[tuple[str, str, str]]:
        """Rule, node and reason of each near miss, in the order in which they were met."""
        return [(rule, node, reason) for (rule, node), (_, reason) in self._nearest.items()]


def _named(node: Node) -> str:
    return " ".join(filter(None, (node.op, node.name, f"({node.origin})" if node.origin else "")))
