"""Convolution, Deconvolution and InnerProduct: every spelling of kernel, stride, pad, dilation and group."""

from __future__ import annotations

from .case import F, Given, case, f32, layer, torch, weight, whole

X = f32(2, 4, 9, 7)


def conv(name: str, params: str, x: Given, w: Given, *more: Given, type: str = "Convolution", **how: object) -> None:
    """A convolution whose torch options are `how`; a weight in `more` is the bias."""
    text = params if more else f"{params} bias_term: false"
    case(name, x, layer(type, text, w, *more))(
        lambda x, w, *b: (F.conv2d if x.dim() == 4 else F.conv1d if x.dim() == 3 else F.conv3d)(x, w, *b, **how)
    )


conv("conv_1x1", "num_output: 5 kernel_size: 1", X, weight(5, 4, 1, 1), weight(5))
conv("conv_3x3", "num_output: 5 kernel_size: 3", X, weight(5, 4, 3, 3), weight(5))
conv("conv_3x3_without_bias", "num_output: 5 kernel_size: 3", X, weight(5, 4, 3, 3))
conv("conv_3x3_pad1", "num_output: 5 kernel_size: 3 pad: 1", X, weight(5, 4, 3, 3), weight(5), padding=1)
conv("conv_3x3_stride2", "num_output: 5 kernel_size: 3 stride: 2", X, weight(5, 4, 3, 3), weight(5), stride=2)
conv(
    "conv_3x3_stride2_pad1",
    "num_output: 5 kernel_size: 3 stride: 2 pad: 1",
    X,
    weight(5, 4, 3, 3),
    weight(5),
    stride=2,
    padding=1,
)
conv(
    "conv_5x5_pad2_stride3",
    "num_output: 3 kernel_size: 5 stride: 3 pad: 2",
    X,
    weight(3, 4, 5, 5),
    weight(3),
    stride=3,
    padding=2,
)
conv("conv_7x7_of_7x7", "num_output: 3 kernel_size: 7", f32(1, 2, 7, 7), weight(3, 2, 7, 7), weight(3))
conv("conv_kernel_pair", "num_output: 5 kernel_size: 3 kernel_size: 1", X, weight(5, 4, 3, 1), weight(5))
conv(
    "conv_all_pairs",
    "num_output: 5 kernel_size: 3 kernel_size: 2 stride: 2 stride: 1 pad: 0 pad: 1 dilation: 2 dilation: 1",
    X,
    weight(5, 4, 3, 2),
    weight(5),
    stride=(2, 1),
    padding=(0, 1),
    dilation=(2, 1),
)
conv(
    "conv_h_and_w",
    "num_output: 5 kernel_h: 1 kernel_w: 5 pad_h: 0 pad_w: 2 stride_h: 2 stride_w: 1",
    X,
    weight(5, 4, 1, 5),
    weight(5),
    padding=(0, 2),
    stride=(2, 1),
)
conv("conv_only_pad_w", "num_output: 5 kernel_size: 3 pad_w: 1", X, weight(5, 4, 3, 3), weight(5), padding=(0, 1))
conv("conv_only_stride_w", "num_output: 5 kernel_size: 3 stride_h: 1 stride_w: 2", X, weight(5, 4, 3, 3), stride=(1, 2))
for d in (2, 3):
    conv(
        f"conv_dilation{d}",
        f"num_output: 5 kernel_size: 3 dilation: {d} pad: {d}",
        X,
        weight(5, 4, 3, 3),
        weight(5),
        dilation=d,
        padding=d,
    )
conv(
    "conv_dilation2_stride2",
    "num_output: 5 kernel_size: 3 dilation: 2 stride: 2",
    X,
    weight(5, 4, 3, 3),
    dilation=2,
    stride=2,
)
conv("conv_group2", "num_output: 6 kernel_size: 3 group: 2", X, weight(6, 2, 3, 3), weight(6), groups=2)
conv(
    "conv_group2_pad_stride",
    "num_output: 6 kernel_size: 3 group: 2 pad: 1 stride: 2",
    X,
    weight(6, 2, 3, 3),
    weight(6),
    groups=2,
    padding=1,
    stride=2,
)
conv(
    "conv_group4_depthwise",
    "num_output: 4 kernel_size: 3 group: 4 pad: 1",
    X,
    weight(4, 1, 3, 3),
    weight(4),
    groups=4,
    padding=1,
)
conv("conv_group4_multiplier2", "num_output: 8 kernel_size: 3 group: 4", X, weight(8, 1, 3, 3), weight(8), groups=4)
conv(
    "conv_depthwise_dilation",
    "num_output: 4 kernel_size: 3 group: 4 pad: 2 dilation: 2",
    X,
    weight(4, 1, 3, 3),
    groups=4,
    padding=2,
    dilation=2,
)
conv(
    "conv_group3_1x1", "num_output: 9 kernel_size: 1 group: 3", f32(1, 6, 5, 5), weight(9, 2, 1, 1), weight(9), groups=3
)
conv("conv_one_channel", "num_output: 1 kernel_size: 3", f32(1, 1, 5, 5), weight(1, 1, 3, 3), weight(1))
conv("conv_one_pixel", "num_output: 7 kernel_size: 1", f32(3, 5, 1, 1), weight(7, 5, 1, 1), weight(7))
conv(
    "conv_pad_larger_than_input", "num_output: 3 kernel_size: 3 pad: 4", f32(1, 2, 2, 3), weight(3, 2, 3, 3), padding=4
)
conv(
    "conv_prime_channels",
    "num_output: 19 kernel_size: 3 pad: 1",
    f32(1, 17, 11, 13),
    weight(19, 17, 3, 3),
    weight(19),
    padding=1,
)
conv(
    "conv_many_channels",
    "num_output: 64 kernel_size: 3 pad: 1",
    f32(1, 32, 14, 14),
    weight(64, 32, 3, 3),
    weight(64),
    padding=1,
)
conv(
    "conv_engine_and_fillers",
    'num_output: 5 kernel_size: 3 engine: CAFFE weight_filler { type: "xavier" }',
    X,
    weight(5, 4, 3, 3),
)
conv(
    "conv_stride_without_overlap", "num_output: 5 kernel_size: 2 stride: 3", X, weight(5, 4, 2, 2), weight(5), stride=3
)
conv(
    "conv_11x11_stride4",
    "num_output: 6 kernel_size: 11 stride: 4",
    f32(1, 3, 35, 27),
    weight(6, 3, 11, 11),
    weight(6),
    stride=4,
)
conv("conv_three_spatial_axes", "num_output: 5 kernel_size: 3", f32(1, 2, 5, 6, 7), weight(5, 2, 3, 3, 3), weight(5))
conv(
    "conv_three_spatial_axes_all",
    "num_output: 4 kernel_size: 3 kernel_size: 2 kernel_size: 1 pad: 1 pad: 1 pad: 0 stride: 2 stride: 1 stride: 1",
    f32(2, 2, 5, 6, 7),
    weight(4, 2, 3, 2, 1),
    weight(4),
    padding=(1, 1, 0),
    stride=(2, 1, 1),
)
conv(
    "conv_one_spatial_axis",
    "num_output: 5 kernel_size: 3 pad: 1 stride: 2",
    f32(2, 4, 11),
    weight(5, 4, 3),
    weight(5),
    padding=1,
    stride=2,
)
case(
    "conv_axis2",
    f32(2, 3, 4, 5, 6),
    layer("Convolution", "num_output: 5 kernel_size: 3 axis: 2", weight(5, 4, 3, 3), weight(5)),
)(lambda x, w, b: F.conv2d(x.reshape(6, 4, 5, 6), w, b).reshape(2, 3, 5, 3, 4))
case(
    "conv_force_nd",
    X,
    layer("Convolution", "num_output: 5 kernel_size: 3 force_nd_im2col: true", weight(5, 4, 3, 3), weight(5)),
)(F_conv := lambda x, w, b: F.conv2d(x, w, b))
case(
    "conv_two_bottoms_two_tops",
    X,
    f32(1, 4, 5, 5),
    layer("Convolution", "num_output: 5 kernel_size: 3", weight(5, 4, 3, 3), weight(5), at="x y", to="a b"),
)(lambda x, y, w, b: (F.conv2d(x, w, b), F.conv2d(y, w, b)))
case(
    "conv_relu_in_place",
    X,
    layer("Convolution", "num_output: 5 kernel_size: 3", weight(5, 4, 3, 3), weight(5)),
    layer("ReLU", at="out"),
)(lambda x, w, b: F.relu(F.conv2d(x, w, b)))
for encoding in ("legacy", "double", "half", "scattered"):
    case(
        f"conv_blobs_{encoding}",
        X,
        layer("Convolution", "num_output: 5 kernel_size: 3", weight(5, 4, 3, 3), weight(5), encoding=encoding),
        tolerance=2e-3 if encoding == "half" else 1e-4,
    )(F_conv)
for type in ("DepthwiseConvolution", "ConvolutionDepthwise", "DepthwiseConv"):
    conv(
        f"conv_as_{type}",
        "num_output: 4 kernel_size: 3 pad: 1 group: 4",
        X,
        weight(4, 1, 3, 3),
        weight(4),
        type=type,
        padding=1,
        groups=4,
    )
conv(
    "conv_depthwise_without_group",
    "num_output: 4 kernel_size: 3 pad: 1",
    X,
    weight(4, 1, 3, 3),
    weight(4),
    type="ConvolutionDepthwise",
    padding=1,
    groups=4,
)
conv(
    "conv_depthwise_stride2",
    "num_output: 4 kernel_size: 3 stride: 2 group: 4",
    X,
    weight(4, 1, 3, 3),
    type="DepthwiseConvolution",
    stride=2,
    groups=4,
)
conv(
    "conv_as_CuDNNGroupedConvolutionForward",
    "num_output: 6 kernel_size: 3 group: 2",
    X,
    weight(6, 2, 3, 3),
    weight(6),
    type="CuDNNGroupedConvolutionForward",
    groups=2,
)


def deconv(name: str, params: str, x: Given, w: Given, *more: Given, **how: object) -> None:
    text = params if more else f"{params} bias_term: false"
    case(name, x, layer("Deconvolution", text, w, *more))(
        lambda x, w, *b: (F.conv_transpose2d if x.dim() == 4 else F.conv_transpose3d)(x, w, *b, **how)
    )


deconv("deconv_2x2_stride2", "num_output: 5 kernel_size: 2 stride: 2", X, weight(4, 5, 2, 2), weight(5), stride=2)
deconv(
    "deconv_4x4_stride2_pad1",
    "num_output: 5 kernel_size: 4 stride: 2 pad: 1",
    X,
    weight(4, 5, 4, 4),
    weight(5),
    stride=2,
    padding=1,
)
deconv("deconv_3x3", "num_output: 5 kernel_size: 3", X, weight(4, 5, 3, 3), weight(5))
deconv("deconv_3x3_without_bias", "num_output: 5 kernel_size: 3 stride: 3", X, weight(4, 5, 3, 3), stride=3)
deconv(
    "deconv_group2",
    "num_output: 6 kernel_size: 3 group: 2 stride: 2",
    X,
    weight(4, 3, 3, 3),
    weight(6),
    stride=2,
    groups=2,
)
deconv(
    "deconv_depthwise",
    "num_output: 4 kernel_size: 4 group: 4 stride: 2 pad: 1",
    X,
    weight(4, 1, 4, 4),
    stride=2,
    padding=1,
    groups=4,
)
deconv(
    "deconv_h_and_w",
    "num_output: 3 kernel_h: 3 kernel_w: 2 stride_h: 1 stride_w: 2 pad_h: 1 pad_w: 0",
    X,
    weight(4, 3, 3, 2),
    weight(3),
    stride=(1, 2),
    padding=(1, 0),
)
deconv("deconv_dilation2", "num_output: 3 kernel_size: 3 dilation: 2", X, weight(4, 3, 3, 3), weight(3), dilation=2)
deconv("deconv_one_pixel", "num_output: 3 kernel_size: 5", f32(1, 4, 1, 1), weight(4, 3, 5, 5), weight(3))
deconv(
    "deconv_stride_larger_than_kernel",
    "num_output: 3 kernel_size: 2 stride: 4",
    X,
    weight(4, 3, 2, 2),
    weight(3),
    stride=4,
)
deconv(
    "deconv_three_spatial_axes",
    "num_output: 3 kernel_size: 2 stride: 2",
    f32(1, 4, 3, 4, 5),
    weight(4, 3, 2, 2, 2),
    weight(3),
    stride=2,
)
deconv(
    "deconv_8x8_stride4_pad2",
    "num_output: 2 kernel_size: 8 stride: 4 pad: 2 group: 2",
    f32(1, 2, 5, 7),
    weight(2, 1, 8, 8),
    stride=4,
    padding=2,
    groups=2,
)


def inner(name: str, params: str, x: Given, w: Given, *more: Given, axis: int = 1, transpose: bool = False) -> None:
    text = params if more else f"{params} bias_term: false"

    def judge(x, w, *b):
        return F.linear(x.flatten(axis), w.T if transpose else w, *b)

    case(name, x, layer("InnerProduct", text, w, *more))(judge)


inner("inner_4d", "num_output: 5", f32(2, 3, 4, 6), weight(5, 72), weight(5))
inner("inner_2d", "num_output: 5", f32(3, 7), weight(5, 7), weight(5))
inner("inner_without_bias", "num_output: 5", f32(3, 7), weight(5, 7))
inner("inner_batch_1", "num_output: 10", f32(1, 13), weight(10, 13), weight(10))
inner("inner_one_output", "num_output: 1", f32(4, 3, 1, 1), weight(1, 3), weight(1))
inner("inner_axis2", "num_output: 5 axis: 2", f32(2, 3, 4, 6), weight(5, 24), weight(5), axis=2)
inner("inner_axis_last", "num_output: 5 axis: -1", f32(2, 3, 4, 6), weight(5, 6), weight(5), axis=3)
inner("inner_axis_3d", "num_output: 5 axis: 2", f32(2, 3, 6), weight(5, 6), weight(5), axis=2)
inner("inner_transposed", "num_output: 5 transpose: true", f32(2, 3, 4), weight(12, 5), weight(5), transpose=True)
inner(
    "inner_transposed_axis2",
    "num_output: 5 transpose: true axis: 2",
    f32(2, 3, 4),
    weight(4, 5),
    axis=2,
    transpose=True,
)
inner("inner_wide", "num_output: 128", f32(2, 16, 5, 5), weight(128, 400), weight(128))
case("inner_axis0", f32(3, 4), layer("InnerProduct", "num_output: 5 axis: 0", weight(5, 12), weight(5)))(
    lambda x, w, b: F.linear(x.flatten(), w, b)
)
case(
    "inner_relu_inner",
    f32(2, 9),
    layer("InnerProduct", "num_output: 7", weight(7, 9), weight(7), to="a"),
    layer("ReLU", at="a", to="a"),
    layer("InnerProduct", "num_output: 3", weight(3, 7), weight(3), at="a"),
)(lambda x, w, b, v, c: F.linear(F.relu(F.linear(x, w, b)), v, c))
case(
    "inner_legacy_blobs",
    f32(2, 3, 4, 4),
    layer("InnerProduct", "num_output: 5", weight(5, 48), weight(5), encoding="legacy"),
)(lambda x, w, b: F.linear(x.flatten(1), w, b))
case("embed", layer("Embed", "num_output: 4 input_dim: 11", weight(11, 4), weight(4)), whole(2, 5, low=0, high=11))(
    lambda x, w, b: F.embedding(x.long(), w) + b
)
case(
    "embed_without_bias",
    layer("Embed", "num_output: 4 input_dim: 11 bias_term: false", weight(11, 4)),
    whole(7, low=0, high=11),
)(lambda x, w: F.embedding(x.long(), w))
case("im2col", f32(2, 3, 6, 7), layer("Im2col", "convolution_param { kernel_size: 3 pad: 1 stride: 2 }"))(
    lambda x: torch.nn.functional.unfold(x, 3, padding=1, stride=2).reshape(2, 27, 3, 4)
)
case("im2col_dilation", f32(1, 2, 7, 7), layer("Im2col", "convolution_param { kernel_h: 2 kernel_w: 3 dilation: 2 }"))(
    lambda x: torch.nn.functional.unfold(x, (2, 3), dilation=2).reshape(1, 12, 5, 3)
)
