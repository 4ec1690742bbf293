"""Layers that combine blobs, or a blob with weights, element by element; and sums over axes."""

from __future__ import annotations

from .case import case, distinct, f32, layer, torch, value, weight

X = f32(2, 3, 5, 7)
XS = [f32(2, 3, 5, 7)] * 3


def eltwise(name, params, n, f, inputs=XS):
    at = " ".join("xyzwv"[:n])
    case(f"eltwise_{name}", *inputs[:n], layer("Eltwise", params, at=at))(f)


eltwise("default", "", 2, lambda x, y: x + y)
eltwise("sum", "operation: SUM", 2, lambda x, y: x + y)
eltwise("sum3", "operation: SUM", 3, lambda x, y, z: x + y + z)
eltwise("sum_coeff", "operation: SUM coeff: 1 coeff: -1", 2, lambda x, y: x - y)
eltwise("sum_coeff3", "operation: SUM coeff: 0.5 coeff: -1.5 coeff: 2", 3, lambda x, y, z: 0.5 * x - 1.5 * y + 2 * z)
eltwise("prod", "operation: PROD", 2, lambda x, y: x * y)
eltwise("prod3", "operation: PROD", 3, lambda x, y, z: x * y * z)
eltwise("prod_unstable", "operation: PROD stable_prod_grad: false", 2, lambda x, y: x * y)
eltwise("max", "operation: MAX", 2, lambda x, y: x.maximum(y))
eltwise("max3", "operation: MAX", 3, lambda x, y, z: x.maximum(y).maximum(z))
eltwise("sum_2d", "operation: SUM", 2, lambda x, y: x + y, [f32(3, 7), f32(3, 7)])
eltwise("sum_1d", "operation: SUM", 2, lambda x, y: x + y, [f32(7), f32(7)])
case("eltwise_same_twice", X, layer("Eltwise", "operation: PROD", at="x x"))(lambda x: x * x)
case("eltwise_in_place", X, f32(2, 3, 5, 7), layer("ReLU", to="a"), layer("Eltwise", at="a y", to="a"))(
    lambda x, y: x.relu() + y
)
case("residual", X, layer("Split", to="a b"), layer("ReLU", at="a", to="a"), layer("Eltwise", at="a b"))(
    lambda x: x.relu() + x
)

case("scale_channels", X, layer("Scale", "", weight(3)))(lambda x, w: x * w.reshape(3, 1, 1))
case("scale_bias", X, layer("Scale", "bias_term: true", weight(3), weight(3)))(
    lambda x, w, b: x * w.reshape(3, 1, 1) + b.reshape(3, 1, 1)
)
case("scale_axis2", X, layer("Scale", "axis: 2", weight(5)))(lambda x, w: x * w.reshape(5, 1))
case("scale_axis_last", X, layer("Scale", "axis: -1 bias_term: true", weight(7), weight(7)))(lambda x, w, b: x * w + b)
case("scale_two_axes", X, layer("Scale", "axis: 1 num_axes: 2", weight(3, 5)))(lambda x, w: x * w.reshape(3, 5, 1))
case("scale_all_axes", X, layer("Scale", "axis: 0 num_axes: -1", weight(2, 3, 5, 7)))(lambda x, w: x * w)
case("scale_axis1_to_end", X, layer("Scale", "num_axes: -1 bias_term: true", weight(3, 5, 7), weight(3, 5, 7)))(
    lambda x, w, b: x * w + b
)
case("scale_scalar", X, layer("Scale", "num_axes: 0", weight()))(lambda x, w: x * w)
case("scale_axis0", X, layer("Scale", "axis: 0", weight(2)))(lambda x, w: x * w.reshape(2, 1, 1, 1))
case("scale_2d", f32(4, 3), layer("Scale", "bias_term: true", weight(3), weight(3)))(lambda x, w, b: x * w + b)
case("scale_legacy_blobs", X, layer("Scale", "bias_term: true", weight(3), weight(3), encoding="legacy"))(
    lambda x, w, b: x * w.reshape(3, 1, 1) + b.reshape(3, 1, 1)
)
case("scale_by_blob", X, f32(2, 3), layer("Scale", "axis: 0", at="x y"))(lambda x, y: x * y.reshape(2, 3, 1, 1))
case("scale_by_blob_axis1", X, f32(3), layer("Scale", "", at="x y"))(lambda x, y: x * y.reshape(3, 1, 1))
case("scale_by_blob_bias", X, f32(2, 3), layer("Scale", "axis: 0 bias_term: true", weight(2, 3), at="x y"))(
    lambda x, y, b: x * y.reshape(2, 3, 1, 1) + b.reshape(2, 3, 1, 1)
)
case("scale_by_blob_full", X, f32(2, 3, 5, 7), layer("Scale", "axis: 0", at="x y"))(lambda x, y: x * y)
case("scale_in_place", X, layer("AbsVal", to="a"), layer("Scale", "", weight(3), at="a", to="a"))(
    lambda x, w: x.abs() * w.reshape(3, 1, 1)
)
case(
    "squeeze_and_excite",
    X,
    layer("Pooling", "pool: AVE global_pooling: true", to="g"),
    layer("Sigmoid", at="g", to="g"),
    layer("Flatten", at="g", to="f"),
    layer("Scale", "axis: 0", at="x f"),
)(lambda x: x * x.mean((2, 3), True).sigmoid())

case("bias_channels", X, layer("Bias", "", weight(3)))(lambda x, b: x + b.reshape(3, 1, 1))
case("bias_axis2", X, layer("Bias", "axis: 2", weight(5)))(lambda x, b: x + b.reshape(5, 1))
case("bias_two_axes", X, layer("Bias", "num_axes: 2", weight(3, 5)))(lambda x, b: x + b.reshape(3, 5, 1))
case("bias_all", X, layer("Bias", "axis: 0 num_axes: -1", weight(2, 3, 5, 7)))(lambda x, b: x + b)
case("bias_scalar", X, layer("Bias", "num_axes: 0", weight()))(lambda x, b: x + b)
case("bias_by_blob", X, f32(3, 5), layer("Bias", "", at="x y"))(lambda x, y: x + y.reshape(3, 5, 1))

OPERATIONS = {
    "SUM": lambda x: x.sum(-1),
    "ASUM": lambda x: x.abs().sum(-1),
    "SUMSQ": lambda x: (x * x).sum(-1),
    "MEAN": lambda x: x.mean(-1),
}
for word, f in OPERATIONS.items():
    for axis in (0, 1, -1):
        case(f"reduction_{word.lower()}_axis{axis}", X, layer("Reduction", f"operation: {word} axis: {axis}"))(
            lambda x, f=f, a=axis: f(x.flatten(a if a >= 0 else x.dim() + a))
        )
case("reduction_default", X, layer("Reduction"))(lambda x: x.sum())
case("reduction_coeff", X, layer("Reduction", "operation: MEAN axis: 2 coeff: -2.5"))(lambda x: -2.5 * x.mean((2, 3)))
case("reduction_2d", f32(3, 11), layer("Reduction", "operation: SUMSQ axis: 1"))(lambda x: (x * x).sum(1))

D = distinct(2, 3, 5, 7)
case("argmax_default", D, layer("ArgMax"))(lambda x: x.flatten(1).argmax(1).float().reshape(2, 1, 1, 1))
case("argmax_values", D, layer("ArgMax", "out_max_val: true"))(
    lambda x: torch.stack([x.flatten(1).argmax(1).float(), x.flatten(1).amax(1)], 1).reshape(2, 2, 1, 1)
)
case("argmax_top3", D, layer("ArgMax", "top_k: 3"))(lambda x: x.flatten(1).topk(3).indices.float().reshape(2, 1, 3, 1))
case("argmax_top3_values", D, layer("ArgMax", "top_k: 3 out_max_val: true"))(
    lambda x: torch.stack([x.flatten(1).topk(3).indices.float(), x.flatten(1).topk(3).values], 1)[..., None]
)
for axis in range(4):
    case(f"argmax_axis{axis}", D, layer("ArgMax", f"axis: {axis}"))(lambda x, a=axis: x.argmax(a, True).float())
case("argmax_axis_last", D, layer("ArgMax", "axis: -1"))(lambda x: x.argmax(-1, True).float())
case("argmax_axis1_values", D, layer("ArgMax", "axis: 1 out_max_val: true"))(lambda x: x.amax(1, True))
case("argmax_axis1_top2", D, layer("ArgMax", "axis: 1 top_k: 2"))(lambda x: x.topk(2, 1).indices.float())
case("argmax_axis3_top4_values", D, layer("ArgMax", "axis: 3 top_k: 4 out_max_val: true"))(
    lambda x: x.topk(4, 3).values
)
case("argmax_2d", distinct(4, 11), layer("ArgMax", "axis: 1"))(lambda x: x.argmax(1, True).float())

case("axpy", f32(2, 3, 1, 1), f32(2, 3, 5, 7), f32(2, 3, 5, 7), layer("Axpy", at="x y z"))(lambda a, x, y: a * x + y)
case("axpy_2d", f32(2, 3), f32(2, 3, 5, 7), f32(2, 3, 5, 7), layer("Axpy", at="x y z"))(
    lambda a, x, y: a.reshape(2, 3, 1, 1) * x + y
)
case("batch_reindex", f32(3, 2, 4), value([2, 0, 0, 1]), layer("BatchReindex", at="x y"))(lambda x, y: x[y.long()])
case("spatial_product", X, f32(2, 1, 5, 7), layer("SpatialProduct", at="x y"))(lambda x, y: x * y)
