"""What only moves elements."""

from __future__ import annotations

import itertools

from .case import F, case, f32, layer, torch

X = f32(2, 3, 4, 6)


def reshaped(name, dims, shape, x=X, more=""):
    params = "shape { " + " ".join(f"dim: {d}" for d in dims) + " } " + more
    case(f"reshape_{name}", x, layer("Reshape", f"reshape_param {{ {params} }}"))(lambda x: x.reshape(shape))


reshaped("all", (6, 24), (6, 24))
reshaped("copy_and_rest", (0, -1), (2, 72))
reshaped("rest_first", (-1, 6), (24, 6))
reshaped("copies", (0, 0, 24, 1), (2, 3, 24, 1))
reshaped("5d", (0, 3, 2, 2, 6), (2, 3, 2, 2, 6))
reshaped("1d", (-1,), (144,))
reshaped("axis1", (6, 12), (2, 6, 12), more="axis: 1")
reshaped("axis1_rest", (-1,), (2, 72), more="axis: 1")
reshaped("axis_num_axes", (12,), (2, 12, 6), more="axis: 1 num_axes: 2")
reshaped("insert_axis", (1,), (2, 1, 3, 4, 6), more="axis: 1 num_axes: 0")
reshaped("append_axes", (1, 1), (2, 3, 4, 6, 1, 1), more="axis: -1 num_axes: 0")
reshaped("negative_axis", (2, 3), (2, 3, 4, 2, 3), more="axis: -2 num_axes: 1")
reshaped("copy_in_axis", (0, -1), (2, 3, 24), more="axis: 1")
reshaped("conf", (0, -1, 3), (2, 24, 3), f32(2, 72))
case(
    "reshape_in_place_relu",
    X,
    layer("Reshape", "reshape_param { shape { dim: 0 dim: -1 } }", to="a"),
    layer("ReLU", at="a", to="a"),
)(lambda x: x.reshape(2, 72).relu())

case("flatten", X, layer("Flatten"))(lambda x: x.flatten(1))
case("flatten_axis2", X, layer("Flatten", "axis: 2"))(lambda x: x.flatten(2))
case("flatten_axis0", X, layer("Flatten", "axis: 0"))(lambda x: x.flatten())
case("flatten_end", X, layer("Flatten", "axis: 1 end_axis: 2"))(lambda x: x.flatten(1, 2))
case("flatten_end_negative", X, layer("Flatten", "axis: -3 end_axis: -2"))(lambda x: x.flatten(1, 2))
case("flatten_2d", f32(3, 5), layer("Flatten"))(lambda x: x.flatten(1))
case("flatten_one_axis", X, layer("Flatten", "axis: 3"))(lambda x: x * 1)

for order in itertools.permutations(range(4)):
    if order in ((0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 2, 3), (0, 1, 3, 2), (0, 2, 1, 3)):
        text = " ".join(f"order: {o}" for o in order)
        case(f"permute_{''.join(map(str, order))}", X, layer("Permute", text))(lambda x, o=order: x.permute(o))
case("transpose_of_fork", f32(2, 3, 4, 5), layer("Transpose", "dim: 3 dim: 2 dim: 0 dim: 1"))(
    lambda x: x.permute(3, 2, 0, 1)
)
case("spatial_dropout", X, layer("SpatialDropout"))(lambda x: x * 1)
case("permute_3d", f32(2, 3, 5), layer("Permute", "order: 0 order: 2 order: 1"))(lambda x: x.permute(0, 2, 1))
case("permute_rest_follows", X, layer("Permute", "order: 0 order: 2"))(lambda x: x.permute(0, 2, 1, 3))
case("permute_5d", f32(1, 2, 3, 2, 4), layer("Permute", "order: 0 order: 4 order: 1 order: 2 order: 3"))(
    lambda x: x.permute(0, 4, 1, 2, 3)
)
case("permute_flatten", X, layer("Permute", "order: 0 order: 2 order: 3 order: 1", to="p"), layer("Flatten", at="p"))(
    lambda x: x.permute(0, 2, 3, 1).flatten(1)
)

for axis, other in enumerate([(1, 3, 4, 6), (2, 5, 4, 6), (2, 3, 1, 6), (2, 3, 4, 2)]):
    case(f"concat_axis{axis}", X, f32(*other), layer("Concat", f"axis: {axis}", at="x y"))(
        lambda x, y, a=axis: torch.cat([x, y], a)
    )
case("concat_default", X, f32(2, 1, 4, 6), f32(2, 2, 4, 6), layer("Concat", at="x y z"))(lambda *xs: torch.cat(xs, 1))
case("concat_dim", X, f32(1, 3, 4, 6), layer("Concat", "concat_dim: 0", at="x y"))(lambda *xs: torch.cat(xs, 0))
case("concat_negative", X, X, layer("Concat", "axis: -2", at="x y"))(lambda *xs: torch.cat(xs, 2))
case("concat_one", X, layer("Concat", at="x"))(lambda x: x * 1)
case("concat_2d", f32(2, 3), f32(2, 5), layer("Concat", at="x y"))(lambda *xs: torch.cat(xs, 1))
case("concat_same_twice", X, layer("Concat", at="x x"))(lambda x: torch.cat([x, x], 1))
case("concat_3d_axis2", f32(1, 2, 8), f32(1, 2, 12), layer("Concat", "axis: 2", at="x y"))(lambda *xs: torch.cat(xs, 2))

S = f32(4, 6, 5, 8)
case("slice_default", S, layer("Slice", to="a b c"))(lambda x: x.split(2, 1))
case("slice_axis0", S, layer("Slice", "axis: 0", to="a b"))(lambda x: x.split(2, 0))
case("slice_axis3", S, layer("Slice", "axis: 3", to="a b"))(lambda x: x.split(4, 3))
case("slice_negative", S, layer("Slice", "axis: -1 slice_point: 3", to="a b"))(lambda x: x.split([3, 5], 3))
case("slice_points", S, layer("Slice", "slice_point: 1 slice_point: 4", to="a b c"))(lambda x: x.split([1, 3, 2], 1))
case("slice_points_axis2", S, layer("Slice", "axis: 2 slice_point: 2", to="a b"))(lambda x: x.split([2, 3], 2))
case("slice_dim", S, layer("Slice", "slice_dim: 0 slice_point: 3", to="a b"))(lambda x: x.split([3, 1], 0))
case("slice_one", S, layer("Slice", to="a"))(lambda x: x * 1)
case("slice_2d", f32(3, 7), layer("Slice", "slice_point: 2", to="a b"))(lambda x: x.split([2, 5], 1))
case("slice_and_concat", S, layer("Slice", to="a b"), layer("Concat", at="b a"))(
    lambda x: torch.cat([x[:, 3:], x[:, :3]], 1)
)
case("split", X, layer("Split", to="a b c"))(lambda x: (x * 1, x * 1, x * 1))

case("crop_default", f32(2, 3, 7, 9), f32(1, 1, 4, 5), layer("Crop", at="x y"))(lambda x, y: x[:, :, :4, :5])
case("crop_offset", f32(2, 3, 7, 9), f32(1, 1, 4, 5), layer("Crop", "offset: 2", at="x y"))(
    lambda x, y: x[:, :, 2:6, 2:7]
)
case("crop_offsets", f32(2, 3, 7, 9), f32(1, 1, 4, 5), layer("Crop", "offset: 3 offset: 1", at="x y"))(
    lambda x, y: x[:, :, 3:7, 1:6]
)
case("crop_axis1", f32(2, 5, 7, 9), f32(1, 2, 4, 5), layer("Crop", "axis: 1 offset: 1 offset: 2 offset: 3", at="x y"))(
    lambda x, y: x[:, 1:3, 2:6, 3:8]
)
case("crop_axis3", f32(2, 3, 7, 9), f32(1, 1, 4, 5), layer("Crop", "axis: 3 offset: 4", at="x y"))(
    lambda x, y: x[:, :, :, 4:9]
)
case("crop_axis0", f32(4, 3, 7, 9), f32(2, 3, 4, 5), layer("Crop", "axis: 0 offset: 0", at="x y"))(
    lambda x, y: x[:2, :3, :4, :5]
)
case("crop_negative_axis", f32(2, 3, 7, 9), f32(1, 1, 4, 5), layer("Crop", "axis: -2 offset: 1", at="x y"))(
    lambda x, y: x[:, :, 1:5, 1:6]
)

case("tile_default", X, layer("Tile", "tiles: 3"))(lambda x: x.repeat(1, 3, 1, 1))
case("tile_axis0", X, layer("Tile", "axis: 0 tiles: 2"))(lambda x: x.repeat(2, 1, 1, 1))
case("tile_axis_last", X, layer("Tile", "axis: -1 tiles: 2"))(lambda x: x.repeat(1, 1, 1, 2))
case("tile_2d", f32(2, 1), layer("Tile", "tiles: 5"))(lambda x: x.repeat(1, 5))
case("tile_one", X, layer("Tile", "tiles: 1"))(lambda x: x * 1)

case("shuffle_channel", f32(2, 6, 3, 4), layer("ShuffleChannel", "group: 2"))(lambda x: F.channel_shuffle(x, 2))
case("shuffle_channel_3", f32(1, 12, 5, 5), layer("ShuffleChannel", "group: 3"))(lambda x: F.channel_shuffle(x, 3))
case("shuffle_channel_1", f32(1, 4, 3, 3), layer("ShuffleChannel", "group: 1"))(lambda x: x * 1)
case("reverse_axis0", f32(5, 2, 3), layer("Reverse", "axis: 0"))(lambda x: x.flip(0))
case("reverse_axis1", X, layer("Reverse", "axis: 1"))(lambda x: x.flip(1))
