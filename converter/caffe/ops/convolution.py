"""Convolution, its gradient, and products with matrices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.shape import axis_of, merged, product
from minnow.converter.operand import bounded, dimensions, regroup, reshaped, turned
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

_MOST_TAPS = 1024


def spatial(what: str, each: Sequence[int], n: int, default: int | None, h: int | None, w: int | None) -> list[int]:
    """One number per spatial axis, given for all, for each, or for height and width by name.

    Raises:
        ModelError: there are none, or not as many as axes.
    """
    if h is not None or w is not None:
        pair = [default if v is None else v for v in (h, w)]
        if each or n != 2 or None in pair:
            raise ModelError(
                f"{what}_h and {what}_w ({h}, {w}) do not fit: both are needed, for two spatial axes",
                why=f"there are {n} spatial axes, and {what} is {tuple(each)}",
            )
        return [v for v in pair if v is not None]
    found = list(each) or ([] if default is None else [default])
    if len(found) not in (1, n) or not found:
        raise ModelError(f"{what} has {len(found)} values, but there are {n} spatial axes")
    return found * n if len(found) == 1 else found


def window(node: Layer, n: int) -> dict[str, list[int]]:
    """Kernel, strides, pads and dilations of a convolution over n axes."""
    p = node.message.convolution_param

    def one(name: str) -> int | None:
        return getattr(p, name) if p.HasField(name) else None

    found = {"kernel": spatial("kernel", p.kernel_size, n, None, one("kernel_h"), one("kernel_w"))}
    for name, default in (("stride", 1), ("pad", 0)):
        found[name] = spatial(name, getattr(p, name), n, default, one(f"{name}_h"), one(f"{name}_w"))
    found["dilation"] = spatial("dilation", p.dilation, n, 1, None, None)
    if 0 in (*found["kernel"], *found["stride"], *found["dilation"]):
        raise ModelError(
            f"kernel {found['kernel']}, stride {found['stride']} and dilation {found['dilation']} must not be 0"
        )
    return found


def _over_images(b: Builder, x: Value, axis: int, n: int, compute: Callable[[Value], Value]) -> Value:
    """A function of [N, C, spatial...] where the channels are another axis than the second: all before it is N."""
    if axis == 1:
        return compute(x)
    before = dimensions(b, x, "the input")[:axis]
    image = merged(b, x, 0, axis)
    y = compute(image)
    return regroup(b, y, [*before, *dimensions(b, y, "the result")[1:]])


def _convolve(b: Builder, x: Value, node: Layer, transposed: bool, attrs: dict[str, Any]) -> Value:
    axis = axis_of(x, attrs["axis"]) if x.type.rank is not None else attrs["axis"]
    stored = node.weight(0)
    n = (len(stored.type.shape or ()) - 2) if x.type.rank is None else x.type.rank - axis - 1
    if not 1 <= n <= 3:
        raise UnsupportedError(f"{node.op} over {n} spatial axes is not supported")
    w = window(node, n)
    group, outputs = attrs["group"], attrs["num_output"]
    count = stored.type.count or 0
    per_group, rest = divmod(count, int(np.prod(w["kernel"])) * outputs)
    if not group or outputs % group or rest or not per_group:
        raise ModelError(
            f"{count} weights do not fit {outputs} outputs in {group} groups", why=f"the kernel is {w['kernel']}"
        )
    # Of the gradient, the channels of its input come first: C of them, and O / group outputs of each.
    first = (per_group * group, outputs // group) if transposed else (outputs, per_group)
    weights = reshaped(b, stored, (*first, *w["kernel"]))
    bias = reshaped(b, node.weight(1), (outputs,)) if attrs["bias_term"] else None
    common: dict[str, Any] = {"strides": tuple(w["stride"]), "pads": tuple(w["pad"]) * 2, "group": group,
                              "dilations": tuple(w["dilation"])}  # fmt: skip
    if transposed:
        common["output_padding"] = (0,) * n
    op = b.ConvTranspose if transposed else b.Conv
    return _over_images(b, x, axis, n, lambda v: op(v, weights, bias, **common))


_HERE = ("kernel_size", "kernel_h", "kernel_w", "stride", "stride_h", "stride_w", "pad", "pad_h", "pad_w", "dilation")
"""Fields that `window` reads."""


@frontend.op("Convolution", "ConvolutionDepthwise", "DepthwiseConvolution", param="convolution_param")
def _(b, *xs, node: Layer, num_output, bias_term=True, group=1, axis=1, relu=False, negative_slope=0.0, kernel_size=(),
      kernel_h=0, kernel_w=0, stride=(), stride_h=1, stride_w=1, pad=(), pad_h=0, pad_w=0, dilation=()):  # fmt: skip
    # Of the depthwise ones, some forks leave the groups out.
    group = num_output if group == 1 and "epthwise" in node.op else group
    attrs = {"num_output": num_output, "bias_term": bias_term, "group": group, "axis": axis}
    results = [_convolve(b, x, node, False, attrs) for x in xs]
    if relu:
        results = [b.LeakyRelu(y, alpha=negative_slope) if negative_slope else b.Relu(y) for y in results]
    return tuple(results)


@frontend.op("Deconvolution", param="convolution_param")
def _(b, *xs, node: Layer, num_output, bias_term=True, group=1, axis=1, kernel_size=(), kernel_h=0, kernel_w=0,
      stride=(), stride_h=1, stride_w=1, pad=(), pad_h=0, pad_w=0, dilation=()):  # fmt: skip
    attrs = {"num_output": num_output, "bias_term": bias_term, "group": group, "axis": axis}
    return tuple(_convolve(b, x, node, True, attrs) for x in xs)


@frontend.op("Im2col", param="convolution_param")
def _(b, x, *, node: Layer, num_output=0, bias_term=True, group=1, axis=1, kernel_size=(), kernel_h=0, kernel_w=0,
      stride=(), stride_h=1, stride_w=1, pad=(), pad_h=0, pad_w=0, dilation=()):  # fmt: skip
    """Every element under the window becomes a channel: c * taps + tap."""
    if axis_of(x, axis) != 1 or x.type.rank != 4:
        raise UnsupportedError(f"Im2col of {x.type} along axis {axis} is not supported")
    w = window(node, 2)
    n, c = dimensions(b, x, "the image")[:2]
    ph, pw = w["pad"]
    padded = b.Pad(x, np.array([0, 0, 0, 0, ph, ph, pw, pw])) if ph or pw else x
    sizes = padded.type.shape[2:]
    if not all(isinstance(d, int) for d in sizes):
        raise UnsupportedError(
            "Im2col of an image of unknown size is not supported", hint="give the input shapes with `--input`"
        )
    out = [
        (d - (k - 1) * s - 1) // t + 1
        for d, k, s, t in zip(sizes, w["kernel"], w["dilation"], w["stride"], strict=True)
    ]
    if min(out) < 1 or np.prod(w["kernel"]) > _MOST_TAPS:
        raise ModelError(f"a window of {w['kernel']} does not fit an image of {tuple(sizes)}")
    taps = []
    for at in np.ndindex(*w["kernel"]):
        starts = np.array([i * s for i, s in zip(at, w["dilation"], strict=True)])
        steps = np.array(w["stride"])
        ends = starts + (np.array(out) - 1) * steps + 1
        taps.append(b.Slice(padded, starts, ends, np.array([2, 3]), steps))
    stacked = b.Concat(*(b.Unsqueeze(t, np.array([2])) for t in taps), axis=2)
    channels = product(b, [c, len(taps)])
    return regroup(b, stacked, [n, channels, *out])


@frontend.op("InnerProduct")
def _(b, x, *, node: Layer, num_output, bias_term=True, axis=1, transpose=False):
    at = axis_of(x, axis)
    stored = node.weight(0)
    inputs, rest = divmod(stored.type.count or 0, num_output or 1)
    if rest or not inputs:
        raise ModelError(f"{stored.type.count} weights do not fit {num_output} outputs")
    matrix = reshaped(b, stored, (inputs, num_output) if transpose else (num_output, inputs))
    matrix = turned(b, matrix, (1, 0)) if transpose else matrix
    bias = reshaped(b, node.weight(1), (num_output,)) if bias_term else None
    flat = x if x.type.rank == at + 1 else merged(b, x, at, x.type.rank)
    return b.Linear(flat, matrix, bias)


@frontend.op("Embed")
def _(b, x, *, node: Layer, num_output, input_dim, bias_term=True):
    bounded(num_output * input_dim, "the table")
    table = reshaped(b, node.weight(0), (input_dim, num_output))
    rows = b.Gather(table, b.Cast(x, to=DType.I32))
    return b.Add(rows, reshaped(b, node.weight(1), (num_output,))) if bias_term else rows
