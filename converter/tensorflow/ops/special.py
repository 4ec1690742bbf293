"""Special functions that the engine does not have."""

from __future__ import annotations

import numpy as np

from minnow.converter.decomposition.bessel import bessel_i
from minnow.converter.decomposition.special import digamma, erfinv, lgamma
from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast
from minnow.schema.ir import DType


@tf.op("Erfinv")
def _(b, x):
    return cast(b, erfinv(b, cast(b, x, DType.F32)), x.type.dtype)


@tf.op("Ndtri")
def _(b, x):
    y = erfinv(b, b.Sub(b.Mul(cast(b, x, DType.F32), 2.0), 1.0))
    return cast(b, b.Mul(y, float(np.sqrt(2))), x.type.dtype)


@tf.op("Lgamma")
def _(b, x):
    return lgamma(b, x)


@tf.op("Digamma")
def _(b, x):
    return digamma(b, x)


@tf.op("BesselI0", "BesselI0e", "BesselI1", "BesselI1e")
def _(b, x, *, node):
    return bessel_i(b, int(node.op[7]), x, node.op.endswith("e"))
