"""Ops that few models have, by their own names."""

from __future__ import annotations

import numpy as np

from .builtin import node
from .case import boolean, case, f32, i32, i64, tf, value, weight

X = f32(3, 5)
SQUARE = f32(2, 3, 3)


def raw(name: str, given, word: str = "", tolerance: float = 1e-4, **fixed):
    """One op of TensorFlow. `given` has its tensors by operand, `fixed` what is constant; all its results count."""
    shown = f"op_{name}{'_' * bool(word)}{word}"
    operands = list(given)

    def body(*xs):
        found = getattr(tf.raw_ops, name)(**dict(zip(operands, xs, strict=True)), **_built(fixed))
        return tuple(found) if isinstance(found, tuple) else found

    case(shown, list(given.values()), kinds="graph", tolerance=tolerance)(body)


def _built(fixed):
    """Weights are drawn when the graph is made."""
    return {k: v() if callable(v) else v for k, v in fixed.items()}


raw("AccumulateNV2", {}, inputs=lambda: [weight(3, 2), weight(3, 2)], shape=[3, 2])
raw("ApproximateEqual", {"x": value([1.0, 2.0, 3.0]), "y": value([1.0, 2.000001, 3.1])})
raw("BatchMatMulV2", {"x": f32(2, 3, 5), "y": f32(5, 4)})
raw("Bincount", {"arr": i32(9, low=0, high=5)}, size=6, weights=np.float32([]))
raw("BroadcastArgs", {"s0": value([2, 1, 5], np.int32), "s1": value([3, 1], np.int32)})
raw("ClipByValue", {"t": X}, clip_value_min=-1.0, clip_value_max=0.5)
raw("ConcatOffset", {}, concat_dim=1, shape=[[2, 3], [2, 5]])
raw("DeepCopy", {"x": X})
raw("Empty", {}, shape=[2, 3], dtype=lambda: tf.float32, init=True)
raw("Expm1", {"x": X})
raw("InTopK", {"predictions": X, "targets": i32(3, low=0, high=5)}, k=2)
raw("LinSpace", {"start": value(1.0), "stop": value(4.0)}, num=7)
raw("NotEqual", {"x": boolean(3, 5), "y": boolean(3, 5)})
raw("LogMatrixDeterminant", {"input": SQUARE})
raw("MatrixDiagPart", {"input": f32(4, 5)})
raw("MatrixDiagPartV2", {"input": f32(4, 5)}, k=1, padding_value=0.0)
raw("MatrixDiagV2", {"diagonal": f32(2, 4)}, k=0, num_rows=4, num_cols=5, padding_value=2.0)
raw("MatrixSetDiagV2", {"input": f32(4, 5), "diagonal": f32(4)}, k=0)
raw("MatrixSolve", {"matrix": value(np.eye(3) * 4 + np.arange(9).reshape(3, 3) / 9), "rhs": f32(3, 2)}, tolerance=1e-3)
raw("MatrixInverse", {"input": value(np.eye(3) * 4 + np.arange(9).reshape(3, 3) / 9)}, tolerance=1e-3)
raw("OnesLike", {"x": X})
raw("ParallelConcat", {}, values=lambda: [weight(1, 3), weight(1, 3)], shape=[2, 3])
raw("Prod", {"input": X}, axis=[0])
raw("QuantizeAndDequantizeV4", {"input": X}, input_min=-2.0, input_max=2.0, range_given=True)
raw("QuantizeV2", {"input": X}, min_range=-3.0, max_range=3.0, T=lambda: tf.quint8)
for word in ("Sum", "Mean", "SqrtN"):
    raw(f"SparseSegment{word}WithNumSegments", {"data": X}, indices=[2, 0, 1], segment_ids=[0, 0, 2], num_segments=4)
raw("TensorStridedSliceUpdate", {"input": f32(4, 5), "value": f32(2, 2)}, begin=[1, 0], end=[3, 4], strides=[1, 2])
raw("TopKV2", {"input": X}, k=3)
raw("UniqueV2", {"x": i32(9, low=0, high=4)}, axis=[0])
raw("UniqueWithCountsV2", {"x": i32(9, low=0, high=4)}, axis=[0])
raw("UnravelIndex", {"indices": i32(4, low=0, high=15)}, dims=[3, 5])
raw("Xlog1py", {"x": X, "y": f32(3, 5, low=0.1)})
raw("Igamma", {"a": f32(3, 5, low=0.5), "x": f32(3, 5, low=0.1)})
raw("Zeta", {"x": f32(3, 5, low=1.5), "q": f32(3, 5, low=0.5)})
raw("Betainc", {"a": f32(5, low=0.5), "b": f32(5, low=0.5), "x": f32(5, low=0.1, high=0.9)})
raw("PopulationCount", {"x": i32(5, low=0, high=99)})
raw("Erfinv", {"x": f32(3, 5, low=-0.9, high=0.9)})
raw("ReluGrad", {"gradients": X, "features": X})
raw("TanhGrad", {"y": f32(3, 5, low=-1, high=1), "dy": X})
raw("SigmoidGrad", {"y": f32(3, 5, low=0, high=1), "dy": X})
raw("L2Loss", {"t": X})
raw("LowerBound", {"sorted_inputs": value([[0, 1, 2, 3]]), "values": f32(1, 5)})
raw("UpperBound", {"sorted_inputs": value([[0, 1, 2, 3]]), "values": f32(1, 5)})
raw("Cross", {"a": f32(4, 3), "b": f32(4, 3)})
raw("Roll", {"input": X}, shift=[2], axis=[1])
raw("DepthToSpace", {"input": f32(1, 2, 3, 8)}, block_size=2)
raw("SpaceToDepth", {"input": f32(1, 4, 6, 2)}, block_size=2)
raw("AvgPool3D", {"input": f32(1, 4, 6, 5, 2)}, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="VALID")
raw("MaxPool3D", {"input": f32(1, 4, 6, 5, 2)}, ksize=[1, 2, 2, 2, 1], strides=[1, 2, 2, 2, 1], padding="SAME")
raw("DepthwiseConv2dNativeBackpropInput", {"out_backprop": f32(1, 3, 4, 2)}, input_sizes=[1, 6, 8, 2],
    filter=lambda: weight(3, 3, 2, 1), strides=[1, 2, 2, 1], padding="SAME")  # fmt: skip
raw("Dilation2D", {"input": f32(1, 5, 7, 2)}, filter=lambda: weight(2, 2, 2), strides=[1, 1, 1, 1], rates=[1, 2, 2, 1],
    padding="VALID")  # fmt: skip
raw("Conv", {"input": f32(1, 5, 7, 2)}, filter=lambda: weight(3, 3, 2, 4), strides=[1, 1, 1, 1], padding="SAME")
raw("CTCGreedyDecoder", {"inputs": f32(6, 2, 5)}, sequence_length=[6, 4])
raw("RaggedRange", {"limits": value([2, 4], np.int32)}, starts=[0, 0], deltas=[1, 1])
raw("StringToNumber", {}, string_tensor=["1.5", "-2"])
raw("DecodeRaw", {}, bytes=[b"abcd"], out_type=lambda: tf.uint8)
raw("DrawBoundingBoxes", {"images": f32(1, 6, 6, 3)}, boxes=[[[0.1, 0.1, 0.8, 0.9]]])
raw("StopGradient", {"input": X})

for name, body in {
    "angle": lambda z: tf.math.angle(z), "conj": lambda z: tf.math.imag(tf.math.conj(z)),
    "conjugate_transpose": lambda z: tf.math.imag(tf.raw_ops.ConjugateTranspose(x=z, perm=[1, 0])),
    "ifft2d": lambda z: tf.abs(tf.signal.ifft2d(z)), "fft3d": lambda z: tf.abs(tf.signal.fft3d(z[None])),
    "ifft3d": lambda z: tf.math.real(tf.signal.ifft3d(z[None])), "irfft2d": lambda z: tf.signal.irfft2d(z),
    "complex_divide": lambda z: tf.abs(z / (z + 3.0)),
    "complex_matmul": lambda z: tf.abs(tf.matmul(z, z, adjoint_b=True)),
    "complex_reduce": lambda z: tf.math.real(tf.reduce_sum(z, 0)), "complex_exp": lambda z: tf.abs(tf.exp(z)),
    "complex_concat_slice": lambda z: tf.math.imag(tf.concat([z, z[:1]], 0)[1:, ::2]),
}.items():  # fmt: skip
    case(f"complex_{name.removeprefix('complex_')}", [X, X], kinds="tf")(lambda x, y, f=body: f(tf.complex(x, y)))
case("rfft3d", [f32(1, 2, 3, 8)], kinds="tf")(lambda x: tf.abs(tf.signal.rfft3d(x)))

# What is drawn at random cannot be foretold; its type, its shape and its limits can.
for name, body in {
    "uniform": lambda s: tf.random.uniform(s), "normal": lambda s: tf.random.normal(s),
    "truncated_normal": lambda s: tf.random.truncated_normal(s),
    "stateless_uniform": lambda s: tf.random.stateless_uniform(s, [1, 2]),
    "uniform_integers": lambda s: tf.random.uniform(s, 2, 9, tf.int32),
}.items():  # fmt: skip
    case(f"random_{name}", [value([3, 700], np.int32)], kinds="tf")(
        lambda s, f=body: (tf.shape(r := f(s)), tf.reduce_all(tf.abs(tf.cast(r, tf.float32)) < 9.0))
    )
case("random_dropout_off", [X], kinds="tf lite")(lambda x: tf.nn.dropout(x, 0.0) + 1.0)
case("print_passes_by", [X], kinds="tf")(lambda x: _printed(x))


def _printed(x):
    with tf.control_dependencies([tf.print("x", x, output_stream="file:///dev/null")]):
        return tf.identity(x) * 2.0


def op(name, given, make):
    case(f"builtin_{name}", given, kinds="builtin")(make)


op("rank", [X], lambda: node("RANK", [0], [()], "RankOptions", types=["int32"]))
op("segment_sum", [X, value([0, 1, 1], np.int32)], lambda: node("SEGMENT_SUM", [0, 1], [(2, 5)], "SegmentSumOptions"))
op("atan2", [X, X], lambda: node("ATAN2", [0, 1], [(3, 5)], "ATan2Options"))
op(
    "bucketize",
    [X],
    lambda: node("BUCKETIZE", [0], [(3, 5)], "BucketizeOptions", types=["int32"], boundaries=[-1.0, 0.0, 1.5]),
)
op("fake_quant", [X], lambda: node("FAKE_QUANT", [0], [(3, 5)], "FakeQuantOptions", min=-1.0, max=2.0, numBits=8))
op("neg", [X], lambda: node("NEG", [0], [(3, 5)], "NegOptions"))
op("rsqrt", [value([[1, 4, 0.25]])], lambda: node("RSQRT", [0], [(1, 3)]))
op("cumsum", [X, value(1, np.int32)], lambda: node("CUMSUM", [0, 1], [(3, 5)], "CumsumOptions", exclusive=True))
op("pow", [f32(3, 5, low=0.2), X], lambda: node("POW", [0, 1], [(3, 5)], "PowOptions"))
op("select_v2", [boolean(3, 1), X, f32(5)], lambda: node("SELECT_V2", [0, 1, 2], [(3, 5)], "SelectV2Options"))
op("expand_dims", [X, value(-1, np.int32)], lambda: node("EXPAND_DIMS", [0, 1], [(3, 5, 1)], "ExpandDimsOptions"))
op("gather_i64", [X, i64(2, low=0, high=3)], lambda: node("GATHER", [0, 1], [(2, 5)], "GatherOptions"))
op("reverse_v2", [X, value([0], np.int32)], lambda: node("REVERSE_V2", [0, 1], [(3, 5)], "ReverseV2Options"))
op(
    "broadcast_args",
    [value([2, 1, 5], np.int32), value([3, 1], np.int32)],
    lambda: node("BROADCAST_ARGS", [0, 1], [(3,)], types=["int32"]),
)
op("batch_matmul", [f32(2, 5, 3), f32(2, 4, 5)], lambda: node(
    "BATCH_MATMUL", [0, 1], [(2, 3, 4)], "BatchMatMulOptions", adjX=True, adjY=True
))  # fmt: skip
