"""Convolutions and pools: paddings, strides, dilations, groups, layouts; normalization of images."""

from __future__ import annotations

from .case import case, f32, f64, tf, weight

X = [f32(1, 7, 9, 3)]
EIGHT = "int8 uint8 int16 half"


def conv(name, strides, padding, kernel=(3, 3), given=X, channels=(3, 5), also="", **more):
    case(f"conv2d_{name}", given, also=also)(
        lambda x: tf.nn.conv2d(x, weight(*kernel, *channels), strides, padding, **more)
    )


conv("same", 1, "SAME", also=EIGHT)
conv("valid", 1, "VALID", also="int8")
conv("same_stride2_odd", 2, "SAME", also=EIGHT + " int8_float")
conv("same_stride2_even", 2, "SAME", given=[f32(2, 8, 6, 3)], also="int8")
conv("same_stride3_kernel2", 3, "SAME", kernel=(2, 2))
conv("same_kernel_even", 1, "SAME", kernel=(4, 2), also="int8")
conv("valid_stride21", [1, 2, 1, 1], "VALID", kernel=(2, 5))
conv("explicit", 1, [[0, 0], [2, 0], [1, 3], [0, 0]], kernel=(3, 2))
conv("explicit_stride2", 2, [[0, 0], [0, 1], [1, 1], [0, 0]])
conv("dilated_same", 1, "SAME", dilations=2, also="int8")
conv("dilated_valid", 1, "VALID", dilations=[1, 3, 2, 1])
conv("pointwise", 1, "SAME", kernel=(1, 1), channels=(3, 17), also=EIGHT)
conv("pointwise_stride2", 2, "VALID", kernel=(1, 1), channels=(3, 17), also="int8")
conv("kernel_of_image", 1, "VALID", kernel=(7, 9), channels=(3, 11), also="int8")
conv("kernel_beyond_image_same", 1, "SAME", kernel=(7, 7), given=[f32(1, 3, 2, 3)])
conv("grouped", 1, "SAME", given=[f32(1, 5, 7, 6)], channels=(2, 9))
conv("one_channel", 1, "SAME", given=[f32(1, 5, 7, 1)], channels=(1, 1), also="int8")
conv("wide_dynamic", 1, "SAME", given=[f32(2, 5, 7, 32)], channels=(32, 32), also="dynamic half int16 int8")
conv("no_images", 1, "SAME", given=[f32(0, 5, 7, 3)])
conv("open_batch", 1, "SAME", given=[f32(2, 5, 7, 3).open(None, 5, 7, 3)], also="int8")
conv("open_extents", 2, "SAME", given=[f32(2, 5, 7, 3).open(None, None, None, 3)], also="int8")


@case("conv2d_bias_relu", X, also=EIGHT)
def _(x):
    return tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, weight(3, 2, 3, 5), [1, 1, 2, 1], "VALID"), weight(5)))


@case("conv2d_bias_relu6", X, also="int8")
def _(x):
    return tf.nn.relu6(tf.nn.conv2d(x * 4.0, weight(3, 2, 3, 5), 1, "SAME") + weight(5))


@case("conv2d_bias_tanh", X, also="int8 int16")
def _(x):
    return tf.tanh(tf.nn.conv2d(x, weight(3, 2, 3, 5), 1, "SAME") * 0.2 + weight(5))


@case("conv2d_two_layers_residual", [f32(1, 7, 9, 8)], also="int8 uint8 int16 int8_float half")
def _(x):
    y = tf.nn.relu(tf.nn.conv2d(x, weight(3, 3, 8, 8, low=-0.3, high=0.3), 1, "SAME") + weight(8))
    return x + tf.nn.conv2d(y, weight(1, 1, 8, 8, low=-0.3, high=0.3), 1, "SAME") + weight(8)


@case("conv2d_computed_filter", [f32(1, 5, 7, 3), f32(3, 3, 3, 4)], also="int8 int16")
def _(x, w):
    return tf.nn.conv2d(x, w, 1, "SAME")


@case("conv2d_f64", [f64(1, 5, 7, 3)])
def _(x):
    return tf.nn.conv2d(x, weight(3, 3, 3, 4, dtype="f8"), 1, "SAME")


@case("conv1d_same_stride2", [f32(2, 11, 3)], also="int8")
def _(x):
    return tf.nn.conv1d(x, weight(4, 3, 5), 2, "SAME")


@case("conv1d_dilated_causal", [f32(1, 11, 3)])
def _(x):
    return tf.nn.conv1d(tf.pad(x, [[0, 0], [4, 0], [0, 0]]), weight(3, 3, 5), 1, "VALID", dilations=2)


@case("conv3d_same_stride2", [f32(1, 4, 5, 7, 2)])
def _(x):
    return tf.nn.conv3d(x, weight(3, 2, 3, 2, 4), [1, 1, 2, 2, 1], "SAME")


@case("conv3d_valid_bias", [f32(2, 4, 5, 7, 2)])
def _(x):
    return tf.nn.relu(tf.nn.conv3d(x, weight(2, 3, 3, 2, 4), [1] * 5, "VALID") + weight(4))


def depthwise(name, strides, padding, multiplier=1, given=X, also="", kernel=(3, 3), **more):
    case(f"depthwise_{name}", given, also=also)(
        lambda x: tf.nn.depthwise_conv2d(
            x, weight(*kernel, x.shape[-1], multiplier), [1, strides, strides, 1], padding, **more
        )
    )


depthwise("same", 1, "SAME", also=EIGHT)
depthwise("stride2", 2, "SAME", also="int8 int16")
depthwise("valid_multiplier3", 1, "VALID", 3, also="int8")
depthwise("dilated", 1, "SAME", dilations=[2, 2], also="int8")
depthwise("one_channel_multiplier4", 1, "SAME", 4, given=[f32(1, 7, 5, 1)], also="int8")
depthwise("kernel51", 1, "SAME", 2, kernel=(5, 1))
depthwise("explicit", 1, [[0, 0], [1, 0], [2, 1], [0, 0]])
depthwise("wide", 1, "SAME", given=[f32(1, 7, 9, 37)], also="int8 dynamic")


@case("separable_conv2d", X, also="int8")
def _(x):
    return tf.nn.separable_conv2d(x, weight(3, 3, 3, 2), weight(1, 1, 6, 5), [1, 1, 1, 1], "SAME")


def transposed(name, shape, strides, padding, kernel=(3, 3), also=""):
    case(f"conv2d_transpose_{name}", [f32(2, 4, 5, 3)], also=also)(
        lambda x: tf.nn.conv2d_transpose(x, weight(*kernel, 7, 3), shape, strides, padding)
    )


transposed("same2", (2, 8, 10, 7), 2, "SAME", also="int8 int16 half")
transposed("same2_odd", (2, 7, 9, 7), 2, "SAME", also="int8")
transposed("valid", (2, 6, 7, 7), 1, "VALID")
transposed("valid2_larger", (2, 10, 12, 7), 2, "VALID", also="int8")
transposed("kernel2_stride2", (2, 8, 10, 7), 2, "SAME", kernel=(2, 2))
transposed("kernel_below_stride", (2, 12, 15, 7), 3, "SAME", kernel=(2, 2))
transposed("kernel42", (2, 8, 10, 7), 2, "SAME", kernel=(4, 2))


@case("conv2d_transpose_open_batch", [f32(2, 4, 5, 3).open(None, 4, 5, 3)], also="int8")
def _(x):
    return tf.nn.conv2d_transpose(x, weight(3, 3, 7, 3), [tf.shape(x)[0], 8, 10, 7], 2, "SAME")


@case("conv3d_transpose", [f32(1, 3, 4, 5, 2)])
def _(x):
    return tf.nn.conv3d_transpose(x, weight(3, 3, 3, 4, 2), (1, 6, 8, 10, 4), 2, "SAME")


@case("conv1d_transpose", [f32(2, 7, 3)])
def _(x):
    return tf.nn.conv1d_transpose(x, weight(4, 5, 3), (2, 14, 5), 2, "SAME")


for kind in ("max", "avg"):
    pool = f"{kind}_pool2d"
    for name, (size, stride, padding, also) in {
        "same2": (2, 2, "SAME", "int8 uint8 int16"),
        "valid2": (2, 2, "VALID", "int8"),
        "same3_stride1": (3, 1, "SAME", "int8"),
        "same3_stride2": (3, 2, "SAME", "int8 int16"),
        "valid_32": ([3, 2], [1, 2], "VALID", ""),
        "stride_beyond_kernel": (1, 3, "VALID", ""),
    }.items():
        case(f"{kind}_pool_{name}", [f32(2, 7, 9, 5)], also=also)(
            lambda x, f=pool, a=(size, stride, padding): getattr(tf.nn, f)(x, *a)
        )
    case(f"{kind}_pool_of_all", [f32(2, 7, 9, 5)], also="int8")(
        lambda x, f=pool: getattr(tf.nn, f)(x, [7, 9], 1, "VALID")
    )
    case(f"{kind}_pool_open", [f32(2, 7, 9, 5).open(None, None, None, 5)])(
        lambda x, f=pool: getattr(tf.nn, f)(x, 3, 2, "SAME")
    )
    case(f"{kind}_pool1d", [f32(2, 11, 5)])(lambda x, f=f"{kind}_pool1d": getattr(tf.nn, f)(x, 3, 2, "SAME"))
    case(f"{kind}_pool3d", [f32(1, 5, 7, 4, 3)])(lambda x, f=f"{kind}_pool3d": getattr(tf.nn, f)(x, 2, 2, "SAME"))
case("max_pool_explicit", [f32(1, 7, 9, 5)])(lambda x: tf.nn.max_pool2d(x, 3, 2, [[0, 0], [1, 0], [0, 1], [0, 0]]))
case("max_pool_with_argmax", [f32(2, 6, 8, 3)], kinds="tf")(
    lambda x: tf.nn.max_pool_with_argmax(x, 2, 2, "SAME", output_dtype=tf.int64, include_batch_in_index=True)
)
case("l2_pool", [f32(1, 6, 8, 3)])(lambda x: tf.sqrt(tf.nn.avg_pool2d(tf.square(x), 2, 2, "SAME")))
case("global_average", [f32(2, 5, 7, 3)], also="int8 int16")(lambda x: tf.reduce_mean(x, [1, 2]))
case("dilation2d", [f32(1, 7, 9, 3)], kinds="tf")(
    lambda x: tf.nn.dilation2d(x, weight(3, 3, 3), [1, 1, 1, 1], "SAME", "NHWC", [1, 1, 1, 1])
)
case("erosion2d", [f32(1, 7, 9, 3)], kinds="tf")(
    lambda x: tf.nn.erosion2d(x, weight(2, 3, 3), [1, 2, 1, 1], "VALID", "NHWC", [1, 1, 1, 1])
)
case("atrous_conv2d", X)(lambda x: tf.nn.atrous_conv2d(x, weight(3, 3, 3, 5), 2, "SAME"))
case("atrous_by_space_to_batch", X, also="int8")(
    lambda x: tf.batch_to_space(
        tf.nn.conv2d(tf.space_to_batch(x, [2, 2], [[2, 3], [2, 3]]), weight(3, 3, 3, 5), 1, "VALID"),
        [2, 2], [[0, 1], [0, 1]],
    )
)  # fmt: skip
case("pad_then_conv", X, also="int8")(
    lambda x: tf.nn.conv2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), weight(3, 3, 3, 5), 2, "VALID")
)
case("local_response_normalization", [f32(1, 5, 7, 9)], also="int8")(lambda x: tf.nn.lrn(x, 2, 1.5, 0.2, 0.6))
case("batch_normalization", X, also="int8")(
    lambda x: tf.nn.batch_normalization(x, weight(3), weight(3, low=0.5), weight(3), weight(3), 1e-3)
)
case("moments", [f32(2, 5, 7, 3)])(lambda x: tf.nn.moments(x, [0, 1, 2]))
case("bias_add_nchw", [f32(2, 3, 5, 7)], kinds="tf")(lambda x: tf.nn.bias_add(x, weight(3), "NCHW"))
case("bias_add_vectors", [f32(2, 3)])(lambda x: tf.nn.bias_add(x, weight(3)))
