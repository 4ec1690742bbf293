"""The rewrite engine: patterns, rules and passes as they are registered, and the driver that applies them.

`rule.py` explains how a rule is written and has the registries; `pattern.py` is what a rule asks of the graph and is
given of a match; `driver.py` applies rules to a fixpoint; `trace.py` keeps what is told of that; `weight.py` makes
weights of other weights without computing them.
"""

from minnow.optimizer.rewrite.driver import apply_groups, apply_pass, apply_rules, changed_by, erase_dead
from minnow.optimizer.rewrite.rule import GraphPass, Rule, graph_pass, passes, rewrite, rules
from minnow.optimizer.rewrite.trace import Application, Trace

__all__ = [
    "Application",
    "GraphPass",
    "Rule",
    "Trace",
    "apply_groups",
    "apply_pass",
    "apply_rules",
    "changed_by",
    "erase_dead",
    "graph_pass",
    "passes",
    "rewrite",
    "rules",
]
