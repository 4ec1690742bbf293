"""Equalization leaves the function as it is, and helps where channels differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import minnow
from minnow.optimizer.quantize.equalize import factors, pairs
from minnow.schema.ir.text import parse
from minnow.schema.mnn import read_file

from .test_integers import conv, network

Array = np.ndarray[Any, Any]


def test_pairs_are_layers_with_nothing_but_relu_between_them() -> None:
    rows = """
    graph g(%x: f32[1,2,4,4]) {
      %a: f32[1,2,4,4] = Conv(%x, f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) WINDOW
      %b: f32[1,2,4,4] = MIDDLE
      %y: f32[1,2,4,4] = Conv(%b, f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)) WINDOW
      return %y OTHER
    }"""

    def count(middle: str, other: str = "") -> int:
        text = rows.replace("MIDDLE", middle).replace("OTHER", other)
        return len(pairs(parse(text.replace("WINDOW", "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"))))

    assert count("Relu(%a)") == 1
    assert count("Relu(%a)", ", %b") == 0
    assert count("Relu(%a)", ", %a") == 0
    assert count("Clip(%a) {min=0.0, max=6.0}") == 0
    assert count("Sigmoid(%a)") == 0


def test_factors() -> None:
    largest = np.array([4.0, 1.0, 0.0, 16.0])
    weights = np.ones((3, 4, 1, 1), np.float32)
    dense = factors(largest, weights, 1)
    assert dense[2] == 1
    np.testing.assert_allclose(dense[[0, 1, 3]] / dense[1], [2, 1, 4])
    by_channel = factors(largest, np.ones((4, 1, 3, 3), np.float32), 4)
    np.testing.assert_allclose(by_channel[[0, 1, 3]] / by_channel[1], [4, 1, 16])


@pytest.mark.parametrize("norm", [False, True])
def test_channels_that_differ_keep_their_precision(norm: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    gain = 10.0 ** rng.uniform(-2, 2, 16)
    if norm:
        nodes = [
            helper.make_node("LayerNormalization", ["x", "scale", "shift"], ["n"]),
            helper.make_node("MatMul", ["n", "w"], ["y"]),
        ]
        constants = {"scale": gain, "shift": rng.normal(size=16) * gain, "w": rng.normal(size=(16, 8)) / gain[:, None]}
        shape = [10, 16]
    else:
        nodes = [
            helper.make_node("Conv", ["x", "v", "b"], ["c"]),
            helper.make_node("Relu", ["c"], ["r"]),
            helper.make_node("Conv", ["r", "w"], ["y"]),
        ]
        v = rng.normal(size=(16, 4, 1, 1)) * gain[:, None, None, None]
        constants = {"v": v, "b": rng.normal(size=16) * gain, "w": rng.normal(size=(8, 16, 1, 1)) / gain[:, None, None]}
        shape = [1, 4, 8, 8]
    single = {n: a.astype(np.float32) for n, a in constants.items()}
    source = network(tmp_path / "n.onnx", nodes, single, shape, ["y"])
    data = [rng.normal(size=shape).astype(np.float32) for _ in range(4)]
    found = {}
    for how in ("off", "on", "auto"):
        done = minnow.quantize(
            source, calibration=data, output=tmp_path / f"{how}.mnn", target="minnow", measure=False, equalize=how
        ).quantization
        assert done is not None
        found[how] = done.outputs["y"].sqnr_db
        ops = Counter(node.op for node in read_file(tmp_path / f"{how}.mnn").graph)
        assert not {"Conv", "Linear", "MatMul"} & set(ops)
    assert found["on"] is not None
    assert found["off"] is not None
    assert found["on"] > found["off"] + 6
    assert found["auto"] == found["on"]
    if not norm:
        want = conv(np.maximum(conv(data[0], v, constants["b"]), 0), constants["w"], np.zeros(8))
        got = minnow.load(tmp_path / "on.mnn").run({"x": data[0]})["y"]
        assert np.square(got - want).sum() < 0.01 * np.square(want).sum()
