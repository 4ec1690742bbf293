"""Images: resampling, crops, patches, colors, and non-maximum suppression."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.decomposition.channel_last import channels_last, channels_second, same_pads
from minnow.converter.decomposition.detection import Anchors, detections, softly_suppressed
from minnow.converter.decomposition.image import resize_bicubic, resize_bilinear, resize_nearest
from minnow.converter.operand import bounded, constant, ints, rank, static_dim
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import axis_operand, cast, wide
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
_MAX_NODES = 2048


@tf.op("ResizeBilinear")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    image = cast(b, x, DType.F32)
    return resize_bilinear(b, image, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


@tf.op("ResizeBicubic")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    image = cast(b, x, DType.F32)
    sizes = (x.type.shape or ())[1:3]
    if not size.is_const or len(sizes) != 2 or not all(isinstance(d, int) for d in sizes):
        return resize_bicubic(b, image, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    parts = _wanted(size, sizes)
    return weighted(b, image, *(_bicubic(n, out, align_corners, half_pixel_centers) for n, out in parts))


def _bicubic(size: int, out: int, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Weights as TensorFlow has them: of places rounded to 1 / 1024 of the distance of two elements."""
    f32, steps = np.float32, 1024
    a = -0.5 if half_pixel_centers else -0.75
    scale = f32(size - 1) / f32(out - 1) if align_corners and out > 1 else f32(size) / f32(out)
    i = np.arange(out, dtype=f32)
    places = (i + f32(0.5)) * scale - f32(0.5) if half_pixel_centers else i * scale
    base = np.floor(places)
    delta = np.rint((places - base) * f32(steps)) / steps
    near, far = (a + 2, -(a + 3), 0, 1), (a, -5 * a, 8 * a, -4 * a)
    weights = np.stack([np.polyval(far, 1 + delta), np.polyval(near, delta), np.polyval(near, 1 - delta),
                        np.polyval(far, 2 - delta)], 1)  # fmt: skip
    at = base.astype(np.int64)[:, None] + np.arange(-1, 3)
    if half_pixel_centers:
        weights = np.where((at < 0) | (at >= size), 0, weights)
        weights = weights / weights.sum(1, keepdims=True)
    matrix = np.zeros((out, size))
    np.add.at(matrix, (np.arange(out)[:, None], np.clip(at, 0, size - 1)), weights)
    return matrix


@tf.op("ResizeNearestNeighbor")
def _(b, x, size, *, align_corners=False, half_pixel_centers=False):
    return resize_nearest(b, x, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


def _wanted(size: Value, sizes: Sequence[Any]) -> list[tuple[int, int]]:
    """Old and new dimensions of rows and columns. Raises ModelError for none, and for more than there can be."""
    wanted = ints(size, "the size")
    if len(wanted) != 2 or min(wanted) < 1 or any(not isinstance(d, int) or d < 1 for d in sizes):
        raise ModelError(f"an image of the size {list(sizes)} cannot be resized to {list(wanted)}")
    for old, new in zip(sizes, wanted, strict=True):
        bounded(4 * int(old) * new, "the matrix of a resampling")
    return [(int(old), new) for old, new in zip(sizes, wanted, strict=True)]


def weighted(b: Builder, x: Value, rows: Array, columns: Array) -> Value:
    """x[N, H, W, C] with its rows and columns mixed by matrices [out, in]."""
    image = channels_second(b, cast(b, x, DType.F32), 2)
    wider = b.MatMul(image, np.ascontiguousarray(columns.T.astype(np.float32)))
    return channels_last(b, b.MatMul(rows.astype(np.float32), wider), 2)


def _area(size: int, out: int, align_corners: bool) -> Array:
    """How much of each element lies under each element of the result."""
    f32 = np.float32
    scale = f32(size - 1) / f32(out - 1) if align_corners and out > 1 else f32(size) / f32(out)
    matrix = np.zeros((out, size))
    for i in range(out):
        start, end = f32(i) * scale, f32(i + 1) * scale
        for j in range(int(np.floor(start)), int(np.ceil(end))):
            part = (scale if j + 1 > end else j + 1 - start) if j < start else (end - j if j + 1 > end else 1.0)
            matrix[i, min(max(j, 0), size - 1)] += part / scale
    return matrix


@tf.op("ResizeArea")
def _(b, x, size, *, align_corners=False):
    parts = _wanted(size, [static_dim(x.type, i, "an image resized by area") for i in (1, 2)])
    return weighted(b, x, *(_area(old, new, align_corners) for old, new in parts))


def _lanczos(radius: int) -> Callable[[Array], Array]:
    return lambda x: np.where(x < radius, np.sinc(x) * np.sinc(x / radius), 0)


def _cubic(p: Sequence[float], q: Sequence[float]) -> Callable[[Array], Array]:
    return lambda x: np.where(x < 1, np.polyval(p, x), np.where(x < 2, np.polyval(q, x), 0))


_KERNELS: dict[str, tuple[float, Callable[[Array], Array]]] = {
    "lanczos1": (1, _lanczos(1)),
    "lanczos3": (3, _lanczos(3)),
    "lanczos5": (5, _lanczos(5)),
    "gaussian": (1.5, lambda x: np.where(x < 1.5, np.exp(-(x**2) / (2 * 0.5**2)), 0)),
    "box": (1, lambda x: np.where(x < 0.5, 1.0, np.where(x == 0.5, 0.5, 0.0))),
    "triangle": (1, lambda x: np.maximum(1 - x, 0)),
    "keyscubic": (2, _cubic((1.5, -2.5, 0, 1), (-0.5, 2.5, -4, 2))),
    "mitchellcubic": (2, _cubic((7 / 6, -2, 0, 8 / 9), (-7 / 18, 2, -10 / 3, 16 / 9))),
}


def _scaled(size: int, out: int, scale: float, shift: float, kernel_type: str, antialias: bool) -> Array:
    radius, kernel = _KERNELS[kernel_type]
    # In float32, as there: at the edge of a kernel the last bit decides.
    f32 = np.float32
    inverse = f32(1) / f32(scale)
    width = max(inverse, f32(1)) if antialias else f32(1)
    matrix = np.zeros((out, size))
    for i in range(out):
        at = f32(i + 0.5) * inverse - inverse * f32(shift)
        if not 0 <= at <= size:
            continue
        reach = f32(radius) * width
        start = min(max(int(np.ceil(at - reach - f32(0.5))), 0), size - 1)
        end = min(max(int(np.floor(at + reach - f32(0.5))), 0), size - 1) + 1
        weights = kernel(np.abs((np.arange(start, end, dtype=f32) + f32(0.5) - at) / width))
        if abs(weights.sum()) > 1e-30:
            matrix[i, start:end] = weights / weights.sum()
    return matrix


@tf.op("ScaleAndTranslate")
def _(b, x, size, scale, translation, *, kernel_type="lanczos3", antialias=True):
    dimensions = _wanted(size, [static_dim(x.type, i, "an image that is scaled") for i in (1, 2)])
    moves = zip(constant(scale, "the scale").tolist(), constant(translation, "the translation").tolist(), strict=True)
    parts = [(*sizes, *move) for sizes, move in zip(dimensions, moves, strict=True)]
    return weighted(b, x, *(_scaled(*part, kernel_type, antialias) for part in parts))


# ---- crops and patches


@tf.op("CropAndResize")
def _(b, image, boxes, owners, size, *, method="bilinear", extrapolation_value=0.0):
    out = ints(size, "the size of crops")
    bounded(out[0] * out[1], "a crop")
    image = cast(b, image, DType.F32)
    height, width = (b.Shape(image, start=i, end=i + 1) for i in (1, 2))
    corners = b.Split(boxes, axis=1, sizes=(1, 1, 1, 1), n_outputs=4)
    places, inside = [], []
    for i, dimension in enumerate((height, width)):
        last = b.Cast(b.Sub(dimension, 1), to=DType.F32)
        first, second = corners[i], corners[i + 2]
        if out[i] > 1:
            step = b.Div(b.Mul(b.Sub(second, first), last), float(out[i] - 1))
            place = b.Add(b.Mul(first, last), b.Mul(step, np.arange(out[i], dtype=np.float32)[None]))
        else:
            place = b.Mul(b.Mul(b.Add(first, second), 0.5), last)
        inside.append(b.And(b.GreaterOrEqual(place, 0.0), b.LessOrEqual(place, last)))
        places.append(b.Min(b.Max(place, 0.0), last))
    y, x = b.Unsqueeze(places[0], axes=(2,)), b.Unsqueeze(places[1], axes=(1,))
    flat = b.Reshape(image, b.Concat(np.array([-1]), b.Shape(image, start=3), axis=0))
    base = b.Mul(b.Reshape(wide(b, owners), np.array([-1, 1, 1])), height)

    def taken(row: Value, column: Value) -> Any:
        at = b.Add(b.Mul(b.Add(base, b.Cast(row, to=DType.I64)), width), b.Cast(column, to=DType.I64))
        return b.Gather(flat, at)

    if method == "nearest":
        found = taken(b.Floor(b.Add(y, 0.5)), b.Floor(b.Add(x, 0.5)))
    else:
        top, left = b.Floor(y), b.Floor(x)
        dy, dx = (b.Unsqueeze(b.Sub(v, f), axes=(3,)) for v, f in ((y, top), (x, left)))
        rows = []
        for row in (top, b.Ceil(y)):
            near, far = taken(row, left), taken(row, b.Ceil(x))
            rows.append(b.Add(near, b.Mul(b.Sub(far, near), dx)))
        found = b.Add(rows[0], b.Mul(b.Sub(rows[1], rows[0]), dy))
    valid = b.And(b.Unsqueeze(inside[0], axes=(2, 3)), b.Unsqueeze(inside[1], axes=(1, 3)))
    return b.Where(valid, found, b.const(np.array(extrapolation_value, np.float32)))


@tf.op("ImageProjectiveTransformV2", "ImageProjectiveTransformV3")
def _(b, image, transforms, size, fill=None, *, interpolation, fill_mode="CONSTANT"):
    if fill_mode not in ("CONSTANT", "NEAREST"):
        raise UnsupportedError(f"ImageProjectiveTransform with fill_mode {fill_mode} is not supported")
    out = ints(size, "the size of a projection")
    bounded(out[0] * out[1], "a projection")
    height, width = (b.Shape(image, start=i, end=i + 1) for i in (1, 2))
    # One row of coefficients (a0 a1 a2 b0 b1 b2 c0 c1) for each image, or for all of them.
    c = [b.Reshape(b.Gather(transforms, np.array(i), axis=1), np.array([-1, 1, 1])) for i in range(8)]
    x, y = np.arange(out[1], dtype=np.float32)[None, None], np.arange(out[0], dtype=np.float32)[None, :, None]

    def line(i: int, last: Any) -> Any:
        return b.Add(b.Add(b.Mul(c[i], x), b.Mul(c[i + 1], y)), last)

    depth = line(6, 1.0)
    places = [b.Div(line(i, c[i + 2]), depth) for i in (3, 0)]  # rows, columns
    lasts = [b.Cast(b.Sub(v, 1), to=DType.F32) for v in (height, width)]
    numbers = cast(b, image, DType.F32)
    flat = b.Reshape(numbers, b.Concat(np.array([-1]), b.Shape(numbers, start=3), axis=0))
    owner = b.Range(np.array(0), b.Squeeze(b.Shape(image, start=0, end=1), axes=(0,)), np.array(1))
    base = b.Mul(b.Reshape(owner, np.array([-1, 1, 1])), height)
    outside = b.const(np.zeros((), np.float32)) if fill is None else fill

    def taken(row: Value, column: Value) -> Any:
        inner = [b.Min(b.Max(v, 0.0), last) for v, last in zip((row, column), lasts, strict=True)]
        at = b.Add(b.Mul(b.Add(base, b.Cast(inner[0], to=DType.I64)), width), b.Cast(inner[1], to=DType.I64))
        found = b.Gather(flat, at)
        if fill_mode == "NEAREST":
            return found
        same = [b.Equal(v, i) for v, i in zip((row, column), inner, strict=True)]
        return b.Where(b.Unsqueeze(b.And(*same), axes=(3,)), found, outside)

    if fill_mode == "NEAREST":
        places = [b.Min(b.Max(v, 0.0), last) for v, last in zip(places, lasts, strict=True)]
    if interpolation == "NEAREST":
        y = taken(*(b.Round(v, halves="away") for v in places))
    else:
        top, left = (b.Floor(v) for v in places)
        dy, dx = (b.Unsqueeze(b.Sub(v, f), axes=(3,)) for v, f in zip(places, (top, left), strict=True))
        rows = []
        for row in (top, b.Add(top, 1.0)):
            near, far = taken(row, left), taken(row, b.Add(left, 1.0))
            rows.append(b.Add(b.Mul(near, b.Add(b.Neg(dx), 1.0)), b.Mul(far, dx)))
        y = b.Add(b.Mul(rows[0], b.Add(b.Neg(dy), 1.0)), b.Mul(rows[1], dy))
    return cast(b, y, image.type.dtype)


def _few(count: int, what: str) -> int:
    """A number of nodes that are made one by one."""
    if not 0 < count <= _MAX_NODES:
        raise UnsupportedError(f"{what} of {count} elements is not supported")
    return count


def _patches(b: Builder, x: Value, kernel: Any, strides: Any, rates: Any, padding: str) -> Any:
    """The elements of each window over the axes between the first and the last one, one after another."""
    n = len(kernel)
    _few(int(np.prod(kernel)), "a window")
    sizes = [static_dim(x.type, i + 1, "an image in patches") for i in range(n)]
    pads = same_pads(sizes, kernel, strides, rates) if padding == "SAME" else (0,) * 2 * n
    if any(pads):
        x = b.Pad(x, np.array([0, 0, *(p for pair in zip(pads[:n], pads[n:], strict=True) for p in pair), 0, 0]))
    spans = [(s + pads[i] + pads[n + i] - (kernel[i] - 1) * rates[i] - 1) // strides[i] * strides[i] + 1
             for i, s in enumerate(sizes)]  # fmt: skip
    parts = []
    for tap in np.ndindex(*kernel):
        start = np.array(tap) * np.array(rates)
        parts.append(b.Slice(x, start, start + np.array(spans), np.arange(1, n + 1), np.array(strides)))
    return b.Concat(*parts, axis=n + 1) if len(parts) > 1 else parts[0]


@tf.op("ExtractImagePatches")
def _(b, x, *, ksizes, strides, rates, padding):
    return _patches(b, x, ksizes[1:-1], strides[1:-1], rates[1:-1], padding)


@tf.op("ExtractVolumePatches")
def _(b, x, *, ksizes, strides, padding):
    return _patches(b, x, ksizes[1:-1], strides[1:-1], (1, 1, 1), padding)


# ---- colors


@tf.op("AdjustContrastv2")
def _(b, x, factor):
    n = rank(x, "an image")
    mean = b.ReduceMean(x, axes=(n - 3, n - 2))
    return b.Add(b.Mul(b.Sub(x, mean), cast(b, factor, x.type.dtype)), mean)


def _to_hsv(b: Builder, x: Value) -> Any:
    red, green, blue = b.Split(x, axis=-1, sizes=(1, 1, 1), n_outputs=3)
    value, low = b.ReduceMax(x, axes=(-1,)), b.ReduceMin(x, axes=(-1,))
    span = b.Sub(value, low)
    zero = b.const(np.zeros((), x.type.dtype.numpy))
    saturation = b.Where(b.Greater(value, 0.0), b.Div(span, value), zero)
    unit = b.Div(np.array(1 / 6, x.type.dtype.numpy), span)
    hue = b.Where(
        b.Equal(red, value),
        b.Mul(unit, b.Sub(green, blue)),
        b.Where(
            b.Equal(green, value),
            b.Add(b.Mul(unit, b.Sub(blue, red)), 2 / 6),
            b.Add(b.Mul(unit, b.Sub(red, green)), 4 / 6),
        ),
    )
    hue = b.Where(b.Greater(span, 0.0), hue, zero)
    hue = b.Where(b.Less(hue, 0.0), b.Add(hue, 1.0), hue)
    return hue, saturation, value


def _to_rgb(b: Builder, hue: Value, saturation: Value, value: Value) -> Any:
    turn = b.Mul(hue, 6.0)
    red = b.Sub(b.Abs(b.Sub(turn, 3.0)), 1.0)
    green, blue = (b.Add(b.Neg(b.Abs(b.Sub(turn, at))), 2.0) for at in (2.0, 4.0))
    pure = b.Clip(b.Concat(red, green, blue, axis=-1), min=0.0, max=1.0)
    return b.Mul(b.Add(b.Mul(saturation, b.Sub(pure, 1.0)), 1.0), value)


@tf.op("RGBToHSV")
def _(b, x):
    return b.Concat(*_to_hsv(b, x), axis=-1)


@tf.op("HSVToRGB")
def _(b, x):
    return _to_rgb(b, *b.Split(x, axis=-1, sizes=(1, 1, 1), n_outputs=3))


@tf.op("AdjustHue")
def _(b, x, delta):
    hue, saturation, value = _to_hsv(b, x)
    turned = b.Add(hue, cast(b, delta, x.type.dtype))
    return _to_rgb(b, b.Sub(turned, b.Floor(turned)), saturation, value)


@tf.op("AdjustSaturation")
def _(b, x, scale):
    hue, saturation, value = _to_hsv(b, x)
    return _to_rgb(b, hue, b.Clip(b.Mul(saturation, cast(b, scale, x.type.dtype)), min=0.0, max=1.0), value)


# ---- boxes


def _chosen(b: Builder, boxes: Value, scores: Value, most: Any, iou: Any, least: Any = None) -> Any:
    """Numbers of the boxes[N, 4] that stay, as i64[n]."""
    f32 = [v if v is None or not isinstance(v, Value) else cast(b, v, DType.F32) for v in (iou, least)]
    rows = b.NonMaxSuppression(
        b.Unsqueeze(cast(b, boxes, DType.F32), axes=(0,)), b.Unsqueeze(cast(b, scores, DType.F32), axes=(0, 1)),
        wide(b, most), *f32,
    )  # fmt: skip
    return b.Gather(rows, np.array(2), axis=1)


def _filled(b: Builder, x: Value, most: Value, pad: bool) -> Any:
    """The vector x made as long as `most` says with zeros, if asked for."""
    if not pad:
        return x
    missing = b.Sub(b.Reshape(wide(b, most), np.array([1])), b.Shape(x))
    y = b.Pad(x, b.Concat(np.array([0]), missing, axis=0))
    return b.Reshape(y, b.Reshape(wide(b, most), np.array([1])), allowzero=True)


def _count(b: Builder, x: Value) -> Any:
    return b.Cast(b.Size(x), to=DType.I32)


@tf.op("NonMaxSuppression")
def _(b, boxes, scores, most, *, iou_threshold=0.5):
    return b.Cast(_chosen(b, boxes, scores, most, np.array(iou_threshold, np.float32)), to=DType.I32)


@tf.op("NonMaxSuppressionV2", "NonMaxSuppressionV3")
def _(b, boxes, scores, most, iou, least=None):
    return b.Cast(_chosen(b, boxes, scores, most, iou, least), to=DType.I32)


@tf.op("NonMaxSuppressionV4", outputs=("selected_indices", "valid_outputs"))
def _(b, boxes, scores, most, iou, least, *, pad_to_max_output_size=False):
    chosen = b.Cast(_chosen(b, boxes, scores, most, iou, least), to=DType.I32)
    return _filled(b, chosen, most, pad_to_max_output_size), _count(b, chosen)


@tf.op("NonMaxSuppressionV5", outputs=("selected_indices", "selected_scores", "valid_outputs"))
def _(b, boxes, scores, most, iou, least, sigma, *, pad_to_max_output_size=False):
    softness = float(constant(sigma, "the sigma of soft suppression").reshape(()))
    if softness > 0:
        bound = b.const(np.array(2, np.float32))  # however much they overlap, scores only become lower
        chosen, kept = softly_suppressed(b, boxes, scores, most, bound, least, softness)
    else:
        chosen = _chosen(b, boxes, scores, most, iou, least)
        kept = b.Gather(scores, chosen)
    pad = pad_to_max_output_size
    return (
        _filled(b, b.Cast(chosen, to=DType.I32), most, pad),
        _filled(b, kept, most, pad),
        _count(b, chosen),
    )


@tf.op("NonMaxSuppressionWithOverlaps")
def _(b, overlaps, scores, most, overlap, least):
    """The best one is taken, and what overlaps with it goes, round after round."""
    body = Graph("suppression")
    body.add_param(TensorType(DType.I64, ()), "round")
    body.add_param(TensorType(DType.BOOL, ()), "cond")
    k = Builder(body, origin=b.origin)
    now = body.add_param(scores.type, "scores")
    rows, limit = (body.add_param(v.type, n) for v, n in ((overlaps, "overlaps"), (overlap, "limit")))
    gone = k.const(np.array(-np.inf, np.float32))
    best = k.ArgMax(now, axis=0, keepdims=False)
    is_best = k.Equal(k.Range(np.array(0), k.Size(now), np.array(1)), best)
    after = k.Where(k.Or(is_best, k.Greater(k.Gather(rows, best, axis=1), limit)), gone, now)
    body.outputs = [k.Greater(k.ReduceMax(after, axes=(0,), keepdims=False), gone), after, best]
    none = b.const(np.array(-np.inf, np.float32))
    start = b.Where(b.Greater(scores, least), scores, none)
    some = b.Greater(b.ReduceMax(start, axes=(0,), keepdims=False), none)
    _, places = b.Loop(wide(b, most), some, start, overlaps, overlap, body=body, num_carried=1, n_outputs=2)
    return b.Cast(places, to=DType.I32)


@tf.op("CombinedNonMaxSuppression",
       outputs=("nmsed_boxes", "nmsed_scores", "nmsed_classes", "valid_detections"))  # fmt: skip
def _(b, boxes, scores, each, total, iou, least, *, pad_per_class=False, clip_boxes=True):
    batch, shared = (
        _few(static_dim(boxes.type, 0, "the batch"), "a batch"),
        static_dim(boxes.type, 2, "the classes of boxes") == 1,
    )
    classes, most = static_dim(scores.type, 2, "the classes"), axis_operand(total, "the number of boxes")
    bounded(most, "the result")
    if pad_per_class:
        most = min(most, axis_operand(each, "the number of boxes") * classes)
    results: list[list[Any]] = [[], [], [], []]
    for i in range(batch):
        box, score = (b.Gather(v, np.array(i)) for v in (boxes, scores))  # [N, 1 or C, 4], [N, C]
        by_class = b.Transpose(score, perm=(1, 0))
        corners = b.Transpose(box, perm=(1, 0, 2))
        if shared:
            rows = b.NonMaxSuppression(corners, b.Unsqueeze(by_class, axes=(0,)), wide(b, each), iou, least)
        else:
            rows = b.NonMaxSuppression(corners, b.Unsqueeze(by_class, axes=(1,)), wide(b, each), iou, least)
        kind = b.Gather(rows, np.array(1 if shared else 0), axis=1)
        number = b.Gather(rows, np.array(2), axis=1)
        points = b.GatherND(by_class, b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in (kind, number)), axis=1))
        k = b.Min(b.Shape(points), np.array([most]))
        best, order = b.TopK(points, k, axis=0, n_outputs=2)
        kind, number = b.Gather(kind, order), b.Gather(number, order)
        owner = b.Mul(kind, 0) if shared else kind
        found = b.GatherND(corners, b.Concat(*(b.Unsqueeze(v, axes=(1,)) for v in (owner, number)), axis=1))
        if clip_boxes:
            found = b.Clip(found, min=0.0, max=1.0)
        missing = b.Sub(np.array([most]), k)
        ends = b.Concat(np.array([0]), missing, axis=0)
        parts = (
            b.Reshape(b.Pad(found, b.Concat(ends, np.array([0, 0]), axis=0)), np.array([1, most, 4])),
            b.Reshape(b.Pad(best, ends), np.array([1, most])),
            b.Reshape(b.Pad(b.Cast(kind, to=DType.F32), ends), np.array([1, most])),
            b.Cast(k, to=DType.I32),
        )
        for result, part in zip(results, parts, strict=True):
            result.append(part)
    return tuple(b.Concat(*r, axis=0) if len(r) > 1 else r[0] for r in results)


@tf.op("TFLite_Detection_PostProcess")
def _(b, encodings, scores, anchors, *, max_detections, max_classes_per_detection, num_classes, nms_score_threshold,
      nms_iou_threshold, y_scale, x_scale, h_scale, w_scale, detections_per_class=100, use_regular_nms=False,
      _output_quantized=False, _output_types=(), _support_output_type_float_in_quantized_op=False):  # fmt: skip
    options = Anchors(max_detections, max_classes_per_detection, num_classes, nms_score_threshold, nms_iou_threshold,
                      y_scale, x_scale, h_scale, w_scale, detections_per_class, use_regular_nms)  # fmt: skip
    return detections(b, encodings, scores, anchors, options)
