"""Precisions "low" and "normal" against the numpy references.

"low" is given operands that numpy has rounded to bfloat16, so that it has to be as exact as "high" is."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import onnx.helper as oh
import pytest

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "models")]
from half_images import (
    CONVOLUTIONS,
    HIGH,
    LEVELS,
    LOW,
    NORMAL,
    ROOM,
    depthwise_of_images,
    error,
    images_of_tiles,
    network_from_a_picture,
    network_of_images,
    network_of_joined_images,
    network_of_wide_blocks,
    normal,
    other_ops_of_images,
    rounded,
    run,
)
from onnx_spelling import Spelling
from sampling import one_in

import minnow
from minnow.runtime import _engine
from minnow.schema.ops import get

ISAS = ("avx512", "avx2", "sse4")
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def products(threads: int) -> list[str]:
    """A line for each size whose product is wrong."""
    rng = np.random.default_rng(5)
    wrong = []
    for rows, inputs, outputs in itertools.product(
        (0, 1, 2, 3, 4),
        (0, 1, 2, 3, 17, 32, 67, 515),
        (0, 1, 3, 8, 15, 16, 17, 48, 131),
    ):
        x, w, b = normal(rng, rows, inputs), normal(rng, outputs, inputs), normal(rng, outputs)
        exact = x.astype(np.float64) @ rounded(w).T.astype(np.float64)
        linear = run("Linear", {"activation": "relu"}, [x, w, b], threads=threads)[0]
        matmul = run("MatMul", {}, [x, np.ascontiguousarray(w.T)], threads=threads)[0]
        turned = run("MatMul", {"transpose_b": True}, [x, w], threads=threads)[0]
        for got, want in ((linear, np.maximum(exact + b, 0)), (matmul, exact), (turned, exact)):
            if error(got, want) > 1e-6:
                wrong.append(f"{rows} x {inputs} x {outputs}: {error(got, want):.2g}")
    return wrong


def factor(x: np.ndarray, precision: int) -> np.ndarray:
    return rounded(x) if precision == LOW else x


def products_of_tiles(threads: int, precision: int, step: int = 1) -> list[str]:
    """The same with rounded, or split, rows too, where there is a unit for them."""
    rng = np.random.default_rng(8)
    wrong = []
    sizes = itertools.product((5, 15, 16, 17, 32, 33, 197), (31, 32, 33, 64, 515), (15, 16, 17, 31, 32, 33, 131))
    for rows, inputs, outputs in itertools.islice(sizes, 0, None, step):
        x, w, b = normal(rng, rows, inputs), normal(rng, outputs, inputs), normal(rng, outputs)
        residual = normal(rng, rows, outputs)
        tiled = inputs >= 32 and outputs >= 16
        kind = precision if tiled else HIGH
        exact = factor(x, kind).astype(np.float64) @ factor(w, kind).T.astype(np.float64)
        linear = run("Linear", {"activation": "relu"}, [x, w, b, residual], threads=threads, precision=precision)[0]
        silu = run("Linear", {"activation": "silu"}, [x, w, b], threads=threads, precision=precision)[0]
        matmul = run("MatMul", {}, [x, np.ascontiguousarray(w.T)], threads=threads, precision=precision)[0]
        for got, want in (
            (linear, np.maximum(exact + b + residual, 0)),
            (silu, (exact + b) / (1 + np.exp(-exact - b))),
            (matmul, exact),
        ):
            if error(got, want) > ROOM[precision]:
                wrong.append(f"{rows} x {inputs} x {outputs}: {error(got, want):.2g}")
    return wrong


def convolutions_of_tiles(threads: int, precision: int) -> list[str]:
    rng = np.random.default_rng(9)
    wrong = []
    for case in CONVOLUTIONS:
        n, channels, height, width, outputs, kernel, stride, padding, dilation = case
        x, w = normal(rng, n, channels, height, width), normal(rng, outputs, channels, kernel, kernel) / kernel
        b = normal(rng, outputs)
        attrs = {"strides": [stride] * 2, "pads": [padding] * 4, "dilations": [dilation] * 2, "group": 1}
        exact = get("Conv").evaluate([factor(x, precision), factor(w, precision), b], attrs)[0]
        residual = normal(rng, *exact.shape)
        plain = _engine.run_op("Conv", attrs, [x, w, b], 1, threads, True, True, precision)[0]
        added = {**attrs, "activation": "silu"}
        more = _engine.run_op("Conv", added, [x, w, b, residual], 1, threads, True, True, precision)[0]
        sums = exact + residual
        for got, want in ((plain, exact), (more, sums / (1 + np.exp(-sums)))):
            if error(got, want) > ROOM[precision]:
                wrong.append(f"{case}: {error(got, want):.2g}")
    return wrong


def network_of_rows(folder: Path, threads: int) -> list[str]:
    """Products one after the other, some of which leave rows of bf16 to the next: what it rounds them to by itself."""
    s = Spelling()
    rng = np.random.default_rng(14)
    layers: list[tuple[np.ndarray, np.ndarray]] = []

    def product(x: str, inputs: int, outputs: int) -> str:
        layers.append((normal(rng, outputs, inputs) * np.float32(2), normal(rng, outputs)))
        w, b = layers[-1]
        return s.Add(s.MatMul(x, s.constant(np.ascontiguousarray(w.T))), s.constant(b))

    y = s.Sigmoid(product(s.Relu(product(s.input(3, 39, 40), 40, 64)), 64, 96))
    y = product(s.Relu(s.Add(product(y, 96, 96), y)), 96, 128)
    y = s.Tanh(product(product(y, 128, 131), 131, 32))
    (folder / "r.onnx").write_bytes(s.model(product(y, 32, 17)))
    minnow.convert(folder / "r.onnx", output=folder / "r.mnn", verify=False)
    session = minnow.load(folder / "r.mnn", threads=threads, precision="low")
    made: list[tuple[np.ndarray, np.ndarray]] = []
    session.run(s.inputs, after=lambda _name, op, x, y: made.append((x[0], y[0])) if op == "Linear" else None)
    half = [y.shape[-1] for _, y in made if y.dtype == ml_dtypes.bfloat16]
    wrong = [] if half == [64, 128, 32] and len(made) == len(layers) else [f"network of rows: {half} of {len(made)}"]
    activations = ("relu", "sigmoid", "relu", "", "", "tanh", "")
    for (x, got), (w, b), activation in zip(made, layers, activations, strict=True):
        residual = [x.astype(np.float32)] if activation == "relu" and len(w) == 96 else []
        want = run("Linear", {"activation": activation}, [x.astype(np.float32), w, b, *residual], threads=threads)[0]
        if not np.array_equal(got, want.astype(got.dtype)):
            wrong.append(f"network of rows: {w.shape} {activation}")
    return wrong


def attention_of_tiles(folder: Path, threads: int) -> list[str]:
    """Rows that do not fill their blocks, keys that do not fill their tiles, heads of a batch in turn."""
    wrong = []
    for rows, keys, depth, width in ((100, 100, 32, 32), (131, 45, 40, 17), (66, 197, 64, 64), (7, 33, 65, 48)):
        s = Spelling()
        q, k, v = s.input(2, 3, rows, depth), s.input(2, 3, keys, depth), s.input(2, 3, keys, width)
        model = s.model(s.attend(q, s.Transpose(k, perm=[0, 1, 3, 2]), v, 0.2))
        (folder / "a.onnx").write_bytes(model)
        minnow.convert(folder / "a.onnx", output=folder / "a.mnn", verify=False)
        session = {level: minnow.load(folder / "a.mnn", threads=threads, precision=level) for level in LEVELS}
        got = {level: next(iter(one.run(s.inputs).values())) for level, one in session.items()}
        for level, room in LEVELS.items():
            if session[level].profile(s.inputs, 1)[0]["scheme"].startswith("gemm_") != (level != "high"):
                wrong.append(f"{level} is not computed as it should be")
            if not error(got[level], got["high"]) <= room:
                wrong.append(f"attention {rows} {keys} {depth} {width} {level}: {error(got[level], got['high']):.2g}")
    return wrong


def masked_attention_of_tiles(threads: int) -> list[str]:
    """Masks of both kinds, rows that see nothing, and keys behind the row, in more than one tile."""
    rng = np.random.default_rng(14)
    q, k, v = (rounded(normal(rng, 1, 2, *shape)) for shape in ((67, 40), (83, 40), (83, 33)))
    seen = rng.random((1, 1, 67, 83)) < 0.7
    seen[..., 5, :] = seen[..., 40, :] = False
    seen[..., 7, 32:] = False
    numbers = np.where(seen, normal(rng, 1, 2, 67, 83), np.float32(-np.inf))
    wrong = []
    for masks, more in (
        ([], {"causal": True}),
        ([seen], {"fill": -1e4}),
        ([seen], {"zero_rows": "empty"}),
        ([numbers], {"zero_rows": "nan"}),
        ([numbers[:, :1, :1]], {}),
        ([numbers, seen], {"causal": True}),
    ):
        attrs = {"num_heads": 2, "scale": 0.125, **more}
        values = [q, k, v, None, None, *masks]
        with np.errstate(invalid="ignore", divide="ignore"):
            want = get("Attention").evaluate(values, attrs)[0]
        got = run("Attention", attrs, values, 3, threads)[0]
        if not np.array_equal(np.isnan(got), np.isnan(want)) or not np.isfinite(want).any():
            wrong.append(f"masked attention {more}: other rows are no numbers")
        elif error(np.nan_to_num(got), np.nan_to_num(want)) > 2e-3:
            wrong.append(f"masked attention {more}: {error(np.nan_to_num(got), np.nan_to_num(want)):.2g}")
        if more.get("zero_rows") and got[..., 5, :].any():
            wrong.append(f"masked attention {more}: rows that see nothing")
    return wrong


def specials_of_tiles() -> list[str]:
    """NaN and infinities stay in their row, and in their column; what lies behind the last channel is never read."""
    rng = np.random.default_rng(10)
    wrong = []
    for special in (np.inf, -np.inf, np.nan, np.float32(3.4e38), np.float32(1e-40)):
        x, w = np.abs(normal(rng, 37, 45)), normal(rng, 35, 45)
        x[20, 44] = special
        with np.errstate(invalid="ignore", over="ignore"):
            want = rounded(x) @ rounded(w).T
        got = run("Linear", {}, [x, w])[0]
        if not np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True):
            wrong.append(f"{special} in the input")
        x[20, 44], w[20, 3] = 1, special
        with np.errstate(invalid="ignore", over="ignore"):
            want = rounded(x) @ rounded(w).T
        got = run("Linear", {}, [x, w])[0]
        if not np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True):
            wrong.append(f"{special} in the weights")
    return wrong


def in_process(**environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, __file__, str(one_in(4))]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


# AMX in software, and where the processor has it, if only for those who know, AVX-512-BF16.
@pytest.mark.sampled(2)
@pytest.mark.parametrize("unit", ["emulated", "avx512"])
def test_tiles(unit: str) -> None:
    done = in_process(MINNOW_BF16=unit)
    if "this machine has no such unit" in done.stderr + done.stdout:
        pytest.skip(f"this processor has no {unit}")
    assert done.returncode == 0, done.stdout + done.stderr
    isa, scheme = done.stdout.split()[:2]
    assert {"emulated": "amx_emulated", "avx512": "bf16"}[unit] in scheme or (unit, isa) == ("emulated", "avx2")


@pytest.mark.parametrize(
    ("environment", "reason"),
    [({"MINNOW_BF16": "fp8"}, "one of amx"), ({"MINNOW_BF16": "emulated", "MINNOW_ISA": "sse4"}, "no such unit")],
    ids=["unknown", "narrow"],
)
def test_refuses_what_is_not_there(environment: dict[str, str], reason: str) -> None:
    done = in_process(**environment)
    assert done.returncode != 0
    assert reason in done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_products_of_few_rows(threads: int) -> None:
    assert not products(threads)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("isa", ISAS)
def test_products_on_each_instruction_set(isa: str) -> None:
    done = in_process(MINNOW_ISA=isa, MINNOW_BF16="none")
    if "this machine has no such instruction set" in done.stderr:
        pytest.skip(f"this processor has no {isa}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(isa)


@pytest.mark.parametrize("activation", ["Silu", "HardSwish", "Sigmoid", "Tanh", "Relu"])
@pytest.mark.parametrize("rows", [1, 3])
def test_activations(activation: str, rows: int) -> None:
    rng = np.random.default_rng(0)
    x, w, b = normal(rng, rows, 70), 20 * normal(rng, 45, 70), normal(rng, 45)
    want = get(activation).evaluate(get("Linear").evaluate([x, rounded(w), b], {}), {})[0]
    assert error(run("Linear", {"activation": activation.lower()}, [x, w, b])[0], want) < 2e-6


def test_several_matrices() -> None:
    rng = np.random.default_rng(1)
    a, b = normal(rng, 5, 2, 33), normal(rng, 5, 33, 19)
    assert error(run("MatMul", {}, [a, b], threads=2)[0], a @ rounded(b)) < 1e-6


def test_special_weights_round_as_numpy_rounds_them() -> None:
    # One weight each: ties in both directions, the largest that does not become infinite, denormals, signed zero.
    bits = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F7F7FFF, 0x7F7F8000, 0x7F800000, 0xFF800000, 0x00000001, 0x00008000,
            0x00400000, 0x80000000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF, 0x7FFFFFFF]  # fmt: skip
    w = np.array(bits, np.uint32).view(np.float32).reshape(-1, 1)
    got = run("Linear", {}, [np.ones((1, 1), np.float32), w])[0][0]
    np.testing.assert_array_equal(got, rounded(w)[:, 0])


@pytest.mark.parametrize("activation", ["", "HardSwish"])
@pytest.mark.parametrize(("images", "channels", "outputs"), [(1, 960, 1280), (1, 35, 17), (3, 72, 40), (4, 5, 3)])
def test_convolutions_of_one_pixel(images: int, channels: int, outputs: int, activation: str) -> None:
    rng = np.random.default_rng(11)
    x, w, b = normal(rng, images, channels, 1, 1), normal(rng, outputs, channels, 1, 1), normal(rng, outputs)
    residual = normal(rng, images, outputs, 1, 1)
    attrs = {"strides": [1, 1], "pads": [0, 0, 0, 0], "dilations": [1, 1], "group": 1}
    want = get("Conv").evaluate([x, rounded(w), b], attrs)[0] + residual
    want = get(activation).evaluate([want], {})[0] if activation else want
    attrs["activation"] = activation.lower()
    for threads in (1, 2):
        got = _engine.run_op("Conv", attrs, [x, w, b, residual], 1, threads, True, True, LOW)[0]
        assert error(got, want) < 1e-6


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 33, 34])
def test_infinities_and_nan_stay_in_their_column_and_row(special: float, place: int) -> None:
    rng = np.random.default_rng(2)
    x, w = np.abs(normal(rng, 3, 35)), normal(rng, 37, 35)
    w[20, place] = special
    np.testing.assert_allclose(run("Linear", {}, [x, w])[0], x @ rounded(w).T, rtol=1e-5, atol=1e-6)
    w[20, place], x[1, place] = 1, special
    np.testing.assert_allclose(run("Linear", {}, [x, w])[0], x @ rounded(w).T, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("precision", [HIGH, NORMAL])
def test_other_precisions_round_nothing(precision: int) -> None:
    rng = np.random.default_rng(3)
    x, w = normal(rng, 1, 333), normal(rng, 50, 333)
    assert error(run("Linear", {}, [x, w], precision=precision)[0], x @ w.T) < 1e-6


def test_inexact_weights_are_the_only_error() -> None:
    rng = np.random.default_rng(4)
    x, w = normal(rng, 1, 333), normal(rng, 50, 333)
    assert 1e-4 < error(run("Linear", {}, [x, w])[0], x @ w.T) < 1e-2


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("op", "attrs"),
    [("LSTM", {}), ("GRU", {"linear_before_reset": True}), ("GRU", {"linear_before_reset": False}), ("RNN", {})],
    ids=["LSTM", "GRU, reset after", "GRU, reset before", "RNN"],
)
@pytest.mark.parametrize(("steps", "batch"), [(7, 1), (4, 1), (1, 2), (6, 3), (5, 4), (5, 8), (5, 9), (0, 1), (3, 0)])
@pytest.mark.parametrize(("hidden", "threads"), [(1, 1), (37, 2), (517, 2)])
@pytest.mark.parametrize("direction", ["reverse", "bidirectional"])
def test_recurrent_layers(
    op: str, attrs: dict, steps: int, batch: int, hidden: int, threads: int, direction: str
) -> None:
    rng = np.random.default_rng(hidden + batch)
    attrs = {**attrs, "direction": direction, "hidden": hidden}
    d, n, outputs = 2 if direction == "bidirectional" else 1, GATES[op] * hidden, 3 if op == "LSTM" else 2
    x, w, r, b = normal(rng, steps, batch, 5), normal(rng, d, n, 5), normal(rng, d, n, hidden), normal(rng, d, 2 * n)
    lens = rng.integers(0, steps + 1, batch).astype(np.int32)
    states = [normal(rng, d, batch, hidden) for _ in range(outputs - 1)]
    got = run(op, attrs, [x, w, r, b, lens, *states], outputs, threads)
    # A part of the batch is a thread's own, and it is its rows that count.
    parts = max(1, min(threads // d, batch // 4))
    few = (batch + parts - 1) // parts <= 8
    exact_w = rounded(w) if 0 < steps * batch <= 4 else w
    want = get(op).evaluate([x, exact_w, rounded(r) if few else r, b, lens, *states], attrs)
    for mine, reference in zip(got, want, strict=True):
        assert error(mine, reference) < 3e-6


def model_of_products(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """y = relu(x W) V, with a first extent that is open."""
    rng = np.random.default_rng(6)
    weights = {"w": normal(rng, 90, 131), "v": normal(rng, 131, 33)}
    graph = oh.make_graph(
        [oh.make_node("MatMul", ["x", "w"], ["h"]), oh.make_node("Relu", ["h"], ["r"]),
         oh.make_node("MatMul", ["r", "v"], ["y"])],
        "products", [oh.make_tensor_value_info("x", 1, ["rows", 90])],
        [oh.make_tensor_value_info("y", 1, ["rows", 33])],
        [onnx.numpy_helper.from_array(a, n) for n, a in weights.items()],
    )  # fmt: skip
    onnx.save(oh.make_model(graph, opset_imports=[oh.make_opsetid("", 17)], ir_version=8), path)
    return weights["w"], weights["v"]


def test_a_session_takes_both_few_and_many_rows_in_turn(tmp_path: Path) -> None:
    w, v = model_of_products(tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", verify=False)
    session = minnow.load(tmp_path / "m.mnn", precision="low")
    x = normal(np.random.default_rng(7), 40, 90)
    few = np.maximum(x @ rounded(w), 0) @ rounded(v)
    for rows in (1, 40, 1, 3, 0, 17, 4):
        y = session.run({"x": x[:rows]})["y"]
        assert error(y, few[:rows]) < (2e-6 if rows <= 4 else 1e-2)
    assert {row["scheme"] for row in session.profile({"x": x[:2]}, 1)} == {"gemv_bf16"}


def test_verify_grants_it_more(tmp_path: Path) -> None:
    model_of_products(tmp_path / "m.onnx")
    minnow.convert(tmp_path / "m.onnx", output=tmp_path / "m.mnn", verify=False)
    arguments = {"inputs": {"x": [1, 90]}}
    low = minnow.verify(tmp_path / "m.onnx", tmp_path / "m.mnn", precision="low", **arguments)
    assert low.passed
    assert {o.tolerance for case in low.cases for o in case.outputs} == {5e-2}
    strict = minnow.verify(tmp_path / "m.onnx", tmp_path / "m.mnn", precision="low", tolerance=1e-4, **arguments)
    assert not strict.passed
    assert minnow.verify(tmp_path / "m.onnx", tmp_path / "m.mnn", precision="high", **arguments).passed


if __name__ == "__main__":
    lines = products(1)
    with tempfile.TemporaryDirectory() as folder:
        model_of_products(Path(folder, "m.onnx"))
        minnow.convert(Path(folder, "m.onnx"), output=Path(folder, "m.mnn"), verify=False)
        many = minnow.load(Path(folder, "m.mnn"), precision="low")
        scheme = many.profile({"x": np.zeros((40, 90), np.float32)}, 1)[0]["scheme"]
        # Images whose channels are last are computed by the emulation with fewer registers too.
        images = scheme != "gemm_packed" or os.environ.get("MINNOW_BF16") == "emulated"
        if scheme != "gemm_packed":
            lines += attention_of_tiles(Path(folder), 1) + attention_of_tiles(Path(folder), 2)
            lines += network_of_rows(Path(folder), 1) + network_of_rows(Path(folder), 3)
        if images:
            lines += network_of_images(Path(folder), 1) + network_of_images(Path(folder), 2)
            lines += network_from_a_picture(Path(folder), 1) + network_from_a_picture(Path(folder), 2)
            lines += network_of_joined_images(Path(folder), 1) + network_of_joined_images(Path(folder), 2)
            lines += network_of_wide_blocks(Path(folder), 1)
    if images:
        lines += images_of_tiles(1) + images_of_tiles(3) + depthwise_of_images(1) + depthwise_of_images(3)
        lines += other_ops_of_images(1) + other_ops_of_images(3)
    if scheme != "gemm_packed":
        for n, level in itertools.product((1, 3), (LOW, NORMAL)):
            lines += products_of_tiles(n, level, int(sys.argv[1])) + convolutions_of_tiles(n, level)
        lines += specials_of_tiles()
        lines += masked_attention_of_tiles(1) + masked_attention_of_tiles(3)
    sys.stdout.write("\n".join([f"{_engine.isa()} {scheme}", *lines, ""]))
    sys.exit(bool(lines))
