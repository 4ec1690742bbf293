"""Layers as Vulkan has them: images with channels last, products in tiles and in parts, cooperative matrices.

No device in software has cooperative matrices: their code is compared with what the extension's specification says.
"""

from __future__ import annotations

import array
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minnow
from minnow.schema.ir import DType, Graph, TensorType, Value
from minnow.schema.mnn import encode
from minnow.schema.ops import Builder
from minnow.schema.registry.interpreter import evaluate
from tests.kernels.gpu.test_ops_on_gpu import check, is_there
from tests.kernels.gpu.vulkan_loader import ROOT, run
from tests.runtime.engine_oracle import assert_close, model_of
from tests.runtime.engine_oracle import run as run_session

UNPADDED: dict[str, Any] = {"pads": (0, 0, 0, 0), "dilations": (1, 1)}
LAYERS = ["Conv", "ConvTranspose", "Linear", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "Resize"]


@pytest.fixture(autouse=True)
def _device(monkeypatch: pytest.MonkeyPatch) -> None:
    if not is_there("vulkan"):
        pytest.skip("this machine has no Vulkan")
    monkeypatch.setenv("MINNOW_PLACEMENT", "greedy")


def network() -> tuple[Graph, list[np.ndarray]]:
    """A plain image, windows, a depthwise layer, a gate, joined images, squares of pixels, and rows; odd sizes."""
    rng = np.random.default_rng(3)
    graph = Graph()
    b = Builder(graph)

    def weights(*shape: int) -> Value:
        return Value.constant((rng.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32))

    def numbers(n: int) -> Value:
        return Value.constant(rng.standard_normal(n).astype(np.float32))

    def conv(x: Value, w: Value, n: int, **attrs: Any) -> Value:
        return b.Conv(x, w, numbers(n), **({"strides": (1, 1)} | UNPADDED | attrs))

    image = graph.add_param(TensorType(DType.F32, (1, 3, 19, 17)))
    x = b.Relu(conv(image, weights(24, 3, 3, 3), 24, strides=(2, 2), pads=(1, 1, 1, 1)))
    y = conv(x, weights(24, 1, 5, 5), 24, group=24, pads=(2, 2, 2, 2))
    gate = b.Sigmoid(conv(b.GlobalAveragePool(y), weights(24, 24, 1, 1), 24))
    y = conv(b.Mul(y, gate), weights(24, 24, 1, 1), 24)
    joined = b.Concat(b.Relu(y), x, axis=1)
    z = b.Relu(conv(joined, weights(20, 48, 3, 3), 20, pads=(1, 1, 1, 1)))
    up = b.ConvTranspose(z, weights(20, 12, 2, 2), numbers(12), strides=(2, 2), output_padding=(0, 0), **UNPADDED)
    pooled = b.MaxPool(y, kernel=(3, 3), strides=(2, 2), **UNPADDED)
    rows = b.Flatten(b.GlobalMaxPool(pooled), axis=1)
    graph.outputs = [up, b.Linear(rows, weights(16, 24), numbers(16))]
    return graph, [rng.standard_normal((1, 3, 19, 17)).astype(np.float32)]


@pytest.mark.parametrize("precision", ["high", "low"])
def test_a_network_of_all_kinds_of_layers(precision: str) -> None:
    graph, inputs = network()
    session = minnow.load(encode(model_of(graph)), device="vulkan", precision=precision)
    for got, want in zip(run_session(session, inputs), evaluate(graph, inputs), strict=True):
        assert_close(got, want, 10 if precision == "high" else 800)
    rows = session.profile({"in0": inputs[0]}, runs=1)
    assert {r["device"] for r in rows} == {"vulkan:0"}
    schemes = [r["scheme"] for r in rows if r["op"] in ("Conv", "ConvTranspose", "Linear")]
    assert all(s.startswith(("product", "depthwise", "few_rows")) for s in schemes), schemes
    assert not [r for r in rows if r["op"] == "Concat"], "a convolution reads both images where they lie"


PARTS = """
import numpy as np
from minnow.runtime import _engine
from minnow.schema.ops import get
rng = np.random.default_rng(5)
for attrs, shapes in [
    ({"pads": [1, 1, 1, 1]}, [(1, 304, 3, 3), (24, 304, 3, 3), (24,)]),
    ({"activation": "relu"}, [(2, 1020, 4, 5), (70, 1020, 1, 1), (70,), (2, 70, 4, 5)]),
    ({"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}, [(1, 64, 19, 17), (144, 32, 3, 3)]),
]:
    op = get("Conv")
    full = {"pads": [0] * 4, "strides": [1, 1], "dilations": [1, 1], "group": 1} | attrs
    x = [rng.standard_normal(s).astype(np.float32) for s in shapes]
    for precision, room in [(0, 1e-4), (2, 4e-3)]:
        for _ in range(2):
            got = _engine.run_op("Conv", full, x, 1, constants=True, precision=precision, device="vulkan")[0]
            want = op.evaluate(x, full)[0]
            assert np.abs(np.asarray(got) - want).max() <= room * np.abs(want).max(), (shapes, precision)
"""


def test_sums_in_parts(tmp_path: Path) -> None:
    done = run(PARTS, tmp_path, shim=False, MINNOW_GPU_SCHEMES="large")
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("precision", [0, 2])
@pytest.mark.parametrize("name", LAYERS)
def test_matches_the_reference_with_constants(name: str, precision: int) -> None:
    _, _, failures = check(name, "vulkan", precision, constants=True)
    assert not failures, "\n".join(failures)


OPS = {"type": 4456, "load": 4457, "store": 4458, "multiply": 4459}
"""Of SPV_KHR_cooperative_matrix."""


def test_cooperative_matrices_are_those_of_khronos(tmp_path: Path) -> None:
    if not shutil.which("glslc"):
        pytest.skip("needs glslc")
    text = ROOT / "kernels/vulkan/text/product_64x64.gpu"
    subprocess.run([sys.executable, ROOT / "cmake/gpu_texts.py", "vulkan", tmp_path / "t.cpp", text], check=True)
    words = list(array.array("I", (tmp_path / "gpu_spirv/product_64x64.small.spv").read_bytes()))
    found: dict[int, list[list[int]]] = {}
    at = 5
    while at < len(words):
        found.setdefault(words[at] & 0xFFFF, []).append(words[at + 1 : at + (words[at] >> 16)])
        at += words[at] >> 16
    assert [6022] in found[17], "the capability"
    assert not set(found) & set(range(5358, 5363)), "an instruction of NVIDIA's extension"
    constants = {w[1]: w[2] for w in found[43]}
    uses = {w[0]: constants[w[5]] for w in found[OPS["type"]]}
    assert sorted(uses.values()) == [0, 1, 2]
    types = {w[1]: w[0] for op in (OPS["load"], OPS["multiply"], 61) for w in found[op]}
    for w in found[OPS["multiply"]]:
        assert [uses[types[v]] for v in w[2:5]] == [0, 1, 2]
    layouts = {(uses[w[0]], constants[w[3]]) for w in found[OPS["load"]]}
    assert layouts == {(0, 0), (1, 1)}, "left factors lie by rows, right ones by columns"
