"""What MNN's runtime does otherwise, as the report says it. tests/suites/mnn_suite measures it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._app import run
from minnow.optimizer.facts.limits import LIMITS, limits_of
from minnow.schema.errors import UnsupportedError
from minnow.schema.ir.text import parse

NAN = "NaN and infinities may be lost or become numbers"
TIES = "among equal elements others may come first"


def reasons(text: str, always: bool = False) -> list[str]:
    return list(limits_of(parse(text), always))


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("f32[3] = Relu(%x)", [NAN]),
        ("f32[3] = Exp(%x)", [NAN]),
        ("f32[3] = Neg(%x)", []),
        ("f32[3] = Sqrt(%x)", []),
    ],
)
def test_kernels_that_lose_numbers_are_known(node: str, said: list[str]) -> None:
    assert reasons(f"graph g(%x: f32[3]) {{\n %y: {node}\n return %y\n}}") == said


def test_an_activation_of_a_layer_counts() -> None:
    text = """
        graph g(%x: f32[1,1,2,2]) {
          %y: f32[1,1,2,2] = Conv(%x, f32[1,1,1,1](2.0)) {strides=(1, 1), pads=(0, 0, 0, 0), dilations=(1, 1), A}
          return %y
        }
    """
    assert reasons(text.replace("A", 'activation="relu"')) == [NAN]
    assert reasons(text.replace(", A", "")) == []


def test_integers_lose_nothing() -> None:
    assert reasons("graph g(%x: i32[3]) {\n %y: i32[3] = Relu(%x)\n return %y\n}") == []


@pytest.mark.parametrize(("outputs", "said"), [("%v, %i", [TIES]), ("%v", [])])
def test_ties_matter_where_the_places_are_read(outputs: str, said: list[str]) -> None:
    text = f"graph g(%x: f32[5]) {{\n %v: f32[2], %i: i64[2] = TopK(%x, i64[1](2))\n return {outputs}\n}}"
    assert reasons(text) == said


@pytest.mark.parametrize(("attrs", "count"), [("{seed=3}", 1), ("", 0)])
def test_random_numbers_with_a_seed_are_wanted_again(attrs: str, count: int) -> None:
    text = f"graph g(%s: i32[1]) {{\n %y: f32[?] = RandomNormal(%s) {attrs}\n return %y\n}}"
    assert len(reasons(text, always=True)) == count


def test_every_limit_says_something_of_its_own() -> None:
    texts = [one.reason for one in LIMITS]
    assert len(set(texts)) == len(texts) >= 7


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("Exp", ["r"], ["e"]),
        helper.make_node("TopK", ["e", "k"], ["v", "i"], name="best"),
    ]
    ends = (
        [helper.make_tensor_value_info("x", 1, [4, 9])],
        [helper.make_tensor_value_info(n, t, [4, 2]) for n, t in (("v", TensorProto.FLOAT), ("i", TensorProto.INT64))],
    )
    graph = helper.make_graph(nodes, "g", *ends, [numpy_helper.from_array(np.array([2]), "k")])
    path = tmp_path / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_the_report_counts_and_lists_them(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = model.with_suffix(".mnn")
    report = minnow.convert(model, output=out, verify=False, strict_target=True)  # they depend on the numbers
    assert report.notices == []
    assert set(report.limits) == {NAN, TIES}
    assert f"MNN's own runtime may differ in some nodes: {NAN} (" in str(report)
    assert run(["convert", str(model), "-o", str(out), "--no-verify", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["limits"] == report.limits
    assert minnow.convert(model, output=out, verify=False, target="minnow").limits == {}


def test_a_strict_target_refuses_what_every_run_meets(tmp_path: Path) -> None:
    node = helper.make_node("RandomNormal", [], ["y"], seed=1.0, shape=[3])
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", 1, [3])])
    path = tmp_path / "r.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    report = minnow.convert(path, output=tmp_path / "r.mnn", verify=False)
    assert any("random numbers are those of another generator: y" in n for n in report.notices)
    with pytest.raises(UnsupportedError, match="random numbers are those of another generator: 1 node: y"):
        minnow.convert(path, output=tmp_path / "r.mnn", verify=False, strict_target=True)
