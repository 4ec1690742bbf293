"""Interpolation of images, and sampling at computed positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minnow.converter.base import Call
from minnow.converter.decomposition.grid import affine_grid
from minnow.converter.operand import rank, regroup
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.symbolic.dimension import Size, dimensions, known, scalar, size_of, sizes_of, vector_of
from minnow.converter.torch.symbolic.tensor import Number
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import DType, Value
from minnow.schema.ops import Builder

Array = np.ndarray[Any, Any]
_LONGEST = 1 << 20


@dataclass(frozen=True)
class _Filter:
    """How an image is interpolated.

    Attributes:
        mode: of `Resize`; "" for what it has not.
        reach: how far the filter reaches, in elements.
        weight: of an element at a distance.
        antialias: the filter is widened where the image shrinks, and only elements inside count.
    """

    mode: str
    reach: float
    weight: Callable[[Array], Array]
    antialias: bool = False
    cubic_coeff: float = -0.75


def _cubic(a: float) -> Callable[[Array], Array]:
    def weight(d: Array) -> Array:
        near, far = ((a + 2) * d - (a + 3)) * d**2 + 1, ((d - 5) * d + 8) * d * a - 4 * a
        return np.where(d < 1, near, np.where(d < 2, far, 0))

    return weight


def _triangle(d: Array) -> Array:
    return np.maximum(1 - d, 0)


def _lanczos(d: Array) -> Array:
    return np.where(d < 3, np.sinc(d) * np.sinc(d / 3), 0)


_LINEAR = _Filter("linear", 1, _triangle)
_CUBIC = _Filter("cubic", 2, _cubic(-0.75))
_FILTERS = {
    "upsample_linear1d": _LINEAR,
    "upsample_bilinear2d": _LINEAR,
    "upsample_trilinear3d": _LINEAR,
    "upsample_bicubic2d": _CUBIC,
    "_upsample_bilinear2d_aa": _Filter("linear", 1, _triangle, True),
    "_upsample_bicubic2d_aa": _Filter("cubic", 2, _cubic(-0.5), True, -0.5),
    "_upsample_lanczos2d_aa": _Filter("", 3, _lanczos, True),
}


def _steps(size: int, out: int, align_corners: bool, factor: float | None) -> float:
    """How many elements of the image one of the result is wide."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return 1 / factor if factor else size / out


def _matrix(f: _Filter, size: int, out: int, align_corners: bool, factor: float | None) -> Array:
    """Interpolation as a matrix [out, size]."""
    step = _steps(size, out, align_corners, factor)
    i = np.arange(out)
    if f.antialias:
        wide = max(step, 1.0)
        center = step * (i + 0.5)
        first = np.maximum((center - f.reach * wide + 0.5).astype(int), 0)
        last = np.minimum((center + f.reach * wide + 0.5).astype(int), size)
        at = np.arange(size)
        weights = f.weight(np.abs(at + 0.5 - center[:, None]) / wide)
        weights = np.where((at >= first[:, None]) & (at < last[:, None]), weights, 0)
        return np.asarray(weights / weights.sum(1, keepdims=True))
    places = step * i if align_corners else step * (i + 0.5) - 0.5
    if f.mode == "linear":
        places = np.maximum(places, 0)
    matrix = np.zeros((out, size))
    base = np.floor(places).astype(int)
    for tap in range(1 - int(f.reach), 1 + int(f.reach)):
        np.add.at(matrix, (i, np.clip(base + tap, 0, size - 1)), f.weight(np.abs(places - base - tap)))
    return matrix


def _along(b: Builder, x: Value, axis: int, matrix: Array) -> Any:
    """x with an axis multiplied by a matrix."""
    n, sizes = rank(x, "the image"), sizes_of(b, x)
    weights = b.const(matrix.astype(x.type.dtype.numpy))
    if axis == n - 1:
        return b.MatMul(x, weights, transpose_b=True)
    flat = x if axis == n - 2 else regroup(b, x, dimensions(b, [*sizes[: axis + 1], -1]))
    y = b.MatMul(weights, flat)
    return y if axis == n - 2 else regroup(b, y, dimensions(b, [*sizes[:axis], len(matrix), *sizes[axis + 1 :]]))


def _interpolated(b: Builder, x: Value, f: _Filter, out: list[Size], align_corners: bool,
                  factors: Sequence[float | None]) -> Any:  # fmt: skip
    if not x.type.dtype.is_float:
        raise UnsupportedError(f"interpolation of {x.type.dtype} is not supported: PyTorch rounds it in its own way",
                               hint="cast the image to a float type first")  # fmt: skip
    sizes = sizes_of(b, x)
    given = [v for v in factors if v]
    exact = not given or align_corners or _agrees(sizes[2:], out, factors)
    if f.mode and exact and not (f.antialias and align_corners):
        attrs = {"mode": f.mode, "coordinate_mode": "align_corners" if align_corners else "half_pixel",
                 "cubic_coeff": f.cubic_coeff, "antialias": f.antialias, "exclude_outside": f.antialias}  # fmt: skip
        if given and not align_corners:
            scales = np.array([1, 1, *(v or 1.0 for v in factors)], np.float32)
            return b.Resize(x, None, scales, None, **attrs)
        return b.Resize(x, None, None, vector_of(b, [*sizes[:2], *out]), **attrs)
    dtype = x.type.dtype
    y = b.Cast(x, to=DType.F32) if dtype.size < 4 else x
    for axis in range(len(out)):
        size, wanted = known(sizes[2 + axis], "the image"), known(out[axis], "the size")
        y = _along(b, y, 2 + axis, _matrix(f, size, wanted, align_corners, factors[axis]))
    return y if y.type.dtype is dtype else b.Cast(y, to=dtype)


def _agrees(sizes: Sequence[Size], out: Sequence[Size], factors: Sequence[float | None]) -> bool:
    """The scales give these sizes in f32, too, in which `Resize` computes them, and are for all axes."""
    for size, wanted, factor in zip(sizes, out, factors, strict=True):
        if not factor or np.float64(np.float32(factor)) != factor:
            return False
        if isinstance(size, int) and int(np.float32(size) * np.float32(factor)) != wanted:
            return False
    return True


def _nearest(b: Builder, x: Value, out: list[Size], factors: Sequence[float | None], exact: bool) -> Any:
    """Every element is a copy of one; `exact` is the one nearest to its center."""
    sizes = sizes_of(b, x)
    pairs = [(s, o, f) for s, o, f in zip(sizes[2:], out, factors, strict=True)
             if isinstance(s, int) and isinstance(o, int)]  # fmt: skip
    if len(pairs) < len(out):
        mode = "tf_half_pixel_for_nn" if exact else "asymmetric"
        attrs: dict[str, Any] = {"coordinate_mode": mode, "nearest_mode": "floor"}
        if any(factors):
            if not _agrees(sizes[2:], out, factors):
                raise UnsupportedError(
                    f"the scale {factors} is not supported for an image of dynamic size",
                    why="it is not exact in float32",
                    hint="fix the input shapes with `--input NAME=1x3x...`",
                )  # fmt: skip
            scales = np.array([1, 1, *factors], np.float32)
            return b.Resize(x, None, scales, None, **attrs)
        return b.Resize(x, None, None, vector_of(b, [*sizes[:2], *out]), **attrs)
    places = [_places(*p, exact) for p in pairs]
    whole = [o // max(s, 1) for s, o, _ in pairs]
    rows = zip(places, pairs, whole, strict=True)
    if all(len(at) == s * r and np.array_equal(at, np.arange(o) // r) for at, (s, o, _), r in rows if r) and all(whole):
        return b.Resize(x, None, None, vector_of(b, [*sizes[:2], *out]), coordinate_mode="asymmetric",
                        nearest_mode="floor")  # fmt: skip
    # Which element it is depends on the last bit of a quotient: the places are constants.
    for axis, (at, (size, _, _)) in enumerate(zip(places, pairs, strict=True), 2):
        if not np.array_equal(at, np.arange(size)):
            x = b.Gather(x, at, axis=axis)
    return x


def _places(size: int, out: int, factor: float | None, exact: bool) -> Array:
    """For each output index the one of the input, in the f32 arithmetic of PyTorch."""
    if not 0 < out <= _LONGEST:
        raise ModelError(f"the size {out} of the resized image is invalid")
    i = np.arange(out)
    if not exact and out in (size, 2 * size):
        return i if out == size else i // 2
    step = np.float32(1 / factor) if factor else np.float32(size) / np.float32(out)
    places = np.floor((i.astype(np.float32) + np.float32(0.5 if exact else 0)) * step)
    return np.asarray(np.minimum(places.astype(np.int64), size - 1))


def _resized(b: Builder, op: str, x: Value, out: list[Size], align_corners: bool, factors: Sequence[Any]) -> Any:
    if rank(x, "the image") != len(out) + 2:
        raise ModelError(f"the image is {x.type}, but must have rank {len(out) + 2}")
    factors = [None if v is None or known(v, "a scale") <= 0 else float(v) for v in factors]
    if op in _FILTERS:
        return _interpolated(b, x, _FILTERS[op], out, bool(align_corners), factors)
    return _nearest(b, x, out, factors, "exact" in op)


def _chosen(b: Builder, op: str, x: Value, output_size: Any, align_corners: bool, factors: Any) -> Any:
    """The overloads that are given either sizes or scales."""
    if output_size is not None:
        return _resized(b, op, x, list(output_size), align_corners, [None] * len(output_size))
    scales = [float(v) for v in known(factors, "the scales")]
    out = [_times(b, size_of(b, x, 2 + i), s) for i, s in enumerate(scales)]
    return _resized(b, op, x, out, align_corners, scales)


def _times(b: Builder, size: Size, factor: float) -> Size:
    if isinstance(size, int):
        return math.floor(size * factor)
    return Number(b.Cast(b.Floor(b.Mul(b.Cast(scalar(b, size), to=DType.F64), factor)), to=DType.I64))


def _named(*names: str, overload: str = "") -> tuple[str, ...]:
    return tuple(f"aten::{n}{overload}" for n in names)


def _op(node: Call) -> str:
    """ "upsample_linear1d" of "aten::upsample_linear1d.vec"."""
    return node.op.partition("::")[2].partition(".")[0]


_NEAREST = {n: (f"upsample_nearest{n}d", f"_upsample_nearest_exact{n}d") for n in (1, 2, 3)}


@torch.op(*_named(*_FILTERS, overload=".vec"))
def _(b, input, output_size, align_corners, scale_factors, node):
    return _chosen(b, _op(node), input, output_size, align_corners, scale_factors)


@torch.op(*_named(*(o for ops in _NEAREST.values() for o in ops), overload=".vec"))
def _(b, input, output_size, scale_factors, node):
    return _chosen(b, _op(node), input, output_size, False, scale_factors)


@torch.op(*_named("upsample_linear1d"))
def _(b, self, output_size, align_corners, scales=None, *, node):
    return _resized(b, _op(node), self, output_size, align_corners, [scales])


@torch.op(*_named(*(f for f in _FILTERS if "2d" in f)))
def _(b, self, output_size, align_corners, scales_h=None, scales_w=None, *, node):
    return _resized(b, _op(node), self, output_size, align_corners, [scales_h, scales_w])


@torch.op(*_named("upsample_trilinear3d"))
def _(b, self, output_size, align_corners, scales_d=None, scales_h=None, scales_w=None, *, node):
    return _resized(b, _op(node), self, output_size, align_corners, [scales_d, scales_h, scales_w])


@torch.op(*_named(*_NEAREST[1]))
def _(b, self, output_size, scales=None, *, node):
    return _resized(b, _op(node), self, output_size, False, [scales])


@torch.op(*_named(*_NEAREST[2]))
def _(b, self, output_size, scales_h=None, scales_w=None, *, node):
    return _resized(b, _op(node), self, output_size, False, [scales_h, scales_w])


@torch.op(*_named(*_NEAREST[3]))
def _(b, self, output_size, scales_d=None, scales_h=None, scales_w=None, *, node):
    return _resized(b, _op(node), self, output_size, False, [scales_d, scales_h, scales_w])


# ---- at places that are data


@torch.op("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d", "aten::_grid_sampler_2d_cpu_fallback")
def _(b, input, grid, interpolation_mode, padding_mode, align_corners):
    mode = ("linear", "nearest", "cubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    return b.GridSample(input, grid, mode=mode, padding=padding, align_corners=bool(align_corners))


@torch.op("aten::affine_grid_generator")
def _(b, theta, size, align_corners):
    space = [scalar(b, s) for s in size[2:]]
    return affine_grid(b, theta, vector_of(b, size[:1]), space, bool(align_corners), single=0.0)
