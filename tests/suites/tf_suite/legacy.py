"""Graphs as TensorFlow 1 wrote them: old versions of ops, NCHW, frames of control flow, cells as single ops."""

from __future__ import annotations

import numpy as np

from .case import boolean, case, f16, f32, i32, tf, value, weight
from .image import SCORES, TABLE, boxes

IMAGE = f32(2, 5, 7, 3)
X = f32(3, 5)


def graph(name, given, **more):
    return case(f"v1_{name}", given, kinds="graph", **more)


class _Raw:
    def __getattr__(self, name):
        return getattr(tf.raw_ops, name)


raw = _Raw()

for version in ("", "V2", "V3"):
    graph(f"fused_batch_norm{version}", [IMAGE])(
        lambda x, v=version: getattr(raw, f"FusedBatchNorm{v}")(
            x=x, scale=weight(3), offset=weight(3), mean=weight(3), variance=weight(3, low=0.5), epsilon=1e-3,
            is_training=False,
        )[0]
    )  # fmt: skip
graph("fused_batch_norm_training", [IMAGE])(
    lambda x: raw.FusedBatchNormV3(
        x=x, scale=weight(3), offset=weight(3), mean=np.float32([]), variance=np.float32([]), is_training=True
    )[:3]
)
graph("fused_batch_norm_f16", [f16(2, 5, 7, 3)])(
    lambda x: raw.FusedBatchNormV2(
        x=x, scale=weight(3), offset=weight(3), mean=weight(3), variance=weight(3, low=0.5), is_training=False
    )[0]
)
graph("bias_add_nchw", [IMAGE])(lambda x: tf.nn.bias_add(tf.transpose(tf.nn.relu(x), [0, 3, 1, 2]), weight(3), "NCHW"))
graph("max_pool_v2", [IMAGE])(
    lambda x: raw.MaxPoolV2(input=x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
)
graph("conv2d_backprop_input", [f32(1, 4, 5, 3)])(
    lambda x: raw.Conv2DBackpropInput(
        input_sizes=[1, 8, 10, 2], filter=weight(3, 3, 2, 3), out_backprop=x, strides=[1, 2, 2, 1], padding="SAME"
    )
)
graph("depthwise_native", [IMAGE])(
    lambda x: raw.DepthwiseConv2dNative(input=x, filter=weight(3, 3, 3, 2), strides=[1, 1, 1, 1], padding="SAME")
)
graph("conv2d_control_inputs", [IMAGE])(lambda x: _after(tf.nn.conv2d(x, weight(3, 3, 3, 4), 1, "SAME"), tf.no_op()))


def _after(tensor, op):
    with tf.control_dependencies([op]):
        return tf.identity(tensor) + 1.0


graph("space_to_batch", [f32(2, 4, 6, 3)])(lambda x: raw.SpaceToBatch(input=x, paddings=[[0, 0], [2, 0]], block_size=2))
graph("batch_to_space", [f32(8, 2, 3, 3)])(lambda x: raw.BatchToSpace(input=x, crops=[[0, 1], [1, 0]], block_size=2))
graph("batch_to_space_nd", [f32(12, 2, 3, 2)])(
    lambda x: raw.BatchToSpaceND(input=x, block_shape=[2, 3], crops=[[1, 0], [0, 2]])
)

for flags in ({}, {"align_corners": True}, {"half_pixel_centers": True}):
    word = next(iter(flags), "legacy")
    for op in ("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic"):
        more = {"tolerance": TABLE} if op == "ResizeBicubic" else {}
        graph(f"{op}_{word}", [f32(1, 4, 5, 2)], **more)(
            lambda x, o=op, f=flags: getattr(raw, o)(images=x, size=[7, 12], **f)
        )
        graph(f"{op}_{word}_smaller", [f32(1, 9, 8, 2)], **more)(
            lambda x, o=op, f=flags: getattr(raw, o)(images=x, size=[4, 3], **f)
        )
graph("ResizeArea", [f32(1, 9, 8, 2)])(lambda x: raw.ResizeArea(images=x, size=[4, 3]))
graph("CropAndResize", [f32(1, 9, 8, 2)])(
    lambda x: raw.CropAndResize(image=x, boxes=[[0.1, 0.0, 0.9, 1.0]], box_ind=[0], crop_size=[3, 4])
)
graph("ExtractImagePatches", [f32(1, 9, 8, 2)])(
    lambda x: raw.ExtractImagePatches(
        images=x, ksizes=[1, 3, 3, 1], strides=[1, 2, 2, 1], rates=[1, 1, 1, 1], padding="VALID"
    )
)

NMS = {
    "NonMaxSuppression": lambda b, s: raw.NonMaxSuppression(boxes=b, scores=s, max_output_size=9, iou_threshold=0.4),
    "NonMaxSuppressionV2": lambda b, s: raw.NonMaxSuppressionV2(
        boxes=b, scores=s, max_output_size=9, iou_threshold=0.4
    ),
    "NonMaxSuppressionV3": lambda b, s: raw.NonMaxSuppressionV3(
        boxes=b, scores=s, max_output_size=9, iou_threshold=0.4, score_threshold=0.3
    ),
    "NonMaxSuppressionV4": lambda b, s: raw.NonMaxSuppressionV4(
        boxes=b, scores=s, max_output_size=9, iou_threshold=0.4, score_threshold=0.3, pad_to_max_output_size=True
    ),
    "NonMaxSuppressionV5": lambda b, s: raw.NonMaxSuppressionV5(
        boxes=b, scores=s, max_output_size=9, iou_threshold=0.4, score_threshold=0.1, soft_nms_sigma=0.3
    ),
}
for name, body in NMS.items():
    graph(name, [boxes(23), SCORES])(body)

for name, masks in {
    "begin": {"begin_mask": 5}, "end": {"end_mask": 3}, "shrink": {"shrink_axis_mask": 2},
    "new_axis": {"new_axis_mask": 2}, "ellipsis": {"ellipsis_mask": 2},
    "begin_end_shrink": {"begin_mask": 1, "end_mask": 4, "shrink_axis_mask": 2},
    "ellipsis_and_shrink": {"ellipsis_mask": 1, "shrink_axis_mask": 4},
    "new_axis_and_shrink": {"new_axis_mask": 1, "shrink_axis_mask": 4},
}.items():  # fmt: skip
    graph(f"StridedSlice_{name}", [f32(4, 5, 6)])(
        lambda x, m=masks: raw.StridedSlice(input=x, begin=[1, 2, 1], end=[3, 5, 4], strides=[1, 2, 1], **m)
    )
graph("StridedSlice_negative_strides", [f32(4, 5, 6)])(
    lambda x: raw.StridedSlice(input=x, begin=[-1, 4, -2], end=[0, -6, 1], strides=[-1, -2, -1], end_mask=1)
)

graph("concat", [X, f32(3, 2)])(lambda x, y: raw.Concat(concat_dim=1, values=[x, y]))
graph("pack_unpack", [X, X])(lambda x, y: raw.Unpack(value=raw.Pack(values=[x, y], axis=1), num=5, axis=-1)[3])
graph("split", [f32(4, 6)])(lambda x: raw.Split(axis=1, value=x, num_split=3))
graph("pad_v2", [X])(lambda x: raw.PadV2(input=x, paddings=[[1, 0], [0, 2]], constant_values=-1.5))
graph("mirror_pad", [X])(lambda x: raw.MirrorPad(input=x, paddings=[[1, 0], [0, 2]], mode="SYMMETRIC"))
graph("reverse", [X])(lambda x: raw.Reverse(tensor=x, dims=[True, False]))
graph("gather", [X])(lambda x: raw.Gather(params=x, indices=[2, 0]))
graph("select", [boolean(3, 5), X, X])(lambda c, x, y: raw.Select(condition=c, x=x, y=y))
graph("select_rows", [boolean(3), X, X])(lambda c, x, y: raw.Select(condition=c, x=x, y=y))
graph("squeeze", [f32(1, 3, 1)])(lambda x: raw.Squeeze(input=x, axis=[0]))
graph("expand_dims", [X])(lambda x: raw.ExpandDims(input=x, axis=-2))
graph("fill", [X])(lambda x: x + raw.Fill(dims=[3, 5], value=2.0))
graph("range", [X])(lambda x: x + raw.Range(start=0.0, limit=5.0, delta=1.0))
graph("where", [boolean(3, 5)])(lambda x: raw.Where(condition=x))
graph("cumsum", [X])(lambda x: raw.Cumsum(x=x, axis=1, exclusive=True, reverse=True))
graph("inv", [f32(3, 5, low=0.5)])(lambda x: raw.Inv(x=x))
graph("real_div", [X, f32(5, low=0.5)])(lambda x, y: raw.RealDiv(x=x, y=y))
graph("div_i32", [i32(3, 5), value([3, -2, 7, 1, -5], np.int32)])(lambda x, y: raw.Div(x=x, y=y))
graph("mod_i32", [i32(3, 5), value([3, -2, 7, 1, -5], np.int32)])(lambda x, y: raw.Mod(x=x, y=y))
graph("add_v1", [X, f32(5)])(lambda x, y: raw.Add(x=x, y=y))
graph("bias_add_v1", [X])(lambda x: raw.BiasAddV1(value=x, bias=weight(5)))
graph("batch_mat_mul", [f32(2, 3, 5), f32(2, 4, 5)])(lambda x, y: raw.BatchMatMul(x=x, y=y, adj_y=True))
graph("batch_mat_mul_v3", [f32(2, 3, 5), f32(5, 4)])(lambda x, y: raw.BatchMatMulV3(x=x, y=y, Tout=tf.float32))
graph("matrix_band_part", [f32(4, 5)])(lambda x: raw.MatrixBandPart(input=x, num_lower=1, num_upper=-1))
graph("matrix_diag", [f32(3, 4)])(lambda x: raw.MatrixDiag(diagonal=x))
graph("matrix_diag_v3", [f32(2, 5)])(
    lambda x: raw.MatrixDiagV3(diagonal=x, k=1, num_rows=5, num_cols=6, padding_value=0.5)
)
graph("matrix_set_diag", [f32(4, 5), f32(4)])(lambda x, d: raw.MatrixSetDiag(input=x, diagonal=d))
graph("all_any", [boolean(3, 5)])(lambda x: (raw.All(input=x, axis=[1]), raw.Any(input=x, axis=[-1], keep_dims=True)))
graph("arg_max_i32", [X])(lambda x: raw.ArgMax(input=x, dimension=1, output_type=tf.int32))
graph("placeholder_with_default", [X])(lambda x: x + tf.compat.v1.placeholder_with_default(weight(5), [5]))
graph("snapshot_prevent_gradient", [X])(lambda x: raw.Snapshot(input=raw.PreventGradient(input=x)) * 2.0)
graph("dropout_of_training", [X])(lambda x: tf.compat.v1.nn.dropout(x, rate=0.0))
graph("quantize_dequantize_v2", [X])(
    lambda x: raw.QuantizeAndDequantizeV2(input=x, input_min=-2.0, input_max=2.0, range_given=True)
)
graph("quantize_dequantize_v3", [X])(
    lambda x: raw.QuantizeAndDequantizeV3(input=x, input_min=-2.0, input_max=1.0, num_bits=6, range_given=True)
)
graph("fake_quant", [X])(lambda x: raw.FakeQuantWithMinMaxVars(inputs=x, min=-1.0, max=2.5))
graph("softmax_of_logits", [f32(2, 7)])(lambda x: raw.Softmax(logits=x))
graph("lrn", [f32(1, 3, 4, 9)])(lambda x: raw.LRN(input=x, depth_radius=2, bias=1.0, alpha=0.3, beta=0.75))
graph("leaky_relu", [X])(lambda x: raw.LeakyRelu(features=x, alpha=0.1))
graph("list_diff", [i32(9, low=0, high=6)])(lambda x: raw.ListDiff(x=x, y=[1, 4]))
graph("parallel_dynamic_stitch", [f32(2, 3), f32(1, 3)])(
    lambda x, y: raw.ParallelDynamicStitch(indices=[[2, 0], [1]], data=[x, y])
)


def cell(x, **more):
    return dict(
        x=x, cs_prev=weight(2, 3), h_prev=weight(2, 3), w=weight(7, 12), wci=weight(3), wcf=weight(3), wco=weight(3),
        b=weight(12), **more,
    )  # fmt: skip


graph("lstm_block_cell", [f32(2, 4)])(lambda x: tuple(raw.LSTMBlockCell(**cell(x, forget_bias=1.0))[i] for i in (1, 6)))
graph("lstm_block_cell_peephole_clip", [f32(2, 4)])(
    lambda x: tuple(raw.LSTMBlockCell(**cell(x, use_peephole=True, cell_clip=0.5))[i] for i in (1, 6))
)
for version in ("", "V2"):
    graph(f"block_lstm{version}", [f32(5, 2, 4)])(
        lambda x, v=version: getattr(raw, f"BlockLSTM{v}")(**cell(x), seq_len_max=np.int64(5))[6]
    )
graph("block_lstm_shorter", [f32(5, 2, 4)])(
    lambda x: raw.BlockLSTM(**cell(x, forget_bias=0.5), seq_len_max=np.int64(3))[6]
)
graph("gru_block_cell", [f32(2, 4)])(
    lambda x: raw.GRUBlockCell(
        x=x, h_prev=weight(2, 3), w_ru=weight(7, 6), w_c=weight(7, 3), b_ru=weight(6), b_c=weight(3)
    )[3]
)


# ---- control flow ---------------------------------------------------------------------------------------------------


def cond(p, yes, no):
    return tf.compat.v1.cond(p, yes, no)


def loop(*args, **more):
    return tf.compat.v1.while_loop(*args, **more)


FLAGS = {"then": value(True, np.bool_), "else": value(False, np.bool_)}
for word, flag in FLAGS.items():
    graph(f"cond_{word}", [flag, X])(lambda p, x: cond(p, lambda: x * 2.0, lambda: tf.exp(x)))
    graph(f"cond_nested_{word}", [flag, X])(
        lambda p, x: cond(
            p,
            lambda: cond(tf.reduce_sum(x) > 0, lambda: x + 1.0, lambda: x - 1.0),
            lambda: cond(x[0, 0] > 0, lambda: x * 2.0, lambda: -x),
        )
    )
    graph(f"cond_results_used_twice_{word}", [flag, X])(
        lambda p, x: (lambda a, b: (a + b, a * 2.0))(*cond(p, lambda: (x, x + 1.0), lambda: (x - 1.0, x)))
    )
    graph(f"cond_constants_{word}", [flag])(lambda p: cond(p, lambda: tf.constant(1.5), lambda: tf.constant(-2.0)))
    graph(f"switch_merge_{word}", [flag, X])(lambda p, x: _switch_merge(p, x))
    graph(f"phase_{word}", [flag, IMAGE])(
        lambda p, x: cond(p, lambda: tf.nn.moments(x, [0, 1, 2])[0], lambda: tf.constant(weight(3))) + x
    )


def _switch_merge(p, x):
    no, yes = raw.Switch(data=x, pred=p)
    output, index = raw.Merge(inputs=[no * 2.0, yes + 1.0])
    return output, index


graph("while", [X])(lambda x: loop(lambda i, y: i < 4, lambda i, y: (i + 1, y * 0.5 + 1.0), (0, x))[1])
graph("while_captures", [X, f32(5, 5)])(
    lambda x, w: loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.nn.relu(tf.matmul(y, w))), (0, x))
)
graph("while_nested", [X])(
    lambda x: loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, loop(lambda j, z: j < i + 1, lambda j, z: (j + 1, z * 0.5 + 1.0), (0, y))[1]),
        (0, x),
    )[1]
)
graph("while_nested_captures", [X, f32(5)])(
    lambda x, w: loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, loop(lambda j, z: j < 2, lambda j, z: (j + 1, z * 0.5 + w), (0, y + w))[1]),
        (0, x),
    )[1]
)
graph("while_with_cond", [X])(
    lambda x: loop(
        lambda i, y: i < 4,
        lambda i, y: (i + 1, cond(tf.equal(i % 2, 0), lambda: y + 1.0, lambda: y * 2.0)),
        (0, x),
    )[1]
)
graph("cond_with_while", [value(True, np.bool_), X])(
    lambda p, x: cond(p, lambda: loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1], lambda: x)
)
graph("while_two_after_another", [X])(
    lambda x: loop(
        lambda i, y: i < 2,
        lambda i, y: (i + 1, y - 1.0),
        (0, loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * 2.0), (0, x))[1]),
    )[1]
)
graph("while_invariant_result", [X])(lambda x: loop(lambda i, y: i < 4, lambda i, y: (i + 1, y), (0, x)))
graph("while_growing", [X])(
    lambda x: loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.concat([y, y[:1]], 0)),
        (0, x),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, 5])),
    )[1]
)


def _array(x, body, **more):
    array = tf.TensorArray(tf.float32, 4, **more)
    return loop(lambda i, a: i < 4, lambda i, a: (i + 1, a.write(i, body(x[i]))), (0, array))[1]


graph("tensor_array", [f32(4, 3)])(lambda x: _array(x, lambda r: r * 2.0).stack())
graph("tensor_array_concat", [f32(4, 2, 3)])(lambda x: _array(x, tf.abs).concat())
graph("tensor_array_read", [f32(4, 3)])(lambda x: _array(x, tf.abs).read(2))
graph("tensor_array_gather", [f32(4, 3)])(lambda x: tf.TensorArray(tf.float32, 4).unstack(x).gather([3, 1]))
graph("tensor_array_split", [f32(6, 3)])(
    lambda x: tf.TensorArray(tf.float32, 3, infer_shape=False).split(x, [1, 2, 3]).read(2)
)
graph("map", [f32(4, 3)])(lambda x: tf.map_fn(lambda r: r - tf.reduce_mean(r), x))
graph("scan", [f32(4, 3)])(lambda x: tf.scan(lambda a, r: a * 0.5 + r, x))


@graph("rnn_loop", [f32(5, 2, 4)])
def _(x):
    """A cell that is stepped over the rows of a tensor array, as dynamic_rnn does it."""
    w, b = tf.constant(weight(7, 3)), tf.constant(weight(3))
    rows = tf.TensorArray(tf.float32, 5).unstack(x)
    out = tf.TensorArray(tf.float32, 5)

    def body(i, h, o):
        h = tf.tanh(tf.matmul(tf.concat([rows.read(i), h], 1), w) + b)
        return i + 1, h, o.write(i, h)

    _, h, o = loop(lambda i, h, o: i < 5, body, (0, tf.zeros([2, 3]), out))
    return o.stack(), h


@graph("lstm_loop_with_lengths", [f32(5, 2, 4), value([3, 5], np.int32)])
def _(x, lengths):
    w, b = tf.constant(weight(7, 12)), tf.constant(weight(12))
    rows = tf.TensorArray(tf.float32, 5).unstack(x)
    out = tf.TensorArray(tf.float32, 5)

    def body(t, c, h, o):
        i, j, f, g = tf.split(tf.matmul(tf.concat([rows.read(t), h], 1), w) + b, 4, 1)
        c2 = tf.sigmoid(f + 1.0) * c + tf.sigmoid(i) * tf.tanh(j)
        h2 = tf.sigmoid(g) * tf.tanh(c2)
        live = tf.expand_dims(t < lengths, 1)
        return t + 1, tf.where(live, c2, c), tf.where(live, h2, h), o.write(t, tf.where(live, h2, tf.zeros_like(h2)))

    zeros = tf.zeros([2, 3])
    _, c, h, o = loop(lambda t, c, h, o: t < 5, body, (0, zeros, zeros, out))
    return o.stack(), c, h
