"""Equalization leaves the function as it is, and helps where channels differ."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import minnow
from minnow.optimizer.quantize.equalize import equalize, factors, groups
from minnow.schema.ir import Graph
from minnow.schema.ir.text import parse
from minnow.schema.mnn import read_file
from minnow.schema.registry.interpreter import evaluate

from .test_integers import conv, network

Array = np.ndarray[Any, Any]


WINDOW = "{strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1)}"
ONES = "f32[2,2,1,1](1.0, 2.0, 3.0, 4.0)"


def graph_of(middle: str, other: str = "") -> Graph:
    return parse(f"""
    graph g(%x: f32[1,2,4,4]) {{
      %a: f32[1,2,4,4] = Conv(%x, {ONES}) {WINDOW}
      {middle}
      %y: f32[1,2,4,4] = Conv(%b, {ONES}) {WINDOW}
      return %y {other}
    }}""")


def test_fronts_are_layers_with_nothing_but_what_lets_factors_through_between() -> None:
    def free(middle: str, other: str = "") -> list[bool]:
        return [group.is_free for group in groups(graph_of(middle, other))]

    one = "%b: f32[1,2,4,4] = "
    assert free(one + "Relu(%a)") == [True]
    assert free(one + "Relu(%a)", ", %b") == []
    assert free(one + "Relu(%a)", ", %a") == []
    assert free(one + "Clip(%a) {min=0.0, max=6.0}") == []
    assert free(one + "Sigmoid(%a)") == [False]
    assert free(one + "Sigmoid(%a)", ", %b") == []
    assert free(one + "Sigmoid(%x)") == []
    assert free("%m: f32[1,2,1,1] = GlobalAveragePool(%a)\n%b: f32[1,2,1,1] = Relu(%m)") == [True]
    half = f"%h: f32[1,1,4,4] = Conv(%x, f32[1,2,1,1](1.0, 2.0)) {WINDOW}\n"
    other = f"%i: f32[1,1,4,4] = Conv(%x, f32[1,2,1,1](3.0, 2.0)) {WINDOW}\n"
    assert free(half + other + one + "Concat(%h, %i) {axis=1}") == [True]
    assert free(half + other + one + "Concat(%h, %i) {axis=1}", ", %i") == []
    gate = "%m: f32[1,2,1,1] = GlobalAveragePool(%a)\n%g: f32[1,2,1,1] = Sigmoid(%m)\n"
    assert free(gate + one + "Mul(%a, %g)") == [True]
    twice = f"{one}Relu(%a)\n%c: f32[1,2,4,4] = Conv(%b, {ONES}) {WINDOW}"
    assert len(groups(graph_of(twice, ", %c"))[0].behind) == 2


@pytest.mark.parametrize("function", ["HardSwish(%a)", "Relu(%d)", "Mul(%a, %g)", "Concat(%h, %i) {axis=1}"])
def test_the_function_stays_the_same(function: str) -> None:
    rng = np.random.default_rng(0)
    front = f"""%m: f32[1,2,1,1] = GlobalAveragePool(%a)
      %g: f32[1,2,1,1] = Sigmoid(%m)
      %h: f32[1,1,4,4] = Conv(%x, f32[1,2,1,1](1.0, -2.0)) {WINDOW}
      %i: f32[1,1,4,4] = Conv(%x, f32[1,2,1,1](3.0, 2.0)) {WINDOW}
      %d: f32[1,2,4,4] = Conv(%x, {ONES}) {WINDOW}
      %b: f32[1,2,4,4] = {function}
      %c: f32[1,2,4,4] = Conv(%b, {ONES}) {WINDOW}"""
    graph = graph_of(front, ", %c")
    (group,) = (g for g in groups(graph) if g.value.name == "b")
    x = rng.normal(size=(1, 2, 4, 4)).astype(np.float32)
    want = evaluate(graph, [x])
    assert equalize(graph, {group.value: np.array([1.0, 50.0])}, functions=True) == 1
    assert all(np.abs(n.input(1).array - np.reshape([1, 2, 3, 4], (2, 2, 1, 1))).max() > 0.5 for n in group.behind)
    for got, known in zip(evaluate(graph, [x]), want, strict=True):
        np.testing.assert_allclose(got, known, rtol=1e-4, atol=1e-4)


def test_factors() -> None:
    largest = np.array([4.0, 1.0, 0.0, 16.0])
    weights = np.ones((3, 4, 1, 1), np.float32)
    dense = factors(largest, [(weights, 1)])
    assert dense[2] == 1
    np.testing.assert_allclose(dense[[0, 1, 3]] / dense[1], [2, 1, 4])
    by_channel = factors(largest, [(np.ones((4, 1, 3, 3), np.float32), 4)])
    np.testing.assert_allclose(by_channel[[0, 1, 3]] / by_channel[1], [4, 1, 16])
    both = factors(largest, [(weights, 1), (np.full((1, 4), 4, np.float32), 1)])
    np.testing.assert_allclose(both, dense)


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
