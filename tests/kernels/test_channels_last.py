"""Quantized networks whose images have their channels last between layers, where the processor has tiles of bytes.

The same network must give the reference's bytes with each unit; with tiles, no layer in its midst may need a
conversion.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.schema.ir import DType, Graph, Model, TensorType
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate

# What each name of MINNOW_INT8 needs of the processor, as Linux names it.
UNITS = {"amx": "amx_int8", "emulated": "avx512_vnni", "avx512": "avx512_vnni", "none": None}


class Network:
    """Convolutions with pads, strides and groups, and what stands between them, in bytes of one type.

    With `whole`, results are made of sums by multipliers and shifts, which are whole numbers.
    """

    def __init__(self, to: DType, channels: int, whole: bool) -> None:
        self.whole = whole
        self.rng = np.random.default_rng(channels)
        self.to = to
        self.graph = Graph()
        self.b = Builder(self.graph)
        x = self.graph.add_param(TensorType(DType.U8, (2, 3, 19, 21)), "x")
        y = self.conv(x, 3, channels, 7, stride=2)
        y = self.b.MaxPool(y, kernel=(3, 3), strides=(1, 1), pads=(1, 1, 1, 1), dilations=(1, 1))
        inner = self.conv(y, channels, 2 * channels, 1)
        inner = self.conv(inner, 2 * channels, 2 * channels, 3, group=2 * channels)
        inner = self.conv(inner, 2 * channels, 2 * channels, 7, group=2 * channels)
        inner = self.conv(inner, 2 * channels, channels, 1)
        inner = self.b.LookUp(inner, self.rng.integers(0, 100, 256).astype(to.numpy))
        tables = [np.rint((np.arange(256) - 99) * s * 2**20).astype(np.int32) for s in (0.4, 0.7)]
        low = np.iinfo(to.numpy).min
        y = self.b.QuantizedSum(
            y,
            np.int32(2**30),
            np.int32(-19),
            tables[0],
            inner,
            tables[1],
            zero=low + 77,
            to=to,
            min=low,
            max=low + 255,
        )
        y = self.gated(y, channels)
        joined = self.b.Concat(inner, y, inner, axis=1)
        last = self.conv(joined, 3 * channels, 37, 3, stride=2)
        mode = "CRD" if channels == 20 else "DCR"
        blocks = self.b.DepthToSpace(self.conv(y, channels, 20, 1), blocksize=2, mode=mode)
        fine = self.conv(blocks, 5, 7, 3)
        self.graph.outputs = [y, last, fine]
        for value, name in ((y, "sum"), (last, "last"), (fine, "fine")):
            value.name = name

    def gated(self, x: Any, channels: int) -> Any:
        """The image times a number for each of its channels."""
        h, w = x.type.static_shape[2:]
        most = self.b.MaxPool(x, kernel=(h, w), strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1))
        gate = self.conv(most, channels, channels, 1)
        terms = [self.b.DequantizeLinear(v, np.float32(s), np.asarray(z, self.to.numpy)) for v, s, z in
                 ((x, 0.05, 60), (gate, 0.011, 20))]  # fmt: skip
        return self.b.QuantizeLinear(self.b.Mul(*terms), np.float32(0.03), np.asarray(33, self.to.numpy), to=self.to)

    def conv(self, x: Any, ins: int, outs: int, kernel: int, stride: int = 1, group: int = 1) -> Any:
        rng = self.rng
        w = rng.integers(-128, 128, (outs, ins // group, kernel, kernel)).astype(np.int8)
        factor = rng.uniform(0.003, 0.01, (outs, 1, 1)) / np.sqrt(w[0].size)
        zero, bias = np.asarray(rng.integers(1, 120), x.type.dtype.numpy), rng.integers(-4000, 4000, (outs, 1, 1))
        end: tuple[Any, ...] = (factor.astype(np.float32), np.asarray(rng.integers(1, 100), self.to.numpy))
        limits: dict[str, int] = {}
        if self.whole:
            part, shift = np.frexp(factor)
            # No shift, and one to the left; one that leaves 32 bits; and in large layers a negative multiplier.
            shift.flat[:4] = 0, 3, -31, -1
            part.flat[:4] = 2.0**-8, 2.0**-12, 0.7, 2.0**-7
            if outs > 40:
                shift.flat[5], part.flat[6] = 20, -0.6
            end = (np.rint(part * (2.0**31 - 1)).astype(np.int32), shift.astype(np.int32))
            low = np.iinfo(self.to.numpy).min
            limits = {"zero": low + int(rng.integers(1, 200)), "min": low + 7, "max": low + 249}
        window = {"strides": (stride, stride), "pads": (kernel // 2,) * 4, "dilations": (1, 1), "group": group}
        return self.b.QuantizedConv(x, w, zero, None, bias.astype(np.int32), *end, **window, to=self.to, **limits)

    def differences(self) -> list[str]:
        types = [(v.name, v.type) for v in self.graph.outputs]
        model = Model(self.graph, [("x", self.graph.params[0].type)], types)
        x = self.rng.integers(0, 256, self.graph.params[0].type.shape).astype(np.uint8)
        want = dict(zip((name for name, _ in types), evaluate(self.graph, [x]), strict=True))
        found = []
        for threads in (1, 3):
            session = minnow.load(encode(model), threads=threads)
            got = session.run({"x": x})
            found += [f"{name}, {threads} threads" for name, y in want.items() if not np.array_equal(got[name], y)]
        rows = session.profile({"x": x}, 1)
        return found + [f"{row['op']} {row['scheme']}" for row in rows]


def run(unit: str, to: str, channels: int, whole: bool) -> list[str]:
    needed = UNITS[unit]
    if needed is not None and needed not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip(f"this processor has no {needed}")
    command = [sys.executable, __file__, to, str(channels), *(["whole"] if whole else [])]
    done = subprocess.run(command, env={**os.environ, "MINNOW_INT8": unit}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("channels", [16, 20, 72])
@pytest.mark.parametrize("to", ["u8", "i8"])
@pytest.mark.parametrize("unit", UNITS)
def test_bytes_are_those_of_the_reference(unit: str, to: str, channels: int, whole: bool) -> None:
    lines = run(unit, to, channels, whole)
    assert not [line for line in lines if "threads" in line]
    is_last = any("_last" in line for line in lines)
    assert is_last == (unit != "none")
    # The outputs alone are brought back.
    assert sum("pack" in line.lower() for line in lines) == (3 if is_last else 0)


if __name__ == "__main__":
    network = Network(DType[sys.argv[1].upper()], int(sys.argv[2]), "whole" in sys.argv)
    sys.stdout.write("\n".join(network.differences()))
