"""Layers of Caffe's forks, where these agree on what a name means."""

from __future__ import annotations

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.ops import (
    activation,  # noqa: F401  (layers whose other names stand here)
    movement,  # noqa: F401  (layers whose other names stand here)
)
from minnow.converter.caffe.ops.convolution import spatial
from minnow.converter.caffe.ops.norm import moments
from minnow.converter.caffe.ops.pooling import pooled
from minnow.converter.caffe.shape import axis_of
from minnow.converter.caffe.upgrade import parameter_field
from minnow.converter.operand import bounded, constant, dimensions, regroup, reshaped, static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value

_SAME_AS = {
    "DepthwiseConv": "ConvolutionDepthwise",
    "CuDNNGroupedConvolutionForward": "Convolution",
    "CuDNNConvolution": "Convolution",
    "CuDNNDeconvolution": "Deconvolution",
    "CuDNNPooling": "Pooling",
    "CuDNNLRNCrossChannel": "LRN",
    "CuDNNLRN": "LRN",
    "CuDNNBatchNorm": "BatchNorm",
    "CuDNNReLU": "ReLU",
    "CuDNNSigmoid": "Sigmoid",
    "CuDNNTanH": "TanH",
    "CuDNNSoftmax": "Softmax",
}
for _name, _known in _SAME_AS.items():
    frontend.mappings[_name] = frontend.mappings[_known]
    frontend.parameters[_name] = parameter_field(_known)

frontend.same(SpatialDropout="Identity", SiLU="Silu", HSwish="HardSwish", HardSwish="HardSwish", Mish="Mish")

frontend.refuse(
    "Im2seq", "Seq2out", "OCRLSTM", "OCRLSTMQ", "CuDNNLstmForward",
    why="a layer of a fork that is not public: nothing says what it computes",
    hint="end the net before it: `--outputs`",
)  # fmt: skip
frontend.refuse(
    "Resize", "MatMul", "L2Norm", "L2Normalize", "L2Normalization", "Normalization", "ChannelScale", "Padding",
    "Region",
    why="forks compute different things under this name",
    hint="end the net before it: `--outputs`; Interp, Upsample, InnerProduct and Normalize are converted",
)  # fmt: skip


@frontend.op("ReLU6")
def _(b, x):
    return b.Clip(x, min=0.0, max=6.0)


@frontend.op("HardSigmoid", param="hard_sigmoid_param")
def _(b, x, *, alpha=0.2, beta=0.5):
    return b.HardSigmoid(x, alpha=alpha, beta=beta)


@frontend.op("HSigmoid")
def _(b, x):
    return b.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@frontend.op("BN", param="bn_param")
def _(b, x, *, node: Layer, momentum=0.9, eps=1e-5, frozen=False, bn_mode="LEARN", var_eps=1e-9):
    """SegNet's, of two blobs, whose statistics are the input's or in the blobs; or ENet's and PSPNet's, of four."""
    scale, bias, *stored = (constant(w).reshape(-1) for w in node.weights)
    if len(stored) == 2:
        return b.BatchNorm(x, scale, bias, *stored, epsilon=eps)
    if stored:
        raise ModelError(f"BN has {len(node.weights)} weight blobs", why="it must have 2 or 4")
    if bn_mode == "LEARN":
        centered, variance = moments(b, x, tuple(i for i in range(axis_of(x, -1) + 1) if i != 1))
        x = b.Div(centered, b.Sqrt(b.Add(variance, np.float32(var_eps))))
    return b.Scale(x, scale, bias)


@frontend.op("Interp", param="interp_param")
def _(b, x, like=None, *, height=0, width=0, zoom_factor=None, shrink_factor=None, pad_beg=0, pad_end=0):
    """Bilinear, corner on corner. The size is stated, or of the second bottom, or follows from whole factors."""
    if pad_beg > 0 or pad_end > 0:
        raise ModelError(
            f"the padding {pad_beg}, {pad_end} of Interp must not be positive",
            why="Interp only crops, by negative padding",
        )
    if min(1 if zoom_factor is None else zoom_factor, 1 if shrink_factor is None else shrink_factor) < 1:
        raise ModelError(f"zoom_factor ({zoom_factor}) and shrink_factor ({shrink_factor}) must be at least 1")
    if pad_beg or pad_end:
        sizes = [static_dim(x.type, axis, "a cropped image") for axis in (2, 3)]
        ends = np.array([d + pad_end for d in sizes])
        x = b.Slice(x, np.array([-pad_beg, -pad_beg]), ends, np.array([2, 3]))
    wanted: Value | np.ndarray
    if like is not None:
        wanted = b.Shape(like, start=2, end=4)
    elif (zoom_factor is None) == (shrink_factor is None) and (zoom_factor is None or (height and width)):
        wanted = np.array([height, width])
    else:
        sizes = [static_dim(x.type, axis, "an image that is resized by a factor") for axis in (2, 3)]
        short = [(d - 1) // (shrink_factor or 1) + 1 for d in sizes]
        wanted = np.array([d + (d - 1) * ((zoom_factor or 1) - 1) for d in short])
    if isinstance(wanted, np.ndarray) and wanted.min() < 1:
        raise ModelError(f"Interp would give an image of the size {wanted.tolist()}")
    return b.Resize(x, None, None, wanted, mode="linear", coordinate_mode="align_corners", axes=(2, 3))


@frontend.op("Upsample", param="upsample_param")
def _(b, x, places=None, *, scale=None, scale_h=None, scale_w=None, pad_out_h=False, pad_out_w=False,
      upsample_h=None, upsample_w=None):  # fmt: skip
    """With places, elements go back to where pooling found them; without, each of them is repeated."""
    factor = (scale_h, scale_w) if scale_h is not None else (2 if scale is None else scale,) * 2
    if None in factor or any(f != int(f) or f < 1 for f in factor):
        raise UnsupportedError(f"Upsample by the factors {factor} is not supported: they must be whole numbers")
    down, right = map(int, factor)
    sizes = dimensions(b, x, "what is upsampled")
    if places is None:
        if pad_out_h or pad_out_w or upsample_h is not None or upsample_w is not None:
            raise ModelError("Upsample to a given size needs the indices of a pooling layer as its second input")
        return b.Resize(x, None, np.array([down, right], np.float32), None, mode="nearest", axes=(2, 3),
                        coordinate_mode="asymmetric", nearest_mode="floor")  # fmt: skip
    n, c, h, w = (static_dim(x.type, axis, "what is upsampled") for axis in range(4))
    high = upsample_h if upsample_h is not None else h * down - pad_out_h
    wide = upsample_w if upsample_w is not None else w * right - pad_out_w
    bounded(n * c * high * wide, "the result of Upsample")
    empty = b.const(np.zeros((n, c, high * wide), np.float32))
    at = b.Cast(regroup(b, places, [n, c, h * w]), to=DType.I64)
    return b.Reshape(
        b.ScatterElements(empty, at, regroup(b, x, [n, c, h * w]), axis=2), np.array([*sizes[:2], high, wide])
    )


@frontend.op("ShuffleChannel", param="shuffle_channel_param")
def _(b, x, *, group=1):
    sizes = dimensions(b, x, "the input")
    channels = static_dim(x.type, 1, "the channels")
    if group < 1 or channels % group:
        raise ModelError(f"{channels} channels cannot be divided into {group} groups")
    parts = regroup(b, x, [sizes[0], group, channels // group, *sizes[2:]])
    turned = b.Transpose(parts, perm=(0, 2, 1, *range(3, len(sizes) + 1)))
    return regroup(b, turned, sizes)


@frontend.op("Axpy")
def _(b, scale, x, y):
    """scale * x + y, the scale being one number per image and channel."""
    sizes = dimensions(b, scale, "the factors")
    return b.Add(b.Mul(regroup(b, scale, [*sizes[:2], 1, 1]), x), y)


@frontend.op("SpatialProduct")
def _(b, x, factor):
    """Every channel times the one of the second bottom."""
    if static_dim(factor.type, 1, "the factors") != 1:
        raise ModelError("the factors of SpatialProduct must have one channel", why=f"they are {factor.type}")
    return b.Mul(x, factor)


@frontend.op("Transpose", param="transpose_param")
def _(b, x, *, dim=()):
    """Of a fork for text in images; Permute by another name."""
    if sorted(dim) != [*range(axis_of(x, -1) + 1)]:
        raise ModelError(f"{dim} is not an order of the axes of {x.type}")
    return b.Transpose(x, perm=dim)


@frontend.op("Reverse", param="reverse_param")
def _(b, x, *, axis=0):
    return b.Reverse(x, axes=(axis_of(x, axis),))


@frontend.op("Convolution3D", param="convolution3d_param")
def _(b, x, *, node: Layer, num_output, kernel_size, kernel_depth, bias_term=True, stride=1, temporal_stride=1, pad=0,
      temporal_pad=0, group=1, filter_group=1):  # fmt: skip
    """C3D's convolution of [N, C, time, H, W]."""
    kernel = (kernel_depth, kernel_size, kernel_size)
    channels, rest = divmod(node.weight(0).type.count or 0, num_output * int(np.prod(kernel)))
    if rest or not channels:
        raise ModelError(f"the weights {node.weight(0).type} do not fit {num_output} outputs and the kernel {kernel}")
    weights = reshaped(b, node.weight(0), (num_output, channels, *kernel))
    bias = reshaped(b, node.weight(1), (num_output,)) if bias_term else None
    return b.Conv(x, weights, bias, strides=(temporal_stride, stride, stride), pads=(temporal_pad, pad, pad) * 2,
                  dilations=(1, 1, 1), group=group)  # fmt: skip


@frontend.op("Pooling3D", param="pooling3d_param")
def _(b, x, *, pool="MAX", kernel_size, kernel_depth, stride=1, temporal_stride=1, pad=0, temporal_pad=0):
    """C3D's pooling of [N, C, time, H, W], which rounds up as Caffe's does."""
    if pool == "STOCHASTIC" or min(kernel_size, kernel_depth, stride, temporal_stride) < 1:
        raise UnsupportedError(f"Pooling3D with pool {pool}, kernel {kernel_size} and stride {stride} is not supported")
    kernel, strides = (
        (kernel_depth, *spatial("kernel", (kernel_size,), 2, None, None, None)),
        (temporal_stride, stride, stride),
    )
    return pooled(b, x, pool, kernel=kernel, strides=strides, pads=(temporal_pad, pad, pad) * 2)


@frontend.op("Lstm", param="lstm_param")
def _(b, x, *, node: Layer, num_output, clipping_threshold=0.0, batch_size=1):
    """Rows are the steps of `batch_size` sequences, one step of all of them after the other; clipping is for training.

    Blobs: weights [4 * H, inputs] and [4 * H, H], and offsets, of the input, forget and output gates and the candidate.
    """
    h = num_output
    sizes = dimensions(b, x, "the input")
    features = static_dim(x.type, 1, "the features") * int(
        np.prod([static_dim(x.type, a, "the features") for a in range(2, len(sizes))])
    )
    first, second = (reshaped(b, node.weight(i), (4 * h, d)) for i, d in enumerate((features, h)))
    offset = constant(node.weight(2)).reshape(4 * h) if len(node.weights) > 2 else np.zeros(4 * h, np.float32)

    def turned(v: np.ndarray) -> np.ndarray:  # to input, output, forget, candidate
        i, f, o, g = np.split(v, 4)
        return np.concatenate([i, o, f, g])

    w, u = (turned(constant(v))[None] for v in (first, second))
    bias = np.concatenate([turned(offset), np.zeros(4 * h, np.float32)])[None]
    steps = b.Reshape(x, np.array([-1, batch_size, features]))
    return b.Reshape(b.LSTM(steps, w, u, bias, hidden=h, n_outputs=3)[0], np.array([-1, h]))
