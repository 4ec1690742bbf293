"""Normalizations that sources spell out."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.pattern import Match
from minnow.optimizer.rewrite import rewrite
from minnow.schema.ir import DType, LazyBlob, Node, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _deviation(p: Any, variance: Any) -> Any:
    return p.Sqrt(p.Add(variance, p.const("epsilon")))


def _centered(p: Any, x: Any) -> Any:
    return p.Sub(x, p.ReduceMean(x, keepdims=True, as_="mean"))


def _squared(p: Any, x: Any) -> Any:
    return p.Square(x) | p.Mul(x, x) | p.Pow(x, 2.0)


def _variance(p: Any, d: Any) -> Any:
    return p.Add(p.ReduceMean(_squared(p, d), keepdims=True, as_="spread"), p.const("epsilon"))


def _over_root(p: Any, x: Any, variance: Any) -> Any:
    """x / sqrt(variance), in its spellings."""
    return p.Div(x, p.Sqrt(variance)) | p.Mul(x, p.Rsqrt(variance) | p.Reciprocal(p.Sqrt(variance)))


def _last_axes(node: Node) -> int | None:
    """The first of the axes that are reduced, from the end, when these are the last ones."""
    axes, rank = node.attrs.get("axes"), node.input(0).type.rank
    if axes is None:
        return None if rank is None else -rank
    if rank is not None:
        axes = [a % rank - rank for a in axes]
    return -len(axes) if axes and sorted(axes) == list(range(-len(axes), 0)) else None


def _epsilon(m: Match) -> float | None:
    value: Value = m.epsilon
    if value.type.count != 1 or value.data is None:
        return None
    epsilon = float(value.data.numpy().reshape(-1)[0])
    # As an attribute it has the precision of float32.
    return (
        epsilon
        if epsilon >= 0 and (value.type.dtype is not DType.F64 or float(np.float32(epsilon)) == epsilon)
        else None
    )


@rewrite(lambda p, x: _over_root(p, _centered(p, x), _variance(p, _centered(p, x))))
def fuse_layer_norm(b: Builder, m: Match) -> Value | None:
    """(x - mean) / sqrt(mean of squared deviations + epsilon) over the last axes

    Given:
        graph g(%x: f32[2,4]) {
          %a: f32[2,1] = ReduceMean(%x) {axes=(-1,)}
          %b: f32[2,4] = Sub(%x, %a)
          %c: f32[2,4] = Mul(%b, %b)
          %d: f32[2,1] = ReduceMean(%c) {axes=(1,)}
          %e: f32[2,1] = Add(%d, f32[](0.001))
          %f: f32[2,1] = Sqrt(%e)
          %y: f32[2,4] = Div(%b, %f)
          return %y
        }
    Result:
        graph g(%x: f32[2,4]) {
          %y: f32[2,4] = LayerNorm(%x) {epsilon=0.001}
          return %y
        }
    """
    axis, epsilon = _last_axes(m.mean), _epsilon(m)
    if axis is None or axis != _last_axes(m.spread):
        return m.no("mean and deviation are not taken over the same last axes")
    if epsilon is None:
        return m.no("epsilon is not one number that is not negative")
    return b.LayerNorm(m.x, axis=axis, epsilon=epsilon)


@rewrite(lambda p, x: _over_root(p, x, _variance(p, x)))
def fuse_rms_norm(b: Builder, m: Match) -> Value | None:
    """x / sqrt(mean(x^2) + epsilon) over the last axes

    Given:
        graph g(%x: f32[2,4]) {
          %a: f32[2,4] = Pow(%x, f32[](2.0))
          %b: f32[2,1] = ReduceMean(%a) {axes=(-1,)}
          %c: f32[2,1] = Add(%b, f32[](0.001))
          %d: f32[2,1] = Rsqrt(%c)
          %y: f32[2,4] = Mul(%x, %d)
          return %y
        }
    Result:
        graph g(%x: f32[2,4]) {
          %y: f32[2,4] = RMSNorm(%x) {epsilon=0.001}
          return %y
        }
    """
    axis, epsilon = _last_axes(m.spread), _epsilon(m)
    if axis is None:
        return m.no("the mean is not taken over the last axes")
    if epsilon is None:
        return m.no("epsilon is not one number that is not negative")
    return b.RMSNorm(m.x, axis=axis, epsilon=epsilon)


def _tail(m: Match, constant: Value) -> Value | None:
    """The constant with one number per normalized element, which is the form that files have."""
    x, axis = m.x.type.shape, m.norm.attrs.get("axis", -1)
    if x is None or constant.data is None or not -len(x) <= axis < len(x):
        return None
    tail = x[axis:]
    shape = constant.data.shape
    if not all(isinstance(d, int) for d in tail) or len(shape) > len(x):
        return None
    # Axes in front of the normalized ones must not differ.
    front, last = shape[: max(len(shape) - len(tail), 0)], shape[max(len(shape) - len(tail), 0) :]
    if any(d != 1 for d in front):
        return None
    full = (1,) * (len(tail) - len(last)) + tuple(last)
    if any(d not in (1, t) for d, t in zip(full, tail, strict=True)):
        return None
    blob, wanted = constant.data, tuple(int(d) for d in tail)
    if tuple(shape) == wanted:
        return constant
    lazy = LazyBlob(lambda: np.broadcast_to(blob.numpy().reshape(full), wanted), blob.dtype, wanted)
    return Value.constant(lazy, constant.name)


def _rebuilt(b: Builder, norm: Node, x: Value, *affine: Value | Array | None) -> Value:
    return b.node(norm.op, [x, *affine], norm.attrs).output


@rewrite(lambda p, x: p.Mul(p.LayerNorm(x, as_="norm") | p.RMSNorm(x, as_="norm"), p.const("k")))
def fuse_norm_scale(b: Builder, m: Match) -> Value | None:
    """A constant factor behind a normalization, per normalized element.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = RMSNorm(%x)
          %y: f32[2,3] = Mul(%a, f32[3](1.0, 2.0, 3.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = RMSNorm(%x, f32[3](1.0, 2.0, 3.0))
          return %y
        }
    """
    scale = _tail(m, m.k)
    if scale is None:
        return m.no(f"the factor {m.k!r} is not one number per normalized element")
    return _rebuilt(b, m.norm, m.x, scale)


@rewrite(lambda p, x: p.Add(p.LayerNorm(x, ..., as_="norm"), p.const("k")))
def fuse_norm_bias(b: Builder, m: Match) -> Value | None:
    """A constant summand behind a normalization, per normalized element.

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[2,3] = LayerNorm(%x, f32[3](1.0, 2.0, 3.0))
          %y: f32[2,3] = Add(%a, f32[3](4.0, 5.0, 6.0))
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = LayerNorm(%x, f32[3](1.0, 2.0, 3.0), f32[3](4.0, 5.0, 6.0))
          return %y
        }
    """
    norm: Node = m.norm
    bias = _tail(m, m.k)
    if bias is None:
        return m.no(f"the summand {m.k!r} is not one number per normalized element")
    if norm.has_input(2):
        return m.no("the normalization has a bias already")
    shape = bias.data.shape if bias.data is not None else ()
    return _rebuilt(b, norm, m.x, norm.input(1) if norm.has_input(1) else np.ones(shape, bias.type.dtype.numpy), bias)


@rewrite(
    lambda p, x: (lambda e: p.Div(e, p.ReduceSum(e, keepdims=True, as_="total")))(
        p.Exp(p.Sub(x, p.ReduceMax(x, keepdims=True, as_="top")))
    )
)
def fuse_softmax(b: Builder, m: Match) -> Value | None:
    """exp(x - max) / sum(exp(x - max)) along one axis

    Given:
        graph g(%x: f32[2,3]) {
          %a: f32[1,3] = ReduceMax(%x) {axes=(0,)}
          %b: f32[2,3] = Sub(%x, %a)
          %c: f32[2,3] = Exp(%b)
          %d: f32[1,3] = ReduceSum(%c) {axes=(-2,)}
          %y: f32[2,3] = Div(%c, %d)
          return %y
        }
    Result:
        graph g(%x: f32[2,3]) {
          %y: f32[2,3] = Softmax(%x) {axis=0}
          return %y
        }
    """
    rank = m.x.type.rank
    axes = [node.attrs.get("axes") for node in (m.top, m.total)]
    if rank is None or any(a is None or len(a) != 1 for a in axes) or axes[0][0] % rank != axes[1][0] % rank:
        return m.no("maximum and sum are not taken along the same one axis")
    return b.Softmax(m.x, axis=axes[0][0])


@rewrite(lambda p, x: p.ReduceMean(x, axes=lambda a: a is not None and sorted(a) in ([2, 3], [-2, -1]), as_="mean"))
def fuse_global_average(b: Builder, m: Match) -> Value | None:
    """The mean over height and width is a global pooling, which works on channel blocks.

    Given:
        graph g(%x: f32[1,3,5,5]) {
          %y: f32[1,3] = ReduceMean(%x) {axes=(2, 3), keepdims=False}
          return %y
        }
    Result:
        graph g(%x: f32[1,3,5,5]) {
          %0: f32[1,3,1,1] = GlobalAveragePool(%x)
          %y: f32[1,3] = Squeeze(%0) {axes=(2, 3)}
          return %y
        }
    """
    if m.x.type.rank != 4 or not m.x.type.dtype.is_float:
        return m.no("the input does not have the axes N, C, H, W")
    pooled: Value = b.GlobalAveragePool(m.x)
    return pooled if m.mean.attrs.get("keepdims", True) else b.Squeeze(pooled, axes=(2, 3))
