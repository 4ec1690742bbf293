"""Arithmetic on whole images and matrices, joining and splitting them, and linear equations."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from minnow.cv import argument
from minnow.cv.boundary import Array, exported
from minnow.cv.constant import (
    CV_8S,
    CV_8U,
    CV_16S,
    CV_16U,
    CV_32F,
    CV_32S,
    CV_64F,
    DECOMP_CHOLESKY,
    DECOMP_EIG,
    DECOMP_LU,
    DECOMP_NORMAL,
    DECOMP_QR,
    DECOMP_SVD,
    NORM_INF,
    NORM_L1,
    NORM_L2,
    NORM_MINMAX,
)
from minnow.cv.thread import thread_count
from minnow.runtime._engine import vision
from minnow.schema.errors import UsageError

DEPTHS = {
    CV_8U: np.uint8,
    CV_8S: np.int8,
    CV_16U: np.uint16,
    CV_16S: np.int16,
    CV_32S: np.int32,
    CV_32F: np.float32,
    CV_64F: np.float64,
}
DTYPES = tuple(np.dtype(dtype).name for dtype in DEPTHS.values())


def plain_image(value: Any, name: str, dtypes: Sequence[str] = DTYPES) -> npt.NDArray[Any]:
    """An image, [height, width] where it has one channel: results of OpenCV have no dimension for that."""
    image = argument.image(value, name, dtypes=dtypes)
    return image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image


def saturated(numbers: npt.NDArray[Any], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Numbers in another type: for integers, rounded to the nearest (halves to the even one) and limited to its range;
    what is not a number becomes the least of an integer type."""
    dtype = np.dtype(dtype)
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            return numbers.astype(dtype)
    limits = np.iinfo(dtype)
    if numbers.dtype.kind != "f":
        return np.asarray(np.clip(numbers, limits.min, limits.max), dtype)
    rounded = np.asarray(np.rint(numbers))
    np.fmax(rounded, limits.min, out=rounded)
    np.fmin(rounded, limits.max, out=rounded)
    return np.asarray(rounded.astype(dtype))


def _wide(*dtypes: np.dtype[Any]) -> type[np.floating[Any]]:
    """What numbers of these types are computed in."""
    return np.float32 if all(t.itemsize < 4 or t == np.float32 for t in dtypes) else np.float64


def depth_of(value: Any, default: npt.DTypeLike) -> np.dtype[Any]:
    """The type of elements that a number such as CV_32F means; negative and None: the default."""
    if value is None:
        return np.dtype(default)
    number = argument.integer(value, "dtype")
    if number < 0:
        return np.dtype(default)
    if number % 8 not in DEPTHS:
        raise UsageError(f"dtype is {number}: it must be a type such as CV_8U (0) or CV_32F (5)")
    return np.dtype(DEPTHS[number % 8])


def mask_of(value: Any, like: npt.NDArray[Any], name: str = "mask") -> npt.NDArray[np.bool_]:
    """Where a mask is not 0; see `mask_bytes`."""
    return np.not_equal(mask_bytes(value, like, name), 0)


def mask_bytes(value: Any, like: npt.NDArray[Any], name: str = "mask") -> npt.NDArray[np.uint8]:
    """A mask: an image of bytes, of the height and width of `like`, not 0 where something happens.

    Raises:
        UsageError: it is something else.
    """
    mask = argument.array(value, name)
    if mask.ndim == 3 and mask.shape[2] == 1:
        mask = mask[..., 0]
    if mask.shape != like.shape[:2] or mask.dtype not in (np.uint8, np.int8, np.bool_):
        raise UsageError(
            f"{name} must be an image of bytes of shape {list(like.shape[:2])}, not {mask.dtype} {list(mask.shape)}"
        )
    return argument.rows(mask).view(np.uint8)


def written(result: npt.NDArray[Any], dst: Any) -> npt.NDArray[Any]:
    """The result, also in `dst` where that is an array for it."""
    if isinstance(dst, np.ndarray) and dst.flags.writeable and dst.dtype == result.dtype and _fits(dst, result):
        dst[...] = result.reshape(dst.shape)
        return dst
    return result


def _fits(dst: npt.NDArray[Any], result: npt.NDArray[Any]) -> bool:
    return dst.shape in (result.shape, (*result.shape, 1))


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) or (
        isinstance(value, (tuple, list)) and all(isinstance(v, (int, float, np.number)) for v in value)
    )


def _operands(src1: Any, src2: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Two images of one shape and type, or one and a number per channel, as arrays that broadcast."""
    if _is_scalar(src1) and not _is_scalar(src2):
        second, first = _operands(src2, src1)
        return first, second
    a = plain_image(src1, "src1")
    if _is_scalar(src2):
        channels = argument.channels_of(a)
        if channels > 4:
            raise UsageError(f"src1 has {channels} channels: numbers for at most 4 can be given")
        numbers = np.array(argument.scalar(src2, "src2")[:channels])
        return a, (numbers if a.ndim == 3 else numbers[0])
    b = plain_image(src2, "src2")
    if a.shape != b.shape:
        raise UsageError(f"src1 and src2 must have one shape, not {list(a.shape)} and {list(b.shape)}")
    return a, b


@exported
def addWeighted(
    src1: Array, alpha: float, src2: Array, beta: float, gamma: float, dst: Array | None = None, dtype: int = -1
) -> Array:
    """src1 * alpha + src2 * beta + gamma, rounded and limited to the range of the type.

    Args:
        src1: an image.
        alpha: its weight.
        src2: an image of the same shape and type, or a number per channel.
        beta: its weight.
        gamma: added to all.
        dst: an array for the result, or None.
        dtype: of the result; -1: that of the images.

    Raises:
        UsageError: the images do not fit together, or an argument is out of its range.
    """
    a, b = _operands(src1, src2)
    image = a if a.ndim >= b.ndim else b
    depth = argument.integer(-1 if dtype is None else dtype, "dtype")
    if depth < 0 and a.dtype != b.dtype and not (_is_scalar(src1) or _is_scalar(src2)):
        raise UsageError(f"src1 is of {a.dtype}, src2 of {b.dtype}: the type of the result must be given by dtype")
    weights = [argument.number(v, n) for v, n in ((alpha, "alpha"), (beta, "beta"), (gamma, "gamma"))]
    to = depth_of(depth, image.dtype)
    if a.dtype == b.dtype and a.shape == b.shape and a.dtype in _SIMPLE and to in _SIMPLE:
        return written(_weighed(a, b, weights, to), dst)
    wide = _wide(image.dtype, to)
    first, second, shift = (wide(w) for w in weights)
    with np.errstate(all="ignore"):
        total = np.multiply(a, first, dtype=wide)
        total = total + np.multiply(b, second, dtype=wide)
        total += shift
        return written(saturated(total, to), dst)


_MOST_PLANES = 512
_SIMPLE = (np.dtype(np.uint8), np.dtype(np.float32))
_LARGEST_FLOAT = float(np.finfo(np.float32).max)


def _weighed(
    a: npt.NDArray[Any], b: npt.NDArray[Any] | None, weights: Sequence[float], dtype: npt.DTypeLike
) -> npt.NDArray[Any]:
    """a * weights[0] + b * weights[1] + weights[2] of images of bytes or float32, in float32."""
    result = np.empty(a.shape, dtype)
    alpha, beta, gamma = (min(max(w, -_LARGEST_FLOAT), _LARGEST_FLOAT) for w in weights)
    second = None if b is None else argument.rows(b)
    vision.weigh(argument.rows(a), second, result, alpha, beta, gamma, thread_count())
    return result


def as_picture(image: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An image in memory as the engine takes it where only the size of its elements counts."""
    image = argument.rows(image)
    return image.view(np.uint8) if image.dtype == np.int8 else image


Bitwise = Callable[[npt.NDArray[Any], npt.NDArray[Any]], npt.NDArray[Any]]


def _bitwise(operation: Bitwise, src1: Any, src2: Any, dst: Any, mask: Any) -> npt.NDArray[Any]:
    a, b = _operands(src1, src2)
    image = a if a.ndim >= b.ndim and not _is_scalar(src1) else b
    if not (_is_scalar(src1) or _is_scalar(src2)) and a.dtype != b.dtype:
        raise UsageError(f"src1 is of {a.dtype}, src2 of {b.dtype}: they must have one type")
    bits = np.dtype(f"u{image.dtype.itemsize}")
    a, b = (np.ascontiguousarray(saturated(v, image.dtype) if v.dtype != image.dtype else v).view(bits) for v in (a, b))
    result = np.ascontiguousarray(operation(a, b).reshape(image.shape)).view(image.dtype)
    return _masked(result, dst, mask)


def _masked(result: npt.NDArray[Any], dst: Any, mask: Any) -> npt.NDArray[Any]:
    """The result where the mask is not 0; elsewhere `dst`, or 0 where there is none that fits."""
    if mask is None:
        return written(result, dst)
    chosen = mask_bytes(mask, result)
    before = None
    if dst is not None:
        given = argument.array(dst, "dst")
        if given.dtype == result.dtype and _fits(given, result):
            before = np.array(given, order="C").reshape(result.shape)
    before = np.zeros(result.shape, result.dtype) if before is None else before
    vision.copy_where(as_picture(result), chosen, as_picture(before), thread_count())
    return written(before, dst)


@exported
def bitwise_and(src1: Array, src2: Array, dst: Array | None = None, mask: Array | None = None) -> Array:
    """The bits that both images have.

    Args:
        src1: an image.
        src2: an image of the same shape and type, or a number per channel.
        dst: an array for the result, or None.
        mask: where to compute: an image of bytes [height, width]; elsewhere the result is `dst`, or 0.

    Raises:
        UsageError: the images do not fit together.
    """
    return _bitwise(np.bitwise_and, src1, src2, dst, mask)


@exported
def bitwise_or(src1: Array, src2: Array, dst: Array | None = None, mask: Array | None = None) -> Array:
    """The bits that at least one of two images has; arguments as those of `bitwise_and`."""
    return _bitwise(np.bitwise_or, src1, src2, dst, mask)


@exported
def bitwise_xor(src1: Array, src2: Array, dst: Array | None = None, mask: Array | None = None) -> Array:
    """The bits that one of two images has; arguments as those of `bitwise_and`."""
    return _bitwise(np.bitwise_xor, src1, src2, dst, mask)


@exported
def copyTo(src: Array, mask: Array | None = None, dst: Array | None = None) -> Array:
    """A copy of an image where a mask is not 0; elsewhere `dst`, or 0 where there is none.

    Args:
        src: an image.
        mask: an image of bytes [height, width]; None: everywhere.
        dst: an array for the result, or None.

    Raises:
        UsageError: the mask does not fit the image.
    """
    image = plain_image(src, "src")
    return _masked(image.copy() if mask is None else image, dst, mask)


@exported
def flip(src: Array, flipCode: int, dst: Array | None = None) -> Array:
    """Mirrors an image: 0 exchanges top and bottom, 1 left and right, -1 both."""
    image = plain_image(src, "src")
    code = argument.integer(flipCode, "flipCode")
    result = np.empty(image.shape, image.dtype)
    vision.mirror(as_picture(image), as_picture(result), code <= 0, code != 0, thread_count())
    return written(result, dst)


def _images(value: Any, name: str) -> list[npt.NDArray[Any]]:
    return [plain_image(item, f"{name}[{i}]") for i, item in enumerate(argument.items(value, name, "images"))]


def _joined(src: Any, axis: int, dst: Any) -> npt.NDArray[Any] | None:
    images = _images(src, "src")
    if not images:
        return None
    first = images[0]
    for i, image in enumerate(images):
        fits = image.ndim == images[0].ndim and image.shape[1 - axis] == first.shape[1 - axis]
        if not fits or image.shape[2:] != images[0].shape[2:] or image.dtype != first.dtype:
            raise UsageError(
                f"src[{i}] of {image.dtype} {list(image.shape)} does not fit beside src[0] of {first.dtype}"
                f" {list(first.shape)}: type, channels and {'height' if axis else 'width'} must be the same"
            )
    return written(np.concatenate(images, axis=axis), dst)


@exported
def hconcat(src: Sequence[Array], dst: Array | None = None) -> Array | None:
    """Images beside each other, from left to right: of one height, type and number of channels."""
    return _joined(src, 1, dst)


@exported
def vconcat(src: Sequence[Array], dst: Array | None = None) -> Array | None:
    """Images one above the other: of one width, type and number of channels."""
    return _joined(src, 0, dst)


@exported
def mean(src: Array, mask: Array | None = None) -> tuple[float, float, float, float]:
    """The mean of each of up to 4 channels, where the mask is not 0; 0 for the channels that there are not.

    Raises:
        UsageError: the image has more channels, or the mask does not fit it.
    """
    image = argument.image(src, "src", dtypes=DTYPES, channels=(1, 2, 3, 4))
    if image.dtype == np.uint8:
        return _mean_of_bytes(argument.rows(image), None if mask is None else mask_bytes(mask, image))
    values = image.reshape(*image.shape[:2], -1)
    chosen = values.reshape(-1, values.shape[2]) if mask is None else values[mask_of(mask, image)]
    means = [0.0] * 4
    if len(chosen):
        for c in range(chosen.shape[1]):
            column = chosen[:, c]
            total = column.sum(dtype=np.int64 if column.dtype.kind in "iu" else np.float64)
            means[c] = float(total) * (1.0 / len(chosen))
    return means[0], means[1], means[2], means[3]


def _mean_of_bytes(
    image: npt.NDArray[np.uint8], mask: npt.NDArray[np.uint8] | None
) -> tuple[float, float, float, float]:
    count = image.shape[0] * image.shape[1] if mask is None else int(np.count_nonzero(mask))
    sums = [*vision.channel_sums(image, mask), 0.0, 0.0, 0.0][:4]
    first, second, third, fourth = (total * (1.0 / count) if count else 0.0 for total in sums)
    return first, second, third, fourth


@exported
def merge(mv: Sequence[Array], dst: Array | None = None) -> Array:
    """One image with the channels of all: images of one height, width and type.

    Raises:
        UsageError: there are none, or they differ.
    """
    images = _images(mv, "mv")
    if not images:
        raise UsageError("mv is empty: there is nothing to merge")
    first = images[0]
    for i, image in enumerate(images):
        if image.shape[:2] != first.shape[:2] or image.dtype != first.dtype:
            raise UsageError(
                f"mv[{i}] of {image.dtype} {list(image.shape)} does not fit mv[0] of {first.dtype} {list(first.shape)}"
            )
    if first.dtype == np.uint8 and 1 < len(images) <= _MOST_PLANES and all(image.ndim == 2 for image in images):
        merged = np.empty((*first.shape, len(images)), np.uint8)
        vision.merge([argument.rows(image) for image in images], merged, thread_count())
        return written(merged, dst)
    result = np.concatenate([image.reshape(*image.shape[:2], -1) for image in images], axis=2)
    return written(result[..., 0] if result.shape[2] == 1 else result, dst)


@exported
def split(m: Array, mv: None = None) -> tuple[Array, ...]:
    """The channels of an image as images [height, width]."""
    if mv is not None:
        raise UsageError("mv must be None: it is the result")
    image = plain_image(m, "m")
    if image.dtype == np.uint8 and image.ndim == 3:
        planes = [np.empty(image.shape[:2], np.uint8) for _ in range(image.shape[2])]
        vision.split(argument.rows(image), planes, thread_count())
        return tuple(planes)
    channels = image.reshape(*image.shape[:2], -1)
    return tuple(np.ascontiguousarray(channels[..., c]) for c in range(channels.shape[2]))


@exported
def normalize(
    src: Array,
    dst: Array | None = None,
    alpha: float | None = 1,
    beta: float | None = 0,
    norm_type: int | None = NORM_L2,
    dtype: int | None = -1,
    mask: Array | None = None,
) -> Array:
    """Scales an image so that its norm is `alpha`, or so that its values are from `alpha` to `beta`.

    Args:
        src: an image.
        dst: an array for the result, or None.
        alpha: the norm, or the lower bound.
        beta: the upper bound, for `NORM_MINMAX`.
        norm_type: `NORM_L2`, `NORM_L1`, `NORM_INF` or `NORM_MINMAX`.
        dtype: of the result; -1: that of the image.
        mask: where to measure and to write: an image of bytes [height, width]; elsewhere the result is `dst`, or 0.

    Raises:
        UsageError: the mask does not fit, or an argument is out of its range.
    """
    image = plain_image(src, "src")
    low = argument.number(1 if alpha is None else alpha, "alpha")
    high = argument.number(0 if beta is None else beta, "beta")
    kind = argument.integer(NORM_L2 if norm_type is None else norm_type, "norm_type")
    to = depth_of(dtype, image.dtype)
    if mask is None:
        values = image
    else:
        if kind == NORM_MINMAX and argument.channels_of(image) > 1:
            raise UsageError("NORM_MINMAX with a mask needs an image of one channel")
        values = image[mask_of(mask, image)]
    shift = 0.0
    if kind == NORM_MINMAX:
        least, most = _range(values)
        low, high = min(low, high), max(low, high)
        scale = (high - low) * (1 / (most - least) if most - least > _EPSILON else 0.0)
        shift = low - least * scale
    elif kind in (NORM_INF, NORM_L1, NORM_L2):
        norm = _norm(values, kind)
        scale = low / norm if norm > _EPSILON else 0.0
    else:
        raise UsageError(f"norm_type is {kind}: it must be NORM_INF, NORM_L1, NORM_L2 or NORM_MINMAX")
    if image.dtype in _SIMPLE and to in _SIMPLE:
        result = _weighed(image, None, (scale, 0.0, shift), to)
    else:
        wide = _wide(image.dtype, to)
        with np.errstate(all="ignore"):
            result = saturated(image.astype(wide) * wide(scale) + wide(shift), to)
    return _masked(result, dst, mask)


_EPSILON = sys.float_info.epsilon


def _range(values: npt.NDArray[Any]) -> tuple[float, float]:
    """The least and the largest value; 0 where there is none."""
    if values.size == 0:
        return 0.0, 0.0
    if values.dtype == np.uint8:
        least, most = vision.range_of_bytes(argument.rows(np.atleast_2d(values)))
        return float(least), float(most)
    with np.errstate(all="ignore"):
        return float(values.min()), float(values.max())


def _norm(values: npt.NDArray[Any], kind: int) -> float:
    """The largest magnitude, the sum of magnitudes, or the root of the sum of squares; in float64."""
    if values.size == 0:
        return 0.0
    if values.dtype == np.uint8:
        image = argument.rows(np.atleast_2d(values))
        if kind == NORM_L2:
            return math.sqrt(vision.square_sum_of_bytes(image))
        if kind == NORM_INF:
            return float(vision.range_of_bytes(image)[1])
        return float(np.dot(np.array(vision.count_bytes(image, None), np.float64), np.arange(256)))
    with np.errstate(all="ignore"):
        size = np.abs(values.astype(np.float64))
        if kind == NORM_L2:
            return math.sqrt(float(np.dot(size.ravel(), size.ravel())))
        return float(size.max() if kind == NORM_INF else size.sum())


@exported
def solve(src1: Array, src2: Array, dst: Array | None = None, flags: int = DECOMP_LU) -> tuple[bool, Array]:
    """Solves src1 @ x = src2, by least squares where there are more equations than unknowns.

    Args:
        src1: float32 or float64 [m, n].
        src2: the right sides, [m, k] or [m], of the same type.
        dst: an array for the result, or None.
        flags: the method: `DECOMP_LU`, `DECOMP_CHOLESKY` (positive definite), `DECOMP_EIG` (symmetric), `DECOMP_SVD`,
            `DECOMP_QR`; with `DECOMP_NORMAL` the normal equations are solved.

    Returns:
        (whether there is a solution, x of shape [n, k]): zeros where the matrix is singular, for the methods that need
        a regular one. `DECOMP_SVD` and `DECOMP_EIG` always give the solution of least squares and least norm.

    Raises:
        UsageError: the shapes or types do not fit together.
    """
    a, b = argument.array(src1, "src1"), argument.array(src2, "src2")
    if a.ndim != 2 or 0 in a.shape or a.dtype not in (np.float32, np.float64):
        raise UsageError(f"src1 must be a matrix of float32 or float64, not {a.dtype} {list(a.shape)}")
    b = b.reshape(-1, 1) if b.ndim == 1 else b
    if b.ndim != 2 or b.shape[0] != a.shape[0] or b.dtype != a.dtype or not b.shape[1]:
        raise UsageError(
            f"src2 must be a {a.dtype} matrix of {a.shape[0]} rows, as src1, not {b.dtype} {list(b.shape)}",
        )
    method = argument.integer(flags, "flags")
    normal, method = bool(method & DECOMP_NORMAL), method & ~DECOMP_NORMAL
    if method not in (DECOMP_LU, DECOMP_SVD, DECOMP_EIG, DECOMP_CHOLESKY, DECOMP_QR):
        raise UsageError(f"flags is {flags}: it must be a method such as DECOMP_LU (0) or DECOMP_SVD (1)")
    rows, columns = a.shape
    if rows < columns:
        raise UsageError(f"there are fewer equations than unknowns: src1 is {list(a.shape)}")
    if rows > columns and not normal and method in (DECOMP_LU, DECOMP_CHOLESKY, DECOMP_EIG):
        raise UsageError(
            f"this method needs a square matrix, but src1 is {list(a.shape)}", hint="use DECOMP_SVD or DECOMP_QR"
        )
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        raise UsageError("src1 or src2 has numbers that are not finite")
    left, right = a.astype(np.float64), b.astype(np.float64)
    if normal:
        left, right = left.T @ left, left.T @ right
    found = _solution(left, right, method, float(np.finfo(a.dtype).eps))
    if found is None:
        return False, written(np.zeros((columns, b.shape[1]), a.dtype), dst)
    return True, written(found.astype(a.dtype), dst)


def _solution(a: npt.NDArray[Any], b: npt.NDArray[Any], method: int, eps: float) -> npt.NDArray[Any] | None:
    if method in (DECOMP_SVD, DECOMP_EIG):
        solved: npt.NDArray[Any] = np.linalg.lstsq(a, b, rcond=eps * max(a.shape))[0]
        return solved
    values = np.linalg.svd(a, compute_uv=False)
    if values[-1] <= eps * max(a.shape) * values[0]:
        return None
    if method == DECOMP_CHOLESKY:
        try:
            np.linalg.cholesky((a + a.T) / 2)
        except np.linalg.LinAlgError:
            return None
    if a.shape[0] == a.shape[1]:
        return np.linalg.solve(a, b)
    return np.linalg.lstsq(a, b, rcond=None)[0]  # type: ignore[no-any-return]
