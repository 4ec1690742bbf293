"""Reductions, orders, running sums, segments, normalization over axes."""

from __future__ import annotations

import numpy as np

from .case import boolean, case, f16, f32, f64, i32, i64, tf, u8, value, weight

X = f32(2, 3, 5, 7)
REDUCE = ["reduce_sum", "reduce_mean", "reduce_max", "reduce_min", "reduce_prod"]
AXES = {"all": None, "last": -1, "two": [1, 2], "first_and_last": [0, -1], "none": []}

for name in REDUCE:
    for axes, axis in AXES.items():
        case(f"{name}_{axes}", [X], also="int8" if axes in ("last", "two") and name != "reduce_prod" else "")(
            lambda x, n=name, a=axis: getattr(tf, n)(x, a, keepdims=a == -1)
        )
    case(f"{name}_i32", [i32(3, 5, low=-4, high=5)])(lambda x, n=name: getattr(tf, n)(x, 1))
    case(f"{name}_open", [f32(2, 3, 5).open(None, None, 5)])(lambda x, n=name: getattr(tf, n)(x, [0, 2]))
for name in ("reduce_sum", "reduce_max", "reduce_mean"):
    case(f"{name}_i64", [i64(3, 5)])(lambda x, n=name: getattr(tf, n)(x, 0, keepdims=True))
    case(f"{name}_f64", [f64(3, 5)], kinds="tf")(lambda x, n=name: getattr(tf, n)(x, 0))
    case(f"{name}_int16", [f32(2, 5, 7)], kinds="int16 uint8")(lambda x, n=name: getattr(tf, n)(x, [1]))
case("reduce_sum_f16", [f16(3, 5)], kinds="tf")(lambda x: tf.reduce_sum(x, 1))
case("reduce_sum_of_nothing", [f32(0, 3)], kinds="tf")(lambda x: (tf.reduce_sum(x, 0), tf.reduce_prod(x, 0)))
case("reduce_max_of_nothing", [f32(0, 3)], kinds="tf")(lambda x: (tf.reduce_max(x, 0), tf.reduce_mean(x, 0)))
case("reduce_max_with_nan", [value([[1, np.nan, 3], [np.inf, 2, -np.inf]])], kinds="tf")(
    lambda x: (tf.reduce_max(x, 1), tf.reduce_min(x, 1), tf.reduce_sum(x, 1))
)
case("reduce_of_scalar", [f32()])(lambda x: tf.reduce_sum(x) * 2.0)
case("reduce_computed_axis", [f32(2, 3, 5), value([-1, 0], np.int32)], kinds="tf")(lambda x, a: tf.reduce_sum(x, a))
case("reduce_all", [boolean(3, 5)])(lambda x: (tf.reduce_all(x, 1), tf.reduce_any(x, 0)))
case("reduce_any_all_axes", [boolean(3, 5)])(lambda x: (tf.reduce_any(x), tf.reduce_all(x, keepdims=True)))
case("reduce_logsumexp", [f32(3, 5, 7)], also="int8 int16")(lambda x: tf.reduce_logsumexp(x, -1))
case("reduce_std", [f32(3, 5, 7)])(lambda x: (tf.math.reduce_std(x, 1), tf.math.reduce_variance(x, [0, 2])))
case("euclidean_norm", [f32(3, 5, 7)])(lambda x: (tf.math.reduce_euclidean_norm(x, 1), tf.norm(x, axis=-1)))
case("norm_l1_inf", [f32(3, 5)])(lambda x: (tf.norm(x, 1, axis=0), tf.norm(x, np.inf, axis=1)))
case("l2_loss", [f32(3, 5)])(lambda x: tf.nn.l2_loss(x))
case("count_nonzero", [i32(3, 5, low=0, high=2)])(lambda x: tf.math.count_nonzero(x, 1))

for name in ("argmax", "argmin"):
    case(f"{name}_last", [f32(2, 5, 7)], also="int8 uint8")(lambda x, n=name: getattr(tf, n)(x, -1))
    case(f"{name}_middle_i32", [f32(2, 5, 7)])(lambda x, n=name: getattr(tf, n)(x, 1, output_type=tf.int32))
    case(f"{name}_ties", [i32(3, 7, low=0, high=3)])(lambda x, n=name: getattr(tf, n)(x, 1))
    case(f"{name}_open", [f32(2, 5, 7).open(None, None, 7)])(lambda x, n=name: getattr(tf, n)(x, 0))
case("argmax_of_vector", [f32(11)])(lambda x: tf.argmax(x))
case("argmax_bool", [boolean(3, 7)], kinds="tf")(lambda x: tf.argmax(x, 1))

case("softmax_last", [f32(2, 3, 7, low=-9, high=9)], also="int8 uint8 int16 int8_float")(lambda x: tf.nn.softmax(x))
case("softmax_middle", [f32(2, 3, 7)])(lambda x: tf.nn.softmax(x, 1))
case("softmax_large", [f32(3, 7, low=-300, high=300)], also="int8")(lambda x: tf.nn.softmax(x))
case("softmax_one", [f32(3, 1)])(lambda x: tf.nn.softmax(x))
case("softmax_beta", [f32(3, 11)], also="int8")(lambda x: tf.nn.softmax(x * 0.7))
case("softmax_with_infinity", [value([[0, -np.inf, 1], [2, -np.inf, -np.inf]])])(lambda x: tf.nn.softmax(x))
case("softmax_f64", [f64(3, 7)], kinds="tf")(lambda x: tf.nn.softmax(x))
case("log_softmax", [f32(2, 3, 7, low=-9, high=9)], also="int8 uint8")(lambda x: tf.nn.log_softmax(x))
case("log_softmax_first", [f32(5, 3)])(lambda x: tf.nn.log_softmax(x, 0))
case("l2_normalize", [f32(3, 7)], also="int8")(lambda x: tf.nn.l2_normalize(x, -1))
case("l2_normalize_middle", [f32(3, 7, 2)])(lambda x: tf.math.l2_normalize(x, 1))
case("l2_normalize_zero", [value([[0, 0, 0], [3, 4, 0]])])(lambda x: tf.nn.l2_normalize(x, -1))
case("sparse_cross_entropy", [f32(5, 7), i64(5, low=0, high=7)], kinds="tf")(
    lambda x, y: tf.nn.sparse_softmax_cross_entropy_with_logits(y, x)
)
case("cross_entropy", [f32(5, 7), f32(5, 7, low=0, high=1)], kinds="tf")(
    lambda x, y: tf.nn.softmax_cross_entropy_with_logits(y, x)
)
case("sigmoid_cross_entropy", [f32(5, 7), f32(5, 7, low=0, high=1)])(
    lambda x, y: tf.nn.sigmoid_cross_entropy_with_logits(y, x)
)

for exclusive in (False, True):
    for reverse in (False, True):
        case(f"cumsum_{'exclusive' * exclusive}_{'reverse' * reverse}", [f32(3, 5, 2)])(
            lambda x, e=exclusive, r=reverse: tf.cumsum(x, 1, e, r)
        )
        case(f"cumprod_{'exclusive' * exclusive}_{'reverse' * reverse}", [f32(3, 5)], kinds="tf")(
            lambda x, e=exclusive, r=reverse: tf.math.cumprod(x, -1, e, r)
        )
case("cumsum_i32", [i32(7)])(lambda x: tf.cumsum(x))
case("cumulative_logsumexp", [f32(3, 7)], kinds="tf")(lambda x: tf.math.cumulative_logsumexp(x, 1))

case("top_k", [f32(3, 11)])(lambda x: tf.math.top_k(x, 4))
case("top_k_all", [f32(3, 5)])(lambda x: tf.math.top_k(x, 5))
case("top_k_ties", [i32(2, 9, low=0, high=3)])(lambda x: tf.math.top_k(x, 5))
case("top_k_computed_k", [f32(3, 11), value(3, np.int32)])(lambda x, k: tf.math.top_k(x, k))
case("sort", [f32(3, 11)])(lambda x: tf.sort(x))
case("sort_descending_first", [f32(5, 3)])(lambda x: tf.sort(x, 0, "DESCENDING"))
case("argsort", [f32(3, 11)])(lambda x: tf.argsort(x))
case("argsort_stable_ties", [i32(17, low=0, high=4)])(lambda x: tf.argsort(x, stable=True))
case("in_top_k", [f32(5, 9), i32(5, low=0, high=9)], kinds="tf")(lambda x, y: tf.math.in_top_k(y, x, 3))
case("nth_element", [f32(3, 11)], kinds="tf")(lambda x: tf.raw_ops.NthElement(input=x, n=3))
case("searchsorted", [value(np.linspace(0, 9, 8)), f32(5, low=-1, high=10)], kinds="tf")(
    lambda a, v: (tf.searchsorted(a, v), tf.searchsorted(a, v, "right"))
)
case("bincount", [i32(19, low=0, high=7)], kinds="tf")(lambda x: tf.math.bincount(x, minlength=9, maxlength=9))
case("unique", [i32(19, low=0, high=6)])(lambda x: tf.unique(x))
case("unique_i64_index", [i64(19, low=0, high=6)])(lambda x: tf.unique(x, tf.int64))
case("unique_with_counts", [i32(19, low=0, high=6)], kinds="tf")(lambda x: tf.unique_with_counts(x))
case("histogram", [f32(37, low=0, high=1)], kinds="tf")(lambda x: tf.histogram_fixed_width(x, [0.0, 1.0], 7))
case("confusion_matrix", [i32(13, low=0, high=4), i32(13, low=0, high=4)], kinds="tf")(
    lambda x, y: tf.math.confusion_matrix(x, y, 4)
)
case("bucketize", [f32(3, 5)], kinds="tf")(lambda x: tf.raw_ops.Bucketize(input=x, boundaries=[-1.0, 0.0, 1.5]))

IDS = value([0, 0, 1, 3, 3, 3, 4], np.int32)
for name in ("sum", "mean", "max", "min", "prod"):
    case(f"segment_{name}", [f32(7, 3), IDS])(lambda x, i, n=name: getattr(tf.math, f"segment_{n}")(x, i))
    case(f"unsorted_segment_{name}", [f32(7, 3), value([4, 0, -1, 2, 2, 0, 4], np.int32)])(
        lambda x, i, n=name: getattr(tf.math, f"unsorted_segment_{n}")(x, i, 6)
    )
for name in ("sum", "mean", "sqrt_n"):
    case(f"sparse_segment_{name}", [f32(7, 3), value([1, 5, 2, 2], np.int32), value([0, 0, 1, 2], np.int32)],
         kinds="tf")(lambda x, i, s, n=name: getattr(tf.sparse, f"segment_{n}")(x, i, s))  # fmt: skip
case("segment_sum_i32", [i32(7), IDS])(lambda x, i: tf.math.segment_sum(x, i))

case("layer_norm_spelled", [f32(2, 5, 7)], also="int8")(
    lambda x: (x - (m := tf.reduce_mean(x, -1, keepdims=True)))
    * tf.math.rsqrt(tf.reduce_mean(tf.math.squared_difference(x, m), -1, keepdims=True) + 1e-5) * weight(7) + weight(7)
)  # fmt: skip
case("instance_norm_spelled", [f32(2, 5, 7, 3)])(
    lambda x: (x - tf.reduce_mean(x, [1, 2], keepdims=True)) / (tf.math.reduce_std(x, [1, 2], keepdims=True) + 1e-3)
)
case("reduce_u8_max", [u8(3, 5)], kinds="tf")(lambda x: (tf.reduce_max(x, 1), tf.reduce_min(x, 0)))
case("smallest_two", [f32(3, 7)])(lambda x: -tf.math.top_k(-x, 2)[0])
