"""What the command line is told of inputs: `--input` with element types, `--prototxt`, and what it prints back."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
from onnx import TensorProto, helper, save

import minnow
from minnow.cli._app import run
from minnow.convert import bisect_command
from minnow.converter.inputs.given import Inputs, parsed
from minnow.options.convert import ConvertOptions


def call(capsys: pytest.CaptureFixture[str], *args: Any) -> tuple[int, str, str]:
    code = run([str(a) for a in args])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def lookup(tmp_path: Path) -> Path:
    """A table that integers are looked up in."""
    path = tmp_path / "m.onnx"
    made = helper.make_graph(
        [helper.make_node("Gather", ["t", "ids"], ["y"])],
        "g",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "N"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, "N", 2])],
        [helper.make_tensor("t", TensorProto.FLOAT, [9, 2], list(range(18)))],
    )
    save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def test_every_command_takes_an_element_type(lookup: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = lookup.with_suffix(".mnn")
    for command in (["convert", lookup, "-o", target], ["check", lookup], ["verify", lookup, target],
                    ["debug", "bisect", lookup]):  # fmt: skip
        code, _, err = call(capsys, *command, "--input", "ids=int64[1,5]")
        assert code == 0, err
    for command in (["run", target], ["benchmark", target, "--runs", "1", "--no-roofline"]):
        code, _out, err = call(capsys, *command, "--input", "ids=int64[1,5]", "--format", "json")
        assert code == 0, err
    for command in (["convert", lookup, "-o", target], ["check", lookup], ["verify", lookup, target],
                    ["debug", "bisect", lookup], ["run", target], ["benchmark", target]):  # fmt: skip
        code, _, err = call(capsys, *command, "--input", "ids=float32[1,5]")
        assert code == 2
        assert "declares int64" in err


@pytest.mark.parametrize("value", ["ids=int63[1]", "ids=int64[1", "ids", "=1x2", "ids=1xa"])
def test_what_is_none_is_a_usage_error(lookup: Path, capsys: pytest.CaptureFixture[str], value: str) -> None:
    code, _, err = call(capsys, "check", lookup, "--input", value)
    assert code == 2
    assert value in err


def test_the_command_that_bisects_says_what_was_said(lookup: Path) -> None:
    inputs = Inputs([("int64", (1, "?"))])
    minnow.check(lookup, inputs=inputs)  # which gives what has a position its name
    words = shlex.split(bisect_command(lookup, ConvertOptions(inputs=inputs, output="never/said.mnn", data="nor.this")))
    assert not [w for w in words if w.startswith(("-o", "--output", "--data"))]
    (said,) = [w for w in words if w.startswith("--input=")]
    assert said == "--input=ids=int64[1,?]"
    assert parsed(said.removeprefix("--input=ids=")) == inputs["ids"]
