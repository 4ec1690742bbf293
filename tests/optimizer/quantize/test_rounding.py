"""Weights rounded by the outputs of their layer."""

from __future__ import annotations

import numpy as np
import pytest
from models.weight_layers import CASES

import minnow
from minnow.optimizer.quantize.arithmetic import Method, quantized, restored
from minnow.optimizer.quantize.compress import Compressor, Recipe
from minnow.optimizer.quantize.rounding import fitted, fitted_codes
from minnow.optimizer.quantize.seen import Seen

from .test_integers import network


def test_outputs_are_nearer_than_with_the_nearest_weights() -> None:
    rng = np.random.default_rng(2)
    for bits in (3, 4, 8):
        most = 2 ** (bits - 1) - 1
        w = rng.normal(size=(24, 200)).astype(np.float32)
        x = rng.normal(size=(1000, 20)) @ rng.normal(size=(20, 200)) + 0.1 * rng.normal(size=(1000, 200))
        scale = np.abs(w).max(1) / most
        numbers = fitted(w, scale, -most, most, x.T @ x / len(x))
        assert np.array_equal(numbers, np.rint(numbers))
        assert np.abs(numbers).max() <= most
        nearest = np.clip(np.rint(w / scale[:, None]), -most, most)
        errors = [np.square(x @ (q * scale[:, None] - w).T).mean() for q in (numbers, nearest)]
        assert errors[0] < 0.3 * errors[1]


def test_without_correlation_the_nearest_weights_are_best() -> None:
    w = np.random.default_rng(0).normal(size=(3, 50)).astype(np.float32)
    scale = np.abs(w).max(1) / 7
    numbers = fitted(w, scale, -8, 8, np.eye(50))
    np.testing.assert_array_equal(numbers, np.clip(np.rint(w / scale[:, None].astype(np.float64)), -8, 8))


@pytest.mark.parametrize("op", ["Conv", "MatMul"])
def test_the_option(op, tmp_path):
    rng = np.random.default_rng(1)
    from onnx import helper

    mix = rng.normal(size=(4, 32))
    if op == "Conv":
        nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])]
        w, shape = rng.normal(size=(8, 32, 3, 3)), [1, 32, 6, 6]
        data = [np.einsum("khw,kc->chw", rng.normal(size=(4, 6, 6)), mix)[None].astype(np.float32) for _ in range(8)]
    else:
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
        w, shape = rng.normal(size=(32, 8)), [16, 32]
        data = [(rng.normal(size=(16, 4)) @ mix).astype(np.float32) for _ in range(8)]
    source = network(tmp_path / "n.onnx", nodes, {"w": w.astype(np.float32)}, shape, ["y"])
    layers, said = {}, {}
    for how in ("nearest", "fitted"):
        report = minnow.quantize(
            source, calibration=data, output=tmp_path / f"{how}.mnn", target="minnow", measure=False,
            rounding=how, activations="int8", activation_method="minmax",
        ).quantization  # fmt: skip
        assert report is not None
        layers[how], said[how] = report.calibrated[0], report.corrections
    assert "weights of 1 layers rounded by outputs" in said["fitted"]
    assert said["nearest"] == [c for c in said["fitted"] if "rounded" not in c]
    assert layers["fitted"].weight_error > layers["nearest"].weight_error
    assert layers["fitted"].sqnr_db > layers["nearest"].sqnr_db - 0.2


def test_no_other_integer_is_better_for_any_weight() -> None:
    rng = np.random.default_rng(4)
    w = rng.normal(size=(5, 30))
    x = rng.normal(size=(400, 6)) @ rng.normal(size=(6, 30)) + 0.2 * rng.normal(size=(400, 30))
    squares = x.T @ x / len(x)
    scale = np.abs(w).max(1) / 7
    numbers = fitted(w, scale, -7, 7, squares)
    damped = squares + 0.01 * np.trace(squares) / 30 * np.eye(30)

    def lost(q: np.ndarray) -> np.ndarray:
        rest = q * scale[:, None] - w
        return np.einsum("oi,ij,oj->o", rest, damped, rest)

    least = lost(numbers)
    assert (least <= lost(np.clip(np.rint(w / scale[:, None]), -7, 7))).all()
    for i in range(30):
        for step in (-1, 1):
            other = numbers.copy()
            other[:, i] = np.clip(other[:, i] + step, -7, 7)
            assert (lost(other) >= least * (1 - 1e-12)).all()


def test_the_best_of_all_integers_is_found_for_a_few_weights() -> None:
    rng = np.random.default_rng(8)
    grid = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 4), -1).reshape(-1, 4)
    found = 0
    for _ in range(20):
        w = rng.normal(size=(1, 4))
        x = rng.normal(size=(100, 3)) @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(100, 4))
        scale, squares = np.abs(w).max(1) / 3, x.T @ x / 100
        damped = squares + 0.01 * np.trace(squares) / 4 * np.eye(4)
        rest = grid * scale - w
        best = float(np.einsum("ni,ij,nj->n", rest, damped, rest).min())
        own = fitted(w, scale, -3, 3, squares) * scale - w
        lost = float(np.einsum("ni,ij,nj->", own, damped, own))
        assert lost < 3 * best
        found += lost < best * (1 + 1e-9)
    assert found >= 12


def test_groups_are_rounded_as_layers_of_their_own() -> None:
    rng = np.random.default_rng(5)
    w, scale = rng.normal(size=(6, 9)).astype(np.float32), np.full(6, 0.3, np.float32)
    x = rng.normal(size=(3, 50, 9)).cumsum(2)
    squares = x.transpose(0, 2, 1) @ x / 50
    got = fitted(w, scale, -7, 7, squares)
    for k in range(3):
        rows = slice(2 * k, 2 * k + 2)
        np.testing.assert_array_equal(got[rows], fitted(w[rows], scale[rows], -7, 7, squares[k]))


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("symmetric", "method"), [(False, "mse"), (True, "rtn"), (False, "hqq")])
@pytest.mark.parametrize("block", [16, 64])
def test_codes_with_scales_lose_less_of_the_outputs(
    bits: int, half: bool, symmetric: bool, method: Method, block: int
) -> None:
    rng = np.random.default_rng(6)
    w = rng.normal(size=(12, 64)).astype(np.float32)
    w[3] = 0.25  # a constant row has the scale 0
    x = rng.normal(size=(1000, 9)) @ rng.normal(size=(9, 64)) + 0.1 * rng.normal(size=(1000, 64))
    before = quantized(w.reshape(-1, block), bits, symmetric, half, method)
    after = fitted_codes(before, w, bits, x.T @ x / len(x))
    assert (after.scale.dtype, after.codes.shape, after.low is None) == (
        before.scale.dtype,
        before.codes.shape,
        symmetric,
    )
    assert after.codes.max() < 1 << bits
    assert after.codes.min() >= symmetric
    lost = [np.square(x @ (restored(c, bits).reshape(w.shape) - w).T).sum() for c in (before, after)]
    assert lost[1] < 0.5 * lost[0]


def test_what_convolutions_read() -> None:
    """Sums of products of the inputs give the squares of the outputs, which the reference computes."""
    from minnow.schema.registry.interpreter import evaluate

    for name in ("pointwise", "depthwise", "groups"):
        case = CASES[name]
        compressor = Compressor(case.model(), Recipe(width=4))
        (layer,) = compressor.layers
        (x,) = case.inputs().values()
        seen = Seen.of(layer, x)
        assert seen is not None
        y = np.asarray(evaluate(compressor.model.graph, [x])[0], np.float64)
        if layer.node.has_input(2):
            y = y - np.asarray(layer.node.input(2).array).reshape(1, -1, 1, 1)
        matrix = layer.numbers().reshape(*seen.mean.shape[:-1], -1, seen.mean.shape[-1]).astype(np.float64)
        got = np.sum((matrix @ seen.squares) * matrix, -1).reshape(-1)
        np.testing.assert_allclose(got, np.square(y).mean((0, 2, 3)), rtol=1e-4, err_msg=name)


def mixed(rng: np.random.Generator, mix: np.ndarray, count: int) -> list[np.ndarray]:
    """Images whose channels depend on each other."""
    return [np.einsum("khw,kc->chw", rng.normal(size=(len(mix), 8, 8)), mix)[None].astype(np.float32)
            for _ in range(count)]  # fmt: skip


@pytest.mark.parametrize("how", [{}, {"block": "16", "scale_bits": 16}, {"symmetric": True, "target": "minnow"}])
def test_weights_of_few_bits_are_rounded_by_outputs(how, tmp_path):
    """Two convolutions, of which one has groups, and a product, with inputs that did not calibrate."""
    from onnx import helper

    rng = np.random.default_rng(3)
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["p"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["p"], ["q"]),
        helper.make_node("Conv", ["q", "b"], ["r"], group=32),
        helper.make_node("GlobalAveragePool", ["r"], ["s"]),
        helper.make_node("Flatten", ["s"], ["t"]),
        helper.make_node("MatMul", ["t", "c"], ["y"]),
    ]
    arrays = {"a": rng.normal(size=(32, 16, 3, 3)), "b": rng.normal(size=(32, 1, 3, 3)), "c": rng.normal(size=(32, 8))}
    weights = {name: array.astype(np.float32) for name, array in arrays.items()}
    source = network(tmp_path / "n.onnx", nodes, weights, [1, 16, 8, 8], ["y"])
    mix = rng.normal(size=(4, 16))
    data, others = mixed(rng, mix, 24), mixed(rng, mix, 24)
    minnow.convert(source, output=tmp_path / "float.mnn", verify=False)

    def outputs(path):
        session = minnow.load(path)
        return np.concatenate([session.run({"x": x})["y"] for x in others])

    wanted, lost, sizes = outputs(tmp_path / "float.mnn"), [], []
    for given in ({}, {"calibration": data}):
        path = tmp_path / f"{len(given)}.mnn"
        report = minnow.quantize(source, output=path, weights="int3", measure=False, verify=False, **given, **how)
        assert report.quantization is not None
        layers = report.quantization.layers
        assert {layer.rounding for layer in layers} == {"fitted" if given else "nearest"}
        assert all(layer.bits == 3 for layer in layers)
        lost.append(np.square(outputs(path) - wanted).sum())
        sizes.append(path.stat().st_size)
    assert "int3 mse fitted" in str(report)
    assert lost[1] < 0.3 * lost[0]
    assert sizes[1] - sizes[0] < 600  # biases
    again = tmp_path / "again.mnn"
    minnow.quantize(source, output=again, weights="int3", measure=False, verify=False, calibration=data, **how)
    assert again.read_bytes() == (tmp_path / "1.mnn").read_bytes()


def test_widths_are_chosen_before_weights_are_rounded(tmp_path):
    from onnx import helper

    rng = np.random.default_rng(3)
    weights = {"a": rng.normal(size=(32, 16, 3, 3)).astype(np.float32)}
    nodes = [helper.make_node("Conv", ["x", "a"], ["y"])]
    source = network(tmp_path / "n.onnx", nodes, weights, [1, 16, 8, 8], ["y"])
    data = mixed(rng, rng.normal(size=(4, 16)), 8)
    report = minnow.quantize(
        source, output=tmp_path / "q.mnn", weights="int4", max_size="5kB", calibration=data, measure=False, verify=False
    ).quantization
    assert report is not None
    assert report.layers[0].rounding == "fitted"
    assert 4 <= report.layers[0].bits < 8
    assert (tmp_path / "q.mnn").stat().st_size <= 5000
