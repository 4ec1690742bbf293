"""Convolution and pooling of channels-last images, in terms of ops for channels-first ones.

Each function turns its image, computes, and turns the result back; the optimizer cancels what meets between them.
`padding` is "SAME" (ceil(size / stride) outputs, the odd element at the end), "VALID" (none), or the numbers
themselves: all begins, then all ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import static_dim, turned
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import UNKNOWN, Dim, Value
from minnow.schema.ops import Builder

Padding = str | Sequence[int]
Then = Callable[[Value], Value]


def _same(x: Value) -> Value:
    return x


def channels_second(b: Builder, x: Value, spatial: int) -> Value:
    """[N, spatial..., C] -> [N, C, spatial...]."""
    _has_rank(x, spatial + 2)
    return turned(b, x, (0, spatial + 1, *range(1, spatial + 1)))


def channels_last(b: Builder, x: Value, spatial: int) -> Value:
    """[N, C, spatial...] -> [N, spatial..., C]."""
    return turned(b, x, (0, *range(2, spatial + 2), 1))


def _has_rank(x: Value, rank: int) -> None:
    if x.type.rank is None:
        x.type = x.type.with_shape((UNKNOWN,) * rank)
    elif x.type.rank != rank:
        raise ModelError(f"the image is {x.type}, but must have rank {rank}")


def same_pads(
    sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> tuple[int, ...]:
    """Pads (begins, then ends) with which there are ceil(size / stride) outputs."""
    begins, ends = [], []
    for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True):
        total = max((-(-size // s) - 1) * s + (k - 1) * d + 1 - size, 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return (*begins, *ends)


def window(
    sizes: Sequence[Dim], kernel: Sequence[Dim], padding: Padding, strides: Sequence[int], dilations: Sequence[int]
) -> dict[str, Any]:
    """The attributes of a window over axes of these dimensions. "SAME" is resolved where these are known.

    Raises:
        ModelError: there is no such padding, or it does not fit.
    """
    n = len(kernel)
    if len(strides) != n or len(dilations) != n or any(s < 1 for s in (*strides, *dilations)):
        raise ModelError(f"the strides {tuple(strides)} and dilations {tuple(dilations)} do not fit {n} spatial axes")
    out: dict[str, Any] = {"strides": tuple(strides), "dilations": tuple(dilations), "pads": (0,) * 2 * n}
    if padding == "SAME":
        numbers = [d for d in (*sizes, *kernel) if isinstance(d, int)]
        if len(numbers) == 2 * n:
            out["pads"] = same_pads(numbers[:n], numbers[n:], strides, dilations)
        else:
            out["auto_pad"] = "SAME_UPPER"
    elif isinstance(padding, str):
        if padding != "VALID":
            raise ModelError(f"the padding {padding} is unknown")
    elif len(padding) != 2 * n:
        raise ModelError(f"{len(padding)} paddings do not fit {n} spatial axes")
    else:
        out["pads"] = tuple(int(p) for p in padding)
    return out


def conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None,
    *,
    padding: Padding,
    strides: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
    then: Then = _same,
) -> Value:
    """Convolution of x[N, spatial..., C] with w[O, C / group, kernel...] and bias[O], to [N, spatial..., O].

    Args:
        then: applied to the result before it is turned back: an activation.
    """
    n = len(strides)
    image = channels_second(b, x, n)
    assert image.type.shape is not None
    kernel = (UNKNOWN,) * n if w.type.shape is None else w.type.shape[2:]
    attrs = window(image.type.shape[2:], kernel, padding, strides, dilations)
    return channels_last(b, then(b.Conv(image, w, bias, group=group, **attrs)), n)


def groups(x: Value, w: Value, axis: int) -> int:
    """How many groups the channels (the last axis of x) are in, which weights read by so many along an axis."""
    channels, per_group = (
        static_dim(x.type, -1, "the channels"),
        static_dim(w.type, axis, "the channels of the weights"),
    )
    if not per_group or channels % per_group:
        raise ModelError(f"{channels} channels do not fit weights for {per_group} channels")
    return channels // per_group


def transposed_conv(
    b: Builder,
    x: Value,
    w: Value,
    bias: Value | None,
    out: Sequence[Dim] | None,
    *,
    padding: Padding,
    strides: Sequence[int],
    dilations: Sequence[int] | None = None,
    group: int = 1,
    then: Then = _same,
) -> Value:
    """The gradient of a convolution: x[N, spatial..., C], w[C, O / group, kernel...] and bias[O], to [N, out..., O].

    Args:
        out: spatial dimensions of the result; None or dynamic ones: those which the padding gives.
    """
    n = len(strides)
    dilations = tuple(dilations or (1,) * n)
    image = channels_second(b, x, n)
    kernel = [static_dim(w.type, 2 + i, "the kernel of a transposed convolution") for i in range(n)]
    begins, ends, extra, cut = [], [], [], dict[int, int]()
    for i, (k, s, d) in enumerate(zip(kernel, strides, dilations, strict=True)):
        span = (k - 1) * d + 1
        size = image.type.shape[2 + i] if image.type.shape else UNKNOWN
        wanted = out[i] if out is not None else UNKNOWN
        # How much longer than stride * size the full result is, and where the result asked for starts in it.
        if isinstance(padding, str):
            if isinstance(wanted, int):
                total = max((-(-wanted // s) - 1) * s + span - wanted, 0) if padding == "SAME" else 0
            else:
                total = max(span - s, 0) if padding == "SAME" else 0
            begin = total // 2
        else:
            begin = int(padding[i])
        if isinstance(wanted, int) and not isinstance(size, int):
            over, cut[2 + i] = 1 - s, wanted  # whatever the size is, enough is there
        elif isinstance(wanted, int) and isinstance(size, int):
            over = (size - 1) * s + span - begin - wanted
        elif isinstance(padding, str):
            over = total - begin if padding == "SAME" and span >= s else span - s if padding == "SAME" else 0
        else:
            over = int(padding[n + i])
        begins.append(begin)
        ends.append(max(over, 0))
        extra.append(max(-over, 0))
    y = b.ConvTranspose(image, w, bias, group=group, strides=tuple(strides), pads=(*begins, *ends), dilations=dilations,
                        output_padding=tuple(extra))  # fmt: skip
    if cut:
        y = b.Slice(y, np.zeros(len(cut), np.int64), np.array([*cut.values()]), np.array([*cut]))
    return channels_last(b, then(y), n)


def pool(
    b: Builder,
    kind: str,
    x: Value,
    *,
    kernel: Sequence[int],
    padding: Padding,
    strides: Sequence[int],
    then: Then = _same,
    **attrs: Any,
) -> Value:
    """Pooling of x[N, spatial..., C] by the op `kind` ("MaxPool", "AveragePool"); padding never counts.

    Raises:
        ModelError: a window without elements.
    """
    n = len(kernel)
    if any(k < 1 for k in kernel):
        raise ModelError(f"the window {tuple(kernel)} must not be empty")
    image = channels_second(b, x, n)
    assert image.type.shape is not None
    fitted = window(image.type.shape[2:], kernel, padding, strides, (1,) * n)
    return channels_last(b, then(getattr(b, kind)(image, kernel=tuple(kernel), **fitted, **attrs)), n)


def max_pool_with_places(
    b: Builder, x: Value, *, kernel: Sequence[int], padding: Padding, strides: Sequence[int], with_batch: bool = False
) -> tuple[Value, Value]:
    """The largest elements of windows over x[N, H, W, C], and their places ((n * H + h) * W + w) * C + c.

    Args:
        with_batch: whether the places count the images, too.
    """
    image = channels_second(b, x, 2)
    assert image.type.shape is not None
    _, c, h, w = (static_dim(image.type, i, "an image whose places are asked for") if i else 0 for i in range(4))
    attrs = window((h, w), kernel, padding, strides, (1, 1))
    y, at = b.MaxPool(image, kernel=tuple(kernel), n_outputs=2, **attrs)
    # The op counts ((n * C + c) * H + h) * W + w.
    pixel, plane = b.Mod(at, h * w), b.Div(at, h * w)
    place = b.Add(b.Mul(pixel, c), b.Mod(plane, c))
    if with_batch:
        place = b.Add(place, b.Mul(b.Div(plane, c), h * w * c))
    return channels_last(b, y, 2), channels_last(b, place, 2)


def local_response(b: Builder, x: Value, radius: int, bias: float, alpha: float, beta: float) -> Value:
    """y = x / (bias + alpha * s)^beta, s the sum of squares over channels up to `radius` away; x[N, H, W, C]."""
    size = 2 * radius + 1
    y = b.LRN(channels_second(b, x, 2), size=size, alpha=alpha * size, beta=beta, bias=bias)
    return channels_last(b, y, 2)


def require_one(what: str, values: Sequence[int]) -> None:
    """Raises UnsupportedError unless the numbers for the batch and the channels are 1."""
    if any(v != 1 for v in values):
        raise UnsupportedError(f"{what} over the batch or the channels is not supported: {np.asarray(values).tolist()}")
