"""Pooling: windows, adaptive pooling, and unpooling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, regroup, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.window import batched, in_float, per_axis
from minnow.converter.torch.symbolic.dimension import dimensions, known, size_of, sizes_of, vector_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder, window

Array = np.ndarray[Any, Any]


def _axes(op: str) -> int:
    """The spatial axes of "max_pool2d_with_indices"."""
    return int(op[op.index("d", op.index("pool")) - 1])


def _geometry(n: int, kernel: Any, stride: Any, padding: Any, dilation: Any = 1) -> dict[str, tuple[int, ...]]:
    kernel = per_axis(kernel, n, "the kernel")
    return {"kernel": kernel, "strides": per_axis(stride, n, "the stride", kernel),
            "pads": per_axis(padding, n, "the padding") * 2,
            "dilations": per_axis(dilation, n, "the dilation")}  # fmt: skip


def _plane(b: Builder, places: Value, x: Value) -> Any:
    """Places in all of x[N, C, spatial...] as places in its plane."""
    sizes = sizes_of(b, x)[2:]
    numbers = [s for s in sizes if isinstance(s, int)]
    if len(numbers) == len(sizes):
        return b.Mod(places, b.const(np.array(math.prod(numbers), np.int64)))
    return b.Mod(places, b.ReduceProd(vector_of(b, sizes), keepdims=False))


def _register_max_pool(n: int) -> None:
    @torch.op(f"aten::max_pool{n}d")
    def _(b, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        attrs = _geometry(n, kernel_size, stride, padding, dilation)
        return batched(b, self, n, lambda x: b.MaxPool(x, **attrs, ceil_mode=bool(ceil_mode), n_outputs=1)[0])

    @torch.op(f"aten::max_pool{n}d_with_indices")
    def _(b, self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        attrs = _geometry(n, kernel_size, stride, padding, dilation)

        def pool(x: Value) -> tuple[Value, Value]:
            y, places = b.MaxPool(x, **attrs, ceil_mode=bool(ceil_mode), n_outputs=2)
            return y, _plane(b, places, x)

        return batched(b, self, n, pool)


def _register_avg_pool(n: int) -> None:
    @torch.op(f"aten::avg_pool{n}d")
    def _(b, self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
        attrs = _geometry(n, kernel_size, stride, padding)
        if divisor_override is None:
            flags = {"ceil_mode": bool(ceil_mode), "count_include_pad": bool(count_include_pad)}
            return batched(b, self, n, lambda x: in_float(b, lambda v: b.AveragePool(v, **attrs, **flags), x))
        return batched(b, self, n, lambda x: in_float(b, lambda v: _sum(b, v, attrs, ceil_mode, divisor_override), x))


def _sum(b: Builder, x: Value, attrs: dict[str, tuple[int, ...]], ceil_mode: bool, divisor: int) -> Any:
    """The sums of windows by a number: their means by what they hold, with padding where one would end behind it."""
    n = len(attrs["kernel"])
    kernel, strides, begins = attrs["kernel"], attrs["strides"], attrs["pads"][:n]
    ends = list(begins)
    if ceil_mode:
        sizes = [static_dim(x.type, 2 + i, "what is pooled") for i in range(n)]
        pads = [(p, p) for p in begins]
        counts = window.counts(sizes, kernel, strides, pads, ceil_mode=True)
        kernel = window.fitted(sizes, kernel, attrs["dilations"], pads)
        rows = zip(sizes, counts, kernel, strides, begins, strict=True)
        ends = [max(p, (count - 1) * s + k - size - p) for size, count, k, s, p in rows]
    attrs = {**attrs, "kernel": kernel, "pads": (*begins, *ends)}
    return b.Mul(b.AveragePool(x, **attrs, count_include_pad=True), float(np.prod(kernel) / divisor))


for _n in (1, 2, 3):
    _register_max_pool(_n)
    _register_avg_pool(_n)


# ---- to a given size


def _windows(size: int, out: int) -> tuple[Array, Array]:
    """Where the windows of adaptive pooling start and end."""
    i = np.arange(bounded(out, "the result of a pooling"))
    return i * size // out, -(-(i + 1) * size // out)


def _even(starts: Array, ends: Array) -> tuple[int, int] | None:
    """Length and stride of windows that are all alike."""
    length = int(ends[0] - starts[0]) if len(starts) else 0
    stride = int(starts[1] - starts[0]) if len(starts) > 1 else length
    alike = len(starts) and np.all(ends - starts == length) and np.array_equal(starts, np.arange(len(starts)) * stride)
    return (length, stride) if alike and starts[0] == 0 else None


class _Adaptive:
    """Pooling of x[N, C, spatial...] to given sizes: where the windows are not alike, they are laid side by side."""

    def __init__(self, b: Builder, x: Value, out: list[int]) -> None:
        n = len(out)
        self.b, self.n = b, n
        self.sizes = [static_dim(x.type, 2 + i, "what is pooled to a given size") for i in range(n)]
        self.rows = [_windows(s, o) for s, o in zip(self.sizes, out, strict=True)]
        even = [_even(*r) for r in self.rows]
        self.even = all(even)
        if self.even:
            self.kernel, self.strides = (tuple(e[k] for e in even if e) for k in (0, 1))
        else:
            self.kernel = tuple(int((ends - starts).max(initial=1)) for starts, ends in self.rows)
            self.strides = self.kernel

    def attrs(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "strides": self.strides, "pads": (0,) * 2 * self.n, "dilations": (1,) * self.n}

    def places(self, axis: int, beyond: int | None = None) -> Array:
        """The elements of all windows along an axis; `beyond` their end comes that one, or the last one once more."""
        starts, ends = self.rows[axis]
        bounded(len(starts) * self.kernel[axis], "the windows of a pooling")
        at = starts[:, None] + np.arange(self.kernel[axis])
        last = ends[:, None] - 1
        return np.asarray(np.where(at <= last, at, last if beyond is None else beyond).reshape(-1))

    def counts(self) -> Array:
        """How many elements each window has."""
        total = np.ones((1,) * self.n)
        for i, (starts, ends) in enumerate(self.rows):
            total = total * (ends - starts).reshape([-1 if k == i else 1 for k in range(self.n)])
        return total


def _adaptive_mean(b: Builder, x: Value, out: list[int]) -> Any:
    if all(o == 1 for o in out):
        return b.GlobalAveragePool(x)
    a = _Adaptive(b, x, out)
    if a.even:
        return b.AveragePool(x, **a.attrs())
    # Windows that are shorter than others are filled up with zeros.
    x = b.Pad(x, np.array([0, 0] * 2 + [0, 1] * a.n))
    for i in range(a.n):
        x = b.Gather(x, a.places(i, a.sizes[i]), axis=2 + i)
    factors = np.prod(a.kernel) / a.counts()
    return b.Mul(b.AveragePool(x, **a.attrs()), b.const(factors.astype(x.type.dtype.numpy)))


def _adaptive_max(b: Builder, x: Value, out: list[int]) -> tuple[Value, Value]:
    a = _Adaptive(b, x, out)
    if a.even:
        y, at = b.MaxPool(x, **a.attrs(), n_outputs=2)
        return y, _plane(b, at, x)
    index = np.arange(bounded(math.prod(a.sizes), "the places of a pooling")).reshape(a.sizes)
    for i in range(a.n):
        x, index = b.Gather(x, a.places(i), axis=2 + i), np.take(index, a.places(i), i)
    y, at = b.MaxPool(x, **a.attrs(), n_outputs=2)
    return y, b.Gather(b.const(index.reshape(-1)), _plane(b, at, x))


def _wanted(x: Value, output_size: Any, n: int) -> list[int]:
    return list(per_axis(output_size, n, "the output size"))


def _register_adaptive(n: int) -> None:
    @torch.op(f"aten::adaptive_avg_pool{n}d", f"aten::_adaptive_avg_pool{n}d")
    def _(b, self, output_size):
        return batched(b, self, n, lambda x: _adaptive_mean(b, x, _wanted(x, output_size, n)))

    @torch.op(f"aten::adaptive_max_pool{n}d")
    def _(b, self, output_size):
        return batched(b, self, n, lambda x: _adaptive_max(b, x, _wanted(x, output_size, n)))


for _n in (1, 2, 3):
    _register_adaptive(_n)


# ---- back


def _unpooled(b: Builder, x: Value, indices: Value, sizes: list[Any]) -> Any:
    lead = [size_of(b, x, 0), size_of(b, x, 1)]
    plane = 1
    for s in sizes:
        plane *= known(s, "the output size")
    flat, at = (regroup(b, v, [*dimensions(b, lead), -1]) for v in (x, indices))
    zeros = b.Fill(vector_of(b, [*lead, plane]), b.const(np.zeros((), x.type.dtype.numpy)))
    return regroup(b, b.ScatterElements(zeros, at, flat, axis=2), dimensions(b, [*lead, *sizes]))


@torch.op("aten::max_unpool2d")
def _(b, self, indices, output_size):
    return _unpool(b, self, indices, output_size, 2)


@torch.op("aten::max_unpool3d")
def _(b, self, indices, output_size, stride, padding):
    return _unpool(b, self, indices, output_size, 3)


def _unpool(b: Builder, x: Value, indices: Value, sizes: list[Any], n: int) -> Any:
    if x.type.rank == n + 1:
        indices = b.Unsqueeze(indices, axes=(0,))
    return batched(b, x, n, lambda v: _unpooled(b, v, indices, sizes))


def _refused(b: Builder, self: Value, kernel_size: Any, output_size: Any, random_samples: Any) -> Any:
    raise UnsupportedError(
        "fractional pooling, which takes random windows, is not supported", hint="use adaptive pooling"
    )


torch.op("aten::fractional_max_pool2d", "aten::fractional_max_pool3d")(_refused)
