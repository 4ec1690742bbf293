"""Convolution, pooling, normalization, recurrent layers, resize."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.onnx.operand import rank, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


def _window(x: Value, kernel: Sequence[int], strides: Any, pads: Any, dilations: Any, auto_pad: str) -> dict[str, Any]:
    """The window attributes in full length. "SAME_*" is resolved where the extents are known, else kept."""
    n = len(kernel)
    strides, dilations = tuple(strides or (1,) * n), tuple(dilations or (1,) * n)
    pads = tuple(pads or (0,) * 2 * n)
    if len(strides) != n or len(dilations) != n or len(pads) != 2 * n:
        raise ModelError(f"strides {strides}, dilations {dilations} and pads {pads} do not fit a {n}-D kernel")
    out = {"strides": strides, "pads": pads, "dilations": dilations}
    if auto_pad == "VALID":
        out["pads"] = (0,) * 2 * n
    elif auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        extents = x.type.shape[2:] if x.type.shape else ()
        if len(extents) == n and all(isinstance(d, int) for d in extents):
            out["pads"] = same_pads(extents, kernel, strides, dilations, lower=auto_pad == "SAME_LOWER")
        else:
            out |= {"auto_pad": auto_pad, "pads": (0,) * 2 * n}
    elif auto_pad != "NOTSET":
        raise ModelError(f"auto_pad is '{auto_pad}'")
    return out


def same_pads(
    extents: Sequence[Any], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int], lower: bool
) -> tuple[int, ...]:
    """Pads (begins, then ends) with which the output extent is ceil(extent / stride)."""
    begins, ends = [], []
    for d, k, s, r in zip(extents, kernel, strides, dilations, strict=True):
        total = max((-(-d // s) - 1) * s + (k - 1) * r + 1 - d, 0)
        small, big = total // 2, total - total // 2
        begins.append(big if lower else small)
        ends.append(small if lower else big)
    return (*begins, *ends)


def _kernel(w: Value, given: Any) -> tuple[int, ...]:
    n = rank(w, "the weights") - 2
    kernel = tuple(static_dim(w.type, 2 + i, "the kernel") for i in range(n))
    if given and tuple(given) != kernel:
        raise ModelError(f"kernel_shape {tuple(given)} is not the shape of the weights {kernel}")
    return kernel


@onnx.op("Conv")
def _(b, x, w, bias=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), pads=(), strides=()):
    return b.Conv(x, w, bias, group=group, **_window(x, _kernel(w, kernel_shape), strides, pads, dilations, auto_pad))


@onnx.op("ConvTranspose")
def _(b, x, w, bias=None, *, auto_pad="NOTSET", dilations=(), group=1, kernel_shape=(), output_padding=(),
      output_shape=(), pads=(), strides=()):  # fmt: skip
    kernel = _kernel(w, kernel_shape)
    n = len(kernel)
    window = _window(x, kernel, strides, pads, dilations, "NOTSET")
    extra = tuple(output_padding or (0,) * n)
    if output_shape or auto_pad.startswith("SAME"):
        if not output_shape:
            output_shape = [static_dim(x.type, 2 + i, "the input") * s for i, s in enumerate(window["strides"])]
        begins, ends, beyond = [], [], []
        for i, want in enumerate(output_shape[-n:]):
            extent = static_dim(x.type, 2 + i, "the input of ConvTranspose with output_shape")
            full = window["strides"][i] * (extent - 1) + extra[i] + (kernel[i] - 1) * window["dilations"][i] + 1
            # What is asked for beyond the full extent lies behind the end, where no input element reaches.
            beyond.append(extra[i] + max(want - full, 0))
            total = max(full - want, 0)
            small, big = total // 2, total - total // 2
            begins.append(small if auto_pad == "SAME_UPPER" else big)
            ends.append(big if auto_pad == "SAME_UPPER" else small)
        window["pads"], extra = (*begins, *ends), tuple(beyond)
    return b.ConvTranspose(x, w, bias, group=group, output_padding=extra, **window)


@onnx.op("MaxPool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape, pads=(), storage_order=0, strides=(), node):
    if storage_order and node.n_outputs > 1:
        raise UnsupportedError("MaxPool with storage_order=1 is not supported")
    kernel = tuple(kernel_shape)
    window = _window(x, kernel, strides, pads, dilations, auto_pad)
    return b.MaxPool(x, kernel=kernel, ceil_mode=bool(ceil_mode), n_outputs=node.n_outputs, **window)


@onnx.op("AveragePool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, count_include_pad=0, dilations=(), kernel_shape, pads=(), strides=()):
    kernel = tuple(kernel_shape)
    window = _window(x, kernel, strides, pads, dilations, auto_pad)
    return b.AveragePool(
        x, kernel=kernel, ceil_mode=bool(ceil_mode), count_include_pad=bool(count_include_pad), **window
    )


@onnx.op("LpPool")
def _(b, x, *, auto_pad="NOTSET", ceil_mode=0, dilations=(), kernel_shape, p=2, pads=(), strides=()):
    kernel = tuple(kernel_shape)
    return b.LpPool(x, kernel=kernel, p=p, ceil_mode=bool(ceil_mode),
                    **_window(x, kernel, strides, pads, dilations, auto_pad))  # fmt: skip


onnx.same("GlobalAveragePool", "GlobalMaxPool")


@onnx.op("GlobalLpPool")
def _(b, x, *, p=2):
    return b.GlobalLpPool(x, p=p)


@onnx.op("BatchNormalization", since=9)
def _(b, x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, node):
    if training_mode:
        return _batch_norm_of_batch(b, x, scale, bias, mean, var, epsilon, momentum)
    if node.n_outputs > 1:
        raise UnsupportedError("BatchNormalization in training mode is not supported", hint="export for inference")
    return b.BatchNorm(x, scale, bias, mean, var, epsilon=epsilon)


def _batch_norm_of_batch(
    b: Builder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float, momentum: float
) -> tuple[Value, ...]:
    """Normalizes by the statistics of the batch itself; also gives the running ones after it."""
    n = rank(x, "the input of BatchNormalization")
    axes = (0, *range(2, n))
    centered = b.Sub(x, b.ReduceMean(x, axes=axes))
    variance = b.ReduceMean(b.Square(centered), axes=axes)
    per_channel = np.array([-1, *[1] * (n - 2)])
    y = b.Div(centered, b.Sqrt(b.Add(variance, epsilon)))
    y = b.Add(b.Mul(y, b.Reshape(scale, per_channel)), b.Reshape(bias, per_channel))
    running = [
        b.Add(b.Mul(old, momentum), b.Mul(b.Cast(b.Reshape(new, np.array([-1])), to=old.type.dtype), 1.0 - momentum))
        for old, new in ((mean, b.ReduceMean(x, axes=axes)), (var, variance))
    ]
    return (y, *running)


@onnx.op("InstanceNormalization")
def _(b, x, scale, bias, *, epsilon=1e-5):
    return b.InstanceNorm(x, scale, bias, epsilon=epsilon)


@onnx.op("GroupNormalization", since=21)
def _(b, x, scale, bias, *, epsilon=1e-5, num_groups, stash_type=1):
    return b.GroupNorm(x, scale, bias, num_groups=num_groups, epsilon=epsilon)


@onnx.op("GroupNormalization", until=20)
def _(b, x, scale, bias, *, epsilon=1e-5, num_groups):
    # One scale per group in these versions, one per channel from 21 on.
    channels = static_dim(x.type, 1, "the channels of GroupNormalization")
    index = np.repeat(np.arange(num_groups), channels // num_groups)
    return b.GroupNorm(x, b.Gather(scale, index), b.Gather(bias, index), num_groups=num_groups, epsilon=epsilon)


@onnx.op("LayerNormalization")
def _(b, x, scale, bias=None, *, axis=-1, epsilon=1e-5, stash_type=1, node):
    if node.n_outputs > 1:
        return NotImplemented  # the body computes mean and deviation, which the fused op does not give
    return b.LayerNorm(x, scale, bias, axis=axis, epsilon=epsilon)


@onnx.op("RMSNormalization")
def _(b, x, scale, *, axis=-1, epsilon=1e-5, stash_type=1):
    return b.RMSNorm(x, scale, axis=axis, epsilon=epsilon)


@onnx.op("LRN")
def _(b, x, *, alpha=1e-4, beta=0.75, bias=1.0, size):
    return b.LRN(x, size=size, alpha=alpha, beta=beta, bias=bias)


def _batch_first(b: Builder, x: Value) -> Value:
    return b.Transpose(x, perm=(1, 0, 2))


def _recurrent(op: str, states: int) -> None:
    """RNN, GRU and LSTM differ in what follows the six common operands."""

    def translate(b: Builder, x: Value, w: Value, r: Value, bias: Value | None = None, lens: Value | None = None,
                  *rest: Value | None, activation_alpha: Any = (), activation_beta: Any = (), activations: Any = (),
                  clip: float = 0.0, direction: str = "forward", hidden_size: int = 0, input_forget: int = 0,
                  layout: int = 0, linear_before_reset: int = 0,
                  output_sequence: int = 0) -> tuple[Value, ...]:  # fmt: skip
        attrs: dict[str, Any] = {
            "hidden": static_dim(r.type, 2, "the recurrent weights"),
            "direction": direction,
            "activations": tuple(a.lower() for a in activations),
            "activation_alpha": tuple(activation_alpha),
            "activation_beta": tuple(activation_beta),
            "clip": clip,
        }
        if op == "LSTM":
            attrs["input_forget"] = bool(input_forget)
        if op == "GRU":
            attrs["linear_before_reset"] = bool(linear_before_reset)
        operands = [x, w, r, bias, lens, *rest]
        if layout:
            operands[0] = _batch_first(b, x)
            operands[5 : 5 + states] = [v and _batch_first(b, v) for v in operands[5 : 5 + states]]
        y, *last = getattr(b, op)(*operands, **attrs)
        if layout:
            y = b.Transpose(y, perm=(2, 0, 1, 3))
            last = [_batch_first(b, v) for v in last]
        return (y, *last)

    onnx.op(op)(translate)


_recurrent("LSTM", 2)
_recurrent("GRU", 1)
_recurrent("RNN", 1)

_MODES = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "cubic": "cubic", "bicubic": "cubic"}


@onnx.op("Upsample", until=8)
def _(b, x, *, mode="nearest", scales):
    return _upsample(b, x, np.asarray(scales, np.float32), mode)


@onnx.op("Upsample", since=9)
def _(b, x, scales, *, mode="nearest"):
    return _upsample(b, x, scales, mode)


@onnx.op("Resize", until=10)
def _(b, x, scales, *, mode="nearest"):
    return _upsample(b, x, scales, mode)


def _upsample(b: Builder, x: Value, scales: Any, mode: str) -> Value:
    return b.Resize(x, None, scales, mode=_MODES[mode], coordinate_mode="asymmetric", nearest_mode="floor")


@onnx.op("Resize", since=11)
def _(b, x, roi=None, scales=None, sizes=None, *, antialias=0, axes=None, coordinate_transformation_mode="half_pixel",
      cubic_coeff_a=-0.75, exclude_outside=0, extrapolation_value=0.0, keep_aspect_ratio_policy="stretch",
      mode="nearest", nearest_mode="round_prefer_floor"):  # fmt: skip
    # An empty tensor stands for "not given" in opsets 11 and 12.
    roi, scales, sizes = (None if v is not None and v.type.shape == (0,) else v for v in (roi, scales, sizes))
    if coordinate_transformation_mode != "tf_crop_and_resize":
        roi = None
    return b.Resize(
        x, roi, scales, sizes, mode=_MODES[mode], coordinate_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode, cubic_coeff=cubic_coeff_a, exclude_outside=bool(exclude_outside),
        extrapolation_value=extrapolation_value, antialias=bool(antialias), keep_aspect=keep_aspect_ratio_policy,
        axes=None if axes is None else tuple(axes),
    )  # fmt: skip


@onnx.op("GridSample")
def _(b, x, grid, *, align_corners=0, mode="linear", padding_mode="zeros"):
    return b.GridSample(x, grid, mode=_MODES[mode], padding=padding_mode, align_corners=bool(align_corners))


@onnx.op("RoiAlign", until=15)
def _(b, x, rois, batch_indices, *, mode="avg", output_height=1, output_width=1, sampling_ratio=0, spatial_scale=1.0):
    return b.RoiAlign(x, rois, batch_indices, mode=mode, output_height=output_height, output_width=output_width,
                      sampling_ratio=sampling_ratio, spatial_scale=spatial_scale,
                      coordinate_mode="output_half_pixel")  # fmt: skip


@onnx.op("RoiAlign", since=16)
def _(b, x, rois, batch_indices, *, coordinate_transformation_mode="half_pixel", mode="avg", output_height=1,
      output_width=1, sampling_ratio=0, spatial_scale=1.0):  # fmt: skip
    return b.RoiAlign(x, rois, batch_indices, mode=mode, output_height=output_height, output_width=output_width,
                      sampling_ratio=sampling_ratio, spatial_scale=spatial_scale,
                      coordinate_mode=coordinate_transformation_mode)  # fmt: skip


@onnx.op("NonMaxSuppression")
def _(b, boxes, scores, max_out=None, iou=None, score=None, *, center_point_box=0):
    return b.NonMaxSuppression(boxes, scores, max_out, iou, score, center_point_box=center_point_box)
