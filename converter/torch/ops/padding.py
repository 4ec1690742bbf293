"""Padding, pixel shuffles, and patches of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minnow.converter.operand import bounded, rank, regroup, static_dim
from minnow.converter.torch.frontend import frontend as torch
from minnow.converter.torch.ops.window import batched, per_axis
from minnow.converter.torch.symbolic.dimension import dimensions, known, sizes_of, vector_of
from minnow.converter.torch.symbolic.dtype import as_value
from minnow.schema.errors import ModelError, UnsupportedError
from minnow.schema.ir import Value
from minnow.schema.ops import Builder

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _padded(b: Builder, x: Value, pad: Sequence[Any], mode: str, value: Any = None) -> Any:
    """Padding is given from the last axis on, before and after it."""
    n = rank(x, "what is padded")
    if mode not in _MODES:
        raise UnsupportedError(f"the padding mode '{mode}' is not supported")
    if len(pad) % 2 or len(pad) > 2 * n:
        raise ModelError(f"{len(pad)} paddings do not fit {n} axes")
    pairs = [tuple(pad[i : i + 2]) for i in range(0, len(pad), 2)][::-1]
    if not pairs:
        return b.Identity(x)
    if mode in ("reflect", "replicate") and any(isinstance(v, int) and v < 0 for v in pad):
        return _picked(b, x, known(pairs, "the padding"), mode)
    numbers = [0] * 2 * (n - len(pairs)) + [v for pair in pairs for v in pair]
    filling = None if value is None or mode != "constant" else as_value(b, value, x.type.dtype)
    return b.Pad(x, vector_of(b, numbers), filling, mode=_MODES[mode])


def _picked(b: Builder, x: Value, pairs: Sequence[tuple[int, int]], mode: str) -> Any:
    """Padding of which some is negative: what is cut off may come back at the other end."""
    for axis, (before, after) in enumerate(pairs, rank(x, "what is padded") - len(pairs)):
        last = static_dim(x.type, axis, "what is padded") - 1
        places = np.arange(bounded(last + 1 + before + after, "the result of a padding")) - before
        if mode == "reflect":
            places = last - np.abs(last - np.abs(places))
        x = b.Gather(x, np.clip(places, 0, last), axis=axis)
    return x


@torch.op("aten::pad")
def _(b, self, pad, mode="constant", value=None):
    return _padded(b, self, pad, mode, value)


@torch.op("aten::_pad_enum")
def _(b, self, pad, mode, value=None):
    return _padded(b, self, pad, tuple(_MODES)[mode], value)


@torch.op("aten::constant_pad_nd")
def _(b, self, pad, value=0):
    return _padded(b, self, pad, "constant", value)


@torch.op("aten::reflection_pad1d", "aten::reflection_pad2d", "aten::reflection_pad3d")
def _(b, self, padding):
    return _padded(b, self, padding, "reflect")


@torch.op("aten::replication_pad1d", "aten::replication_pad2d", "aten::replication_pad3d")
def _(b, self, padding):
    return _padded(b, self, padding, "replicate")


@torch.op("aten::_pad_circular")
def _(b, self, pad):
    return _padded(b, self, pad, "circular")


# ---- channels and places


@torch.op("aten::pixel_shuffle", moves=True)
def _(b, self, upscale_factor):
    *lead, c, h, w = sizes_of(b, self)
    if len(lead) == 1:
        return b.DepthToSpace(self, blocksize=upscale_factor, mode="CRD")
    channels = known(c, "the channels") // upscale_factor**2
    image = regroup(b, self, [-1, *dimensions(b, [c, h, w])]) if 0 not in (*lead, c, h, w) else None
    if image is None:
        raise UnsupportedError("pixel_shuffle of an empty tensor is not supported")
    y = b.DepthToSpace(image, blocksize=upscale_factor, mode="CRD")
    ends = [known(v, "the image") * upscale_factor for v in (h, w)]
    return regroup(b, y, dimensions(b, [*lead, channels, *ends]))


@torch.op("aten::pixel_unshuffle", moves=True)
def _(b, self, downscale_factor):
    r, n = downscale_factor, rank(self, "the image")
    *lead, c, h, w = sizes_of(b, self)
    if len(lead) == 1 and isinstance(c, int):
        # Ours has the places in a block outside of the channels, PyTorch's inside.
        order = np.arange(bounded(c * r * r, "the result of pixel_unshuffle")).reshape(r * r, c).T.reshape(-1)
        y = b.SpaceToDepth(self, blocksize=r)
        return y if c == 1 else b.Gather(y, order, axis=1)
    channels, rows, columns = (known(v, "the image") for v in (c, h, w))
    split = [*lead, channels, rows // r, r, columns // r, r]
    k = n - 3
    perm = (*range(k), k, k + 2, k + 4, k + 1, k + 3)
    y = b.Transpose(regroup(b, self, dimensions(b, split)), perm=perm)
    return regroup(b, y, dimensions(b, [*lead, channels * r * r, rows // r, columns // r]))


@torch.op("aten::channel_shuffle", "aten::native_channel_shuffle", moves=True)
def _(b, self, groups):
    sizes = sizes_of(b, self)
    channels = static_dim(self.type, 1, "the channels")
    n = len(sizes)
    y = regroup(b, self, dimensions(b, [sizes[0], groups, channels // groups, *sizes[2:]]))
    return regroup(b, b.Transpose(y, perm=(0, 2, 1, *range(3, n + 1))), dimensions(b, sizes))


@torch.op("aten::im2col")
def _(b, self, kernel_size, dilation, padding, stride):
    kernel, dilations, pads, strides = (
        per_axis(v, 2, what) for v, what in ((kernel_size, "the kernel"), (dilation, "the dilation"),
                                             (padding, "the padding"), (stride, "the stride")))  # fmt: skip

    def columns(x: Value) -> Any:
        if any(pads):
            x = b.Pad(x, np.array([0, 0, 0, 0, pads[0], pads[0], pads[1], pads[1]]))
        for i, axis in enumerate((2, 4)):
            size = static_dim(x.type, axis, "the image of im2col")
            count = (size - (kernel[i] - 1) * dilations[i] - 1) // strides[i] + 1
            if count < 1:
                raise ModelError(f"a window of {kernel[i]} does not fit {size} elements")
            bounded(kernel[i] * count, "the result of im2col")
            x = b.Gather(x, np.arange(kernel[i])[:, None] * dilations[i] + np.arange(count) * strides[i], axis=axis)
        channels = static_dim(x.type, 1, "the channels") * kernel[0] * kernel[1]
        places = static_dim(x.type, 3, "the image") * static_dim(x.type, 5, "the image")
        return b.Reshape(b.Transpose(x, perm=(0, 1, 2, 4, 3, 5)), np.array([0, channels, places]))

    return batched(b, self, 2, columns)


@torch.op("aten::col2im")
def _(b, self, output_size, kernel_size, dilation, padding, stride):
    attrs = {"strides": per_axis(stride, 2, "the stride"), "pads": per_axis(padding, 2, "the padding") * 2,
             "dilations": per_axis(dilation, 2, "the dilation")}  # fmt: skip
    kernel = np.array(per_axis(kernel_size, 2, "the kernel"))
    return batched(b, self, 1, lambda x: b.Col2Im(x, vector_of(b, output_size), kernel, **attrs))
