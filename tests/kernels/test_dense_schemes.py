"""Convolution, pooling and matrix products of the sizes real models have, against onnxruntime.

The samples of the registry are small; these shapes reach every scheme that the kernels choose between (Winograd of both
tiles, bands, flat pixels, groups, first layers, sums cut in parts, few rows) and the edges of their tiles.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
import onnxruntime
from onnx import TensorProto, helper

from minnow.runtime import _engine

ISAS = ("avx512", "avx2", "sse4")

# n, channels, height, width, outputs, kernel, stride, padding, dilation, group
CONVOLUTIONS = {
    "winograd 4x4": (1, 64, 29, 31, 72, 3, 1, 1, 1, 1),
    "winograd 2x2": (1, 256, 14, 13, 130, 3, 1, 1, 1, 1),
    "winograd of a batch": (3, 35, 18, 9, 40, 3, 1, 0, 1, 1),
    "band": (1, 48, 15, 17, 50, 3, 2, 1, 1, 1),
    "band with dilation": (2, 20, 23, 19, 33, 3, 1, 2, 2, 1),
    "rows of the kernel outside": (1, 24, 3, 40, 20, 5, 1, 4, 1, 1),
    "flat": (2, 67, 13, 11, 129, 1, 1, 0, 1, 1),
    "flat, one pixel": (1, 515, 1, 1, 203, 1, 1, 0, 1, 1),
    "pointwise with stride": (1, 130, 15, 15, 65, 1, 2, 0, 1, 1),
    "first layer": (2, 3, 65, 63, 34, 7, 2, 3, 1, 1),
    "first layer, pointwise": (1, 4, 9, 31, 18, 1, 1, 0, 1, 1),
    "one channel": (1, 1, 40, 41, 9, 5, 1, 2, 1, 1),
    "depthwise": (1, 83, 27, 14, 83, 3, 1, 1, 1, 83),
    "depthwise with stride": (2, 33, 28, 21, 33, 5, 2, 2, 1, 33),
    "depthwise of 7x7": (2, 83, 7, 7, 83, 3, 1, 1, 1, 83),
    "depthwise of 14x14": (1, 40, 14, 14, 40, 5, 1, 2, 1, 40),
    "depthwise, tiles that overlap": (1, 20, 9, 25, 20, 3, 1, 1, 1, 20),
    "depthwise of 5x5, rows of 17": (2, 17, 6, 17, 17, 5, 1, 2, 1, 17),
    "depthwise, much padding": (1, 16, 8, 11, 16, 5, 1, 4, 1, 16),
    "depthwise with stride, rows of 13": (1, 40, 26, 26, 40, 3, 2, 1, 1, 40),
    "depthwise of few rows": (1, 33, 5, 31, 33, 5, 2, 2, 1, 33),
    "depthwise, mostly padding": (1, 18, 3, 4, 18, 3, 2, 6, 3, 18),
    "depthwise, far dilation": (1, 17, 3, 3, 17, 3, 1, 1000, 1000, 17),
    "depthwise, two outputs each": (1, 24, 13, 10, 48, 3, 1, 1, 1, 24),
    "groups of 4": (1, 128, 14, 15, 128, 3, 1, 1, 1, 32),
    "groups of whole blocks": (1, 64, 12, 9, 96, 3, 2, 1, 1, 2),
    "groups across blocks": (2, 27, 10, 11, 39, 3, 1, 1, 1, 3),
}
# n, channels, height, width, outputs, kernel, stride, padding, output padding, group
TRANSPOSED = {
    "doubling": (1, 64, 15, 13, 37, 2, 2, 0, 0, 1),
    "overlapping": (2, 33, 9, 14, 20, 4, 2, 1, 1, 1),
    "stride above the kernel": (1, 17, 8, 7, 18, 2, 3, 0, 2, 1),
    "depthwise": (1, 35, 9, 11, 35, 4, 2, 1, 0, 35),
    "groups": (1, 30, 9, 8, 42, 3, 1, 1, 0, 3),
}
# shape of A, shape of B
PRODUCTS = {
    "square": ((257, 131), (131, 203)),
    "long sums": ((37, 5001), (5001, 67)),
    "rows of a text": ((128, 130), (130, 768)),
    "one row": ((1, 700), (700, 1003)),
    "few rows": ((3, 515), (515, 66)),
    "one B for all": ((5, 7, 64), (64, 50)),
    "batches": ((2, 3, 33, 20), (2, 3, 20, 41)),
    "a few batches": ((3, 67, 40), (3, 40, 29)),
    "broadcasting": ((2, 1, 9, 16), (1, 4, 16, 31)),
}


def filled(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def onnx_answer(op: str, inputs: list[np.ndarray], attrs: dict) -> np.ndarray:
    names = [f"i{i}" for i in range(len(inputs))]
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, x.shape) for n, x in zip(names, inputs, strict=True)]
    out = [helper.make_tensor_value_info("o", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node(op, names, ["o"], **attrs)], "g", infos, out)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, dict(zip(names, inputs, strict=True)))[0]


def cases():
    """Yields a name, the op, its inputs and its attributes, in ONNX's names but `kernel`."""
    rng = np.random.default_rng(7)
    for name, (n, c, h, w, o, k, s, p, d, g) in CONVOLUTIONS.items():
        attrs = {"strides": (s, s), "pads": (p,) * 4, "dilations": (d, d), "group": g}
        yield f"Conv, {name}", "Conv", [filled(rng, n, c, h, w), filled(rng, o, c // g, k, k), filled(rng, o)], attrs
    for name, (n, c, h, w, o, k, s, p, extra, g) in TRANSPOSED.items():
        attrs = {"strides": (s, s), "pads": (p,) * 4, "dilations": (1, 1), "group": g, "output_padding": (extra, extra)}
        inputs = [filled(rng, n, c, h, w), filled(rng, c, o // g, k, k), filled(rng, o)]
        yield f"ConvTranspose, {name}", "ConvTranspose", inputs, attrs
    for name, (a, b) in PRODUCTS.items():
        yield f"MatMul, {name}", "MatMul", [filled(rng, *a), filled(rng, *b)], {}
    for op in ("MaxPool", "AveragePool"):
        attrs = {"kernel": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1), "ceil_mode": True}
        yield op, op, [filled(rng, 2, 67, 30, 41)], attrs
    attrs = {"kernel": (7, 9), "strides": (1, 2), "pads": (3, 4, 3, 4), "dilations": (2, 1)}
    yield "MaxPool of large windows", "MaxPool", [filled(rng, 1, 35, 21, 26)], attrs


def failures(threads: int) -> list[str]:
    lines = []
    for name, op, inputs, attrs in cases():
        want = onnx_answer(op, inputs, {"kernel_shape" if k == "kernel" else k: v for k, v in attrs.items()})
        for constant in (True, False):
            got = np.asarray(_engine.run_op(op, attrs, inputs, threads=threads, packed=True, constants=constant)[0])
            what = f"{name}, weights {'constant' if constant else 'computed'}"
            if got.shape != want.shape:
                lines.append(f"{what}: {got.shape}, not {want.shape}")
            elif not (worst := float(np.abs(got - want).max() / np.abs(want).max())) < 1e-5:
                lines.append(f"{what}: off by {worst:.2g} of the largest")
    return lines


@pytest.mark.sampled(3)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("isa", ISAS)
def test_matches_onnxruntime(isa, threads):
    # The instruction set is chosen once per process.
    env = {**os.environ, "MINNOW_ISA": isa}
    command = [sys.executable, __file__, str(threads)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(isa)


def test_bits_do_not_depend_on_the_number_of_threads():
    rng = np.random.default_rng(8)
    attrs = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "group": 1}
    large = ["Conv", [filled(rng, 1, 256, 14, 14), filled(rng, 256, 256, 3, 3), filled(rng, 256)], attrs]
    differ = []
    for name, op, inputs, attrs in [("Conv, many weights", *large), *cases()]:
        if op not in ("Conv", "ConvTranspose", "MatMul"):
            continue
        runs = [_engine.run_op(op, attrs, inputs, threads=n, packed=True, constants=True)[0] for n in (1, 2, 5, 16)]
        differ += [name for y in runs[1:] if not np.array_equal(y, runs[0])]
    assert differ == []


if __name__ == "__main__":
    found = failures(int(sys.argv[1]))
    sys.stdout.write("\n".join([_engine.isa(), *found, ""]))
    sys.exit(bool(found))
