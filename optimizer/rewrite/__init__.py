"""The rewrite engine: patterns, rules and passes as they are registered, and the driver that applies them.

A rule is written with `rewrite`, a pass with `graph_pass`; both are explained in `driver.py`. `pattern.py` has what a
rule is given of a match, `weight.py` makes weights of other weights without computing them.
"""

from minnow.optimizer.rewrite.driver import (
    Application,
    GraphPass,
    Rule,
    Trace,
    apply_pass,
    apply_rules,
    changed_by,
    erase_dead,
    graph_pass,
    passes,
    rewrite,
    rules,
)

__all__ = [
    "Application",
    "GraphPass",
    "Rule",
    "Trace",
    "apply_pass",
    "apply_rules",
    "changed_by",
    "erase_dead",
    "graph_pass",
    "passes",
    "rewrite",
    "rules",
]
