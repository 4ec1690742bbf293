"""Recurrent layers with weights of 8 bits, whose rows are quantized by their own ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import UNKNOWN
from minnow.schema.ops.matmul import Int8
from minnow.schema.ops.quantize import DynamicQuantizeLinear, Float32
from minnow.schema.ops.recurrent import LSTM, Activation, Direction, directions_of, layer_macs, lstm, operands_of
from minnow.schema.ops.special import Array
from minnow.schema.registry.op import ROUNDING, Arg, Sample, Sizes, op


@op(outputs=3, traits=ROUNDING)
def DynamicLSTM(
    x: Float32,
    w: Int8,
    r: Int8,
    b: Float32 | None = None,
    lens: Sizes | None = None,
    h0: Float32 | None = None,
    c0: Float32 | None = None,
    p: Float32 | None = None,
    w_scale: Float32 | None = None,
    r_scale: Float32 | None = None,
    w_zero: Int8 | None = None,
    r_zero: Int8 | None = None,
    *,
    hidden: int,
    direction: Direction = "forward",
    activations: tuple[str, ...] = (),
    activation_alpha: tuple[float, ...] = (),
    activation_beta: tuple[float, ...] = (),
    clip: float = 0.0,
    input_forget: bool = False,
    cell_clip: float = 0.0,
    one_range: bool = False,
):
    """`LSTM` with weights of 8 bits, w[D,I,4H] and r[D,H,4H]: each row of x and of h is quantized by its own range.

    A row, of one step and sequence, becomes u8 as by `DynamicQuantizeLinear`. With `one_range` all rows of x up to the
    last step of a sequence have one range, and all rows of h in a step, as in onnxruntime. The exact sums of products,
    less the zero points of both, are multiplied by the scale of the row times that of the weights. `w_scale` and
    `r_scale`, which are needed, and the zero points have the shape [D], or [D,4H] for one number for each column.
    """
    assert w_scale is not None  # the type of the node says so
    assert r_scale is not None
    attrs = (direction, activations, activation_alpha, activation_beta, clip, input_forget, cell_clip)

    last = len(x) if lens is None else int(lens.max(initial=0))
    ranges = ((lambda rows: x[:last]), (lambda rows: rows)) if one_range else (None, None)

    def products(d):
        return _of_bytes(w, w_scale, w_zero, d, ranges[0]), _of_bytes(r, r_scale, r_zero, d, ranges[1])

    return lstm(x, products, (b, lens, h0, c0, p), hidden, *attrs)


def _of_bytes(weights: Array, scale: Array, zero: Array | None, d: int, range_of: Activation | None) -> Activation:
    """The products of rows with weights, where the rows have the range of what `range_of` gives, or each its own."""
    centered = weights[d].astype(np.int64) - (0 if zero is None else zero[d].astype(np.int64))

    def product(rows: Array) -> Array:
        made = np.zeros((len(rows), centered.shape[1]))
        for row, to in zip(rows.astype(np.float32), made, strict=True):
            whole = row if range_of is None else range_of(rows).astype(np.float32)
            _, step, middle = DynamicQuantizeLinear.evaluate([whole], {})
            numbers = np.clip(np.rint(row / step) + middle, 0, 255).astype(np.int64)
            to[:] = ((numbers - int(middle)) @ centered) * (step * scale[d]).astype(np.float64)
        return made

    return product


DynamicLSTM.macs(layer_macs)


@DynamicLSTM.shape
def _(x, w, r, b, lens, h0, c0, p, w_scale, r_scale, w_zero, r_zero, **attrs):
    def turned(v: Arg) -> Arg:
        """As the weights of LSTM, whose last axes are the other way round."""
        shape = v.shape
        return Arg(x.type.with_shape(shape if shape is None or len(shape) != 3 else (shape[0], shape[2], shape[1])))

    attrs.pop("one_range")
    types = LSTM.infer([x, turned(w), turned(r), b, lens, h0, c0, p], attrs, 3)
    d, columns = len(directions_of(attrs["direction"])), 4 * attrs["hidden"]
    for name, weights, scale, zero in (("w", w, w_scale, w_zero), ("r", r, r_scale, r_zero)):
        if scale is None:
            raise ModelError(f"the scale of '{name}' is missing")
        if zero is not None and zero.dtype is not weights.dtype:
            raise ModelError(f"the zero point of '{name}' is {zero.dtype}, but the weights are {weights.dtype}")
        for v in (scale, zero):
            if v is not None and v.shape is not None and not any(
                len(v.shape) == len(wanted) and all(n in (m, UNKNOWN) for n, m in zip(v.shape, wanted, strict=True))
                for wanted in ((d,), (d, columns))
            ):  # fmt: skip
                raise ModelError(f"a scale or zero point of '{name}' has the shape {v.shape}: not {d} or {d, columns}")
    return types


@DynamicLSTM.samples
def _(rng: np.random.Generator) -> Iterator[Any]:
    def case(t=5, n=2, i=3, h=7, upto=4, lens=None, kinds=(np.int8, np.int8), each=False, zeros=False, **attrs):
        d = len(directions_of(attrs.get("direction", "forward")))
        x, _, _, *rest = operands_of(rng, 4, t, n, i, h, d)
        rest[1] = lens
        weights, scales, middles = [], [], []
        shape = (d, 4 * h) if each else (d,)
        for kind, k in zip(kinds, (i, h), strict=True):
            info = np.iinfo(kind)
            weights.append(rng.integers(info.min, info.max + 1, (d, k, 4 * h)).astype(kind))
            scales.append((rng.random(shape) * 0.004 + 0.001).astype(np.float32))
            middle = 128 if kind is np.uint8 else 0
            middles.append((rng.integers(-9, 10, shape) + middle).astype(kind) if zeros else None)
        given = [v if k + 3 < upto else None for k, v in enumerate(rest)]
        # A number that becomes another one by the last bit of an activation is a step of the range of a row.
        return Sample((x, *weights, *given, *scales, *middles), {"hidden": h, **attrs}, 3, rtol=2e-2)

    short = np.array([2, 5], np.int32)
    yield case(upto=3)
    yield case()
    yield case(t=0)
    yield case(t=1, n=1, i=1, h=1)
    yield case(t=3, n=1, i=70, h=67, each=True, zeros=True)
    yield case(t=7, n=3, i=9, h=33, kinds=(np.uint8, np.uint8), zeros=True)
    yield case(kinds=(np.uint8, np.int8), direction="reverse", each=True)
    for direction in ("forward", "bidirectional"):
        yield case(upto=8, lens=short, zeros=True, direction=direction)
    yield case(activations=("hardsigmoid", "leakyrelu", "elu"), clip=0.3, input_forget=True, cell_clip=0.2)
    yield case(n=9, one_range=True)
    yield case(upto=8, lens=np.array([2, 4], np.int32), zeros=True, direction="bidirectional", one_range=True)
