"""Layers that the file format has no form for, in terms of those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import DType, LazyBlob, Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x, scale, bias, mean, var: p.BatchNorm(x, scale, bias, mean, var), level=0)
def legalize_batch_norm(b: Builder, m: Match) -> Value | None:
    """A factor and a summand per channel.

    Given:
        graph g(%x: f32[1,1,2]) {
          %y: f32[1,1,2] = BatchNorm(%x, f32[1](3.0), f32[1](1.0), f32[1](4.0), f32[1](4.0)) {epsilon=0.0}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,2]) {
          %y: f32[1,1,2] = Scale(%x, f32[1](1.5), f32[1](-5.0))
          return %y
        }
    """
    values = [m.scale, m.bias, m.mean, m.var]
    if any(v.data is None for v in values):
        return m.no("its statistics are computed")
    scale, bias, mean, var = (v.data.numpy().astype(np.float64) for v in values)
    factor = scale / np.sqrt(var + m.root.attrs.get("epsilon", 1e-5))
    dtype = m.x.type.dtype.numpy
    return b.Scale(m.x, factor.astype(dtype), (bias - mean * factor).astype(dtype))


@rewrite(lambda p, x, w: p.Conv(x, w, ...) | p.ConvTranspose(x, w, ...), level=0)
def legalize_conv_1d(b: Builder, m: Match) -> Value | None:
    """One spatial axis becomes two, the second of extent 1.

    Given:
        graph g(%x: f32[1,1,5]) {
          %y: f32[1,1,5] = Conv(%x, f32[1,1,1](2.0)) {strides=(1,), pads=(0, 0), dilations=(1,)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,5]) {
          %0: f32[1,1,5,1] = Unsqueeze(%x) {axes=(3,)}
          %1: f32[1,1,5,1] = Conv(%0, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,5] = Squeeze(%1) {axes=(3,)}
          return %y
        }
    """
    a = m.root.attrs
    if len(a["strides"]) != 1 or m.w.type.rank != 3:
        return m.no("it does not have one spatial axis")
    wide: dict[str, Any] = {k: (*a[k], 1) for k in ("strides", "dilations")}
    wide["pads"] = (a["pads"][0], 0, a["pads"][1], 0)
    if m.root.op == "ConvTranspose":
        wide["output_padding"] = (*a.get("output_padding", (0,)), 0)
    bias = m.root.input(2) if m.root.has_input(2) else None
    w = m.w
    if w.data is not None:
        blob = w.data
        shape = (*(int(d) for d in blob.shape), 1)
        w = Value.constant(LazyBlob(lambda: blob.numpy().reshape(shape), blob.dtype, shape), w.name)
    else:
        w = b.Unsqueeze(w, axes=(3,))
    y = b.node(m.root.op, [b.Unsqueeze(m.x, axes=(3,)), w, bias], {**a, **wide}).output
    return b.Squeeze(y, axes=(3,))


@rewrite(lambda p, x: p.MaxPool(x, as_="pool") | p.AveragePool(x, as_="pool"), level=0)
def legalize_pool_1d(b: Builder, m: Match) -> Value | None:
    """One spatial axis becomes two, the second of extent 1."""
    a = m.root.attrs
    if len(a["kernel"]) != 1:
        return m.no("it does not have one spatial axis")
    wide: dict[str, Any] = {k: (*a[k], 1) for k in ("kernel", "strides", "dilations") if k in a}
    wide["pads"] = (a["pads"][0], 0, a["pads"][1], 0)
    y = b.node(m.root.op, [b.Unsqueeze(m.x, axes=(3,))], {**a, **wide}).output
    return b.Squeeze(y, axes=(3,))


@rewrite(lambda p, x, scale, bias: p.InstanceNorm(x, scale, bias), level=0)
def legalize_instance_norm(b: Builder, m: Match) -> Value:
    """Each channel of each sample is normalized as one row.

    Given:
        graph g(%x: f32[1,2,5]) {
          %y: f32[1,2,5] = InstanceNorm(%x, f32[2](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,2,5]) {
          %0: f32[1,2,5] = Reshape(%x, i32[3](0, 0, -1))
          %1: f32[1,2,5] = LayerNorm(%0)
          %2: f32[1,2,5] = Reshape(%1, i32[3](1, 2, 5))
          %y: f32[1,2,5] = Scale(%2, f32[2](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    """
    return _normalized_rows(b, m.x, (0, 0, -1), m)


@rewrite(lambda p, x, scale, bias: p.GroupNorm(x, scale, bias), level=0)
def legalize_group_norm(b: Builder, m: Match) -> Value:
    """Each group of channels of each sample is normalized as one row."""
    return _normalized_rows(b, m.x, (0, m.root.attrs["num_groups"], -1), m)


def _normalized_rows(b: Builder, x: Value, rows: tuple[int, ...], m: Match) -> Value:
    flat = b.Reshape(x, np.array(rows, np.int32))
    normal = b.LayerNorm(flat, epsilon=m.root.attrs.get("epsilon", 1e-5))
    back = b.Reshape(normal, shape_of(b, x))
    return b.Scale(back, m.scale, m.bias)


def shape_of(b: Builder, x: Value) -> Any:
    """The shape of a value as i32: a constant where it is known, or known but for one extent."""
    shape = x.type.shape
    if shape is not None:
        fixed = [d if isinstance(d, int) and d > 0 else -1 for d in shape]
        if fixed.count(-1) <= 1:
            return np.array(fixed, np.int32)

    return b.Cast(b.Shape(x), to=DType.I32)


@rewrite(lambda p, x, w, r: p.LSTM(x, w, r, ..., direction="reverse"), level=0)
def legalize_reverse_lstm(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """Backwards is forwards over the reversed sequence."""
    if m.root.has_input(4):
        return m.no("sequences have lengths of their own")
    rest = [*m.root.inputs[1:]]
    attrs = {**m.root.attrs, "direction": "forward"}
    made = b.node("LSTM", [b.Reverse(m.x, axes=(0,)), *rest], attrs, len(m.root.outputs)).outputs
    return (b.Reverse(made[0], axes=(0,)), *made[1:])
