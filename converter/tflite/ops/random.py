"""Random numbers: not TFLite's, but of the same distributions."""

from __future__ import annotations

from minnow.converter.operand import constant
from minnow.converter.tflite.frontend import frontend as tflite
from minnow.converter.tflite.ops.movement import wide


def seed_of(seed: int, seed2: int) -> int:
    """One 31-bit seed of both; 0 means another one in every run."""
    return (seed * 0x9E3779B1 ^ seed2) & 0x7FFFFFFF


@tflite.op("RANDOM_UNIFORM")
def _(b, shape, *, seed=0, seed2=0, node):
    return b.RandomUniform(wide(b, shape), seed=seed_of(seed, seed2), to=node.type_out().dtype)


@tflite.op("RANDOM_STANDARD_NORMAL")
def _(b, shape, *, seed=0, seed2=0, node):
    return b.RandomNormal(wide(b, shape), seed=seed_of(seed, seed2), to=node.type_out().dtype)


@tflite.op("MULTINOMIAL")
def _(b, logits, count, *, seed=0, seed2=0, node):
    samples = int(constant(count, "the number of samples").reshape(-1)[0])
    drawn = b.Multinomial(logits, samples=samples, seed=seed_of(seed, seed2))
    to = node.type_out().dtype
    return drawn if drawn.type.dtype is to else b.Cast(drawn, to=to)
