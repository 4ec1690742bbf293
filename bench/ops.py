"""Times models of one operator in Minnow and in onnxruntime, interleaved, and prints the ratio of each, the worst
first.

    ./dev bench ops [PATTERN] [--threads 1] [--rounds 7]

Numbers are processor time at one thread and wall time at more; below 1 Minnow is faster. `err` is the largest
difference over the largest number. A run of very small tensors measures the call, not the operator.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

import minnow

rng = np.random.default_rng(0)
Array = np.ndarray[Any, Any]
OPSET = 22
OPSETS = {"RMSNormalization": 23, "RoiAlign": 16}  # what lacks a kernel of OPSET in onnxruntime


class Const:
    """An operand that is an initializer."""

    def __init__(self, array: Any, dtype: Any = None) -> None:
        self.array = np.asarray(array, dtype)


def f(*shape: int) -> Array:
    return rng.standard_normal(shape).astype(np.float32)


def pos(*shape: int) -> Array:
    return rng.uniform(0.1, 4, shape).astype(np.float32)


def ints(top: int, *shape: int, dtype: Any = np.int64) -> Array:
    return rng.integers(0, top, shape).astype(dtype)


def i64(*values: int) -> Const:
    return Const(values, np.int64)


def weight(*shape: int) -> Const:
    return Const(f(*shape) / np.sqrt(np.prod(shape[1:])), np.float32)


def sizes(*values: float) -> tuple[None, None, Const]:
    """Resize by sizes (ints) or scales (floats)."""
    if isinstance(values[0], float):
        return None, Const(values, np.float32), None  # type: ignore[return-value]
    return None, None, Const(values, np.int64)


def build(
    op: str, args: tuple[Any, ...], attrs: dict[str, Any], outputs: int
) -> tuple[onnx.ModelProto, dict[str, Array]]:
    names, inputs, consts, feed = [], [], [], {}
    for i, a in enumerate(args):
        name = f"x{i}"
        if a is None:
            names.append("")
            continue
        names.append(name)
        if isinstance(a, Const):
            consts.append(numpy_helper.from_array(a.array, name))
        else:
            inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape))
            feed[name] = a
    domain, _, kind = op.rpartition(".")
    outs = [f"y{i}" for i in range(outputs)]
    node = helper.make_node(kind, names, outs, domain=domain, **attrs)
    graph = helper.make_graph([node], "one", inputs, [helper.make_empty_tensor_value_info(o) for o in outs], consts)
    opset = [helper.make_opsetid("", OPSETS.get(kind, OPSET))]
    if domain:
        opset.append(helper.make_opsetid(domain, 1))
    model = helper.make_model(graph, opset_imports=opset, ir_version=10)
    return model if domain else onnx.shape_inference.infer_shapes(model), feed


Row = tuple[str, str, tuple[Any, ...], dict[str, Any], int]


def cases() -> Iterator[Row]:
    def one(op: str, *args: Any, note: str = "", outputs: int = 1, **attrs: Any) -> Row:
        shapes = [
            f"{a.dtype.char if a.dtype != np.float32 else ''}{'x'.join(map(str, a.shape)) or 'scalar'}"
            for a in ((a.array if isinstance(a, Const) else a) for a in args if a is not None)
        ]
        text = " ".join(shapes[:3]) + (f" {note}" if note else "")
        return op, text + "".join(f" {k}={v}" for k, v in attrs.items()), args, attrs, outputs

    cnn, mid, odd, seq, heads, vit = (
        (1, 64, 56, 56),
        (1, 256, 28, 28),
        (1, 33, 17, 19),
        (1, 128, 768),
        (1, 12, 128, 128),
        (1, 197, 384),
    )
    # movement
    yield one("Transpose", f(1, 128, 12, 64), perm=[0, 2, 1, 3])
    yield one("Transpose", f(8, 128, 12, 64), perm=[0, 2, 3, 1])
    yield one("Transpose", f(*vit), perm=[0, 2, 1])
    yield one("Transpose", f(*seq), perm=[0, 2, 1])
    yield one("Transpose", f(1, 224, 224, 3), perm=[0, 3, 1, 2])
    yield one("Transpose", f(1, 3, 224, 224), perm=[0, 2, 3, 1])
    yield one("Transpose", ints(255, 1, 224, 224, 3, dtype=np.uint8), perm=[0, 3, 1, 2])
    yield one("Transpose", f(*mid), perm=[0, 2, 3, 1])
    yield one("Transpose", f(*cnn), perm=[0, 3, 1, 2])
    yield one("Transpose", f(*odd), perm=[0, 2, 3, 1])
    yield one("Transpose", f(1000, 1024), perm=[1, 0])
    yield one("Transpose", f(1023, 517), perm=[1, 0])
    yield one("Transpose", f(1000, 1024).astype(np.float16), perm=[1, 0])
    yield one("Transpose", ints(9, 500, 1024), perm=[1, 0])
    yield one("Transpose", f(1, 2, 116, 28, 28), perm=[0, 2, 1, 3, 4])
    yield one("Transpose", f(1, 8, 8, 7, 8, 7)[:, :, :, :, :, :], perm=[0, 1, 3, 2, 4, 5])
    yield one("Transpose", f(4, 7, 8, 7, 8, 96), perm=[0, 1, 3, 2, 4, 5])
    yield one("Transpose", f(64, 50, 30), perm=[2, 1, 0])
    yield one("Transpose", f(1, 3, 85, 52, 52), perm=[0, 1, 3, 4, 2])
    yield one("Concat", f(*mid), f(*mid), axis=1)
    yield one("Concat", f(*mid), f(*mid), axis=2)
    yield one("Concat", f(*mid), f(*mid), axis=3)
    yield one("Concat", f(1, 128, 64, 1), f(1, 128, 64, 1), axis=3)
    yield one("Concat", f(1, 128, 768), f(1, 128, 64), axis=2)
    yield one("Concat", f(1, 12, 255, 64), f(1, 12, 1, 64), axis=2)
    yield one("Concat", f(1, 33, 17, 19), f(1, 5, 17, 19), f(1, 7, 17, 19), axis=1)
    yield one("Slice", f(*mid), i64(0, 0), i64(28, 28), i64(2, 3), i64(2, 2), note="::2 ::2")
    yield one("Slice", f(*mid), i64(0), i64(128), i64(1), i64(1), note="axis 1")
    yield one("Slice", f(*seq), i64(0), i64(384), i64(2), i64(1), note="last")
    yield one("Slice", f(*seq), i64(-1), i64(-10000), i64(2), i64(-1), note="reverse last")
    yield one("Slice", f(*seq), i64(-1), i64(-10000), i64(1), i64(-1), note="reverse 1")
    yield one("Slice", f(1, 3, 416, 416), i64(0, 0), i64(416, 416), i64(2, 3), i64(2, 2), note="focus")
    yield one("Split", f(*mid), i64(64, 64, 128), outputs=3, axis=1)
    yield one("Split", f(1, 128, 2304), i64(768, 768, 768), outputs=3, axis=2)
    yield one("Pad", f(*cnn), i64(0, 0, 1, 1, 0, 0, 1, 1), Const(np.float32(0)), mode="constant")
    yield one("Pad", f(*cnn), i64(0, 0, 3, 3, 0, 0, 3, 3), mode="reflect")
    yield one("Pad", f(*cnn), i64(0, 0, 3, 3, 0, 0, 3, 3), mode="edge")
    yield one("Pad", f(1, 3, 224, 224), i64(0, 0, 3, 3, 0, 0, 3, 3), mode="reflect")
    yield one("Pad", f(*seq), i64(0, 0, 0, 0, 64, 0), Const(np.float32(0)), mode="constant")
    yield one("Tile", f(1, 64, 28, 28), i64(1, 2, 2, 2))
    yield one("Tile", f(1, 1, 768), i64(1, 128, 1))
    yield one("Tile", f(128, 64, 1), i64(1, 1, 16))
    yield one("Expand", f(1, 64, 1, 1), i64(1, 64, 56, 56))
    yield one("Expand", f(1, 8, 1, 256, 64), i64(1, 8, 4, 256, 64))
    yield one("Expand", f(1, 1, 1, 512), i64(1, 1, 512, 512))
    yield one("DepthToSpace", f(1, 256, 28, 28), blocksize=2)
    yield one("DepthToSpace", f(1, 48, 64, 64), blocksize=4, mode="CRD")
    yield one("SpaceToDepth", f(1, 64, 56, 56), blocksize=2)
    yield one("Reshape", f(*cnn), i64(1, 64, -1))
    # gather, scatter
    yield one("Gather", Const(f(30522, 768)), ints(30522, 1, 128), note="embedding")
    yield one("Gather", f(1000, 64), ints(1000, 512), axis=0)
    yield one("Gather", f(128, 256), ints(256, 64), axis=1)
    yield one("Gather", f(64, 128, 64), ints(128, 32), axis=1)
    yield one("Gather", f(1, 128, 768), Const(0, np.int64), axis=1)
    yield one("GatherElements", f(256, 512), ints(512, 256, 64), axis=1)
    yield one("GatherElements", f(256, 512), ints(256, 128, 512), axis=0)
    yield one("GatherND", f(64, 64, 32), ints(64, 1000, 2))
    yield one("ScatterND", f(1000, 64), ints(1000, 200, 1), f(200, 64))
    yield one("ScatterND", f(100, 100), ints(100, 2000, 2), f(2000))
    yield one("ScatterElements", f(256, 512), ints(256, 64, 512), f(64, 512), axis=0)
    yield one("OneHot", ints(1000, 256), Const(1000, np.int64), Const([0, 1], np.float32))
    # normalization, softmax
    for shape in (seq, vit, (1, 1024, 1024), (64, 33), (8, 49, 96)):
        yield one("LayerNormalization", f(*shape), Const(f(shape[-1])), Const(f(shape[-1])), axis=-1)
    yield one("RMSNormalization", f(*seq), Const(f(768)), axis=-1)
    yield one("RMSNormalization", f(1, 1, 4096), Const(f(4096)), axis=-1)
    yield one("com.microsoft.SkipLayerNormalization", f(*seq), f(*seq), Const(f(768)), Const(f(768)))
    yield one("InstanceNormalization", f(*cnn), Const(f(64)), Const(f(64)))
    yield one("InstanceNormalization", f(*odd), Const(f(33)), Const(f(33)))
    yield one("GroupNormalization", f(1, 256, 28, 28), Const(f(256)), Const(f(256)), num_groups=32)
    yield one("BatchNormalization", f(*cnn), Const(f(64)), Const(f(64)), Const(f(64)), Const(pos(64)))
    yield one("LpNormalization", f(*seq), axis=-1, p=2)
    yield one("LRN", f(*cnn), size=5)
    for shape, axis in (
        (heads, -1),
        ((1, 12, 197, 197), -1),
        ((1, 1000), -1),
        ((128, 33), -1),
        ((1, 21, 64, 64), 1),
        ((16, 1024, 1024), -1),
        ((1, 4, 16, 8400), 2),
        ((1, 32000), -1),
    ):
        yield one("Softmax", f(*shape), axis=axis)
    yield one("LogSoftmax", f(1, 12, 128, 128), axis=-1)
    yield one("LogSoftmax", f(1, 21, 64, 64), axis=1)
    # reductions
    for op in ("ReduceMean", "ReduceSum", "ReduceMax"):
        yield one(op, f(*mid), i64(2, 3), keepdims=1)
        yield one(op, f(*seq), i64(-1), keepdims=1)
        yield one(op, f(*seq), i64(1), keepdims=0)
        yield one(op, f(*mid), i64(1), keepdims=1)
        yield one(op, f(*mid), keepdims=0, note="all")
    yield one("ReduceMax", f(1, 33, 17, 19), i64(2, 3))
    yield one("ReduceL2", f(*seq), i64(-1))
    yield one("ReduceSumSquare", f(*seq), i64(-1))
    yield one("ReduceLogSumExp", f(*seq), i64(-1))
    yield one("ReduceProd", ints(3, 1000, 4), i64(1))
    yield one("ReduceSum", ints(9, 64, 1000), i64(1))
    yield one("ArgMax", f(1, 21, 128, 128), axis=1)
    yield one("ArgMax", f(128, 1000), axis=-1)
    yield one("ArgMax", f(1, 32000), axis=-1)
    yield one("CumSum", f(128, 512), Const(1, np.int64))
    yield one("CumSum", f(128, 512), Const(0, np.int64))
    yield one("CumSum", ints(2, 8, 512), Const(1, np.int64))
    yield one("TopK", f(1, 1000), i64(5), outputs=2)
    yield one("TopK", f(1, 8400), i64(300), outputs=2)
    yield one("TopK", f(64, 1000), i64(5), outputs=2)
    yield one("TopK", f(1, 32000), i64(50), outputs=2)
    yield one("TopK", f(1, 8400), i64(8400), outputs=2, note="sort")
    yield one("TopK", f(1, 256, 64), i64(8), outputs=2, axis=1)
    yield one("NonZero", ints(2, 64, 512).astype(bool))
    yield one("NonZero", f(100, 100))
    yield one("Unique", ints(100, 5000), outputs=1)
    boxes = rng.uniform(0, 400, (1, 1000, 4)).astype(np.float32)
    boxes[..., 2:] = boxes[..., :2] + 30
    yield one("NonMaxSuppression", boxes, pos(1, 1, 1000), i64(100), Const([0.5], np.float32), Const([0.5], np.float32))
    # elementwise
    for op in ("Add", "Mul", "Sub", "Div", "Max", "Pow"):
        yield one(op, pos(*mid), pos(*mid))
    for op in ("Add", "Mul"):
        yield one(op, f(*mid), f(1, 256, 1, 1))
        yield one(op, f(*mid), Const(f(256, 1, 1)))
        yield one(op, f(*seq), Const(f(768)))
        yield one(op, f(*seq), Const(np.float32(0.125)))
        yield one(op, f(*seq), f(1, 128, 1))
    yield one("Add", f(*heads), f(1, 1, 1, 128))
    yield one("Add", f(*heads), f(1, 1, 128, 128))
    yield one("Add", f(*heads), f(1, 12, 128, 1))
    yield one("Add", f(64, 1), f(1, 64))
    yield one("Sub", f(1, 512, 1), f(1, 1, 512))
    yield one("Mul", f(1, 33, 17, 19), f(1, 33, 1, 1))
    yield one("Mul", f(1, 33, 17, 19), f(1, 1, 17, 19))
    yield one("Mul", f(1, 3, 224, 224), Const(f(1, 3, 1, 1)))
    yield one("Mul", f(1, 224, 224, 3), Const(f(3)))
    yield one("Div", f(*seq), Const(np.float32(8)))
    yield one("Div", f(*heads), pos(1, 12, 128, 1))
    yield one("Add", ints(9, 1, 128, 768), ints(9, 1, 128, 768))
    yield one("Mul", ints(9, 1, 128, 768), Const(3, np.int64))
    yield one("Div", ints(900, 1, 65536), Const(7, np.int64))
    yield one("Mod", ints(900, 1, 65536), Const(7, np.int64))
    yield one("Add", ints(9, 1, 65536, dtype=np.int32), ints(9, 1, 65536, dtype=np.int32))
    yield one("Add", f(*seq).astype(np.float16), f(*seq).astype(np.float16))
    yield one("Pow", f(*seq), Const(np.float32(2)))
    yield one("Pow", pos(*seq), Const(np.float32(0.5)))
    yield one("Pow", f(*seq), Const(np.float32(3)))
    yield one("Pow", pos(*seq), Const(np.float32(1.7)))
    yield one("Where", f(*seq) > 0, f(*seq), f(*seq))
    yield one("Where", f(1, 1, 128, 128) > 0, f(*heads), Const(np.float32(-1e9)))
    yield one("Where", f(1, 128, 1) > 0, f(*seq), Const(np.float32(0)))
    for op in ("Equal", "Less", "GreaterOrEqual"):
        yield one(op, f(*seq), f(*seq))
    yield one("Greater", f(*seq), Const(np.float32(0)))
    yield one("Equal", ints(9, 1, 65536), Const(3, np.int64))
    yield one("Equal", ints(9, 1, 512, 1), ints(9, 1, 1, 512))
    yield one("And", f(*seq) > 0, f(*seq) > 0)
    yield one("Not", f(*seq) > 0)
    for to, name in (
        (TensorProto.INT64, "i64"),
        (TensorProto.INT32, "i32"),
        (TensorProto.UINT8, "u8"),
        (TensorProto.FLOAT16, "f16"),
        (TensorProto.BOOL, "bool"),
    ):
        yield one("Cast", pos(*seq), to=to, note=name)
    for src in (np.int64, np.int32, np.uint8, np.float16, bool):
        yield one("Cast", ints(2, *seq).astype(src), to=TensorProto.FLOAT)
    yield one("Cast", ints(2, *seq), to=TensorProto.INT32)
    yield one("Cast", ints(2, *seq).astype(np.int32), to=TensorProto.INT64)
    yield one("Cast", ints(2, *seq).astype(bool), to=TensorProto.INT64)
    for op in (
        "Sqrt",
        "Exp",
        "Log",
        "Reciprocal",
        "Sin",
        "Cos",
        "Softplus",
        "Floor",
        "Round",
        "Abs",
        "Neg",
        "Tan",
        "Atan",
        "Acos",
        "Sinh",
        "Asinh",
    ):
        yield one(op, rng.uniform(0.01, 0.99, seq).astype(np.float32))
    for op in (
        "Erf",
        "Gelu",
        "Tanh",
        "Sigmoid",
        "HardSwish",
        "HardSigmoid",
        "Relu",
        "LeakyRelu",
        "Elu",
        "Selu",
        "Mish",
        "Softsign",
        "ThresholdedRelu",
        "Sign",
    ):
        yield one(op, f(*seq))
    yield one("Gelu", f(*seq), approximate="tanh")
    yield one("com.microsoft.QuickGelu", f(*seq))
    yield one("Clip", f(*cnn), Const(np.float32(0)), Const(np.float32(6)))
    yield one("PRelu", f(*cnn), Const(f(64, 1, 1)))
    yield one("Sum", f(*seq), f(*seq), f(*seq))
    yield one("IsNaN", f(*seq))
    # images
    for mode, extra in (
        ("nearest", {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        ("linear", {}),
        ("linear", {"coordinate_transformation_mode": "align_corners"}),
        ("cubic", {}),
    ):
        yield one("Resize", f(1, 64, 28, 28), *sizes(1.0, 1.0, 2.0, 2.0), mode=mode, **extra)
        yield one("Resize", f(1, 33, 17, 19), *sizes(1, 33, 40, 47), mode=mode, **extra)
    yield one("Resize", f(1, 3, 480, 640), *sizes(1, 3, 224, 224), mode="linear")
    yield one("Resize", f(1, 3, 480, 640), *sizes(1, 3, 224, 224), mode="linear", antialias=1)
    yield one("Resize", f(1, 21, 65, 65), *sizes(1, 21, 513, 513), mode="linear")
    yield one("Resize", f(1, 56, 56, 64), *sizes(1.0, 2.0, 2.0, 1.0), mode="nearest")
    for op in ("MaxPool", "AveragePool"):
        yield one(op, f(*cnn), kernel_shape=[2, 2], strides=[2, 2])
        yield one(op, f(*cnn), kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        yield one(op, f(*odd), kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        yield one(op, f(*mid), kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        yield one(op, f(1, 64, 1024), kernel_shape=[2], strides=[2])
        yield one(op, f(1, 16, 16, 28, 28), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
    yield one("MaxPool", f(1, 256, 13, 13), kernel_shape=[5, 5], pads=[2, 2, 2, 2])
    yield one("MaxPool", f(*cnn), kernel_shape=[2, 2], strides=[2, 2], outputs=2)
    yield one("LpPool", f(*cnn), kernel_shape=[2, 2], strides=[2, 2])
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        yield one(op, f(1, 512, 14, 14))
    yield one("GlobalAveragePool", f(1, 2048, 7, 7))
    grid = rng.uniform(-1, 1, (1, 56, 56, 2)).astype(np.float32)
    yield one("GridSample", f(*cnn), grid, mode="linear")
    yield one("GridSample", f(*cnn), grid, mode="nearest")
    yield one("GridSample", f(*cnn), grid, mode="cubic")
    roi = np.sort(rng.uniform(0, 200, (50, 2, 2)).astype(np.float32), 1).reshape(50, 4)
    yield one(
        "RoiAlign",
        f(1, 64, 50, 50),
        roi,
        np.zeros(50, np.int64),
        output_height=7,
        output_width=7,
        sampling_ratio=2,
        spatial_scale=0.25,
    )
    # convolution
    yield one("ConvTranspose", f(1, 64, 28, 28), weight(64, 32, 2, 2), strides=[2, 2])
    yield one("ConvTranspose", f(1, 256, 16, 16), weight(256, 128, 4, 4), strides=[2, 2], pads=[1, 1, 1, 1])
    yield one(
        "ConvTranspose",
        f(1, 64, 28, 28),
        weight(64, 32, 3, 3),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    )
    yield one("ConvTranspose", f(1, 33, 17, 19), weight(33, 7, 3, 3))
    yield one("ConvTranspose", f(1, 21, 34, 34), weight(21, 1, 4, 4), strides=[2, 2], group=21)
    yield one("ConvTranspose", f(1, 256, 100), weight(256, 128, 16), strides=[8], pads=[4, 4])
    yield one("ConvTranspose", f(1, 16, 8, 14, 14), weight(16, 16, 2, 2, 2), strides=[2, 2, 2])
    yield one("Conv", f(1, 80, 1000), weight(256, 80, 3), pads=[1, 1])
    yield one("Conv", f(1, 512, 500), weight(512, 512, 1))
    yield one("Conv", f(1, 512, 500), weight(512, 1, 31), pads=[15, 15], group=512)
    yield one("Conv", f(1, 1, 16000), weight(64, 1, 400), strides=[160])
    yield one("Conv", f(1, 16, 16, 28, 28), weight(32, 16, 3, 3, 3), pads=[1] * 6)
    yield one("Conv", f(1, 3, 16, 56, 56), weight(32, 3, 3, 3, 3), pads=[1] * 6, strides=[1, 2, 2])
    yield one("Conv", f(1, 128, 28, 28), weight(128, 4, 3, 3), pads=[1] * 4, group=32)
    yield one("Conv", f(1, 240, 28, 28), weight(240, 80, 1, 1), group=3)
    yield one("Conv", f(1, 64, 33, 33), weight(64, 64, 3, 3), pads=[2] * 4, dilations=[2, 2])
    yield one("Conv", f(1, 64, 33, 33), weight(64, 64, 3, 3), pads=[6] * 4, dilations=[6, 6])
    yield one("Conv", f(1, 96, 56, 56), weight(96, 1, 7, 7), pads=[3] * 4, group=96)
    yield one("Conv", f(1, 64, 56, 56), weight(64, 64, 1, 7), pads=[0, 3, 0, 3])
    yield one("Conv", f(1, 33, 17, 19), weight(7, 33, 3, 3))
    yield one("Conv", f(1, 3, 224, 224), weight(384, 3, 16, 16), strides=[16, 16])
    yield one("Conv", f(1, 64, 28, 28), f(64, 64, 3, 3), pads=[1] * 4, note="weight is an input")
    # products
    yield one("Einsum", f(1, 128, 12, 64), f(1, 128, 12, 64), equation="bqhd,bkhd->bhqk")
    yield one("Einsum", f(8, 64, 32), f(8, 32, 48), equation="bij,bjk->bik")
    yield one("Einsum", f(64, 128), f(128), equation="ij,j->i")
    yield one("MatMul", f(1, 12, 128, 64), f(1, 12, 64, 128))
    yield one("MatMul", f(33, 65), f(65, 17))
    yield one("Gemm", f(64, 256), Const(f(512, 256)), Const(f(512)), transB=1)
    # integers
    u8 = np.uint8
    for m, k, n in ((256, 1024, 1024), (1, 768, 768), (128, 768, 3072), (33, 65, 17)):
        yield one(
            "MatMulInteger",
            ints(255, m, k, dtype=u8),
            Const(ints(255, k, n) - 127, np.int8),
            Const(128, u8),
            Const(0, np.int8),
            note="const B",
        )
    yield one(
        "MatMulInteger", ints(255, 128, 768, dtype=u8), ints(255, 768, 768, dtype=u8), Const(128, u8), Const(127, u8)
    )
    yield one("DynamicQuantizeLinear", f(*seq), outputs=3)
    for dtype in (np.uint8, np.int8):
        yield one("QuantizeLinear", f(*seq), Const(np.float32(0.02)), Const(3, dtype))
        yield one("DequantizeLinear", ints(100, *seq, dtype=dtype), Const(np.float32(0.02)), Const(3, dtype))
    yield one("QuantizeLinear", f(*cnn), Const(pos(64)), Const(np.zeros(64), np.int8), axis=1)
    yield one(
        "DequantizeLinear",
        Const(ints(100, 768, 768, dtype=np.int8)),
        Const(pos(768)),
        Const(np.zeros(768), np.int8),
        axis=0,
        note="folded",
    )
    s = Const(np.float32(0.02))
    for shape, w, attrs in (
        ((1, 64, 56, 56), (64, 64, 3, 3), {"pads": [1] * 4}),
        ((1, 64, 56, 56), (256, 64, 1, 1), {}),
        ((1, 256, 28, 28), (256, 256, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ((1, 96, 56, 56), (96, 1, 3, 3), {"pads": [1] * 4, "group": 96}),
        ((1, 3, 224, 224), (32, 3, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
        ((1, 33, 17, 19), (7, 33, 3, 3), {}),
    ):
        x, kernel = ints(255, *shape, dtype=u8), Const(ints(255, *w) - 127, np.int8)
        yield one(
            "QLinearConv",
            x,
            s,
            Const(128, u8),
            kernel,
            s,
            Const(0, np.int8),
            Const(np.float32(2)),
            Const(128, u8),
            Const(ints(99, w[0]), np.int32),
            note="x".join(map(str, w)),
            **attrs,
        )
        if attrs.get("group", 1) == 1:
            yield one("ConvInteger", x, Const(ints(255, *w), u8), Const(128, u8), Const(127, u8), **attrs)
    yield one(
        "QLinearMatMul",
        ints(255, 128, 768, dtype=u8),
        s,
        Const(128, u8),
        Const(ints(255, 768, 768) - 127, np.int8),
        s,
        Const(0, np.int8),
        Const(np.float32(2)),
        Const(128, u8),
    )
    pair = (s, Const(128, u8), s, Const(3, u8), Const(np.float32(0.03)), Const(9, u8))
    for op in ("QLinearAdd", "QLinearMul"):
        for other in (cnn, (1, 64, 1, 1), (56, 56), (1, 1, 56, 1), ()):
            y = ints(255, *other, dtype=u8)
            yield one(f"com.microsoft.{op}", ints(255, *cnn, dtype=u8), *pair[:2], y, *pair[2:], note=f"{other}")
    for shape in ((1, 512, 14, 14), (1, 1280, 7, 7), (1, 64, 56, 56)):
        x = ints(255, *shape, dtype=u8)
        yield one("com.microsoft.QLinearGlobalAveragePool", x, *pair[:2], s, Const(9, u8), channels_last=0)
    for window in ({"kernel_shape": [2, 2], "strides": [2, 2]}, {"kernel_shape": [3, 3], "pads": [1] * 4}):
        x = ints(255, *cnn, dtype=u8)
        yield one("com.microsoft.QLinearAveragePool", x, *pair[:2], s, Const(9, u8), **window)
    for op in ("QLinearSigmoid", "QLinearLeakyRelu"):
        yield one(f"com.microsoft.{op}", ints(255, *cnn, dtype=u8), *pair[:2], s, Const(9, u8))
    for shape in ((1, 1000), (1, 12, 128, 128)):
        x, steps = ints(255, *shape, dtype=u8), (Const(np.float32(1 / 256)), Const(0, u8))
        yield one("com.microsoft.QLinearSoftmax", x, *pair[:2], *steps, axis=-1, opset=13)
    parts = (ints(255, *cnn, dtype=u8), s, Const(128, u8), ints(255, *cnn, dtype=u8), Const(np.float32(0.03)))
    yield one("com.microsoft.QLinearConcat", s, Const(9, u8), *parts, Const(3, u8), axis=1)
    yield one("MaxPool", ints(255, *cnn, dtype=u8), kernel_shape=[2, 2], strides=[2, 2])
    # one by one small
    yield one("Add", f(1), f(1), note="call")
    yield one("Range", Const(0, np.int64), np.asarray(5000), Const(1, np.int64))


def measure(
    first: Callable[[], Any], second: Callable[[], Any], clock: Callable[[], float], rounds: int
) -> tuple[float, float]:
    """Seconds a call of each, the least of some rounds of about 4 ms."""

    def once(call: Callable[[], Any], times: int) -> float:
        begin = clock()
        for _ in range(times):
            call()
        return (clock() - begin) / times

    counts = [max(1, min(2000, int(4e-3 / max(once(c, 3), 1e-7)))) for c in (first, second)]
    results = [[once(c, n) for c, n in zip((first, second), counts, strict=True)] for _ in range(rounds)]
    return min(r[0] for r in results), min(r[1] for r in results)


def difference(ours: Any, theirs: Any) -> float:
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        return float("inf")
    return float(np.abs(a - b).max(initial=0) / max(np.abs(b).max(initial=0), 1e-9))


@click.command()
@click.argument("pattern", default="")
@click.option("--threads", default=1, show_default=True)
@click.option("--rounds", default=7, show_default=True)
@click.option("--least", default=0.0, help="Microseconds: leaves out what onnxruntime does faster.")
def main(pattern: str, threads: int, rounds: int, least: float) -> None:
    clock = time.process_time if threads == 1 else time.perf_counter
    wanted, lines = re.compile(pattern), []
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = threads, 4
    with tempfile.TemporaryDirectory() as folder:
        for op, text, args, attrs, outputs in cases():
            label = f"{op.rpartition('.')[2]} {text}"
            if not wanted.search(label):
                continue
            try:
                model, feed = build(op, args, attrs, outputs)
                source, target = Path(folder) / "m.onnx", Path(folder) / "m.mnn"
                onnx.save(model, source)
                theirs = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
                minnow.convert(source, output=target, verify=False)
                ours = minnow.load(target, threads=threads)
                got, want = ours.run(feed), theirs.run(None, feed)
                error = max(difference(g, w) for g, w in zip(got.values(), want, strict=True))
                a, b = measure(lambda: ours.run(feed), lambda: theirs.run(None, feed), clock, rounds)  # noqa: B023
            except Exception as failure:  # noqa: BLE001  (a table of all the others is worth more than a trace)
                print(f"      {label}: {str(failure).partition(chr(10))[0][:150]}", flush=True)
                continue
            if b * 1e6 >= least:
                lines.append((a / b, f"{a / b:6.2f} {a * 1e6:10.1f} {b * 1e6:10.1f} us  err {error:.0e}  {label}"))
    print(*[line for _, line in sorted(lines, reverse=True)], sep="\n")


if __name__ == "__main__":
    main()
