"""Math that the file format has no code for, in terms of math that it has."""

from __future__ import annotations

import numpy as np

from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ops import Builder, get


def is_encodable(node: Node) -> bool:
    """The format has a form of its own for this node as it stands."""
    op = get(node.op)
    return op.mnn is not None and op.mnn.encode(node) is not None


@rewrite(lambda p, x: p.HardSigmoid(x), level=0)
def legalize_hard_sigmoid(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = HardSigmoid(%x) {alpha=0.5, beta=0.25}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Mul(%x, f32[](0.5))
          %1: f32[4] = Add(%0, f32[](0.25))
          %y: f32[4] = Clip(%1) {min=0.0, max=1.0}
          return %y
        }
    """
    a = get("HardSigmoid").bind(1, m.root.attrs)
    return b.Clip(b.Add(b.Mul(m.x, a["alpha"]), a["beta"]), min=0.0, max=1.0)


@rewrite(lambda p, x: p.Softplus(x), level=0)
def legalize_softplus(b: Builder, m: Match) -> Value:
    """log(1 + e^x) as max(x, 0) + log1p(e^-|x|), which cannot overflow.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[4] = Softplus(%x)
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %0: f32[4] = Relu(%x)
          %1: f32[4] = Abs(%x)
          %2: f32[4] = Neg(%1)
          %3: f32[4] = Exp(%2)
          %4: f32[4] = Log1p(%3)
          %y: f32[4] = Add(%0, %4)
          return %y
        }
    """
    return _softplus(b, m.x)


def _softplus(b: Builder, x: Value) -> Value:
    return b.Add(b.Relu(x), b.Log1p(b.Exp(b.Neg(b.Abs(x)))))


@rewrite(lambda p, x: p.Mish(x), level=0)
def legalize_mish(b: Builder, m: Match) -> Value:
    """x * tanh(softplus(x))"""
    return b.Mul(m.x, b.Tanh(_softplus(b, m.x)))


@rewrite(lambda p, x: p.Softsign(x), level=0)
def legalize_softsign(b: Builder, m: Match) -> Value:
    """x / (1 + |x|)"""
    return b.Div(m.x, b.Add(b.Abs(m.x), 1.0))


@rewrite(lambda p, x: p.Celu(x), level=0)
def legalize_celu(b: Builder, m: Match) -> Value:
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1))"""
    alpha = m.root.attrs.get("alpha", 1.0)
    return b.Add(b.Relu(m.x), b.Min(b.Mul(b.Expm1(b.Div(m.x, alpha)), alpha), 0.0))


@rewrite(lambda p, x: p.ThresholdedRelu(x), level=0)
def legalize_thresholded_relu(b: Builder, m: Match) -> Value:
    """x where x > alpha, else 0"""
    return b.Where(b.Greater(m.x, m.root.attrs.get("alpha", 1.0)), m.x, np.zeros((), m.x.type.dtype.numpy))


@rewrite(lambda p, x: p.Shrink(x), level=0)
def legalize_shrink(b: Builder, m: Match) -> Value | None:
    """x + bias below -lambd, x - bias above lambd, 0 between"""
    if not m.x.type.dtype.is_float:
        return m.no("integers are left to the engine")
    a = get("Shrink").bind(1, m.root.attrs)
    zero = np.zeros((), m.x.type.dtype.numpy)
    inner = b.Where(b.Greater(m.x, a["lambd"]), b.Sub(m.x, a["bias"]), zero)
    return b.Where(b.Less(m.x, -a["lambd"]), b.Add(m.x, a["bias"]), inner)


@rewrite(lambda p, x: p.Not(x), level=0)
def legalize_not(b: Builder, m: Match) -> Value:
    """Given:
        graph g(%x: bool[4]) {
          %y: bool[4] = Not(%x)
          return %y
        }
    Result:
        graph g(%x: bool[4]) {
          %0: i32[4] = Cast(%x) {to=i32}
          %y: bool[4] = Equal(%0, i32[](0))
          return %y
        }
    """
    return b.Equal(b.Cast(m.x, to=DType.I32), np.int32(0))


@rewrite(lambda p, x: p.Cast(x, to=DType.BOOL), level=0)
def legalize_cast_bool(b: Builder, m: Match) -> Value:
    """Runtimes of the format keep the number in a cast to bool; a comparison makes it 0 or 1.

    Given:
        graph g(%x: f32[4]) {
          %y: bool[4] = Cast(%x) {to=bool}
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: bool[4] = NotEqual(%x, f32[](0.0))
          return %y
        }
    """
    return b.NotEqual(m.x, np.zeros((), m.x.type.dtype.numpy))


@rewrite(lambda p, x: p.Clip(x), level=0)
def legalize_clip(b: Builder, m: Match) -> Value | None:
    """Clip of integers as Max and Min."""
    if is_encodable(m.root):
        return m.no("the format has it")
    a = get("Clip").bind(1, m.root.attrs)
    dtype, y = m.x.type.dtype, m.x
    info = np.iinfo(dtype.numpy) if dtype.is_int else np.finfo(dtype.numpy)
    if a["min"] > float(info.min):
        y = b.Max(y, np.asarray(np.ceil(a["min"]) if dtype.is_int else a["min"], dtype.numpy))
    if a["max"] < float(info.max):
        y = b.Min(y, np.asarray(np.floor(a["max"]) if dtype.is_int else a["max"], dtype.numpy))
    return y if y is not m.x else b.Identity(m.x)


@rewrite(lambda p, x, slope: p.PRelu(x, slope), level=0)
def legalize_prelu(b: Builder, m: Match) -> Value | None:
    """max(x, 0) + slope * min(x, 0), where the slope is not one number per channel."""
    if is_encodable(m.root):
        return m.no("the format has it")
    zero = np.zeros((), m.x.type.dtype.numpy)
    return b.Add(b.Max(m.x, zero), b.Mul(m.slope, b.Min(m.x, zero)))


@rewrite(lambda p, x: p.LogSoftmax(x), level=0)
def legalize_log_softmax(b: Builder, m: Match) -> Value:
    """x - max - log(sum(exp(x - max)))"""
    axis = (m.root.attrs.get("axis", -1),)
    shifted = b.Sub(m.x, b.ReduceMax(m.x, axes=axis))
    return b.Sub(shifted, b.Log(b.ReduceSum(b.Exp(shifted), axes=axis)))


@rewrite(
    lambda p, x: p.ReduceL1(x) | p.ReduceL2(x) | p.ReduceLogSum(x) | p.ReduceLogSumExp(x) | p.ReduceSumSquare(x),
    level=0,
)
def legalize_reduction(b: Builder, m: Match) -> Value | None:
    """Norms and logarithms of sums in terms of ReduceSum."""
    if is_encodable(m.root):
        return m.no("the format has it")
    a = {"axes": m.root.attrs.get("axes"), "keepdims": m.root.attrs.get("keepdims", True)}
    match m.root.op:
        case "ReduceL1":
            return b.ReduceSum(b.Abs(m.x), **a)
        case "ReduceL2":
            return b.Sqrt(b.ReduceSum(b.Square(m.x), **a)) if m.x.type.dtype.is_float else m.no("integers")
        case "ReduceSumSquare":
            return b.ReduceSum(b.Square(m.x), **a)
        case "ReduceLogSum":
            return b.Log(b.ReduceSum(m.x, **a))
        case _:
            top = b.ReduceMax(m.x, axes=a["axes"], keepdims=True)
            # An infinite maximum would make NaN of inf - inf.
            safe = b.Where(b.Less(b.Abs(top), np.float32(np.inf)), top, np.float32(0))
            total = b.Log(b.ReduceSum(b.Exp(b.Sub(m.x, safe)), axes=a["axes"], keepdims=True))
            y = b.Add(total, safe)
            return y if a["keepdims"] else b.Squeeze(y, axes=a["axes"] or tuple(range(m.x.type.rank or 0)))


@rewrite(lambda p, x: p.ArgMax(x) | p.ArgMin(x), level=0)
def legalize_arg(b: Builder, m: Match) -> Value | None:
    """The format's form drops the axis; an Unsqueeze brings it back.

    Given:
        graph g(%x: f32[4,3]) {
          %y: i64[4,1] = ArgMax(%x) {axis=1}
          return %y
        }
    Result:
        graph g(%x: f32[4,3]) {
          %0: i64[4] = ArgMax(%x) {axis=1, keepdims=False}
          %y: i64[4,1] = Unsqueeze(%0) {axes=(1,)}
          return %y
        }
    """
    if not m.root.attrs.get("keepdims", True) or m.root.attrs.get("select_last_index", False):
        return m.no("it has the form of the format, or none")
    axis = m.root.attrs.get("axis", 0)
    flat = b.node(m.root.op, [m.x], {**m.root.attrs, "keepdims": False}).output
    rank = m.x.type.rank
    if axis < 0 and rank is None:
        return m.no("the rank is not known")
    return b.Unsqueeze(flat, axes=(axis if axis >= 0 else axis + (rank or 0),))


@rewrite(lambda p, x, i: p.Gather(x, i), level=0)
def legalize_gather(b: Builder, m: Match) -> Value | None:
    """Negative indices count from the end; runtimes of the format take them for out of range.

    Given:
        graph g(%x: f32[4]) {
          %y: f32[2] = Gather(%x, i32[2](-1, 0))
          return %y
        }
    Result:
        graph g(%x: f32[4]) {
          %y: f32[2] = Gather(%x, i32[2](3, 0))
          return %y
        }
    """
    if m.i.data is None:
        return m.no("the indices are computed")
    index = m.i.data.numpy()
    if not (index < 0).any():
        return m.no("no index is negative")
    axis = m.root.attrs.get("axis", 0)
    shape = m.x.type.shape
    extent = None if shape is None else shape[axis]
    if not isinstance(extent, int):
        return m.no("the extent of the axis is not known")
    return b.Gather(m.x, np.where(index < 0, index + extent, index).astype(index.dtype), axis=axis)
