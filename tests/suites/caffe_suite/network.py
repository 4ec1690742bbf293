"""Whole files: old forms of layers and inputs, phases, in-place chains, and the blocks of well-known nets."""

from __future__ import annotations

from .case import F, case, f32, layer, torch, value, weight

X = f32(2, 3, 9, 9)
CONV = ("num_output: 4 kernel_size: 3", weight(4, 3, 3, 3), weight(4))


def first(x, w, b):
    return F.conv2d(x, w, b).relu()


for head in ("dims", "shape", "layer"):
    case(f"head_{head}", X, layer("Convolution", *CONV, to="a"), layer("ReLU", at="a", to="a"), head=head)(first)
    case(
        f"v1_head_{head}", X, layer("Convolution", *CONV, to="a"), layer("ReLU", at="a", to="a"), head=head, form="v1"
    )(first)
case("head_two_inputs", X, f32(2, 3, 9, 9), layer("Eltwise", at="x y"), head="dims")(lambda x, y: x + y)
case("head_two_shapes", f32(2, 3), f32(2, 5), layer("Concat", at="x y"), head="shape")(
    lambda x, y: torch.cat([x, y], 1)
)

V1 = {
    "pool": (layer("Pooling", "pool: AVE kernel_size: 3 stride: 3"), lambda x: F.avg_pool2d(x, 3)),
    "lrn": (layer("LRN", "local_size: 3 alpha: 0.1"), lambda x: F.local_response_norm(x, 3, 0.1, 0.75, 1)),
    "softmax": (layer("Softmax"), lambda x: x.softmax(1)),
    "dropout": (layer("Dropout", "dropout_ratio: 0.4"), lambda x: x * 1),
    "flatten": (layer("Flatten"), lambda x: x.flatten(1)),
    "power": (layer("Power", "power: 2 shift: 1"), lambda x: (x + 1) ** 2),
    "sigmoid": (layer("Sigmoid"), lambda x: x.sigmoid()),
    "tanh": (layer("TanH"), lambda x: x.tanh()),
    "abs": (layer("AbsVal"), lambda x: x.abs()),
    "bnll": (layer("BNLL"), lambda x: F.softplus(x)),
    "exp": (layer("Exp", "base: 2"), lambda x: 2**x),
    "threshold": (layer("Threshold", "threshold: 1"), lambda x: (x > 1).float()),
    "mvn": (layer("MVN", "normalize_variance: false"), lambda x: x - x.mean((2, 3), True)),
    "slice": (layer("Slice", "slice_dim: 2 slice_point: 4", to="a b"), lambda x: x.split([4, 5], 2)),
    "split": (layer("Split", to="a b"), lambda x: (x * 1, x * 1)),
    "concat": (layer("Concat", "concat_dim: 0", at="x x"), lambda x: torch.cat([x, x], 0)),
    "eltwise": (layer("Eltwise", "operation: PROD", at="x x"), lambda x: x * x),
    "im2col": (layer("Im2col", "convolution_param { kernel_size: 3 }"), lambda x: F.unfold(x, 3).reshape(2, 27, 7, 7)),
}
for name, (made, f) in V1.items():
    case(f"v1_{name}", X, made, form="v1", head="dims")(f)
case(
    "v1_inner",
    f32(2, 3, 4, 4),
    layer("InnerProduct", "num_output: 5", weight(5, 48), weight(5)),
    form="v1",
    head="dims",
)(lambda x, w, b: F.linear(x.flatten(1), w, b))
case(
    "v1_deconv",
    X,
    layer(
        "Deconvolution", "convolution_param { num_output: 2 kernel_size: 2 stride: 2 }", weight(3, 2, 2, 2), weight(2)
    ),
    form="v1",
    head="dims",
)(lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2))
case(
    "v1_group",
    f32(1, 4, 7, 7),
    layer("Convolution", "num_output: 6 kernel_size: 3 group: 2 pad: 1", weight(6, 2, 3, 3), weight(6)),
    form="v1",
    head="dims",
)(lambda x, w, b: F.conv2d(x, w, b, groups=2, padding=1))

case(
    "v0_conv",
    X,
    layer("conv", "num_output: 4 kernelsize: 3 pad: 1 stride: 2", weight(4, 3, 3, 3), weight(4)),
    form="v0",
    head="dims",
)(lambda x, w, b: F.conv2d(x, w, b, padding=1, stride=2))
case(
    "v0_conv_group_relu",
    f32(1, 4, 7, 7),
    layer("conv", "num_output: 4 kernelsize: 3 group: 2 biasterm: false", weight(4, 2, 3, 3), to="a"),
    layer("relu", at="a", to="a"),
    form="v0",
    head="dims",
)(lambda x, w: F.conv2d(x, w, groups=2).relu())
case(
    "v0_inner",
    f32(2, 3, 4, 4),
    layer("innerproduct", "num_output: 5", weight(5, 48), weight(5)),
    form="v0",
    head="dims",
)(lambda x, w, b: F.linear(x.flatten(1), w, b))
case("v0_pool_max", X, layer("pool", "pool: MAX kernelsize: 3 stride: 3"), form="v0", head="dims")(
    lambda x: F.max_pool2d(x, 3)
)
case("v0_pool_ave", X, layer("pool", "pool: AVE kernelsize: 3 stride: 3"), form="v0", head="dims")(
    lambda x: F.avg_pool2d(x, 3)
)
case("v0_lrn", X, layer("lrn", "local_size: 3 alpha: 0.1 beta: 0.5"), form="v0", head="dims")(
    lambda x: F.local_response_norm(x, 3, 0.1, 0.5, 1)
)
case("v0_softmax", f32(2, 5, 1, 1), layer("softmax"), form="v0", head="dims")(lambda x: x.softmax(1))
case("v0_dropout", X, layer("dropout", "dropout_ratio: 0.2"), form="v0", head="dims")(lambda x: x * 1)
case("v0_concat", X, f32(2, 1, 9, 9), layer("concat", "concat_dim: 1", at="x y"), form="v0", head="dims")(
    lambda x, y: torch.cat([x, y], 1)
)
case(
    "v0_padding",
    X,
    layer("padding", "pad: 2", to="a"),
    layer("conv", "num_output: 4 kernelsize: 3", weight(4, 3, 3, 3), weight(4), at="a"),
    form="v0",
    head="dims",
)(lambda x, w, b: F.conv2d(x, w, b, padding=2))
case("v0_sigmoid_tanh", X, layer("sigmoid", to="a"), layer("tanh", at="a"), form="v0", head="dims")(
    lambda x: x.sigmoid().tanh()
)
case("v0_flatten", X, layer("flatten"), form="v0", head="dims")(lambda x: x.flatten(1))

# ---- phases and names -----------------------------------------------------------------------------------------------

case(
    "phase_include",
    X,
    layer("ReLU", "include { phase: TRAIN }", to="t"),
    layer("Sigmoid", "include { phase: TEST }"),
    expected=("out",),
)(lambda x: x.sigmoid())
case("phase_exclude", X, layer("ReLU", "exclude { phase: TEST }"), layer("TanH"), expected=("out",))(lambda x: x.tanh())
case(
    "name_with_slash",
    X,
    layer("Convolution", *CONV, name="inception/1x1", to="inception/1x1"),
    layer("ReLU", at="inception/1x1", name="relu/1"),
)(first)
case("top_named_as_other_layer", X, layer("ReLU", name="b", to="a"), layer("Sigmoid", name="a", at="a", to="b"))(
    lambda x: x.relu().sigmoid()
)
case(
    "in_place_chain",
    X,
    layer("Convolution", *CONV, to="a"),
    layer("ReLU", at="a", to="a"),
    layer("Power", "scale: 2", at="a", to="a"),
    layer("Dropout", at="a", to="a"),
    layer("TanH", at="a", to="a"),
)(lambda *a: (first(*a) * 2).tanh())
case(
    "in_place_then_branches",
    X,
    layer("AbsVal", to="a"),
    layer("ReLU", at="a", to="a"),
    layer("Sigmoid", at="a", to="b"),
    layer("TanH", at="a", to="c"),
)(lambda x: (x.abs().sigmoid(), x.abs().tanh()))
case("input_in_place", X, layer("ReLU", to="x"), layer("Sigmoid"))(lambda x: x.relu().sigmoid())
case("unused_weights_in_model", X, layer("ReLU", "", weight(3)))(lambda x, w: x.relu())
case(
    "dummy_data",
    X,
    layer(
        "DummyData",
        'dummy_data_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } data_filler { type: "constant" value: 1.5 } }',
        at="",
        to="d",
    ),
    layer("Eltwise", at="x d"),
)(lambda x: x + 1.5)
case(
    "parameter",
    X,
    layer("Parameter", "parameter_param { shape { dim: 2 dim: 3 dim: 9 dim: 9 } }", weight(2, 3, 9, 9), at="", to="p"),
    layer("Eltwise", at="x p"),
)(lambda x, p: x + p)
case("transform_of_mean_left_alone", X, layer("ReLU", "transform_param { scale: 2 }"))(lambda x: x.relu())

# ---- blocks of nets -------------------------------------------------------------------------------------------------

case(
    "lenet",
    f32(2, 1, 28, 28, low=0, high=1),
    layer("Convolution", "num_output: 4 kernel_size: 5", weight(4, 1, 5, 5), weight(4), to="a"),
    layer("Pooling", "kernel_size: 2 stride: 2", at="a", to="b"),
    layer("Convolution", "num_output: 6 kernel_size: 5", weight(6, 4, 5, 5), weight(6), at="b", to="c"),
    layer("Pooling", "kernel_size: 2 stride: 2", at="c", to="d"),
    layer("InnerProduct", "num_output: 10", weight(10, 96), weight(10), at="d", to="e"),
    layer("ReLU", at="e", to="e"),
    layer("Softmax", at="e"),
)(
    lambda x, w, b, v, c, m, d: (
        F.linear(F.max_pool2d(F.conv2d(F.max_pool2d(F.conv2d(x, w, b), 2), v, c), 2).flatten(1), m, d).relu().softmax(1)
    )
)
case(
    "fire_module",
    X,
    layer("Convolution", "num_output: 2 kernel_size: 1", weight(2, 3, 1, 1), weight(2), to="s"),
    layer("ReLU", at="s", to="s"),
    layer("Convolution", "num_output: 3 kernel_size: 1", weight(3, 2, 1, 1), weight(3), at="s", to="a"),
    layer("ReLU", at="a", to="a"),
    layer("Convolution", "num_output: 3 kernel_size: 3 pad: 1", weight(3, 2, 3, 3), weight(3), at="s", to="b"),
    layer("ReLU", at="b", to="b"),
    layer("Concat", at="a b"),
)(
    lambda x, w, b, v, c, u, d: (
        lambda s: torch.cat([F.conv2d(s, v, c).relu(), F.conv2d(s, u, d, padding=1).relu()], 1)
    )(F.conv2d(x, w, b).relu())
)
case(
    "residual_block",
    f32(1, 4, 8, 8),
    layer("Convolution", "num_output: 4 kernel_size: 3 pad: 1 bias_term: false", weight(4, 4, 3, 3), to="a"),
    layer("BatchNorm", "", weight(4), weight(4, low=0.5, high=2), value([1.0]), at="a", to="a"),
    layer("Scale", "bias_term: true", weight(4), weight(4), at="a", to="a"),
    layer("ReLU", at="a", to="a"),
    layer("Eltwise", at="x a", to="s"),
    layer("ReLU", at="s", to="s"),
)(lambda x, w, m, v, f, s, b: (x + F.batch_norm(F.conv2d(x, w, padding=1), m, v, s, b).relu()).relu())
