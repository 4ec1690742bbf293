"""Layers that the file format has no form for, in terms of those that it has."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, LazyBlob, Value
from minnow.schema.ops import Builder


@rewrite(lambda p, x, scale, bias, mean, var: p.BatchNorm(x, scale, bias, mean, var), level=0)
def legalize_batch_norm(b: Builder, m: Match) -> Value | None:
    """A factor and a summand per channel, computed here where the statistics are constant.

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
    epsilon, dtype = m.root.attrs.get("epsilon", 1e-5), m.x.type.dtype.numpy
    if any(v.data is None for v in values):
        factor = b.Div(m.scale, b.Sqrt(b.Add(m.var, epsilon)))
        return b.Scale(m.x, factor, b.Sub(m.bias, b.Mul(m.mean, factor)))
    scale, bias, mean, var = (v.data.numpy().astype(np.float64) for v in values)
    with np.errstate(divide="ignore", invalid="ignore"):
        numbers = scale / np.sqrt(var + epsilon)
    if not np.isfinite(numbers).all():
        return m.no("some variance is zero or negative")
    return b.Scale(m.x, numbers.astype(dtype), (bias - mean * numbers).astype(dtype))


@rewrite(lambda p, x, scale, bias: p.Scale(x, scale, bias), level=0)
def legalize_scale(b: Builder, m: Match) -> Value | None:
    """A factor and a summand that the format's op does not take: for other ranks than 4, and computed ones.

    Given:
        graph g(%x: f32[1,2,3]) {
          %y: f32[1,2,3] = Scale(%x, f32[2](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3]) {
          %0: f32[1,2,3] = Mul(%x, f32[2,1](1.0, 2.0))
          %y: f32[1,2,3] = Add(%0, f32[2,1](3.0, 4.0))
          return %y
        }
    """
    rank = m.x.type.rank
    if rank is None or is_encodable(m.root):
        return m.no("the format has it, or the rank is not known")

    def along_channels(v: Value) -> Any:
        if rank <= 2:
            return v
        if v.data is not None:
            return v.data.numpy().reshape(-1, *(1,) * (rank - 2))
        return b.Unsqueeze(v, axes=tuple(range(1, rank - 1)))

    return b.Add(b.Mul(m.x, along_channels(m.scale)), along_channels(m.bias))


@rewrite(lambda p, x, w: p.Conv(x, w, ...) | p.ConvTranspose(x, w, ...), level=0)
def legalize_conv_1d(b: Builder, m: Match) -> Value | None:
    """One spatial axis becomes two, the second of size 1.

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
def legalize_pool_1d(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """One spatial axis becomes two, the second of size 1.

    Given:
        graph g(%x: f32[1,1,6]) {
          %y: f32[1,1,3] = AveragePool(%x) {kernel=(2,), strides=(2,), pads=(0, 0), dilations=(1,)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,6]) {
          %0: f32[1,1,6,1] = Unsqueeze(%x) {axes=(3,)}
          %1: f32[1,1,3,1] = AveragePool(%0) {kernel=(2, 1), strides=(2, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,1,3] = Squeeze(%1) {axes=(3,)}
          return %y
        }
    """
    a = m.root.attrs
    if len(a["kernel"]) != 1:
        return m.no("it does not have one spatial axis")
    wide: dict[str, Any] = {k: (*a[k], 1) for k in ("kernel", "strides", "dilations") if k in a}
    wide["pads"] = (a["pads"][0], 0, a["pads"][1], 0)
    # The flat indices of MaxPool's second output do not change: the new axis is the last one, and of size 1.
    made = b.node(m.root.op, [b.Unsqueeze(m.x, axes=(3,))], {**a, **wide}, len(m.root.outputs)).outputs
    return tuple(b.Squeeze(y, axes=(3,)) for y in made)


@rewrite(lambda p, x: p.GlobalAveragePool(x) | p.GlobalMaxPool(x), level=0)
def legalize_global_pool_1d(b: Builder, m: Match) -> Value | None:
    """One spatial axis becomes two, the second of size 1.

    Given:
        graph g(%x: f32[1,2,6]) {
          %y: f32[1,2,1] = GlobalMaxPool(%x)
          return %y
        }
    Result:
        graph g(%x: f32[1,2,6]) {
          %0: f32[1,2,6,1] = Unsqueeze(%x) {axes=(3,)}
          %1: f32[1,2,1,1] = GlobalMaxPool(%0)
          %y: f32[1,2,1] = Squeeze(%1) {axes=(3,)}
          return %y
        }
    """
    if m.x.type.rank != 3:
        return m.no("it does not have one spatial axis")
    return b.Squeeze(b.node(m.root.op, [b.Unsqueeze(m.x, axes=(3,))], {}).output, axes=(3,))


@rewrite(lambda p, x: p.LpPool(x, as_="pool") | p.GlobalLpPool(x, as_="pool"), level=0)
def legalize_lp_pool(b: Builder, m: Match) -> Value | None:
    """The p-th root of the sum of p-th powers, by way of their mean.

    Given:
        graph g(%x: f32[1,1,4,4]) {
          %y: f32[1,1,2,2] = LpPool(%x) {kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,4,4]) {
          %0: f32[1,1,4,4] = Square(%x)
          %1: f32[1,1,2,2] = AveragePool(%0) {kernel=(2, 2), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1), count_include_pad=True}
          %2: f32[1,1,2,2] = Mul(%1, f32[](4.0))
          %y: f32[1,1,2,2] = Sqrt(%2)
          return %y
        }
    """  # noqa: E501
    attrs = dict(m.pool.attrs)
    p = attrs.pop("p", 2)
    if p not in (1, 2) or (m.x.type.rank or 0) < 3:
        return m.no(f"p is {p}, or the rank is not known")
    powers = b.Abs(m.x) if p == 1 else b.Square(m.x)
    if m.pool.op == "GlobalLpPool":
        total = b.ReduceSum(powers, axes=tuple(range(2, m.x.type.rank)))
    elif attrs.get("ceil_mode", False):
        return m.no("windows that stand out have fewer elements")
    else:
        mean = b.AveragePool(powers, **attrs, count_include_pad=True)
        total = b.Mul(mean, float(np.prod(attrs["kernel"])))
    return total if p == 1 else b.Sqrt(total)


@rewrite(lambda p, x, w: p.Conv(x, w, ..., as_="conv") | p.ConvTranspose(x, w, ..., as_="conv"), level=0)
def legalize_groups(b: Builder, m: Match) -> Value | None:
    """Groups that the format does not have, transposed ones and those with computed weights, one convolution each.

    Given:
        graph g(%x: f32[1,2,3,3], %w: f32[4,1,1,1]) {
          %y: f32[1,4,3,3] = Conv(%x, %w) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), group=2}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,3,3], %w: f32[4,1,1,1]) {
          %0: f32[1,1,3,3], %1: f32[1,1,3,3] = Split(%x) {axis=1, sizes=(1, 1)}
          %2: f32[2,1,1,1], %3: f32[2,1,1,1] = Split(%w) {sizes=(2, 2)}
          %4: f32[1,2,3,3] = Conv(%0, %2) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %5: f32[1,2,3,3] = Conv(%1, %3) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          %y: f32[1,4,3,3] = Concat(%4, %5) {axis=1}
          return %y
        }
    """
    conv, w = m.conv, m.w.type.shape
    groups = conv.attrs.get("group", 1)
    if groups == 1 or is_encodable(conv) or w is None or not all(isinstance(d, int) for d in w[:2]):
        return m.no("it is one group, the format has it, or the shape of the weights is not known")
    if len(conv.attrs["strides"]) != 2 or conv.attrs.get("auto_pad"):
        return m.no("it does not have two spatial axes, or pads automatically")
    first, second = int(w[0]) // groups, int(w[1])
    ins, outs = (second, first) if conv.op == "Conv" else (first, second)
    xs = b.Split(m.x, axis=1, sizes=(ins,) * groups, n_outputs=groups)
    ws = b.Split(m.w, axis=0, sizes=(first,) * groups, n_outputs=groups)
    bias = conv.input(2) if conv.has_input(2) else None
    biases = (None,) * groups if bias is None else b.Split(bias, axis=0, sizes=(outs,) * groups, n_outputs=groups)
    ys = [b.node(conv.op, row, {**conv.attrs, "group": 1}).output for row in zip(xs, ws, biases, strict=True)]
    return b.Concat(*ys, axis=1)


@rewrite(
    lambda p, x: p.AveragePool(x, count_include_pad=True, ceil_mode=False, pads=any, auto_pad="", as_="pool"), level=0
)
def legalize_average_pads(b: Builder, m: Match) -> Value | None:
    """Padding that counts, where the format's op does not have it, as padding in front of the pooling.

    Given:
        graph g(%x: f32[1,1,3,3]) {
          %y: f32[1,1,3,3] = AveragePool(%x) {kernel=(2, 2), strides=(1, 1), pads=(0, 0, 1, 1), dilations=(1, 1), count_include_pad=True}
          return %y
        }
    Result:
        graph g(%x: f32[1,1,3,3]) {
          %0: f32[1,1,4,4] = Pad(%x, i32[8](0, 0, 0, 0, 0, 1, 0, 1))
          %y: f32[1,1,3,3] = AveragePool(%0) {kernel=(2, 2), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    if is_encodable(m.pool) or m.x.type.rank != 4:
        return m.no("the format has it, or it does not have two spatial axes")
    top, left, bottom, right = m.pool.attrs["pads"]
    padded = b.Pad(m.x, np.array([0, 0, 0, 0, top, bottom, left, right], np.int32))
    return b.AveragePool(padded, **{**m.pool.attrs, "pads": (0, 0, 0, 0), "count_include_pad": False})


@rewrite(lambda p, x: p.LayerNorm(x, ..., as_="norm") | p.RMSNorm(x, ..., as_="norm"), level=0)
def legalize_norm_operands(b: Builder, m: Match) -> Value | None:
    """Scale and bias that the format's op does not take, behind it.

    Given:
        graph g(%x: f32[2,3], %s: f32[3]) {
          %y: f32[2,3] = RMSNorm(%x, %s)
          return %y
        }
    Result:
        graph g(%x: f32[2,3], %s: f32[3]) {
          %0: f32[2,3] = RMSNorm(%x)
          %y: f32[2,3] = Mul(%0, %s)
          return %y
        }
    """
    if not any(m.norm.has_input(i) for i in (1, 2)) or is_encodable(m.norm):
        return m.no("the format has it, or it has neither")
    y = b.node(m.norm.op, [m.x], m.norm.attrs).output
    y = b.Mul(y, m.norm.input(1)) if m.norm.has_input(1) else y
    return b.Add(y, m.norm.input(2)) if m.norm.has_input(2) else y


@rewrite(lambda p, x, scale, bias: p.InstanceNorm(x, scale, bias), level=0)
def legalize_instance_norm(b: Builder, m: Match) -> Value | None:
    """The spatial axes of each channel are normalized as one row.

    Given:
        graph g(%x: f32[1,2,5]) {
          %y: f32[1,2,5] = InstanceNorm(%x, f32[2](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[1,2,5]) {
          %0: f32[1,2,5] = LayerNorm(%x)
          %y: f32[1,2,5] = Scale(%0, f32[2](1.0, 2.0), f32[2](3.0, 4.0))
          return %y
        }
    """
    if m.x.type.rank is None:
        return m.no("the rank is not known")
    rows = b.LayerNorm(m.x, axis=2 - m.x.type.rank, epsilon=m.root.attrs.get("epsilon", 1e-5))
    return _per_channel(b, rows, m.scale, m.bias)


@rewrite(lambda p, x: p.GroupNorm(x, ..., as_="norm"), level=0)
def legalize_group_norm(b: Builder, m: Match) -> Value | None:
    """Scale and bias behind the normalization; a single group is all axes but the first.

    Given:
        graph g(%x: f32[1,4,5]) {
          %y: f32[1,4,5] = GroupNorm(%x, f32[4](1.0, 2.0, 3.0, 4.0), f32[4](3.0, 4.0, 5.0, 6.0)) {num_groups=2}
          return %y
        }
    Result:
        graph g(%x: f32[1,4,5]) {
          %0: f32[1,4,5] = GroupNorm(%x) {num_groups=2}
          %y: f32[1,4,5] = Scale(%0, f32[4](1.0, 2.0, 3.0, 4.0), f32[4](3.0, 4.0, 5.0, 6.0))
          return %y
        }
    """
    norm, rank = m.norm, m.x.type.rank
    if is_encodable(norm) or rank is None:
        return m.no("the format has it, or the rank is not known")
    epsilon = norm.attrs.get("epsilon", 1e-5)
    scale, bias = (norm.input(i) if norm.has_input(i) else None for i in (1, 2))
    if norm.attrs["num_groups"] == 1:
        return _per_channel(b, b.LayerNorm(m.x, axis=1 - rank, epsilon=epsilon), scale, bias)
    if scale is None and bias is None:
        return m.no("it has neither scale nor bias")
    return _per_channel(b, b.GroupNorm(m.x, num_groups=norm.attrs["num_groups"], epsilon=epsilon), scale, bias)


def _per_channel(b: Builder, x: Value, scale: Value | None, bias: Value | None) -> Value:
    """x * scale + bias, where they are there and change something: in as few nodes as the format allows."""
    scale, bias = (None if v is not None and v.data is not None and bool((v.data.numpy() == n).all()) else v
                   for v, n in ((scale, 1), (bias, 0)))  # fmt: skip
    if scale is not None and bias is not None:
        return b.Scale(x, scale, bias)
    rank = x.type.rank or 2
    for v, apply in ((scale, b.Mul), (bias, b.Add)):
        if v is not None:
            wide = b.Unsqueeze(v, axes=tuple(range(1, rank - 1))) if v.data is None else v.data.numpy()
            x = apply(x, wide.reshape(-1, *(1,) * (rank - 2)) if isinstance(wide, np.ndarray) else wide)
    return x


def shape_of(b: Builder, x: Value) -> Any:
    """The shape of a value as i32: a constant where it is known, or known but for one dimension."""
    shape = x.type.shape
    if shape is not None:
        fixed = [d if isinstance(d, int) and d > 0 else -1 for d in shape]
        if fixed.count(-1) <= 1:
            return np.array(fixed, np.int32)

    return b.Cast(b.Shape(x), to=DType.I32)


@rewrite(
    lambda p, x, w: (
        p.LSTM(x, w, ..., direction="reverse")
        | p.GRU(x, w, ..., direction="reverse")
        | p.RNN(x, w, ..., direction="reverse")
    ),
    level=0,
)
def legalize_backward(b: Builder, m: Match) -> tuple[Value, ...] | None:
    """Backwards is forwards over the reversed sequence.

    Given:
        graph g(%x: f32[3,1,1]) {
          %y: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%x, f32[1,1,1](2.0), f32[1,1,1](3.0)) {hidden=1, direction="reverse"}
          return %y, %h
        }
    Result:
        graph g(%x: f32[3,1,1]) {
          %0: f32[3,1,1] = Reverse(%x) {axes=(0,)}
          %1: f32[3,1,1,1], %h: f32[1,1,1] = RNN(%0, f32[1,1,1](2.0), f32[1,1,1](3.0)) {hidden=1}
          %y: f32[3,1,1,1] = Reverse(%1) {axes=(0,)}
          return %y, %h
        }
    """
    if m.root.has_input(4):
        return m.no("sequences have lengths of their own")
    attrs = {**m.root.attrs, "direction": "forward"}
    first, *rest = b.node(
        m.root.op, [b.Reverse(m.x, axes=(0,)), *m.root.inputs[1:]], attrs, len(m.root.outputs)
    ).outputs
    return (b.Reverse(first, axes=(0,)), *rest)
