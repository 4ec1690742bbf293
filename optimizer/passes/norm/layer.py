"""Normalizations that sources spell out."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import DType, LazyBlob, Node, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _mean(p: Any, x: Any) -> Any:
    return p.ReduceMean(x, keepdims=True, as_="mean")


def _centered(p: Any, x: Any) -> Any:
    return p.Sub(x, _mean(p, x))


def _squared(p: Any, x: Any) -> Any:
    return p.Square(x) | p.Mul(x, x) | p.Pow(x, 2.0)


def _spread(p: Any, squares: Any) -> Any:
    """The mean of squares, with an epsilon or without."""
    mean = p.ReduceMean(squares, keepdims=True, as_="spread")
    return p.Add(mean, p.const("epsilon")) | mean


def _variance(p: Any, x: Any) -> Any:
    return _spread(p, _squared(p, _centered(p, x)) | p.SquaredDifference(x, _mean(p, x)))


def _root(p: Any, variance: Any) -> Any:
    return p.Rsqrt(variance) | p.Reciprocal(p.Sqrt(variance)) | p.Div(1.0, p.Sqrt(variance))


def _over_root(p: Any, x: Any, variance: Any) -> Any:
    """x / sqrt(variance), in its spellings, with a factor in any place."""
    gained = p.Mul(x, p.const("gain"))
    return (
        p.Div(x, p.Sqrt(variance))
        | p.Mul(x, _root(p, variance))
        | p.Mul(x, p.Mul(_root(p, variance), p.const("gain")))
        | p.Mul(gained, _root(p, variance))
        | p.Div(gained, p.Sqrt(variance))
    )


def _last_axes(node: Node) -> int | None:
    """The first of the axes that are reduced, from the end, when these are the last ones."""
    axes, rank = node.attrs.get("axes"), node.input(0).type.rank
    if axes is None:
        return None if rank is None else -rank
    if rank is not None:
        axes = [a % rank - rank for a in axes]
    return -len(axes) if axes and sorted(axes) == list(range(-len(axes), 0)) else None


def _epsilon(m: Match) -> float | None:
    if "epsilon" not in m.bound:
        return 0.0
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


def _moved(p: Any, x: Any) -> Any:
    """x / sqrt(variance) + (bias - mean / sqrt(variance)), which needs no deviations."""
    factor = _root(p, _variance(p, x))
    factor = factor | p.Mul(factor, p.const("gain"))
    shift = p.Mul(_mean(p, x), factor)
    return (
        p.Add(p.Mul(x, factor), p.Sub(p.const("bias"), shift))
        | p.Add(p.Mul(x, factor), p.Mul(p.Neg(_mean(p, x)), factor))
        | p.Sub(p.Mul(x, factor), shift)
    )


@rewrite(lambda p, x: _over_root(p, _centered(p, x), _variance(p, x)) | _moved(p, x))
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
    return _normalized(b, m, "LayerNorm", axis, epsilon)


@rewrite(lambda p, x: _over_root(p, x, _spread(p, _squared(p, x))))
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
    return _normalized(b, m, "RMSNorm", axis, epsilon)


def _normalized(b: Builder, m: Match, op: str, axis: int, epsilon: float) -> Value | None:
    """The normalization, with the factor and the summand that its spelling has."""
    affine: list[Value | Array] = []
    for name in ("gain", "bias"):
        if name in m.bound:
            constant = _tail(m.x, axis, m.bound[name])
            if constant is None:
                return m.no(f"{m.bound[name]!r} is not one number per normalized element")
            if name == "bias" and not affine:
                affine.append(np.ones(constant.type.static_shape, m.x.type.dtype.numpy))
            affine.append(constant)
    return b.node(op, [m.x, *affine], {"axis": axis, "epsilon": epsilon}).output


def _tail(value: Value, axis: int, constant: Value) -> Value | None:
    """The constant with one number per normalized element, which is the form that files have."""
    x = value.type.shape
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
    scale = _tail(m.x, m.norm.attrs.get("axis", -1), m.k)
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
    bias = _tail(m.x, m.norm.attrs.get("axis", -1), m.k)
    if bias is None:
        return m.no(f"the summand {m.k!r} is not one number per normalized element")
    if norm.has_input(2):
        return m.no("the normalization has a bias already")
    shape = bias.data.shape if bias.data is not None else ()
    return _rebuilt(b, norm, m.x, norm.input(1) if norm.has_input(1) else np.ones(shape, bias.type.dtype.numpy), bias)
