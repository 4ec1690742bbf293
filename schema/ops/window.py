"""Geometry of sliding windows, for convolution and pooling: sizes, padding, and the walk over the taps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, Dim

Array = np.ndarray[Any, Any]
AutoPad = Literal["", "SAME_UPPER", "SAME_LOWER"]


def check(
    n: int, *, kernel: Sequence[int], strides: Sequence[int], pads: Sequence[int], dilations: Sequence[int]
) -> None:
    """ModelError unless the attributes describe a window over `n` spatial axes."""
    rows = (
        ("kernel", kernel, n, 1),
        ("strides", strides, n, 1),
        ("pads", pads, 2 * n, 0),
        ("dilations", dilations, n, 1),
    )
    for name, values, count, least in rows:
        if len(values) != count:
            raise ModelError(f"{name} {tuple(values)} has {len(values)} numbers, not {count}", why=f"{n} spatial axes")
        if any(v < least for v in values):
            raise ModelError(f"{name} {tuple(values)} has a number below {least}")


def spread(kernel: Sequence[int], dilations: Sequence[int]) -> tuple[int, ...]:
    """Sizes of the dilated kernel."""
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))


def out_dim(
    size: Dim, span: int, stride: int, begin: int, end: int, *, ceil_mode: bool = False, same: bool = False
) -> Dim:
    """Number of windows of `span` elements over one axis. `same` means padding that makes it ceil(size / stride).

    With `ceil_mode` a window counts that starts inside the input and reaches over the end: so there is one even where
    the window is larger than the padded input, by less than the stride.
    """
    if not isinstance(size, int):
        return size if stride == 1 and (same or begin + end == span - 1) else UNKNOWN
    if same:
        return -(-size // stride)
    room = size + begin + end - span
    if room <= (-stride if ceil_mode else -1):
        raise ModelError(f"a window of {span} elements is larger than {size} elements padded by {begin} and {end}")
    if not ceil_mode:
        return room // stride + 1
    n = -(-room // stride) + 1
    # A window that would start behind the input, in the padding at its end, is left out.
    return n - 1 if (n - 1) * stride >= size + begin else n


def fitted(
    sizes: Sequence[int], kernel: Sequence[int], dilations: Sequence[int], ends: Sequence[tuple[int, int]]
) -> tuple[int, ...]:
    """The kernel that pools the same elements, and no larger than the padded input: a larger one has one window."""
    rows = zip(sizes, kernel, dilations, ends, strict=True)
    return tuple(min(k, (max(size + begin + end, 1) - 1) // d + 1) for size, k, d, (begin, end) in rows)


def counts(
    sizes: Sequence[int],
    span: Sequence[int],
    strides: Sequence[int],
    ends: Sequence[tuple[int, int]],
    ceil_mode: bool = False,
) -> list[int]:
    """Number of windows over each of the spatial axes."""
    rows = zip(sizes, span, strides, ends, strict=True)
    return [int(out_dim(d, k, s, *e, ceil_mode=ceil_mode)) for d, k, s, e in rows]


def same_pads(size: int, span: int, stride: int, lower: bool) -> tuple[int, int]:
    """Padding at both ends that makes ceil(size / stride) windows; `lower` puts an odd one at the beginning."""
    pad = max((-(-size // stride) - 1) * stride + span - size, 0)
    return ((pad + 1) // 2, pad // 2) if lower else (pad // 2, (pad + 1) // 2)


def resolve(
    sizes: Sequence[int], span: Sequence[int], strides: Sequence[int], pads: Sequence[int], auto_pad: str
) -> tuple[tuple[int, int], ...]:
    """(begin, end) padding of each spatial axis."""
    n = len(sizes)
    if auto_pad:
        rows = zip(sizes, span, strides, strict=True)
        return tuple(same_pads(size, k, s, auto_pad == "SAME_LOWER") for size, k, s in rows)
    return tuple(zip(pads[:n], pads[n:], strict=True))


def taps(
    x: Array, out: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> Iterator[tuple[tuple[int, ...], Array]]:
    """For each kernel position the padded input's elements under it: a view of shape [N, C, *out]."""
    for k in np.ndindex(*kernel):
        at = tuple(
            slice(i * d, i * d + (n - 1) * s + 1, s) if n else slice(0, 0)
            for i, d, n, s in zip(k, dilations, out, strides, strict=True)
        )
        yield k, trailing(x, *at)


def trailing(x: Array, *at: int | slice) -> Array:
    """x indexed along its last axes."""
    index: Any = (..., *at)
    return x[index]


def padded(x: Array, pads: Sequence[tuple[int, int]], value: float) -> Array:
    """The spatial axes of x[N, C, ...] padded with a value."""
    return np.pad(x, [(0, 0), (0, 0), *pads], constant_values=value)
