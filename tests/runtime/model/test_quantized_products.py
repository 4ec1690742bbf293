"""Products with weights of 2 to 8 bits, which stay packed: against the numbers that they stand for."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import mnn_oracle
import numpy as np
import onnx
import pytest
from engine_oracle import normal
from onnx import TensorProto, helper, numpy_helper
from oracles import mnn_converter
from quantized_streams import packed
from wire_net import Net

import minnow
from minnow.cli._app import run as run_cli

RNG = np.random.default_rng(3)
"""Of each test its own, so that its numbers do not depend on what ran before."""
FORMS = ["symmetric", "least", "zero"]


@pytest.fixture(autouse=True)
def _seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "RNG", np.random.default_rng(zlib.crc32(request.node.name.encode())))


def layer(quan: dict[str, Any], shape: tuple[int, ...], x: tuple[int, ...], bias: np.ndarray, **common: Any) -> bytes:
    net = Net()
    net.input("x", x)
    sizes = {"kernelY": shape[2], "kernelX": shape[3], "outputCount": shape[0], "inputCount": shape[1]}
    net.op("Convolution", ["x"], ["y"], "Convolution2D",
           {"common": {**sizes, **common}, "bias": bias, "quanParameter": quan})  # fmt: skip
    return net.bytes("y")


def quantized(
    shape: tuple[int, ...], bits: int, blocks: int, form: str, half: bool
) -> tuple[dict[str, Any], np.ndarray]:
    rows, length = shape[0] * blocks, int(np.prod(shape[1:])) // blocks
    least = -(1 << (bits - 1))
    table, w = packed(RNG.integers(least, -least, (rows, length)), bits, rows, form, half)
    return table, w.reshape(shape)


def run(model: bytes, x: np.ndarray, scheme: str, precision: str = "high") -> np.ndarray:
    session = minnow.load(model, precision=precision)
    y = session.run({"x": x})["y"]
    schemes = [row["scheme"] for row in session.profile({"x": x}, runs=1)]
    assert any(scheme in s for s in schemes), schemes
    return np.asarray(y)


# The largest error of a result, as a part of what its products add up to: factors have 24, 16 or 8 bits.
ERRORS = {"high": 2e-6, "normal": 2e-4, "low": 3e-2}


ROWS = (1, 2, 3, 5, 9, 33)


def products(bits: int, form: str, half: bool, k: int, blocks: int, rows: tuple[int, ...] = ROWS) -> list[np.ndarray]:
    """Results of all precisions, which are checked."""
    n = 193 + 2 * bits
    table, w = quantized((n, k, 1, 1), bits, blocks, form, half)
    bias = normal(RNG, n)
    results = []
    for m in rows:
        x = normal(RNG, m, k, 1, 1)
        model = layer(table, w.shape, (-1, k, 1, 1), bias, relu=m == 3)
        want = x[:, :, 0, 0].astype(np.float64) @ w[:, :, 0, 0].T + bias
        want = np.maximum(want, 0) if m == 3 else want
        scale = np.abs(x[:, :, 0, 0]) @ np.abs(w[:, :, 0, 0]).T + np.abs(bias)
        for precision, most in ERRORS.items():
            y = run(model, x, "quantized", precision)[:, :, 0, 0]
            assert np.max(np.abs(y - want) / scale) < most
            results.append(y)
        # With low precision a number is rounded to a step, a 127th of the largest of its row. All results of a row
        # share these errors, which few rows do not average out: up to 4 standard deviations of one row.
        steps = np.max(np.abs(x[:, :, 0, 0]), axis=1) / 127
        deviation = np.sqrt(np.mean(steps**2) / 12 * np.mean(np.sum(np.square(w[:, :, 0, 0], dtype=np.float64), 1)))
        assert np.sqrt(np.mean((results[-1] - want) ** 2)) < (1 + 3 / np.sqrt(m)) * deviation
    return results


@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("k", "blocks"), [(128, 4), (127, 1), (192, 4), (640, 5), (1100, 1), (96, 6)])
def test_rows(bits, form, half, k, blocks):
    products(bits, form, half, k, blocks)


# What each unit needs of the processor, as Linux names it.
UNITS = {"amx": "amx_int8", "avx512": "avx512_vnni", "emulated": "avx512_vnni", "none": "avx512f"}
LAYERS = [(4, "least", True, 128, 4), (5, "zero", False, 1100, 1), (8, "symmetric", True, 640, 5),
          (8, "least", True, 96, 6)]  # fmt: skip


def digests() -> dict[str, str]:
    """Of the results with each precision."""
    found = {precision: hashlib.sha256() for precision in ERRORS}
    for case in LAYERS:
        results = products(*case, rows=(2, 9))
        for y, precision in zip(results, itertools.cycle(ERRORS), strict=False):
            found[precision].update(np.ascontiguousarray(y).tobytes())
    return {precision: digest.hexdigest() for precision, digest in found.items()}


def digests_of(**variables: str) -> dict[str, str]:
    code = f"import json, {Path(__file__).stem} as t; print(json.dumps(t.digests()))"
    environment = {**os.environ, **variables, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_units_that_multiply_bytes_give_the_same():
    flags = Path("/proc/cpuinfo").read_text().split()
    found = {u: digests_of(MINNOW_INT8=u) for u, needed in UNITS.items() if needed in flags}
    found.pop("none", None)
    for precision in ERRORS:  # without tiles, normal keeps more bits
        same = {u: d[precision] for u, d in found.items() if precision != "normal" or u != "avx512"}
        assert len(set(same.values())) <= 1, (precision, same)


@pytest.mark.parametrize("isa", ["avx2", "sse4"])
def test_instruction_sets_without_them(isa):
    if isa == "avx2" and "avx2" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("this processor has no avx2")
    digests_of(MINNOW_ISA=isa)


@pytest.mark.parametrize("precision", ERRORS)
@pytest.mark.parametrize(
    ("k", "bits", "blocks", "form"),
    [(256, 4, 8, "least"), (1100, 3, 1, "zero"), (1152, 4, 36, "symmetric"), (608, 8, 19, "zero")],
)
def test_neither_threads_nor_other_rows_change_a_result(precision, k, bits, blocks, form):
    table, w = quantized((700, k, 1, 1), bits, blocks, form, True)
    n = 31 if precision == "low" else 131  # from 32 rows on they may be rounded otherwise
    x = normal(RNG, n, k, 1, 1)
    model = layer(table, w.shape, (-1, k, 1, 1), np.zeros(700, np.float32))
    one, two = (minnow.load(model, precision=precision, threads=t) for t in (1, 2))
    want = one.run({"x": x})["y"]
    np.testing.assert_array_equal(two.run({"x": x})["y"], want)
    if "avx512_vnni" not in Path("/proc/cpuinfo").read_text().split():
        return  # in floats the order of additions is another one
    for rows in (slice(0, 1), slice(3, 5), slice(n - 1, n), slice(7, 19)):
        np.testing.assert_array_equal(two.run({"x": x[rows]})["y"], want[rows])


def convolved(x: np.ndarray, w: np.ndarray, stride: int, pad: int) -> np.ndarray:
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], axis=(2, 3))[:, :, ::stride, ::stride]
    return np.asarray(np.einsum("nchwij,ocij->nohw", windows, w.astype(np.float64), optimize=True))


@pytest.mark.parametrize(
    ("bits", "blocks", "form"), [(4, 1, "least"), (4, 4, "symmetric"), (3, 2, "zero"), (8, 4, "symmetric")]
)
@pytest.mark.parametrize(
    ("kernel", "stride", "pad"), [((1, 1), 1, 0), ((3, 3), 1, 1), ((3, 3), 2, 1), ((5, 1), 1, 2), ((2, 3), 1, 0)]
)
@pytest.mark.parametrize("size", [(2, 7, 6), (1, 19, 17)])
def test_images(bits, blocks, form, kernel, stride, pad, size):
    """Of few pixels, windows are rows of a matrix; of more the schemes for floats take what the weights stand for."""
    c, n = 128, 150
    table, w = quantized((n, c, *kernel), bits, blocks, form, False)
    bias = normal(RNG, n)
    x = normal(RNG, size[0], c, *size[1:])
    pads = {"padX": pad, "padY": pad, "padMode": "CAFFE"}
    model = layer(table, w.shape, x.shape, bias, strideX=stride, strideY=stride, **pads)
    want = convolved(x, w, stride, pad) + bias.reshape(1, -1, 1, 1)
    scale = convolved(np.abs(x), np.abs(w), stride, pad) + np.abs(bias).reshape(1, -1, 1, 1)
    few = w.size > x.size + want.size
    for precision, most in ERRORS.items():
        y = run(model, x, "quantized" if few else "", precision)
        assert np.max(np.abs(y - want) / scale) < most
    if kernel == (1, 1) and not few:
        run(model, x, "unpacked_direct")


def test_channels_that_fill_no_vector_and_bands_of_pixels():
    """The last channels are less than a vector, and the last pixels less than those that are computed together."""
    table, w = quantized((37, 203, 3, 3), 5, 1, "zero", False)
    x, bias = normal(RNG, 2, 203, 9, 11), np.zeros(37, np.float32)
    model = layer(table, w.shape, x.shape, bias, padX=1, padY=1, padMode="CAFFE", relu6=True)
    want = np.clip(convolved(x, w, 1, 1), 0, 6)
    scale = convolved(np.abs(x), np.abs(w), 1, 1)
    y = run(model, x, "quantized")
    assert np.max(np.abs(y - want) / scale) < ERRORS["high"]
    two = minnow.load(model, threads=2).run({"x": x})["y"]
    np.testing.assert_array_equal(two, y)


@pytest.mark.parametrize("precision", ERRORS)
def test_weights_of_convolutions_stay_packed(precision):
    """A 3x3 convolution, of which floats take 8 times the bytes, and Winograd's form up to 32 times."""
    table, w = quantized((256, 256, 3, 3), 4, 8, "least", True)
    model = layer(table, w.shape, (1, 256, 8, 8), np.zeros(256, np.float32), padX=1, padY=1, padMode="CAFFE")
    session = minnow.load(model, precision=precision, threads=1)
    session.run({"x": normal(RNG, 1, 256, 8, 8)})
    assert session.stats["packed_bytes"] < 1.02 * len(model)


def test_a_residual_belongs_to_the_layer():
    c, n = 320, 80
    table, w = quantized((n, c, 3, 3), 4, 1, "least", False)
    net = Net()
    net.input("x", (1, c, 7, 7))
    net.input("r", (1, n, 7, 7))
    sizes = {"kernelY": 3, "kernelX": 3, "padX": 1, "padY": 1, "padMode": "CAFFE", "outputCount": n, "inputCount": c}
    net.op("Convolution", ["x"], ["c"], "Convolution2D",
           {"common": sizes, "bias": np.ones(n, np.float32), "quanParameter": table})  # fmt: skip
    net.op("BinaryOp", ["c", "r"], ["s"], "BinaryOp", {"opType": "ADD"})
    net.op("ReLU", ["s"], ["y"], "Relu", {})
    inputs = {"x": normal(RNG, 1, c, 7, 7), "r": normal(RNG, 1, n, 7, 7)}
    session = minnow.load(net.bytes("y"), threads=1)
    got = session.run(inputs)["y"]
    rows = {row["op"]: row["scheme"] for row in session.profile(inputs, runs=1)}
    assert "Add" not in rows
    assert "quantized" in rows["Conv"]
    want = np.maximum(convolved(inputs["x"], w, 1, 1) + 1 + inputs["r"], 0)
    np.testing.assert_allclose(got, want, rtol=0, atol=2e-6 * convolved(np.abs(inputs["x"]), np.abs(w), 1, 1).max())


@pytest.mark.parametrize("m", [1, 4, 9])
def test_many_columns_and_weights_of_zero(m):
    """So many that sums of 32 bits do not hold what integers of 16 bits add up to, all with the same sign."""
    for k, most in ((33_024, "larger"), (32_768, "largest")):
        table, w = quantized((48, k, 1, 1), 4, k // 256, "symmetric", False)
        table["alpha"][: 2 * k // 256] = 0
        w[:2] = 0
        sign = np.sign(w[7]).reshape(1, k, 1, 1)
        x = np.abs(normal(RNG, m, k, 1, 1)) * np.where(sign == 0, 1, sign).astype(np.float32)
        want = x[:, :, 0, 0].astype(np.float64) @ w[:, :, 0, 0].T
        scale = np.abs(x[:, :, 0, 0]) @ np.abs(w[:, :, 0, 0]).T
        for precision, error in ERRORS.items():
            y = run(layer(table, w.shape, (-1, k, 1, 1), np.zeros(48, np.float32)), x, "quantized", precision)
            assert np.all(y[:, :2] == 0)
            assert np.max(np.abs(y[:, :, 0, 0] - want)[:, 2:] / scale[:, 2:]) < error, (most, precision)


def test_values_that_are_not_finite():
    table, w = quantized((200, 128, 1, 1), 4, 4, "symmetric", False)
    x = normal(RNG, 3, 128, 1, 1)
    x[1, 40] = np.inf
    for precision in ERRORS:
        model = layer(table, w.shape, (-1, 128, 1, 1), np.zeros(200, np.float32))
        y = run(model, x, "quantized", precision)[:, :, 0, 0]
        clean = run(model, np.nan_to_num(x, posinf=0), "quantized", precision)[:, :, 0, 0]
        np.testing.assert_array_equal(y[::2], clean[::2])
        assert not np.isfinite(y[1, w[:, 40, 0, 0] != 0]).any()
        if precision == "high":
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(y[1], w[:, 40, 0, 0] * np.float32(np.inf))


@pytest.mark.parametrize(
    ("bits", "form", "blocks"), [(4, "least", 8), (5, "symmetric", 4), (8, "zero", 16), (3, "least", 1)]
)
@pytest.mark.parametrize("m", [32, 150, 530])
def test_many_rows(bits, form, blocks, m):
    table, w = quantized((333, 512, 1, 1), bits, blocks, form, True)
    bias, x = normal(RNG, 333), normal(RNG, m, 512, 1, 1)
    want = np.maximum(x[:, :, 0, 0].astype(np.float64) @ w[:, :, 0, 0].T + bias, 0)
    for precision, most in ERRORS.items():
        y = run(layer(table, w.shape, x.shape, bias, relu=True), x, "quantized", precision)[:, :, 0, 0]
        assert np.sqrt(np.mean((y - want) ** 2)) < most / 3 * np.sqrt(np.mean(want**2))


@pytest.mark.parametrize("size", [1e-42, 1e-36, 1e30])
def test_very_small_and_large_numbers(size):
    table, w = quantized((200, 128, 1, 1), 4, 4, "least", True)
    x = normal(RNG, 9, 128, 1, 1) * np.float32(size)
    y = run(layer(table, w.shape, x.shape, np.zeros(200, np.float32)), x, "quantized")[:, :, 0, 0]
    scale = np.abs(x[:, :, 0, 0].astype(np.float64)) @ np.abs(w[:, :, 0, 0]).T
    want = x[:, :, 0, 0].astype(np.float64) @ w[:, :, 0, 0].T
    assert np.max(np.abs(y - want) / (scale + 1e-42)) < (0.1 if size < 1e-38 else 2e-6)


def test_a_damaged_stream_is_refused(tmp_path, capsys):
    table, w = quantized((193, 640, 1, 1), 4, 5, "least", False)
    for name, damaged in {
        "cut": table | {"buffer": table["buffer"][:-1]},
        "scales": table | {"alpha": table["alpha"][:-2]},
        "shape": table | {"buffer": np.concatenate([[2, 255], table["buffer"][2:]]).astype(np.int8)},
    }.items():
        path = tmp_path / f"{name}.mnn"
        path.write_bytes(layer(damaged, w.shape, (1, 640, 1, 1), np.zeros(193, np.float32)))
        assert run_cli(["run", str(path)]) == 6
        assert str(path) in capsys.readouterr().err


MEMORY = """
import os, sys, numpy as np, minnow, minnow.runtime._engine
def kib(what):
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith(what))
before = kib("VmRSS")
session = minnow.load(sys.argv[1], threads=2)
session.run({"x": np.ones((1, 4096, 1, 1), np.float32)})
print((kib("VmHWM") - before) * 1024 / os.path.getsize(sys.argv[1]))
"""


def scales(rows: int, half: bool) -> dict[str, Any]:
    numbers = RNG.uniform(0.005, 0.01, rows)
    if half:
        return {"alphaFp16": numbers.astype(np.float16).view(np.uint16), "scaleStorage": "FP16"}
    return {"alpha": numbers.astype(np.float32)}


@pytest.mark.slow
@pytest.mark.parametrize("half", [False, True])
def test_memory_is_not_much_more_than_the_file(half, tmp_path):
    net = Net()
    x = net.input("x", (1, 4096, 1, 1))
    for i in range(12):
        n, rows = 4096, 4096 * 4096 // 32
        codes = RNG.integers(0, 256, n * 4096 // 2, dtype=np.uint8).tobytes()
        head = bytes([2]) + np.array([rows, 32], np.uint32).tobytes() + bytes([16, *range(248, 256), *range(8)])
        quan = {"type": 1, "buffer": np.frombuffer(head + codes, np.int8), "aMaxOrBits": 4, "quantScale": 1.0,
                "shapeInt32": True, **scales(rows, half)}  # fmt: skip
        main = {"common": {"kernelX": 1, "kernelY": 1, "outputCount": n, "inputCount": 4096, "relu": True},
                "bias": np.zeros(n, np.float32), "quanParameter": quan}  # fmt: skip
        (x,) = net.op("Convolution", [x], [f"y{i}"], "Convolution2D", main)
    path = tmp_path / "m.mnn"
    path.write_bytes(net.bytes(x))
    assert path.stat().st_size > 100e6
    done = subprocess.run([sys.executable, "-c", MEMORY, str(path)], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 1.25, done.stdout


@mnn_oracle.needs_mnn
@pytest.mark.slow
@pytest.mark.parametrize("bits", range(2, 9))
@pytest.mark.parametrize("block", [0, 32, 64])
@pytest.mark.parametrize("asymmetric", [0, 1])
def test_files_of_mnns_converter(bits, block, asymmetric, tmp_path):
    k, n = 128, 160
    weights = [numpy_helper.from_array(normal(RNG, *shape) / 8, name)
               for shape, name in (((k, n), "a"), ((n, k, 1, 1), "b"), ((k, n, 3, 3), "c"))]  # fmt: skip
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["p"]),
        helper.make_node("Conv", ["z", "b"], ["q"], kernel_shape=[1, 1]),
        helper.make_node("Conv", ["q", "c"], ["r"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
    ]
    given = {"x": normal(RNG, 5, k), "z": normal(RNG, 1, k, 6, 7)}
    inputs = [helper.make_tensor_value_info(i, TensorProto.FLOAT, a.shape) for i, a in given.items()]
    outputs = [helper.make_tensor_value_info(o, TensorProto.FLOAT, None) for o in ("p", "r")]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    log = mnn_converter.convert("-f", "ONNX", "--modelFile", "m.onnx", "--MNNModel", "m.mnn", "--weightQuantBits", bits,
                                "--weightQuantAsymmetric", asymmetric,
                                *(["--weightQuantBlock", block] if block else []), folder=tmp_path)  # fmt: skip
    assert (tmp_path / "m.mnn").exists(), log
    file = (tmp_path / "m.mnn").read_bytes()
    (answer,) = mnn_oracle.run([mnn_oracle.File(file, given, ["p", "r"])], tmp_path / "jobs")
    assert answer.outputs is not None, answer.log
    session = minnow.load(file)
    got = session.run(given)
    for name, want in zip(("p", "r"), answer.outputs, strict=True):
        np.testing.assert_allclose(got[name], want, rtol=0, atol=2e-5 * np.max(np.abs(want)))
    schemes = [row["scheme"] for row in session.profile(given, runs=1)]
    assert sum("quantized" in s or "unpacked" in s for s in schemes) >= 2, schemes
