"""Images from the blocks they are made of."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN, DType, Node, TensorType
from minnow.schema.ops import window
from minnow.schema.registry.dimension import agree, contents, unknown
from minnow.schema.registry.encoding import bound
from minnow.schema.registry.op import Arg, Decoded, Int, Numeric, WireOp, op


@op()
def Col2Im(
    x: Numeric,
    image: Int,
    block: Int,
    *,
    strides: tuple[int, ...],
    pads: tuple[int, ...],
    dilations: tuple[int, ...],
):
    """Blocks x[N, C * block..., L] laid into an image [N, C, image...], and added where they overlap.

    The L blocks are those that a window of the shape `block` slides over, with strides, dilations and padding as of a
    convolution; what falls into the padding is lost.
    """
    dims, kernel = tuple(int(d) for d in image), tuple(int(d) for d in block)
    half = len(dims)
    full = [d + b + e for d, b, e in zip(dims, pads[:half], pads[half:], strict=True)]
    counts = window.counts(full, window.spread(kernel, dilations), strides, ((0, 0),) * half)
    n, planes, _ = x.shape
    channels = planes // int(np.prod(kernel))
    y = np.zeros((n, channels, *full), x.dtype if x.dtype.kind in "iu" else np.float64)
    blocks = x.reshape(n, channels, *kernel, *counts)
    for k, part in window.taps(y, counts, kernel, strides, dilations):
        index: Any = (slice(None), slice(None), *k)
        part += blocks[index]
    inside: Any = (..., *(slice(b, b + d) for b, d in zip(pads[:half], dims, strict=True)))
    return y[inside].astype(x.dtype)


@Col2Im.shape
def _(x: Arg, image: Arg, block: Arg, *, strides: Any, pads: Any, dilations: Any) -> TensorType:
    if x.rank not in (None, 3):
        raise ModelError(f"the input has rank {x.rank}, not 3", why="its axes are batch, elements of a block, blocks")
    dims, kernel = contents(image), contents(block)
    n = next((len(v) for v in (dims, kernel) if v is not None), None)
    for arg in (image, block):
        if arg.shape is not None and len(arg.shape) == 1 and isinstance(arg.shape[0], int):
            n = int(agree([n or arg.shape[0], arg.shape[0]], "axes of the image and of the blocks"))
    batch, planes, length = x.shape or (UNKNOWN,) * 3
    if n is None:
        return x.type.with_shape(None)
    any_shape = unknown(n) or ()
    window.check(n, kernel=kernel or (1,) * n, strides=strides, pads=pads, dilations=dilations)
    channels: Any = UNKNOWN
    if kernel is not None and isinstance(planes, int):
        size = int(np.prod(kernel))
        if planes % size:
            raise ModelError(f"{planes} elements are not a number of blocks of {kernel}")
        channels = planes // size
    if dims is not None and kernel is not None:
        ends = tuple(zip(pads[:n], pads[n:], strict=True))
        counts = window.counts(dims, window.spread(kernel, dilations), strides, ends)
        agree([length, int(np.prod(counts))], f"blocks in {dims}")
    return x.type.with_shape((batch, channels, *(dims or any_shape)))


@Col2Im.encode("Col2Im")
def _(node: Node) -> WireOp | None:
    attrs, kernel = bound(node), node.input(2).array
    strides, pads, dilations = (attrs[k] for k in ("strides", "pads", "dilations"))
    if len(strides) != 2 or kernel is None or node.input(0).type.dtype is not DType.F32:
        return None
    # Runtimes of the format take dilated blocks apart at other places.
    if any(d > 1 and k > 1 for d, k in zip(dilations, kernel.tolist(), strict=True)):
        return None
    common = {
        **dict(zip(("kernelY", "kernelX"), kernel.tolist(), strict=True)),
        **dict(zip(("strideY", "strideX"), strides, strict=True)),
        **dict(zip(("dilateY", "dilateX"), dilations, strict=True)),
        "padY": pads[0],
        "padX": pads[1],
        "pads": list(pads),
    }
    return WireOp("Col2Im", "Convolution2D", {"common": common}, node.inputs[:2])


@Col2Im.decode
def _(wire: WireOp) -> Decoded:
    common: dict[str, Any] = wire.field("common") or {}
    if len(wire.inputs) != 2:
        return None
    kernel, strides, dilations = (
        tuple(common.get(name + axis, 1) or 1 for axis in "YX") for name in ("kernel", "stride", "dilate")
    )
    pads = common.get("pads")
    given = (common.get("padY", 0), common.get("padX", 0)) * 2 if pads is None else tuple(int(p) for p in pads)
    block = np.array(kernel, np.int32)
    return (*wire.inputs, block), {"strides": strides, "pads": given, "dilations": dilations}


@Col2Im.samples
def _(rng):
    def case(batch, channels, image, block, length, dtype=None, **attrs):
        x = (batch, channels * int(np.prod(block)), length)
        if dtype is not None:
            x = rng.integers(-99, 99, x).astype(dtype)
        n = len(image)
        full = {"strides": (1,) * n, "pads": (0,) * 2 * n, "dilations": (1,) * n, **attrs}
        return (x, np.array(image), np.array(block)), full

    yield case(1, 1, (5, 5), (1, 5), 5)
    yield case(2, 3, (5, 7), (3, 2), 18)
    yield case(1, 2, (5, 5), (3, 3), 4, strides=(2, 2))
    yield case(1, 3, (5, 5), (1, 5), 15, pads=(0, 1, 0, 1))
    yield case(1, 2, (6, 6), (2, 2), 3, dilations=(1, 5), strides=(2, 2), pads=(0, 1, 0, 0))
    yield case(1, 2, (4, 5, 3), (2, 1, 2), 30, pads=(0, 0, 0, 0, 0, 0))
    yield case(2, 2, (11,), (3,), 6, strides=(2,), pads=(1, 1))
    yield case(1, 1, (2, 3, 2, 3), (1, 2, 2, 2), 8)
    yield case(0, 2, (3, 3), (2, 2), 4)
    yield case(1, 2, (4, 4), (2, 2), 9, np.int32)
    yield case(1, 1, (3,), (2,), 2, np.uint8)
    yield case(1, 1, (2, 2), (2, 2), 16, strides=(1, 1), pads=(2, 1, 1, 2))
