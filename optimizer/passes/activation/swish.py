"""Gates that sources spell with an exponential of a multiple."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, is_number
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def _one_and_exp(p: Any, x: Any) -> Any:
    return p.Add(p.Exp(x), 1.0)


def _opposite(b: Builder, x: Value) -> Value | None:
    """-x, where it takes no node more than x; None where it does."""
    node = x.producer
    if node is None:
        return None
    if node.op == "Neg":
        return node.input(0)
    number = node.input(1) if node.op in ("Mul", "Div") else None
    if number is None or number.data is None or number.type.count != 1:
        return None
    return b.node(node.op, [node.input(0), np.negative(number.data.numpy())], {}).output


@rewrite(lambda p, x, y: p.Div(y, _one_and_exp(p, x)) | p.Reciprocal(_one_and_exp(p, x)))
def fuse_gate(b: Builder, m: Match) -> Value | None:
    """y / (1 + exp(x)), which is y * sigmoid(-x)

    Given:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](-1.5))
          %b: f32[4] = Exp(%a)
          %c: f32[4] = Add(%b, f32[](1.0))
          %y: f32[4] = Div(%x, %c)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %a: f32[4] = Mul(%x, f32[](1.5))
          %b: f32[4] = Sigmoid(%a)
          %y: f32[4] = Mul(%x, %b)
          return %y
        }
    """
    turned = _opposite(b, m.x)
    if m.root.op == "Reciprocal" or is_number(m.y, 1.0):
        return b.Sigmoid(b.Neg(m.x) if turned is None else turned)
    return m.no("it would take as many nodes") if turned is None else b.Mul(m.y, b.Sigmoid(turned))
