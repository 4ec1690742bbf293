"""Functions of one element."""

from __future__ import annotations

import math

from .case import F, case, f32, layer, torch, value, weight

X = f32(2, 3, 5, 7)


def unary(name, type, params, f, x=X, **options):
    case(name, x, layer(type, params), **options)(f)


unary("relu", "ReLU", "", lambda x: F.relu(x))
unary("relu_slope", "ReLU", "negative_slope: 0.1", lambda x: F.leaky_relu(x, 0.1))
unary("relu_slope_0", "ReLU", "negative_slope: 0", lambda x: F.relu(x))
unary("relu_slope_negative", "ReLU", "negative_slope: -0.5", lambda x: F.leaky_relu(x, -0.5))
unary("relu_slope_above_1", "ReLU", "negative_slope: 2", lambda x: F.leaky_relu(x, 2.0))
unary("relu_2d", "ReLU", "", lambda x: F.relu(x), f32(3, 7))
unary("relu_1d", "ReLU", "", lambda x: F.relu(x), f32(7))
unary("relu_5d", "ReLU", "", lambda x: F.relu(x), f32(1, 2, 3, 2, 3))
unary("relu_engine", "ReLU", "engine: CAFFE", lambda x: F.relu(x))
unary("relu6", "ReLU6", "", lambda x: F.relu6(x), f32(2, 3, 5, 7, low=-9, high=9))
unary("sigmoid", "Sigmoid", "", lambda x: x.sigmoid())
unary("sigmoid_large", "Sigmoid", "", lambda x: x.sigmoid(), f32(2, 9, low=-99, high=99))
unary("tanh", "TanH", "", lambda x: x.tanh())
unary("elu", "ELU", "", lambda x: F.elu(x))
unary("elu_alpha", "ELU", "alpha: 0.3", lambda x: F.elu(x, 0.3))
unary("abs", "AbsVal", "", lambda x: x.abs())
unary("bnll", "BNLL", "", lambda x: F.softplus(x))
unary("bnll_large", "BNLL", "", lambda x: F.softplus(x, threshold=1000), f32(3, 7, low=-60, high=60))
unary("threshold", "Threshold", "threshold: 0.5", lambda x: (x > 0.5).float())
unary("threshold_default", "Threshold", "", lambda x: (x > 0).float(), value([[-1, 0, 1, 2]]))
unary("dropout", "Dropout", "dropout_ratio: 0.7", lambda x: x * 1.0)
unary("clip", "Clip", "min: -1 max: 2", lambda x: x.clip(-1, 2))
unary("swish", "Swish", "", lambda x: F.silu(x))
unary("swish_beta", "Swish", "beta: 0.7", lambda x: x * torch.sigmoid(0.7 * x))
unary("mish", "Mish", "", lambda x: F.mish(x))
unary("hard_sigmoid", "HardSigmoid", "", lambda x: (0.2 * x + 0.5).clip(0, 1))
unary(
    "hard_sigmoid_stated",
    "HardSigmoid",
    "hard_sigmoid_param { alpha: 0.3 beta: 0.4 }",
    lambda x: (0.3 * x + 0.4).clip(0, 1),
)
unary("silu", "SiLU", "", lambda x: F.silu(x))
unary("hswish", "HSwish", "", lambda x: F.hardswish(x))
unary("hsigmoid", "HSigmoid", "", lambda x: F.hardsigmoid(x))

POWERS = {
    "none": ("", lambda x: x * 1),
    "square": ("power: 2", lambda x: x**2),
    "cube": ("power: 3 scale: 0.5 shift: 0.1", lambda x: (0.5 * x + 0.1) ** 3),
    "scale": ("scale: -2.5", lambda x: -2.5 * x),
    "shift": ("shift: 3", lambda x: x + 3),
    "scale_shift": ("scale: 0.017 shift: -1", lambda x: 0.017 * x - 1),
    "zero": ("power: 0 scale: 2 shift: 1", lambda x: torch.ones_like(x)),
    "scale_0": ("power: 2 scale: 0 shift: 3", lambda x: torch.full_like(x, 9)),
    "minus_one": ("power: -1 shift: 9", lambda x: 1 / (x + 9)),
}
for name, (params, f) in POWERS.items():
    unary(f"power_{name}", "Power", params, f)
unary("power_root", "Power", "power: 0.5 shift: 4", lambda x: (x + 4) ** 0.5)
unary(
    "power_fraction",
    "Power",
    "power: 1.7 scale: 2 shift: 0.5",
    lambda x: (2 * x + 0.5) ** 1.7,
    f32(2, 3, 5, low=0, high=3),
)

EXPS = {
    "default": ("", lambda x: x.exp()),
    "base2": ("base: 2", lambda x: 2**x),
    "base_scale_shift": ("base: 3 scale: 0.5 shift: -0.2", lambda x: 3 ** (0.5 * x - 0.2)),
    "scale_shift": ("scale: 0.5 shift: 1", lambda x: (0.5 * x + 1).exp()),
}
LOGS = {
    "default": ("", lambda x: x.log()),
    "base10": ("base: 10", lambda x: x.log10()),
    "base_scale_shift": ("base: 2 scale: 3 shift: 0.5", lambda x: (3 * x + 0.5).log2()),
    "scale_shift": ("scale: 0.5 shift: 1", lambda x: (0.5 * x + 1).log()),
}
for name, (params, f) in EXPS.items():
    unary(f"exp_{name}", "Exp", params, f)
for name, (params, f) in LOGS.items():
    unary(f"log_{name}", "Log", params, f, f32(2, 3, 5, low=0.1, high=9))

case("prelu", X, layer("PReLU", "", weight(3)))(lambda x, w: F.prelu(x, w))
case("prelu_shared", X, layer("PReLU", "channel_shared: true", weight(1)))(lambda x, w: F.prelu(x, w))
case("prelu_shared_scalar", X, layer("PReLU", "channel_shared: true", weight()))(lambda x, w: F.prelu(x, w.reshape(1)))
case("prelu_2d", f32(4, 3), layer("PReLU", "", weight(3)))(lambda x, w: F.prelu(x, w))
case("prelu_one_channel", f32(2, 1, 5, 5), layer("PReLU", "", weight(1)))(lambda x, w: F.prelu(x, w))
case("prelu_in_place", X, layer("AbsVal", to="a"), layer("PReLU", "", weight(3), at="a", to="a"))(
    lambda x, w: F.prelu(x.abs(), w)
)

for axis in range(4):
    case(f"softmax_axis{axis}", X, layer("Softmax", f"axis: {axis}"))(lambda x, a=axis: x.softmax(a))
case("softmax_default", X, layer("Softmax"))(lambda x: x.softmax(1))
case("softmax_axis_last", X, layer("Softmax", "axis: -1"))(lambda x: x.softmax(-1))
case("softmax_2d", f32(3, 11), layer("Softmax"))(lambda x: x.softmax(1))
case("softmax_large", f32(3, 11, low=-300, high=300), layer("Softmax"))(lambda x: x.softmax(1))
case("softmax_one_class", f32(2, 1, 3, 3), layer("Softmax"))(lambda x: x.softmax(1))
case("softmax_3d_axis2", f32(2, 3, 5), layer("Softmax", "axis: 2"))(lambda x: x.softmax(2))
case("log_softmax_by_layers", X, layer("Softmax", to="p"), layer("Log", at="p"))(lambda x: x.log_softmax(1))
case(
    "gelu_by_layers",
    X,
    layer("Power", f"scale: {1 / math.sqrt(2)}", to="a"),
    layer("TanH", at="a", to="b"),
    layer("Eltwise", "operation: PROD", at="x b"),
)(lambda x: x * torch.tanh(x / math.sqrt(2)))
# What scalers and losses leave behind at inference.
case("silence", X, layer("Split", to="a b"), layer("Silence", at="b", to=""), layer("ReLU", at="a"))(
    lambda x: F.relu(x)
)
