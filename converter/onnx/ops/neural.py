"""Normalization, recurrent layers, resize, and other sampling of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.onnx.frontend import frontend as onnx
from minnow.converter.operand import rank, static_dim
from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder


@onnx.op("BatchNormalization", since=9)
def _(b, x, scale, bias, mean, var, *, epsilon=1e-5, momentum=0.9, training_mode=0, node):
    # Before opset 14 it is the outputs that say whether the model is being trained.
    if training_mode or (node.n_outputs > 1 and node.version < 14):
        return batch_norm_of_batch(b, x, scale, bias, mean, var, epsilon, momentum)[: node.n_outputs]
    if node.n_outputs > 1:
        raise ModelError("BatchNormalization has running statistics as outputs without training_mode")
    # From opset 15 on the statistics may be wider than the data.
    numbers = (v if v.type.dtype is x.type.dtype else b.Cast(v, to=x.type.dtype) for v in (scale, bias, mean, var))
    return b.BatchNorm(x, *numbers, epsilon=epsilon)


def batch_norm_of_batch(
    b: Builder, x: Value, scale: Value, bias: Value, mean: Value, var: Value, epsilon: float, momentum: float
) -> tuple[Value, ...]:
    """Normalizes by the statistics of the batch itself; also gives the running ones after it, and its own."""
    n = rank(x, "the input of BatchNormalization")
    axes = (0, *range(2, n))
    centered = b.Sub(x, b.ReduceMean(x, axes=axes))
    variance = b.ReduceMean(b.Square(centered), axes=axes)
    per_channel = np.array([-1, *[1] * (n - 2)])
    y = b.Div(centered, b.Sqrt(b.Add(variance, epsilon)))
    factor, shift = (b.Reshape(b.Cast(v, to=x.type.dtype), per_channel) for v in (scale, bias))
    y = b.Add(b.Mul(y, factor), shift)
    flat = [b.Reshape(v, np.array([-1])) for v in (b.ReduceMean(x, axes=axes), variance)]
    own = [b.Cast(v, to=old.type.dtype) for v, old in zip(flat, (mean, var), strict=True)]
    pairs = zip((mean, var), own, strict=True)
    running = [b.Add(b.Mul(old, momentum), b.Mul(new, 1.0 - momentum)) for old, new in pairs]
    return (y, *running, *own)


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


def layer_attrs(
    hidden: int, direction: str, activations: Sequence[str], alpha: Sequence[float], beta: Sequence[float], clip: float
) -> dict[str, Any]:
    """The attributes that all recurrent layers have."""
    return {
        "hidden": hidden,
        "direction": direction,
        "activations": tuple(a.lower() for a in activations),
        "activation_alpha": tuple(alpha),
        "activation_beta": tuple(beta),
        "clip": clip,
    }


def _recurrent(op: str, states: int) -> None:
    """RNN, GRU and LSTM differ in what follows the six common operands."""

    def translate(b: Builder, x: Value, w: Value, r: Value, bias: Value | None = None, lens: Value | None = None,
                  *rest: Value | None, activation_alpha: Any = (), activation_beta: Any = (), activations: Any = (),
                  clip: float = 0.0, direction: str = "forward", hidden_size: int = 0, input_forget: int = 0,
                  layout: int = 0, linear_before_reset: int = 0,
                  output_sequence: int = 0) -> tuple[Value, ...]:  # fmt: skip
        is_open = r.type.shape is None or not isinstance(r.type.shape[-1], int)
        attrs = layer_attrs(
            hidden_size if hidden_size and is_open else static_dim(r.type, 2, "the recurrent weights"),
            direction, activations, activation_alpha, activation_beta, clip,
        )  # fmt: skip
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
    if mode == "nearest" and (scales.data is None or np.any(scales.data.numpy() < 1)):
        # It is not specified which element is the nearest; where x shrinks, onnxruntime takes the upper one.
        x = _upsample(b, x, b.Max(scales, 1.0), mode)
        return _upsample(b, x, b.Min(scales, 1.0), mode, "ceil")
    return _upsample(b, x, scales, mode)


def _upsample(b: Builder, x: Value, scales: Any, mode: str, nearest: str = "floor") -> Value:
    return b.Resize(x, None, scales, mode=_MODES[mode], coordinate_mode="asymmetric", nearest_mode=nearest)


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
    types = {x.type.dtype, grid.type.dtype}
    if len(types) > 1 or not x.type.dtype.is_float:
        # The engine wants one type of floats for both: one that holds the two.
        to = DType.F32 if types <= {DType.F32, DType.F16, DType.BF16, DType.U8, DType.I8} else DType.F64
        y = b.GridSample(b.Cast(x, to=to), b.Cast(grid, to=to), mode=_MODES[mode], padding=padding_mode,
                         align_corners=bool(align_corners))  # fmt: skip
        return b.Cast(y, to=x.type.dtype)
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
