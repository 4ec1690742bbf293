"""Elementary functions of floats, on each instruction set, against the same in double precision.

The sweep has numbers of every exponent and sign, denormals too, and the special values; errors are counted in units in
the last place of the exact result.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from minnow.runtime import _engine

ISAS = ("avx512", "avx2", "sse4")
Array = np.ndarray[Any, Any]

erf = np.vectorize(math.erf, otypes=[np.float64])
erfc = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: Array) -> Array:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


# The op's other factor is a denormal where Silu is smaller than this, and has few bits.
LEAST_SILU = 1e-36

# What each op computes, and the most units it may be off.
FUNCTIONS = {
    "Exp": (np.exp, 2),
    "Expm1": (np.expm1, 2),
    "Log": (np.log, 2),
    "Tanh": (np.tanh, 2),
    "Erf": (erf, 2),
    "Sigmoid": (sigmoid, 2),
    "Silu": (lambda x: np.where(np.isneginf(x), np.nan, x * sigmoid(x)), 3),
    "Softplus": (lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))), 3),
    "Sin": (np.sin, 2),
    "Cos": (np.cos, 2),
    "Reciprocal": (lambda x: 1 / x, 1),
    "Sqrt": (np.sqrt, 0.5),
    "Atan": (np.arctan, 2),
    "Acos": (np.arccos, 2),
    "Asin": (np.arcsin, 2),
}

# What each activation of a matrix product computes, and the most it may be off, relative to the larger of |x| and 1.
ACTIVATIONS = {
    "gelu": (lambda x: np.where(np.isneginf(x), np.nan, x * erfc(-x / math.sqrt(2)) / 2), 2e-7),
    "silu": (FUNCTIONS["Silu"][0], 2e-7),
    "sigmoid": (sigmoid, 2e-7),
    "tanh": (np.tanh, 2e-7),
}


def sweep(rng: np.random.Generator) -> Array:
    mantissas = np.concatenate([[0, 1, 2, 0x7FFFFE, 0x7FFFFF], rng.integers(0, 1 << 23, 250)])
    bits = (np.arange(255, dtype=np.uint64)[:, None] << 23 | mantissas.astype(np.uint64)).ravel().astype(np.uint32)
    around = rng.uniform(-20, 20, 40000).astype(np.float32)
    magnitude = np.concatenate([bits.view(np.float32), around])
    return np.concatenate([magnitude, -magnitude, np.array([np.inf, -np.inf, np.nan], np.float32)])


def units_off(got: Array, want: Array) -> Array:
    """How far off float32 results are from exact ones, in the spacing of float32 numbers there."""
    with np.errstate(all="ignore"):
        rounded = want.astype(np.float32)
        exponent = np.frexp(np.where(np.isfinite(want), want, 1))[1]
        spacing = np.ldexp(1.0, np.maximum(exponent - 24, -149))
        off = np.abs(got.astype(np.float64) - want) / spacing
    same = ~np.isfinite(rounded) & ((got == rounded) | (np.isnan(got) & np.isnan(rounded)))
    # A result that rounds to infinity may be the largest number, and the other way round.
    edge = (np.isinf(rounded) != np.isinf(got)) & (np.sign(got) == np.sign(want))
    near = edge & (np.abs(want) > 3.4028232e38) & (np.abs(want) < 3.402824e38)
    return np.where(same | near, 0, np.where(np.isfinite(off), off, np.inf))


def failures() -> list[str]:
    x = sweep(np.random.default_rng(11))
    lines = []
    for op, (function, most) in FUNCTIONS.items():
        with np.errstate(all="ignore"):
            want = function(x.astype(np.float64))
        got = np.asarray(_engine.run_op(op, {}, [x])[0])
        off = units_off(got, want)
        if op == "Silu":
            off[(np.abs(want) < LEAST_SILU) & (np.abs(got) < LEAST_SILU)] = 0
        worst = int(np.argmax(off))
        if not off[worst] <= most + 0.01:
            lines.append(f"{op}({x[worst]!r}) = {got[worst]!r}, not {want[worst]!r}: {off[worst]:.3g} units")
    return lines


def activation_failures() -> list[str]:
    everything = sweep(np.random.default_rng(12))
    lines = []
    # One row, and two whose end fills no vector; the product is x itself.
    for rows, x in ((1, everything), (2, everything[5:])):
        product = [np.ones((rows, 1), np.float32), x[:, None]]
        for name, (function, most) in ACTIVATIONS.items():
            with np.errstate(all="ignore"):
                want = function(x.astype(np.float64))
                got = np.asarray(_engine.run_op("Linear", {"activation": name}, product, 1, 1, True)[0])
                off = np.abs(got - want) / np.maximum(np.abs(x), 1)
            off = np.where((got == want) | (np.isnan(got) & np.isnan(want)), 0, np.where(np.isnan(off), np.inf, off))
            row, worst = np.unravel_index(np.argmax(off), off.shape)
            if not off[row, worst] <= most:
                lines.append(f"{name}({x[worst]!r}) = {got[row, worst]!r}, not {want[worst]!r}")
            far = np.isfinite(x) & (np.abs(x) > 5.6)
            if name == "gelu" and not np.array_equal(got[:, far], np.tile(np.maximum(x[far], 0), (rows, 1))):
                lines.append("gelu(x) is neither x nor 0 far from 0")
    return lines


@pytest.mark.parametrize("isa", ISAS)
def test_is_accurate(isa: str) -> None:
    # The instruction set is chosen once per process.
    command = [sys.executable, __file__]
    done = subprocess.run(command, env={**os.environ, "MINNOW_ISA": isa}, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(isa)


if __name__ == "__main__":
    found = failures() + activation_failures()
    sys.stdout.write("\n".join([_engine.isa(), *found, ""]))
    sys.exit(bool(found))
