"""Random numbers. Every run of a session gives others; every new session gives the same again.

They come from Philox4x32-10, a function of the seed, the number of the run and the place in the tensor: so they depend
neither on threads nor on what was computed before. The references give those of a session's first run.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minnow.schema.errors import ModelError
from minnow.schema.ir import DType, Node, TensorType
from minnow.schema.registry.dimension import contents, length, need_rank, unknown
from minnow.schema.registry.encoding import FROM_WIRE_DTYPE, WIRE_DTYPES, bound
from minnow.schema.registry.op import FLOATS, Arg, Decoded, Float, Int, Op, Trait, WireOp, op

Array = np.ndarray[Any, Any]
RANDOM = frozenset({Trait.RANDOM})

# Bits of a fraction that every number of the type below 1 can have.
_BITS = {DType.F32: 24, DType.F64: 53, DType.F16: 11, DType.BF16: 8}


@op(traits=RANDOM)
def RandomUniform(shape: Int, *, low: float = 0.0, high: float = 1.0, seed: int = 0, to: DType = DType.F32):
    """Numbers from [low, high), evenly distributed, in that shape. `seed` is an int32."""
    bits = 2.0 ** _BITS[to]
    part = np.floor(_fractions(_count(shape), seed) * bits) / bits
    return (low + part * (high - low)).astype(to.numpy).reshape(shape)


@op(traits=RANDOM)
def RandomNormal(shape: Int, *, mean: float = 0.0, scale: float = 1.0, seed: int = 0, to: DType = DType.F32):
    """Numbers of a normal distribution of that mean and standard deviation, in that shape. `seed` is an int32."""
    n = _count(shape)
    u, v = _fractions(n + n % 2, seed).reshape(-1, 2).T
    radius, angle = np.sqrt(-2 * np.log(1 - u)), 2 * np.pi * v
    both = np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1).reshape(-1)[:n]
    return (mean + scale * both).astype(to.numpy).reshape(shape)


@op(traits=RANDOM | {Trait.NONNEGATIVE})
def Multinomial(x: Float, *, samples: int = 1, seed: int = 0, to: DType = DType.I32):
    """Classes drawn with probabilities proportional to exp(x[batch, classes]): [batch, samples]. `seed` is an int32."""
    wide = x.astype(np.float64)
    steps = np.cumsum(np.exp(wide - np.max(wide, 1, keepdims=True, initial=-np.inf)), 1)
    part = _fractions(len(x) * samples, seed).reshape(len(x), samples)
    drawn = np.sum(part[:, :, None] * steps[:, None, -1:] >= steps[:, None, :], 2)
    return np.minimum(drawn, x.shape[1] - 1).astype(to.numpy)


def _count(shape: Array) -> int:
    return int(np.prod(shape, dtype=np.int64))


def _fractions(n: int, seed: int) -> Array:
    """n multiples of 2^-53 from [0, 1): two from each block of the generator."""
    words = philox(np.arange((n + 1) // 2, dtype=np.uint64), 0, seed).reshape(-1, 2)
    return ((words[:, 0] >> 5) * 2.0**26 + (words[:, 1] >> 6))[:n] / 2.0**53


def philox(block: Array, run: int, seed: int) -> Array:
    """Blocks of four 32-bit words of Philox4x32-10, as uint64[n, 4] (Salmon et al., Parallel random numbers, 2011).

    Args:
        block: uint64 numbers of the blocks, the low half of the counter; `run` is the high half.
        seed: the low half of the key; the high half is 0.
    """
    low = np.uint64(0xFFFFFFFF)
    bits = np.uint64(32)
    a, b = block & low, block >> bits
    c, d = (np.full_like(block, v) for v in (run & 0xFFFFFFFF, run >> 32))
    keys = [np.uint64(seed & 0xFFFFFFFF), np.uint64(0)]
    for _ in range(10):
        x, y = a * np.uint64(0xD2511F53), c * np.uint64(0xCD9E8D57)
        a, b, c, d = (y >> bits) ^ b ^ keys[0], y & low, (x >> bits) ^ d ^ keys[1], x & low
        keys = [(k + np.uint64(w)) & low for k, w in zip(keys, (0x9E3779B9, 0xBB67AE85), strict=True)]
    return np.stack([a, b, c, d], 1)


# ---- types -------------------------------------------------------------------------------------------------------


def _check_seed(seed: int) -> None:
    if not -(2**31) <= seed < 2**31:
        raise ModelError(f"the seed {seed} is no int32")


def _made(shape: Arg, seed: int, to: DType, **attrs: Any) -> TensorType:
    _check_seed(seed)
    if to not in FLOATS:
        raise ModelError(f"there are no random numbers of type {to}", why="only floats are made")
    n, wanted = length(shape), contents(shape)
    if wanted is not None and min(wanted, default=0) < 0:
        raise ModelError(f"cannot fill the shape {wanted}", why="a dimension is negative")
    return TensorType(to, unknown(n) if wanted is None else wanted)


for _op in (RandomUniform, RandomNormal):
    _op.shape(_made)


@Multinomial.shape
def _(x: Arg, samples: int, seed: int, to: DType) -> TensorType:
    _check_seed(seed)
    need_rank(x, 2, "the input")
    if to not in (DType.I32, DType.I64):
        raise ModelError(f"the classes are to be {to}", why="they are int32 or int64")
    if samples < 0:
        raise ModelError(f"the number of samples is {samples}")
    batch, classes = ("?", "?") if x.shape is None else x.shape
    if classes == 0 and batch != 0:
        raise ModelError(f"cannot draw from {x.type}", why="there are no classes")
    return TensorType(to, (batch, samples))


# ---- encoding ----------------------------------------------------------------------------------------------------


def _register(target: Op, first: str, second: str) -> None:
    @target.encode(target.name)
    def _(node: Node) -> WireOp | None:
        attrs = bound(node)
        # Runtimes make float32 only, and take a seed of 0 for none.
        if attrs["to"] is not DType.F32 or not attrs["seed"]:
            return None
        main = {"low": attrs[first], "high": attrs[second], "seed": attrs["seed"], "type": WIRE_DTYPES[attrs["to"]]}
        return WireOp(target.name, "RandomUniform", main, node.inputs)

    @target.decode
    def _(wire: WireOp) -> Decoded:
        to = FROM_WIRE_DTYPE.get(wire.field("type", "DT_FLOAT"))
        if to not in FLOATS or len(wire.inputs) != 1:
            return None
        ends = {first: wire.field("low", 0.0), second: wire.field("high", 1.0)}
        return wire.inputs, {**ends, "seed": wire.field("seed", 0) ^ wire.field("seed2", 0), "to": to}


_register(RandomUniform, "low", "high")
_register(RandomNormal, "mean", "scale")


# ---- samples -----------------------------------------------------------------------------------------------------


def _shapes(**more):
    for dims in ((), (1,), (7,), (2, 3, 5), (0, 3), (33, 41)):
        yield (np.array(dims, np.int64),), {"seed": 7, **more}
    for to in (DType.F64, DType.F16, DType.BF16):
        yield (np.array([3, 5], np.int32),), {"to": to, "seed": -5, **more}


@RandomUniform.samples
def _(rng):
    yield from _shapes()
    yield from _shapes(low=-3.0, high=5.0)


@RandomNormal.samples
def _(rng):
    yield from _shapes()
    yield from _shapes(mean=-3.0, scale=0.25)


@Multinomial.samples
def _(rng):
    yield ((3, 5),), {"samples": 17, "seed": 3}
    yield ((1, 1),), {"samples": 4}
    yield ((2, 100),), {"samples": 9, "to": DType.I64, "seed": -1}
    yield ((2, 3),), {"samples": 0}
    yield ((0, 3),), {"samples": 2}
    yield (rng.standard_normal((4, 6)),), {"samples": 31}
    yield (np.array([[0, -np.inf, 0], [-np.inf, -1e30, -np.inf]], np.float32),), {"samples": 40}
