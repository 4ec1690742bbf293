"""Padding that is done by what follows it."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.optimizer.facts.format import is_encodable
from minnow.optimizer.rewrite import rewrite
from minnow.optimizer.rewrite.pattern import Match
from minnow.schema.ir import Node, Value
from minnow.schema.ops import Builder, Trait, get


def pads_of(node: Node) -> Any:
    """[before, after] for each axis; None where they are computed, or cut off."""
    array = node.input(1).array
    pads = None if array is None else array.astype(np.int64).reshape(-1, 2)
    return None if pads is None or np.any(np.less(pads, 0)) else pads


def fill_of(node: Node) -> float | None:
    """The number that is put around; None where it is computed."""
    if not node.has_input(2):
        return 0.0
    array = node.input(2).array
    return None if array is None else float(array.reshape(()))


@rewrite(
    lambda p, x, pads: p.Pad(
        p.Pad(x, pads, ..., as_="first"), p.const("more"), ..., as_="second", mode=lambda v: v in ("constant", "edge")
    )
)
def fuse_pads(b: Builder, m: Match) -> Value | None:
    """Padding of what is padded with the same number, or with what is outermost.

    Given:
        graph g(%x: f32[N,3]) {
          %a: f32[N,6] = Pad(%x, i64[4](0, 0, 1, 2))
          %b: f32[N,7] = Pad(%a, i64[4](0, 0, 1, 0))
          return %b
        }
    Result:
        graph g(%x: f32[N,3]) {
          %b: f32[N,7] = Pad(%x, i64[4](0, 0, 2, 2))
          return %b
        }
    """
    first, second = pads_of(m.first), pads_of(m.second)
    if first is None or second is None:
        return m.no("pads are computed, or cut off")
    mode = m.second.attrs.get("mode", "constant")
    if mode != m.first.attrs.get("mode", "constant"):
        return m.no("they pad in different ways")
    value, other = fill_of(m.first), fill_of(m.second)
    if value is None or other is None or not (value == other or (value != value and other != other)):
        return m.no("they pad with other numbers")
    both = (first + second).reshape(-1).astype(m.more.type.dtype.numpy)
    return b.Pad(m.x, both, *m.first.inputs[2:], mode=mode)


@rewrite(
    lambda p, x, pads: (
        p.MaxPool(p.Pad(x, pads, ..., as_="pad", mode="constant"), as_="pool", auto_pad=lambda v: v in ("", "VALID"))
        | p.AveragePool(p.Pad(x, pads, ..., as_="pad", mode="constant"), as_="pool",
                        auto_pad=lambda v: v in ("", "VALID"))
    )
)  # fmt: skip
def fuse_pad_pool(b: Builder, m: Match) -> Value | None:
    """Pooling pads by itself, where what it takes in place of the padding gives the same.

    Given:
        graph g(%x: f32[1,2,4,4]) {
          %a: f32[1,2,4,4] = Relu(%x)
          %b: f32[1,2,6,6] = Pad(%a, i64[8](0, 0, 0, 0, 1, 1, 1, 1))
          %y: f32[1,2,2,2] = MaxPool(%b) {kernel=(3, 3), strides=(2, 2), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: f32[1,2,4,4]) {
          %a: f32[1,2,4,4] = Relu(%x)
          %y: f32[1,2,2,2] = MaxPool(%a) {kernel=(3, 3), strides=(2, 2), pads=(1, 1, 1, 1), dilations=(1, 1)}
          return %y
        }
    """
    pool, ends, fill = m.pool, pads_of(m.pad), fill_of(m.pad)
    attrs = pool.attrs
    if len(pool.outputs) > 1 or attrs.get("ceil_mode"):
        return m.no("places are asked for, or windows may reach beyond the padding")
    if ends is None or fill is None or ends[:2].any():
        return m.no("pads are computed, cut off, or pad batch or channels")
    own = np.array([0] * 2 * len(ends[2:]) if attrs.get("auto_pad") else attrs["pads"]).reshape(2, -1).T
    both = own + ends[2:]
    if any(d != 1 for d in attrs["dilations"]) or (both.max(axis=1) >= np.array(attrs["kernel"])).any():
        return m.no("some window might see nothing but padding")
    changes: dict[str, Any] = {"pads": tuple(int(n) for n in both.T.reshape(-1)), "auto_pad": ""}
    if pool.op == "MaxPool":
        if not (fill == -np.inf or (fill == 0 and _is_nonnegative(m.x))) or own.any():
            return m.no("the padding may be larger than what is there")
    else:
        if fill != 0 or (own.any() and not attrs.get("count_include_pad")):
            return m.no("it does not pad with zeros that count")
        changes["count_include_pad"] = True
    made = b.node(pool.op, [m.x], {**attrs, **changes})
    if is_encodable(pool) and not is_encodable(made):
        return m.no("the format has it without padding only")
    return made.output


def _is_nonnegative(x: Value, depth: int = 8) -> bool:
    """No element is below 0, as far as so many nodes tell; NaN wins over padding either way."""
    node = x.producer
    if node is None or depth == 0:
        return x.data is not None and bool(np.all(np.greater_equal(x.data.numpy(), 0)))
    if node.op == "Clip":
        return bool(node.attrs.get("min", -np.inf) >= 0)
    if node.op in ("MaxPool", "Concat") or Trait.MOVEMENT in get(node.op).traits:
        data = node.inputs if node.op == "Concat" else node.inputs[:1]
        return all(v is not None and _is_nonnegative(v, depth - 1) for v in data)
    traits = get(node.op).traits
    if traits & {Trait.NOT_BELOW_ZERO, Trait.NO_SIGN_BIT}:
        return True
    return node.attrs.get("activation") in ("relu", "relu6")


@rewrite(
    lambda p, x, pads, w: p.ConvInteger(
        p.Pad(x, pads, ..., as_="pad", mode="constant"), w, ..., as_="conv", auto_pad=lambda v: v in ("", "VALID")
    )
)
def fuse_pad_conv_integer(b: Builder, m: Match) -> Value | None:
    """Padding with the zero point in front of a convolution of integers becomes its own padding.

    Given:
        graph g(%x: u8[1,1,2,2]) {
          %a: u8[1,1,4,4] = Pad(%x, i64[8](0, 0, 0, 0, 1, 1, 1, 1), u8[](3))
          %y: i32[1,1,4,4] = ConvInteger(%a, i8[1,1,1,1](2), u8[](3)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}
          return %y
        }
    Result:
        graph g(%x: u8[1,1,2,2]) {
          %y: i32[1,1,4,4] = ConvInteger(%x, i8[1,1,1,1](2), u8[](3)) {strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1)}
          return %y
        }
    """  # noqa: E501
    ends, fill, conv = pads_of(m.pad), fill_of(m.pad), m.conv
    if ends is None or fill is None or ends[:2].any():
        return m.no("pads are computed, cut off, or pad batch or channels")
    zero = conv.input(2).array if conv.has_input(2) else np.zeros((), np.int64)
    if zero is None or float(zero.reshape(())) != fill:
        return m.no("it does not pad with the zero point")
    own = np.zeros((2, len(ends) - 2), np.int64) if conv.attrs.get("auto_pad") else conv.attrs["pads"]
    both = np.array(own).reshape(2, -1) + ends[2:].T
    changes = {"pads": tuple(int(n) for n in both.reshape(-1)), "auto_pad": ""}
    return b.node("ConvInteger", [m.x, *conv.inputs[1:]], {**conv.attrs, **changes}).output
