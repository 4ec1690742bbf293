"""Operators on quantized tensors that compute in float, and requantize the result."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.quantized.tensor import Quantization, quantization, rounded, wide
from minnow.converter.torch.program.program import Object, Stored
from minnow.converter.torch.symbolic.dimension import known
from minnow.converter.torch.symbolic.tensor import Tensor
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

# ---- arithmetic


def _binary(op: str, relu: bool) -> Any:
    def translate(t: Any, qa: Any, qb: Any, scale: Any, zero_point: Any) -> Any:
        b = t.builder
        y = getattr(b, op)(wide(b, qa), wide(b, qb))
        q = quantization(b, scale, zero_point, qa.quant.zero.type.dtype)
        return rounded(b, b.Relu(y) if relu else y, q)

    return translate


for _op, _name in (("Add", "add"), ("Mul", "mul")):
    torch.op(f"quantized::{_name}", plain=True)(_binary(_op, False))
    torch.op(f"quantized::{_name}_relu", plain=True)(_binary(_op, True))


@torch.op("quantized::cat", plain=True)
def _(t, qx, dim, scale, zero_point):
    b = t.builder
    q = quantization(b, scale, zero_point, qx[0].quant.zero.type.dtype)
    return rounded(b, b.Concat(*(wide(b, x) for x in qx), axis=dim), q)


def _activation(op: str) -> Any:
    def translate(t: Any, qx: Any, output_scale: Any, output_zero_point: Any) -> Any:
        b = t.builder
        return rounded(b, getattr(b, op)(wide(b, qx)),
                       quantization(b, output_scale, output_zero_point, qx.quant.zero.type.dtype))  # fmt: skip

    return translate


for _op, _name in (("HardSwish", "hardswish"), ("Sigmoid", "sigmoid"), ("Tanh", "tanh")):
    torch.op(f"quantized::{_name}", plain=True)(_activation(_op))


@torch.op("quantized::leaky_relu", plain=True)
def _(t, qx, negative_slope, inplace, output_scale, output_zero_point):
    b = t.builder
    q = quantization(b, output_scale, output_zero_point, qx.quant.zero.type.dtype)
    return rounded(b, b.LeakyRelu(wide(b, qx), alpha=negative_slope), q)


@torch.op("quantized::elu", "quantized::celu", plain=True)
def _(t, self, output_scale, output_zero_point, alpha=1, scale=1, input_scale=1, *, node):
    b = t.builder
    if (scale, input_scale) != (1, 1):
        raise UnsupportedError("a quantized ELU with scale or input_scale is not supported")
    if node.op.endswith("celu"):
        input_scale = 1 / alpha
    q = quantization(b, output_scale, output_zero_point, self.quant.zero.type.dtype)
    x = wide(b, self)
    low = b.Mul(b.Expm1(b.Mul(x, np.float32(input_scale))), np.float32(alpha))
    return rounded(b, b.Where(b.Less(x, np.float32(0)), low, x), q)


@torch.op("quantized::relu6", plain=True)
def _(t, qx, inplace=False):
    b = t.builder
    return rounded(b, b.Clip(wide(b, qx), min=0.0, max=6.0), qx.quant)


@torch.op("quantized::threshold", plain=True)
def _(t, qx, threshold, value):
    b, x = t.builder, wide(t.builder, qx)
    return rounded(b, b.Where(b.Greater(x, np.float32(threshold)), x, np.float32(value)), qx.quant)


@torch.op("quantized::prelu", plain=True)
def _(t, qx, weight, output_scale, output_zero_point):
    b, x, slope = t.builder, wide(t.builder, qx), wide(t.builder, weight)
    n = len(x.type.shape or ())
    slope = b.Reshape(slope, np.array([1, -1, *[1] * (n - 2)][:n]))
    q = quantization(b, output_scale, output_zero_point, qx.quant.zero.type.dtype)
    return rounded(b, b.Where(b.Less(x, np.float32(0)), b.Mul(x, slope), x), q)


@torch.op("quantized::softmax", plain=True)
def _(t, qx, dim, output_scale, output_zero_point):
    b = t.builder
    q = quantization(b, output_scale, output_zero_point, qx.quant.zero.type.dtype)
    return rounded(b, b.Softmax(wide(b, qx), axis=dim), q)


@torch.op("quantized::dropout", plain=True)
def _(t, self, output_scale, output_zero_point, p=0.5, training=False):
    if training:
        raise UnsupportedError("dropout in training mode is not supported", hint="save the model after `model.eval()`")
    return self


@torch.op("quantized::max_pool2d", "quantized::max_pool1d", plain=True)
def _(t, qx, kernel_size, stride, padding, dilation, ceil_mode, *, node):
    pool = torch.resolve(f"aten::{node.op.partition('::')[2]}")
    assert pool is not None
    plain = t.folded(lambda: pool[1].function(t.builder, qx.value(t.builder), kernel_size, stride, padding, dilation,
                                              ceil_mode))  # fmt: skip
    made = Tensor(plain)
    made.quant = qx.quant
    return made


# ---- with numbers: the meaning of the result changes, not always the integers


@torch.op("quantized::mul_scalar", "quantized::mul_scalar_relu", plain=True)
def _(t, qa, b, *, node):
    k, c = t.builder, float(known(b.value(t.builder) if isinstance(b, Tensor) else b, "a factor of quantized numbers"))
    q = qa.quant
    if c == 0:
        scale, zero = np.float32(1), np.zeros((), q.zero.type.dtype.numpy)
        return _cut(k, rounded(k, k.Mul(wide(k, qa), np.float32(0)), Quantization(k.const(scale), k.const(zero))), node)
    made = Quantization(k.Mul(q.scale, np.float32(abs(c))), q.zero)
    value = qa.value(k)
    if c < 0:
        info = np.iinfo(str(q.zero.type.dtype.numpy))
        flipped = k.Sub(np.int32(info.max + info.min), k.Cast(value, to=DType.I32))
        zero = k.Sub(np.int32(info.max + info.min), k.Cast(q.zero, to=DType.I32))
        value = k.Cast(flipped, to=q.zero.type.dtype)
        made = Quantization(made.scale, k.Cast(zero, to=q.zero.type.dtype))
    result = Tensor(value)
    result.quant = made
    return _cut(k, result, node)


@torch.op("quantized::add_scalar", "quantized::add_scalar_relu", plain=True)
def _(t, qa, b, *, node):
    k, c = t.builder, float(known(b.value(t.builder) if isinstance(b, Tensor) else b, "a term of quantized numbers"))
    q = qa.quant
    if q.scale.data is None or q.zero.data is None:
        raise UnsupportedError(
            "adding a number to quantized values whose scale is known only at run time is not supported"
        )
    s, z = float(q.scale.data.numpy().reshape(())), int(q.zero.data.numpy().reshape(()))
    info = np.iinfo(str(q.zero.type.dtype.numpy))
    low, high = int(info.min), int(info.max)
    shift = int(np.round(c / s))  # halves to even, as nearbyint has it
    if low > z - shift:
        new, zero = (high - (z - shift)) / (high - low) * s, low
    elif high < z - shift:
        new, zero = ((z - shift) - low) / (high - low) * s, high
    else:
        result = Tensor(qa.value(k))
        result.quant = Quantization(q.scale, k.const(np.array(z - shift, q.zero.type.dtype.numpy)))
        return _cut(k, result, node)
    meaning = Quantization(k.const(np.float32(new)), k.const(np.array(zero, q.zero.type.dtype.numpy)))
    return _cut(k, rounded(k, k.Add(wide(k, qa), np.float32(shift * s)), meaning), node)


def _cut(b: Builder, x: Tensor, node: Any) -> Tensor:
    """Nothing below zero, after operators whose names say so."""
    return rounded(b, b.Relu(wide(b, x)), x.quant) if node.op.partition(".")[0].endswith("_relu") else x


# ---- normalization


@torch.op(
    "quantized::batch_norm1d",
    "quantized::batch_norm1d_relu",
    "quantized::batch_norm2d",
    "quantized::batch_norm2d_relu",
    "quantized::batch_norm3d",
    "quantized::batch_norm3d_relu",
    "quantized::batch_norm",
    "quantized::batch_norm_relu",
    plain=True,
)
def _(t, qx, weight, bias, mean, var, eps, output_scale, output_zero_point, *, node):
    b = t.builder
    x = wide(b, qx)
    channels = static_dim(x.type, 1, "the channels of a normalization")
    ones, zeros = np.ones(channels, np.float32), np.zeros(channels, np.float32)
    given = [t.value(v) if v is not None else d for v, d in zip((weight, bias, mean, var), (ones, zeros, zeros, ones),
                                                              strict=True)]  # fmt: skip
    y = b.BatchNorm(x, *given, epsilon=float(eps))
    q = quantization(b, output_scale, output_zero_point, qx.quant.zero.type.dtype)
    return rounded(b, b.Relu(y) if "relu" in node.op else y, q)


def _normalized(name: str) -> Any:
    def translate(t: Any, input: Any, *args: Any) -> Any:
        *own, output_scale, output_zero_point = args
        own = [t.value(v) if isinstance(v, Tensor) else v for v in own]
        b, x = t.builder, wide(t.builder, input)
        if name == "instance_norm":  # a group for each channel
            own = [static_dim(x.type, 1, "the channels of a normalization"), *own]
        mapping = torch.resolve("aten::layer_norm" if name == "layer_norm" else "aten::group_norm")
        assert mapping is not None
        y = t.folded(lambda: mapping[1].function(b, x, *own))
        return rounded(b, y, quantization(b, output_scale, output_zero_point, input.quant.zero.type.dtype))

    return translate


for _name in ("layer_norm", "group_norm", "instance_norm"):
    torch.op(f"quantized::{_name}", plain=True)(_normalized(_name))


# ---- embeddings: rows with scales of their own


@torch.op("quantized::embedding_byte", "quantized::embedding_4bit", plain=True)
def _(t, weight, indices, pruned_weights=False):
    return Tensor(t.builder.Gather(_table(t, weight, pruned_weights), t.value(indices), axis=0))


@torch.op("quantized::embedding_bag_byte", "quantized::embedding_bag_4bit", plain=True)
def _(t, weight, indices, offsets=None, scale_grad_by_freq=False, mode=0, pruned_weights=False,
      per_sample_weights=None, compressed_indices_mapping=None, include_last_offset=False):  # fmt: skip
    i = t.value(indices)
    if offsets is not None or i.type.rank != 2:
        raise UnsupportedError(
            "a quantized embedding bag with offsets is not supported", hint="give it rows of indices"
        )
    b = t.builder
    rows = b.Gather(_table(t, weight, pruned_weights), i, axis=0)
    if per_sample_weights is not None:
        rows = b.Mul(rows, b.Unsqueeze(t.value(per_sample_weights), axes=(2,)))
    return Tensor(b.ReduceSum(rows, axes=(1,), keepdims=False))


def _table(t: Any, packed: Any, pruned: bool) -> Value:
    """The numbers of an embedding. Its zero points are numbers with fractions."""
    if pruned or not isinstance(packed, Object) or "weight" not in packed.attrs:
        raise UnsupportedError("a quantized embedding with pruned rows is not supported")
    weight = packed.attrs["weight"]
    if not isinstance(weight, Stored):
        raise UnsupportedError(
            "a quantized embedding of this element type is not supported", hint="keep it in float or in 8 bits"
        )
    b = t.builder
    plain = b.Cast(Value.constant(weight.load()), to=DType.F32)
    scale = np.asarray(weight.scale, np.float32).reshape(-1, 1)
    # The kernels keep the least number of each row in place of its zero point.
    least = (-np.asarray(weight.zero, np.float32) * np.asarray(weight.scale, np.float32)).reshape(-1, 1)
    made: Value = b.Add(b.Mul(plain, scale), least)
    return made
