"""Rules and passes that are wrong, each in its own way, to see whether the proofs find them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minnow.optimizer import phases
from minnow.optimizer.phases import Step
from minnow.optimizer.rewrite import graph_pass, passes, rewrite, rules
from minnow.schema.ir import Graph

_PLACE = "minnow.optimizer.passes.cleanup.identity"

# A few nodes that are right, and one that a wrong rule looks for.
_AROUND = """graph g(%x: f32[N,3]) {{
  %a: f32[N,3] = Mul(%x, f32[3](1.5, -2.0, 0.5))
  %b: f32[N,3] = Identity(%a)
  {line}
  %d: f32[N,3] = Sigmoid(%c)
  %e: f32[N,3] = Mul(%c, %d)
  %f: f32[N,3] = Add(%e, %a)
  return %f
}}"""


@dataclass(frozen=True)
class Wrong:
    """A rule that is wrong.

    Attributes:
        name: its name.
        line: the node of the graph that it changes.
        register: registers it.
    """

    name: str
    line: str
    register: Any

    @property
    def text(self) -> str:
        return _AROUND.format(line=self.line)


def _wrong_constant() -> None:
    @rewrite(lambda p, x: p.Exp(x), shared=True)
    def spoil_constant(b, m):
        return b.Pow(np.float32(2.72), m.x)


def _wrong_axis() -> None:
    @rewrite(lambda p, x: p.Softmax(x, as_="s"), shared=True)
    def spoil_axis(b, m):
        return b.Softmax(m.x, axis=0) if m.s.attrs["axis"] != 0 else m.no("it is wrong already")


def _dropped_output() -> None:
    @graph_pass(level=1)
    def spoil_split(graph: Graph) -> int:
        """Gives the first part to the readers of the second."""
        done = 0
        for node in graph:
            if node.op == "Split" and node.outputs[1].uses:
                node.outputs[1].replace_all_uses(node.outputs[0])
                done += 1
        return done


def _wrong_for_symbols() -> None:
    @rewrite(lambda p, x: p.ReduceSum(x, as_="s"), shared=True)
    def spoil_symbol(b, m):
        # Right where the batch is 1.
        if m.s.attrs["axes"] == (0,) and m.s.attrs["keepdims"] and isinstance(m.x.type.shape[0], str):
            return b.Slice(m.x, np.array([0]), np.array([1]))
        return m.no("its dimensions are numbers")


def _raises() -> None:
    @rewrite(lambda p, x: p.Tan(x), shared=True)
    def spoil_by_raising(b, m):
        return b.Tan(m.bound["z"])


def _invalid() -> None:
    @graph_pass(level=1)
    def spoil_order(graph: Graph) -> int:
        """Puts a node in front of what it reads."""
        for node in graph:
            if node.op == "Sinh" and node.input(0).producer is not None:
                graph.move(node, next(iter(graph)))
                return 1
        return 0


def _makes_nan() -> None:
    @rewrite(lambda p, x: p.Abs(x), shared=True)
    def spoil_nan(b, m):
        return b.Square(b.Sqrt(m.x))


def _captured() -> None:
    @rewrite(lambda p, x: p.Cosh(x), shared=True)
    def spoil_branch(b, m):
        return b.Mul(b.Add(b.Exp(m.x), b.Exp(b.Neg(m.x))), 0.25)


_IF = """%s: f32[] = ReduceSum(%x) {axes=(0, 1), keepdims=False}
  %t: bool[] = Greater(%s, f32[](-1e9))
  %c: f32[N,3] = If(%t, %b) {then_branch=graph t(%b: f32[N,3]) {
    %u: f32[N,3] = Sigmoid(%b)
    %v: f32[N,3] = Cosh(%u)
    return %v
  }, else_branch=graph e(%b: f32[N,3]) {
    %u: f32[N,3] = Neg(%b)
    return %u
  }}"""

WRONG = [
    Wrong("spoil_constant", "%c: f32[N,3] = Exp(%b)", _wrong_constant),
    Wrong("spoil_axis", "%c: f32[N,3] = Softmax(%b) {axis=1}", _wrong_axis),
    Wrong("spoil_split", "%p: f32[N,1], %q: f32[N,1], %r: f32[N,1] = Split(%b) {axis=1, sizes=(1, 1, 1)}\n"
          "  %c: f32[N,3] = Concat(%p, %q, %r) {axis=1}", _dropped_output),
    Wrong("spoil_symbol", "%k: f32[1,3] = ReduceSum(%b) {axes=(0,), keepdims=True}\n"
          "  %c: f32[N,3] = Add(%b, %k)", _wrong_for_symbols),
    Wrong("spoil_by_raising", "%c: f32[N,3] = Tan(%b)", _raises),
    Wrong("spoil_order", "%c: f32[N,3] = Sinh(%b)", _invalid),
    Wrong("spoil_nan", "%c: f32[N,3] = Abs(%b)", _makes_nan),
    Wrong("spoil_branch", _IF, _captured),
]  # fmt: skip


@contextmanager
def registered(wrong: Wrong) -> Iterator[None]:
    """While it lasts, the wrong rule is one of the pipeline's."""
    right = phases.PHASES
    wrong.register()
    try:
        if wrong.name in rules:
            rules[wrong.name].module = _PLACE
        else:
            first, *rest = right
            steps = (*first.steps[:3], Step(wrong.name, "it is wrong"), *first.steps[3:])
            phases.PHASES = (replace(first, steps=steps), *rest)
        yield
    finally:
        phases.PHASES = right
        rules.pop(wrong.name, None)
        passes.pop(wrong.name, None)
