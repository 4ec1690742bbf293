"""What only moves elements: shapes, slices, gathers, scatters, pads, concatenations."""

from __future__ import annotations

import numpy as np

from .case import boolean, case, f16, f32, f64, i8, i32, i64, tf, u8, value, weight

X = [f32(2, 3, 5)]
EIGHT = "int8 uint8 int16"

case("reshape", X, also=EIGHT)(lambda x: tf.reshape(x, [5, 6]))
case("reshape_minus_one", X)(lambda x: tf.reshape(x, [3, -1]))
case("reshape_to_scalar", [f32(1, 1)])(lambda x: tf.reshape(x, []))
case("reshape_computed", [f32(2, 3, 5), value([5, -1, 3], np.int32)])(lambda x, s: tf.reshape(x, s))
case("reshape_flatten_open", [f32(4, 3, 5).open(None, 3, 5)], also="int8")(lambda x: tf.reshape(x, [-1, 15]))
case("reshape_by_shape_of", [f32(4, 3, 5).open(None, None, 5)])(
    lambda x: tf.reshape(x, tf.stack([tf.shape(x)[0] * tf.shape(x)[1], 5]))
)
case("reshape_nothing", [f32(0, 3)], kinds="tf")(lambda x: tf.reshape(x, [3, 0, 2]))
case("unranked_reshape", [f32(2, 3, 5).unranked()], kinds="tf")(lambda x: tf.reshape(x, [-1, 5]))
case("unranked_relu", [f32(2, 3, 5).unranked()], kinds="tf")(lambda x: tf.nn.relu(x) + 1.0)
case("unranked_shape", [f32(2, 3, 5).unranked()], kinds="tf")(lambda x: (tf.shape(x), tf.rank(x), tf.size(x)))
case("expand_dims", X, also="int8")(lambda x: (tf.expand_dims(x, 0), tf.expand_dims(x, -1), tf.expand_dims(x, 2)))
case("squeeze_all", [f32(1, 3, 1, 5)], also="int8")(lambda x: tf.squeeze(x))
case("squeeze_axes", [f32(1, 3, 1, 5, 1)])(lambda x: tf.squeeze(x, [0, -1]))
case("shape_rank_size", [f32(2, 3, 5).open(None, 3, None)])(lambda x: (tf.shape(x), tf.rank(x), tf.size(x)))
case("shape_i64", [f32(2, 3, 5).open(None, 3, None)])(lambda x: tf.shape(x, tf.int64))
case("shape_n", [f32(2, 3), f32(5)], kinds="tf")(lambda x, y: tf.shape_n([x, y]))
case("broadcast_to", [f32(3, 1)], also="int8")(lambda x: tf.broadcast_to(x, [2, 3, 5]))
case("broadcast_to_computed", [f32(3, 1), value([2, 3, 5], np.int32)])(lambda x, s: tf.broadcast_to(x, s))
case("broadcast_dynamic_shape", [f32(3, 1).open(None, 1), f32(5)], kinds="tf")(
    lambda x, y: tf.broadcast_to(x, tf.broadcast_dynamic_shape(tf.shape(x), tf.shape(y)))
)
for order in ("021", "102", "120", "201", "210"):
    case(f"transpose_{order}", X, also="int8" if order == "201" else "")(
        lambda x, o=order: tf.transpose(x, list(map(int, o)))
    )
case("transpose_default", X, also=EIGHT)(lambda x: tf.transpose(x))
case("transpose_5d", [f32(2, 3, 1, 5, 4)])(lambda x: tf.transpose(x, [4, 0, 3, 1, 2]))
case("transpose_to_nchw", [f32(2, 5, 7, 3)], also="int8")(lambda x: tf.transpose(x, [0, 3, 1, 2]))
case("transpose_computed", [f32(2, 3, 5), value([2, 0, 1], np.int32)])(lambda x, p: tf.transpose(x, p))
case("transpose_bool", [boolean(3, 5)])(lambda x: tf.transpose(x))
case("transpose_i64", [i64(3, 5)])(lambda x: tf.transpose(x))

case("concat_last", [f32(2, 3), f32(2, 5)], also=EIGHT)(lambda x, y: tf.concat([x, y], -1))
case("concat_middle_three", [f32(2, 3, 5), f32(2, 1, 5), f32(2, 4, 5)], also="int8")(
    lambda *xs: tf.concat([*xs, weight(2, 2, 5)], 1)
)
case("concat_with_nothing", [f32(2, 3), f32(2, 0)], kinds="tf")(lambda x, y: tf.concat([x, y], 1))
case("concat_one", X)(lambda x: tf.concat([x], 0) * 2.0)
case("concat_i64", [i64(2, 3), i64(4, 3)])(lambda x, y: tf.concat([x, y], 0))
case("concat_bool", [boolean(2, 3), boolean(4, 3)])(lambda x, y: tf.concat([x, y], 0))
case("concat_scales_differ", [f32(2, 3, low=-1, high=1), f32(2, 3, low=-9, high=2)], also=EIGHT)(
    lambda x, y: tf.concat([x, y], 1)
)
case("stack_axes", [f32(3, 5), f32(3, 5)], also="int8")(
    lambda x, y: (tf.stack([x, y]), tf.stack([x, y], -1), tf.stack([x, y, x], 1))
)
case("stack_scalars", [f32(), f32()])(lambda x, y: tf.stack([x, y]))
case("unstack", [f32(3, 2, 5)], also="int8")(lambda x: (*tf.unstack(x, axis=1), tf.unstack(x)[2]))
case("split_equal", [f32(6, 4)], also=EIGHT)(lambda x: tf.split(x, 3))
case("split_last_negative_axis", [f32(3, 6)])(lambda x: tf.split(x, 2, -1))
case("split_sizes", [f32(3, 11)], also="int8")(lambda x: tf.split(x, [2, 5, 4], 1))
case("split_sizes_rest", [f32(3, 11)])(lambda x: tf.split(x, [2, -1, 1], 1))

case("slice", [f32(4, 5, 7)], also="int8")(lambda x: tf.slice(x, [1, 0, 2], [2, -1, 3]))
case("slice_computed", [f32(4, 5), value([1, 2], np.int32), value([2, 3], np.int32)])(lambda x, b, s: tf.slice(x, b, s))
SLICES = {
    "plain": lambda x: x[1:3, :, 2:5],
    "strides": lambda x: x[::2, 1::3, ::-1],
    "negative": lambda x: x[-3:-1, -1:0:-2],
    "shrink": lambda x: x[1, :, -1],
    "new_axis": lambda x: x[:, tf.newaxis, 1:4, tf.newaxis],
    "ellipsis": lambda x: x[1:, ..., ::2],
    "ellipsis_last": lambda x: x[..., 3],
    "ellipsis_first": lambda x: x[2, ...],
    "all_masks": lambda x: x[tf.newaxis, -1, ..., tf.newaxis, ::-2],
    "beyond_the_end": lambda x: x[1:99, -99:2, 6:3:-1],
    "empty": lambda x: x[3:1],
    "whole": lambda x: x[:] + 1.0,
}
for name, body in SLICES.items():
    case(f"strided_slice_{name}", [f32(4, 5, 7)], also="int8" if name in ("strides", "shrink", "plain") else "")(body)
    if name != "empty":
        case(f"strided_slice_open_{name}", [f32(4, 5, 7).open(None, 5, None)])(body)
case("strided_slice_computed", [f32(7, 5), value(1, np.int32), value(6, np.int32)])(lambda x, b, e: x[b:e:2])
case("strided_slice_computed_index", [f32(7, 5), value(-2, np.int32)])(lambda x, i: x[i])
case("strided_slice_i32", [i32(7, 5)])(lambda x: x[1::2, 3])
case("strided_slice_bool", [boolean(7, 5)])(lambda x: x[::-1, 1:3])
case("strided_slice_u8", [u8(7, 5)], kinds="tf")(lambda x: x[2:, ::2])

case("pad_zero", X, also=EIGHT)(lambda x: tf.pad(x, [[0, 1], [2, 0], [1, 3]]))
case("pad_value", X, also="int8")(lambda x: tf.pad(x, [[0, 1], [2, 0], [0, 0]], constant_values=1.5))
case("pad_reflect", X, also="int8")(lambda x: tf.pad(x, [[0, 0], [2, 1], [3, 4]], "REFLECT"))
case("pad_symmetric", X)(lambda x: tf.pad(x, [[1, 2], [0, 3], [5, 1]], "SYMMETRIC"))
case("pad_computed", [f32(2, 3), value([[1, 0], [0, 2]], np.int32)])(lambda x, p: tf.pad(x, p))
case("pad_i32", [i32(2, 3)])(lambda x: tf.pad(x, [[1, 1], [0, 2]], constant_values=7))
case("pad_bool", [boolean(2, 3)], kinds="tf")(lambda x: tf.pad(x, [[1, 1], [0, 2]]))
case("pad_5d", [f32(1, 2, 3, 2, 2)])(lambda x: tf.pad(x, [[0, 0], [1, 0], [0, 1], [1, 1], [0, 0]]))
case("tile", X, also="int8")(lambda x: tf.tile(x, [2, 1, 3]))
case("tile_computed", [f32(2, 3), value([3, 2], np.int32)])(lambda x, m: tf.tile(x, m))
case("tile_none", [f32(2, 3)], kinds="tf")(lambda x: tf.tile(x, [0, 2]))
case("tile_bool", [boolean(2, 3)])(lambda x: tf.tile(x, [2, 2]))
case("repeat", [f32(3, 5)])(lambda x: tf.repeat(x, 3, 1))
case("repeat_by_counts", [f32(3, 5)], kinds="tf")(lambda x: tf.repeat(x, [2, 0, 3], 0))
case("reverse", X, also="int8")(lambda x: tf.reverse(x, [1]))
case("reverse_axes", X)(lambda x: tf.reverse(x, [0, -1]))
case("reverse_sequence", [f32(3, 5, 2), value([2, 5, 1], np.int32)])(lambda x, n: tf.reverse_sequence(x, n, 1, 0))
case("reverse_sequence_time_first", [f32(5, 3, 2), value([2, 5, 1], np.int64)])(
    lambda x, n: tf.reverse_sequence(x, n, 0, 1)
)
case("roll", X, kinds="tf")(lambda x: tf.roll(x, [1, -2], [0, 2]))
case("roll_lite", [f32(3, 7)])(lambda x: tf.roll(x, 2, 1))
case("space_to_depth", [f32(2, 4, 6, 3)], also="int8")(lambda x: tf.nn.space_to_depth(x, 2))
case("depth_to_space", [f32(2, 2, 3, 12)], also="int8")(lambda x: tf.nn.depth_to_space(x, 2))
case("depth_to_space_3", [f32(1, 2, 3, 18)])(lambda x: tf.nn.depth_to_space(x, 3))
case("space_to_batch", [f32(1, 4, 5, 3)], also="int8")(lambda x: tf.space_to_batch(x, [2, 3], [[0, 0], [1, 0]]))
case("batch_to_space", [f32(12, 2, 3, 2)], also="int8")(lambda x: tf.batch_to_space(x, [2, 3], [[1, 0], [0, 2]]))
case("space_to_batch_1d", [f32(2, 7, 3)])(lambda x: tf.space_to_batch(x, [4], [[0, 1]]))

case("gather", [f32(5, 3), i32(2, 4, low=0, high=5)], also="int8")(lambda x, i: tf.gather(x, i))
case("gather_axis", [f32(2, 5, 3), i64(4, low=0, high=5)])(lambda x, i: tf.gather(x, i, axis=1))
case("gather_last_axis_constant", [f32(2, 5, 3)], also="int8")(lambda x: tf.gather(x, [2, 0, 2], axis=-1))
case("gather_scalar", [f32(5, 3), value(2, np.int32)])(lambda x, i: tf.gather(x, i))
case("gather_batch_dims", [f32(2, 5, 3), i32(2, 4, low=0, high=5)])(lambda x, i: tf.gather(x, i, batch_dims=1))
case("gather_batch_dims_axis", [f32(2, 3, 5, 4), i32(2, 7, low=0, high=5)])(
    lambda x, i: tf.gather(x, i, axis=2, batch_dims=1)
)
case("gather_none", [f32(5, 3), value([], np.int32)], kinds="tf")(lambda x, i: tf.gather(x, i))
case("gather_bool", [boolean(5, 3), i32(4, low=0, high=5)])(lambda x, i: tf.gather(x, i))
case("gather_vector_i64", [i64(5), i32(7, low=0, high=5)])(lambda x, i: tf.gather(x, i))
case("gather_nd", [f32(3, 5, 7), i32(4, 2, low=0, high=3)], also="int8")(lambda x, i: tf.gather_nd(x, i))
case("gather_nd_elements", [f32(3, 5), i32(2, 4, 2, low=0, high=3)])(lambda x, i: tf.gather_nd(x, i))
case("gather_nd_batch", [f32(2, 5, 3), i32(2, 4, 1, low=0, high=5)], kinds="tf")(
    lambda x, i: tf.gather_nd(x, i, batch_dims=1)
)
case("embedding_lookup", [i32(2, 5, low=0, high=11)], also="half")(lambda i: tf.nn.embedding_lookup(weight(11, 4), i))
case("embedding_lookup_wide", [i32(7, low=0, high=300)], also="dynamic half")(
    lambda i: tf.nn.embedding_lookup(weight(300, 16), i)
)
case("boolean_mask", [f32(5, 3), boolean(5)])(lambda x, m: tf.boolean_mask(x, m))
case("dynamic_partition", [f32(7, 3)], kinds="tf")(lambda x: tf.dynamic_partition(x, [0, 1, 1, 0, 2, 1, 0], 3))
case("dynamic_stitch", [f32(3, 2), f32(4, 2)], kinds="tf")(
    lambda x, y: tf.dynamic_stitch([[0, 4, 2], [1, 3, 5, 6]], [x, y])
)
case("one_hot", [i32(2, 5, low=-1, high=7)], also="int8")(lambda i: tf.one_hot(i, 7))
case("one_hot_axis_values", [i64(2, 5, low=0, high=4)])(lambda i: tf.one_hot(i, 4, 2.0, -1.0, axis=1))
case("one_hot_bool", [i32(5, low=0, high=4)])(lambda i: tf.one_hot(i, 4, True, False))
case("one_hot_computed_depth", [i32(5, low=0, high=4), value(6, np.int32)])(lambda i, d: tf.one_hot(i, d))

SPOTS = value([[1], [4], [2]], np.int32)
case("scatter_nd", [SPOTS, f32(3, 5)])(lambda i, u: tf.scatter_nd(i, u, [6, 5]))
case("scatter_nd_adds_repeats", [value([[1], [1], [4]], np.int32), f32(3, 2)])(lambda i, u: tf.scatter_nd(i, u, [6, 2]))
case("scatter_nd_i32_elements", [i32(4, 2, low=0, high=3), i32(4)])(lambda i, u: tf.scatter_nd(i, u, [3, 3]))
case("tensor_scatter_nd_update", [f32(6, 5), SPOTS, f32(3, 5)])(lambda x, i, u: tf.tensor_scatter_nd_update(x, i, u))
for name in ("add", "sub", "max", "min"):
    case(f"tensor_scatter_nd_{name}", [f32(6, 5), SPOTS, f32(3, 5)], kinds="tf" if name != "add" else "tf lite")(
        lambda x, i, u, n=name: getattr(tf, f"tensor_scatter_nd_{n}")(x, i, u)
    )
case("sparse_to_dense", [value([[0, 2], [3, 1]], np.int64), f32(2)])(
    lambda i, v: tf.compat.v1.sparse_to_dense(i, [4, 5], v, -1.0)
)
case("dynamic_update_slice", [f32(5, 7), f32(2, 3)], kinds="lite")(
    lambda x, u: tf.tensor_scatter_nd_update(x, [[0], [3]], tf.pad(u, [[0, 0], [0, 4]]))
)

case("fill", [value([2, 3], np.int32)])(lambda s: tf.fill(s, 1.5))
case("fill_computed_value", [f32()])(lambda x: tf.fill([2, 3], x))
case("zeros_and_ones_like", [f32(2, 3).open(None, 3)])(lambda x: (tf.zeros_like(x), tf.ones_like(x) + x))
case("range_i32", [value(7, np.int32)])(lambda n: tf.range(n))
case("range_f32", [value(0.5), value(4.1), value(0.7)])(lambda a, b, c: tf.range(a, b, c))
case("range_down", [value(7, np.int32)])(lambda n: tf.range(n, 0, -2))
case("linspace", [value(1.0), value(5.0)])(lambda a, b: tf.linspace(a, b, 7))
case("meshgrid", [f32(3), f32(5)])(lambda x, y: tf.meshgrid(x, y))
case("eye_times", [f32(4, 4)])(lambda x: x * tf.eye(4))
case("sequence_mask", [i32(5, low=0, high=7)])(lambda n: tf.sequence_mask(n, 7))
case("invert_permutation", [value([3, 0, 2, 1], np.int32)], kinds="tf")(lambda p: tf.math.invert_permutation(p))
case("crop", [f32(1, 7, 9, 3)])(lambda x: x[:, 2:-1, 1:-2, :])
case("channel_shuffle", [f32(1, 3, 5, 12)], also="int8")(
    lambda x: tf.reshape(tf.transpose(tf.reshape(x, [1, 3, 5, 3, 4]), [0, 1, 2, 4, 3]), [1, 3, 5, 12])
)
for dtype, given in {"f16": f16, "f64": f64, "i8": i8, "i64": i64}.items():
    case(f"moves_{dtype}", [given(3, 4, 5)], kinds="tf")(
        lambda x: tf.concat([tf.transpose(x, [1, 0, 2])[1:3], tf.reshape(x, [4, 3, 5])], 0)
    )
case("identity_n", [f32(2, 3), i32(3)], kinds="tf")(lambda x, y: tf.identity_n([x, y]))
case("ensure_shape", [f32(2, 3).open(None, 3)], kinds="tf")(lambda x: tf.ensure_shape(x, [None, 3]) + 1.0)
case("extract_volume_patches", [f32(1, 5, 6, 2)], kinds="tf")(
    lambda x: tf.extract_volume_patches(x[:, :, :, None, :], [1, 2, 3, 1, 1], [1, 1, 2, 1, 1], "VALID")
)
case("open_mean_added", [f32(2, 3, 5).open(None, None, None)])(lambda x: x + tf.reduce_mean(x, [0, 1], keepdims=True))
case("tensor_diag_part", [f32(4, 4)], kinds="tf")(lambda x: tf.linalg.tensor_diag_part(x))
