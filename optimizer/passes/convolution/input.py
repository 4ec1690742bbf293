"""What convolutions and matrix products take in from in front of them: factors and summands of what they read."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from minnow.optimizer.passes.convolution.absorb import per_channel
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, Tracer, same_shape
from minnow.optimizer.rewrite.weight import ScaledBlob, channel_factors, minus_one
from minnow.schema.ir import LazyBlob, Node, PackedBlob, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _by_weight(layer: Node, numbers: Array) -> Array | None:
    """A number per channel that is read, as it goes with the weights; None where the channels are not the ones read."""
    if not layer.input(1).type.is_static:
        return None
    w = layer.input(1).type.static_shape
    groups = layer.attrs.get("group", 1)
    channels = w[0] if layer.op == "ConvTranspose" else w[1] * groups
    if len(numbers) != channels:
        return None
    if layer.op == "ConvTranspose":
        return numbers.reshape(-1, *(1,) * (len(w) - 1))
    per_group = np.repeat(numbers.reshape(groups, -1), w[0] // groups, axis=0)
    return per_group.reshape(w[0], -1, *(1,) * (len(w) - 2))


def _scaled(b: Builder, layer: Node, x: Value, factor: Array, bias: Value | None) -> Value:
    w = layer.input(1)
    assert w.data is not None
    weights = w if (factor == 1).all() else Value.constant(ScaledBlob(w.data, factor), w.name)
    inputs = [x, weights, *([bias] if bias is not None or len(layer.inputs) > 2 else []), *layer.inputs[3:]]
    return b.node(layer.op, inputs, layer.attrs).output


def _layers(p: Tracer, x: Any, w: Any, *ops: str) -> Any:
    return reduce(or_, (getattr(p, op)(x, w, ..., as_="layer") for op in ops))


def _normalized(p: Tracer, x: Any, w: Any, scale: Any, bias: Any, mean: Any, var: Any) -> Any:
    norms = p.BatchNorm(x, scale, bias, mean, var, as_="norm") | p.Scale(x, scale, bias, as_="norm")
    return _layers(p, norms, w, "Conv", "ConvTranspose", "Linear")


@rewrite(_normalized)
def fuse_norm_input(b: Builder, m: Match) -> Value | None:
    """Factors and summands per channel in front of a layer become part of its weights and bias.

    A summand does so only where nothing is padded: the zeros of the padding have none.

    Given:
        graph g(%x: f32[1,2,2,2]) {
          %a: f32[1,2,2,2] = Scale(%x, f32[2](3.0, 0.5), f32[2](1.0, 2.0))
          %y: f32[1,1,2,2] = Conv(%a, f32[1,2,1,1](2.0, 4.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,2,1,1](6.0, 2.0), f32[1](10.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    layer, w = m.layer, m.w.data
    numbers = channel_factors(m.norm)
    if w is None or isinstance(w, PackedBlob) or numbers is None:
        return m.no("weights or statistics are computed, packed or not finite")
    if layer.op == "Linear" and m.x.type.rank != 2:
        return m.no("the channels are not the last axis")
    factor, shift = (_by_weight(layer, n) for n in numbers)
    if factor is None or shift is None:
        return m.no("the numbers are not one per channel")
    old = layer.input(2) if layer.has_input(2) else None
    if not shift.any():
        return _scaled(b, layer, m.x, factor, old)
    if layer.op == "ConvTranspose" or any(layer.attrs.get("pads", ())) or layer.attrs.get("auto_pad"):
        return m.no("the summand does not reach what is padded")
    if old is not None and old.data is None:
        return m.no("the bias is computed")
    before = None if old is None else old.data

    def sums() -> Array:
        # The summand as it comes through the layer.
        own = 0 if before is None else before.numpy().astype(np.float64)
        axes = tuple(range(1, len(w.shape)))
        return np.asarray(own + (w.numpy().astype(np.float64) * shift).sum(axes))

    dtype = layer.output.type.dtype
    rounded = LazyBlob(lambda: sums().astype(dtype.numpy), dtype, (int(w.shape[0]),))
    return _scaled(b, layer, m.x, factor, Value.constant(rounded, "" if old is None else old.name))


@rewrite(lambda p, x, w: _layers(
    p, p.Mul(x, p.const("k"), as_="mul") | p.Div(x, p.const("k"), as_="mul") | p.Neg(x, as_="mul"), w,
    "Conv", "ConvTranspose",
))  # fmt: skip
def fuse_factor_input(b: Builder, m: Match) -> Value | None:
    """A constant factor per channel in front of a convolution becomes part of its weights.

    Given:
        graph g(%x: f32[1,2,2,2]) {
          %a: f32[1,2,2,2] = Mul(%x, f32[2,1,1](3.0, 0.5))
          %y: f32[1,1,4,4] = Conv(%a, f32[1,2,1,1](2.0, 4.0)) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,2,2]) {
          %y: f32[1,1,4,4] = Conv(%x, f32[1,2,1,1](6.0, 2.0)) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}
          return %y
        }
    """
    layer, w = m.layer, m.w.data
    if w is None or isinstance(w, PackedBlob):
        return m.no("the weights are computed or packed")
    k = m.bound.get("k") or minus_one(m.w)
    numbers = per_channel(k, m.mul)
    if numbers is None or not same_shape(m.x, m.mul.output):
        return m.no(f"the factor {k!r} is not one number per channel")
    with np.errstate(divide="ignore"):
        wide = numbers.astype(np.float64)
        wide = 1 / wide if m.mul.op == "Div" else wide
    factor = _by_weight(layer, wide)
    if factor is None or not np.isfinite(wide).all():
        return m.no("the factor is not finite, or the weights have another number of channels")
    return _scaled(b, layer, m.x, factor, layer.input(2) if layer.has_input(2) else None)
