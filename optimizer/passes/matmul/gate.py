"""x * sigmoid(k x) beside layers: silu(k x) / k, of which the layers take in the factors."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.passes.matmul.linear import takes_factor
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_MOST = 16.0
"""A larger factor, or the reciprocal of one, might take numbers out of the range of floats that others leave in it."""


def _swish(p: Any, x: Any) -> Any:
    return p.Mul(x, p.Sigmoid(p.Mul(x, p.const("k"), as_="multiple")))


def _gated(b: Builder, m: Match) -> Value | None:
    """silu(k x) / k; None if k is not a suitable number."""
    if m.k.type.count != 1 or m.k.type.dtype not in (DType.F32, DType.F64) or not same_shape(m.x, m.multiple.output):
        return None
    k = float(m.k.array.reshape(()))
    if not 1 / _MOST <= abs(k) <= _MOST:
        return None
    return b.Mul(b.Silu(b.Mul(m.x, m.k)), np.array(1 / k, m.k.type.dtype.numpy))


@rewrite(lambda p, x: p.Linear(_swish(p, x), p.const("w"), ..., as_="layer"))
def fuse_swish_linear(b: Builder, m: Match) -> Value | None:
    """In front of a layer, whose weights are divided.

    Given:
        graph g(%x: f32[2,2]) {
          %a: f32[2,2] = Mul(%x, f32[](2.0))
          %b: f32[2,2] = Sigmoid(%a)
          %c: f32[2,2] = Mul(%x, %b)
          %y: f32[2,1] = Linear(%c, f32[1,2](1.0, 2.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,2]) {
          %a: f32[2,2] = Mul(%x, f32[](2.0))
          %b: f32[2,2] = Silu(%a)
          %c: f32[2,2] = Mul(%b, f32[](0.5))
          %y: f32[2,1] = Linear(%c, f32[1,2](1.0, 2.0))
          return %y
        }
    """
    gated = _gated(b, m)
    if gated is None:
        return m.no("the factor is not one float of usual size")
    return b.node("Linear", [gated, *m.layer.inputs[1:]], m.layer.attrs).output


@rewrite(_swish)
def fuse_linear_swish(b: Builder, m: Match) -> Value | None:
    """Behind a layer, whose weights are multiplied.

    Given:
        graph g(%x: f32[2,2]) {
          %i: f32[2,2] = Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0))
          %a: f32[2,2] = Mul(%i, f32[](2.0))
          %b: f32[2,2] = Sigmoid(%a)
          %y: f32[2,2] = Mul(%i, %b)
          return %y
        }
    Result:
        graph g(%x: f32[2,2]) {
          %i: f32[2,2] = Linear(%x, f32[2,2](1.0, 2.0, 3.0, 4.0))
          %a: f32[2,2] = Mul(%i, f32[](2.0))
          %b: f32[2,2] = Silu(%a)
          %y: f32[2,2] = Mul(%b, f32[](0.5))
          return %y
        }
    """
    layer = m.x.producer
    if layer is None or layer.op != "Linear" or not takes_factor(layer) or len(m.x.uses) != 2:
        return m.no("it does not stand behind a layer, or others read that")
    gated = _gated(b, m)
    return m.no("the factor is not one float of usual size") if gated is None else gated
