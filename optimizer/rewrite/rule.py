"""Rules and passes, and how they are registered.

    @rewrite(lambda p, x: p.Mul(x, p.Sigmoid(x)))
    def fuse_silu(b, m):
        \"\"\"...\"\"\"
        return b.Silu(m.x)

A rule is a pure builder: it makes nodes with `b` in front of the matched root and returns what replaces the root's
outputs, or `m.no(reason)`. It keeps no state. Values inside the pattern that others read too stop it, unless it is
declared `shared=True`; replaced nodes that are unused afterwards are erased by the driver.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minnow.optimizer.facts.format import Target
from minnow.optimizer.rewrite.pattern import Call, Match, trace
from minnow.schema.errors import InternalError
from minnow.schema.ir import Graph, Value
from minnow.schema.ops import Builder

RuleFunction = Callable[[Builder, Match], "Value | Sequence[Value] | None"]


class _Step:
    """Where the function of a rule or pass stands, and what it says of itself."""

    apply: Callable[..., Any]

    @cached_property
    def doc(self) -> str:
        return inspect.getdoc(self.apply) or ""

    @cached_property
    def module(self) -> str:
        return self.apply.__module__

    @cached_property
    def line(self) -> int:
        return self.apply.__code__.co_firstlineno


@dataclass(eq=False)
class Rule(_Step):
    """One rewrite rule.

    Attributes:
        name: name of its function.
        pattern: the function over placeholders.
        apply: the function.
        shared: values inside the pattern may have other readers.
        level: lowest optimization level at which it runs.
        target: the only target that it is for; None: every one.
    """

    name: str
    pattern: Callable[..., Any]
    apply: RuleFunction
    shared: bool
    level: int
    target: Target | None

    @cached_property
    def patterns(self) -> tuple[Call, ...]:
        """Alternatives, each with a root op."""
        return trace(self.pattern)


@dataclass(eq=False)
class GraphPass(_Step):
    """A pass over a whole graph; the function gives the number of changes."""

    name: str
    apply: Callable[..., int]
    level: int
    target: Target | None
    whole: bool


rules: dict[str, Rule] = {}
passes: dict[str, GraphPass] = {}


def rewrite(
    pattern: Callable[..., Any], *, shared: bool = False, level: int = 2, target: Target | None = None
) -> Callable[[RuleFunction], Rule]:
    """Registers a rule; see the module's text. What only Minnow's engine runs is made for the target "minnow" only."""

    def add(function: RuleFunction) -> Rule:
        rule = Rule(function.__name__, pattern, function, shared, level, target)
        _register(rules, rule)
        return rule

    return add


def graph_pass(
    *, level: int = 1, target: Target | None = None, whole: bool = False
) -> Callable[[Callable[[Graph], int]], GraphPass]:
    """Registers a pass over a graph.

    It is called for subgraphs too, inner ones first; with `whole` once, for the main graph, and walks by itself.
    """

    def add(function: Callable[[Graph], int]) -> GraphPass:
        new = GraphPass(function.__name__, function, level, target, whole)
        _register(passes, new)
        return new

    return add


def _register(table: dict[str, Any], item: Rule | GraphPass) -> None:
    if item.name in rules or item.name in passes:
        raise InternalError(f"the pass {item.name} is defined twice")
    table[item.name] = item
