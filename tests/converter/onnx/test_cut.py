"""Parts of ONNX models: `--inputs` and `--outputs` at tensors within."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import minnow
from minnow.cli._app import run
from minnow.schema.errors import UsageError

Array = np.ndarray[Any, Any]

RNG = np.random.default_rng(0)
W, V = (RNG.normal(size=s).astype(np.float32) for s in ((4, 3, 3, 3), (5, 4, 1, 1)))


def net(folder: Path, *, declared: bool = False, domain: str = "", external: bool = False) -> Path:
    """image -> features -> active -> chosen by `flag` -> scores; `declared`: the file says what type features have."""
    values = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in
              (("image", ["N", 3, 8, 8]), ("block/features", ["N", 4, 8, 8]), ("scores", ["N", 5, 8, 8]))}  # fmt: skip
    flag = helper.make_tensor_value_info("flag", TensorProto.BOOL, [])
    twice = helper.make_graph([helper.make_node("Add", ["active", "active"], ["t"])], "then", [],
                              [onnx.ValueInfoProto(name="t")])  # fmt: skip
    same = helper.make_graph([helper.make_node("Neg", ["active"], ["s"])], "else", [], [onnx.ValueInfoProto(name="s")])
    nodes = [
        helper.make_node("Conv", ["image", "w"], ["block/features"], pads=[1, 1, 1, 1], name="conv", domain=domain),
        helper.make_node("Relu", ["block/features"], ["active"]),
        helper.make_node("If", ["flag"], ["chosen"], then_branch=twice, else_branch=same),
        helper.make_node("Conv", ["chosen", "v"], ["scores"]),
    ]
    weights = [numpy_helper.from_array(W, "w"), numpy_helper.from_array(V, "v")]
    graph = helper.make_graph(nodes, "g", [values["image"], flag], [values["scores"]], weights,
                              value_info=[values["block/features"]] if declared else [])  # fmt: skip
    opsets = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    onnx.save(model, folder / "m.onnx", save_as_external_data=external, size_threshold=0)
    return folder / "m.onnx"


def right(features: Array, flag: bool) -> Array:
    active = np.maximum(features, 0)
    return np.einsum("nchw,oc->nohw", active * 2 if flag else -active, V[:, :, 0, 0])


def test_ends_within(tmp_path: Path) -> None:
    result = minnow.convert(net(tmp_path), cut_outputs=["block/features", "active"])
    session = minnow.load(tmp_path / "m.mnn")
    assert [i.name for i in session.inputs] == ["image"]  # the other one is not read
    assert [o.name for o in session.outputs] == ["block/features", "active"]
    got = session.run({"image": RNG.normal(size=(2, 3, 8, 8)).astype(np.float32)})
    np.testing.assert_array_equal(np.maximum(got["block/features"], 0), got["active"])
    assert result.verification is not None
    assert "onnxruntime" in result.verification.reference


@pytest.mark.parametrize("declared", [False, True])
def test_begins_within(declared: bool, tmp_path: Path) -> None:
    result = minnow.convert(net(tmp_path, declared=declared), cut_inputs=["block/features"])
    session = minnow.load(tmp_path / "m.mnn")
    assert [(i.name, i.shape[1:]) for i in session.inputs] == [("block/features", (4, 8, 8)), ("flag", ())]
    features = RNG.normal(size=(2, 4, 8, 8)).astype(np.float32)
    for flag in (True, False):
        got = session.run({"block/features": features, "flag": np.array(flag)})["scores"]
        np.testing.assert_allclose(got, right(features, flag), 1e-4, 1e-4)
    assert "onnxruntime" in result.verification.reference


def test_begins_and_ends_within(tmp_path: Path) -> None:
    minnow.convert(net(tmp_path), cut_inputs=["active"], cut_outputs=["chosen", "active"])
    session = minnow.load(tmp_path / "m.mnn")
    assert [i.name for i in session.inputs] == ["active", "flag"]
    x = RNG.normal(size=(1, 4, 8, 8)).astype(np.float32)
    got = session.run({"active": x, "flag": np.array(True)})
    np.testing.assert_array_equal(got["chosen"], 2 * x)
    np.testing.assert_array_equal(got["active"], x)


def test_weights_beside_the_model(tmp_path: Path) -> None:
    result = minnow.convert(net(tmp_path, external=True), cut_outputs=["active"])
    assert "onnxruntime" in result.verification.reference


def test_what_is_left_out_need_not_be_known(tmp_path: Path) -> None:
    """The operator in front cannot be converted, and the type behind it is the user's to say."""
    path = net(tmp_path, domain="no.such")
    minnow.convert(net(tmp_path, domain="no.such", declared=True), cut_inputs=["block/features"], verify=False)
    net(tmp_path, domain="no.such")
    with pytest.raises(UsageError, match="the tensor 'block/features' becomes an input, but its type is not known"):
        minnow.convert(path, cut_inputs=["block/features"])
    said = {"block/features": ("float32", (1, 4, 8, 8))}
    result = minnow.convert(path, cut_inputs=["block/features"], inputs=said)
    assert "onnxruntime" in result.verification.reference


def test_shapes_are_given_for_new_inputs(tmp_path: Path) -> None:
    minnow.convert(net(tmp_path), cut_inputs=["block/features"], inputs={"block/features": (1, 4, 8, 8)})
    assert minnow.load(tmp_path / "m.mnn").inputs[0].shape == (1, 4, 8, 8)
    with pytest.raises(UsageError, match="given as int64, the model declares float32"):
        minnow.convert(tmp_path / "m.onnx", cut_inputs=["active"], inputs={"active": ("int64", (1, 4, 8, 8))})


@pytest.mark.parametrize(
    ("options", "near"),
    [
        ({"cut_outputs": ["features"]}, "block/features"),
        ({"cut_inputs": ["block/featres"]}, "block/features"),
        ({"cut_outputs": ["score"]}, "scores"),
        ({"cut_outputs": ["t"]}, ""),  # within a branch
    ],
)
def test_names_that_there_are_not(options: dict[str, Any], near: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"has no tensor '{next(iter(options.values()))[0]}'") as caught:
        minnow.convert(net(tmp_path), **options)
    assert near in caught.value.hint


def test_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(net(tmp_path))
    assert run(["convert", path, "--inputs", "block/features", "--outputs", "active,chosen"]) == 0
    assert [o.name for o in minnow.load(tmp_path / "m.mnn").outputs] == ["active", "chosen"]
    capsys.readouterr()
    assert run(["check", path, "--outputs", "active"]) == 0
    assert "output: active: f32[N, 4, 8, 8]" in capsys.readouterr().out
    assert run(["convert", path, "--outputs", "activ"]) == 2
    assert "the model has no tensor 'activ'" in (said := capsys.readouterr().err)
    assert "active" in said.split("try:")[1]


def test_pytorch_has_no_names_within(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(b"program")
    with pytest.raises(UsageError, match="`--outputs` does not apply to torch models"):
        minnow.convert(tmp_path / "m", framework="torch", cut_outputs=["y"])
