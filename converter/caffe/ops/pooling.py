"""Pooling by Caffe's rules."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.caffe.frontend import Layer, frontend
from minnow.converter.caffe.ops.convolution import spatial
from minnow.converter.caffe.shape import merged
from minnow.converter.operand import static_dim
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, DType, Value
from minnow.schema.ops import Builder

_TINY = np.float32(np.finfo(np.float32).tiny)


def pooled(b: Builder, x: Value, pool: str, ceil_mode: bool = True, **window: Any) -> Value:
    """Windows over x[N, C, H, W]: `kernel`, `strides`, `pads` per axis.

    The mean is over what lies in the image and in the padding, at both ends; what rounding up makes a window reach
    beyond the padding does not count.
    """
    up = [ceil_mode and more for more in _rounded(x, **window)]
    attrs = {"dilations": (1,) * len(window["kernel"]), "ceil_mode": any(up), **window}
    if pool == "MAX":
        return b.MaxPool(x, **attrs)
    if pool == "AVE" and all(up) and any(window["pads"]):
        # Other runtimes of the format do not count like that: what is padded becomes part of the image.
        n = len(up)
        ends = [(0, 0), (0, 0), *zip(window["pads"][:n], window["pads"][n:], strict=True)]
        return b.AveragePool(b.Pad(x, np.array(ends).reshape(-1)), **{**attrs, "pads": (0,) * 2 * n})
    if pool == "AVE":
        return b.AveragePool(x, count_include_pad=any(window["pads"]), **attrs)
    if any(window["pads"]):
        raise ModelError("stochastic pooling cannot have padding")
    # In a net that is not trained, the mean of the elements, each weighted by itself.
    squares, sums = (b.AveragePool(v, **attrs) for v in (b.Square(x), x))
    return b.Div(squares, b.Add(sums, _TINY))


def _rounded(x: Value, kernel: Any, strides: Any, pads: Any) -> list[bool]:
    """Along which axes there are more windows when their number is rounded up; where that is unknown, it is assumed."""
    sizes = (x.type.shape or (UNKNOWN,) * (2 + len(kernel)))[2:]
    found = []
    for size, k, s, p in zip(sizes, kernel, strides, pads, strict=False):
        if not isinstance(size, int):
            found.append(True)
            continue
        down, rest = divmod(size + 2 * p - k, s)
        found.append(rest > 0 and (down + 1) * s < size + p)
    return found


def _check_windows(x: Value, kernel: list[int], stride: list[int], pad: list[int], ceil_mode: bool) -> None:
    """Cuts windows that are larger than the image, where rounding up leaves one of them.

    Raises:
        UnsupportedError: a window would start behind the image: Caffe has such where nothing is padded.
    """
    sizes = (x.type.shape or ())[2:]
    for i, (size, k, s, p) in enumerate(zip(sizes, kernel, stride, pad, strict=False)):
        if not isinstance(size, int):
            continue
        if ceil_mode and size > 0 and size + 2 * p < k < size + 2 * p + s:
            kernel[i] = size + 2 * p
        elif size + 2 * p < k:
            raise ModelError(f"a window of {k} does not fit {size} elements", why=f"the padding is {p}")
        if ceil_mode and not any(pad) and -(-(size - k) // s) * s >= size:
            raise UnsupportedError(
                "pooling whose last window starts behind the image is not supported",
                why=f"kernel {k}, size {size}, stride {s}",
            )


@frontend.op("SPP")
def _(b, x, *, pyramid_height, pool="MAX"):
    """A pyramid: level i cuts the image into 2^i by 2^i windows; all levels stand behind one another."""
    sizes = [static_dim(x.type, axis, "an image that is pooled as a pyramid") for axis in (2, 3)]
    if not 1 <= pyramid_height <= 16:
        raise ModelError(f"pyramid_height is {pyramid_height}, which is invalid")
    levels = []
    for bins in (1 << level for level in range(pyramid_height)):
        kernel = [-(-size // bins) for size in sizes]
        pads = [(k * bins - size + 1) // 2 for k, size in zip(kernel, sizes, strict=True)]
        if any(p >= k for p, k in zip(pads, kernel, strict=True)):
            raise ModelError(f"{bins} windows do not fit an image of {sizes}")
        _check_windows(x, kernel, [*kernel], pads, True)
        y = pooled(b, x, pool, kernel=tuple(kernel), strides=tuple(kernel), pads=(*pads, *pads))
        levels.append(merged(b, y, 1, 4) if pyramid_height > 1 else y)
    return b.Concat(*levels, axis=1) if len(levels) > 1 else levels[0]


@frontend.op("Pooling")
def _(b, x, *, node: Layer, pool="MAX", kernel_size=(), kernel_h=None, kernel_w=None, stride=(), stride_h=None,
      stride_w=None, pad=(), pad_h=None, pad_w=None, global_pooling=False, round_mode="CEIL",
      ceil_mode=True):  # fmt: skip
    """Two tops of a maximum are the elements and their places in the image."""
    if x.type.rank not in (None, 4):
        raise ModelError(f"Pooling does not take {x.type}", why="it needs images of rank 4")
    pads = spatial("pad", pad, 2, 0, pad_h, pad_w)
    strides = spatial("stride", stride, 2, 1, stride_h, stride_w)
    if global_pooling:
        if any(pads) or strides != [1, 1]:
            raise ModelError("global pooling cannot have padding or a stride")
        if node.n_outputs == 1 and pool in ("MAX", "AVE"):
            return b.GlobalMaxPool(x) if pool == "MAX" else b.GlobalAveragePool(x)
        kernel = [static_dim(x.type, axis, "an image that is pooled as a whole") for axis in (2, 3)]
    else:
        kernel = spatial("kernel", kernel_size, 2, None, kernel_h, kernel_w)
    if 0 in (*kernel, *strides) or any(p >= k for p, k in zip(pads, kernel, strict=True)):
        raise ModelError(f"kernel {kernel}, stride {strides} and pad {pads} are invalid")
    up = round_mode == "CEIL" and ceil_mode
    _check_windows(x, kernel, strides, pads, up)
    window = {"kernel": tuple(kernel), "strides": tuple(strides), "pads": (*pads, *pads)}
    if node.n_outputs < 2:
        return pooled(b, x, pool, up, **window)
    if pool != "MAX":
        raise ModelError(f"{pool} pooling has no second output")
    y, at = b.MaxPool(x, dilations=(1, 1), ceil_mode=up, n_outputs=2, **window)
    plane = static_dim(x.type, 2, "an image whose places are asked for") * static_dim(x.type, 3, "such an image")
    return y, b.Cast(b.Mod(at, np.array(plane)), to=DType.F32)
