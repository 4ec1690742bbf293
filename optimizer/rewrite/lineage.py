"""Which nodes of the source a node stands for, and which rules have made it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from minnow.optimizer.rewrite.rule import passes, rules
from minnow.optimizer.rewrite.trace import Application
from minnow.schema.ir import Node

_MOST = 24
"""Sources and rules that are kept for one node."""


@dataclass(frozen=True)
class Ancestry:
    """Where a node comes from.

    Attributes:
        sources: origins of the nodes of the source, without the rules; of many, the first ones.
        rules: names of the rules and passes, in the order in which they were applied.
    """

    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()


@dataclass
class Lineage:
    """Follows an optimization: `Trace(watch=lineage)`.

    A rule gives the nodes that it makes the ancestry of all nodes that it has matched. Of what a pass makes only the
    origin is known.
    """

    _known: dict[Node, Ancestry] = field(default_factory=dict)

    def __call__(self, application: Application) -> None:
        if application.root is None:
            return
        above = [self.of(node) for node in (application.root, *application.matched)]
        found = Ancestry(
            _joined(a.sources for a in above), _joined([*(a.rules for a in above), (application.name,)], last=True)
        )
        for node in application.made:
            self._known[node] = found

    def of(self, node: Node) -> Ancestry:
        """The ancestry of a node."""
        own = ancestry_of(node.origin)
        known = self._known.get(node)
        if known is None:
            return own
        return Ancestry(_joined([known.sources, own.sources]), _joined([known.rules, own.rules], last=True))


def ancestry_of(origin: str) -> Ancestry:
    """What an origin says: its source, and the names of rules and passes that it ends with."""
    parts = origin.split(" > ")
    count = len(parts)
    while count and (parts[count - 1] in rules or parts[count - 1] in passes):
        count -= 1
    source = " > ".join(parts[:count])
    return Ancestry((source,) if source else (), tuple(parts[count:]))


def _joined(lists: Iterable[Iterable[str]], last: bool = False) -> tuple[str, ...]:
    """All items, each once; the first ones, or the last ones."""
    items = list(dict.fromkeys(item for one in lists for item in one))
    return tuple(items[-_MOST:] if last else items[:_MOST])
