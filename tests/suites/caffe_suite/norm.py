"""Normalization, by stored statistics and by those of the input."""

from __future__ import annotations

from .case import F, case, f32, layer, value, weight

X = f32(2, 4, 5, 7)
MEAN, VAR = weight(4), weight(4, low=0.2, high=2)


def normalized(x, mean, var, factor, eps=1e-5):
    factor = 0 if float(factor) == 0 else 1 / factor
    return F.batch_norm(x, mean * factor, var * factor, eps=eps)


case("batch_norm", X, layer("BatchNorm", "", MEAN, VAR, value([1.0])))(normalized)
case("batch_norm_factor", X, layer("BatchNorm", "", MEAN, VAR, value([999.98])))(normalized)
case("batch_norm_eps", X, layer("BatchNorm", "eps: 0.01", MEAN, VAR, value([2.0])))(lambda *a: normalized(*a, eps=0.01))
case("batch_norm_factor_0", X, layer("BatchNorm", "eps: 0.5", MEAN, VAR, value([0.0])))(lambda x, m, v, f: x / 0.5**0.5)
case("batch_norm_global", X, layer("BatchNorm", "use_global_stats: true", MEAN, VAR, value([1.0])))(normalized)
case("batch_norm_2d", f32(3, 4), layer("BatchNorm", "", MEAN, VAR, value([1.0])))(normalized)
case("batch_norm_5d", f32(1, 4, 2, 3, 5), layer("BatchNorm", "", MEAN, VAR, value([1.0])))(normalized)
case("batch_norm_own_statistics", X, layer("BatchNorm", "use_global_stats: false", MEAN, VAR, value([1.0])))(
    lambda x, *_: F.batch_norm(x, None, None, training=True)
)
case(
    "batch_norm_in_place", X, layer("AbsVal", to="a"), layer("BatchNorm", "", MEAN, VAR, value([1.0]), at="a", to="a")
)(lambda x, *a: normalized(x.abs(), *a))
case(
    "batch_norm_scale",
    X,
    layer("BatchNorm", "", MEAN, VAR, value([1.0]), to="a"),
    layer("Scale", "bias_term: true", weight(4), weight(4), at="a"),
)(lambda x, m, v, f, s, b: F.batch_norm(x, m, v, s, b))
case(
    "conv_batch_norm_scale_relu",
    X,
    layer("Convolution", "num_output: 4 kernel_size: 3 bias_term: false", weight(4, 4, 3, 3), to="a"),
    layer("BatchNorm", "", MEAN, VAR, value([1.0]), at="a", to="a"),
    layer("Scale", "bias_term: true", weight(4), weight(4), at="a", to="a"),
    layer("ReLU", at="a", to="a"),
)(lambda x, w, m, v, f, s, b: F.relu(F.batch_norm(F.conv2d(x, w), m, v, s, b)))
case("batch_norm_legacy_blobs", X, layer("BatchNorm", "", MEAN, VAR, value([1.0]), encoding="legacy"))(normalized)
case("cudnn_batch_norm", X, layer("CuDNNBatchNorm", "", MEAN, VAR, value([1.0])))(normalized)
case("bn_segnet", X, layer("BN", "bn_mode: INFERENCE", weight(1, 4, 1, 1), weight(1, 4, 1, 1)))(
    lambda x, s, b: x * s + b
)
case("bn_segnet_learning", X, layer("BN", 'scale_filler { type: "constant" }', weight(1, 4, 1, 1), weight(1, 4, 1, 1)))(
    lambda x, s, b: F.batch_norm(x, None, None, s.flatten(), b.flatten(), True, 0.1, 1e-9)
)
case(
    "bn_four_blobs",
    X,
    layer(
        "BN",
        "frozen: true",
        weight(1, 4, 1, 1),
        weight(1, 4, 1, 1),
        weight(1, 4, 1, 1),
        weight(1, 4, 1, 1, low=0.2, high=2),
    ),
)(lambda x, s, b, m, v: F.batch_norm(x, m.flatten(), v.flatten(), s.flatten(), b.flatten(), eps=1e-5))
case("bn_four_blobs_eps", X, layer("BN", "eps: 0.001", weight(4), weight(4), weight(4), weight(4, low=0.2, high=2)))(
    lambda x, s, b, m, v: F.batch_norm(x, m, v, s, b, eps=1e-3)
)


def lrn(x, size=5, alpha=1.0, beta=0.75, k=1.0):
    return F.local_response_norm(x, size, alpha, beta, k)


C = f32(2, 11, 5, 7)
case("lrn", C, layer("LRN", "local_size: 5 alpha: 0.0001 beta: 0.75"))(lambda x: lrn(x, 5, 1e-4))
case("lrn_default", C, layer("LRN"))(lrn)
case("lrn_size3", C, layer("LRN", "local_size: 3 alpha: 0.5 beta: 0.5 k: 2"))(lambda x: lrn(x, 3, 0.5, 0.5, 2))
case("lrn_size_above_channels", f32(1, 3, 5, 5), layer("LRN", "local_size: 9 alpha: 1"))(lambda x: lrn(x, 9, 1))
case("lrn_stated_region", C, layer("LRN", "norm_region: ACROSS_CHANNELS alpha: 0.1"))(lambda x: lrn(x, 5, 0.1))
case("lrn_cudnn", C, layer("CuDNNLRNCrossChannel", "local_size: 5 alpha: 0.1"))(lambda x: lrn(x, 5, 0.1))


def lrn_within(x, size, alpha, beta=0.75):
    total = F.avg_pool2d(F.pad(x * x, [size // 2] * 4), size, 1)
    return x * (1 + alpha * total) ** -beta


case("lrn_within", C, layer("LRN", "norm_region: WITHIN_CHANNEL local_size: 3 alpha: 0.5"))(
    lambda x: lrn_within(x, 3, 0.5)
)
case("lrn_within_5", C, layer("LRN", "norm_region: WITHIN_CHANNEL alpha: 2 beta: 0.5"))(
    lambda x: lrn_within(x, 5, 2, 0.5)
)


def mvn(x, axes, variance=True, eps=1e-9):
    y = x - x.mean(axes, True)
    return y / ((y * y).mean(axes, True).sqrt() + eps) if variance else y


case("mvn", X, layer("MVN"))(lambda x: mvn(x, (2, 3)))
case("mvn_across", X, layer("MVN", "across_channels: true"))(lambda x: mvn(x, (1, 2, 3)))
case("mvn_mean_only", X, layer("MVN", "normalize_variance: false"))(lambda x: mvn(x, (2, 3), False))
case("mvn_mean_across", X, layer("MVN", "normalize_variance: false across_channels: true"))(
    lambda x: mvn(x, (1, 2, 3), False)
)
case("mvn_eps", X, layer("MVN", "eps: 0.3"))(lambda x: mvn(x, (2, 3), eps=0.3))


def normalize(x, axes, scale, eps=1e-10):
    return x / ((x * x).sum(axes, True) + eps).sqrt() * scale


case("normalize_channels", X, layer("Normalize", "across_spatial: false channel_shared: false", weight(4)))(
    lambda x, s: normalize(x, (1,), s.reshape(4, 1, 1))
)
case("normalize_channels_shared", X, layer("Normalize", "across_spatial: false channel_shared: true", weight(1)))(
    lambda x, s: normalize(x, (1,), s)
)
case("normalize_all", X, layer("Normalize", "across_spatial: true channel_shared: true", weight(1)))(
    lambda x, s: normalize(x, (1, 2, 3), s)
)
case("normalize_all_per_channel", X, layer("Normalize", "channel_shared: false", weight(4)))(
    lambda x, s: normalize(x, (1, 2, 3), s.reshape(4, 1, 1))
)
case("normalize_eps", X, layer("Normalize", "across_spatial: false channel_shared: false eps: 0.5", weight(4)))(
    lambda x, s: normalize(x, (1,), s.reshape(4, 1, 1), 0.5)
)
case("normalize_scalar_blob", X, layer("Normalize", "across_spatial: false", weight()))(
    lambda x, s: normalize(x, (1,), s)
)
case(
    "l2_norm_by_layers",
    f32(3, 8),
    layer("Reduction", "operation: SUMSQ axis: 1", to="s"),
    layer("Power", "power: -0.5 shift: 1e-10", at="s", to="r"),
    layer("Scale", "axis: 0", at="x r"),
)(lambda x: x / (x * x).sum(1, True).sqrt())
