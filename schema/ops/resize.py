"""Interpolation on a regular grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim, DType, Node, TensorType
from minnow.schema.registry.dimension import axes_of, contents
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import SPATIAL, Arg, Decoded, Float, Numeric, Sizes, WireOp, op

Array = np.ndarray[Any, Any]
CoordinateMode = Literal[
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_half_pixel_for_nn",
    "tf_crop_and_resize",
]
NearestMode = Literal["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]


@op(traits=SPATIAL)
def Resize(
    x: Numeric,
    roi: Float | None = None,
    scales: Float | None = None,
    sizes: Sizes | None = None,
    *,
    mode: Literal["nearest", "linear", "cubic"] = "nearest",
    coordinate_mode: CoordinateMode = "half_pixel",
    nearest_mode: NearestMode = "round_prefer_floor",
    cubic_coeff: float = -0.75,
    exclude_outside: bool = False,
    extrapolation_value: float = 0.0,
    antialias: bool = False,
    keep_aspect: Literal["stretch", "not_larger", "not_smaller"] = "stretch",
    axes: tuple[int, ...] | None = None,
):
    """x at another resolution: each of the `axes` (default: all) interpolated at new places, one axis after another.

    Either `scales` or `sizes` gives the new sizes, one number per axis; with scales a new size is floor(size * scale),
    computed in float32. `coordinate_mode` says which place of x an output index stands for; places outside take the
    nearest element, except in "tf_crop_and_resize", where `roi` holds normalized starts, then ends, and the outside is
    `extrapolation_value`. `antialias` widens the filter where x shrinks, `exclude_outside` gives elements outside no
    weight. `keep_aspect` makes all scales the smallest or the largest one that `sizes` asks for.
    """
    chosen = tuple(range(x.ndim)) if axes is None else axes_of(axes, x.ndim)
    wanted = None if sizes is None or not sizes.size else tuple(int(s) for s in sizes)
    factors = None if wanted is not None or scales is None else scales
    rows = _dims([x.shape[a] for a in chosen], factors, wanted, keep_aspect)
    y = x if mode == "nearest" else x.astype(np.float64)
    outside = np.zeros((1,) * x.ndim, bool)
    for i, (axis, (size, scale)) in enumerate(zip(chosen, rows, strict=True)):
        crop = (0.0, 1.0) if roi is None or not roi.size else (roi[i], roi[i + len(chosen)])
        n = x.shape[axis]
        places = _places(coordinate_mode, n, int(size), scale, crop)
        if coordinate_mode == "tf_crop_and_resize":
            beyond = (places < 0) | (places > n - 1)
            outside = outside | beyond.reshape([-1 if a == axis else 1 for a in range(x.ndim)])
        if mode == "nearest":
            y = np.take(y, np.clip(_ROUND[nearest_mode](places), 0, n - 1).astype(np.int64), axis)
        elif size != n or not np.array_equal(places, np.arange(n)):
            narrowing = float(scale) if antialias and scale < 1 else 1.0
            weights = _weights(places, n, mode, narrowing, cubic_coeff, exclude_outside)
            y = np.moveaxis(np.tensordot(y, weights, (axis, 1)), -1, axis)
    y = np.where(outside, np.asarray(extrapolation_value, y.dtype), y) if outside.any() else y
    return y.astype(x.dtype)


# The half is added in float64: in float32 a place just below a half could be rounded onto it. What float32 has made a
# little less than a half prefers the upper element all the same; so it is in onnxruntime.
_ROUND: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda p: np.ceil(p.astype(np.float64) - 0.5),
    "round_prefer_ceil": lambda p: np.floor(p.astype(np.float64) + 0.500001),
    "floor": np.floor,
    "ceil": np.ceil,
}


def _dims(
    dims: Sequence[int], scales: Array | None, sizes: Sequence[int] | None, keep_aspect: str
) -> list[tuple[int, np.float32]]:
    """New size and scale of each resized axis. Float32, as all runtimes compute it: 10 * 0.7f is 7, not 6."""
    if sizes is None:
        return [(int(np.float32(d) * np.float32(s)), np.float32(s)) for d, s in zip(dims, scales, strict=True)]  # type: ignore[arg-type]
    ratios = [np.float32(s) / np.float32(d) for d, s in zip(dims, sizes, strict=True)]
    if keep_aspect == "stretch":
        return list(zip(sizes, ratios, strict=True))
    ratio = min(ratios) if keep_aspect == "not_larger" else max(ratios)
    return [(int(np.floor(ratio * np.float32(d) + np.float32(0.5))), ratio) for d in dims]


def _places(mode: str, n: int, out: int, scale: np.float32, crop: tuple[Any, Any]) -> Array:
    """For each output index the place in the input it stands for, in float32 as runtimes compute it."""
    i = np.arange(out, dtype=np.float32)
    half = np.float32(0.5)
    if mode == "align_corners":
        # Of whole elements, as the definition says and as PyTorch computes what it exports with scales; the reference
        # implementation takes the exact n * scale for the size of the result.
        return i * np.float32(n - 1) / np.float32(out - 1) if out > 1 else np.zeros_like(i)
    if mode == "asymmetric":
        return i / scale
    if mode == "tf_half_pixel_for_nn":
        return (i + half) / scale
    if mode == "tf_crop_and_resize":
        start, end = (np.float32(c) for c in crop)
        if out > 1:
            return start * np.float32(n - 1) + i * (end - start) * np.float32(n - 1) / np.float32(out - 1)
        return np.full_like(i, half * (start + end) * np.float32(n - 1))
    if mode == "pytorch_half_pixel" and out == 1:
        return np.zeros_like(i)
    places = (i + half) / scale
    if mode == "half_pixel_symmetric":
        # The exact size was rounded; half of what is missing goes to each end.
        places = np.float32(n) * half * (1 - np.float32(out) / (scale * np.float32(n))) + places
    return places - half


def _weights(places: Array, n: int, mode: str, scale: float, a: float, exclude_outside: bool) -> Array:
    """Interpolation as a matrix [out, n]; a `scale` below 1 widens the filter."""
    reach = 1 if mode == "linear" else 2
    base = np.floor(places).astype(np.int64)
    first = int(np.floor(-reach / scale)) + 1
    taps = np.arange(first, 2 - first)
    at = base[:, None] + taps
    distance = np.abs((places[:, None].astype(np.float64) - at) * scale)
    if mode == "linear":
        w = np.maximum(1 - distance, 0)
    else:
        near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
        far = ((distance - 5) * distance + 8) * distance * a - 4 * a
        w = np.where(distance <= 1, near, np.where(distance < 2, far, 0))
    if exclude_outside:
        w = np.where((at < 0) | (at >= n), 0, w)
    if exclude_outside or scale != 1:
        w = w / w.sum(1, keepdims=True)
    matrix = np.zeros((len(places), n))
    np.add.at(matrix, (np.arange(len(places))[:, None], np.clip(at, 0, n - 1)), w)
    return matrix


def _given(arg: Arg | None) -> Arg | None:
    """The operand, None when it is left out by being empty."""
    return None if arg is None or arg.shape == (0,) else arg


def computes_between(node: Node) -> bool:
    """Whether a Resize gives other numbers than those of x: between its elements, or outside of it."""
    return node.attrs.get("mode", "nearest") != "nearest" or node.attrs.get("coordinate_mode") == "tf_crop_and_resize"


@Resize.shape
def _(x: Arg, roi: Arg | None, scales: Arg | None, sizes: Arg | None, **attrs: Any) -> TensorType:
    scales, sizes = _given(scales), _given(sizes)
    if (scales is None) == (sizes is None):
        raise ModelError("Resize needs either scales or sizes")
    if attrs["coordinate_mode"] == "tf_crop_and_resize" and _given(roi) is None:
        raise ModelError("tf_crop_and_resize needs roi")
    if x.shape is None:
        return x.type
    axes = range(len(x.shape)) if attrs["axes"] is None else axes_of(attrs["axes"], len(x.shape))
    operand = sizes or scales
    assert operand is not None
    if operand.shape is not None and operand.shape[0] not in (len(axes), UNKNOWN) and isinstance(operand.shape[0], int):
        raise ModelError(f"scales or sizes has {operand.shape[0]} numbers for {len(axes)} axes")
    dims: list[Dim] = list(x.shape)
    wanted, factors = contents(sizes), None if scales is None else scales.value
    if (wanted is not None and min(wanted, default=1) < 1) or (factors is not None and not np.all(factors > 0)):
        raise ModelError(f"cannot resize {x.type}", why="scales must be positive, sizes not negative")
    inner = [x.shape[a] for a in axes]
    numbers = [d for d in inner if isinstance(d, int)]
    if wanted is None and factors is None:
        out: Sequence[Dim] = [UNKNOWN] * len(inner)
    elif len(numbers) == len(inner):
        # An empty axis has no scale; whatever is asked for, it has to stay empty.
        if wanted is not None and 0 in numbers:
            out = wanted
        else:
            out = [size for size, _ in _dims(numbers, factors, wanted, attrs["keep_aspect"])]
    elif wanted is not None:
        out = wanted if attrs["keep_aspect"] == "stretch" else [UNKNOWN] * len(inner)
    else:
        out = [
            _dims([d], np.asarray([s]), None, "stretch")[0][0] if isinstance(d, int) else d if s == 1 else UNKNOWN
            for d, s in zip(inner, factors, strict=True)  # type: ignore[arg-type]
        ]
    for a, n in zip(axes, out, strict=True):
        if dims[a] == 0 and isinstance(n, int) and n:
            raise ModelError(f"cannot resize axis {a} of {x.type}", why="it has no elements")
        dims[a] = n
    return x.type.with_shape(dims)


# ---- encoding ----------------------------------------------------------------------------------------------------

_CTM = {
    "align_corners": "AlignCorners",
    "half_pixel": "HalfPixels",
    "pytorch_half_pixel": "PytorchHalfPixels",
    "asymmetric": "Asymmetric",
    "tf_half_pixel_for_nn": "TensorflowHalfPixels",
}
_TYPES = {("nearest", "floor"): 1, ("linear", ""): 2, ("cubic", ""): 3, ("nearest", "round_prefer_floor"): 4}


def _expressible(node: Node, attrs: dict[str, Any]) -> bool:
    """The format has this interpolation, and its runtimes compute it right."""
    x = node.input(0).type
    plain = all(attrs[k] == default for k, default in (
        ("exclude_outside", False), ("antialias", False), ("keep_aspect", "stretch"), ("axes", None),
    ))  # fmt: skip
    if not plain or x.rank != 4 or x.dtype is not DType.F32 or attrs["coordinate_mode"] not in _CTM:
        return False
    if attrs["mode"] == "cubic":
        # The coefficient in the file is ignored, and with half pixels the first sample comes out wrong.
        return attrs["cubic_coeff"] == -0.75 and attrs["coordinate_mode"] in ("align_corners", "asymmetric")
    return attrs["mode"] == "linear" or attrs["nearest_mode"] in ("floor", "round_prefer_floor")


def _spatial_only(node: Node) -> bool:
    """Batch and channels stay as they are."""
    operand = node.input(3) if node.has_input(3) else node.input(2)
    array, dims = operand.array, node.input(0).type.shape
    if array is None or dims is None or array.size != 4:
        return False
    kept = (1, 1) if operand.type.dtype.is_float else dims[:2]
    return tuple(array[:2].tolist()) == tuple(kept)


@Resize.encode("Interp")
def _(node: Node) -> WireOp | None:
    attrs = bound(node)
    if not _expressible(node, attrs) or not _spatial_only(node):
        return None
    mode, ctm = attrs["mode"], _CTM[attrs["coordinate_mode"]]
    main = {
        "resizeType": _TYPES[mode, attrs["nearest_mode"] if mode == "nearest" else ""],
        "ctm": ctm,
        # Older runtimes know only these two.
        "alignCorners": ctm == "AlignCorners",
        "halfPixelCenters": ctm in ("HalfPixels", "PytorchHalfPixels"),
    }
    return WireOp("Interp", "Interp", main, (node.input(0), node.inputs[-1]), format="NCHW")


@Resize.decode
def _(wire: WireOp) -> Decoded:
    modes = {code: key for key, code in _TYPES.items()}
    kind = wire.field("resizeType", 0)
    if kind not in modes:
        return None
    mode, nearest = modes[kind]
    ctm = wire.field("ctm", "NotSet")
    if ctm == "NotSet":
        half = wire.field("halfPixelCenters", False) and kind != 1
        ctm = "HalfPixels" if half else "AlignCorners" if wire.field("alignCorners", False) else "Asymmetric"
    names = {code: name for name, code in _CTM.items()}
    if ctm not in names:
        return None
    attrs = {"mode": mode, "coordinate_mode": names[ctm], "nearest_mode": nearest or "round_prefer_floor"}
    scales = sizes = None
    x = wire.inputs[0]
    if len(wire.inputs) > 1:
        operand = wire.inputs[1]
        if operand.type.shape is None or operand.type.shape[0] != 4:
            return None
        scales, sizes = (operand, None) if operand.type.dtype.is_float else (None, operand)
    elif wire.field("heightScale", 0) > 0 and wire.field("widthScale", 0) > 0 and not _has_size(wire):
        scales = np.array([1, 1, wire.field("heightScale"), wire.field("widthScale")], np.float32)
    else:
        dims = x.type.shape
        if dims is None or len(dims) != 4 or not all(isinstance(d, int) for d in dims[:2]):
            return None
        sizes = np.array([*dims[:2], wire.field("outputHeight", 0), wire.field("outputWidth", 0)], np.int32)
    return (x, None, scales, sizes) if sizes is not None else (x, None, scales), attrs


def _has_size(wire: WireOp) -> bool:
    """Whether the parameters name a size, which goes before factors."""
    return min(wire.field("outputHeight", 0), wire.field("outputWidth", 0)) > 0


# ---- samples -----------------------------------------------------------------------------------------------------


@Resize.samples
def _(rng):
    def by(x, *factors, **attrs):
        return (x, None, np.array(factors, np.float32)), attrs

    def to(x, *sizes, **attrs):
        return (x, None, None, np.array(sizes, np.int64)), attrs

    image = (1, 3, 5, 7)
    modes = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric")
    for mode in ("nearest", "linear", "cubic"):
        for coordinates in modes:
            both = {"mode": mode, "coordinate_mode": coordinates}
            yield by(image, 1, 1, 2, 3, **both)
            yield by(image, 1, 1, 0.6, 0.7, **both)
            yield to((1, 17, 4, 6), 1, 17, 9, 5, **both)
    for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for coordinates in modes[:4]:
            both = {"nearest_mode": nearest, "coordinate_mode": coordinates}
            yield by(image, 1, 1, 2, 2, **both)
            yield to(image, 1, 3, 3, 4, **both)
    yield to((2, 16, 3, 3), 2, 16, 6, 6, mode="linear")
    yield to((1, 2, 3, 3), 1, 2, 1, 1, mode="linear", coordinate_mode="pytorch_half_pixel")
    yield to((1, 2, 3, 3), 1, 2, 1, 5, mode="linear", coordinate_mode="align_corners")
    yield by(image, 1, 1, 1, 1, mode="cubic")
    yield by((1, 1, 10, 10), 1, 1, 0.7, 0.3, mode="linear")
    yield by(image, 1, 1, 2, 2, mode="cubic", cubic_coeff=-0.5)
    yield by(image, 1, 1, 0.8, 1.5, mode="cubic", exclude_outside=True)
    for mode in ("linear", "cubic"):
        yield to((1, 2, 9, 11), 1, 2, 4, 5, mode=mode, antialias=True)
        yield by((1, 1, 8, 8), 1, 1, 0.6, 2, mode=mode, antialias=True)
    yield to(image, 10, 4, keep_aspect="not_larger", axes=(2, 3), mode="linear")
    yield to(image, 10, 4, keep_aspect="not_smaller", axes=(2, 3))
    yield by((2, 3, 4), 2, axes=(1,), mode="linear")
    yield by((5,), 3, mode="linear")
    yield to((1, 2, 3, 4, 5), 1, 2, 6, 5, 4, mode="linear")
    roi = np.array([0, 0, 0.2, -0.1, 1, 1, 0.8, 1.2], np.float32)
    sizes = np.array([1, 3, 4, 6], np.int64)
    crop = {"coordinate_mode": "tf_crop_and_resize", "extrapolation_value": 9.5}
    for mode in ("nearest", "linear", "cubic"):
        yield (image, roi, None, sizes), {"mode": mode, **crop}
    yield ((rng.integers(0, 99, image).astype(np.uint8)), None, None, np.array([1, 3, 8, 4])), {}
    yield ((0, 3, 4, 4), None, np.array([1, 1, 2, 2], np.float32)), {}
