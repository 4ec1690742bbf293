"""The ops in terms of PyTorch, whose autograd is the second oracle of gradient rules.

A function is called with a tensor (or None) per operand and the attributes by keyword; it gives the results, or None
for attributes that PyTorch has not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

TORCH: dict[str, Callable[..., Any]] = {}


def _op(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        TORCH[name] = function
        return function

    return add


# op list: those that PyTorch has under the same name
# fmt: off
_SAME = (
    "Abs",
    "Neg",
    "Floor",
    "Ceil",
    "Sign",
    "Square",
    "Sqrt",
    "Rsqrt",
    "Reciprocal",
    "Exp",
    "Expm1",
    "Log",
    "Log1p",
    "Sin",
    "Cos",
    "Tan",
    "Asin",
    "Acos",
    "Atan",
    "Sinh",
    "Cosh",
    "Tanh",
    "Asinh",
    "Acosh",
    "Atanh",
    "Erf",
    "Erfc",
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Pow",
    "Atan2",
    "Sigmoid",
    "Relu",
    "Where",
)
for _name in _SAME:
    TORCH[_name] = getattr(torch, _name.lower())
TORCH |= {
    "Round": lambda x, halves: torch.round(x),
    "Max": torch.maximum,
    "Min": torch.minimum,
    "SquaredDifference": lambda a, b: (a - b) ** 2,
    "Mod": lambda a, b, fmod: torch.fmod(a, b) if fmod else torch.remainder(a, b),
    "FloorDiv": lambda a, b: torch.floor(a / b),
    "Det": torch.linalg.det,
    "Inverse": torch.linalg.inv,
    "LeakyRelu": lambda x, alpha: F.leaky_relu(x, alpha),
    "PRelu": lambda x, slope: torch.where(x >= 0, x, slope * x),
    "Clip": lambda x, **b: torch.clamp(x, **b) if b["min"] <= b["max"] else None,
    "Elu": lambda x, alpha: F.elu(x, alpha),
    "Selu": lambda x, alpha, gamma: gamma * torch.where(x > 0, x, alpha * torch.expm1(x)),
    "Celu": lambda x, alpha: F.celu(x, alpha),
    "ThresholdedRelu": lambda x, alpha: F.threshold(x, alpha, 0),
    "Shrink": lambda x, bias, lambd: torch.where(x < -lambd, x + bias, torch.where(x > lambd, x - bias, 0 * x)),
    "HardSigmoid": lambda x, alpha, beta: torch.clamp(alpha * x + beta, 0, 1),
    "HardSwish": F.hardswish,
    "Silu": F.silu,
    "Gelu": lambda x, approximate: F.gelu(x, approximate=approximate),
    "Softplus": lambda x: F.softplus(x, threshold=1000),
    "Softsign": F.softsign,
    "Mish": F.mish,
    "BinaryRelu": lambda a, b, op: torch.relu(TORCH[op](a, b)),
    "Identity": lambda x: x.clone(),
    "Softmax": lambda x, axis: torch.softmax(x, axis),
    "LogSoftmax": lambda x, axis: torch.log_softmax(x, axis),
    "Transpose": lambda x, perm: x.permute(perm),
    "Reverse": lambda x, axes: torch.flip(x, axes),
    "Tile": lambda x, n: torch.tile(x, tuple(n.tolist())),
    "Concat": lambda *xs, axis: torch.cat(xs, axis),
    "Gather": lambda x, i, axis: (
        torch.stack([x.select(axis, int(k)) for k in i.reshape(-1)], axis) if i.numel() and i.ndim == 1 else None
    ),
    "GatherElements": lambda x, i, axis: torch.gather(x, axis, i % x.shape[axis]),
    "ConvertLayout": lambda x, to: x.clone(),
    "Flatten": lambda x, axis: x.reshape(math.prod(x.shape[:axis]), -1) if x.numel() and axis >= 0 else None,
    "GlobalAveragePool": lambda x: x.mean(tuple(range(2, x.ndim)), keepdim=True),
    "GlobalMaxPool": lambda x: torch.amax(x, tuple(range(2, x.ndim)), keepdim=True),
    "SpaceToDepth": lambda x, blocksize: _space_to_depth(x, blocksize),
    "DepthToSpace": lambda x, blocksize, mode: F.pixel_shuffle(x, blocksize) if mode == "CRD" and x.numel() else None,
    "LRN": lambda x, size, alpha, beta, bias: F.local_response_norm(x, size, alpha, beta, bias) if size % 2 else None,
    "Trilu": lambda x, k, upper: (torch.triu if upper else torch.tril)(x, 0 if k is None else int(k)),
    "RoundTo": lambda x, to: (
        x + (x.to(getattr(torch, _NAMES[str(to)])).to(x.dtype) - x).detach() if str(to) in _NAMES else None
    ),
}
_NAMES = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}


def _space_to_depth(x: Any, b: int) -> Any:
    n, c, h, w = x.shape
    return x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4).reshape(n, c * b * b, h // b, w // b)


def _finish(y: Any, residual: Any, activation: str, alpha: Any, beta: Any) -> Any:
    y = y if residual is None else y + residual
    if activation in ("", "relu", "sigmoid", "tanh"):
        return getattr(torch, activation)(y) if activation else y
    functions = {"relu6": F.relu6, "hardswish": F.hardswish, "silu": F.silu, "gelu": F.gelu}
    return functions[activation](y) if activation in functions else None


@_op("MatMul")
def _(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    a = a.mT if transpose_a and a.ndim > 1 else a
    return torch.matmul(a, b.mT if transpose_b and b.ndim > 1 else b)


@_op("Linear")
def _(x: Any, w: Any, bias: Any, residual: Any, activation: str, alpha: Any, beta: Any) -> Any:
    return _finish(F.linear(x, w, bias), residual, activation, alpha, beta)


@_op("Conv")
def _(x: Any, w: Any, bias: Any, residual: Any, *, strides: Any, pads: Any, dilations: Any, group: int, auto_pad: str,
      activation: str, alpha: Any, beta: Any) -> Any:  # fmt: skip
    if auto_pad or not x.numel() or not w.numel():
        return None
    n = len(strides)
    ends = [v for i in reversed(range(n)) for v in (pads[i], pads[n + i])]
    function = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
    w = w.to(x.dtype)
    y = function(F.pad(x, ends), w, bias, stride=strides, dilation=dilations, groups=group)
    return _finish(y, residual, activation, alpha, beta)


@_op("ConvTranspose")
def _(x: Any, w: Any, bias: Any, residual: Any, *, strides: Any, pads: Any, dilations: Any, output_padding: Any,
      group: int, activation: str, alpha: Any, beta: Any) -> Any:  # fmt: skip
    n = len(strides)
    if not x.numel() or not w.numel() or any(p >= s for p, s in zip(output_padding, strides, strict=True) if p):
        return None
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    y = function(x, w, bias, stride=strides, dilation=dilations, groups=group)
    ends = [v for i in reversed(range(n)) for v in (-pads[i], output_padding[i] - pads[n + i])]
    if any(output_padding) and bias is not None:
        return None  # the padding there has the bias, too
    return _finish(F.pad(y, ends), residual, activation, alpha, beta)


@_op("MaxPool")
def _(x: Any, *, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool, auto_pad: str) -> Any:
    n = len(kernel)
    if ceil_mode or auto_pad or not x.numel() or x.dtype is torch.uint8:
        return None
    ends = [v for i in reversed(range(n)) for v in (pads[i], pads[n + i])]
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[n - 1]
    return function(F.pad(x, ends, value=-math.inf), kernel, strides, dilation=dilations)


@_op("AveragePool")
def _(x: Any, *, kernel: Any, strides: Any, pads: Any, dilations: Any, ceil_mode: bool, count_include_pad: bool,
      auto_pad: str) -> Any:  # fmt: skip
    n = len(kernel)
    if ceil_mode or auto_pad or set(dilations) != {1} or pads[:n] != pads[n:] or not x.numel():
        return None
    if any(2 * p > k for p, k in zip(pads, kernel, strict=False)):
        return None
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[n - 1]
    return function(x, kernel, strides, pads[:n], count_include_pad=count_include_pad)


@_op("BatchNorm")
def _(x: Any, scale: Any, bias: Any, mean: Any, var: Any, epsilon: float) -> Any:
    shape = (1, -1, *(1,) * (x.ndim - 2))
    s, b, m, v = (t.reshape(shape) for t in (scale, bias, mean, var))
    return (x - m) / torch.sqrt(v + epsilon) * s + b


@_op("Scale")
def _(x: Any, scale: Any, bias: Any) -> Any:
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return x * scale.reshape(shape) + bias.reshape(shape)


@_op("LayerNorm")
def _(x: Any, scale: Any, bias: Any, axis: int, epsilon: float) -> Any:
    tail = x.shape[axis % x.ndim :]
    if any(v is not None and v.shape != tail for v in (scale, bias)):
        return None
    return F.layer_norm(x, tail, scale, bias, epsilon)


@_op("RMSNorm")
def _(x: Any, scale: Any, axis: int, epsilon: float) -> Any:
    axes = tuple(range(axis % x.ndim, x.ndim))
    y = x * torch.rsqrt((x * x).mean(axes, keepdim=True) + epsilon)
    return y if scale is None else y * scale


TORCH["InstanceNorm"] = lambda x, s, b, epsilon: F.instance_norm(x, weight=s, bias=b, eps=epsilon) if x.numel() and x[0, 0].numel() > 1 else None  # fmt: skip  # noqa: E501
TORCH["GroupNorm"] = lambda x, s, b, num_groups, epsilon: (
    F.group_norm(x, num_groups, s, b, epsilon) if x.numel() and (s is None) is (b is None) else None
)


def _reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduced(x: Any, at: Any, axes: Any, keepdims: bool) -> Any:
        over = tuple(at.tolist()) if at is not None else tuple(range(x.ndim)) if axes is None else axes
        if not over or not x.numel():
            return None
        return function(x, over, keepdims)

    return reduced


def _prod(x: Any, axes: Any, keepdims: bool) -> Any:
    for a in sorted((a % x.ndim for a in axes), reverse=True):
        x = torch.prod(x, a, keepdim=keepdims)
    return x


TORCH |= {
    "ReduceSum": _reduction(torch.sum),
    "ReduceMean": _reduction(torch.mean),
    "ReduceMax": _reduction(torch.amax),
    "ReduceMin": _reduction(torch.amin),
    "ReduceProd": _reduction(_prod),
    "ReduceL1": _reduction(lambda x, a, k: x.abs().sum(a, k)),
    "ReduceL2": _reduction(lambda x, a, k: torch.linalg.vector_norm(x, 2, a, k)),
    "ReduceSumSquare": _reduction(lambda x, a, k: (x * x).sum(a, k)),
    "ReduceLogSum": _reduction(lambda x, a, k: torch.log(x.sum(a, k))),
    "ReduceLogSumExp": _reduction(torch.logsumexp),
}


def _running(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
        if exclusive:
            return None
        a = int(axis)
        return function(x.flip(a), a).flip(a) if reverse else function(x, a)

    return run


TORCH["CumSum"], TORCH["CumProd"] = _running(torch.cumsum), _running(torch.cumprod)


@_op("TopK")
def _(x: Any, k: Any, axis: int, largest: bool, sorted: bool) -> Any:
    return torch.topk(x, int(k), axis, largest)


@_op("Attention")
def _(q: Any, k: Any, v: Any, past_key: Any, past_value: Any, *masks: Any, num_heads: int, scale: float,
      num_kv_heads: int, causal: bool, fill: float, zero_rows: str, merge_heads: bool) -> Any:  # fmt: skip
    if k is None or q.ndim != 4 or past_key is not None or zero_rows or not math.isinf(fill) or merge_heads or causal:
        return None
    if k.ndim != 4 or v.ndim != 4:
        return None
    mask = masks[0] if len(masks) == 1 else None
    return None if len(masks) > 1 else F.scaled_dot_product_attention(q, k, v, mask, scale=scale)


@_op("GridSample")
def _(x: Any, grid: Any, mode: str, padding: str, align_corners: bool) -> Any:
    if not grid.numel() or (mode == "cubic" and x.ndim != 4):
        return None
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    return F.grid_sample(x, grid, mode, padding, align_corners)


@_op("Resize")
def _(x: Any, roi: Any, scales: Any, sizes: Any, *, mode: str, coordinate_mode: str, **attrs: Any) -> Any:
    plain = sizes is not None and x.ndim == 4 and attrs["axes"] is None and not attrs["antialias"]
    if not plain or coordinate_mode not in ("half_pixel", "align_corners") or mode == "nearest":
        return None
    if attrs["cubic_coeff"] != -0.75 or attrs["exclude_outside"] or sizes[2] == 1 or sizes[3] == 1:
        return None
    name = {"linear": "bilinear", "cubic": "bicubic"}[mode]
    size = tuple(int(s) for s in sizes[2:])
    return F.interpolate(x, size, mode=name, align_corners=coordinate_mode == "align_corners")


@_op("Slice")
def _(x: Any, starts: Any, ends: Any, axes: Any, steps: Any) -> Any:
    at = [slice(None)] * x.ndim
    axes = range(len(starts)) if axes is None else axes.tolist()
    steps = [1] * len(starts) if steps is None else steps.tolist()
    if min(steps, default=1) < 0:
        return None
    for a, b, e, s in zip(axes, starts.tolist(), ends.tolist(), steps, strict=True):
        at[a] = slice(b, e, s)
    return x[tuple(at)]


@_op("Pad")
def _(x: Any, pads: Any, value: Any, mode: str) -> Any:
    if mode == "constant" and value is None:
        ends = [v for pair in reversed(pads.reshape(-1, 2).tolist()) for v in pair]
        return F.pad(x, ends)
    return None


@_op("LSTM")
def _(x: Any, w: Any, r: Any, b: Any, lens: Any, h0: Any, c0: Any, p: Any, *, hidden: int, direction: str,
      activations: Any, clip: float, input_forget: bool, cell_clip: float, **_: Any) -> Any:  # fmt: skip
    if lens is not None or p is not None or direction == "reverse" or activations or clip or input_forget or cell_clip:
        return None
    order = torch.cat([torch.arange(hidden) + k * hidden for k in (0, 2, 3, 1)])  # i, f, c, o from i, o, f, c
    return _recurrent(torch.lstm, x, w, r, b, (h0, c0), hidden, 4, order)


@_op("GRU")
def _(x: Any, w: Any, r: Any, b: Any, lens: Any, h0: Any, *, hidden: int, direction: str, activations: Any,
      clip: float, linear_before_reset: bool, **_: Any) -> Any:  # fmt: skip
    if lens is not None or direction == "reverse" or activations or clip or not linear_before_reset:
        return None
    order = torch.cat([torch.arange(hidden) + k * hidden for k in (1, 0, 2)])
    return _recurrent(torch.gru, x, w, r, b, (h0,), hidden, 3, order)


@_op("RNN")
def _(x: Any, w: Any, r: Any, b: Any, lens: Any, h0: Any, *, hidden: int, direction: str, activations: Any,
      clip: float, **_: Any) -> Any:  # fmt: skip
    if lens is not None or direction == "reverse" or activations or clip:
        return None
    return _recurrent(torch.rnn_tanh, x, w, r, b, (h0,), hidden, 1, torch.arange(hidden))


def _recurrent(function: Any, x: Any, w: Any, r: Any, b: Any, states: Any, hidden: int, gates: int, order: Any) -> Any:
    d, batch = w.shape[0], x.shape[1]
    if not x.shape[0]:
        return None
    states = [torch.zeros(d, batch, hidden, dtype=x.dtype) if s is None else s for s in states]
    flat = []
    for k in range(d):
        flat += [w[k][order], r[k][order]]
        if b is not None:
            flat += [half[order] for half in b[k].split(gates * hidden)]
    first = tuple(states) if len(states) > 1 else states[0]
    y, *finals = function(x, first, flat, b is not None, 1, 0.0, False, d == 2, False)
    return (y.reshape(*y.shape[:2], d, hidden).transpose(1, 2), *finals)
