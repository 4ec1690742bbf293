"""Operators on floats and indices against LiteRT's own kernels, file to engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tflite_one import Tensor, by_litert, by_us, constant, file_of

F, I32, L, B = np.float32, np.int32, np.int64, np.bool_
SAME, VALID = 0, 1
NONE, RELU, RELU1, RELU6, TANH = range(5)

_VERSIONS = {"BROADCAST_TO": 3, "SLICE": 3}
"""Where LiteRT has no kernel for the first one."""

Row = tuple[str, str, list[Any], list[Tensor], str, Any]


def f(*shape: int, low: float = -3, high: float = 3) -> Tensor:
    """An input of floats in a range."""
    t = Tensor(shape)
    t.range = (low, high)  # type: ignore[attr-defined]
    return t


def ints(*values: Any, dtype: Any = I32) -> Tensor:
    """A constant vector."""
    return constant(np.array(values, dtype))


def of(dtype: Any, *shape: int, low: int = 0, high: int = 5) -> Tensor:
    t = Tensor(shape, dtype)
    t.range = (low, high)  # type: ignore[attr-defined]
    return t


def state(*shape: int) -> Tensor:
    return Tensor(shape, variable=True)


def weight(rng: Any, *shape: int) -> Tensor:
    return constant(rng.uniform(-1, 1, shape).astype(F))


def out(rank: int, dtype: Any = F) -> Tensor:
    return Tensor((1,) * rank, dtype)


def unary() -> Iterator[Row]:
    plain = "ABS CEIL COS EXP FLOOR LOGISTIC NEG ROUND SIN SQUARE TANH ELU RELU RELU6 RELU_N1_TO_1 RELU_0_TO_1"
    for op in (*plain.split(), "HARD_SWISH", "SIGN"):
        yield "", op, [f(2, 3, 5)], [out(3)], "", {}
    for op in ("LOG", "SQRT", "RSQRT"):
        yield "", op, [f(2, 7, low=0.1)], [out(2)], "", {}
    yield "", "LEAKY_RELU", [f(3, 7)], [out(2)], "LeakyReluOptions", {"alpha": 0.3}
    yield "tanh", "GELU", [f(3, 7)], [out(2)], "GeluOptions", {"approximate": True}
    yield "erf", "GELU", [f(3, 7)], [out(2)], "GeluOptions", {"approximate": False}
    yield "", "PRELU", [f(1, 3, 4, 5), constant(np.linspace(-1, 1, 5, dtype=F).reshape(1, 1, 5))], [out(4)], "", {}
    yield "beta", "SOFTMAX", [f(2, 3, 7)], [out(3)], "SoftmaxOptions", {"beta": 0.5}
    yield "", "LOG_SOFTMAX", [f(4, 7)], [out(2)], "LogSoftmaxOptions", {}
    yield "", "L2_NORMALIZATION", [f(2, 3, 7)], [out(3)], "L2NormOptions", {}
    lrn = {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.7}
    yield "", "LOCAL_RESPONSE_NORMALIZATION", [f(1, 3, 4, 9)], [out(4)], "LocalResponseNormalizationOptions", lrn
    quant = {"min": -1.0, "max": 2.5, "num_bits": 8}
    yield "", "FAKE_QUANT", [f(3, 9)], [out(2)], "FakeQuantOptions", quant
    yield "", "LOGICAL_NOT", [of(B, 7)], [out(1, B)], "", {}
    yield "", "BITCAST", [f(5)], [out(1, I32)], "BitcastOptions", {}


def binary() -> Iterator[Row]:
    for op, kind in (("ADD", "AddOptions"), ("SUB", "SubOptions"), ("MUL", "MulOptions"), ("DIV", "DivOptions")):
        for act in (NONE, RELU, RELU1, RELU6):
            operands = [f(2, 1, 5), f(3, 1, low=0.5)]
            yield f"act{act}", op, operands, [out(3)], kind, {"fused_activation_function": act}
        yield "int", op, [of(I32, 2, 3, low=-9, high=9), of(I32, 3, low=1, high=5)], [out(2, I32)], kind, {}
    for op in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD"):
        yield "", op, [f(2, 3, 5), f(5, low=0.5)], [out(3)], "", {}
    yield "", "ATAN2", [f(2, 9), f(2, 9)], [out(2)], "", {}
    yield "", "POW", [f(2, 3, low=0.1), f(2, 3)], [out(2)], "PowOptions", {}
    yield "negative", "FLOOR_MOD", [of(I32, 9, low=-20, high=20), ints(*[-3] * 9)], [out(1, I32)], "", {}
    yield "negative", "FLOOR_DIV", [of(I32, 9, low=-20, high=20), ints(*[-3] * 9)], [out(1, I32)], "", {}
    for op in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL"):
        yield "", op, [of(I32, 2, 5), of(I32, 5)], [out(2, B)], "", {}
    for op in ("LOGICAL_AND", "LOGICAL_OR"):
        yield "", op, [of(B, 9, high=2), of(B, 9, high=2)], [out(1, B)], "", {}
    yield "", "ADD_N", [f(2, 3), f(2, 3), f(2, 3)], [out(2)], "AddNOptions", {}
    xor = [of(I32, 9, low=-99, high=99), of(I32, 9, low=-99, high=99)]
    yield "", "BITWISE_XOR", xor, [out(1, I32)], "BitwiseXorOptions", {}
    for dtype in (np.int8, np.int32, np.uint8):
        low = 0 if dtype is np.uint8 else -100
        shift = [of(dtype, 9, low=low, high=100), of(dtype, 9, low=0, high=7)]
        yield dtype.__name__, "RIGHT_SHIFT", shift, [out(1, dtype)], "RightShiftOptions", {}


def windows(rng: Any) -> Iterator[Row]:
    for padding in (SAME, VALID):
        for stride, dilation, act in ((1, 1, NONE), (2, 1, RELU6), (3, 1, RELU), (1, 2, TANH)):
            o = {"padding": padding, "stride_w": stride, "stride_h": stride, "fused_activation_function": act}
            d = {"dilation_h_factor": dilation, "dilation_w_factor": dilation}
            name = f"{padding}{stride}{dilation}{act}"
            conv = [f(2, 9, 8, 3), weight(rng, 5, 3, 2, 3), weight(rng, 5)]
            if act != TANH:
                yield name, "CONV_2D", conv, [out(4)], "Conv2DOptions", {**o, **d}
                depth = [f(1, 9, 8, 3), weight(rng, 1, 3, 3, 6), weight(rng, 6)]
                o2 = {**o, **d, "depth_multiplier": 2}
                yield name, "DEPTHWISE_CONV_2D", depth, [out(4)], "DepthwiseConv2DOptions", o2
            if dilation == 1:
                w = {"filter_width": 3, "filter_height": 2}
                for op in ("MAX_POOL_2D", "AVERAGE_POOL_2D", "L2_POOL_2D"):
                    yield name, op, [f(2, 9, 8, 3)], [out(4)], "Pool2DOptions", {**o, **w}
    grouped = [f(1, 7, 6, 4), weight(rng, 6, 3, 3, 2), weight(rng, 6)]
    one = {"padding": SAME, "stride_w": 1, "stride_h": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}
    yield "grouped", "CONV_2D", grouped, [out(4)], "Conv2DOptions", one
    for padding, size in ((SAME, (9, 8)), (SAME, (10, 7)), (VALID, (11, 9)), (VALID, (12, 10))):
        shape = ints(1, *size, 5)
        stride = {"padding": padding, "stride_w": 2, "stride_h": 2}
        rows = [-(-size[0] // 2), -(-size[1] // 2)] if padding == SAME else [5, 4]
        operands = [shape, weight(rng, 5, 3, 3, 4), f(1, *rows, 4), weight(rng, 5)]
        yield f"{padding}{size}", "TRANSPOSE_CONV", operands, [Tensor((1, *size, 5))], "TransposeConvOptions", stride
    cube = {"padding": SAME, "stride_d": 2, "stride_w": 1, "stride_h": 2}
    cube |= {"dilation_d_factor": 1, "dilation_w_factor": 1, "dilation_h_factor": 1}
    yield "", "CONV_3D", [f(1, 5, 6, 7, 2), weight(rng, 3, 2, 3, 2, 4), weight(rng, 4)], [out(5)], "Conv3DOptions", cube
    back = [ints(1, 5, 6, 7, 4), weight(rng, 3, 2, 3, 4, 2), f(1, 3, 3, 7, 2)]
    yield "", "CONV_3D_TRANSPOSE", back, [Tensor((1, 5, 6, 7, 4))], "Conv3DOptions", cube
    for keep in (False, True):
        o = {"keep_num_dims": keep, "fused_activation_function": RELU}
        operands = [f(2, 3, 7), weight(rng, 5, 7), weight(rng, 5)]
        yield f"keep{keep}", "FULLY_CONNECTED", operands, [out(3 if keep else 2)], "FullyConnectedOptions", o
    yield "no bias", "FULLY_CONNECTED", [f(2, 7), weight(rng, 5, 7), None], [out(2)], "FullyConnectedOptions", {}
    for ax, ay in ((False, False), (True, False), (False, True), (True, True)):
        x = f(2, 1, 5, 3) if ax else f(2, 1, 3, 5)
        y = f(3, 4, 5) if ay else f(3, 5, 4)
        o = {"adj_x": ax, "adj_y": ay}
        yield f"{ax}{ay}", "BATCH_MATMUL", [x, y], [out(4)], "BatchMatMulOptions", o
    for corners, half in ((False, False), (True, False), (False, True)):
        o = {"align_corners": corners, "half_pixel_centers": half}
        for size in ((9, 7), (3, 2), (10, 10), (1, 1), (4, 10)):
            for op, kind in (("RESIZE_BILINEAR", "ResizeBilinearOptions"),
                             ("RESIZE_NEAREST_NEIGHBOR", "ResizeNearestNeighborOptions")):  # fmt: skip
                yield f"{corners}{half}{size}", op, [f(1, 4, 5, 3), ints(*size)], [out(4)], kind, o


def movement() -> Iterator[Row]:
    yield "", "RESHAPE", [f(2, 3, 4), ints(4, -1)], [out(2)], "", {}
    yield "option", "RESHAPE", [f(2, 3, 4)], [out(2)], "ReshapeOptions", {"new_shape": [6, 4]}
    yield "", "TRANSPOSE", [f(2, 3, 4), ints(2, 0, 1)], [out(3)], "TransposeOptions", {}
    yield "", "SQUEEZE", [f(1, 3, 1)], [out(2)], "SqueezeOptions", {"squeeze_dims": [-1]}
    yield "all", "SQUEEZE", [f(1, 3, 1)], [out(1)], "SqueezeOptions", {"squeeze_dims": []}
    yield "", "EXPAND_DIMS", [f(2, 3), ints(-1)], [out(3)], "ExpandDimsOptions", {}
    yield "", "CONCATENATION", [f(2, 3), f(2, 4)], [out(2)], "ConcatenationOptions", {"axis": -1}
    yield "", "PACK", [f(2, 3), f(2, 3)], [out(3)], "PackOptions", {"values_count": 2, "axis": -1}
    yield "", "UNPACK", [f(2, 3)], [out(1)] * 3, "UnpackOptions", {"num": 3, "axis": 1}
    yield "", "SPLIT", [ints(1), f(2, 6)], [out(2)] * 3, "SplitOptions", {"num_splits": 3}
    yield "", "SPLIT_V", [f(2, 6), ints(1, -1, 2), ints(1)], [out(2)] * 3, "SplitVOptions", {"num_splits": 3}
    yield "", "SLICE", [f(4, 5), ints(1, 2), ints(2, -1)], [Tensor((2, 3))], "SliceOptions", {}
    yield "computed", "SLICE", [f(4, 5), of(I32, 2, high=3), ints(1, 2)], [Tensor((1, 2))], "SliceOptions", {}
    for name, begin, end, step, masks in (
        ("", (1, 0), (4, 5), (2, 1), {}),
        ("negative", (-1, -1), (-4, -7), (-1, -2), {}),
        ("masks", (1, 3), (2, 1), (1, -1), {"begin_mask": 2, "end_mask": 3}),
        ("shrink", (-1, 1), (0, 3), (1, 1), {"shrink_axis_mask": 1}),
        ("new", (0, 0, 1), (0, 9, 4), (1, 1, 1), {"new_axis_mask": 1}),
        ("ellipsis", (0, 1), (0, 3), (1, 1), {"ellipsis_mask": 1}),
        ("empty", (3, 0), (2, 5), (1, 1), {}),
    ):
        operands = [f(5, 6), ints(*begin), ints(*end), ints(*step)]
        rank = 2 + ("new" in name) - ("shrink" in name)
        yield name, "STRIDED_SLICE", operands, [out(rank)], "StridedSliceOptions", masks
    pads = constant(np.array([[1, 2], [0, 3]], I32))
    yield "", "PAD", [f(2, 5), pads], [out(2)], "PadOptions", {}
    yield "", "PADV2", [f(2, 5), pads, constant(np.array(7, F))], [out(2)], "PadV2Options", {}
    mirror = constant(np.array([[1, 1], [0, 3]], I32))
    for mode in (0, 1):
        yield f"mode{mode}", "MIRROR_PAD", [f(3, 5), mirror], [out(2)], "MirrorPadOptions", {"mode": mode}
    yield "", "TILE", [f(2, 3), ints(3, 2)], [out(2)], "TileOptions", {}
    yield "", "BROADCAST_TO", [f(2, 1), ints(4, 2, 3)], [out(3)], "BroadcastToOptions", {}
    yield "", "BROADCAST_ARGS", [ints(2, 1), ints(4, 1, 3)], [out(1, I32)], "", {}
    yield "", "SPACE_TO_DEPTH", [f(1, 4, 6, 3)], [out(4)], "SpaceToDepthOptions", {"block_size": 2}
    yield "", "DEPTH_TO_SPACE", [f(1, 2, 3, 12)], [out(4)], "DepthToSpaceOptions", {"block_size": 2}
    blocks, ends = ints(2, 3), constant(np.array([[0, 1], [2, 1]], I32))
    yield "", "SPACE_TO_BATCH_ND", [f(2, 5, 6, 3), blocks, ends], [out(4)], "SpaceToBatchNDOptions", {}
    yield "", "BATCH_TO_SPACE_ND", [f(12, 3, 3, 2), blocks, ends], [out(4)], "BatchToSpaceNDOptions", {}
    yield "", "REVERSE_V2", [f(2, 3, 4), ints(2)], [out(3)], "ReverseV2Options", {}
    reverse = {"seq_dim": 1, "batch_dim": 0}
    yield "", "REVERSE_SEQUENCE", [f(2, 5, 3), ints(3, 5)], [out(3)], "ReverseSequenceOptions", reverse
    dilate = [f(3, 4), ints(2, 3), constant(np.array(9, F))]
    yield "", "DILATE", dilate, [out(2)], "DilateOptions", {}
    yield "", "SHAPE", [f(2, 3)], [out(1, I32)], "ShapeOptions", {"out_type": 2}
    yield "", "RANK", [f(2, 3)], [out(0, I32)], "RankOptions", {}
    yield "", "ZEROS_LIKE", [f(2, 3)], [out(2)], "ZerosLikeOptions", {}
    yield "", "FILL", [ints(2, 3), f()], [out(2)], "FillOptions", {}
    yield (
        "",
        "RANGE",
        [ints(1).__class__((), I32, data=np.array(v, I32)) for v in (3, 20, 4)],
        [out(1, I32)],
        "RangeOptions",
        {},
    )


def indices() -> Iterator[Row]:
    at = of(I32, 2, 3, high=3)
    yield "", "GATHER", [f(3, 4), at], [out(3)], "GatherOptions", {"axis": 0}
    yield "last", "GATHER", [f(4, 3), at], [out(3)], "GatherOptions", {"axis": -1}
    batch = {"axis": 1, "batch_dims": 1}
    yield "batch", "GATHER", [f(2, 3, 4), at], [out(3)], "GatherOptions", batch
    between = {"axis": 2, "batch_dims": 1}
    yield "between", "GATHER", [f(2, 5, 3, 4), at], [out(4)], "GatherOptions", between
    yield "", "GATHER_ND", [f(3, 4, 5), of(I32, 2, 2, high=3)], [out(2)], "GatherNdOptions", {}
    scatter = [constant(np.array([[0], [3], [0]], I32)), f(3, 4), ints(5, 4)]
    yield "twice", "SCATTER_ND", scatter, [out(2)], "ScatterNdOptions", {}
    for starts in ((1, 2), (9, -4)):
        update = [f(5, 6), f(2, 3), ints(*starts)]
        yield str(starts), "DYNAMIC_UPDATE_SLICE", update, [out(2)], "DynamicUpdateSliceOptions", {}
    yield "rows", "DYNAMIC_UPDATE_SLICE", [f(5, 6), f(1, 6), ints(2, 0)], [out(2)], "DynamicUpdateSliceOptions", {}
    yield "", "EMBEDDING_LOOKUP", [of(I32, 3, high=4), weight(np.random.default_rng(0), 4, 5)], [out(2)], "", {}
    hot = [of(I32, 5, low=-1, high=5), Tensor((), I32, data=np.array(4, I32)), Tensor((), data=np.array(2, F)),
           Tensor((), data=np.array(-1, F))]  # fmt: skip
    for axis in (-1, 0):
        yield f"axis{axis}", "ONE_HOT", hot, [out(2)], "OneHotOptions", {"axis": axis}
    yield "", "SELECT", [of(B, 2, high=2), f(2, 3), f(2, 3)], [out(2)], "SelectOptions", {}
    yield "", "SELECT_V2", [of(B, 2, 1, high=2), f(3), f(2, 3)], [out(2)], "SelectV2Options", {}
    yield "", "WHERE", [of(B, 4, 5, high=2)], [out(2, L)], "WhereOptions", {}
    yield "", "UNIQUE", [of(I32, 9, high=4)], [out(1, I32), out(1, I32)], "UniqueOptions", {"idx_out_type": 2}
    edges = {"boundaries": [-1.0, 0.0, 2.0]}
    yield "", "BUCKETIZE", [f(3, 5)], [out(2, I32)], "BucketizeOptions", edges
    yield "", "MATRIX_DIAG", [f(2, 3)], [out(3)], "MatrixDiagOptions", {}
    for shape in ((2, 4, 4), (2, 3, 5), (2, 5, 3)):
        yield str(shape), "MATRIX_SET_DIAG", [f(*shape), f(2, min(shape[1:]))], [out(3)], "MatrixSetDiagOptions", {}
    dense = [constant(np.array([[0, 1], [2, 0]], I32)), ints(3, 2), constant(np.array([5, 6], F)),
             Tensor((), data=np.array(-1, F))]  # fmt: skip
    yield "", "SPARSE_TO_DENSE", dense, [out(2)], "SparseToDenseOptions", {}
    yield "", "SEGMENT_SUM", [f(5, 3), ints(0, 0, 1, 1, 2)], [out(2)], "SegmentSumOptions", {}
    segments = [ints(2, 0, 2, -1, 0), Tensor((), I32, data=np.array(4, I32))]
    for op in ("SUM", "PROD", "MAX", "MIN"):
        yield op, f"UNSORTED_SEGMENT_{op}", [f(5, 3), *segments], [out(2)], "", {}
    for op in ("ARG_MAX", "ARG_MIN"):
        for axis in (0, -1):
            yield f"axis{axis}", op, [f(3, 5), ints(axis)], [out(1, L)], f"A{op[1:3].lower()}{op[4:].title()}Options", {
                "output_type": 4}  # fmt: skip
    yield (
        "",
        "TOPK_V2",
        [of(I32, 3, 9), Tensor((), I32, data=np.array(4, I32))],
        [out(2, I32), out(2, I32)],
        "TopKV2Options",
        {},
    )
    for exclusive, back in ((False, False), (True, False), (False, True), (True, True)):
        o = {"exclusive": exclusive, "reverse": back}
        yield (
            f"{exclusive}{back}",
            "CUMSUM",
            [f(3, 5), Tensor((), I32, data=np.array(1, I32))],
            [out(2)],
            "CumsumOptions",
            o,
        )
    for op in ("MEAN", "SUM", "REDUCE_PROD", "REDUCE_MAX", "REDUCE_MIN"):
        for keep in (False, True):
            for axes in ((1,), (0, -1), (2, 1)):
                rank = 3 if keep else 3 - len(axes)
                yield f"{axes}{keep}", op, [f(2, 3, 5), ints(*axes)], [out(rank)], "ReducerOptions", {"keep_dims": keep}
    for op in ("REDUCE_ANY", "REDUCE_ALL"):
        yield "", op, [of(B, 3, 4, high=2), ints(1)], [out(1, B)], "ReducerOptions", {}
    for op, to in (("CAST", I32), ("CAST", L), ("CAST", B)):
        yield to.__name__, op, [f(9)], [out(1, to)], "CastOptions", {"out_data_type": 0}


def hlo() -> Iterator[Row]:
    for op in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM"):
        yield "", f"STABLEHLO_{op}", [f(2, 3), f(2, 3)], [Tensor((2, 3))], "", {}
    value = Tensor((), data=np.array(9, F))
    pads = {"edge_padding_low": [1, -1], "edge_padding_high": [0, 2], "interior_padding": [1, 0]}
    yield "", "STABLEHLO_PAD", [f(3, 4), value], [Tensor((6, 5))], "StablehloPadOptions", pads
    shift = [of(I32, 9, low=-9, high=9), of(I32, 9, high=8)]
    yield "", "STABLEHLO_SHIFT_LEFT", shift, [Tensor((9,), I32)], "StablehloShiftLeftOptions", {}
    vectors = [constant(np.array(v, L)) for v in ((2, 3), (2, 1), (1, 2))]
    for number, start in ((1, 0.0), (3, 9.0), (4, -9.0)):
        window = [f(5, 6), Tensor((), data=np.array(start, F)), *vectors]
        yield str(number), "REDUCE_WINDOW", window, [out(2)], "ReduceWindowOptions", {"reduce_function": number}


def cases() -> list[Row]:
    rng = np.random.default_rng(7)
    return [*unary(), *binary(), *windows(rng), *movement(), *indices(), *hlo()]


ROWS = cases()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("row", ROWS, ids=[f"{r[1]}-{r[0]}" if r[0] else r[1] for r in ROWS])
def test_equals_litert(row: Row, tmp_path: Path) -> None:
    _, op, operands, results, kind, options = row
    compare(op, operands, results, kind, options, tmp_path)


def compare(op: str, operands: list[Any], results: list[Tensor], kind: str, options: Any, folder: Path, runs: int = 1,
            tolerance: float = 1e-5, reference: bool = False) -> None:  # fmt: skip
    rng = np.random.default_rng(3)
    content = file_of(op, operands, results, options, kind, _VERSIONS.get(op, 1))
    given = []
    for t in operands:
        if t is not None and t.data is None and not t.variable:
            low, high = getattr(t, "range", (-3, 3))
            drawn = (
                rng.uniform(low, high, t.shape) if np.dtype(t.dtype).kind == "f" else rng.integers(low, high, t.shape)
            )
            given.append(np.asarray(drawn).astype(t.dtype))
    want = by_litert(content, given, reference=reference, runs=runs)
    got = by_us(content, given, folder, runs=runs)
    assert len(want) == len(got)
    for w, g in zip(want, got, strict=True):
        assert (w.dtype, w.shape) == (g.dtype, g.shape)
        if w.dtype.kind == "f":
            np.testing.assert_allclose(g, w, rtol=0, atol=tolerance * max(1e-3, np.abs(w).max(initial=0)))
        else:
            np.testing.assert_array_equal(g, w)
