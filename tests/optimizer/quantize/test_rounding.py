"""Weights rounded by the outputs of their layer."""

from __future__ import annotations

import numpy as np
import pytest

import minnow
from minnow.optimizer.quantize.rounding import fitted

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
