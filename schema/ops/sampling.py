"""Interpolation at places that are data: GridSample, RoiAlign."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, TensorType
from minnow.schema.registry.dimension import agree, contents, need_rank
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import SPATIAL, Arg, Decoded, Float, Places, WireOp, op

Array = np.ndarray[Any, Any]


@op(traits=SPATIAL)
def GridSample(
    x: Float,
    grid: Float,
    *,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
):
    """x[N, C, spatial...] sampled at the places in grid[N, out..., axes], last spatial axis first, from -1 to 1.

    -1 and 1 are the centers of the outermost elements with `align_corners`, their outer edges without. Outside, the
    image is 0 ("zeros"), its nearest element ("border"), or mirrored at -1 and 1 ("reflection").
    """
    sizes = x.shape[2:]
    places = [_denormalized(grid[..., -1 - i], d, align_corners) for i, d in enumerate(sizes)]
    if mode != "cubic":
        places = [_bring_inside(p, d, padding, align_corners) for p, d in zip(places, sizes, strict=True)]
    reach = {"nearest": range(1), "linear": range(2), "cubic": range(-1, 3)}[mode]
    bases = [np.rint(p) if mode == "nearest" else np.floor(p) for p in places]
    parts = [p.astype(np.float64) - b for p, b in zip(places, bases, strict=True)]
    images = np.moveaxis(x.astype(np.float64), 1, -1)
    y = np.zeros((*grid.shape[:-1], x.shape[1]))
    for offsets in product(reach, repeat=len(sizes)):
        weight = np.ones(grid.shape[:-1])
        for part, k in zip(parts, offsets, strict=True):
            weight = weight * _WEIGHTS[mode](np.abs(part - k))
        at = [b + k for b, k in zip(bases, offsets, strict=True)]
        y += weight[..., None] * _elements(images, at, padding, align_corners)
    return np.moveaxis(y, -1, 1).astype(x.dtype)


def _cubic(d: Array) -> Array:
    a = -0.75
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    return np.where(d <= 1, near, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)


_WEIGHTS: dict[str, Callable[[Array], Array]] = {
    "nearest": np.ones_like,
    "linear": lambda d: 1 - d,
    "cubic": _cubic,
}


def _denormalized(g: Array, n: int, align_corners: bool) -> Array:
    """Places from -1..1 in elements, in the precision of the grid, as runtimes compute them."""
    one, two = g.dtype.type(1), g.dtype.type(2)
    if align_corners:
        return (g + one) / two * g.dtype.type(n - 1)
    return ((g + one) * g.dtype.type(n) - one) / two


def _bring_inside(p: Array, n: int, padding: str, align_corners: bool) -> Array:
    if padding == "zeros":
        return p
    if padding == "reflection":
        p = _reflected(p, n, align_corners)
    return np.clip(p, 0, n - 1)


def _reflected(p: Array, n: int, align_corners: bool) -> Array:
    """Places mirrored at both ends until they are inside."""
    low = p.dtype.type(0 if align_corners else -0.5)
    span = p.dtype.type(n - 1 if align_corners else n)
    if span == 0:
        return np.zeros_like(p)
    away = np.abs(p - low)
    turns = np.floor(away / span)
    rest = away - turns * span
    return np.where(turns % 2 == 0, low + rest, low + span - rest)


def _elements(images: Array, at: list[Array], padding: str, align_corners: bool) -> Array:
    """The elements at whole-numbered places of images[N, spatial..., C]; outside by the padding."""
    sizes = images.shape[1:-1]
    inside = np.ones(at[0].shape, bool)
    index = []
    for p, n in zip(at, sizes, strict=True):
        inside &= (p >= 0) & (p <= n - 1)
        p = _reflected(p, n, align_corners) if padding == "reflection" else p
        # What is not a number, or too large for an integer, is outside, wherever it is clipped to.
        index.append(np.clip(np.nan_to_num(p, posinf=n, neginf=-1), 0, n - 1).astype(np.int64))
    batch = np.arange(len(images)).reshape(-1, *(1,) * (at[0].ndim - 1))
    places: Any = (batch, *index)
    values = images[places]
    return np.where(inside[..., None], values, 0) if padding == "zeros" else values


@op(traits=SPATIAL)
def RoiAlign(
    x: Float,
    rois: Float,
    batch_indices: Places,
    *,
    mode: Literal["avg", "max"] = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
    coordinate_mode: Literal["half_pixel", "output_half_pixel"] = "half_pixel",
):
    """Regions (x1, y1, x2, y2) = rois[R, 4] of the images x[N, C, H, W], resampled to [R, C, height, width].

    Each output is the mean (or the largest) of sampling_ratio x sampling_ratio bilinear samples (0: as many as the bin
    has elements) within its bin; batch_indices[R] names the images. `spatial_scale` takes the regions to elements of x;
    "output_half_pixel" does not shift them by half an element, and makes them one element large at least. For "max",
    a sample is the largest of its four weighted elements.
    """
    f = x.dtype.type
    shift = f(0.5 if coordinate_mode == "half_pixel" else 0)
    out = np.zeros((len(rois), x.shape[1], output_height, output_width), x.dtype)
    for r, (roi, b) in enumerate(zip(rois.astype(x.dtype), batch_indices, strict=True)):
        start = roi[[1, 0]] * f(spatial_scale) - shift
        length = roi[[3, 2]] * f(spatial_scale) - shift - start
        if coordinate_mode != "half_pixel":
            length = np.maximum(length, f(1))
        rows, columns = (
            _taps(start[i], length[i], n, x.shape[2 + i], sampling_ratio)
            for i, n in enumerate((output_height, output_width))
        )
        image = x[int(b)].astype(np.float64)
        total = None
        for (y, wy), (z, wz) in product(rows, columns):
            part = image[:, y[..., None, None], z] * (wy[..., None, None] * wz)
            total = part if total is None else np.maximum(total, part) if mode == "max" else total + part
        assert total is not None
        # Axes: channel, output row, sample in it, output column, sample in it.
        if total.shape[2] and total.shape[4]:
            out[r] = total.max((2, 4)) if mode == "max" else total.mean((2, 4))
    return out


def _taps(start: Any, length: Any, n: int, size: int, ratio: int) -> list[tuple[Array, Array]]:
    """The lower and the upper neighbor of each sample along one axis, [output, sample], and their weights."""
    f = type(start)
    bin = length / f(n)
    count = ratio if ratio > 0 else max(int(np.ceil(bin)), 0)
    at = start + np.arange(n, dtype=f)[:, None] * bin + (np.arange(count, dtype=f) + f(0.5)) * bin / f(max(count, 1))
    inside = (at >= -1) & (at <= size)
    at = np.clip(np.nan_to_num(at), 0, size - 1)
    low = np.minimum(at.astype(np.int64), size - 1)
    part = (at - low).astype(np.float64)
    return [(low, (1 - part) * inside), (np.minimum(low + 1, size - 1), part * inside)]


@op(traits=SPATIAL)
def MaxRoiPool(x: Float, rois: Float, *, height: int, width: int, scale: float = 1.0):
    """The largest elements in height x width bins of regions of the images x[N, C, H, W]: [R, C, height, width].

    A row of rois[R, 5] is an image and the corners x1, y1, x2, y2, which `scale` takes to elements, rounded halves away
    from zero, both ends belonging to the region. Bins overlap where they meet within an element; one that is outside
    the image gives 0.
    """
    f = np.float32
    out = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    for r, (image, *corners) in enumerate(rois.astype(f)):
        scaled = np.array(corners, f) * f(scale)
        left, top, right, bottom = (np.trunc(np.abs(scaled) + f(0.5)) * np.sign(scaled)).astype(f)
        rows, columns = (
            _bins(first, last, n, size)
            for first, last, n, size in ((top, bottom, height, x.shape[2]), (left, right, width, x.shape[3]))
        )
        for (i, h), (j, w) in product(enumerate(rows), enumerate(columns)):
            part = x[int(image), :, h, w]
            if part.size:
                out[r, :, i, j] = part.max((1, 2))
    return out


def _bins(first: Any, last: Any, n: int, size: int) -> list[slice]:
    """The elements of each of n bins along an axis."""
    step = max(last - first + np.float32(1), np.float32(1)) / np.float32(n)
    ends = np.arange(n + 1, dtype=np.float32) * step
    starts, stops = (np.clip(e + first, 0, size).astype(int) for e in (np.floor(ends[:-1]), np.ceil(ends[1:])))
    return [slice(int(a), int(b)) for a, b in zip(starts, stops, strict=True)]


# ---- types -------------------------------------------------------------------------------------------------------


@GridSample.shape
def _(x: Arg, grid: Arg, mode: str, padding: str, align_corners: bool) -> TensorType:
    if x.shape is None and grid.shape is None:
        return x.type
    rank = len(x.shape or grid.shape or ())
    if rank < 3:
        raise ModelError(f"the input {x.type} has no spatial axes")
    need_rank(x, rank, "the input")
    need_rank(grid, rank, "the grid")
    dims, places = x.shape or (UNKNOWN,) * rank, grid.shape or (UNKNOWN,) * rank
    agree([places[-1], rank - 2], "the last axis of the grid")
    if grid.shape is not None and 0 in dims[2:] and 0 not in places[1:-1]:
        raise ModelError(f"cannot sample {x.type}", why="it has no elements")
    return x.type.with_shape((agree([dims[0], places[0]], "the batch"), dims[1], *places[1:-1]))


@RoiAlign.shape
def _(x: Arg, rois: Arg, batch_indices: Arg, **attrs: Any) -> TensorType:
    need_rank(x, 4, "the input")
    need_rank(rois, 2, "rois")
    need_rank(batch_indices, 1, "batch_indices")
    if rois.dtype != x.dtype:
        raise ModelError(f"rois has the type {rois.dtype}, the input {x.dtype}: they must be the same")
    if attrs["output_height"] < 1 or attrs["output_width"] < 1 or attrs["sampling_ratio"] < 0:
        raise ModelError("output_height and output_width must be positive, sampling_ratio not negative")
    counts = []
    if rois.shape is not None:
        agree([rois.shape[1], 4], "the last axis of rois")
        counts.append(rois.shape[0])
    if batch_indices.shape is not None:
        counts.append(batch_indices.shape[0])
    n = agree(counts, "rois and batch_indices") if counts else UNKNOWN
    images, channels = (UNKNOWN, UNKNOWN) if x.shape is None else x.shape[:2]
    named = contents(batch_indices)
    if named and isinstance(images, int) and not 0 <= min(named) <= max(named) < images:
        raise ModelError(f"batch_indices names an image that is not within 0..{images - 1}")
    return x.type.with_shape((n, channels, attrs["output_height"], attrs["output_width"]))


@MaxRoiPool.shape
def _(x: Arg, rois: Arg, *, height: int, width: int, scale: float) -> TensorType:
    need_rank(x, 4, "the input")
    need_rank(rois, 2, "rois")
    if rois.dtype != x.dtype:
        raise ModelError(f"rois has the type {rois.dtype}, the input {x.dtype}: they must be the same")
    if min(height, width) < 1:
        raise ModelError(f"the output has {height} x {width} bins, it needs 1 x 1 or more")
    if rois.shape is not None:
        agree([rois.shape[1], 5], "the last axis of rois")
    return x.type.with_shape(
        (UNKNOWN if rois.shape is None else rois.shape[0], UNKNOWN if x.shape is None else x.shape[1], height, width)
    )


# ---- encoding ----------------------------------------------------------------------------------------------------

_MODES = {"linear": "BILINEAR", "nearest": "NEAREST"}
_PADDINGS = {"zeros": "ZEROS", "border": "CLAMP"}


@GridSample.encode("GridSample")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    # The format knows no cubic mode, and its runtimes mirror at other places.
    if attrs["mode"] not in _MODES or attrs["padding"] == "reflection":
        return None
    main = {
        "mode": _MODES[attrs["mode"]],
        "paddingMode": _PADDINGS[attrs["padding"]],
        "alignCorners": attrs["align_corners"],
    }
    return WireOp("GridSample", "GridSample", main, node.inputs)


@GridSample.decode
def _(wire: WireOp) -> Decoded:
    mode = {code: name for name, code in _MODES.items()}.get(wire.field("mode", "BILINEAR"))
    padding = {code: name for name, code in _PADDINGS.items()}.get(wire.field("paddingMode", "ZEROS"))
    if mode is None or padding is None or wire.field("backward", False):
        return None
    return wire.inputs, {"mode": mode, "padding": padding, "align_corners": wire.field("alignCorners", False)}


@RoiAlign.encode("ROIAlign")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    # To runtimes of the format "max" is the largest sample, to ONNX the largest weighted element.
    if attrs["mode"] != "avg":
        return None
    main = {
        "pooledHeight": attrs["output_height"],
        "pooledWidth": attrs["output_width"],
        "spatialScale": attrs["spatial_scale"],
        "samplingRatio": attrs["sampling_ratio"],
        "aligned": attrs["coordinate_mode"] == "half_pixel",
        "poolType": "AVEPOOL",
    }
    return WireOp("ROIAlign", "RoiParameters", main, node.inputs)


@RoiAlign.decode
def _(wire: WireOp) -> Decoded:
    if len(wire.inputs) != 3 or wire.field("outputGrad", False) or wire.field("poolType", "AVEPOOL") != "AVEPOOL":
        return None
    return wire.inputs, {
        "output_height": wire.field("pooledHeight", 0),
        "output_width": wire.field("pooledWidth", 0),
        "spatial_scale": wire.field("spatialScale", 0.0),
        "sampling_ratio": max(wire.field("samplingRatio", -1), 0),
        "coordinate_mode": "half_pixel" if wire.field("aligned", False) else "output_half_pixel",
    }


@MaxRoiPool.encode("ROIPooling")
def _(node: Node) -> WireOp | None:
    if node.input(0).type.dtype is not DType.F32:
        return None
    attrs = bound(node)
    main = {"pooledHeight": attrs["height"], "pooledWidth": attrs["width"], "spatialScale": attrs["scale"]}
    return WireOp("ROIPooling", "RoiParameters", main, node.inputs)


@MaxRoiPool.decode
def _(wire: WireOp) -> Decoded:
    if len(wire.inputs) != 2 or wire.field("outputGrad", False):
        return None
    sizes = {"height": wire.field("pooledHeight", 0), "width": wire.field("pooledWidth", 0)}
    return wire.inputs, {**sizes, "scale": wire.field("spatialScale", 0.0)}


# ---- samples -----------------------------------------------------------------------------------------------------


@GridSample.samples
def _(rng):
    def grid(*shape):
        return rng.uniform(-1.4, 1.4, shape).astype(np.float32)

    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for align_corners in (False, True):
                attrs = {"mode": mode, "padding": padding, "align_corners": align_corners}
                yield ((1, 3, 5, 7), grid(1, 4, 3, 2)), attrs
    yield ((2, 17, 4, 4), grid(2, 5, 5, 2)), {}
    yield ((1, 2, 1, 5), grid(1, 3, 3, 2)), {"padding": "reflection", "align_corners": True}
    yield ((1, 2, 3, 4), grid(1, 0, 3, 2)), {}
    yield ((1, 1, 3, 3), np.array([[[[-1, -1], [1, 1], [0, 0], [-5, 9]]]], np.float32)), {"align_corners": True}
    yield ((1, 2, 3, 4, 5), grid(1, 2, 3, 2, 3)), {"padding": "border"}
    yield ((1, 2, 3, 4, 5), grid(1, 2, 3, 2, 3)), {"mode": "nearest", "align_corners": True}


@RoiAlign.samples
def _(rng):
    def rois(n):
        start = rng.uniform(-1, 6, (n, 2))
        return np.concatenate([start, start + rng.uniform(1, 7, (n, 2))], 1).astype(np.float32)

    for mode in ("avg", "max"):
        for coordinates in ("half_pixel", "output_half_pixel"):
            attrs = {"mode": mode, "coordinate_mode": coordinates}
            yield ((2, 3, 9, 11), rois(3), np.array([0, 1, 1])), {**attrs, "output_height": 3, "output_width": 2}
            yield ((1, 17, 7, 5), rois(2), np.array([0, 0])), {**attrs, "sampling_ratio": 2, "spatial_scale": 0.5,
                                                                "output_height": 2, "output_width": 3}  # fmt: skip
    yield ((1, 2, 5, 5), np.zeros((0, 4), np.float32), np.zeros(0, np.int64)), {}
    yield ((1, 16, 8, 8), rois(1), np.array([0])), {"output_height": 7, "output_width": 7, "sampling_ratio": 3}


@MaxRoiPool.samples
def _(rng):
    def rois(n, images, span):
        start = rng.uniform(-2, span * 0.7, (n, 2))
        corners = np.concatenate([start, start + rng.uniform(-2, span * 0.7, (n, 2))], 1)
        return np.concatenate([rng.integers(0, images, (n, 1)), corners], 1).astype(np.float32)

    yield ((2, 3, 9, 11), rois(5, 2, 10)), {"height": 3, "width": 2}
    yield ((1, 17, 7, 5), rois(3, 1, 12)), {"height": 2, "width": 3, "scale": 0.5}
    yield ((1, 2, 5, 5), np.zeros((0, 5), np.float32)), {"height": 1, "width": 1}
    yield ((1, 2, 6, 6), np.array([[0, 0, 0, 5, 5], [0, 9, 9, 12, 12], [0, 2.5, 1.5, 3.5, 4.5]], np.float32)), {
        "height": 7, "width": 4}  # fmt: skip
    yield ((3, 1, 4, 4), rois(4, 3, 4)), {"height": 1, "width": 1, "scale": 1.25}
