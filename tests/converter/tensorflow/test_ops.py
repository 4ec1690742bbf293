"""TensorFlow's operators one by one, in graphs as its own programs write them, beside TensorFlow."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest
from tensorflow_oracle import C, check

from minnow.converter.tensorflow import frontend
from minnow.schema.errors import UnsupportedError

pytestmark = pytest.mark.skipif(not find_spec("tensorflow"), reason="TensorFlow is the judge")

rng = np.random.default_rng(7)


def f32(*shape, low=-2.0, high=2.0):
    return rng.uniform(low, high, shape).astype(np.float32)


def c64(*shape):
    return (f32(*shape) + 1j * f32(*shape)).astype(np.complex64)


def ints(*shape, low=0, high=9, dtype=np.int32):
    return rng.integers(low, high, shape).astype(dtype)


def spd(*shape):
    """Matrices far from singular."""
    m = f32(*shape)
    return (m @ np.swapaxes(m, -1, -2) + 3 * np.eye(shape[-1])).astype(np.float32)


BOXES = np.array([[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 0.6, 1, 1.4], [0.5, 0.5, 0.9, 1.2], [0, 2, 1, 3]], np.float32)
SCORES = np.array([0.9, 0.75, 0.6, 0.95, 0.3], np.float32)
S1, S2 = [1, 1, 1, 1], [1, 2, 2, 1]
P2 = {"strides": S1, "padding": "VALID", "data_format": "NHWC", "dilations": S1}
IMAGE, WEIGHTS = f32(2, 7, 9, 3), f32(3, 3, 3, 5)
NORM = [f32(5), f32(5), f32(5), f32(5, low=0.5)]

CASES = [
    # convolution
    ("Conv2D", [IMAGE, C(WEIGHTS)], {"strides": S1, "padding": "SAME"}),
    ("Conv2D", [IMAGE, C(WEIGHTS)], {"strides": S2, "padding": "EXPLICIT", "explicit_paddings": [0, 0, 2, 1, 0, 3, 0,
     0]}),
    ("Conv2D", [IMAGE, C(WEIGHTS)], {"strides": S1, "padding": "SAME", "dilations": [1, 2, 2, 1]}),
    ("Conv2D", [f32(1, 8, 8, 6), C(f32(3, 3, 3, 4))], {"strides": S1, "padding": "VALID"}),
    ("Conv2D", [IMAGE, WEIGHTS], {"strides": S2, "padding": "SAME"}),
    ("Conv3D", [f32(1, 5, 6, 7, 2), C(f32(2, 3, 3, 2, 4))], {"strides": [1, 1, 2, 2, 1], "padding": "SAME"}),
    ("DepthwiseConv2dNative", [IMAGE, C(f32(3, 3, 3, 2))], {"strides": S2, "padding": "SAME"}),
    ("DepthwiseConv2dNative", [IMAGE, C(f32(3, 2, 3, 1))], {"strides": S1, "padding": "VALID", "dilations": [1, 2, 2,
     1]}),
    ("Conv2DBackpropInput", [C([2, 14, 18, 4], np.int32), C(f32(3, 3, 4, 3)), IMAGE],
     {"strides": S2, "padding": "SAME"}),
    ("Conv2DBackpropInput", [C([2, 13, 17, 4], np.int32), C(f32(3, 3, 4, 3)), IMAGE],
     {"strides": S2, "padding": "SAME"}),
    ("Conv2DBackpropInput", [C([2, 16, 20, 4], np.int32), C(f32(3, 3, 4, 3)), IMAGE],
     {"strides": S2, "padding": "VALID"}),
    ("Conv2DBackpropInput", [C([2, 7, 9, 4], np.int32), C(f32(4, 4, 4, 3)), IMAGE], {"strides": S1, "padding": "SAME"}),
    ("Conv3DBackpropInputV2", [C([1, 6, 8, 10, 2], np.int32), C(f32(3, 3, 3, 2, 3)), f32(1, 3, 4, 5, 3)],
     {"strides": [1, 2, 2, 2, 1], "padding": "SAME"}),
    ("DepthwiseConv2dNativeBackpropInput", [C([2, 14, 18, 3], np.int32), C(f32(3, 3, 3, 2)), f32(2, 7, 9, 6)],
     {"strides": S2, "padding": "SAME"}),
    ("Dilation2D", [IMAGE, C(f32(3, 2, 3))], {"strides": S2, "rates": S1, "padding": "SAME"}),
    ("_FusedConv2D", [IMAGE, C(WEIGHTS), [C(f32(5))], []], {"strides": S1, "padding": "SAME", "num_args": 1,
     "fused_ops": ["BiasAdd", "Relu"]}),
    ("_FusedConv2D", [IMAGE, C(WEIGHTS), [C(v) for v in NORM], []], {"strides": S1, "padding": "VALID", "num_args": 4,
     "fused_ops": ["FusedBatchNorm", "Relu6"], "epsilon": 0.01}),
    ("_FusedMatMul", [f32(3, 4), C(f32(4, 5)), [C(f32(5))]], {"fused_ops": ["BiasAdd", "Tanh"]}),
    # pooling and normalization
    ("MaxPool", [IMAGE], {"ksize": [1, 3, 2, 1], "strides": S2, "padding": "SAME"}),
    ("MaxPool", [f32(1, 4, 5, 6)], {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "VALID"}),
    ("MaxPoolV2", [IMAGE, C([1, 2, 2, 1], np.int32), C(S2, np.int32)], {"padding": "VALID"}),
    ("AvgPool", [IMAGE], {"ksize": [1, 3, 3, 1], "strides": S2, "padding": "SAME"}),
    ("MaxPool3D", [f32(1, 5, 6, 7, 2)], {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "SAME"}),
    ("AvgPool3D", [f32(1, 5, 6, 7, 2)], {"ksize": [1, 2, 3, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "SAME"}),
    ("MaxPoolWithArgmax", [IMAGE], {"ksize": [1, 2, 2, 1], "strides": S2, "padding": "SAME"}),
    ("MaxPoolWithArgmax", [IMAGE], {"ksize": [1, 2, 2, 1], "strides": S2, "padding": "VALID",
     "include_batch_in_index": True}),
    ("FusedBatchNormV3", [f32(2, 4, 5, 5), *map(C, NORM)], {"is_training": False, "epsilon": 0.001}, (0,)),
    ("FusedBatchNorm", [f32(2, 4, 5, 5), C(NORM[0]), C(NORM[1]), C(f32(0)), C(f32(0))],
     {"is_training": True}, (0, 1, 2)),
    ("LRN", [f32(1, 3, 4, 9)], {"depth_radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.7}),
    # arithmetic
    *((op, [f32(3, 4, low=0.1, high=0.9)], {}) for op in (
        "Abs", "Neg", "Square", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Exp", "Expm1", "Log", "Log1p", "Sin", "Cos",
         "Tan",
        "Asin", "Acos", "Atan", "Sinh", "Cosh", "Tanh", "Asinh", "Atanh", "Erf", "Erfc", "Erfinv", "Ndtri", "Sigmoid",
        "Sign", "Floor", "Ceil", "Rint", "Round", "Lgamma", "Digamma", "BesselI0", "BesselI0e", "BesselI1", "BesselI1e",
        "Relu", "Relu6", "Elu", "Selu", "Softsign", "Softplus", "Softmax", "LogSoftmax", "L2Loss", "IsNan", "IsInf",
        "IsFinite", "ZerosLike", "OnesLike")),
    *((op, [f32(3, 4, low=-5, high=-0.1)], {}) for op in ("Lgamma", "Digamma", "BesselI1", "BesselI0e", "Round",
     "Relu6")),
    ("Acosh", [f32(3, low=1.1, high=4)], {}),
    ("LeakyRelu", [f32(3, 4)], {"alpha": 0.3}),
    *((op, [f32(2, 3, 4), f32(4, low=0.2)], {}) for op in (
        "Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "Maximum", "Minimum", "SquaredDifference", "FloorDiv",
         "FloorMod",
        "Mod", "Atan2", "DivNoNan", "MulNoNan", "Xdivy", "Xlogy", "Xlog1py", "Greater", "GreaterEqual", "Less",
         "LessEqual",
        "Equal", "NotEqual")),
    ("DivNoNan", [f32(4), np.array([1, 0, 2, 0], np.float32)], {}),
    ("Xlogy", [np.array([0, 1, 0, 2], np.float32), np.array([0, 2, np.inf, 3], np.float32)], {}),
    *((op, [ints(3, 4, low=-9), ints(4, low=1)], {}) for op in (
        "AddV2", "Sub", "Mul", "Div", "TruncateDiv", "TruncateMod", "FloorDiv", "FloorMod", "Maximum", "BitwiseAnd",
        "BitwiseOr", "BitwiseXor", "LeftShift", "RightShift")),
    ("Invert", [ints(5, low=-9)], {}),
    ("PopulationCount", [ints(5, low=-9)], {}),
    ("PopulationCount", [ints(5, high=200, dtype=np.uint8)], {}),
    ("Pow", [f32(3, 4, low=0.1), f32(4)], {}),
    ("ApproximateEqual", [f32(5), f32(5)], {"tolerance": 1.0}),
    ("AddN", [[f32(2, 3), f32(2, 3), f32(2, 3)]], {}),
    ("AccumulateNV2", [[f32(2, 3), f32(2, 3)]], {"shape": [2, 3]}),
    ("LogicalAnd", [f32(4) > 0, f32(4) > 0], {}),
    ("LogicalOr", [f32(4) > 0, f32(4) > 0], {}),
    ("LogicalNot", [f32(4) > 0], {}),
    ("ClipByValue", [f32(3, 4), C(np.float32(-0.5)), C(np.float32(0.7))], {}),
    ("Cast", [f32(3, 4)], {"DstT": np.int32}),
    ("Bitcast", [f32(3, 4)], {"type": np.int32}),
    ("BiasAdd", [f32(2, 3, 4), f32(4)], {}),
    ("BiasAdd", [f32(2, 3, 4, 5), f32(3)], {"data_format": "NCHW"}),
    ("MatMul", [f32(4, 3), f32(5, 4)], {"transpose_a": True, "transpose_b": True}),
    ("BatchMatMulV2", [f32(2, 1, 3, 4), f32(3, 5, 4)], {"adj_y": True}),
    ("BatchMatMul", [f32(2, 4, 3), f32(2, 4, 5)], {"adj_x": True}),
    ("BatchMatMulV3", [f32(2, 3, 4), f32(2, 4, 5)], {"Tout": np.float32}),
    ("Einsum", [[f32(2, 3, 4), f32(4, 5)]], {"equation": "abc,cd->abd"}),
    ("Cross", [f32(4, 3), f32(4, 3)], {}),
    # gradients
    *((op, [f32(3, 4, low=0.1, high=0.9), f32(3, 4)], {}) for op in (
        "SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad")),
    *((op, [f32(3, 4), f32(3, 4, low=-1.5, high=8)], {}) for op in (
        "ReluGrad", "Relu6Grad", "LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad")),
    ("BiasAddGrad", [f32(2, 3, 4)], {}),
    ("SoftmaxCrossEntropyWithLogits", [f32(3, 5), f32(3, 5, low=0)], {}),
    ("SparseSoftmaxCrossEntropyWithLogits", [f32(3, 5), ints(3, high=5)], {}),
    # reductions and searching
    *((op, [f32(2, 3, 4), C([0, -1], np.int32)], {"keep_dims": k}) for k in (False, True)
      for op in ("Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm")),
    ("Sum", [f32(2, 3), C(np.zeros(0, np.int32))], {}),
    ("All", [f32(2, 3) > 0, C(1, np.int32)], {}),
    ("Any", [f32(2, 3) > 0, C([1], np.int32)], {}),
    ("Mean", [ints(3, 4, low=-9), C(1, np.int32)], {}),
    ("ArgMax", [f32(3, 4), C(-1, np.int32)], {}),
    ("ArgMin", [f32(3, 4), C(0, np.int32)], {"output_type": np.int32}),
    ("TopKV2", [f32(3, 7), C(3, np.int32)], {}),
    ("NthElement", [f32(3, 7), C(2, np.int32)], {}),
    ("InTopK", [f32(4, 6), ints(4, high=6)], {"k": 2}),
    ("InTopKV2", [f32(4, 6), ints(4, high=6), C(3, np.int32)], {}),
    ("Cumsum", [f32(3, 4), C(1, np.int32)], {"exclusive": True, "reverse": True}),
    ("Cumprod", [f32(3, 4), C(0, np.int32)], {}),
    ("CumulativeLogsumexp", [f32(3, 4), C(1, np.int32)], {}),
    ("LowerBound", [np.sort(f32(2, 6)), f32(2, 3)], {}),
    ("UpperBound", [np.sort(ints(2, 6)), ints(2, 3)], {"out_type": np.int64}),
    ("Bucketize", [f32(3, 4)], {"boundaries": [-1.0, 0.0, 0.5]}),
    ("Unique", [ints(9, high=4)], {}),
    ("UniqueV2", [ints(6, 2, high=2), C([0], np.int64)], {"out_idx": np.int64}),
    ("UniqueWithCounts", [ints(9, high=4)], {}),
    ("UniqueWithCountsV2", [ints(9, high=4), C(np.zeros(0, np.int64))], {}),
    ("ListDiff", [ints(9), ints(4)], {}),
    ("HistogramFixedWidth", [f32(20), C([-1, 1], np.float32), C(5, np.int32)], {}),
    ("Bincount", [ints(12), C(6, np.int32), f32(12)], {}),
    ("Bincount", [ints(3, 4), C(12, np.int32), C(f32(0))], {}),
    ("DenseBincount", [ints(3, 4), C(7, np.int32), C(f32(0))], {"binary_output": True}),
    ("Where", [f32(3, 4) > 0], {}),
    ("Select", [f32(3) > 0, f32(3, 4), f32(3, 4)], {}),
    ("SelectV2", [f32(4) > 0, f32(3, 4), f32(3, 1)], {}),
    ("UnravelIndex", [C([22, 41, 37], np.int32), C([7, 6], np.int32)], {}),
    ("UnravelIndex", [ints(5, high=40), C([7, 6], np.int32)], {}),
    # movement
    ("Shape", [f32(3, 4)], {"out_type": np.int64}),
    ("ShapeN", [[f32(3, 4), f32(2)]], {}),
    ("Size", [f32(3, 4)], {}),
    ("Rank", [f32(3, 4)], {}),
    ("Reshape", [f32(3, 4), C([2, -1], np.int32)], {}),
    ("Squeeze", [f32(3, 1, 4, 1)], {"squeeze_dims": [-1]}),
    ("Squeeze", [f32(3, 1, 4, 1)], {}),
    ("ExpandDims", [f32(3, 4), C(-2, np.int32)], {}),
    ("Transpose", [f32(2, 3, 4), C([2, 0, 1], np.int32)], {}),
    ("Transpose", [f32(2, 3, 4), np.array([1, 2, 0], np.int32)], {}),
    ("InvertPermutation", [np.array([2, 0, 3, 1], np.int32)], {}),
    ("Concat", [C(1, np.int32), [f32(2, 3), f32(2, 5)]], {}),
    ("ConcatV2", [[f32(2, 3), f32(1, 3), f32(4, 3)], C(0, np.int32)], {}),
    ("ConcatOffset", [C(1, np.int32), [C([2, 3], np.int32), C([2, 5], np.int32)]], {}),
    ("ParallelConcat", [[f32(1, 3), f32(1, 3)]], {"shape": [2, 3]}),
    ("Pack", [[f32(2, 3), f32(2, 3)]], {"axis": -1}),
    ("Unpack", [f32(2, 3, 4)], {"num": 3, "axis": 1}),
    ("Split", [C(1, np.int32), f32(2, 6)], {"num_split": 3}),
    ("SplitV", [f32(2, 7), C([2, -1, 1], np.int32), C(1, np.int32)], {"num_split": 3}),
    ("Slice", [f32(3, 5), C([1, 0], np.int32), C([-1, 3], np.int32)], {}),
    ("Slice", [f32(3, 5), np.array([1, 2], np.int32), C([2, 3], np.int32)], {}),
    ("StridedSlice", [f32(4, 5, 6), C([1, 0, 4], np.int32), C([3, 0, 0], np.int32), C([1, 2, -2], np.int32)],
     {"end_mask": 6, "begin_mask": 2}),
    ("StridedSlice", [f32(4, 5, 6), C([-1, 0, 2], np.int32), C([0, 0, 3], np.int32), C([1, 1, 1], np.int32)],
     {"shrink_axis_mask": 5, "ellipsis_mask": 2}),
    ("StridedSlice", [f32(4, 5), C([0, 0, 1], np.int32), C([0, 0, 4], np.int32), C([1, 1, 1], np.int32)],
     {"new_axis_mask": 2, "begin_mask": 1, "end_mask": 1}),
    ("TensorStridedSliceUpdate", [f32(4, 5), C([1, 0], np.int32), C([3, 4], np.int32), C([1, 2], np.int32), f32(2,
     2)], {}),
    ("Tile", [f32(2, 3), C([2, 3], np.int32)], {}),
    ("BroadcastTo", [f32(3, 1), C([2, 3, 4], np.int32)], {}),
    ("BroadcastArgs", [C([2, 1, 4], np.int32), C([3, 1], np.int32)], {}),
    ("Fill", [C([2, 3], np.int32), f32()], {}),
    ("Range", [C(2, np.int32), C(11, np.int32), C(3, np.int32)], {}),
    ("LinSpace", [C(np.float32(1)), C(np.float32(3)), C(5, np.int32)], {}),
    ("Pad", [f32(2, 3), C([[1, 2], [0, 1]], np.int32)], {}),
    ("PadV2", [f32(2, 3), C([[1, 2], [0, 1]], np.int32), C(np.float32(7))], {}),
    ("MirrorPad", [f32(4, 3), C([[1, 2], [2, 1]], np.int32)], {"mode": "REFLECT"}),
    ("MirrorPad", [f32(4, 3), C([[1, 2], [3, 0]], np.int32)], {"mode": "SYMMETRIC"}),
    ("ReverseV2", [f32(4, 3, 2), C([0, -1], np.int32)], {}),
    ("Reverse", [f32(4, 3), C([False, True])], {}),
    ("ReverseSequence", [f32(3, 5, 2), C([2, 5, 1], np.int32)], {"seq_dim": 1, "batch_dim": 0}),
    ("ReverseSequence", [f32(3, 5, 2), C([2, 3], np.int32)], {"seq_dim": 0, "batch_dim": 2}),
    ("Roll", [f32(4, 5), C([1, -2], np.int32), C([0, 1], np.int32)], {}),
    ("DepthToSpace", [f32(1, 2, 3, 8)], {"block_size": 2}),
    ("SpaceToDepth", [f32(1, 4, 6, 3)], {"block_size": 2}),
    ("SpaceToBatchND", [f32(1, 4, 5, 2), C([2, 3], np.int32), C([[0, 0], [1, 0]], np.int32)], {}),
    ("BatchToSpaceND", [f32(6, 2, 2, 2), C([2, 3], np.int32), C([[0, 1], [1, 0]], np.int32)], {}),
    ("SpaceToBatch", [f32(1, 4, 6, 2), C([[0, 0], [0, 0]], np.int32)], {"block_size": 2}),
    ("BatchToSpace", [f32(4, 2, 3, 2), C([[0, 0], [1, 0]], np.int32)], {"block_size": 2}),
    ("IdentityN", [[f32(2), ints(3)]], {}),
    ("CheckNumerics", [f32(3)], {"message": ""}),
    # indices
    ("Gather", [f32(5, 3), ints(2, 2, high=5)], {}),
    ("GatherV2", [f32(4, 5, 3), ints(2, 3, high=5), C(1, np.int32)], {}),
    ("GatherV2", [f32(2, 5, 3, 4), ints(2, 6, high=3), C(2, np.int32)], {"batch_dims": 1}),
    ("GatherNd", [f32(4, 5, 3), ints(6, 2, high=4)], {}),
    ("ScatterNd", [np.array([[1], [3], [1]], np.int32), f32(3, 2), C([5, 2], np.int32)], {}),
    *((f"TensorScatter{k}", [f32(5, 2), np.array([[1], [3]], np.int32), f32(2, 2)], {})
      for k in ("Update", "Add", "Sub", "Max", "Min")),
    ("ScatterNdNonAliasingAdd", [f32(5), np.array([[1], [3], [1]], np.int32), f32(3)], {}),
    ("OneHot", [np.array([1, -1, 4, 9], np.int32), C(5, np.int32), C(np.float32(2)), C(np.float32(-1))], {"axis": 0}),
    *((f"Segment{k}", [f32(6, 2), np.array([0, 0, 2, 2, 2, 4], np.int32)],
     {}) for k in ("Sum", "Mean", "Prod", "Max", "Min")),
    *((f"UnsortedSegment{k}", [f32(2, 3, 2), np.array([[0, -1, 2], [2, 0, 4]], np.int32), C(6, np.int32)], {})
      for k in ("Sum", "Prod", "Max", "Min")),
    *((f"SparseSegment{k}", [f32(6, 2), ints(4, high=6), np.array([0, 0, 1, 3], np.int32)], {})
      for k in ("Sum", "Mean", "SqrtN")),
    *((f"SparseSegment{k}WithNumSegments", [f32(6, 2), ints(4, high=6), np.array([0, 0, 1, 3], np.int32), C(6,
     np.int32)], {})
      for k in ("Sum", "Mean", "SqrtN")),
    ("DynamicStitch", [[np.array([0, 3], np.int32), np.array([1, 2], np.int32)], [f32(2, 2), f32(2, 2)]], {}),
    ("DynamicPartition", [f32(5, 2), np.array([0, 1, 2, 1, 0], np.int32)], {"num_partitions": 3}),
    ("SparseToDense", [np.array([[0, 1], [2, 2]], np.int32), C([3, 4], np.int32), f32(2), C(np.float32(5))], {}),
    # matrices
    ("MatrixDiag", [f32(2, 3)], {}),
    ("MatrixDiagV3", [f32(2, 3, 4), C([-1, 1], np.int32), C(5, np.int32), C(4, np.int32), C(np.float32(9))], {}),
    ("MatrixDiagV2", [f32(2, 3), C(1, np.int32), C(3, np.int32), C(5, np.int32), C(np.float32(0))], {}),
    ("MatrixDiagPart", [f32(2, 3, 4)], {}),
    ("MatrixDiagPartV3", [f32(2, 4, 5), C([-2, 1], np.int32), C(np.float32(7))], {}),
    ("MatrixDiagPartV3", [f32(2, 4, 5), C([-2, 1], np.int32), C(np.float32(7))], {"align": "LEFT_RIGHT"}),
    ("MatrixDiagPartV2", [f32(4, 3), C(-1, np.int32), C(np.float32(7))], {}),
    ("MatrixSetDiag", [f32(2, 3, 4), f32(2, 3)], {}),
    ("MatrixSetDiagV3", [f32(2, 3, 4), f32(2, 2, 3), C([0, 1], np.int32)], {}),
    ("MatrixSetDiagV2", [f32(2, 3, 4), f32(2, 3), C(1, np.int32)], {}),
    ("Diag", [f32(2, 3)], {}),
    ("DiagPart", [f32(2, 3, 2, 3)], {}),
    ("MatrixBandPart", [f32(2, 4, 5), C(1, np.int32), C(-1, np.int32)], {}),
    ("MatrixInverse", [spd(2, 4, 4)], {"adjoint": True}),
    ("MatrixSolve", [spd(2, 4, 4), f32(2, 4, 3)], {}),
    ("MatrixTriangularSolve", [spd(2, 4, 4), f32(2, 4, 3)], {"lower": True}),
    ("MatrixDeterminant", [spd(2, 4, 4)], {}),
    ("LogMatrixDeterminant", [spd(2, 4, 4)], {}),
    # images
    *(("ResizeBilinear", [IMAGE, C(s, np.int32)], {"align_corners": bool(a), "half_pixel_centers": bool(h)})
      for s in ([13, 5], [14, 18]) for a, h in ((0, 0), (1, 0), (0, 1))),
    *(("ResizeNearestNeighbor", [IMAGE, C([13, 5], np.int32)],
     {"align_corners": bool(a), "half_pixel_centers": bool(h)})
      for a, h in ((0, 0), (1, 0), (0, 1))),
    *(("ResizeBicubic", [IMAGE, C([13, 5], np.int32)], {"align_corners": bool(a), "half_pixel_centers": bool(h)})
      for a, h in ((0, 0), (1, 0), (0, 1))),
    ("ResizeBilinear", [ints(1, 5, 6, 2, high=255, dtype=np.uint8), C([7, 9], np.int32)], {}),
    ("ResizeArea", [IMAGE, C([3, 4], np.int32)], {}),
    ("ResizeArea", [IMAGE, C([10, 4], np.int32)], {"align_corners": True}),
    *(("ScaleAndTranslate", [IMAGE, C([9, 6], np.int32), C([1.3, 0.6], np.float32), C([0.5, -0.7], np.float32)],
       {"kernel_type": k, "antialias": a}) for a in (True, False)
      for k in ("lanczos3", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")),
    *(("CropAndResize", [IMAGE, np.array([[0, 0, 1, 1], [0.2, -0.3, 0.9, 1.3]], np.float32), np.array([1, 0], np.int32),
       C([4, 5], np.int32)], {"method": m, "extrapolation_value": 3.0}) for m in ("bilinear", "nearest")),
    *(("ImageProjectiveTransformV3", [IMAGE, np.array([[0.9, 0.2, 0.5, -0.1, 1.1, -0.3, 0.01, 0.02]], np.float32),
       C([8, 6], np.int32), C(np.float32(3))], {"interpolation": i, "fill_mode": m})
      for i in ("BILINEAR", "NEAREST") for m in ("CONSTANT", "NEAREST")),
    ("ExtractImagePatches", [IMAGE], {"ksizes": [1, 3, 2, 1], "strides": S2, "rates": [1, 2, 1, 1], "padding": "SAME"}),
    ("ExtractVolumePatches", [f32(1, 4, 5, 6, 2)], {"ksizes": [1, 2, 2, 3, 1], "strides": [1, 1, 2, 2, 1],
     "padding": "VALID"}),
    ("AdjustContrastv2", [IMAGE, C(np.float32(1.7))], {}),
    ("RGBToHSV", [f32(4, 5, 3, low=0, high=1)], {}),
    ("HSVToRGB", [f32(4, 5, 3, low=0, high=1)], {}),
    ("AdjustHue", [f32(4, 5, 3, low=0, high=1), C(np.float32(0.3))], {}),
    ("AdjustSaturation", [f32(4, 5, 3, low=0, high=1), C(np.float32(1.6))], {}),
    ("NonMaxSuppression", [BOXES, SCORES, C(3, np.int32)], {"iou_threshold": 0.4}),
    ("NonMaxSuppressionV2", [BOXES, SCORES, C(4, np.int32), C(np.float32(0.4))], {}),
    ("NonMaxSuppressionV3", [BOXES, SCORES, C(4, np.int32), C(np.float32(0.4)), C(np.float32(0.5))], {}),
    ("NonMaxSuppressionV4", [BOXES, SCORES, C(6, np.int32), C(np.float32(0.4)), C(np.float32(0.5))],
     {"pad_to_max_output_size": True}),
    ("NonMaxSuppressionV5", [BOXES, SCORES, C(6, np.int32), C(np.float32(0.4)), C(np.float32(0.5)), C(np.float32(0))],
     {"pad_to_max_output_size": True}),
    ("NonMaxSuppressionV5", [BOXES, SCORES, C(6, np.int32), C(np.float32(0.4)), C(np.float32(0.1)), C(np.float32(0.3))],
     {}),
    ("NonMaxSuppressionWithOverlaps", [f32(5, 5, low=0, high=1), SCORES, C(4, np.int32), C(np.float32(0.5)),
     C(np.float32(0.4))], {}),
    *(("CombinedNonMaxSuppression", [f32(2, 6, q, 4, low=0, high=1), f32(2, 6, 3, low=0, high=1), C(4, np.int32),
       C(7, np.int32), C(np.float32(0.3)), C(np.float32(0.2))], {"pad_per_class": p, "clip_boxes": not p})
      for q in (1, 3) for p in (False, True)),
    # quanta
    ("FakeQuantWithMinMaxArgs", [f32(3, 4, low=-8, high=8)], {"min": -3.0, "max": 5.0, "num_bits": 6,
     "narrow_range": True}),
    ("FakeQuantWithMinMaxVars", [f32(3, 4), C(np.float32(-1)), C(np.float32(1.3))], {}),
    ("FakeQuantWithMinMaxVarsPerChannel", [f32(3, 4), C(f32(4, low=-2, high=-1)), C(f32(4, low=1, high=2))], {}),
    ("QuantizeAndDequantizeV2", [f32(3, 4), C(np.float32(-1)), C(np.float32(1.5))], {"range_given": True}),
    ("QuantizeAndDequantizeV2", [f32(3, 4), C(np.float32(0)), C(np.float32(0))],
     {"round_mode": "HALF_UP", "narrow_range": True}),
    ("QuantizeAndDequantizeV3", [f32(3, 4), C(f32(4, low=-2, high=-1)), C(f32(4, low=1)), C(6, np.int32)],
     {"axis": 1, "range_given": True}),
    ("QuantizeAndDequantizeV4", [f32(3, 4, low=0), C(np.float32(0)), C(np.float32(3))], {"signed_input": False,
     "range_given": True}),
    ("QuantizeV2", [f32(3, 4), C(np.float32(-1)), C(np.float32(1.5))], {"T": "quint8"}),
    ("QuantizeV2", [f32(3, 4), C(np.float32(-1)), C(np.float32(1.5))], {"T": "qint8", "mode": "SCALED"}),
    ("CTCGreedyDecoder", [f32(7, 3, 5), C([7, 4, 6], np.int32)], {"merge_repeated": True}),
    ("CTCGreedyDecoder", [f32(7, 3, 5), C([7, 4, 6], np.int32)], {}),
    # spectra
    *((op, [c64(2, 3, 4, 5)], {}) for op in ("FFT", "IFFT", "FFT2D", "IFFT2D", "FFT3D", "IFFT3D", "Real", "Imag",
                                            "ComplexAbs", "Angle", "Conj", "Neg", "Square", "Exp", "Shape")),
    *((op, [c64(3, 4), c64(4)], {}) for op in ("AddV2", "Sub", "Mul", "RealDiv")),
    ("RFFT", [f32(2, 9), C([8], np.int32)], {}),
    ("RFFT", [f32(2, 9), C([7], np.int32)], {}),
    ("IRFFT", [c64(2, 7), C([12], np.int32)], {}),
    ("RFFT2D", [f32(2, 6, 9), C([5, 8], np.int32)], {}),
    ("IRFFT2D", [c64(2, 6, 5), C([6, 8], np.int32)], {}),
    ("RFFT3D", [f32(4, 6, 8), C([4, 6, 8], np.int32)], {}),
    ("IRFFT3D", [c64(4, 6, 5), C([4, 6, 8], np.int32)], {}),
    ("Complex", [f32(2, 3), f32(3)], {}),
    ("Cast", [c64(2, 3)], {"DstT": np.float32}),
    ("Cast", [f32(2, 3)], {"DstT": np.complex64}),
    ("Reshape", [c64(2, 3, 4), C([3, -1], np.int32)], {}),
    ("ExpandDims", [c64(2, 3), C(-1, np.int32)], {}),
    ("Squeeze", [c64(2, 1, 3)], {"squeeze_dims": [-2]}),
    ("Transpose", [c64(2, 3, 4), C([2, 0, 1], np.int32)], {}),
    ("ConjugateTranspose", [c64(2, 3, 4), C([2, 0, 1], np.int32)], {}),
    ("ConcatV2", [[c64(2, 3), c64(2, 1)], C(-1, np.int32)], {}),
    ("Pack", [[c64(2, 3), c64(2, 3)]], {"axis": -1}),
    ("Unpack", [c64(2, 3)], {"num": 3, "axis": -1}),
    ("Split", [C(1, np.int32), c64(2, 6)], {"num_split": 3}),
    ("GatherV2", [c64(4, 5), ints(3, high=5), C(-1, np.int32)], {}),
    ("Pad", [c64(2, 3), C([[1, 0], [0, 2]], np.int32)], {}),
    ("Slice", [c64(3, 5), C([1, 0], np.int32), C([-1, 3], np.int32)], {}),
    ("StridedSlice", [c64(4, 5, 6), C([0, 2], np.int32), C([0, 5], np.int32), C([1, 2], np.int32)],
     {"ellipsis_mask": 1}),
    ("Sum", [c64(2, 3, 4), C([0, -1], np.int32)], {}),
    ("MatMul", [c64(3, 4), c64(4, 5)], {}),
    ("Equal", [np.array([1 + 1j, 2, 3j], np.complex64), np.array([1 + 1j, 2 + 1j, 3j], np.complex64)], {}),
    ("AudioSpectrogram", [f32(500, 2)], {"window_size": 100, "stride": 40}),
    ("AudioSpectrogram", [f32(500, 1)], {"window_size": 128, "stride": 50, "magnitude_squared": True}),
    ("Mfcc", [f32(1, 6, 129, low=0, high=9), C(16000, np.int32)], {}),
    # cells
    ("LSTMBlockCell", [f32(2, 3), f32(2, 4), f32(2, 4), C(f32(7, 16)), *(C(f32(4)) for _ in range(3)), C(f32(16))],
     {"use_peephole": True}),
    ("BlockLSTM", [C(5, np.int64), f32(6, 2, 3), f32(2, 4), f32(2, 4), C(f32(7, 16)), *(C(f32(4)) for _ in range(3)),
                   C(f32(16))], {}, (1, 6)),
    ("BlockLSTMV2", [C(6, np.int64), f32(6, 2, 3), f32(2, 4), f32(2, 4), C(f32(7, 16)), *(C(f32(4)) for _ in range(3)),
                     C(f32(16))], {}),
    ("GRUBlockCell", [f32(2, 3), f32(2, 4), C(f32(7, 8)), C(f32(7, 4)), C(f32(8)), C(f32(4))], {}),
]  # fmt: skip

# What can be converted only where dimensions are known.
STATIC = {"Dilation2D", "MaxPoolWithArgmax", "ResizeArea", "ScaleAndTranslate", "ExtractImagePatches", "BlockLSTM",
          "ExtractVolumePatches", "CombinedNonMaxSuppression", "MatrixDiag", "MatrixDiagV2", "MatrixDiagV3", "Diag",
          "MatrixDiagPart", "MatrixDiagPartV2", "MatrixDiagPartV3", "MatrixSetDiag", "MatrixSetDiagV2", "DiagPart",
          "MatrixSetDiagV3", "Mfcc", "BlockLSTMV2", "CTCGreedyDecoder"}  # fmt: skip

# What TensorFlow itself makes only of known dimensions, and a convolution whose groups follow from them.
CLOSED = {"ParallelConcat_1", "MatrixSetDiagV3_1", "MatrixDiagV2_1", "MatrixDiagV3_1", "Conv2D_4"}


def _names():
    seen: dict[str, int] = {}
    for op, *_ in CASES:
        seen[op] = seen.get(op, 0) + 1
        yield f"{op}_{seen[op]}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", CASES, ids=list(_names()))
def test_operator(case, tmp_path):
    op, operands, attrs, *used = case
    check(op, operands, attrs, tmp_path, used=used[0] if used else None)


OPEN = [(case, name) for case, name in zip(CASES, _names(), strict=True) if name not in CLOSED]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("case", [case for case, _ in OPEN], ids=[name for _, name in OPEN])
def test_operator_of_open_extents(case, tmp_path):
    op, operands, attrs, *used = case
    # Without dimensions, the weights of a cubic interpolation are computed, not looked up in TensorFlow's table.
    tolerance = 2e-3 if op == "ResizeBicubic" else 1e-4
    try:
        check(op, operands, attrs, tmp_path, used=used[0] if used else None, rank_only=True, tolerance=tolerance)
    except UnsupportedError:
        if op not in STATIC:
            raise


def test_attributes_are_tensorflows():
    """Names and defaults of attributes, and names of results, as TensorFlow's own registry has them."""
    pytest.importorskip("tensorflow")
    from tensorflow.python.framework import op_def_registry

    from minnow.converter.tensorflow.message import AttrValue
    from minnow.converter.tensorflow.tensor import attribute_of

    checked = 0
    for name in frontend.mappings:
        definition = op_def_registry.get(name)
        if definition is None:
            continue
        checked += 1
        results = [a.name for a in definition.output_arg]
        declared = frontend.results.get(name, ())
        lists = any(a.number_attr or a.type_list_attr for a in definition.output_arg)
        if len(results) > 1 and not lists:
            assert declared[: len(results)] == tuple(results), name
        for mapping in (frontend.find(name, 1), frontend.pairs.get(name)):
            if mapping is None:
                continue
            for attr in definition.attr:
                if attr.name not in mapping.attrs or not attr.HasField("default_value"):
                    continue
                default = mapping.attrs[attr.name]
                theirs = attribute_of(AttrValue.FromString(attr.default_value.SerializeToString()), {}, name)
                if default is None or theirs is None or attr.name in ("use_locking", "validate_shape"):
                    continue  # of no meaning to one who runs a graph alone
                if isinstance(theirs, float):
                    assert default == pytest.approx(theirs), (name, attr.name)
                else:
                    assert default == theirs, (name, attr.name)
    assert checked > 300


def test_the_cases_are_not_few():
    assert len({op for op, *_ in CASES}) > 230
