"""Colors of images: contrast, hue and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.converter.operand import rank
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast
from minnow.schema.ir import Value
from minnow.schema.ops import Builder


@tf.op("AdjustContrastv2")
def _(b, x, factor):
    n = rank(x, "an image")
    mean = b.ReduceMean(x, axes=(n - 3, n - 2))
    return b.Add(b.Mul(b.Sub(x, mean), cast(b, factor, x.type.dtype)), mean)


def _to_hsv(b: Builder, x: Value) -> Any:
    red, green, blue = b.Split(x, axis=-1, sizes=(1, 1, 1), n_outputs=3)
    value, low = b.ReduceMax(x, axes=(-1,)), b.ReduceMin(x, axes=(-1,))
    span = b.Sub(value, low)
    zero = b.const(np.zeros((), x.type.dtype.numpy))
    saturation = b.Where(b.Greater(value, 0.0), b.Div(span, value), zero)
    unit = b.Div(np.array(1 / 6, x.type.dtype.numpy), span)
    hue = b.Where(
        b.Equal(red, value),
        b.Mul(unit, b.Sub(green, blue)),
        b.Where(
            b.Equal(green, value),
            b.Add(b.Mul(unit, b.Sub(blue, red)), 2 / 6),
            b.Add(b.Mul(unit, b.Sub(red, green)), 4 / 6),
        ),
    )
    hue = b.Where(b.Greater(span, 0.0), hue, zero)
    hue = b.Where(b.Less(hue, 0.0), b.Add(hue, 1.0), hue)
    return hue, saturation, value


def _to_rgb(b: Builder, hue: Value, saturation: Value, value: Value) -> Any:
    turn = b.Mul(hue, 6.0)
    red = b.Sub(b.Abs(b.Sub(turn, 3.0)), 1.0)
    green, blue = (b.Add(b.Neg(b.Abs(b.Sub(turn, at))), 2.0) for at in (2.0, 4.0))
    pure = b.Clip(b.Concat(red, green, blue, axis=-1), min=0.0, max=1.0)
    return b.Mul(b.Add(b.Mul(saturation, b.Sub(pure, 1.0)), 1.0), value)


@tf.op("RGBToHSV")
def _(b, x):
    return b.Concat(*_to_hsv(b, x), axis=-1)


@tf.op("HSVToRGB")
def _(b, x):
    return _to_rgb(b, *b.Split(x, axis=-1, sizes=(1, 1, 1), n_outputs=3))


@tf.op("AdjustHue")
def _(b, x, delta):
    hue, saturation, value = _to_hsv(b, x)
    turned = b.Add(hue, cast(b, delta, x.type.dtype))
    return _to_rgb(b, b.Sub(turned, b.Floor(turned)), saturation, value)


@tf.op("AdjustSaturation")
def _(b, x, scale):
    hue, saturation, value = _to_hsv(b, x)
    return _to_rgb(b, hue, b.Clip(b.Mul(saturation, cast(b, scale, x.type.dtype)), min=0.0, max=1.0), value)
