"""MediaPipe's operators on regions given by landmarks: the region's matrix, its image, and transformed points."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, channels_second
from minnow.converter.operand import bounded, static_dim
from minnow.converter.tflite.frontend import Operation
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.custom import options_of
from minnow.schema.errors import ModelError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

F32 = np.float32


def _number(options: dict[str, Any], name: str, node: Operation) -> float:
    value = options.get(name)
    if not isinstance(value, (int, float)) or not np.isfinite(value):
        raise ModelError(f"the option '{name}' of {node.op} has the invalid value {value}")
    return float(value)


def _size(options: dict[str, Any], node: Operation) -> tuple[int, int]:
    height, width = (int(_number(options, f"output_{side}", node)) for side in ("height", "width"))
    if height < 1 or width < 1:
        raise ModelError(f"{node.op} has the invalid output size {height} x {width}")
    bounded(height * width, f"the result of {node.op}")
    return height, width


def _plane(b: Builder, matrix: Value) -> tuple[Value, Value]:
    """The part [2, 2] of an affine matrix [1, 4, 4] that turns points of a plane, and the one [2] that moves them."""
    rows = b.Squeeze(b.Slice(matrix, np.array([0, 0]), np.array([1, 2]), np.array([0, 1])), axes=(0,))
    turn = b.Slice(rows, np.array([0]), np.array([2]), np.array([1]))
    return turn, b.Gather(rows, np.array(3), axis=1)


@tflite.op("TransformLandmarks", since=2)
def _(b, points, matrix):
    turn, move = _plane(b, matrix)
    depth = static_dim(points.type, -1, "a landmark")
    if depth not in (2, 3):
        raise ModelError(f"landmarks must have 2 or 3 coordinates, but have {depth}")
    flat = b.Slice(points, np.array([0]), np.array([2]), np.array([-1])) if depth == 3 else points
    moved = b.Add(b.MatMul(flat, turn, transpose_b=True), move)
    return (
        moved if depth == 2 else b.Concat(moved, b.Slice(points, np.array([2]), np.array([3]), np.array([-1])), axis=-1)
    )


@tflite.op("TransformTensorBilinear", since=2)
def _(b, x, matrix, *, node):
    height, width = _size(options_of(node), node)
    rows, columns = (static_dim(x.type, i, "the image of TransformTensorBilinear") for i in (1, 2))
    turn, move = _plane(b, matrix)
    # Places count from the middle of the first element, matrices from its edge.
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), -1).astype(F32) + F32(0.5)
    places = b.Sub(b.Add(b.MatMul(grid.reshape(1, -1, 2), turn, transpose_b=True), move), F32(0.5))
    last = np.array([columns - 1, rows - 1], F32)
    outside = b.Or(b.Less(places, F32(0)), b.Greater(places, last))
    relative = b.Sub(b.Div(b.Add(b.Mul(places, F32(2)), F32(1)), last + 1), F32(1))
    shape = np.array([1, height, width, 2])
    sampled = channels_last(b, b.GridSample(channels_second(b, x, 2), b.Reshape(relative, shape)), 2)
    out = b.Reshape(b.ReduceMax(outside, axes=(2,)), np.array([1, height, width, 1]))
    return b.Where(out, b.const(F32(0)), sampled)


@tflite.op("Landmarks2TransformMatrix", "Landmarks2TransformMatrixV2", since=2)
def _(b, points, *, node):
    o = options_of(node)
    height, width = _size(o, node)
    count = static_dim(points.type, -2, "the landmarks")
    ends = [int(_number(o, f"{side}_rotation_idx", node)) for side in ("left", "right")]
    subset = o.get("subset_idxs") or ()
    if not subset or any(not 0 <= i < count for i in (*ends, *subset)):
        raise ModelError(f"{node.op} uses the landmarks {ends} and {subset}, but there are {count}")
    flat = b.Reshape(points, np.array([count, -1]))

    def axis(of: Value, i: int) -> Value:
        return b.Gather(of, np.array(i), axis=1)

    left, right = (b.Gather(flat, np.array([i])) for i in ends)
    slope = b.Atan2(b.Sub(axis(right, 1), axis(left, 1)), b.Sub(axis(right, 0), axis(left, 0)))
    angle = b.Sub(b.const(F32(_number(o, "target_rotation_radians", node))), slope)
    cos, sin = b.Cos(angle), b.Sin(angle)
    chosen = b.Gather(flat, np.array(subset))
    x, y = axis(chosen, 0), axis(chosen, 1)
    turned = (b.Sub(b.Mul(x, cos), b.Mul(y, sin)), b.Add(b.Mul(x, sin), b.Mul(y, cos)))
    low, high = ([getattr(b, op)(v, axes=(0,)) for v in turned] for op in ("ReduceMin", "ReduceMax"))
    scale = [
        b.Mul(b.Sub(h, w), F32(_number(o, f"scale_{name}", node) / size))
        for h, w, name, size in zip(high, low, "xy", (width, height), strict=True)
    ]
    cx, cy = (b.Mul(b.Add(h, w), F32(0.5)) for h, w in zip(high, low, strict=True))
    # Back by the angle, scaled, so that the middle of the image is the middle of the region.
    rows = [
        (b.Mul(cos, scale[0]), b.Mul(sin, scale[1]), b.Add(b.Mul(cx, cos), b.Mul(cy, sin))),
        (b.Neg(b.Mul(sin, scale[0])), b.Mul(cos, scale[1]), b.Sub(b.Mul(cy, cos), b.Mul(cx, sin))),
    ]
    zero = b.const(np.zeros(1, F32))
    parts = []
    for p, q, middle in rows:
        half = b.Add(b.Mul(p, F32(width / 2)), b.Mul(q, F32(height / 2)))
        parts += [p, q, zero, b.Sub(middle, half)]
    rest = b.const(np.array([0, 0, 1, 0, 0, 0, 0, 1], F32))
    return b.Reshape(b.Concat(*parts, rest, axis=0), np.array([1, 4, 4]))
