"""Random numbers of the right distribution; they differ in every run, whatever the seeds are."""

from __future__ import annotations

import numpy as np

from minnow.converter.tensorflow.frontend import frontend as tf
from minnow.converter.tensorflow.ops.movement import cast, wide
from minnow.schema.ir import DType


@tf.op("RandomUniform")
def _(b, shape, *, dtype):
    return b.RandomUniform(wide(b, shape), to=dtype)


@tf.op("StatelessRandomUniform", "StatelessRandomUniformV2")
def _(b, shape, *_, dtype=DType.F32):
    return b.RandomUniform(wide(b, shape), to=dtype)


@tf.op("RandomStandardNormal")
def _(b, shape, *, dtype):
    return b.RandomNormal(wide(b, shape), to=dtype)


@tf.op("StatelessRandomNormal", "StatelessRandomNormalV2")
def _(b, shape, *_, dtype=DType.F32):
    return b.RandomNormal(wide(b, shape), to=dtype)


@tf.op("RandomUniformInt", "StatelessRandomUniformInt", "StatelessRandomUniformIntV2")
def _(b, shape, *operands):
    low, high = operands[-2:]
    part = b.RandomUniform(wide(b, shape), to=DType.F64)
    span = b.Sub(cast(b, high, DType.F64), cast(b, low, DType.F64))
    return b.Add(b.Cast(b.Floor(b.Mul(part, span)), to=low.type.dtype), low)


@tf.op("TruncatedNormal", "StatelessTruncatedNormal", "StatelessTruncatedNormalV2")
def _(b, shape, *_, dtype=DType.F32):
    # Within two standard deviations: the inverse of the distribution of what lies there.
    from minnow.converter.decomposition.special import erfinv

    edge = 0.9544997361036416  # erf(sqrt(2))
    part = b.RandomUniform(wide(b, shape), low=-edge, high=edge, to=DType.F32)
    return cast(b, b.Mul(erfinv(b, part), float(np.sqrt(2))), dtype)


@tf.op("Multinomial", "StatelessMultinomial")
def _(b, logits, samples, *_, output_dtype=DType.I64):
    from minnow.converter.operand import ints

    (count,) = ints(samples, "the number of samples")
    to = output_dtype if output_dtype in (DType.I32, DType.I64) else DType.I64
    return cast(b, b.Multinomial(logits, samples=count, to=to), output_dtype)


@tf.op("StatelessRandomGetKeyCounter", outputs=("key", "counter"))
def _(b, seed):
    return b.const(np.zeros(1, np.uint64)), b.const(np.zeros(2, np.uint64))


@tf.op("StatelessRandomGetAlg")
def _(b):
    return b.const(np.array(1, np.int32))


@tf.op("StatelessRandomGetKeyCounterAlg", outputs=("key", "counter", "alg"))
def _(b, seed):
    return b.const(np.zeros(1, np.uint64)), b.const(np.zeros(2, np.uint64)), b.const(np.array(1, np.int32))
