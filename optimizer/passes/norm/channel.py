"""Normalizations of channels, and of groups of them, that sources spell out."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match, same_shape
from minnow.schema.ir import DType, Node, Value
from minnow.schema.ir.type import same_dim
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]


def _channels(x: Value) -> int | None:
    shape = x.type.shape
    return shape[1] if shape is not None and len(shape) > 2 and isinstance(shape[1], int) else None


def _per_channel(x: Value, constant: Value) -> Array | None:
    """The numbers of a constant that is the same all over a channel."""
    channels, shape = _channels(x), constant.type.shape
    if channels is None or constant.data is None or shape is None or constant.type.dtype is not x.type.dtype:
        return None
    full = (1,) * ((x.type.rank or 0) - len(shape)) + tuple(shape)
    if len(full) != x.type.rank or any(d != 1 for i, d in enumerate(full) if i != 1) or full[1] not in (1, channels):
        return None
    return np.broadcast_to(constant.data.numpy().reshape(-1), (channels,))


def _is_rows(norm: Node, first: int) -> bool:
    """A LayerNorm over the axes from this one on."""
    rank = norm.input(0).type.rank
    return norm.op == "LayerNorm" and rank is not None and rank > first and norm.attrs.get("axis", -1) % rank == first


@rewrite(
    lambda p, x: (
        p.Mul(p.LayerNorm(x, as_="norm"), p.const("factor")) | p.Add(p.LayerNorm(x, as_="norm"), p.const("summand"))
    )
)
def fuse_instance_norm(b: Builder, m: Match) -> Value | None:
    """Numbers per channel behind a normalization of each channel.

    Given:
        graph g(%x: f32[N,2,5]) {
          %a: f32[N,2,5] = LayerNorm(%x) {epsilon=0.001}
          %y: f32[N,2,5] = Mul(%a, f32[2,1](3.0, 4.0))
          return %y
        }
    Result:
        graph g(%x: f32[N,2,5]) {
          %y: f32[N,2,5] = InstanceNorm(%x, f32[2](3.0, 4.0), f32[2](0.0, 0.0)) {epsilon=0.001}
          return %y
        }
    """
    k = m.bound.get("factor") or m.summand
    numbers = _per_channel(m.x, k)
    if numbers is None or k.type.count == 1:
        return m.no(f"{k!r} is not one number per channel")
    if not _is_rows(m.norm, 2):
        return m.no("what is normalized are not channels")
    given = "factor" in m.bound
    scale = numbers if given else np.ones_like(numbers)
    bias = np.zeros_like(numbers) if given else numbers
    return b.InstanceNorm(m.x, scale, bias, epsilon=m.norm.attrs.get("epsilon", 1e-5))


def _norm(p: Any, x: Any) -> Any:
    return p.InstanceNorm(x, ..., as_="norm") | p.GroupNorm(x, ..., as_="norm")


@rewrite(lambda p, x: p.Mul(_norm(p, x), p.const("factor")) | p.Add(_norm(p, x), p.const("summand")))
def fuse_channel_affine(b: Builder, m: Match) -> Value | None:
    """Constants per channel behind a normalization of channels or groups of them.

    Given:
        graph g(%x: f32[1,2,5]) {
          %a: f32[1,2,5] = GroupNorm(%x) {num_groups=1}
          %b: f32[1,2,5] = Mul(%a, f32[1,2,1](3.0, 4.0))
          %y: f32[1,2,5] = Add(%b, f32[](0.5))
          return %y
        }
    Result:
        graph g(%x: f32[1,2,5]) {
          %y: f32[1,2,5] = GroupNorm(%x, f32[2](3.0, 4.0), f32[2](0.5, 0.5)) {num_groups=1}
          return %y
        }
    """
    k = m.bound.get("factor") or m.summand
    numbers = _per_channel(m.x, k)
    if numbers is None:
        return m.no(f"{k!r} is not one number per channel")
    norm: Node = m.norm
    given = [norm.input(i) if norm.has_input(i) else None for i in (1, 2)]
    known = [np.full_like(numbers, n) if v is None else v.array for v, n in zip(given, (1, 0), strict=True)]
    scale, bias = known
    if scale is None or bias is None:
        return m.no("its scale and bias are computed")
    with np.errstate(over="ignore", invalid="ignore"):
        scale, bias = (scale * numbers, bias * numbers) if "factor" in m.bound else (scale, bias + numbers)
    if not (np.isfinite(scale).all() and np.isfinite(bias).all()):
        return m.no("together the constants are not finite")
    return b.node(norm.op, [m.x, scale, bias], norm.attrs).output


@rewrite(
    lambda p, x: p.Reshape(
        p.LayerNorm(p.Reshape(x, ...), as_="norm") | p.InstanceNorm(p.Reshape(x, ...), ..., as_="norm"), ...
    )
)
def fuse_group_norm(b: Builder, m: Match) -> Value | None:
    """Channels that are seen as groups, each normalized as a row.

    Given:
        graph g(%x: f32[N,4,5,H]) {
          %a: f32[N,2,?] = Reshape(%x, i64[3](0, 2, -1))
          %b: f32[N,2,?] = InstanceNorm(%a, f32[2](1.0, 1.0), f32[2](0.0, 0.0))
          %y: f32[N,4,5,H] = Reshape(%b, i64[4](0, 4, 5, -1))
          return %y
        }
    Result:
        graph g(%x: f32[N,4,5,H]) {
          %y: f32[N,4,5,H] = GroupNorm(%x) {num_groups=2}
          return %y
        }
    """
    norm: Node = m.norm
    grouped = norm.input(0)
    channels, groups = _channels(m.x), _channels(grouped)
    if channels is None or groups is None or channels % groups or not same_shape(m.x, m.root.output):
        return m.no("the channels are not seen as groups of them, and as channels again")
    if not same_dim((m.x.type.shape or (0,))[0], (grouped.type.shape or (1,))[0]):
        return m.no("samples are not known to stay apart")
    if norm.op == "LayerNorm" and not _is_rows(norm, 2):
        return m.no("what is normalized are not groups")
    attrs = {"epsilon": norm.attrs.get("epsilon", 1e-5)}
    affine: list[Array] = []
    if norm.op == "InstanceNorm":
        numbers = [norm.input(i).data for i in (1, 2)]
        if any(n is None for n in numbers):
            return m.no("its scale and bias are computed")
        arrays = [n.numpy() for n in numbers if n is not None]
        if (arrays[0] != 1).any() or arrays[1].any():
            affine = [np.repeat(a, channels // groups) for a in arrays]
    if groups == channels:
        dtype = m.x.type.dtype.numpy
        return b.InstanceNorm(m.x, *(affine or [np.ones(channels, dtype), np.zeros(channels, dtype)]), **attrs)
    return b.GroupNorm(m.x, *affine, num_groups=groups, **attrs)


_WIDE = DType.F32


@rewrite(
    lambda p, x: p.Cast(p.LayerNorm(p.Cast(x, to=_WIDE), ..., as_="norm") | p.RMSNorm(p.Cast(x, to=_WIDE), as_="norm")),
    target="minnow",
)
def fuse_norm_casts(b: Builder, m: Match) -> Value | None:
    """What is normalized in f32 between others in 16 bits: the op computes in f32 by itself.

    Given:
        graph g(%x: f16[2,3]) {
          %a: f32[2,3] = Cast(%x) {to=f32}
          %b: f32[2,3] = RMSNorm(%a)
          %y: f16[2,3] = Cast(%b) {to=f16}
          return %y
        }
    Result:
        graph g(%x: f16[2,3]) {
          %y: f16[2,3] = RMSNorm(%x)
          return %y
        }
    """
    narrow = m.root.attrs["to"]
    if m.x.type.dtype is not narrow or narrow not in (DType.F16, DType.BF16):
        return m.no("it does not come from the 16 bits that it goes to")
    return b.node(m.norm.op, [m.x, *m.norm.inputs[1:]], m.norm.attrs).output
