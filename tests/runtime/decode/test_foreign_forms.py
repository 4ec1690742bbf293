"""Forms of the file that other converters write and ours does not: other layouts, masks, older op types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from engine_oracle import normal
from wire_net import Net

import minnow
from minnow.schema.errors import FormatError, ModelError, UnsupportedError

RNG = np.random.default_rng(0)


def run(net: Net, feeds: dict[str, Any], *outputs: str) -> list[np.ndarray]:
    results = minnow.load(net.bytes(*outputs)).run(feeds)
    return [results[o] for o in outputs]


def one(
    type: str, main_type: str, main: dict[str, Any], *arrays: Any, n: int = 1, format: str = "NCHW", **more: Any
) -> Any:
    """The outputs of one op; all operands but the first are constants, None is a missing one."""
    net = Net()
    x = np.asarray(arrays[0])
    net.input("x", x.shape, {"f": "DT_FLOAT", "i": "DT_INT32"}[x.dtype.kind], format)
    names: list[str | None] = ["x"]
    for i, a in enumerate(arrays[1:]):
        names.append(None if a is None else net.const(f"c{i}", a))
    outputs = [f"y{i}" for i in range(n)]
    net.op(type, names, outputs, main_type, main, **more)
    got = run(net, {"x": x}, *outputs)
    return got[0] if n == 1 else got


# ---- layouts


def test_images_with_channels_last():
    """As TensorFlow has them: converted before and after what needs channels first."""
    x, w = normal(RNG, 2, 6, 5, 3), normal(RNG, 4, 3, 1, 1)
    net = Net("TENSORFLOW")
    net.input("x", x.shape, format="NHWC")
    net.op("ConvertTensor", ["x"], ["a"], "TensorConvertInfo", {"source": "NHWC", "dest": "NC4HW4"})
    common = {"outputCount": 4, "inputCount": 3, "relu": True}
    net.op(
        "Convolution",
        ["a"],
        ["b"],
        "Convolution2D",
        {"common": common, "weight": w.reshape(-1), "bias": np.zeros(4, np.float32)},
    )
    net.op("ConvertTensor", ["b"], ["c"], "TensorConvertInfo", {"source": "NC4HW4", "dest": "NHWC"})
    net.op("Reduction", ["c", net.const("axes", [1, 2])], ["y"], "ReductionParam", {"operation": "MEAN"})
    want = np.maximum(np.einsum("nhwc,oc->nhwo", x, w[:, :, 0, 0]), 0).mean((1, 2))
    np.testing.assert_allclose(run(net, {"x": x}, "y")[0], want, rtol=1e-4, atol=1e-5)


def test_a_convolution_converts_by_itself():
    x, w = normal(RNG, 1, 6, 5, 3), normal(RNG, 4, 3, 1, 1)
    common = {"outputCount": 4, "inputCount": 3}
    main = {"common": common, "weight": w.reshape(-1), "bias": np.zeros(4, np.float32)}
    y = one("Convolution", "Convolution2D", main, x, format="NHWC")
    np.testing.assert_allclose(y, np.einsum("nhwc,oc->nohw", x, w[:, :, 0, 0]), rtol=1e-4, atol=1e-5)


def test_a_shape_as_seen_with_channels_last():
    net = Net("TENSORFLOW")
    net.input("x", [2, 5, 3, 4], format="NC4HW4")
    net.op("Shape", ["x"], ["s"])
    net.op("Shape", ["x"], ["t"], defaultDimentionFormat="NCHW")
    s, t = run(net, {"x": normal(RNG, 2, 5, 3, 4)}, "s", "t")
    assert (s.tolist(), t.tolist()) == ([2, 3, 4, 5], [2, 5, 3, 4])
    assert s.dtype == np.int32


def test_reshape_with_channels_last():
    x = normal(RNG, 1, 6, 2, 3)
    main = {"dims": [1, 3, 4, -1], "dimType": "NHWC"}
    y = one("Reshape", "Reshape", main, x, format="NC4HW4")
    np.testing.assert_array_equal(y, x.transpose(0, 2, 3, 1).reshape(1, 3, 4, 3).transpose(0, 3, 1, 2))


def test_depth_to_space_with_channels_last():
    x = normal(RNG, 1, 2, 3, 8)
    y = one("DepthToSpace", "DepthSpaceParam", {"blockSize": 2}, x, format="NHWC")
    np.testing.assert_array_equal(y, x.reshape(1, 2, 3, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(1, 4, 6, 2))


@pytest.mark.parametrize("format", ["NHWC", "NCHW"])
def test_space_to_batch_and_back(format):
    x = normal(RNG, 2, 4, 5, 3)
    axes = (1, 2) if format == "NHWC" else (2, 3)
    pads = np.array([[1, 1], [0, 1]]) if format == "NHWC" else np.array([[1, 0], [0, 0]])
    blocks = np.array([2, 3])
    y = one("SpaceToBatchND", "", {}, x, blocks, pads, format=format)
    width = np.zeros((4, 2), int)
    width[list(axes)] = pads
    padded = np.pad(x, width)
    parts = []
    for i in range(2):
        for j in range(3):
            at = [slice(None)] * 4
            at[axes[0]], at[axes[1]] = slice(i, None, 2), slice(j, None, 3)
            parts.append(padded[tuple(at)])
    np.testing.assert_array_equal(y, np.concatenate(parts))
    np.testing.assert_array_equal(one("BatchToSpaceND", "", {}, y, blocks, pads, format=format), x)


# ---- masks, axes, parts

MASKS = [
    ({}, [1, 0, 2], [2, 3, 4], [1, 1, 1], np.s_[1:2, 0:3, 2:4]),
    ({"beginMask": 5, "endMask": 2}, [1, 1, 1], [1, 1, 3], [1, 1, 1], np.s_[:1, 1:, :3]),
    ({}, [-1, -4, 4], [-9, -1, 0], [-1, 2, -2], np.s_[-1:-9:-1, -4:-1:2, 4:0:-2]),
    ({"beginMask": 1, "endMask": 1}, [0, 0], [0, 9], [-1, 1], np.s_[::-1, 0:9]),
    ({"shrinkAxisMask": 1}, [1], [2], [1], np.s_[1]),
    ({"shrinkAxisMask": 6}, [0, -1, 2], [9, 0, 9], [1, 1, 1], np.s_[0:9, -1, 2]),
    ({"newAxisMask": 1}, [0, 1], [0, 2], [1, 1], np.s_[None, 1:2]),
    ({"newAxisMask": 4, "shrinkAxisMask": 1}, [1, 0, 0, 1], [2, 2, 0, 3], [1, 1, 1, 1], np.s_[1, 0:2, None, 1:3]),
    ({"ellipsisMask": 1}, [0, 1], [0, 3], [1, 1], np.s_[..., 1:3]),
    ({"ellipsisMask": 2, "shrinkAxisMask": 4}, [1, 0, -2], [3, 0, 0], [1, 1, 1], np.s_[1:3, ..., -2]),
    ({"ellipsisMask": 2, "newAxisMask": 4}, [0, 0, 0, 1], [1, 0, 0, 2], [1, 1, 1, 1], np.s_[0:1, ..., None, 1:2]),
    ({}, [3, 2, 0], [1, 2, 0], [1, 1, 1], np.s_[3:1, 2:2, 0:0]),
]


@pytest.mark.parametrize(("masks", "begin", "end", "stride", "at"), MASKS)
def test_strided_slice(masks, begin, end, stride, at):
    x = normal(RNG, 3, 4, 5)
    y = one("StridedSlice", "StridedSliceParam", {"fromType": 0, **masks}, x, begin, end, stride)
    np.testing.assert_array_equal(y, x[at])


@pytest.mark.parametrize(
    ("source", "points", "n", "cuts"),
    [
        ("CAFFE", [2, 3], 3, [2, 3]),
        ("CAFFE", None, 4, [2, 4, 6]),
        ("TORCH", [1, 5, 2], 3, [1, 6]),
        ("TORCH", [3], 3, [3, 6]),
        ("TORCH", None, 2, [4]),
        ("TENSORFLOW", [4], 4, [2, 4, 6]),
        ("TENSORFLOW", [3, -1, 2], 3, [3, 6]),
    ],
)
def test_split(source, points, n, cuts):
    x = normal(RNG, 3, 8, 2)
    main: dict[str, Any] = {"axis": 1, "sourceType": source} | ({"slicePoints": points} if points else {})
    got = one("Slice", "Slice", main, x, n=n)
    for g, w in zip(got, np.split(x, cuts, 1), strict=True):
        np.testing.assert_array_equal(g, w)


def test_slice_by_begin_and_size():
    x = normal(RNG, 3, 4, 5)
    np.testing.assert_array_equal(one("SliceTf", "", {}, x, [1, 0, 2], [-1, 3, 2]), x[1:, :3, 2:4])


def test_pack_and_unpack():
    x = normal(RNG, 3, 4)
    parts = one("Unpack", "Axis", {"axis": -1}, x, n=4)
    for i, part in enumerate(parts):
        np.testing.assert_array_equal(part, x[:, i])
    np.testing.assert_array_equal(one("Pack", "PackParam", {"axis": -1}, x, x * 2), np.stack([x, x * 2], -1))


def test_flatten_some_axes():
    x = normal(RNG, 2, 3, 4, 5)
    assert one("Flatten", "Flatten", {"axis": 1, "endAxis": -2}, x).shape == (2, 12, 5)
    assert one("Flatten", "Flatten", {"axis": 2}, x).shape == (6, 20)


def test_permute_without_an_order_reverses():
    x = normal(RNG, 2, 3, 4)
    np.testing.assert_array_equal(one("Permute", "Permute", {}, x), x.T)


def test_rank_size_zeros_and_shapes():
    x = normal(RNG, 2, 3, 4)
    assert one("Rank", "", {}, x).tolist() == 3
    assert one("Size", "", {}, x).tolist() == 24
    np.testing.assert_array_equal(one("ZerosLike", "", {}, x), np.zeros_like(x))
    assert one("Shape", "ShapeParam", {"hasStart": True, "start": -2}, x).tolist() == [3, 4]


def test_zero_in_a_shape():
    """It copies, but where TensorFlow wrote it, it is a zero."""
    x = np.zeros((0, 5), np.float32)
    for format in ("NCHW", "NHWC"):
        net = Net()
        net.input("x", x.shape)
        net.const("s", [7, 0], format)
        net.op("Reshape", ["x", "s"], ["y"], "Reshape", {})
        if format == "NCHW":
            with pytest.raises(ModelError, match=r"\[0,5\] cannot be reshaped to \[7,5\]"):
                run(net, {"x": x}, "y")
        else:
            assert run(net, {"x": x}, "y")[0].shape == (7, 0)


# ---- math


def test_booleans_are_integers_in_the_file():
    """A product of comparisons is And; a sum of them counts; a condition may be any integer."""
    x = normal(RNG, 3, 5)
    net = Net()
    net.input("x", x.shape)
    zero, half = net.const("zero", np.float32(0)), net.const("half", np.float32(0.5))

    def binary(code: str, a: str, b: str, out: str, **more: Any) -> str:
        return net.op("BinaryOp", [a, b], [out], "BinaryOp", {"opType": code, **more})[0]

    positive, small = binary("GREATER", "x", zero, "p"), binary("LESS", "x", half, "q")
    both = binary("MUL", positive, small, "b")
    count = binary("ADD", positive, small, "n")
    either = binary("LOGICALOR", count, net.const("o", np.int32(0)), "e")
    net.op("Select", [count, "x", zero], ["s"])
    net.op("Reduction", [both], ["r"], "ReductionParam", {"operation": "SUM"})
    p, q = x > 0, x < 0.5
    got = run(net, {"x": x}, both, count, either, "s", "r")
    for g, w in zip(got, (p & q, p.astype(int) + q, p | q, np.where(p | q, x, 0), (p & q).sum()), strict=True):
        np.testing.assert_array_equal(g, w)


def test_shapes_meet_constants_of_32_bits():
    x = normal(RNG, 4, 6)
    net = Net()
    net.input("x", x.shape)
    net.op("Shape", ["x"], ["s"], defaultDimentionFormat="NCHW")
    net.op("GatherV2", ["s", net.const("i", np.array([0]))], ["n"])
    net.op("BinaryOp", ["n", net.const("two", np.array([2]))], ["m"], "BinaryOp", {"opType": "FLOORDIV"})
    net.op("Concat", ["m", net.const("rest", np.array([-1]))], ["t"], "Axis", {"axis": 0})
    net.op("Reshape", ["x", "t"], ["y"], "Reshape", {})
    net.op("ArgMax", ["x"], ["a"], "ArgMax", {"axis": 1})
    net.op("BinaryOp", ["a", net.const("one", np.array([1]))], ["b"], "BinaryOp", {"opType": "ADD"})
    y, b = run(net, {"x": x}, "y", "b")
    assert y.shape == (2, 12)
    np.testing.assert_array_equal(b, (x.argmax(1) + 1).astype(np.int32))
    assert b.dtype == np.int32


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_remainders(dtype):
    """The two codes change places with the type."""
    a, b = np.array([7, -7, 6, -6, 5]).astype(dtype), np.array([2, 2, -4, -4, 5]).astype(dtype)
    sign_of_divisor = {np.float32: "FLOORMOD", np.int32: "MOD"}[dtype]
    for code in ("FLOORMOD", "MOD"):
        want = np.mod(a, b) if code == sign_of_divisor else np.fmod(a, b)
        np.testing.assert_array_equal(one("BinaryOp", "BinaryOp", {"opType": code}, a, b), want)


def test_operations_in_one():
    a, b = normal(RNG, 3, 4), normal(RNG, 3, 4)
    silu = b / (1 + np.exp(-b))
    np.testing.assert_allclose(
        one("BinaryOp", "BinaryOp", {"opType": "MUL_SILU"}, a, b), a * silu, rtol=1e-5, atol=1e-6
    )
    got = one("BinaryOp", "BinaryOp", {"opType": "SUB", "activationType": 1}, a, b)
    np.testing.assert_allclose(got, np.maximum(a - b, 0), rtol=1e-6)
    got = one("Eltwise", "Eltwise", {"type": "SUM", "coeff": [1.0, -2.0, 0.5]}, a, b, a)
    np.testing.assert_allclose(got, 1.5 * a - 2 * b, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(
        one("Eltwise", "Eltwise", {"type": "MAXIMUM"}, a, b, -a), np.maximum(np.maximum(a, b), -a)
    )
    np.testing.assert_allclose(
        one("ReLU", "Relu", {"slope": 0.1}, a), np.where(a < 0, a * np.float32(0.1), a), rtol=1e-6
    )
    np.testing.assert_array_equal(one("ReLU6", "", {}, 9 * a), np.clip(9 * a, 0, 6))
    np.testing.assert_array_equal(one("AbsVal", "", {}, a), np.abs(a))


def test_slopes_by_channel():
    x, slope = normal(RNG, 2, 3, 4, 5), normal(RNG, 3)
    got = one("PReLU", "PRelu", {"slopeCount": 3, "slope": slope}, x)
    np.testing.assert_allclose(got, np.where(x < 0, x * slope[:, None, None], x), rtol=1e-6)
    got = one("PReLU", "PRelu", {"slopeCount": 1, "slope": slope[:1]}, x)
    np.testing.assert_allclose(got, np.where(x < 0, x * slope[0], x), rtol=1e-6)


@pytest.mark.parametrize("rms", [False, True])
@pytest.mark.parametrize("axes", [[-1], [-2, -1], [2]])
def test_layer_norm(rms, axes):
    x = normal(RNG, 2, 3, 5)
    tail = x.shape[-len(axes) :]
    gamma, beta = normal(RNG, int(np.prod(tail))), normal(RNG, int(np.prod(tail)))
    main = {"axis": axes, "epsilon": 1e-3, "gamma": gamma, "beta": beta, "useRMSNorm": rms}
    over = tuple(range(3 - len(axes), 3))
    v = x.astype(np.float64)
    v = v if rms else v - v.mean(over, keepdims=True)
    want = v / np.sqrt((v**2).mean(over, keepdims=True) + 1e-3) * gamma.reshape(tail) + beta.reshape(tail)
    np.testing.assert_allclose(one("LayerNorm", "LayerNorm", main, x), want, rtol=1e-4, atol=1e-5)


def test_batch_norm_inner_product_and_group_norm():
    x = normal(RNG, 2, 4, 3, 3)
    a, b, m, v = normal(RNG, 4), normal(RNG, 4), normal(RNG, 4), np.abs(normal(RNG, 4)) + 0.5
    table = {"channels": 4, "slopeData": a, "biasData": b, "meanData": m, "varData": v, "epsilon": 1e-3}
    c = (slice(None), None, None)
    want = (x - m[c]) / np.sqrt(v[c] + 1e-3) * a[c] + b[c]
    np.testing.assert_allclose(one("BatchNorm", "BatchNorm", table, x), want, rtol=1e-4, atol=1e-5)
    w, bias = normal(RNG, 5, 36), normal(RNG, 5)
    table = {"outputCount": 5, "biasTerm": 1, "axis": 1, "weight": w.reshape(-1), "bias": bias}
    np.testing.assert_allclose(
        one("InnerProduct", "InnerProduct", table, x), x.reshape(2, -1) @ w.T + bias, rtol=1e-4, atol=1e-4
    )
    g = x.reshape(2, 2, -1).astype(np.float64)
    g = ((g - g.mean(-1, keepdims=True)) / np.sqrt(g.var(-1, keepdims=True) + 1e-3)).reshape(x.shape) * a[c] + b[c]
    table = {"group": 2, "epsilon": 1e-3, "gamma": a, "beta": b, "bSwish": 1}
    np.testing.assert_allclose(one("GroupNorm", "GroupNorm", table, x), g / (1 + np.exp(-g)), rtol=1e-4, atol=1e-5)


# ---- windows


@pytest.mark.parametrize(
    ("main", "want"),
    [
        ({"ceilModel": False}, [[0, 2], [10, 12]]),
        ({"ceilModel": True}, [[0, 2, 4], [10, 12, 14], [20, 22, 24]]),
        ({"padType": "VALID"}, [[0, 2], [10, 12]]),
        ({"padType": "SAME"}, [[0, 2, 4], [10, 12, 14], [20, 22, 24]]),
    ],
)
def test_pooling_extents(main, want):
    """The least of each window, by pooling its negative."""
    x = np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)
    table = {"kernelX": 2, "kernelY": 2, "strideX": 2, "strideY": 2, "type": "MAXPOOL", **main}
    np.testing.assert_array_equal(-one("Pooling", "Pool", table, -x)[0, 0], want)


def test_pooling_counts_and_clips():
    x = np.ones((1, 1, 3, 3), np.float32)
    window = {"kernelX": 2, "kernelY": 2, "strideX": 1, "strideY": 1, "type": "AVEPOOL", "ceilModel": False}
    corner = {"pads": [1, 1, 0, 0]}, {"padX": 1, "padY": 1}, {"pads": [1, 1, 0, 0], "countType": "INCLUDE_PADDING"}
    values = [float(one("Pooling", "Pool", window | more, x)[0, 0, 0, 0]) for more in corner]
    assert values == [1.0, 0.25, 0.25]
    y = one("Pooling", "Pool", {"kernelX": 9, "kernelY": 9, "strideX": 1, "strideY": 1, "type": "AVEPOOL"}, 3 * x)
    np.testing.assert_array_equal(y, [[[[3]]]])


def test_transposed_convolution_to_a_size():
    x, w = normal(RNG, 1, 2, 3, 3), normal(RNG, 2, 3, 2, 2)
    common = {
        "kernelX": 2,
        "kernelY": 2,
        "strideX": 2,
        "strideY": 2,
        "outputCount": 3,
        "inputCount": 2,
        "padMode": "SAME",
    }
    table = {"common": common, "weight": w.reshape(-1), "bias": np.zeros(3, np.float32)}
    y = one("Deconvolution", "Convolution2D", table, x)
    want = np.einsum("nchw,coij->nohiwj", x, w).reshape(1, 3, 6, 6)
    np.testing.assert_allclose(y, want, rtol=1e-4, atol=1e-5)
    table["common"] = common | {"hasOutputShape": True}
    y = one("Deconvolution", "Convolution2D", table, x, np.array([1, 5, 6, 1]))
    np.testing.assert_allclose(y, want[:, :, :5], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("main", "operand"),
    [
        ({"outputHeight": 4, "outputWidth": 6}, None),
        ({"heightScale": 2.0, "widthScale": 2.0}, None),
        ({}, np.array([4, 6])),
        ({}, np.array([4, 6], np.float32)),
        ({}, np.array([1, 2, 4, 6])),
        ({}, np.array([1, 1, 2, 2], np.float32)),
    ],
)
def test_resizing_operands(main, operand):
    x = normal(RNG, 1, 2, 2, 3)
    y = one("Interp", "Interp", {"resizeType": 1, **main}, x, *([] if operand is None else [operand]))
    np.testing.assert_array_equal(y, x.repeat(2, 2).repeat(2, 3))


def test_boxes_of_one_class():
    boxes = np.array([[0, 0, 1, 1], [0, 0, 1, 1.05], [2, 2, 3, 3], [0, 0, 0.1, 0.1]], np.float32)
    scores = np.array([0.5, 0.9, 0.7, 0.2], np.float32)
    operands = scores, np.int32(3), np.float32(0.5), np.float32(0.3)
    assert one("NonMaxSuppressionV2", "NonMaxSuppressionV2", {}, boxes, *operands).tolist() == [1, 2]


# ---- what is refused


@pytest.mark.parametrize(
    ("table", "says"),
    [
        ({"inputIndexes": [7]}, "no tensor 7"),
        ({"inputIndexes": [1]}, "read before"),
        ({"outputIndexes": [0]}, "more than one op"),
        ({"outputIndexes": []}, "no outputs"),
        ({"inputIndexes": []}, "input 0 is missing"),
        ({"inputIndexes": [-1]}, "input 0 is missing"),
        ({"type": "Reshape"}, "parameters are missing"),
        ({"type": "Softmax", "main_type": "Pool", "main": {}, "inputIndexes": []}, "input 0 is missing"),
    ],
)
def test_graphs_that_do_not_fit(table, says):
    net = Net()
    net.input("x", [1])
    net.op("UnaryOp", ["x"], ["y"], "UnaryOp", {"opType": "ABS"})
    net.ops[-1] |= table
    with pytest.raises(FormatError, match=says):
        minnow.load(net.bytes("y"))


def test_an_output_that_nothing_makes():
    net = Net()
    net.input("x", [1])
    with pytest.raises(FormatError, match="nothing makes the output 'z'"):
        minnow.load(net.bytes("z"))


def test_without_named_outputs_what_is_not_read_is_one():
    net = Net()
    net.input("x", [1])
    net.op("AbsVal", ["x"], ["a"])
    net.op("TanH", ["a"], ["b"])
    net.op("TanH", ["a"], ["c"])
    assert [o.name for o in minnow.load(net.bytes()).outputs] == ["b", "c"]


def frozen(copies: list[dict[str, Any]] | None, out: list[int], n: int = 1) -> bytes:
    """A static model: y is made of copies of x[2, 3], which is given n times."""
    from minnow.schema.mnn import wire

    net = Net()
    net.input("x", [2, 3])
    net.op("Raster", ["x"] * n, ["y"])
    x = {"index": 0, "name": "x", "blob": {"dims": np.int32([2, 3])}}
    y = {"index": 1, "name": "y", "blob": {"dims": np.int32(out)}, "regions": copies or []}
    known = {"usage": "INFERENCE_STATIC", "extraTensorDescribe": [x, *([] if copies is None else [y])]}
    return wire.write(wire.read(net.bytes("y")) | known)


def copy(size: list[int], source: tuple[int, list[int]], to: tuple[int, list[int]]) -> dict[str, Any]:
    views = [{"offset": offset, "stride": np.int32(stride)} for offset, stride in (source, to)]
    return {"src": views[0], "dst": views[1], "size": np.int32(size)}


def test_frozen_layouts_are_strided_copies():
    """As MNN's runtime makes them: of several copies, each takes the next input; what none writes is 0."""
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    turned = copy([1, 2, 3], (0, [6, 3, 1]), (0, [6, 1, 2]))
    np.testing.assert_array_equal(minnow.load(frozen([turned], [3, 2])).run({"x": x})["y"], x.T)
    ends = [copy([1, 1, 2], (4, [1, 1, 1]), (0, [1, 1, 1])), copy([1, 1, 2], (1, [1, 1, -1]), (5, [1, 1, 1]))]
    want = np.float32([4, 5, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(minnow.load(frozen(ends, [7], 2)).run({"x": x})["y"], want)
    with pytest.raises(FormatError, match="reach from 4 to 6 in 6"):
        minnow.load(frozen([copy([1, 1, 3], (4, [1, 1, 1]), (0, [1, 1, 1]))], [3]))
    with pytest.raises(FormatError, match="copy 1 has no input"):
        minnow.load(frozen(ends, [7]))
    with pytest.raises(FormatError, match="no shape of tensor 1"):
        minnow.load(frozen(None, [7]))
    with pytest.raises(UnsupportedError, match="more than 268435456"):
        minnow.load(frozen([turned], [1 << 20, 1 << 20]))
    repeated = [copy([1000, 1000, 1], (0, [0, 0, 0]), (0, [0, 0, 0]))]
    with pytest.raises(FormatError, match="writes"):
        minnow.load(frozen(repeated, [3]))


def test_halves_are_rounded_away_from_zero():
    x = np.float32([0.5, 1.5, 2.5, -0.5, -2.5, 2.4, np.inf])
    want = np.float32([1, 2, 3, -1, -3, 2, np.inf])
    np.testing.assert_array_equal(one("UnaryOp", "UnaryOp", {"opType": "ROUND"}, x), want)
