"""How commands end: with a code that says what happened, and as JSON where that was asked for."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import minnow
from minnow.cli._app import run
from minnow.runtime.benchmark.contestant import CONTESTANTS, Contestant
from minnow.schema.errors import UnsupportedError

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
COMMAND = Path(sys.executable).with_name("mnnconvert")


@pytest.fixture(scope="module")
def digits(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mnn"
    minnow.convert(DIGITS, output=path, verify=False, optimize=0)
    return path


@pytest.mark.parametrize(
    "line",
    [
        ["convert", "--format", "json"],
        ["--format", "json"],
        ["--format", "json", str(DIGITS), "--bogus"],
        ["--format=json", "--bogus"],
        ["convert", "a.onnx", "--bogus", "--format=json"],
        ["convert", "--format", "text", "a.onnx", "--bogus", "--format", "json"],
        ["convert", "a.onnx", "-O", "9", "--format", "json"],
        ["run", "--format", "json", "a.mnn", "--threads", "0"],
        ["debug", "nothing", "--format", "json"],
        ["-f", "ONNX", "--modelFile", str(DIGITS), "--bogus", "--format", "json"],
        ["--format", "json", "-f", "ONNX", "--modelFile", str(DIGITS)],
        ["-f", "ONNX", "--MNNModel", "b", "--format=json"],
    ],
)
def test_a_wrong_call_is_json_where_json_is_asked_for(line, capsys):
    assert run(line) == 2
    out, err = capsys.readouterr()
    said = json.loads(out)
    assert said["error"] == "UsageError"
    assert said["exit_code"] == 2
    assert said["message"]
    assert err


@pytest.mark.parametrize("line", [["convert", "--bogus"], ["convert", "--format", "json", "--format", "text"]])
def test_a_wrong_call_is_text_where_it_is_not(line, capsys):
    assert run(line) == 2
    assert capsys.readouterr().out == ""


def test_flags_of_mnns_tool_convert_a_file_of_mnn(digits, tmp_path, capsys):
    out = tmp_path / "b.mnn"
    assert run(["-f", "MNN", "--modelFile", str(digits), "--MNNModel", str(out)]) == 0
    assert "PASS" in capsys.readouterr().out
    assert out.stat().st_size > 0
    assert run(["convert", str(digits), "-o", str(tmp_path / "c.mnn")]) == 0
    assert out.read_bytes() == (tmp_path / "c.mnn").read_bytes()
    # Of any name, since the flag says what it is.
    other = tmp_path / "a.bin"
    other.write_bytes(digits.read_bytes())
    capsys.readouterr()
    line = ["-f", "MNN", "--modelFile", str(other), "--MNNModel", str(tmp_path / "d.mnn"), "--format", "json"]
    assert run(line) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["framework"] == "mnn"
    assert report["verification"]["passed"]
    assert (tmp_path / "d.mnn").read_bytes() == out.read_bytes()


def test_flags_of_mnns_tool_show_a_file_of_mnn(digits, tmp_path, capsys):
    line = ["-f", "MNN", "--modelFile", str(digits), "--MNNModel", str(tmp_path / "b.mnn"), "--info"]
    assert run(line) == 0
    assert "Model Inputs:" in capsys.readouterr().out
    assert run(["-f", "MNN", "--modelFile", str(digits)]) == 2
    assert "--MNNModel is missing" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def foreign(tmp_path_factory) -> Path:
    """An op that MNN has a form for, and one that it has not."""
    nodes = [
        helper.make_node("Relu", ["x"], ["positive"]),
        helper.make_node("Unique", ["positive"], ["distinct"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [9])],
        [helper.make_tensor_value_info("distinct", TensorProto.FLOAT, None)],
    )
    path = tmp_path_factory.mktemp("foreign") / "m.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_a_strict_target_refuses_what_mnn_cannot_run(foreign, tmp_path, capsys):
    out = tmp_path / "m.mnn"
    assert run(["convert", str(foreign), "-o", str(out), "--no-verify"]) == 0
    assert "MNN's own runtime cannot run: " in capsys.readouterr().out
    assert run(["convert", str(foreign), "-o", str(tmp_path / "s.mnn"), "--strict-target", "--format", "json"]) == 3
    said = json.loads(capsys.readouterr().out)
    nodes = {node for refused in said["refused"] for node in refused["nodes"]}
    assert nodes == {"distinct"}
    assert run(["optimize", str(out), "-o", str(tmp_path / "s.mnn"), "--strict-target"]) == 3
    assert "Unique" in capsys.readouterr().err
    with pytest.raises(UnsupportedError, match="Unique has no form in the format: 1 node: distinct"):
        minnow.convert(foreign, output=tmp_path / "s.mnn", strict_target=True)
    assert [p.name for p in tmp_path.iterdir()] == ["m.mnn"]
    # What only Minnow's engine is to run may hold anything.
    assert run(["convert", str(foreign), "-o", str(out), "--no-verify", "--strict-target", "--target", "minnow"]) == 0


def test_a_strict_target_refuses_types_that_mnn_has_not(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])], "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, [3])],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [3])],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    with pytest.raises(UnsupportedError, match=r"there is no i64: .*y.*--int64 narrow"):
        minnow.convert(tmp_path / "m.onnx", strict_target=True, int64="keep")
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]
    minnow.convert(tmp_path / "m.onnx", strict_target=True, int64="narrow", verify=False)


def test_a_strict_target_takes_what_mnn_can_run(tmp_path):
    minnow.convert(DIGITS, output=tmp_path / "d.mnn", strict_target=True, verify=False)
    assert (tmp_path / "d.mnn").exists()


def test_a_benchmark_against_what_is_not_there_fails(digits, capsys, monkeypatch):
    class Missing(Contestant):
        module = "no_such_runtime"
        files = (".mnn",)

    monkeypatch.setitem(CONTESTANTS, "missing", Missing)
    assert run(["benchmark", str(digits), "--against", "missing", "--runs", "1"]) == 2
    out, err = capsys.readouterr()
    assert "missing is not installed" in err
    assert out == ""
    assert run(["benchmark", str(digits), "--against", "onnxruntime", "--runs", "1"]) == 2
    assert "onnxruntime needs a .onnx file, and there is none beside the model" in capsys.readouterr().err
    assert run(["benchmark", str(digits), "--against", "bogus", "--format", "json"]) == 2
    assert json.loads(capsys.readouterr().out)["message"] == "unknown runtime 'bogus'"


def test_a_benchmark_that_fails_gives_one_document(digits, capsys, monkeypatch):
    from minnow.runtime.benchmark.benchmark import Timing

    failed = [Timing("minnow", error="node 'y': no such thing")]
    monkeypatch.setattr("minnow.runtime.benchmark.benchmark.benchmark", lambda *args, **options: failed)
    assert run(["benchmark", str(digits), "--format", "json"]) == 6
    out, err = capsys.readouterr()
    assert json.loads(out)[0]["error"] == "node 'y': no such thing"
    assert "no such thing" in err


@pytest.mark.parametrize(
    "line",
    [["-", "-o", "x.mnn"], ["convert", "-"], ["check", "-"], ["inspect", "-"], ["run", "-"], ["verify", "-", "-"],
     ["benchmark", "-"], ["optimize", "-", "-o", "x.mnn"], ["debug", "bisect", "-"],
     ["-f", "ONNX", "--modelFile", "-", "--MNNModel", "x.mnn"]],
    ids=" ".join,
)  # fmt: skip
def test_minus_is_no_model(line, tmp_path, monkeypatch, capsys):
    """It stands for the standard input elsewhere, which cannot be mapped."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-").write_bytes(DIGITS.read_bytes())
    assert run(line) == 2
    assert "reading from standard input is not supported" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["-"]
    assert run(["check", "./-"]) == 0


@pytest.mark.sampled(3)
@pytest.mark.parametrize("line", [["ops"], ["ops", "--format", "json"], ["check", "none.onnx", "--format", "json"]])
def test_a_full_standard_output_is_said(line):
    """As of a redirection to a disk that is full."""
    with open("/dev/full", "w") as full:
        done = subprocess.run([COMMAND, *line], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 8
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert "defect" not in done.stderr


def test_a_closed_standard_output_is_no_error():
    done = subprocess.run(["sh", "-c", 'exec "$0" ops >&-', COMMAND], stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_full_folder_for_temporary_files_is_said(digits, monkeypatch, capsys):
    def full(*args, **options):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/inputs.npz")

    monkeypatch.setattr("minnow.runtime.benchmark.benchmark.np.savez", full)
    assert run(["benchmark", str(digits), "--runs", "1"]) == 8
    err = capsys.readouterr().err
    assert "/tmp/inputs.npz" in err
    assert "TMPDIR" in err
